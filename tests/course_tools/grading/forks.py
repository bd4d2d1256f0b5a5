"""Acts that are tried in a fork, so that a layer closed for good does not close around the tests."""

import ctypes
import errno
import json
import os
import sys
import warnings

import pytest

from course_tools.grading.sandbox import hardening

linux = pytest.mark.skipif(not hardening.LINUX, reason="only Linux has this layer")
unix = pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot fork")
LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform != "win32" else None


def fork():
    """Fork, also where pytest has threads, which Python 3.12 and later warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def inside(*acts):
    """Run acts one after the other in a fork; give what the last returned, or the name of the error that one raised."""
    read, write = os.pipe()
    if (pid := fork()) == 0:
        try:
            result = None
            for act in acts:
                result = act()
        except BaseException as error:
            result = type(error).__name__
        os.write(write, json.dumps(result).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as answer:
        text = answer.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return json.loads(text) if text else status


def called(result):
    """Name the error of a system call, or nothing."""
    return errno.errorcode[ctypes.get_errno()] if result < 0 else ""


def opened(path, mode="rb"):
    open(path, mode).close()
    return "opened"
