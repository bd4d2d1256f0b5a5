"""Figures of lecture 05: the residual stream as a river, costs at a length, and where a message and its answer attend."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle
from torch import Tensor

from course_tools.notebook.plots import MARKERS
from course_tools.notebook.show import show
from course_tools.notebook.style import despine, palette

_WATER, _ARMS = "#9ecae1", ("#6639ba", "#1a7f37")


def show_clocks(positions: Sequence[int]) -> None:
    """Draw the two clocks of d_model = 4 at each position: the hands (sin t, cos t) and (sin t/100, cos t/100)."""
    figure = Figure(figsize=(6.0, 2.4), layout="constrained")
    speeds = {"1 radian\na position": 1.0, "1/100 radian": 0.01}
    for row, (name, speed) in zip(figure.subplots(2, len(positions)), speeds.items(), strict=True):
        for ax, t in zip(row, positions, strict=True):
            ax.add_patch(Circle((0, 0), 1, facecolor="white", edgecolor="0.6"))
            hand = np.sin(t * speed), np.cos(t * speed)
            ax.annotate("", hand, (0, 0), arrowprops={"arrowstyle": "-|>", "color": _ARMS[0], "linewidth": 2, "shrinkA": 0})
            ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
        row[0].set_ylabel(name, fontsize=9, rotation=0, ha="right", va="center")
    for ax, t in zip(figure.axes, positions, strict=False):
        ax.set_title(f"t = {t}", fontsize=10)
    shown = ", ".join(map(str, positions))
    show(figure, alt=f"Two clocks at the positions {shown}: the first goes round every 6.3 positions, the second every 628.")


def show_river(decoder: bool = False) -> None:
    """Draw a post-norm block as a river: side arms leave the stream, are changed, and flow back into it.

    Args:
        decoder: three arms, the second fed by the memory, in place of the two of the encoder.
    """
    arms = [("self-attention", "from other tokens"), ("feed-forward", "from the token itself")]
    if decoder:
        arms = [("self-attention", "from the answer so far"), ("cross-attention", "from the memory"), arms[1]]
    end = 4.2 * len(arms) + 0.8
    figure = Figure(figsize=(6.0, 2.6 if len(arms) == 2 else 2.0), layout="constrained")
    ax = figure.subplots()
    ax.set(xlim=(0, end + 0.8), ylim=(-1.0, 3.1))
    ax.axis("off")
    ax.fill_between([0.2, end + 0.2], -0.55, 0.55, color=_WATER, linewidth=0)
    ax.fill([end + 0.2, end + 0.2, end + 0.8], [-0.8, 0.8, 0], color=_WATER, linewidth=0)
    for i, (name, what) in enumerate(arms):
        _arm(ax, 1.0 + 4.2 * i, _ARMS[name == "feed-forward"], name, what)
    streams = ("x", "h", "m", "y") if decoder else ("x", "h", "y")
    for i, label in enumerate(streams):
        ax.text(0.62 + 4.23 * i, 0, label, ha="center", va="center", fontsize=12, style="italic")
    through = ", ".join(f"{name} ({what})" for name, what in arms)
    show(
        figure,
        alt=f"A wide stream of features flows from {' to '.join(streams)}. Side arms leave it, pass through {through}, and "
        "flow back into it at a plus sign; a layer norm follows each.",
    )


def _arm(ax: Axes, left: float, colour: str, name: str, what: str) -> None:
    """Draw a side arm that leaves the stream at `left`, and the sum and the norm where it comes back."""
    box, y = (left + 1.3, 1.45), 2.0
    style = {"arrowstyle": "-|>", "mutation_scale": 12, "color": colour, "linewidth": 5, "alpha": 0.55}
    ax.add_patch(FancyArrowPatch((left, 0.3), (left + 0.55, y), connectionstyle="arc3,rad=-0.35", **style))
    ax.add_patch(FancyArrowPatch((left + 2.05, y), (left + 2.6, 0.3), connectionstyle="arc3,rad=-0.35", **style))
    frame = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": colour}
    ax.text(box[0], y, name, ha="center", va="center", fontsize=10, bbox=frame)
    ax.text(box[0], y + 0.62, what, ha="center", va="center", fontsize=8.5, color="0.35")
    ax.text(left + 2.6, 0, "+", ha="center", va="center", fontsize=17)
    ax.plot([left + 3.05] * 2, [-0.72, 0.72], color="0.25", linewidth=4, solid_capstyle="butt")
    ax.text(left + 3.05, -0.88, "layer norm", ha="center", va="center", fontsize=8.5)


def show_costs(lengths: Sequence[int], seconds: Mapping[str, Sequence[float]], chains: Mapping[str, Sequence[int]]) -> None:
    """Draw what an update costs at each length: its longest chain of operations, and its processor time."""
    figure = Figure(figsize=(6.0, 2.9), layout="constrained")
    panels = (("longest chain of operations", chains, "{:,.0f}"), ("seconds of one core, an update", seconds, "{:g}"))
    for ax, (title, heights, form) in zip(figure.subplots(1, 2), panels, strict=True):
        for colour, marker, (name, each) in zip(palette(), MARKERS, heights.items(), strict=False):
            ax.plot(lengths, each, color=colour, marker=marker, label=name)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(lengths, [f"{length:,}" for length in lengths], fontsize=8)
        ax.set_xticks([], minor=True)
        ax.yaxis.set_major_formatter(lambda value, place, form=form: form.format(value))
        ax.set_xlabel("length of source and target")
        ax.set_title(title, fontsize=10)
        ax.grid(alpha=0.25)
        despine(ax)
    figure.axes[0].legend(fontsize=9, frameon=False)
    told = "; ".join(
        f"{name}: chain of {chains[name][0]:,} to {chains[name][-1]:,}, {seconds[name][0]:.3f} to {seconds[name][-1]:.2f} s"
        for name in chains
    )
    show(figure, alt=f"Cost of an update from length {lengths[0]} to {lengths[-1]:,}. {told}.")


def show_looks(inside: Tensor, across: Tensor, source: str, answer: str) -> None:
    """Draw how a message is read: its letters in the key, by the head that tells them apart best, and the answer in it.

    Args:
        inside: the encoder's weights (h, T, T); the first half of the source is the key.
        across: the weights of the answer on the source (h, T + 1, T), averaged over the heads.
        source: key and message.
        answer: what the message says.
    """
    n = len(source) // 2
    key, message = list(source[:n]), list(source[n:])
    same = np.array([[a == b for b in key] for a in message])
    of_key, of_message = inside[:, n:, :n].numpy(), across.mean(0)[:n, n:].numpy()
    found = (of_key * same).sum((1, 2)) / max(same.sum(), 1)
    beside = (of_key * ~same * same.any(1, keepdims=True)).sum((1, 2)) / max(same.sum() * (n - 1), 1)
    head = int(np.abs(found - beside).argmax())
    panels = (
        (f"encoder, head {head + 1}", of_key[head], message, key, ("message", "key"), same),
        ("decoder, mean of the heads", of_message, list(answer), message, ("answer", "message"), np.eye(n)),
    )
    figure = Figure(figsize=(6.0, 2.9), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, (title, weights, rows, columns, names, framed) in zip(axes, panels, strict=True):
        image = ax.imshow(weights, cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
        ax.set_xticks(range(len(columns)), columns)
        ax.set_yticks(range(len(rows)), rows)
        ax.set(ylabel=names[0], xlabel=names[1])
        ax.set_title(title, fontsize=10)
        for row, column in np.argwhere(framed):
            frame = {"fill": False, "edgecolor": "tab:red", "linewidth": 1.6}
            ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **frame))
    figure.colorbar(image, ax=list(axes), label="attention weight", shrink=0.9)
    own = np.diag(of_message).mean()
    show(
        figure,
        alt=f"Message '{source[n:]}' with the key '{source[:n]}', answered by '{answer}'. In head {head + 1} of the encoder, "
        f"a letter has {found[head]:.2f} of its weight on the same letter of the key, {beside[head]:.2f} on each other one. "
        f"In the decoder, a character of the answer has {own:.2f} of its weight on its place in the message.",
    )
