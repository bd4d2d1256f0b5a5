"""Digits in clutter: one digit somewhere on a canvas, among pieces of others.

After the cluttered MNIST of Mnih, Heess, Graves, Kavukcuoglu 2014, *Recurrent Models of Visual Attention*, section 4.1
(https://arxiv.org/abs/1406.6247). Composed here from the drawings of `datasets.mnist`, at half size.
"""

from functools import partial

import torch

from course_lib.datasets.drawings import SIDE, Drawings, composed, stamp
from course_lib.datasets.pictures import LabelledImages
from course_lib.datasets.splits import Splits

__all__ = ["clutter"]

_PIECE = 6


def clutter(
    n_train: int, n_valid: int, n_test: int, canvas: int = 40, n_pieces: int = 12, seed: int = 0
) -> Splits[LabelledImages]:
    """Compose images of a digit in clutter, labelled by the digit.

    Args:
        n_train: images for training.
        n_valid: images for validation.
        n_test: images for testing; no drawing of a digit is in two parts.
        canvas: rows and columns of the image, 14 or more.
        n_pieces: pieces of 6 × 6 pixels, cut out of other drawings and scattered; they may touch each other and the digit.
        seed: seed of all random draws.

    Returns:
        Splits of LabelledImages (n, 1, canvas, canvas) with the digits (n,) as labels.

    Raises:
        ValueError: a part has no image, the canvas is smaller than a digit, or n_pieces is negative.
    """
    if canvas < SIDE or n_pieces < 0:
        raise ValueError(
            f"a digit takes {SIDE} × {SIDE} pixels, and pieces are 0 or more; got canvas={canvas} and n_pieces={n_pieces}."
        )
    return composed((n_train, n_valid, n_test), seed, partial(_compose, canvas=canvas, n_pieces=n_pieces))


def _compose(n: int, drawings: Drawings, generator: torch.Generator, canvas: int, n_pieces: int) -> LabelledImages:
    def any_of(*sizes: int, below: int) -> torch.Tensor:
        return torch.randint(below, sizes, generator=generator)

    labels = any_of(n, below=10)
    m = drawings.shape[1]
    images = stamp(torch.zeros(n, canvas, canvas), drawings[labels, any_of(n, below=m)], any_of(n, 2, below=canvas - SIDE + 1))
    middles = drawings[..., 2:-2, 2:-2].unfold(-2, _PIECE, 2).unfold(-2, _PIECE, 2).flatten(0, 3)
    for _ in range(n_pieces):
        pieces = middles[any_of(n, below=len(middles))]
        images = stamp(images, pieces, any_of(n, 2, below=canvas - _PIECE + 1))
    return LabelledImages(images.unsqueeze(1), labels)
