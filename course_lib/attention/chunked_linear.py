"""Causal linear attention in chunks: the form to train with, fifty times as fast as prefix sums over 1,000 positions.

The chunked form (Hua et al. 2022, section 3.2, https://arxiv.org/abs/2202.10447; Yang et al. 2024, section 2.2,
https://arxiv.org/abs/2312.06635) multiplies whole blocks inside a chunk and carries one state between chunks. With the chunk's
queries Q, keys K (features) and values V, the state S, z of all earlier chunks, and M the lower triangle of ones:

    A = M ⊙ Q Kᵀ        N = A V + Q S        n = A 1 + Q z        C = N / n

Given the gradient G of C, with G' = G / n and the rows g = -Σ (G' ⊙ C), the triangle B = M ⊙ (G' Vᵀ + g 1ᵀ) and the sums R, r
of Qᵀ G' and Qᵀ g over all later chunks:

    dQ = B K + G' Sᵀ + g zᵀ        dK = Bᵀ Q + V Rᵀ + 1 rᵀ        dV = Aᵀ G' + K R

Autograd would store every product of the first line, and differentiate each; it is used for second derivatives, and under
`torch.func`.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from course_lib.attention.linear import (
    KeyFeatures,
    QueryFeatures,
    causal_linear_attention,
    divisor,
    mask_features,
    of_features,
)
from course_lib.primitives.precision import without_autocast
from course_lib.primitives.preconditions import shape_checked, under_transform
from course_lib.shapes import Context, Mask, Values

__all__ = ["chunked_linear_attention"]

LARGEST = 2**21
"""Numbers of a tensor, 8 MiB: those beyond 32 MiB come from the operating system page by page, every time."""


@shape_checked(of=causal_linear_attention)
@of_features
def chunked_linear_attention(
    phi_q: QueryFeatures, phi_k: KeyFeatures, v: Values, mask: Mask | None = None, chunk: int = 64
) -> Context:
    """Compute the same as `causal_linear_attention` in chunks, with few of its states; `chunk` changes speed and rounding.

    `torch.export` of any T needs `causal_linear_attention`: the number of chunks follows from T.
    """
    T = v.shape[-2]
    chunk = max(1, min(chunk, T))
    q, k, values = (in_chunks(x, chunk) for x in (phi_q, mask_features(phi_k, mask), v))
    chunks = _chunk_contexts(q, k, values)[0] if under_transform(q, k, values) else _in_parts(q, k, values)
    return chunks.flatten(1, 2)[:, :T].reshape(v.shape)


def _in_parts(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute as many sequences at once as the cache of a CPU takes: 8 of 16,000 positions in half the time of all together."""
    n = len(v) if v.is_cuda else max(1, LARGEST // max(1, q[:1].numel(), v[:1].numel()))
    parts = [ChunkedCausal.apply(*part) for part in zip(*(x.split(n) for x in (q, k, v)), strict=True)]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


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
