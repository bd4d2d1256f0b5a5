"""The grader's side of the sandbox: it starts the zygote, requests workers and ends them.

The zygote is a new `python -I -S` process that receives its code as text, so that its memory contains neither the library nor
the references; it imports torch once. Each answer is judged in a fork of it.
"""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path

import matplotlib
import psutil

from course_tools.grading.sandbox import bubblewrap, wire_protocol
from course_tools.grading.sandbox.hardening import LINUX
from course_tools.grading.sandbox.memory_watchdog import memory_limited
from course_tools.grading.sandbox.readable_files import listed, package_folders, readable
from course_tools.grading.sandbox.session import LOAD_LIMIT, WorkerSession

START_LIMIT = 600.0
"""Time limit for the zygote to import torch, in seconds."""
LONGEST_TRAINING = 120.0
"""Limit of processor time, in seconds, at least that of any build task. An `Allowance` ends most answers much earlier."""
MEMORY = 2**30
"""Memory limit of an answer in bytes, in addition to what torch uses."""

TEXTS = (
    "checks.time_limit",
    "checks.cost",
    "checks.failed_operation",
    "checks.common_crash",
    "checks.outcome",
    "checks.attention_probe",
    "checks.state_probe",
    "checks.training_record",
    *(
        f"grading.sandbox.{name}"
        for name in (
            "wire_protocol",
            "seccomp",
            "hardening",
            "escape_attempts",
            "forbidden_functions",
            "import_shim",
            "notebook_runner",
            "worker",
        )
    ),
)
"""The modules sent to the zygote, in the order in which they are run; none of them contains a reference."""

BOOT = """
import json, socket, sys, types
control = socket.socket(fileno=int(sys.argv[1]))
def take(n):
    data = b""
    while len(data) < n:
        data += control.recv(n - len(data)) or sys.exit(1)
    return data
order = json.loads(take(int.from_bytes(take(8), "big")))
sys.path += order["path"]
for name in ("course_tools", "course_tools.checks", "course_tools.grading", "course_tools.grading.sandbox"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []
for name, source in order["texts"]:
    module = sys.modules[name] = types.ModuleType(name)
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[parent], last, module)
    module.__file__ = "/" + name.replace(".", "/") + ".py"
    exec(compile(source, module.__file__, "exec"), vars(module))
sys.modules["course_tools.grading.sandbox.worker"].serve(control, order["settings"])
"""


class SandboxFailed(RuntimeError):
    """The sandbox itself failed; the message says how."""


class Sandbox:
    """A running zygote, and at most one worker at a time."""

    def __init__(self) -> None:
        """Start the zygote and wait until it has imported torch."""
        settings = {"seconds": int(LOAD_LIMIT + 2 * LONGEST_TRAINING), "memory": MEMORY}
        settings |= {"readable": readable(), "listed": listed()}
        settings["bubblewrap"] = bubblewrap.missing()
        self._learned: set[str] = set()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                bubblewrap.wrapped([sys.executable, "-I", "-S", "-c", BOOT, str(theirs.fileno())]),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                cwd="/",
                env=_environment(),
                start_new_session=True,
            )
        try:
            self._order({"path": package_folders(), "texts": list(map(_text, TEXTS)), "settings": settings})
        except BaseException:
            self.close()
            raise

    def _order(self, order: dict) -> None:
        text = json.dumps(order).encode()
        self._control.settimeout(START_LIMIT)
        try:
            self._control.sendall(len(text).to_bytes(8, "big") + text)
            self._answer(1024)  # sent once torch has been imported
        except OSError as error:
            raise SandboxFailed(f"the sandbox did not start: {self._last_error()}") from error

    def learn(self, sources: Iterable[str]) -> None:
        """Let the zygote parse new cells of the course in advance; a student's code is never parsed there."""
        new = list(dict.fromkeys(sources).keys() - self._learned)
        if new:
            try:
                self._control.sendall(b"l")
                wire_protocol.send(self._control, new, [], wire_protocol.until(time.monotonic() + START_LIMIT))
            except (OSError, wire_protocol.Ended, wire_protocol.Late) as error:
                raise SandboxFailed(f"the sandbox has ended: {self._last_error()}") from error
            self._learned.update(new)

    def close(self) -> None:
        """End the zygote and all its workers."""
        self._control.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._errors.close()

    @contextlib.contextmanager
    def fork(self) -> Iterator[WorkerSession]:
        """Fork a worker; at the end of the block, it and every process that it started are ended."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._control.settimeout(START_LIMIT)
                try:
                    socket.send_fds(self._control, [b"f"], [theirs.fileno()])
                    (pid,) = struct.unpack("!i", self._answer(4))
                except OSError as error:
                    raise SandboxFailed(f"the sandbox has ended: {self._last_error()}") from error
            worker = WorkerSession(ours, pid, partial(self._time_spent, pid))
            try:
                with contextlib.nullcontext() if LINUX else memory_limited(pid, MEMORY):
                    yield worker
            finally:
                try:
                    self._control.sendall(b"e")
                    (worker.ended,) = struct.unpack("!i", self._answer(4))
                except OSError as error:
                    raise SandboxFailed(f"the sandbox has ended: {self._last_error()}") from error

    def _time_spent(self, pid: int) -> tuple[float, float]:
        """The result of `hardening.time_spent` for a worker; within bubblewrap, only its parent knows it by this number."""
        if LINUX:
            try:
                self._control.sendall(b"t")
                return struct.unpack("!dd", self._answer(16))
            except OSError as error:
                raise SandboxFailed(f"the sandbox has ended: {self._last_error()}") from error
        with contextlib.suppress(psutil.Error):
            return sum(psutil.Process(pid).cpu_times()[:2]), 0.0
        return 0.0, 0.0

    def _answer(self, n: int) -> bytes:
        data = b""
        while len(data) < n:
            part = self._control.recv(n - len(data))
            if not part:
                raise ConnectionError("the zygote has ended")
            data += part
        return data

    def _last_error(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"no message, exit status {self._process.poll()}"


def _text(name: str) -> tuple[str, str]:
    module = import_module(f"course_tools.{name}")
    return module.__name__, Path(module.__file__).read_text(encoding="utf-8")


def _environment() -> dict[str, str]:
    """Only the variables that Python and torch need: nothing else of the grader's environment is passed on."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
    kept["MPLCONFIGDIR"] = matplotlib.get_cachedir()  # the list of fonts: inside, no file can be written
    kept["TORCHDYNAMO_DISABLE"] = "1"  # torch.compile leaves functions as they are: inside, no compiler can be started
    fixed = {"PATH": os.defpath, "HOME": "/nonexistent", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}
    return {**fixed, **one_thread, **kept}
