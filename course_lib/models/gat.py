"""A graph attention network: layers of attention from each node to itself and its neighbours.

Veličković et al. 2018, *Graph Attention Networks*, section 2.1 and section 3.3 (https://arxiv.org/abs/1710.10903):

    h' = ELU(‖_k Σ_(j ∈ 𝒩_i) α_ij^k W^k h_j)        logits = mean_k Σ_(j ∈ 𝒩_i) α_ij^k W^k h_j        with i ∈ 𝒩_i

Dropout, if asked for, acts on the input of each layer and on the attention weights, as in section 3.3 (p = 0.6 for citation
networks). The skip connection of the paper's largest model is left out.
"""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention import Attended, GraphAttention, average_heads, merge_heads, split_heads
from course_lib.attention.graph import GraphMechanism
from course_lib.primitives import propagate, with_self_loops
from course_lib.shapes import Edges, Nodes

__all__ = ["GAT", "GATLayer"]


class GATLayer(nn.Module):
    """Project, attend over the edges by a mechanism, combine the heads: owns W (n_heads · d, d_in)."""

    def __init__(
        self,
        d_in: int,
        d: int,
        n_heads: int,
        mechanism: Callable[[int, int], GraphMechanism] = GraphAttention,
        combine: Callable[[Tensor], Tensor] = merge_heads,
        dropout: float = 0.0,
    ) -> None:
        """Set up the projection and the mechanism.

        Args:
            d_in: features of a node.
            d: features of a head.
            n_heads: number of heads.
            mechanism: makes the attention from (n_heads, d): `GraphAttention` or `DynamicGraphAttention`.
            combine: `merge_heads` for n_heads · d features, `average_heads` for d.
            dropout: probability with which, in training, a feature of the input and an attention weight are set to 0.
        """
        super().__init__()
        self.n_heads = n_heads
        self.W = nn.Linear(d_in, n_heads * d, bias=False)
        nn.init.xavier_uniform_(self.W.weight)
        self.mechanism = mechanism(n_heads, d)
        self.combine = combine
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Nodes, edges: Edges) -> Attended:
        """Mix x (*batch, N, d_in) over the edges (2, E) as they are; weights (*batch, n_heads, E)."""
        z = split_heads(self.W(self.dropout(x)), self.n_heads)
        context, weights = self.mechanism(z, edges)
        if self.training and self.dropout.p > 0:
            weights = self.dropout(weights)
            context = propagate(z, edges, weights)
        return Attended(self.combine(context), weights)


class GAT(nn.Module):
    """Layers of merged heads with an ELU after each, and a last layer whose heads are averaged."""

    def __init__(
        self,
        d_in: int,
        d_head: int,
        n_out: int,
        n_heads: int = 8,
        n_layers: int = 2,
        mechanism: Callable[[int, int], GraphMechanism] = GraphAttention,
        dropout: float = 0.0,
    ) -> None:
        """Set up the layers.

        Args:
            d_in: features of a node.
            d_head: features of a head of the hidden layers.
            n_out: outputs for each node, such as the logits of its classes.
            n_heads: heads of each layer.
            n_layers: number of layers, and so of the steps from which a node receives information.
            mechanism: makes the attention from (n_heads, d); see `GATLayer`. For a large graph:
                `partial(GraphAttention, form=csr_attend_edges)`.
            dropout: probability with which, in training, a feature of a layer's input and an attention weight are set to 0.

        Raises:
            ValueError: there is no layer.
        """
        super().__init__()
        if n_layers < 1:
            raise ValueError(f"a network needs at least one layer, got n_layers = {n_layers}.")
        layer = partial(GATLayer, n_heads=n_heads, mechanism=mechanism, dropout=dropout)
        sizes = [d_in] + [n_heads * d_head] * (n_layers - 1)
        hidden = [layer(size, d_head) for size in sizes[:-1]]
        self.layers = nn.ModuleList([*hidden, layer(sizes[-1], n_out, combine=average_heads)])

    def forward(self, x: Nodes, edges: Edges) -> Float[Tensor, "*batch N n_out"]:
        """Return outputs (*batch, N, n_out) from x (*batch, N, d_in); a node attends along the edges (2, E) and to itself."""
        edges = with_self_loops(edges, x.shape[-2])
        for layer in self.layers[:-1]:
            x = F.elu(layer(x, edges).context)
        return self.layers[-1](x, edges).context
