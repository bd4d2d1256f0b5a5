"""A few examples of each class: the requested number, no example twice, the same for the same seed."""

import pytest
import torch

from course_lib.datasets import few_of_each

LABELS = torch.tensor([3, 0, 7, 3, 0, 0, 7, 3, 7, 7, 0])


def test_every_class_gives_as_many():
    chosen = few_of_each(LABELS, 2, seed=0)
    assert LABELS[chosen].tolist() == [0, 0, 3, 3, 7, 7]
    assert len(set(chosen.tolist())) == 6


def test_the_seed_decides():
    draws = {tuple(few_of_each(LABELS, 2, seed).tolist()) for seed in range(20)}
    assert len(draws) > 10
    assert torch.equal(few_of_each(LABELS, 2, 1), few_of_each(LABELS, 2, 1))


def test_none_of_each_is_nothing():
    assert few_of_each(LABELS, 0, seed=0).shape == (0,)


def test_a_class_that_is_too_small_is_named():
    with pytest.raises(ValueError, match="4 examples of each class requested, but class 3 has only 3"):
        few_of_each(LABELS, 4, seed=0)
