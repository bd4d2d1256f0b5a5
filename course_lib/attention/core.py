"""Attention = score → normalise → mix: the masked softmax that every mechanism ends in, and the types of a mechanism.

Graves, Wayne, Danihelka 2014, *Neural Turing Machines*, eq. 2 (https://arxiv.org/abs/1410.5401) and
Bahdanau, Cho, Bengio 2015, eqs. 5-6 (https://arxiv.org/abs/1409.0473):

    α_ij = exp(e_ij) / Σ_j' exp(e_ij')        c_i = Σ_j α_ij v_j

A mask excludes keys from both sums. A query that may attend to no key has weights, context and gradients 0.
A key that no query may attend to has no effect on any context, nor on the gradients of keys and values, even where it holds NaN
or infinity. The gradients of the queries, and of the parameters of a score, do become NaN, since 0 · NaN is NaN; so do those of
the functions `pool` and `encode`. The fused forms, the module `Pool` and recurrent layers with lengths prevent this too, at the
cost of setting such keys, or the padding, to 0 first.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor, nn

from course_lib.primitives.masks import causal_mask
from course_lib.primitives.precision import in_float32_at_least
from course_lib.primitives.preconditions import of_tensors
from course_lib.shapes import Context, Keys, Mask, Queries, Scores, Values, Weights

__all__ = [
    "AnyMechanism",
    "Attended",
    "ContextOnly",
    "LayerState",
    "Mechanism",
    "StepwiseMechanism",
    "attend",
    "require_weights",
]

Form = TypeVar("Form", bound=Callable[..., Any])


class Attended(NamedTuple):
    """Result of a mechanism: `context` (*batch, T_q, d_v) and the `weights` (*batch, T_q, T_k) that mixed the values."""

    context: Context
    weights: Weights


class ContextOnly(NamedTuple):
    """Result of a fused form, which never builds the weights: `context` (*batch, T_q, d_v), and None for `weights`."""

    context: Context
    weights: None = None


Result = TypeVar("Result", bound=Attended | ContextOnly)
Result_co = TypeVar("Result_co", bound=Attended | ContextOnly, covariant=True)


@runtime_checkable
class MechanismOf(Protocol[Result_co]):
    """A function or module `(q, k, v, mask=None)` with one kind of result: `MultiHead` returns what its mechanism returns."""

    def __call__(self, q: Queries, k: Keys, v: Values, mask: Mask | None = None, /) -> Result_co:
        """Attend from q (*batch, T_q, d_q) to k (*batch, T_k, d_k), and mix v (*batch, T_k, d_v)."""


Mechanism = MechanismOf[Attended]
AnyMechanism = MechanismOf[Attended | ContextOnly]
"""A `Mechanism`, or a fused form, which returns `ContextOnly`: for models that need only the context."""
LayerState = tuple[Any, ...]
"""What a layer keeps of the positions that it has read: `KeysValues` for softmax attention, (S, z) for linear attention,
`DecoderBlockState` for a decoder block. Each tensor in it has one row per sequence; a count is a plain number."""


@runtime_checkable
class StepwiseMechanism(Protocol):
    """A causal mechanism that also attends step by step, one position at a time, from a state of those before it."""

    def start(self, k: Keys, v: Values, /) -> LayerState:
        """Read keys (*batch, T, d_k), T ≥ 0, and values (*batch, T, d_v); return the state that `step` continues from."""

    def step(self, q: Queries, k: Keys, v: Values, state: LayerState, /) -> tuple[Attended | ContextOnly, LayerState]:
        """Attend from one more position, q and k (*batch, 1, d_k), to itself and all before; v (*batch, 1, d_v).

        Returns the new state as well; the given one is not changed.
        """


def _guarded(function: Form) -> Form:
    """Make `attend` refuse what does not fit, and set values that no query may attend to to 0, so that 0 · NaN cannot occur."""

    @wraps(function)
    def run(scores: Tensor, values: Tensor, mask: Tensor | None = None) -> Attended:
        if scores.shape[-1] != values.shape[-2]:
            raise ValueError(f"scores {tuple(scores.shape)} need a value for each key, but values are {tuple(values.shape)}.")
        if mask is not None:
            require_mask(mask, scores.shape)
            values = hide_keys(values, mask)
        return function(scores, values, mask)

    return cast(Form, run)


@of_tensors
@_guarded
def attend(scores: Scores, values: Values, mask: Mask | None = None) -> Attended:
    """Normalise the scores over the keys by a masked softmax, and mix the values with these weights.

    Args:
        scores: (*batch, T_q, T_k), any real number: how well each key matches each query.
        values: (*batch, T_k, d_v).
        mask: bool, broadcastable to the scores; True = may attend. None = every query may attend to every key. Two axes are
            (T_q, T_k), for all sequences; a padding mask (B, T_k) needs an axis for the queries, as `padding_mask` makes it.

    Returns:
        context (*batch, T_q, d_v) and weights (*batch, T_q, T_k). Each row of weights is ≥ 0 and sums to 1, or to 0
        where the mask excludes every key; such a row gives no NaN, in a gradient either.

    Raises:
        ValueError: scores and values disagree on T_k, or the mask does not broadcast to the scores, or is ambiguous.
        TypeError: the mask is not bool.

    Source: Bahdanau et al. 2015, eqs. 5-6.
    """
    if mask is None:
        weights = scores.softmax(-1)
    else:
        empty = ~mask.any(-1, keepdim=True)  # queries that may attend to no key
        scores = torch.where(mask | empty, scores, -torch.inf)
        weights = scores.softmax(-1).masked_fill(empty, 0.0)
    return Attended(weights @ values, weights)


def causal(mechanism: Form) -> Form:
    """Mark a mechanism as causal: each query attends to its own position and earlier ones, and the last queries come last.

    `MultiHead.step` then attends with it from one new query to the cached keys, and cross-attention refuses it.
    """
    mechanism.causal = True  # type: ignore[attr-defined]
    return mechanism


def require_mechanism(mechanism: AnyMechanism) -> None:
    """Raise a TypeError for a class, or for the name of a mechanism, in the place of a mechanism."""
    if isinstance(mechanism, type):
        raise TypeError(f"a mechanism is an object, such as RotaryAttention(d_k), got the class {mechanism.__name__}: call it.")
    if not callable(mechanism):
        raise TypeError(f"a mechanism is a function or module (q, k, v, mask), such as causal_attention, got {mechanism!r}.")


def shown(mechanism: AnyMechanism) -> str:
    """Return `mechanism=…` with the name of a function, for the `repr` of the module that has it; a module shows itself."""
    return "" if isinstance(mechanism, nn.Module) else f"mechanism={getattr(mechanism, '__name__', mechanism)}"


def require_causal(mechanism: AnyMechanism, n_heads: int, d_k: int) -> None:
    """Raise a ValueError if the first of two positions attends to the second: a model would learn to read the answer.

    One call of a mechanism that is not marked as causal tells it, by gradients; dropout is off, and nothing is drawn.
    """
    require_mechanism(mechanism)
    if getattr(mechanism, "causal", False):
        return
    modules = list(mechanism.modules()) if isinstance(mechanism, nn.Module) else []
    owned = [x for module in modules for x in (*module.parameters(recurse=False), *module.buffers(recurse=False))]
    like = next((x for x in owned if x.is_floating_point()), torch.zeros(()))
    if like.is_meta:
        return
    training = [module for module in modules if module.training]
    for module in training:
        module.training = False
    with torch.inference_mode(False), torch.enable_grad():
        x = torch.linspace(-1, 1, 2 * n_heads * d_k).to(like).view(1, n_heads, 2, d_k)
        k, v = x.flip(-1).requires_grad_(), x.clone().requires_grad_()
        context = mechanism(x, k, v).context[..., 0, :].sum()
        gradients = torch.autograd.grad(context, (k, v), allow_unused=True) if context.requires_grad else ()
    for module in training:
        module.training = True
    if any(g is not None and g[..., 1, :].any() for g in gradients):
        raise ValueError(
            f"{getattr(mechanism, '__name__', mechanism)} attends to later positions, of which one is the answer: choose "
            "causal_attention, fused_causal_attention, or a causal form of linear attention."
        )


def hide_keys(x: Values, mask: Mask) -> Values:
    """Set keys or values (*batch, T_k, d) that no query may attend to under `mask` to 0, so that 0 · NaN cannot occur."""
    visible = mask
    if mask.dim() > 1:  # the largest byte of a column is 20 times as fast as `any` on a CPU, but none has no largest
        visible = mask.view(torch.uint8).amax(-2).view(torch.bool) if mask.shape[-2] > 1 else mask.any(-2)
    return torch.where(visible.unsqueeze(-1), x, 0.0)


def without_overflow(mechanism: Form) -> Form:
    """Make a mechanism compute in float32 where its values are in half precision, and round context and weights.

    In float16, scores beyond 65,504 are infinite, and their softmax is NaN. Autocast to half precision is treated alike.
    Further arguments, such as a mask or a matrix of the score, are passed unchanged, or in float32.
    """
    in_float32 = in_float32_at_least(mechanism)

    @of_tensors
    @wraps(mechanism)
    def run(q: Tensor, k: Tensor, v: Tensor, *rest: Any, **options: Any) -> Attended | ContextOnly:
        device, dtype = q.device.type, v.dtype
        if dtype != torch.float64 and torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        if dtype.itemsize > 2:
            return mechanism(q, k, v, *rest, **options)
        context, weights = in_float32(q, k, v, *rest, **options)
        return ContextOnly(context.to(dtype)) if weights is None else Attended(context.to(dtype), weights.to(dtype))

    return cast(Form, run)


def causal_and(mask: Mask | None, q: Queries, k: Keys) -> Mask | None:
    """Combine the causal mask of queries (*batch, T_q, d) and keys (*batch, T_k, d) with another mask.

    A single query is the last position, and may attend to every key: `mask` itself is returned.

    Raises:
        ValueError: there are more queries than keys, or the mask does not broadcast to (*batch, T_q, T_k), or is ambiguous.
        TypeError: the mask is not bool.
    """
    T_q, T_k = q.shape[-2], k.shape[-2]
    if T_q == 1 <= T_k:
        return mask
    causal = causal_mask(T_q, T_k, q.device)
    if mask is None:
        return causal
    require_mask(mask, (*broadcast_shapes(q.shape[:-2], k.shape[:-2]), T_q, T_k))
    return causal & mask


def require_mask(mask: Mask, shape: tuple[int, ...]) -> None:
    """Raise an error unless the mask is bool and broadcasts unambiguously to scores of `shape`, (*batch, T_q, T_k)."""
    require_bool(mask)
    if not broadcasts(mask.shape, shape):
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not broadcast to the scores' (*batch, T_q, T_k) = {tuple(shape)}."
            f"{_missing_axis(tuple(mask.shape), tuple(shape))}"
        )
    require_one_reading(mask, shape)


def require_bool(mask: Mask) -> None:
    """Raise a TypeError unless the mask is bool, and say how to convert it."""
    if mask.dtype != torch.bool:
        raise TypeError(
            f"the mask must be bool with True = may attend, got {mask.dtype}. Convert one of 1 = may attend and 0 = may not by "
            "`mask.bool()`, one that is added to the scores (0 and -inf) by `mask == 0`."
        )


def _missing_axis(mask: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Say which axis a mask lacks, if one of size 1 lets it broadcast to scores of `shape`."""
    if not broadcasts(mask[-2:], shape[-2:]) and broadcasts((*mask[:-1], 1, *mask[-1:]), shape):
        return " A mask over keys alone needs a query axis of 1: `mask[..., None, :]`."
    if len(mask) == 3 < len(shape) and broadcasts((mask[0], 1, *mask[1:]), shape):
        return " A mask for each sequence needs an axis of 1 for the heads: `mask[:, None]`."
    if len(mask) == 3 < len(shape) and mask[0] == 1 and broadcasts((mask[1], 1, 1, mask[2]), shape):  # (B, T_k), with heads
        return " A mask (B, T_k) over the keys of each sequence needs an axis of queries: `mask[:, None]`."
    return ""


