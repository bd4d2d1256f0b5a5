"""Classify handwritten digits from a few labels, with augmentation: data, encoder and baseline of lecture 16."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.blocks import ConvNet
from course_lib.datasets import Augmentation, few_of_each
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.digit_split import DigitSplit, digit_split
from course_tools.notebook.fitting import accuracy_of, fitted
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

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
