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


def draw_maps_with_pins(n: int, seed: int, unseen: bool = False, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Draw n maps (n, 3, 48, 48) with six entries and five pins, each in the colour of another entry.

    Args:
        n: number of maps.
        seed: decides everything that is drawn.
        unseen: use drawings of the symbols and a third of each photograph that no other maps contain.
        device: where the maps go; they are drawn on the CPU.

    Returns:
        the maps, and the symbol of the entry whose colour no pin has (n,).
    """
    generator, n_entries = torch.Generator().manual_seed(seed), 6
    cells = torch.rand(n, GRID * GRID, generator=generator).argsort(1)
    kinds, hues = _kinds_and_hues(n, n_entries, generator)
    of_pins = hues[:, 1:]  # the first entry has none: its place, symbol and colour are random
    entries, pins = cells[:, :n_entries], cells[:, n_entries : 2 * n_entries - 1]
    images = _painted(entries, kinds, hues, pins, of_pins, generator, unseen)
    return images.to(device), kinds[:, 0].to(device)


def _draw(n: int, generator: torch.Generator, unseen: bool) -> Maps:
    each = torch.arange(n)
    pin = torch.randint(GRID * (GRID - 1), (n,), generator=generator)
    pin = pin // (GRID - 1) * GRID + pin % (GRID - 1)  # not in the last column
    order = torch.rand(n, GRID * GRID, generator=generator)
    order[each, pin], order[each, pin + 1] = 2.0, -1.0
    cells = order.argsort(1)[:, :N_ENTRIES]  # that to the right of the pin first
    kinds, hues = _kinds_and_hues(n, N_ENTRIES, generator)
    match = torch.randint(N_ENTRIES, (n,), generator=generator)
    images = _painted(cells, kinds, hues, pin[:, None], hues[each, match][:, None], generator, unseen)
    return Maps(images, kinds[:, 0], kinds[each, match], pin, cells[each, match])


def _kinds_and_hues(n: int, n_entries: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw different symbols for the entries of n maps, and hues that are well apart, (n, n_entries) each."""

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    kinds = rand(n, len(SYMBOLS)).argsort(1)[:, :n_entries]
    hues = rand(n, 1) + (torch.arange(n_entries) + 0.5 * rand(n, n_entries)) / n_entries
    return kinds, hues.gather(1, rand(n, n_entries).argsort(1))


def _painted(
    cells: Tensor, kinds: Tensor, hues: Tensor, pins: Tensor, of_pins: Tensor, generator: torch.Generator, unseen: bool
) -> Tensor:
    """Paint entries, by cell, symbol and hue (n, n_entries), and pins, by cell and hue (n, n_pins), on crops of photographs."""
    each, drawings = torch.arange(len(cells))[:, None], _drawings(int(unseen))

    def colours(hues: Tensor) -> Tensor:
        saturation, value = (0.75 + 0.25 * torch.rand(hues.shape, generator=generator) for _ in range(2))
        return hsv(hues, saturation, value)[..., None, None]

    crops = photograph_crops(len(cells), GRID * CELL, generator, unseen)
    tiles = rearrange(crops, "n C (row h) (column w) -> n (row column) C h w", h=CELL, w=CELL)
    ink = drawings[kinds, torch.randint(_DRAWINGS, kinds.shape, generator=generator)].unsqueeze(2)
    tiles[each, cells] = colours(hues) * (1 - ink) + ink
    disc, inner = _disc(5.3), _disc(4.3)
    tiles[each, pins] = tiles[each, pins] * (1 - disc) + disc * (inner * colours(of_pins) + (1 - inner))
    return rearrange(tiles, "n (row column) C h w -> n C (row h) (column w)", row=GRID)


@cache
def _drawings(seed: int) -> Tensor:
    """Draw each symbol rotated, scaled and moved at random: ink (8, 48, 12, 12) in 0…1."""
    return glyphs(SYMBOLS, _DRAWINGS, CELL, torch.Generator().manual_seed(seed))


def _disc(radius: float) -> Tensor:
    """Fill a disc in the middle of a cell: (12, 12), 1 inside."""
    place = torch.arange(CELL) + 0.5 - CELL / 2
    return (radius - (place[:, None] ** 2 + place**2).sqrt()).clamp(0, 1)
