"""Bounding boxes: two formats, area, intersection over union (IoU) and generalized IoU.

A box is its centre and its size (x, y, w, h), as DETR predicts it, or its corners (x_1, y_1, x_2, y_2); x runs to the right and
y downwards, in fractions of the image, 0 to 1, or in pixels. Areas, and ratios of integer boxes, are float32 or wider.
Rezatofighi et al. 2019, *Generalized Intersection over Union*, algorithm 1 (https://arxiv.org/abs/1902.09630), with C the
smallest box around both:

    IoU = |A ∩ B| / |A ∪ B|        GIoU = IoU - |C without A ∪ B| / |C|

If two boxes do not intersect, IoU is 0 at any distance, while GIoU has a gradient that moves them closer.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import torch
from jaxtyping import Float, Real
from torch import Tensor

from course_lib.shapes import Boxes

__all__ = ["Overlap", "area", "giou", "iou", "overlap", "to_centres", "to_corners"]

Function = TypeVar("Function", bound=Callable[..., Any])


def to_corners(boxes: Boxes) -> Boxes:
    """Convert boxes from centre and size to corners.

    Args:
        boxes: (*batch, 4), centre and size (x, y, w, h).

    Returns:
        (*batch, 4), (x_1, y_1, x_2, y_2): left, top, right and bottom.

    Source: Carion et al. 2020, section 3.1 (https://arxiv.org/abs/2005.12872).
    """
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], dim=-1)


def to_centres(corners: Real[Tensor, "*batch 4"]) -> Boxes:
    """Convert boxes from corners to centre and size, (*batch, 4) -> (*batch, 4): the inverse of `to_corners`."""
    x_1, y_1, x_2, y_2 = corners.to(_ratio_type(corners)).unbind(-1)
    return torch.stack([(x_1 + x_2) / 2, (y_1 + y_2) / 2, x_2 - x_1, y_2 - y_1], dim=-1)


def area(corners: Real[Tensor, "*batch 4"]) -> Float[Tensor, "*batch"]:
    """Compute the area of boxes (*batch, 4) given by their corners; 0 where the right or lower edge is before the other."""
    corners = _wide(corners)
    width, height = (corners[..., 2:] - corners[..., :2]).clamp(min=0).unbind(-1)
    return width * height


class Overlap(NamedTuple):
    """Intersection and union of each pair of boxes, (*batch, n, m): the `shared` area, and the area `covered` by either."""

    shared: Float[Tensor, "*batch n m"]
    covered: Float[Tensor, "*batch n m"]


def _wide(boxes: Real[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Convert to float32 or wider: areas in pixels overflow float16, and sides overflow 8-bit integers."""
    return boxes.to(torch.promote_types(boxes.dtype, torch.float32))


def _ratio_type(boxes: Tensor) -> torch.dtype:
    """Return the dtype of a ratio of areas, and of a centre: that of the boxes, or float32 for integers."""
    return boxes.dtype if boxes.is_floating_point() else torch.float32


def _computed_wide(function: Function) -> Function:
    """Make a function of two lists of boxes compute in float32 or wider, and round ratios to the dtype of the first list."""

    @wraps(function)
    def run(a: Tensor, b: Tensor) -> Any:
        measured = function(_wide(a), _wide(b))
        return measured.to(_ratio_type(a)) if isinstance(measured, Tensor) else measured

    return cast(Function, run)


@_computed_wide
def overlap(a: Real[Tensor, "*batch n 4"], b: Real[Tensor, "*batch m 4"]) -> Overlap:
    """Compute the intersection and the union of each box of one list with each of another.

    Args:
        a: (*batch, n, 4), corners.
        b: (*batch, m, 4), corners.

    Returns:
        shared and covered, (*batch, n, m) each; shared is 0 where two boxes do not intersect.

    Source: Rezatofighi et al. 2019, algorithm 2, lines 2 to 6.
    """
    left, top, right, bottom = a[..., :, None, :].unbind(-1)
    left_b, top_b, right_b, bottom_b = b[..., None, :, :].unbind(-1)
    width = torch.minimum(right, right_b) - torch.maximum(left, left_b)
    height = torch.minimum(bottom, bottom_b) - torch.maximum(top, top_b)
    shared = width.clamp(min=0) * height.clamp(min=0)
    return Overlap(shared, area(a)[..., :, None] + area(b)[..., None, :] - shared)


@_computed_wide
def iou(a: Real[Tensor, "*batch n 4"], b: Real[Tensor, "*batch m 4"]) -> Float[Tensor, "*batch n m"]:
    """Compute the intersection over union (IoU) of each box of one list with each of another.

    Args:
        a: (*batch, n, 4), corners.
        b: (*batch, m, 4), corners.

    Returns:
        (*batch, n, m), from 0 (no intersection) to 1 (the same box); 0 where both are empty.

    Source: Rezatofighi et al. 2019, algorithm 2, line 7.
    """
    shared, covered = overlap(a, b)
    return shared / torch.where(covered > 0, covered, 1.0)


@_computed_wide
def giou(a: Real[Tensor, "*batch n 4"], b: Real[Tensor, "*batch m 4"]) -> Float[Tensor, "*batch n m"]:
    """Compute the generalized IoU of each box of one list with each of another, even if they do not intersect.

    Args:
        a: (*batch, n, 4), corners.
        b: (*batch, m, 4), corners.

    Returns:
        (*batch, n, m), above -1 (far apart) and up to 1 (the same box): IoU, less the fraction of the smallest enclosing
        box that neither of them covers. A ratio of two areas is 0 where both are 0.

    Source: Rezatofighi et al. 2019, algorithm 1.
    """
    shared, covered = overlap(a, b)
    left, top, right, bottom = a[..., :, None, :].unbind(-1)
    left_b, top_b, right_b, bottom_b = b[..., None, :, :].unbind(-1)
    width = torch.maximum(right, right_b) - torch.minimum(left, left_b)
    height = torch.maximum(bottom, bottom_b) - torch.minimum(top, top_b)
    around = width.clamp(min=0) * height.clamp(min=0)
    return shared / torch.where(covered > 0, covered, 1.0) - (around - covered) / torch.where(around > 0, around, 1.0)
