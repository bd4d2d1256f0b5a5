"""End a worker that uses too much memory, on systems that do not limit the address space (macOS).

Memory is polled 20 times a second, from another process; it can exceed the limit between two polls.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from threading import Event, Thread

import psutil

PERIOD = 0.05


@contextlib.contextmanager
def memory_limited(pid: int, limit: int) -> Iterator[None]:
    """Within the block, end the process as soon as it holds `limit` bytes more than at the beginning."""
    over = Event()
    watch = Thread(target=_watch, args=(pid, (_resident(pid) or 0) + limit, over), daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()


def _watch(pid: int, most: int, over: Event) -> None:
    while not over.wait(PERIOD):
        held = _resident(pid)
        if held is None:
            return
        if held > most:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            return


def _resident(pid: int) -> int | None:
    """Return the bytes that the process holds in memory; None once it has ended."""
    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.NoSuchProcess:
        return None
