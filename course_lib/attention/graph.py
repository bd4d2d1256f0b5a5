"""Graph attention (GAT, GATv2): each node attends to its neighbours.

Veličković et al. 2018, *Graph Attention Networks*, eqs. 1, 3, 5 and 6 (https://arxiv.org/abs/1710.10903), with z = W h:

    e_ij = LeakyReLU(aᵀ [z_i ‖ z_j])        h'_i = ‖_k σ(Σ_j α_ij^k z_j^k)        or, in the last layer, σ(mean_k Σ_j …)

The halves of a act on i and on j separately, so that aᵀ [z_i ‖ z_j] = a_1ᵀ z_i + a_2ᵀ z_j is computed once for each
node. Since LeakyReLU is increasing, *every* node ranks its neighbours by a_2ᵀ z_j: this attention is static. Brody, Alon,
Yahav 2022, *How Attentive are Graph Attention Networks?*, eq. 7 (https://arxiv.org/abs/2105.14491), let the query decide:

    e_ij = aᵀ LeakyReLU(z_i + z_j)

which is Bahdanau's additive score with LeakyReLU instead of tanh.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention.core import Attended
from course_lib.attention.edge_attention import attend_edges
from course_lib.attention.multihead import merge_heads, split_heads
from course_lib.primitives.message_passing import require_edges
from course_lib.primitives.preconditions import of_tensors
from course_lib.shapes import Edges, Nodes, Scores

__all__ = [
    "DynamicGraphAttention",
    "GraphAttention",
    "average_heads",
    "dynamic_edge_scores",
    "gat_edge_scores",
    "gat_scores",
    "multi_head_graph_attention",
]


def gat_scores(z: Nodes, a: Float[Tensor, "*heads two_d"], slope: float = 0.2) -> Scores:
    """Score each pair of nodes by e_ij = LeakyReLU(aᵀ [z_i ‖ z_j]).

    Args:
        z: projected features (*batch, N, d); the last axis of the batch may be the heads.
        a: (*heads, 2 · d), a vector for each head, or one for all: its first half multiplies z_i, the second z_j.
        slope: of LeakyReLU below 0.

    Returns:
        scores (*batch, N, N): row i is the node that attends.

    Source: Veličković et al. 2018, eq. 3.
    """
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    from_query = z @ a_query
    from_key = z @ a_key
    return F.leaky_relu(from_query + from_key.mT, slope)


def gat_edge_scores(z: Nodes, a: Float[Tensor, "*heads two_d"], edges: Edges, slope: float = 0.2) -> Float[Tensor, "*batch E"]:
    """Compute the scores of `gat_scores` at the edges (2, E) alone, (*batch, E): N + E numbers instead of N²."""
    require_edges(edges, z.shape[-2])
    query, key = edges
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    from_query = (z @ a_query).squeeze(-1)
    from_key = (z @ a_key).squeeze(-1)
    return F.leaky_relu(from_query.index_select(-1, query) + from_key.index_select(-1, key), slope)


def dynamic_edge_scores(
    q: Nodes, k: Nodes, a: Float[Tensor, "*heads d"], edges: Edges, slope: float = 0.2
) -> Float[Tensor, "*batch E"]:
    """Score the edges by e_ij = aᵀ LeakyReLU(q_i + k_j): E scores, at a cost that grows with E and not with N².

    Args:
        q: of each node as a receiver (*batch, N, d); the last axis of the batch may be the heads.
        k: of each node as a sender (*batch, N, d).
        a: (*heads, d), a vector for each head, or one for all.
        edges: (2, E): node edges[0] receives from node edges[1].
        slope: of LeakyReLU below 0.

    Returns:
        scores (*batch, E), in the order of the edges.

    Source: Brody et al. 2022, eq. 7: W [h_i ‖ h_j] is q_i + k_j, with one half of W for each end.
    """
    require_edges(edges, q.shape[-2])
    receiver, sender = edges
    hidden = F.leaky_relu(q.index_select(-2, receiver) + k.index_select(-2, sender), slope)
    return (hidden @ a.unsqueeze(-1)).squeeze(-1)


def average_heads(x: Float[Tensor, "*batch h N d"]) -> Float[Tensor, "*batch N d"]:
    """Take the mean of the heads, as a last layer does: (*batch, h, N, d) -> (*batch, N, d). Veličković et al. 2018, eq. 6."""
    return x.mean(-3)


def multi_head_graph_attention(
    x: Nodes,
    W: Float[Tensor, "h_d d_in"],
    a: Float[Tensor, "h two_d"],
    edges: Edges,
    combine: Callable[[Tensor], Tensor] = merge_heads,
) -> Attended:
    """Attend from each node to its neighbours with several heads, and concatenate or average the heads.

    Args:
        x: features (*batch, N, d_in).
        W: (h · d, d_in), the projections of all heads, stacked row-wise; head k owns the rows k·d to (k+1)·d.
        a: (h, 2 · d), the vector of each head's scores: first half for the node that attends, second for the neighbour.
        edges: (2, E): node edges[0] attends to node edges[1].
        combine: how the heads' contexts (*batch, h, N, d) are combined: `merge_heads` or `average_heads`.

    Returns:
        context, (*batch, N, h · d) merged or (*batch, N, d) averaged, without the σ of the paper; weights (*batch, h, E).

    Source: Veličković et al. 2018, eqs. 3 to 6.
    """
    z = split_heads(x @ W.mT, len(a))
    scores = gat_edge_scores(z, a, edges)
    context, weights = attend_edges(scores, z, edges)
    return Attended(combine(context), weights)


GraphMechanism = Callable[[Nodes, Edges], Attended]
"""Any function or module `(z, edges) -> Attended`: projected features (*batch, h, N, d) in, weights (*batch, h, E) out."""


class GraphAttention(nn.Module):
    """The static mechanism of Veličković et al.: owns a (n_heads, 2 · d)."""

    def __init__(self, n_heads: int, d: int, form: Callable[..., Attended] = attend_edges) -> None:
        """Draw a as Glorot & Bengio 2010; `form` is `attend_edges`, or `csr_attend_edges` for a large graph."""
        super().__init__()
        self.form = form
        self.a = nn.Parameter(_glorot(n_heads, 2 * d))

    @of_tensors
    def forward(self, z: Nodes, edges: Edges) -> Attended:
        """Attend over the edges (2, E) of z (*batch, n_heads, N, d)."""
        return self.form(gat_edge_scores(z, self.a, edges), z, edges)


class DynamicGraphAttention(nn.Module):
    """The dynamic mechanism of Brody et al. (GATv2): owns a (n_heads, d)."""

    def __init__(self, n_heads: int, d: int, form: Callable[..., Attended] = attend_edges) -> None:
        """Draw a as Glorot & Bengio 2010; `form` is `attend_edges`, or `csr_attend_edges` for a large graph."""
        super().__init__()
        self.form = form
        self.a = nn.Parameter(_glorot(n_heads, d))

    @of_tensors
    def forward(self, z: Nodes, edges: Edges) -> Attended:
        """Attend over the edges (2, E) of z (*batch, n_heads, N, d)."""
        return self.form(dynamic_edge_scores(z, z, self.a, edges), z, edges)


def _glorot(n_heads: int, d: int) -> Tensor:
    """Draw n_heads vectors that take d features to one score, uniformly within ± √(6 / (d + 1))."""
    bound = (6 / (d + 1)) ** 0.5
    return torch.empty(n_heads, d).uniform_(-bound, bound)
