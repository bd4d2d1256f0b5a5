"""Handwritten digits, 8 × 8 pixels, from scikit-learn: for quick experiments, and for sequences of pixels.

The test part of the UCI set of Alpaydin & Kaynak 1998, https://doi.org/10.24432/C50P49 (CC BY 4.0).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.optional_import import optional_import

__all__ = ["digits"]


class Digits(NamedTuple):
    """Images (B, 8, 8) with ink from 0 to 1, and the digit that each shows, (B,)."""

    images: Float[Tensor, "B 8 8"]
    labels: Int[Tensor, "B"]


def digits() -> Digits:
    """Load all 1,797 digits, in the order of the file; about 180 of each."""
    bunch = optional_import("sklearn.datasets", "scikit-learn", "The handwritten digits").load_digits()
    return Digits(torch.tensor(bunch.images / 16, dtype=torch.float32), torch.tensor(bunch.target))
