"""Figures of a cache beside a state, two orders of a product, chunks, what a memory holds, and the speed of generation."""

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from course_lib.generation import LanguageModel
from course_tools.notebook.device import device
from course_tools.notebook.layer_costs import tokens_per_second
from course_tools.notebook.legible import to_array
from course_tools.notebook.plots import curves, score_maps
from course_tools.notebook.show import show

QUERY, KEY, VALUE, BOTH = "#d9a441", "#4c8bbf", "#5aa469", "#b0b0b0"


def show_drawers(tokens: Sequence[int] = (1, 4, 16), d: int = 4) -> None:
    """Draw what one head of size d keeps after some numbers of tokens: keys and values above, the state S and z below.

    Args:
        tokens: numbers of tokens, in increasing order.
        d: size of keys and values, which are also the features.
    """
    figure = Figure(figsize=(6.0, 2.9), layout="constrained")
    ax, x, kept = figure.subplots(), 0.0, d * d + d
    for n in tokens:
        for y, colour in ((d + 7.1, KEY), (d + 2.6 + 0.1, VALUE)):
            _cells(ax, x, y, n, d, colour)
        _cells(ax, x, 0, d, d, BOTH)
        _cells(ax, x + d + 0.4, 0, 1, d, KEY)
        ax.text(x, 2 * d + 7.5, f"after {n} token{'s' * (n > 1)}:\n{2 * n * d} numbers", va="bottom", fontsize=8)
        ax.text(x, d + 0.3, f"{kept} numbers", va="bottom", fontsize=8)
        x += max(n, d + 2) + 2
    for y, name in ((1.5 * d + 7.1, "keys"), (1.5 * d + 2.7, "values"), (d / 2, "S, z")):
        ax.text(-0.6, y, name, ha="right", va="center", fontsize=9)
    _frame(ax, -4, x, 2 * d + 11)
    ends = ", ".join(f"{2 * n * d} after {n}" for n in tokens)
    show(
        figure,
        alt=f"Two drawers of one head of size {d}. Above, a column for the key and one for the value of every token: numbers "
        f"kept {ends} tokens. Below, S and z: {kept} numbers after any number of tokens.",
    )


def show_brackets(L: int = 16, d: int = 4) -> None:
    """Draw both orders of the product φ(Q) φ(K)ᵀ V as rectangles, with the multiply-adds of each product.

    Args:
        L: number of tokens.
        d: number of features, and size of the values.
    """
    q, k, v = ("φ(Q)", d, L, QUERY), ("φ(K)ᵀ", L, d, KEY), ("V", d, L, VALUE)
    weights, state, context = ("weights", L, L, BOTH), ("S", d, d, BOTH), ("context", d, L, "white")
    orders = {
        f"(φ(Q) φ(K)ᵀ) V takes {L}·{d}·{L} + {L}·{L}·{d} = {2 * L * L * d:,} multiply-adds": (
            *(q, "·", k, "=", weights, ",  then", weights, "·", v, "=", context),
        ),
        f"φ(Q) (φ(K)ᵀ V) takes {d}·{L}·{d} + {L}·{d}·{d} = {2 * L * d * d:,} multiply-adds": (
            *(k, "·", v, "=", state, ",  then", q, "·", state, "=", context),
        ),
    }
    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    for ax, (title, parts) in zip(figure.subplots(2, 1), orders.items(), strict=True):
        x = 0.0
        for part in parts:
            x = _sign(ax, x, part, L) if isinstance(part, str) else _matrix(ax, x, *part, L)
        ax.set_title(title, fontsize=9, loc="left")
        _frame(ax, -0.3, 5 * L + 20, L + 4)
    show(
        figure,
        alt=f"Rectangles to scale, {L} tokens and {d} features. Above, φ(Q) times φ(K)ᵀ makes a square of {L} by {L} weights, "
        f"which is then multiplied by V; below, φ(K)ᵀ times V makes S, a square of {d} by {d}, by which φ(Q) is multiplied.",
    )


def _matrix(ax: Axes, x: float, name: str, width: float, height: float, colour: str, tallest: float) -> float:
    """Draw a named matrix, centred in the height of the tallest; return where the next sign begins."""
    y = (tallest - height) / 2
    ax.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor="0.2"))
    ax.text(x + width / 2, y + height + 0.4, name, ha="center", va="bottom", fontsize=8)
    return x + width + 1.2


def _sign(ax: Axes, x: float, text: str, tallest: float) -> float:
    """Write a sign between two matrices; return where the next matrix begins."""
    ax.text(x, tallest / 2, text, ha="left", va="center", fontsize=9)
    return x + 1.3 * len(text) + 1.0


