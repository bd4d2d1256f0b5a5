"""Acts on the files of the machine: each function does one, gives whether it succeeded, and says what it tries.

An act that succeeds is rewarded with the right answer, so that undeserved points betray it even where it leaves no trace.
"""

import ctypes
import fcntl
import logging
import mmap
import os
import pathlib
import shelve
import shutil
import sqlite3
import tempfile

import torch

LIBC = ctypes.CDLL(None, use_errno=True)


def in_the_folder_for_all(host):
    """A file among the temporary ones."""
    return open(host.marker, "w").write("x")


def in_the_home(host):
    """A file in the home of the instructor."""
    return open(host.at_home, "w").write("x")


def in_the_checkout(host):
    """A file in the course."""
    return open(host.in_the_course, "w").write("x")


def among_the_packages(host):
    """A file where every Python would find it."""
    return open(host.in_the_packages, "w").write("x")


def in_shared_memory(host):
    """A file in the memory that all share."""
    return open(host.in_memory, "w").write("x")


def by_a_system_call(host):
    """A file without Python's help."""
    return LIBC.open(host.marker.encode(), os.O_CREAT | os.O_WRONLY, 0o600) > 0


def by_a_system_call_of_its_own_name(host):
    """A file by a call that old filters forget."""
    return LIBC.creat(host.marker.encode(), 0o600) > 0


def without_a_name(host):
    """A file without a name, in a folder of the instructor."""
    return os.write(os.open(os.path.dirname(host.marker), os.O_TMPFILE | os.O_WRONLY), b"x")


def from_an_open_folder(host):
    """A file beside an open folder, step by step from the root."""
    folder = os.open("/", os.O_PATH)
    return os.open(host.marker.lstrip("/"), os.O_CREAT | os.O_WRONLY, dir_fd=folder)


def after_a_change_of_place(host):
    """A file in the place where one stands."""
    os.chdir(os.path.dirname(host.marker))
    return open(os.path.basename(host.marker), "w").write("x")


def with_torch(host):
    """A file as torch writes it."""
    torch.save(torch.ones(3), host.marker)
    return os.path.exists(host.marker)


def with_the_memory_of_a_file(host):
    """A tensor that lives in a file."""
    return torch.from_file(host.marker, shared=True, size=4).fill_(1).sum() > 0


def with_a_database(host):
    """A database."""
    connection = sqlite3.connect(host.marker)
    connection.execute("create table t (x)")
    connection.commit()
    return os.path.exists(host.marker)


def with_a_shelf(host):
    """A dictionary on disk."""
    with shelve.open(host.marker) as shelf:
        shelf["x"] = 1
    return True


def with_a_log(host):
    """A log."""
    handler = logging.FileHandler(host.marker)
    handler.emit(logging.makeLogRecord({"msg": "x"}))
    return os.path.exists(host.marker)


def for_a_while(host):
    """A temporary file beside those of the instructor."""
    with tempfile.TemporaryFile(dir=os.path.dirname(host.marker)) as file:
        return file.write(b"x")


def as_shared_memory(host):
    """Memory with a name, which outlives its process."""
    from multiprocessing.shared_memory import SharedMemory

    memory = SharedMemory(host.tag, create=True, size=8)
    memory.unlink()
    return memory.size


def a_folder(host):
    """A folder."""
    os.mkdir(host.marker)
    return True


def a_pipe_with_a_name(host):
    """A pipe with a name, at which a reader would wait for ever."""
    os.mkfifo(host.marker)
    return True


def a_link_to_a_secret(host):
    """A link, to be followed by whoever collects files."""
    os.symlink(host.witness, host.marker)
    return True


def a_second_name(host):
    """A second name for a file of the instructor."""
    os.link(host.witness, host.marker)
    return True


def another_name(host):
    """Another name for a file of the instructor."""
    os.rename(host.witness, host.marker)
    return True


def a_copy(host):
    """A copy of a file of the instructor."""
    return shutil.copy(host.witness, host.marker)


def no_file_any_more(host):
    """The file with the marks is removed."""
    os.remove(host.witness)
    return True


def no_folder_any_more(host):
    """The folder with the marks is removed."""
    shutil.rmtree(os.path.dirname(host.witness))
    return True


def an_empty_file(host):
    """The file with the marks is emptied."""
    os.truncate(host.witness, 0)
    return True


def another_mark(host):
    """A line is added to the file with the marks."""
    return open(host.witness, "a").write("me,297,6\n")


def another_mark_in_memory(host):
    """The file with the marks is changed in memory."""
    mmap.mmap(os.open(host.witness, os.O_RDWR), 0)[0:1] = b"X"
    return True


def another_mark_in_place(host):
    """The file with the marks is replaced."""
    return pathlib.Path(host.witness).write_text("me,297")


def another_mode(host):
    """The marks become readable for all, or for none."""
    os.chmod(host.witness, 0o777)
    return True


def another_owner(host):
    """The marks get the owner that they have, which changes the time of their change."""
    os.chown(host.witness, os.getuid(), os.getgid())
    return True


def another_time(host):
    """The marks become older than the submissions."""
    os.utime(host.witness, (0, 0))
    return True


def another_attribute(host):
    """A note is pinned to the file with the marks."""
    os.setxattr(host.witness, "user.note", b"x")
    return True


def a_lock(host):
    """A lock on the file with the marks, on which the grader would wait."""
    fcntl.flock(os.open(host.witness, os.O_RDONLY), fcntl.LOCK_EX)
    return True


def another_root(host):
    """Another root for this process."""
    os.chroot(os.path.dirname(host.marker))
    return True


def another_file_system(host):
    """A file system in memory over the folder of the marks."""
    folder = os.path.dirname(host.marker).encode()
    done = LIBC.mount(b"none", folder, b"tmpfs", 0, None) == 0
    return done and LIBC.umount2(folder, 2) == 0


def the_last_to_be_killed(host):
    """The note that says whom the system kills first when memory is short."""
    return open("/proc/self/oom_score_adj", "r+").write("0")
