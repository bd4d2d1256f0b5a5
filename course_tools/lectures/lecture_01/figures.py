"""Figures of lecture 01: a gradient that fades along an unrolled network, losses, norms of gradients, one LSTM unit."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from course_tools.notebook.plots import curves
from course_tools.notebook.show import show
from course_tools.notebook.style import despine
from course_tools.notebook.training_curve import block_means
from course_tools.studies import RecordedStudy

LstmStep = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""One step of an LSTM: (x, h, c, W, U, b) -> (h, c)."""

FAINTEST, LARGEST = -12, 4
"""Powers of ten at which a step in the picture of a fading gradient is white, and darkest red; at 1 it is dark blue."""
_FADING = ListedColormap(
    [*colormaps["Blues"](np.linspace(0, 0.9, -20 * FAINTEST + 1)), *colormaps["Reds"](np.linspace(0.4, 1, 20 * LARGEST))]
)


def show_losses(losses: Mapping[str, Sequence[float]]) -> None:
    """Draw losses of a choice among eight, one curve per name, beside that of a guess."""
    lines = {name: block_means([values]) for name, values in losses.items()}
    ends = "; ".join(f"{name} from {means[0]:.2f} to {means[-1]:.2f}" for name, (_, means) in lines.items())
    figure = curves(lines, "update", "cross-entropy, nats", "training loss", across={"a guess among 8": math.log(8)})
    figure.axes[0].set_ylim(bottom=0)
    show(figure, alt=f"Training loss: {ends}. A guess costs {math.log(8):.2f}.")


def show_fading(gradients: Mapping[str, Tensor]) -> None:
    """Draw unrolled networks, one row each: every step is as dark as the gradient that reaches it, and red if that has grown.

    Args:
        gradients: name -> size of the gradient at each step (T,), 1 at the last.
    """
    figure = Figure(figsize=(6.0, 0.95 + 0.42 * len(gradients)), layout="constrained")
    ax = figure.subplots()
    for row, sizes in enumerate(gradients.values()):
        powers = np.log10(np.maximum(sizes.cpu().numpy(), 1e-30))
        ax.plot([0, len(sizes) - 1], [row, row], color="0.8", linewidth=1, zorder=1)
        drawn = ax.scatter(
            range(len(sizes)), [row] * len(sizes), c=powers, cmap=_FADING, vmin=FAINTEST, vmax=LARGEST, s=34, ec="0.6", lw=0.5
        )
        ax.text(len(sizes) + 1, row, f"1st step: {sizes[0]:.1g} times the last", va="center", fontsize=8)
    T = len(next(iter(gradients.values())))
    ax.set_yticks(range(len(gradients)), list(gradients))
    ax.set_xticks([0, T - 1], ["step 1\nthe answer", f"step {T}\nthe loss"])
    ax.set_xlim(-1.5, T + 23)
    ax.set_ylim(len(gradients) - 0.4, -0.6)
    ax.tick_params(length=0)
    despine(ax, sides=("top", "right", "left", "bottom"))
    bar = figure.colorbar(drawn, ax=ax, shrink=0.9, label="gradient")
    ticks = [FAINTEST, FAINTEST // 2, 0, LARGEST]
    bar.set_ticks(ticks, labels=["1" if power == 0 else f"$10^{{{power}}}$" for power in ticks])
    ends = "; ".join(f"{name}: {sizes[0]:.1g}" for name, sizes in gradients.items())
    show(figure, alt=f"Unrolled networks of {T} steps. Gradient at the first step, over that at the last ({ends}).")


def show_gradient_norms(norms: Mapping[str, Sequence[float]]) -> None:
    """Draw norms of gradients 0, 1, 2 … steps back on a logarithmic axis, one curve per name; each starts at 1."""
    ends = ", ".join(f"{values[-1]:.0e} after {len(values) - 1} steps ({name})" for name, values in norms.items())
    lines = {name: (range(len(values)), values) for name, values in norms.items()}
    figure = curves(lines, "steps back (pixels of a digit)", "norm of the gradient, 1 at the end", log="y")
    show(figure, alt=f"Norm of the gradient against the number of steps back, logarithmic. From 1 it changes to {ends}.")


def show_norms(norms: Sequence[float], limit: float) -> None:
    """Draw the norm of all gradients together at each update, on a logarithmic axis, beside the limit of clipping."""
    figure = Figure(figsize=(6.0, 2.6), layout="constrained")
    ax = figure.subplots()
    ax.plot(range(1, len(norms) + 1), norms, linewidth=1)
    ax.axhline(limit, color="0.35", linestyle="--", label=f"clipped at {limit:g}")
    ax.set(yscale="log", xlabel="update", ylabel="norm of all gradients")
    ax.legend(fontsize=8)
    despine(ax)
    typical, largest = np.median(norms), max(norms)
    alt = (
        f"Norm of all gradients at each of {len(norms)} updates: half are at most {typical:.2g}, the largest is {largest:.3g}."
    )
    show(figure, alt=alt)


def show_unit(step: LstmStep, x: Tensor, W: Tensor, U: Tensor, b: Tensor) -> None:
    """Draw what one LSTM unit does at each input: bit, mark, gates, cell state and state; blue is 1, red is -1.

    Args:
        step: one step of an LSTM, as `lstm_step`.
        x: inputs (T, d): a bit, a mark, noise.
        W: (4, d), rows i, f, g, o.
        U: (4, 1).
        b: (4,).
    """
    h = c = x.new_zeros(1)
    columns = []
    for x_t in x:
        i, f, _, o = torch.sigmoid(x_t @ W.mT + h @ U.mT + b).tolist()
        h, c = step(x_t, h, c, W, U, b)
        columns.append([*x_t[:2].tolist(), i, f, c.item(), o, h.item()])
    rows = np.array(columns).T
    figure = Figure(figsize=(6.0, 2.5), layout="constrained")
    ax = figure.subplots()
    drawn = ax.imshow(rows, cmap="RdBu", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    marked = np.flatnonzero(rows[1] > 0)
    for at in marked:
        ax.axvline(at - 0.5, color="black", linewidth=1.2)
    ax.set_yticks(range(7), ["bit", "mark", "i, write", "f, keep", "c", "o, show", "h"])
    ax.set_xlabel("time; a line: here the bit is marked")
    figure.colorbar(drawn, ax=ax, ticks=[-1, 0, 1])
    kept = [f"at {at} the bit {rows[0, at]:g}, c {rows[4, at]:.2f}" for at in marked]
    alt = f"Gates and states of one unit over {len(x)} inputs. Marked: {'; '.join(kept)}; at the end c is {rows[4, -1]:.2f}."
    show(figure, alt=alt)


def show_marked_bit(study: RecordedStudy) -> None:
    """Draw the accuracy on the last marked bit through training, mean of the seeds, as recorded."""
    names = {"LSTM, bias 0": "marked bit: LSTM, bias 0", "orthogonal U": "marked bit: orthogonal U"}
    lines = {short: study.curve(name) for short, name in names.items()}
    told = "; ".join(
        f"{short} {', '.join(f'{y:.2f} at {x:,}' for x, y in zip(*line, strict=True))}" for short, line in lines.items()
    )
    drawn = curves(
        lines, "update", "accuracy", "the last marked bit of thirty, as recorded, mean of three seeds", across={"chance": 0.5}
    )
    show(drawn, alt=f"Accuracy on the last marked bit of thirty against the updates, mean of the seeds: {told}. {study.cost}.")
