"""Exercise 15.2, edge_softmax: what students answer, wrong and right."""

import torch

from course_lib.attention import edge_softmax
from course_tools.bank.lecture_15 import _edge_lists as edge_lists
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
        "The weights of which edges sum to 1: those with the same receiver, edges[0], or those with the same sender, "
        "edges[1]? Take five edges in mixed order and write down, for each, which others are in its denominator."
    ),
    (
        "Three steps: the exponential of each edge, its sum for each receiver, and back from the node to each of its "
        "edges. Before the exponential subtract the largest score of the edge's *own* node: what happens to a node whose "
        "scores are all 2000 below another's?"
    ),
    (
        "Spread `edges[0]` to the shape of the scores. `scatter_reduce` with `amax`, starting from -inf, finds the largest of "
        "each of the `n_nodes` nodes, `scatter_add` the sums; `gather` with the same index brings either back to the edges."
    ),
)


@wrong.idea
def normalises_over_all_edges(scores, edges, n_nodes):
    """Your weights sum to 1 over all edges of the graph. The weights of each receiver's edges must sum to 1."""
    return scores.softmax(-1)


@wrong.idea
def groups_by_the_node_looked_at(scores, edges, n_nodes):
    """You group the edges by edges[1], the sender. Normalise over the edges with the same receiver, edges[0]."""
    key = edges[1].long().expand(scores.shape)
    largest = scores.new_full((*scores.shape[:-1], n_nodes), -torch.inf).scatter_reduce(-1, key, scores.detach(), "amax")
    exponentials = (scores - largest.gather(-1, key)).exp()
    return exponentials / torch.zeros_like(largest).scatter_add(-1, key, exponentials).gather(-1, key)


@wrong.case
def subtracts_nothing(scores, edges, n_nodes):
    """You take the exponential of the scores as they are. Above 88 that is infinite in float32, and below -104 it is 0: then
    you divide infinity by infinity, or 0 by 0."""
    query = edges[0].long().expand(scores.shape)
    exponentials = scores.exp()
    sums = scores.new_zeros(*scores.shape[:-1], n_nodes).scatter_add(-1, query, exponentials)
    return exponentials / sums.gather(-1, query)


@wrong.case
def subtracts_the_largest_of_all(scores, edges, n_nodes):
    """You subtract the largest score of the whole graph. For a node whose scores are all far below it, all exponentials are
    0, and 0 / 0 is NaN; subtract each node's own largest score."""
    query = edges[0].long().expand(scores.shape)
    largest = scores.detach().amax(-1, keepdim=True) if scores.numel() else 0.0
    exponentials = (scores - largest).exp()
    sums = scores.new_zeros(*scores.shape[:-1], n_nodes).scatter_add(-1, query, exponentials)
    return exponentials / sums.gather(-1, query)


@wrong.case
def starts_the_maximum_at_zero(scores, edges, n_nodes):
    """Your maximum over the scores of each node starts from 0. Where all scores of a node are negative you then subtract 0,
    and with scores of -1000 every exponential is 0; a maximum starts from -∞."""
    query = edges[0].long().expand(scores.shape)
    largest = scores.new_zeros(*scores.shape[:-1], n_nodes).scatter_reduce(-1, query, scores.detach(), "amax")
    exponentials = (scores - largest.gather(-1, query)).exp()
    return exponentials / torch.zeros_like(largest).scatter_add(-1, query, exponentials).gather(-1, query)


@wrong.case
def clamps_the_scores(scores, edges, n_nodes):
    """You clamp the scores so that no exponential is infinite. All larger ones then get the same weight; subtract
    the largest score of each node instead."""
    query = edges[0].long().expand(scores.shape)
    exponentials = scores.clamp(-50, 50).exp()
    sums = scores.new_zeros(*scores.shape[:-1], n_nodes).scatter_add(-1, query, exponentials)
    return exponentials / sums.gather(-1, query)


@wrong.idea
def forgets_the_exponential(scores, edges, n_nodes):
    """You divide the scores themselves by their sum. Scores may be negative, and so are your weights then. Take the
    exponential first."""
    query = edges[0].long().expand(scores.shape)
    sums = scores.new_zeros(*scores.shape[:-1], n_nodes).scatter_add(-1, query, scores)
    return scores / sums.gather(-1, query)


@wrong.detail
def takes_the_edges_for_sorted(scores, edges, n_nodes):
    """You count the edges of each node and cut the list into pieces of these lengths. That holds only if the list is sorted
    by the receiver; edges come in any order."""
    counts = torch.bincount(edges[0], minlength=n_nodes).tolist()
    return torch.cat([piece.softmax(-1) for piece in scores.split(counts, dim=-1)], dim=-1)


