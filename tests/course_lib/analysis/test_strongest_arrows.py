"""The strongest arrows end at the largest weights, and give time, row and column."""

import pytest
import torch

from course_lib.analysis import strongest_arrows

B, N_q, T, H, W = 2, 11, 3, 5, 7


def test_by_hand():
    """Over a map of 2 × 3: weight 0.5 at number 5, the last, and 0.3 at number 1."""
    weights = torch.tensor([[0.1, 0.3, 0.0, 0.06, 0.04, 0.5]])
    ends, strongest = strongest_arrows(weights, 2, 2, 3)
    assert ends.tolist() == [[[0, 1, 2], [0, 0, 1]]]
    torch.testing.assert_close(strongest, torch.tensor([[0.5, 0.3]]))


def test_the_ends_hold_the_largest_weights_strongest_first(normal):
    weights = normal(B, N_q, T * H * W).detach().softmax(-1)
    ends, strongest = strongest_arrows(weights, 13, H, W)
    assert ends.shape == (B, N_q, 13, 3)
    torch.testing.assert_close(strongest, weights.sort(descending=True).values[..., :13])
    video = weights.unflatten(-1, (T, H, W))
    for b, i, n in [(0, 0, 0), (1, 7, 12), (1, 10, 5)]:
        t, row, column = ends[b, i, n]
        assert video[b, i, t, row, column] == strongest[b, i, n]


def test_all_arrows_together_carry_all_the_weight(normal):
    weights = normal(N_q, H * W).softmax(-1)
    torch.testing.assert_close(strongest_arrows(weights, H * W, H, W).weights.sum(-1), torch.ones(N_q).double())


def test_places_that_make_no_whole_map_are_refused():
    with pytest.raises(ValueError, match="are over 34 positions, which is not a multiple of a map of 5 × 7"):
        strongest_arrows(torch.ones(2, 34), 3, H, W)


def test_more_arrows_than_places_are_refused():
    with pytest.raises(RuntimeError, match="out of range"):
        strongest_arrows(torch.ones(2, 35), 36, H, W)
