"""Forged words on the line to the grader: each function writes to, reads from or breaks what its process has inherited.

They know no more than what the documentation says: a length, a small JSON header, raw numbers.
"""

import array
import contextlib
import gc
import json
import os
import select
import socket
import struct
import sys
import types

GOOD = {"results": [True], "points": 9, "passed": True, "error": None, "failure": None, "changed": [], "called": []}


def inherited():
    return [fd for fd in range(3, 64) if opened(fd)]


def opened(fd):
    try:
        return bool(os.fstat(fd))
    except OSError:
        return False


def say(data, times=1):
    for fd in (fd for fd in range(64) if opened(fd)):
        with contextlib.suppress(OSError):
            os.set_blocking(fd, False)
            for _ in range(times):
                os.write(fd, data)
        with contextlib.suppress(OSError):
            os.set_blocking(fd, True)


def framed(form, text=None, length=None):
    data = json.dumps(GOOD).encode() if text is None else text
    return struct.pack(form, len(data) if length is None else length) + data


def a_line_of_json(host, *inputs):
    """A line of JSON with all points."""
    say(json.dumps(GOOD).encode() + b"\n")


def a_length_of_four_bytes(host, *inputs):
    """A message with a length in four bytes, in both byte orders."""
    say(framed("!I") if inputs else framed("<I"))


def a_length_of_eight_bytes(host, *inputs):
    """A message with a length in eight bytes, in both byte orders."""
    say(framed("!Q") if inputs else framed("<Q"))


def early_answers(host, *inputs):
    """A hundred answers before anybody asked."""
    say(framed("!I"), times=100)


def double_answers(host, *inputs):
    """Two more answers in each call."""
    say(framed("!I"), times=2)


def answers_after_the_last(host, *inputs):
    """Answers that arrive when nobody asks any more, for whoever is asked next."""
    import atexit

    atexit.register(say, framed("!I"), 50)


def a_giant_length(host, *inputs):
    """Lengths that would take all memory."""
    say(struct.pack("!Q", 2**62) + struct.pack("!I", 2**32 - 1) + b"\xff" * 4096)


def a_negative_length(host, *inputs):
    """Lengths below zero."""
    say(struct.pack("!q", -1) + struct.pack("!i", -(2**31)) * 100)


def sizes_that_are_no_numbers(host, *inputs):
    """Sizes that are NaN, infinite, negative, texts and lists."""
    for size in (float("nan"), float("inf"), -1, 2**70, "3", [[]], None, True, 1.5):
        say(framed("!I", json.dumps({**GOOD, "results": [{"tensor": ["float32", [size, size]], "shape": [size]}]}).encode()))


def a_deep_header(host, *inputs):
    """A header as deep as its parser's stack."""
    say(framed("!I", b"[" * 50_000))


def a_header_with_two_truths(host, *inputs):
    """A header that has every key twice."""
    say(framed("!I", b'{"points": 0, "points": 9, "error": "x", "error": null, "results": [], "results": [true]}'))


def a_header_of_no_text(host, *inputs):
    """A header that is no UTF-8."""
    say(framed("!I", b"\xff\xfe\x00{" * 100))


def noise(host, *inputs):
    """A megabyte of nothing on every file."""
    say(os.urandom(1000), times=1000)


def half_a_frame(host, *inputs):
    """The beginning of an answer, and then the end."""
    say(struct.pack("!I", 1000) + b"{")
    os._exit(0)


def silence(host, *inputs):
    """All files are closed."""
    os.closerange(0, 256)


def another_ear(host, *inputs):
    """All files are replaced by one that swallows everything."""
    sink = os.open("/dev/zero", os.O_RDONLY)
    for fd in inherited():
        os.dup2(sink, fd)


def half_closed(host, *inputs):
    """The line is closed in one direction."""
    for fd in inherited():
        with contextlib.suppress(OSError):
            socket.socket(fileno=os.dup(fd)).shutdown(socket.SHUT_RD if inputs else socket.SHUT_WR)


def questions_are_swallowed(host, *inputs):
    """What is asked next is read before its reader reads it."""
    ready, _, _ = select.select(inherited(), [], [], 0)
    for fd in ready:
        os.read(fd, 2**16)


def files_for_the_grader(host, *inputs):
    """Open files are sent along, for a grader that would keep them."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
    for fd in inherited():
        with contextlib.suppress(OSError):
            socket.socket(fileno=os.dup(fd)).sendmsg([b"x"], rights)


def the_speaker_is_replaced(host, *inputs):
    """Functions of the callers that seem to send get a good word put into their mouth."""
    frame = sys._getframe()
    while frame:
        for name, value in list(frame.f_globals.items()):
            if isinstance(value, types.FunctionType) and {"dumps", "sendall", "pack", "write", "send"} & {
                *value.__code__.co_names
            }:
                frame.f_globals[name] = lambda *a, output=value, **k: output(
                    *(GOOD if isinstance(x, dict) else x for x in a), **k
                )
        frame = frame.f_back


def the_speaker_speaks_twice(host, *inputs):
    """The object that sends is found in memory and used."""
    for thing in gc.get_objects():
        if isinstance(thing, socket.socket) and thing.fileno() > 0:
            with contextlib.suppress(OSError):
                thing.send(framed("!I"))


def a_word_cut_short(host, *inputs):
    """Whatever is sent lacks its last byte."""
    send, write = socket.socket.sendall, os.write
    socket.socket.sendall = socket.socket.send = lambda self, data, *a: send(self, bytes(data)[:-1])
    os.write = lambda fd, data: write(fd, bytes(data)[:-1]) + 1


def a_word_encoded_twice(host, *inputs):
    """Whatever is sent is sent twice."""
    send, write = socket.socket.sendall, os.write
    socket.socket.sendall = socket.socket.send = lambda self, data, *a: send(self, bytes(data) * 2)
    os.write = lambda fd, data: write(fd, bytes(data) * 2) // 2


def a_word_made_better(host, *inputs):
    """In whatever is sent, no becomes yes, nothing changed and nothing failed."""

    def better(data):
        return bytes(data).replace(b"false", b"true ").replace(b"wrong", b"right").replace(b"[0,", b"[9,")

    send, write = socket.socket.sendall, os.write
    socket.socket.sendall = socket.socket.send = lambda self, data, *a: send(self, better(data))
    os.write = lambda fd, data: write(fd, better(data))
