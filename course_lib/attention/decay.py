"""Linear attention that forgets: retention, gated linear attention, and the mask of their decay.

Sun et al. 2023, *Retentive Network*, section 2.1 (https://arxiv.org/abs/2307.08621), with one gate for a whole head; Yang et
al. 2024, *Gated Linear Attention Transformers*, section 4 (https://arxiv.org/abs/2312.06635), with one for each channel of the
keys. The memory S of a head, (d_k, d_v), fades before it is written, and is read without a normaliser:

    S_t = Diag(exp g_t) S_{t-1} + k_t v_tᵀ        c_t = S_tᵀ q_t        g_t ≤ 0

With one gate g_t for all channels, all positions are read at once under a mask that decays, L:

    C = (Q Kᵀ ⊙ L) V        L_ij = exp(g_{j+1} + … + g_i) for j ≤ i, else 0

Gates are given as natural logarithms, `log_decay`: 0 keeps everything, and -0.7 forgets half in each step. Without decay this
is `causal_linear_attention` of features φ(x) = x, before its division. Contexts usually pass through a norm. To leave out a
position, set its value and its log_decay to 0. All forms compute in float32 or wider; contexts have the values' dtype.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.attention.core import Form, broadcast_shapes
from course_lib.primitives.masks import causal_mask
from course_lib.primitives.precision import in_float32_at_least, rounded_from_float32
from course_lib.primitives.preconditions import requires, shape_checked, values_are_known

__all__ = ["decay_mask", "gated_linear_attention", "gated_step", "retention"]

State = Float[Tensor, "*batch d_k d_v"]
StepKey = Float[Tensor, "*batch d_k"]
StepValue = Float[Tensor, "*batch d_v"]
AllKeys = Float[Tensor, "*#batch T d_k"]
AllValues = Float[Tensor, "*#batch T d_v"]
AllContexts = Float[Tensor, "*batch T d_v"]
Step = Callable[..., tuple[Tensor, Tensor]]


def rounded_to_values(form: Form) -> Form:
    """Make a form compute in float32 or wider, also under autocast, and round its context to the dtype of v."""
    widened, place = in_float32_at_least(form), list(signature(form).parameters).index("v")

    @wraps(form)
    def run(*arguments: Any, **named: Any) -> Tensor | tuple[Tensor, Tensor]:
        result, v = widened(*arguments, **named), named["v"] if "v" in named else arguments[place]
        return (result[0].to(v.dtype), result[1]) if isinstance(result, tuple) else result.to(v.dtype)

    return cast(Form, run)


def in_turn(step: Step, q: AllKeys, k: AllKeys, v: AllValues, *gates: Iterable[Tensor | None]) -> AllContexts:
    """Read q, k (*batch, T, d_k) and v (*batch, T, d_v) by a step, from an empty memory; `gates` are those of each position."""
    each = zip(*(x.unbind(-2) for x in (q, k, v)), *gates, strict=False)
    batch = broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    wide = torch.promote_types(v.dtype, torch.float32)
    S, contexts = v.new_zeros(*batch, k.shape[-1], v.shape[-1], dtype=wide), [v[..., :0, :].expand(*batch, 0, v.shape[-1])]
    for q_t, k_t, v_t, *gates_t in each:
        q_t, k_t, v_t = (x.expand(*batch, x.shape[-1]) for x in (q_t, k_t, v_t))
        context, S = step(S, q_t, k_t, v_t, *gates_t)
        contexts.append(context[..., None, :])
    return torch.cat(contexts, dim=-2)


def require_decay(log_decay: Tensor, *_: Any, **__: Any) -> None:
    """Raise a ValueError for the logarithm of a gate that is positive, or not finite."""
    if values_are_known(log_decay) and not ((log_decay <= 0) & log_decay.isfinite()).all():
        raise ValueError(
            "log_decay must be finite and at most 0: a memory that grows, or one that is gone. Pass the logarithm of a gate "
            "between 0 and 1, such as `F.logsigmoid(x)`, not the gate."
        )


def _require_decay_of_all(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> None:
    require_decay(log_decay)


@shape_checked("One gate for all channels is (*batch, 1).")
@rounded_to_values
def gated_step(
    S: State, q: StepKey, k: StepKey, v: StepValue, log_decay: Float[Tensor, "*batch #d_k"]
) -> tuple[StepValue, State]:
    """Let a memory fade, write one position to it, and read it there.

    Args:
        S: the memory so far (*batch, d_k, d_v); zeros at the start.
        q: query of this position (*batch, d_k).
        k: its key (*batch, d_k).
        v: its value (*batch, d_v).
        log_decay: natural logarithm of its gates, ≤ 0: (*batch, d_k), one for each channel of the keys, which is a row of S, or
            (*batch, 1), one for all.

    Returns:
        the context of this position (*batch, d_v), and the new S. The S that is given is not changed.

    Source: Yang et al. 2024, section 4.
    """
    S = log_decay.exp()[..., None] * S + k[..., None] * v[..., None, :]
    return (q[..., None] * S).sum(-2), S


@shape_checked()
@requires(require_decay)
@rounded_from_float32
def decay_mask(log_decay: Float[Tensor, "*batch T"]) -> Float[Tensor, "*batch T T"]:
    """Make the mask of a decay: how much of what position j wrote is left at position i.

    Running sums of the logarithms are subtracted: in float32, an entry is right to four digits after a sum of -1,000.

    Args:
        log_decay: natural logarithm of each position's gate, ≤ 0, (*batch, T).

    Returns:
        (*batch, T, T): at [i, j] the product of the gates of j + 1 … i for j ≤ i, so 1 on the diagonal; else 0.

    Raises:
        ValueError: a log_decay is positive, or not finite.

    Source: Dao & Gu 2024, section 3 (https://arxiv.org/abs/2405.21060); with equal gates, Sun et al. 2023, section 2.1.
    """
    total = log_decay.cumsum(-1)
    exponent = total[..., :, None] - total[..., None, :]
    later = ~causal_mask(log_decay.shape[-1], device=log_decay.device)
    return exponent.masked_fill(later, -torch.inf).exp()


@shape_checked("One gate for all channels is (*batch, T, 1).")
@requires(_require_decay_of_all)
def gated_linear_attention(q: AllKeys, k: AllKeys, v: AllValues, log_decay: Float[Tensor, "*#batch T #d_k"]) -> AllContexts:
    """Attend from each position to itself and to earlier ones, which fade: `gated_step` from an empty memory.

    `retention` computes all positions at once, for one gate a position.

    Args:
        q: queries (*batch, T, d_k).
        k: keys (*batch, T, d_k).
        v: values (*batch, T, d_v).
        log_decay: natural logarithm of the gates, ≤ 0: (*batch, T, d_k), one for each channel, or (*batch, T, 1).

    Returns:
        context (*batch, T, d_v).

    Raises:
        ValueError: a log_decay is positive, or not finite.

    Source: Yang et al. 2024, section 4.
    """
    batch = broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    return in_turn(gated_step, q, k, v, log_decay.expand(*batch, *log_decay.shape[-2:]).unbind(-2))


@shape_checked("One gate for each channel needs gated_linear_attention.")
@rounded_to_values
def retention(q: AllKeys, k: AllKeys, v: AllValues, log_decay: Float[Tensor, "*#batch T"]) -> AllContexts:
    """Attend under a mask that decays: `gated_linear_attention` with one gate a position, (Q Kᵀ ⊙ L) V, at the cost of T².

    Args:
        q: queries (*batch, T, d_k).
        k: keys (*batch, T, d_k).
        v: values (*batch, T, d_v).
        log_decay: natural logarithm of each position's gate, ≤ 0, (*batch, T).

    Returns:
        context (*batch, T, d_v).

    Raises:
        ValueError: a log_decay is positive, or not finite.

    Source: Sun et al. 2023, section 2.1.
    """
    return (q @ k.mT * decay_mask(log_decay)) @ v
