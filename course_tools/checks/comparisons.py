"""Compare the outcome of an answer with that of the reference: one function for each kind of property.

A comparison returns None if the property holds, else a Failure: what was expected and what the answer returned.
"""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from course_tools.checks import time_limit
from course_tools.checks.common_crash import advice_on
from course_tools.checks.outcome import NotAFunction, Outcome, is_close
from course_tools.checks.time_limit import TimedOut


class Failure(NamedTuple):
    """What is wrong, in a sentence, and the numbers that show it: separate, because a graded report must not contain them.

    `stops` is False if properties that need this one can be judged all the same.
    """

    what: str
    numbers: str = ""
    stops: bool = True


HALF = (torch.float16, torch.bfloat16)
HALF_TOLERANCE = 3e-2
"""Largest relative error of a half-precision result that is attributed to rounding."""
ROUNDING = 1e-2
"""Relative error below which a difference is attributed to rounding."""

Comparison = Callable[[Outcome, Outcome], Failure | None]


def runs(expected: Outcome, got: Outcome) -> Failure | None:
    """Check that the answer returns a value, without an error and in time."""
    if isinstance(got.error, TimedOut):
        advice = "Does it contain an endless loop, a wait, or far too many steps?"
        return Failure(f"It was still running after {time_limit.TIME_LIMIT:g} seconds. {advice}")
    if isinstance(got.error, NotAFunction):
        return Failure(str(got.error))
    if got.error is not None:
        line = f" in the line `{got.where.removesuffix(':')}`" if got.where else ""
        said = f"It raised {type(got.error).__name__}{line}: {_short(got.error)}"
        kind, own = ("", "") if got.crash is None else (got.crash.kind, got.crash.advice)
        advice = [_axes(got) if kind == "axes" else "", "" if kind else advice_on(got.error), own]
        return Failure(" ".join(filter(None, [f"{said.removesuffix('.')}." if any(advice) else said, *advice])))
    if got.results is None:
        return Failure("It returned None. Is a `return` statement missing?")
    return None


def _axes(got: Outcome) -> str:
    """How many axes a tensor has whose shape is unpacked: `B, T, d = x.shape`."""
    n = len(got.failed.operands[0].sizes) if got.failed is not None and got.failed.operands else 0
    return f"The tensor has {n} ax{'i' if n == 1 else 'e'}s here." if n else ""


def same_shapes(expected: Outcome, got: Outcome) -> Failure | None:
    """Check the number of results, and the type, shape, kind of dtype and device of each; float64 is not float32."""
    if (failure := runs(expected, got)) is not None:
        return failure
    if len(expected.results) != len(got.results):
        return Failure(f"It should return {_count(expected)}, but it returned {_returned(got)}.")
    for name, want, have in zip(expected.names, expected.results, got.results, strict=True):
        if not isinstance(want, Tensor):
            if type(want) is not type(have):
                return Failure(f"{name} should be of type {type(want).__name__}, but it is of type {type(have).__name__}.")
            continue
        if not isinstance(have, Tensor):
            return Failure(f"{name} should be a tensor, but it is of type {type(have).__name__}.")
        if want.shape != have.shape:
            return Failure(f"{name} should have shape {tuple(want.shape)}, but it has {tuple(have.shape)}.")
        if _kind(want) != _kind(have):
            return Failure(f"{name} should be {_kind(want)}, but it is {have.dtype}.")
        if want.device != have.device:
            return Failure(f"{name} should be on the device {str(want.device)!r}, but it is on {str(have.device)!r}.")
    wide = filter(None, map(in_double_precision, expected.names, expected.results, got.results))
    return next(map(Failure, wide), None)


def in_double_precision(name: str, want: object, have: object) -> str:
    """Say that a result is float64 where it should be float32; "" if not, or if it is a number, which mixes with both."""
    both = isinstance(want, Tensor) and isinstance(have, Tensor) and (want.dtype, have.dtype) == (torch.float32, torch.float64)
    if not both or not want.dim():
        return ""
    name = "Your result" if name == "The result" else name
    return f"{name} is float64: return float32, as layers do, whose products accept nothing else. Write `.float()`."


def same_values(expected: Outcome, got: Outcome) -> Failure | None:
    """Check that every result has the expected values, up to rounding."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    for name, want, have in zip(expected.names, expected.results, got.results, strict=True):
        if not is_close(want, have):
            return _difference(name, want, have)
    return None


def right_result(*indices: int) -> Comparison:
    """Make a comparison of some of the results only: partial credit if one of several results is correct."""

    def judge(expected: Outcome, got: Outcome) -> Failure | None:
        if (failure := same_shapes(expected, got)) is not None:
            return failure
        for i in indices:
            if i in got.missing:
                return Failure(f"{expected.names[i]} is missing.")
            if not is_close(expected.results[i], got.results[i]):
                return _difference(expected.names[i], expected.results[i], got.results[i])
        return None

    return judge


def same_gradients(expected: Outcome, got: Outcome) -> Failure | None:
    """Check the values, and the gradient with respect to every input."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    if (failure := same_values(expected, got)) is not None:
        return failure._replace(what=f"The result itself is wrong here, before any gradient. {failure.what}")
    if got.gradients is None:
        return Failure(
            "No gradient reaches the inputs: the result is detached from them (`detach`, `.data`, `no_grad`, `torch.tensor`)."
        )
    names = [name for argument in expected.arguments for name in argument.differentiated]
    for name, want, have in zip(names, expected.gradients or (), got.gradients, strict=True):
        if not is_close(want, have):
            return Failure(f"The gradient with respect to `{name}` is wrong.", _first_difference(want, have))
    return None


