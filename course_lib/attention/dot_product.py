"""Dot-product attention: scaled, causal, unscaled and bilinear.

Vaswani et al. 2017, *Attention Is All You Need*, section 3.2.1, eq. 1 (https://arxiv.org/abs/1706.03762), divides by √d_k: two
random vectors of size d_k have a dot product of standard deviation √d_k, and without the scale the softmax saturates. Luong,
Pham, Manning 2015, *Effective Approaches to Attention-based Neural Machine Translation*, section 3.1
(https://arxiv.org/abs/1508.04025), where the query is the decoder's state h_t and the keys are the encoder's h̄_s, do not:

    scaled   e_ij = q_iᵀ k_j / √d_k
    dot      e_ij = q_iᵀ k_j
    general  e_ij = q_iᵀ W k_j

Luong's third score, concat, is additive and is defined in `additive.py`. Where no weights are needed, the fused forms are
faster from about 64 positions on, and always on a GPU, and use less memory: `fast.fused_scaled_dot_product_attention`,
`fast.fused_causal_attention` and `fast.fused_dot_attention`.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import (
    Attended,
    attend,
    causal,
    causal_and,
    without_overflow,
)
from course_lib.shapes import Keys, Mask, Queries, Scores, Values

__all__ = [
    "GeneralAttention",
    "causal_attention",
    "dot_attention",
    "dot_scores",
    "general_scores",
    "scaled_dot_product_attention",
]


@without_overflow
def scaled_dot_product_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
    """Attend by scaled dot products, softmax(q kᵀ / √d_k) v.

    Args:
        q: queries (*batch, T_q, d_k).
        k: keys (*batch, T_k, d_k).
        v: values (*batch, T_k, d_v).
        mask: bool, broadcastable to (*batch, T_q, T_k); True = may attend.

    Returns:
        context (*batch, T_q, d_v) and weights (*batch, T_q, T_k); both 0 for a query that may attend to no key.

    Raises:
        RuntimeError: queries and keys differ in size; their product cannot be formed.
        ValueError: keys and values disagree on T_k, or the mask does not broadcast to the scores.
        TypeError: the mask is not bool.

    Source: Vaswani et al. 2017, eq. 1.
    """
    d_k = k.shape[-1]
    scores = q @ k.mT / math.sqrt(d_k)
    return attend(scores, v, mask)


@causal
@without_overflow
def causal_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
    """Attend as `scaled_dot_product_attention`, each query to its own position and earlier ones; `mask` may forbid more.

    If T_k > T_q, the queries are the last T_q positions of the keys. Without `mask`, each query has its own position to
    attend to: no row is empty, and -∞, added to the scores of later positions, is all that `attend` needs; a NaN in a later key
    stays one. √d_k divides the queries, which have fewer entries than the scores. Source: Vaswani et al. 2017, section 3.2.3.

    Raises:
        ValueError: there are more queries than keys, or as `scaled_dot_product_attention`.
    """
    allowed = causal_and(mask, q, k)
    if mask is not None or allowed is None:
        return scaled_dot_product_attention(q, k, v, allowed)
    later = q.new_zeros(allowed.shape).masked_fill_(~allowed, -torch.inf)
    return attend((q / math.sqrt(k.shape[-1]) @ k.mT).add_(later), v)  # several times as fast as filling them


def dot_scores(q: Queries, k: Keys) -> Scores:
    """Score by e_ij = q_iᵀ k_j; queries and keys must have the same size.

    Args:
        q: queries (*batch, T_q, d_k).
        k: keys (*batch, T_k, d_k).

    Returns:
        scores (*batch, T_q, T_k).

    Source: Luong et al. 2015, section 3.1 (dot).
    """
    return q @ k.mT


@without_overflow
def dot_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
    """Attend from q (*batch, T_q, d_k) over k (*batch, T_k, d_k) and v (*batch, T_k, d_v) by dot products without a scale."""
    return attend(dot_scores(q, k), v, mask)


def general_scores(q: Queries, k: Keys, W: Float[Tensor, "d_q d_k"]) -> Scores:
    """Score by the bilinear form e_ij = q_iᵀ W k_j; queries and keys may differ in size.

    Args:
        q: queries (*batch, T_q, d_q).
        k: keys (*batch, T_k, d_k).
        W: (d_q, d_k).

    Returns:
        scores (*batch, T_q, T_k).

    Source: Luong et al. 2015, section 3.1 (general).
    """
    return q @ W @ k.mT


class GeneralAttention(nn.Module):
    """Luong's general mechanism, also called bilinear: owns W (d_q, d_k)."""

    def __init__(self, d_q: int, d_k: int) -> None:
        """Draw W uniformly within ± d_k^-½."""
        super().__init__()
        self.W = nn.Parameter(torch.empty(d_q, d_k).uniform_(-(d_k**-0.5), d_k**-0.5))

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
        """Attend from q (*batch, T_q, d_q) over k (*batch, T_k, d_k) and v (*batch, T_k, d_v)."""
        return _general_attention(q, k, v, self.W, mask)


@without_overflow
def _general_attention(q: Queries, k: Keys, v: Values, W: Float[Tensor, "d_q d_k"], mask: Mask | None) -> Attended:
    return attend(general_scores(q, k, W), v, mask)
