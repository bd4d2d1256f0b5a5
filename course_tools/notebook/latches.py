"""Recall the first symbol by units that work as latches, with weights set by hand: an experiment of lecture 01."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.datasets.first_symbol import Recall
from course_tools.notebook.gradients_through_time import BackwardStep, RecurrentStep, back_through_time, states_of
from course_tools.notebook.sequence_classifier import one_hot

_N_SYMBOLS, _N_NOISE = 8, 8


class Latches(NamedTuple):
    """A plain network of eight latches, one for each first symbol, after it has read some sequences; numbers are float64.

    Attributes:
        x: one-hot symbols, (T, B, 16).
        labels: the first symbol of each sequence, (B,).
        W: (8, 16).
        U: (8, 8).
        states: T + 1 states (B, 8), the initial one first.
    """

    x: Tensor
    labels: Tensor
    W: Tensor
    U: Tensor
    states: Sequence[Tensor]

    def accuracy(self) -> float:
        """Measure the fraction of the sequences at whose end the unit of the first symbol has the largest value."""
        return (self.states[-1].argmax(-1) == self.labels).float().mean().item()

    def gradient_left(self, bptt_step: BackwardStep) -> float:
        """Propagate a gradient of norm 1 at the unit of the first symbol back from the last state, by `bptt_step`.

        Returns:
            the norm of the gradient at the state after step 1, over its norm at the end, all sequences together.
        """
        at_the_end = F.one_hot(self.labels, _N_SYMBOLS).double()
        _, norms = back_through_time(bptt_step, at_the_end, self.x, self.states, self.W, self.U)
        return norms[-2] / norms[0]


def read_by_latches(rnn_step: RecurrentStep, part: Recall, feedback: float = 3.0, bias: float = -1.0, seed: int = 0) -> Latches:
    """Read sequences of the recall task by latches: U = feedback · I and the same bias for each unit.

    A first symbol adds 5 to the input of its own unit. Noise adds a random number to that of every unit, with standard
    deviation 0.1.

    Args:
        rnn_step: one step of a plain network.
        part: tokens (B, T) and labels (B,).
        feedback: weight of each unit's own state; above 1, a unit can have two stable values.
        bias: of every unit.
        seed: of the weights of the noise.
    """
    noise = torch.randn(_N_SYMBOLS, _N_NOISE, generator=torch.Generator().manual_seed(seed))
    W = torch.cat([5 * torch.eye(_N_SYMBOLS), 0.1 * noise], dim=1).double()
    U, b = feedback * torch.eye(_N_SYMBOLS).double(), torch.full((_N_SYMBOLS,), bias).double()
    x = one_hot(part.tokens).double().transpose(0, 1)
    states = states_of(rnn_step, x, x.new_zeros(x.shape[1], _N_SYMBOLS), W, U, b)
    return Latches(x, part.labels, W, U, states)
