"""Draw shop windows in colour, each photographed four times: one thing stays, all others are exchanged between the photographs.

The things are glyphs of DejaVu Sans, which Matplotlib contains; between them are crops of `datasets.photographs`.
"""

import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from course_lib.datasets import photographs
from course_tools.notebook.device import device

STAY = "★♥☂✈☎♫⚓♞☀✂"
NAMES = ("star", "heart", "umbrella", "plane", "telephone", "notes", "anchor", "horse", "sun", "scissors")
PASS = "♣♦♪♨⚙⚡☢☯☮♻⚖✎✿❄♛♜⚑☕✚♠☾☠"
"""Things that are exchanged: they stand in any window, and say nothing about it."""
CELL, ROWS, COLUMNS, N_PHOTOS = 12, 2, 3, 4
"""Side of a cell in pixels, cells of a photograph, and photographs of a window."""
_N, _DRAWINGS, _CANVAS, _LARGER, _SHARE = ROWS * COLUMNS, 48, 128, 6, 0.7


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

    kinds = torch.randint(len(STAY), (n,), generator=generator)
    cells = torch.randint(_N, (n, N_PHOTOS), generator=generator)
    drawings, every = _drawings(int(unseen)), (n, N_PHOTOS, _N)
    things = torch.randint(len(STAY), len(drawings), every, generator=generator)
    things.scatter_(2, cells[..., None], kinds[:, None, None].expand(n, N_PHOTOS, 1))
    shown = (rand(*every) < _SHARE).scatter(2, cells[..., None], True)
    ink = drawings[things, torch.randint(_DRAWINGS, every, generator=generator)].unsqueeze(3)
    ground = _colour(rand(*every), 0.75 + 0.25 * rand(*every), 0.5 + 0.5 * rand(*every))[..., None, None]
    crops = _crops(math.prod(every), generator, unseen).view(*every, 3, CELL, CELL)
    tiles = torch.where(shown[..., None, None, None], ground * (1 - ink) + ink, crops)
    photos = rearrange(tiles, "n p (row column) C h w -> n p C (row h) (column w)", row=ROWS)
    return Windows(photos.to(device()), kinds.to(device()), cells.to(device()))


def one_of_each(kinds: Tensor, seed: int) -> Tensor:
    """Draw ten windows, one of each kind: their indices (10,)."""
    order = torch.randperm(len(kinds), generator=torch.Generator().manual_seed(seed)).to(kinds.device)
    return torch.stack([order[kinds[order] == kind][0] for kind in range(len(STAY))])


def _crops(n: int, generator: torch.Generator, unseen: bool) -> Tensor:
    """Crop the photographs, (n, 3, 12, 12): unseen windows use the right third."""
    pixels, (height, width) = _pixels(), _photographs().shape[-2:]
    first, last = (2 * width // 3, width - CELL) if unseen else (0, 2 * width // 3 - CELL)
    which = torch.randint(2, (n,), generator=generator)
    top = torch.randint(height - CELL, (n,), generator=generator)
    left = torch.randint(first, last + 1, (n,), generator=generator)
    side = torch.arange(CELL)
    places = ((which * height + top) * width + left)[:, None, None] + side[:, None] * width + side
    return pixels[places].permute(0, 3, 1, 2)


@cache
def _photographs() -> Tensor:
    return photographs((214, 320)).float()


@cache
def _pixels() -> Tensor:
    """The pixels of all photographs, one after the other (·, 3)."""
    return rearrange(_photographs(), "n C height width -> (n height width) C").contiguous()


@cache
def _drawings(seed: int) -> Tensor:
    """Draw each thing turned, scaled and moved at random: ink (32, 48, 12, 12) in 0…1, those that stay first."""
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([_variants(thing, generator) for thing in STAY + PASS])


def _variants(thing: str, generator: torch.Generator) -> Tensor:
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")), 90)
    canvas = Image.new("L", (_CANVAS, _CANVAS))
    pen = ImageDraw.Draw(canvas)
    left, top, right, bottom = pen.textbbox((0, 0), thing, font=font)
    pen.text(((_CANVAS - left - right) / 2, (_CANVAS - top - bottom) / 2), thing, font=font, fill=255)
    drawn = torch.from_numpy(np.array(canvas)).float() / 255
    turn, size, x, y = 2 * torch.rand(4, _DRAWINGS, generator=generator) - 1
    angle = math.radians(15) * turn
    scale = max(right - left, bottom - top) / _CANVAS * CELL / (9.2 + 0.8 * size)
    rows = [scale * angle.cos(), -scale * angle.sin(), 0.08 * x, scale * angle.sin(), scale * angle.cos(), 0.08 * y]
    shape = [_DRAWINGS, 1, _LARGER * CELL, _LARGER * CELL]
    grid = F.affine_grid(torch.stack(rows, 1).view(-1, 2, 3), shape, align_corners=False)
    large = F.grid_sample(drawn.expand(_DRAWINGS, 1, -1, -1), grid, align_corners=False)
    return F.avg_pool2d(large, _LARGER)[:, 0]


def _colour(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Convert HSV, the hue in turns, to red, green and blue in 0…1 on a new last axis."""
    sector = (hue[..., None] * 6 + torch.tensor([0.0, 4.0, 2.0])) % 6
    return value[..., None] * (1 - saturation[..., None] * (1 - ((sector - 3).abs() - 1).clamp(0, 1)))
