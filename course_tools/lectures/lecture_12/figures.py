"""Figures of boxes: similarity of two boxes as one slides, detections with attention maps, positions of the object queries."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from course_lib.analysis import record
from course_lib.attention import scaled_dot_product_attention
from course_lib.datasets import Scenes
from course_lib.models import DETR
from course_lib.primitives import overlap, to_corners
from course_tools.lectures.lecture_12.experiments import detect, objects
from course_tools.notebook.boxed import boxed
from course_tools.notebook.grey import grey
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

Measure = Callable[[Tensor, Tensor], Tensor]


def show_scenes(made: Scenes, n: int = 3) -> None:
    """Show the first n scenes with the bounding boxes and classes of their objects."""
    truth = {f"scene {i}": objects(made, i) for i in range(n)}
    show(
        boxed(
            {title: grey(1 - made.images[i]) for i, title in enumerate(truth)},
            {title: corners for title, (corners, _) in truth.items()},
            {title: names for title, (_, names) in truth.items()},
        ),
        alt=f"{n} scenes with the bounding boxes of their digits: "
        + "; ".join(f"{title} contains {', '.join(names)}" for title, (_, names) in truth.items())
        + ".",
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


@torch.no_grad()
def query_maps(model: DETR, images: Tensor) -> Tensor:
    """Compute the attention of each query over the cells in the last decoder layer, mean of the heads: (B, N, H / 4, W / 4)."""
    last = len(model.decoder) - 1
    cross = model.decoder[last].cross
    mechanism = cross.mechanism
    cross.mechanism = scaled_dot_product_attention  # the fused form keeps no weights
    try:
        with record(model) as seen:
            model(images)
    finally:
        cross.mechanism = mechanism
    H, W = (side // 4 for side in images.shape[2:])
    return seen[f"decoder.{last}.cross"][0].weights.mean(1).unflatten(-1, (H, W)).cpu()


def show_detections(model: DETR, made: Scenes, i: int, threshold: float = 0.5) -> None:
    """Show scene i with the detections above a confidence, the true boxes, and maps of the three most confident queries."""
    image, (boxes, digits) = made.images[i], objects(made, i)
    title = f"objects: {', '.join(digits)}"
    p, corners = (part[0].cpu() for part in detect(model, image[None]))
    confidence, digit = p.sum(-1), p.argmax(-1)
    best = confidence.argsort(descending=True).tolist()
    above = [n for n in best if confidence[n] > threshold]
    maps = query_maps(model, image[None])[0]
    names = {n: f"query {n + 1}: {digit[n]}, any digit {100 * confidence[n]:.0f} %" for n in best[:3]}
    found = [f"{digit[n]} at ({corners[n, 0]:.2f}, {corners[n, 1]:.2f})" for n in above]
    show(
        boxed(
            {title: grey(1 - image)} | {name: maps[n] for n, name in names.items()},
            {title: corners[above]} | {name: corners[[n]] for n, name in names.items()},
            {title: [f"{digit[n]}" for n in above]},
            expected={title: boxes},
            ink=dict.fromkeys(names.values(), image[0]),
        ),
        alt=f"Scene, {title}. Detections above {threshold:g}: {', '.join(found) or 'none'}; true boxes are dashed. Then the "
        "attention maps of the three most confident queries.",
    )


def attention_on_boxes(maps: Tensor, images_of: Tensor, queries: Tensor, corners: Tensor) -> tuple[float, float]:
    """Average the attention that falls on a box: of its own query, and of another one.

    Args:
        maps: (B, N, h, w), as returned by `query_maps`.
        images_of: (n,), the image of each box.
        queries: (n,), the query that is matched with each box.
        corners: (n, 4), as fractions of the image.

    Returns:
        The mean over the boxes for the matched query, and for the query after it.
    """
    N, h, w = maps.shape[1:]
    top, left = (index.flatten() for index in torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij"))
    cells = torch.stack([left / w, top / h, (left + 1) / w, (top + 1) / h], dim=-1)
    inside = overlap(corners[:, None], cells.expand(len(corners), h * w, 4))[0][:, 0] * (h * w)
    flat = maps.flatten(2)
    own, other = ((flat[images_of, n] * inside).sum(-1).mean().item() for n in (queries, (queries + 1) % N))
    return own, other


def show_centres(corners_of: Mapping[str, Tensor], side: int = 24) -> None:
    """Draw the centres of the boxes (n, 4) that each query predicts, one panel per query, on an empty image."""
    centres = {name: (corners[:, :2] + corners[:, 2:]) / 2 for name, corners in corners_of.items()}
    show(
        boxed(dict.fromkeys(centres, torch.ones(side, side, 3)), dots=centres),
        alt="Centres of the boxes that each query predicts: "
        + "; ".join(
            f"{name} {len(c)} boxes, mean centre ({c[:, 0].mean():.2f}, {c[:, 1].mean():.2f})" for name, c in centres.items()
        )
        + ".",
    )


def show_found(made: Scenes, p: Tensor, corners: Tensor, name: str, n: int = 4, threshold: float = 0.5) -> None:
    """Show the detections of a model above a confidence in the first n scenes; true boxes are dashed.

    Args:
        made: scenes.
        p: (B, N, n_classes), probabilities of the classes.
        corners: (B, N, 4), as fractions of the image.
        name: of the model.
        n: how many scenes.
        threshold: the minimum probability of a class.
    """
    truth = {f"scene {i}": objects(made, i) for i in range(n)}
    certain = [p[i].amax(-1) > threshold for i in range(n)]
    found: dict[str, Sequence[str]] = {
        title: [str(kind) for kind in p[i, certain[i]].argmax(-1).tolist()] for i, title in enumerate(truth)
    }
    show(
        boxed(
            {title: grey(1 - made.images[i]) for i, title in enumerate(truth)},
            {title: corners[i, certain[i]] for i, title in enumerate(truth)},
            found,
            expected={title: boxes for title, (boxes, _) in truth.items()},
        ),
        alt=f"Detections of {name} above a confidence of {threshold:g} in new scenes: "
        + "; ".join(
            f"{title} {', '.join(found[title])}, where there are {', '.join(digits)}" for title, (_, digits) in truth.items()
        )
        + ".",
    )
