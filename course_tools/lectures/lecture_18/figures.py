"""Figures of lecture 18: a correction in the plane of memories, and states that are written, faded and corrected."""

from collections.abc import Callable, Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from course_tools.notebook.show import show
from course_tools.notebook.style import despine

Write = Callable[[Tensor, Tensor, Tensor], Tensor]
"""`write(S, k, v)` returns the state (d_k, d_v) after a write."""
OLD, SUM, DELTA = "0.35", "#c44e52", "#2a7f9e"


def draw_correction(keep: float = 1.0, beta: float = 1.0, value: float = 5.0) -> None:
    """Draw the memory S = (3, 0) in the plane, and where a sum and a delta rule take it by a write under the key (0.6, 0.8).

    Args:
        keep: the gate α by which the memory fades first.
        beta: how much of the error is corrected.
        value: what is written.
    """
    S, k = keep * torch.tensor([3.0, 0.0]), torch.tensor([0.6, 0.8])
    added, error = S + value * k, value - S @ k
    corrected = S + beta * error * k
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    ax = figure.subplots()
    across = torch.tensor([-0.8, 0.6])
    line = torch.stack([value * k - 8 * across, value * k + 8 * across])
    ax.plot(*line.T, color="0.6", linestyle="--", linewidth=1.2, label=f"memories that read {value:g} with $k_2$")
    ax.annotate("", k.tolist(), (0, 0), arrowprops={"arrowstyle": "-|>", "color": "0.55", "linewidth": 1.4})
    ax.text(*(k + torch.tensor([-0.35, 0.1])), "$k_2$", fontsize=10, color="0.35")
    for end, colour, beside in (
        (added, SUM, -0.07 * across),
        (corrected, DELTA, 0.07 * across),
    ):  # on one line: drawn side by side
        arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.8}
        ax.annotate("", (end + beside).tolist(), (S + beside).tolist(), arrowprops=arrow)
    for point, colour, marker, name in (
        (S, OLD, "o", f"before: ({S[0]:.2f}, {S[1]:.2f})"),
        (added, SUM, "s", f"sum: ({added[0]:.2f}, {added[1]:.2f})"),
        (corrected, DELTA, "D", f"delta rule: ({corrected[0]:.2f}, {corrected[1]:.2f})"),
    ):
        ax.plot(*point.tolist(), marker, color=colour, markersize=7, label=name, linestyle="none", zorder=5)
    first, second = torch.stack([S, added, corrected]).T.tolist()
    ax.set(xlim=(min(0, *first) - 0.5, max(6.5, *first) + 0.5), ylim=(min(0, *second) - 0.5, max(4.3, *second) + 0.5))
    ax.set(xlabel="first number of S", ylabel="second number of S", aspect="equal")
    ax.grid(alpha=0.25)
    despine(ax)
    figure.legend(fontsize=8, loc="outside lower center", ncols=2, frameon=False)
    reads = f"reading with k_2 gives {added @ k:.2f} after the sum and {corrected @ k:.2f} after the delta rule"
    show(
        figure,
        alt=f"The plane of all memories of two numbers. From ({S[0]:.2f}, {S[1]:.2f}), writing {value:g} under (0.6, 0.8) goes "
        f"along the key: a sum to ({added[0]:.2f}, {added[1]:.2f}), the delta rule, with an error of {error:.2f}, to "
        f"({corrected[0]:.2f}, {corrected[1]:.2f}); {reads}.",
    )


def show_states(
    rules: Mapping[str, Write], keys: Sequence[int] = (0, 1, 2, 0, 0), values: Sequence[int] = (0, 1, 2, 3, 1)
) -> None:
    """Draw the state of each rule after each of a few writes of one-hot values under one-hot keys.

    Args:
        rules: name -> how it writes.
        keys: the row of the state under which each write goes.
        values: the column that each write sets.
    """
    d, names = 4, "ABCD"
    figure = Figure(figsize=(6.0, 0.9 * len(rules) + 0.8), layout="constrained")
    axes = figure.subplots(len(rules), len(keys), squeeze=False)
    said = []
    for i, (row, (name, write)) in enumerate(zip(axes, rules.items(), strict=True)):
        S = torch.zeros(d, d)
        for t, (ax, key, value) in enumerate(zip(row, keys, values, strict=True)):
            S = write(S, torch.eye(d)[key], torch.eye(d)[value])
            _state(ax, S)
            if i == 0:
                ax.set_title(f"{names[key]} ← {value + 1}", fontsize=9)
            if t == 0:
                ax.set_ylabel(name, fontsize=9)
                ax.set_yticks(range(d), names[:d], fontsize=7)
        told = "; ".join(f"{names[key]} reads {_reading(S[key])}" for key in sorted(set(keys)))
        said.append(f"{name}: {told}")
    order = ", ".join(f"{names[key]} ← {value + 1}" for key, value in zip(keys, values, strict=True))
    show(
        figure,
        alt=f"States of 4 by 4 numbers, a row for each key and a column for each value, after the writes "
        f"{order}. At the end, {'. '.join(said)}.",
    )


def _reading(row: Tensor) -> str:
    return " + ".join(f"{weight:.2g} · {value + 1}" for value, weight in enumerate(row.tolist()) if abs(weight) > 1e-3)


def _state(ax: Axes, S: Tensor) -> None:
    ax.imshow(S.numpy(), cmap="Blues", vmin=0, vmax=1.3)
    for i, j in S.nonzero().tolist():
        if abs(S[i, j]) > 0.02:
            ax.text(j, i, f"{S[i, j]:.2g}", ha="center", va="center", fontsize=7, color="white" if S[i, j] > 0.8 else "0.2")
    ax.set(xticks=[], yticks=[])
