"""Exercise 15.3, attend_edges: what students answer, wrong and right."""

import torch

from course_lib.attention import attend_edges, edge_softmax
from course_lib.attention.core import Attended
from course_tools.bank.lecture_15 import _edge_lists as edge_lists
from course_tools.checks.comparisons import right_result
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
        "Follow one edge e by hand: which node has the value that is passed along it, and at which node does it arrive? "
        "Several edges may arrive at the same node: what must happen to their messages?"
    ),
    (
        "Make a message for each edge, (…, E, d_v): its weight times the value of the sender, edges[1]. Then sum the "
        "messages at the receivers, edges[0], starting from zeros for all N nodes. Indexing with `+=` does not add up "
        "repeated indices."
    ),
    (
        "`edge_softmax` with `values.shape[-2]` nodes gives the weights; with one more axis they multiply "
        "`values[..., edges[1], :]`. Add these by `index_add` along axis -2, with edges[0], to zeros shaped like the values."
    ),
)


@wrong.part
def passes_the_values_backwards(scores, values, edges):
    """You pass the value of the receiver to the sender. The value is taken at edges[1] and summed at edges[0]."""
    weights = edge_softmax(scores, edges, values.shape[-2])
    messages = weights.unsqueeze(-1) * values.index_select(-2, edges[0])
    return Attended(torch.zeros_like(values).index_add(-2, edges[1], messages), weights)


@wrong.idea
def takes_the_values_of_the_query(scores, values, edges):
    """You take the value of the receiver, edges[0]. The weights sum to 1, so each node gets its own value, and nothing
    from its neighbours."""
    weights = edge_softmax(scores, edges, values.shape[-2])
    messages = weights.unsqueeze(-1) * values.index_select(-2, edges[0])
    return Attended(torch.zeros_like(values).index_add(-2, edges[0], messages), weights)


@wrong.part
def normalises_over_those_who_look(scores, values, edges):
    """Your weights sum to 1 over the edges with the same sender. They must sum to 1 over the edges with the same
    receiver, edges[0]."""
    weights = edge_softmax(scores, edges.flip(0), values.shape[-2])
    messages = weights.unsqueeze(-1) * values.index_select(-2, edges[1])
    return Attended(torch.zeros_like(values).index_add(-2, edges[0], messages), weights)


@wrong.idea
def normalises_over_all_edges(scores, values, edges):
    """You take the softmax over all edges of the graph. The weights of each receiver must sum to 1."""
    weights = scores.softmax(-1)
    messages = weights.unsqueeze(-1) * values.index_select(-2, edges[1])
    return Attended(torch.zeros_like(values).index_add(-2, edges[0], messages), weights)


@wrong.idea
def mixes_by_the_scores(scores, values, edges):
    """You mix the values by the raw scores. Normalise them by a softmax over the edges of each node first."""
    messages = scores.unsqueeze(-1) * values.index_select(-2, edges[1])
    return Attended(torch.zeros_like(values).index_add(-2, edges[0], messages), scores)


@wrong.idea
def forgets_the_weights(scores, values, edges):
    """You add up the values of the neighbours without their weights. All neighbours count the same then, and a node with many
    of them gets a large context."""
    weights = edge_softmax(scores, edges, values.shape[-2])
    messages = values.index_select(-2, edges[1])
    return Attended(torch.zeros_like(values).index_add(-2, edges[0], messages), weights)


@wrong.part
def keeps_the_last_message_only(scores, values, edges):
    """A node keeps only one of the messages that arrive at it: where an index is repeated, an assignment writes over, and
    indexing with `+=` does so, too. Use `index_add`."""
    weights = edge_softmax(scores, edges, values.shape[-2])
    context = torch.zeros_like(values)
    context[..., edges[0], :] += weights.unsqueeze(-1) * values[..., edges[1], :]
    return Attended(context, weights)


@wrong.part
def leaves_the_messages_at_the_edges(scores, values, edges):
    """You return a message for each edge. What is asked for is a sum for each node: add up the messages that have the same
    receiver, edges[0], by `index_add` onto zeros for all nodes."""
    weights = edge_softmax(scores, edges, values.shape[-2])
    return Attended(weights.unsqueeze(-1) * values[..., edges[1], :], weights)


@wrong.detail
def takes_the_mean_of_the_messages(scores, values, edges):
    """You divide the sum of the messages by their number. The weights of a node already sum to 1, so the sum *is* the mean;
    dividing again is wrong for every node with several neighbours."""
    weights = edge_softmax(scores, edges, values.shape[-2])
    messages = weights.unsqueeze(-1) * values.index_select(-2, edges[1])
    context = torch.zeros_like(values).index_add(-2, edges[0], messages)
    count = torch.bincount(edges[0], minlength=values.shape[-2]).clamp(min=1)
    return Attended(context / count[:, None], weights)


