"""What keeps an answer in its place while it is judged.

Its prints and warnings cost nothing, a loop without an end is left behind at the time limit, the functions it must not call are
noticed, and the random state, the default dtype and the gradient mode are afterwards what they were before.
"""

import contextlib
import ctypes
import io
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from inspect import unwrap
from threading import Event, Thread

import torch

TIME_LIMIT = 5.0
"""Seconds that an answer may take, over all its calls together."""
PATIENCE = 1.0
"""Seconds in which an answer that is interrupted may end; then its thread is left behind."""


class TimedOut(BaseException):
    """An answer was still running at its time limit. Not an Exception: `except Exception` in an answer must not hold it."""


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Start from torch's own default dtype, swallow output and warnings, and undo what is set for the whole process."""
    dtype, enabled = torch.get_default_dtype(), torch.is_grad_enabled()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
        torch.random.fork_rng(devices=devices),
    ):
        warnings.simplefilter("ignore")
        try:
            torch.set_default_dtype(torch.float32)
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(enabled)


@contextlib.contextmanager
def watching(forbids: Mapping[Callable[..., object], str], called: set[str]) -> Iterator[None]:
    """Note which forbidden functions are called, however they were imported."""
    if not forbids:
        yield
        return
    by_code = {unwrap(f).__code__: f.__name__ for f in forbids if hasattr(unwrap(f), "__code__")}
    builtins = {f.__name__ for f in forbids if not hasattr(unwrap(f), "__code__")}

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


def run_in_time(work: Callable[[], None], seconds: float) -> bool:
    """Run `work()` in a thread of its own, and say whether it ended within so many seconds.

    At the limit TimedOut is raised inside it, again and again, in case it catches even that; what still goes on after
    PATIENCE seconds (in a kernel of torch, or asleep) is left behind. What `work` raises is raised here.
    """
    ended, raised = Event(), []

    def run() -> None:
        with contextlib.suppress(TimedOut):
            try:
                work()
            except TimedOut:
                pass
            except BaseException as error:
                raised.append(error)
            finally:
                ended.set()

    thread = Thread(target=run, daemon=True)
    thread.start()
    in_time = False
    try:
        in_time = _wait(ended, seconds)
    finally:
        if not in_time:
            _stop(thread, ended)
    if raised:
        raise raised[0]
    return in_time


def _wait(ended: Event, seconds: float) -> bool:
    """Wait in short turns: on Windows a lock that waits cannot be interrupted."""
    limit = time.monotonic() + seconds
    while (left := limit - time.monotonic()) > 0:
        if ended.wait(min(left, 0.1)):
            return True
    return ended.is_set()


def _stop(thread: Thread, ended: Event) -> None:
    limit = time.monotonic() + PATIENCE
    while not ended.wait(0.01) and time.monotonic() < limit:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(TimedOut))
