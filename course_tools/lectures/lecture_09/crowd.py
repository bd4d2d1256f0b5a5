"""Draw crowds of pixel creatures: four are coloured, one of each kind; the others are grey and want the colour of their kind.

A kind is a mirrored drawing of 5 × 5 pixels, drawn anew for every picture. So a model cannot learn how the kinds look, only how
to find one that looks the same.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from course_tools.bank.glyphs import hsv
from course_tools.notebook.device import device

CELL, GRID, N_KINDS = 6, 5, 4
"""Side of a cell in pixels, cells in a row of a picture, and kinds in a picture."""
N_UNSEEN = 1_000
"""Drawings that occur in no picture of the training."""


class Crowds(NamedTuple):
    """Pictures (n, 3, 30, 30) in 0…1; of each of the 25 cells its kind, whether it is grey (n, 25), and its colour (n, 25, 3).

    The cells are numbered row by row; `palette` holds the colours of the four kinds, (n, 4, 3).
    """

    images: Tensor
    kinds: Tensor
    is_grey: Tensor
    colours: Tensor
    palette: Tensor


def draw_crowds(n: int, generator: torch.Generator, unseen: bool = False) -> Crowds:
    """Draw n crowds, on the device of the notebook; `unseen` ones consist of drawings that no others contain."""

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    cells, each = GRID**2, torch.arange(n)[:, None]
    of_which = drawings()[-N_UNSEEN:] if unseen else drawings()[:-N_UNSEEN]
    drawn = of_which[torch.randint(len(of_which), (n, N_KINDS), generator=generator)]
    hues = rand(n, 1) + (torch.arange(N_KINDS) + 0.5 * rand(n, N_KINDS)) / N_KINDS
    hues = hues.gather(1, rand(n, N_KINDS).argsort(1))
    colours = hsv(hues, 0.8 + 0.2 * rand(n, N_KINDS), 0.8 + 0.2 * rand(n, N_KINDS))

    order = rand(n, cells).argsort(1)  # the first four cells are the coloured ones
    kinds = torch.randint(N_KINDS, (n, cells), generator=generator)
    kinds[:, :N_KINDS] = torch.arange(N_KINDS)
    grey = (0.4 + 0.5 * rand(n, cells - N_KINDS)).unsqueeze(-1).expand(-1, -1, 3)
    tiles, of_cell = torch.zeros(n, cells, 3, CELL, CELL), torch.empty(n, cells, dtype=torch.long)
    tiles[each, order, :, :5, :5] = drawn[each, kinds].unsqueeze(2) * torch.cat([colours, grey], 1)[..., None, None]
    of_cell[each, order] = kinds
    is_grey = torch.ones(n, cells, dtype=torch.bool).scatter(1, order[:, :N_KINDS], False)
    images = tiles.unflatten(1, (GRID, GRID)).permute(0, 3, 1, 4, 2, 5).reshape(n, 3, GRID * CELL, GRID * CELL)
    parts = images, of_cell, is_grey, colours[each, of_cell], colours
    return Crowds(*(part.to(device()) for part in parts))


def new_crowds(seed: int, n: int = 32) -> Iterator[Crowds]:
    """Draw batches of n new crowds without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield draw_crowds(n, generator)


@cache
def drawings() -> Tensor:
    """Draw all creatures, in a fixed random order: (n, 5, 5), 1 where there is ink.

    They are mirrored left to right, have ink in every row, and 10 to 17 of their 25 pixels are ink.
    """
    half = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 15).unflatten(1, (5, 3))
    whole = torch.cat([half, half[..., :2].flip(-1)], -1)
    ink = whole.sum((1, 2))
    whole = whole[(ink >= 10) & (ink <= 17) & (whole.sum(2) > 0).all(1)]
    return whole[torch.randperm(len(whole), generator=torch.Generator().manual_seed(0))]


def share_right(colours: Tensor, crowds: Crowds, where: Tensor | None = None) -> float:
    """Measure how many grey creatures are given the colour of their kind: nearer to it than to the other three.

    Args:
        colours: (n, 3, 5, 5), one for each cell.
        crowds: n of them.
        where: (n, 25), the cells that count; None = all grey ones.
    """
    nearest = torch.cdist(colours.flatten(2).mT, crowds.palette).argmin(-1)
    return (nearest == crowds.kinds)[crowds.is_grey if where is None else where].float().mean().item()


def painted(images: Tensor, colours: Tensor) -> Tensor:
    """Paint the ink of each cell of pictures (n, 3, 30, 30) in the colour of its cell, (n, 3, 5, 5)."""
    large = colours.clamp(0, 1).repeat_interleave(CELL, 2).repeat_interleave(CELL, 3)
    return large * (images.amax(1, keepdim=True) > 0)
