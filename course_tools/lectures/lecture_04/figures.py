"""Figures of softmax saturation, and of the costs of layers against the number of tokens."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from course_lib.attention import MultiHead, dot_scores, scaled_dot_product_attention
from course_lib.fast import fused_gru, fused_scaled_dot_product_attention
from course_lib.primitives import GRU, LSTM, RNN
from course_tools.notebook.device import device
from course_tools.notebook.layer_costs import LayerCosts, cheaper_until, milliseconds
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

# Softmax over dot products of random vectors, with and without the scale 1/√d_k.


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


# Print and draw the costs of layers against the number of tokens, and find where attention becomes dearer.


def show_costs(costs: LayerCosts, lengths: Sequence[int], short: Sequence[int]) -> None:
    """Print the exponents, sequential operations and path lengths, and draw the multiply-adds on logarithmic axes.

    Args:
        costs: as `measured_costs` returns them.
        lengths: numbers of tokens for which the work was counted.
        short: numbers of tokens for which sequential operations and path lengths were counted.
    """
    print(f"exponent of the work; sequential operations and longest path at n = {', '.join(map(str, short))}")
    for name, exponent in costs.exponents.items():
        print(f"{name:<16}{exponent:<8.2f}{costs.waits[name]!s:<16}{costs.paths[name]}")
    lines = {name: (lengths, counts) for name, counts in costs.work.items()}
    fitted = ", ".join(f"{name} {exponent:.2f}" for name, exponent in costs.exponents.items())
    figure = curves(lines, "number of tokens, n", "multiply-adds", "work of one layer", log="xy")
    show(figure, alt=f"Multiply-adds against the number of tokens, both logarithmic; fitted exponents: {fitted}.")


def attention_cheaper_until(d: int) -> list[int]:
    """Find the largest n up to which attention needs fewer multiply-adds than a recurrent layer on n tokens of size d.

    Returns:
        three numbers: the mixing alone against an RNN, the whole layer against an RNN, the whole layer against an LSTM.
    """
    layer, rnn, lstm = MultiHead(d, 1, bias=False), RNN(d, d), LSTM(d, d)
    pairs = (
        (lambda x: scaled_dot_product_attention(x, x, x), rnn),
        (lambda x: layer(x, x, x), rnn),
        (lambda x: layer(x, x, x), lstm),
    )
    return [cheaper_until(ours, theirs, d) for ours, theirs in pairs]


@torch.no_grad()
def show_times(lengths: Sequence[int], d: int) -> None:
    """Draw the time of a forward pass of self-attention and of a GRU over one text of n tokens, on the lecture's device."""
    attention = MultiHead(d, 1, fused_scaled_dot_product_attention).to(device())
    gru = GRU(d, d, fused_gru).to(device())
    texts = [torch.randn(1, n, d, device=device()) for n in lengths]
    taken = {
        "self-attention (fused)": [milliseconds(attention, x, x, x) for x in texts],
        "GRU (fused)": [milliseconds(gru, x) for x in texts],
    }
    lines = {name: (lengths, times) for name, times in taken.items()}
    ends = ", ".join(f"{name} {times[0]:.2f} to {times[-1]:.2f}" for name, times in taken.items())
    show(
        curves(lines, "number of tokens, n", "milliseconds", f"forward pass, one text, d = {d}", log="xy"),
        alt=f"Milliseconds against the number of tokens from {lengths[0]} to {lengths[-1]}: {ends}.",
    )
