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
    watch = Thread(target=_watch, args=(pid, limit, over), daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()


def _watch(pid: int, limit: int, over: Event) -> None:
    with contextlib.suppress(psutil.Error, ProcessLookupError):
        process = psutil.Process(pid)
        most = process.memory_info().rss + limit
        while not over.wait(PERIOD):
            if process.memory_info().rss > most:
                os.kill(pid, signal.SIGKILL)
                return
