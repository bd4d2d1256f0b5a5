"""Fused dot-product attention: scaled, causal and unscaled, by torch's own kernel.

The kernel computes the softmax block by block and never stores the scores (Dao et al. 2022, *FlashAttention*,
https://arxiv.org/abs/2205.14135): faster, and in memory that grows with T, not with T². The weights are None. Its backward pass
has no derivative: for second derivatives, as of a gradient penalty, choose the equation, as the error says.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention.core import ContextOnly, attend, broadcast_shapes, causal, causal_and, hide_keys, require_mask
from course_lib.primitives.preconditions import of_tensors, under_transform, values_are_known
from course_lib.shapes import Keys, Mask, Queries, Values

__all__ = ["fused_causal_attention", "fused_dot_attention", "fused_scaled_dot_product_attention"]


@of_tensors
def fused_scaled_dot_product_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> ContextOnly:
    """Compute the context of `scaled_dot_product_attention` by torch's fused kernel; the weights are None."""
    return _fused(q, k, v, mask, k.shape[-1] ** -0.5)


@causal
@of_tensors
def fused_causal_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> ContextOnly:
    """Compute the context of `causal_attention` by torch's fused kernel; without a further mask, at half the cost."""
    if mask is None and q.shape[-2] == k.shape[-2]:
        return _fused(q, k, v, None, k.shape[-1] ** -0.5, is_causal=True)
    return _fused(q, k, v, causal_and(mask, q, k), k.shape[-1] ** -0.5)


@of_tensors
def fused_dot_attention(q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> ContextOnly:
    """Compute the context of `dot_attention` by torch's fused kernel; the weights are None."""
    return _fused(q, k, v, mask, 1.0)


def _fused(q: Queries, k: Keys, v: Values, mask: Mask | None, scale: float, is_causal: bool = False) -> ContextOnly:
    """Call torch's kernel in the layout in which it is fast: two equal batch axes, and features adjacent in memory."""
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"each key needs a value: got {k.shape[-2]} keys and {v.shape[-2]} values.")
    batch = broadcast_shapes(q.shape[:-2], k.shape[:-2])
    if mask is not None:
        require_mask(mask, (*batch, q.shape[-2], k.shape[-2]))
        if not _are_finite(k, v):
            k, v = hide_keys(k, mask), hide_keys(v, mask)
    batch = broadcast_shapes(batch, v.shape[:-2])
    if mask is not None:
        mask = torch.atleast_2d(mask)
        if math.prod(mask.shape[:-2]) == 1:
            mask = mask.view(mask.shape[-2:])
        elif len(batch) == 2:  # an axis of size 1 stays so: torch converts the mask to numbers as it is
            mask = mask[(None,) * (4 - mask.dim())]
        else:
            mask = _two_batch_axes(mask, batch)
    q, k, v = (_two_batch_axes(x, batch) for x in (q, k, v))
    if 0 in (*q.shape, *k.shape, *v.shape):
        context = attend(q @ k.mT * scale, v, mask).context
    else:
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal, scale=scale)
        if context.requires_grad and not torch.compiler.is_compiling() and not under_transform(q, k, v):
            _refuse_second_derivatives(context, q, k, v)
    return ContextOnly(context.reshape(*batch, *context.shape[-2:]))


def _refuse_second_derivatives(context: Tensor, *inputs: Tensor) -> None:
    """Let second derivatives through torch's kernel, which has none, raise an error that names the equation."""
    if context.grad_fn is not None and context.grad_fn.name().startswith("ScaledDotProduct"):
        for x in inputs:
            if x.requires_grad and not x.is_leaf:
                x.register_hook(_once)


def _once(gradient: Tensor | None) -> Tensor | None:
    """Return a gradient, None if nothing depends on the input, that cannot be differentiated."""
    return _Once.apply(gradient) if gradient is not None and gradient.requires_grad else gradient


class _Once(torch.autograd.Function):
    """A gradient that cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise NotImplementedError(
            "torch's fused attention has no second derivative: choose scaled_dot_product_attention, causal_attention or "
            "dot_attention, which have."
        )


def _are_finite(*tensors: Tensor) -> bool:
    """Return whether one sum over each tensor shows that all values are finite: then a weight of 0 hides a key as it is.

    False on a GPU, which a program that reads the sum would wait for.
    """
    on_cpu = all(x.device.type == "cpu" for x in tensors)
    return on_cpu and values_are_known(*tensors) and math.isfinite(sum(float(x.detach().sum()) for x in tensors))


def _two_batch_axes(x: Tensor, batch: tuple[int, ...]) -> Tensor:
    """Bring x (*batch, T, d) to (N, M, T, d): with other batch axes, or features apart in memory, the kernel is slow."""
    x = x.expand(*batch, *x.shape[-2:])
    if len(batch) != 2:
        x = x.reshape(math.prod(batch), 1, *x.shape[-2:])
    return x if x.stride(-1) == 1 else x.contiguous()
