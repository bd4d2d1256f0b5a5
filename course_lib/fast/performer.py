"""Causal Performer in the memory of its inputs: its features are computed chunk by chunk, and none are stored."""

from course_lib.attention.core import ContextOnly
from course_lib.attention.performer import in_range, key_features, query_features
from course_lib.fast.linear import FeatureMaps, in_turn
from course_lib.primitives.kernels import Projection
from course_lib.shapes import Keys, Mask, Queries, Values

__all__ = ["lean_performer_attention"]


def lean_performer_attention(
    q: Queries, k: Keys, v: Values, mask: Mask | None = None, *, omega: Projection, chunk: int = 64
) -> ContextOnly:
    """Compute `causal_performer_attention`, with the directions `omega` (m, d_k), in the memory of its inputs.

    As `lean_linear_attention`, with the Performer's features of queries and of keys.
    """
    maps = FeatureMaps(query_features, key_features)
    return in_range(lambda values: in_turn(q, k, values, mask, maps, (omega,), chunk), q, k, v, mask)
