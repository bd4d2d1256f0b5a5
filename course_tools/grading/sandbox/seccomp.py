"""System-call filter: the calls that torch needs are allowed, all others are refused by the kernel.

It is an allow-list, so that unforeseen calls are refused too: no fork, program, socket, tracing, signal to other processes,
namespace, mount, key, io_uring, BPF, shared memory or message queue. Threads are allowed. Paths are not checked (Landlock does
that), and neither time nor memory is limited (resource limits do that). Calls that change files are allowed only if Landlock
limits them to the scratch; those that Landlock does not check (modes, owners, times) never. This module runs inside the
sandbox.

Linux, Documentation/userspace-api/seccomp_filter.rst; numbers: arch/x86/entry/syscalls/syscall_64.tbl and
include/uapi/asm-generic/unistd.h.
"""

import ctypes
import os
import platform
import struct
import sys

X86_64, AARCH64 = 0xC000003E, 0xC00000B7
ALLOWED = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "newfstatat": (262, 79), "stat": (4, None),
    "lstat": (6, None), "statx": (332, 291), "poll": (7, None), "ppoll": (271, 73), "select": (23, None),
    "pselect6": (270, 72), "lseek": (8, 62), "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214),
    "mremap": (25, 216), "madvise": (28, 233), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "pread64": (17, 67), "readv": (19, 65), "access": (21, None), "faccessat": (269, 48),
    "faccessat2": (439, 439), "sched_yield": (24, 124), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "getitimer": (36, 102), "setitimer": (38, 103),
    "alarm": (37, None), "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173), "exit": (60, 93),
    "exit_group": (231, 94), "uname": (63, 160), "getcwd": (79, 17), "readlink": (89, None), "readlinkat": (267, 78),
    "getdents64": (217, 61), "gettimeofday": (96, 169), "getrusage": (98, 165), "sysinfo": (99, 179), "times": (100, 153),
    "getuid": (102, 174), "getgid": (104, 176), "geteuid": (107, 175), "getegid": (108, 177), "getpgid": (121, 155),
    "getpgrp": (111, None), "getsid": (124, 156), "sigaltstack": (131, 132), "arch_prctl": (158, None), "futex": (202, 98),
    "sched_getaffinity": (204, 123), "sched_getparam": (143, 121), "sched_getscheduler": (145, 120),
    "set_tid_address": (218, 96), "clock_gettime": (228, 113), "clock_getres": (229, 114), "set_robust_list": (273, 99),
    "rseq": (334, 293), "membarrier": (324, 283), "getrandom": (318, 278), "restart_syscall": (219, 128),
    "time": (201, None), "getcpu": (309, 168), "recvfrom": (45, 207),
}  # fmt: skip
ON_FILES = {
    "pwrite64": (18, 68), "writev": (20, 66), "ftruncate": (77, 46), "fallocate": (285, 47), "fsync": (74, 82),
    "fdatasync": (75, 83), "chdir": (80, 49), "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None),
    "unlink": (87, None), "unlinkat": (263, 35), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
}  # fmt: skip
CLONE, CLONE3, KILL, TGKILL = (56, 220), (435, 435), (62, 129), (234, 131)
PRLIMIT, PRCTL, IOCTL, SENDTO, FCNTL = (302, 261), (157, 167), (16, 29), (44, 206), (72, 25)
OPEN, OPENAT = (2, None), (257, 56)

CLONE_THREAD = 0x10000
NAMES_OF_THREADS = (15, 16, 0x53564D41)
TERMINAL_AND_FLAGS = (0x5401, 0x5421, 0x5450, 0x5451)
DUPLICATES_FLAGS_AND_LOCKS = (0, 1, 2, 3, 4, 5, 6, 1030)
WRITING = os.O_WRONLY | os.O_RDWR | getattr(os, "O_CREAT", 0) | getattr(os, "O_TRUNC", 0)

_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
_LOAD, _EQUAL, _ANY, _RETURN = 0x20, 0x15, 0x45, 0x06


def restrict_calls(read_only: bool = False, with_scratch: bool = False) -> None:
    """Install the filter in this process, irrevocably.

    Args:
        read_only: refuse to open any file for writing; for kernels without Landlock.
        with_scratch: allow the calls that make, move and remove files; Landlock must limit where.

    Raises:
        OSError: the kernel or the processor is not supported.
    """
    arch = {"x86_64": 0, "aarch64": 1}.get(platform.machine())
    if not sys.platform.startswith("linux") or arch is None or sys.maxsize < 2**32:
        raise OSError("the seccomp filter supports only Linux on x86_64 and aarch64")
    program = _program(arch, os.getpid(), read_only, ALLOWED | (ON_FILES if with_scratch else {}))
    code = ctypes.create_string_buffer(program)
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(22, ctypes.c_ulong(2), ctypes.c_void_p(ctypes.addressof(header)), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        raise OSError(ctypes.get_errno(), "the kernel refuses the filter of system calls")


def _program(arch: int, pid: int, read_only: bool, allowed: dict[str, tuple[int | None, int | None]]) -> bytes:
    """Assemble the filter: one block for each call, which returns or continues with the next block."""
    blocks = [_load(4), _step(_EQUAL, (X86_64, AARCH64)[arch], 1, 0), _step(_RETURN, _KILL), _load(0)]
    opens = [(_ANY, WRITING)]
    checked = [
        (CLONE, 0, [(_ANY, CLONE_THREAD)], _ALLOW, _EPERM),
        (KILL, 0, [(_EQUAL, pid)], _ALLOW, _EPERM),
        (TGKILL, 0, [(_EQUAL, pid)], _ALLOW, _EPERM),
        (PRLIMIT, 0, [(_EQUAL, 0)], _ALLOW, _EPERM),
        (PRCTL, 0, [(_EQUAL, option) for option in NAMES_OF_THREADS], _ALLOW, _EPERM),
        (IOCTL, 1, [(_EQUAL, request) for request in TERMINAL_AND_FLAGS], _ALLOW, _EPERM),
        (FCNTL, 1, [(_EQUAL, command) for command in DUPLICATES_FLAGS_AND_LOCKS], _ALLOW, _EPERM),
        (OPEN, 1, opens if read_only else [], _EPERM, _ALLOW),
        (OPENAT, 2, opens if read_only else [], _EPERM, _ALLOW),
        (CLONE3, 0, [], _ENOSYS, _ENOSYS),
    ]
    for numbers in allowed.values():
        if numbers[arch] is not None:
            blocks += [_step(_EQUAL, numbers[arch], 0, 1), _step(_RETURN, _ALLOW)]
    for numbers, argument, tests, hit, missed in checked:
        if numbers[arch] is not None:
            inner = [_load(16 + 8 * argument)]
            for kind, value in tests:
                inner += [_step(kind, value, 0, 1), _step(_RETURN, hit)]
            inner.append(_step(_RETURN, missed))
            blocks += [_step(_EQUAL, numbers[arch], 0, len(inner)), *inner]
    low, high = _load(16 + 8 * 4), _load(16 + 8 * 4 + 4)
    test = [low, _step(_EQUAL, 0, 0, 2), high, _step(_EQUAL, 0, 1, 0), _step(_RETURN, _EPERM), _step(_RETURN, _ALLOW)]
    blocks += [_step(_EQUAL, SENDTO[arch], 0, len(test)), *test]  # the pointer has 64 bits: both halves must be 0
    return b"".join([*blocks, _step(_RETURN, _EPERM)])


def _load(offset: int) -> bytes:
    return _step(_LOAD, offset)


def _step(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, value)
