"""Train a classifier of handwritten digits, and measure its accuracy on the test set: the experiment of lecture 13."""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from course_lib.training import batches
from course_tools.notebook.device import at_scale, device
from course_tools.notebook.digit_split import DigitSplit
from course_tools.notebook.fitting import accuracy_of, classify, fitted


class Trained(NamedTuple):
    """A trained classifier, its accuracy on the test set, and the processor time of its training in seconds."""

    model: nn.Module
    accuracy: float
    seconds: float


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
    torch.manual_seed(seed)
    model, start = make().to(device()), time.process_time()
    stream = batches(images[learn[seed]], labels[learn[seed]], batch_size=32, seed=seed)
    fitted(model, stream, classify, steps=steps, lr=lr, label=f"{label}, seed {seed}")
    seconds = time.process_time() - start
    return Trained(model, accuracy_of(model, images[unseen[seed]], labels[unseen[seed]]), seconds)
