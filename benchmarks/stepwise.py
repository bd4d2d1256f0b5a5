"""The peers of the sequence-to-sequence models: decoders that recompute everything at each step.

`StepwiseBahdanau` computes in the manner of Ben Trevett's tutorial, pytorch-seq2seq, parts 3 and 4
(https://github.com/bentrevett/pytorch-seq2seq): the state is repeated over the source, query and keys are concatenated and
projected at each step, torch.nn.GRU is called for one step, the vocabulary product is inside the loop. There is no dropout, and
teacher forcing is used for every word. `StepwiseLuong` has the same loop around Luong's equations.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class PackedEncoder(nn.Module):
    """Embedding, a packed bidirectional torch.nn.GRU, and the projection to the decoder's first state."""

    def __init__(self, n_tokens: int, d_embedding: int, d_encoder: int, d_decoder: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_tokens, d_embedding)
        self.gru = nn.GRU(d_embedding, d_encoder, bidirectional=True, batch_first=True)
        self.bridge = nn.Linear(2 * d_encoder, d_decoder)

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Read source (B, T_k): annotations (B, T_k, 2 · d_encoder) and the decoder's first state (B, d_decoder)."""
        packed = pack_padded_sequence(self.embedding(source), lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.gru(packed)
        annotations, _ = pad_packed_sequence(states, batch_first=True, total_length=source.shape[1])
        return annotations, torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=1)))


class StepwiseBahdanau(nn.Module):
    """One step at a time: score the concatenated pairs, mix, one step of torch.nn.GRU, the vocabulary product."""

    def __init__(self, n_tokens: int, d_embedding: int, d_encoder: int, d_decoder: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_tokens, d_embedding)
        self.pair = nn.Linear(d_decoder + 2 * d_encoder, d_decoder)
        self.score = nn.Linear(d_decoder, 1, bias=False)
        self.gru = nn.GRU(d_embedding + 2 * d_encoder, d_decoder, batch_first=True)
        self.readout = nn.Linear(d_decoder + 2 * d_encoder + d_embedding, n_tokens)

    def forward(self, word: Tensor, state: Tensor, annotations: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Read one word (B,) in state (B, d_decoder): logits (B, n_tokens) and the next state."""
        embedded = self.embedding(word)
        repeated = state.unsqueeze(1).repeat(1, annotations.shape[1], 1)
        energy = torch.tanh(self.pair(torch.cat([repeated, annotations], dim=2)))
        weights = F.softmax(self.score(energy).squeeze(2).masked_fill(~mask, -1e10), dim=1)
        context = torch.bmm(weights.unsqueeze(1), annotations).squeeze(1)
        _, state = self.gru(torch.cat([embedded, context], dim=1).unsqueeze(1), state.unsqueeze(0))
        state = state.squeeze(0)
        return self.readout(torch.cat([state, context, embedded], dim=1)), state


class StepwiseLuong(nn.Module):
    """One step at a time: one step of torch.nn.GRU, attention by the general score, h̃, the vocabulary product."""

    def __init__(self, n_tokens: int, d_embedding: int, d_encoder: int, d_decoder: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_tokens, d_embedding)
        self.gru = nn.GRU(d_embedding, d_decoder, batch_first=True)
        self.general = nn.Linear(2 * d_encoder, d_decoder, bias=False)
        self.combine = nn.Linear(2 * d_encoder + d_decoder, d_decoder)
        self.readout = nn.Linear(d_decoder, n_tokens)

    def forward(self, word: Tensor, state: Tensor, annotations: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Read one word (B,) in state (B, d_decoder): logits (B, n_tokens) and the next state."""
        _, state = self.gru(self.embedding(word).unsqueeze(1), state.unsqueeze(0))
        state = state.squeeze(0)
        scores = torch.bmm(self.general(annotations), state.unsqueeze(2)).squeeze(2)
        weights = F.softmax(scores.masked_fill(~mask, -1e10), dim=1)
        context = torch.bmm(weights.unsqueeze(1), annotations).squeeze(1)
        return self.readout(torch.tanh(self.combine(torch.cat([context, state], dim=1)))), state


def decode_stepwise(decoder: nn.Module, target: Tensor, state: Tensor, annotations: Tensor, mask: Tensor) -> Tensor:
    """Feed target (B, T) word by word: logits (B, T, n_tokens)."""
    logits = []
    for word in target.unbind(1):
        said, state = decoder(word, state, annotations, mask)
        logits.append(said)
    return torch.stack(logits, dim=1)