@wrong.detail
def leaves_the_weights_sorted(scores, edges, n_nodes):
    """You sort the edges by the receiver, and return the weights in that order. The weights are right but belong to other
    edges: they must come in the order in which the edges were given."""
    order = edges[0].argsort(stable=True)
    counts = torch.bincount(edges[0], minlength=n_nodes).tolist()
    return torch.cat([piece.softmax(-1) for piece in scores[..., order].split(counts, dim=-1)], dim=-1)


@wrong.case
def goes_through_a_matrix(scores, edges, n_nodes):
    """You write the scores into an N × N matrix and take the softmax of its rows. An edge that is listed twice has only one
    entry there, so one of its scores is lost and the weights no longer sum to 1."""
    query, key = edges.long()
    matrix = scores.new_full((*scores.shape[:-1], n_nodes, n_nodes), -torch.inf)
    matrix[..., query, key] = scores
    blind = matrix.detach().isinf().all(-1, keepdim=True)
    return matrix.masked_fill(blind, 0.0).softmax(-1)[..., query, key]


@wrong.case
def sums_over_the_heads_too(scores, edges, n_nodes):
    """Your sums run over the edges of a node in all heads together, so that a node's weights sum to 1 only over all heads.
    Normalise each head separately; with one head the mistake has no effect."""
    query = edges[0].long().expand(scores.shape)
    largest = scores.new_full((n_nodes,), -torch.inf).scatter_reduce(-1, query.flatten(), scores.detach().flatten(), "amax")
    exponentials = (scores - largest[query]).exp()
    sums = torch.zeros_like(largest).scatter_add(-1, query.flatten(), exponentials.flatten())
    return exponentials / sums[query]


@wrong.case
def cuts_the_gradient_of_the_sums(scores, edges, n_nodes):
    """Your values are right, but you treat the sums as constants, as one may with the largest score. The largest cancels
    and the sums do not: their gradient is part of that of the softmax."""
    query = edges[0].long().expand(scores.shape)
    largest = scores.new_full((*scores.shape[:-1], n_nodes), -torch.inf).scatter_reduce(-1, query, scores.detach(), "amax")
    exponentials = (scores - largest.gather(-1, query)).exp()
    sums = torch.zeros_like(largest).scatter_add(-1, query, exponentials.detach())
    return exponentials / sums.gather(-1, query)


@wrong.part
def keeps_one_exponential_of_each_node(scores, edges, n_nodes):
    """You add up by `sums[..., edges[0]] += …`. Where an index is repeated, only one of the additions is kept, so a node
    divides by one of its exponentials; `index_add` and `scatter_add` add every one."""
    exponentials = scores.exp()
    sums = scores.new_zeros(*scores.shape[:-1], n_nodes)
    sums[..., edges[0]] += exponentials
    return exponentials / sums[..., edges[0]]


@wrong.part
def keeps_one_exponential_and_one_sum_for_all_heads(scores, edges, n_nodes):
    """You add up by `sums[edges[0]] += …`. Where an index is repeated, only one of the additions is kept; `index_add` and
    `scatter_add` add every one. And with heads in front, `sums` needs their axes, too: (*scores.shape[:-1], n_nodes)."""
    exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
    sums = torch.zeros(n_nodes)
    sums[edges[0]] += exponentials
    return exponentials / sums[edges[0]]


@wrong.part
def keeps_one_exponential_of_the_scores_as_they_are(scores, edges, n_nodes):
    """You add up by `sums[edges[0]] += …`, where only one of the additions to a repeated index is kept; `index_add` and
    `scatter_add` add every one. And with heads in front, `sums` needs their axes: (*scores.shape[:-1], n_nodes)."""
    exponentials = scores.exp()
    sums = torch.zeros(n_nodes)
    sums[edges[0]] += exponentials
    return exponentials / sums[edges[0]]


@wrong.part
def forgets_to_divide(scores, edges, n_nodes):
    """You return the exponentials without dividing by their sum: the weights of a node's edges must sum to 1."""
    query = edges[0].expand(scores.shape)
    largest = scores.new_full((*scores.shape[:-1], n_nodes), -torch.inf).scatter_reduce(-1, query, scores.detach(), "amax")
    return (scores - largest.gather(-1, query)).exp()


@wrong.case
def forgets_the_heads_without_edges(scores, edges, n_nodes):
    """Without edges you return one empty list. There is an empty one for each head: a result has the shape of the scores."""
    if edges.shape[1] == 0:
        return scores.flatten()
    return edge_softmax(scores, edges, n_nodes)


