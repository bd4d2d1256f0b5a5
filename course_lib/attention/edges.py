"""`attend` over the edges of a graph: a softmax for each node that looks, over the few it looks at.

Veličković et al. 2018, *Graph Attention Networks*, eqs. 2 and 4 (https://arxiv.org/abs/1710.10903), where 𝒩_i are the nodes at
which node i looks:

    α_ij = exp(e_ij) / Σ_(k ∈ 𝒩_i) exp(e_ik)        h'_i = Σ_(j ∈ 𝒩_i) α_ij v_j

It is the masked attention of `attend` with the mask written as a list: time and memory go with the edges, not with N².
"""

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.attention.core import Attended
from course_lib.primitives.graphs import require_edges
from course_lib.shapes import Edges, Nodes


def edge_softmax(scores: Float[Tensor, "*batch E"], edges: Edges, n_nodes: int) -> Float[Tensor, "*batch E"]:
    """Normalise the scores of the edges: the edges of one looking node share a weight of 1.

    Args:
        scores: (*batch, E), a real number for each edge, however large.
        edges: (2, E); edges[0] are the nodes that look, in any order.
        n_nodes: number of nodes, N.

    Returns:
        weights (*batch, E), ≥ 0, in the order of the edges; those with the same edges[0] sum to 1.

    Raises:
        ValueError: an edge names a node that is not there, or edges is not (2, E).
        TypeError: edges are not integers.

    Source: Veličković et al. 2018, eq. 2.
    """
    require_edges(edges, n_nodes)
    query = edges[0].long().expand(scores.shape)
    wide = torch.promote_types(scores.dtype, torch.float32)  # in bfloat16, a sum of ones stops growing at 256
    largest = scores.new_full((*scores.shape[:-1], n_nodes), -torch.inf).scatter_reduce(-1, query, scores.detach(), "amax")
    exponentials = (scores - largest.gather(-1, query)).to(wide).exp()
    sums = exponentials.new_zeros(largest.shape).scatter_add(-1, query, exponentials)
    return (exponentials / sums.gather(-1, query)).to(scores.dtype)


def attend_edges(scores: Float[Tensor, "*batch E"], values: Nodes, edges: Edges) -> Attended:
    """Normalise the scores over the edges of each node, and mix the values of the nodes at their other ends.

    Args:
        scores: (*batch, E), a real number for each edge.
        values: (*batch, N, d_v), what each node hands over.
        edges: (2, E): node edges[0] looks at node edges[1].

    Returns:
        context (*batch, N, d_v), 0 for a node that looks nowhere, and weights (*batch, E), in the order of the edges.

    Raises:
        ValueError: an edge names a node that is not there, or edges is not (2, E).
        TypeError: edges are not integers.

    Source: Veličković et al. 2018, eqs. 2 and 4.
    """
    query, key = edges
    weights = edge_softmax(scores, edges, values.shape[-2])
    messages = weights.unsqueeze(-1) * values.index_select(-2, key)
    wide = messages.to(torch.promote_types(messages.dtype, torch.float32))
    context = wide.new_zeros(values.shape).index_add(-2, query, wide)
    return Attended(context.to(messages.dtype), weights)
