"""On which inputs does an answer depend? It is called twice, with one argument changed between the calls.

This is done on calls of several sizes, since a single size can hide an effect. For example, a product of many numbers
underflows to 0 whatever they are, and if no token is more likely than p, none exceeds a threshold p on single tokens.
"""

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from itertools import takewhile
from typing import NamedTuple

import torch
from torch import Tensor

from course_tools.checks.outcome import Call, Outcome, is_close, observe, tensors_in


class PerturbedCall(NamedTuple):
    """A call, and the name of the argument that was changed in it: "" for an unchanged call, which precedes its copies."""

    argument: str
    call: Call


_N_SIZES = 4


def perturbed_calls(reference: Callable[..., object], calls: Sequence[Call]) -> list[PerturbedCall]:
    """Select calls, largest first, each followed by copies in which one required argument is changed.

    Args:
        reference: decides which arguments are changed: those on which its result for the call depends.
        calls: the calls to select from; a few of different sizes are used.

    Returns:
        the calls, each unchanged one before its changed copies; an empty list if the reference depends on no argument that can
        be changed.
    """
    usable = sorted((call for call in calls if not any(t.is_meta for t in tensors_in(call))), key=_n_numbers)
    selected = {round(i * (len(usable) - 1) / (_N_SIZES - 1)) for i in range(_N_SIZES)} if usable else set()
    return [call for i in sorted(selected, reverse=True) for call in _with_perturbations(reference, usable[i])]


def ignored_inputs(calls: Sequence[PerturbedCall], outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Name the arguments that an answer ignores, if they are more than half of those on which the reference depends.

    Args:
        calls: as `perturbed_calls` returns them.
        outcomes: what the answer did on each call.
    """
    if not calls or len(outcomes) < len(calls):
        return ()
    relevant = [call.argument for call in takewhile(lambda call: call.argument, calls[1:])]
    has_effect = set()
    for call, got in zip(calls, outcomes, strict=False):
        if not call.argument:
            base = got
        elif not _same_results(base, got, _identical):
            has_effect.add(call.argument)
    ignored = tuple(argument for argument in relevant if argument not in has_effect)
    return ignored if 2 * len(ignored) > len(relevant) else ()


def _with_perturbations(reference: Callable[..., object], base: Call) -> list[PerturbedCall]:
    """A call, and a changed copy for each required argument that affects the result of the reference; empty if none does."""
    parameters = signature(reference).parameters.values()
    required = [p.name for p in parameters if p.default is Parameter.empty and p.kind is not Parameter.VAR_POSITIONAL]
    expected = observe(reference, base)
    found = []
    for i, name in enumerate(required[: len(base)]):
        call = (*base[:i], _changed(base[i]), *base[i + 1 :])
        other = observe(reference, call)
        if other.results is not None and not _same_results(expected, other):
            found.append(PerturbedCall(name, call))
    return [PerturbedCall("", base), *found] if found else []


def _n_numbers(call: Call) -> int:
    return sum(t.numel() for t in tensors_in(call))


def _same_results(one: Outcome, other: Outcome, same: Callable[[object, object], bool] = is_close) -> bool:
    if one.results is None or other.results is None or len(one.results) != len(other.results):
        return False
    return all(
        isinstance(a, Tensor | int | float | bool | str) and same(a, b) for a, b in zip(one.results, other.results, strict=True)
    )


def _identical(one: object, other: object) -> bool:
    """Whether two results are equal exactly: even the smallest effect of an argument counts."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        same_kind = (one.shape, one.dtype) == (other.shape, other.dtype)
        if one.is_meta or other.is_meta:  # no numbers to compare
            return False
        return same_kind and torch.allclose(one, other, rtol=0.0, atol=0.0, equal_nan=one.is_floating_point())
    return type(one) is type(other) and one == other


def _changed(value: object) -> object:
    """Shift the entries of every tensor by one, then repeat every second one: the values change, but not their range."""
    if isinstance(value, Tensor):
        entries = torch.roll(value.flatten(), 1)
        entries[1::2] = entries[: len(entries) // 2 * 2 : 2]  # also changes a sum or a product of all entries
        return entries.reshape(value.shape)
    if isinstance(value, tuple | list):
        return type(value)(map(_changed, value))
    return value
