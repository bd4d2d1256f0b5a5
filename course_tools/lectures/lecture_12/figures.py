"""Figures of lecture 12: scenes with boxes, similarity of two boxes as one slides, detections, and confidence of each query."""

from collections.abc import Callable, Mapping, Sequence

import torch
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from course_lib.datasets import Scenes
from course_lib.primitives import giou, iou, to_corners
from course_tools.lectures.lecture_12.detections import Detections, objects
from course_tools.notebook.boxed import boxed
from course_tools.notebook.grey import grey
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show
from course_tools.notebook.style import palette

Measure = Callable[[Tensor, Tensor], Tensor]


def in_colour(image: Tensor) -> Tensor:
    """Turn an image (C, H, W), ink from 0 to 1 or in colour, into one that can be drawn, (H, W, 3)."""
    return image.permute(1, 2, 0).clamp(0, 1).cpu() if len(image) == 3 else grey(1 - image)


def show_scenes(made: Scenes, numbers: Sequence[int]) -> None:
    """Show some scenes with the bounding boxes of their objects, and the number of its kind on each."""
    truth = {f"scene {i}: {len(objects(made, i)[1])} creatures": i for i in numbers}
    drawn = boxed(
        {title: in_colour(made.images[i]) for title, i in truth.items()},
        {title: objects(made, i)[0] for title, i in truth.items()},
        {title: [f"kind {kind}" for kind in objects(made, i)[1]] for title, i in truth.items()},
    )
    if len(numbers) <= 2:
        drawn.set_size_inches(6.0, 3.4)
    show(
        drawn,
        alt=f"{len(truth)} scenes of pixel creatures on photographs, with the boxes of "
        + ", ".join(f"{len(objects(made, i)[1])} (kinds {', '.join(objects(made, i)[1])})" for i in truth.values())
        + " creatures; many boxes overlap.",
    )


def show_slide(measures: Mapping[str, Measure], width: float, vertical_offset: float) -> None:
    """Draw measures of two boxes while one slides past the other, which is a square of side 0.3 at the centre of the image.

    Args:
        measures: name -> function of corners (n, 4) and (m, 4), to (n, m), such as `iou`.
        width: of the sliding box, as a fraction of the image; its height is 0.3.
        vertical_offset: of its centre below that of the other, as a fraction of the image.
    """
    x = torch.linspace(0, 1, 41)
    sliding = to_corners(torch.stack([x, 0 * x + 0.5 + vertical_offset, 0 * x + width, 0 * x + 0.3], dim=-1))
    still = to_corners(torch.tensor([[0.5, 0.5, 0.3, 0.3]]))
    lines = {name: (x, measure(sliding, still)[:, 0]) for name, measure in measures.items()}
    show(
        curves(lines, "x of the sliding box's centre, as a fraction of the image", " or ".join(measures)),
        alt=f"A box of width {width:.2f} slides past one of width 0.30, vertical offset {vertical_offset:.2f}. "
        + "; ".join(f"{name} starts at {y[0]:.2f} and its maximum is {y.max():.2f}" for name, (_, y) in lines.items())
        + ".",
    )


def show_smallest_box(still: Sequence[float], moved: Mapping[str, Sequence[float]]) -> None:
    """Draw box A, boxes B at several places, and the smallest box C around both, of which the part in neither is hatched.

    Args:
        still: the corners (x_1, y_1, x_2, y_2) of A.
        moved: title -> those of B.
    """
    drawn = Figure(figsize=(6.0, 3.3), layout="constrained")
    panels, A = drawn.subplots(1, len(moved)), torch.tensor([still], dtype=torch.float)
    said, most = [], max(max(corners) for corners in moved.values())
    for ax, (title, corners) in zip(panels, moved.items(), strict=True):
        B = torch.tensor([corners], dtype=torch.float)
        C = [*torch.minimum(A, B)[0, :2].tolist(), *torch.maximum(A, B)[0, 2:].tolist()]
        shares = f"IoU {iou(A, B).item():.2f}, GIoU {giou(A, B).item():.2f}"
        ax.add_patch(_framed(C, fill=False, hatch="///", edgecolor="0.6", linewidth=0))
        boxes = tuple(zip("AB", (still, corners), palette(2), strict=True))
        for _, box, _ in boxes:
            ax.add_patch(_framed(box, facecolor="white"))
        for name, box, colour in boxes:
            ax.add_patch(_framed(box, facecolor=to_rgba(colour, 0.3), edgecolor=colour, linewidth=1.8))
            ax.text(box[0] + 0.15, box[1] + 0.15, name, va="top", fontsize=10)
        ax.add_patch(_framed(C, fill=False, edgecolor="black", linestyle="--"))
        ax.text(C[2] - 0.1, C[1] + 0.15, "C", va="top", ha="right", fontsize=10)
        ax.set(xlim=(-0.2, most + 0.2), ylim=(most + 0.2, -0.2), aspect="equal", title=f"B {title}: {shares}")
        ax.title.set_fontsize(10)
        said.append(f"B {title}: {shares}")
    show(drawn, alt=f"Box A, box B, and the smallest box C around both, its part in neither hatched. {'; '.join(said)}.")


