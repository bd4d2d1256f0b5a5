"""Attention in tiles of keys: the exact softmax, of which no row ever exists as a whole.

Milakov & Gimelshein 2018, *Online normalizer calculation for softmax*, algorithm 3 (https://arxiv.org/abs/1805.02867), and Dao
et al. 2022, *FlashAttention*, algorithms 1 and 4 (https://arxiv.org/abs/2205.14135). Of a tile, a query needs only its largest
score m, the sum l of exp(e_j - m), and the mean c of the values under these weights. Two tiles a and b are merged to

    m = max(m_a, m_b)        l = r_a + r_b        c = (r_a c_a + r_b c_b) / l        with r = exp(m_own - m) l_own of each

in any order: the operation is associative and commutative, and a tile without keys, m = -∞ and l = 0, changes nothing. The
backward pass makes the weights of each tile again, from m and l. With the gradient G of C, tile by tile:

    P = exp(E - m) / l        dV = Pᵀ G        dE = P ⊙ (G Vᵀ - (G · C))        dQ = Σ dE K / √d_k        dK = dEᵀ Q / √d_k

where G · C is a number for each query. So memory grows with T, not with T². `fast.fused_scaled_dot_product_attention` calls the
same algorithm as a kernel, which is faster; this file shows it.
"""

import math
from collections.abc import Callable
from functools import reduce, wraps
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.attention.chunked_linear import differentiable_gradients
from course_lib.attention.core import ContextOnly, broadcast_shapes, hide_keys, require_mask, without_overflow
from course_lib.attention.dot_product import scaled_dot_product_attention
from course_lib.primitives.preconditions import requires, under_transform
from course_lib.shapes import Context, Keys, Mask, Queries, Values

__all__ = ["Partial", "merge", "partial_attention", "tiled_attention", "tiled_gradients"]

PerQuery = Float[Tensor, "*batch T_q"]
Parts = tuple[Context, PerQuery, PerQuery]
"""Context, maximum and total, as a `Partial` holds them."""


class Partial(NamedTuple):
    """What queries keep of some of the keys.

    `context` (*batch, T_q, d_v) is the mean of their values; `maximum` (*batch, T_q) the largest score, -∞ if there is none;
    `total` (*batch, T_q) the sum of exp(score - maximum).
    """

    context: Context
    maximum: PerQuery
    total: PerQuery


def partial_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Partial:
    """Attend by scaled dot products to some of the keys, and keep what `merge` needs to add others.

    Args:
        q: queries (*batch, T_q, d_k).
        k: the keys of one tile (*batch, T_k, d_k), T_k ≥ 0.
        v: their values (*batch, T_k, d_v).
        mask: bool, broadcastable to (*batch, T_q, T_k); True = may attend.

    Returns:
        `Partial`, of which the context is that of `scaled_dot_product_attention` of these keys alone.

    Source: Milakov & Gimelshein 2018, algorithm 3.
    """
    scores = q @ k.mT / math.sqrt(k.shape[-1])
    if mask is not None:
        scores, v = torch.where(mask, scores, -torch.inf), hide_keys(v, mask)
    if not k.shape[-2]:
        empty = scores.sum(-1)
        return Partial(scores @ v, empty - torch.inf, empty)
    maximum = scores.amax(-1)
    parts = (scores - _finite(maximum)[..., None]).exp()
    total = parts.sum(-1)
    return Partial(parts @ v / _divisor(total), maximum, total)


def merge(a: Parts, b: Parts) -> Partial:
    """Merge what the same queries keep of two sets of keys into what they keep of both.

    Args:
        a: of some keys: context, maximum and total, a `Partial` or another tuple.
        b: of others.

    Returns:
        `Partial` of all of them, whatever their order. Where neither has a key, its gradients are finite, too.

    Source: Dao et al. 2022, section 3.1.
    """
    (context_a, maximum_a, total_a), (context_b, maximum_b, total_b) = a, b
    maximum = torch.maximum(maximum_a, maximum_b)
    unit = torch.where(maximum == -torch.inf, 0.0, maximum)  # -∞ - (-∞) would be NaN
    of_a, of_b = total_a * (maximum_a - unit).exp(), total_b * (maximum_b - unit).exp()
    total = of_a + of_b
    context = (of_a[..., None] * context_a + of_b[..., None] * context_b) / torch.where(total == 0, 1.0, total)[..., None]
    return Partial(context, maximum, total)


def _require_a_key(tile: int) -> None:
    """Raise a ValueError for a tile without keys."""
    if tile < 1:
        raise ValueError(f"a tile has at least one key, got tile = {tile}.")


def _in_short_memory(loop: Callable[..., ContextOnly]) -> Callable[..., ContextOnly]:
    """Check the inputs of a loop over tiles and give them one batch; the backward pass makes the weights of each tile again."""

    @wraps(loop)
    def attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None, tile: int = 64) -> ContextOnly:
        _require_a_key(tile)
        if k.shape[-2] != v.shape[-2]:
            raise ValueError(f"each key needs a value: got {k.shape[-2]} keys and {v.shape[-2]} values.")
        T_q, T_k, batch = q.shape[-2], k.shape[-2], broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
        if mask is not None:
            require_mask(mask, (*broadcast_shapes(q.shape[:-2], k.shape[:-2]), T_q, T_k))
            mask = mask.expand(*batch, T_q, T_k)
        q, k, v = (x.expand(*batch, *x.shape[-2:]) for x in (q, k, v))
        if T_k and under_transform(q, k, v):
            return loop(q, k, v, mask, tile)
        return ContextOnly(_Tiled.apply(q, k, v, mask, tile) if T_k else _merged(q, k, v, mask, tile).context)

    return attention


