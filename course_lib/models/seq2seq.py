"""Sequence-to-sequence models: an encoder reads a sentence, a decoder generates one. Attention: `bahdanau`, `luong`.

Cho et al. 2014, *Learning Phrase Representations using RNN Encoder-Decoder* (https://arxiv.org/abs/1406.1078), section 2.2;
Sutskever, Vinyals, Le 2014 (https://arxiv.org/abs/1409.3215). The decoder receives one vector c of the source:

    s_0 = tanh(W_s c)        s_t = GRU([E y_{t-1}; c], s_{t-1})        p(y_t | y_<t, x) = softmax(W_o [s_t; c; E y_{t-1}])

Every decoder is a module `(encoded, target, state=None) -> Decoded`, so that training reads a whole target at once, while
decoding continues from the last state one word at a time.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.attention import Attended, ContextOnly
from course_lib.models.bigru_encoder import Encoded
from course_lib.primitives import GRU, gru
from course_lib.primitives.preconditions import shape_checked
from course_lib.primitives.recurrent import HiddenState
from course_lib.shapes import Lengths, Tokens

__all__ = ["Decoded", "PlainDecoder", "Seq2Seq", "Seq2SeqState"]


class Decoded(NamedTuple):
    """Decoder outputs: next-token logits, contexts and attention weights, and the last state.

    `logits` (B, T, n_tokens): logits[:, t] are next-token logits given target[:, :t+1].
    `attended` holds the contexts (B, T, d) and the weights (B, T, T_k), row t for the same word; it is None without attention.
    `state` is (B, n).
    """

    logits: Float[Tensor, "B T n_tokens"]
    attended: Attended | ContextOnly | None
    state: HiddenState


class PlainDecoder(nn.Module):
    """Decoder without attention: it receives the encoder's final state, the same at each step."""

    def __init__(
        self,
        n_tokens: int,
        d_embedding: int,
        d_hidden: int,
        d_memory: int,
        run: Callable[..., tuple[Tensor, tuple[Tensor]]] = gru,
    ) -> None:
        """Set up for n_tokens words and an encoder of d_memory features; `run` is `gru` or `fused_gru`."""
        super().__init__()
        self.embedding = nn.Embedding(n_tokens, d_embedding)
        self.bridge = nn.Linear(d_memory, d_hidden)
        self.cell = GRU(d_embedding + d_memory, d_hidden, run)
        self.readout = nn.Linear(d_hidden + d_memory + d_embedding, n_tokens)

    def forward(self, encoded: Encoded, target: Tokens, state: HiddenState | None = None) -> Decoded:
        """Read target (B, T) from `state` (the bridge from the encoder if None), and compute next-token logits."""
        state = torch.tanh(self.bridge(encoded.final)) if state is None else state
        embedded = self.embedding(target)
        context = encoded.final[:, None].expand(-1, target.shape[1], -1)
        states, (last,) = self.cell(torch.cat([embedded, context], dim=-1), (state,))
        return Decoded(self.readout(torch.cat([states, context, embedded], dim=-1)), None, last)


class Seq2SeqState(NamedTuple):
    """A translation in progress: the `encoded` source, and the decoder's `hidden` state; None before the first token."""

    encoded: Encoded
    hidden: HiddenState | None


class Seq2Seq(nn.Module):
    """An encoder and any decoder, with the indices of the words that begin, end and pad a target."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, begin: int = 1, end: int = 2, padding: int = 0) -> None:
        """Combine the two; the decoder's d_memory must be the encoder's number of features."""
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.begin, self.end, self.padding = begin, end, padding

    @shape_checked()
    def forward(self, source: Int[Tensor, "B T_k"], lengths: Lengths, target: Tokens) -> Decoded:
        """Read the source, then the true target (teacher forcing).

        Args:
            source: (B, T_k) words, padded.
            lengths: (B,), words of each source.
            target: (B, T), T ≥ 1: begin first, then the sentence and its end, then padding.

        Returns:
            Decoded; its logits (B, T, n_tokens) are what `losses.teacher_forced_loss` expects.

        Raises:
            ValueError: source, lengths and target do not have one batch size.
        """
        return self.decoder(self.encoder(source, lengths), target)

    def start(self, source: Int[Tensor, "B T_k"], lengths: Lengths) -> Seq2SeqState:
        """Encode sentences (B, T_k) of the given lengths (B,); return the state that `step` starts from."""
        return Seq2SeqState(self.encoder(source, lengths), None)

    def step(self, tokens: Int[Tensor, "B"], state: Seq2SeqState) -> tuple[Float[Tensor, "B n_tokens"], Seq2SeqState]:
        """Read one more target token (B,) of each sentence; return next-token logits (B, n_tokens) and the new state."""
        logits, _, hidden = self.decoder(state.encoded, tokens[:, None], state.hidden)
        return logits[:, 0], Seq2SeqState(state.encoded, hidden)
