"""How well random features estimate attention weights: true and estimated weights, and their relative error; for lecture 14."""

import math
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from course_lib.primitives import gaussian_projection

Features = Callable[[Tensor, Tensor], Tensor]
"""`favor_features`, or another feature map of (x, omega)."""


def estimated(
    features: Features, orthogonalise: Callable[[Tensor], Tensor], spread: float, m: int, seed: int, T: int = 64, d: int = 16
) -> tuple[Tensor, Tensor]:
    """Draw T queries and keys, and estimate the attention weights by m features.

    Args:
        features: the feature map.
        orthogonalise: `orthogonalised`; the directions are orthogonal in blocks.
        spread: standard deviation of the logits.
        m: number of features.
        seed: determines queries, keys and directions.
        T: number of tokens.
        d: size of queries and keys.

    Returns:
        the true weights (T, T), and the estimated ones, in float64.
    """
    generator = torch.Generator().manual_seed(seed)
    q, k = (math.sqrt(spread) * d**-0.25 * torch.randn(T, d, generator=generator) for _ in range(2))
    omega = orthogonalise(gaussian_projection(m, d, generator)).double()
    similar = features(q.double(), omega) @ features(k.double(), omega).mT
    return (q @ k.mT).double().softmax(-1), similar / similar.sum(-1, keepdim=True)


def relative_error(
    features: Features, orthogonalise: Callable[[Tensor], Tensor], spread: float, m: int, draws: int = 9, first_seed: int = 0
) -> float:
    """Measure the relative error of the estimated weights, the median of several draws; arguments as for `estimated`."""
    weights = (estimated(features, orthogonalise, spread, m, seed) for seed in range(first_seed, first_seed + draws))
    return median(((guess - truth).norm() / truth.norm()).item() for truth, guess in weights)
