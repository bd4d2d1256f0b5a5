"""The filter of system calls by itself: what it refuses, by name and by number, and what it leaves alone."""

import ctypes
import os
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from course_tools.grading.sandbox import hardening
from course_tools.grading.sandbox.seccomp import restrict_calls
from tests.course_tools.grading.forks import LIBC, called, inside, linux, opened

pytestmark = linux


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("fork", lambda: os.fork()),
        ("a program", lambda: os.execv(sys.executable, [sys.executable, "-c", ""])),
        ("a socket", lambda: socket.socket()),
        ("a pair of sockets", lambda: socket.socketpair()),
        ("a signal to the parent", lambda: os.kill(os.getppid(), 0)),
        ("a signal to all", lambda: os.kill(-1, 0)),
        ("a signal to a group", lambda: os.killpg(os.getpgid(os.getppid()), 0)),
        ("a session", lambda: os.setsid()),
        ("another user", lambda: os.setuid(os.getuid())),
        ("a folder", lambda: os.mkdir("/tmp/never")),
        ("a mode", lambda: os.chmod("/tmp", 0o777)),
        ("a priority", lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 5)),
        ("processors of another", lambda: os.sched_setaffinity(os.getppid(), {0})),
        ("a file in memory", lambda: os.memfd_create("x")),
    ],
)
def test_the_filter_refuses(name, act):
    assert inside(hardening.drop_privileges, restrict_calls, act) == "PermissionError"


@pytest.mark.parametrize(
    ("name", "number", "arguments"),
    [
        ("ptrace", 101, (16, 1)),
        ("process_vm_readv", 310, (1, 0, 0, 0, 0, 0)),
        ("unshare", 272, (0x10000000,)),
        ("setns", 308, (0, 0)),
        ("mount", 165, (0, 0, 0, 0, 0)),
        ("bpf", 321, (0, 0, 0)),
        ("keyctl", 250, (0, 0)),
        ("io_uring_setup", 425, (1, 0)),
        ("pidfd_open", 434, (1, 0)),
        ("userfaultfd", 323, (0,)),
        ("perf_event_open", 298, (0, 0, -1, -1, 0)),
        ("shmget", 29, (0, 4096, 0o1600)),
        ("prlimit of another", 302, (1, 0, 0, 0)),
        ("prctl of the death signal", 157, (1, 0)),
        ("fcntl of the owner", 72, (0, 8, 1)),
        ("ioctl into the terminal", 16, (0, 0x5412, 0)),
        ("sendto an address whose lower half is zero", 44, (1, 0, 0, 0, ctypes.c_ulong(1 << 32), 16)),
        ("sendto an address whose upper half is zero", 44, (1, 0, 0, 0, ctypes.c_ulong(1 << 12), 16)),
        ("sendmsg", 46, (0, 0, 0)),
        ("open_by_handle_at", 304, (0, 0, 0)),
        ("x32", 0x40000000 + 39, ()),
    ],
)
@pytest.mark.skipif(os.uname().machine != "x86_64" if hasattr(os, "uname") else True, reason="numbers of x86_64")
def test_the_filter_refuses_by_number(name, number, arguments):
    assert inside(hardening.drop_privileges, restrict_calls, lambda: called(LIBC.syscall(number, *arguments))) == "EPERM"


def test_the_filter_leaves_computing_alone():
    def compute():
        found = []
        thread = threading.Thread(target=lambda: found.append(sum(range(1000))))
        thread.start()
        thread.join()
        opened(os.__file__)
        os.urandom(8)
        os.kill(os.getpid(), 0)
        time.sleep(0.001)
        os.listdir(Path(os.__file__).parent)
        return found

    assert inside(hardening.drop_privileges, restrict_calls, compute) == [499500]


def test_where_files_are_not_closed_the_filter_refuses_writing(tmp_path):
    def close():
        hardening.drop_privileges()
        restrict_calls(read_only=True)

    assert inside(close, lambda: opened(tmp_path / "new", "wb")) == "PermissionError"
    assert inside(close, lambda: opened(os.__file__)) == "opened"


def test_a_second_filter_cannot_open_what_the_first_closed():
    assert inside(hardening.drop_privileges, restrict_calls, restrict_calls) == "PermissionError"
