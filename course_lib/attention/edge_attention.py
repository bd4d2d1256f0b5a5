"""Sparse attention over the edges of a graph: a softmax for each node over its neighbours.

Veličković et al. 2018, *Graph Attention Networks*, eqs. 2 and 4 (https://arxiv.org/abs/1710.10903), where 𝒩_i are the
neighbours that node i attends to:

    α_ij = exp(e_ij) / Σ_(k ∈ 𝒩_i) exp(e_ik)        h'_i = Σ_(j ∈ 𝒩_i) α_ij v_j

This is `attend` with the mask as a list of edges: time and memory are linear in the edges, not quadratic in the nodes.
The batch axes of scores and values broadcast, in each form; weights have those of the scores.
"""

import warnings
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.attention.core import Attended, attend
from course_lib.primitives.message_passing import require_edges
from course_lib.primitives.precision import float32_under_autocast
from course_lib.shapes import Edges, Nodes

OverEdges = Callable[[Tensor, Tensor, Tensor], Attended]
"""A form of `attend_edges`."""


def over_one_batch(form: OverEdges) -> OverEdges:
    """Extend a form for scores and values of one batch shape to those whose batch axes broadcast."""

    @wraps(form)
    def run(scores: Float[Tensor, "*batch E"], values: Nodes, edges: Edges) -> Attended:
        batch = torch.broadcast_shapes(scores.shape[:-1], values.shape[:-2])
        context, weights = form(scores.expand(*batch, -1), values.expand(*batch, -1, -1), edges)
        wider = len(batch) + 1 - scores.dim()
        return Attended(context, weights[(0,) * wider][tuple(map(slice, scores.shape))])  # one weight for each score

    return run


