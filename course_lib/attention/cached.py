"""Causal self-attention one token at a time: keys and values of the past are kept, so that no token is read twice.

The last row of Vaswani et al. 2017, section 3.2.3 (https://arxiv.org/abs/1706.03762), for a new token x_t:

    K_t = [K_{t-1}; x_t W^K]        V_t = [V_{t-1}; x_t W^V]        head = softmax(x_t W^Q K_tᵀ / √d_k) V_t

What was written stays true, since no earlier token looks at a later one. T tokens cost T rows of scores in place of T squares.
"""

import math
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from course_lib.attention.core import attend


class CachedStep(NamedTuple):
    """What a step gives: `output` (B, d_model) for the new token, and all `keys` and `values` (B, h, T + 1, d) for the next."""

    output: Float[Tensor, "B d_model"]
    keys: Float[Tensor, "B h T d_k"]
    values: Float[Tensor, "B h T d_v"]


def cached_step(
    x: Float[Tensor, "B d_in"],
    keys: Float[Tensor, "B h T d_k"],
    values: Float[Tensor, "B h T d_v"],
    W_q: Float[Tensor, "h_d_k d_in"],
    W_k: Float[Tensor, "h_d_k d_in"],
    W_v: Float[Tensor, "h_d_v d_in"],
    W_o: Float[Tensor, "d_model h_d_v"],
) -> CachedStep:
    """Attend from one new token to itself and to the past.

    Args:
        x: the new token of each sequence, (B, d_in).
        keys: of the past, head by head, (B, h, T, d_k); T = 0 at the start.
        values: of the past, (B, h, T, d_v).
        W_q: (h · d_k, d_in), the query projections of all heads below each other.
        W_k: (h · d_k, d_in).
        W_v: (h · d_v, d_in).
        W_o: (d_model, h · d_v).

    Returns:
        output (B, d_model), as the last row of causal multi-head attention over the whole sequence would be; and the keys
        and values with those of x behind them, (B, h, T + 1, d). What came in is not changed.

    Source: Vaswani et al. 2017, section 3.2.3.
    """
    n_heads, d_k = keys.shape[1], keys.shape[-1]
    q = rearrange(x @ W_q.mT, "B (h d_k) -> B h 1 d_k", h=n_heads)
    k = rearrange(x @ W_k.mT, "B (h d_k) -> B h 1 d_k", h=n_heads)
    v = rearrange(x @ W_v.mT, "B (h d_v) -> B h 1 d_v", h=n_heads)
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    context, _ = attend(q @ keys.mT / math.sqrt(d_k), values)
    return CachedStep(rearrange(context, "B h 1 d_v -> B (h d_v)") @ W_o.mT, keys, values)
