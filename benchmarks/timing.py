"""Compare two implementations of one computation: in turns, by processor time on one thread, and by memory."""

import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_tools.notebook import peak_memory

Call = Callable[[], Tensor]

FEWEST, SECONDS = 3, 6.0
"""A slow pair gets fewer rounds than requested: it is timed for at most so many seconds, but at least so many rounds."""
SHORTEST = 2.0
"""A quick call is repeated for so many milliseconds in each round: a clock read around one of 0.1 would time the clock."""


class Pass(NamedTuple):
    """Ours, the peer's, and peer / ours: of times, medians over the rounds in milliseconds; of memory, the peak in MiB."""

    ours: float
    peer: float
    ratio: float


@dataclass(frozen=True)
class Row:
    """One line of the table; a ratio above 1 means that ours is faster, or smaller. None: not measured."""

    mechanism: str
    ours: str
    peer: str
    sizes: str
    forward: Pass
    training: Pass | None = None
    memory: Pass | None = None


def compare(
    mechanism: str, ours: tuple[str, Call], peer: tuple[str, Call], sizes: str, rounds: int, trains: bool = True
) -> Row:
    """Time two calls (name, call) that compute an output: forward without gradients and, if it `trains`, forward and backward.

    The two take turns, each first in every other round, and the ratio is computed within a round, so that a temporary slowdown
    of the machine affects both.
    """
    forward = _rounds(ours[1], peer[1], _forward, rounds)
    training = _rounds(ours[1], peer[1], _forward_backward, rounds) if trains else None
    memory = _peaks(ours[1], peer[1], _forward_backward if trains else _forward)
    return Row(mechanism, ours[0], peer[0], sizes, forward, training, memory)


def _rounds(ours: Call, peer: Call, work: Callable[[Call], None], rounds: int) -> Pass:
    for call in (ours, peer):
        work(call)  # loads kernels and fills caches
    calls = [(call, max(1, round(SHORTEST / max(_milliseconds(call, work, 1), 1e-3)))) for call in (ours, peer)]
    pairs: list[list[float]] = []
    until = time.process_time() + SECONDS
    while len(pairs) < rounds and (len(pairs) < FEWEST or time.process_time() < until):
        turn = -1 if len(pairs) % 2 else 1
        pairs.append([_milliseconds(call, work, n) for call, n in calls[::turn]][::turn])
    mine, theirs = zip(*pairs, strict=True)
    return Pass(statistics.median(mine), statistics.median(theirs), statistics.median(b / a for a, b in pairs))


def _peaks(ours: Call, peer: Call, work: Callable[[Call], None]) -> Pass:
    """Measure the peak bytes of tensors during a pass, beyond its inputs and parameters."""
    mine, theirs = (peak_memory(lambda call=call: work(call)) / 2**20 for call in (ours, peer))
    return Pass(mine, theirs, theirs / mine if mine else math.inf)


def _milliseconds(call: Call, work: Callable[[Call], None], n: int) -> float:
    """Time n calls; return the time of one."""
    start = time.process_time()
    for _ in range(n):
        work(call)
    return 1000 * (time.process_time() - start) / n


@torch.no_grad()
def _forward(call: Call) -> None:
    call()


def _forward_backward(call: Call) -> None:
    call().square().mean().backward()


@cache
def peer_from(package: str, *names: str) -> tuple[Any, ...] | None:
    """Import the named attributes of a peer's package; None, with a message on stderr, if it cannot be imported.

    So a missing or broken peer affects only its own rows.
    """
    try:
        module = import_module(package)
        return tuple(getattr(module, name) for name in names) or (module,)
    except Exception as error:  # a broken package can raise anything
        reason = str(error).partition("\n")[0]
        print(f"{package} is left out: {reason}. `pip install -e '.[peers,bench]'` installs it.", file=sys.stderr)
        return None
