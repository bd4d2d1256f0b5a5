"""Attention over the edges of a large graph by sparse matrix products, in compressed sparse rows (CSR)."""

import warnings
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.attention.core import Attended
from course_lib.attention.edge_attention import attend_edges, over_one_batch, require_scores
from course_lib.primitives.precision import float32_under_autocast
from course_lib.primitives.preconditions import under_transform
from course_lib.shapes import Edges, Nodes

__all__ = ["csr_attend_edges"]


@float32_under_autocast
@over_one_batch
def csr_attend_edges(scores: Float[Tensor, "*batch E"], values: Nodes, edges: Edges) -> Attended:
    """Compute `attend_edges` by sparse matrix products, with its own backward pass: the form for large graphs.

    No tensor of size E · d_v is built: the mixing is one sparse product for each head, its gradient one with the transposed
    matrix, and the gradient of the weights a product at the edges alone. Second derivatives are those of `attend_edges`. In
    half precision it computes in float32. Apple's MPS and `torch.func` support no sparse products: there it is `attend_edges`.
    """
    require_scores(scores, edges, values.shape[-2])
    unsupported = edges.device.type in ("mps", "meta") or under_transform(scores, values)
    if unsupported or not scores.numel() or not values.numel():
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
        if (
            len(rows) > values.shape[-2] ** 2
        ):  # edges occur several times: sampled_addmm takes no more entries than a matrix has
            pull = (of_context @ values.mT)[..., rows, keys]
        else:
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
