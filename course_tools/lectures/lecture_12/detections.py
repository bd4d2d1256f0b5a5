"""Judge detectors: average precision, non-maximum suppression, boxes for each object."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from course_lib.datasets import Scenes
from course_lib.metrics import mean_average_precision
from course_lib.primitives import iou, to_corners

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Thresholds of suppression, of which a rival gets the best."""


class Detections(NamedTuple):
    """For each image the probability of each class for each box (B, N, n_classes), and the boxes' corners (B, N, 4)."""

    p: Tensor
    corners: Tensor

    @property
    def confidence(self) -> Tensor:
        """The probability of any object, (B, N)."""
        return self.p.sum(-1)


@torch.no_grad()
def detect(model: nn.Module, images: Tensor) -> Detections:
    """Let a model predict, images → logits (B, N, n_classes + 1) and boxes (B, N, 4), in evaluation mode."""
    was_training = model.training
    model.eval()
    logits, boxes = (torch.cat(parts) for parts in zip(*(model(few) for few in images.split(100)), strict=True))
    model.train(was_training)
    return Detections(logits.softmax(-1)[..., :-1], to_corners(boxes))


def ap50(found: Detections, made: Scenes) -> float:
    """Measure the average precision at IoU 0.5, averaged over the classes, from 0 to 1."""
    return float(mean_average_precision(found.p, found.corners, made.classes, to_corners(made.boxes)))


def ap(found: Detections, made: Scenes) -> float:
    """Measure the average precision as on COCO: the mean over overlaps of 0.5, 0.55 … 0.95."""
    corners, overlaps = to_corners(made.boxes), [0.5 + 0.05 * i for i in range(10)]
    return sum(float(mean_average_precision(*found, made.classes, corners, each)) for each in overlaps) / len(overlaps)


def boxes_per_object(found: Detections, made: Scenes) -> float:
    """Count the boxes with a confidence above 0.5, for each object."""
    return int((found.confidence > 0.5).sum()) / int((made.classes >= 0).sum())


def suppressed(found: Detections, threshold: float = 0.5) -> Detections:
    """Apply non-maximum suppression: a box that overlaps a more confident remaining one gets a confidence of 0.

    Args:
        found: the detections.
        threshold: two boxes overlap if their IoU is above it.
    """
    order = found.confidence.argsort(-1, descending=True)
    rank = order.argsort(-1)
    above, keep = iou(found.corners, found.corners) > threshold, torch.ones_like(order, dtype=torch.bool)
    rows = torch.arange(len(order), device=order.device)
    for number, best in enumerate(order.unbind(-1)):
        keep &= ~(above[rows, best] & keep[rows, best][:, None] & (rank > number))
    return Detections(found.p * keep[..., None], found.corners)


def softly_suppressed(found: Detections, sigma: float = 0.5) -> Detections:
    """Apply Soft-NMS (Bodla et al. 2017): a box loses confidence by its overlap with each more confident one, exp(-IoU² / σ).

    Args:
        found: the detections.
        sigma: the paper's value is 0.5; a smaller one lowers more.
    """
    kept = (-(iou(found.corners, found.corners) ** 2) / sigma).exp()
    factor, waiting = torch.ones_like(found.confidence), torch.ones_like(found.confidence, dtype=torch.bool)
    rows = torch.arange(len(factor), device=factor.device)
    for _ in range(factor.shape[1]):
        best = (found.confidence * factor).masked_fill(~waiting, -1.0).argmax(-1)
        waiting[rows, best] = False
        factor = torch.where(waiting, factor * kept[rows, best], factor)
    return Detections(found.p * factor[..., None], found.corners)


def local_maxima(found: Detections) -> Detections:
    """Keep, for each class, the cells whose confidence is the highest among the nine around them, as CenterNet does."""
    B, N, n_classes = found.p.shape
    side = round(N**0.5)
    maps = found.p.mT.reshape(B, n_classes, side, side)
    highest = F.max_pool2d(maps, 3, stride=1, padding=1) == maps
    return Detections((maps * highest).flatten(2).mT, found.corners)


