"""Train SimCLR and BYOL on two views of unlabelled digits, and classify digits from a few labels."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.blocks import ConvNet
from course_lib.datasets import Augmentation, few_of_each
from course_lib.metrics import LinearProbe
from course_lib.models import BYOL, SimCLR
from course_lib.primitives import unit
from course_lib.training import batches, train
from course_tools.lectures.lecture_16.figures import clouds
from course_tools.notebook.device import device
from course_tools.notebook.digit_split import DigitSplit, digit_split
from course_tools.notebook.fitting import accuracy_of, fitted
from course_tools.notebook.plots import curves
from course_tools.notebook.progress_bar import progress
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


# Classify handwritten digits from a few labels, with augmentation: data, encoder and baseline.


RANGES = Augmentation(turn=0.25, zoom=1.25, shear=0.3, shift=0.06)
"""Rotation, zoom, shear and shift that preserve the class of a digit."""


def small_digits(seeds: Iterable[int]) -> DigitSplit:
    """Load and split the digits like `digit_split`, at half the resolution: images (5000, 1, 14, 14)."""
    digits = digit_split(seeds)
    return digits._replace(images=F.avg_pool2d(digits.images, 2))


def backbone() -> nn.Sequential:
    """Create an encoder from (B, 1, 14, 14) to (B, 64): three convolutions, then global max pooling."""
    return nn.Sequential(ConvNet(1), nn.AdaptiveMaxPool2d(1), nn.Flatten())


def few(digits: DigitSplit, seed: int, n_each: int, draw: int) -> Tensor:
    """Draw the indices of n_each digits of every class, (10 · n_each,), from the training set."""
    learn = digits.learn[seed]
    return learn[few_of_each(digits.labels[learn].cpu(), n_each, draw).to(device())]


def supervised(digits: DigitSplit, seed: int, n_each: int, draw: int, steps: int = 150) -> nn.Module:
    """Train the backbone and a linear layer on n_each labels of every class, with augmentation."""
    torch.manual_seed(draw)
    chosen, generator = few(digits, seed, n_each, draw), torch.Generator().manual_seed(draw)
    model = nn.Sequential(backbone(), nn.Linear(64, 10)).to(device())
    stream = batches(digits.images[chosen], digits.labels[chosen], batch_size=40, seed=draw)

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(model(RANGES(batch[0], generator)), batch[1])

    return fitted(model, stream, loss, steps=steps, lr=3e-3, label=f"{10 * n_each} labels")


def on_unseen(model: nn.Module, digits: DigitSplit, seed: int) -> float:
    """Measure the accuracy of a classifier on the test digits of a seed."""
    return accuracy_of(model, digits.images[digits.unseen[seed]], digits.labels[digits.unseen[seed]])


def supervised_draws(digits: DigitSplit, seed: int, n_each: int, draws: int = 4) -> list[nn.Module]:
    """Train `supervised` once for each of several draws of the labelled digits."""
    return [supervised(digits, seed, n_each, draw) for draw in range(draws)]


def mean_on_unseen(models: Sequence[nn.Module], digits: DigitSplit, seed: int) -> float:
    """Average the accuracies of several classifiers on the unseen digits of a seed."""
    return mean(on_unseen(model, digits, seed) for model in models)


class Supervised(NamedTuple):
    """Classifiers trained on the same number of labels, and the accuracy on unseen digits for each seed, mean of the draws."""

    models: list[nn.Module]
    accuracies: list[float]


def supervised_seeds(digits: DigitSplit, seeds: Iterable[int], n_each: int, draws: int = 1) -> Supervised:
    """Train `supervised` with each seed of the split, for several draws of the labelled digits."""
    by_seed = {seed: supervised_draws(digits, seed, n_each, draws) for seed in seeds}
    accuracies = [mean_on_unseen(models, digits, seed) for seed, models in by_seed.items()]
    return Supervised([model for models in by_seed.values() for model in models], accuracies)


def show_accuracy_by_labels(accuracies: Mapping[str, Mapping[int, Sequence[float]]]) -> None:
    """Draw the mean accuracy of classifiers against the number of labels.

    Args:
        accuracies: name -> labels of each class -> accuracies, one for each seed.
    """
    lines = {name: ([10 * n for n in by_n], [mean(each) for each in by_n.values()]) for name, by_n in accuracies.items()}
    each = "; ".join(
        f"{name} " + ", ".join(f"{y:.2f} with {n}" for n, y in zip(*line, strict=True)) for name, line in lines.items()
    )
    show(
        curves(lines, "labels", "accuracy on unseen digits", "mean of the seeds", log="x"),
        alt=f"Accuracy against the number of labels, mean of the seeds: {each}.",
    )


# Train SimCLR or BYOL on two views of unlabelled digits, and look at the model on the way.


LOOKS = (1, 15, 30, 60, 120, 240)
"""The updates after which `fit_simclr` and `fit_byol` evaluate the model."""
ViewLoss = Callable[[Any, tuple[Tensor, Tensor]], Tensor]
"""Computes a scalar from a model and two views of a batch."""
View = Callable[[Tensor, torch.Generator], Tensor]
"""Draws one view of each image of a batch, with random numbers of a generator."""


class ViewTraining(NamedTuple):
    """A trained model in evaluation mode, the loss of each update, and what `look` returned after some of them."""

    model: nn.Module
    losses: list[float]
    seen: dict[int, Any]


def two_views(digits: DigitSplit, seed: int, view: View, n_pairs: int = 32) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield endless batches of two views of the digits to learn from, without labels."""
    generator = torch.Generator().manual_seed(seed)
    for (batch,) in batches(digits.images[digits.learn[seed]], batch_size=n_pairs, seed=seed):
        yield view(batch, generator), view(batch, generator)


