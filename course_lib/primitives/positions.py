"""Position encodings, sinusoidal and learned: a vector that is added to the embedding of a token.

Vaswani et al. 2017, section 3.5 (https://arxiv.org/abs/1706.03762):

    PE[t, 2i]   = sin(t / 10000^(2i / d_model))
    PE[t, 2i+1] = cos(t / 10000^(2i / d_model))

`sinusoidal_positions` is the formula; `sinusoids` computes the same rows from any start.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["LearnedPositions", "sinusoidal_points", "sinusoidal_positions", "sinusoids"]


def sinusoidal_positions(T: int, d_model: int, device: torch.device | str | None = None) -> Float[Tensor, "T d_model"]:
    """Encode positions 0 to T-1 by sines (even features) and cosines (odd features) of decreasing frequency.

    Args:
        T: number of positions.
        d_model: number of features; if it is odd, the last sine has no cosine.
        device: of the encoding.

    Returns:
        (T, d_model), values in -1…1.

    Source: Vaswani et al. 2017, section 3.5.
    """
    t = torch.arange(T, device=device)[:, None]
    even = torch.arange(0, d_model, 2, device=device)
    angle = t / 10_000 ** (even / d_model)
    encoding = torch.empty(T, d_model, device=device)
    encoding[:, 0::2] = angle.sin()
    encoding[:, 1::2] = angle.cos()[:, : d_model // 2]
    return encoding


def sinusoids(start: int, T: int, d_model: int, device: torch.device | str | None = None) -> Float[Tensor, "T d_model"]:
    """Compute rows start … start + T - 1 of `sinusoidal_positions`, at a cost independent of start.

    Args:
        start: the first position.
        T: number of positions.
        d_model: number of features.
        device: of the encoding.

    Returns:
        (T, d_model), values in -1…1.

    Source: Vaswani et al. 2017, section 3.5.
    """
    t = start + torch.arange(T, device=device)[:, None]
    return _turns(t / 10_000 ** (torch.arange(0, d_model, 2, device=device) / d_model))[:, :d_model]


def sinusoidal_points(points: Float[Tensor, "*batch 2"], d_model: int) -> Float[Tensor, "*batch d_model"]:
    """Encode points of an image by sines and cosines: half of the features encode y, half x.

    Args:
        points: (*batch, 2), each (x, y) in fractions of the image, 0 to 1.
        d_model: number of features, a multiple of 4.

    Returns:
        (*batch, d_model), values in -1…1, in the dtype of the points; y first. At the highest frequency the
        whole image is one period; at the lowest a hundredth of one or less, from d_model = 8 on.

    Raises:
        ValueError: 4 does not divide d_model.

    Source: Carion et al. 2020, appendix A.4 (https://arxiv.org/abs/2005.12872), with a coordinate times 2π for the position t.
    """
    if d_model % 4:
        raise ValueError(f"a point takes a sine and a cosine for each of x and y, but 4 does not divide d_model = {d_model}.")
    half = d_model // 2
    speed = 10_000 ** (-torch.arange(0, half, 2, device=points.device) / half)
    wide = points.to(torch.promote_types(points.dtype, torch.float32))
    angle = 2 * math.pi * wide.flip(-1)[..., None] * speed
    return _turns(angle).flatten(-2).to(points.dtype)


def _turns(angle: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch 2*n"]:
    """Interleave the sine and the cosine of each angle."""
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


class LearnedPositions(nn.Module):
    """One learned vector for each position up to T_max (Gehring et al. 2017, https://arxiv.org/abs/1705.03122)."""

    def __init__(self, T_max: int, d_model: int) -> None:
        """Draw T_max vectors from N(0, 0.02²), as BERT and GPT do."""
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(T_max, d_model) * 0.02)

    def forward(self, T: int) -> Float[Tensor, "T d_model"]:
        """Look up the vectors of positions 0 to T-1; ValueError if T is not in 0…T_max."""
        if not 0 <= T <= len(self.vectors):
            raise ValueError(f"{T} positions were requested, but only {len(self.vectors)} are learned.")
        return self.vectors[:T]