def finite_gradients(expected: Outcome, got: Outcome) -> Failure | None:
    """Check the values, and that no gradient is infinite or NaN: where a maximum has a tie, right gradients differ."""
    if (failure := same_values(expected, got)) is not None:
        return failure
    names = [name for argument in expected.arguments for name in argument.differentiated]
    for name, gradient in zip(names, got.gradients or (), strict=False):
        if not gradient.isfinite().all():
            return Failure(f"The gradient with respect to `{name}` is infinite or NaN.")
    return None


def unchanged(expected: Outcome, got: Outcome) -> Failure | None:
    """Check that the answer does not change its arguments; what it returns is judged by the other properties."""
    if isinstance(got.error, TimedOut):
        return runs(expected, got)
    if got.changed:
        changed = ", ".join(f"`{expected.arguments[i].name}`" for i in got.changed)
        return Failure(f"The call changes {changed}: an operation works in place (`+=`, `masked_fill_`, `x[...] = …`).")
    return None


def unchanged_and_new(expected: Outcome, got: Outcome) -> Failure | None:
    """Check that the answer does not change its arguments, and that no result is one of them or a view of one."""
    if (failure := unchanged(expected, got)) is not None:
        return failure
    if got.shared:
        return Failure("A result is the caller's own tensor, or a view of it: what changes one changes the other.")
    return None


@dataclass(frozen=True)
class AtMost:
    """Check the values, and that the answer takes at most `times` as many `of` as the reference: operations, kernels, or held.

    See `cost.Cost`. Many kernels are what a loop in Python runs, however little each of them computes.
    """

    times: float
    of: str = "operations"

    def __call__(self, expected: Outcome, got: Outcome) -> Failure | None:
        """Compare the costs of a call."""
        if (failure := same_values(expected, got)) is not None:
            return failure
        taken, needed = getattr(got.cost, self.of), getattr(expected.cost, self.of)
        if taken <= self.times * needed:
            return None
        what = {"operations": "takes {:,} operations", "kernels": "takes {:,} calls of torch"}.get(
            self.of, "holds {:,} numbers in memory at one time"
        )
        return Failure(
            f"It {what.format(taken)} on this input, and the reference {needed:,}. "
            f"The largest tensor that it makes has shape {got.cost.largest}."
        )


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or "without a message"
    return text if len(text) <= 200 else text[:200] + " …"


def _count(outcome: Outcome) -> str:
    n = len(outcome.results)
    return "one result" if n == 1 else f"{n} results ({', '.join(outcome.names)})"


def _returned(outcome: Outcome) -> str:
    """Describe what was returned instead of several results."""
    if len(outcome.results) != 1 or isinstance(outcome.results[0], Tensor):
        return _count(outcome)
    (result,) = outcome.results
    if isinstance(result, Generator):
        return "a generator: return a list, `[… for …]`, and no `yield`"
    return f"one value of type {type(result).__name__}"


def _difference(name: str, want: object, have: object) -> Failure:
    """Describe a wrong result; a difference that is small, or due to half precision, is attributed to its usual causes."""
    shown = _first_difference(want, have)
    error = relative_error(want, have)
    if isinstance(have, Tensor) and have.dtype in HALF and error < HALF_TOLERANCE:
        return Failure(f"{name} is correct up to rounding: it is {have.dtype}, which keeps about three digits.", shown)
    if error < ROUNDING and (have.numel() > 1 or error < ROUNDING / 10):  # one number may come near by chance
        advice = "Is a small number added, a large one put in place of -inf, or a function only nearly the one asked for?"
        what = f"{name} is close to the expected values, but the difference is larger than rounding in float32. {advice}"
        return Failure(what, shown)
    return Failure(f"{name} is wrong.", shown)


def relative_error(want: object, have: object) -> float:
    """Return the largest difference between two floating-point tensors, relative to the largest entry.

    It is inf if they cannot be compared, or if their infinite or NaN entries differ.
    """
    if not (isinstance(want, Tensor) and isinstance(have, Tensor)) or want.shape != have.shape or want.is_meta or have.is_meta:
        return math.inf
    if not (want.is_floating_point() and have.is_floating_point()) or not want.numel():
        return math.inf
    x, y = want.double(), have.double()
    if not (x.isfinite() == y.isfinite()).all() or not torch.equal(
        x[~x.isfinite()].nan_to_num(), y[~y.isfinite()].nan_to_num()
    ):
        return math.inf
    x, y = x[x.isfinite()], y[y.isfinite()]
    size = float(x.abs().max()) if x.numel() else 0.0
    return float((x - y).abs().max()) / size if size else math.inf


def _kind(tensor: Tensor) -> str:
    if tensor.dtype == torch.bool:
        return "bool"
    return "floating point" if tensor.is_floating_point() else "integer"


def _first_difference(want: object, have: object) -> str:
    if not isinstance(want, Tensor):
        return f"Expected {want!r}, got {have!r}."
    if want.is_meta or have.is_meta:
        return f"Expected {want.dtype}, got {have.dtype}."
    x, y = want.double(), have.double()
    apart = (x - y).abs().nan_to_num(nan=torch.inf).where(x != y, 0.0)
    largest = int(apart.argmax())
    indices = str(_index(largest, want.shape)) if want.dim() else ""
    w, h = want.flatten()[largest].item(), have.flatten()[largest].item()
    shown = f"expected {w:.4g}, got {h:.4g}" if want.is_floating_point() else f"expected {w}, got {h}"
    return f"Largest difference at {indices}: {shown}." if indices else f"{shown[0].upper()}{shown[1:]}."


def _index(position: int, shape: torch.Size) -> list[int]:
    """Find the indices of an entry from its position in memory; torch's own function takes half a second to import."""
    indices: list[int] = []
    for size in reversed(shape):
        position, index = divmod(position, size)
        indices.insert(0, index)
    return indices
