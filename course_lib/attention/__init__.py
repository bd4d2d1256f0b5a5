"""Attention = score → normalise → mix: the core, and one mechanism a file."""

from course_lib.attention.additive import AdditiveAttention, additive_scores
from course_lib.attention.core import Attended, Mechanism, attend
from course_lib.attention.edges import attend_edges, edge_softmax
from course_lib.attention.graph import (
    average_heads,
    dynamic_edge_scores,
    gat_edge_scores,
    gat_scores,
    multi_head_graph_attention,
)
from course_lib.attention.image import AttentionLayer2d, attention_over_image
from course_lib.attention.multihead import MultiHead, merge_heads, multi_head_attention, split_heads
from course_lib.attention.multiplicative import (
    ConcatAttention,
    GeneralAttention,
    concat_scores,
    dot_attention,
    dot_scores,
    general_scores,
)
from course_lib.attention.scaled_dot_product import (
    causal_attention,
    fused_causal_attention,
    fused_scaled_dot_product_attention,
    scaled_dot_product_attention,
)

__all__ = [
    "AdditiveAttention",
    "Attended",
    "AttentionLayer2d",
    "ConcatAttention",
    "GeneralAttention",
    "Mechanism",
    "MultiHead",
    "additive_scores",
    "attend",
    "attend_edges",
    "attention_over_image",
    "average_heads",
    "causal_attention",
    "concat_scores",
    "dot_attention",
    "dot_scores",
    "dynamic_edge_scores",
    "edge_softmax",
    "fused_causal_attention",
    "fused_scaled_dot_product_attention",
    "gat_edge_scores",
    "gat_scores",
    "general_scores",
    "merge_heads",
    "multi_head_attention",
    "multi_head_graph_attention",
    "scaled_dot_product_attention",
    "split_heads",
]
