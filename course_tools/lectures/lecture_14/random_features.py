"""How well random features estimate attention weights: true and estimated weights, and their relative error."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import torch
from torch import Tensor

from course_lib.primitives import gaussian_projection, orthogonalised
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

Features = Callable[[Tensor, Tensor], Tensor]
"""`favor_features`, or another feature map of (x, omega)."""


def estimated(features: Features, spread: float, m: int, seed: int, T: int = 64, d: int = 16) -> tuple[Tensor, Tensor]:
    """Draw T queries and keys, and estimate the attention weights from m random directions.

    Args:
        features: the feature map; its directions are orthogonal in blocks.
        spread: standard deviation of the logits.
        m: number of random directions.
        seed: determines queries, keys and directions.
        T: number of tokens.
        d: size of queries and keys.

    Returns:
        the true weights (T, T), and the estimated ones, in float64.
    """
    generator = torch.Generator().manual_seed(seed)
    q, k = (math.sqrt(spread) * d**-0.25 * torch.randn(T, d, generator=generator) for _ in range(2))
    omega = orthogonalised(gaussian_projection(m, d, generator)).double()
    similar = features(q.double(), omega) @ features(k.double(), omega).mT
    return (q @ k.mT).double().softmax(-1), similar / similar.sum(-1, keepdim=True)


def relative_error(features: Features, spread: float, m: int, draws: int = 9, first_seed: int = 0) -> float:
    """Measure the relative error of the estimated weights, the median of several draws; arguments as for `estimated`."""
    weights = (estimated(features, spread, m, seed) for seed in range(first_seed, first_seed + draws))
    return median(((guess - truth).norm() / truth.norm()).item() for truth, guess in weights)


def show_errors(
    maps: Mapping[str, Features], spreads: Sequence[float], numbers: Sequence[int]
) -> dict[tuple[str, float], list[float]]:
    """Draw `relative_error` against the number of random directions.

    Args:
        maps: name -> feature map.
        spreads: standard deviations of the logits.
        numbers: numbers of random directions, in increasing order.

    Returns:
        the errors for each name and spread, one for each number of directions.
    """
    errors = {
        (name, spread): [relative_error(features, spread, m) for m in numbers]
        for name, features in maps.items()
        for spread in spreads
    }
    lines = {f"{name}, logit spread {spread:g}": (numbers, each) for (name, spread), each in errors.items()}
    ends = ", ".join(f"{name} from {each[0]:.2f} to {each[-1]:.2f}" for name, (_, each) in lines.items())
    show(
        curves(lines, "number of random directions, m", "relative error of the weights", log="xy"),
        alt=f"Relative error of estimated attention weights against the number of random directions from {numbers[0]} to "
        f"{numbers[-1]}, with one feature for each, or two in a trigonometric map: {ends}.",
    )
    return errors


def show_estimate(features: Features, spread: float, m: int, seed: int, T: int = 16) -> None:
    """Draw the true weights of one query over T keys, and their estimate; arguments as for `estimated`."""
    truth, guess = (weights[0] for weights in estimated(features, spread, m, seed, T))
    keys, distance = range(T), (guess - truth).abs().sum().item() / 2
    figure = curves({"softmax": (keys, truth), f"{m} features": (keys, guess)}, "key", "weight", f"logit spread {spread:g}")
    figure.axes[0].set_ylim(bottom=0)
    show(
        figure,
        alt=f"Weights of a query over {T} keys at a logit spread of {spread:g}: with {m} features, half the sum of the "
        f"absolute differences between estimated and true weights is {distance:.2f}.",
    )
