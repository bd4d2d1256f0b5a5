"""Strongest attention weights of each position of an image or a video, as arrows.

Wang, Girshick, Gupta, He 2018, *Non-local Neural Networks*, figure 3 (https://arxiv.org/abs/1711.07971): the 20 largest of the
weights of a position x_i, each drawn as an arrow from i to j.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.shapes import Weights

__all__ = ["Arrows", "strongest_arrows"]


class Arrows(NamedTuple):
    """End points (time, row, column) of the arrows of each position, and their weights, the strongest first."""

    ends: Int[Tensor, "*batch T_q n_arrows 3"]
    weights: Float[Tensor, "*batch T_q n_arrows"]


def strongest_arrows(weights: Weights, n_arrows: int, H: int, W: int) -> Arrows:
    """Find the positions with the largest weights for each position.

    Args:
        weights: (*batch, N_q, N) over the N = T·H·W positions of a video, frame by frame and row by row; of an image, T = 1.
        n_arrows: number of arrows of each query.
        H: rows of the map of keys.
        W: columns of the map of keys.

    Returns:
        ends (*batch, N_q, n_arrows, 3), integers (time, row, column), and weights (*batch, N_q, n_arrows), in decreasing order.

    Raises:
        ValueError: N is not a multiple of H · W.
        RuntimeError: there are fewer positions than arrows.

    Source: Wang et al. 2018, figure 3.
    """
    N = weights.shape[-1]
    if N % (H * W):
        raise ValueError(f"the weights are over {N} positions, which is not a multiple of a map of {H} × {W}.")
    strongest, position = weights.topk(n_arrows, dim=-1)
    time, row, column = position // (H * W), position // W % H, position % W
    return Arrows(torch.stack([time, row, column], dim=-1), strongest)