def judged(found: Detections, made: Scenes) -> dict[str, float]:
    """Return AP50 as it is (`raw`), after suppression at 0.5 (`kept`) and at 0.9 (`high`), and the boxes for each object."""
    after = {"raw": found, "kept": suppressed(found), "high": suppressed(found, 0.9)}
    return {name: ap50(each, made) for name, each in after.items()} | {"boxes": boxes_per_object(found, made)}


def judged_apart(found: Detections, made: Scenes) -> dict[str, float]:
    """Return AP50 in the scenes without a close pair, after suppression at 0.5 (`alone`) and at 0.9 (`alone_high`)."""
    few = close_pairs(made) == 0
    found, made = Detections(*(part[few] for part in found)), Scenes(*(part[few] for part in made))
    return {"alone": ap50(suppressed(found), made), "alone_high": ap50(suppressed(found, 0.9), made)}


def close_pairs(made: Scenes, least: float = 0.5) -> Tensor:
    """Count in each scene the pairs of objects of one class whose boxes overlap by more than `least`, (n,)."""
    corners, classes = to_corners(made.boxes), made.classes
    alike = (classes[:, :, None] == classes[:, None]) & (classes >= 0)[:, None]
    return ((iou(corners, corners) > least) & alike).triu(1).flatten(1).sum(1)


def first_close_pair(made: Scenes) -> int:
    """Find the first scene of two objects that are a close pair; if there is none, the first with such a pair."""
    pairs, alone = close_pairs(made) > 0, (made.classes >= 0).sum(1) == 2
    return int((pairs & alone if (pairs & alone).any() else pairs).nonzero()[0])


def best_fit(ways: Sequence[Detections], made: Scenes, candidates: Tensor, least: float = 0.5) -> int:
    """Find the scene where some detectors' boxes fit best: the worst of its objects has the largest IoU with a box of its own.

    Args:
        ways: what each detector finds.
        made: the scenes.
        candidates: numbers of the scenes to choose from, (n,); each has boxes for all its objects. None: the first close pair.
        least: the confidence above which a box counts.
    """

    def worst(number: int) -> float:
        boxes = to_corners(made.boxes[number, made.classes[number] >= 0])
        found = (way.corners[number, way.confidence[number] > least] for way in ways)
        fits = [iou(boxes, corners).cpu() for corners in found]
        return min(float(fit[linear_sum_assignment(-fit.numpy())].min()) for fit in fits)

    return max(candidates.tolist(), key=worst, default=first_close_pair(made))


class ToldApart(NamedTuple):
    """Pairs of neighbours of a class; those with two boxes or more; those whose boxes are nearest to different objects."""

    pairs: int
    two: int
    apart: int


def told_apart(found: Detections, made: Scenes, overlap: float = 0.5, least: float = 0.5) -> ToldApart:
    """Count the pairs of objects of one class that overlap, and how many of them are told apart.

    Args:
        found: the detections.
        made: the scenes.
        overlap: the IoU above which two objects are neighbours, and above which a box counts for one of them.
        least: the confidence of the class above which a box counts.
    """
    pairs = two = apart = 0
    for number, (classes, boxes) in enumerate(zip(made.classes, to_corners(made.boxes), strict=True)):
        close = (iou(boxes, boxes) > overlap) & (classes[:, None] == classes) & (classes >= 0)
        for pair in close.triu(1).nonzero():
            fits = iou(found.corners[number, found.p[number, :, classes[pair[0]]] > least], boxes[pair])
            nearest = fits[fits.amax(1) > overlap].argmax(1)
            pairs, two, apart = pairs + 1, two + (len(nearest) > 1), apart + (len(nearest.unique()) > 1)
    return ToldApart(pairs, two, apart)


def objects(made: Scenes, i: int) -> tuple[Tensor, list[str]]:
    """Return the true boxes of scene i as corners, (n, 4), as fractions of the image's size, and their classes as words."""
    real = made.classes[i] >= 0
    return to_corners(made.boxes[i][real]).cpu(), [str(kind) for kind in made.classes[i][real].tolist()]
