"""What could name the thing in a window from ten labels instead of SimCLR: a network, pseudo-labels, neighbours, regression.

All learn from the same four photographs of each window. Instead of a small CLIP, a classifier of things and of colours.
"""

import math
from collections.abc import Callable, Iterator
from itertools import combinations, product

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from course_lib.blocks import ConvNet
from course_lib.datasets import Augmentation, recolour
from course_lib.primitives import patchify
from course_tools.lectures.lecture_16.windows import CELL, Windows

N_WINDOWS = 40
"""Windows in an update."""
_SPLIT = "n C (row h) (column w) -> n row column C h w"
COLOURS = Augmentation(brightness=1.5, saturation=0.6, hue=math.pi)  # keeps the thing


def encoder() -> nn.Sequential:
    """Create the encoder from photographs (B, 3, 24, 36) to (B, 64): three convolutions, then global max pooling."""
    return nn.Sequential(ConvNet(3), nn.AdaptiveMaxPool2d(1), nn.Flatten())


def classifier() -> nn.Sequential:
    """Create the encoder with a linear layer for the ten things."""
    return nn.Sequential(encoder(), nn.Linear(64, 10))


def two_heads() -> nn.Module:
    """Create a classifier of things and of colours, of the small CLIP's size: ten and six logits, (B, 16)."""
    see = nn.Sequential(ConvNet(3, (32, 64, 128)), nn.AdaptiveMaxPool2d(1), nn.Flatten())
    return nn.Sequential(see, nn.Linear(128, 16))


