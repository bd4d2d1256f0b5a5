"""Drawings of digits to compose images and videos from: those of MNIST at half size, no drawing in two parts."""

from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.datasets.mnist import mnist
from course_lib.datasets.splits import Splits

SIDE = 14
"""Rows and columns of a drawing."""
Drawings = Float[Tensor, "10 m 14 14"]
Examples = TypeVar("Examples")


def halved_digits(generator: torch.Generator) -> Splits[Drawings]:
    """Split the 500 drawings of each digit: 350 for training, 50 for validation, 100 for testing; ink from 0 to 1.

    Args:
        generator: source of randomness for the split.

    Returns:
        Splits of drawings (10, m, 14, 14): one row for each digit, the means of 2 × 2 pixels.
    """
    shuffled = torch.randperm(500, generator=generator)
    return Splits(*F.avg_pool2d(mnist().images, 2).view(10, 500, SIDE, SIDE)[:, shuffled].split([350, 50, 100], dim=1))


def composed(
    sizes: tuple[int, int, int], seed: int, compose: Callable[[int, Drawings, torch.Generator], Examples]
) -> Splits[Examples]:
    """Compose three parts, each from its own drawings.

    Args:
        sizes: numbers of images for training, validation and testing.
        seed: determines the split and all random draws of `compose`.
        compose: `(n, drawings (10, m, 14, 14), generator)` makes a part of n images.

    Raises:
        ValueError: a part has no image.
    """
    if min(sizes) < 1:
        raise ValueError(f"each part needs an image, got {sizes[0]}, {sizes[1]} and {sizes[2]}.")
    generator = torch.Generator().manual_seed(seed)
    parts = halved_digits(generator)
    dealt = zip(sizes, (parts.train, parts.valid, parts.test), strict=True)
    return Splits(*(compose(n, drawings, generator) for n, drawings in dealt))


def pairs_of_kinds(n: int, n_kinds: int, generator: torch.Generator) -> tuple[Int[Tensor, "n 2"], Int[Tensor, "n"]]:
    """Draw two digits for each of n images, equal in half of them: the digits (n, 2), and 1 if they are equal.

    For odd n, half is rounded down. The first and the second are uniform over the n_kinds, so neither alone is informative.
    """
    if not 2 <= n_kinds <= 10:
        raise ValueError(f"two different kinds of digits are needed, and there are ten: n_kinds is {n_kinds}.")
    same = torch.randperm(n, generator=generator) % 2
    first = torch.randint(n_kinds, (n,), generator=generator)
    other = (first + torch.randint(1, n_kinds, (n,), generator=generator)) % n_kinds
    return torch.stack([first, torch.where(same == 1, first, other)], dim=1), same


def stamp(
    canvas: Float[Tensor, "*n H W"], drawings: Float[Tensor, "*n h w"], places: Int[Tensor, "*n 2"]
) -> Float[Tensor, "*n H W"]:
    """Lay a drawing on each canvas, its upper left corner at (row, column); where ink overlaps, the darker value is kept."""
    (H, W), (h, w) = canvas.shape[-2:], drawings.shape[-2:]
    rows = torch.arange(H) - places[..., 0, None]
    columns = torch.arange(W) - places[..., 1, None]
    inside = ((rows >= 0) & (rows < h))[..., :, None] & ((columns >= 0) & (columns < w))[..., None, :]
    index = (rows.clamp(0, h - 1)[..., :, None] * w + columns.clamp(0, w - 1)[..., None, :]).flatten(-2)
    laid = drawings.flatten(-2).gather(-1, index).unflatten(-1, (H, W))
    return torch.maximum(canvas, laid * inside)
