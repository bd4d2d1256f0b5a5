"""Exercise 12.3, giou: what students answer, wrong and right."""

import torch
from torch import Tensor

from course_lib.primitives import area, giou, iou, overlap, to_centres
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Draw two small boxes with a gap between them, and move them further apart. Their IoU stays 0. Which area grows, and "
        "which part of it do the two boxes not cover?"
    ),
    (
        "C is the smallest box around both: from the smaller of the first corners to the larger of the second. Subtract "
        "the part of C that is outside the union, divided by C."
    ),
    (
        "C is the smallest box around both: minimum of the upper left, maximum of the lower right corners. From the IoU "
        "subtract the part of C that neither box covers. Both fractions need a divisor that is never 0."
    ),
)


def _around(a, b):
    a, b = a[..., :, None, :], b[..., None, :, :]
    sides = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    return sides[..., 0] * sides[..., 1]


def _ratio(part, whole):
    return part / whole.clamp(min=torch.finfo(whole.dtype).tiny)


@wrong.idea
def stops_at_iou(a, b):
    """You give IoU. It is 0 for all boxes that do not touch, near or far; GIoU subtracts the fraction of the enclosing box
    that is outside the union."""
    return _ratio(*overlap(a, b))


@wrong.part
def divides_by_the_union(a, b):
    """You divide the area outside the union by the union. Divide by the enclosing box; yours may fall far below -1."""
    shared, covered = overlap(a, b)
    return _ratio(shared, covered) - _ratio(_around(a, b) - covered, covered)


@wrong.part
def takes_the_shared_part_off(a, b):
    """You subtract the enclosing box without the *intersection*. Take the part outside the *union*: for a box inside
    another GIoU equals IoU."""
    shared, covered = overlap(a, b)
    first = torch.minimum(a[..., :, None, :2], b[..., None, :, :2])
    last = torch.maximum(a[..., :, None, 2:], b[..., None, :, 2:])
    around = (last - first).prod(-1)
    least = torch.finfo(around.dtype).tiny
    return shared / covered.clamp(min=least) - (around - shared) / around.clamp(min=least)


@wrong.idea
def adds_what_is_free(a, b):
    """You add the fraction outside the union to IoU. Subtract it: the farther two boxes are apart, the smaller GIoU must
    be."""
    shared, covered = overlap(a, b)
    around = _around(a, b)
    return _ratio(shared, covered) + _ratio(around - covered, around)


@wrong.idea
def takes_the_inner_corners(a, b):
    """Your enclosing box runs from the larger of the first corners to the smaller of the second. That is the intersection:
    the enclosing box reaches to the outermost edges."""
    shared, covered = overlap(a, b)
    around = shared
    return _ratio(shared, covered) - _ratio(around - covered, around)


@wrong.part
def takes_the_sum_for_the_box_around(a, b):
    """You take the sum of the two areas for the area of the enclosing box. That is independent of the gap between them."""
    shared, covered = overlap(a, b)
    around = area(a)[..., :, None] + area(b)[..., None, :]
    return _ratio(shared, covered) - _ratio(around - covered, around)


@wrong.part
def takes_off_an_area(a, b):
    """You subtract the area outside the union without dividing it by the enclosing box: yours depends on the scale."""
    shared, covered = overlap(a, b)
    return _ratio(shared, covered) - (_around(a, b) - covered)


@wrong.detail
def gives_the_loss(a, b):
    """You return 1 - GIoU, which is the loss. GIoU is 1 for equal boxes."""
    shared, covered = overlap(a, b)
    around = _around(a, b)
    return 1 - (_ratio(shared, covered) - _ratio(around - covered, around))


@wrong.case
def divides_zero_by_zero(a, b):
    """You divide by areas that may be 0. Two empty boxes give 0 / 0, which is NaN; such a ratio counts as 0 here."""
    shared, covered = overlap(a, b)
    around = _around(a, b)
    return shared / covered - (around - covered) / around


@wrong.case
def adds_an_epsilon(a, b):
    """You add a small number to the areas before you divide by them. Small boxes have small areas: with 1e-6, a box with
    sides of a thousandth of the image has a GIoU of ½ with itself. Replace a divisor only where it is 0."""
    shared, covered = overlap(a, b)
    around = _around(a, b)
    return shared / (covered + 1e-6) - (around - covered) / (around + 1e-6)


@wrong.detail
def ends_at_zero(a, b):
    """You clamp the result at 0. For boxes that do not touch GIoU is negative; clamped, they have no gradient."""
    shared, covered = overlap(a, b)
    around = _around(a, b)
    return (_ratio(shared, covered) - _ratio(around - covered, around)).clamp(min=0)


