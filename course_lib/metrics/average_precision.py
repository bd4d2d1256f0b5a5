"""Average precision: how well a detector finds objects, at all thresholds of its own confidence at once.

Everingham et al. 2010, *The Pascal Visual Object Classes Challenge*, section 4.2 (https://doi.org/10.1007/s11263-009-0275-4),
in the form of COCO (Lin et al. 2014, https://arxiv.org/abs/1405.0312): detections of one class are sorted by confidence,

    precision_k = hits among the first k / k        recall_k = hits among the first k / objects
    AP = mean over r = 0, 0.01, …, 1 of  max { precision_k : recall_k ≥ r }

A detection hits when it overlaps an object of its class, with IoU of at least a threshold, that no more confident detection has
claimed. A ValueError is raised for NaN scores, which have no order, and for a threshold that is not above 0 and at most 1; a
TypeError for integer scores.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_lib.primitives import iou
from course_lib.primitives.preconditions import requires, shape_checked

__all__ = ["average_precision", "find_hits", "mean_average_precision"]


def _require_order(scores: Tensor, *rest: Any, **options: Any) -> None:
    """Raise an error for scores without an order: NaN would come first, as if it were the most confident detection."""
    if nan := int(scores.isnan().sum()):
        raise ValueError(f"{nan} of {len(scores)} scores are NaN: look for NaN in the outputs of the model.")


def _require_objects(scores: Tensor, hits: Tensor, n_objects: int) -> None:
    """Raise a ValueError for scores without an order, and unless there are objects, at least one for each hit."""
    _require_order(scores)
    if n_objects < 1:
        raise ValueError(f"a class without an object has no recall, got n_objects = {n_objects}; leave the class out.")
    if (n_hits := int(hits.sum())) > n_objects:
        raise ValueError(f"{n_hits} hits of {n_objects} objects: an object counts once, for its first hit, as in `find_hits`.")


@shape_checked()
@requires(_require_objects)
def average_precision(scores: Float[Tensor, "n"], hits: Bool[Tensor, "n"], n_objects: int) -> Float[Tensor, ""]:
    """Average the precision over 101 recalls, each time the best precision that reaches the recall.

    Args:
        scores: the confidence of each detection of one class, over all images.
        hits: whether each found an object that no more confident detection had found.
        n_objects: how many objects of the class there are, ≥ 1.

    Returns:
        from 0 to 1; 0 for a recall that is never reached. Equal scores keep their order.

    Raises:
        ValueError: there is no object, so that there is nothing to recall, or there are fewer objects than hits.

    Source: Lin et al. 2014; the 101 recalls are those of COCO's published code.
    """
    found = hits[scores.argsort(descending=True, stable=True)].double().cumsum(0)
    precision = found / torch.arange(1, len(found) + 1, device=found.device)
    best_from_here = precision.flip(0).cummax(0).values.flip(0)
    recalls = 0.01 * torch.arange(101, dtype=torch.float64, device=found.device)  # rounded as COCO's: ties with k / n decide
    first = torch.searchsorted(found / n_objects, recalls)
    return torch.cat([best_from_here, found.new_zeros(1)])[first].mean().to(scores.dtype)


@shape_checked()
@requires(_require_order)
def find_hits(
    scores: Float[Tensor, "n"],
    boxes: Float[Tensor, "n 4"],
    pictures: Int[Tensor, "n"],
    targets: Float[Tensor, "m 4"],
    target_pictures: Int[Tensor, "m"],
    threshold: float = 0.5,
) -> Bool[Tensor, "n"]:
    """Assign detections to objects of their image, the most confident first, each to the free object with the largest overlap.

    Args:
        scores: of the detections of one class.
        boxes: of the detections, by their corners.
        pictures: index of the image of each detection, (n,).
        targets: the boxes of the objects of the class, by their corners.
        target_pictures: index of the image of each object, (m,).
        threshold: the smallest IoU of a hit, above 0 and at most 1.

    Returns:
        (n,), True where a detection claimed an object; an object is claimed only once.

    Raises:
        ValueError: a score is NaN, or the threshold is not in that range.
        TypeError: scores are integers.

    Source: Everingham et al. 2010, section 4.2.2.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"a hit needs an IoU of at least a threshold above 0 and at most 1, got {threshold}; 0.5 is usual.")
    overlaps = iou(boxes, targets).masked_fill(pictures[:, None] != target_pictures, -1.0)
    hits = torch.zeros(len(scores), dtype=torch.bool, device=scores.device)
    for n in scores.argsort(descending=True, stable=True).tolist():
        if overlaps.shape[1] and overlaps[n].max() >= threshold:
            hits[n] = True
            overlaps[:, overlaps[n].argmax()] = -1.0
    return hits


def mean_average_precision(
    probabilities: Float[Tensor, "B N n_classes"],
    boxes: Float[Tensor, "B N 4"],
    classes: Int[Tensor, "B M"],
    targets: Float[Tensor, "B M 4"],
    threshold: float = 0.5,
) -> float:
    """Judge a detector: the mean over the classes of their average precision. AP50 by default.

    Args:
        probabilities: of each class at each query, (B, N, n_classes), "no object" left out; each query counts once for every
            class, as confident as its probability.
        boxes: of the queries, by their corners, (B, N, 4).
        classes: of the objects, (B, M), -1 = no object here.
        targets: their boxes, by their corners, (B, M, 4).
        threshold: the least IoU of a hit, above 0 and at most 1.

    Returns:
        from 0 to 1; classes without an object do not count.

    Raises:
        ValueError: there is no object at all, an object's class has no probability, a probability is NaN, or the
            threshold is not in its range.
    """
    B, N, n_classes = probabilities.shape
    if classes.numel() and (highest := int(classes.max())) >= n_classes:
        raise ValueError(f"an object has class {highest}, but no probability: leave out the column of no object, and no other.")
    pictures = torch.arange(B, device=boxes.device)
    of_class = []
    for c in range(n_classes):
        b, m = (classes == c).nonzero(as_tuple=True)
        if len(b):
            scores = probabilities[..., c].flatten()
            where = pictures.repeat_interleave(N)
            hits = find_hits(scores, boxes.flatten(0, 1), where, targets[b, m], b, threshold)
            of_class.append(average_precision(scores, hits, len(b)))
    if not of_class:
        raise ValueError("no image contains an object: there is nothing to find.")
    return torch.stack(of_class).mean().item()
