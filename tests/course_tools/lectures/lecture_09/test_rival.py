"""The comparison of build task 09.7 trains both models on the same canvases and measures both questions."""

import pytest
import torch
from torch import nn

from course_tools.lectures.lecture_09.rival import compared, parameters_of_the_model


class Constant(nn.Module):
    """Always answers "same" and "no 0"."""

    def forward(self, images):
        return torch.tensor([0.0, 1.0, 1.0, 0.0]).expand(len(images), 4)


def test_accuracies_of_both_models_on_both_questions_one_for_each_seed():
    given = []

    def train_rival(images, labels, n_parameters, n_steps):
        given.append((tuple(images.shape), tuple(labels.shape), n_parameters, n_steps))
        return Constant()

    found = compared(train_rival, (0, 1), n_steps=2)
    assert given == [((4_000, 1, 22, 22), (4_000, 2), parameters_of_the_model(), 2)] * 2
    questions = ("same or different", "does a 0 occur")
    assert list(found) == [f"{question}: {name}" for question in questions for name in ("block", "rival")]
    assert all(len(scores) == 2 for scores in found.values())
    assert found["same or different: rival"] == pytest.approx([0.5, 0.5], abs=0.06)
