"""Local windows of an image: the size × size positions around each position, and a mask of those inside the image.

    𝒩(i, j) = {(a, b) : |a - i| ≤ size // 2, |b - j| ≤ size // 2}

Ramachandran et al. 2019, section 2.2 (https://arxiv.org/abs/1906.05909), where it is called the memory block of a pixel.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["local_windows", "window_mask"]


def local_windows(x: Float[Tensor, "*batch H W d"], size: int, stride: int = 1) -> Float[Tensor, "*batch H_q W_q window d"]:
    """Collect the window around every position, row by row, with zeros outside the image.

    Args:
        x: (*batch, H, W, d).
        size: side of a window, odd, so that it has a centre.
        stride: distance between the centres of two windows; the first is the first position.

    Returns:
        (*batch, ⌈H / stride⌉, ⌈W / stride⌉, size², d); the centre has index size² // 2.

    Raises:
        ValueError: the size is even, or size or stride is not positive.

    Source: Ramachandran et al. 2019, section 2.2.
    """
    require_window(size, stride)
    reach = size // 2
    padded = F.pad(x, (0, 0, reach, reach, reach, reach))
    windows = padded.unfold(-3, size, stride).unfold(-3, size, stride)
    return rearrange(windows, "... d row column -> ... (row column) d")


def window_mask(
    H: int, W: int, size: int, stride: int = 1, device: torch.device | str | None = None
) -> Bool[Tensor, "H_q W_q window"]:
    """Make a mask of the windows of `local_windows`: True = inside the image (H, W), may be attended to."""
    return local_windows(torch.ones(H, W, 1, device=device), size, stride).squeeze(-1) > 0


def require_window(size: int, stride: int) -> None:
    """Raise a ValueError unless size is odd and positive and stride is positive."""
    if size < 1 or size % 2 == 0:
        raise ValueError(f"a window needs a centre: its side must be odd and positive, such as 3 or 7; got {size}.")
    if stride < 1:
        raise ValueError(f"the stride must be 1 or more, got {stride}.")
