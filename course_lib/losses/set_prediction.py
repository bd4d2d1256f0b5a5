"""Detection as the prediction of a set: each object is matched with one query, and the loss compares the pairs.

Carion et al. 2020, *End-to-End Object Detection with Transformers*, section 3.1, eqs. 1-2 (https://arxiv.org/abs/2005.12872):

    σ̂ = argmin_σ Σ_i C(y_i, ŷ_σ(i))        C = -p̂_σ(i)(c_i) + L_box(b_i, b̂_σ(i))
    L_box = λ_L1 ‖b - b̂‖₁ + λ_iou (1 - GIoU(b, b̂))
    L = Σ_i [-log p̂_σ̂(i)(c_i) + 1{c_i ≠ ∅} L_box(b_i, b̂_σ̂(i))]        ∅ = no object, with a smaller weight

Images have different numbers of objects: lists are padded to the longest, and the class of padding is -1.
The last of the n_classes + 1 logits is that of ∅. Boxes are centre and size, as fractions of the image.
A ValueError is raised for a class that is neither -1 nor one of 0 … n_classes - 1 (∅ is not passed as a class), for an
object assigned to a query that does not exist, and for two objects assigned to one query.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.losses.matching import Matching, match
from course_lib.primitives import giou, to_corners
from course_lib.primitives.preconditions import requires, shape_checked, values_are_known

__all__ = ["SetLoss", "deep_set_loss", "matching_cost", "set_loss"]

Predictions = Float[Tensor, "*batch N n_classes_1"]
Objects = Int[Tensor, "*batch M"]
_PADDED = "Every image has its row: pad lists of objects to the longest by the class -1."


class BoxWeights(NamedTuple):
    """Weights of the parts of a cost or a loss: the class, the L1 distance of the boxes, and their GIoU."""

    classes: float = 1.0
    l1: float = 5.0
    giou: float = 2.0


DETR_WEIGHTS = BoxWeights()
"""λ_L1 = 5, λ_iou = 2: Carion et al. 2020, section 4 and the published code."""


class SetLoss(NamedTuple):
    """The three parts of the loss: of the `classes` of all queries, and of the boxes of those that have an object."""

    classes: Float[Tensor, ""]
    l1: Float[Tensor, ""]
    giou: Float[Tensor, ""]

    def total(self, weights: BoxWeights = DETR_WEIGHTS) -> Float[Tensor, ""]:
        """Compute the weighted sum of the parts."""
        return weights.classes * self.classes + weights.l1 * self.l1 + weights.giou * self.giou


def _require_known_classes(logits: Tensor, boxes: Tensor, classes: Tensor, *rest: Any, **options: Any) -> None:
    """Raise a ValueError for classes other than -1 and 0 to n_classes - 1."""
    n_classes = logits.shape[-1] - 1
    if classes.numel() and values_are_known(classes):
        lowest, highest = torch.stack(classes.aminmax()).tolist()  # one transfer from a GPU
        if lowest < -1 or highest >= n_classes:
            raise ValueError(f"classes are 0 to {n_classes - 1}, and -1 means no object; got {lowest} to {highest}.")


@shape_checked(_PADDED)
@requires(_require_known_classes)
def matching_cost(
    logits: Predictions,
    boxes: Float[Tensor, "*batch N 4"],
    classes: Objects,
    targets: Float[Tensor, "*batch M 4"],
    weights: tuple[float, float, float] = DETR_WEIGHTS,
) -> Float[Tensor, "*batch N M"]:
    """Compute the matching cost of each query and each object of an image.

    Args:
        logits: of the classes, the last is "no object", (*batch, N, n_classes + 1).
        boxes: predicted by the queries, centre and size, (*batch, N, 4).
        classes: of the objects, (*batch, M), from 0 on; -1 = no object here, whose costs are 0.
        targets: the boxes of the objects, (*batch, M, 4).
        weights: of the probability of the class, of the L1 distance, and of GIoU.

    Returns:
        (*batch, N, M): -p(class) + 5 ‖b - b̂‖₁ - 2 GIoU, by default; the 1 of 1 - GIoU is the same for all and omitted.

    Source: Carion et al. 2020, eq. 1 and section 3.1; p instead of log p, so that the parts are of similar size.
    """
    real = (classes >= 0)[..., None, :]
    wanted = classes.clamp(min=0).long()[..., None, :].expand(*logits.shape[:-1], classes.shape[-1])
    probability = logits.softmax(-1).gather(-1, wanted)
    distance = (boxes[..., :, None, :] - targets[..., None, :, :]).abs().sum(-1)
    agreement = giou(to_corners(boxes), to_corners(targets))
    cost = -weights[0] * probability + weights[1] * distance - weights[2] * agreement
    return torch.where(real, cost, 0.0)


def _require_assigned(
    logits: Tensor, boxes: Tensor, classes: Tensor, targets: Tensor, queries: Tensor, no_object: float = 0.1
) -> None:
    """Raise a ValueError for an object without a query, and for two with one: -1 would be read as the last, one class lost."""
    _require_known_classes(logits, boxes, classes)
    if not queries.numel() or not values_are_known(classes, queries):
        return
    n_queries, real = logits.shape[-2], classes >= 0
    image = torch.arange(len(queries), device=queries.device)[:, None]
    none = -1 - torch.arange(queries.numel(), device=queries.device).view_as(queries)  # all different, and no query
    pairs = torch.where(real, image * n_queries + queries, none).flatten().sort().values
    shared = (pairs[1:] == pairs[:-1]).sum()
    assigned = torch.where(real, queries, 0).long()
    lowest, highest, n_shared = torch.stack([*assigned.aminmax(), shared]).tolist()  # one transfer from a GPU
    if lowest < 0 or highest >= n_queries:
        raise ValueError(f"an object needs a query from 0 to {n_queries - 1}, got {lowest} to {highest}; -1 is for no object.")
    if n_shared:
        raise ValueError(f"{n_shared} queries have two objects: one class would be lost. Assign one each, as `match` does.")


@shape_checked(_PADDED)
@requires(_require_assigned)
def set_loss(
    logits: Float[Tensor, "B N n_classes_1"],
    boxes: Float[Tensor, "B N 4"],
    classes: Int[Tensor, "B M"],
    targets: Float[Tensor, "B M 4"],
    queries: Int[Tensor, "B M"],
    no_object: float = 0.1,
) -> SetLoss:
    """Compute the set prediction loss, given the assignment of queries to objects.

    Args:
        logits: of the classes, the last is "no object", (B, N, n_classes + 1).
        boxes: predicted by the queries, centre and size, (B, N, 4).
        classes: of the objects, (B, M), from 0 on; -1 = no object here.
        targets: the boxes of the objects, (B, M, 4).
        queries: the query assigned to each object, (B, M); values for a class of -1 have no effect.
        no_object: the weight of a query without an object in the loss of the classes; one with an object has weight 1.

    Returns:
        classes: the weighted mean cross-entropy of all B·N queries: Σ weight · -log p / Σ weight, and 0 if all weights are
        0. l1 and giou: the sums of ‖b - b̂‖₁ and of 1 - GIoU over all pairs, divided by the number of objects in the
        batch, at least 1.

    Source: Carion et al. 2020, eq. 2 and section A.2.
    """
    b, m = (classes >= 0).nonzero(as_tuple=True)
    n = queries[b, m]
    said = torch.full(logits.shape[:2], logits.shape[-1] - 1, device=logits.device)
    said[b, n] = classes[b, m].long()
    weight = torch.where(said == logits.shape[-1] - 1, logits.new_tensor(no_object), 1.0)
    surprise = -logits.log_softmax(-1).gather(-1, said[..., None]).squeeze(-1)
    distance = (boxes[b, n] - targets[b, m]).abs().sum()
    agreement = giou(to_corners(boxes[b, n])[:, None], to_corners(targets[b, m])[:, None])
    n_objects = max(len(b), 1)
    total_weight = weight.sum()
    of_classes = (weight * surprise).sum() / torch.where(total_weight > 0, total_weight, 1.0)
    return SetLoss(of_classes, distance / n_objects, (1 - agreement).sum() / n_objects)


@shape_checked(_PADDED)
def deep_set_loss(
    logits: Float[Tensor, "n_layers B N n_classes_1"],
    boxes: Float[Tensor, "n_layers B N 4"],
    classes: Int[Tensor, "B M"],
    targets: Float[Tensor, "B M 4"],
    matching: Matching = match,
    no_object: float = 0.1,
    weights: BoxWeights = DETR_WEIGHTS,
) -> Float[Tensor, ""]:
    """Sum the set losses of all layers of a decoder, each with its own matching: the auxiliary losses of DETR.

    Args:
        logits: (n_layers, B, N, n_classes + 1).
        boxes: (n_layers, B, N, 4).
        classes: (B, M), -1 = no object here.
        targets: (B, M, 4).
        matching: chooses a query for each object, such as `match`, `(cost (B, N, M), classes (B, M)) -> (B, M)`.
        no_object: as in `set_loss`.
        weights: of the parts, in the cost and in the loss.

    Returns:
        the sum over the layers.

    Raises:
        ValueError: an image has more objects than there are queries, or a class is not among those of the logits.

    Source: Carion et al. 2020, sections 3.1 and 3.2, "Auxiliary decoding losses".
    """
    loss = logits.new_zeros(())
    for layer_logits, layer_boxes in zip(logits, boxes, strict=True):
        with torch.no_grad():
            cost = matching_cost(layer_logits, layer_boxes, classes, targets, weights)
        queries = matching(cost, classes)
        loss = loss + set_loss(layer_logits, layer_boxes, classes, targets, queries, no_object).total(weights)
    return loss
