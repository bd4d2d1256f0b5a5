"""Relative positional attention of Transformer-XL by one product and a shift of its rows.

Dai et al. 2019, *Transformer-XL*, appendix B (https://arxiv.org/abs/1901.02860): each query is multiplied by the vectors of all
T_k distances, and row i of the products is shifted into place. No vector is looked up for each pair of positions.
"""

import math

import torch.nn.functional as F

from course_lib.attention.core import Attended, attend, causal_and, without_overflow
from course_lib.attention.relative import Distances, HeadBias, require_distances
from course_lib.shapes import Keys, Mask, Queries, Scores, Values

__all__ = ["shifted_relative_attention"]


@without_overflow
def shifted_relative_attention(
    q: Queries, k: Keys, v: Values, r: Distances, bias_u: HeadBias, bias_v: HeadBias, mask: Mask | None = None
) -> Attended:
    """Compute `relative_attention` with one product of queries (*batch, T_q, d_k) and distances (*heads, T_k, d_k)."""
    require_distances(k, r)
    allowed = causal_and(mask, q, k)
    by_content = (q + bias_u.unsqueeze(-2)) @ k.mT
    by_distance = relative_shift((q + bias_v.unsqueeze(-2)) @ r.flip(-2).mT)
    return attend((by_content + by_distance) / math.sqrt(k.shape[-1]), v, allowed)


def relative_shift(x: Scores) -> Scores:
    """Shift row i of products by distance to the left by T_q - 1 - i columns, so that column j belongs to key j.

    Args:
        x: (*batch, T_q, T_k), column c for the distance T_k - 1 - c.

    Returns:
        (*batch, T_q, T_k), column j for the distance of query i and key j. If key j is later than the query, there is no
        such distance, and the number is arbitrary.

    Source: Dai et al. 2019, appendix B: a column of zeros is put in front, and the rows are cut again.
    """
    *batch, T_q, T_k = x.shape
    return F.pad(x, (1, 0)).reshape(*batch, T_k + 1, T_q)[..., 1:, :].reshape(*batch, T_q, T_k)
