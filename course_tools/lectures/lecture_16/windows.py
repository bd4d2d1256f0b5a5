"""Draw shop windows in colour, each photographed four times: one thing stays, all others are exchanged between the photographs.

The things are glyphs of DejaVu Sans, which Matplotlib contains; between them are crops of `datasets.photographs`.
"""

import math
from functools import cache
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

from course_tools.bank.drawn_stickers import THINGS
from course_tools.bank.glyphs import glyphs, hsv
from course_tools.bank.photograph_crops import photograph_crops
from course_tools.notebook.device import device

PASS = "♣♦♪♨⚙⚡☢☯☮♻⚖✎✿❄♛♜⚑☕✚♠☾☠"
"""Things that are exchanged: they stand in any window, and say nothing about it."""
CELL, ROWS, COLUMNS, N_PHOTOS = 12, 2, 3, 4
"""Side of a cell in pixels, cells of a photograph, and photographs of a window."""
_N, _DRAWINGS, _SHARE = ROWS * COLUMNS, 48, 0.7


class Windows(NamedTuple):
    """Photographs of windows (n, 4, 3, 24, 36) in 0…1, which thing stays (n,), and its cell on each photograph (n, 4)."""

    photos: Tensor
    kinds: Tensor
    cells: Tensor


def draw_windows(n: int, seed: int, unseen: bool = False) -> Windows:
    """Draw n windows by a seed, on the device of the notebook.

    On each photograph every thing has a new colour, turn and size, and stands in a new cell. Seven of ten cells beside the one
    thing that stays hold one of 22 others, the rest a crop of a photograph.

    Args:
        n: number of windows.
        seed: decides everything that is drawn.
        unseen: use drawings of the things and a third of each photograph that no other windows contain.
    """
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    kinds = torch.randint(len(THINGS), (n,), generator=generator)
    cells = torch.randint(_N, (n, N_PHOTOS), generator=generator)
    drawings, every = _drawings(int(unseen)), (n, N_PHOTOS, _N)
    things = torch.randint(len(THINGS), len(drawings), every, generator=generator)
    things.scatter_(2, cells[..., None], kinds[:, None, None].expand(n, N_PHOTOS, 1))
    shown = (rand(*every) < _SHARE).scatter(2, cells[..., None], True)
    ink = drawings[things, torch.randint(_DRAWINGS, every, generator=generator)].unsqueeze(3)
    ground = hsv(rand(*every), 0.75 + 0.25 * rand(*every), 0.5 + 0.5 * rand(*every))[..., None, None]
    crops = photograph_crops(math.prod(every), CELL, generator, unseen).reshape(*every, 3, CELL, CELL)
    tiles = torch.where(shown[..., None, None, None], ground * (1 - ink) + ink, crops)
    photos = rearrange(tiles, "n p (row column) C h w -> n p C (row h) (column w)", row=ROWS)
    return Windows(photos.to(device()), kinds.to(device()), cells.to(device()))


def one_of_each(kinds: Tensor, seed: int) -> Tensor:
    """Draw ten windows, one of each kind: their indices (10,)."""
    order = torch.randperm(len(kinds), generator=torch.Generator().manual_seed(seed)).to(kinds.device)
    return torch.stack([order[kinds[order] == kind][0] for kind in range(len(THINGS))])


def cells_of(windows: Windows) -> Tensor:
    """Cut the photographs into their cells, row by row: (n, 4, 6, 3, 12, 12)."""
    return rearrange(windows.photos, "n p C (row h) (column w) -> n p (row column) C h w", row=ROWS, w=CELL)


def thing_of(windows: Windows) -> Tensor:
    """Cut the cell of the thing that stays out of each photograph, (n, 4, 3, 12, 12)."""
    return cells_of(windows)[torch.arange(len(windows.kinds))[:, None], torch.arange(N_PHOTOS), windows.cells]


@cache
def _drawings(seed: int) -> Tensor:
    """Draw each thing turned, scaled and moved at random: ink (32, 48, 12, 12) in 0…1, those that stay first."""
    return glyphs(THINGS + PASS, _DRAWINGS, CELL, torch.Generator().manual_seed(seed))
