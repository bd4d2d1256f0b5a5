"""Recall the first symbol by units that work as latches, with weights set by hand."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from course_tools.lectures.lecture_01.gradients import RecurrentStep, states_of


class Latches(NamedTuple):
    """A plain network of eight latches, one for each first symbol, after it has read some sequences; numbers are float64.

    Attributes:
        first: the first symbol of each sequence, (B,).
        states: T + 1 states (B, 8), the initial one first.
    """

    first: Tensor
    states: Sequence[Tensor]

    def accuracy(self) -> float:
        """Measure the fraction of the sequences at whose end the unit of the first symbol has the largest value."""
        return (self.states[-1].argmax(-1) == self.first).float().mean().item()

    def gradient_left(self) -> float:
        """Differentiate the last values of the units of the first symbols by the states after step 1; return its norm over √B.

        This is the norm over that of the gradient at the end, all sequences together.
        """
        own = self.states[-1].gather(1, self.first[:, None]).sum()
        (gradient,) = torch.autograd.grad(own, self.states[1])
        return gradient.norm().item() / len(self.first) ** 0.5


def read_by_latches(rnn_step: RecurrentStep, x: Tensor, first: Tensor, feedback: float = 3.0, bias: float = -1.0) -> Latches:
    """Read sequences of the recall task by latches: U = feedback · I and the same bias for each unit.

    A first symbol adds 5 to the input of its own unit. Noise adds a random number to that of every unit, with standard
    deviation 0.1.

    Args:
        rnn_step: one step of a plain network.
        x: one-hot symbols (B, T, 16).
        first: the first symbol of each sequence (B,).
        feedback: weight of each unit's own state; above 1, a unit can have two stable values.
        bias: of every unit.
    """
    x, first = x.double().transpose(0, 1).cpu(), first.cpu()
    noise = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    W = torch.cat([5 * torch.eye(8), 0.1 * noise], dim=1).double()
    U, b = feedback * torch.eye(8).double(), torch.full((8,), bias).double()
    h = x.new_zeros(x.shape[1], 8).requires_grad_()
    return Latches(first, states_of(rnn_step, x, h, W, U, b))
