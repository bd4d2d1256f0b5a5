"""Scaled dot-product attention, and its fused twins.

Vaswani et al. 2017, *Attention Is All You Need*, section 3.2.1, eq. 1 (https://arxiv.org/abs/1706.03762):

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V

The scale is the size of the keys: two random vectors of size d_k have a dot product of standard deviation √d_k, and without
the scale the softmax saturates.

Multiplicative attention: a product scores each pair of query and key. Dot and its fused twin, general (bilinear), concat.

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
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import Attended, attend, require_mask
from course_lib.primitives.masks import causal_mask
from course_lib.shapes import Keys, Mask, Queries, Scores, Values


def scaled_dot_product_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
    """Attend by scaled dot products, softmax(q kᵀ / √d_k) v.

    Args:
        q: queries (*batch, T_q, d_k).
        k: keys (*batch, T_k, d_k).
        v: values (*batch, T_k, d_v).
        mask: bool, broadcastable to (*batch, T_q, T_k); True = may look.

    Returns:
        context (*batch, T_q, d_v) and weights (*batch, T_q, T_k); both 0 for a query that may look nowhere.

    Raises:
        RuntimeError: queries and keys differ in size; their product cannot be formed.
        ValueError: keys and values disagree on T_k, or the mask does not broadcast to the scores.
        TypeError: the mask is not bool.

    Source: Vaswani et al. 2017, eq. 1.
    """
    d_k = k.shape[-1]
    scores = q @ k.mT / math.sqrt(d_k)
    return attend(scores, v, mask)


def causal_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
    """Attend as `scaled_dot_product_attention`, each query to its own position and earlier ones; `mask` may forbid more.

    Where T_k > T_q, the queries are the last T_q positions of the keys. Source: Vaswani et al. 2017, section 3.2.3.
    """
    return scaled_dot_product_attention(q, k, v, _causal_and(mask, q, k))


def fused_scaled_dot_product_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
    """Compute the context of `scaled_dot_product_attention` by torch's fused kernel; the weights are not built, but None."""
    if mask is not None:
        require_mask(mask, (*q.shape[:-1], k.shape[-2]))
        mask = torch.atleast_2d(mask)
        mask = mask[None] if mask.dim() == 3 else mask
    return _fused(q, k, v, attn_mask=mask)


def fused_causal_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
    """Compute the context of `causal_attention` by torch's fused kernel; without a further mask, at half the cost of one."""
    if mask is None and q.shape[-2] == k.shape[-2]:
        return _fused(q, k, v, is_causal=True)
    return fused_scaled_dot_product_attention(q, k, v, _causal_and(mask, q, k))


def _causal_and(mask: Mask | None, q: Queries, k: Keys) -> Mask:
    """Give the causal mask of q and k, and where there is a further mask, what both allow."""
    causal = causal_mask(q.shape[-2], k.shape[-2], device=q.device)
    if mask is None:
        return causal
    require_mask(mask, (*q.shape[:-1], k.shape[-2]))
    return causal & mask


def _fused(q: Queries, k: Keys, v: Values, **how: Mask | bool | None) -> Attended:
    context = F.scaled_dot_product_attention(*(_packed(x) for x in (q, k, v)), **how)
    return Attended(context[(0,) * max(0, 4 - q.dim())], None)


def _packed(x: Tensor) -> Tensor:
    """Four axes, features side by side in memory: with fewer, or another stride, the kernel silently takes its slow path."""
    x = x[(None,) * max(0, 4 - x.dim())]
    return x if x.stride(-1) == 1 else x.contiguous()


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
