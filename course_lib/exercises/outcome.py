"""What an answer does when it is called: its results, its gradients, its error, what it changed and what it called.

The call is guarded: prints and warnings cost nothing, an endless loop ends at the time limit, and the random state, the default
dtype and the gradient mode are afterwards what they were before.
"""

import contextlib
import ctypes
import io
import math
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import unwrap

import torch
from torch import Tensor

TIME_LIMIT = 5.0
"""Seconds that one call of an answer may take."""


class TimedOut(BaseException):
    """An answer was still running at its time limit. Not an Exception: `except Exception` in an answer must not hold it."""


@dataclass(frozen=True)
class Outcome:
    """What one call did. `results` is None where it raised or returned None."""

    results: tuple[object, ...] | None
    names: tuple[str, ...] = ()
    error: BaseException | None = None
    where: str = ""
    changed: tuple[int, ...] = ()
    gradients: tuple[Tensor, ...] | None = None
    called: frozenset[str] = frozenset()


def observe(
    answer: Callable[..., object], call: tuple[object, ...], gradients: bool, forbids: Mapping[Callable, str]
) -> Outcome:
    """Call an answer on copies of the arguments and report what it did; it never raises, but for a KeyboardInterrupt."""
    given = _copy(call, gradients)
    called: set[str] = set()
    try:
        with _guarded(), _watching(forbids, called), _time_limit(TIME_LIMIT):
            returned = answer(*given)
            derived = _gradients(returned, given) if gradients else None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Outcome(None, error=error, where=_where(error), called=frozenset(called))
    changed = tuple(i for i, (before, after) in enumerate(zip(call, given, strict=True)) if not _same(before, after))
    if returned is None:
        return Outcome(None, changed=changed, called=frozenset(called))
    results = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
    return Outcome(_detached(results), _names(returned), None, "", changed, derived, frozenset(called))


def tensors_in(value: object) -> Iterator[Tensor]:
    """Give the tensors in an argument or result, also those in lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_in(item)


def _copy(value: object, gradients: bool) -> object:
    if isinstance(value, Tensor):
        copy = value.detach().clone()
        return copy.requires_grad_() if gradients and copy.is_floating_point() else copy
    if isinstance(value, tuple | list):
        return type(value)(_copy(item, gradients) for item in value)
    return value


def _names(returned: object) -> tuple[str, ...]:
    if not isinstance(returned, tuple | list):
        return ("the result",)
    return getattr(returned, "_fields", None) or tuple(f"result {i + 1}" for i in range(len(returned)))


def _detached(results: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(r.detach() if isinstance(r, Tensor) else r for r in results)


def _same(before: object, after: object) -> bool:
    pairs = zip(tensors_in(before), tensors_in(after), strict=True)
    return all(b.shape == a.shape and torch.equal(b, a.detach()) for b, a in pairs)


def _gradients(returned: object, given: object) -> tuple[Tensor, ...] | None:
    """Differentiate a fixed random combination of all results; None where no result depends on an input."""
    outputs = [t for t in tensors_in(returned) if t.requires_grad]
    if not outputs:
        return None
    generator = torch.Generator().manual_seed(0)
    total = sum((t * torch.randn(t.shape, generator=generator).to(t)).sum() for t in outputs)
    inputs = [t for t in tensors_in(given) if t.requires_grad]
    return torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)


def _where(error: BaseException) -> str:
    """The student's own line that raised: the last one that is not in a library."""
    own = [f for f in traceback.extract_tb(error.__traceback__)[1:] if "site-packages" not in f.filename]
    return own[-1].line or "" if own else ""


@contextlib.contextmanager
def _guarded() -> Iterator[None]:
    dtype, enabled = torch.get_default_dtype(), torch.is_grad_enabled()
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
        torch.random.fork_rng(devices=[]),
    ):
        warnings.simplefilter("ignore")
        torch.set_grad_enabled(True)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(enabled)


@contextlib.contextmanager
def _watching(forbids: Mapping[Callable, str], called: set[str]) -> Iterator[None]:
    """Note which forbidden functions are called, however they were imported."""
    if not forbids:
        yield
        return
    by_code = {unwrap(f).__code__: f.__name__ for f in forbids if hasattr(unwrap(f), "__code__")}
    builtins = {f.__name__: f for f in forbids if not hasattr(unwrap(f), "__code__")}

    def note(frame: object, event: str, argument: object) -> None:
        if event == "call" and frame.f_code in by_code:
            called.add(by_code[frame.f_code])
        elif event == "c_call" and getattr(argument, "__name__", None) in builtins:
            called.add(argument.__name__)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise TimedOut in this thread when the block is still running after so many seconds, and again each second after that."""
    thread, done = threading.get_ident(), threading.Event()

    def interrupt() -> None:
        wait = seconds
        while not done.wait(wait):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TimedOut))
            wait = 1.0

    watchdog = threading.Thread(target=interrupt, daemon=True)
    watchdog.start()
    try:
        yield
    finally:
        done.set()
        watchdog.join()


def is_close(expected: object, got: object) -> bool:
    """Say whether two results are the same number up to rounding: relative to the largest entry, NaN equal to NaN."""
    if not isinstance(expected, Tensor):
        return (expected is None and got is None) or (expected is not None and got is not None and expected == got)
    if not isinstance(got, Tensor) or expected.shape != got.shape:
        return False
    if not expected.is_floating_point():
        return torch.equal(expected.to(torch.int64), got.to(torch.int64)) if got.dtype == expected.dtype else False
    finite = expected[expected.isfinite()].abs()
    size = float(finite.max()) if finite.numel() else 0.0
    tolerance = 1e-5 + 1e-4 * (size if math.isfinite(size) else 0.0)
    return torch.allclose(got.double(), expected.double(), rtol=0.0, atol=tolerance, equal_nan=True)
