"""Measure what the decks state about recurrent networks: shapes, outputs, clipping, dense layers."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.datasets.first_symbol import Recall
from course_lib.primitives import RNN, rnn
from course_tools.lectures.lecture_01.experiments import dense_first_to_last, first_gradient
from course_tools.lectures.lecture_01.gradients import RecurrentStep
from course_tools.notebook.layer_costs import sequential_operations
from course_tools.notebook.matrix_shapes import conforms


class RecurrenceStatements(NamedTuple):
    """Measured values, one for each statement.

    Attributes:
        matches: whether the shapes of W_ya a match, and those of W_ay a.
        least_output: the smallest of ten outputs with g = tanh.
        least_state: the lowest value of a unit of a plain network over 64 steps of random input.
        cosine_by_value: cosine of a gradient that was clipped entry by entry with the original one.
        cosine_by_norm: the same for a gradient that was clipped by its norm.
        dense_before: norm of the weights of a dense layer for the first symbol over that for the last, before training.
        dense_after: the same after training.
        longest_chain: number of dependent tanh operations over 64 steps.
    """

    matches: list[bool]
    least_output: float
    least_state: float
    cosine_by_value: float
    cosine_by_norm: float
    dense_before: float
    dense_after: float
    longest_chain: int


def deck_statements(
    rnn_step: RecurrentStep,
    clip_gradients: Callable[[Sequence[Tensor], float], Sequence[Tensor]],
    known: Recall,
    unseen: Recall,
    seed: int = 0,
) -> RecurrenceStatements:
    """Measure the statements of the decks.

    Args:
        rnn_step: one step of a plain network, whose exploding gradient is clipped.
        clip_gradients: `(gradients, max_norm)` → gradients, clipped by their joint norm.
        known: sequences on which a dense layer is trained.
        unseen: sequences for which the exploding gradient is computed.
        seed: of the weights.
    """
    torch.manual_seed(seed)
    a, W_ya, W_ay = torch.randn(5, 1), torch.randn(3, 5), torch.randn(5, 3)
    least_output = torch.tanh(torch.randn(10, 5) @ a).min().item()
    states, _ = rnn(torch.randn(1, 64, 1), (torch.zeros(1, 8),), *RNN(1, 8).parameters())
    steep = first_gradient(rnn_step, unseen.tokens, unseen.labels, seed)
    bound = steep.abs().max() / 10
    clipped = steep.clamp(-bound, bound), clip_gradients([steep], 1.0)[0]
    return RecurrenceStatements(
        [conforms(W_ya, a), conforms(W_ay, a)],
        least_output,
        states.min().item(),
        *(F.cosine_similarity(steep, other, dim=0).item() for other in clipped),
        *dense_first_to_last(known.tokens, known.labels),
        sequential_operations(states[0, -1].sum(), ("Tanh",)),
    )
