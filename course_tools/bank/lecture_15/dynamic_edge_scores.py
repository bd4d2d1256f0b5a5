"""Exercise 15.6, dynamic_edge_scores: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.attention import dynamic_edge_scores
from course_tools.bank.lecture_15 import _edge_lists as edge_lists
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    costs_at_most,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "LeakyReLU is applied to a vector of d numbers for each edge, and the product with a comes last. Which vectors do you "
        "need for each edge?"
    ),
    (
        "Select q of the receiver and k of the sender of each edge, on the axis of the nodes: two tensors of shape "
        "(…, E, d). Add them, apply LeakyReLU, and multiply by a."
    ),
    (
        "Collect q at `edges[0]` and k at `edges[1]` and add them; the LeakyReLU comes *before* the product with `a`. For the "
        "product, give `a` a last axis of size 1 and take it away afterwards: that works with heads, too."
    ),
)


def _pairs(q, k, edges):
    return q[..., edges[0], :], k[..., edges[1], :]


def _times(hidden, a):
    return (hidden @ a.unsqueeze(-1)).squeeze(-1)


@wrong.idea
def applies_the_nonlinearity_last(q, k, a, edges, slope=0.2):
    """You multiply by a before LeakyReLU, which then gets one number for each edge. Apply it to the vector q_i + k_j, and
    multiply by a afterwards."""
    query, key = _pairs(q, k, edges)
    return F.leaky_relu(_times(query + key, a), slope)


@wrong.idea
def leaves_out_the_nonlinearity(q, k, a, edges, slope=0.2):
    """You leave out LeakyReLU. Then aᵀ q_i is the same in all scores of node i and cancels in the softmax."""
    query, key = _pairs(q, k, edges)
    return _times(query + key, a)


@wrong.part
def applies_it_to_each_node(q, k, a, edges, slope=0.2):
    """You apply LeakyReLU to q_i and to k_j, and add afterwards. The term of q_i then cancels in the softmax. Add the two
    vectors first."""
    query, key = _pairs(F.leaky_relu(q, slope), F.leaky_relu(k, slope), edges)
    return _times(query + key, a)


@wrong.detail
def takes_tanh(q, k, a, edges, slope=0.2):
    """You use tanh, as Bahdanau's additive score does. GATv2 uses LeakyReLU."""
    query, key = _pairs(q, k, edges)
    return _times(torch.tanh(query + key), a)


@wrong.detail
def takes_relu(q, k, a, edges, slope=0.2):
    """You use ReLU, which sets the negative entries of q_i + k_j to 0. LeakyReLU multiplies them by the slope."""
    query, key = _pairs(q, k, edges)
    return _times(F.relu(query + key), a)


@wrong.case
def takes_the_default_slope_of_torch(q, k, a, edges, slope=0.2):
    """You call LeakyReLU without a slope, and the default of torch is 0.01. Pass the argument `slope`."""
    query, key = _pairs(q, k, edges)
    return _times(F.leaky_relu(query + key), a)


@wrong.case
def fixes_the_slope(q, k, a, edges, slope=0.2):
    """You use a fixed slope of 0.2 and never use the argument."""
    query, key = _pairs(q, k, edges)
    return _times(F.leaky_relu(query + key, 0.2), a)


@wrong.idea
def multiplies_the_nodes(q, k, a, edges, slope=0.2):
    """You multiply q_i and k_j elementwise, as a dot product does. This score is additive: it takes their sum."""
    query, key = _pairs(q, k, edges)
    return _times(F.leaky_relu(query * key, slope), a)


@wrong.part
def subtracts_the_key(q, k, a, edges, slope=0.2):
    """You subtract k_j from q_i. The score takes their sum; where q_i and k_j are equal, yours is 0."""
    query, key = _pairs(q, k, edges)
    return _times(F.leaky_relu(query - key, slope), a)


@wrong.idea
def uses_the_receiver_alone(q, k, a, edges, slope=0.2):
    """You add q_i alone and never use the sender. Then all scores of a node are equal, and its weights are uniform."""
    query, _ = _pairs(q, k, edges)
    return _times(F.leaky_relu(query, slope), a)


@wrong.idea
def uses_the_sender_alone(q, k, a, edges, slope=0.2):
    """You use k_j alone. A score without q_i gives all nodes the same ranking of their neighbours."""
    _, key = _pairs(q, k, edges)
    return _times(F.leaky_relu(key, slope), a)


@wrong.detail
def exchanges_the_ends(q, k, a, edges, slope=0.2):
    """You take q at edges[1] and k at edges[0]. It is edges[0] that receives and has
    the query; edges[1] sends and has the key."""
    return _times(F.leaky_relu(q[..., edges[1], :] + k[..., edges[0], :], slope), a)


@wrong.part
def takes_the_query_of_both(q, k, a, edges, slope=0.2):
    """You add q_i and q_j and never use k. A node has two vectors: q as a receiver, k as a sender."""
    return _times(F.leaky_relu(q[..., edges[0], :] + q[..., edges[1], :], slope), a)


