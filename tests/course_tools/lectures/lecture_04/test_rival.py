"""The comparison of build task 04.7 trains both models on the same texts and measures both questions."""

import pytest
import torch
from torch import nn

from course_tools.lectures.lecture_04.rival import compared, most_frequent_value


class Constant(nn.Module):
    """Always gives the value 3."""

    def forward(self, texts):
        return nn.functional.one_hot(torch.full(texts.shape[:2], 3), 8).float()


def test_accuracies_of_both_models_on_both_questions_one_for_each_seed():
    given = []

    def train_rival(texts, answers, n_parameters, n_steps):
        given.append((tuple(texts.shape), tuple(answers.shape), n_parameters, n_steps))
        return Constant()

    found = compared(train_rival, 1_000, (0, 1), n_steps=2)
    assert given == [((4_000, 12, 2), (4_000, 12), 1_000, 2)] * 2
    assert list(found) == ["look-up: attention", "look-up: rival", "reversal: attention", "reversal: rival"]
    assert all(len(scores) == 2 for scores in found.values())
    assert found["look-up: rival"] + found["reversal: rival"] == pytest.approx([1 / 8] * 4, abs=0.04)


def test_the_most_frequent_of_eight_values_is_right_more_often_than_one_in_eight():
    assert 0.25 < most_frequent_value(seed=0) < 0.45
