"""Additive attention: a small network scores each pair of query and key.

Bahdanau, Cho, Bengio 2015, *Neural Machine Translation by Jointly Learning to Align and Translate*, section 3.1 and appendix
A.1.2 (https://arxiv.org/abs/1409.0473), where the query is the decoder's state s and the keys are the encoder's h:

    e_ij = vᵀ tanh(W q_i + U k_j)                additive (Bahdanau)
    e_ij = vᵀ tanh(W [q_i; k_j])                 concat (Luong, Pham, Manning 2015, section 3.1, https://arxiv.org/abs/1508.04025)

Concat is the same score with the two matrices side by side in one.
"""

from collections.abc import Callable
from functools import wraps

import torch
from einops import repeat
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import Attended, attend, broadcast_shapes
from course_lib.primitives.preconditions import of_tensors
from course_lib.shapes import Keys, Mask, Queries, Scores, Values

__all__ = ["AdditiveAttention", "ConcatAttention", "additive_scores", "concat_scores"]


def additive_scores(
    q: Queries,
    k: Keys,
    W: Float[Tensor, "d_a d_q"],
    U: Float[Tensor, "d_a d_k"],
    v: Float[Tensor, "d_a"],
) -> Scores:
    """Score each query against each key by e_ij = vᵀ tanh(W q_i + U k_j).

    Args:
        q: queries (*batch, T_q, d_q).
        k: keys (*batch, T_k, d_k); d_k may differ from d_q.
        W: (d_a, d_q), projects a query to the d_a hidden units.
        U: (d_a, d_k), projects a key to the hidden units.
        v: (d_a,), the weights of the hidden units.

    Returns:
        scores (*batch, T_q, T_k).

    Source: Bahdanau et al. 2015, appendix A.1.2.
    """
    projected_q = q @ W.mT
    projected_k = k @ U.mT
    hidden = torch.tanh(projected_q.unsqueeze(-2) + projected_k.unsqueeze(-3))
    return hidden @ v


class AdditiveAttention(nn.Module):
    """The mechanism of Bahdanau et al.: owns W (d_a, d_q), U (d_a, d_k) and v (d_a,)."""

    def __init__(self, d_q: int, d_k: int, d_a: int) -> None:
        """Draw W, U and v uniformly within ± the inverse square root of what they sum over."""
        super().__init__()
        self.W = nn.Parameter(torch.empty(d_a, d_q).uniform_(-(d_q**-0.5), d_q**-0.5))
        self.U = nn.Parameter(torch.empty(d_a, d_k).uniform_(-(d_k**-0.5), d_k**-0.5))
        self.v = nn.Parameter(torch.empty(d_a).uniform_(-(d_a**-0.5), d_a**-0.5))

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
        """Attend from q (*batch, T_q, d_q) over k (*batch, T_k, d_k) and v (*batch, T_k, d_v)."""
        return attend(additive_scores(q, k, self.W, self.U, self.v), v, mask)


def _of_one_batch(score: Callable[..., Scores]) -> Callable[..., Scores]:
    """Make a score of pairs expand queries and keys to the batch axes that they broadcast to."""

    @of_tensors
    @wraps(score)
    def run(q: Queries, k: Keys, *weights: Tensor, **named: Tensor) -> Scores:
        batch = broadcast_shapes(q.shape[:-2], k.shape[:-2])
        return score(*(x.expand(*batch, *x.shape[-2:]) for x in (q, k)), *weights, **named)

    return run


@_of_one_batch
def concat_scores(q: Queries, k: Keys, W: Float[Tensor, "d_a d_q+d_k"], v: Float[Tensor, "d_a"]) -> Scores:
    """Score by a small network over the pair, e_ij = vᵀ tanh(W [q_i; k_j]), the query first.

    Args:
        q: queries (*batch, T_q, d_q).
        k: keys (*batch, T_k, d_k).
        W: (d_a, d_q + d_k), acts on the query and the key, concatenated.
        v: (d_a,).

    Returns:
        scores (*batch, T_q, T_k).

    Source: Luong et al. 2015, section 3.1 (concat).
    """
    T_q, T_k = q.shape[-2], k.shape[-2]
    every_q = repeat(q, "... T_q d -> ... T_q T_k d", T_k=T_k)
    every_k = repeat(k, "... T_k d -> ... T_q T_k d", T_q=T_q)
    pairs = torch.cat([every_q, every_k], dim=-1)
    return torch.tanh(pairs @ W.mT) @ v


class ConcatAttention(nn.Module):
    """Luong's concat mechanism: owns W (d_a, d_q + d_k) and v (d_a,)."""

    def __init__(self, d_q: int, d_k: int, d_a: int) -> None:
        """Draw W and v uniformly within ± the inverse square root of what they sum over."""
        super().__init__()
        d_pair = d_q + d_k
        self.W = nn.Parameter(torch.empty(d_a, d_pair).uniform_(-(d_pair**-0.5), d_pair**-0.5))
        self.v = nn.Parameter(torch.empty(d_a).uniform_(-(d_a**-0.5), d_a**-0.5))

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask | None = None) -> Attended:
        """Attend from q (*batch, T_q, d_q) over k (*batch, T_k, d_k) and v (*batch, T_k, d_v)."""
        return attend(concat_scores(q, k, self.W, self.v), v, mask)
