"""Videos of a digit that is hidden by a wall for some frames: does the same digit come out, or another one?

Composed here from the drawings of `datasets.mnist`, at half size. No frame shows two digits, so a single frame is not enough:
frames must be compared.
"""

from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.datasets.splits import Splits
from course_tools.bank.drawn_digits import SIDE, Drawings, composed, pairs_of_kinds, stamp

WALL = 0.5
"""Darkness of the wall."""


class Videos(NamedTuple):
    """Videos (n, 1, T, H, W) with ink from 0 to 1, and a class for each, (n,)."""

    videos: Float[Tensor, "n 1 T H W"]
    labels: Int[Tensor, "n"]


def moving_digits(
    n_train: int, n_valid: int, n_test: int, n_times: int = 6, height: int = 20, n_kinds: int = 10, seed: int = 0
) -> Splits[Videos]:
    """Compose videos of a digit that a wall hides for some frames, labelled by whether the same digit comes out.

    Args:
        n_train: videos for training.
        n_valid: videos for validation.
        n_test: videos for testing; no drawing of a digit is in two parts.
        n_times: frames of a video, T, 2 or more; in the first the digit is at one border, in the last at the other.
        height: rows of a frame, 14 or more; the 42 columns are a third open, a third wall, a third open.
        n_kinds: number of different digits, the lowest ones; 2 to 10.
        seed: seed of all random draws.

    Returns:
        Splits of videos (n, 1, T, height, 42); labels are 1 if the same digit comes out, in another drawing, and 0 if a
        different one does: half of each, or one more of the latter. A digit passes from left to right or from right to left,
        with equal probability, and from any row to any row.

    Raises:
        ValueError: a part has no video, the video or its frames are too small, or n_kinds is not 2 to 10.
    """
    if n_times < 2 or height < SIDE:
        raise ValueError(f"a video needs two frames or more, of {SIDE} rows or more; got {n_times} frames of {height} rows.")
    return composed((n_train, n_valid, n_test), seed, partial(_videos, n_times=n_times, height=height, n_kinds=n_kinds))


def _videos(n: int, drawings: Drawings, generator: torch.Generator, n_times: int, height: int, n_kinds: int) -> Videos:
    kinds, same = pairs_of_kinds(n, n_kinds, generator)
    first = torch.randint(drawings.shape[1], (n,), generator=generator)
    other = (first + torch.randint(1, drawings.shape[1], (n,), generator=generator)) % drawings.shape[1]
    actors = drawings[kinds, torch.stack([first, other], dim=1)]
    passed = torch.linspace(0, 1, n_times)
    rows = torch.randint(height - SIDE + 1, (n, 2), generator=generator).float()
    row = (rows[:, :1] + (rows[:, 1:] - rows[:, :1]) * passed).round().long()
    column = (passed * 2 * SIDE).round().long().expand(n, n_times)
    leftward = torch.randint(2, (n, 1), generator=generator) == 1
    places = torch.stack([row, torch.where(leftward, 2 * SIDE - column, column)], dim=-1)
    shown = actors[:, (passed > 0.5).long()]
    videos = stamp(torch.zeros(n, n_times, height, 3 * SIDE), shown, places)
    videos[..., SIDE : 2 * SIDE] = WALL
    return Videos(videos.unsqueeze(1), same)