@wrong.case
def ends_at_the_last_node_with_an_edge(scores, values, edges):
    """You count the nodes by the largest number in the edge list. Later nodes have no edge and a context of 0; the number
    of nodes is that of the values."""
    n_nodes = int(edges.max()) + 1
    weights = edge_softmax(scores, edges, n_nodes)
    messages = weights.unsqueeze(-1) * values.index_select(-2, edges[1])
    context = values.new_zeros(*values.shape[:-2], n_nodes, values.shape[-1])
    return Attended(context.index_add(-2, edges[0], messages), weights)


@wrong.detail
def starts_from_the_values(scores, values, edges):
    """You add the messages to the node's own value. That is a residual connection; here a node attends to itself only along
    a self-loop, and the sum starts from 0."""
    weights = edge_softmax(scores, edges, values.shape[-2])
    messages = weights.unsqueeze(-1) * values.index_select(-2, edges[1])
    return Attended(values.index_add(-2, edges[0], messages), weights)


@wrong.case
def lets_a_blind_node_see_itself(scores, values, edges):
    """You give a node without edges its own value. Its context is 0; self-loops are put into the edge list."""
    weights = edge_softmax(scores, edges, values.shape[-2])
    messages = weights.unsqueeze(-1) * values.index_select(-2, edges[1])
    context = torch.zeros_like(values).index_add(-2, edges[0], messages)
    looks = torch.bincount(edges[0], minlength=values.shape[-2]) > 0
    return Attended(torch.where(looks[:, None], context, values), weights)


@wrong.case
def goes_through_a_matrix(scores, values, edges):
    """An edge that is listed twice counts once, and one of its weights is lost: so it is in an N × N matrix, which has only one
    entry for it. Add the weights up."""
    query, key = edges
    weights = edge_softmax(scores, edges, values.shape[-2])
    matrix = weights.new_zeros(*weights.shape[:-1], values.shape[-2], values.shape[-2])
    matrix[..., query, key] = weights
    return Attended(matrix @ values, weights)


@wrong.detail
def weighs_values_without_an_axis(scores, values, edges):
    """You multiply the weights (E,) by the values of the edges (E, d_v). A weight scales all features of its value: give it an
    axis of size 1."""
    weights = edge_softmax(scores, edges, values.shape[-2])
    messages = weights * values.index_select(-2, edges[1])
    return Attended(torch.zeros_like(values).index_add(-2, edges[0], messages), weights)


@wrong.detail
def reads_the_edges_backwards(scores, values, edges):
    """You read the edges in the other direction, as if node edges[1] attended to node edges[0], and both the weights and the
    messages follow. It is edges[0] that attends."""
    return attend_edges(scores, values, edges.flip(0))


@wrong.idea
def weighs_all_neighbours_alike(scores, values, edges):
    """You give every neighbour the same weight, one over their number, and never use the scores."""
    weights = edge_softmax(torch.zeros_like(scores), edges, values.shape[-2])
    messages = weights.unsqueeze(-1) * values.index_select(-2, edges[1])
    return Attended(torch.zeros_like(values).index_add(-2, edges[0], messages), weights)


@wrong.case
def forgets_the_heads_without_edges(scores, values, edges):
    """Without edges you return the zeros of a single head. Each head and each graph has a context: as many zeros as there are
    values."""
    if edges.shape[1] == 0:
        return Attended(torch.zeros(values.shape[-2:]), scores)
    return attend_edges(scores, values, edges)


@wrong.case
def adds_up_on_the_first_axis(scores, values, edges):
    """You add the messages up along axis 0. With a batch or heads in front the nodes are the last axis but one: -2."""
    weights = edge_softmax(scores, edges, values.shape[-2])
    messages = weights[..., None] * values[..., edges[1], :]
    return Attended(torch.zeros_like(values).index_add(0, edges[0], messages), weights)


@wrong.part
def goes_through_all_pairs(scores, values, edges):
    """Your contexts are right, but their cost is that of a dense mask: you go through N² pairs of nodes, or through all edges
    for each node. Make a message for each edge, and add them up by `index_add`."""
    n_nodes = values.shape[-2]
    weights = edge_softmax(scores, edges, n_nodes)
    flat = weights.new_zeros(*weights.shape[:-1], n_nodes**2).index_add(-1, edges[0] * n_nodes + edges[1], weights)
    return Attended(flat.unflatten(-1, (n_nodes, n_nodes)) @ values, weights)


