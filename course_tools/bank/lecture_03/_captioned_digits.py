"""Images of two handwritten digits, composed here, with a caption each: "three left of seven".

The digits are those of `bank.drawn_digits`. Which digits, which drawings, their positions and their relation are
drawn from a seed. The digit named first is on the left, or above, so each image has one right caption.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.datasets.splits import Splits
from course_tools.bank.drawn_digits import SIDE, Drawings, composed, stamp

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_RELATIONS = ("left of", "above")
_CANVAS, _ASKEW = 42, 6


class Captions(NamedTuple):
    """Images (n, 1, 42, 42) with ink from 0 to 1, a caption for each, and `corners` (n, 2, 2).

    corners[i, j] is (top, left) of the digit that caption i names first (j = 0) or second; each covers 14 × 14 pixels.
    """

    images: Float[Tensor, "n 1 42 42"]
    captions: tuple[str, ...]
    corners: Int[Tensor, "n 2 2"]


def captioned_digits(n_train: int, n_valid: int, n_test: int, seed: int = 0) -> Splits[Captions]:
    """Compose images of two digits, with captions: "three left of seven", "two above two".

    Args:
        n_train: images for training.
        n_valid: images for validation.
        n_test: images for testing; no drawing of a digit is in two parts.
        seed: seed of the random draw.

    Returns:
        Splits of Captions. The digits do not overlap; in the other direction they are within six pixels of each other if
        possible.

    Raises:
        ValueError: a part has no image.
    """
    return composed((n_train, n_valid, n_test), seed, _compose)


def _compose(n: int, drawings: Drawings, generator: torch.Generator) -> Captions:
    digits = torch.randint(10, (n, 2), generator=generator)
    which = torch.randint(drawings.shape[1], (n, 2), generator=generator)
    relation = torch.randint(2, (n,), generator=generator)
    along, across = _along(n, generator), _across(n, generator)
    beside = (relation == 0)[:, None]
    corners = torch.stack([torch.where(beside, across, along), torch.where(beside, along, across)], dim=-1)
    images = torch.zeros(n, _CANVAS, _CANVAS)
    for j in range(2):
        images = stamp(images, drawings[digits[:, j], which[:, j]], corners[:, j])
    captions = (f"{NAMES[i]} {_RELATIONS[r]} {NAMES[j]}" for (i, j), r in zip(digits.tolist(), relation.tolist(), strict=True))
    return Captions(images[:, None], tuple(captions), corners)


def _along(n: int, generator: torch.Generator) -> Int[Tensor, "n 2"]:
    """Draw the start of two digits, one to the right of the other."""
    gaps = torch.randint(_CANVAS - 2 * SIDE + 1, (n, 2), generator=generator).sort(-1).values
    return gaps + torch.tensor([0, SIDE])


def _across(n: int, generator: torch.Generator) -> Int[Tensor, "n 2"]:
    """Draw the start of two digits in the other direction: near each other."""
    centre = torch.randint(_CANVAS - SIDE + 1, (n, 1), generator=generator)
    return (centre + torch.randint(-_ASKEW // 2, _ASKEW // 2 + 1, (n, 2), generator=generator)).clamp(0, _CANVAS - SIDE)
