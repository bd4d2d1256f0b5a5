"""Crop two photographs in colour, for the pictures that lectures draw over them; unseen pictures get a part of their own."""

from functools import cache

import torch
from torch import Tensor

from course_lib.datasets import photographs


def photograph_crops(n: int, side: int, generator: torch.Generator, unseen: bool = False) -> Tensor:
    """Crop `datasets.photographs` at random: (n, 3, side, side) in 0…1.

    Args:
        n: number of crops.
        side: of a crop, in pixels; the photographs have 214 × 320.
        generator: decides which photograph, and where.
        unseen: crop the right third of the photographs, of which no other crop shows anything.
    """
    pixels = _pixels()
    height, width = pixels.shape[1:3]
    first, last = (2 * width // 3, width - side) if unseen else (0, 2 * width // 3 - side)
    which = torch.randint(len(pixels), (n,), generator=generator)
    top = torch.randint(height - side, (n,), generator=generator)
    left = torch.randint(first, last + 1, (n,), generator=generator)
    rows, columns = (low[:, None] + torch.arange(side) for low in (top, left))
    return pixels[which[:, None, None], rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2)


@cache
def _pixels() -> Tensor:
    """The photographs with the channels last, in which a crop takes whole pixels (2, 214, 320, 3)."""
    return photographs((214, 320)).movedim(1, 3).contiguous()
