"""How two ways to compute one thing are compared: in one process, turn by turn, by processor time on one thread."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

Call = Callable[[], Tensor]


class Pass(NamedTuple):
    """Medians over the rounds: milliseconds of ours and of the peer, and of the ratio peer / ours within a round."""

    ours: float
    peer: float
    ratio: float


@dataclass(frozen=True)
class Row:
    """One line of the table; a ratio above 1 means that ours is faster."""

    mechanism: str
    ours: str
    peer: str
    sizes: str
    forward: Pass
    training: Pass


def compare(mechanism: str, ours: tuple[str, Call], peer: tuple[str, Call], sizes: str, rounds: int) -> Row:
    """Time two calls (name, call) that compute an output: forward without gradients, then forward and backward.

    The two take turns and the ratio is taken within a round, so that what slows the machine for a while slows both.
    """
    forward, training = (_rounds(ours[1], peer[1], work, rounds) for work in (_forward, _forward_backward))
    return Row(mechanism, ours[0], peer[0], sizes, forward, training)


def _rounds(ours: Call, peer: Call, work: Callable[[Call], None], rounds: int) -> Pass:
    pairs = [(_milliseconds(ours, work), _milliseconds(peer, work)) for _ in range(rounds + 2)][2:]
    mine, theirs = zip(*pairs, strict=True)
    return Pass(statistics.median(mine), statistics.median(theirs), statistics.median(b / a for a, b in pairs))


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
    lines = [
        "| mechanism | ours | against | sizes | forward ms, ours / peer | ratio | forward + backward ms | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [row.mechanism, row.ours, row.peer, row.sizes]
        for each in (row.forward, row.training):
            cells += [f"{each.ours:.2f} / {each.peer:.2f}", f"{each.ratio:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
