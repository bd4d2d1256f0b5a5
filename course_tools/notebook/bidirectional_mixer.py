"""A bidirectional GRU as a layer that mixes tokens: the rival of self-attention on reversal, for lecture 04."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.models.bigru_encoder import BidirectionalStates, stacked_bidirectional_gru
from course_lib.primitives import GRU


class BidirectionalGRU(nn.Module):
    """A GRU that reads a text forwards, and one that reads it backwards; the state of a token joins both."""

    def __init__(
        self, d_model: int, n_hidden: int, run: Callable[..., BidirectionalStates] = stacked_bidirectional_gru
    ) -> None:
        """Create two GRUs of n_hidden units each for tokens of size d_model; `run` computes their states."""
        super().__init__()
        self.forwards, self.backwards = GRU(d_model, n_hidden), GRU(d_model, n_hidden)
        self.run = run

    def forward(self, x: Tensor) -> BidirectionalStates:
        """Compute states (B, T, 2 · n_hidden) of tokens x (B, T, d_model), and the last state of each direction."""
        lengths = torch.full((len(x),), x.shape[1], device=x.device)
        return self.run(x, lengths, self.forwards, self.backwards)
