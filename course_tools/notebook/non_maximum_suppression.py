"""Non-maximum suppression: remove boxes that overlap a more confident one."""

import torch
from torch import Tensor

from course_lib.primitives import iou


def non_maximum_suppression(confidence: Tensor, corners: Tensor, threshold: float = 0.5) -> Tensor:
    """Return which boxes remain when each box that overlaps a more confident remaining one is removed.

    Args:
        confidence: (B, N), of each box.
        corners: (B, N, 4).
        threshold: two boxes overlap if their IoU is above it.

    Returns:
        (B, N), bool.
    """
    above, keep = iou(corners, corners) > threshold, torch.ones_like(confidence, dtype=torch.bool)
    rows, order = torch.arange(len(confidence), device=confidence.device), confidence.argsort(-1, descending=True)
    for rank in range(1, confidence.shape[1]):
        for better in range(rank):
            i, j = order[:, rank], order[:, better]
            keep[rows, i] &= ~(above[rows, i, j] & keep[rows, j])
    return keep