def require_one_reading(mask: Mask, shape: tuple[int, ...]) -> None:
    """Raise a ValueError for a mask of 3 axes whose first may be the batch or the heads of scores of `shape`, (B, H, T_q, T_k).

    If B = H, broadcasting would read the mask (B, 1, T_k) of `padding_mask` as one mask per head. A mask of 2 axes is
    always (T_q, T_k): a causal mask is not refused because there happen to be as many sequences as queries.
    """
    if mask.dim() == 3 < len(shape) and 1 < mask.shape[0] == shape[0] == shape[-3]:
        raise ValueError(
            f"a mask of shape {(*mask.shape,)} can be read in two ways: write `mask[None]` for one mask for the whole batch, "
            "`mask[:, None]` for one for each sequence."
        )


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Broadcast shapes as `torch.broadcast_shapes`, which takes 40 µs even where all are equal."""
    return shapes[0] if all(shape == shapes[0] for shape in shapes) else torch.broadcast_shapes(*shapes)


def broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Return whether a tensor of `shape` broadcasts to the shape `to` without widening it."""
    for size, target in zip(reversed(shape), reversed(to), strict=False):
        if size not in (1, target):
            return False
    return len(shape) <= len(to)


def require_weights(attended: Attended | ContextOnly) -> Attended:
    """Return the result `attended` of a mechanism, checking that it has weights.

    Raises:
        TypeError: the mechanism is a fused form, which returns no weights.
    """
    if attended.weights is None:
        raise TypeError("the attention weights are needed here, and a fused form never builds them: choose the equation form.")
    return Attended(attended.context, attended.weights)
