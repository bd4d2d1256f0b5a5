"""The figures state the counts that they show, and each model is timed at its lengths."""

import torch

from course_tools.lectures.lecture_14 import figures


def test_a_cache_grows_by_a_key_and_a_value_for_each_token_and_a_state_does_not(capsys):
    figures.show_drawers((1, 5), d=3)
    assert "numbers kept 6 after 1, 30 after 5 tokens. Below, S and z: 12 numbers" in capsys.readouterr().out


def test_the_rectangles_are_those_of_the_sizes_given(capsys):
    figures.show_brackets(L=7, d=3)
    assert "a square of 7 by 7 weights" in capsys.readouterr().out


def test_a_slow_model_is_measured_after_short_prompts_only(monkeypatch):
    lengths = []

    def timed(model, prompt, n_sequences, n_steps):
        lengths.append((model, prompt.shape[1]))
        return 1.0

    monkeypatch.setattr(figures, "tokens_per_second", timed)
    figures.show_generation_speed({"fast": "f", "slow": "s"}, [2, 5, 7], "tiny", slow=["slow"], longest_of_slow=5)
    assert lengths == [("f", 2), ("s", 2), ("f", 5), ("s", 5), ("f", 7)]


def test_leaks_are_what_lies_beside_the_diagonal(capsys):
    table = torch.tensor([[1.0, 0.6, -0.1], [0.0, 1.0, 0.9], [-0.2, -0.3, 1.0]])
    figures.show_leaks({"tables": table})
    assert "Tables: 0.33 of the leaks are above a half, 0.50 negative." in capsys.readouterr().out