@wrong.part
def divides_by_the_smaller_box(a, b):
    """You divide the intersection by the smaller of the two boxes. IoU divides by the union."""
    shared, covered = overlap(a, b)
    around = _around(a, b)
    smaller = torch.minimum(area(a)[..., :, None], area(b)[..., None, :])
    return _ratio(shared, smaller) - _ratio(around - covered, around)


@wrong.detail
def measures_only_those_apart(a, b):
    """You subtract the fraction outside the union only where two boxes do not touch. It is always subtracted."""
    shared, covered = overlap(a, b)
    around = _around(a, b)
    free = _ratio(around - covered, around)
    return torch.where(shared > 0, _ratio(shared, covered), -free)


@wrong.case
def cuts_the_boxes_at_zero(a, b):
    """You clamp the corners at 0. A box may extend beyond the edge of the image, and its part outside counts, too."""
    a, b = a.clamp(min=0), b.clamp(min=0)
    shared, covered = overlap(a, b)
    around = _around(a, b)
    return _ratio(shared, covered) - _ratio(around - covered, around)


@wrong.idea
def takes_off_the_distance_of_the_centres(a, b):
    """You take off the squared distance of the centres, over the squared diagonal: that is DIoU. GIoU takes off the share of
    the enclosing box that neither covers."""
    one, other = a[..., :, None, :], b[..., None, :, :]
    apart = (to_centres(one) - to_centres(other))[..., :2].square().sum(-1)
    around = torch.maximum(one[..., 2:], other[..., 2:]) - torch.minimum(one[..., :2], other[..., :2])
    return iou(a, b) - _ratio(apart, around.square().sum(-1))


@right
def as_one_sum(a, b):
    """IoU - 1 + the share that is covered: the same, with one subtraction less, where the areas are not 0."""
    shared, covered = overlap(a, b)
    around = _around(a, b)
    result = _ratio(shared, covered) - 1 + _ratio(covered, around)
    return torch.where(around > 0, result, torch.zeros_like(result))


@right
def pair_by_pair(a, b):
    """Two loops, and no function of the course."""
    rows = [[_one(a[..., i, :], b[..., j, :]) for j in range(b.shape[-2])] for i in range(a.shape[-2])]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def _one(a, b):
    width = (torch.minimum(a[..., 2], b[..., 2]) - torch.maximum(a[..., 0], b[..., 0])).relu()
    height = (torch.minimum(a[..., 3], b[..., 3]) - torch.maximum(a[..., 1], b[..., 1])).relu()
    outer_width = torch.maximum(a[..., 2], b[..., 2]) - torch.minimum(a[..., 0], b[..., 0])
    outer_height = torch.maximum(a[..., 3], b[..., 3]) - torch.minimum(a[..., 1], b[..., 1])
    both = (a[..., 2] - a[..., 0]) * (a[..., 3] - a[..., 1]) + (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])
    shared, around = width * height, outer_width * outer_height
    union = both - shared
    zero = torch.zeros_like(shared)
    found = torch.where(union > 0, shared / torch.where(union > 0, union, 1.0), zero)
    return found - torch.where(around > 0, (around - union) / torch.where(around > 0, around, 1.0), zero)


@right
def in_double_precision(a, b):
    """Everything in float64, the free share as 1 - covered / around where there is anything around."""
    shared, covered = overlap(a.double(), b.double())
    around = _around(a.double(), b.double())
    free = torch.where(around > 0, 1 - _ratio(covered, around), torch.zeros_like(around))
    return (_ratio(shared, covered) - free).to(a.dtype)


@stranger
def half_of_giou(a, b):
    return giou(a, b) / 2


@stranger
def iou_less_the_distance(a, b):
    centres = to_centres(a)[..., :, None, :2], to_centres(b)[..., None, :, :2]
    return iou(a, b) - (centres[0] - centres[1]).square().sum(-1)


@stranger
def giou_squared(a, b):
    return giou(a, b).square()


@stranger(makes=[gives_the_loss, ends_at_zero])
def giou_as_a_loss_cut_at_one(a, b):
    return 1 - giou(a, b).clamp(min=0)


def _corners(draw: Draw, *batch: int) -> Tensor:
    """Boxes by their corners, large enough that most of them share something."""
    first = 0.5 * draw.uniform(*batch, 2)
    return torch.cat([first, first + 0.2 + 0.3 * draw.uniform(*batch, 2)], dim=-1)


