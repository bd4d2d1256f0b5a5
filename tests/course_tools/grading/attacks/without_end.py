"""Code that does not end by itself: each function says what it tries. If nobody stopped it, it would end after ten minutes."""

import atexit
import contextlib
import ctypes
import os
import signal
import socket
import threading
import time

LONG = 600.0


def turn():
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        with contextlib.suppress(BaseException):
            while time.monotonic() < end:
                pass


def at_the_start(host, *inputs):
    """A loop while the cell is loaded."""
    turn()


def in_the_call(host, *inputs):
    """A loop in the answer, which catches every error."""
    if inputs:
        turn()


def asleep(host, *inputs):
    """A sleep, which uses no processor time."""
    with contextlib.suppress(BaseException):
        time.sleep(LONG)


def deaf(host, *inputs):
    """A loop in C that holds the lock of Python, with every signal blocked."""
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
    ctypes.PyDLL(None).sleep(int(LONG))


def stopped(host, *inputs):
    """A process that stops itself and waits to be woken."""
    os.kill(os.getpid(), signal.SIGSTOP)


def when_it_is_thrown_away(host, *inputs):
    """A loop when the result is thrown away."""
    return type("Last", (), {"__del__": lambda self: turn()})()


def when_it_is_told(host, *inputs):
    """A loop in the text of an error."""
    raise type("Long", (Exception,), {"__str__": lambda self: turn() or "", "__repr__": lambda self: turn() or ""})


def when_it_leaves(host, *inputs):
    """A loop at the end of the process, which then never ends."""
    atexit.register(turn)
    for thread in (threading.Thread(target=turn), threading.Thread(target=turn, daemon=True)):
        thread.start()
    raise SystemExit


def when_a_signal_comes(host, *inputs):
    """A loop in the handler of every signal that can be handled, and one of them raised."""
    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, lambda *a: turn())
    os.kill(os.getpid(), signal.SIGTERM)


def drop_by_drop(host, *inputs):
    """An answer that comes a byte at a time, so that somebody is always about to say something."""
    send, write = socket.socket.send, os.write

    def slowly(say, to, data):
        for n in range(len(data)):
            time.sleep(0.1)
            say(to, bytes(data)[n : n + 1])
        return len(data)

    socket.socket.sendall = socket.socket.send = lambda self, data, *a: slowly(send, self, data)
    os.write = lambda fd, data: slowly(write, fd, data)
