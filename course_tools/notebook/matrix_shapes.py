"""Test whether two matrices have the shapes of a product: for formulas of the decks that do not fit."""

from torch import Tensor


def conforms(left: Tensor, right: Tensor) -> bool:
    """Return whether `left @ right` exists and is a matrix."""
    try:
        return (left @ right).dim() == 2
    except RuntimeError:
        return False
