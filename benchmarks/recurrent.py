"""RNN, LSTM and GRU, by their equations and by the fast forms, against torch.nn's own with the same weights."""

from collections.abc import Callable, Iterator

import torch
from torch import nn

from benchmarks.timing import Row, compare
from course_lib.fast import fused_gru, fused_lstm, hoisted_rnn
from course_lib.primitives import GRU, LSTM, RNN, gru, lstm, rnn

SIZES = ((32, 60, 64, 128), (1, 60, 64, 128))
FORMS = (
    (RNN, nn.RNN, (("equation", rnn), ("hoisted", hoisted_rnn))),
    (LSTM, nn.LSTM, (("equation", lstm), ("fused", fused_lstm))),
    (GRU, nn.GRU, (("equation", gru), ("fused", fused_gru))),
)


def rows(rounds: int) -> Iterator[Row]:
    """Time each cell over a batch of sequences, and over one sequence."""
    for sizes in SIZES:
        for ours, peer, forms in FORMS:
            for name, run in forms:
                yield _row(ours, peer, name, run, sizes, rounds)


def _row(ours: type, peer: type, name: str, run: Callable[..., object], sizes: tuple[int, int, int, int], rounds: int) -> Row:
    B, T, d, n = sizes
    torch.manual_seed(0)
    x = torch.randn(B, T, d, requires_grad=True)
    theirs = peer(d, n, batch_first=True)
    mine = ours(d, n, run=run)
    mine.load_state_dict(theirs.state_dict())
    label = f"B {B}, T {T}, d {d}, n {n}"
    return compare(ours.__name__, (name, lambda: mine(x)[0]), (f"nn.{peer.__name__}", lambda: theirs(x)[0]), label, rounds)
