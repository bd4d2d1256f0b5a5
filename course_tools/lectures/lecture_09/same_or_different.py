"""Same-different task: are two distant digits of the same class?

The label depends on the relation of the digits, not on any one of them. Composed here from the drawings of `datasets.mnist`,
at half size. After the same-different problems of Fleuret et al. 2011, *Comparing machines and humans on a visual
categorization test* (https://doi.org/10.1073/pnas.1109168108).
"""

from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.datasets.pictures import LabelledImages
from course_lib.datasets.splits import Splits
from course_tools.bank.drawn_digits import SIDE, Drawings, composed, pairs_of_kinds, stamp

PAPER, ALONE, TWIN = range(3)
_INK = 0.5
"""Pixels darker than this count as ink in the labels of `twins`."""
_CELL = 16


class LabelledPixels(NamedTuple):
    """Images (n, 1, H, W) with ink from 0 to 1, and a class for each pixel, (n, H, W)."""

    images: Float[Tensor, "n 1 H W"]
    labels: Int[Tensor, "n H W"]


def same_or_different(
    n_train: int, n_valid: int, n_test: int, side: int = 44, n_kinds: int = 10, seed: int = 0
) -> Splits[LabelledImages]:
    """Compose images of two digits at opposite borders, labelled by whether they are the same digit.

    Args:
        n_train: images for training.
        n_valid: images for validation.
        n_test: images for testing; no drawing of a digit is in two parts.
        side: rows and columns of the canvas, 28 or more; between the digits are side - 28 rows, or columns.
        n_kinds: number of different digits, the lowest ones; 2 to 10.
        seed: seed of all random draws.

    Returns:
        Splits of LabelledImages (n, 1, side, side); labels are 1 if both digits are equal, else 0: half of each,
        or one more of the latter. The digits are left and right, or above and below, never the same drawing twice.

    Raises:
        ValueError: a part has no image, two digits do not fit the canvas, or n_kinds is not 2 to 10.
    """
    if side < 2 * SIDE:
        raise ValueError(f"two digits of {SIDE} × {SIDE} pixels do not fit side by side on {side} × {side}.")
    return composed((n_train, n_valid, n_test), seed, partial(_two, side=side, n_kinds=n_kinds))


def twins(
    n_train: int, n_valid: int, n_test: int, n_digits: int = 4, n_cells: int = 3, seed: int = 0
) -> Splits[LabelledPixels]:
    """Compose images of several digits, of which exactly two are equal, and label the pixels: `PAPER`, `ALONE`, `TWIN`.

    Args:
        n_train: images for training.
        n_valid: images for validation.
        n_test: images for testing; no drawing of a digit is in two parts.
        n_digits: digits of an image, 2 to 11; all except two are different.
        n_cells: the canvas has n_cells · n_cells cells of 16 × 16 pixels; a digit is in one cell, moved by up to 2 pixels.
        seed: seed of all random draws.

    Returns:
        Splits of LabelledPixels: ink darker than a half is `TWIN` for the two equal digits and `ALONE` for the others;
        everything else, including the faint edges of a digit, is `PAPER`.

    Raises:
        ValueError: a part has no image, or there are too few or too many digits for kinds or cells.
    """
    if not 2 <= n_digits <= min(11, n_cells**2):
        raise ValueError(f"{n_digits} digits: two must be of one kind, the others of ten, each in one of {n_cells**2} cells.")
    return composed((n_train, n_valid, n_test), seed, partial(_several, n_digits=n_digits, n_cells=n_cells))


def _two(n: int, drawings: Drawings, generator: torch.Generator, side: int, n_kinds: int) -> LabelledImages:
    kinds, same = pairs_of_kinds(n, n_kinds, generator)
    which = _different(n, drawings.shape[1], 2, generator)
    across = torch.randint(side - SIDE + 1, (n, 2), generator=generator)
    beside = torch.randint(2, (n, 1), generator=generator) == 1
    images = torch.zeros(n, side, side)
    for i, along in enumerate((0, side - SIDE)):
        place = torch.stack([torch.full((n,), along), across[:, i]], dim=1)
        images = stamp(images, drawings[kinds[:, i], which[:, i]], torch.where(beside, place.flip(1), place))
    return LabelledImages(images.unsqueeze(1), same)


def _several(n: int, drawings: Drawings, generator: torch.Generator, n_digits: int, n_cells: int) -> LabelledPixels:
    kinds = _different(n, 10, n_digits - 1, generator)
    kinds = torch.cat([kinds[:, :1], kinds], dim=1)
    which = _different(n, drawings.shape[1], n_digits, generator)
    cells = _different(n, n_cells**2, n_digits, generator)
    corners = _CELL * torch.stack([cells // n_cells, cells % n_cells], dim=-1)
    places = corners + torch.randint(_CELL - SIDE + 1, corners.shape, generator=generator)
    images, labels = torch.zeros(n, n_cells * _CELL, n_cells * _CELL), torch.full((n, n_cells * _CELL, n_cells * _CELL), PAPER)
    for i in range(n_digits):
        alone = stamp(torch.zeros_like(images), drawings[kinds[:, i], which[:, i]], places[:, i])
        images = torch.maximum(images, alone)
        labels[alone > _INK] = TWIN if i < 2 else ALONE
    return LabelledPixels(images.unsqueeze(1), labels)


def _different(n: int, below: int, n_each: int, generator: torch.Generator) -> Int[Tensor, "n n_each"]:
    """Draw n_each different numbers below `below`, n times."""
    return torch.rand(n, below, generator=generator).argsort(-1)[:, :n_each]