@right
def edge_by_edge(scores, values, edges):
    """A loop over the edges, each of which adds to the row of its receiver."""
    weights = edge_softmax(scores, edges, values.shape[-2])
    rows = list(torch.zeros_like(values).unbind(-2))
    for e, (i, j) in enumerate(edges.mT.tolist()):
        rows[i] = rows[i] + weights[..., e, None] * values[..., j, :]
    return Attended(torch.stack(rows, dim=-2), weights)


@right
def sorted_and_split(scores, values, edges):
    """The messages sorted by receiver and cut at its borders; each piece is summed."""
    weights = edge_softmax(scores, edges, values.shape[-2])
    order, counts = edges[0].argsort(), torch.bincount(edges[0], minlength=values.shape[-2]).tolist()
    messages = (weights.unsqueeze(-1) * values[..., edges[1], :])[..., order, :]
    return Attended(torch.stack([piece.sum(-2) for piece in messages.split(counts, dim=-2)], dim=-2), weights)


@right
def in_double_precision(scores, values, edges):
    """Messages scattered in float64 to the nodes that look, context and weights cast back."""
    weights = edge_softmax(scores.double(), edges, values.shape[-2])
    messages = torch.einsum("...e,...ed->...ed", weights, values.double()[..., edges[1].long(), :])
    place = edges[0].long().unsqueeze(-1).expand(messages.shape)
    context = values.double().new_zeros(values.shape).scatter_add(-2, place, messages)
    return Attended(context.to(values.dtype), weights.to(scores.dtype))


@stranger
def mixing_looks_both_ways(scores, values, edges):
    there, back = attend_edges(scores, values, edges), attend_edges(scores, values, edges.flip(0))
    return Attended((there.context + back.context) / 2, there.weights)


@stranger
def mixing_takes_the_largest_message(scores, values, edges):
    weights = edge_softmax(scores, edges, values.shape[-2])
    messages = weights.unsqueeze(-1) * values[..., edges[1], :]
    place = edges[0].unsqueeze(-1).expand(messages.shape)
    return Attended(torch.zeros_like(values).scatter_reduce(-2, place, messages, "amax", include_self=False), weights)


@stranger
def mixing_detaches_the_weights(scores, values, edges):
    weights = edge_softmax(scores, edges, values.shape[-2])
    return Attended(attend_edges(scores.detach(), values, edges).context, weights)


@stranger
def mixing_normalises_in_place(scores, values, edges):
    scores -= scores.mean()
    return attend_edges(scores, values, edges)


@stranger(makes=[keeps_the_last_message_only])
def mixing_in_a_loop_that_overwrites(scores, values, edges):
    weights = edge_softmax(scores, edges, values.shape[-2])
    rows = [torch.zeros_like(values[..., 0, :])] * values.shape[-2]
    for e, (i, j) in enumerate(edges.T.tolist()):
        rows[i] = weights[..., e, None] * values[..., j, :]
    return Attended(torch.stack(rows, dim=-2), weights)


@stranger(makes=[goes_through_all_pairs])
def mixing_node_by_node(scores, values, edges):
    weights, contexts = torch.zeros_like(scores), []
    for i in range(values.shape[-2]):
        own = (edges[0] == i).nonzero().flatten()
        shares = scores.index_select(-1, own).softmax(-1)
        weights = weights.index_copy(-1, own, shares)
        contexts.append(shares.unsqueeze(-2) @ values.index_select(-2, edges[1].index_select(0, own)))
    return Attended(torch.cat(contexts, dim=-2), weights)


@stranger(makes=[goes_through_all_pairs])
def mixing_nodes_against_edges(scores, values, edges):
    weights = edge_softmax(scores, edges, values.shape[-2])
    own = torch.arange(values.shape[-2], device=edges.device)[:, None] == edges[0]
    return Attended((own * weights.unsqueeze(-2)) @ values.index_select(-2, edges[1]), weights)


@stranger(makes=[passes_the_values_backwards, forgets_the_weights])
def mixing_twice_wrong(scores, values, edges):
    weights = edge_softmax(scores, edges, values.shape[-2])
    messages = values.index_select(-2, edges[0])
    return Attended(torch.zeros_like(values).index_add(-2, edges[1], messages), weights)


def _edges(draw: Draw, n_nodes: int, *batch: int, make=edge_lists.plain) -> Call:
    edges = make(draw, n_nodes)
    (d_v,) = draw.sizes(1)
    return draw.normal(*batch, edges.shape[1]), draw.normal(*batch, n_nodes, d_v), edges


def _long(draw: Draw) -> Call:
    """So many nodes with so few edges that all pairs cost many times as much."""
    edges = edge_lists.plain(draw, 256)
    return draw.normal(edges.shape[1]), draw.normal(256, 2), edges