def _moved(boxes: Tensor, x: float, y: float) -> Tensor:
    return boxes + torch.tensor([x, y, x, y])


def _touching(draw: Draw) -> list[Call]:
    """Two boxes that share a part of each; then the same in an image ten times as large, beyond its edges at 0."""
    a = torch.cat([0.1 * draw.uniform(1, 2), 0.5 + 0.1 * draw.uniform(1, 2)], dim=-1)
    b = torch.cat([0.2 + 0.1 * draw.uniform(1, 2), 0.8 + 0.2 * draw.uniform(1, 2)], dim=-1)
    return [(a, b), (10 * a - 4, 10 * b - 4)]


def _inside(draw: Draw) -> list[Call]:
    """A box inside another, and a box with itself, also a small one."""
    a = torch.cat([0.1 * draw.uniform(1, 2), 0.8 + 0.2 * draw.uniform(1, 2)], dim=-1)
    b = torch.cat([0.3 + 0.1 * draw.uniform(1, 2), 0.5 + 0.1 * draw.uniform(1, 2)], dim=-1)
    return [(a, b), (b, a), (b, b), (b / 300, b / 300)]


def _apart(draw: Draw) -> list[Call]:
    """A box beside another, below it, and far away in both directions."""
    a = _corners(draw, 1)
    return [(a, _moved(_corners(draw, 1), x, y)) for x, y in ((1.1, 0.0), (0.0, 1.3), (7.0, 5.0))]


def _on_either_side(draw: Draw) -> list[Call]:
    """Boxes that touch and boxes that do not, the first of them once before the second and once after it."""
    calls = [*_touching(draw), *_apart(draw)]
    return [*calls, *(call[::-1] for call in calls)]


def _lists(draw: Draw) -> list[Call]:
    n, m, B = draw.sizes(3)
    return [(_corners(draw, n), _corners(draw, m)), (_corners(draw, B, n), _corners(draw, B, m))]


def _empty(draw: Draw) -> list[Call]:
    """Boxes of no area: in two positions, in one position, and beside a real one."""
    point, box = draw.uniform(1, 2).repeat(1, 2), _corners(draw, 1)
    return [(point, point), (point, _moved(point, 0.3, 0.2)), (point, _moved(box, 1.0, 1.0))]


exercise = Exercise(
    id="12.3",
    title="Generalised IoU",
    reference=giou,
    extra=True,
    properties=(
        runs_on(_touching),
        has_shape("A number for each box of a, a row, with each box of b, a column.", _lists),
        Property("inside", "Where one box contains the other, GIoU equals IoU.", _inside, points=2),
        Property("apart", "Boxes that do not touch: the farther apart, the smaller.", _apart, points=2),
        Property("intersecting", "Boxes that intersect, at any scale and place.", _touching, points=2),
        Property("lists", "Every box of one list with every box of the other.", _lists, needs=("apart", "intersecting")),
        Property("empty", "A ratio of two areas counts 0 where both are 0.", _empty, needs=("apart",)),
        has_gradient(_on_either_side, needs=("apart", "intersecting")),
        leaves_inputs(_lists),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        (
            "Minimum and maximum have no order; the sides of the box around both are never negative, and none that is "
            "drawn is empty; a full slice stands as well before the dots as after them; where nothing is shared or "
            "covered, no matter what it is divided by; a comparison carries no gradient; what is written over is not "
            "read again."
        ): (
            "constant: width.clamp(min=-1)",
            "constant: height.clamp(min=-1)",
            "constant: torch.where(around > 0, around, 2.0)",
            "constant: torch.where(covered > 0, covered, 2.0)",
            "detach: around.detach() > 0",
            "detach: covered.detach() > 0",
            "drop call: width * height.clamp(min=0)",
            "drop call: width.clamp(min=0) * height",
            (
                "in place: shared.div_(torch.where(covered > 0, covered, 1.0)) - (around - covered) / torch.where(around "
                "> 0, around, 1.0)"
            ),
            "other name: height > 0 (2)",
            "other name: width > 0 (2)",
            "other name: shared > 0",
            "swap arguments: torch.maximum(bottom, bottom_b) - torch.minimum(top_b, top)",
            "swap arguments: torch.maximum(bottom_b, bottom) - torch.minimum(top, top_b)",
            "swap arguments: torch.maximum(right, right_b) - torch.minimum(left_b, left)",
            "swap arguments: torch.maximum(right_b, right) - torch.minimum(left, left_b)",
            "swap elements: a[:, ..., None, :]",
        ),
    },
    hints=HINTS,
)
