"""Self-supervision: NT-Xent, the moving average and augmentation, against the forms that people write first."""

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.timing import Row, compare
from course_lib.datasets.augmentation import Augmentation
from course_lib.models.byol import ema_update, ema_update_
from course_lib.objectives import lean_nt_xent, nt_xent

TEMPERATURE, DECAY = 0.5, 0.99
VIEWS = ((256, 128), (1024, 128))
LAYERS, WIDTH = 60, 128
PICTURES = ((256, 1, 28), (64, 3, 32))
STRENGTH = Augmentation(turn=0.3, zoom=1.2, shear=0.2, shift=0.1, brightness=1.3, saturation=0.4, hue=0.3)


def rows(rounds: int) -> Iterator[Row]:
    """Time the loss both ways, the update and the augmentation forward alone: nobody differentiates those."""
    for n, d in VIEWS:
        torch.manual_seed(0)
        a, b = (torch.randn(n, d, requires_grad=True) for _ in range(2))
        for name, loss in (("equation", nt_xent), ("one pass", lean_nt_xent)):
            yield compare("NT-Xent", (name, _on(loss, a, b)), ("mask and gather", _on(gathered, a, b)), f"N {n}, d {d}", rounds)
    yield from _averages(rounds)
    for size in PICTURES:
        yield from _augmented(size, rounds)


def gathered(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """NT-Xent as it stands in the best-known repository: positives and negatives picked by masks and laid side by side."""
    z = F.normalize(torch.cat([a, b]), dim=1)
    labels = torch.arange(len(a), device=a.device).repeat(2)
    same, itself = (labels[:, None] == labels).float(), torch.eye(len(z), dtype=torch.bool, device=a.device)
    similarity = (z @ z.T)[~itself].view(len(z), -1)
    same = same[~itself].view(len(z), -1)
    positives = similarity[same.bool()].view(len(z), -1)
    negatives = similarity[~same.bool()].view(len(z), -1)
    logits = torch.cat([positives, negatives], dim=1) / temperature
    return F.cross_entropy(logits, torch.zeros(len(z), dtype=torch.long, device=a.device))


def _on(loss: Callable[[Tensor, Tensor, float], Tensor], a: Tensor, b: Tensor) -> Callable[[], Tensor]:
    return lambda: loss(a, b, TEMPERATURE)


def _averages(rounds: int) -> Iterator[Row]:
    """The moving average over the weights of a network of many layers."""
    torch.manual_seed(0)
    online = [torch.randn(*shape) for _ in range(LAYERS) for shape in ((WIDTH, WIDTH), (WIDTH,))]
    for name, update in (("equation", ema_update), ("in place, fused", ema_update_)):
        ours, theirs = ([weights.clone() for weights in online] for _ in range(2))

        def loop(target: list[Tensor] = theirs) -> Tensor:
            for xi, theta in zip(target, online, strict=True):
                xi.data = xi.data * DECAY + (1 - DECAY) * theta.data
            return target[0]

        def move(target: list[Tensor] = ours, update: Callable[..., list[Tensor]] = update) -> Tensor:
            return update(target, online, DECAY)[0]

        sizes = f"{2 * LAYERS} tensors, {sum(weights.numel() for weights in online) // 1000}k weights"
        yield compare("moving average", (name, move), ("a loop over the weights", loop), sizes, rounds, trains=False)


def _augmented(size: tuple[int, int, int], rounds: int) -> Iterator[Row]:
    """One grid for the whole batch, against the same code image by image, and against kornia."""
    B, C, side = size
    images, generator = torch.rand(B, C, side, side), torch.Generator().manual_seed(0)

    def batch() -> Tensor:
        return STRENGTH(images, generator)

    def one_by_one() -> Tensor:
        return torch.cat([STRENGTH(image[None], generator) for image in images])

    sizes = f"{B} pictures, {C} × {side} × {side}"
    yield compare("augmentation", ("one grid", batch), ("image by image", one_by_one), sizes, rounds, trains=False)
    if not find_spec("kornia"):
        print("kornia is not installed (pip install kornia): its row is left out.", file=sys.stderr)
        return
    yield compare("augmentation", ("one grid", batch), ("kornia", _kornia(images)), sizes, rounds, trains=False)


def _kornia(images: Tensor) -> Callable[[], Tensor]:
    """Kornia's own affine map of a batch, and its jitter of colours where there are three; no contrast, as ours has none."""
    from kornia.augmentation import AugmentationSequential, ColorJitter, RandomAffine

    steps = [RandomAffine(17.0, (0.1, 0.1), (0.83, 1.2), (-11.0, 11.0), p=1.0)]
    if images.shape[1] == 3:
        steps.append(ColorJitter((0.77, 1.3), 0.0, 0.4, 0.05, p=1.0))
    augment = AugmentationSequential(*steps)
    return lambda: augment(images)
