"""Distinguish a right computation in the wrong packaging from a wrong computation.

Wrong packaging is results in another order, of another dtype, as NumPy arrays, lists or Python numbers, in a dict or another
object, with an extra axis of size 1, or with one result missing or too many. Such an outcome is repaired, the repaired outcome
is judged, and the slip is named.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from course_tools.checks.comparisons import HALF, HALF_TOLERANCE, in_double_precision, relative_error
from course_tools.checks.outcome import Outcome, is_close

OutcomePair = tuple[Outcome, Outcome]
"""The outcomes of the reference and of the answer on one input."""

MOST_RESULTS = 4
"""Largest number of results of which other orders are tried."""


class Repair(NamedTuple):
    """The slip in words, the first pair that shows it, the outcomes without it, and whether gradients can be compared."""

    slip: str
    pair: int
    outcomes: list[Outcome]
    keeps_gradients: bool


class Arrangement(NamedTuple):
    """The index of the returned result for each expected one (None if it is missing), and the slip in words."""

    picks: tuple[int | None, ...]
    slip: str = ""


def repairs(pairs: Sequence[OutcomePair]) -> list[Repair]:
    """Return every way to explain the outcomes of an answer by a slip in packaging; an empty list if there is none."""
    found = []
    for arrangement in _arrangements(pairs):
        slips: list[dict[str, bool]] = [{arrangement.slip: False} if arrangement.slip else {} for _ in pairs]
        outcomes = [_repaired(*pair, arrangement, noted) for pair, noted in zip(pairs, slips, strict=True)]
        first = next((i for i, noted in enumerate(slips) if noted), None)
        if first is not None:
            keeps_gradients = all(keeps for noted in slips for keeps in noted.values())
            found.append(Repair(" ".join(slips[first]), first, outcomes, keeps_gradients))
    return found


def _arrangements(pairs: Sequence[OutcomePair]) -> list[Arrangement]:
    """Return the ways to match the returned results with the expected ones, according to the first outcome that has results."""
    pair = next(((e, g) for e, g in pairs if e.results is not None and g.results is not None), None)
    if pair is None:
        return []
    given = _unpacked(*pair)[0]
    names, n, m = pair[0].names, len(pair[0].results), len(given)
    as_they_are = tuple(range(n))
    if m == n and n <= MOST_RESULTS:
        orders = [
            picks
            for picks in itertools.permutations(range(n))
            if picks != as_they_are
            and not any(
                given[pick] is None and isinstance(want, Tensor) for want, pick in zip(pair[0].results, picks, strict=True)
            )
        ]
        return [Arrangement(as_they_are), *(Arrangement(picks, _wrong_order(names, picks)) for picks in orders)]
    if m == n:
        return [Arrangement(as_they_are)]
    if 0 < m == n - 1:
        one_less = [Arrangement((*range(i), None, *range(i, m)), _missing(names[i], pair[0].results[i])) for i in range(n)]
        return [one for one in one_less if _gives_what_is_there(one, pairs)] or one_less
    if 1 < n == m - 1:
        return [
            Arrangement((*range(i), *range(i + 1, m)), f"One result is too many: leave out result {i + 1}.")
            for i in reversed(range(m))
        ]
    if n == 1 < m:
        alone = [Arrangement((i,), f"It returns {m} results: return only result {i + 1}.") for i in range(min(m, MOST_RESULTS))]
        return [Arrangement(as_they_are), *alone]
    return []


def _gives_what_is_there(arrangement: Arrangement, pairs: Sequence[OutcomePair]) -> bool:
    """Whether every result that is returned is the expected one, so that only the missing one remains to be named.

    A list may have another length for other inputs: then nothing is said of it.
    """
    n = len(arrangement.picks)
    both = [(e.results, g.results) for e, g in pairs if e.results is not None and g.results is not None]
    both = [(want, got) for want, got in both if len(want) == len(got) + 1 == n]
    found = [(want, got[pick]) for e, got in both for want, pick in zip(e, arrangement.picks, strict=True) if pick is not None]
    return all(itertools.starmap(is_close, found))


def _missing(name: str, want: object) -> str:
    """Say which result is missing, and if it is None, that nothing needs to be computed for it."""
    return f"One result is missing: return {name} too{', which is None' if want is None else ''}."


def _wrong_order(names: Sequence[str], picks: Sequence[int]) -> str:
    """Say in which order the results belong: by their names, or by their places where the reference gives them none."""
    named = not names[0].startswith(("Result ", "result["))
    if not named and len(picks) == 2:
        return "The results are in the wrong order: exchange them."
    wanted = names if named else [("first", "second", "third", "fourth")[pick] for pick in picks]
    return f"The results are in the wrong order: return them in the order ({', '.join(wanted)})."


def _unpacked(expected: Outcome, got: Outcome) -> tuple[tuple[object, ...], str]:
    """Take the results out of a dict, a nested tuple, or an object with as many attributes."""
    results, n = got.results, len(expected.results)
    if len(results) == 1 and isinstance(results[0], dict) and len(results[0]) == n:
        return tuple(results[0].values()), "It returns a dict: return only its values, as a tuple."
    if len(results) == 1 and type(results[0]) in (list, tuple) and len(results[0]) == n > 1:
        return tuple(results[0]), "It returns a nested tuple: return the results themselves."
    held = tuple(getattr(results[0], "__dict__", {}).values()) if len(results) == 1 else ()
    if len(held) == n > 1 and not isinstance(results[0], Tensor) and any(isinstance(part, Tensor) for part in held):
        return held, f"It returns an object of type {type(results[0]).__name__}: return what it holds, as a tuple."
    return results, ""


def _repaired(expected: Outcome, got: Outcome, arrangement: Arrangement, slips: dict[str, bool]) -> Outcome:
    """Repair one outcome, and record in `slips` each slip in words, and whether gradients can still be compared."""
    picks = arrangement.picks if arrangement.slip else tuple(range(len(expected.results)))
    if len(picks) != len(expected.results):
        return got
    if expected.results is None or got.results is None:
        return got
    given, slip = _unpacked(expected, got)
    if len(expected.results) == 1 < len(given) and not arrangement.slip:
        whole, how = _stacked(expected.results[0], given)
        if whole is None:
            return got
        given, slip = (whole,), f"It returns a list: return one tensor (`torch.stack({how})`)."
    if any(pick is not None and pick >= len(given) for pick in picks):
        return got
    if slip:
        # other axes, other weights of the gradients
        slips[slip] = type(got.results[0]) in (list, tuple, Tensor) and ", -" not in slip
    results, missing = [], set()
    for i, (want, pick) in enumerate(zip(expected.results, picks, strict=True)):
        if pick is None or (given[pick] is None and isinstance(want, Tensor)):
            if want is not None:
                missing.add(i)
            results.append(want)
            if pick is not None:
                slips[f"{expected.names[i]} is None: return it too."] = True
        elif want is None and None in picks:
            results.append(given[pick])
        else:
            result, slip = _converted(expected.names[i], want, given[pick])
            results.append(result)
            if slip:
                slips[slip] = getattr(given[pick], "dtype", None) not in HALF
    return replace(got, results=tuple(results), names=expected.names, missing=frozenset(missing))


def _stacked(want: object, parts: Sequence[object]) -> tuple[Tensor | None, str]:
    """Stack tensors along the axis that gives the expected shape, and values if several do; also say along which."""
    whole, shape = _tensor(list(parts)), getattr(want, "shape", None)
    if whole is None or shape is None:
        return None, ""
    axes = range(len(shape) if all(isinstance(part, Tensor) for part in parts) else 1)
    ways = [(whole.movedim(0, axis), "…" if axis == 0 else f"…, {axis - len(shape)}") for axis in axes if axis < whole.dim()]
    found = [way for way in ways if way[0].shape == shape]
    return next((one for one in found if is_close(want, one[0])), found[0] if found else (None, ""))


def _converted(name: str, want: object, have: object) -> tuple[object, str]:
    """Convert one result to the expected type, kind and shape if this changes no value; return it and the slip in words."""
    if want is None and isinstance(have, Tensor):
        return None, f"{name} should be None, but it is a tensor."
    if not isinstance(want, Tensor):
        return _as_python(name, want, have)
    slip = ""
    if not isinstance(have, Tensor):
        kind = {np.ndarray: "a NumPy array", list: "a list", tuple: "a tuple"}.get(type(have), f"of type {type(have).__name__}")
        converted = _tensor(have)
        if converted is None:
            return have, ""
        have, slip = converted, f"{name} should be a tensor, but it is {kind}."
    if want.shape != have.shape and _without_ones(want) == _without_ones(have):
        slip = slip or f"{name} should have shape {tuple(want.shape)}, but it has {tuple(have.shape)}."
        have = have.reshape(want.shape)
    if want.is_meta or have.is_meta or want.shape != have.shape:
        return have, slip
    if _kind(want) != _kind(have) and torch.equal(have.to(want.dtype).to(have.dtype), have):
        slip = slip or f"{name} should be {_kind(want)}, but it is {have.dtype}."
        have = have.to(want.dtype)
    if wide := in_double_precision(name, want, have):
        slip, have = slip or wide, have.float()
    if have.dtype in HALF and want.dtype not in HALF and relative_error(want, have) < HALF_TOLERANCE:
        return want, f"{name} is correct up to rounding: it is {have.dtype}, which keeps about three digits."
    return have, slip


def _as_python(name: str, want: object, have: object) -> tuple[object, str]:
    kind = type(want)
    if type(have) is kind or kind not in (int, float, bool, list, tuple):
        return have, ""
    plain = have.tolist() if isinstance(have, Tensor | np.ndarray | np.generic) else have
    if kind in (list, tuple) and isinstance(plain, list | tuple):
        plain = kind(plain)
    elif kind in (int, float, bool):
        while isinstance(plain, list | tuple) and len(plain) == 1:
            plain = plain[0]
        if not isinstance(plain, bool | int | float) or plain != plain or abs(plain) == float("inf") or kind(plain) != plain:
            return have, ""
        plain = kind(plain)
    else:
        return have, ""
    return plain, f"{name} should be of type {kind.__name__}, but it is of type {type(have).__name__}."


def _tensor(value: object) -> Tensor | None:
    try:
        if isinstance(value, list | tuple) and value and all(isinstance(item, Tensor) for item in value):
            return torch.stack(list(value))
        if isinstance(value, np.ndarray | np.generic | bool | int | float | list | tuple):
            return torch.as_tensor(np.asarray(value))
    except (TypeError, ValueError, RuntimeError):
        pass
    return None


def _without_ones(tensor: Tensor) -> list[int]:
    return [size for size in tensor.shape if size != 1]


def _kind(tensor: Tensor) -> str:
    if tensor.dtype == torch.bool:
        return "bool"
    return "floating point" if tensor.is_floating_point() else "integer"
