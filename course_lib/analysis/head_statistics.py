"""Per-head attention statistics: weight on previous, current and next token and on delimiters, and entropy.

Clark, Khandelwal, Levy, Manning 2019, *What Does BERT Look At?*, section 3 (https://arxiv.org/abs/1906.04341), with α_ij the
attention weight of token i on token j:

    previous  mean_i α_{i,i-1}      current  mean_i α_{i,i}      following  mean_i α_{i,i+1}
    delimiters  mean_i Σ_{j ∈ delimiters} α_ij      entropy  mean_i - Σ_j α_ij log α_ij
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from course_lib.primitives.preconditions import requires, shape_checked
from course_lib.shapes import Lengths

__all__ = ["HeadStatistics", "head_statistics"]

PerHead = Float[Tensor, "h"]


class HeadStatistics(NamedTuple):
    """Statistics of each head, (h,): mean weight on previous, current and next token and on delimiters; entropy in nats."""

    previous: PerHead
    current: PerHead
    following: PerHead
    delimiters: PerHead
    entropy: PerHead


def _require_range(weights: Tensor, delimiters: Tensor, lengths: Tensor) -> None:
    T = weights.shape[-1]
    if lengths.numel() and not 1 <= int(lengths.min()) <= int(lengths.max()) <= T:
        raise ValueError(f"lengths must be 1 to {T}, got {lengths.tolist()}.")


@shape_checked()
@requires(_require_range)
def head_statistics(weights: Float[Tensor, "B h T T"], delimiters: Bool[Tensor, "B T"], lengths: Lengths) -> HeadStatistics:
    """Average attention of each head to previous, current and next token and to delimiters, and its entropy.

    Args:
        weights: (B, h, T, T) of self-attention, each row of a real token with sum 1; rows of padding do not count.
        delimiters: (B, T), True at [SEP] and other delimiters.
        lengths: (B,), real tokens of each sequence, ≥ 1.

    Returns:
        five numbers for each head, (h,). Previous and next token are averaged over the tokens that have one
        (NaN if no sequence has two tokens). The entropy is between 0 and log T.

    Raises:
        ValueError: a length is not 1 to T.

    Source: Clark et al. 2019, section 3.
    """
    position = torch.arange(weights.shape[-1], device=weights.device)
    real = position < lengths[:, None]

    def mean(values: Tensor, counts: Tensor) -> Tensor:
        return torch.where(counts[:, None], values, 0.0).sum((0, 2)) / counts.sum()

    return HeadStatistics(
        mean(weights.diagonal(-1, -2, -1), real[:, 1:]),
        mean(weights.diagonal(0, -2, -1), real),
        mean(weights.diagonal(1, -2, -1), real[:, 1:]),
        mean((weights * delimiters[:, None, None]).sum(-1), real),
        mean(torch.special.entr(weights).sum(-1), real),
    )
