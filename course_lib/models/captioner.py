"""Image captioning: from one image vector (Show and Tell), or with attention over image regions (Show, Attend and Tell).

Vinyals et al. 2015, *Show and Tell*, eqs. 10-12 (https://arxiv.org/abs/1411.4555): the image is the first input of an
LSTM. Xu et al. 2015, *Show, Attend and Tell*, sections 3.1.2 and 4.2 (https://arxiv.org/abs/1502.03044), with a_i the regions:

    α_ti = softmax_i vᵀ tanh(W_h h_{t-1} + W_a a_i)        ẑ_t = β_t Σ_i α_ti a_i        β_t = σ(f h_{t-1} + b)
    h_t = LSTM([E y_{t-1}; ẑ_t], h_{t-1})        p(y_t) = softmax(L_o (E y_{t-1} + L_h h_t + L_z ẑ_t))     (eqs. 1-9, 13, 4.2.1)
    h_0, c_0 from the mean of the regions

The weights of each word sum to 1 over the regions; the penalty favours weights that also sum to 1 over the words for each
region.

Dropout, if asked for, acts in Show and Tell (section 4.3.1) on the inputs and outputs of the LSTM, not on its recurrent
connections (Zaremba, Sutskever, Vinyals 2014, https://arxiv.org/abs/1409.2329). Call `eval()` before decoding: a step in
training drops features too. Show, Attend and Tell has none: it repeats `caption_step`, which is one equation.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.attention import AdditiveAttention, Attended, attend
from course_lib.primitives import LSTM, lstm_step
from course_lib.primitives.recurrent import HiddenState
from course_lib.shapes import Tokens

__all__ = [
    "CaptionStep",
    "ShowAndTell",
    "ShowAttendAndTell",
    "caption_step",
    "doubly_stochastic_penalty",
    "soft_attention",
]

Regions = Float[Tensor, "B L d_a"]
LSTMState = tuple[HiddenState, HiddenState]


def soft_attention(
    regions: Regions,
    h: Float[Tensor, "B n"],
    W_a: Float[Tensor, "m d_a"],
    W_h: Float[Tensor, "m n"],
    v: Float[Tensor, "m"],
) -> Attended:
    """Soft attention: average the regions of an image by their relevance to the decoder state.

    Args:
        regions: a, (B, L, d_a).
        h: the state of the decoder before the word, (B, n).
        W_a: (m, d_a), projects a region to the attention space of size m.
        W_h: (m, n), projects the state to it.
        v: (m,), the weights of the hidden units.

    Returns:
        context (B, d_a) and weights (B, L), which sum to 1 over the regions.

    Source: Xu et al. 2015, eqs. 4-6, 8, 13.
    """
    hidden = torch.tanh(regions @ W_a.mT + (h @ W_h.mT)[:, None])
    context, weights = attend((hidden @ v)[:, None], regions)
    return Attended(context[:, 0], weights[:, 0])


def doubly_stochastic_penalty(weights: Float[Tensor, "B T L"]) -> Float[Tensor, ""]:
    """Doubly stochastic penalty: attention over the words should sum to 1 for each region, Σ_i (1 - Σ_t α_ti)².

    Args:
        weights: (B, T, L), the row of each word; 0 at words that are padding.

    Returns:
        the mean over the batch, ≥ 0; 0 only where the weights of each region sum to 1 over the words.

    Source: Xu et al. 2015, eq. 14.
    """
    return (1 - weights.sum(1)).square().sum(-1).mean()


class CaptionStep(NamedTuple):
    """One step: `logits` (B, n_tokens), new states `h` and `c` (B, n), and attention `weights` (B, L) over the regions."""

    logits: Float[Tensor, "B n_tokens"]
    h: HiddenState
    c: HiddenState
    weights: Float[Tensor, "B L"]


def caption_step(
    y: Float[Tensor, "B d_y"],
    h: HiddenState,
    c: HiddenState,
    regions: Regions,
    attention: tuple[Float[Tensor, "m d_a"], Float[Tensor, "m n"], Float[Tensor, "m"]],
    gate: tuple[Float[Tensor, "1 n"], Float[Tensor, "1"]],
    cell: tuple[Float[Tensor, "4*n d_y+d_a"], Float[Tensor, "4*n n"], Float[Tensor, "4*n"]],
    readout: tuple[Float[Tensor, "d_y n"], Float[Tensor, "d_y d_a"], Float[Tensor, "n_tokens d_y"]],
) -> CaptionStep:
    """Take one step of the captioning decoder: attend, gate the context, update the LSTM, compute next-token logits.

    Args:
        y: E y_{t-1}, the embedded previous word, (B, d_y).
        h: the state before the word, (B, n): the query of the attention, and the input of the gate.
        c: the cell state before the word, (B, n).
        regions: a, (B, L, d_a).
        attention: W_a (m, d_a), W_h (m, n) and v (m,), as in `soft_attention`.
        gate: f (1, n) and b (1,): β = σ(f h + b), one number for each image, scales the context to ẑ.
        cell: W (4n, d_y + d_a), U (4n, n) and b (4n,), as in `lstm_step`; its input is [E y; ẑ], the word first.
        readout: L_h (d_y, n), L_z (d_y, d_a) and L_o (n_tokens, d_y): logits L_o (E y + L_h h_t + L_z ẑ), of the new state.

    Returns:
        logits (B, n_tokens), the new state and cell state (B, n) each, and the weights (B, L) over the regions.

    Source: Xu et al. 2015, eqs. 1-7 and section 4.2.1.
    """
    context, weights = soft_attention(regions, h, *attention)
    f, b = gate
    z = torch.sigmoid(h @ f.mT + b) * context
    h, c = lstm_step(torch.cat([y, z], dim=-1), h, c, *cell)
    L_h, L_z, L_o = readout
    return CaptionStep((y + h @ L_h.mT + z @ L_z.mT) @ L_o.mT, h, c, weights)


class Captioned(NamedTuple):
    """Captioner outputs: `logits` (B, T, n_tokens), attention `weights` (None without attention), and the last state."""

    logits: Float[Tensor, "B T n_tokens"]
    weights: Float[Tensor, "B T L"] | None
    state: LSTMState


class ShowAndTell(nn.Module):
    """LSTM captioner that reads one image vector, once, before the first word."""

    def __init__(self, n_tokens: int, d_picture: int, d_embedding: int, d_hidden: int, dropout: float = 0.0) -> None:
        """Set up for image vectors of d_picture features: the mean of the regions, or their concatenation.

        In training, a feature of an input or output of the LSTM is set to 0 with probability `dropout`.
        """
        super().__init__()
        self.words = nn.Embedding(n_tokens, d_embedding)
        self.look = nn.Linear(d_picture, d_embedding)
        self.cell = LSTM(d_embedding, d_hidden)
        self.readout = nn.Linear(d_hidden, n_tokens)
        self.dropout = nn.Dropout(dropout)

    def start(self, picture: Float[Tensor, "B d_picture"]) -> LSTMState:
        """Read image vectors (B, d_picture); return the state before the first word."""
        _, state = self.cell(self.dropout(self.look(picture))[:, None])
        return state

    def forward(self, picture: Float[Tensor, "B d_picture"], caption: Tokens, state: LSTMState | None = None) -> Captioned:
        """Compute next-token logits of a caption (B, T), read after the image vector (B, d_picture) or from `state`."""
        state = self.start(picture) if state is None else state
        states, last = self.cell(self.dropout(self.words(caption)), state)
        return Captioned(self.readout(self.dropout(states)), None, last)

    def step(self, tokens: Int[Tensor, "B"], state: LSTMState) -> tuple[Float[Tensor, "B n_tokens"], LSTMState]:
        """Read one more token (B,) of each caption; give next-token logits (B, n_tokens) and the new state."""
        states, state = self.cell(self.dropout(self.words(tokens[:, None])), state)
        return self.readout(self.dropout(states[:, 0])), state


class AttentiveState(NamedTuple):
    """A caption in progress: the `regions` (B, L, d_region) to attend to, and the LSTM's `h` and `c` (B, n)."""

    regions: Regions
    h: HiddenState
    c: HiddenState


