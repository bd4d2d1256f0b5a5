"""Figures of lecture 19: two tiles and their merge, what passes by a block, characters per call, a text of two authors."""

import math
from collections.abc import Mapping, Sequence

import seaborn as sns
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MultipleLocator

from course_tools.notebook.show import show

DRAFT, MODEL = "#2a7f9e", "#c44e52"


def show_tiles(tiles: Sequence[Sequence[float]]) -> None:
    """Draw the terms of each tile's sum in units of its own maximum, and all of them in units of the largest.

    Args:
        tiles: the scores of each tile.
    """
    largest = max(map(max, tiles))
    figure = Figure(figsize=(6.0, 2.4), layout="constrained")
    axes = figure.subplots(1, len(tiles) + 1, sharey=True)
    colours = sns.color_palette("deep", len(tiles))
    said, first = [], 1
    for ax, tile, colour, name in zip(axes, tiles, colours, range(1, len(tiles) + 1), strict=False):
        heights = [math.exp(score - max(tile)) for score in tile]
        ax.bar(range(len(tile)), heights, color=colour, width=0.6)
        ax.set_title(f"tile {name}, its own unit", fontsize=9)
        ax.set_xticks(range(len(tile)), [f"key {first + i}" for i in range(len(tile))], fontsize=8)
        first += len(tile)
        said.append(f"tile {name} has the terms {', '.join(f'{height:.2g}' for height in heights)}")
    heights = [[math.exp(score - largest) for score in tile] for tile in tiles]
    flat = [height for tile in heights for height in tile]
    of = [colour for tile, colour in zip(tiles, colours, strict=True) for _ in tile]
    axes[-1].bar(range(len(flat)), flat, color=of, width=0.6)
    axes[-1].set_title("merged, unit of the largest", fontsize=9)
    axes[-1].set_xticks(range(len(flat)), [f"key {i + 1}" for i in range(len(flat))], fontsize=8)
    axes[0].set_ylabel("exp(score − maximum)", fontsize=9)
    for ax, terms in zip(axes, [*heights, flat], strict=True):
        ax.set_xlim(-0.6, len(terms) - 0.4)
    sns.despine(figure)
    show(
        figure,
        alt=f"Bars of exp(score - maximum). In their own units, {'; '.join(said)}. In units of the largest score of all, the "
        f"terms are {', '.join(f'{height:.2g}' for height in flat)}: the first tile shrinks, and the bars can be added.",
    )


def show_traffic(blocks: int = 4, tiles: int = 8) -> None:
    """Draw the table of scores as it moves at once, and the one tile of it that exists while keys pass by a block of queries.

    Args:
        blocks: of queries, the rows of the table.
        tiles: of keys, its columns.
    """
    figure = Figure(figsize=(6.0, 2.9), layout="constrained")
    block, at = 1, tiles // 2
    for ax, title in zip(figure.subplots(1, 2, sharey=True), ("at once", "in tiles"), strict=True):
        for i in range(blocks):
            for j in range(tiles):
                done = i < block or (i == block and j < at)
                now = title == "at once" or (i, j) == (block, at)
                colour = MODEL if now else "0.85" if done else "white"
                ax.add_patch(
                    Rectangle((j, i * tiles / blocks), 1, tiles / blocks, facecolor=colour, edgecolor="0.6", linewidth=0.6)
                )
        ax.set(xlim=(-0.2, tiles + 0.2), ylim=(tiles + 0.2, -0.2), aspect="equal", xticks=[], yticks=[])
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("keys", fontsize=9)
        sns.despine(ax=ax, left=True, bottom=True)
        if title == "at once":
            ax.set_ylabel("queries", fontsize=9)
            said = "written, read,\nwritten, read:\n4 T² numbers"
            ax.text(tiles / 2, tiles / 2, said, ha="center", va="center", fontsize=9, color="white", fontweight="bold")
            continue
        top, high = block * tiles / blocks, tiles / blocks
        ax.add_patch(Rectangle((0, top), tiles, high, fill=False, edgecolor=DRAFT, linewidth=2.4))
        ax.text(tiles + 0.4, top + high / 2, "stays:\nq, c, m, ℓ", va="center", fontsize=9, color=DRAFT)
        arrow = {"arrowstyle": "-|>", "color": "0.2", "linewidth": 1.4}
        ax.annotate("", (tiles, top + high + 1), (0, top + high + 1), arrowprops=arrow)
        free = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        ax.text(tiles / 2, top + high + 1.3, "k, v pass by: 2 T d numbers", ha="center", va="top", fontsize=9, bbox=free)
    show(
        figure,
        alt="The table of scores, a row for each query and a column for each key. At once, the whole table is written and read "
        f"twice. In tiles, of {blocks} blocks of queries one stays in fast memory, with its c, m and ℓ, while keys and values "
        f"in {tiles} tiles pass by; only one tile of the table exists at a time, and nothing of it is written to slow memory.",
    )


def per_call(share: float, n_drafts: int) -> float:
    """Tokens per call if each drafted token is accepted with the same probability, whatever the others are."""
    return sum(share**i for i in range(n_drafts + 1))


