"""Figures of lecture 13: puzzles before and after a bundle, marked patches, learned rows, what each mark depends on."""

import torch
import torch.nn.functional as F
from einops import rearrange
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from course_lib.primitives import patchify
from course_tools.bank.drawn_puzzles import GRID, P, Puzzles, counterparts
from course_tools.notebook.legible import to_array
from course_tools.notebook.plots import pictures
from course_tools.notebook.show import show

GAP = 3
"""Pixels between the two copies, where they are drawn in their own places."""


def show_puzzle(before: Puzzles, after: Puzzles, number: int, order: Tensor) -> None:
    """Draw one puzzle before and after the bundle, and its differing patches alone; the first pair that differs is framed.

    Args:
        before: puzzles in order.
        after: the same puzzles at the end of the bundle.
        number: which puzzle.
        order: (32,), of `through_bundle`.
    """
    differs = before.differs[number]
    panels = {
        "two copies": laid_out(before.images[number], copies=True),
        "what differs": laid_out(before.images[number], differs, copies=True),
        "at the end of the bundle": laid_out(after.images[number]),
    }
    figure = pictures(panels)
    figure.set_size_inches(6.0, 1.6)
    first = int(differs.view(GRID, 2 * GRID)[:, :GRID].flatten().int().argmax())
    left = first // GRID * 2 * GRID + first % GRID
    pair = torch.tensor([left, left + GRID])
    for ax, places, gap in zip(figure.axes, (pair, pair, order.argsort()[pair.to(order.device)]), (GAP, GAP, 0), strict=True):
        for place in places.tolist():
            row, column = divmod(place, 2 * GRID)
            corner = column * (P + 1) + gap * (column >= GRID) - 1, row * (P + 1) - 1
            ax.add_patch(Rectangle(corner, P + 1, P + 1, fill=False, edgecolor="red", linewidth=2))
    show(
        figure,
        alt=f"Two copies of a crop of a photograph, {GRID} × {GRID} patches each; {int(differs.sum()) // 2} patches differ "
        "from their counterpart. A pair that differs is framed. At the end of the bundle all patches are mixed up.",
    )


def show_marks(puzzles: Puzzles, order: Tensor, marks: Tensor, number: int) -> None:
    """Draw a puzzle at the end of a bundle, what a model marks in it, and the marked patches back in their own places.

    Args:
        puzzles: at the end of the bundle.
        order: (32,), of `through_bundle`.
        marks: (n, 32), true where a model says that a patch differs.
        number: which puzzle.
    """
    image, marked = puzzles.images[number], marks[number]
    back = order.argsort().to(image.device)
    panels = {
        "at the end of the bundle": laid_out(image),
        "marked": laid_out(image, marked),
        "marked, sorted back": laid_out(image, marked, back, copies=True),
    }
    figure = pictures(panels)
    figure.set_size_inches(6.0, 1.6)
    wrong = int((marked != puzzles.differs[number]).sum())
    show(
        figure,
        alt=f"Unseen puzzle {number} at the end of the bundle, the {int(marked.sum())} patches that the model marks as "
        f"different, and the same patches in their own places. Wrong marks: {wrong} of {marks.shape[1]}.",
    )


