"""The figures of corrections and states state in words what they show."""

import torch

from course_lib.attention import delta_rule_step, gated_step
from course_tools.lectures.lecture_18 import figures


def test_the_worked_example_is_corrected(capsys):
    figures.draw_correction()
    said = capsys.readouterr().out
    assert "a sum to (6.00, 4.00), the delta rule, with an error of 3.20, to (4.92, 2.56)" in said
    assert "gives 6.80 after the sum and 5.00 after the delta rule" in said


def test_half_of_the_error_leads_half_of_the_way(capsys):
    figures.draw_correction(beta=0.5)
    assert "3.40 after the delta rule" in capsys.readouterr().out


def test_a_state_says_what_is_left_of_each_write(capsys):
    rules = {
        "sum": lambda S, k, v: S + k[:, None] * v,
        "gate": lambda S, k, v: gated_step(S, k, k, v, torch.tensor([0.5]).log())[1],
        "delta": lambda S, k, v: delta_rule_step(S, k, k, v, torch.tensor(1.0))[1],
    }
    figures.show_states(rules, keys=(0, 1, 0), values=(0, 1, 2))
    said = capsys.readouterr().out
    assert "sum: A reads 1 · 1 + 1 · 3; B reads 1 · 2" in said
    assert "gate: A reads 0.25 · 1 + 1 · 3; B reads 0.5 · 2" in said
    assert "delta: A reads 1 · 3; B reads 1 · 2" in said
