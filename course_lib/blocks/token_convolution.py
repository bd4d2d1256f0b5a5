"""The MLP-Mixer as a convolutional network, with the weights of the Mixer laid out as kernels.

Tolstikhin et al. 2021, section 2 (https://arxiv.org/abs/2105.01601): channel mixing is a convolution with kernels of 1 × 1,
token mixing a depth-wise one, whose kernels are as large as the image, the same for every channel:

    h[c, j] = σ(Σ_rs W_1[j, rs] x[c, r, s] + b_1[j])        y[c, rs] = Σ_j W_2[rs, j] h[c, j] + b_2[rs]

Without padding, a kernel of the image's size has one place to stand; d channels are d groups.
"""

from typing import NamedTuple

import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor

from course_lib.shapes import Image


class Kernels(NamedTuple):
    """Two convolutions in d groups: `first` from d to d · d_s channels, `second` from there to d · H · W; their biases."""

    first: Float[Tensor, "d_d_s 1 H W"]
    first_bias: Float[Tensor, "d_d_s"]
    second: Float[Tensor, "d_N d_s 1 1"]
    second_bias: Float[Tensor, "d_N"]


def token_mixing_kernels(
    W_1: Float[Tensor, "d_s N"],
    b_1: Float[Tensor, "d_s"],
    W_2: Float[Tensor, "N d_s"],
    b_2: Float[Tensor, "N"],
    d: int,
    H: int,
    W: int,
) -> Kernels:
    """Lay out the weights of token mixing as the kernels of two depth-wise convolutions.

    Args:
        W_1: (d_s, N) of `token_mixing`, N = H · W places row by row.
        b_1: (d_s,).
        W_2: (N, d_s).
        b_2: (N,).
        d: channels of the image, each a group of its own.
        H: height of the grid of patches.
        W: its width.

    Returns:
        Kernels(first (d · d_s, 1, H, W), first_bias (d · d_s,), second (d · N, d_s, 1, 1), second_bias (d · N,)), as
        `F.conv2d(…, groups=d)` takes them; the outputs of one channel stand together.

    Raises:
        ValueError: the weights do not mix H · W places.

    Source: Tolstikhin et al. 2021, section 2.
    """
    if W_1.shape[1] != H * W or W_2.shape[0] != H * W:
        raise ValueError(f"{H} × {W} places need weights for {H * W}, got {tuple(W_1.shape)} and {tuple(W_2.shape)}.")
    return Kernels(
        repeat(W_1, "d_s (H W) -> (d d_s) 1 H W", d=d, H=H),
        b_1.repeat(d),
        repeat(W_2, "N d_s -> (d N) d_s 1 1", d=d),
        b_2.repeat(d),
    )


def token_mixing_by_convolution(
    x: Image,
    W_1: Float[Tensor, "d_s N"],
    b_1: Float[Tensor, "d_s"],
    W_2: Float[Tensor, "N d_s"],
    b_2: Float[Tensor, "N"],
) -> Image:
    """Compute `token_mixing` of an image (B, d, H, W) whose pixels are the places, by two convolutions in d groups."""
    d, H, W = x.shape[1:]
    first, first_bias, second, second_bias = token_mixing_kernels(W_1, b_1, W_2, b_2, d, H, W)
    hidden = F.gelu(F.conv2d(x, first, first_bias, groups=d))
    return rearrange(F.conv2d(hidden, second, second_bias, groups=d), "B (d H W) 1 1 -> B d H W", d=d, H=H)


def channel_mixing_by_convolution(
    x: Image,
    W_3: Float[Tensor, "d_c d"],
    b_3: Float[Tensor, "d_c"],
    W_4: Float[Tensor, "d d_c"],
    b_4: Float[Tensor, "d"],
) -> Image:
    """Compute `channel_mixing` of an image (B, d, H, W) whose pixels are the places, by two convolutions of 1 × 1."""
    return F.conv2d(F.gelu(F.conv2d(x, W_3[..., None, None], b_3)), W_4[..., None, None], b_4)
