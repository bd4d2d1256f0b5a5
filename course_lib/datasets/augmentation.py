"""Augmentation of a whole batch of images: one affine grid for all places, one 3 × 3 matrix for the colours of each image.

Simard, Steinkraus, Platt 2003 (https://doi.org/10.1109/ICDAR.2003.1227801) for affine distortions of digits; Chen et al. 2020,
SimCLR, section 3 and appendix A (https://arxiv.org/abs/2002.05709) for two views of one image and for the colours:

    place:   r' = A r + t             r, r' in pixels from the centre of the image, x to the right and y down
    colour:  c' = M c                 M = b · R(hue) · (s I + (1 - s) 1 lᵀ),  l the weights of red, green and blue in a grey

This is a matter of data, and stands here and not among the primitives: no mechanism, block or model augments anything.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from course_lib.shapes import Image

LUMA = (0.299, 0.587, 0.114)
"""l: how much red, green and blue weigh in a grey (ITU-R BT.601)."""


def warp(images: Image, A: Float[Tensor, "B 2 2"], t: Float[Tensor, "B 2"]) -> Image:
    """Move every pixel of every image from r to A r + t, all images of the batch through one grid.

    The new image looks *backwards*: its pixel at r takes what stood at A⁻¹ (r - t), bilinearly between the four pixels
    around that place, and 0 from outside the image.

    Args:
        images: (B, C, H, W); H and W may differ.
        A: (B, 2, 2), a matrix for each image, not singular; the identity leaves all where it is. Its axes are (x, y).
        t: (B, 2), a shift for each image in pixels, (to the right, down).

    Returns:
        images (B, C, H, W). Places r are counted in pixels from the centre of the image, x to the right and y down, so that
        [[cos, -sin], [sin, cos]] turns clockwise on the screen, about the centre.

    Raises:
        RuntimeError: a matrix is singular, or there are not as many matrices and shifts as images.

    Source: Jaderberg et al. 2015, eq. 1 (https://arxiv.org/abs/1506.02025); Simard et al. 2003, section 2.
    """
    H, W = images.shape[-2:]
    half = images.new_tensor([W, H]) / 2
    back = torch.linalg.inv(A)
    origin = -back @ t[..., None]
    grid = F.affine_grid(torch.cat([back * half, origin], dim=-1) / half[:, None], images.shape, align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)
