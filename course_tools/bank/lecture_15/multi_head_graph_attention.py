"""Exercise 15.4, multi_head_graph_attention: what students answer, wrong and right."""

import torch
import torch.nn.functional as F
from einops import rearrange

from course_lib.attention import average_heads, multi_head_graph_attention
from course_lib.attention.core import Attended, attend
from course_lib.attention.edge_attention import attend_edges
from course_lib.attention.graph import gat_edge_scores, gat_scores
from course_lib.attention.multihead import merge_heads, split_heads
from course_lib.primitives.message_passing import with_self_loops
from course_tools.bank.lecture_15 import _edge_lists as edge_lists
from course_tools.checks.comparisons import right_result
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Follow the shapes: x is (*batch, N, d_in) and attention expects values (*batch, h, N, d). Which product, and "
        "which cut of its result, gives every head its own projection of every node?"
    ),
    (
        "Project with the transpose of W and split the features into as many heads as a has rows. From there the head "
        "axis is a batch axis: score the edges, attend, and only then combine the heads."
    ),
    (
        "z is x times the transpose of W, split into as many heads as `a` has rows. Give z, a and the edges to "
        "`gat_edge_scores`, the scores with z as values to `attend_edges`, and return the context after `combine`, "
        "the weights as they are."
    ),
)


@wrong.case
def always_merges(x, W, a, edges, combine=merge_heads):
    """You concatenate the heads and never use `combine`. A last layer averages them."""
    z = split_heads(x @ W.mT, len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges), z, edges)
    return Attended(merge_heads(context), weights)


@wrong.idea
def cuts_across_the_nodes(x, W, a, edges, combine=merge_heads):
    """You reshape straight to (h, N, d). A reshape keeps the order in memory: a head of yours gets some of the nodes, and
    not a part of each node's features."""
    z = (x @ W.mT).reshape(*x.shape[:-2], len(a), x.shape[-2], -1)
    context, weights = attend_edges(gat_edge_scores(z, a, edges), z, edges)
    return Attended(combine(context), weights)


@wrong.detail
def deals_out_the_features_in_turn(x, W, a, edges, combine=merge_heads):
    """You give every h-th feature to the same head. The rows of W belong to the heads in blocks: head k owns the d features
    from k·d on, next to each other."""
    z = rearrange(x @ W.mT, "... N (d h) -> ... h N d", h=len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges), z, edges)
    return Attended(combine(context), weights)


@wrong.part
def reshapes_the_matrix(x, W, a, edges, combine=merge_heads):
    """You bring W to (d_in, h·d) by a reshape. The shape fits, but the order in memory is kept; transpose instead."""
    z = split_heads(x @ W.reshape(W.shape[1], W.shape[0]), len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges), z, edges)
    return Attended(combine(context), weights)


@wrong.part
def scores_all_heads_alike(x, W, a, edges, combine=merge_heads):
    """You score every head with the first row of a. Each head has its own vector."""
    z = split_heads(x @ W.mT, len(a))
    context, weights = attend_edges(gat_edge_scores(z, a[0], edges), z, edges)
    return Attended(combine(context), weights)


@wrong.idea
def shares_one_set_of_weights(x, W, a, edges, combine=merge_heads):
    """You average the scores of the heads before the softmax, and all heads mix by the same weights. Each head has its own
    weights; only their contexts are combined."""
    z = split_heads(x @ W.mT, len(a))
    scores = gat_edge_scores(z, a, edges)
    context, weights = attend_edges(scores.mean(-2, keepdim=True).expand_as(scores), z, edges)
    return Attended(combine(context), weights)


@wrong.case
def averages_the_weights(x, W, a, edges, combine=merge_heads):
    """You return the mean of the heads' weights. Return the weights of each head, (*batch, h, E)."""
    z = split_heads(x @ W.mT, len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges), z, edges)
    return Attended(combine(context), weights.mean(-2))


@wrong.part
def looks_against_the_arrows(x, W, a, edges, combine=merge_heads):
    """You reverse the edges. Node edges[0] attends to node edges[1], so the softmax runs over the edges with the same first
    node."""
    z = split_heads(x @ W.mT, len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges.flip(0)), z, edges.flip(0))
    return Attended(combine(context), weights)


@wrong.detail
def exchanges_the_halves(x, W, a, edges, combine=merge_heads):
    """You score with the two halves of a exchanged: the first half belongs to the receiver, the second to the sender."""
    z = split_heads(x @ W.mT, len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges.flip(0)), z, edges)
    return Attended(combine(context), weights)


