"""Windows of a picture: the size × size places around each place, and which of them lie inside.

    𝒩(i, j) = {(a, b) : |a - i| ≤ size // 2, |b - j| ≤ size // 2}

Ramachandran et al. 2019, section 3.1 (https://arxiv.org/abs/1906.05909), where it is the memory block of a pixel.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor


def local_windows(x: Float[Tensor, "*batch H W d"], size: int, stride: int = 1) -> Float[Tensor, "*batch H_q W_q window d"]:
    """Collect the places around every place, row by row; where a window leaves the picture it holds zeros.

    Args:
        x: (*batch, H, W, d).
        size: side of a window, odd, so that it has a middle.
        stride: steps between the middles of two windows; the first lies on the first place.

    Returns:
        (*batch, ⌈H / stride⌉, ⌈W / stride⌉, size², d); the middle is number size² // 2.

    Raises:
        ValueError: the size is even, or size or stride is not positive.

    Source: Ramachandran et al. 2019, section 3.1.
    """
    require_window(size, stride)
    reach = size // 2
    padded = F.pad(x, (0, 0, reach, reach, reach, reach))
    windows = padded.unfold(-3, size, stride).unfold(-3, size, stride)
    return rearrange(windows, "... d row column -> ... (row column) d")


def window_mask(
    H: int, W: int, size: int, stride: int = 1, device: torch.device | None = None
) -> Bool[Tensor, "H_q W_q window"]:
    """Say which places of the windows of `local_windows` lie inside a picture (H, W): True = inside, may be looked at."""
    return local_windows(torch.ones(H, W, 1, device=device), size, stride).squeeze(-1) > 0


def require_window(size: int, stride: int) -> None:
    """Refuse a window without a middle, and a step that is none; say how to mend it."""
    if size < 1 or size % 2 == 0:
        raise ValueError(f"a window needs a middle: its side must be odd and positive, such as 3 or 7; got {size}.")
    if stride < 1:
        raise ValueError(f"the stride must be 1 or more, got {stride}.")
