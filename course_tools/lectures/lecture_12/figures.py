"""Figures of lecture 12: scenes with boxes, similarity of two boxes as one slides, detections, and confidence of each query."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from course_lib.datasets import Scenes
from course_lib.primitives import iou, to_corners
from course_tools.lectures.lecture_12.experiments import Detections, objects
from course_tools.notebook.boxed import boxed
from course_tools.notebook.grey import grey
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

Measure = Callable[[Tensor, Tensor], Tensor]


def in_colour(image: Tensor) -> Tensor:
    """Turn an image (C, H, W), ink from 0 to 1 or in colour, into one that can be drawn, (H, W, 3)."""
    return image.permute(1, 2, 0).clamp(0, 1).cpu() if len(image) == 3 else grey(1 - image)


def show_scenes(made: Scenes, numbers: Sequence[int]) -> None:
    """Show some scenes with the bounding boxes of their objects."""
    truth = {f"{len(objects(made, i)[1])} creatures ({i})": i for i in numbers}
    drawn = boxed(
        {title: in_colour(made.images[i]) for title, i in truth.items()},
        {title: objects(made, i)[0] for title, i in truth.items()},
    )
    if len(numbers) <= 2:
        drawn.set_size_inches(6.0, 3.4)
    show(
        drawn,
        alt=f"{len(truth)} scenes of pixel creatures on photographs, with the boxes of "
        + ", ".join(str(len(objects(made, i)[1])) for i in truth.values())
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


def show_detections(made: Scenes, number: int, found: Mapping[str, Detections], threshold: float = 0.5) -> None:
    """Show one scene with its true boxes, and beside it what each of some methods detects in it.

    Args:
        made: scenes.
        number: of the scene.
        found: name → detections in all scenes.
        threshold: the least confidence of a box that is drawn.
    """
    boxes, _ = objects(made, number)
    corners = {"true boxes": boxes}
    for name, each in found.items():
        sure = each.confidence[number] > threshold
        corners[f"{name}: {int(sure.sum())}"] = each.corners[number, sure].cpu()
    image = in_colour(made.images[number])
    counts = ", ".join(title.replace(":", "") for title in list(corners)[1:])
    show(
        boxed(dict.fromkeys(corners, image), corners),
        alt=f"Unseen scene {number}, creatures: {len(boxes)}, and the boxes above a confidence of {threshold:g}: {counts}.",
    )


def show_reading(made: Scenes, number: int, found: Detections, weights: Tensor, threshold: float = 0.5) -> None:
    """Show one scene with two of its boxes, and where the query of each looks in the image.

    Args:
        made: scenes.
        number: of the scene.
        found: detections in all scenes; the two above the threshold that overlap most are shown, or the two most confident.
        weights: (N, N) of this scene, of each query (rows) over the cells of a square map.
        threshold: the least confidence of a box.
    """
    confidence = found.confidence[number]
    sure = confidence.topk(max(2, int((confidence > threshold).sum()))).indices.sort().values
    overlaps = iou(found.corners[number, sure], found.corners[number, sure]).triu(1)
    two = sure[torch.stack(torch.unravel_index(overlaps.argmax(), overlaps.shape))]
    side = round(weights.shape[-1] ** 0.5)
    corners = found.corners[number, two].cpu()
    maps = {f"query {query}": weights[query].view(side, side) for query in two.tolist()}
    boxes = {"their boxes": corners} | {name: corners[i : i + 1] for i, name in enumerate(maps)}
    drawn = boxed({"their boxes": in_colour(made.images[number])} | maps, boxes)
    inside = [_inside(one, corner) for one, corner in zip(maps.values(), corners, strict=True)]
    show(
        drawn,
        alt=f"Unseen scene {number}, two boxes that overlap by {overlaps.max().item():.2f}, and the attention weights of their "
        "queries over the cells: "
        + "; ".join(f"{name}, {share:.2f} of the weight inside its box" for name, share in zip(maps, inside, strict=True))
        + ".",
    )


def _inside(weights: Tensor, corners: Tensor) -> float:
    """Sum the weights of the cells whose centres lie in a box (4,), as a fraction of the image."""
    side = len(weights)
    centres = (torch.arange(side) + 0.5) / side
    x_1, y_1, x_2, y_2 = corners
    rows, columns = ((centres > low) & (centres < high) for low, high in ((y_1, y_2), (x_1, x_2)))
    return weights.cpu()[rows][:, columns].sum().item()


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
