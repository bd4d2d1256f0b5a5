"""Exercise 12.2, overlap: what students answer, wrong and right."""

import torch
from torch import Tensor

from course_lib.primitives import area, overlap
from course_tools.checks.comparisons import right_result
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
        "The intersection of two boxes is a box. Where is its left edge: at the left edge of the one that begins first, "
        "or of the one that begins later? What becomes of its width when the two lie apart?"
    ),
    (
        "Give both lists an axis for the other one, (…, n, 1, 4) and (…, 1, m, 4). The intersection runs from the larger "
        "of the first corners to the smaller of the second ones; each of its sides is at least 0 before you multiply."
    ),
    (
        "The corner of the intersection is the larger of the two upper left ones, and the smaller of the two lower right "
        "ones. Where the difference is negative there is no intersection: clamp both sides at 0 before you multiply. The "
        "union counts the intersection once."
    ),
)


@wrong.detail
def multiplies_negative_sides(a, b):
    """You never clamp the sides at 0. For boxes that lie apart in both directions the two sides are negative, and their
    product is a positive area that does not exist."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    width, height = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).unbind(-1)
    shared = width * height
    return shared, area(a) + area(b) - shared


@wrong.detail
def clamps_the_product(a, b):
    """You clamp the area and not the sides. A negative product becomes 0, but two negative sides make a positive one: clamp
    each side before you multiply."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    width, height = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).unbind(-1)
    shared = (width * height).clamp(min=0)
    return shared, area(a) + area(b) - shared


@wrong.detail
def counts_pixels(a, b):
    """You add 1 to each side, as older code does for corners that are whole pixels, both counted. Here corners are real
    numbers: a box from 0.2 to 0.5 is 0.3 wide."""
    first, second = a[..., :, None, :], b[..., None, :, :]
    sides = torch.minimum(first[..., 2:], second[..., 2:]) - torch.maximum(first[..., :2], second[..., :2]) + 1
    shared = sides.clamp(min=0).prod(-1)
    areas = ((box[..., 2:] - box[..., :2] + 1).prod(-1) for box in (first, second))
    return shared, sum(areas) - shared


@wrong.idea
def takes_the_box_around_both(a, b):
    """You take the smaller of the first corners and the larger of the second. That is the enclosing box; the intersection
    begins where the later one begins, and ends where the first one ends."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    width, height = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).clamp(min=0).unbind(-1)
    shared = width * height
    return shared, area(a) + area(b) - shared


@wrong.part
def counts_the_shared_part_twice(a, b):
    """Your union is the sum of both areas. The intersection is counted twice."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    return sides[..., 0] * sides[..., 1], area(a) + area(b)


@wrong.part
def covers_the_box_around_both(a, b):
    """You return the enclosing box for the union. The union is smaller."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    around = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    return sides[..., 0] * sides[..., 1], around[..., 0] * around[..., 1]


@wrong.part
def takes_the_shared_part_off_twice(a, b):
    """You subtract the intersection twice: for two equal boxes your union is 0."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    shared = sides[..., 0] * sides[..., 1]
    return shared, area(a) + area(b) - 2 * shared


@wrong.case
def lists_the_second_boxes_in_rows(a, b):
    """Your rows are the boxes of b and your columns those of a. The result is (…, n, m), a row for each box of a."""
    a, b = a[..., None, :, :], b[..., :, None, :]
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    shared = sides[..., 0] * sides[..., 1]
    return shared, area(a) + area(b) - shared


@wrong.detail
def divides_already(a, b):
    """You return the ratio of the two areas as the second result. IoU comes later; here both areas are asked for."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    shared = sides[..., 0] * sides[..., 1]
    return shared, shared / (area(a) + area(b) - shared).clamp(min=1e-12)


@wrong.idea
def compares_widths_only(a, b):
    """You take the width of the intersection for its area: multiply by its height."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    shared = (torch.minimum(a[..., 2], b[..., 2]) - torch.maximum(a[..., 0], b[..., 0])).clamp(min=0)
    return shared, area(a) + area(b) - shared


