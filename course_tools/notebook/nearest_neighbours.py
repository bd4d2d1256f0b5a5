"""Measure how often the nearest neighbour of a point is of its class."""

import torch
from torch import Tensor


def nearest_neighbour_accuracy(distances: Tensor, kinds: Tensor) -> float:
    """Compute the fraction of points whose nearest neighbour, the point itself excepted, has the same class.

    Args:
        distances: (n, n), from each point (rows) to each possible neighbour; for unit vectors, minus the cosine will do.
        kinds: (n,), the class of each point; the neighbours are in the same order.
    """
    nearest = distances.clone().fill_diagonal_(torch.inf).argmin(-1)
    return (kinds[nearest] == kinds).float().mean().item()
