"""On which inputs does an answer depend? It is called twice, and between the calls one argument is changed.

This is done on calls of several sizes, since one alone can hide an effect: a product of many numbers underflows to 0 whatever
they are, and where no token is likelier than p, none passes a threshold on single tokens, whatever the logits are.
"""

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from itertools import takewhile
from typing import NamedTuple

import torch
from torch import Tensor

from course_tools.checks.outcome import Call, Outcome, is_close, observe, tensors_in


class Probe(NamedTuple):
    """A call, and the argument by which it differs from the last one before it that changes none, whose argument is ""."""

    argument: str
    call: Call


_N_SIZES = 4


def probes(reference: Callable[..., object], calls: Sequence[Call]) -> list[Probe]:
    """Give some calls, largest first, each followed by one more for each required argument that matters to the reference there.

    Args:
        reference: what decides which arguments matter: those on which its result for the largest call depends.
        calls: to choose from; a few of different sizes are taken.

    Returns:
        the probes, each unchanged call before those made of it; none where the reference depends on no argument that can be
        changed.
    """
    usable = sorted((call for call in calls if not any(t.is_meta for t in tensors_in(call))), key=_n_numbers)
    places = {round(i * (len(usable) - 1) / (_N_SIZES - 1)) for i in range(_N_SIZES)} if usable else set()
    return [probe for place in sorted(places, reverse=True) for probe in _probes_of(reference, usable[place])]


def ignored_inputs(probed: Sequence[Probe], outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Name the arguments without effect on the results of an answer, where these are more than half of those that matter."""
    if not probed or len(outcomes) < len(probed):
        return ()
    matter = [probe.argument for probe in takewhile(lambda probe: probe.argument, probed[1:])]
    has_effect = set()
    for probe, got in zip(probed, outcomes, strict=False):
        if not probe.argument:
            base = got
        elif not _same_results(base, got, _identical):
            has_effect.add(probe.argument)
    ignored = tuple(argument for argument in matter if argument not in has_effect)
    return ignored if 2 * len(ignored) > len(matter) else ()


def _probes_of(reference: Callable[..., object], base: Call) -> list[Probe]:
    """A call, and one more for each required argument on which the result of the reference depends; none if there is none."""
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


def _n_numbers(call: Call) -> int:
    return sum(t.numel() for t in tensors_in(call))


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