def _framed(corners: Sequence[float], **style: object) -> Rectangle:
    x_1, y_1, x_2, y_2 = corners
    return Rectangle((x_1, y_1), x_2 - x_1, y_2 - y_1, **style)


def show_detections(made: Scenes, number: int, found: Mapping[str, Detections], threshold: float = 0.5) -> None:
    """Show one scene with its true boxes, and beside it what each of some methods detects in it.

    A detected box has the colour of the object that it fits best.

    Args:
        made: scenes.
        number: of the scene.
        found: name → detections in all scenes.
        threshold: the least confidence of a box that is drawn.
    """
    boxes, _ = objects(made, number)
    corners = {f"true boxes: {len(boxes)}": boxes}
    for name, each in found.items():
        sure = each.confidence[number] > threshold
        corners[f"{name}: {int(sure.sum())}"] = each.corners[number, sure].cpu()
    fits = {title: iou(drawn, boxes).argmax(1).tolist() for title, drawn in corners.items()}
    image = in_colour(made.images[number])
    counts = ", ".join(title.replace(":", "") for title in list(corners)[1:])
    show(
        boxed(dict.fromkeys(corners, image), corners, colours=fits),
        alt=f"Unseen scene {number}, creatures: {len(boxes)}, and the boxes above a confidence of {threshold:g}: {counts}.",
    )


def show_shares(found: Detections, points: Tensor, threshold: float = 0.5) -> None:
    """Draw, for each query, the centres of all boxes that it predicts, coloured by their size: what it answers for.

    Args:
        found: detections in all scenes; the queries belong to the cells of a square map.
        points: (N, 2), the reference point (x, y) of each query, as a fraction of the image.
        threshold: the least confidence of a box that is drawn.
    """
    side = round(len(points) ** 0.5)
    drawn = Figure(figsize=(5.0, 4.0), layout="constrained")
    panels, counts, dots = drawn.subplots(side, side, sharex=True, sharey=True).flat, [], None
    corners, sure = found.corners.cpu(), found.confidence.cpu() > threshold
    for query, (ax, point) in enumerate(zip(panels, points.tolist(), strict=True)):
        x_1, y_1, x_2, y_2 = corners[sure[:, query], query].unbind(-1)
        sides = ((x_2 - x_1) * (y_2 - y_1)).sqrt()
        dots = ax.scatter((x_1 + x_2) / 2, (y_1 + y_2) / 2, c=sides, s=5, cmap="viridis", vmin=0.3, vmax=0.6)
        ax.plot(*point, "+", color="black", markersize=8)
        ax.set(xlim=(0, 1), ylim=(1, 0), xticks=[], yticks=[], aspect="equal")
        ax.set_title(f"{len(sides)}", fontsize=9)
        counts.append(f"{len(sides)}")
    drawn.colorbar(dots, ax=drawn.axes, shrink=0.8, label="side of the box (image = 1)")
    rows = "; ".join(", ".join(counts[i : i + side]) for i in range(0, len(counts), side))
    show(drawn, alt=f"For each query, at the place of its cell, the centres of its boxes. Their numbers, row by row: {rows}.")


def show_found(made: Scenes, found: Detections, name: str, n: int = 4, threshold: float = 0.5) -> None:
    """Show the detections of a model above a confidence in the first n scenes, with their classes; true boxes are dashed."""
    truth = {f"scene {i}": objects(made, i) for i in range(n)}
    certain = [found.p[i].amax(-1) > threshold for i in range(n)]
    kinds: dict[str, Sequence[str]] = {
        title: [str(kind) for kind in found.p[i, certain[i]].argmax(-1).tolist()] for i, title in enumerate(truth)
    }
    show(
        boxed(
            {title: in_colour(made.images[i]) for i, title in enumerate(truth)},
            {title: found.corners[i, certain[i]] for i, title in enumerate(truth)},
            kinds,
            expected={title: boxes for title, (boxes, _) in truth.items()},
        ),
        alt=f"Detections of {name} above a confidence of {threshold:g} in new scenes: "
        + "; ".join(
            f"{title} {', '.join(kinds[title])}, where there are {', '.join(names)}" for title, (_, names) in truth.items()
        )
        + ".",
    )
