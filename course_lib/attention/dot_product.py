"""Dot-product attention: scaled, causal, unscaled and bilinear, each with its fused form if torch has a kernel.

Vaswani et al. 2017, *Attention Is All You Need*, section 3.2.1, eq. 1 (https://arxiv.org/abs/1706.03762), divides by √d_k: two
random vectors of size d_k have a dot product of standard deviation √d_k, and without the scale the softmax saturates. Luong,
Pham, Manning 2015, *Effective Approaches to Attention-based Neural Machine Translation*, section 3.1
(https://arxiv.org/abs/1508.04025), where the query is the decoder's state h_t and the keys are the encoder's h̄_s, do not:

    scaled   e_ij = q_iᵀ k_j / √d_k
    dot      e_ij = q_iᵀ k_j
    general  e_ij = q_iᵀ W k_j

Luong's third score, concat, is additive and is defined in `additive.py`.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import (
    Attended,
    ContextOnly,
    attend,
    hide_keys,
    require_mask,
    without_overflow,
)
from course_lib.shapes import Keys, Mask, Queries, Scores, Values


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


@without_overflow
def causal_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
    """Attend as `scaled_dot_product_attention`, each query to its own position and earlier ones; `mask` may forbid more.

    If T_k > T_q, the queries are the last T_q positions of the keys. Without `mask`, each query has its own position to
    attend to: no row is empty, and -∞ as the score of later positions is all that `attend` needs. Then √d_k
    divides the queries, which have fewer entries than the scores. Source: Vaswani et al. 2017, section 3.2.3.

    Raises:
        ValueError: there are more queries than keys, or as `scaled_dot_product_attention`.
    """
    causal = _causal_and(mask, q, k)
    if mask is not None:
        return scaled_dot_product_attention(q, k, v, causal)
    scores = q / math.sqrt(k.shape[-1]) @ k.mT
    return attend(scores.masked_fill_(~causal, -torch.inf), v)


def fused_scaled_dot_product_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> ContextOnly:
    """Compute the context of `scaled_dot_product_attention` by torch's fused kernel; the weights are None."""
    return _fused(q, k, v, mask, k.shape[-1] ** -0.5)


def fused_causal_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> ContextOnly:
    """Compute the context of `causal_attention` by torch's fused kernel; without a further mask, at half the cost."""
    if mask is None and q.shape[-2] == k.shape[-2]:
        return _fused(q, k, v, None, k.shape[-1] ** -0.5, is_causal=True)
    return _fused(q, k, v, _causal_and(mask, q, k), k.shape[-1] ** -0.5)


def dot_scores(q: Queries, k: Keys) -> Scores:
    """Score by e_ij = q_iᵀ k_j; queries and keys must have the same size.

    Args:
        q: queries (*batch, T_q, d_k).
        k: keys (*batch, T_k, d_k).

    Returns:
        scores (*batch, T_q, T_k).

    Raises:
        ValueError: queries and keys differ in size.

    Source: Luong et al. 2015, section 3.1 (dot).
    """
    _require_one_size(q, k)
    return q @ k.mT


@without_overflow
def dot_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
    """Attend from q (*batch, T_q, d_k) over k (*batch, T_k, d_k) and v (*batch, T_k, d_v) by dot products without a scale."""
    return attend(dot_scores(q, k), v, mask)


def fused_dot_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> ContextOnly:
    """Compute the context of `dot_attention` by torch's fused kernel; the weights are None."""
    _require_one_size(q, k)
    return _fused(q, k, v, mask, 1.0)


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


def _causal_and(mask: Mask | None, q: Queries, k: Keys) -> Mask:
    """Make the causal mask (1, …, T_q, T_k) of q and k, as `primitives.causal_mask` does, and combine it with another."""
    T_q, T_k = q.shape[-2], k.shape[-2]
    batch = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    if T_q > T_k:
        raise ValueError(f"causal attention needs a key at each query's own position, got {T_q} queries and {T_k} keys.")
    causal = torch.ones(*[1] * len(batch), T_q, T_k, dtype=torch.bool, device=q.device).tril(T_k - T_q)
    if mask is None:
        return causal
    require_mask(mask, (*batch, T_q, T_k))
    return causal & mask


def _fused(q: Queries, k: Keys, v: Values, mask: Mask | None, scale: float, is_causal: bool = False) -> ContextOnly:
    """Call torch's kernel in the layout in which it is fast: two equal batch axes, and features adjacent in memory."""
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"each key needs a value: got {k.shape[-2]} keys and {v.shape[-2]} values.")
    batch = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    if mask is not None:
        require_mask(mask, (*batch, q.shape[-2], k.shape[-2]))
        k, v = hide_keys(k, mask), hide_keys(v, mask)
    batch = torch.broadcast_shapes(batch, v.shape[:-2])
    if mask is not None:
        mask = torch.atleast_2d(mask)
        one_for_all = math.prod(mask.shape[:-2]) == 1
        mask = mask.view(mask.shape[-2:]) if one_for_all else _two_batch_axes(mask, batch)
    q, k, v = (_two_batch_axes(x, batch) for x in (q, k, v))
    if 0 in (*q.shape, *k.shape, *v.shape):
        context = attend(q @ k.mT * scale, v, mask).context
    else:
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal, scale=scale)
    return ContextOnly(context.reshape(*batch, *context.shape[-2:]))


def _two_batch_axes(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """Bring x (*batch, T, d) to (N, M, T, d): with other batch axes, or features apart in memory, the kernel is slow."""
    x = x.expand(*batch, *x.shape[-2:])
    if len(batch) != 2:
        x = x.reshape(math.prod(batch), 1, *x.shape[-2:])
    return x if x.stride(-1) == 1 else x.contiguous()


def _require_one_size(q: Queries, k: Keys) -> None:
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"a dot product needs queries and keys of one size, got {q.shape[-1]} and {k.shape[-1]}. "
            "Project one of them, or use general_scores, whose W takes keys to queries."
        )
