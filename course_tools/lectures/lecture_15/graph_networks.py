"""Graph networks that take the mixing function as an argument, so that the student's functions can be trained.

TwoLayerGAT(d_in, 8, n_out, multi_head_graph_attention)          # Veličković et al. 2018, section 3.3
TwoLayerGCN(d_in, 32, n_out, gcn_weights)                        # Kipf & Welling 2017, eq. 9
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.analysis import record
from course_lib.attention import (
    Attended,
    DynamicGraphAttention,
    average_heads,
    merge_heads,
    split_heads,
    uniform_graph_attention,
)
from course_lib.attention.graph import GraphMechanism
from course_lib.models import GATLayer
from course_lib.primitives import propagate, with_self_loops


class TwoLayerGAT(nn.Module):
    """Two layers of graph attention, an ELU between them; every node also attends to itself.

    The weights are W_1 and a_1 of the first layer, W_2 and a_2 of the second.
    """

    def __init__(self, d_in: int, d: int, n_out: int, attend: Callable[..., Attended], n_heads: int = 4) -> None:
        """Create the weights.

        Args:
            d_in: features of a node.
            d: features of a head of the hidden layer.
            n_out: outputs for each node.
            attend: `multi_head_graph_attention`.
            n_heads: heads of each layer.
        """
        super().__init__()
        self.attend = attend
        shapes = ((n_heads * d, d_in), (n_heads, 2 * d), (n_heads * n_out, n_heads * d), (n_heads, 2 * n_out))
        drawn = (nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape))) for shape in shapes)
        self.W_1, self.a_1, self.W_2, self.a_2 = drawn

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Compute outputs (N, n_out) from x (N, d_in) and edges (2, E)."""
        edges = with_self_loops(edges, len(x))
        hidden = F.elu(self.attend(x, self.W_1, self.a_1, edges, merge_heads).context.to(x.dtype))
        return self.attend(hidden, self.W_2, self.a_2, edges, average_heads).context.to(x.dtype)


class TwoLayerGCN(nn.Module):
    """Two graph convolutions, a ReLU between them."""

    def __init__(self, d_in: int, d: int, n_out: int, edge_weights: Callable[[Tensor, int], Tensor]) -> None:
        """Create layers for d_in features per node, d hidden units and n_out outputs; `edge_weights` is `gcn_weights`."""
        super().__init__()
        self.W_1, self.W_2 = nn.Linear(d_in, d, bias=False), nn.Linear(d, n_out, bias=False)
        self.edge_weights = edge_weights

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Compute outputs (N, n_out) from x (N, d_in) and edges (2, E)."""
        edges = with_self_loops(edges, len(x))
        weights = self.edge_weights(edges, len(x)).to(x)
        hidden = F.relu(propagate(self.W_1(x), edges, weights))
        return propagate(self.W_2(hidden), edges, weights)


def uniform(n_heads: int, d: int) -> GraphMechanism:
    """Return the control for `GAT` and `GATLayer`: attention whose weights are the same for all neighbours."""
    return uniform_graph_attention


class DynamicAttention(nn.Module):
    """The mechanism of GATv2 with a given score function: owns a (n_heads, d), drawn as in the library's mechanism."""

    def __init__(
        self, n_heads: int, d: int, scores: Callable[[Tensor, Tensor, Tensor], Tensor], attend: Callable[..., Attended]
    ) -> None:
        """Create a for n_heads heads of size d; `scores` is `dynamic_edge_scores`, `attend` is `attend_edges`."""
        super().__init__()
        self.a = DynamicGraphAttention(n_heads, d).a
        self.scores, self.attend = scores, attend

    def forward(self, z: Tensor, edges: Tensor) -> Attended:
        """Attend over the edges (2, E) of z (*batch, n_heads, N, d)."""
        return self.attend(self.scores(z, self.a, edges), z, edges)


