"""The fast form of causal linear attention: whole blocks inside a chunk, one state between chunks, and a backward of its own.

Hua et al. 2022, *Transformer Quality in Linear Time*, section 3.2 (https://arxiv.org/abs/2202.10447), and Yang et al. 2024,
section 2.2 (https://arxiv.org/abs/2312.06635). With the chunk's queries Q, keys K (features) and values V, the state S, z of
all that stands before it, and M the lower triangle of ones:

    A = M ⊙ Q Kᵀ        N = A V + Q S        n = A 1 + Q z        C = N / n

Given the gradient G of C, with G' = G / n and the rows g = -Σ (G' ⊙ C), the triangle B = M ⊙ (G' Vᵀ + g 1ᵀ) and the sums R, r
of Qᵀ G' and Qᵀ g over all that stands *behind* the chunk:

    dQ = B K + G' Sᵀ + g zᵀ        dK = Bᵀ Q + V Rᵀ + 1 rᵀ        dV = Aᵀ G' + K R

Autograd would keep every product of the first line, and go through each once more.
"""

import itertools

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable


class ChunkedCausal(torch.autograd.Function):
    """Causal linear attention of chunks: Q, K (N, n_chunks, chunk, f) and V (N, n_chunks, chunk, d_v) give C, of V's shape."""

    @staticmethod
    def forward(ctx: FunctionCtx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute C; keep the inputs, C, n and the states."""
        A = (q @ k.mT).tril_()
        S, z = _before(k.mT @ v), _before(k.sum(-2, keepdim=True))
        n = divisor(A.sum(-1, keepdim=True) + q @ z.mT)
        context = (A @ v).add_(q @ S).div_(n)
        ctx.save_for_backward(q, k, v, context, n, S, z)
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute dQ, dK, dV from the gradient of C."""
        q, k, v, context, n, S, z = ctx.saved_tensors
        G = gradient / n
        g = -(G * context).sum(-1, keepdim=True)
        B = (G @ v.mT).add_(g).tril_()
        A = (q @ k.mT).tril_()
        R, r = _behind(q.mT @ G), _behind((q * g).sum(-2, keepdim=True))
        dq = (B @ k).add_(G @ S.mT).add_(g * z)
        dk = (B.mT @ q).add_(v @ R.mT).add_(r)
        dv = (A.mT @ G).add_(k @ R)
        return dq, dk, dv


def divisor(n: Tensor) -> Tensor:
    """Put infinity where a normaliser vanishes, so that what is divided by it, and its gradient, is 0.

    It vanishes below 4·10⁻²⁹ (in float64, 10⁻²³¹): at the end of a number's range the quotient could still be formed, but not
    its gradient.
    """
    range_end = torch.finfo(torch.promote_types(n.dtype, torch.float32)).tiny
    return n.masked_fill(n.abs() < range_end**0.75, torch.inf)


def in_chunks(x: Tensor, chunk: int) -> Tensor:
    """Cut (*batch, T, f) into (N, n_chunks, chunk, f); zeros fill the last chunk up, which add nothing to any sum."""
    missing = -x.shape[-2] % chunk
    if missing:
        x = F.pad(x, (0, 0, 0, missing))
    x = x.flatten(end_dim=-3) if x.dim() > 2 else x[None]
    return rearrange(x, "N (n_chunks chunk) f -> N n_chunks chunk f", chunk=chunk)


def _before(x: Tensor) -> Tensor:
    """Sum over all earlier chunks, (N, n_chunks, …) -> the same; in float32 at least, as a long sum of short numbers stalls.

    No chunk is added and taken away again: beside a huge one, all that stands before it would be rounded away.
    """
    earlier = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1).to(torch.promote_types(x.dtype, torch.float32))
    if x.is_cuda:
        return earlier.cumsum(1).to(x.dtype)
    for sums, part in itertools.pairwise(earlier.unbind(1)):  # several times as fast as cumsum, on a CPU
        part += sums
    return earlier.to(x.dtype)


def _behind(x: Tensor) -> Tensor:
    """Sum over all later chunks."""
    return _before(x.flip(1)).flip(1)
