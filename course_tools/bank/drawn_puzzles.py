"""Draw puzzles in colour: two copies of a crop of a photograph, half of whose patches differ, and a bundle of cables."""

from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

from course_lib.primitives import patchify, unpatchify
from course_tools.bank.photograph_crops import photograph_crops

P, GRID = 6, 4
"""Side of a patch in pixels, and patches in a row of a copy."""
H, W = GRID * P, 2 * GRID * P
"""Height and width of a puzzle: the copies are side by side."""
N = 2 * GRID**2
"""Patches of a puzzle, row by row."""


class Puzzles(NamedTuple):
    """Puzzles (n, 3, 24, 48), about 0…1, and whether each patch differs from its counterpart in the other copy (n, 32)."""

    images: Tensor
    differs: Tensor


def draw_puzzles(n: int, seed: int, unseen: bool = False, device: torch.device | str = "cpu") -> Puzzles:
    """Draw n puzzles by a seed.

    Each patch of the right copy is replaced with probability one half by one of another crop. All pixels get noise of 0.05.

    Args:
        n: number of puzzles.
        seed: decides everything that is drawn.
        unseen: use a third of each photograph that no other puzzles contain.
        device: where the puzzles go; they are drawn on the CPU.
    """
    generator = torch.Generator().manual_seed(seed)
    copy, other = (patchify(photograph_crops(n, H, generator, unseen), P) for _ in range(2))
    other = other[:, torch.randperm(GRID**2, generator=generator)]
    differs = torch.rand(n, GRID**2, generator=generator) < 0.5
    patches = _beside(copy, torch.where(differs[..., None], other, copy))
    patches = patches + 0.05 * torch.randn(patches.shape, generator=generator)
    marks = _beside(differs[..., None], differs[..., None]).squeeze(-1)
    return Puzzles(unpatchify(patches, P, H, W).to(device), marks.to(device))


class Bundle(NamedTuple):
    """A bundle of cables: the one that ends in place i starts in place order[i], and multiplies its patch by gain[i]."""

    order: Tensor
    gain: Tensor


def draw_bundle(seed: int) -> Bundle:
    """Draw a bundle of 32 cables: any order, gains of ¼ to 1, and a minus for about half of them."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(N, generator=generator)
    minus = torch.rand(N, generator=generator) < 0.5
    size = 0.25 + 0.75 * torch.rand(N, generator=generator)
    return Bundle(order, torch.where(minus, -size, size))


def through_bundle(puzzles: Puzzles, order: Tensor, gain: Tensor | None = None) -> Puzzles:
    """Show puzzles at the end of a bundle; the gains multiply the distance of a pixel from grey, 0.5. None = all are 1."""
    order = order.to(puzzles.images.device)
    patches = patchify(puzzles.images, P)[:, order]
    if gain is not None:
        patches = 0.5 + gain.to(patches.device)[:, None] * (patches - 0.5)
    return Puzzles(unpatchify(patches, P, H, W), puzzles.differs[:, order])


def on_either_side(puzzles: Puzzles, seed: int) -> Puzzles:
    """Exchange the two patches of about half of all pairs of puzzles in order: a replaced patch may be in either copy."""
    image = rearrange(patchify(puzzles.images, P), "n (row copy column) d -> n row copy column d", row=GRID, copy=2)
    n, generator = len(image), torch.Generator().manual_seed(seed)
    turned = (torch.rand(n, GRID, 1, GRID, 1, generator=generator) < 0.5).to(image.device)
    return puzzles._replace(images=unpatchify(torch.where(turned, image.flip(2), image).flatten(1, 3), P, H, W))


def from_many_crops(puzzles: Puzzles) -> Puzzles:
    """Take the 16 pairs of each puzzle in order from 16 different puzzles: what surrounds a pair tells nothing about it."""
    patches, pairs = patchify(puzzles.images, P), counterparts(torch.arange(N))
    rows = torch.arange(len(patches))[:, None] + torch.minimum(torch.arange(N), pairs)  # the same for both of a pair
    rows, places = (rows % len(patches)).to(patches.device), torch.arange(N, device=patches.device)
    return Puzzles(unpatchify(patches[rows, places], P, H, W), puzzles.differs[rows, places])


def counterparts(order: Tensor) -> Tensor:
    """Find for each place at the end of a bundle the place of its counterpart (32,)."""
    row, column = order // (2 * GRID), order % (2 * GRID)
    return order.argsort()[row * 2 * GRID + (column + GRID) % (2 * GRID)]


def _beside(left: Tensor, right: Tensor) -> Tensor:
    """Order the patches of two copies (n, 16, d) as those of a puzzle (n, 32, d)."""
    return rearrange(torch.stack([left, right], 2), "n (row column) copy d -> n (row copy column) d", row=GRID)
