"""The peer of GPT, as it is usually implemented.

`NanoGPT` computes in the manner of Andrej Karpathy's nanoGPT (https://github.com/karpathy/nanoGPT): one matrix for queries,
keys and values, torch's fused causal attention, erf-GELU, tied embedding, a module for each part; and it reads the whole
text again for each generated token. Dropout and the configuration are left out.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Causal self-attention, its three projections in one matrix."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.project = nn.Linear(d_model, 3 * d_model)
        self.merge = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = (y.view(B, T, self.n_heads, C // self.n_heads).transpose(1, 2) for y in self.project(x).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.merge(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    """Norm, attention, norm, network; each with a residual connection."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.norm_1, self.attention = nn.LayerNorm(d_model), Attention(d_model, n_heads)
        self.norm_2 = nn.LayerNorm(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.network(self.norm_2(x))


class NanoGPT(nn.Module):
    """The model, its loss, and its generation loop."""

    def __init__(self, n_tokens: int, T_max: int, d_model: int, n_heads: int, n_layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(n_tokens, d_model), nn.Embedding(T_max, d_model)
        self.blocks = nn.ModuleList(Block(d_model, n_heads) for _ in range(n_layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, n_tokens, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits (B, T, n_tokens) for tokens (B, T)."""
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @torch.no_grad()
    def generate(self, tokens: Tensor, n: int) -> Tensor:
        """Generate the n likeliest tokens after tokens (B, T)."""
        for _ in range(n):
            tokens = torch.cat([tokens, self(tokens)[:, -1].argmax(-1, keepdim=True)], dim=1)
        return tokens[:, -n:]
