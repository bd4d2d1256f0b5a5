"""Backpropagation through time by hand: one step, the LSTM's error carousel, and gradient clipping.

Werbos 1990 (https://doi.org/10.1109/5.58337) for the step; Pascanu, Mikolov, Bengio 2013 (https://arxiv.org/abs/1211.5063),
section 2.1 for vanishing and exploding gradients and algorithm 1 for clipping:

    h_t = tanh(a_t),  a_t = W x_t + U h_{t-1} + b        δ_t = ∂L/∂a_t = ∂L/∂h_t ⊙ (1 - h_t²)        ∂L/∂h_{t-1} = Uᵀ δ_t
    ĝ ← g · θ / ‖g‖  where ‖g‖ > θ
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.primitives.preconditions import requires

__all__ = ["StepGradients", "bptt_step", "carousel_gradient", "clip_gradients"]


class StepGradients(NamedTuple):
    """Gradients of one step of an RNN: of its input x, its previous state h, and its parameters W, U, b."""

    x: Float[Tensor, "B d"]
    h: Float[Tensor, "B n"]
    W: Float[Tensor, "n d"]
    U: Float[Tensor, "n n"]
    b: Float[Tensor, "n"]


def bptt_step(
    grad_h_new: Float[Tensor, "B n"],
    x: Float[Tensor, "B d"],
    h: Float[Tensor, "B n"],
    h_new: Float[Tensor, "B n"],
    W: Float[Tensor, "n d"],
    U: Float[Tensor, "n n"],
) -> StepGradients:
    """Backpropagate the gradient of a loss L through one step h_new = tanh(W x + U h + b).

    Args:
        grad_h_new: ∂L/∂h_new, (B, n).
        x: the input of the step, (B, d).
        h: the state before the step, (B, n).
        h_new: the state after the step, (B, n), as the forward pass computed it.
        W: (n, d).
        U: (n, n).

    Returns:
        (∂L/∂x, ∂L/∂h, ∂L/∂W, ∂L/∂U, ∂L/∂b); the last three are summed over the batch.

    Source: Werbos 1990; Pascanu et al. 2013, eqs. 3-5.
    """
    delta = grad_h_new * (1 - h_new**2)
    return StepGradients(x=delta @ W, h=delta @ U, W=delta.mT @ x, U=delta.mT @ h, b=delta.sum(0))


def carousel_gradient(forget_gates: Float[Tensor, "T *batch n"]) -> Float[Tensor, "*batch n"]:
    """Compute ∂c_T/∂c_0 along the LSTM's carousel, the direct path c_t = f_t ⊙ c_{t-1} + …: the product of the forget gates.

    Args:
        forget_gates: f_1 … f_T, (T, *batch, n), each in 0…1.

    Returns:
        Π_t f_t, (*batch, n); 1 if T = 0.

    Source: Gers et al. 2000, section 3; ITMO deck 7, "constant error carousel", where every f_t = 1.
    """
    return forget_gates.prod(0)


def _in_float32(clip: Callable[[Sequence[Tensor], float], list[Tensor]]) -> Callable[[Sequence[Tensor], float], list[Tensor]]:
    """Make a form multiply in float32 or wider: float16 has no positive number below 6 · 10⁻⁸."""

    @wraps(clip)
    def run(gradients: Sequence[Tensor], max_norm: float) -> list[Tensor]:
        clipped = clip([g.to(torch.promote_types(g.dtype, torch.float32)) for g in gradients], max_norm)
        return [new.to(g.dtype) for new, g in zip(clipped, gradients, strict=True)]

    return run


def _require_threshold(gradients: Sequence[Tensor], max_norm: float) -> None:
    if not max_norm > 0:
        raise ValueError(f"the threshold max_norm must be above 0, got {max_norm}; a negative one would reverse the gradients.")


@requires(_require_threshold)
@_in_float32
def clip_gradients(gradients: Sequence[Tensor], max_norm: float) -> list[Tensor]:
    """Scale all gradients by one factor, so that their joint norm is at most max_norm; a smaller norm is unchanged.

    Args:
        gradients: tensors of any shapes, one for each parameter, or none; they are not changed.
        max_norm: the threshold θ > 0 on the Euclidean norm of all entries together.

    Returns:
        new tensors in the same order.

    Source: Pascanu et al. 2013, algorithm 1.
    """
    wide = [g.to(torch.promote_types(g.dtype, torch.float32)) for g in gradients if g.numel()]
    if not wide:
        return [g.clone() for g in gradients]
    largest = torch.stack([g.abs().max() for g in wide]).max()  # squares of g / largest cannot overflow
    norm = largest * torch.stack([(g / largest).square().sum() for g in wide]).sum().sqrt()
    scale = torch.where(largest > 0, torch.clamp(max_norm / norm, max=1.0), 1.0)
    return [g * scale.to(g.dtype) for g in gradients]