@wrong.part
def mixes_the_raw_features(x, W, a, edges, combine=merge_heads):
    """You attend over x itself and use the projection for the scores only. The values are projected too, W x_j."""
    z = split_heads(x @ W.mT, len(a))
    values = x.unsqueeze(-3).expand(*x.shape[:-2], len(a), *x.shape[-2:])
    context, weights = attend_edges(gat_edge_scores(z, a, edges), values, edges)
    return Attended(combine(context), weights)


@wrong.detail
def ends_with_the_nonlinearity(x, W, a, edges, combine=merge_heads):
    """You apply the σ of the paper to the result. The nonlinearity belongs to the layer around the attention."""
    z = split_heads(x @ W.mT, len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges), z, edges)
    return Attended(F.elu(combine(context)), weights)


@wrong.detail
def lets_each_node_see_itself(x, W, a, edges, combine=merge_heads):
    """You add the self-loops that are missing. A node without a loop does not attend to itself; return weights for the
    given edges only."""
    edges = with_self_loops(edges, x.shape[-2])
    z = split_heads(x @ W.mT, len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges), z, edges)
    return Attended(combine(context), weights)


@wrong.detail
def forgets_the_leaky_relu(x, W, a, edges, combine=merge_heads):
    """Your scores have no LeakyReLU. Without it the receiver's part of the score cancels in the softmax, and nodes
    with the same neighbours have the same weights."""
    z = split_heads(x @ W.mT, len(a))
    a_query, a_key = a.unsqueeze(-1).chunk(2, dim=-2)
    query, key = edges
    scores = (z @ a_query)[..., query, 0] + (z @ a_key)[..., key, 0]
    context, weights = attend_edges(scores, z, edges)
    return combine(context), weights


@wrong.detail
def multiplies_by_the_stored_matrix(x, W, a, edges, combine=merge_heads):
    """You write x @ W. W is stored with a row for each feature that it makes, (h · d, d_in): x @ W.mT."""
    z = split_heads(x @ W, len(a))
    scores = gat_scores(z, a)[..., edges[0], edges[1]]
    context, weights = attend_edges(scores, z, edges)
    return Attended(combine(context), weights)


@right
def head_by_head(x, W, a, edges, combine=merge_heads):
    """A loop over the heads, each with its own rows of W and its own vector."""
    heads = []
    for W_k, a_k in zip(W.chunk(len(a)), a, strict=True):
        z = F.linear(x, W_k)
        heads.append(attend_edges(gat_edge_scores(z, a_k, edges), z, edges))
    contexts, weights = zip(*heads, strict=True)
    return Attended(combine(torch.stack(contexts, dim=-3)), torch.stack(weights, dim=-2))


@right
def on_a_dense_matrix(x, W, a, edges, combine=merge_heads):
    """Masked attention over all N² pairs; the log of how often a pair is listed goes into its score."""
    query, key = edges.long()
    N, h = x.shape[-2], a.shape[0]
    z = rearrange(x @ W.T, "... N (h d) -> ... h N d", h=h)
    times = torch.zeros(N, N, dtype=x.dtype, device=x.device).index_put((query, key), x.new_ones(()), accumulate=True)
    context, weights = attend(gat_scores(z, a) + times.clamp(min=1).log(), z, times > 0)
    return Attended(combine(context), (weights / times.clamp(min=1))[..., query, key])


@right
def over_the_list_as_keys(x, W, a, edges, combine=merge_heads):
    """Ordinary attention with the E edges as keys, of which each node may see its own; the scores written out in pairs."""
    query, key = edges
    z = torch.einsum("...ni,hdi->...hnd", x, W.unflatten(0, (len(a), -1)))
    pairs = torch.cat([z.index_select(-2, query), z.index_select(-2, key)], dim=-1)
    scores = F.leaky_relu(torch.einsum("...hef,hf->...he", pairs, a), 0.2)
    own = query == torch.arange(x.shape[-2], device=edges.device)[:, None]
    all_rows = scores.unsqueeze(-2).expand(*scores.shape[:-1], x.shape[-2], scores.shape[-1])
    context, weights = attend(all_rows, z.index_select(-2, key), own)
    return combine(context), weights.sum(-2)


@right
def in_double_precision(x, W, a, edges, combine=merge_heads):
    """In float64, the exponentials added up node by node by `index_add`, and given back in the precision that came in."""
    query, key = edges
    z = split_heads(x.double() @ W.double().mT, a.shape[0])
    from_query, from_key = (z @ half.unsqueeze(-1) for half in a.double().tensor_split(2, dim=-1))
    scores = F.leaky_relu(from_query[..., query, 0] + from_key[..., key, 0], negative_slope=0.2)
    lowest = torch.full_like(z[..., 0].detach(), -torch.inf)
    highest = lowest.scatter_reduce(-1, query.long().expand(scores.shape), scores.detach(), "amax")
    shares = (scores - highest.index_select(-1, query)).exp()
    sums = torch.zeros_like(z[..., 0]).index_add(-1, query, shares)
    weights = shares / sums.index_select(-1, query)
    context = torch.zeros_like(z).index_add(-2, query, weights.unsqueeze(-1) * z.index_select(-2, key))
    return Attended(combine(context.to(x.dtype)), weights.to(x.dtype))