def edge_softmax(scores: Float[Tensor, "*batch E"], edges: Edges, n_nodes: int) -> Float[Tensor, "*batch E"]:
    """Normalise the scores of the edges by a softmax: the weights of one node's edges sum to 1.

    Args:
        scores: (*batch, E), a real number for each edge, however large.
        edges: (2, E); edges[0] are the nodes that attend, in any order.
        n_nodes: number of nodes, N.

    Returns:
        weights (*batch, E), ≥ 0, in the order of the edges; those with the same edges[0] sum to 1.

    Raises:
        ValueError: an edge names a node that does not exist, or edges is not (2, E).
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


@over_one_batch
def attend_edges(scores: Float[Tensor, "*batch E"], values: Nodes, edges: Edges) -> Attended:
    """Normalise the scores over the edges of each node, and mix the values of its neighbours.

    Args:
        scores: (*batch, E), a real number for each edge.
        values: (*batch, N, d_v), of each node.
        edges: (2, E): node edges[0] attends to node edges[1].

    Returns:
        context (*batch, N, d_v), 0 for a node without edges, and weights (*batch, E), in the order of the edges.

    Raises:
        ValueError: an edge names a node that does not exist, or edges is not (2, E).
        TypeError: edges are not integers.

    Source: Veličković et al. 2018, eqs. 2 and 4.
    """
    weights = edge_softmax(scores, edges, values.shape[-2])
    query, key = edges
    messages = weights.unsqueeze(-1) * values.index_select(-2, key)
    wide = messages.to(torch.promote_types(messages.dtype, torch.float32))
    context = wide.new_zeros(values.shape).index_add(-2, query, wide)
    return Attended(context.to(messages.dtype), weights)


def dense_attend_edges(scores: Float[Tensor, "*batch E"], values: Nodes, edges: Edges) -> Attended:
    """Compute `attend_edges` by `attend` under a mask (N, N): the definition, with time and memory quadratic in N.

    An edge listed several times is one entry of the matrix, with the logarithm of the sum of its exponentials.
    """
    n_nodes = values.shape[-2]
    require_edges(edges, n_nodes)
    query, key = edges
    entry = (query * n_nodes + key).long().expand(scores.shape)
    empty = scores.new_full((*scores.shape[:-1], n_nodes**2), -torch.inf)
    largest = empty.scatter_reduce(-1, entry, scores.detach(), "amax")
    above = (scores - largest.gather(-1, entry)).exp()
    joint = torch.zeros_like(empty).scatter_add(-1, entry, above)
    mask = torch.zeros(n_nodes**2, dtype=torch.bool, device=edges.device).index_fill(0, entry.flatten()[: query.numel()], True)
    matrix = (largest + joint.log()).unflatten(-1, (n_nodes, n_nodes))
    context, weights = attend(matrix, values, mask.view(n_nodes, n_nodes))
    return Attended(context, weights.flatten(-2).gather(-1, entry) * above / joint.gather(-1, entry))


@float32_under_autocast
@over_one_batch
def csr_attend_edges(scores: Float[Tensor, "*batch E"], values: Nodes, edges: Edges) -> Attended:
    """Compute `attend_edges` by sparse matrix products, with its own backward pass: the form for large graphs.

    No tensor of size E · d_v is built: the mixing is one sparse product for each head, its gradient one with the transposed
    matrix, and the gradient of the weights a product at the edges alone. Second derivatives are those of
    `attend_edges`. In half precision it computes in float32. Apple's MPS has no sparse products: there it is `attend_edges`.
    """
    require_edges(edges, values.shape[-2])
    if scores.shape[-1] != edges.shape[1]:
        raise ValueError(f"one score for each edge: got {scores.shape[-1]} scores and {edges.shape[1]} edges.")
    if not scores.numel() or not values.numel() or edges.device.type == "mps":
        return attend_edges(scores, values, edges)
    mixed = torch.promote_types(scores.dtype, values.dtype)
    wide = torch.promote_types(mixed, torch.float32)
    flat_scores, flat_values = scores.reshape(-1, scores.shape[-1]), values.reshape(-1, *values.shape[-2:])
    context, weights = _OverRows.apply(flat_scores.to(wide), flat_values.to(wide), edges.int())
    return Attended(context.view(values.shape).to(mixed), weights.view(scores.shape).to(scores.dtype))


class _OverRows(torch.autograd.Function):
    """Softmax and mixing over the rows of a sparse matrix, one for each head; the edges are sorted once in each direction."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, values: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        n_nodes = values.shape[-2]
        starts, keys, order = _by_rows(edges[0], edges[1], n_nodes)
        rows = edges[0].index_select(0, order)
        offsets = starts.long().expand(len(scores), -1)
        weights = scores.index_select(-1, order)
        weights = (weights - torch.segment_reduce(weights, "max", offsets=offsets, axis=1).index_select(-1, rows)).exp_()
        weights = weights / torch.segment_reduce(weights, "sum", offsets=offsets, axis=1).index_select(-1, rows)
        context = torch.stack([_csr(starts, keys, w) @ v for w, v in zip(weights, values, strict=True)])
        ctx.save_for_backward(weights, values, context, starts, keys, order, rows, scores, edges)
        return context, torch.empty_like(weights).index_copy_(-1, order, weights)

    @staticmethod
    @float32_under_autocast
    def backward(ctx: Any, of_context: Tensor | None, of_weights: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        weights, values, context, starts, keys, order, rows, scores, edges = ctx.saved_tensors
        if torch.is_grad_enabled():
            of_scores, of_values = _differentiable_gradients(scores, values, edges, of_context, of_weights)
            return of_scores, of_values, None
        of_context = torch.zeros_like(context) if of_context is None else of_context.contiguous()
        at_edges = _csr(starts, keys, torch.zeros_like(weights[0]))
        pairs = zip(of_context, values, strict=True)
        pull = torch.stack([torch.sparse.sampled_addmm(at_edges, g, v.mT, beta=0.0).values() for g, v in pairs])
        mean_pull = (of_context * context).sum(-1)
        if of_weights is not None:
            direct = of_weights.index_select(-1, order)
            pull = pull + direct
            mean_pull = mean_pull.index_add(-1, rows, weights * direct)
        of_scores = torch.empty_like(weights).index_copy_(-1, order, weights * (pull - mean_pull.index_select(-1, rows)))
        starts, queries, turned = _by_rows(keys, rows, values.shape[-2])
        pairs = zip(weights.index_select(-1, turned), of_context, strict=True)
        return of_scores, torch.stack([_csr(starts, queries, w) @ g for w, g in pairs]), None


def _differentiable_gradients(
    scores: Tensor, values: Tensor, edges: Tensor, of_context: Tensor | None, of_weights: Tensor | None
) -> list[Tensor | None]:
    """Return the gradients at scores and values by autograd of `attend_edges`, with a graph for second derivatives."""
    inputs = [x for x in (scores, values) if x.requires_grad]
    outputs = [
        (x, g) for x, g in zip(attend_edges(scores, values, edges), (of_context, of_weights), strict=True) if g is not None
    ]
    reached = [(x, g) for x, g in outputs if x.requires_grad]
    found = torch.autograd.grad([x for x, _ in reached], inputs, [g for _, g in reached], create_graph=True, allow_unused=True)
    gradients = dict(zip(map(id, inputs), found, strict=True))
    return [gradients.get(id(x)) for x in (scores, values)]


def _by_rows(rows: Tensor, columns: Tensor, n_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sort edges by their rows: the start of each row, (N + 1,), the columns in that order, and the order itself, both (E,)."""
    order = rows.argsort(stable=True)
    starts = torch.bincount(rows, minlength=n_nodes).cumsum(0, dtype=torch.int32)
    return torch.cat([starts.new_zeros(1), starts]), columns.index_select(0, order), order


def _csr(starts: Tensor, columns: Tensor, weights: Tensor) -> Tensor:
    """Make a sparse (N, N) matrix in compressed rows."""
    _silence_sparse_csr_warning()
    n_nodes = len(starts) - 1
    return torch.sparse_csr_tensor(starts, columns, weights, (n_nodes, n_nodes), check_invariants=False)


@cache
def _silence_sparse_csr_warning() -> None:
    """Trigger, and suppress, torch's warnings about sparse CSR tensors; each comes once in a process.

    One says that they are in beta state; the other, which torch 2.11 gives despite `check_invariants=False`, that their
    invariants are not checked.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        starts = torch.tensor([0, 0])
        torch.sparse_csr_tensor(starts, starts[:0], torch.zeros(0), (1, 1), check_invariants=False)
