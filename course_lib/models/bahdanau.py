"""RNN decoder with additive attention over the source; the previous decoder state is the query.

Bahdanau, Cho, Bengio 2015, *Neural Machine Translation by Jointly Learning to Align and Translate*, section 3.1 and appendix
A.2.2 (https://arxiv.org/abs/1409.0473):

    c_t = Σ_j α_tj h_j        α_t = softmax_j vᵀ tanh(W s_{t-1} + U h_j)
    s_0 = tanh(W_s c)         s_t = GRU([E y_{t-1}; c_t], s_{t-1})        p(y_t) = softmax(W_o [s_t; c_t; E y_{t-1}])

The bridge to s_0 takes the last states of both directions (the paper: of the backward one), and the readout is linear (the
paper: a maxout layer), so that this decoder differs from `PlainDecoder` in c_t alone.
`fast.hoisted_bahdanau_steps` computes what no step changes before the loop: always choose it for training.
"""

from collections.abc import Callable

import torch
from torch import nn

from course_lib.attention import AdditiveAttention, Attended, Mechanism, require_weights
from course_lib.models.bigru_encoder import Encoded
from course_lib.models.seq2seq import Decoded
from course_lib.primitives import GRU
from course_lib.primitives.recurrent import HiddenState, gru_step
from course_lib.shapes import States, TokenFeatures, Tokens

__all__ = ["BahdanauDecoder", "bahdanau_steps"]


def bahdanau_steps(
    embedded: TokenFeatures, s: HiddenState, encoded: Encoded, attention: Mechanism, cell: GRU
) -> tuple[States, Attended]:
    """Run the decoder over its embedded target, step by step by the equations.

    Args:
        embedded: the target's words (B, T, d_y), T ≥ 1.
        s: the state before the first of them, (B, n).
        encoded: keys, values and mask of the source.
        attention: scores the state against the keys; any mechanism.
        cell: a GRU of d_y + d_v inputs: the word first, then the context.

    Returns:
        states (B, T, n), and Attended(contexts (B, T, d_v), weights (B, T, T_k)).

    Source: Bahdanau et al. 2015, appendix A.2.2.
    """
    W, U, b_W, b_U = cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0, cell.bias_hh_l0
    states, contexts, weights = [], [], []
    for y in embedded.unbind(1):
        context, row = require_weights(attention(s[:, None], encoded.keys, encoded.values, encoded.mask))
        s = gru_step(torch.cat([y, context[:, 0]], dim=-1), s, W, U, b_W, b_U)
        states.append(s)
        contexts.append(context)
        weights.append(row)
    return torch.stack(states, dim=1), Attended(torch.cat(contexts, dim=1), torch.cat(weights, dim=1))


class BahdanauDecoder(nn.Module):
    """A decoder with additive attention, the previous state its query."""

    def __init__(
        self,
        n_tokens: int,
        d_embedding: int,
        d_hidden: int,
        d_memory: int,
        d_attention: int,
        run: Callable[..., tuple[States, Attended]] = bahdanau_steps,
    ) -> None:
        """Set up for n_tokens words and an encoder of d_memory features; `run` is one of the two functions above."""
        super().__init__()
        self.run = run
        self.embedding = nn.Embedding(n_tokens, d_embedding)
        self.bridge = nn.Linear(d_memory, d_hidden)
        self.attention = AdditiveAttention(d_hidden, d_memory, d_attention)
        self.cell = GRU(d_embedding + d_memory, d_hidden)
        self.readout = nn.Linear(d_hidden + d_memory + d_embedding, n_tokens)

    def forward(self, encoded: Encoded, target: Tokens, state: HiddenState | None = None) -> Decoded:
        """Read target (B, T) from `state` (the bridge from the encoder if None), and compute next-token logits."""
        state = torch.tanh(self.bridge(encoded.final)) if state is None else state
        embedded = self.embedding(target)
        states, attended = self.run(embedded, state, encoded, self.attention, self.cell)
        logits = self.readout(torch.cat([states, attended.context, embedded], dim=-1))
        return Decoded(logits, attended, states[:, -1])
