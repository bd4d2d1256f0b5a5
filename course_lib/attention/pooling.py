"""Attention pooling: a learned query summarises a sequence in one vector.

Yang et al. 2016, *Hierarchical Attention Networks for Document Classification*, eqs. 5-7 (https://aclanthology.org/N16-1174):

    u_t = tanh(W h_t + b)        α_t = exp(u_tᵀ u) / Σ_t' exp(u_t'ᵀ u)        s = Σ_t α_t h_t

u is the query: learned, and the same for every sequence ("which word is informative?").
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.attention.core import Attended, attend, hide_keys
from course_lib.primitives.preconditions import shape_checked
from course_lib.shapes import Values

__all__ = ["Pool", "mean_pool", "pool"]


_whole = shape_checked("The mask of `padding_mask` has an axis for queries: `mask.squeeze(-2)`.")


@_whole
def pool(
    values: Values,
    W: Float[Tensor, "d_a d_v"],
    b: Float[Tensor, "d_a"],
    u: Float[Tensor, "d_a"],
    mask: Bool[Tensor, "*batch T_k"] | None = None,
) -> Attended:
    """Pool each sequence by attention from a learned query.

    Args:
        values: the tokens h, (*batch, T_k, d_v).
        W: projects a token to the space of the query.
        b: its bias.
        u: the query.
        mask: bool, True = a real token; None = all are.

    Returns:
        context (*batch, d_v) and weights (*batch, T_k); both 0 for a sequence without a real token.

    Source: Yang et al. 2016, eqs. 5-7.
    """
    scores = torch.tanh(values @ W.mT + b) @ u
    context, weights = attend(scores[..., None, :], values, None if mask is None else mask[..., None, :])
    return Attended(context.squeeze(-2), weights.squeeze(-2))


class Pool(nn.Module):
    """Pooling with its weights: owns W (d_a, d_v), b (d_a,) and the query u (d_a,)."""

    def __init__(self, d_v: int, d_a: int) -> None:
        """Draw W and u uniformly within ± the inverse square root of what they sum over; b starts at 0."""
        super().__init__()
        self.W = nn.Parameter(torch.empty(d_a, d_v).uniform_(-(d_v**-0.5), d_v**-0.5))
        self.b = nn.Parameter(torch.zeros(d_a))
        self.u = nn.Parameter(torch.empty(d_a).uniform_(-(d_a**-0.5), d_a**-0.5))

    @_whole
    def forward(self, values: Values, mask: Bool[Tensor, "*batch T_k"] | None = None) -> Attended:
        """Pool tokens (*batch, T_k, d_v) under a mask (*batch, T_k): context (*batch, d_v), weights (*batch, T_k)."""
        tokens = values if mask is None else hide_keys(values, mask[..., None, :])  # else gradients of NaN would be NaN
        return pool(tokens, self.W, self.b, self.u, mask)


@_whole
def mean_pool(values: Values, mask: Bool[Tensor, "*batch T_k"] | None = None) -> Attended:
    """Pool with the same weight for every real token: the baseline of attention. Shapes as for `pool`, (*batch, T_k)."""
    scores = values.new_zeros(values.shape[:-1])
    context, weights = attend(scores[..., None, :], values, None if mask is None else mask[..., None, :])
    return Attended(context.squeeze(-2), weights.squeeze(-2))