def show_dependence(dependence: Tensor, order: Tensor) -> None:
    """Draw how much each mark depends on each patch (32, 32), by their places after the bundle and before it."""
    back = order.argsort().to(dependence.device)
    panels = {"places at the end": dependence, "sorted back": dependence[back][:, back]}
    figure = Figure(figsize=(6.0, 2.9), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, (title, changes) in zip(axes, panels.items(), strict=True):
        drawn = ax.imshow(to_array(changes), cmap="viridis", vmin=0.0, vmax=dependence.max().item(), interpolation="nearest")
        ax.set_title(title, fontsize=10)
        ax.set_xlabel("patch exchanged")
    axes[0].set_ylabel("mark of the place")
    for ax in axes:
        ax.set_xticks(range(0, len(back), 2 * GRID))
    axes[1].set_xlabel(f"patch exchanged ({GRID} left, {GRID} right in turn)")
    figure.colorbar(drawn, ax=list(axes), label="mean change of the mark")
    show(
        figure,
        alt="How much the mark of each place changes if the patch of each place is exchanged. By the places at the end of the "
        "bundle, the large values are scattered; sorted by the places at its start, they form lines: the place itself, and the "
        "place four columns to the left or right.",
    )


def show_one_mark(dependence: Tensor, order: Tensor, place: int) -> None:
    """Draw on which patches the mark of one place at the start of the bundle depends, as a puzzle of 4 × 8 places."""
    back = order.argsort().to(dependence.device)
    row = dependence[back[place]][back].view(GRID, 2 * GRID)
    largest = [divmod(int(cell), 2 * GRID) for cell in row.flatten().topk(2).indices]
    said = " and ".join(f"row {y + 1}, column {x + 1}" for y, x in largest)
    show(
        pictures({f"the mark of row {place // (2 * GRID) + 1}, column {place % (2 * GRID) + 1}": row}, label="mean change"),
        alt=f"How much one mark changes with each patch, back in order: most with those in {said}.",
    )


def show_rows(rows: Tensor, order: Tensor, by_hand: Tensor, n: int = 8) -> None:
    """Draw weights over the places at the end of the bundle, back in order: a row by hand, and the n learned ones most like it.

    Args:
        rows: (·, 32), learned rows of W_1.
        order: (32,), of `through_bundle`.
        by_hand: (32,), a row that subtracts one place from its counterpart.
        n: number of learned rows: those in which the difference of one pair is largest, beside all other weights.
    """
    back = order.argsort()
    largest = (rows - rows[:, counterparts(order)]).abs().amax(1) / rows.norm(dim=1)
    chosen = [by_hand, *rows[largest.topk(n).indices]]
    figure = Figure(figsize=(6.0, 2.9), layout="constrained")
    axes = figure.subplots(3, -(-len(chosen) // 3)).flatten()
    for number, (ax, row) in enumerate(zip(axes, chosen, strict=True)):
        ax.imshow(to_array((row / row.abs().max())[back].view(GRID, 2 * GRID)), cmap="RdBu", vmin=-1, vmax=1)
        ax.axvline(GRID - 0.5, color="black", linewidth=0.8)
        ax.set_title(f"learned {number}" if number else "by hand", fontsize=8)
        ax.set(xticks=[], yticks=[])
    show(
        figure,
        alt=f"One row of W_1 by hand and {n} of {len(rows)} learned rows, {GRID} × {2 * GRID} places in order, divided by the "
        "largest weight. By hand, a plus and a minus four columns apart; in the learned ones, too, but several pairs in a row.",
    )


def laid_out(image: Tensor, only: Tensor | None = None, order: Tensor | None = None, copies: bool = False) -> Tensor:
    """Draw the patches of a puzzle (3, 24, 48) with gaps, (H', W', 3): perhaps only some of them (32,), or in another order.

    `copies` sets the two halves apart.
    """
    patches = patchify(image[None], P)[0].clamp(0, 1)
    if only is not None:
        patches = torch.where(only[:, None], patches, 0.92)
    if order is not None:
        patches = patches[order]
    squares = rearrange(patches, "(rows columns) (C h w) -> rows columns h w C", rows=GRID, C=3, h=P)
    framed = F.pad(squares, (0, 0, 0, 1, 0, 1), value=1.0)
    sheet = rearrange(framed, "rows columns h w C -> (rows h) (columns w) C")[:-1, :-1].cpu()
    if not copies:
        return sheet
    left, right = sheet.split(GRID * (P + 1), dim=1)
    return torch.cat([left, torch.ones(len(sheet), GAP, 3), right], dim=1)