@without_overflow
@_in_short_memory
def tiled_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None, tile: int = 64) -> ContextOnly:
    """Compute the context of `scaled_dot_product_attention` in tiles of keys, in memory that grows with T_q + T_k.

    Args:
        q: queries (*batch, T_q, d_k).
        k: keys (*batch, T_k, d_k).
        v: values (*batch, T_k, d_v).
        mask: bool, broadcastable to (*batch, T_q, T_k); True = may attend. It is read tile by tile.
        tile: keys in a tile, the last of which may be smaller; it changes speed and rounding, not the result.

    Returns:
        context (*batch, T_q, d_v), 0 for a query that may attend to no key, and None: the weights are never built.

    Raises:
        ValueError: tile is below 1, keys and values disagree on T_k, or the mask does not broadcast to the scores.
        TypeError: the mask is not bool.

    Source: Dao et al. 2022, algorithm 1.
    """
    if mask is not None:
        mask = mask.expand(*mask.shape[:-1], k.shape[-2])  # its last axis may be 1
    kept = None
    for start in range(0, k.shape[-2], tile):
        at = slice(start, start + tile)
        columns = None if mask is None else mask[..., at]
        part = partial_attention(q, k[..., at, :], v[..., at, :], columns)
        kept = part if kept is None else merge(kept, part)
    return ContextOnly(kept[0])  # type: ignore[index]  # it is called with a key


def _require_tiles(
    q: Queries, k: Keys, v: Values, kept: Parts, gradient: Context, mask: Mask | None = None, tile: int = 64
) -> None:
    _require_a_key(tile)


@requires(_require_tiles)
def tiled_gradients(
    q: Queries, k: Keys, v: Values, kept: Parts, gradient: Context, mask: Mask | None = None, tile: int = 64
) -> tuple[Queries, Keys, Values]:
    """Take the gradient of the context back to queries, keys and values, in tiles of keys, whose weights are made again.

    Args:
        q: queries (*batch, T_q, d_k).
        k: keys (*batch, T_k, d_k).
        v: values (*batch, T_k, d_v).
        kept: of the forward pass, over all keys: context (*batch, T_q, d_v), maximum and total (*batch, T_q).
        gradient: of the context, G (*batch, T_q, d_v).
        mask: that of the forward pass, (*batch, T_q, T_k), True = may attend; None = all may.
        tile: keys in a tile, the last of which may be smaller.

    Returns:
        the gradients of q, k and v, in their shapes; a query that may attend to no key contributes nothing.

    Raises:
        ValueError: tile is below 1.

    Source: Dao et al. 2022, algorithm 4.
    """
    context, maximum, total = kept
    maximum = torch.where(total == 0, 0.0, maximum)[..., None]
    total = torch.where(total == 0, 1.0, total)[..., None]
    centre, scale = (gradient * context).sum(-1, keepdim=True), 1 / math.sqrt(k.shape[-1])
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for start in range(0, k.shape[-2], tile):
        at = slice(start, start + tile)
        K, V, E = k[..., at, :], v[..., at, :], scale * q @ k[..., at, :].mT
        if mask is not None:
            E = torch.where(mask[..., at], E, -torch.inf)
            K, V = hide_keys(K, mask[..., at]), hide_keys(V, mask[..., at])
        P = (E - maximum).exp() / total
        dE = scale * P * (gradient @ V.mT - centre)
        dq += dE @ K
        dk[..., at, :], dv[..., at, :] = dE.mT @ q, P.mT @ gradient
    return dq, dk, dv


def _merged(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, tile: int) -> Partial:
    """Merge all tiles, one after the other; one tile without keys if there are none."""
    tiles = (slice(start, start + tile) for start in range(0, max(k.shape[-2], 1), tile))
    each = (partial_attention(q, k[..., at, :], v[..., at, :], None if mask is None else mask[..., at]) for at in tiles)
    return reduce(merge, each)


class _Tiled(torch.autograd.Function):
    """Tiled attention of q, k, v of one batch, whose backward pass makes the weights of each tile again."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, tile: int) -> Tensor:
        """Compute C; keep the inputs, C, m and l."""
        context, maximum, total = _merged(q, k, v, mask, tile)
        ctx.save_for_backward(q, k, v, mask, context, maximum, total)
        ctx.tile = tile
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute dQ, dK, dV from the gradient of C; where they must be differentiable themselves, by the equation."""
        q, k, v, mask, context, maximum, total = ctx.saved_tensors
        if torch.is_grad_enabled():

            def equation(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
                return scaled_dot_product_attention(q, k, v, mask).context

            return *differentiable_gradients(equation, (q, k, v), gradient, ctx.needs_input_grad[:3]), None, None
        kept = Partial(context, maximum, total)
        return *tiled_gradients(q, k, v, kept, gradient, mask, ctx.tile), None, None


def _finite(maximum: Tensor) -> Tensor:
    """The largest score, or 0 where there is none: -∞ - (-∞) would be NaN."""
    return torch.where(maximum == -torch.inf, 0.0, maximum)


def _divisor(total: Tensor) -> Tensor:
    """The sum of the weights, or 1 where there is none, with an axis for features."""
    return torch.where(total == 0, 1.0, total)[..., None]
