"""Mean intersection over union (mIoU) of a segmentation: the overlap of predicted and true pixels, averaged over classes.

Everingham et al. 2010, *The Pascal Visual Object Classes Challenge*, section 4.2 (https://doi.org/10.1007/s11263-009-0275-4),
for the segmentation task:

    IoU_c = |P_c ∩ L_c| / |P_c ∪ L_c|        mIoU = mean_c IoU_c

P_c are the pixels predicted as class c and L_c those labelled c, over all images together. A rare class counts as much as a
frequent one.
"""

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from course_lib.primitives.preconditions import shape_checked

__all__ = ["class_ious", "mean_iou"]


@shape_checked()
def class_ious(
    predicted: Integer[Tensor, "*pixels"], labels: Integer[Tensor, "*pixels"], n_classes: int
) -> Float[Tensor, "n_classes"]:
    """Compute the intersection over union (IoU) of each class, over the pixels of all images.

    Args:
        predicted: the predicted class of each pixel, 0 to n_classes - 1, of any shape, such as (n, H, W).
        labels: the true class of each pixel, of the same shape.
        n_classes: number of classes.

    Returns:
        (n_classes,), each from 0 to 1; NaN for a class that is neither predicted nor labelled.

    Raises:
        ValueError: a class is not 0 to n_classes - 1, or predicted and labels differ in shape.

    Source: Everingham et al. 2010, section 4.2.
    """
    both = torch.stack([predicted.flatten().long(), labels.flatten().long()])  # in uint8, a pair of classes would overflow
    if both.numel() and not 0 <= int(both.min()) <= int(both.max()) < n_classes:
        raise ValueError(f"the classes are 0 to {n_classes - 1}, got {int(both.min())} to {int(both.max())}.")
    counts = torch.bincount(both[0] * n_classes + both[1], minlength=n_classes**2).view(n_classes, n_classes).double()
    hits = counts.diagonal()
    return (hits / (counts.sum(0) + counts.sum(1) - hits)).float()


def mean_iou(predicted: Integer[Tensor, "*pixels"], labels: Integer[Tensor, "*pixels"], n_classes: int) -> float:
    """Evaluate a segmentation by the mean IoU over the classes (mIoU), from 0 to 1.

    Args:
        predicted: the predicted class of each pixel, 0 to n_classes - 1, of any shape, such as (n, H, W).
        labels: the true class of each pixel, of the same shape.
        n_classes: number of classes; one that is neither predicted nor labelled does not count.

    Raises:
        ValueError: a class is not 0 to n_classes - 1.

    Source: Everingham et al. 2010, section 4.2.
    """
    return class_ious(predicted, labels, n_classes).nanmean().item()
