"""Batch image augmentation: affine warp and colour matrix, drawn for each image and applied to the whole batch at once.

Simard, Steinkraus, Platt 2003 (https://doi.org/10.1109/ICDAR.2003.1227801) for affine distortions of digits; Chen et al. 2020,
SimCLR, section 3 and appendix A (https://arxiv.org/abs/2002.05709) for two views of one image and for the colours:

    position: r' = A r + t            r, r' in pixels from the centre of the image, x to the right and y down
    colour:   c' = M c                M = b · R(hue) · (s I + (1 - s) 1 lᵀ)       l: the weight of each colour in a grey value

It belongs to the data sets, not to the primitives: no mechanism, block or model augments anything.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from course_lib.shapes import Image

__all__ = ["Augmentation", "colour_matrix", "recolour", "warp"]

LUMA = (0.299, 0.587, 0.114)
"""l: the weights of red, green and blue in a grey value (ITU-R BT.601)."""


def warp(images: Image, A: Float[Tensor, "B 2 2"], t: Float[Tensor, "B 2"]) -> Image:
    """Move every pixel of every image from r to A r + t, all images of the batch through one grid.

    Inverse warping: the new pixel at r is the old image at A⁻¹ (r - t), interpolated bilinearly between the four pixels
    around that position, and 0 outside the image.

    Args:
        images: (B, C, H, W); H and W may differ.
        A: (B, 2, 2), a matrix for each image, not singular; the identity moves nothing. Its axes are (x, y).
        t: (B, 2), a shift for each image in pixels, (to the right, down).

    Returns:
        images (B, C, H, W). Positions r are counted in pixels from the centre of the image, x to the right and y down, so that
        [[cos, -sin], [sin, cos]] turns clockwise on the screen, about the centre.

    Raises:
        RuntimeError: a matrix is singular, or the numbers of matrices, shifts and images differ.

    Source: Jaderberg et al. 2015, eq. 1 (https://arxiv.org/abs/1506.02025); Simard et al. 2003, section 2.
    """
    H, W = images.shape[-2:]
    half = images.new_tensor([W, H]) / 2
    back = torch.linalg.inv(A)
    origin = -back @ t[..., None]
    M = torch.cat([back * half, origin], dim=-1) / half[:, None]  # (B, 2, 3), in halves of the sides
    x, y = (torch.linspace(-1, 1, n, dtype=A.dtype, device=A.device) * (n - 1) / n for n in (W, H))
    read_at = M[..., 0, None, None] * x + M[..., 1, None, None] * y[:, None] + M[..., 2, None, None]  # (B, 2, H, W)
    return F.grid_sample(images, read_at.permute(0, 2, 3, 1), align_corners=False)  # F.affine_grid takes ten times as long


def recolour(images: Float[Tensor, "B 3 H W"], M: Float[Tensor, "B 3 3"]) -> Float[Tensor, "B 3 H W"]:
    """Map the colour c of every pixel of images (B, 3, H, W) to M c, M (B, 3, 3); results may lie outside 0…1."""
    return einsum(M, images, "B new old, B old H W -> B new H W")


def colour_matrix(
    brightness: Float[Tensor, "B"], saturation: Float[Tensor, "B"], hue: Float[Tensor, "B"]
) -> Float[Tensor, "B 3 3"]:
    """Join three changes of colour in one matrix for each image: saturation first, then hue, then brightness.

    Args:
        brightness: (B,), a factor on all colours; 1 changes nothing.
        saturation: (B,), 0 leaves only grey, 1 changes nothing, larger values intensify the colours.
        hue: (B,), an angle in radians by which colours turn about the axis of greys; a third of a circle turns red into green.

    Returns:
        M = b · R(hue) · (s I + (1 - s) 1 lᵀ), (B, 3, 3).

    Source: Haeberli 1993, *Matrix Operations for Image Processing*, with l of ITU-R BT.601 as `LUMA`.
    """
    eye, ones = (f(3, dtype=hue.dtype, device=hue.device) for f in (torch.eye, torch.ones))
    s, b, angle = (x[:, None, None] for x in (saturation, brightness, hue))
    grey = ones[:, None] * ones.new_tensor(LUMA)
    across = (eye.roll(1, 0) - eye.roll(-1, 0)) / math.sqrt(3)
    turn = angle.cos() * eye + (1 - angle.cos()) / 3 + angle.sin() * across
    return b * turn @ (s * eye + (1 - s) * grey)


@dataclass(frozen=True)
class Augmentation:
    """Ranges to draw a random view of each image from; the defaults change nothing.

    `turn` and `hue` are the largest angles in radians; `zoom` and `brightness` the largest factors, 1/factor
    being the smallest; `shear` the largest slant, x + shear · y; `shift` the largest shift as a fraction of the sides; `flip`
    the probability of a horizontal flip; `saturation` how far the factor may be from 1.
    """

    turn: float = 0.0
    zoom: float = 1.0
    shear: float = 0.0
    shift: float = 0.0
    flip: float = 0.0
    brightness: float = 1.0
    saturation: float = 0.0
    hue: float = 0.0

    def __call__(self, images: Image, generator: torch.Generator) -> Image:
        """Draw one view of each image (B, C, H, W); colours change if there are three channels."""
        A, t = self.draw_affine(len(images), (images.shape[-2], images.shape[-1]), generator)
        views = warp(images, A.to(images), t.to(images))
        return recolour(views, self.draw_colours(len(images), generator).to(images)) if images.shape[1] == 3 else views

    def draw_affine(self, n: int, size: tuple[int, int], generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw n matrices A = zoom · R(turn) · [[±1, shear], [0, 1]] and shifts t for images of `size` (H, W)."""
        turn, zoom, shear, right, down = 2 * torch.rand(5, n, generator=generator) - 1
        mirror = 1 - 2 * (torch.rand(n, generator=generator) < self.flip).float()
        angle, slant = self.turn * turn, self.shear * shear
        cos, sin = angle.cos(), angle.sin()
        A = torch.stack([cos * mirror, cos * slant - sin, sin * mirror, sin * slant + cos], dim=-1).unflatten(-1, (2, 2))
        return A * (self.zoom**zoom)[:, None, None], self.shift * torch.stack([size[1] * right, size[0] * down], dim=-1)

    def draw_colours(self, n: int, generator: torch.Generator) -> Float[Tensor, "n 3 3"]:
        """Draw n matrices for colours."""
        brightness, saturation, hue = 2 * torch.rand(3, n, generator=generator) - 1
        return colour_matrix(self.brightness**brightness, 1 + self.saturation * saturation, self.hue * hue)
