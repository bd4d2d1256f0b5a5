"""Message passing on graphs: edge lists, self-loops, the weights and the propagation of a GCN, and the Dirichlet energy.

A graph of N nodes is its list of edges, (2, E): node edges[0, e] = i receives a message from node edges[1, e] = j, so the
list contains the entries (query i, key j) where the mask of dense attention is True. An undirected graph lists both directions;
an edge listed twice counts twice.

Kipf & Welling 2017, *Semi-Supervised Classification with Graph Convolutional Networks*, eq. 2 (https://arxiv.org/abs/1609.02907):

    Â = D̃^-½ Ã D̃^-½        Ã = A + I        D̃_ii = Σ_j Ã_ij

Cai & Wang 2020, *A Note on Over-Smoothing for Graph Neural Networks*, section 2 (https://arxiv.org/abs/2006.13318):

    E(X) = ½ Σ_(i,j) ‖x_i - x_j‖² = tr(Xᵀ (D - A) X)        for an undirected graph

The energy of a large graph exceeds the range of float16: it is computed, and returned, in float32 or wider.
"""

from collections.abc import Callable
from functools import wraps

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.primitives.precision import in_float32_at_least
from course_lib.primitives.preconditions import of_tensors, requires, values_are_known
from course_lib.shapes import Edges, Nodes

__all__ = ["dirichlet_energy", "gcn_weights", "propagate", "require_edges", "with_self_loops"]

OfEdges = Callable[[Tensor, int], Tensor]
"""A function of edges (2, E) and the number of nodes."""


@of_tensors
def require_edges(edges: Edges, n_nodes: int) -> None:
    """Raise an error for edges that are not (2, E) integers, or that name a node outside 0 … n_nodes - 1."""
    if edges.dim() != 2 or edges.shape[0] != 2:
        raise ValueError(
            f"edges must be (2, E), first row receivers, second row senders; got {tuple(edges.shape)}. From pairs (E, 2) use "
            "`.mT`."
        )
    if edges.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"edges must be integers (indices of nodes); got {edges.dtype}.")
    if not edges.numel() or not values_are_known(edges):
        return
    lowest, highest = torch.stack(edges.aminmax()).tolist()  # one transfer from a GPU
    if lowest < 0 or highest >= n_nodes:
        raise ValueError(f"edges name nodes {lowest} to {highest}, but there are nodes 0 to {n_nodes - 1}.")


def _on_meta(shaped: Callable[[Tensor, int], Tensor]) -> Callable[[OfEdges], OfEdges]:
    """Let a function of edges return `shaped(edges, n_nodes)` on the device "meta", where torch cannot count."""

    def decorate(function: OfEdges) -> OfEdges:
        @of_tensors
        @wraps(function)
        def run(edges: Edges, n_nodes: int) -> Tensor:
            return (shaped if edges.is_meta else function)(edges, n_nodes)

        return run

    return decorate


@_on_meta(lambda edges, n_nodes: torch.cat([edges, edges.new_empty(2, n_nodes)], dim=1))  # as if no edge were a loop
def with_self_loops(edges: Edges, n_nodes: int) -> Int[Tensor, "2 E_looped"]:
    """Add missing self-loops, so that each node attends to itself: they are appended in the order of the nodes.

    Args:
        edges: (2, E).
        n_nodes: number of nodes, N.

    Returns:
        (2, E + number of nodes without a loop).
    """
    require_edges(edges, n_nodes)
    query, key = edges
    missing = torch.ones(n_nodes, dtype=torch.bool, device=edges.device)
    missing[query[query == key]] = False
    return torch.cat([edges, missing.nonzero().mT.expand(2, -1).to(edges.dtype)], dim=1)


@_on_meta(lambda edges, n_nodes: edges.new_empty(edges.shape[1], dtype=torch.float32))
def gcn_weights(edges: Edges, n_nodes: int) -> Float[Tensor, "E"]:
    """Compute the fixed weight of each edge (i, j) of a graph convolution, 1 / √(d_i d_j); d_i counts i in edges[0].

    Self-loops count as edges: for the Â of the paper, add them first with `with_self_loops`.

    Args:
        edges: (2, E); edges[0] are the receiving nodes.
        n_nodes: number of nodes, N; nodes may have no edge at all.

    Returns:
        (E,), float32, in the order of the edges; 0 if the neighbour j has no neighbours itself (d_j = 0).

    Raises:
        ValueError: an edge names a node that does not exist, or edges is not (2, E).
        TypeError: edges are not integers.

    Source: Kipf & Welling 2017, eq. 2.
    """
    require_edges(edges, n_nodes)
    query, key = edges
    degree = torch.bincount(query, minlength=n_nodes).float()
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    return scale[query] * scale[key]


def _require_weights(x: Nodes, edges: Edges, weights: Tensor) -> None:
    require_edges(edges, x.shape[-2])
    if weights.shape[-1:] != edges.shape[1:]:
        raise ValueError(f"each edge has one weight: got weights {tuple(weights.shape)} for {edges.shape[1]} edges.")


@requires(_require_weights)
def propagate(x: Nodes, edges: Edges, weights: Float[Tensor, "*shared E"]) -> Float[Tensor, "*both N d"]:
    """Sum the features of the neighbours of each node, weighted by the edges: Σ_j w_ij x_j, the product Â X.

    Args:
        x: features (*batch, N, d).
        edges: (2, E).
        weights: (*batch, E), or (E,) for the whole batch, such as those of `gcn_weights`. The two batches are broadcast: for
            many weightings of one graph's features, weights are (*batch, E) and x is (N, d).

    Returns:
        (*batch, N, d); 0 for a node without edges.

    Raises:
        ValueError: an edge names a node that does not exist, edges is not (2, E), or there is not one weight for each.
        TypeError: edges are not integers.

    Source: Kipf & Welling 2017, eq. 2.
    """
    query, key = edges
    messages = weights.unsqueeze(-1) * x.index_select(-2, key)
    wide = messages.to(torch.promote_types(messages.dtype, torch.float32))  # in bfloat16, a long sum stops growing
    sums = wide.new_zeros(*wide.shape[:-2], *x.shape[-2:])
    return sums.index_add(-2, query, wide).to(messages.dtype)


@in_float32_at_least
def dirichlet_energy(x: Nodes, edges: Edges) -> Float[Tensor, "*batch"]:
    """Measure how far apart the features of neighbours are: ½ Σ ‖x_i - x_j‖² over the edges (i, j).

    It is 0 if and only if all nodes of each connected component have the same features: the limit of over-smoothing.

    Args:
        x: features (*batch, N, d).
        edges: (2, E); of an undirected graph, both directions, so that ½ counts each pair once.

    Returns:
        (*batch,), one number ≥ 0 for each graph of the batch; 0 without edges.

    Raises:
        ValueError: an edge names a node that does not exist, or edges is not (2, E).
        TypeError: edges are not integers.

    Source: Cai & Wang 2020, section 2, applied to the features x_i; the paper applies it to x_i / √(1 + d_i).
    """
    require_edges(edges, x.shape[-2])
    query, key = edges
    difference = x[..., query, :] - x[..., key, :]
    return 0.5 * difference.square().sum((-2, -1))