def _sorted_by_key(draw: Draw, n_nodes: int) -> Call:
    """Edges of which each node looks at one: the weights are all 1, and the context is what was looked at."""
    scores, values, edges = _edges(draw, n_nodes)
    first = torch.stack([(edges[0] == i).nonzero()[0, 0] for i in range(n_nodes)])
    return scores[first], values, edges[:, first]


exercise = Exercise(
    id="15.3",
    title="Attention over an edge list",
    reference=attend_edges,
    properties=(
        runs_on(lambda draw: [_edges(draw, 5), _edges(draw, 5, 3)]),
        has_shape(
            "A context for each node, a weight for each edge.",
            lambda draw: [_edges(draw, 5), _edges(draw, 5, 3), _edges(draw, 7, make=edge_lists.tangled)],
        ),
        Property(
            "one edge each",
            "With one edge, the context is the value of the sender.",
            lambda draw: [_sorted_by_key(draw, 3), _sorted_by_key(draw, 5)],
            points=2,
        ),
        Property(
            "weights",
            "The weights of a receiver's edges sum to 1.",
            lambda draw: [_edges(draw, 5), _edges(draw, 7)],
            right_result(1),
        ),
        Property(
            "mixing",
            "The context of a node is the weighted sum of the values of its neighbours.",
            lambda draw: [_edges(draw, 3), _edges(draw, 5), _edges(draw, 7)],
            points=2,
            needs=("one edge each", "weights"),
        ),
        costs_at_most(
            10,
            "The cost grows with the number of edges, not with the square of the number of nodes.",
            lambda draw: [_long(draw)],
            needs=("mixing",),
        ),
        Property(
            "loops, repeats, gaps",
            "A loop is an edge; an edge listed twice counts twice; a node without edges gets 0.",
            lambda draw: [
                _edges(draw, 5, make=edge_lists.tangled),
                _edges(draw, 7, make=edge_lists.tangled),
                (draw.normal(3), draw.normal(7, 2), torch.tensor([[6, 5, 6], [0, 6, 1]])),
                *((draw.normal(*h, 0), draw.normal(*h, 3, 2), torch.empty(2, 0, dtype=torch.int64)) for h in ((), (5,))),
            ],
            points=2,
            needs=("mixing",),
        ),
        Property(
            "heads",
            "Each head is computed independently, with any number of batch axes.",
            lambda draw: [_edges(draw, 5, 3), _edges(draw, 5, 2, 3, make=edge_lists.tangled)],
            needs=("mixing",),
        ),
        has_gradient(lambda draw: [_edges(draw, 5, 3), _edges(draw, 7, make=edge_lists.tangled)], needs=("mixing",)),
        leaves_inputs(lambda draw: [_edges(draw, 5, 3)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "A tensor of integers carries no gradient.": (
            "detach: query, key = edges.detach()",
            "detach: edge_softmax(scores, edges.detach(), values.shape[-2])",
            "detach: wide.new_zeros(values.shape).index_add(-2, query.detach(), wide)",
            "detach: values.index_select(-2, key.detach())",
        ),
        (
            "The inputs of the exercise are float32, which is as wide as the sums get; in bfloat16, tested elsewhere, "
            "the kinds differ."
        ): (
            "drop call: wide = messages",
            "drop argument: wide = messages.to()",
            "drop call: messages.to(messages.dtype)",
            "drop call: messages.to(torch.float32)",
            "swap arguments: messages.to(torch.promote_types(torch.float32, messages.dtype))",
            "other name: wide.new_zeros(values.shape).index_add(-2, query, messages)",
            "drop call: Attended(context, weights)",
            "drop argument: Attended(context.to(), weights)",
            "drop attribute: context.to(messages)",
            "other name: key.dtype",
            "other name: query.dtype",
            "other name: weights.dtype",
            "other name: scores.dtype",
            "other name: values.dtype",
            "other name: edges.dtype",
            "other name: context.dtype (2)",
            "other name: weights.dtype (2)",
            "other name: wide.dtype (2)",
            "other name: scores.dtype (2)",
            "other name: values.dtype (2)",
        ),
        "Only a size, a kind or the device is read, and a detached tensor has the same.": (
            "detach: values.detach().shape",
            "detach: messages.detach().dtype",
            "detach: messages.detach().dtype (2)",
            "detach: wide.detach().new_zeros",
            "detach: values.detach().shape (2)",
        ),
        "new_zeros and new_full take a size, the kind and the device alone, and these are the same.": (
            "other name: messages.new_zeros",
            "other name: weights.new_zeros",
            "other name: scores.new_zeros",
            "other name: values.new_zeros",
        ),
    },
    hints=HINTS,
)
