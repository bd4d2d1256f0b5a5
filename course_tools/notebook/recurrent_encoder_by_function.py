"""A bidirectional recurrent encoder computed by a function for one direction, such as the `encode` of lecture 02."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.models.bigru_encoder import Encoded, reverse
from course_lib.primitives import padding_mask

Encode = Callable[..., tuple[Tensor, Tensor]]
"""`(x, lengths, h, W, U, b)` → states (B, T, n) and last state (B, n), as `course_lib.primitives.encode`."""


class EncoderByFunction(nn.Module):
    """An encoder that reads a source forwards and backwards by `encode`, with the weights of two `nn.RNN`."""

    def __init__(self, encode: Encode, n_tokens: int, d: int) -> None:
        """Create an encoder for n_tokens tokens, with states of size d: d / 2 from each direction."""
        super().__init__()
        self.encode = encode
        self.embedding = nn.Embedding(n_tokens, d // 2)
        self.there, self.back = (nn.RNN(d // 2, d // 2) for _ in range(2))

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        """Compute keys and values (B, T, d), the last states (B, d) and the mask of source (B, T) with these lengths (B,)."""
        x = self.embedding(source)
        there, last = self._read(x, lengths, self.there)
        back, first = self._read(reverse(x, lengths), lengths, self.back)
        states = torch.cat([there, reverse(back, lengths)], dim=-1)
        return Encoded(states, states, torch.cat([last, first], dim=-1), padding_mask(lengths, source.shape[1]))

    def _read(self, x: Tensor, lengths: Tensor, cell: nn.RNN) -> tuple[Tensor, Tensor]:
        W, U, b_W, b_U = cell.parameters()
        return self.encode(x, lengths, x.new_zeros(len(x), len(U)), W, U, b_W + b_U)
