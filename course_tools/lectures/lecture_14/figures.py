"""Figures of the sharpness of attention with softmax and with a feature map, and of the speed of generation."""

from collections.abc import Callable, Collection, Mapping, Sequence

import torch
from torch import Tensor

from course_lib.attention import kernel_attention, scaled_dot_product_attention
from course_lib.generation import LanguageModel
from course_tools.notebook.device import device
from course_tools.notebook.layer_costs import tokens_per_second
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

# How sharp attention becomes when queries and keys are scaled up: softmax against a feature map.


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


# Measure and draw how fast models generate after prompts of several lengths.


def show_generation_speed(
    models: Mapping[str, LanguageModel],
    lengths: Sequence[int],
    title: str,
    n_sequences: int = 8,
    slow: Collection[str] = (),
    longest_of_slow: int = 256,
) -> dict[str, list[float]]:
    """Draw the tokens that each model generates per second after prompts of several lengths.

    Args:
        models: name -> model.
        lengths: of the prompts, in increasing order.
        title: above the figure.
        n_sequences: number of sequences that are continued in parallel.
        slow: names of models that are measured up to `longest_of_slow` tokens only, in two steps instead of sixteen.
        longest_of_slow: the longest prompt of these models.

    Returns:
        tokens per second for each name, one for each measured length.
    """
    speeds: dict[str, list[float]] = {name: [] for name in models}
    for n in lengths:
        prompt = torch.zeros(1, n, dtype=torch.long, device=device())
        for name, model in models.items():
            if name not in slow or n <= longest_of_slow:
                speeds[name].append(tokens_per_second(model, prompt, n_sequences, n_steps=2 if name in slow else 16))
    ends = "; ".join(f"{name} from {each[0]:,.0f} to {each[-1]:,.0f} tokens per second" for name, each in speeds.items())
    lines = {name: (lengths[: len(each)], each) for name, each in speeds.items()}
    show(
        curves(lines, "tokens read so far", "tokens generated per second", title, log="xy"),
        alt=f"Generation speed against the number of tokens read, both logarithmic: {ends}.",
    )
    return speeds
