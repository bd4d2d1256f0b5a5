"""A classifier learns the digits of its seed, and is judged on those that it has not seen."""

import pytest
import torch
from torch import nn

from course_tools.notebook import digit_split
from course_tools.notebook.digit_classifier import fit
from course_tools.notebook.fitting import accuracy_of


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def test_a_linear_classifier_learns_the_digits_of_its_seed():
    digits = digit_split((0, 1))
    model, accuracy, seconds = fit(linear, digits, 1, steps=150)
    unseen = digits.unseen[1]
    assert accuracy == accuracy_of(model, digits.images[unseen], digits.labels[unseen]) > 0.75
    assert seconds > 0


def test_the_seed_decides_the_weights_and_the_digits():
    digits = digit_split((0, 1))
    first, again, other = (fit(linear, digits, seed, steps=2).model[1].weight for seed in (0, 0, 1))
    torch.testing.assert_close(first, again)
    assert (first - other).abs().max() > 1e-2
    with pytest.raises(KeyError):
        fit(linear, digits, 2, steps=2)
