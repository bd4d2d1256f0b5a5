"""Exercise 12.4, matching_cost: what students answer, wrong and right."""

from collections.abc import Callable

import torch

from course_lib.losses import matching_cost
from course_lib.primitives import giou, iou, to_corners
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Take one query and one object. When is this query a cheap choice for this object: with a high or a low probability of "
        "its class, with boxes near or far, with a large or a small GIoU? Which of the three are subtracted?"
    ),
    (
        "Softmax over all n_classes + 1 logits, then for each object the probability of its class at every query, (…, N, "
        "M). Distances: each box of N against each of M, summed over the four numbers. GIoU expects corners."
    ),
    (
        "The first cost is minus the *probability*, not its logarithm, of the object's class: gather it from the softmax, "
        "with the classes of -1 moved to a valid index. Add the L1 distance of all pairs, subtract the GIoU of the "
        "corners, each with its weight, and set the columns of the missing objects to 0."
    ),
)

WEIGHTS = (1.0, 5.0, 2.0)


def _probability(said, classes):
    """What each query says about the class of each object, (…, N, M)."""
    index = classes.clamp(min=0)[..., None, :].expand(*said.shape[:-1], classes.shape[-1])
    return said.gather(-1, index)


def _cost(said, distance, agreement, classes, weights):
    cost = -weights[0] * _probability(said, classes) + weights[1] * distance - weights[2] * agreement
    return cost.masked_fill((classes < 0)[..., None, :], 0.0)


def _distance(boxes, targets):
    return (boxes[..., :, None, :] - targets[..., None, :, :]).abs().sum(-1)


def _agreement(boxes, targets):
    return giou(to_corners(boxes), to_corners(targets))


@wrong.detail
def takes_the_logarithm(logits, boxes, classes, targets, weights=WEIGHTS):
    """You take the logarithm of the probability, as the loss does. It is unbounded, so it may dominate the terms of the
    boxes: the cost uses the probability itself."""
    return _cost(logits.log_softmax(-1), _distance(boxes, targets), _agreement(boxes, targets), classes, weights)


@wrong.part
def takes_the_logits(logits, boxes, classes, targets, weights=WEIGHTS):
    """You take the logits as they are. Take a softmax over the classes first."""
    return _cost(logits, _distance(boxes, targets), _agreement(boxes, targets), classes, weights)


@wrong.idea
def pays_for_the_right_class(logits, boxes, classes, targets, weights=WEIGHTS):
    """You add the probability of the class. A high probability must make the cost small, so it is subtracted."""
    said = -logits.softmax(-1)
    return _cost(said, _distance(boxes, targets), _agreement(boxes, targets), classes, weights)


@wrong.detail
def leaves_no_object_out(logits, boxes, classes, targets, weights=WEIGHTS):
    """You leave "no object" out of the softmax. The softmax runs over all n_classes + 1."""
    return _cost(logits[..., :-1].softmax(-1), _distance(boxes, targets), _agreement(boxes, targets), classes, weights)


@wrong.part
def lets_the_queries_compete(logits, boxes, classes, targets, weights=WEIGHTS):
    """Your softmax runs over the queries. Each query has a distribution over classes: the sum over the last axis is 1."""
    return _cost(logits.softmax(-2), _distance(boxes, targets), _agreement(boxes, targets), classes, weights)


@wrong.detail
def averages_the_distance(logits, boxes, classes, targets, weights=WEIGHTS):
    """You average over the four numbers of a box. ‖·‖₁ is their sum: your distance is a quarter of it."""
    return _cost(logits.softmax(-1), _distance(boxes, targets) / 4, _agreement(boxes, targets), classes, weights)


@wrong.detail
def measures_as_the_crow_flies(logits, boxes, classes, targets, weights=WEIGHTS):
    """You measure the distance of the boxes by the root of the sum of squares. DETR takes ‖·‖₁, the sum of the absolute
    differences."""
    distance = torch.linalg.vector_norm(boxes[..., :, None, :] - targets[..., None, :, :], dim=-1)
    return _cost(logits.softmax(-1), distance, _agreement(boxes, targets), classes, weights)


@wrong.part
def compares_centres_as_corners(logits, boxes, classes, targets, weights=WEIGHTS):
    """You pass centres and sizes to `giou`, which expects corners. Convert both first."""
    return _cost(logits.softmax(-1), _distance(boxes, targets), giou(boxes, targets), classes, weights)