def draw_speed_up(share: float = 0.7, cost: float = 0.05, n_drafts: int = 4) -> None:
    """Draw how many times as fast a text comes with drafts, by their number, for some shares of accepted ones.

    Leviathan et al. 2023, theorem 3.8: tokens per call / (1 + n · cost).

    Args:
        share: how many drafted tokens are accepted; its line is the thick one.
        cost: what a drafted token costs, in calls of the model.
        n_drafts: the number that is marked on it.
    """

    def speed_up(accepted: float, n: int) -> float:
        return per_call(accepted, n) / (1 + n * cost)

    figure = Figure(figsize=(5.4, 3.0), layout="constrained")
    ax = figure.subplots()
    n = range(13)
    for other in (0.3, 0.5, 0.9):
        ax.plot(n, [speed_up(other, i) for i in n], color="0.75", linewidth=1.2)
        ax.text(12.1, speed_up(other, 12), f"{other:g}", color="0.5", fontsize=8, va="center")
    ax.plot(n, [speed_up(share, i) for i in n], color=DRAFT, linewidth=2.2)
    ax.text(12.1, speed_up(share, 12), f"{share:g}", color=DRAFT, fontsize=9, va="bottom")
    ax.plot(n_drafts, speed_up(share, n_drafts), "o", color=DRAFT)
    ax.axhline(1, color="0.4", linewidth=1, linestyle="--")
    ax.set(xlabel="drafted tokens a round", ylabel="times as fast", ylim=(0, None), xlim=(0, 13.2))
    ax.grid(alpha=0.25)
    sns.despine(ax=ax)
    best = max(n, key=lambda i: speed_up(share, i))
    show(
        figure,
        alt=f"How many times as fast a text comes, by the number of drafted tokens, if {share:.2g} of them are accepted and "
        f"each costs {cost:.2g} of a call: {n_drafts} give {speed_up(share, n_drafts):.2f}; the best number up to "
        f"12 is {best}, with {speed_up(share, best):.2f}. The dashed line is the speed without drafts.",
    )


def show_authors(text: str, of_the_model: Sequence[int], n_prompt: int, columns: int = 56) -> None:
    """Draw a text, letter by letter, in the colour of who wrote it.

    Args:
        text: the prompt and what was written.
        of_the_model: the places of the letters that the model wrote itself.
        n_prompt: letters of the prompt.
        columns: letters in a line.
    """
    shown = text.replace("\n", "⏎")
    n_lines = math.ceil(len(shown) / columns)
    figure = Figure(figsize=(0.1 * columns + 0.3, 0.24 * n_lines + 0.45), layout="constrained")
    ax = figure.subplots()
    own = set(of_the_model)
    for i, letter in enumerate(shown):
        colour = "0.6" if i < n_prompt else MODEL if i in own else DRAFT
        weight = "bold" if i in own else "normal"
        ax.text(i % columns, -(i // columns), letter, family="monospace", fontsize=9, color=colour, weight=weight, ha="center")
    for x, (name, colour) in zip(
        (0, 12, 34), {"prompt": "0.6", "draft, accepted": DRAFT, "the model itself": MODEL}.items(), strict=True
    ):
        ax.text(x, 1.2, name, fontsize=8.5, color=colour)
    ax.set(xlim=(-1, columns), ylim=(-n_lines, 2), xticks=[], yticks=[])
    sns.despine(ax=ax, left=True, bottom=True)
    n = len(text) - n_prompt
    show(
        figure,
        alt=f"A text of {n} letters after its prompt, coloured by author. The draft wrote {n - len(own)} of them, the model "
        f"itself {len(own)}, one in each round: {text[n_prompt:]!r}.",
    )


def show_calls(per_call: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Draw the characters per call of each draft at each temperature, with the spread over seeds.

    Args:
        per_call: temperature -> name of the draft -> one number for each seed; not every draft needs every temperature.
    """
    figure = Figure(figsize=(6.0, 2.6), layout="constrained")
    axes = figure.subplots(1, len(per_call), sharex=True, squeeze=False)[0]
    said = []
    for ax, (label, found) in zip(axes, per_call.items(), strict=True):
        means = [torch.tensor(scores).mean().item() for scores in found.values()]
        ax.barh(range(len(found)), means, height=0.6, color=DRAFT)
        for y, scores in enumerate(found.values()):
            ax.plot([min(scores), max(scores)], [y, y], color="0.2", linewidth=1.2)
        ax.axvline(1, color="0.4", linestyle="--", linewidth=1)
        ax.set_yticks(range(len(found)), found, fontsize=8)
        ax.invert_yaxis()
        ax.set_title(label, fontsize=9)
        ax.xaxis.set_major_locator(MultipleLocator(1))
        sns.despine(ax=ax)
        said.append(f"{label}: " + ", ".join(f"{name} {mean:.2f}" for name, mean in zip(found, means, strict=True)))
    axes[0].set(xlim=(0, None))
    figure.supxlabel("characters per call of the model; dashed: without a draft; black: the range of the seeds", fontsize=9)
    show(figure, alt=f"Characters per call of the model; without a draft it is 1. {'. '.join(said)}.")
