"""Device and scale of a lecture: one notebook for a laptop and for a GPU."""

from typing import TypeVar

import torch

T = TypeVar("T")


def device() -> torch.device:
    """Pick the accelerator that torch finds, such as CUDA or Apple's MPS, else the CPU."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return torch.device("cpu") if found is None else found


def at_scale(*, cpu: T, gpu: T) -> T:
    """Choose between two settings: `gpu` if CUDA is available, else `cpu`, also on MPS, which is used on laptops.

    Example: `steps = at_scale(cpu=300, gpu=3_000)`.
    """
    return gpu if device().type == "cuda" else cpu
