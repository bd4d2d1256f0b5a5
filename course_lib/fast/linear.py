"""Causal linear attention in chunks, in the memory of its inputs, and a step that overwrites its state.

The chunked form (Hua et al. 2022, section 3.2, https://arxiv.org/abs/2202.10447; Yang et al. 2024, section 2.2,
https://arxiv.org/abs/2312.06635) multiplies whole blocks inside a chunk and carries one state between chunks. With the chunk's
queries Q, keys K (features) and values V, the state S, z of all earlier chunks, and M the lower triangle of ones:

    A = M ⊙ Q Kᵀ        N = A V + Q S        n = A 1 + Q z        C = N / n

Given the gradient G of C, with G' = G / n and the rows g = -Σ (G' ⊙ C), the triangle B = M ⊙ (G' Vᵀ + g 1ᵀ) and the sums R, r
of Qᵀ G' and Qᵀ g over all later chunks:

    dQ = B K + G' Sᵀ + g zᵀ        dK = Bᵀ Q + V Rᵀ + 1 rᵀ        dV = Aᵀ G' + K R

Autograd would store every product of the first line, and differentiate each; it is used for second derivatives alone.

`chunked_linear_attention` takes the features of all positions, which autograd keeps, and computes all chunks at once.
`lean_linear_attention` computes the chunks one after the other, with their features, and the backward pass recomputes what it
needs (as Chen et al. 2016, *Training Deep Nets with Sublinear Memory Cost*, https://arxiv.org/abs/1604.06174): only q, k and v
are stored, less than fused softmax attention stores. It passes over the chunks twice, forwards for dQ and backwards for dK and
dV. No context is stored either: since n C = A V + Q S, the row sums -n g of n G' ⊙ C are those of A ⊙ (G' Vᵀ) + Q ⊙ (G' Sᵀ).
"""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool
from torch import Tensor

from course_lib.attention.core import ContextOnly, hide_keys
from course_lib.attention.linear import (
    KeyFeatures,
    QueryFeatures,
    causal_linear_attention,
    divide,
    divisor,
    in_float32,
    linear_attention_step,
    mask_features,
)
from course_lib.primitives.kernels import elu_feature_map
from course_lib.primitives.precision import without_autocast
from course_lib.primitives.preconditions import shape_checked
from course_lib.shapes import Context, Keys, Mask, Queries, Values

__all__ = ["chunked_linear_attention", "inplace_linear_attention_step", "lean_linear_attention"]

Visible = Bool[Tensor, "N T 1"]


@shape_checked(of=causal_linear_attention)
@in_float32
def chunked_linear_attention(
    phi_q: QueryFeatures, phi_k: KeyFeatures, v: Values, mask: Mask | None = None, chunk: int = 64
) -> Context:
    """Compute the same as `causal_linear_attention` in chunks, with few of its states; `chunk` changes speed and rounding.

    `torch.export` of any T needs `causal_linear_attention`: the number of chunks follows from T.
    """
    T = v.shape[-2]
    chunk = max(1, min(chunk, T))
    chunks = ChunkedCausal.apply(*(in_chunks(x, chunk) for x in (phi_q, mask_features(phi_k, mask), v)))
    return chunks.flatten(1, 2)[:, :T].reshape(v.shape)