@wrong.idea
def pays_for_agreement(logits, boxes, classes, targets, weights=WEIGHTS):
    """You add GIoU. It is 1 for equal boxes, so it is subtracted from the cost."""
    return _cost(logits.softmax(-1), _distance(boxes, targets), -_agreement(boxes, targets), classes, weights)


@wrong.case
def ignores_the_weights(logits, boxes, classes, targets, weights=WEIGHTS):
    """You use fixed weights and ignore those that are passed in. With the default ones the mistake has no effect."""
    return _cost(logits.softmax(-1), _distance(boxes, targets), _agreement(boxes, targets), classes, WEIGHTS)


@wrong.case
def charges_for_padding(logits, boxes, classes, targets, weights=WEIGHTS):
    """You leave costs in the columns of padding. A class of -1 is padding, and its column is 0."""
    cost = -weights[0] * _probability(logits.softmax(-1), classes)
    return cost + weights[1] * _distance(boxes, targets) - weights[2] * _agreement(boxes, targets)


@wrong.case
def makes_padding_impossible(logits, boxes, classes, targets, weights=WEIGHTS):
    """You put inf in the columns of padding. There they are 0: the matching leaves them out, and inf times 0 is NaN."""
    cost = _cost(logits.softmax(-1), _distance(boxes, targets), _agreement(boxes, targets), classes, weights)
    return cost.masked_fill((classes < 0)[..., None, :], torch.inf)


@wrong.detail
def measures_between_the_corners(logits, boxes, classes, targets, weights=WEIGHTS):
    """You take the distance of the corners. It is that of the four numbers as they come, centre and size; only GIoU needs
    corners."""
    distance = _distance(to_corners(boxes), to_corners(targets))
    return _cost(logits.softmax(-1), distance, _agreement(boxes, targets), classes, weights)


@wrong.part
def forgets_the_class(logits, boxes, classes, targets, weights=WEIGHTS):
    """You compare the boxes only. The probability of the class is missing from your cost."""
    return _cost(torch.zeros_like(logits), _distance(boxes, targets), _agreement(boxes, targets), classes, weights)


@wrong.part
def forgets_the_distance(logits, boxes, classes, targets, weights=(1.0, 5.0, 2.0)):
    """The L1 distance of the boxes is missing from your cost."""
    return matching_cost(logits, boxes, classes, targets, (weights[0], 0.0, weights[2]))


@wrong.part
def forgets_giou(logits, boxes, classes, targets, weights=(1.0, 5.0, 2.0)):
    """The GIoU of the boxes is missing from your cost."""
    return matching_cost(logits, boxes, classes, targets, (weights[0], weights[1], 0.0))


@right
def by_one_hot_classes(logits, boxes, classes, targets, weights=WEIGHTS):
    """The probabilities by a product with one-hot classes, whose padding is 0 by itself; the distances by cdist."""
    real = (classes >= 0).to(logits.dtype)
    kinds = torch.eye(logits.shape[-1], dtype=logits.dtype)[classes.clamp(min=0)] * real[..., None]
    of_boxes = weights[1] * torch.cdist(boxes, targets, p=1) - weights[2] * _agreement(boxes, targets)
    return of_boxes * real[..., None, :] - weights[0] * logits.softmax(-1) @ kinds.mT


@right
def column_by_column(logits, boxes, classes, targets, weights=WEIGHTS):
    """A loop over the objects; a column of zeros where there is none."""
    if logits.dim() > 2:
        batch = zip(logits, boxes, classes, targets, strict=True)
        return torch.stack([column_by_column(*picture, weights) for picture in batch])
    columns = []
    for kind, target in zip(classes.tolist(), targets, strict=True):
        p = logits.exp()[:, kind] / logits.exp().sum(-1)
        near = giou(to_corners(boxes), to_corners(target)[None])[:, 0]
        cost = weights[1] * (boxes - target).abs().sum(-1) - weights[0] * p - weights[2] * near
        columns.append(cost if kind >= 0 else torch.zeros_like(p))
    return torch.stack(columns, dim=-1) if columns else boxes.new_zeros(len(boxes), 0)


@right
def in_double_precision(logits, boxes, classes, targets, weights=WEIGHTS):
    """In float64, the class picked by comparing with all classes."""
    z, b, t = logits.double(), boxes.double(), targets.double()
    is_kind = classes[..., None, :] == torch.arange(z.shape[-1])[:, None]
    p = torch.einsum("...nk,...km->...nm", z.softmax(-1), is_kind.double())
    cost = weights[1] * _distance(b, t) - weights[0] * p - weights[2] * _agreement(b, t)
    return torch.where(classes[..., None, :] < 0, 0.0, cost).to(logits.dtype)


