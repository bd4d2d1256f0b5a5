"""Figures say in words what was measured: weights of heads, the answers of a model, the most likely character."""

import torch

from course_lib.datasets import Vocabulary
from course_lib.generation import top_k, top_p
from course_tools.lectures.lecture_07.figures import (
    next_character_figure,
    show_answers,
    show_induction_heads,
    show_nucleus_sizes,
)
from course_tools.lectures.lecture_07.in_context_orders import LetterAnswers


def test_both_induction_heads_are_drawn_with_their_weight(capsys):
    tokens = torch.tensor([0, 3, 1, 0, 3, 1])
    uniform = torch.ones(3, 6, 6).tril() / torch.arange(1, 7)[:, None]
    show_induction_heads([uniform, uniform], tokens)
    told = capsys.readouterr().out
    assert f"{(1 / 2 + 1 / 3 + 1 / 4 + 1 / 5 + 1 / 6) / 5:.2f} of its weight on the token before" in told
    assert f"the second {(1 / 4 + 1 / 5 + 1 / 6) / 3:.2f} on tokens after earlier copies" in told


def test_the_most_likely_character_is_in_the_caption(capsys):
    characters = Vocabulary.of(["ab "])
    logits = torch.zeros(len(characters)).index_fill(0, torch.tensor(characters.encode("b")), 9.0)
    next_character_figure(lambda tokens: logits.expand(*tokens.shape, -1), characters, "ab", top_k, top_p)(k=1)
    assert "'b' with 1.00" in capsys.readouterr().out


def test_the_median_nucleus_is_in_the_caption(capsys):
    show_nucleus_sizes(torch.arange(11), p=0.9, k=3)
    assert "at most 1 at a tenth of them, 5 at the median, at least 9 at another tenth" in capsys.readouterr().out


def test_answers_are_told_for_four_examples(capsys):
    none, all_right = (LetterAnswers(*torch.full((2, 4), right)) for right in (False, True))
    show_answers([none] + [all_right] * 8, [none] * 9, [all_right] * 9)
    assert "0.00 with none, 1.00 with one, 1.00 with four, 1.00 with 8" in capsys.readouterr().out
