"""NT-Xent, BYOL's moving average and the augmentation of a batch, against the forms usually written or installed."""

from collections.abc import Callable, Iterator
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.timing import Row, compare, peer_from
from course_lib.datasets import Augmentation, recolour, warp
from course_lib.fast import lean_nt_xent
from course_lib.losses import nt_xent
from course_lib.models import ema_update
from course_lib.models.byol import ema_update_

PAIRS = ((32, 64), (256, 128), (1_024, 128))
TAU = 0.2
NOTE = """Below 64 pairs the lean form is the equation, which takes fewer operations. At 1,024 pairs the lean
form trains 2.9 to 4.2 times as fast as four blocks, from run to run; the shortest steps took 26 and 85 ms."""
BATCHES = ((64, 3, 32), (256, 1, 28))
RANGES = Augmentation(turn=0.3, zoom=1.3, shear=0.3, shift=0.1, brightness=1.5, saturation=0.5, hue=0.4)


def rows(rounds: int) -> Iterator[Row]:
    """Time the losses, the update of the target, and the augmentation."""
    yield from _losses(rounds)
    yield from _averages(rounds)
    yield from _augmentations(rounds)


def masked_and_gathered(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """Return NT-Xent in the manner of sthalles/SimCLR: masks pick positives and negatives out of the matrix."""
    features = F.normalize(torch.cat([a, b]), dim=1)
    labels = torch.arange(len(a)).repeat(2)
    same = (labels[None] == labels[:, None]).float()
    similarity = features @ features.T
    itself = torch.eye(len(labels), dtype=torch.bool)
    same, similarity = same[~itself].view(len(same), -1), similarity[~itself].view(len(same), -1)
    positives = similarity[same.bool()].view(len(same), -1)
    negatives = similarity[~same.bool()].view(len(same), -1)
    logits = torch.cat([positives, negatives], dim=1)
    return F.cross_entropy(logits / temperature, torch.zeros(len(logits), dtype=torch.long))


def four_blocks(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """Return NT-Xent in the manner of lightly: blocks a-a, a-b, b-a, b-b, two diagonals masked out, all concatenated."""
    a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
    others = ~torch.eye(len(a), dtype=torch.bool)
    blocks = [torch.einsum("nc,mc->nm", x, y) / temperature for x in (a, b) for y in (a, b)]
    blocks[0], blocks[3] = (block[others].view(len(a), -1) for block in (blocks[0], blocks[3]))
    logits = torch.cat([torch.cat([blocks[1], blocks[0]], dim=1), torch.cat([blocks[2], blocks[3]], dim=1)])
    return F.cross_entropy(logits, torch.arange(len(a)).repeat(2))


def _losses(rounds: int) -> Iterator[Row]:
    for N, d in PAIRS:
        torch.manual_seed(0)
        views = [torch.randn(N, d, requires_grad=True) for _ in range(2)]
        for name, ours in (("equation", nt_xent), ("lean", lean_nt_xent)):
            for against, peer in (("mask and gather", masked_and_gathered), ("four blocks", four_blocks)):
                torch.testing.assert_close(ours(*views, TAU), peer(*views, TAU))
                calls = [lambda form=form, views=views: form(*views, TAU) for form in (ours, peer)]
                yield compare("NT-Xent", (name, calls[0]), (against, calls[1]), f"{N} pairs, d {d}", rounds)


def _averages(rounds: int) -> Iterator[Row]:
    """Update the weights of a deep narrow and of a shallow wide network."""
    for layers, width in ((60, 64), (6, 1_024)):
        torch.manual_seed(0)
        target, online, other = ([torch.randn(n) for _ in range(layers) for n in (width * width, width)] for _ in range(3))

        def loop(other: list[Tensor] = other, online: list[Tensor] = online) -> Tensor:
            for xi, theta in zip(other, online, strict=True):
                xi.data = 0.99 * xi.data + 0.01 * theta.data
            return other[0]

        forms: tuple[tuple[str, Callable[[], Tensor]], ...] = (
            ("equation", lambda target=target, online=online: ema_update(target, online, 0.99)[0]),
            ("in place", lambda target=target, online=online: ema_update_(target, online, 0.99)[0]),
        )
        for name, ours in forms:
            sizes = f"{layers} layers, {width} × {width}"
            yield compare("moving average", (name, ours), ("loop over parameters", loop), sizes, rounds, trains=False)


def _augmentations(rounds: int) -> Iterator[Row]:
    for B, C, side in BATCHES:
        torch.manual_seed(0)
        images, generator = torch.rand(B, C, side, side), torch.Generator().manual_seed(0)
        ours = ("one grid, one matrix", lambda images=images, generator=generator: RANGES(images, generator))
        alone = ("image by image", lambda images=images, generator=generator: _one_by_one(images, generator))
        sizes = f"B {B}, {C} × {side} × {side}"
        yield compare("augmentation", ours, alone, sizes, rounds, trains=False)
        if peer := peer_from("kornia.augmentation"):
            yield compare("augmentation", ours, ("kornia, on the batch", _kornia(*peer, images)), sizes, rounds, trains=False)


def _one_by_one(images: Tensor, generator: torch.Generator) -> Tensor:
    """Augment as a data loader does: every image separately, first its geometry and then its colours."""
    views = []
    for image in images:
        A, t = RANGES.draw_affine(1, image.shape[-2:], generator)
        moved = warp(image[None], A, t)
        views.append(recolour(moved, RANGES.draw_colours(1, generator)) if len(image) == 3 else moved)
    return torch.cat(views)


def _kornia(K: ModuleType, images: Tensor) -> Callable[[], Tensor]:
    """Build kornia's operations with our ranges: an affine map and, for colour images, a jitter in random order."""
    steps = [K.RandomAffine(17.0, (0.1, 0.1), (0.77, 1.3), (-17.0, 17.0), p=1.0)]
    if images.shape[1] == 3:
        steps.append(K.ColorJitter(brightness=(0.67, 1.5), saturation=(0.5, 1.5), hue=(-0.064, 0.064), p=1.0))
    augment = K.AugmentationSequential(*steps)
    return lambda: augment(images)
