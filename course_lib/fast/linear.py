"""Causal linear attention in the memory of its inputs, and a step that overwrites its state.

`chunked_linear_attention`, whose file has the equations, takes the features of all positions, which autograd keeps, and
computes all chunks at once. `lean_linear_attention` computes the chunks one after the other, with their features, and the
backward pass recomputes what it needs (as Chen et al. 2016, *Training Deep Nets with Sublinear Memory Cost*,
https://arxiv.org/abs/1604.06174): only q, k and v are stored, less than fused softmax attention stores. It passes over the
chunks twice, forwards for dQ and backwards for dK and dV. No context is stored either: since n C = A V + Q S, the row sums
-n g of n G' ⊙ C are those of A ⊙ (G' Vᵀ) + Q ⊙ (G' Sᵀ).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from course_lib.attention.chunked_linear import chunked_linear_attention, differentiable_gradients
from course_lib.attention.core import ContextOnly, hide_keys
from course_lib.attention.linear import (
    causal_linear_attention,
    divide,
    divisor,
    in_float32,
    linear_attention_step,
    rescaled,
)
from course_lib.primitives.kernels import elu_feature_map
from course_lib.primitives.precision import without_autocast
from course_lib.primitives.preconditions import shape_checked, under_transform
from course_lib.shapes import Context, Keys, Mask, Queries, Values

__all__ = ["chunked_linear_attention", "inplace_linear_attention_step", "lean_linear_attention"]

Visible = Bool[Tensor, "N T 1"]


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
    return ContextOnly(in_turn(q, k, v, mask, FeatureMaps(lambda x: rescaled(feature_map(x)), feature_map), (), chunk))


class FeatureMaps(NamedTuple):
    """Feature maps of queries and of keys, each a function of (*batch, T, d_k) and of the tensors that all chunks share."""

    query: Callable[..., Tensor]
    key: Callable[..., Tensor]


@shape_checked(of=causal_linear_attention)
@in_float32
def in_turn(
    q: Queries, k: Keys, v: Values, mask: Mask | None, maps: FeatureMaps, shared: tuple[Tensor, ...], chunk: int
) -> Context:
    """Attend causally, one chunk after the other."""
    constants = [x.detach() for x in shared]
    if any(of(x[..., :0, :].detach(), *constants).requires_grad for of, x in zip(maps, (q, k), strict=True)):
        raise ValueError("a feature map that learns needs its features kept: choose chunked_linear_attention.")
    visible = None
    if mask is not None:
        k, visible = hide_keys(k, mask), _flat(mask.expand(*k.shape[:-2], 1, k.shape[-2]).mT)
    inputs = (*map(_flat, (q, k, v)), *shared)
    form = _contexts if under_transform(*inputs) else _OneByOne.apply
    return form(maps, max(1, chunk), visible, *inputs).reshape(v.shape)


def _flat(x: Tensor) -> Tensor:
    """Merge all batch axes of (*batch, T, f) into one."""
    return x.flatten(end_dim=-3) if x.dim() > 2 else x[None]


def _contexts(
    maps: FeatureMaps, chunk: int, visible: Visible | None, q: Tensor, k: Tensor, v: Tensor, *shared: Tensor
) -> Tensor:
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


def _empty_state(maps: FeatureMaps, k: Tensor, v: Tensor, shared: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Make the initial S (N, f, d_v) and z (N, f, 1)."""
    f = maps.key(k[:, :0], *shared).shape[-1]
    return v.new_zeros(v.shape[0], f, v.shape[-1]), v.new_zeros(v.shape[0], f, 1)


def _chunks(x: Tensor, chunk: int) -> list[slice]:
    """Cut the T positions of x (N, T, d) into chunks; the last may be shorter."""
    return [slice(start, start + chunk) for start in range(0, x.shape[1], chunk)]


def _keys(maps: FeatureMaps, k: Tensor, visible: Visible | None, at: slice, shared: tuple[Tensor, ...]) -> Tensor:
    """Compute the features of the keys of one chunk; those of hidden keys are 0, and add nothing to any sum."""
    K = maps.key(k, *shared)
    return K if visible is None else K.masked_fill(~visible[:, at], 0.0)


class _OneByOne(torch.autograd.Function):
    """The contexts of `_contexts`; only the inputs are stored for the gradients."""

    @staticmethod
    def forward(ctx: Any, maps: FeatureMaps, chunk: int, visible: Visible | None, *inputs: Tensor) -> Tensor:
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
    maps: FeatureMaps, chunk: int, visible: Visible | None, gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, *shared: Tensor
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