@stranger
def cost_of_half_the_class(logits, boxes, classes, targets, weights=(1.0, 5.0, 2.0)):
    return matching_cost(logits, boxes, classes, targets, (weights[0] / 2, *weights[1:]))


@stranger
def cost_of_the_largest_difference(logits, boxes, classes, targets, weights=(1.0, 5.0, 2.0)):
    cost = matching_cost(logits, boxes, classes, targets, (weights[0], 0.0, weights[2]))
    largest = (boxes[..., :, None, :] - targets[..., None, :, :]).abs().amax(-1)
    return torch.where((classes >= 0)[..., None, :], cost + weights[1] * largest, 0.0)


@stranger
def cost_of_iou(logits, boxes, classes, targets, weights=(1.0, 5.0, 2.0)):
    cost = matching_cost(logits, boxes, classes, targets, (weights[0], weights[1], 0.0))
    near = iou(to_corners(boxes), to_corners(targets))
    return torch.where((classes >= 0)[..., None, :], cost - weights[2] * near, 0.0)


@stranger(makes=[takes_the_logits, ignores_the_weights])
def cost_of_logits_in_fixed_weights(logits, boxes, classes, targets, weights=(1.0, 5.0, 2.0)):
    wanted = classes.clamp(min=0)[..., None, :].expand(*logits.shape[:-1], classes.shape[-1])
    cost = matching_cost(logits, boxes, classes, targets, (0.0, 5.0, 2.0)) - logits.gather(-1, wanted)
    return torch.where((classes >= 0)[..., None, :], cost, 0.0)


def _scene(draw: Draw, *batch: int, N: int = 5, M: int = 3, n_classes: int = 7, weights: tuple | None = None) -> Call:
    """What N queries say about an image with M objects; no weights = those of the signature."""
    said = 2 * draw.normal(*batch, N, n_classes + 1), draw.boxes(*batch, N)
    there = draw.integers(0, n_classes, *batch, M), draw.boxes(*batch, M)
    return (*said, *there) if weights is None else (*said, *there, weights)


def _one_part(*weights: float) -> Callable[[Draw], list[Call]]:
    return lambda draw: [_scene(draw, weights=weights), _scene(draw, N=2, M=1, weights=weights)]


def _padded(draw: Draw) -> list[Call]:
    """A position without an object first, in the middle, and everywhere."""
    calls = [_scene(draw, M=2), _scene(draw, M=3), _scene(draw, M=2)]
    calls[0][2][0], calls[1][2][1], calls[2][2][:] = -1, -1, -1
    return calls


def _batches(draw: Draw) -> list[Call]:
    call = _scene(draw, 2, N=7, M=5, n_classes=3)
    call[2][0, 3:] = -1
    return [call, _scene(draw, 2, 3, N=3, M=2, n_classes=11)]


exercise = Exercise(
    id="12.4",
    title="The cost of a match",
    reference=matching_cost,
    properties=(
        runs_on(lambda draw: [_scene(draw)]),
        has_shape("A cost for each query, a row, with each object, a column.", lambda draw: [_scene(draw)]),
        Property("class", "The probability of the object's class, subtracted.", _one_part(1.0, 0.0, 0.0), points=2),
        Property("distance", "The sum of the four absolute differences.", _one_part(0.0, 1.0, 0.0)),
        Property("agreement", "GIoU of the corners, subtracted.", _one_part(0.0, 0.0, 1.0)),
        Property("cost", "With no weights given, they are 1, 5 and 2.", lambda draw: [_scene(draw)], points=2),
        Property(
            "weights",
            "Each part is multiplied by its weight.",
            lambda draw: [_scene(draw, weights=(0.7, 1.3, 3.1))],
            needs=("cost",),
        ),
        Property("padding", "The column of padding is 0.", _padded, needs=("cost",)),
        Property("batch", "Each image is computed independently.", _batches, needs=("padding",)),
        leaves_inputs(_batches),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        (
            "All of them have the same length: classes and their marks, and the queries of logits and boxes; "
            "distances have no direction; all classes are int64."
        ): (
            "drop call: classes.clamp(min=0)[..., None, :]",
            "negate: (~classes).shape",
            "other name: boxes.shape (2)",
            "other name: real.shape",
            "swap elements: boxes[:, ..., None, :]",
            "swap operands: (targets[..., None, :, :] - boxes[..., :, None, :]).abs",
        ),
    },
    hints=HINTS,
)