def from_both_labels(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Compute the cross-entropies of the thing and of the colour; name 6 k + c is that of thing k in colour c."""
    photos, names = batch
    things, colours = model(photos).split([10, 6], dim=1)
    return F.cross_entropy(things, names // 6) + F.cross_entropy(colours, names % 6)


def photo_in_new_colours(photos: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one of the photographs of each window, and change its brightness, saturation and hue."""
    n = len(photos)
    one = photos[torch.arange(n), torch.randint(photos.shape[1], (n,), generator=generator)]
    return recolour(one, COLOURS.draw_colours(n, generator).to(one))


def labelled(windows: Windows, few: Tensor, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield endless batches of 40 views of the labelled windows, and their labels."""
    generator, chosen = torch.Generator().manual_seed(seed), few.repeat(N_WINDOWS // len(few))
    while True:
        yield photo_in_new_colours(windows.photos[chosen], generator), windows.kinds[chosen]


def told_the_cell(windows: Windows, few: Tensor, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches as `labelled` does, but with each labelled thing in the place of that of any other window.

    So nothing but the thing goes with its label: somebody has said which cell the label is about.
    """
    generator, chosen = torch.Generator().manual_seed(seed), few.repeat(N_WINDOWS // len(few))
    n, every = len(chosen), torch.arange(len(chosen))
    while True:
        others, photo, another = (torch.randint(high, (n,), generator=generator) for high in (len(windows.photos), 4, 4))
        photos = rearrange(windows.photos[others, another], _SPLIT, h=CELL, w=CELL)
        things = rearrange(windows.photos[chosen, photo], _SPLIT, h=CELL, w=CELL)
        column = photos.shape[2]
        to, of = windows.cells[others, another], windows.cells[chosen, photo]
        photos[every, to // column, to % column] = things[every, of // column, of % column]
        joined = rearrange(photos, "n row column C h w -> n C (row h) (column w)")
        yield recolour(joined, COLOURS.draw_colours(n, generator).to(joined)), windows.kinds[chosen]


def from_labels(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Compute the cross-entropy of the labelled views alone."""
    views, kinds = batch
    return F.cross_entropy(model(views), kinds)


def with_unlabelled(windows: Windows, few: Tensor, seed: int) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Yield two views each of 40 windows without labels, and a batch of `labelled`."""
    generator = torch.Generator().manual_seed(seed + 1_000)
    for views, kinds in labelled(windows, few, seed):
        chosen = windows.photos[torch.randint(len(windows.photos), (N_WINDOWS,), generator=generator)]
        yield chosen[:, 0], photo_in_new_colours(chosen[:, 1:], generator), views, kinds


def with_pseudo_labels(
    sure: float, aligned: bool = False
) -> Callable[[nn.Module, tuple[Tensor, Tensor, Tensor, Tensor]], Tensor]:
    """Make the loss of FixMatch (Sohn et al. 2020): a guess about one view that is at least so sure labels the other view.

    Aligned: each guess is divided by the mean of recent guesses, so that no name can take over (Berthelot et al. 2019).
    """
    usual = torch.full((10,), 0.1)

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
        nonlocal usual
        first, second, views, kinds = batch
        of_labelled, of_second, of_first = model(torch.cat([views, second, first])).split([len(views), len(second), len(first)])
        guessed = of_first.detach().softmax(-1)
        if aligned:
            usual = 0.9 * usual.to(guessed) + 0.1 * guessed.mean(0)
            guessed = F.normalize(guessed / usual, p=1.0, dim=-1)
        probability, guess = guessed.max(-1)
        of_guesses = F.cross_entropy(of_second, guess, reduction="none") * (probability >= sure)
        return F.cross_entropy(of_labelled, kinds) + of_guesses.mean()

    return loss


@torch.no_grad()
def right(model: nn.Module, windows: Windows) -> float:
    """Measure the share of windows whose thing a classifier names from the first photograph."""
    guesses = torch.cat([model(photos).argmax(-1) for photos in windows.photos[:, 0].split(250)])
    return (guesses == windows.kinds).float().mean().item()


def recurring_cells(known: Windows, few: Tensor, unseen: Windows) -> float:
    """Measure a rule without a network, of somebody who knows how the windows are made.

    Of each labelled window, take the cell of each photograph that is most like those of the other three. A new photograph gets
    the label of the one that is most like any of its cells. Cells are compared by the correlation of their ink, the least of
    red, green and blue, in which a white thing stands out from any colour.
    """
    photos, kinds = known.photos[few].cpu(), known.kinds[few].cpu()
    new, truth = unseen.photos[:, 0].cpu(), unseen.kinds.cpu()
    alike = torch.einsum("nad,wpd->nawp", _cells(new), torch.stack([_recurring(_cells(of_one)) for of_one in photos]))
    return (kinds[alike.amax((1, 3)).argmax(1)] == truth).float().mean().item()


def _cells(photos: Tensor) -> Tensor:
    """Cut photographs (n, 3, 24, 36) into the ink of their cells (n, 6, 144), of mean 0 and length 1."""
    ink = patchify(photos.amin(1, keepdim=True), CELL)
    return F.normalize(ink - ink.mean(-1, keepdim=True), dim=-1)


def _recurring(cells: Tensor) -> Tensor:
    """Of the cells (4, 6, d) of the photographs of a window, choose one of each that are most alike: (4, d)."""
    alike = torch.einsum("pad,qbd->paqb", cells, cells)
    every = torch.tensor(list(product(range(cells.shape[1]), repeat=len(cells))))
    total = sum(alike[p, every[:, p], q, every[:, q]] for p, q in combinations(range(len(cells)), 2))
    return cells[range(len(cells)), every[total.argmax()]]


def label_spreading(known: Windows, few: Tensor, unseen: Windows, n: int = 1_500) -> float:
    """Measure label spreading (Zhou et al. 2004) from ten labelled photographs over the pixels of n others and the unseen."""
    from sklearn.semi_supervised import LabelSpreading

    others = known.photos[:n, 0]
    points = torch.cat([known.photos[few, 0], others, unseen.photos[:, 0]]).flatten(1).cpu()
    labels = torch.full((len(points),), -1)
    labels[: len(few)] = known.kinds[few].cpu()
    spread = LabelSpreading(kernel="knn", n_neighbors=10, alpha=0.8).fit(points.numpy(), labels.numpy())
    guesses = torch.from_numpy(spread.transduction_[len(few) + len(others) :])
    return (guesses == unseen.kinds.cpu()).float().mean().item()
