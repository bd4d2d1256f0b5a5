"""Isolation layers around a student's code, one function each, and measurements of time.

The docstring of each layer says what it blocks and what it does not. A layer that the system lacks raises OSError; the caller
decides whether to continue without it. This module runs inside the sandbox: it requires only the standard library, and
`course_lib` is not available.
"""

import contextlib
import ctypes
import os
import signal
import struct
import sys
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from course_tools.grading.sandbox.seccomp import restrict_calls

LINUX = sys.platform.startswith("linux")
NEW_NETWORK, NEW_IPC, NEW_USER, NEW_MOUNTS = 0x40000000, 0x08000000, 0x10000000, 0x00020000
NO_SETUID, NO_DEVICES, NO_PROGRAMS, RECURSIVE, PRIVATE, DETACH = 2, 4, 8, 1 << 14, 1 << 18, 2
SCRATCH_SIZE, MOST_FILES = 2**26, 1000
"""Limits of the scratch: bytes, and files and folders."""
SET_DEATH_SIGNAL, SET_SUBREAPER, SET_NO_NEW_PRIVILEGES, DROP_FROM_BOUNDS, AMBIENT = 1, 36, 38, 24, 47
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CLOCK_OF_A_PROCESS = 2
UNKNOWN_SHARE = 6
"""If the system does not report how long a process waited for a processor, this many elapsed seconds count as one asleep."""
READ_FILE, READ_DIR, WRITE_FILE = 1 << 2, 1 << 3, 1 << 1
REMOVE, MAKE_DIR, MAKE_FILE, MOVE, TRUNCATE = 3 << 4, 1 << 7, 1 << 8, 1 << 13, 1 << 14


def isolate_network() -> None:
    """Enter a network namespace without interfaces, where not even localhost is reachable, and an empty System V IPC namespace.

    Requires root, or a system where users may create namespaces. Files are not affected.
    """
    _require_linux()
    if _libc().unshare(NEW_NETWORK | NEW_IPC) == 0:
        return
    own = {"uid_map": f"{os.getuid()} {os.getuid()} 1", "setgroups": "deny", "gid_map": f"{os.getgid()} {os.getgid()} 1"}
    if _libc().unshare(NEW_USER | NEW_NETWORK | NEW_IPC):
        raise OSError(ctypes.get_errno(), "this account may not create a network namespace")
    for name, text in own.items():  # the same user as outside: without a name, it could not create files in the scratch
        Path("/proc/self", name).write_text(text)


def own_mounts() -> None:
    """Enter a mount namespace: what this process mounts, only it and its children see. After `isolate_network`.

    Requires root, or a system where users may create namespaces.
    """
    _require_linux()
    if _libc().unshare(NEW_MOUNTS) or _libc().mount(None, b"/", None, RECURSIVE | PRIVATE, None):
        raise OSError(ctypes.get_errno(), "this account may not create a mount namespace")


def mount_scratch(folder: str) -> None:
    """Cover a folder by an empty file system in memory, limited in bytes and number of files."""
    limits = f"size={SCRATCH_SIZE},nr_inodes={MOST_FILES},mode=700".encode()
    if _libc().mount(b"scratch", folder.encode(), b"tmpfs", NO_SETUID | NO_DEVICES | NO_PROGRAMS, limits):
        raise OSError(ctypes.get_errno(), "a file system in memory cannot be mounted")


def remove_scratch(folder: str) -> None:
    """Remove what `mount_scratch` mounted, with its files."""
    _libc().umount2(folder.encode(), DETACH)


def adopt_orphans() -> None:
    """Become the parent of processes that a child leaves running, so that they can be found and ended."""
    _require_linux()
    _prctl(SET_SUBREAPER, 1)


