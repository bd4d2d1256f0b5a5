"""Labelled images, and the choice of a few labelled examples of each class."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["LabelledImages", "few_of_each"]


class LabelledImages(NamedTuple):
    """Images (n, C, H, W) with values from 0 to 1, and their classes (n,)."""

    images: Float[Tensor, "n C H W"]
    labels: Int[Tensor, "n"]


def few_of_each(labels: Int[Tensor, "n"], n_each: int, seed: int) -> Int[Tensor, "m"]:
    """Choose the same number of examples of every class, at random.

    Args:
        labels: (n,), classes of any numbers.
        n_each: number of examples of each class.
        seed: seed of the random choice.

    Returns:
        indices into `labels`, n_each of the lowest class first, then of the next; (n_classes · n_each,).

    Raises:
        ValueError: a class has fewer examples.
    """
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).to(labels.device)
    kinds = labels.unique()
    chosen = [shuffled[labels[shuffled] == kind][:n_each] for kind in kinds]
    for kind, found in zip(kinds.tolist(), chosen, strict=True):
        if len(found) < n_each:
            raise ValueError(f"{n_each} examples of each class requested, but class {kind} has only {len(found)}.")
    return torch.cat(chosen)
