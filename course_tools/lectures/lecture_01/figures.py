"""Figures of lecture 01: a gradient that fades along an unrolled network, losses, accuracies at two learning rates."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from course_tools.notebook.plots import curves
from course_tools.notebook.show import show
from course_tools.notebook.style import despine
from course_tools.notebook.training_curve import block_means

FAINTEST = -12
"""Power of ten at which a step in the picture of a fading gradient is white."""


def show_losses(losses: Mapping[str, Sequence[float]]) -> None:
    """Draw losses of a choice among eight, one curve per name, beside that of a guess."""
    lines = {name: block_means([values]) for name, values in losses.items()}
    ends = "; ".join(f"{name} from {means[0]:.2f} to {means[-1]:.2f}" for name, (_, means) in lines.items())
    figure = curves(lines, "update", "cross-entropy, nats", "training loss", across={"a guess among 8": math.log(8)})
    figure.axes[0].set_ylim(bottom=0)
    show(figure, alt=f"Training loss: {ends}. A guess costs {math.log(8):.2f}.")


def show_fading(gradients: Mapping[str, Tensor]) -> None:
    """Draw unrolled networks, one row each: every step is as dark as the gradient that reaches it, on a logarithmic scale.

    Args:
        gradients: name -> size of the gradient at each step (T,), 1 at the last.
    """
    figure = Figure(figsize=(6.0, 0.95 + 0.42 * len(gradients)), layout="constrained")
    ax = figure.subplots()
    for row, sizes in enumerate(gradients.values()):
        powers = np.log10(np.maximum(sizes.cpu().numpy(), 1e-30))
        ax.plot([0, len(sizes) - 1], [row, row], color="0.8", linewidth=1, zorder=1)
        drawn = ax.scatter(
            range(len(sizes)), [row] * len(sizes), c=powers, cmap="Blues", vmin=FAINTEST, vmax=0, s=34, edgecolor="0.6", lw=0.5
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
    bar.set_ticks([FAINTEST, FAINTEST // 2, 0], labels=[f"$10^{{{FAINTEST}}}$", f"$10^{{{FAINTEST // 2}}}$", "1"])
    ends = "; ".join(f"{name}: {sizes[0]:.1g}" for name, sizes in gradients.items())
    show(figure, alt=f"Unrolled networks of {T} steps. Gradient at the first step, over that at the last ({ends}).")


def show_gradient_norms(norms: Mapping[str, Sequence[float]]) -> None:
    """Draw norms of gradients 0, 1, 2 … steps back on a logarithmic axis, one curve per name; each starts at 1."""
    ends = ", ".join(f"{values[-1]:.0e} after {len(values) - 1} steps ({name})" for name, values in norms.items())
    lines = {name: (range(len(values)), values) for name, values in norms.items()}
    figure = curves(lines, "steps back (pixels of a digit)", "norm of the gradient, 1 at the end", log="y")
    show(figure, alt=f"Norm of the gradient against the number of steps back, logarithmic. From 1 it changes to {ends}.")
