"""Draw stickers in colour: one of ten things each, in a light colour on a dark one or the other way round.

The things are glyphs of DejaVu Sans, which Matplotlib contains. What makes a sticker differ from another of its kind, its turn,
size and colours, is what an augmentation can change.
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from course_tools.bank.glyphs import glyphs, hsv

THINGS = "★♥☂✈☎♫⚓♞☀✂"
NAMES = ("star", "heart", "umbrella", "plane", "telephone", "notes", "anchor", "horse", "sun", "scissors")
SIDE = 12
"""Side of a sticker in pixels."""
_DRAWINGS = 200


class Stickers(NamedTuple):
    """Images (n, 3, 12, 12) in -1…1, where 0 is a middle grey, and what each shows, (n,)."""

    images: Tensor
    kinds: Tensor


def draw_stickers(n: int, seed: int, unseen: bool = False, device: torch.device | str = "cpu") -> Stickers:
    """Draw n stickers by a seed.

    Args:
        n: number of stickers.
        seed: decides everything that is drawn.
        unseen: use drawings of the things that no other stickers contain.
        device: where the stickers go; they are drawn on the CPU.
    """
    generator = torch.Generator().manual_seed(seed)

    def rand() -> Tensor:
        return torch.rand(n, generator=generator)

    kinds = torch.randint(len(THINGS), (n,), generator=generator)
    ink = _drawings(int(unseen))[kinds, torch.randint(_DRAWINGS, (n,), generator=generator)][:, None]
    light = hsv(rand(), 0.2 + 0.6 * rand(), 0.7 + 0.3 * rand())[..., None, None]
    dark = hsv(rand(), 0.4 + 0.6 * rand(), 0.15 + 0.35 * rand())[..., None, None]
    ink = torch.where((rand() < 0.5)[:, None, None, None], ink, 1 - ink)  # light on dark, or dark on light
    return Stickers((2 * (ink * light + (1 - ink) * dark) - 1).to(device), kinds.to(device))


@cache
def _drawings(seed: int) -> Tensor:
    """Draw each thing turned, scaled and moved at random: ink (10, 200, 12, 12) in 0…1."""
    return glyphs(THINGS, _DRAWINGS, SIDE, torch.Generator().manual_seed(seed))