def train_on_views(
    model: nn.Module,
    pairs: Iterator[tuple[Tensor, Tensor]],
    loss: ViewLoss,
    *,
    lr: float,
    steps: int = 240,
    update: Callable[[Any], None] | None = None,
    looks: Collection[int] = (),
    look: Callable[[Any], Any] | None = None,
    label: str = "training",
) -> ViewTraining:
    """Train a model in place on pairs of views.

    Args:
        model: on the device of the views.
        pairs: two views of a batch for each update.
        loss: computes a scalar from (model, pair).
        lr: the maximum learning rate.
        steps: number of updates.
        update: called with the model after every update, such as BYOL's moving average.
        looks: the updates after which `look` is called.
        look: called with the model in evaluation mode and without gradients; its results are kept.
        label: the label of the progress bar.
    """
    training = train(model, pairs, loss, steps=steps, lr=lr, warmup=steps // 10)
    losses, seen = [], {}
    for step in progress(training, label, total=steps):
        losses.append(step.loss)
        if update is not None:
            update(model)
        if look is not None and step.index + 1 in looks:
            with torch.no_grad():
                seen[step.index + 1] = look(model.eval())
            model.train()
    return ViewTraining(model.eval(), losses, seen)


class Look(NamedTuple):
    """The embeddings of the unseen digits, (1000, d), and the accuracy of a probe of the encoder with 40 labels."""

    points: Tensor
    accuracy: float


def fit_simclr(
    label: str, seed: int, digits: DigitSplit, view: View, loss: ViewLoss, probe: Callable[..., float]
) -> ViewTraining:
    """Train SimCLR for 240 updates with 32 pairs, and look at its encoder after the updates `LOOKS`.

    Args:
        label: the label of the progress bar.
        seed: of the split, the weights and the batches.
        digits: images, labels and splits.
        view: draws one view of each image of a batch.
        loss: of (model, pair).
        probe: `probe_accuracy`, called with an encoder, `seed` and `n_each`.

    Returns:
        the training; a `Look` contains the features of unit length.
    """
    torch.manual_seed(seed)
    model = SimCLR(backbone(), 64).to(device())

    def look(model: SimCLR) -> Look:
        points = unit(model.encoder(digits.images[digits.unseen[seed]])).cpu()
        return Look(points, probe(model.encoder, seed=seed, n_each=4))

    return train_on_views(model, two_views(digits, seed, view), loss, lr=3e-3, label=label, looks=LOOKS, look=look)


def fit_byol(
    label: str,
    seed: int,
    digits: DigitSplit,
    view: View,
    loss: ViewLoss,
    probe: Callable[..., float],
    ema_update: Callable[..., Sequence[Tensor]],
    predictor: nn.Module | None = None,
) -> ViewTraining:
    """Train BYOL for 240 updates with 32 pairs, and look at it after the updates `LOOKS`.

    Args:
        label: the label of the progress bar.
        seed: of the split, the weights and the batches.
        digits: images, labels and splits.
        view: draws one view of each image of a batch.
        loss: of (model, pair).
        probe: `probe_accuracy`, called with an encoder, `seed` and `n_each`.
        ema_update: computes the new weights of the target network from those of both networks and the decay.
        predictor: replaces BYOL's predictor.

    Returns:
        the training; a `Look` contains the projections.
    """
    torch.manual_seed(seed)
    model = BYOL(backbone(), 64, decay=0.95).to(device())
    if predictor is not None:
        model.predictor = predictor

    def look(model: BYOL) -> Look:
        return Look(model.online(digits.images[digits.unseen[seed]]).cpu(), probe(model.online[0], seed=seed, n_each=4))

    @torch.no_grad()
    def update(model: BYOL) -> None:
        target = list(model.target.parameters())
        for xi, new in zip(target, ema_update(target, list(model.online.parameters()), model.decay), strict=True):
            xi.copy_(new)

    pairs = two_views(digits, seed, view)
    return train_on_views(model, pairs, loss, lr=5e-3, update=update, label=label, looks=LOOKS, look=look)


def without_stop_gradient(model: BYOL, pair: tuple[Tensor, Tensor]) -> Tensor:
    """Compute BYOL's loss with one network on both sides, so that the target has a gradient too."""
    z = model.online(torch.cat(pair))
    return (2 - 2 * (unit(model.predictor(z)) * unit(z.roll(len(pair[0]), 0))).sum(-1)).mean()


def gap_to_byol_update(ema_update: Callable[..., Sequence[Tensor]], seed: int = 0) -> float:
    """Compute the largest difference between the weights of `ema_update` and those of `BYOL.update`, for random networks."""
    torch.manual_seed(seed)
    model = BYOL(backbone(), 64, decay=0.9)
    with torch.no_grad():
        for theta in model.online.parameters():
            theta.add_(torch.randn_like(theta))
    before = [xi.detach().clone() for xi in model.target.parameters()]
    expected = ema_update(before, [theta.detach() for theta in model.online.parameters()], 0.9)
    model.update()
    pairs = zip(model.target.parameters(), expected, strict=True)
    return max((xi.detach() - own).abs().max().item() for xi, own in pairs)


def target_gradients(loss: ViewLoss, pair: tuple[Tensor, Tensor], seed: int = 0) -> int:
    """Count the tensors of BYOL's target network that a loss of (model, pair) gives a gradient, were they not frozen."""
    torch.manual_seed(seed)
    model = BYOL(backbone(), 64).to(device())
    model.target.requires_grad_(True)
    loss(model, pair).backward()
    return sum(xi.grad is not None for xi in model.target.parameters())


def show_byol_losses(runs: Mapping[str, ViewTraining]) -> None:
    """Draw the losses of BYOL and its variants, averaged over blocks of updates, on a logarithmic axis."""
    lines = {name: block_means([run.losses]) for name, run in runs.items()}
    ends = "; ".join(f"{name} from {values[0]:.3f} to {values[-1]:.4f}" for name, (_, values) in lines.items())
    show(
        curves(lines, "update", "BYOL's loss, 0 to 4", "training loss", log="y"),
        alt=f"Training loss of BYOL and its variants, logarithmic, in the first and in the last block of updates: {ends}.",
    )


def show_spectra(projections: Mapping[str, Tensor], spectrum: Callable[[Tensor], Tensor], n: int = 30) -> dict[str, float]:
    """Draw the spectra of projections (N, d); return the sum of the squares of each spectrum, 1 for a full sphere."""
    spectra = {name: spectrum(points).double() for name, points in projections.items()}
    spread = {name: values.square().sum().item() for name, values in spectra.items()}
    lines = {name: (range(1, n + 1), values[:n].clamp_min(1e-5)) for name, values in spectra.items()}
    show(
        curves(lines, "principal axis", "standard deviation along the axis", "projections of unseen digits", log="y"),
        alt=f"Standard deviation of the projections along their first {n} principal axes, logarithmic. Sum of squares, 1 for a "
        f"full sphere: {', '.join(f'{name} {total:.4f}' for name, total in spread.items())}.",
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
    drawn = curves(lines, "update", "probe accuracy, 40 labels", title, log="x", across={"pixels": pixels})
    drawn.axes[0].set_xticks(ticks, [f"{step:,}" for step in ticks])
    drawn.axes[0].set_xticks([], minor=True)
    each = "; ".join(
        f"{name} " + ", ".join(f"{y:.2f} after {x}" for x, y in zip(*line, strict=True)) for name, line in lines.items()
    )
    show(drawn, alt=f"Accuracy of a probe with forty labels through training, {title}: {each}; the pixels {pixels:.2f}.")


def untrained(seed: int) -> nn.Sequential:
    """Create the encoder of `few_labels.backbone` with its random initial weights, in evaluation mode."""
    torch.manual_seed(seed)
    return backbone().to(device()).eval()


@torch.no_grad()
def probe_accuracy(
    encoder: Callable[[Tensor], Tensor],
    digits: DigitSplit,
    seed: int,
    n_each: int,
    fit_probe: Callable[..., LinearProbe],
    draws: int = 4,
) -> float:
    """Measure a linear probe of frozen features of unit length on unseen digits.

    Args:
        encoder: computes features (n, d) of images.
        digits: images, labels and splits.
        seed: of the split.
        n_each: labelled digits of each class.
        fit_probe: `linear_probe`.
        draws: of the labelled digits; the accuracy is their mean.
    """
    images, labels, unseen = digits.images, digits.labels, digits.unseen[seed]
    new, correct = unit(encoder(images[unseen])), []
    for draw in range(draws):
        chosen = few(digits, seed, n_each, draw)
        weight, bias = fit_probe(unit(encoder(images[chosen])), labels[chosen], 10, 0.1)
        correct.append((new @ weight.to(new).mT + bias.to(new)).argmax(-1) == labels[unseen])
    return torch.stack(correct).float().mean().item()


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
        alt=f"Embeddings of {n} unseen digits, arranged by t-SNE; the nearest other of {len(kinds):,} embeddings has the same "
        f"class for {agree}.",
    )


def nt_xent_of_adjacent_rows(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """Compute NT-Xent of stacked views (N, d) each, with rows 2k - 1 and 2k of the stack as pairs: the error of the deck."""
    z = unit(torch.cat([a, b]))
    similarity = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(similarity, torch.arange(len(z)) ^ 1)
