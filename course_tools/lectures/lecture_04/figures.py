"""Figures of lecture 04: one query by hand, heads as blocks, questions and their pairs, saturation, and the costs of layers."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from course_lib.attention import MultiHead, dot_scores, scaled_dot_product_attention
from course_lib.fast import fused_gru, fused_scaled_dot_product_attention
from course_lib.primitives import GRU, LSTM, RNN
from course_tools.lectures.lecture_04.data import N_PAIRS, in_words
from course_tools.notebook.device import device
from course_tools.notebook.layer_costs import LayerCosts, cheaper_until, milliseconds
from course_tools.notebook.plots import attention_map, curves, describe
from course_tools.notebook.show import show
from course_tools.notebook.style import PASTEL, despine, palette

# One query among three keys in the plane.


KEYS = {"k4 → v5": (2.0, 0.0), "k15 → v6": (0.0, 2.0), "k9 → v1": (-2.0, 0.0)}


def show_query(x: float = 1.0, y: float = 2.0) -> None:
    """Draw the query (x, y) and three keys of length 2 in the plane, and the weights that a softmax over dot products gives.

    Args:
        x: first feature of the query.
        y: second feature of the query.
    """
    scores = [x * a + y * b for a, b in KEYS.values()]
    weights = torch.tensor(scores).softmax(0).tolist()
    figure = Figure(figsize=(6.0, 3.2), layout="constrained")
    plane, bars = figure.subplots(1, 2, width_ratios=(1.2, 1))
    colours = palette(len(KEYS))
    for colour, weight, (name, (a, b)) in zip(colours, weights, KEYS.items(), strict=True):
        plane.plot([x, a], [y, b], color=colour, linewidth=0.5 + 8 * weight, alpha=0.6, solid_capstyle="round")
        plane.plot(a, b, "o", color=colour, markersize=9)
        plane.annotate(name, (a, b), (0, -17), textcoords="offset points", ha="center", fontsize=9)
    plane.plot(x, y, "*", color="black", markersize=14)
    plane.annotate("query", (x, y), (10, 4), textcoords="offset points", fontsize=9)
    plane.set(xlim=(-3.4, 3.4), ylim=(-3.4, 3.4), xticks=range(-3, 4), yticks=range(-3, 4), aspect="equal")
    plane.grid(alpha=0.25)
    bars.barh(range(len(KEYS)), weights, color=colours)
    bars.set_yticks(range(len(KEYS)), list(KEYS), fontsize=9)
    bars.invert_yaxis()
    for place, (score, weight) in enumerate(zip(scores, weights, strict=True)):
        inside = {"x": weight - 0.02, "ha": "right"} if weight > 0.5 else {"x": weight + 0.02}
        bars.text(y=place, s=f"{weight:.3f}  (score {score:g})", va="center", fontsize=8, **inside)
    bars.set(xlim=(0, 1), xlabel="weight")
    despine(*figure.axes)
    each = ", ".join(f"{weight:.3f} for {name}" for name, weight in zip(KEYS, weights, strict=True))
    show(figure, alt=f"The query ({x:g}, {y:g}) among three keys of length 2, and their weights: {each}.")


# The features of three tokens, split into heads.


def show_split_heads(split_heads: Callable[[Tensor, int], Tensor], n_heads: int = 3) -> None:
    """Draw three tokens as rows of coloured features, the heads that `split_heads` makes of them, and those of a reshape.

    Args:
        split_heads: `(x, n_heads)` → (n_heads, T, d) for tokens x (T, n_heads · d).
        n_heads: number of heads; each gets two features.
    """
    T, d = 3, 2
    numbers = torch.arange(float(T * n_heads * d)).view(T, n_heads * d)
    split, cut = (heads.long().flatten(0, 1) for heads in (split_heads(numbers, n_heads), numbers.view(n_heads, T, d)))
    figure = Figure(figsize=(6.0, 3.4), layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=(n_heads * d, d, d))
    titles = ("three tokens, a row each", "split_heads", "x.view: wrong")
    colours = palette(n_heads, PASTEL)
    for ax, title, rows in zip(axes, titles, (numbers.long(), split, cut), strict=True):
        gap = 0.6 if len(rows) > T else 0.0
        for i, row in enumerate(rows.tolist()):
            top = i + gap * (i // T)
            for j, number in enumerate(row):
                token, feature = divmod(number, n_heads * d)
                ax.add_patch(Rectangle((j, top), 1, 1, facecolor=colours[feature // d], edgecolor="white", linewidth=2))
                ax.text(j + 0.5, top + 0.5, f"{'abc'[token]}{feature}", ha="center", va="center", fontsize=10)
            if gap and i % T == 1:
                ax.text(-0.2, top + 0.5, f"head {i // T}", ha="right", va="center", fontsize=9)
        ax.set(xlim=(-0.1, len(rows[0]) + 0.1), ylim=(len(rows) + gap * (len(rows) // T - 1) + 0.1, -0.1), aspect="equal")
        ax.set_title(title, fontsize=10)
        ax.set_axis_off()
    first = ["".join("abc"[number // (n_heads * d)] for number in heads[:T, 0].tolist()) for heads in (split, cut)]
    alt = f"Tokens a, b and c with {n_heads * d} features each. After `split_heads`, the rows of head 0 are of the tokens "
    alt += f"{', '.join(first[0])}; after a plain view, they are of the tokens {', '.join(first[1])}."
    show(figure, alt=alt)


# The questions of a look-up text, and the pairs that they attend to.


def show_lookup(weights: Tensor, keys: Tensor, values: Tensor) -> None:
    """Draw the weights (12, 12) that the questions of one text, keys and values (12,), give to its tokens."""
    tokens, asking = in_words(keys, values), weights[N_PAIRS:].cpu()
    right = keys[N_PAIRS:, None] == torch.where(torch.arange(len(keys)) < N_PAIRS, keys, -1)
    found = int((asking.argmax(-1) == right.int().argmax(-1)).sum())
    figure = attention_map(asking, tokens[N_PAIRS:], tokens, "one text", "token", "question", right)
    alt = f"The pair with the key of the question is outlined; the largest weight is there in {found} of {len(asking)} rows."
    show(figure, alt=f"{describe(asking, tokens[N_PAIRS:], tokens)} {alt}")


# Softmax over dot products of random vectors, with and without the scale 1/√d_k.


SCALED, UNSCALED = "with 1/√d_k", "without"


class Saturation(NamedTuple):
    """Softmax over the scores of random queries and keys whose features have mean 0 and variance 1.

    `largest` holds the mean of the largest weight of a query, for each size d_k, under "with 1/√d_k" and "without". `spread` is
    the standard deviation of the unscaled scores, for each size. `slope` is the median over the queries of the largest
    derivative w (1 - w) at the last size, under the same two names.
    """

    n_keys: int
    sizes: Sequence[int]
    largest: dict[str, list[float]]
    spread: list[float]
    slope: dict[str, float]


def measure_saturation(sizes: Sequence[int], n_keys: int = 16, n_queries: int = 1_000, seed: int = 0) -> Saturation:
    """Compare each of many random queries with n_keys random keys, for each size d_k, and apply the softmax to the scores."""
    generator = torch.Generator().manual_seed(seed)
    found = Saturation(n_keys, sizes, {SCALED: [], UNSCALED: []}, [], {})
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
    lines = {name.replace("√d_k", r"$\sqrt{d_k}$"): (sizes, means) for name, means in found.largest.items()}
    show(
        curves(
            lines,
            "size of the keys, $d_k$",
            "largest weight of a query, mean",
            "random queries and keys",
            log="x",
            across={"equal weights": 1 / found.n_keys},
        ),
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
