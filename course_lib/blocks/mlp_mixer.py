"""MLP-Mixer blocks: token mixing and channel mixing by two networks, also written as convolutions.

Tolstikhin et al. 2021, *MLP-Mixer*, eq. 1 (https://arxiv.org/abs/2105.01601), X: N patches × d channels, σ = GELU:

    U = X + (W_2 σ(W_1 LN(X)))        tokens: W_1 (d_s, N), the same for every channel
    Y = U + (W_4 σ(W_3 LN(U)ᵀ))ᵀ      channels: W_3 (d_c, d), the same for every position

W_1 has a column for each position: the number of patches is fixed, and no position encoding is added. σ is the exact GELU; the
authors' JAX code uses the approximation by tanh.

As convolutions (section 2), channel mixing has kernels of 1 × 1, and token mixing is depth-wise, with kernels as large as the
image, the same for every channel. Without padding, such a kernel has a single position; d channels are d groups:

    h[c, j] = σ(Σ_rs W_1[j, rs] x[c, r, s] + b_1[j])        y[c, rs] = Σ_j W_2[rs, j] h[c, j] + b_2[rs]

`fast.lean_token_mixing` is token mixing without a transposition.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.blocks.block import FeedForwardWeights, NormWeights
from course_lib.primitives import layer_norm
from course_lib.shapes import Image

__all__ = [
    "MixerSizes",
    "TokenMixing",
    "TokenMixingKernels",
    "channel_mixing",
    "channel_mixing_by_convolution",
    "mixer_block",
    "reordered_token_mixing",
    "token_mixing",
    "token_mixing_by_convolution",
    "token_mixing_kernels",
]

PatchFeatures = Float[Tensor, "B N d"]


def token_mixing(
    x: PatchFeatures,
    W_1: Float[Tensor, "d_s N"],
    b_1: Float[Tensor, "d_s"],
    W_2: Float[Tensor, "N d_s"],
    b_2: Float[Tensor, "N"],
) -> PatchFeatures:
    """Mix the positions of an image by a network over them, y = W_2 GELU(W_1 x + b_1) + b_2 for every channel x.

    Args:
        x: (B, N, d).
        W_1: (d_s, N), stored as torch.nn.Linear stores it.
        b_1: (d_s,).
        W_2: (N, d_s).
        b_2: (N,).

    Returns:
        (B, N, d); no channel depends on another.

    Source: Tolstikhin et al. 2021, eq. 1, first line.
    """
    return (F.gelu(x.mT @ W_1.mT + b_1) @ W_2.mT + b_2).mT


def channel_mixing(
    x: PatchFeatures,
    W_3: Float[Tensor, "d_c d"],
    b_3: Float[Tensor, "d_c"],
    W_4: Float[Tensor, "d d_c"],
    b_4: Float[Tensor, "d"],
) -> PatchFeatures:
    """Mix the channels of each position by a network over them, the same for every position.

    Args:
        x: (B, N, d).
        W_3: (d_c, d), stored as torch.nn.Linear stores it.
        b_3: (d_c,).
        W_4: (d, d_c).
        b_4: (d,).

    Returns:
        (B, N, d); no position depends on another.

    Source: Tolstikhin et al. 2021, eq. 1, second line: a position-wise feed-forward network with GELU.
    """
    return F.gelu(x @ W_3.mT + b_3) @ W_4.mT + b_4


def mixer_block(
    x: PatchFeatures, tokens: FeedForwardWeights, channels: FeedForwardWeights, norms: tuple[NormWeights, NormWeights]
) -> PatchFeatures:
    """Apply a Mixer block: mix positions, then channels, each on a normalised input and with a residual connection.

    Args:
        x: (B, N, d).
        tokens: (W_1, b_1, W_2, b_2) of `token_mixing`.
        channels: (W_3, b_3, W_4, b_4) of `channel_mixing`.
        norms: (gain, bias) of `layer_norm` before token mixing, and before channel mixing.

    Returns:
        (B, N, d).

    Source: Tolstikhin et al. 2021, eq. 1.
    """
    x = x + token_mixing(layer_norm(x, *norms[0]), *tokens)
    return x + channel_mixing(layer_norm(x, *norms[1]), *channels)


def reordered_token_mixing(
    W_1: Float[Tensor, "d_s N"],
    b_1: Float[Tensor, "d_s"],
    W_2: Float[Tensor, "N d_s"],
    b_2: Float[Tensor, "N"],
    order: Int[Tensor, "N"],
) -> tuple[Float[Tensor, "d_s N"], Float[Tensor, "d_s"], Float[Tensor, "N d_s"], Float[Tensor, "N"]]:
    """Permute the weights of token mixing to fit a permutation of the positions.

    Args:
        W_1: (d_s, N) of `token_mixing`.
        b_1: (d_s,).
        W_2: (N, d_s).
        b_2: (N,).
        order: (N,), a permutation: position i of the shuffled image is position order[i] of the image.

    Returns:
        (W_1, b_1, W_2, b_2), such that token mixing of x[:, order] gives the result of x, permuted in the same way.

    Source: Tolstikhin et al. 2021, section 3.4: Mixer is invariant to the order of the patches and the pixels within them.
    """
    return W_1[:, order], b_1, W_2[order], b_2[order]


class TokenMixing(nn.Module):
    """The token mixer of an MLP-Mixer: owns two linear layers over the positions, `W_1` and `W_2`."""

    def __init__(self, n_tokens: int, d_tokens: int, mix: Callable[..., Tensor] = token_mixing) -> None:
        """Set up for n_tokens positions; `mix` is `token_mixing` or a faster form of it."""
        super().__init__()
        self.W_1 = nn.Linear(n_tokens, d_tokens)
        self.W_2 = nn.Linear(d_tokens, n_tokens)
        self.mix = mix

    def forward(self, x: PatchFeatures) -> PatchFeatures:
        """Mix the positions of x (B, N, d), as many as W_1 has inputs: each has its own weights."""
        return self.mix(x, self.W_1.weight, self.W_1.bias, self.W_2.weight, self.W_2.bias)


class TokenMixingKernels(NamedTuple):
    """Two convolutions in d groups: `first` from d to d · d_s channels, `second` from these to d · H · W; their biases."""

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
) -> TokenMixingKernels:
    """Arrange the weights of token mixing as kernels of two convolutions in d groups, the first of them depth-wise.

    Args:
        W_1: (d_s, N) of `token_mixing`, N = H · W positions row by row.
        b_1: (d_s,).
        W_2: (N, d_s).
        b_2: (N,).
        d: channels of the image, each a separate group.
        H: height of the grid of patches.
        W: its width.

    Returns:
        TokenMixingKernels(first (d · d_s, 1, H, W), first_bias (d · d_s,), second (d · N, d_s, 1, 1), second_bias (d · N,)), as
        `F.conv2d(…, groups=d)` takes them; the outputs of one channel are adjacent.

    Raises:
        ValueError: the weights do not mix H · W positions.

    Source: Tolstikhin et al. 2021, section 2.
    """
    if W_1.shape[1] != H * W or W_2.shape[0] != H * W:
        raise ValueError(f"{H} × {W} positions need weights for {H * W}, got {tuple(W_1.shape)} and {tuple(W_2.shape)}.")
    return TokenMixingKernels(
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
    """Compute `token_mixing` of an image (B, d, H, W) whose pixels are the positions, by two convolutions in d groups."""
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
    """Compute `channel_mixing` of an image (B, d, H, W) whose pixels are the positions, by two convolutions of 1 × 1."""
    return F.conv2d(F.gelu(F.conv2d(x, W_3[..., None, None], b_3)), W_4[..., None, None], b_4)


class MixerSizes(NamedTuple):
    """Size of a Mixer: channels of a patch, width of the networks over positions and over channels, and layers."""

    d_model: int
    d_tokens: int
    d_channels: int
    n_layers: int
