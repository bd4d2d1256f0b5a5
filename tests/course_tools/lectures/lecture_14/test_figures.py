"""The figures state the counts that they show, and each model is timed at its lengths."""

import torch

from course_tools.lectures.lecture_14 import figures


def test_a_cache_grows_by_a_key_and_a_value_for_each_token_and_a_state_does_not(capsys):
    figures.show_drawers((1, 5), d=3)
    assert "numbers kept 6 after 1, 30 after 5 tokens. Below, S and z: 12 numbers" in capsys.readouterr().out


def test_the_rectangles_are_those_of_the_sizes_given(capsys):
    figures.show_brackets(L=7, d=3)
    assert "a square of 7 by 7 weights" in capsys.readouterr().out


def test_each_model_is_timed_after_each_prompt(monkeypatch, capsys):
    monkeypatch.setattr(figures, "tokens_per_second", lambda model, prompt, n_sequences: model / prompt.shape[1])
    figures.show_generation_speed({"fast": 30, "slow": 15}, [1, 5])
    assert "fast from 30 to 6 tokens per second; slow from 15 to 3 tokens per second" in capsys.readouterr().out


def test_a_key_of_the_memory_reads_what_its_dot_product_leaks(capsys):
    figures.show_memory(torch.tensor([[1.0, 0.0], [0.6, 0.8]]), torch.eye(2), (1, 2))
    assert "reads is 0.00, 0.60 away from its value" in capsys.readouterr().out


def test_a_chunk_computes_its_own_triangle(capsys):
    figures.show_chunks(n=6, size=2)
    assert "3 triangles of 2 by 2 pairs" in capsys.readouterr().out


def test_leaks_are_what_lies_beside_the_diagonal(capsys):
    table = torch.tensor([[1.0, 0.6, -0.1], [0.0, 1.0, 0.9], [-0.2, -0.3, 1.0]])
    figures.show_leaks({"tables": table})
    assert "Tables: 0.33 of the leaks are above a half, 0.50 negative." in capsys.readouterr().out