class ShowAttendAndTell(nn.Module):
    """LSTM captioner with attention over the image regions before each word."""

    def __init__(self, n_tokens: int, d_region: int, d_embedding: int, d_hidden: int, d_attention: int) -> None:
        """Set up for regions of d_region features."""
        super().__init__()
        self.words = nn.Embedding(n_tokens, d_embedding)
        self.attention = AdditiveAttention(d_hidden, d_region, d_attention)
        self.gate = nn.Linear(d_hidden, 1)
        self.first_h, self.first_c = nn.Linear(d_region, d_hidden), nn.Linear(d_region, d_hidden)
        self.cell = LSTM(d_embedding + d_region, d_hidden)
        self.from_h = nn.Linear(d_hidden, d_embedding, bias=False)
        self.from_z = nn.Linear(d_region, d_embedding, bias=False)
        self.readout = nn.Linear(d_embedding, n_tokens, bias=False)

    def initial_state(self, regions: Regions) -> LSTMState:
        """Compute h_0 and c_0 from the mean of the regions (B, L, d_region)."""
        mean = regions.mean(1)
        return torch.tanh(self.first_h(mean)), torch.tanh(self.first_c(mean))

    def forward(self, regions: Regions, caption: Tokens, state: LSTMState | None = None) -> Captioned:
        """Read caption (B, T), T ≥ 1, with attention over regions (B, L, d_region), from `state` or the initial state.

        Returns:
            Captioned; logits[:, t] and weights[:, t] belong to the word after caption[:, t].
        """
        h, c = self.initial_state(regions) if state is None else state
        attention = self.attention.U, self.attention.W, self.attention.v
        gate = self.gate.weight, self.gate.bias
        cell = self.cell.weight_ih_l0, self.cell.weight_hh_l0, self.cell.bias_ih_l0 + self.cell.bias_hh_l0
        readout = self.from_h.weight, self.from_z.weight, self.readout.weight
        logits, weights = [], []
        for y in self.words(caption).unbind(1):
            said, h, c, row = caption_step(y, h, c, regions, attention, gate, cell, readout)
            logits.append(said)
            weights.append(row)
        return Captioned(torch.stack(logits, dim=1), torch.stack(weights, dim=1), (h, c))

    def start(self, regions: Regions) -> AttentiveState:
        """Read an image's regions (B, L, d_region); return the state before the first token."""
        return AttentiveState(regions, *self.initial_state(regions))

    def step(self, tokens: Int[Tensor, "B"], state: AttentiveState) -> tuple[Float[Tensor, "B n_tokens"], AttentiveState]:
        """Read one more token (B,) of each caption; give next-token logits (B, n_tokens) and the new state."""
        logits, _, (h, c) = self(state.regions, tokens[:, None], (state.h, state.c))
        return logits[:, 0], AttentiveState(state.regions, h, c)
