"""How two ways to compute one thing are compared: turn by turn, by processor time on one thread; and by memory."""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from course_tools.notebook import peak_memory

Call = Callable[[], Tensor]


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
    """Time two calls (name, call) that compute an output: forward without gradients; where it `trains`, both ways too.

    The two take turns and the ratio is taken within a round, so that what slows the machine for a while slows both.
    """
    forward = _rounds(ours[1], peer[1], _forward, rounds)
    training = _rounds(ours[1], peer[1], _forward_backward, rounds) if trains else None
    memory = _peaks(ours[1], peer[1], _forward_backward if trains else _forward)
    return Row(mechanism, ours[0], peer[0], sizes, forward, training, memory)


def _rounds(ours: Call, peer: Call, work: Callable[[Call], None], rounds: int) -> Pass:
    pairs = [(_milliseconds(ours, work), _milliseconds(peer, work)) for _ in range(rounds + 2)][2:]
    mine, theirs = zip(*pairs, strict=True)
    return Pass(statistics.median(mine), statistics.median(theirs), statistics.median(b / a for a, b in pairs))


def _peaks(ours: Call, peer: Call, work: Callable[[Call], None]) -> Pass:
    """Count the most bytes of tensors that a pass holds at one time, beyond its inputs and parameters."""
    mine, theirs = (peak_memory(lambda call=call: work(call)) / 2**20 for call in (ours, peer))
    return Pass(mine, theirs, theirs / mine if mine else math.inf)


def _milliseconds(call: Call, work: Callable[[Call], None]) -> float:
    start = time.process_time()
    work(call)
    return 1000 * (time.process_time() - start)


@torch.no_grad()
def _forward(call: Call) -> None:
    call()


def _forward_backward(call: Call) -> None:
    call().square().mean().backward()


def table(rows: list[Row]) -> str:
    """Lay the rows out as a table in Markdown."""
    measured = ("forward ms, ours / peer", "forward + backward ms", "peak MiB")
    heads = ["mechanism", "ours", "against", "sizes", *(cell for name in measured for cell in (name, "ratio"))]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        cells = [row.mechanism, row.ours, row.peer, row.sizes]
        for each in (row.forward, row.training, row.memory):
            cells += [f"{each.ours:.2f} / {each.peer:.2f}", f"{each.ratio:.2f}"] if each else ["", ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