@wrong.detail
def averages_the_nodes(q, k, a, edges, slope=0.2):
    """You take the mean of q_i and k_j, and so compute half of each score. The formula has their sum."""
    query, key = _pairs(q, k, edges)
    return _times(F.leaky_relu((query + key) / 2, slope), a)


@wrong.detail
def scales_as_a_dot_product(q, k, a, edges, slope=0.2):
    """You divide the scores by √d. Scaled dot-product attention does; this score has no such factor."""
    query, key = _pairs(q, k, edges)
    return _times(F.leaky_relu(query + key, slope), a) / q.shape[-1] ** 0.5


@wrong.part
def sums_without_the_vector(q, k, a, edges, slope=0.2):
    """You add up the entries after LeakyReLU and never use a. The entries must be weighted by the learned vector a."""
    query, key = _pairs(q, k, edges)
    return F.leaky_relu(query + key, slope).sum(-1)


@wrong.detail
def takes_the_softmax_already(q, k, a, edges, slope=0.2):
    """You return weights and not scores. The softmax comes later, over the edges of each receiver; yours is over
    all edges."""
    query, key = _pairs(q, k, edges)
    return _times(F.leaky_relu(query + key, slope), a).softmax(-1)


@wrong.case
def leaves_no_axis_for_the_edges(q, k, a, edges, slope=0.2):
    """You multiply by a as it is. With a vector for each head, its first axis is that of the heads and meets the axis of the
    edges; `a.unsqueeze(-2)` leaves an axis for the edges, and works without heads, too."""
    query, key = _pairs(q, k, edges)
    return (F.leaky_relu(query + key, slope) * a).sum(-1)


@wrong.case
def uses_the_first_head_for_all(q, k, a, edges, slope=0.2):
    """You use the first row of a for every head. Each head has its own vector; with one head the mistake has no effect."""
    query, key = _pairs(q, k, edges)
    return F.leaky_relu(query + key, slope) @ a.reshape(-1, a.shape[-1])[0]


@wrong.case
def lists_each_edge_once(q, k, a, edges, slope=0.2):
    """You remove repeated edges, which also sorts them. Return a score for each entry of the list, in its order."""
    query, key = _pairs(q, k, edges.unique(dim=1))
    return _times(F.leaky_relu(query + key, slope), a)


@wrong.case
def multiplies_by_the_vectors_as_a_matrix(q, k, a, edges, slope=0.2):
    """You write … @ a. That is right for one vector; with one for each head it multiplies matrices. Multiply entry by entry
    and add up: (… * a[..., None, :]).sum(-1)."""
    return F.leaky_relu(q[..., edges[0], :] + k[..., edges[1], :], slope) @ a


@wrong.case
def looks_the_nodes_up_on_the_first_axis(q, k, a, edges, slope=0.2):
    """You look the nodes up by q[edges[0]], on the first axis. With heads or a batch in front the nodes are the last axis but
    one: q[..., edges[0], :]."""
    return (F.leaky_relu(q[edges[0]] + k[edges[1]], slope) * a[..., None, :]).sum(-1)


@wrong.part
def scores_all_pairs(q, k, a, edges, slope=0.2):
    """Your scores are right, but you compute one for each pair of nodes, N², and take those of the edges. Select q at
    `edges[0]` and k at `edges[1]` first: then E are computed."""
    hidden = F.leaky_relu(q.unsqueeze(-2) + k.unsqueeze(-3), slope)
    scores = torch.einsum("...ijd,...d->...ij", hidden, a)
    return scores[..., edges[0], edges[1]]


@right
def by_concatenated_matrices(q, k, a, edges, slope=0.2):
    """Eq. 7 as printed: a matrix applied to [q_i ‖ k_j]; here it is two identity matrices, one beside the other."""
    d = q.shape[-1]
    W = torch.eye(d, dtype=q.dtype, device=q.device).repeat(1, 2)
    pairs = torch.cat([q[..., edges[0], :], k[..., edges[1], :]], dim=-1)
    return (F.leaky_relu(pairs @ W.mT, slope) * a.unsqueeze(-2)).sum(-1)


@right
def edge_by_edge(q, k, a, edges, slope=0.2):
    """A loop over the edges, with LeakyReLU written out as a choice."""
    scores = [q[..., :0, 0]]
    for i, j in edges.mT.tolist():
        total = q[..., i, :] + k[..., j, :]
        scores.append((torch.where(total > 0, total, slope * total) * a).sum(-1, keepdim=True))
    return torch.cat(scores, dim=-1)


@right
def in_double_precision(q, k, a, edges, slope=0.2):
    """Both ends by one selection from q above k, in float64; the result is cast back."""
    stacked = torch.cat([q, k], dim=-2).double()
    rows = torch.cat([edges[0], edges[1] + q.shape[-2]]).long()
    hidden = F.leaky_relu(stacked.index_select(-2, rows).unflatten(-2, (2, -1)).sum(-3), negative_slope=slope)
    return torch.einsum("...ed,...d->...e", hidden, a.double()).to(q.dtype)


