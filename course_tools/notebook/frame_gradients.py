"""Which frames of a video the output for the first frame depends on, measured by gradients."""

from collections.abc import Callable

import torch
from torch import Tensor

VideoBlock = Callable[..., Tensor]
"""A block `(x, *matrices)` from x (B, C, T, H, W) to the same shape, such as `non_local_block`."""


def gradient_of_each_frame(block: VideoBlock, video: Tensor, *matrices: Tensor) -> Tensor:
    """Sum the absolute gradient of the first output frame with respect to each input frame, (T,).

    Args:
        block: `(x, *matrices)`.
        video: (B, C, T, H, W).
        matrices: the weights of the block.
    """
    x = video.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(block(x, *matrices)[:, :, 0].sum(), x)
    return gradient.abs().sum((0, 1, 3, 4))


def frame_by_frame(block: VideoBlock) -> VideoBlock:
    """Create the block that is applied to each frame (B, C, H, W) separately."""
    return lambda x, *matrices: torch.stack([block(frame, *matrices) for frame in x.unbind(2)], dim=2)
