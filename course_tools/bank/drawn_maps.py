"""Draw maps with a legend, in colour: a pin, four entries with a colour and a symbol each, over a crop of a photograph.

The symbols are glyphs of DejaVu Sans, which Matplotlib contains; the photographs are those of `datasets.photographs`. Two
questions have an answer in every map: which symbol is beside the pin, and which has the pin's colour.
"""

from functools import cache
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

from course_tools.bank.glyphs import glyphs, hsv
from course_tools.bank.photograph_crops import photograph_crops

SYMBOLS = "★♥☂✈☎♫⚓♞"
NAMES = ("star", "heart", "umbrella", "plane", "telephone", "notes", "anchor", "horse")
CELL, GRID, N_ENTRIES = 12, 4, 4
"""Side of a cell in pixels, cells in a row of a map, and entries of its legend."""
_DRAWINGS = 48


class Maps(NamedTuple):
    """Maps (n, 3, 48, 48) in 0…1, the answers to both questions, the cells of the pin and of the entry of its colour (n,)."""

    images: Tensor
    beside: Tensor
    colour: Tensor
    pin: Tensor
    entry: Tensor


def draw_maps(n: int, seed: int, unseen: bool = False, device: torch.device | str = "cpu") -> Maps:
    """Draw n maps by a seed.

    Args:
        n: number of maps.
        seed: decides everything that is drawn.
        unseen: use drawings of the symbols and a third of each photograph that no other maps contain.
        device: where the maps go; they are drawn on the CPU.
    """
    generator = torch.Generator().manual_seed(seed)
    parts = [_draw(min(256, n - start), generator, unseen) for start in range(0, n, 256)]
    return Maps(*(torch.cat(part).to(device) for part in zip(*parts, strict=True)))


def _draw(n: int, generator: torch.Generator, unseen: bool) -> Maps:
    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    each, drawings = torch.arange(n), _drawings(int(unseen))
    pin = torch.randint(GRID * (GRID - 1), (n,), generator=generator)
    pin = pin // (GRID - 1) * GRID + pin % (GRID - 1)  # not in the last column
    order = rand(n, GRID * GRID)
    order[each, pin], order[each, pin + 1] = 2.0, -1.0
    cells = order.argsort(1)[:, :N_ENTRIES]  # that to the right of the pin first
    kinds = rand(n, len(SYMBOLS)).argsort(1)[:, :N_ENTRIES]
    hues = rand(n, 1) + (torch.arange(N_ENTRIES) + 0.5 * rand(n, N_ENTRIES)) / N_ENTRIES
    hues = hues.gather(1, rand(n, N_ENTRIES).argsort(1))
    match = torch.randint(N_ENTRIES, (n,), generator=generator)

    crops = photograph_crops(n, GRID * CELL, generator, unseen)
    tiles = rearrange(crops, "n C (row h) (column w) -> n (row column) C h w", h=CELL, w=CELL)
    ink = drawings[kinds, torch.randint(_DRAWINGS, (n, N_ENTRIES), generator=generator)].unsqueeze(2)
    ground = hsv(hues, 0.75 + 0.25 * rand(n, N_ENTRIES), 0.75 + 0.25 * rand(n, N_ENTRIES))
    tiles[each[:, None], cells] = ground[..., None, None] * (1 - ink) + ink
    filling = hsv(hues[each, match], 0.75 + 0.25 * rand(n), 0.75 + 0.25 * rand(n))[..., None, None]
    disc, inner = _disc(5.3), _disc(4.3)
    tiles[each, pin] = tiles[each, pin] * (1 - disc) + disc * (inner * filling + (1 - inner))
    images = rearrange(tiles, "n (row column) C h w -> n C (row h) (column w)", row=GRID)
    return Maps(images, kinds[:, 0], kinds[each, match], pin, cells[each, match])


@cache
def _drawings(seed: int) -> Tensor:
    """Draw each symbol rotated, scaled and moved at random: ink (8, 48, 12, 12) in 0…1."""
    return glyphs(SYMBOLS, _DRAWINGS, CELL, torch.Generator().manual_seed(seed))


def _disc(radius: float) -> Tensor:
    """Fill a disc in the middle of a cell: (12, 12), 1 inside."""
    place = torch.arange(CELL) + 0.5 - CELL / 2
    return (radius - (place[:, None] ** 2 + place**2).sqrt()).clamp(0, 1)
