"""Losses of a binary segmentation mask: the DICE loss and the focal loss, for pairs of a predicted and a true mask.

Carion et al. 2020, section A.2, eq. 11 (https://arxiv.org/abs/2005.12872), after Milletari, Navab, Ahmadi 2016, *V-Net*,
section 3 (https://arxiv.org/abs/1606.04797); Lin, Goyal, Girshick, He, Dollár 2017, *Focal Loss for Dense Object Detection*,
section 3.2, eq. 5 (https://arxiv.org/abs/1708.02002):

    DICE = 1 - (2 Σ p m + 1) / (Σ p + Σ m + 1)        p = σ(logit), m = 1 for a pixel of the object, else 0; Σ over pixels
    FL = mean over pixels of  -α_t (1 - p_t)^γ log p_t        p_t = p where m = 1, else 1 - p;  α_t = α where m = 1, else 1 - α

DICE compares areas, so a small object counts as much as a large one. DETR's mask loss is the sum of the two, for matched pairs.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from course_lib.primitives.precision import rounded_from_float32
from course_lib.primitives.preconditions import shape_checked

__all__ = ["dice_loss", "focal_loss"]


@shape_checked()
@rounded_from_float32
def dice_loss(logits: Float[Tensor, "n H W"], masks: Bool[Tensor, "n H W"]) -> Float[Tensor, ""]:
    """Compute the DICE (F-1) loss of predicted masks: about 1 - 2 |P ∩ M| / (|P| + |M|), averaged over the masks.

    Args:
        logits: of each pixel.
        masks: the true masks.

    Returns:
        from 0 to 1; 0 without any mask.

    Raises:
        ValueError: the shapes differ.
        TypeError: the masks are not bool.

    Source: Carion et al. 2020, eq. 11.
    """
    p = logits.sigmoid()
    both, total = (p * masks).sum((-2, -1)), p.sum((-2, -1)) + masks.sum((-2, -1))
    return _mean_over_masks(1 - (2 * both + 1) / (total + 1))


@shape_checked()
@rounded_from_float32
def focal_loss(
    logits: Float[Tensor, "n H W"], masks: Bool[Tensor, "n H W"], alpha: float = 0.25, gamma: float = 2.0
) -> Float[Tensor, ""]:
    """Compute the focal loss of predicted masks: a cross-entropy in which pixels that are easy to classify count little.

    Args:
        logits: of each pixel.
        masks: the true masks.
        alpha: the weight of the object's pixels; that of the others is 1 - alpha.
        gamma: ≥ 0; at 0, this is the weighted cross-entropy.

    Returns:
        the mean over the pixels of a mask, and over the masks; 0 without any mask.

    Raises:
        ValueError: the shapes differ, alpha is not from 0 to 1, or gamma is negative.
        TypeError: the masks are not bool.

    Source: Lin et al. 2017, eq. 5; α and γ are those of the published code of DETR.
    """
    if not (0 <= alpha <= 1 and gamma >= 0):
        raise ValueError(f"alpha must be from 0 to 1 and gamma at least 0, got {alpha} and {gamma}.")
    z = torch.where(masks, logits, -logits)  # p_t = σ(z)
    each = -(gamma * F.logsigmoid(-z)).exp() * F.logsigmoid(z)
    return _mean_over_masks(torch.where(masks, alpha * each, (1 - alpha) * each).mean((-2, -1)))


def _mean_over_masks(losses: Float[Tensor, "n"]) -> Float[Tensor, ""]:
    return losses.sum() / max(len(losses), 1)
