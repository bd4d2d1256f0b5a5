"""State-space duality (SSD): the state-space model of Mamba-2 is attention without softmax, under a mask that decays.

Dao & Gu 2024, *Transformers are SSMs*, sections 3 and 5 (https://arxiv.org/abs/2405.21060). A head has a state h, (n, d), whose
decay is a single number A < 0 times the length dt of a step:

    h_t = exp(dt_t A) h_{t-1} + B_t (dt_t x_t)ᵀ        y_t = h_tᵀ C_t

    Y = (C Bᵀ ⊙ L) (dt ⊙ X)        L = decay_mask(dt A)

So C are queries, B keys, and dt x values. The second form is the one computed here, at the cost of T²; the first is
`gated_step`, and runs in constant memory.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.attention.decay import decay_mask
from course_lib.primitives.precision import rounded_from_float32
from course_lib.primitives.preconditions import shape_checked

__all__ = ["ssd"]


@shape_checked()
@rounded_from_float32
def ssd(
    x: Float[Tensor, "*#batch T d"],
    dt: Float[Tensor, "*#batch T"],
    A: float | Float[Tensor, "..."],
    B: Float[Tensor, "*#batch T n"],
    C: Float[Tensor, "*#batch T n"],
) -> Float[Tensor, "*batch T d"]:
    """Compute the outputs of a state-space model with scalar decay, all positions at once.

    Args:
        x: inputs (*batch, T, d).
        dt: lengths of the steps, > 0, (*batch, T); 0 leaves a position out.
        A: the decay, < 0: a number, or a tensor that broadcasts to (*batch), such as one number for each head.
        B: how an input enters the state (*batch, T, n), as a key.
        C: how the state is read (*batch, T, n), as a query.

    Returns:
        y (*batch, T, d), without the term D x that Mamba-2 adds.

    Raises:
        ValueError: A is positive, or a dt negative.

    Source: Dao & Gu 2024, section 5.
    """
    decay = torch.as_tensor(A, dtype=dt.dtype, device=dt.device)[..., None]
    return (C @ B.mT * decay_mask(dt * decay)) @ (dt[..., None] * x)
