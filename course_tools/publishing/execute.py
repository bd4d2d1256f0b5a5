"""Execute notebooks without a front end: one kernel each, several in parallel, with run time, processor time, peak memory."""

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import IO

import psutil
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from tqdm import tqdm

from course_tools.notebook.claim import STRICT
from course_tools.publishing.outputs import code_cells, failures, first_line

CELL_TIMEOUT = 600.0
"""Seconds that one cell may take."""


@dataclass
class Execution:
    """An executed notebook. `failures` lists what went wrong, one line each; it is empty if nothing did.

    `processor_seconds` is the processor time of the kernel and its children. With one thread, on an idle
    machine, it is close to `seconds`; on a busy one it hardly grows.
    """

    notebook: NotebookNode
    seconds: float = 0.0
    processor_seconds: float = 0.0
    peak_mb: float = 0.0
    failures: list[str] = field(default_factory=list)


def execute(
    notebooks: Mapping[str, tuple[NotebookNode, Path]],
    root: Path,
    *,
    workers: int | None = None,
    timeout: float = CELL_TIMEOUT,
    threads: int = 1,
) -> dict[str, Execution]:
    """Execute notebooks in place, each in its own kernel, and show one progress bar.

    After a failing cell the remaining cells still run. A kernel that dies, or a cell that exceeds the time limit, ends its
    notebook.

    Args:
        notebooks: name -> notebook and the folder it runs in.
        root: the folder of the course; the kernels import `course_lib` from there.
        workers: how many kernels run at a time; by default as many as there are cores for their threads.
        timeout: seconds that one cell may take.
        threads: CPU threads of each kernel.

    Returns:
        name -> the result of each.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = max(1, min(workers or cores // threads, len(notebooks)))
    environment = kernel_environment(root, threads)
    managers: list[AsyncKernelManager] = []
    n_cells = sum(len(code_cells(notebook)) for notebook, _ in notebooks.values())
    with (
        tqdm(total=n_cells, unit="cell", desc="executing", disable=None, leave=False) as bar,
        ThreadPoolExecutor(workers) as pool,
    ):
        running = {
            name: pool.submit(_execute_one, notebook, folder, environment, timeout, lambda **_: bar.update(), managers)
            for name, (notebook, folder) in notebooks.items()
        }
        try:
            return {name: future.result() for name, future in running.items()}
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for manager in managers:
                _kill(manager)
            raise


def kernel_environment(root: Path, threads: int = 1) -> dict[str, str]:
    """Return the environment of an unattended kernel: this course first on the path, no progress bars, strict claims.

    One thread by default: at the size of the lectures a second one gains nothing, and on a busy machine it stalls.
    """
    pinned = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    return os.environ | pinned | {"PYTHONPATH": path, "CI": "1", STRICT: "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def _execute_one(
    notebook: NotebookNode,
    folder: Path,
    environment: dict[str, str],
    timeout: float,
    on_cell: Callable[..., object],
    managers: list[AsyncKernelManager],
) -> Execution:
    # Only the interpreter's own kernel folder: "python3" is the Python that runs this, whatever the user has registered.
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    managers.append(manager)
    done, where = Execution(notebook), ["before its first cell"]
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=timeout,
        startup_timeout=120,
        allow_errors=True,
        record_timing=False,
        coalesce_streams=True,
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(folder)}},
        store_widget_state=False,
        on_cell_execute=lambda cell, cell_index: where.append(f"cell {cell_index + 1} ({first_line(cell.source)})"),
        on_cell_executed=on_cell,
    )
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    # nbclient's replacement of an output widget sends on the socket it waits on, and may miss the reply until the time
    # limit. Without it, the cell receives what a widget would catch, including errors.
    client.widget_registry = {}
    started = time.perf_counter()
    with tempfile.TemporaryFile() as log:
        try:
            # On Windows the default event loop lacks what zmq needs; elsewhere this one is the default.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(_watched(client, manager, done, env=environment, stderr=log))
        except DeadKernelError as error:
            done.failures.append(f"{where[-1]}: the kernel died{error}{_last_words(log)}")
        except CellTimeoutError:
            done.failures.append(f"{where[-1]}: still running after {timeout:g} s")
        except Exception as error:
            done.failures.append(f"{where[-1]}: {type(error).__name__}: {first_line(str(error))}{_last_words(log)}")
    done.seconds = time.perf_counter() - started
    done.failures = failures(notebook) + done.failures
    return done


async def _watched(client: NotebookClient, manager: AsyncKernelManager, done: Execution, **how: object) -> None:
    kernel: list[Popen] = []
    sampling = asyncio.create_task(_sample_cost(manager, done, kernel))
    try:
        await client.async_execute(cleanup_kc=True, **how)
    except DeadKernelError as error:
        raise DeadKernelError(_end_of(kernel[0]) if kernel else "") from error
    finally:
        sampling.cancel()


async def _sample_cost(manager: AsyncKernelManager, done: Execution, kernel: list[Popen]) -> None:
    """Sample ten times a second the peak memory and the processor time of the kernel and its children."""
    while True:
        process = getattr(manager.provisioner, "process", None)
        if process is not None:
            kernel[:] = [process]
            with contextlib.suppress(psutil.Error):
                observed = psutil.Process(process.pid)
                running = observed.children(recursive=True)
                held = sum(part.memory_info().rss for part in (observed, *running))
                done.peak_mb = max(done.peak_mb, held / 2**20)
                used = sum(observed.cpu_times()[:4]) + sum(sum(part.cpu_times()[:2]) for part in running)
                done.processor_seconds = max(done.processor_seconds, used)
        await asyncio.sleep(0.1)


def _end_of(kernel: Popen) -> str:
    """Describe how a process ended: its exit status, or the signal that ended it."""
    status = kernel.poll()
    if status is None:
        return ""
    if status >= 0:
        return f" with exit status {status}"
    name = signal.Signals(-status).name
    return f" by {name}{', possibly out of memory' if name == 'SIGKILL' else ''}"


def _last_words(log: IO[bytes]) -> str:
    """Quote the last line that a kernel wrote before it died, unless it is only a warning of the kernel itself."""
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    said = [line for line in lines if line and "[IPKernelApp]" not in line]
    return f" ({first_line(said[-1])})" if said else ""


def _kill(manager: AsyncKernelManager) -> None:
    process = getattr(manager.provisioner, "process", None)
    if process is not None:
        process.kill()
