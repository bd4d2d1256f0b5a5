"""Draw two views of unlabelled stickers to train on, and losses, spectra, probes and embeddings."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from course_lib.blocks import ConvNet
from course_lib.datasets import Augmentation, few_of_each
from course_lib.metrics import linear_probe
from course_lib.primitives import unit
from course_lib.training import batches
from course_tools.bank.drawn_stickers import NAMES, Stickers
from course_tools.lectures.lecture_16.figures import clouds
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show
from course_tools.notebook.training_curve import block_means

# Measure how often the nearest neighbour of a point is of its class.


def nearest_neighbour_accuracy(distances: Tensor, kinds: Tensor) -> float:
    """Compute the fraction of points whose nearest neighbour, the point itself excepted, has the same class.

    Args:
        distances: (n, n), from each point (rows) to each possible neighbour; for unit vectors, minus the cosine will do.
        kinds: (n,), the class of each point; the neighbours are in the same order.
    """
    nearest = distances.clone().fill_diagonal_(torch.inf).argmin(-1)
    return (kinds[nearest] == kinds).float().mean().item()


# Stickers: views, encoder and probe.


MOVES = Augmentation(turn=0.15, zoom=1.15, shear=0.1, shift=0.05)
"""Rotation, zoom, shear and shift after which a thing is still known."""


def backbone() -> nn.Sequential:
    """Create an encoder from (B, 3, 12, 12) to (B, 64): three convolutions, then global max pooling."""
    return nn.Sequential(ConvNet(3), nn.AdaptiveMaxPool2d(1), nn.Flatten())


@torch.no_grad()
def probe(encoder: nn.Module, known: Stickers, unseen: Stickers) -> float:
    """Measure linear probes of unit features from forty labels: right answers on unseen stickers, mean of eight draws."""
    x, new, right = unit(encoder(known.images)), unit(encoder(unseen.images)), 0.0
    for draw in range(8):
        few = few_of_each(known.kinds.cpu(), 4, draw).to(known.kinds.device)
        weight, bias = linear_probe(x[few], known.kinds[few], len(NAMES), 0.1)
        right += ((new @ weight.mT + bias).argmax(-1) == unseen.kinds).float().mean().item()
    return right / 8


View = Callable[[Tensor, torch.Generator], Tensor]
"""Draws one view of each image of a batch, with random numbers of a generator."""


def two_views(images: Tensor, seed: int, view: View, n_pairs: int = 32) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield endless batches of two views of images (n, C, H, W)."""
    generator = torch.Generator().manual_seed(seed)
    for (batch,) in batches(images, batch_size=n_pairs, seed=seed):
        yield view(batch, generator), view(batch, generator)


def show_byol_losses(runs: Mapping[str, Sequence[float]]) -> None:
    """Draw the losses of BYOL and its variants, averaged over blocks of updates, on a logarithmic axis."""
    lines = {name: block_means([losses]) for name, losses in runs.items()}
    ends = "; ".join(f"{name} from {values[0]:.3f} to {values[-1]:.4f}" for name, (_, values) in lines.items())
    show(
        curves(lines, "update", "BYOL's loss, 0 to 4", "training loss", log="y"),
        alt=f"Training loss of BYOL and its variants, logarithmic, in the first and in the last block of updates: {ends}.",
    )


def show_spectra(projections: Mapping[str, Tensor], spectrum: Callable[[Tensor], Tensor], n: int = 30) -> dict[str, float]:
    """Draw the spectra of projections (N, d); return the sum of the squares of each spectrum, 1 where the mean is 0."""
    spectra = {name: spectrum(points).double() for name, points in projections.items()}
    spread = {name: values.square().sum().item() for name, values in spectra.items()}
    lines = {name: (range(1, n + 1), values[:n].clamp_min(1e-5)) for name, values in spectra.items()}
    show(
        curves(lines, "principal axis", "standard deviation along the axis", "projections of unseen stickers", log="y"),
        alt=f"Standard deviation of the projections along their first {n} principal axes, logarithmic. Sum of squares, 1 where "
        f"the mean is 0: {', '.join(f'{name} {total:.4f}' for name, total in spread.items())}.",
    )
    return spread


def show_probe_curves(
    lines: Mapping[str, tuple[Sequence[int], Sequence[float]]], pixels: float, ticks: Sequence[int], title: str
) -> None:
    """Draw the accuracy of probes with 40 labels through training.

    Args:
        lines: name -> (updates, accuracies).
        pixels: accuracy of a probe of the pixels, a dashed line.
        ticks: the updates that are labelled.
        title: above the figure.
    """
    drawn = curves(lines, "update", "probe accuracy, 40 labels", title, log="x", across={"pixels": pixels, "a guess": 0.1})
    drawn.axes[0].set_xticks(ticks, [f"{step:,}" for step in ticks])
    drawn.axes[0].set_xticks([], minor=True)
    each = "; ".join(
        f"{name} at best {max(heights):.2f}, {heights[-1]:.2f} after {steps[-1]:,}" for name, (steps, heights) in lines.items()
    )
    show(
        drawn,
        alt=f"Accuracy of a probe with forty labels through training, {title}: {each}; the pixels {pixels:.2f}.",
    )


def show_embeddings(panels: Mapping[str, Tensor], kinds: Tensor, n: int = 300, seed: int = 0) -> None:
    """Arrange the first n embeddings of each panel in the plane by t-SNE, and draw each as the numeral of its class.

    Args:
        panels: title -> embeddings (N, d) of unit length.
        kinds: classes (N,).
        n: how many are drawn.
        seed: of t-SNE.
    """
    from sklearn.manifold import TSNE

    planes = {name: TSNE(random_state=seed).fit_transform(points[:n].numpy()) for name, points in panels.items()}
    agree = ", ".join(
        f"{100 * nearest_neighbour_accuracy(-points @ points.mT, kinds):.0f} % in {name}" for name, points in panels.items()
    )
    show(
        clouds(planes, kinds[:n]),
        alt=f"Embeddings of {n} unseen images, arranged by t-SNE; the nearest other of {len(kinds):,} embeddings has the same "
        f"class for {agree}.",
    )