@right
def node_by_node(scores, edges, n_nodes):
    """A loop over the nodes: the softmax of each node's edges, written to the places where they stand."""
    weights = torch.zeros_like(scores)
    for i in range(n_nodes):
        own = edges[0] == i
        weights[..., own] = scores[..., own].softmax(-1)
    return weights


@right
def edges_against_edges(scores, edges, n_nodes):
    """An E × E softmax, each row over the edges that share its edge's looking node; the diagonal is the edge's own weight."""
    strangers = edges[0][:, None] != edges[0][None, :]
    together = scores.unsqueeze(-2).masked_fill(strangers, -torch.inf)
    return together.softmax(-1).diagonal(dim1=-2, dim2=-1)


@right
def sorted_and_put_back(scores, edges, n_nodes):
    """The edges sorted by node and cut at its borders, softmax piece by piece, and the order undone at the end."""
    order = edges[0].argsort()
    pieces = scores.index_select(-1, order).split(torch.bincount(edges[0], minlength=n_nodes).tolist(), dim=-1)
    weights = torch.cat([scores[..., :0], *(piece.softmax(-1) for piece in pieces)], dim=-1)
    return weights.index_select(-1, order.argsort())


@right
def edge_by_edge_in_double_precision(scores, edges, n_nodes):
    """A loop over the edges, which gathers the logarithm of each node's sum in float64; cast back at the end."""
    wide, query = scores.double(), edges[0].tolist()
    log_sums = {}
    for e, i in enumerate(query):
        log_sums[i] = torch.logaddexp(log_sums[i], wide[..., e]) if i in log_sums else wide[..., e]
    weights = [(wide[..., e] - log_sums[i]).exp().unsqueeze(-1) for e, i in enumerate(query)]
    return torch.cat([wide[..., :0], *weights], dim=-1).to(scores.dtype)


@stranger
def softmax_in_base_two(scores, edges, n_nodes):
    return edge_softmax(scores * 0.6931, edges, n_nodes)


@stranger
def softmax_skips_the_loops(scores, edges, n_nodes):
    return edge_softmax(scores.masked_fill(edges[0] == edges[1], -50.0), edges, n_nodes)


@stranger
def softmax_detaches_the_scores(scores, edges, n_nodes):
    return edge_softmax(scores.detach(), edges, n_nodes)


@stranger
def softmax_adds_an_epsilon(scores, edges, n_nodes):
    exponentials = (scores - scores.amax()).exp()
    sums = torch.zeros(*scores.shape[:-1], n_nodes).index_add(-1, edges[0], exponentials)
    return exponentials / (sums.index_select(-1, edges[0]) + 1e-16)


@stranger(makes=[normalises_over_all_edges])
def softmax_of_everything_by_hand(scores, edges, n_nodes):
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


@stranger(makes=[groups_by_the_node_looked_at, subtracts_nothing])
def softmax_twice_wrong(scores, edges, n_nodes):
    exponentials = scores.exp()
    sums = torch.zeros(*scores.shape[:-1], n_nodes).index_add(-1, edges[1], exponentials)
    return exponentials / sums.index_select(-1, edges[1])


FAR = ((1000.0, 1000.0), (-1000.0, -1000.0), (-1000.0, 1000.0))


def _edges(draw: Draw, n_nodes: int, *batch: int, scale: float = 1.0, make=edge_lists.plain) -> Call:
    edges = make(draw, n_nodes)
    return draw.normal(*batch, edges.shape[1], scale=scale), edges, n_nodes


def _star(draw: Draw, n_nodes: int) -> Call:
    """One node looks at all the others."""
    edges = torch.stack([torch.zeros(n_nodes - 1, dtype=torch.int64), torch.arange(1, n_nodes)])
    return draw.normal(n_nodes - 1), edges, n_nodes


def _apart(draw: Draw, low: float, high: float) -> Call:
    """Two nodes that look at three each: the scores of one lie around `low`, those of the other around `high`."""
    edges = edge_lists.shuffled(draw, torch.tensor([[0, 0, 0, 1, 1, 1], [1, 2, 3, 0, 2, 3]]))
    return draw.normal(6) + torch.where(edges[0] == 0, low, high), edges, 4


def _none(draw: Draw) -> list[Call]:
    return [(draw.normal(*heads, 0), torch.empty(2, 0, dtype=torch.int64), 3) for heads in ((), (3,))]


