"""On which inputs does an answer depend? It is called twice, and between the calls one argument is changed."""

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import NamedTuple

import torch
from torch import Tensor

from course_tools.checks.outcome import Call, Outcome, is_close, observe, tensors_in


class Probe(NamedTuple):
    """A call, and the argument by which it differs from the first one; that one changes none."""

    argument: str
    call: Call


def probes(reference: Callable[..., object], calls: Sequence[Call]) -> list[Probe]:
    """Give a call, and one more for each required argument on which the result of the reference depends.

    Args:
        reference: what decides which arguments matter.
        calls: to choose from: the one with the most numbers is taken.

    Returns:
        the probes, the unchanged call first; none where the reference depends on no argument that can be changed.
    """
    usable = [call for call in calls if not any(t.is_meta for t in tensors_in(call))]
    if not usable:
        return []
    base = max(usable, key=lambda call: sum(t.numel() for t in tensors_in(call)))
    parameters = signature(reference).parameters.values()
    required = [p.name for p in parameters if p.default is Parameter.empty and p.kind is not Parameter.VAR_POSITIONAL]
    expected = observe(reference, base)
    found = []
    for i, name in enumerate(required[: len(base)]):
        call = (*base[:i], _changed(base[i]), *base[i + 1 :])
        other = observe(reference, call)
        if other.results is not None and not _same_results(expected, other):
            found.append(Probe(name, call))
    return [Probe("", base), *found] if found else []


def ignored_inputs(probed: Sequence[Probe], outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Name the arguments without effect on the results of an answer, where these are more than half of those that matter."""
    if not probed or len(outcomes) < len(probed):
        return ()
    base, *others = outcomes
    if base.results is None:
        return ()
    ignored = [p.argument for p, other in zip(probed[1:], others, strict=False) if _same_results(base, other, _identical)]
    return tuple(ignored) if 2 * len(ignored) > len(others) else ()


def _same_results(one: Outcome, other: Outcome, same: Callable[[object, object], bool] = is_close) -> bool:
    if one.results is None or other.results is None or len(one.results) != len(other.results):
        return False
    return all(
        isinstance(a, Tensor | int | float | bool | str) and same(a, b) for a, b in zip(one.results, other.results, strict=True)
    )


def _identical(one: object, other: object) -> bool:
    """Whether two results are equal to the last bit: the smallest effect of an argument is an effect."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        same_kind = (one.shape, one.dtype) == (other.shape, other.dtype)
        if one.is_meta or other.is_meta:  # no numbers to compare
            return False
        return same_kind and torch.allclose(one, other, rtol=0.0, atol=0.0, equal_nan=one.is_floating_point())
    return type(one) is type(other) and one == other


def _changed(value: object) -> object:
    """Shift the entries of every tensor by one, and repeat every second one: other values, of the same range."""
    if isinstance(value, Tensor):
        entries = torch.roll(value.flatten(), 1)
        entries[1::2] = entries[: len(entries) // 2 * 2 : 2]  # a sum or a product of all entries changes, too
        return entries.reshape(value.shape)
    if isinstance(value, tuple | list):
        return type(value)(map(_changed, value))
    return value