@stranger
def heads_share_the_first_projection(x, W, a, edges, combine=merge_heads):
    z = split_heads(x @ W.mT, len(a))[..., :1, :, :].expand(*x.shape[:-2], len(a), x.shape[-2], -1)
    context, weights = attend_edges(gat_edge_scores(z, a, edges), z, edges)
    return Attended(combine(context), weights)


@stranger
def heads_come_out_in_reverse(x, W, a, edges, combine=merge_heads):
    z = split_heads(x @ W.mT, len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges), z, edges)
    return Attended(combine(context.flip(-3)), weights)


@stranger
def heads_score_linearly(x, W, a, edges, combine=merge_heads):
    z = split_heads(x @ W.mT, len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges, 1.0), z, edges)
    return Attended(combine(context), weights)


@stranger(makes=[always_merges])
def heads_always_concatenated(x, W, a, edges, combine=merge_heads):
    each = [
        attend_edges(gat_edge_scores(x @ W_k.mT, a_k, edges), x @ W_k.mT, edges)
        for W_k, a_k in zip(W.chunk(len(a)), a, strict=True)
    ]
    return torch.cat([head.context for head in each], -1), torch.stack([head.weights for head in each], -2)


@stranger(makes=[always_merges, averages_the_weights])
def heads_twice_wrong(x, W, a, edges, combine=merge_heads):
    z = split_heads(x @ W.mT, len(a))
    context, weights = attend_edges(gat_edge_scores(z, a, edges), z, edges)
    return Attended(merge_heads(context), weights.mean(-2))


def _graph(draw: Draw, h: int, *batch: int, combine=None, make=edge_lists.plain) -> Call:
    n_nodes, d, d_in = 7, *draw.sizes(2)
    given = draw.normal(*batch, n_nodes, d_in), draw.normal(h * d, d_in, scale=0.5), draw.normal(h, 2 * d), make(draw, n_nodes)
    return given if combine is None else (*given, combine)


exercise = Exercise(
    id="15.4",
    title="Multi-head graph attention, merged or averaged",
    reference=multi_head_graph_attention,
    properties=(
        runs_on(lambda draw: [_graph(draw, 3), _graph(draw, 2, combine=average_heads)]),
        has_shape(
            "A context for each node, merged or averaged, and weights for each head and edge.",
            lambda draw: [_graph(draw, 3), _graph(draw, 3, combine=average_heads)],
        ),
        Property("one head", "One head is attention over the projected nodes.", lambda draw: [_graph(draw, 1)], points=2),
        Property(
            "weights",
            "The weights of each head come from its own rows of W and its own vector.",
            lambda draw: [_graph(draw, 2), _graph(draw, 3)],
            right_result(1),
        ),
        Property(
            "merged",
            "The heads are concatenated.",
            lambda draw: [_graph(draw, 2), _graph(draw, 3)],
            points=2,
            needs=("one head", "weights"),
        ),
        Property(
            "averaged",
            "The heads are combined by `combine`.",
            lambda draw: [_graph(draw, 2, combine=average_heads), _graph(draw, 3, combine=average_heads)],
            needs=("merged",),
        ),
        Property(
            "edges",
            "The edges are used as they are.",
            lambda draw: [_graph(draw, 2, make=edge_lists.tangled), _graph(draw, 3, make=edge_lists.tangled)],
            needs=("merged",),
        ),
        Property(
            "batch",
            "Each graph of a batch is computed independently.",
            lambda draw: [_graph(draw, 3, 2), _graph(draw, 2, 3, 2, combine=average_heads)],
            needs=("merged",),
        ),
        has_gradient(lambda draw: [_graph(draw, 3), _graph(draw, 2, 2, combine=average_heads)], needs=("merged",)),
        leaves_inputs(lambda draw: [_graph(draw, 3)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "A tensor of integers carries no gradient.": (
            "detach: gat_edge_scores(z, a, edges.detach())",
            "detach: attend_edges(scores, z, edges.detach())",
        ),
        "Only a size, a kind or the device is read, and a detached tensor has the same.": ("detach: len(a.detach())",),
    },
    hints=HINTS,
    extra=True,
)
