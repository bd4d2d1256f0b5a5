"""Attention = score → normalise → mix: the core, and one mechanism a file."""

from course_lib.attention.additive import AdditiveAttention, additive_scores
from course_lib.attention.arrows import Arrows, strongest_arrows
from course_lib.attention.cached import CachedStep, cached_step
from course_lib.attention.co_occurrent import CoOccurrent, co_occurrent_features
from course_lib.attention.core import Attended, Mechanism, attend
from course_lib.attention.edges import attend_edges, csr_attend_edges, dense_attend_edges, edge_softmax
from course_lib.attention.graph import (
    DynamicGraphAttention,
    GraphAttention,
    GraphMechanism,
    average_heads,
    dynamic_edge_scores,
    gat_edge_scores,
    gat_scores,
    multi_head_graph_attention,
    uniform_graph_attention,
)
from course_lib.attention.heads import HeadStatistics, head_statistics
from course_lib.attention.image import AttentionLayer2d, attention_over_image
from course_lib.attention.linear import (
    LinearAttention,
    causal_linear_attention,
    chunked_linear_attention,
    inplace_linear_attention_step,
    kernel_attention,
    linear_attention,
    linear_attention_step,
    recurrent_linear_attention,
)
from course_lib.attention.local import (
    LocalAttention,
    local_attention,
    relative_logits,
    sliced_local_attention,
    tiled_local_attention,
)
from course_lib.attention.multihead import MultiHead, cross_attention, merge_heads, multi_head_attention, split_heads
from course_lib.attention.multiplicative import (
    ConcatAttention,
    GeneralAttention,
    concat_scores,
    dot_attention,
    dot_scores,
    fused_dot_attention,
    general_scores,
)
from course_lib.attention.non_local import (
    NonLocal,
    NonLocalBlock,
    NonLocalConcatenation,
    associative_dot_product,
    fused_embedded_gaussian,
    non_local_block,
    non_local_concatenation,
    non_local_dot_product,
    non_local_embedded_gaussian,
    non_local_gaussian,
)
from course_lib.attention.performer import PerformerAttention, causal_performer_attention, performer_attention
from course_lib.attention.pooling import Pool, mean_pool, pool
from course_lib.attention.rollout import rollout
from course_lib.attention.scaled_dot_product import (
    causal_attention,
    fused_causal_attention,
    fused_scaled_dot_product_attention,
    scaled_dot_product_attention,
)

__all__ = [
    "AdditiveAttention",
    "Arrows",
    "Attended",
    "AttentionLayer2d",
    "CachedStep",
    "CoOccurrent",
    "ConcatAttention",
    "DynamicGraphAttention",
    "GeneralAttention",
    "GraphAttention",
    "GraphMechanism",
    "HeadStatistics",
    "LinearAttention",
    "LocalAttention",
    "Mechanism",
    "MultiHead",
    "NonLocal",
    "NonLocalBlock",
    "NonLocalConcatenation",
    "PerformerAttention",
    "Pool",
    "additive_scores",
    "associative_dot_product",
    "attend",
    "attend_edges",
    "attention_over_image",
    "average_heads",
    "cached_step",
    "causal_attention",
    "causal_linear_attention",
    "causal_performer_attention",
    "chunked_linear_attention",
    "co_occurrent_features",
    "concat_scores",
    "cross_attention",
    "csr_attend_edges",
    "dense_attend_edges",
    "dot_attention",
    "dot_scores",
    "dynamic_edge_scores",
    "edge_softmax",
    "fused_causal_attention",
    "fused_dot_attention",
    "fused_embedded_gaussian",
    "fused_scaled_dot_product_attention",
    "gat_edge_scores",
    "gat_scores",
    "general_scores",
    "head_statistics",
    "inplace_linear_attention_step",
    "kernel_attention",
    "linear_attention",
    "linear_attention_step",
    "local_attention",
    "mean_pool",
    "merge_heads",
    "multi_head_attention",
    "multi_head_graph_attention",
    "non_local_block",
    "non_local_concatenation",
    "non_local_dot_product",
    "non_local_embedded_gaussian",
    "non_local_gaussian",
    "performer_attention",
    "pool",
    "recurrent_linear_attention",
    "relative_logits",
    "rollout",
    "scaled_dot_product_attention",
    "sliced_local_attention",
    "split_heads",
    "strongest_arrows",
    "tiled_local_attention",
    "uniform_graph_attention",
]
