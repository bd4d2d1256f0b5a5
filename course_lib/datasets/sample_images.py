"""Two colour photographs from scikit-learn, as tensors.

`china.jpg` (a temple roof) by danielbuechele and `flower.jpg` (a dahlia) by vultilion, both CC BY 2.0,
https://scikit-learn.org/stable/modules/generated/sklearn.datasets.load_sample_images.html
"""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from course_lib.optional_import import optional_import
from course_lib.shapes import Image

__all__ = ["photographs", "resize"]

PHOTOGRAPHS = ("china", "flower")


def photographs(size: tuple[int, int] | None = None) -> Image:
    """Load the temple and the dahlia, in the order of PHOTOGRAPHS.

    Args:
        size: (height, width) in pixels to resize to; None keeps the files' 427 × 640.

    Returns:
        (2, 3, H, W), float32, red, green and blue from 0 to 1.
    """
    sklearn = optional_import("sklearn.datasets", "scikit-learn", "The sample photographs")
    pixels = torch.from_numpy(np.stack(sklearn.load_sample_images().images))
    images = pixels.permute(0, 3, 1, 2).float() / 255
    return images.contiguous() if size is None else resize(images, size)


def resize(images: Image, size: tuple[int, int]) -> Float[Tensor, "B C H_new W_new"]:
    """Resize images (B, C, H, W) to `size` = (height, width) bilinearly, with antialiasing when the image shrinks.

    Raises:
        ValueError: a side is less than one pixel.
    """
    if min(size) < 1:
        raise ValueError(f"an image needs at least one pixel on each side, got {size}.")
    return F.interpolate(images, size=size, mode="bilinear", antialias=True, align_corners=False)
