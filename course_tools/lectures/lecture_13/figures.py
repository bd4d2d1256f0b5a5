"""Figures of lecture 13: puzzles before and after a bundle of fibres, marked patches, and which patch each mark depends on."""

import torch
import torch.nn.functional as F
from einops import rearrange
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.primitives import patchify
from course_tools.lectures.lecture_13.puzzles import GRID, P, Puzzles
from course_tools.notebook.legible import to_array
from course_tools.notebook.plots import pictures
from course_tools.notebook.show import show


def show_puzzle(before: Puzzles, after: Puzzles, number: int) -> None:
    """Draw one puzzle before and after the bundle, and its differing patches alone."""
    panels = {
        "two copies": laid_out(before.images[number]),
        "what differs": laid_out(before.images[number], before.differs[number]),
        "at the end of the bundle": laid_out(after.images[number]),
    }
    show(
        pictures(panels),
        alt=f"Two copies of a crop of a photograph, {GRID} × {GRID} patches each; {int(before.differs[number].sum()) // 2} "
        "patches differ from their counterpart. At the end of the bundle the patches of both copies are mixed up.",
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
        "marked, sorted back": laid_out(image, marked, back),
    }
    wrong = int((marked != puzzles.differs[number]).sum())
    show(
        pictures(panels),
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
    axes[1].set_xticks(range(0, len(back), GRID))
    axes[1].tick_params(axis="x", labelsize=7)
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


def laid_out(image: Tensor, only: Tensor | None = None, order: Tensor | None = None) -> Tensor:
    """Draw the patches of a puzzle (3, 24, 48) with gaps, (H', W', 3): perhaps only some of them (32,), or in another order."""
    patches = patchify(image[None], P)[0].clamp(0, 1)
    if only is not None:
        patches = torch.where(only[:, None], patches, 0.92)
    if order is not None:
        patches = patches[order]
    squares = rearrange(patches, "(rows columns) (C h w) -> rows columns h w C", rows=GRID, C=3, h=P)
    framed = F.pad(squares, (0, 0, 0, 1, 0, 1), value=1.0)
    return rearrange(framed, "rows columns h w C -> (rows h) (columns w) C")[:-1, :-1].cpu()
