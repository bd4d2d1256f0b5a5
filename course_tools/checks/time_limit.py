"""Run an answer with a time limit, captured output and restored global state.

The limit is the processor time of the thread that runs the answer, so that a busy machine does not affect the verdict. Imports
that the answer triggers are neither counted nor interrupted: a partly imported module would break everything that uses it
later.
"""

import contextlib
import ctypes
import importlib
import io
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from inspect import unwrap
from threading import Event, Thread

import torch

TIME_LIMIT = 5.0
"""Seconds of processor time that an answer may take for all its calls together; imports are not counted."""
WALL_LIMIT = 30.0
"""Seconds of elapsed time that an answer may take: the limit for one that sleeps, reads input or waits for a lock."""
PATIENCE = 1.0
"""Seconds that an interrupted answer has to end; after that its thread is abandoned."""
_TICK = 0.02


class TimedOut(BaseException):
    """An answer was still running at its time limit. Not an Exception, so that `except Exception` does not catch it."""


class CapturedText(io.TextIOBase):
    """Keep the first printed lines, and count the others."""

    MAX_LINES, MAX_WIDTH = 20, 200
    silenced = False

    def __init__(self) -> None:
        """Start empty."""
        self._kept, self._n_kept, self._n_lines = [], 0, 0

    def writable(self) -> bool:
        """Accept text."""
        return True

    def write(self, text: str) -> int:
        """Keep the text up to the maximum size; nothing while it is silenced."""
        if self.silenced:
            return len(text)
        room = self.MAX_LINES * self.MAX_WIDTH - self._n_kept
        if room > 0 and self._n_lines < self.MAX_LINES:
            self._kept.append(text[:room])
            self._n_kept += min(len(text), room)
        self._n_lines += text.count("\n")
        return len(text)

    @property
    def text(self) -> str:
        """The printed text, or its beginning and the number of lines that follow."""
        lines = "".join(self._kept).splitlines()[: self.MAX_LINES]
        lines = [line if len(line) <= self.MAX_WIDTH else line[: self.MAX_WIDTH] + " …" for line in lines]
        more = self._n_lines - len(lines)
        return "\n".join([*lines, f"… and {more} more line{'s' if more > 1 else ''}"] if more > 0 else lines)