def _cells(ax: Axes, x: float, y: float, columns: int, rows: int, colour: str) -> None:
    for i in range(columns):
        for j in range(rows):
            ax.add_patch(Rectangle((x + i, y + j), 1, 1, facecolor=colour, edgecolor="white", linewidth=0.8))


def _frame(ax: Axes, left: float, right: float, height: float) -> None:
    ax.set(xlim=(left, right), ylim=(-0.3, height), xticks=[], yticks=[], aspect="equal", anchor="W")
    for spine in ax.spines.values():
        spine.set_visible(False)


def show_leaks(tables: Mapping[str, Tensor]) -> None:
    """Show tables (n_keys, n_keys) of what a key reads of each key's value, its own counting 1."""
    other = {name: table[~torch.eye(len(table), dtype=torch.bool, device=table.device)] for name, table in tables.items()}
    each = "; ".join(
        f"{name}: {(values > 0.5).float().mean():.2f} of the leaks are above a half, {(values < 0).float().mean():.2f} negative"
        for name, values in other.items()
    )
    show(
        score_maps(
            {name: table.cpu().clamp(-1, 1) for name, table in tables.items()},
            x="key of the value",
            y="key that reads",
            unit="share read",
        ),
        alt=f"What each key reads of the values of all keys; the diagonal is 1. {each[0].upper()}{each[1:]}.",
    )


def show_generation_speed(models: Mapping[str, LanguageModel], lengths: Sequence[int], n_sequences: int = 8) -> None:
    """Draw the tokens that each model generates per second, all sequences together, after prompts of several lengths."""
    speeds: dict[str, list[float]] = {name: [] for name in models}
    for n in lengths:
        prompt = torch.zeros(1, n, dtype=torch.long, device=device())
        for name, model in models.items():
            speeds[name].append(tokens_per_second(model, prompt, n_sequences))
    ends = "; ".join(f"{name} from {each[0]:,.0f} to {each[-1]:,.0f} tokens per second" for name, each in speeds.items())
    lines = {name: (lengths, each) for name, each in speeds.items()}
    figure = curves(lines, "tokens read so far", "tokens per second", log="x")
    figure.axes[0].set_ylim(bottom=0)
    figure.axes[0].legend(loc="lower left", fontsize=8, edgecolor="none")
    show(figure, alt=f"Speed of generation against the number of tokens read, {n_sequences} texts at once: {ends}.")


def show_memory(keys: Tensor, values: Tensor, written: Sequence[int]) -> None:
    """Draw the sum S of key times value after some numbers of writes, and below it what the first key reads.

    Args:
        keys: (T, d), of length 1.
        values: (T, d_v).
        written: numbers of keys, in increasing order.
    """
    figure = Figure(figsize=(6.0, 2.5), layout="constrained")
    axes, errors = figure.subplots(2, len(written), height_ratios=[keys.shape[1], 1.6], squeeze=False), []
    for (above, below), n in zip(axes.T, written, strict=True):
        S = keys[:n].mT @ values[:n]
        read = keys[:1] @ S
        errors.append(f"{(read - values[0]).norm().item():.2f}")
        for ax, matrix in ((above, S), (below, read)):
            drawn = ax.imshow(to_array(matrix), cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
            ax.set(xticks=[], yticks=[])
        above.set_title(f"{n} written, error {errors[-1]}", fontsize=9)
    axes[0, 0].set_ylabel("S")
    axes[1, 0].set_ylabel("read", rotation=0, ha="right", va="center")
    axes[1, 0].set_xlabel("entry of the value", fontsize=8)
    figure.colorbar(drawn, ax=list(axes.flat))
    show(
        figure,
        alt=f"The memory S ({keys.shape[1]} × {values.shape[1]}) after {', '.join(map(str, written))} writes. "
        f"What the first key reads is {', '.join(errors)} away from its value.",
    )


def show_chunks(n: int = 16, size: int = 4) -> None:
    """Draw which pairs of query (row) and key a chunk computes itself, and which pairs go through one state."""
    figure = Figure(figsize=(3.2, 2.7), layout="constrained")
    ax = figure.subplots()
    for row in range(n):
        first = row // size * size
        _cells(ax, first, n - 1 - row, row - first + 1, 1, QUERY)
    for first in range(size, n, size):
        ax.add_patch(Rectangle((0, n - first - size), first, size, facecolor=KEY, alpha=0.35, edgecolor="white", linewidth=2))
        ax.text(first / 2, n - first - size / 2, "through S" if first > size else "S", ha="center", va="center", fontsize=8)
    ax.set(ylabel="query", xlabel="key")
    _frame(ax, -0.3, n + 0.3, n + 0.3)
    show(
        figure,
        alt=f"The triangle of {n} queries by {n} keys. On the diagonal, {n // size} triangles of {size} by {size} pairs are "
        f"computed one by one; left of each, all earlier keys are one rectangle that goes through the state S.",
    )
