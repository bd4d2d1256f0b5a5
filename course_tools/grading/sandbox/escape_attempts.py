"""Attempt forbidden acts from inside the sandbox, so that the isolation is measured, not assumed.

Every act is harmless if it succeeds. This module runs inside the sandbox, in a separate fork, before any student's code.
"""

import ctypes
import os
import platform
import socket
from collections.abc import Callable

import torch

PROCESS_VM_READV = {"x86_64": 310, "aarch64": 270}
IO_URING_SETUP, PIDFD_OPEN = 425, 434


def tried(secrets: list[str], folder: str, scratch: str, zygote: int) -> dict[str, bool]:
    """Attempt every forbidden act, then compute like an honest answer; return for each act whether it was refused.

    Args:
        secrets: files that must be unreadable: references, solutions.
        folder: a folder of the grader in which nothing may be written.
        scratch: the folder that is this worker's own, or "".
        zygote: the process above this one.
    """
    _compute()
    return {name: _refused(act) for name, act in _acts(secrets, folder, scratch, zygote).items()}


def _acts(secrets: list[str], folder: str, scratch: str, zygote: int) -> dict[str, Callable[[], object]]:
    libc = ctypes.CDLL(None, use_errno=True)
    own = {f"read {os.path.basename(path)}": lambda path=path: open(path, "rb").close() for path in secrets}
    return own | {
        "read the list of accounts": lambda: open("/etc/passwd", "rb").close(),
        "read the memory map of another process": lambda: open(f"/proc/{zygote}/maps", "rb").close(),
        "write to a temporary folder": lambda: _write(folder),
        "write to shared memory": lambda: _write("/dev/shm" if scratch != "/dev/shm" else folder),
        "fill the memory with files": lambda: _fill(scratch or folder),
        "start a process": _fork,
        "start a program": lambda: _called(libc.execve(b"/nonexistent", None, None), errors=(2,)),
        "open a connection": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close(),
        "open a local (Unix) socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close(),
        "signal another process": lambda: os.kill(zygote, 0),
        "read the memory of another process": lambda: _called(
            libc.syscall(PROCESS_VM_READV.get(platform.machine(), -1), zygote, None, 0, None, 0, 0)
        ),
        "get a handle (pidfd) of another process": lambda: _called(libc.syscall(PIDFD_OPEN, zygote, 0)),
        "change its user ID": lambda: _called(libc.setuid(os.getuid())),
        "create a namespace": lambda: _called(libc.unshare(0x10000000)),
        "mount a file system": lambda: _called(libc.mount(b"none", b"/", b"tmpfs", 0, None)),
        "use io_uring": lambda: _called(libc.syscall(IO_URING_SETUP, 1, None), errors=(14,)),
        "allocate 8 GB of memory": lambda: torch.empty(2**33, dtype=torch.uint8),
        "open many files": lambda: [os.dup(0) for _ in range(300)],
    }


def _refused(act: Callable[[], object]) -> bool:
    try:
        act()
    except (OSError, RuntimeError, MemoryError, AttributeError):
        return True
    return False


def _write(folder: str) -> None:
    path = os.path.join(folder, f"probe-{os.getpid()}")
    with open(path, "wb"):
        pass
    os.unlink(path)


def _fill(folder: str) -> None:
    """Write files of 2 GB together; they vanish with the worker."""
    for i in range(64):
        with open(os.path.join(folder, f"probe-{i}"), "wb") as file:
            file.write(bytes(2**25))


def _fork() -> None:
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _called(result: int, errors: tuple[int, ...] = ()) -> None:
    """Raise an OSError if a system call was refused; an error number in `errors` means that it was not."""
    if result < 0 and ctypes.get_errno() not in errors:
        raise OSError(ctypes.get_errno(), "refused")


def _compute() -> None:
    """Compute like an honest answer, with gradients; an error means that the layers forbid too much."""
    x = torch.randn(2, 3, 5, requires_grad=True)
    (x @ x.mT).softmax(-1).sum().backward()
    if x.grad is None:
        raise RuntimeError("a gradient is missing")