@contextlib.contextmanager
def guarded() -> Iterator[CapturedText]:
    """Set torch's default dtype to float32, capture output and hide warnings; on exit, restore the global settings of torch."""
    dtype, enabled = torch.get_default_dtype(), torch.is_grad_enabled()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    printed = CapturedText()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        warnings.catch_warnings(),
        torch.random.fork_rng(devices=devices),
    ):
        warnings.simplefilter("ignore")
        try:
            torch.set_default_dtype(torch.float32)
            yield printed
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(enabled)


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Capture no output of a call that is repeated."""
    captured = sys.stdout
    if not isinstance(captured, CapturedText):
        yield
        return
    captured.silenced = True
    try:
        yield
    finally:
        captured.silenced = False


@contextlib.contextmanager
def watching(forbids: Mapping[Callable[..., object], str], called: set[str]) -> Iterator[None]:
    """Record which forbidden functions or classes are called, however imported, also in threads that the answer starts.

    An attempt to switch this off is recorded too, as a call of `sys.setprofile`.
    """
    if not forbids:
        yield
        return
    entered = {f: unwrap(f.__init__ if isinstance(f, type) else f) for f in forbids}
    by_code = {function.__code__: f.__name__ for f, function in entered.items() if hasattr(function, "__code__")}
    builtins = {f.__name__ for f, function in entered.items() if not hasattr(function, "__code__")}

    def note(frame: object, event: str, argument: object) -> None:
        if event == "call" and frame.f_code in by_code:
            called.add(by_code[frame.f_code])
        elif event == "c_call" and getattr(argument, "__name__", None) in builtins:
            called.add(argument.__name__)
        elif event == "c_call" and argument is sys.setprofile and watched:
            called.add(SWITCHED_OFF)

    watched, removed, before, in_threads = True, False, sys.getprofile(), threading.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    except RecursionError:  # Python removes a profile function whose call raises it
        removed = True
        raise
    finally:
        if sys.getprofile() is not note and not removed:
            called.add(SWITCHED_OFF)
        watched = False
        sys.setprofile(before)
        threading.setprofile(in_threads)


FRAMES = frozenset({"sys._getframe", "sys._current_frames", "sys.setprofile", "sys.settrace"})
OBJECTS = frozenset({"gc.get_objects", "gc.get_referrers", "gc.get_referents"})
ATTRIBUTES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
LOOKED = FRAMES | OBJECTS | ATTRIBUTES
"""By these, and no others, a function reaches what its callers hold and do not give it."""
_BETWEEN = {"inspect", "jaxtyping", "beartype"}
"""Packages that look at frames on behalf of those who call them, or stand between them and the audit hook."""
_found: set[str] | None = None
_installed = False


@contextlib.contextmanager
def noticing(called: set[str]) -> Iterator[None]:
    """Record by which means an answer looks for what its callers hold, such as the record of its training: those of LOOKED.

    The interpreter reports each of them to an audit hook, which cannot be removed. What libraries do is not recorded.
    """
    global _found, _installed
    if not _installed:
        sys.addaudithook(_notice)
        _installed = True
    before, _found = _found, called
    try:
        yield
    finally:
        _found = before


def _notice(event: str, arguments: tuple) -> None:
    global _found
    name = arguments[1] if event == "object.__getattr__" else event
    if _found is None or name not in LOOKED:
        return
    found, _found = _found, None  # the next line is such an event itself
    frame = sys._getframe(1)
    _found = found
    while frame is not None and (frame.f_globals is globals() or _package(frame.f_globals) in _BETWEEN):
        frame = frame.f_back
    if frame is not None and frame.f_code.co_name == "walk_stack":  # of traceback, whose other functions keep their frames
        frame = frame.f_back
    if frame is not None and not _is_of_a_library(frame.f_globals):
        found.add(name)


def _package(names: dict[str, object]) -> str:
    return str(names.get("__name__")).partition(".")[0]


def _is_of_a_library(names: dict[str, object]) -> bool:
    """Whether code with these global names belongs to an installed module, and not to an answer."""
    module = names.get("__name__")
    if module == "__main__" or str(module).startswith(("course_tools.bank.", "tests.")):
        return False
    return getattr(sys.modules.get(module), "__dict__", None) is names


SWITCHED_OFF = "sys.setprofile"
"""What `watching` records for an answer that tries to switch it off."""


def run_in_time(work: Callable[[], None], seconds: float, wall_seconds: float | None = None) -> bool:
    """Run `work()` in a separate thread, and return whether it ended within the limit.

    At the limit, TimedOut is raised inside the thread, repeatedly in case `work` catches it, but never during an import. A
    thread that still runs after PATIENCE seconds (in a kernel of torch, asleep, in an import) is abandoned. What `work` raises
    is raised here.

    Args:
        work: the function to run.
        seconds: the limit of processor time of its thread, without imports.
        wall_seconds: the limit of elapsed time; None = WALL_LIMIT.
    """
    ended, raised, clock = Event(), [], []

    def run() -> None:
        clock.append(_clock_of_this_thread())
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
        in_time = _wait(thread, ended, clock, seconds, WALL_LIMIT if wall_seconds is None else wall_seconds)
    finally:
        if not in_time:
            _stop(thread, ended)
    if raised:
        raise raised[0]
    return in_time


def _wait(thread: Thread, ended: Event, clock: list[Callable[[], float]], seconds: float, wall_seconds: float) -> bool:
    """Wait in short intervals, so that the student can interrupt the cell; time spent in imports is not counted."""
    used, before = 0.0, 0.0
    wall_limit = time.monotonic() + wall_seconds
    while not ended.wait(_TICK):
        now = clock[0]() if clock else 0.0
        if not _is_importing(thread):
            used += now - before
            if used > seconds or time.monotonic() > wall_limit:
                return ended.is_set()
        elif time.monotonic() > wall_limit + wall_seconds:
            return False
        before = now
    return True


def _clock_of_this_thread() -> Callable[[], float]:
    """The processor time of the calling thread, readable from others; of the process if the system has no such clock."""
    if not hasattr(time, "pthread_getcpuclockid"):
        start = time.process_time()
        return lambda: time.process_time() - start
    clock_id, latest = time.pthread_getcpuclockid(threading.get_ident()), [0.0]

    def read() -> float:
        with contextlib.suppress(OSError):  # the thread has ended
            latest[0] = time.clock_gettime(clock_id)
        return latest[0]

    return read


def _is_importing(thread: Thread) -> bool:
    """Whether the thread holds the lock of a module that it is importing.

    The frames of a running thread also show this, but walking them from another thread can crash the interpreter.
    """
    locks = (reference() for reference in list(importlib._bootstrap._module_locks.values()))
    return any(lock is not None and lock.owner == thread.ident for lock in locks)


def _stop(thread: Thread, ended: Event) -> None:
    limit = time.monotonic() + PATIENCE
    identity = ctypes.c_ulong(thread.ident)
    while not ended.wait(0.01) and time.monotonic() < limit:
        if not _is_importing(thread):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(TimedOut))
            if _is_importing(thread):  # an import began in between: cancel the exception
                ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, None)
