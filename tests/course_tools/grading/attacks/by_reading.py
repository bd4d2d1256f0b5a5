"""Acts that read what is not for a student: each function gives whether it saw it, and says what it tries."""

import codecs
import ctypes
import glob
import importlib.machinery
import importlib.util
import io
import linecache
import mmap
import os
import pathlib
import pkgutil
import runpy
import tokenize

import numpy as np
import torch

LIBC = ctypes.CDLL(None, use_errno=True)


def the_solutions(host):
    """The solutions, where the course keeps them."""
    return open(f"{host.course}/solutions/02_alignment.ipynb").read()


def the_reference(host):
    """The source of the reference."""
    return "def general_scores" in open(host.reference).read()


def the_reference_as_bytes(host):
    """The source of the reference by a bare system call."""
    return len(os.read(os.open(host.reference, os.O_RDONLY), 9))


def the_reference_by_another_door(host):
    """The source of the reference from the open root, with dots in its path."""
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    path = os.path.join("proc", "self", "root", os.pardir, host.reference.lstrip(os.sep))
    return len(os.read(os.open(path, os.O_RDONLY, dir_fd=root), 9))


def the_reference_by_its_shadow(host):
    """The source of the reference by a handle on its path, opened again."""
    shadow = os.open(host.reference, os.O_PATH)
    return len(os.read(os.open(f"/proc/self/fd/{shadow}", os.O_RDONLY), 9))


def the_reference_in_memory(host):
    """The source of the reference mapped into memory."""
    return len(mmap.mmap(os.open(host.reference, os.O_RDONLY), 0, prot=mmap.PROT_READ))


def the_reference_as_numbers(host):
    """The source of the reference as an array."""
    return len(np.fromfile(host.reference, dtype=np.uint8))


def the_reference_as_a_tensor(host):
    """The source of the reference as a tensor."""
    return len(torch.from_file(host.reference, size=9, dtype=torch.uint8))


def the_reference_in_c(host):
    """The source of the reference by the C library."""
    LIBC.fopen.restype = ctypes.c_void_p
    return LIBC.fopen(host.reference.encode(), b"r")


def the_reference_as_a_module(host):
    """The reference loaded from its file."""
    return hasattr(importlib.machinery.SourceFileLoader("ours", host.reference).load_module(), "general_scores")


def the_reference_as_a_script(host):
    """The reference run as a program."""
    return runpy.run_path(host.reference)["general_scores"]


def the_reference_as_data(host):
    """The reference as data of its package."""
    return pkgutil.get_data("course_lib", "attention/dot_product.py")


def the_reference_from_the_path(host):
    """The course in front of the path, and everything forgotten that was put in its place."""
    import sys

    sys.path.insert(0, host.course)
    sys.path_importer_cache.clear()
    for name in [name for name in sys.modules if name.startswith("course_lib")]:
        del sys.modules[name]
    sys.meta_path[:] = [importlib.machinery.PathFinder]
    return importlib.import_module("course_lib.attention.dot_product").general_scores


def the_reference_in_lines(host):
    """The source of the reference by the modules that show tracebacks and tokens."""
    return linecache.getlines(host.reference) or tokenize.open(host.reference).read()


def the_reference_as_code(host):
    """The source of the reference by the door that is meant for code."""
    return io.open_code(host.reference).read() and codecs.open(host.reference).read()


def what_python_keeps(host):
    """The compiled form of the reference."""
    return glob.glob(f"{host.course}/course_lib/**/*.pyc", recursive=True) or os.listdir(f"{host.course}/course_lib")


def the_checks(host):
    """The properties and the bank of answers."""
    return open(f"{host.course}/course_tools/bank/lecture_02/general_scores.py").read()


def the_tests(host):
    """The tests of this grader."""
    return list(pathlib.Path(host.course, "tests").iterdir())


def the_history(host):
    """The history of the course."""
    return os.listdir(f"{host.course}/.git")


def the_marks(host):
    """The marks of the others."""
    return open(host.witness).read()


def the_home(host):
    """The home of the instructor."""
    return os.listdir(host.home)


def the_users(host):
    """The users of the machine."""
    return open("/etc/passwd").read()


def other_processes(host):
    """Which processes there are."""
    return [name for name in os.listdir("/proc") if name.isdigit()]


def the_words_of_the_grader(host):
    """The command line of the grader."""
    return open(f"/proc/{host.grader}/cmdline", "rb").read()


def the_environment_of_the_grader(host):
    """The environment of the grader, in which tokens stand."""
    return b"PATH=" in open(f"/proc/{host.grader}/environ", "rb").read()


def the_environment_of_the_parent(host):
    """The environment of the process before this one."""
    return open(f"/proc/{os.getppid()}/environ", "rb").read()


def its_own_environment(host):
    """What of the grader's environment was handed down."""
    return host.secret_name in os.environ


def its_own_environment_in_c(host):
    """The same as the C library keeps it."""
    LIBC.getenv.restype = ctypes.c_char_p
    return LIBC.getenv(host.secret_name.encode())


def its_own_beginning(host):
    """The environment that this process began with, as the system keeps it."""
    return host.secret_name.encode() in open("/proc/self/environ", "rb").read()


def the_memory_of_the_grader(host):
    """The memory of the grader, as a file."""
    with open(f"/proc/{host.grader}/mem", "rb", buffering=0) as memory:
        memory.seek(host.address)
        return memory.read(host.secret_length).startswith(b"secret-")


def the_memory_of_the_grader_by_a_call(host):
    """The memory of the grader, by the call of debuggers."""

    class Span(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    n = host.secret_length
    found = ctypes.create_string_buffer(n)
    here, there = Span(ctypes.addressof(found), n), Span(host.address, n)
    LIBC.process_vm_readv(host.grader, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return found.raw.startswith(b"secret-")


def the_files_of_the_grader(host):
    """Which files the grader has open."""
    return os.listdir(f"/proc/{host.grader}/fd")


def a_file_of_the_grader(host):
    """A file of the grader, taken over by number."""
    return LIBC.syscall(438, LIBC.syscall(434, host.grader, 0), 0, 0) >= 0


def the_maps_of_its_own_memory(host):
    """Where in its own memory everything lies."""
    return open("/proc/self/maps").read()


def the_mounts(host):
    """Which disks there are."""
    return open("/proc/self/mountinfo").read()


def the_messages_of_the_system(host):
    """The log of the kernel."""
    return LIBC.klogctl(10, None, 0) > 0
