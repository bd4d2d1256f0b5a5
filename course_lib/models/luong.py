"""RNN decoder with multiplicative attention over the source; the current decoder state is the query.

Luong, Pham, Manning 2015, *Effective Approaches to Attention-based Neural Machine Translation*, section 3.1
(https://arxiv.org/abs/1508.04025), with a GRU instead of the stacked LSTM, and without input feeding:

    h_t = GRU(E y_{t-1}, h_{t-1})        c_t = attention(h_t, h̄_s)
    h̃_t = tanh(W_c [c_t; h_t])           p(y_t) = softmax(W_s h̃_t)                                          (eqs. 5, 6)

Since h_t does not depend on c_t, a whole target takes one recurrent call and one attention.

Dropout, if asked for, acts on the connections that are not recurrent (Zaremba, Sutskever, Vinyals 2014, section 3.2,
https://arxiv.org/abs/1409.2329, which the paper follows in section 4.1, with a rate of 0.2): on E y_{t-1}, and on h_t where
attention and W_c read it.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.attention import AnyMechanism
from course_lib.models.bigru_encoder import Encoded
from course_lib.models.seq2seq import Decoded
from course_lib.primitives import GRU, gru
from course_lib.primitives.recurrent import HiddenState
from course_lib.shapes import Tokens

__all__ = ["LuongDecoder"]


class LuongDecoder(nn.Module):
    """A decoder around an attention mechanism: dot, general, concat, or any other `(q, k, v, mask) -> Attended`."""

    def __init__(
        self,
        n_tokens: int,
        d_embedding: int,
        d_hidden: int,
        d_memory: int,
        mechanism: AnyMechanism,
        run: Callable[..., tuple[Tensor, tuple[Tensor]]] = gru,
        dropout: float = 0.0,
    ) -> None:
        """Set up the parameters.

        Args:
            n_tokens: size of the target's vocabulary.
            d_embedding: features of a word.
            d_hidden: features of the state, which is the query; for `dot_attention` it must be d_memory.
            d_memory: features of the encoder's annotations.
            mechanism: `dot_attention`, `GeneralAttention(d_hidden, d_memory)`, `ConcatAttention(d_hidden, d_memory, d_a)`, …
            run: `gru`, or `fused_gru` for torch's own kernel.
            dropout: probability with which, in training, a feature of an embedding, or of a state as attention and readout
                receive it, is set to 0. Call `eval()` before decoding: a step of a model in training drops features too.
        """
        super().__init__()
        self.embedding = nn.Embedding(n_tokens, d_embedding)
        self.bridge = nn.Linear(d_memory, d_hidden)
        self.cell = GRU(d_embedding, d_hidden, run)
        self.attention = mechanism
        self.combine = nn.Linear(d_memory + d_hidden, d_hidden)
        self.readout = nn.Linear(d_hidden, n_tokens)
        self.dropout = nn.Dropout(dropout)

    def forward(self, encoded: Encoded, target: Tokens, state: HiddenState | None = None) -> Decoded:
        """Read target (B, T) from `state` (the bridge from the encoder if None), and compute next-token logits."""
        state = torch.tanh(self.bridge(encoded.final)) if state is None else state
        states, (last,) = self.cell(self.dropout(self.embedding(target)), (state,))
        states = self.dropout(states)
        attended = self.attention(states, encoded.keys, encoded.values, encoded.mask)
        combined = torch.tanh(self.combine(torch.cat([attended.context, states], dim=-1)))
        return Decoded(self.readout(combined), attended, last)
