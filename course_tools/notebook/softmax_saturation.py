"""Softmax over dot products of random vectors, with and without the scale 1/√d_k: an experiment of lecture 04."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from course_lib.attention import dot_scores
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

SCALED, UNSCALED = "with 1/√d_k", "without"


class Saturation(NamedTuple):
    """Softmax over the scores of random queries and keys whose features have mean 0 and variance 1.

    `largest` holds the mean of the largest weight of a query, for each size d_k, under "with 1/√d_k" and "without". `spread` is
    the standard deviation of the unscaled scores, for each size. `slope` is the median over the queries of the largest
    derivative w (1 - w) at the last size, under the same two names.
    """

    sizes: Sequence[int]
    largest: dict[str, list[float]]
    spread: list[float]
    slope: dict[str, float]


def measure_saturation(sizes: Sequence[int], n_keys: int = 16, n_queries: int = 1_000, seed: int = 0) -> Saturation:
    """Compare each of many random queries with n_keys random keys, for each size d_k, and apply the softmax to the scores."""
    generator = torch.Generator().manual_seed(seed)
    found = Saturation(sizes, {SCALED: [], UNSCALED: []}, [], {})
    for d_k in sizes:
        queries = torch.randn(n_queries, 1, d_k, generator=generator)
        scores = dot_scores(queries, torch.randn(n_queries, n_keys, d_k, generator=generator))
        found.spread.append(scores.std().item())
        for name, scale in ((SCALED, 1 / math.sqrt(d_k)), (UNSCALED, 1.0)):
            weights = (scale * scores).softmax(-1)
            found.largest[name].append(weights.amax(-1).mean().item())
            found.slope[name] = (weights * (1 - weights)).amax(-1).median().item()
    return found


def show_saturation(found: Saturation) -> None:
    """Draw the mean of the largest weight against the size of the keys, with and without the scale."""
    scaled, unscaled, sizes = found.largest[SCALED], found.largest[UNSCALED], found.sizes
    lines = {name: (sizes, means) for name, means in found.largest.items()}
    show(
        curves(lines, "size of the keys, d_k", "largest weight of a query, mean", "random queries and keys", log="x"),
        alt=f"Largest weight against the size of the keys: with the scale it changes from {scaled[0]:.2f} to {scaled[-1]:.2f}; "
        f"without, it rises from {unscaled[0]:.2f} at d_k = {sizes[0]} to {unscaled[-1]:.2f} at d_k = {sizes[-1]}.",
    )