exercise = Exercise(
    id="15.2",
    title="A softmax over the edges of each node",
    reference=edge_softmax,
    properties=(
        runs_on(lambda draw: [_star(draw, 5), _edges(draw, 5), _edges(draw, 5, 3)]),
        has_shape("One weight for each edge, in every head.", lambda draw: [_edges(draw, 5), _edges(draw, 5, 3)]),
        Property("one node", "For one receiver it is a plain softmax.", lambda draw: [_star(draw, 3), _star(draw, 7)]),
        Property(
            "nodes",
            "The weights of each receiver sum to 1, and the edges keep their order.",
            lambda draw: [_edges(draw, 3), _edges(draw, 5), _edges(draw, 7)],
            points=3,
            needs=("one node",),
        ),
        Property(
            "loops, repeats, gaps",
            "A loop is an edge; an edge listed twice counts twice; a node may have none.",
            lambda draw: [
                *(_edges(draw, n, make=edge_lists.tangled) for n in (5, 7)),
                (draw.normal(3), torch.tensor([[6, 5, 6], [0, 6, 1]]), 7),
            ],
            points=2,
            needs=("nodes",),
        ),
        Property(
            "large scores",
            "Scores of any size give weights that are finite and right.",
            lambda draw: [*(_apart(draw, *far) for far in FAR), _edges(draw, 5, scale=100.0)],
            points=2,
            needs=("nodes",),
        ),
        Property("no edge", "A graph without edges has no weights, and that is no error.", _none, needs=("one node",)),
        Property(
            "heads",
            "Each head is computed independently, with any number of batch axes.",
            lambda draw: [_edges(draw, 5, 3), _edges(draw, 5, 2, 3, make=edge_lists.tangled)],
            needs=("nodes",),
        ),
        has_gradient(lambda draw: [_edges(draw, 5, 3), _edges(draw, 7, make=edge_lists.tangled)], needs=("nodes",)),
        leaves_inputs(lambda draw: [_edges(draw, 5, 3)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        (
            "The inputs of the exercise are float32, which is as wide as the sums get; in bfloat16, tested elsewhere, "
            "the kinds differ."
        ): (
            "drop call: wide = scores.dtype",
            "drop call: wide = torch.float32",
            "swap arguments: wide = torch.promote_types(torch.float32, scores.dtype)",
            "drop call: return exponentials / sums.gather(-1, query)",
            "drop argument: return (exponentials / sums.gather(-1, query)).to()",
            "drop attribute: (exponentials / sums.gather(-1, query)).to(scores)",
            "other name: query.dtype",
            "other name: edges.dtype",
            "drop call: (scores - largest.gather(-1, query)).exp",
            "drop argument: (scores - largest.gather(-1, query)).to().exp",
            "other name: exponentials.dtype (2)",
            "other name: largest.dtype (2)",
            "other name: sums.dtype (2)",
            "other name: (scores - largest.gather(-1, query)).to(largest)",
            "other name: (scores - largest.gather(-1, query)).to(scores)",
        ),
        "A tensor of integers carries no gradient.": (
            (
                "detach: scores.new_full((*scores.shape[:-1], n_nodes), -torch.inf).scatter_reduce(-1, query.detach(), "
                "scores.detach(), 'amax')"
            ),
            "detach: exponentials.new_zeros(largest.shape).scatter_add(-1, query.detach(), exponentials)",
            "detach: sums.gather(-1, query.detach())",
            "detach: edges.detach()[0]",
            "detach: largest.gather(-1, query.detach())",
        ),
        "Subtracting the largest score changes no weight, so its gradients cancel: detaching it only saves work.": (
            ("drop call: scores.new_full((*scores.shape[:-1], n_nodes), -torch.inf).scatter_reduce(-1, query, scores, 'amax')"),
        ),
        "The inputs of the exercise list edges as int64.": ("drop call: edges[0].expand",),
        "Only a size, a kind or the device is read, and a detached tensor has the same.": (
            "detach: scores.detach().shape",
            "detach: scores.detach().dtype",
            "detach: scores.detach().dtype (2)",
            "detach: scores.detach().new_full",
            "detach: exponentials.detach().new_zeros",
            "detach: largest.detach().shape",
            "detach: scores.detach().shape (2)",
        ),
        "It is detached already.": ("detach: scores.detach().detach",),
        "new_zeros and new_full take a size, the kind and the device alone, and these are the same.": (
            "other name: largest.new_zeros",
            "other name: scores.new_zeros",
            "other name: query.shape (3)",
        ),
        "The largest scores are detached already.": ("detach: largest.detach().gather",),
    },
    hints=HINTS,
)
