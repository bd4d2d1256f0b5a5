"""Judge detectors: average precision, non-maximum suppression, boxes for each object; scenes of digits for the build task."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_lib.datasets import LabelledImages, Scenes, digit_scenes, digits
from course_lib.metrics import mean_average_precision
from course_lib.primitives import iou, to_corners
from course_tools.notebook.device import device

THRESHOLDS = (0.5, 0.6, 0.7, 0.8)
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


def scenes(which: Sequence[int], n: int, seed: int, size: int = 24, fewest: int = 1, most: int = 3) -> Scenes:
    """Place some of the handwritten digits on n canvases of size × size pixels, on the device.

    Args:
        which: indices of the digits to choose from.
        n: number of scenes.
        seed: determines all scenes.
        size: height and width of a scene.
        fewest: minimum number of digits in a scene.
        most: maximum number of digits in a scene.
    """
    images, labels = digits()
    chosen = torch.tensor(which)
    pictures = LabelledImages(images[chosen][:, None], labels[chosen])
    return Scenes(*(part.to(device()) for part in digit_scenes(pictures, n, seed, (size, size), (fewest, most))))


def objects(made: Scenes, i: int) -> tuple[Tensor, list[str]]:
    """Return the true boxes of scene i as corners, (n, 4), as fractions of the image's size, and their classes as words."""
    real = made.classes[i] >= 0
    return to_corners(made.boxes[i][real]).cpu(), [str(kind) for kind in made.classes[i][real].tolist()]
