"""Exits, floods and bombs: each function does one, and says what it tries. All are bounded, and ask for at most 3 GB."""

import atexit
import ctypes
import logging
import os
import signal
import sys
import threading
import warnings

import torch

LIBC = ctypes.CDLL(None, use_errno=True)


def an_exit(host, *inputs):
    """An exit that says that all is well."""
    sys.exit(0)


def an_exit_while_leaving(host, *inputs):
    """An exit from a function that is called at the end."""
    atexit.register(os._exit, 0)
    sys.exit(0)


def an_exit_without_goodbye(host, *inputs):
    """An exit that runs nothing else."""
    os._exit(0)


def an_exit_in_the_call(host, *inputs):
    """An exit where the answer is expected."""
    if inputs:
        os._exit(0)


def an_exit_of_a_thread(host, *inputs):
    """An exit from a thread, while the answer is being computed."""
    threading.Timer(0.01, os._exit, (0,)).start()


def an_exit_by_a_signal(host, *inputs):
    """An exit in the handler of a signal that comes a little later."""
    signal.signal(signal.SIGALRM, lambda *a: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def an_exit_of_garbage(host, *inputs):
    """An exit when the result is thrown away."""
    return type("Last", (), {"__del__": lambda self: os._exit(0)})()


def an_exit_of_an_error(host, *inputs):
    """An error whose text is an exit."""
    raise type("Leaving", (BaseException,), {"__str__": lambda self: os._exit(0), "__repr__": lambda self: os._exit(0)})


def an_exit_by_quit(host, *inputs):
    """The exit of the interactive shell."""
    import builtins

    getattr(builtins, "quit", sys.exit)()


def an_interrupt(host, *inputs):
    """An interruption, as if the instructor had pressed Ctrl-C."""
    raise KeyboardInterrupt


def an_interrupt_by_a_signal(host, *inputs):
    """The same as a signal to itself and its whole group."""
    os.killpg(os.getpgrp(), signal.SIGINT)


def the_end_of_a_generator(host, *inputs):
    """An error that many handlers leave out."""
    raise GeneratorExit


def an_abortion(host, *inputs):
    """An end with a core dump."""
    os.abort()


def a_kill(host, *inputs):
    """An end by a signal that cannot be caught."""
    os.kill(os.getpid(), signal.SIGKILL)


def a_kill_of_the_group(host, *inputs):
    """The same to the group."""
    os.killpg(0, signal.SIGKILL)


def a_crash(host, *inputs):
    """A read at address zero."""
    ctypes.string_at(0)


def a_crash_of_the_stack(host, *inputs):
    """A recursion that overflows the stack of the processor."""
    sys.setrecursionlimit(2**31 - 1)

    class Deep:
        __eq__ = lambda self, other: other == self  # noqa: E731
        __hash__ = None

    return Deep() == Deep()


def a_recursion(host, *inputs):
    """A recursion without end."""
    return a_recursion(host, *inputs)


def no_python_any_more(host, *inputs):
    """The interpreter is ended from within."""
    ctypes.pythonapi.Py_FinalizeEx()


def a_limit_of_its_own(host, *inputs):
    """No processor time any more."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (0, 0))


def memory_by_torch(host, *inputs):
    """Three gigabytes in tensors."""
    if not inputs:
        host.hoard = [torch.ones(2**26) for _ in range(12)]


def memory_in_one_piece(host, *inputs):
    """Three gigabytes in one piece."""
    host.hoard = bytearray(3 * 2**30)


def memory_in_the_end(host, *inputs):
    """Memory that is asked for when an error is already being reported."""
    raise type("Large", (Exception,), {"__str__": lambda self: "x" * (3 * 2**30)})


def memory_of_many(host, *inputs):
    """Twenty threads, each with its own stack."""
    threading.stack_size(2**27)
    for _ in range(20):
        threading.Thread(target=threading.Event().wait, args=(0.5,), daemon=True).start()


def a_flood_of_output(host, *inputs):
    """Megabytes to the screen of the instructor."""
    print("x" * 5_000_000, flush=True)
    os.write(1, b"\x1b[2J" * 100_000)


def a_flood_of_errors(host, *inputs):
    """Megabytes to the other screen."""
    print("\x1b]0;owned\x07" * 100_000, file=sys.stderr, flush=True)
    os.write(2, b"y" * 1_000_000)


def a_flood_in_c(host, *inputs):
    """Output by the C library, which is written at the end."""
    for _ in range(1000):
        LIBC.printf(b"z" * 1000)
    LIBC.fflush(None)


def a_flood_of_warnings(host, *inputs):
    """Warnings and lines of a log without number."""
    for n in range(2_000):
        warnings.warn(f"warning {n}", stacklevel=1)
        logging.getLogger().error("line %d", n)


def a_flood_of_words(host, *inputs):
    """An error with a message of ten million letters."""
    raise ValueError("x" * 10_000_000)


def a_flood_of_a_name(host, *inputs):
    """An error of a class with a name of a million letters."""
    raise type("X" * 1_000_000, (Exception,), {})


def a_chain_of_errors(host, *inputs):
    """An error that has ten thousand causes."""
    error = None
    for n in range(10_000):
        error, before = ValueError(n), error
        error.__cause__ = before
    raise error


def a_group_of_errors(host, *inputs):
    """Errors in errors."""
    group = ExceptionGroup("all", [ValueError("one")])
    for _ in range(2_000):
        group = ExceptionGroup("x" * 100, [group])
    raise group


def large_results(host, *inputs):
    """Each call returns as much as one message may hold."""
    return torch.zeros(2**23 - 100) if inputs else None
