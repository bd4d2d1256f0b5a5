"""Attention in one line: score → normalise → mix. Every mechanism of the course ends here.

Graves, Wayne, Danihelka 2014, *Neural Turing Machines*, eq. 2 (https://arxiv.org/abs/1410.5401) and
Bahdanau, Cho, Bengio 2015, eqs. 5-6 (https://arxiv.org/abs/1409.0473):

    α_ij = exp(e_ij) / Σ_j' exp(e_ij')        c_i = Σ_j α_ij v_j

A mask takes keys out of both sums. A query whose row is masked whole may look nowhere: its weights and its context are 0,
and so are its gradients.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch

from course_lib.shapes import Context, Mask, Scores, Values, Weights


class Attended(NamedTuple):
    """What a mechanism returns: `context` (*batch, T_q, d_v) and the `weights` (*batch, T_q, T_k) that mixed it.

    `weights` is None from a fused form, which never builds them.
    """

    context: Context
    weights: Weights | None


Mechanism = Callable[..., Attended]
"""Any function or module `(q, k, v, mask=None) -> Attended`."""


def attend(scores: Scores, values: Values, mask: Mask | None = None) -> Attended:
    """Normalise the scores over the keys, and mix the values by the weights.

    Args:
        scores: (*batch, T_q, T_k), any real number: how well each key answers each query.
        values: (*batch, T_k, d_v).
        mask: bool, broadcastable to the scores; True = may look. None = everyone may look everywhere.

    Returns:
        context (*batch, T_q, d_v) and weights (*batch, T_q, T_k). Each row of weights is ≥ 0 and sums to 1, or to 0
        where the mask forbids every key.

    Raises:
        ValueError: scores and values disagree on T_k, or the mask does not broadcast to the scores.
        TypeError: the mask is not bool.

    Source: Bahdanau et al. 2015, eqs. 5-6.
    """
    if scores.shape[-1] != values.shape[-2]:
        raise ValueError(
            f"scores {tuple(scores.shape)} look at {scores.shape[-1]} keys, but values {tuple(values.shape)} hold "
            f"{values.shape[-2]}: the last axis of scores and the last but one of values must be the same T_k."
        )
    if mask is None:
        weights = scores.softmax(-1)
    else:
        require_mask(mask, scores.shape)
        blind = ~mask.any(-1, keepdim=True)
        weights = scores.masked_fill(~mask, -torch.inf).masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    return Attended(weights @ values, weights)


def require_mask(mask: Mask, shape: tuple[int, ...]) -> None:
    """Refuse a mask that is not bool, or that does not broadcast to scores of `shape`; say how to mend it."""
    if mask.dtype != torch.bool:
        raise TypeError(
            f"the mask must be bool with True = may look, got {mask.dtype}. From an additive mask write `mask == 0`."
        )
    axes = list(zip(reversed(mask.shape), reversed(shape), strict=False))
    if mask.dim() > len(shape) or any(m not in (1, s) for m, s in axes):
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not broadcast to the scores' (*batch, T_q, T_k) = {tuple(shape)}. "
            "A mask over keys alone needs a query axis of 1: `mask[..., None, :]`. Multi-head attention adds the axis of heads."
        )
