"""The model of lecture 18 and its rivals: one head that reads a value from what it wrote."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import RotaryAttention, causal_attention, decay_mask, merge_heads, split_heads
from course_lib.blocks import Block, GatedFeedForward, Stack, draw_weights, pre_norm
from course_tools.lectures.lecture_18.rewritten_keys import N_KEYS, N_VALUES

Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""`rule(q, k, v, gates)` reads with q (B, Q, d) after keys and values (B, T, d) are written; gates are (B, T, n) numbers."""


class KeyValueMemory(nn.Module):
    """Write values under keys by a rule, in one head, then answer questions from its memory; gates begin at these logits."""

    def __init__(
        self,
        rule: Rule,
        logits: Sequence[float] = (0.0,),
        d_model: int = 64,
        d_k: int = 16,
        d_v: int = 16,
        n_keys: int = N_KEYS,
    ):
        super().__init__()
        self.rule, self.key, self.value = rule, nn.Embedding(n_keys, d_model), nn.Embedding(N_VALUES, d_model)
        for table in (self.key, self.value):
            nn.init.normal_(table.weight, std=d_model**-0.5)
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d, bias=False) for d in (d_k, d_k, d_v))
        self.gates = nn.Linear(d_model, len(logits))
        self.gates.bias.data.copy_(torch.tensor(logits))
        self.read_out = nn.Sequential(nn.LayerNorm(d_v), nn.Linear(d_v, N_VALUES))

    def forward(self, keys: Tensor, values: Tensor, asked: Tensor) -> Tensor:
        """Write values under keys (B, T), then give logits of the newest value of each key asked for, (B, Q, n_values)."""
        key, value = self.key(keys), self.value(values)
        q, k = (F.normalize(x, dim=-1) for x in (self.W_q(self.key(asked)), self.W_k(key)))
        return self.read_out(self.rule(q, k, self.W_v(value), self.gates(key + value)))


def sum_rule(q: Tensor, k: Tensor, v: Tensor, gates: Tensor) -> Tensor:
    """Add everything, each write times a gate of its own."""
    return q @ (k.mT @ (gates.sigmoid() * v))


def gate_rule(q: Tensor, k: Tensor, v: Tensor, gates: Tensor) -> Tensor:
    """Forget by one gate for the head, or by one for each channel of the keys."""
    total = F.logsigmoid(gates).cumsum(1)
    return q @ ((k * (total[:, -1:] - total).exp()).mT @ v)


def delta_rule(q: Tensor, k: Tensor, v: Tensor, gates: Tensor) -> Tensor:
    """Correct, all writes at once, by a triangular system (DeltaNet, section 3); with a second gate, forget as well."""
    beta = gates[..., :1].sigmoid()
    left = decay_mask(F.logsigmoid(gates[..., 1])) if gates.shape[-1] > 1 else torch.ones_like(gates).mT
    errors = torch.linalg.solve_triangular((beta * (k @ k.mT) * left).tril(-1), beta * v, upper=False, unitriangular=True)
    return q @ ((k * left[:, -1, :, None]).mT @ errors)


class RecentSoftmax(nn.Module):
    """Softmax attention over all that was written, with a learned temperature and a learned bias for recent writes."""

    def __init__(self):
        super().__init__()
        self.log_scale, self.log_slope = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor(-1.0))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, gates: Tensor) -> Tensor:
        """Read as a rule does; the gates are not used."""
        T = k.shape[1]
        age = torch.arange(T - 1, -1, -1, device=k.device)
        return (q @ k.mT * self.log_scale.exp() - age * self.log_slope.exp()).softmax(-1) @ v


class ConvolvedAttention(nn.Module):
    """Rotary softmax attention of four heads; queries, keys and values are mixed with those of width - 1 positions before."""

    def __init__(self, d_model: int, width: int):
        super().__init__()
        self.W_qkv, self.W_o = nn.Linear(d_model, 3 * d_model, bias=False), nn.Linear(d_model, d_model, bias=False)
        self.taps = nn.Parameter(torch.empty(width, 3 * d_model))
        self.attend = RotaryAttention(d_model // 4, causal_attention)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Mix x (B, T, d_model); each position attends to itself and to earlier ones that the mask allows."""
        projected = self.W_qkv(x)
        earlier = F.pad(projected, (0, 0, len(self.taps) - 1, 0))
        mixed = sum(w * earlier[:, i : i + x.shape[1]] for i, w in enumerate(self.taps)) if len(self.taps) > 1 else projected
        q, k, v = (split_heads(part, 4) for part in mixed.chunk(3, dim=-1))
        return self.W_o(merge_heads(self.attend(q, k, v, mask).context))


class ConvolvedLlama(nn.Module):
    """A language model of two layers of `ConvolvedAttention`, about as large as the gated delta network of the lecture."""

    def __init__(self, n_tokens: int, width: int, d_model: int = 64, d_ff: int = 176):
        super().__init__()
        blocks = [
            Block(ConvolvedAttention(d_model, width), GatedFeedForward(d_model, d_ff), d_model, pre_norm, nn.RMSNorm)
            for _ in range(2)
        ]
        self.tokens, self.stack = nn.Embedding(n_tokens, d_model), Stack(blocks, nn.RMSNorm(d_model))
        self.readout = nn.Linear(d_model, n_tokens, bias=False)
        draw_weights(self, d_model)
        for name, taps in self.named_parameters():
            if name.endswith("taps"):
                nn.init.uniform_(taps, -(width**-0.5), width**-0.5)

    def forward(self, tokens: Tensor, *mask: Tensor) -> Tensor:
        """Next-token logits (B, T, n_tokens) of tokens (B, T)."""
        return self.readout(self.stack(self.tokens(tokens), *mask))
