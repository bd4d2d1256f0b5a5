"""Draw crowds: pixel creatures of two kinds on photographs, often a small one right in front of a large one of its kind.

Each creature has a colour of its own. The two of a pair share their centre, so that no place tells which of them is meant,
and their boxes overlap by an IoU of 0.51 to 0.6, so that suppression at 0.5 takes one for a duplicate of the other.
"""

from functools import cache

import torch
from torch import Tensor

from course_lib.datasets import Scenes, photographs
from course_tools.notebook.device import device

SIDE, N_KINDS, MOST = 32, 2, 4
"""Side of a scene in pixels, kinds of creatures, and the most creatures in a scene."""
_DRAWINGS = (".#.#. ##### #.#.# ##### #.#.#", "##### #.#.# ##### .###. ##.##")


def draw_crowds(n: int, seed: int, unseen: bool = False, pairs: float = 0.5) -> Scenes:
    """Draw n scenes (n, 3, 32, 32) of one to four creatures, on the device of the notebook; the lists have a random order.

    One or two creatures stand in different quarters of a scene; each may have a smaller one of its kind in front of it.

    Args:
        n: number of scenes.
        seed: decides everything that is drawn.
        unseen: use a third of each photograph that no other scenes contain.
        pairs: how often a creature has another in front of it.
    """
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    def whole(low: int, high: int) -> Tensor:
        return torch.randint(low, high, (n,), generator=generator)

    images = _backgrounds(n, generator, unseen)
    classes, boxes = torch.full((n, MOST), -1), torch.zeros(n, MOST, 4)
    n_groups, quarters = whole(1, 3), rand(n, 4).argsort(1)
    for group in range(2):
        there, kind, large, alone = group < n_groups, whole(0, N_KINDS), whole(14, 19), whole(10, 19)
        quarter = torch.stack([quarters[:, group] // 2, quarters[:, group] % 2], 1)
        centre = (quarter + 0.5) * SIDE / 2 + 6 * (rand(n, 2) - 0.5)
        paired = there & (rand(n) < pairs)
        behind = torch.where(paired, large, alone)
        low = (centre - behind[:, None] / 2).round().clamp(min=0).minimum((SIDE - behind)[:, None])
        for slot, (drawn, size, corner) in enumerate(((there, behind, low), (paired, behind - 4, low + 2)), 2 * group):
            hues = torch.rand(n, 3, generator=generator)
            images = _painted(images, drawn, kind, size, corner, hues)
            classes[drawn, slot] = kind[drawn]
            x_and_y = corner.flip(1) + size[:, None] / 2
            boxes[drawn, slot] = torch.cat([x_and_y, size[:, None].expand(-1, 2)], 1)[drawn] / SIDE
    images = (images + 0.03 * torch.randn(images.shape, generator=generator)).clamp(0, 1)
    order = rand(n, MOST).masked_fill(classes < 0, 2.0).argsort(1)
    parts = images, classes.gather(1, order), boxes.gather(1, order[..., None].expand(-1, -1, 4))
    return Scenes(*(part.to(device()) for part in parts))


def _painted(images: Tensor, drawn: Tensor, kind: Tensor, size: Tensor, corner: Tensor, hues: Tensor) -> Tensor:
    """Paint one creature over each image for which `drawn` is true; a third of its colours is bright."""
    pixels = torch.arange(SIDE)
    v, u = (((pixels - corner[:, axis, None]) * 5 / size[:, None]).floor().long() for axis in (0, 1))
    inside = ((v >= 0) & (v < 5))[:, :, None] & ((u >= 0) & (u < 5))[:, None, :] & drawn[:, None, None]
    ink = _drawings()[kind[:, None, None], v.clamp(0, 4)[:, :, None], u.clamp(0, 4)[:, None, :]] & inside
    colour = hues - hues.amin(1, keepdim=True)
    colour = (0.15 + 0.85 * colour / colour.amax(1, keepdim=True).clamp(min=1e-6))[:, :, None, None]
    return torch.where(ink[:, None], colour, images)


def _backgrounds(n: int, generator: torch.Generator, unseen: bool) -> Tensor:
    """Crop the photographs (n, 3, 32, 32): unseen scenes use the right third."""
    photos = _photographs()
    height, width = photos.shape[-2:]
    first, last = (2 * width // 3, width - SIDE) if unseen else (0, 2 * width // 3 - SIDE)
    which = torch.randint(len(photos), (n,), generator=generator)
    top = torch.randint(height - SIDE, (n,), generator=generator)[:, None] + torch.arange(SIDE)
    left = torch.randint(first, last + 1, (n,), generator=generator)[:, None] + torch.arange(SIDE)
    return photos[which[:, None, None], :, top[:, :, None], left[:, None, :]].permute(0, 3, 1, 2)


@cache
def _photographs() -> Tensor:
    return photographs((214, 320))


@cache
def _drawings() -> Tensor:
    """Both kinds (2, 5, 5), true where there is ink."""
    return torch.tensor([[[sign == "#" for sign in row] for row in drawing.split()] for drawing in _DRAWINGS])
