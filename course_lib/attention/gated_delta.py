"""A layer of gated delta attention: a memory of fixed size that fades, and corrects what it holds under a key.

Yang et al. 2025, *Gated Delta Networks: Improving Mamba2 with Delta Rule*, sections 3.1 and 3.4
(https://arxiv.org/abs/2412.06464). Queries, keys and values are mixed with those of a few positions before them by a short
convolution, w, and queries and keys have length 1. In each head:

    x̃_t = SiLU(Σ_i w_i ⊙ (W x)_{t-i}),  i < width        q_t, k_t = q̃_t / ‖q̃_t‖, k̃_t / ‖k̃_t‖        β_t = σ(W_beta x_t)

    g_t = -exp(log_rate) softplus(W_decay x_t + b)        c_t = delta rule(q_t, k_t, v_t; β_t, g_t)

    y_t = W_o (RMSNorm(c_t) ⊙ SiLU(W_gate x_t))

What is carried from step to step does not grow: S (d_k, d_v) of each head, and the last width - 1 projections. Positions need
no encoding: the convolution and the memory know their order. A head starts, as one of Mamba-2, with a decay between 0.2 and
0.999 a step (Dao & Gu 2024, section 7). Qwen3-Next has three such layers to one of softmax attention.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.chunked_delta import chunked_delta_attention
from course_lib.attention.delta import delta_rule_step
from course_lib.attention.multihead import head_size, merge_heads, split_heads
from course_lib.primitives.preconditions import of_tensors

__all__ = ["GatedDeltaAttention"]


class GatedDeltaState(NamedTuple):
    """What has been read: memories S (*batch, h, d_k, d_v), and the last projections (*batch, width - 1, h (2 d_k + d_v))."""

    S: Float[Tensor, "*batch h d_k d_v"]
    recent: Float[Tensor, "*batch before channels"]


class GatedDeltaAttention(nn.Module):
    """Token mixer of a block, causal, whose state has a fixed size: `Block(GatedDeltaAttention(64, 4), …)`."""

    def __init__(
        self, d_model: int, n_heads: int, d_k: int | None = None, d_v: int | None = None, width: int = 4, chunk: int = 64
    ) -> None:
        """Set up the layer.

        Args:
            d_model: features of a position.
            n_heads: number of heads, each with a memory, β and decay of its own.
            d_k: size of a head's queries and keys; d_model / n_heads if None.
            d_v: size of a head's values; d_k if None.
            width: positions that the short convolution mixes, the own one included; 1 = no convolution, but a scale.
            chunk: as in `chunked_delta_attention`.

        Raises:
            ValueError: n_heads or width is not positive, or d_k is None and n_heads does not divide d_model.
        """
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be at least 1, the own position, got {width}.")
        d_k = head_size(d_model, n_heads, d_k)
        d_v = d_k if d_v is None else d_v
        self.n_heads, self.chunk, self.sizes = n_heads, chunk, [n_heads * d_k, n_heads * d_k, n_heads * d_v]
        self.W_qkv = nn.Linear(d_model, sum(self.sizes), bias=False)
        self.taps = nn.Parameter(torch.empty(width, sum(self.sizes)).uniform_(-(width**-0.5), width**-0.5))
        self.W_beta, self.W_decay = (nn.Linear(d_model, n_heads, bias=False) for _ in range(2))
        self.log_rate = nn.Parameter(torch.empty(n_heads).uniform_(1, 16).log())
        steps = torch.empty(n_heads).uniform_(math.log(0.001), math.log(0.1)).exp()
        self.step_offset = nn.Parameter(steps.expm1().log())  # softplus of it is the length of a step
        self.W_gate, self.W_o = nn.Linear(d_model, n_heads * d_v, bias=False), nn.Linear(n_heads * d_v, d_model, bias=False)
        self.norm = nn.RMSNorm(d_v, eps=1e-6)

    @of_tensors
    def forward(self, x: Float[Tensor, "*batch T d_model"]) -> Float[Tensor, "*batch T d_model"]:
        """Mix x (*batch, T, d_model): each position attends to itself and to earlier ones. There is no mask."""
        (q, k, v, beta, log_decay), _ = self._parts(x, None)
        return self._out(x, chunked_delta_attention(q, k, v, beta, log_decay, self.chunk))

    @of_tensors
    def read(self, x: Float[Tensor, "*batch T d_model"]) -> tuple[Float[Tensor, "*batch T d_model"], GatedDeltaState]:
        """Mix x (*batch, T, d_model), T ≥ 0, as `forward`, and return the state that `step` continues from.

        The memory is read out by d_k further queries, the unit vectors, whose positions write nothing.
        """
        (q, k, v, beta, log_decay), recent = self._parts(x, None)
        T, d_k = x.shape[-2], k.shape[-1]
        units = torch.eye(d_k, dtype=q.dtype, device=q.device).expand(*q.shape[:-2], d_k, d_k)
        k, v = (F.pad(part, (0, 0, 0, d_k)) for part in (k, v))
        beta, log_decay = (F.pad(part, (0, d_k)) for part in (beta, log_decay))
        wide = v.to(torch.promote_types(v.dtype, torch.float32))
        found = chunked_delta_attention(torch.cat([q, units], dim=-2), k, wide, beta, log_decay, self.chunk)
        return self._out(x, found[..., :T, :].to(v.dtype)), GatedDeltaState(found[..., T:, :], recent)

    @of_tensors
    def step(
        self, x: Float[Tensor, "*batch 1 d_model"], state: GatedDeltaState
    ) -> tuple[Float[Tensor, "*batch 1 d_model"], GatedDeltaState]:
        """Mix one more position x (*batch, 1, d_model) with those of the state, which is not changed."""
        (q, k, v, beta, log_decay), recent = self._parts(x, state[1])
        q, k, v = (part[..., 0, :] for part in (q, k, v))
        context, S = delta_rule_step(state[0], q, k, v, beta[..., 0], log_decay[..., 0])
        return self._out(x, context[..., None, :]), GatedDeltaState(S, recent)

    def _parts(self, x: Tensor, recent: Tensor | None) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
        """Return q, k, v (*batch, h, T, d), β and log_decay (*batch, h, T), and the last projections, those of x included."""
        T, before, projected = x.shape[-2], len(self.taps) - 1, self.W_qkv(x)
        earlier = F.pad(projected, (0, 0, before, 0)) if recent is None else torch.cat([recent, projected], dim=-2)
        mixed = torch.stack([w * earlier[..., i : i + T, :] for i, w in enumerate(self.taps)]).sum(0)
        q, k, v = (split_heads(part, self.n_heads) for part in F.silu(mixed).split(self.sizes, dim=-1))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        log_decay = -self.log_rate.exp() * F.softplus(self.W_decay(x) + self.step_offset)  # (*batch, T, h)
        return (q, k, v, self.W_beta(x).sigmoid().mT, log_decay.mT), earlier[..., T:, :]

    def _out(self, x: Tensor, contexts: Tensor) -> Tensor:
        return self.W_o(merge_heads(self.norm(contexts)) * F.silu(self.W_gate(x)))
