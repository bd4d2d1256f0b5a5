"""Train classifiers of handwritten digits, measure and draw their accuracy on the test set: the experiments of lecture 13."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import nn

from course_lib.training import batches
from course_tools.notebook.device import at_scale, device
from course_tools.notebook.digit_split import DigitSplit
from course_tools.notebook.fitting import accuracy_of, classify, fitted, show_losses
from course_tools.notebook.seed_scores import show_seeds


class Trained(NamedTuple):
    """A trained classifier, its accuracy on the test set, and the processor time of its training in seconds."""

    model: nn.Module
    accuracy: float
    seconds: float


def initialised(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Create a classifier with the initial weights that `fit` gives it, on the device of the course."""
    torch.manual_seed(seed)
    return make().to(device())


def fit(
    make: Callable[[], nn.Module],
    digits: DigitSplit,
    seed: int,
    *,
    steps: int | None = None,
    lr: float = 4e-3,
    label: str = "training",
) -> Trained:
    """Train a new classifier on the digits of one seed, in batches of 32; the seed also determines its weights.

    Args:
        make: creates the classifier.
        digits: the images, and the training digits of each seed.
        seed: determines digits, weights and order.
        steps: number of updates; None = 260, or 400 with CUDA.
        lr: the maximum learning rate.
        label: the label of the progress bar.
    """
    steps = at_scale(cpu=260, gpu=400) if steps is None else steps
    images, labels, learn, unseen = digits
    model, start = initialised(make, seed), time.process_time()
    stream = batches(images[learn[seed]], labels[learn[seed]], batch_size=32, seed=seed)
    fitted(model, stream, classify, steps=steps, lr=lr, label=f"{label}, seed {seed}")
    seconds = time.process_time() - start
    return Trained(model, accuracy_of(model, images[unseen[seed]], labels[unseen[seed]]), seconds)


def fit_seeds(
    make: Callable[[], nn.Module], digits: DigitSplit, seeds: Iterable[int], label: str = "training"
) -> list[Trained]:
    """Call `fit` once for each seed."""
    return [fit(make, digits, seed, label=label) for seed in seeds]


@torch.no_grad()
def loss_on_unseen(model: nn.Module, digits: DigitSplit, seed: int, n: int = 100) -> float:
    """Compute the cross-entropy of the first n test digits of a seed, in nats."""
    rows = digits.unseen[seed][:n]
    return classify(model, (digits.images[rows], digits.labels[rows])).item()


def show_classifiers(trained: Mapping[str, Sequence[Trained]], earlier: Mapping[str, Sequence[Trained]] | None = None) -> None:
    """Draw the training losses of classifiers, the mean of the seeds, and the accuracy of each seed.

    Args:
        trained: name -> the classifiers of one kind, which differ only in their seed.
        earlier: the same for classifiers whose losses an earlier figure shows: only their accuracies are drawn.
    """
    show_losses({name: [one.model for one in runs] for name, runs in trained.items()})
    groups = {**trained, **(earlier or {})}
    show_seeds({name: [one.accuracy for one in runs] for name, runs in groups.items()}, across={"chance": 0.1})
