"""Grouped-query attention (GQA): several heads of queries share one head of keys and values, and so a smaller cache.

Ainslie et al. 2023, *GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints*, section 2.2
(https://arxiv.org/abs/2305.13245). h heads of queries form g groups of neighbours, each with one head of keys and values:

    head_i = softmax(Q_i K_jᵀ / √d_k) V_j        j = ⌊i g / h⌋,  i = 0 … h - 1

g = h is multi-head attention, and g = 1 is multi-query attention (Shazeer 2019, *Fast Transformer Decoding*,
https://arxiv.org/abs/1911.02150). A token takes 2 g d_k numbers in the cache of a layer, not 2 h d_k.

    MultiHead(64, 8, GroupedQueryAttention(causal_attention), n_groups=2)

projects to 8 heads of queries and 2 of keys and values, and caches these 2.
"""

from torch import nn

from course_lib.attention.core import AnyMechanism, Attended, ContextOnly, require_mechanism, shown
from course_lib.attention.dot_product import causal_attention, scaled_dot_product_attention
from course_lib.primitives.preconditions import of_tensors, requires
from course_lib.shapes import GroupKeys, GroupValues, Mask, Queries

__all__ = ["GroupedQueryAttention", "grouped_query_attention"]


def _require_groups(q: Queries, k: GroupKeys, v: GroupValues, mask: Mask | None = None) -> None:
    """Raise a ValueError unless each head of keys and values serves equally many heads of queries."""
    heads = [x.shape[-3] if x.dim() > 2 else 0 for x in (q, k, v)]
    if 0 in heads or heads[1] != heads[2] or heads[0] % heads[1]:
        raise ValueError(
            "grouped queries need heads of queries in equal groups, one for each head of keys and values: "
            f"got queries {tuple(q.shape)}, keys {tuple(k.shape)} and values {tuple(v.shape)}, where the heads are axis -3."
        )


@of_tensors
@requires(_require_groups)
def grouped_query_attention(q: Queries, k: GroupKeys, v: GroupValues, mask: Mask | None = None) -> Attended:
    """Attend by scaled dot products, each group of query heads to its own head of keys.

    Args:
        q: queries (*batch, h, T_q, d_k).
        k: keys (*batch, g, T_k, d_k); g divides h.
        v: values (*batch, g, T_k, d_v).
        mask: bool, broadcastable to (*batch, h, T_q, T_k); True = may attend.

    Returns:
        context (*batch, h, T_q, d_v) and weights (*batch, h, T_q, T_k).

    Raises:
        ValueError: g does not divide h, keys and values differ in g, or as `scaled_dot_product_attention`.

    Source: Ainslie et al. 2023, section 2.2.
    """
    n_queries = q.shape[-3] // k.shape[-3]  # heads of queries in a group
    k, v = (x.repeat_interleave(n_queries, dim=-3) for x in (k, v))
    return scaled_dot_product_attention(q, k, v, mask)


class GroupedQueryAttention(nn.Module):
    """A mechanism whose h heads of queries share g heads of keys and values, for `MultiHead(…, n_groups=g)`.

    Where the mechanism keeps a state, it goes outside: `RotaryAttention(8, GroupedQueryAttention(causal_attention))` caches the
    g heads.
    """

    def __init__(self, mechanism: AnyMechanism = causal_attention) -> None:
        """Set the mechanism that attends in each head, such as `causal_attention` or `fused_causal_attention`."""
        super().__init__()
        require_mechanism(mechanism)
        self.mechanism = mechanism

    def extra_repr(self) -> str:
        """Show a mechanism that is a function."""
        return shown(self.mechanism)

    @property
    def causal(self) -> bool:
        """Whether the mechanism inside is causal."""
        return getattr(self.mechanism, "causal", False)

    @of_tensors
    def forward(self, q: Queries, k: GroupKeys, v: GroupValues, mask: Mask | None = None) -> Attended | ContextOnly:
        """Attend from q (*batch, h, T_q, d_k) over k (*batch, g, T_k, d_k) and v (*batch, g, T_k, d_v).

        Raises:
            ValueError: g does not divide h, keys and values differ in g, or as the mechanism.
        """
        _require_groups(q, k, v)
        n_queries = q.shape[-3] // k.shape[-3]
        k, v = (x.repeat_interleave(n_queries, dim=-3) for x in (k, v))
        return self.mechanism(q, k, v, mask)
