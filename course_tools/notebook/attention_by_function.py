"""Self-attention layers computed by a function, such as the `multi_head_attention` that students write in lecture 04."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.attention import Attended

MechanismFunction = Callable[..., Attended]
"""`(q, k, v, mask)` → context, weights, as `course_lib.attention.scaled_dot_product_attention`."""
MultiHeadFunction = Callable[..., Attended]
"""`(queries, keys, values, W_q, W_k, W_v, W_o, n_heads, mask)` → context, weights, as `multi_head_attention`."""


class SelfAttentionByFunction(nn.Module):
    """One head of self-attention: Q = XW_Q, K = XW_K, V = XW_V for the same tokens X, and a mechanism without parameters."""

    def __init__(self, mechanism: MechanismFunction, d_model: int, mask: Tensor | None = None) -> None:
        """Create three matrices d_model × d_model; the mask is passed to every call of the mechanism."""
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))
        self.mechanism, self.mask = mechanism, mask

    def forward(self, x: Tensor) -> Attended:
        """Compute contexts (B, T, d_model) and weights (B, T, T) of tokens x (B, T, d_model), in the dtype of x."""
        context, weights = self.mechanism(self.W_q(x), self.W_k(x), self.W_v(x), self.mask)
        return Attended(context.to(x.dtype), weights.to(x.dtype))


class MultiHeadByFunction(nn.Module):
    """Multi-head self-attention: the layer owns the four matrices, and a function computes context and weights."""

    def __init__(self, multi_head: MultiHeadFunction, d_model: int, n_heads: int, mask: Tensor | None = None) -> None:
        """Create four matrices d_model × d_model with entries uniform in ±d_model^-½."""
        super().__init__()
        bound = d_model**-0.5
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Parameter(torch.empty(d_model, d_model).uniform_(-bound, bound)) for _ in range(4)
        )
        self.multi_head, self.n_heads, self.mask = multi_head, n_heads, mask

    def forward(self, x: Tensor) -> Attended:
        """Compute contexts (B, T, d_model) and weights (B, n_heads, T, T) of tokens x (B, T, d_model), in the dtype of x."""
        matrices = self.W_q, self.W_k, self.W_v, self.W_o
        context, weights = self.multi_head(x, x, x, *matrices, self.n_heads, self.mask)
        return Attended(context.to(x.dtype), weights.to(x.dtype))
