"""Validation of what a worker reports about a call: an Outcome that the verdict can compare, or Malformed.

Every response may be forged. A forged result, gradient or error is just another answer: it earns points only if its numbers are
those of the reference, which no worker can know. The worker also reports whether an argument was changed or handed back;
forging this gains no more than `x = x.clone()` does for an honest student. Text from inside is included in a report only if it
is a known word, a line of the student's text, or a message without values, so that no input is disclosed.
"""

import builtins
import contextlib
import re
import sys
from functools import lru_cache

from torch import Tensor

from course_tools.checks.common_crash import KINDS, Crash
from course_tools.checks.cost import Cost
from course_tools.checks.failed_operation import FailedOperation, Operand
from course_tools.checks.outcome import Call, NotAFunction, Outcome, tensors_in
from course_tools.grading.sandbox.wire_protocol import Foreign, FunctionReference, Malformed, full

KNOWN_MODULES = ("builtins", "torch", "einops")
HIDDEN = "its message contains numbers and is not shown"
_VALUES = re.compile(r"\d\.[\d,\])]|\de[+-]?\d|\bnan\b|(?:\d+\D+){16}|\d{6}")


class _Words(str):
    """A text that is shown without quotes, even in a KeyError."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def outcome_of(header: object, body: bytearray, call: Call, gradients: bool, counted: bool, source: str) -> Outcome:
    """Read the outcome of a call; `source` is all of the student's text.

    Raises:
        Malformed: an honest worker would not report this about the call.
    """
    match header:
        case {
            "results": results,
            "gradients": derived,
            "changed": list(changed),
            "shared": list(shared),
            "called": list(called),
            "failure": failure,
            "failed": failed,
            "crash": crash,
            "cost": cost,
        }:
            results, derived = full({"tuple": [results, derived]}, body)
        case _:
            raise Malformed("no outcome")
    _require(results is None or isinstance(results, tuple))
    _require(all(type(i) is int and 0 <= i < len(call) for i in changed) and len(changed) <= len(call))
    _require(all(type(i) is int and i >= 0 for i in shared) and len(shared) <= len(results or ()))
    _require(len(called) <= 64 and all(isinstance(name, str) and len(name) <= 100 for name in called))
    if derived is not None:
        wanted = [t.shape for t in tensors_in(call) if t.is_floating_point()]
        _require(gradients and isinstance(derived, tuple) and all(isinstance(t, Tensor) for t in derived))
        _require([t.shape for t in derived] == wanted)
    error, where = error_of(failure, source)
    _require(error is None or (results is None and derived is None))
    results = None if results is None else tuple(_named(value, source) for value in results)
    cost = _cost(cost)
    _require((cost is not None) == (counted and results is not None))
    failed = None if error is None else _operation(failed)
    names, called = _names(results), frozenset(called)
    crash = None if error is None else _crash(crash)
    seen = {"cost": cost, "failed": failed, "crash": crash, "shared": tuple(shared)}
    return Outcome(results, names, error, where, tuple(changed), derived, called, **seen)


def _cost(told: object) -> Cost | None:
    match told:
        case None:
            return None
        case [int(operations), list(shape), int(kernels), int(held)] if len(shape) <= 64 and all(
            type(n) is int and n >= 0 for n in [operations, kernels, held, *shape]
        ):
            return Cost(operations, tuple(shape), kernels, held)
    raise Malformed("no cost")


def _operation(told: object) -> FailedOperation | None:
    match told:
        case None:
            return None
        case [str(name), list(operands)] if len(name) <= 100 and len(operands) <= 8:
            return FailedOperation(name, tuple(map(_operand, operands)))
    raise Malformed("no operation")


def _crash(told: object) -> Crash | None:
    match told:
        case None:
            return None
        case str(kind) if kind in KINDS or not kind:
            return Crash(kind)
    raise Malformed("no kind of error")


def _operand(told: object) -> Operand:
    match told:
        case [list(sizes), str(mean), str(size)] if len(sizes) <= 64 and all(type(n) is int and n >= 0 for n in sizes):
            with contextlib.suppress(ValueError, OverflowError):
                return Operand(tuple(sizes), float.fromhex(mean), float.fromhex(size))
    raise Malformed("no operand")


def error_of(failure: object, source: str) -> tuple[BaseException | None, str]:
    """Rebuild an error that was raised inside, with its type if that is known; return it and the student's line that raised."""
    match failure:
        case None:
            return None, ""
        case {"module": str(module), "kind": str(kind), "text": str(text), "where": str(where), "bare": bool(bare)}:
            if issubclass(known := _kind(module, kind, source), OSError):
                known, text, bare = OSError, "a file or system call was refused", False
            text = text.encode("utf-8", "replace").decode()
            where = where if where.strip() and where in map(str.strip, source.splitlines()) else ""
            return _error(known, () if bare else (_Words(text),)), where
    raise Malformed("no error")


def _names(results: tuple | None) -> tuple[str, ...]:
    n = 1 if results is None else len(results)
    return ("The result",) if n == 1 else tuple(f"Result {i + 1}" for i in range(n))


def without_values(text: str, error: BaseException | None) -> str:
    """Remove the message of an error from a sentence if it could reveal an input."""
    words = " ".join(str(error).split())[:200] if error is not None else ""
    return text.replace(words, HIDDEN) if words and _VALUES.search(words) else text


def _kind(module: str, name: str, source: str) -> type[BaseException]:
    if (module, name) == (NotAFunction.__module__, NotAFunction.__name__):
        return NotAFunction
    known = vars(sys.modules[module]).get(name) if module in KNOWN_MODULES and module in sys.modules else None
    if isinstance(known, type) and issubclass(known, BaseException):
        return known
    return _made(name if _is_own_word(name, source) or name == "NotAvailable" else "AnError", Exception)


def _error(kind: type[BaseException], words: tuple[str, ...]) -> BaseException:
    try:
        return kind(*words)
    except Exception:
        return _made(kind.__name__, Exception)(*words)


@lru_cache(maxsize=256)
def _made(name: str, base: type) -> type:
    return type(name, (base,), {})


def _named(value: object, source: str) -> object:
    """Replace a value of an unknown type by one whose type has that name, for use in a message."""
    if not isinstance(value, Foreign | FunctionReference):
        return value
    known = _is_own_word(value.name, source) or hasattr(builtins, value.name) or value.name == "ndarray"
    return _made(value.name if known else "object", Foreign)(value.name)


def _is_own_word(name: str, source: str) -> bool:
    return name.isidentifier() and len(name) <= 40 and re.search(rf"\b{re.escape(name)}\b", source) is not None


def _require(right: bool) -> None:
    if not right:
        raise Malformed("an impossible outcome")
