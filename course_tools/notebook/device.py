"""Where a lecture runs, and how large: one notebook for a laptop and for a GPU."""

from typing import TypeVar

import torch

T = TypeVar("T")


def device() -> torch.device:
    """Pick the best device at hand: CUDA, then Apple's MPS, then the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def at_scale(*, cpu: T, gpu: T) -> T:
    """Choose between two stated settings: `gpu` where CUDA is at hand, else `cpu` (MPS serves laptops, so it counts as one).

    Example: `steps = at_scale(cpu=300, gpu=3_000)`.
    """
    return gpu if device().type == "cuda" else cpu