@wrong.detail
def counts_edges_as_pixels(a, b):
    """You add 1 to every side, as for pixels that are counted from first to last. These boxes are given by their edges: the
    width is the difference."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2]) + 1).clamp(min=0)
    shared = sides[..., 0] * sides[..., 1]
    return shared, area(a) + area(b) - shared


@wrong.detail
def takes_the_first_list_twice(a, b):
    """You add the area of the first box twice instead of that of the second. With boxes of one size the mistake has no
    effect."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    shared = sides[..., 0] * sides[..., 1]
    return shared, 2 * area(a) - shared


@wrong.case
def clamps_the_sides_at_one(a, b):
    """You clamp the sides of the intersection to 0…1. Only 0 is a bound: boxes may be given in pixels."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(0, 1)
    shared = sides[..., 0] * sides[..., 1]
    return shared, area(a) + area(b) - shared


@wrong.case
def cuts_the_boxes_at_zero(a, b):
    """You clamp the corners at 0. A box may extend beyond the edge of the image, and its part outside counts, too."""
    a, b = a.clamp(min=0)[..., :, None, :], b.clamp(min=0)[..., None, :, :]
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    shared = sides[..., 0] * sides[..., 1]
    return shared, area(a) + area(b) - shared


@wrong.detail
def pairs_boxes_one_to_one(a, b):
    """You compare box i of one list with box i of the other. Each box meets each: give a an axis of size 1 after its boxes,
    and b one before."""
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    return shared, (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - shared


@wrong.case
def inserts_the_axes_counted_from_the_front(a, b):
    """You give the boxes their new axes by `[:, None]` and `[None]`, counted from the front. That is right without a batch:
    write `[..., :, None, :]` and `[..., None, :, :]`."""
    first, last = torch.max(a[:, None, :2], b[None, :, :2]), torch.min(a[:, None, 2:], b[None, :, 2:])
    shared = (last - first).clamp(min=0).prod(-1)
    return shared, area(a)[:, None] + area(b) - shared


@wrong.part
def clamps_one_side(a, b):
    """You clamp one side of the intersection at 0 and not the other. Boxes that are apart along the other axis then share a
    negative area."""
    a_, b_ = a[..., :, None, :], b[..., None, :, :]
    sides = torch.minimum(a_[..., 2:], b_[..., 2:]) - torch.maximum(a_[..., :2], b_[..., :2])
    shared = sides[..., 0].clamp(min=0) * sides[..., 1]
    return shared, area(a)[..., :, None] + area(b)[..., None, :] - shared


@right
def by_edges_that_are_cut(a, b):
    """Each box of b cut to the inside of each box of a; what is left of it is shared."""
    a, b = a.unsqueeze(-2), b.unsqueeze(-3)
    left = b.clamp(min=torch.cat([a[..., :2], a[..., :2]], -1), max=torch.cat([a[..., 2:], a[..., 2:]], -1))
    shared = area(left)
    return shared, area(a) + (area(b) - shared)


@right
def side_by_side_in_double_precision(a, b):
    """Widths and heights on their own, in float64."""
    (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = (t.double().unbind(-1) for t in (a, b))

    def shared_side(a_1, a_2, b_1, b_2):
        first, last = torch.maximum(a_1[..., None], b_1[..., None, :]), torch.minimum(a_2[..., None], b_2[..., None, :])
        return torch.relu(last - first)

    shared = shared_side(ax1, ax2, bx1, bx2) * shared_side(ay1, ay2, by1, by2)
    covered = ((ax2 - ax1) * (ay2 - ay1))[..., None] + ((bx2 - bx1) * (by2 - by1))[..., None, :] - shared
    return shared.to(a.dtype), covered.to(a.dtype)


@right
def pair_by_pair(a, b):
    """Two loops over the boxes."""
    shared = [[_shared(a[..., i, :], b[..., j, :]) for j in range(b.shape[-2])] for i in range(a.shape[-2])]
    shared = torch.stack([torch.stack(row, -1) for row in shared], -2)
    return shared, area(a)[..., None] + area(b)[..., None, :] - shared


@stranger
def overlap_of_sides_added(a, b):
    first, second = a[..., :, None, :], b[..., None, :, :]
    sides = (torch.minimum(first[..., 2:], second[..., 2:]) - torch.maximum(first[..., :2], second[..., :2])).clamp(min=0)
    return sides.sum(-1), area(first) + area(second) - sides.sum(-1)


@stranger
def overlap_exchanged(a, b):
    return tuple(overlap(a, b))[::-1]


@stranger
def overlap_of_the_smaller_box(a, b):
    shared, covered = overlap(a, b)
    return torch.minimum(area(a)[..., :, None], area(b)[..., None, :]) + 0 * shared, covered


@stranger(makes=[counts_the_shared_part_twice, compares_widths_only])
def overlap_of_widths_counted_twice(a, b):
    a, b = a[..., :, None, :], b[..., None, :, :]
    shared = (torch.minimum(a[..., 2], b[..., 2]) - torch.maximum(a[..., 0], b[..., 0])).clamp(min=0)
    return shared, area(a) + area(b)


def _shared(a, b):
    width = torch.minimum(a[..., 2], b[..., 2]) - torch.maximum(a[..., 0], b[..., 0])
    height = torch.minimum(a[..., 3], b[..., 3]) - torch.maximum(a[..., 1], b[..., 1])
    return torch.where((width > 0) & (height > 0), width * height, torch.zeros_like(width))


def _corners(draw: Draw, *batch: int) -> Tensor:
    """Boxes by their corners, large enough that most of them share something."""
    first = 0.5 * draw.uniform(*batch, 2)
    return torch.cat([first, first + 0.2 + 0.3 * draw.uniform(*batch, 2)], dim=-1)


def _moved(boxes: Tensor, x: float, y: float) -> Tensor:
    return boxes + torch.tensor([x, y, x, y])


def _touching(draw: Draw) -> list[Call]:
    """Two boxes that share a part of each and differ in size; then one inside the other; then the two in pixels, beyond 0."""
    a = torch.cat([0.1 * draw.uniform(1, 2), 0.5 + 0.1 * draw.uniform(1, 2)], dim=-1)
    b = torch.cat([0.2 + 0.1 * draw.uniform(1, 2), 0.8 + 0.2 * draw.uniform(1, 2)], dim=-1)
    inside = torch.tensor([[0.3, 0.3, 0.35, 0.45]])
    return [(a, b), (a, inside), (100 * a - 40, 100 * b - 40)]


def _apart(draw: Draw) -> list[Call]:
    """A box, and three others: beyond it to the right, below it, and in both directions."""
    a = _corners(draw, 1)
    others = torch.cat([_moved(_corners(draw, 1), x, y) for x, y in ((2.0, 0.0), (0.0, 2.0), (2.0, 3.0))])
    return [(a, others[:1]), (a, others[1:2]), (a, others[2:]), (others, a)]


def _lists(draw: Draw) -> list[Call]:
    n, m, B = draw.sizes(3)
    return [(_corners(draw, n), _corners(draw, m)), (_corners(draw, B, n), _corners(draw, B, m))]


exercise = Exercise(
    id="12.2",
    title="Intersection and union of boxes",
    reference=overlap,
    extra=True,
    properties=(
        runs_on(_touching),
        has_shape("Two areas for each box of a, a row, with each box of b, a column.", _lists),
        Property("intersection", "The area that is in both boxes.", _touching, right_result(0), points=2),
        Property(
            "apart",
            "The intersection of boxes that do not touch is 0.",
            _apart,
            right_result(0),
            points=3,
            needs=("intersection",),
        ),
        Property("union", "The area that is in one box or the other.", _touching, points=2, needs=("intersection",)),
        Property("lists", "Every box of one list with every box of the other.", _lists, needs=("apart", "union")),
        has_gradient(lambda draw: [*_touching(draw), *(call[::-1] for call in _touching(draw))], needs=("union",)),
        leaves_inputs(_lists),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Minimum and maximum have no order; a full slice stands as well before the dots as after them.": (
            "swap arguments: torch.minimum(right_b, right) - torch.maximum(left, left_b)",
            "swap arguments: torch.minimum(right, right_b) - torch.maximum(left_b, left)",
            "swap arguments: torch.minimum(bottom_b, bottom) - torch.maximum(top, top_b)",
            "swap arguments: torch.minimum(bottom, bottom_b) - torch.maximum(top_b, top)",
            "swap elements: a[:, ..., None, :]",
            "swap elements: area(a)[:, ..., None]",
        ),
    },
    hints=HINTS,
)
