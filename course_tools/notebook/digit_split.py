"""Handwritten digits split into 4,000 for training and 1,000 for testing, with a different split for each seed."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.datasets import mnist, split
from course_tools.notebook.device import device


class DigitSplit(NamedTuple):
    """Images (5000, 1, 28, 28) and labels (5000,) on the device; by seed, the training indices and the test indices."""

    images: Tensor
    labels: Tensor
    learn: dict[int, Tensor]
    unseen: dict[int, Tensor]


def digit_split(seeds: Iterable[int]) -> DigitSplit:
    """Load the digits, and split their indices for each seed.

    Args:
        seeds: the seeds of the splits.
    """
    images, labels = (part.to(device()) for part in mnist())
    parts = {seed: split(range(len(labels)), 4_000, 0, 1_000, seed) for seed in seeds}
    learn = {seed: torch.tensor(part.train, device=device()) for seed, part in parts.items()}
    unseen = {seed: torch.tensor(part.test, device=device()) for seed, part in parts.items()}
    return DigitSplit(images, labels, learn, unseen)
