"""Intersection over union (IoU) of segmentation masks, one for each pair of a predicted and a true mask.

Everingham et al. 2010, *The Pascal Visual Object Classes Challenge*, section 4.2 (https://doi.org/10.1007/s11263-009-0275-4),
there for the pixels of a class over all images; here for those of one object, as in COCO (Lin et al. 2014,
https://arxiv.org/abs/1405.0312):

    IoU = |P ∩ M| / |P ∪ M|        P: the pixels predicted, M: those of the object
"""

from jaxtyping import Bool, Float
from torch import Tensor

from course_lib.primitives.preconditions import shape_checked

__all__ = ["mask_ious"]


@shape_checked()
def mask_ious(predicted: Bool[Tensor, "*batch H W"], masks: Bool[Tensor, "*batch H W"]) -> Float[Tensor, "*batch"]:
    """Compute the intersection over union of each predicted mask and the true mask at the same index.

    Args:
        predicted: (*batch, H, W), True for a pixel of the object.
        masks: of the same shape.

    Returns:
        (*batch,), each from 0 to 1; NaN where both masks are empty.

    Raises:
        ValueError: the two differ in shape.
        TypeError: a mask is not bool.

    Source: Lin et al. 2014.
    """
    return (predicted & masks).sum((-2, -1)) / (predicted | masks).sum((-2, -1))
