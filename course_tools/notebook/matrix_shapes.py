"""Test whether two matrices have the shapes of a product or a sum: for formulas of the decks that do not fit."""

from collections.abc import Callable

import torch
from torch import Tensor


def conforms(left: Tensor, right: Tensor, combine: Callable[[Tensor, Tensor], Tensor] = torch.matmul) -> bool:
    """Return whether `combine(left, right)` exists and is a matrix, such as the product, or the sum with `torch.add`."""
    try:
        return combine(left, right).dim() == 2
    except RuntimeError:
        return False
