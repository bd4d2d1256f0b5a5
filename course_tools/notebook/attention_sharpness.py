"""How sharp attention becomes when queries and keys are scaled up: softmax against a feature map, for lecture 14."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from course_lib.attention import kernel_attention, scaled_dot_product_attention
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show


def show_sharpness(
    phi: Callable[[Tensor], Tensor], name: str, scales: Sequence[float] = (0.1, 0.3, 1, 3, 10, 30, 100), seed: int = 0
) -> dict[str, list[float]]:
    """Draw the largest of the weights of one query over 64 random keys, the mean of 500 draws, against a factor on both.

    Args:
        phi: feature map of queries and keys of size 64.
        name: of the feature map, the label of its curve.
        scales: the factors.
        seed: of the draws.

    Returns:
        the largest weight for each factor, under "softmax" and under the name.
    """
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(500, 1, 64, generator=generator)
    k = torch.randn(500, 64, 64, generator=generator)
    largest: dict[str, list[float]] = {"softmax": [], name: []}
    for scale in scales:
        softmax = scaled_dot_product_attention(scale * q, scale * k, k)
        of_features = kernel_attention(phi(scale * q).float(), phi(scale * k).float(), k)
        for kind, attended in zip(largest, (softmax, of_features), strict=True):
            largest[kind].append(attended.weights.amax(-1).mean().item())
    ends = "; ".join(f"{kind} from {values[0]:.3f} to {values[-1]:.3f}" for kind, values in largest.items())
    show(
        curves(
            {kind: (scales, values) for kind, values in largest.items()},
            "factor on queries and keys",
            "largest of 64 weights",
            log="x",
            across={"uniform, 1/64": 1 / 64},
        ),
        alt=f"Largest of 64 weights against a factor on queries and keys from {scales[0]} to {scales[-1]}: {ends}.",
    )
    return largest
