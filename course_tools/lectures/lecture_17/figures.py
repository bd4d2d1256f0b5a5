"""Figures of lecture 17: turned pairs and their scores, heads that share keys and values, windows, bits by position."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from course_lib.attention import rotary_speeds
from course_tools.notebook.plots import MARKERS
from course_tools.notebook.show import show
from course_tools.notebook.style import despine, palette

_COLOUR_OF = {"GPT, learned positions": 0, "Llama, rotary positions": 1, "as trained": 1}
_COLOUR_OF |= {"Llama, window of 64": 2, "window of 64": 2, "interpolated": 3, "larger base": 4}
"""The lines of one model have one colour in all figures of the lecture."""

Rotate = Callable[..., Tensor]
"""`rotate(x, speeds, start=0)`."""


def show_turned(rotate: Rotate, speeds: Tensor, T: int = 8) -> None:
    """Draw the pair (1, 0) at the positions 0 to T - 1, turned at each speed.

    Args:
        rotate: turns the pairs.
        speeds: in radians per position (n,).
        T: number of positions.
    """
    turned = rotate(torch.tensor([1.0, 0.0]).repeat(T, len(speeds)), speeds).unflatten(-1, (-1, 2))  # (T, n, 2)
    figure = Figure(figsize=(6.0, 2.3), layout="constrained")
    colours = colormaps["viridis"](np.linspace(0, 1, T + 2)[1:-1])
    for n, ax in enumerate(figure.subplots(1, len(speeds))):
        for t in range(T):
            x, y = turned[t, n].tolist()
            ax.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colours[t], "linewidth": 1.6})
            if t in (0, T - 1) or speeds[n] > 0.5:
                ax.text(1.2 * x, 1.2 * y, str(t), ha="center", va="center", fontsize=8, color=colours[t])
        ax.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), aspect="equal", xticks=[], yticks=[])
        ax.set_title(f"pair {n}: {speeds[n].item():.3g} rad a step", fontsize=9)
        despine(ax, sides=("top", "right", "left", "bottom"))
    angles = ", ".join(f"{(T - 1) * speed:.2f}" for speed in speeds.tolist())
    show(
        figure,
        alt=f"The pair (1, 0) of features at the positions 0 to {T - 1}, drawn as arrows, for {len(speeds)} pairs of one head. "
        f"At position {T - 1} they have turned by {angles} radians.",
    )


def draw_scores(rotate: Rotate, start: int = 0, base: int = 10_000, d_k: int = 128) -> None:
    """Draw the score of a query and an equal key, all features 1, by their distance, for a query at position `start`."""
    distances = torch.arange(65)
    speeds, x = rotary_speeds(d_k, base), torch.ones(1, d_k)
    q = rotate(x, speeds, start=start)
    scores = [(q @ rotate(x, speeds, start=start + n).mT).item() / d_k**0.5 for n in distances.tolist()]
    figure = Figure(figsize=(6.0, 2.6), layout="constrained")
    ax = figure.subplots()
    ax.plot(distances, scores, linewidth=1.8)
    ax.axhline(0, color="0.35", linestyle="--", linewidth=1.2)
    ax.set(xlabel="distance of key and query", ylabel="score", ylim=(-(d_k**0.5) / 2, d_k**0.5 * 1.05))
    ax.set_title(f"query at position {start}, base {base:,}", fontsize=10)
    ax.grid(alpha=0.25)
    despine(ax)
    at = ", ".join(f"{scores[n]:.2f} at {n}" for n in (0, 1, 4, 16, 64))
    show(figure, alt=f"Score of a query at position {start} and an equal key by their distance, base {base:,}: {at}.")


def show_sharing(n_heads: int = 8, groups: Sequence[int] = (8, 2, 1)) -> None:
    """Draw heads of queries above the heads of keys and values that they share, for numbers of groups."""
    figure = Figure(figsize=(6.0, 2.0), layout="constrained")
    axes = figure.subplots(1, len(groups))
    for name, y in (("queries", 2.2), ("keys", 0.7), ("values", 0.2)):
        axes[0].text(-0.9, y, name, ha="right", va="center", fontsize=8)
    for ax, n in zip(axes, groups, strict=True):
        colours, kind = palette(n), "multi-head" if n == n_heads else "multi-query" if n == 1 else "grouped queries"
        for head in range(n_heads):
            group = head * n // n_heads
            _box(ax, head, 2, colours[group])
            centre = (group + 0.5) * n_heads / n - 0.5
            ax.plot([head, centre], [1.95, 0.85], color=colours[group], linewidth=1)
        for group in range(n):
            for y in (0.5, 0.0):
                _box(ax, (group + 0.5) * n_heads / n - 0.5, y, colours[group])
        ax.set(xlim=(-0.7, n_heads - 0.3), ylim=(-0.1, 2.6))
        ax.set_title(f"{kind}:\n{n} head{'s' * (n > 1)} of keys and values", fontsize=9)
        ax.axis("off")
    said = ", ".join(map(str, groups))
    show(
        figure,
        alt=f"{n_heads} heads of queries in the upper row, and below them the heads of keys and values that they read, "
        f"{said} of them: multi-head attention, grouped queries, and multi-query attention.",
    )


def _box(ax: Axes, x: float, y: float, colour: tuple[float, ...]) -> None:
    ax.add_patch(Rectangle((x - 0.4, y), 0.8, 0.4, facecolor=colour, edgecolor="white"))


def show_caches(cache_bytes: Callable[..., int]) -> None:
    """Draw the gigabytes that a text takes in a model of GPT-3's size, by its length, for kinds of attention.

    Args:
        cache_bytes: `cache_bytes(n_layers, n_groups, d_k, T, window=None)`.
    """
    lengths = [2**n for n in range(9, 21)]
    figure = Figure(figsize=(6.0, 3.0), layout="constrained")
    ax, said = figure.subplots(), []
    for (name, n_groups, window), colour, marker in zip(
        (("96 heads", 96, None), ("8 heads", 8, None), ("1 head", 1, None), ("8 heads, window of 4,096", 8, 4_096)),
        palette(),
        MARKERS,
        strict=False,
    ):
        gigabytes = [cache_bytes(96, n_groups, 128, T, window) / 1e9 for T in lengths]
        ax.plot(lengths, gigabytes, color=colour, marker=marker, markersize=4, label=name)
        said.append(f"{name} {gigabytes[-1]:,.3g}")
    ax.axhline(80, color="0.35", linestyle="--", linewidth=1.2, label="memory of a large GPU, 80 GB")
    ax.set(xscale="log", yscale="log", xlabel="tokens", ylabel="cache in GB")
    ax.grid(alpha=0.25)
    despine(ax)
    figure.legend(fontsize=8, loc="outside lower center", ncols=3, frameon=False)
    show(
        figure,
        alt=f"Gigabytes of keys and values by the length of a text, both logarithmic, in 96 layers with heads of 128; at "
        f"{lengths[-1]:,} tokens: {', '.join(said)}. A dashed line at 80 GB.",
    )


def show_pairs(bits: Sequence[float], known: Mapping[str, float], speeds: Tensor, trained: int, length: int) -> None:
    """Draw bits per character where one pair of features at a time is held, and how far each turns.

    Args:
        bits: far bits with each pair held.
        known: name -> far bits of what the bars are compared with, dashed lines.
        speeds: of the pairs, in radians per position.
        trained: length of the texts in training.
        length: of the texts that are read.
    """
    figure = Figure(figsize=(6.0, 2.8), layout="constrained")
    ax = figure.subplots()
    ends = [((trained - 1) * speed, (length - 1) * speed) for speed in speeds.tolist()]
    ax.bar(range(len(bits)), bits, color=palette()[1], width=0.7)
    for name, level in known.items():
        ax.axhline(level, color="0.35", linestyle="--", linewidth=1.2)
        ax.text(len(bits) - 0.5, level, name, va="center", fontsize=8)
    ax.set_xticks(range(len(bits)), [f"{n}\n{a:.3g} →\n{b:.3g}" for n, (a, b) in enumerate(ends)], fontsize=8)
    ax.set(xlabel=f"pair that is held; radians at distance {trained - 1} → {length - 1}", ylabel="bits per character")
    despine(ax)
    said = ", ".join(
        f"{name} {each:.2f}" for name, each in (*((f"pair {n}", each) for n, each in enumerate(bits)), *known.items())
    )
    show(
        figure,
        alt=f"Bits per character far beyond the training, if one pair turns as if no key were further than {trained - 1}: "
        f"{said}.",
    )


def show_reach(window: Tensor) -> None:
    """Draw the mask of a window (T, T), and what a token reaches through two layers of it."""
    twice = (window.float() @ window.float()) > 0
    figure = Figure(figsize=(6.0, 2.9), layout="constrained")
    for ax, (name, reached) in zip(figure.subplots(1, 2), {"one layer": window, "two layers": twice}.items(), strict=True):
        ax.imshow(reached.numpy(), cmap="Blues", vmin=0, vmax=1.4)
        ax.set(title=name, xlabel="token that is read", ylabel="token", xticks=range(0, len(window), 3))
        ax.set_yticks(range(0, len(window), 3))
    rows = ", ".join(f"{n} through {name}" for n, name in ((window[-1].sum(), "one layer"), (twice[-1].sum(), "two")))
    show(figure, alt=f"Which tokens each token reaches by a window: the last token reaches {rows}.")


def show_bits_by_position(lines: Mapping[str, Tensor], trained: int, across: Mapping[str, float] | None = None) -> None:
    """Draw bits per character against the position in the text, averaged over blocks, with the length of training marked.

    Args:
        lines: name -> bits at the positions 1 … T - 1 (T - 1,).
        trained: length of the texts in training.
        across: name -> height of a dashed line.
    """
    block, figure = 16, Figure(figsize=(6.0, 3.4), layout="constrained")
    ax, said = figure.subplots(), []
    colours = palette()
    for name, bits in lines.items():
        place = _COLOUR_OF[name]
        means = bits[block - 1 :].unfold(0, block, block).mean(1)
        places = block * (1.5 + torch.arange(len(means)))
        ax.plot(places, means, color=colours[place], marker=MARKERS[place], markersize=4, label=name)
        inside = places < trained
        spans = [(means[inside][-1], int(places[inside][-1])), (means[-1], int(places[-1]))]
        ends = (f"{mean:.2f} at the positions {at - block // 2} to {at + block // 2 - 1}" for mean, at in spans)
        said.append(f"{name} {', '.join(ends)}")
    for style, (name, height) in zip(("--", ":"), (across or {}).items(), strict=False):
        ax.axhline(height, color="0.35", linestyle=style, linewidth=1.2, label=name)
        said.append(f"{name} {height:.2f}")
    ax.axvspan(0, trained, color="0.93")
    ax.set(xlabel="position in the text, means of 16 from 16 on; grey: seen in training", ylabel="bits per character")
    ax.set(xlim=(0, None), ylim=(0, None))
    ax.grid(alpha=0.25)
    despine(ax)
    figure.legend(fontsize=8, loc="outside lower center", ncols=2, frameon=False)
    show(figure, alt=f"Bits per character of new text by position: {'; '.join(said)}.")
