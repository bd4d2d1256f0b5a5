"""Multiplicative attention: a product scores each pair of query and key. Dot and its fused twin, general (bilinear), concat.

Luong, Pham, Manning 2015, *Effective Approaches to Attention-based Neural Machine Translation*, section 3.1
(https://arxiv.org/abs/1508.04025), where the query is the decoder's state h_t and the keys are the encoder's h̄_s:

    dot      e_ij = q_iᵀ k_j
    general  e_ij = q_iᵀ W k_j
    concat   e_ij = vᵀ tanh(W [q_i; k_j])

Concat is additive attention (Bahdanau et al.) with its two matrices side by side in one: it stands here because Luong lists
it, and a test holds the two equal.
"""

import math

import torch
import torch.nn.functional as F
from einops import repeat
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import Attended, attend, require_mask
from course_lib.shapes import Keys, Mask, Queries, Scores, Values


def dot_scores(q: Queries, k: Keys) -> Scores:
    """Score by e_ij = q_iᵀ k_j; queries and keys must have the same size.

    Args:
        q: queries (*batch, T_q, d_k).
        k: keys (*batch, T_k, d_k).

    Returns:
        scores (*batch, T_q, T_k).

    Raises:
        ValueError: queries and keys differ in size.

    Source: Luong et al. 2015, eq. 8.
    """
    _require_one_size(q, k)
    return q @ k.mT


def general_scores(q: Queries, k: Keys, W: Float[Tensor, "d_q d_k"]) -> Scores:
    """Score by the bilinear form e_ij = q_iᵀ W k_j; queries and keys may differ in size.

    Args:
        q: queries (*batch, T_q, d_q).
        k: keys (*batch, T_k, d_k).
        W: (d_q, d_k).

    Returns:
        scores (*batch, T_q, T_k).

    Source: Luong et al. 2015, eq. 8 (general).
    """
    return q @ W @ k.mT


def concat_scores(q: Queries, k: Keys, W: Float[Tensor, "d_a d_q+d_k"], v: Float[Tensor, "d_a"]) -> Scores:
    """Score by a small network over the pair, e_ij = vᵀ tanh(W [q_i; k_j]), the query first.

    Args:
        q: queries (*batch, T_q, d_q).
        k: keys (*batch, T_k, d_k).
        W: (d_a, d_q + d_k), acts on the query and the key joined.
        v: (d_a,).

    Returns:
        scores (*batch, T_q, T_k).

    Source: Luong et al. 2015, eq. 8 (concat).
    """
    T_q, T_k = q.shape[-2], k.shape[-2]
    every_q = repeat(q, "... T_q d -> ... T_q T_k d", T_k=T_k)
    every_k = repeat(k, "... T_k d -> ... T_q T_k d", T_q=T_q)
    pairs = torch.cat([every_q, every_k], dim=-1)
    return torch.tanh(pairs @ W.mT) @ v


def dot_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
    """Attend from q (*batch, T_q, d_k) over k (*batch, T_k, d_k) and v (*batch, T_k, d_v) by dot products without a scale."""
    return attend(dot_scores(q, k), v, mask)


def fused_dot_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
    """Compute the context of `dot_attention` by torch's fused kernel; the weights are not built, but None.

    The kernel wants just two axes in front, and features side by side in memory; else it silently builds the T_q × T_k numbers.
    """
    _require_one_size(q, k)
    batch = q.shape[:-2]
    if mask is not None:
        require_mask(mask, (*q.shape[:-1], k.shape[-2]))
        mask = torch.atleast_2d(mask)
        mask = mask.expand(*batch, *mask.shape[-2:]).reshape(-1, 1, *mask.shape[-2:]) if mask.dim() > 2 else mask
    packed = (x.reshape(math.prod(batch), 1, *x.shape[-2:]).contiguous() for x in (q, k, v))
    context = F.scaled_dot_product_attention(*packed, attn_mask=mask, scale=1.0)
    return Attended(context.reshape(*batch, *context.shape[-2:]), None)


def _require_one_size(q: Queries, k: Keys) -> None:
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"a dot product needs queries and keys of one size, got {q.shape[-1]} and {k.shape[-1]}. "
            "Project one of them, or use general_scores, whose W takes keys to queries."
        )


class GeneralAttention(nn.Module):
    """Luong's general mechanism, also called bilinear: owns W (d_q, d_k)."""

    def __init__(self, d_q: int, d_k: int) -> None:
        """Draw W uniformly within ± d_k^-½."""
        super().__init__()
        self.W = nn.Parameter(torch.empty(d_q, d_k).uniform_(-(d_k**-0.5), d_k**-0.5))

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
        """Attend from q (*batch, T_q, d_q) over k (*batch, T_k, d_k) and v (*batch, T_k, d_v)."""
        return attend(general_scores(q, k, self.W), v, mask)


class ConcatAttention(nn.Module):
    """Luong's concat mechanism: owns W (d_a, d_q + d_k) and v (d_a,)."""

    def __init__(self, d_q: int, d_k: int, d_a: int) -> None:
        """Draw W and v uniformly within ± the inverse square root of what they sum over."""
        super().__init__()
        d_pair = d_q + d_k
        self.W = nn.Parameter(torch.empty(d_a, d_pair).uniform_(-(d_pair**-0.5), d_pair**-0.5))
        self.v = nn.Parameter(torch.empty(d_a).uniform_(-(d_a**-0.5), d_a**-0.5))

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
        """Attend from q (*batch, T_q, d_q) over k (*batch, T_k, d_k) and v (*batch, T_k, d_v)."""
        return attend(concat_scores(q, k, self.W, self.v), v, mask)
