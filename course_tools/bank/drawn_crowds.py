"""Draw crowds: pixel creatures of two kinds among papers on photographs, often a small one right in front of a large one.

Each row of a creature has a colour of its own, so no patch of one colour is a creature, and the papers have such colours, too.
Creatures are of any height and width and lean to either side, so no template fits them. The two of a pair are of one kind and
share their centre, so that no place tells which of them is meant, and their boxes overlap by an IoU of 0.51 to 0.6, so that
suppression at 0.5 takes one for a duplicate of the other.
"""

from functools import cache

import torch
from torch import Tensor

from course_lib.datasets import Scenes
from course_tools.bank.photograph_crops import photograph_crops

SIDE, N_KINDS, MOST, PAPERS = 32, 2, 4, 4
"""Side of a scene in pixels, kinds of creatures, the most creatures in a scene, and papers in each."""
LEAN = 0.25
"""How far a creature leans at most, in radians."""
_DRAWINGS = (".#.#. ##### #.#.# ##### #.#.#", "##### #.#.# ##### .###. ##.##")


def draw_crowds(n: int, seed: int, unseen: bool = False, pairs: float = 0.5, device: torch.device | str = "cpu") -> Scenes:
    """Draw n scenes (n, 3, 32, 32) of one to four creatures; the lists have a random order.

    One or two creatures stand in different quarters of a scene, over papers; each may have a smaller one of its kind in front.

    Args:
        n: number of scenes.
        seed: decides everything that is drawn.
        unseen: use a third of each photograph that no other scenes contain.
        pairs: how often a creature has another in front of it.
        device: where the scenes go; they are drawn on the CPU.
    """
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    def whole(low: int, high: int) -> Tensor:
        return torch.randint(low, high, (n,), generator=generator)

    images = photograph_crops(n, SIDE, generator, unseen)
    for _ in range(PAPERS):
        low, size = rand(n, 2), torch.stack([whole(2, 7), whole(2, 7)], 1)
        corner = (low * (SIDE - size)).round().long()
        images = _painted(images, _inside(corner, size), rand(n, 3)[..., None, None])
    classes, boxes = torch.full((n, MOST), -1), torch.zeros(n, MOST, 4)
    n_groups, quarters = whole(1, 3), rand(n, 4).argsort(1)
    for group in range(2):
        there, kind, paired = group < n_groups, whole(0, N_KINDS), rand(n) < pairs
        large, alone = (least + (18 - least) * rand(n, 2) for least in (14, 10))  # height, width
        size, turn = torch.where(paired[:, None], large, alone), LEAN * (2 * rand(n) - 1)
        extent = size * turn.cos().abs()[:, None] + size.flip(1) * turn.sin().abs()[:, None]
        quarter = torch.stack([quarters[:, group] // 2, quarters[:, group] % 2], 1)
        centre = (quarter + 0.5) * SIDE / 2 + 6 * (rand(n, 2) - 0.5)
        centre = centre.maximum(extent / 2).minimum(SIDE - extent / 2)
        smaller = 0.515 + 0.08 * rand(n, 1)  # the area of the one in front
        for slot, (drawn, scale) in enumerate(((there, torch.ones(n, 1)), (there & paired, smaller.sqrt())), 2 * group):
            ink, row = _creature(kind, centre, size * scale, turn)
            of_rows = rand(n, 5, 3)[torch.arange(n)[:, None, None], row].permute(0, 3, 1, 2)  # (n, 3, 32, 32)
            images = _painted(images, ink & drawn[:, None, None], of_rows)
            classes[drawn, slot] = kind[drawn]
            boxes[drawn, slot] = torch.cat([centre.flip(1), (extent * scale).flip(1)], 1)[drawn] / SIDE
    images = (images + 0.03 * torch.randn(images.shape, generator=generator)).clamp(0, 1)
    order = rand(n, MOST).masked_fill(classes < 0, 2.0).argsort(1)
    parts = images, classes.gather(1, order), boxes.gather(1, order[..., None].expand(-1, -1, 4))
    return Scenes(*(part.to(device) for part in parts))


def _painted(images: Tensor, where: Tensor, colours: Tensor) -> Tensor:
    """Paint over images (n, 3, 32, 32) where a mask (n, 32, 32) is true; a third of each colour is bright."""
    colours = colours - colours.amin(1, keepdim=True)
    colours = 0.15 + 0.85 * colours / colours.amax(1, keepdim=True).clamp(min=1e-6)
    return torch.where(where[:, None], colours, images)


def _inside(corner: Tensor, size: Tensor) -> Tensor:
    """Mark the pixels (n, 32, 32) of rectangles by their first row and column (n, 2), height and width (n, 2)."""
    away = torch.arange(SIDE) - corner[..., None]
    inside = (away >= 0) & (away < size[..., None])
    return inside[:, 0, :, None] & inside[:, 1, None]


def _creature(kind: Tensor, centre: Tensor, size: Tensor, turn: Tensor) -> tuple[Tensor, Tensor]:
    """Find the ink of one creature an image, and to which of its five rows each pixel belongs, (n, 32, 32) each."""
    pixel, cos, sin = torch.arange(SIDE) + 0.5, turn.cos()[:, None, None], turn.sin()[:, None, None]
    down, right = pixel[:, None] - centre[:, 0, None, None], pixel - centre[:, 1, None, None]
    along = torch.stack([cos * down - sin * right, sin * down + cos * right], -1)
    cell = ((along / size[:, None, None] + 0.5) * 5).floor().long()
    inside = ((cell >= 0) & (cell < 5)).all(-1)
    v, u = cell.clamp(0, 4).unbind(-1)
    return _drawings()[kind[:, None, None], v, u] & inside, v


@cache
def _drawings() -> Tensor:
    """Both kinds (2, 5, 5), true where there is ink."""
    return torch.tensor([[[sign == "#" for sign in row] for row in drawing.split()] for drawing in _DRAWINGS])