@stranger
def dynamic_in_absolute_values(q, k, a, edges, slope=0.2):
    return dynamic_edge_scores(q, k, a, edges, -1.0)


@stranger
def dynamic_doubles_the_query(q, k, a, edges, slope=0.2):
    hidden = F.leaky_relu(2 * q[..., edges[0], :] + k[..., edges[1], :], slope)
    return (hidden * a.unsqueeze(-2)).sum(-1)


@stranger
def dynamic_by_the_euclidean_distance(q, k, a, edges, slope=0.2):
    return dynamic_edge_scores(q, k, a, edges, slope) - (q[..., edges[0], :] - k[..., edges[1], :]).square().sum(-1)


@stranger
def dynamic_hides_the_loops(q, k, a, edges, slope=0.2):
    return dynamic_edge_scores(q, k, a, edges, slope).masked_fill(edges[0] == edges[1], -1e9)


@stranger(makes=[applies_the_nonlinearity_last])
def dynamic_by_the_static_score_in_a_loop(q, k, a, edges, slope=0.2):
    scores = [F.leaky_relu(((q[..., i, :] + k[..., j, :]) * a).sum(-1), slope) for i, j in edges.T.tolist()]
    return torch.stack(scores, dim=-1)


@stranger(makes=[scores_all_pairs])
def dynamic_row_by_row(q, k, a, edges, slope=0.2):
    rows = [F.leaky_relu(q[..., i, None, :] + k, slope) @ a[..., :, None] for i in range(q.shape[-2])]
    return torch.cat(rows, dim=-1)[..., edges[1], edges[0]]


@stranger(makes=[takes_tanh, subtracts_the_key])
def dynamic_twice_wrong(q, k, a, edges, slope=0.2):
    hidden = torch.tanh(q[..., edges[0], :] - k[..., edges[1], :])
    return (hidden * a.unsqueeze(-2)).sum(-1)


def _graph(draw: Draw, n_nodes: int, *batch: int, heads: tuple[int, ...] = (), make=edge_lists.plain) -> Call:
    (d,) = draw.sizes(1)
    q, k = (draw.normal(*batch, *heads, n_nodes, d) for _ in range(2))
    return q, k, draw.normal(*heads, d), make(draw, n_nodes)


def _long(draw: Draw) -> Call:
    """So many nodes with so few edges that all pairs cost a hundred times as much."""
    return draw.normal(256, 3), draw.normal(256, 3), draw.normal(3), edge_lists.plain(draw, 256)


def _one_edge(draw: Draw, *edge: int) -> Call:
    (d,) = draw.sizes(1)
    return draw.normal(2, d), draw.normal(2, d), draw.normal(d), torch.tensor(edge).unsqueeze(-1)


exercise = Exercise(
    id="15.6",
    title="Dynamic scores of a GATv2",
    reference=dynamic_edge_scores,
    properties=(
        runs_on(lambda draw: [_graph(draw, 5), _graph(draw, 3)]),
        has_shape("One score for each edge.", lambda draw: [_graph(draw, 5), _graph(draw, 3)]),
        Property(
            "self-loop",
            "The score of a node with itself is aᵀ LeakyReLU(q_i + k_i).",
            lambda draw: [_one_edge(draw, 1, 1) for _ in range(4)],
        ),
        Property(
            "two nodes",
            "Both nodes of an edge take part, and the product with a comes last.",
            lambda draw: [_one_edge(draw, 0, 1) for _ in range(4)],
            points=2,
            needs=("self-loop",),
        ),
        Property(
            "edge list",
            "The scores are in the order of the edges; a repeated edge has a score each time.",
            lambda draw: [_graph(draw, 5), _graph(draw, 7, make=edge_lists.tangled)],
            points=2,
            needs=("two nodes",),
        ),
        costs_at_most(
            16,
            "The cost grows with the number of edges, not with the square of the number of nodes.",
            lambda draw: [_long(draw)],
            needs=("edge list",),
        ),
        Property(
            "slope",
            "LeakyReLU has the slope that is passed in.",
            lambda draw: [(*_graph(draw, 5), 0.5), (*_graph(draw, 5), 0.05)],
            needs=("two nodes",),
        ),
        Property(
            "heads",
            "Each head has its own vector, and each graph of a batch the same ones.",
            lambda draw: [_graph(draw, 3, heads=(2,)), _graph(draw, 5, 2, heads=(3,)), _graph(draw, 3, 5)],
            needs=("two nodes",),
        ),
        has_gradient(lambda draw: [_graph(draw, 5), _graph(draw, 3)], needs=("edge list",)),
        leaves_inputs(lambda draw: [_graph(draw, 5)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "A tensor of integers carries no gradient.": (
            "detach: receiver, sender = edges.detach()",
            "detach: q.index_select(-2, receiver.detach())",
            "detach: k.index_select(-2, sender.detach())",
        ),
    },
    hints=HINTS,
)