class LookupGAT(nn.Module):
    """One layer over the edges, then a linear read-out at every node."""

    def __init__(self, mechanism: Callable[[int, int], GraphMechanism], d_in: int, n_heads: int = 1, d: int = 32) -> None:
        """Create layers for d_in features, n_heads heads of size d, and eight values."""
        super().__init__()
        self.layer, self.read_out = GATLayer(d_in, d, n_heads, mechanism), nn.Linear(n_heads * d, 8)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Compute logits (N, 8) from x (N, d_in) and edges (2, E)."""
        return self.read_out(F.elu(self.layer(x, edges).context))


class UniformLookup(nn.Module):
    """Uniform attention with a layer before it, the node's own features concatenated to it, and two layers after that."""

    def __init__(self, d_in: int, d: int = 32) -> None:
        """Create layers for d_in features, d hidden units and eight values."""
        super().__init__()
        self.before, self.layer = nn.Linear(d_in, d), GATLayer(d, d, 1, uniform)
        self.after = nn.Sequential(nn.Linear(2 * d, d), nn.ReLU(), nn.Linear(d, 8))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Compute logits (N, 8) from x (N, d_in) and edges (2, E)."""
        own = F.relu(self.before(x))
        return self.after(torch.cat([own, self.layer(own, edges).context], dim=-1))


@torch.no_grad()
def attends_to_answer(model: LookupGAT, x: Tensor, edges: Tensor, is_answer: Tensor) -> float:
    """Compute the fraction of nodes whose largest weight is on the neighbour that has the answer.

    Args:
        model: with one head.
        x: features (N, d_in).
        edges: (2, E), eight in a row for each node that attends.
        is_answer: (E,), largest at the edge to the neighbour with the answer.
    """
    with record(model) as seen:
        model(x, edges)
    largest = seen["layer"][0].weights[0].view(-1, 8).argmax(-1)
    return (largest == is_answer.view(-1, 8).argmax(-1)).float().mean().item()


class _GraphLayer(nn.Module):
    """A linear map of a node's own features, plus the context of its neighbours; then batch norm and ELU."""

    def __init__(self, d_in: int, d: int, mechanism: Callable[[int, int], GraphMechanism]) -> None:
        """Create layers for d_in features, and four heads with d features in total."""
        super().__init__()
        self.own, self.layer = nn.Linear(d_in, d), GATLayer(d_in, d // 4, 4, mechanism)
        self.norm = nn.BatchNorm1d(d)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Compute features (N, d) from x (N, d_in) and edges (2, E)."""
        return F.elu(self.norm(self.own(x) + self.layer(x, edges).context))


class GraphClassifier(nn.Module):
    """Two layers over the edges, a readout, and a linear layer.

    The readout is attention from each graph to its nodes, concatenated with the sum of the nodes.
    """

    def __init__(
        self, mechanism: Callable[[int, int], GraphMechanism], attend: Callable[..., Attended], d_in: int = 26, d: int = 32
    ) -> None:
        """Create layers for ten classes.

        Args:
            mechanism: creates the attention over the edges from (n_heads, d); see `GATLayer`.
            attend: `attend_edges`, for the readout, which has four heads.
            d_in: features of a node.
            d: features of a hidden layer.
        """
        super().__init__()
        self.layers = nn.ModuleList(_GraphLayer(size, d, mechanism) for size in (d_in, d))
        self.attend, self.score = attend, nn.Linear(d, 4)
        self.classes = nn.Sequential(nn.BatchNorm1d(2 * d), nn.Linear(2 * d, 10))

    def forward(self, graphs: tuple[Tensor, Tensor, Tensor, int]) -> Tensor:
        """Compute logits (n_graphs, 10).

        Args:
            graphs: edges (2, E), features (N, d_in), members (2, N) as edges from graph to node, and n_graphs.
        """
        edges, x, members, n_graphs = graphs
        edges = with_self_loops(edges, len(x))
        for layer in self.layers:
            x = layer(x, edges)
        attended = merge_heads(self.attend(self.score(x).mT, split_heads(x, 4), members).context)
        total = propagate(x, members, x.new_ones(len(x)))
        return self.classes(torch.cat([attended.to(total), total], dim=1)[:n_graphs])
