"""Boxes around objects: two ways to write them, and how well two of them agree.

A box is its centre and its size (x, y, w, h), as DETR predicts it, or its corners (x_1, y_1, x_2, y_2); x runs to the right and
y downwards, in parts of the picture, 0 to 1. Rezatofighi et al. 2019, *Generalized Intersection over Union*, algorithm 1
(https://arxiv.org/abs/1902.09630), with C the smallest box around both:

    IoU = |A ∩ B| / |A ∪ B|        GIoU = IoU - |C without A ∪ B| / |C|

Where two boxes do not touch, IoU is 0 however far they are apart, and GIoU tells by its gradient where to go.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.shapes import Boxes


def to_corners(boxes: Boxes) -> Boxes:
    """Write boxes by their corners.

    Args:
        boxes: (*batch, 4), centre and size (x, y, w, h).

    Returns:
        (*batch, 4), (x_1, y_1, x_2, y_2): left, top, right and bottom.

    Source: Carion et al. 2020, section 3.1 (https://arxiv.org/abs/2005.12872).
    """
    x, y, w, h = boxes.unbind(-1)
    return torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], dim=-1)


def to_centres(corners: Boxes) -> Boxes:
    """Write boxes by centre and size: the inverse of `to_corners`, (*batch, 4) -> (*batch, 4)."""
    x_1, y_1, x_2, y_2 = corners.unbind(-1)
    return torch.stack([(x_1 + x_2) / 2, (y_1 + y_2) / 2, x_2 - x_1, y_2 - y_1], dim=-1)


def area(corners: Boxes) -> Float[Tensor, "*batch"]:
    """Measure boxes (*batch, 4) given by their corners; 0 for one whose right or lower edge lies before the other."""
    width, height = (corners[..., 2:] - corners[..., :2]).clamp(min=0).unbind(-1)
    return width * height


class Overlap(NamedTuple):
    """Of each pair of boxes, (*batch, n, m): the area that both `shared`, and the area that the two `covered` together."""

    shared: Float[Tensor, "*batch n m"]
    covered: Float[Tensor, "*batch n m"]


def overlap(a: Float[Tensor, "*batch n 4"], b: Float[Tensor, "*batch m 4"]) -> Overlap:
    """Lay each box of one list over each of another, and measure their intersection and their union.

    Args:
        a: (*batch, n, 4), corners.
        b: (*batch, m, 4), corners.

    Returns:
        shared and covered, (*batch, n, m) each; shared is 0 where two boxes do not touch.

    Source: Rezatofighi et al. 2019, algorithm 2, lines 2 to 6.
    """
    left, top, right, bottom = a[..., :, None, :].unbind(-1)
    left_b, top_b, right_b, bottom_b = b[..., None, :, :].unbind(-1)
    width = torch.minimum(right, right_b) - torch.maximum(left, left_b)
    height = torch.minimum(bottom, bottom_b) - torch.maximum(top, top_b)
    shared = width.clamp(min=0) * height.clamp(min=0)
    return Overlap(shared, area(a)[..., :, None] + area(b)[..., None, :] - shared)


def iou(a: Float[Tensor, "*batch n 4"], b: Float[Tensor, "*batch m 4"]) -> Float[Tensor, "*batch n m"]:
    """Compare each box of one list with each of another: the area that they share, in parts of the area that they cover.

    Args:
        a: (*batch, n, 4), corners.
        b: (*batch, m, 4), corners.

    Returns:
        (*batch, n, m), from 0 (nothing in common) to 1 (the same box); 0 where both are empty.

    Source: Rezatofighi et al. 2019, algorithm 2, line 7.
    """
    shared, covered = overlap(a, b)
    return shared / torch.where(covered > 0, covered, 1.0)


def giou(a: Float[Tensor, "*batch n 4"], b: Float[Tensor, "*batch m 4"]) -> Float[Tensor, "*batch n m"]:
    """Compare each box of one list with each of another, also where they do not touch.

    Args:
        a: (*batch, n, 4), corners.
        b: (*batch, m, 4), corners.

    Returns:
        (*batch, n, m), above -1 (far apart) and up to 1 (the same box): IoU, less the share of the smallest box around both
        that neither of them covers. A ratio of two areas is 0 where both are 0.

    Source: Rezatofighi et al. 2019, algorithm 1.
    """
    shared, covered = overlap(a, b)
    left, top, right, bottom = a[..., :, None, :].unbind(-1)
    left_b, top_b, right_b, bottom_b = b[..., None, :, :].unbind(-1)
    width = torch.maximum(right, right_b) - torch.minimum(left, left_b)
    height = torch.maximum(bottom, bottom_b) - torch.minimum(top, top_b)
    around = width.clamp(min=0) * height.clamp(min=0)
    return shared / torch.where(covered > 0, covered, 1.0) - (around - covered) / torch.where(around > 0, around, 1.0)
