"""The strongest arrows: from each position of an image or video to those with its largest weights.

Wang, Girshick, Gupta, He 2018, *Non-local Neural Networks*, figure 3 (https://arxiv.org/abs/1711.07971): the 20 largest of the
weights of a place x_i, each drawn as an arrow from i to j.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.shapes import Weights


class Arrows(NamedTuple):
    """Where the arrows of each place end, as (time, row, column), and their weights, the strongest first."""

    ends: Int[Tensor, "*batch T_q n_arrows 3"]
    weights: Float[Tensor, "*batch T_q n_arrows"]


def strongest_arrows(weights: Weights, n_arrows: int, H: int, W: int) -> Arrows:
    """Find the places that each place looks at most.

    Args:
        weights: (*batch, N_q, N) over the N = T·H·W positions of a video, frame by frame and row by row; of a picture, T = 1.
        n_arrows: how many to keep for each query.
        H: rows of the map of keys.
        W: columns of the map of keys.

    Returns:
        ends (*batch, N_q, n_arrows, 3), integers (time, row, column), and weights (*batch, N_q, n_arrows), falling.

    Raises:
        ValueError: N is no multiple of H · W, or there are fewer places than arrows.

    Source: Wang et al. 2018, figure 3.
    """
    N = weights.shape[-1]
    if H < 1 or W < 1 or N % (H * W):
        raise ValueError(f"the weights look at {N} places, which are no whole number of maps of {H} × {W}.")
    if not 1 <= n_arrows <= N:
        raise ValueError(f"there are {N} places to point at: ask for 1 to {N} arrows, not {n_arrows}.")
    strongest, place = weights.topk(n_arrows, dim=-1)
    time, row, column = place // (H * W), place // W % H, place % W
    return Arrows(torch.stack([time, row, column], dim=-1), strongest)