def own_session(parent: int) -> None:
    """Leave the grader's session and terminal, and die with the parent: no signals from the terminal, and no survivors.

    A process could call `setsid` again or cancel the death signal; the system-call filter forbids both.
    """
    os.setsid()
    if LINUX:
        _prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def close_files(keep: Iterable[int]) -> None:
    """Close all files except those in `keep`; standard input is empty, and output is discarded."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    kept = sorted(keep)
    for before, after in zip((2, *kept), (*kept, 4096), strict=True):
        os.closerange(before + 1, after)


def limit_resources(seconds: int, memory: int, files: int = 64, largest_file: int = 0) -> None:
    """Limit processor time, memory, the number of open files and the size of files; disable core dumps.

    The memory limit is relative to the current use; macOS does not enforce it, so the grader monitors memory there. Time asleep
    is not processor time: the grader's clock limits it.
    """
    import resource

    limits = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_FSIZE: largest_file}
    limits |= {resource.RLIMIT_NOFILE: files, resource.RLIMIT_CORE: 0}
    if LINUX:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limits[resource.RLIMIT_AS] = pages * resource.getpagesize() + memory
    else:
        limits[resource.RLIMIT_NPROC] = 0
    for kind, limit in limits.items():
        hard = limit + (kind == resource.RLIMIT_CPU)
        resource.setrlimit(kind, (limit, hard))


def drop_privileges() -> None:
    """Drop every capability permanently: root becomes an unprivileged user, but still owns its files."""
    _require_linux()
    _prctl(SET_NO_NEW_PRIVILEGES, 1)
    with contextlib.suppress(OSError):
        _prctl(AMBIENT, 4)
    for capability in range(64):
        with contextlib.suppress(OSError):
            _prctl(DROP_FROM_BOUNDS, capability)
    header, data = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    if _libc().capset(header, data):
        raise OSError(ctypes.get_errno(), "the capabilities cannot be dropped")


def rule_set(granted: Iterable[str], listed: Iterable[str] = ()) -> int:
    """Make a Landlock rule set that allows reading only these files and folders, and writing only to /dev/null.

    In a folder that is only `listed`, names can be read, as an import needs, and no file.

    Landlock (Linux 5.13 and later, Documentation/userspace-api/landlock.rst) does not hide that a file exists, nor its size.
    """
    _require_linux()
    version = _landlock_version()
    if version < 1:
        raise OSError(ctypes.get_errno(), "this kernel has no Landlock")
    files = (1 << (13 + (version >= 2) + (version >= 3))) - 1 | ((1 << 15) if version >= 5 else 0)
    handled = struct.pack("=QQQ", files, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = _libc().syscall(CREATE_RULESET, handled, ctypes.c_size_t(size), 0)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "Landlock refuses the rule set")
    _grant(rules, os.devnull, READ_FILE | WRITE_FILE)
    for path in granted:
        with contextlib.suppress(OSError):
            _grant(rules, path, READ_FILE | READ_DIR if os.path.isdir(path) else READ_FILE)
    for path in listed:
        _grant(rules, path, READ_DIR)
    return rules


def restrict_files(rules: int | None, scratch: str = "") -> None:
    """Enter a Landlock rule set, irrevocably: files that it does not grant cannot be opened, except in the scratch."""
    _require_linux()
    if rules is None:
        raise OSError("this kernel has no Landlock")
    if scratch:
        version = _landlock_version()
        newer = (MOVE if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
        _grant(rules, scratch, READ_FILE | READ_DIR | WRITE_FILE | REMOVE | MAKE_DIR | MAKE_FILE | newer)
    if _libc().syscall(RESTRICT_SELF, rules, 0):
        raise OSError(ctypes.get_errno(), "Landlock cannot be entered")


def apply_all(settings: dict, keep: Iterable[int], parent: int, rules: int | None) -> dict[str, str]:
    """Apply all layers in order, keeping the files in `keep` open; return for each layer "" if active, else the reason."""
    scratch = settings["scratch"]
    layers = {
        "session": lambda: own_session(parent),
        "limits": lambda: limit_resources(settings["seconds"], settings["memory"], largest_file=SCRATCH_SIZE if scratch else 0),
        "privileges": drop_privileges,
        "Landlock": lambda: restrict_files(rules, scratch),
        "files closed": lambda: close_files(keep),
        "seccomp": lambda: restrict_calls(
            read_only=held["Landlock"] != "", with_scratch=scratch != "" and held["Landlock"] == ""
        ),
    }
    held: dict[str, str] = {}
    for name, close in layers.items():
        try:
            close()
            held[name] = ""
        except (OSError, ValueError, ImportError, AttributeError) as error:
            held[name] = str(error) or type(error).__name__
    return held


def time_spent(pid: int) -> tuple[float, float]:
    """Return the seconds of processor time of a child, in all its threads, and the seconds that it waited for a processor.

    Only the waiting of its first thread counts, so that other threads cannot add to it.
    """
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | CLOCK_OF_A_PROCESS), time_waited(str(pid))
    return 0.0, 0.0


def time_waited(process: str) -> float:
    """Return the seconds that a process was ready to run while others had the processor; 0 if `tells_waiting` is False."""
    return _schedule(process)[1] / 1e9


def tells_waiting() -> bool:
    """Whether this system records how long a process waits for a processor; otherwise its records are all zero."""
    return _schedule("thread-self")[0] > 0


def own_schedule() -> list[int]:
    """Open the file that records how long this process waited, before files can no longer be opened; [] if there is none."""
    with contextlib.suppress(OSError):
        return [os.open("/proc/self/schedstat", os.O_RDONLY)]
    return []


def own_time_slept(schedule: list[int]) -> float:
    """Return the seconds in which this process neither computed nor waited for a processor, up to a constant.

    Args:
        schedule: the result of `own_schedule`.
    """
    told = _numbers(os.pread(schedule[0], 100, 0).decode()) if schedule else None
    return time_slept(time.monotonic(), time.process_time(), told and told[1] / 1e9)


def time_slept(passed: float, computed: float, waited: float | None) -> float:
    """Return the elapsed seconds without computing and waiting; a fraction of them if the waiting time is unknown."""
    return passed / UNKNOWN_SHARE if waited is None else passed - computed - waited


def _schedule(process: str) -> tuple[int, int]:
    """The nanoseconds that a process has run and waited; zeros if the system does not record them, or before it has run."""
    with contextlib.suppress(OSError, ValueError):
        return _numbers(Path(f"/proc/{process}/schedstat").read_text())
    return 0, 0


def _numbers(schedule: str) -> tuple[int, int]:
    ran, waited, _ = map(int, schedule.split())
    return ran, waited


def end(pid: int) -> int:
    """End a child and every process that it started; return its exit code, as `waitstatus_to_exitcode` does."""
    for stop in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            stop(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    while orphans := _children():
        for orphan in orphans:
            with contextlib.suppress(OSError):
                os.kill(orphan, signal.SIGKILL)
                os.waitpid(orphan, 0)
    return os.waitstatus_to_exitcode(status)


def _children() -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []


def _landlock_version() -> int:
    """The version of Landlock in this kernel; less than 1 if there is none."""
    return _libc().syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)


def _grant(rules: int, path: str, access: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if _libc().syscall(ADD_RULE, rules, 1, struct.pack("=Qi", access, fd), 0):
            raise OSError(ctypes.get_errno(), f"Landlock refuses a rule for {path}")
    finally:
        os.close(fd)


def _prctl(option: int, value: int) -> None:
    if _libc().prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        raise OSError(ctypes.get_errno(), f"prctl {option} is refused")


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _require_linux() -> None:
    if not LINUX:
        raise OSError("only available on Linux")
