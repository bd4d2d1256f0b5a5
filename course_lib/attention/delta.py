"""The delta rule: a memory of fixed size that corrects what it holds under a key, instead of adding to it.

Schlag et al. 2021, *Linear Transformers Are Secretly Fast Weight Programmers*, section 4.2
(https://arxiv.org/abs/2102.11174); with a decay, Yang et al. 2025, *Gated Delta Networks*, section 3.1
(https://arxiv.org/abs/2412.06464):

    S ← exp(g_t) S        S_t = S + β_t k_t (v_t - Sᵀ k_t)ᵀ        c_t = S_tᵀ q_t

What is written is the error of what the memory says of the key. It is one step of gradient descent with rate β on the loss
½‖v_t - Sᵀ k_t‖² (Widrow & Hoff 1960). With a key of length 1, β = 1 replaces the value, and β = 0 leaves the memory as it is.
Keys must not be longer: beyond β ‖k‖² = 2 each correction makes the error larger. Orthonormal keys have nothing to correct:
with β = 1 the rule is then a sum.

`chunked_delta_attention` computes the same by products of matrices, and is the form to train with. A position whose β and
log_decay are 0 is left out. All forms compute in float32 or wider; contexts have the values' dtype.
"""

from itertools import repeat

from jaxtyping import Float
from torch import Tensor

from course_lib.attention.core import broadcast_shapes
from course_lib.attention.decay import (
    AllContexts,
    AllKeys,
    AllValues,
    State,
    StepKey,
    StepValue,
    in_turn,
    require_decay,
    rounded_to_values,
)
from course_lib.primitives.preconditions import requires, shape_checked

__all__ = ["delta_attention", "delta_rule_step"]


@shape_checked("There is one β, and one decay, for a whole head.")
@rounded_to_values
def delta_rule_step(
    S: State,
    q: StepKey,
    k: StepKey,
    v: StepValue,
    beta: Float[Tensor, "*batch"],
    log_decay: Float[Tensor, "*batch"] | None = None,
) -> tuple[StepValue, State]:
    """Correct what a memory holds under a key, and read it: fade, compare, write, read.

    Args:
        S: the memory so far (*batch, d_k, d_v); zeros at the start.
        q: query of this position (*batch, d_k).
        k: its key (*batch, d_k), of length 1.
        v: its value (*batch, d_v).
        beta: how much of the error is corrected, β (*batch,): 0 nothing, 1 all of it.
        log_decay: natural logarithm of a gate, ≤ 0, (*batch,), by which the memory fades before it is compared; None keeps it.

    Returns:
        the context of this position (*batch, d_v), and the new S. The S that is given is not changed.

    Source: Schlag et al. 2021, section 4.2; with a decay, Yang et al. 2025, section 3.1.
    """
    if log_decay is not None:
        S = log_decay.exp()[..., None, None] * S
    error = v - (k[..., None] * S).sum(-2)
    S = S + (beta[..., None] * k)[..., None] * error[..., None, :]
    return (q[..., None] * S).sum(-2), S


def _require_decay_if_any(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None = None) -> None:
    """Raise a ValueError for a log_decay that is positive, or not finite."""
    if log_decay is not None:
        require_decay(log_decay)


@shape_checked()
@requires(_require_decay_if_any)
def delta_attention(
    q: AllKeys,
    k: AllKeys,
    v: AllValues,
    beta: Float[Tensor, "*#batch T"],
    log_decay: Float[Tensor, "*#batch T"] | None = None,
) -> AllContexts:
    """Attend by the delta rule, from each position to itself and to earlier ones: `delta_rule_step` from an empty memory.

    Args:
        q: queries (*batch, T, d_k).
        k: keys (*batch, T, d_k), of length 1.
        v: values (*batch, T, d_v).
        beta: β (*batch, T), from 0 to 1.
        log_decay: natural logarithm of each position's gate, ≤ 0, (*batch, T); None keeps everything.

    Returns:
        context (*batch, T, d_v).

    Raises:
        ValueError: a log_decay is positive, or not finite.

    Source: Schlag et al. 2021, section 4.2; with a decay, Yang et al. 2025, section 3.1.
    """
    batch = broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    gates = (repeat(None) if gate is None else gate.expand(*batch, -1).unbind(-1) for gate in (beta, log_decay))
    return in_turn(delta_rule_step, q, k, v, *gates)
