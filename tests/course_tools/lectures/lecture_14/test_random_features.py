"""Estimated attention weights sum to 1, and their error decreases with the number of features."""

import torch

from course_lib.primitives import favor_features
from course_tools.lectures.lecture_14.random_features import estimated, relative_error


def test_estimated_weights_sum_to_one_and_come_nearer_with_more_features():
    truth, guess = estimated(favor_features, 0.25, 64, seed=0)
    for weights in (truth, guess):
        torch.testing.assert_close(weights.sum(-1), torch.ones(64, dtype=torch.float64), rtol=1e-5, atol=1e-5)
    few, many = (relative_error(favor_features, 0.25, m, draws=3) for m in (16, 1_024))
    assert many < few / 2
