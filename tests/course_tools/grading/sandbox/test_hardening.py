"""Each layer by itself, in a fork that closes only that one, tries what it should refuse and what it should leave alone."""

import errno
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from course_tools.grading.sandbox import hardening
from course_tools.grading.sandbox.memory_watchdog import memory_limited
from tests.course_tools.grading.forks import LIBC, called, fork, inside, linux, opened, unix

pytestmark = unix


def test_the_session_is_its_own():
    parent = os.getpid()
    assert inside(lambda: hardening.own_session(parent), lambda: os.getsid(0) == os.getpid() != os.getpgid(parent)) is True


def test_an_orphan_ends_at_once():
    assert inside(lambda: hardening.own_session(1_000_000), lambda: "alive") == 1


@linux
def test_who_loses_its_parent_dies():
    read, write = os.pipe()

    def leaves_a_child():
        zygote = os.getpid()
        if os.fork() == 0:
            hardening.own_session(zygote)
            os.write(write, b"alive")
            time.sleep(60)
        os.read(read, 5)

    inside(leaves_a_child)
    os.close(write)
    assert os.read(read, 1) == b""
    os.close(read)


def test_files_are_closed_but_those_that_are_kept():
    def tried():
        hardening.close_files([answer, kept])
        os.write(1, b"nothing of this is seen")
        os.write(2, b"nor of this")
        os.fstat(kept)
        os.fstat(answer)
        found = [os.read(0, 1) == b""]
        for fd in (other, last):
            try:
                os.fstat(fd)
            except OSError:
                found.append(True)
        os._exit(7 if found == [True, True, True] else 8)

    kept, other, answer, last = (os.open(os.devnull, os.O_RDONLY) for _ in range(4))
    assert inside(tried) == 7
    for fd in (kept, other, answer, last):
        os.close(fd)


def limited(seconds=30, memory=2**29):
    return lambda: hardening.limit_resources(seconds, memory)


@linux
def test_memory_is_limited():
    assert inside(limited(), lambda: len(bytearray(2**30))) == "MemoryError"
    assert inside(limited(), lambda: len(bytearray(2**24))) == 2**24


def test_files_cannot_grow(tmp_path):
    path = tmp_path / "file"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)  # opened here: a worker of the suite may hold all files that the limit allows

    def write():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            return os.write(fd, b"x" * 10)
        except OSError as error:
            return errno.errorcode[error.errno]

    assert inside(limited(), write) == "EFBIG"
    os.close(fd)
    assert path.read_bytes() == b""


def test_few_files_can_be_open():
    assert inside(limited(), lambda: len([os.dup(2) for _ in range(100)])) == "OSError"


def test_processor_time_is_limited():
    def spin():
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        while True:
            pass

    begun = time.thread_time()
    assert inside(limited(seconds=1), spin) == -signal.SIGKILL
    assert time.thread_time() - begun < 1.0


@linux
def test_no_capability_is_left_and_none_comes_back():
    def left():
        status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return [int(status[f"Cap{kind}"], 16) for kind in ("Eff", "Prm", "Inh", "Amb")] + [int(status["NoNewPrivs"])]

    assert inside(hardening.drop_privileges, left) == [0, 0, 0, 0, 1]
    assert inside(hardening.drop_privileges, lambda: called(LIBC.mount(b"none", b"/", b"tmpfs", 0, None))) == "EPERM"


@linux
def test_the_network_is_empty():
    def connect():
        with socket.socket() as client:
            client.settimeout(1.0)
            client.connect(server.getsockname())

    with socket.create_server(("127.0.0.1", 0)) as server:
        assert inside(connect) is None
        try:
            assert inside(hardening.isolate_network, connect) == "OSError"
        except AssertionError:
            if inside(hardening.isolate_network) == "OSError":
                pytest.skip("this account may not make a network namespace")
            raise


@pytest.fixture
def closed_files(tmp_path):
    """Close the Landlock layer, with one file granted and one not."""
    (tmp_path / "granted").write_text("x")
    (tmp_path / "hidden").write_text("x")
    (tmp_path / "listed").mkdir()
    (tmp_path / "listed" / "named").write_text("x")

    def close():
        hardening.drop_privileges()
        hardening.restrict_files(hardening.rule_set([str(tmp_path / "granted")], [str(tmp_path / "listed")]))

    if inside(close) is not None:
        pytest.skip("this kernel has no Landlock")
    return close, tmp_path


@linux
def test_only_granted_files_can_be_read(closed_files):
    close, folder = closed_files
    assert inside(close, lambda: opened(folder / "granted")) == "opened"
    assert inside(close, lambda: opened(folder / "hidden")) == "PermissionError"
    assert inside(close, lambda: os.listdir(folder)) == "PermissionError"
    assert inside(close, lambda: ",".join(os.listdir(folder / "listed"))) == "named"
    assert inside(close, lambda: opened(folder / "listed" / "named")) == "PermissionError"
    assert inside(close, lambda: opened("/etc/passwd")) == "PermissionError"
    assert inside(close, lambda: opened(f"/proc/{os.getpid()}/mem")) == "PermissionError"


@linux
def test_nothing_can_be_written_but_to_nowhere(closed_files):
    close, folder = closed_files
    for act in (
        lambda: opened(folder / "granted", "ab"),
        lambda: opened(folder / "new", "wb"),
        lambda: os.mkdir(folder / "new"),
        lambda: os.unlink(folder / "granted"),
        lambda: os.rename(folder / "granted", folder / "new"),
        lambda: os.symlink("/etc", folder / "new"),
        lambda: os.link(folder / "granted", folder / "new"),
        lambda: os.truncate(folder / "granted", 0),
        lambda: os.mkfifo(folder / "new"),
        lambda: opened("/dev/shm/probe", "wb"),
    ):
        assert inside(close, act) in ("PermissionError", "OSError")
    assert sorted(path.name for path in folder.iterdir()) == ["granted", "hidden", "listed"]
    assert inside(close, lambda: opened(os.devnull, "wb")) == "opened"


@linux
def test_ending_a_child_ends_what_it_left_behind():
    def end():
        hardening.adopt_orphans()
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            if os.fork() == 0:
                os.setsid()
                os.write(write, b"x")
                time.sleep(60)
            time.sleep(60)
        os.read(read, 1)
        os.close(write)
        status = hardening.end(pid)
        return [status, os.read(read, 1) == b""]

    assert inside(end) == [-signal.SIGKILL, True]


def test_the_watchdog_ends_who_takes_too_much():
    read, write = os.pipe()
    if (pid := fork()) == 0:
        os.read(read, 1)
        hoard = bytearray(b"x") * 2**28
        time.sleep(20 + len(hoard) * 0)
        os._exit(0)
    with memory_limited(pid, 2**26):
        os.write(write, b"x")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    os.close(read)
    os.close(write)