@shape_checked(of=linear_attention_step)
def inplace_linear_attention_step(
    S: Tensor, z: Tensor, phi_q: Tensor, phi_k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the same as `linear_attention_step` without gradients: S and z, in float32 or wider, are overwritten.

    Raises:
        TypeError: S or z is in half precision, in which a long sum overflows or stops growing.
    """
    if min(torch.finfo(S.dtype).bits, torch.finfo(z.dtype).bits) < 32:
        raise TypeError(f"the state S, z of linear attention must be float32 or float64, got {S.dtype} and {z.dtype}.")
    dtype, phi_q, phi_k, v = v.dtype, phi_q.to(S.dtype), phi_k.to(S.dtype), v.to(S.dtype)
    S.addcmul_(phi_k[..., :, None], v[..., None, :])
    z.add_(phi_k)
    with without_autocast(S):
        read = phi_q[..., None, :] @ S
    return divide(read[..., 0, :], (phi_q * z).sum(-1, keepdim=True)).to(dtype), S, z


def in_chunks(x: Tensor, chunk: int) -> Tensor:
    """Cut (*batch, T, f) into (N, n_chunks, chunk, f); zeros, which add nothing to any sum, fill the last chunk."""
    missing = -x.shape[-2] % chunk
    if missing:
        x = F.pad(x, (0, 0, 0, missing))
    x = x.flatten(end_dim=-3) if x.dim() > 2 else x[None]
    return rearrange(x, "N (n_chunks chunk) f -> N n_chunks chunk f", chunk=chunk)


def _sum_before(x: Tensor) -> Tensor:
    """Sum over all earlier chunks, (N, n_chunks, …) -> the same.

    No chunk is added and subtracted again: beside a huge one, the sum of the others would be rounded away.
    """
    earlier = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
    if x.is_cuda or torch.is_grad_enabled():
        return earlier.cumsum(1)
    for sums, part in itertools.pairwise(earlier.unbind(1)):  # several times as fast as cumsum, on a CPU
        part += sums
    return earlier


def _sum_after(x: Tensor) -> Tensor:
    """Sum over all later chunks."""
    return _sum_before(x.flip(1)).flip(1)


def _chunk_contexts(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute C, n and the states S, z of chunks (N, n_chunks, chunk, …)."""
    A = (q @ k.mT).tril()
    S, z = _sum_before(k.mT @ v), _sum_before(k.sum(-2, keepdim=True))
    n = divisor(A.sum(-1, keepdim=True) + q @ z.mT)
    return (A @ v).add_(q @ S) / n, n, S, z


class ChunkedCausal(torch.autograd.Function):
    """Causal linear attention of chunks: Q, K (N, n_chunks, chunk, f) and V (N, n_chunks, chunk, d_v) give C, of V's shape."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute C; keep the inputs, C, n and the states."""
        context, n, S, z = _chunk_contexts(q, k, v)
        ctx.save_for_backward(q, k, v, context, n, S, z)
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute dQ, dK, dV from the gradient of C; where they must be differentiable themselves, by autograd."""
        q, k, v, context, n, S, z = ctx.saved_tensors
        with without_autocast(gradient):
            if torch.is_grad_enabled():
                return differentiable_gradients(lambda *x: _chunk_contexts(*x)[0], (q, k, v), gradient, ctx.needs_input_grad)
            G = gradient / n
            g = -(G * context).sum(-1, keepdim=True)
            B = (G @ v.mT).add_(g).tril_()
            A = (q @ k.mT).tril_()
            R, r = _sum_after(q.mT @ G), _sum_after((q * g).sum(-2, keepdim=True))
            dq = (B @ k).add_(G @ S.mT).add_(g * z)
            dk = (B.mT @ q).add_(v @ R.mT).add_(r)
            dv = (A.mT @ G).add_(k @ R)
            return dq, dk, dv


def differentiable_gradients(
    form: Callable[..., Tensor], inputs: tuple[Tensor, ...], gradient: Tensor, needed: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    """Return the gradients of `form` at its inputs by autograd, with a graph: for the second derivative of a fast form."""
    wanted = [x for x, each in zip(inputs, needed, strict=True) if each]
    found = iter(torch.autograd.grad(form(*inputs), wanted, gradient, create_graph=True))
    return tuple(next(found) if each else None for each in needed)


def lean_linear_attention(
    q: Queries,
    k: Keys,
    v: Values,
    mask: Mask | None = None,
    *,
    feature_map: Callable[[Tensor], Tensor] = elu_feature_map,
    chunk: int = 64,
) -> ContextOnly:
    """Compute `LinearAttention(feature_map, causal_linear_attention)` in the memory of its inputs.

    Args:
        q: queries (*batch, T, d_k), not their features.
        k: keys (*batch, T, d_k).
        v: values (*batch, T, d_v).
        mask: the visible keys, the same for every query, (*batch, 1, T); True = may attend.
        feature_map: φ, from (*batch, T, d_k) to (*batch, T, f), position by position, without learned parameters.
        chunk: positions per chunk; it affects speed and rounding. Longer chunks are faster on a GPU: each needs about ten
            launches.

    Returns:
        context (*batch, T, d_v); the weights are None.

    Raises:
        ValueError: the numbers of queries, keys and values differ, the mask differs between queries, or φ is learned.
        TypeError: the mask is not bool.

    Source: Katharopoulos et al. 2020, eqs. 9-12; Hua et al. 2022, section 3.2, for the chunks.
    """
    return ContextOnly(in_turn(q, k, v, mask, Maps(feature_map, feature_map), (), chunk))


class Maps(NamedTuple):
    """Feature maps of queries and of keys, each a function of (*batch, T, d_k) and of the tensors that all chunks share."""

    query: Callable[..., Tensor]
    key: Callable[..., Tensor]


@shape_checked(of=causal_linear_attention)
@in_float32
def in_turn(q: Queries, k: Keys, v: Values, mask: Mask | None, maps: Maps, shared: tuple[Tensor, ...], chunk: int) -> Context:
    """Attend causally, one chunk after the other."""
    constants = [x.detach() for x in shared]
    if any(of(x[..., :0, :].detach(), *constants).requires_grad for of, x in zip(maps, (q, k), strict=True)):
        raise ValueError("a feature map that learns needs its features kept: choose chunked_linear_attention.")
    visible = None
    if mask is not None:
        k, visible = hide_keys(k, mask), _flat(mask.expand(*k.shape[:-2], 1, k.shape[-2]).mT)
    return _OneByOne.apply(maps, max(1, chunk), visible, *map(_flat, (q, k, v)), *shared).reshape(v.shape)


def _flat(x: Tensor) -> Tensor:
    """Merge all batch axes of (*batch, T, f) into one."""
    return x.flatten(end_dim=-3) if x.dim() > 2 else x[None]


def _contexts(maps: Maps, chunk: int, visible: Visible | None, q: Tensor, k: Tensor, v: Tensor, *shared: Tensor) -> Tensor:
    """Compute the contexts (N, T, d_v) of q, k (N, T, d_k) and v. Autograd can differentiate it as well, but stores more."""
    contexts = [v[:, :0]]
    S, z = _empty_state(maps, k, v, shared)
    for at in _chunks(v, chunk):
        Q, K, V = maps.query(q[:, at], *shared), _keys(maps, k[:, at], visible, at, shared), v[:, at]
        A = (Q @ K.mT).tril()
        n = divisor(A.sum(-1, keepdim=True) + Q @ z)
        contexts.append((A @ V + Q @ S) / n)
        S, z = S + K.mT @ V, z + K.sum(-2).unsqueeze(-1)
    return torch.cat(contexts, dim=1)


def _empty_state(maps: Maps, k: Tensor, v: Tensor, shared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Make the initial S (N, f, d_v) and z (N, f, 1)."""
    f = maps.key(k[:, :0], *shared).shape[-1]
    return v.new_zeros(len(v), f, v.shape[-1]), v.new_zeros(len(v), f, 1)


def _chunks(x: Tensor, chunk: int) -> list[slice]:
    """Cut the T positions of x (N, T, d) into chunks; the last may be shorter."""
    return [slice(start, start + chunk) for start in range(0, x.shape[1], chunk)]


def _keys(maps: Maps, k: Tensor, visible: Visible | None, at: slice, shared: tuple[Tensor, ...]) -> Tensor:
    """Compute the features of the keys of one chunk; those of hidden keys are 0, and add nothing to any sum."""
    K = maps.key(k, *shared)
    return K if visible is None else K.masked_fill(~visible[:, at], 0.0)


class _OneByOne(torch.autograd.Function):
    """The contexts of `_contexts`; only the inputs are stored for the gradients."""

    @staticmethod
    def forward(ctx: Any, maps: Maps, chunk: int, visible: Visible | None, *inputs: Tensor) -> Tensor:
        """Take q, k (N, T, d_k), v (N, T, d_v) and the tensors that the feature maps share."""
        ctx.maps, ctx.chunk = maps, chunk
        ctx.save_for_backward(visible, *inputs)
        return _contexts(maps, chunk, visible, *inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of the inputs; if they must be differentiable themselves, by autograd."""
        visible, *inputs = ctx.saved_tensors
        form, needed = partial(_contexts, ctx.maps, ctx.chunk, visible), ctx.needs_input_grad[3:]
        with without_autocast(gradient):
            if torch.is_grad_enabled():
                return None, None, None, *differentiable_gradients(form, tuple(inputs), gradient, needed)
            return None, None, None, *_gradients(ctx.maps, ctx.chunk, visible, gradient, *inputs)


def _gradients(
    maps: Maps, chunk: int, visible: Visible | None, gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, *shared: Tensor
) -> tuple[Tensor | None, ...]:
    """Compute the gradients of q, k, v and the shared tensors from that of the contexts, in two passes over the chunks."""
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    n, g = (v.new_empty(*v.shape[:2], 1) for _ in range(2))
    shared, chunks = tuple(_leaf(x, x.requires_grad) for x in shared), _chunks(v, chunk)
    S, z = _empty_state(maps, k, v, shared)
    for at in chunks:
        q_c = _leaf(q[:, at])
        with torch.enable_grad():
            Q = maps.query(q_c, *shared)
        K, V = _keys(maps, k[:, at], visible, at, shared), v[:, at]
        A = (Q @ K.mT).tril_()
        n[:, at] = divisor(A.sum(-1, keepdim=True) + Q @ z)
        G = gradient[:, at] / n[:, at]
        B, dQ = G @ V.mT, G @ S.mT
        g[:, at] = -((A * B).sum(-1, keepdim=True) + (Q * dQ).sum(-1, keepdim=True)) / n[:, at]
        dQ.addcmul_(g[:, at], z.mT).baddbmm_(B.add_(g[:, at]).tril_(), K)
        dq[:, at] = _pull(Q, dQ, q_c)
        S.baddbmm_(K.mT, V)
        z += K.sum(-2).unsqueeze(-1)
    R, r = torch.zeros_like(S), torch.zeros_like(z).mT
    for at in reversed(chunks):
        k_c = _leaf(k[:, at])
        with torch.enable_grad():
            K = _keys(maps, k_c, visible, at, shared)
        Q, V = maps.query(q[:, at], *shared), v[:, at]
        G = gradient[:, at] / n[:, at]
        A, B = (Q @ K.mT).tril_(), (G @ V.mT).add_(g[:, at]).tril_()
        dk[:, at] = _pull(K, (V @ R.mT).add_(r).baddbmm_(B.mT, Q), k_c)
        dv[:, at] = (K @ R).baddbmm_(A.mT, G)
        R.baddbmm_(Q.mT, G)
        r += (Q * g[:, at]).sum(-2, keepdim=True)
    return dq, dk, dv, *(x.grad for x in shared)


def _leaf(x: Tensor, differentiable: bool = True) -> Tensor:
    return x.detach().requires_grad_(differentiable)


def _pull(features: Tensor, gradient: Tensor, x: Tensor) -> Tensor:
    """Return the gradient at x, the input of the features; gradients of the shared tensors add up in their `grad`."""
    if features.requires_grad:  # a constant feature map does not depend on x
        features.backward(gradient)
    return torch.zeros_like(x) if x.grad is None else x.grad
