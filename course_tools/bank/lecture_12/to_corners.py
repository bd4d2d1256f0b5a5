"""Exercise 12.1, to_corners: what students answer, wrong and right."""

import torch
from torch import Tensor

from course_lib.primitives import to_centres, to_corners
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
        "Draw one box: its centre at (3, 2), 4 wide and 2 high. Where is its left edge, and which of the four numbers did you "
        "need for that?"
    ),
    (
        "Each edge is half a width or half a height from the centre. The four numbers are the last axis, with any number "
        "of axes before it."
    ),
    (
        "Take the four columns apart; a corner is the centre minus or plus *half* of the size. Put the new four together "
        "along the last axis, both coordinates of one corner before those of the other."
    ),
)


@wrong.idea
def takes_the_centre_for_a_corner(boxes):
    """You read (x, y) as the upper left corner and add width and height to it. It is the centre: every box of yours is moved
    to the right and down by half its size."""
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x, y, x + w, y + h], dim=-1)


@wrong.detail
def unpacks_the_first_axis(boxes):
    """You unpack the first axis, `x, y, w, h = boxes`. With four boxes that makes no error, and mixes them: the four numbers
    are on the last axis, `boxes.unbind(-1)`."""
    x, y, w, h = boxes
    return torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], dim=-1)


@wrong.detail
def stacks_on_the_first_axis(boxes):
    """You stack the four numbers on a new first axis, the default of `torch.stack`. They belong on the last: dim=-1."""
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2])


@wrong.detail
def goes_a_whole_width(boxes):
    """You go a whole width and height to either side of the centre. Your boxes are twice as wide and twice as high as the
    objects: from the centre to an edge it is half."""
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x - w, y - h, x + w, y + h], dim=-1)


@wrong.part
def exchanges_width_and_height(boxes):
    """You go half a height sideways and half a width upwards. The third number is the width and belongs to x."""
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x - h / 2, y - w / 2, x + h / 2, y + w / 2], dim=-1)


@wrong.detail
def lists_the_edges_axis_by_axis(boxes):
    """You give left, right, top, bottom. The order asked for is corner by corner: (x_1, y_1), then (x_2, y_2)."""
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x - w / 2, x + w / 2, y - h / 2, y + h / 2], dim=-1)


@wrong.detail
def begins_with_the_row(boxes):
    """You return (y, x) for each corner, in the order of array indices. Boxes have x first, to the right."""
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], dim=-1)


@wrong.detail
def begins_at_the_lower_right(boxes):
    """You return the lower right corner first. The first corner is the upper left one, with the smaller numbers."""
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x + w / 2, y + h / 2, x - w / 2, y - h / 2], dim=-1)


@wrong.case
def takes_the_boxes_apart(boxes):
    """You unbind the first axis, that of the boxes, and not the last one, that of the four numbers."""
    x, y, w, h = boxes.unbind(0)
    return torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], dim=0)


@wrong.part
def keeps_the_size(boxes):
    """You give the upper left corner and then width and height, as some data sets store them. The last two numbers asked for
    are the lower right corner."""
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x - w / 2, y - h / 2, w, h], dim=-1)


@wrong.case
def stays_in_the_picture(boxes):
    """You clamp the corners to 0…1. A box may extend beyond the image, and where it is clamped it has no gradient."""
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], dim=-1).clamp(0, 1)


@wrong.case
def writes_into_the_boxes(boxes):
    """You change the caller's boxes in place. For a leaf tensor with requires_grad autograd raises an error."""
    boxes[..., :2] -= boxes[..., 2:] / 2
    boxes[..., 2:] += boxes[..., :2]
    return boxes


@wrong.detail
def measures_the_upper_edge_upwards(boxes):
    """You let y grow upwards, so the first corner has the larger y. In an image y points down, and the upper edge is at y -
    h/2."""
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x - w / 2, y + h / 2, x + w / 2, y - h / 2], dim=-1)


@right
def by_slices(boxes):
    """Both corners from two slices: the centre, less and plus half the size."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([centre - half, centre + half], dim=-1)


@right
def by_a_matrix(boxes):
    """One product with the matrix that the four equations are, in float64."""
    rows = [[1, 0, -0.5, 0], [0, 1, 0, -0.5], [1, 0, 0.5, 0], [0, 1, 0, 0.5]]
    matrix = torch.tensor(rows, dtype=torch.float64, device=boxes.device)
    return (boxes.double() @ matrix.mT).to(boxes.dtype)


@right
def box_by_box(boxes):
    """A loop over all boxes; the second corner from the first one and the size."""
    flat = boxes.reshape(-1, 4)
    corners = torch.empty_like(flat)
    for i, (x, y, w, h) in enumerate(flat):
        corners[i, 0], corners[i, 1] = x - 0.5 * w, y - 0.5 * h
        corners[i, 2], corners[i, 3] = x + 0.5 * w, y + 0.5 * h
    return corners.reshape(boxes.shape)


@stranger
def corners_turned_back(boxes):
    return to_centres(boxes)


@stranger
def corners_of_squares(boxes):
    side = boxes[..., 2:].mean(-1, keepdim=True) / 2
    return torch.cat([boxes[..., :2] - side, boxes[..., :2] + side], dim=-1)


@stranger
def corners_without_gradient(boxes):
    return to_corners(boxes.detach())


@stranger
def corners_of_a_third(boxes):
    return torch.cat([boxes[..., :2] - boxes[..., 2:] / 3, boxes[..., :2] + boxes[..., 2:] / 3], dim=-1)


@stranger(makes=[exchanges_width_and_height, stays_in_the_picture])
def corners_exchanged_and_cut(boxes):
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x - h / 2, y - w / 2, x + h / 2, y + w / 2], dim=-1).clamp(0, 1)


def _boxes(draw: Draw, *batch: int) -> Tensor:
    """Boxes well inside the image, no two sides alike."""
    return torch.cat([0.4 + 0.2 * draw.uniform(*batch, 2), 0.1 + 0.5 * draw.uniform(*batch, 2)], dim=-1)


def _one(draw: Draw) -> list[Call]:
    return [(_boxes(draw),)]


def _lists(draw: Draw) -> list[Call]:
    first, second = draw.sizes(2)
    return [(_boxes(draw, 4),), (_boxes(draw, first),), (_boxes(draw, first, second),), (_boxes(draw, 2, 1, 3),)]


def _at_the_border(draw: Draw) -> list[Call]:
    """Boxes whose centres lie on the four sides of the image."""
    boxes = _boxes(draw, 4)
    boxes[:, :2] = torch.tensor([[0.0, 0.5], [1.0, 0.5], [0.5, 0.0], [0.5, 1.0]])
    return [(boxes,)]


exercise = Exercise(
    id="12.1",
    title="From centre and size to corners",
    reference=to_corners,
    extra=True,
    properties=(
        runs_on(_one),
        has_shape("Four numbers for a box.", _one),
        Property("edges", "Each edge is half a width or half a height from the centre.", _one, points=2),
        Property("lists", "Any number of axes may come before the last one.", _lists, needs=("edges",)),
        Property("border", "A box may extend beyond the image.", _at_the_border, needs=("lists",)),
        has_gradient(_lists, needs=("edges",)),
        leaves_inputs(_lists),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
