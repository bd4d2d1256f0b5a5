"""Exercise 15.5, gcn_weights: what students answer, wrong and right."""

from collections import Counter

import torch

from course_lib.primitives import gcn_weights, require_edges, with_self_loops
from course_tools.bank.lecture_15 import _edge_lists as edge_lists
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "How many edges have node i as receiver, and where in the edge list is that? Then take an edge (i, j): it needs that "
        "number for both of its ends."
    ),
    (
        "`torch.bincount` counts how often each number occurs; tell it how many nodes there are, or the last ones may be "
        "missing. Give each node 1 / √d, and 0 where d is 0."
    ),
    (
        "Count how often each node stands in edges[0], as floats; an isolated node has 0, whose inverse root should be 0, "
        "not infinite. An edge multiplies the inverse roots of both of its nodes."
    ),
)


@wrong.idea
def takes_the_mean(edges, n_nodes):
    """You give each edge 1 / d_i, which makes a mean over the neighbours. A graph convolution divides by √d_i √d_j, with
    the degrees of both ends."""
    degree = torch.bincount(edges[0], minlength=n_nodes).float()
    return 1 / degree[edges[0]]


@wrong.part
def looks_at_one_end_only(edges, n_nodes):
    """You use only the degree of the receiver. The weight is 1 / √(d_i d_j), with the degrees of both ends."""
    degree = torch.bincount(edges[0], minlength=n_nodes).float()
    return degree[edges[0]].rsqrt()


@wrong.detail
def forgets_the_root(edges, n_nodes):
    """You divide by d_i · d_j. Divide by the *root* of each degree."""
    degree = torch.bincount(edges[0], minlength=n_nodes).float()
    inverse = torch.where(degree > 0, 1 / degree, 0.0)
    return inverse[edges[0]] * inverse[edges[1]]


@wrong.idea
def counts_who_is_looked_at(edges, n_nodes):
    """You count edges[1]. The degree here is the number of edges with the node as receiver, edges[0]; in a directed graph the
    two differ."""
    degree = torch.bincount(edges[1], minlength=n_nodes).float()
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    return scale[edges[0]] * scale[edges[1]]


@wrong.idea
def counts_who_is_looked_at_and_divides_by_zero(edges, n_nodes):
    """You count edges[1], and divide by the root of a count that may be 0. The degree here is the number of edges with the node
    as receiver, edges[0]; in a directed graph the two differ."""
    degree = torch.bincount(edges[1], minlength=n_nodes).float()
    return 1 / (degree[edges[0]] * degree[edges[1]]).sqrt()


@wrong.part
def counts_both_ends(edges, n_nodes):
    """You count how often a node occurs in the list, at either end. An undirected graph lists both directions already, so
    your degrees are twice too large there."""
    degree = torch.bincount(edges.flatten(), minlength=n_nodes).float()
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    return scale[edges[0]] * scale[edges[1]]


@wrong.part
def counts_each_end_in_its_own_row(edges, n_nodes):
    """You count the first nodes in edges[0] and the second ones in edges[1]. Both degrees are counted in edges[0]."""
    looks = torch.bincount(edges[0], minlength=n_nodes).float()
    looked_at = torch.bincount(edges[1], minlength=n_nodes).float()
    return looks[edges[0]].rsqrt() * looked_at[edges[1]].rsqrt()


@wrong.detail
def adds_one_for_itself(edges, n_nodes):
    """You add 1 to every degree, for the node itself. Self-loops are put into the list by the caller, and counted there."""
    scale = (torch.bincount(edges[0], minlength=n_nodes).float() + 1).rsqrt()
    return scale[edges[0]] * scale[edges[1]]


@wrong.detail
def adds_the_self_loops(edges, n_nodes):
    """You put the missing self-loops into the list first. Return weights for the given edges only, in their order."""
    edges = with_self_loops(edges, n_nodes)
    scale = torch.bincount(edges[0], minlength=n_nodes).float().rsqrt()
    return scale[edges[0]] * scale[edges[1]]


@wrong.detail
def leaves_the_self_loops_out(edges, n_nodes):
    """You do not count self-loops. A loop is an edge like any other: it is what the I in A + I adds to the degree."""
    degree = torch.bincount(edges[0][edges[0] != edges[1]], minlength=n_nodes).float()
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    return scale[edges[0]] * scale[edges[1]]


@wrong.case
def divides_by_zero(edges, n_nodes):
    """You divide by the root of every degree. A node with degree 0 may be the sender of an edge, which then gets the weight
    inf; it must be 0."""
    scale = torch.bincount(edges[0], minlength=n_nodes).float().rsqrt()
    return scale[edges[0]] * scale[edges[1]]


@wrong.case
def counts_at_least_one(edges, n_nodes):
    """You replace the degree 0 by 1. An edge to such a node then has the weight 1 / √d_i; it must be 0."""
    scale = torch.bincount(edges[0], minlength=n_nodes).clamp(min=1).float().rsqrt()
    return scale[edges[0]] * scale[edges[1]]


@wrong.case
def counts_each_pair_once(edges, n_nodes):
    """You drop repeated edges before you count. An edge listed twice counts twice: the degree is the number of entries in
    the list."""
    degree = torch.bincount(edges.unique(dim=1)[0], minlength=n_nodes).float()
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    return scale[edges[0]] * scale[edges[1]]


@wrong.case
def counts_the_nodes_that_occur(edges, n_nodes):
    """You call `bincount` without `minlength`. It ends at the largest number in the list, and later nodes have no degree."""
    degree = torch.bincount(edges[0]).float()
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    return scale[edges[0]] * scale[edges[1]]


@wrong.case
def divides_by_the_degrees_that_occur(edges, n_nodes):
    """You call `bincount` without `minlength`: it ends at the largest number in edges[0], and a sender beyond it has no degree.
    Give it `minlength=n_nodes`; the weight of an edge to a node with degree 0 is then 0, not infinite."""
    scale = torch.bincount(edges[0]).float().rsqrt()
    return scale[edges[0]] * scale[edges[1]]


@wrong.case
def multiplies_the_degrees_that_occur(edges, n_nodes):
    """You call `bincount` without `minlength`. It ends at the largest number in edges[0], and a sender beyond it has no degree:
    give it `minlength=n_nodes`."""
    degree = torch.bincount(edges[0]).float()
    product = degree[edges[0]] * degree[edges[1]]
    return torch.where(product > 0, product.rsqrt(), 0.0)


@wrong.case
def replaces_infinity_by_a_large_number(edges, n_nodes):
    """You divide by 0 where a sender has degree 0, and `nan_to_num` makes a number of 38 digits of that. The weight must be 0:
    choose it before you divide, or by `posinf=0.0`."""
    degree = torch.bincount(edges[0], minlength=n_nodes).float()
    return torch.nan_to_num(1 / torch.sqrt(degree[edges[0]] * degree[edges[1]]))


@wrong.case
def replaces_infinity_among_the_degrees_that_occur(edges, n_nodes):
    """You call `bincount` without `minlength`: a sender beyond the largest number in edges[0] has no degree. And where a degree
    is 0, `nan_to_num` makes a number of 38 digits of 1 / 0; the weight must be 0."""
    degree = torch.bincount(edges[0]).float()
    return torch.nan_to_num(1 / torch.sqrt(degree[edges[0]] * degree[edges[1]]))


@right
def by_comparison(edges, n_nodes):
    """The degrees as row sums of a table of who is who, and one root of the product of both."""
    require_edges(edges, n_nodes)
    who = edges[0] == torch.arange(n_nodes, device=edges.device).unsqueeze(1)
    degree = who.sum(dim=1)
    product = (degree[edges[0]] * degree[edges[1]]).to(torch.float32)
    return torch.where(product > 0, 1 / product.clamp(min=1).sqrt(), 0.0)


@right
def from_the_matrix(edges, n_nodes):
    """D^-½ 1 D^-½ as a dense matrix, read off at the edges; the adjacency matrix is there for its row sums."""
    require_edges(edges, n_nodes)
    query, key = edges.long().unbind(0)
    one = torch.ones((), dtype=torch.float32, device=edges.device)
    A = torch.zeros(n_nodes, n_nodes, dtype=torch.float32, device=edges.device).index_put((query, key), one, accumulate=True)
    root = A.sum(1).sqrt()
    scale = root.reciprocal().masked_fill(root == 0, 0.0)
    return torch.outer(scale, scale)[query, key]


@right
def edge_by_edge(edges, n_nodes):
    """Plain Python: a counter, and a loop over the edges."""
    require_edges(edges, n_nodes)
    degree = Counter(edges[0].tolist())
    weights = [(degree[i] * degree[j]) ** -0.5 if degree[j] else 0.0 for i, j in edges.T.tolist()]
    return torch.tensor(weights, dtype=torch.float32, device=edges.device)


@right
def by_adding_ones(edges, n_nodes):
    """The degrees by `index_add` in float64, and the power -½ as the exponential of a logarithm: log 0 gives 0 in the end."""
    require_edges(edges, n_nodes)
    degree = torch.zeros(n_nodes, dtype=torch.float64, device=edges.device)
    degree = degree.index_add(0, edges[0], torch.ones(edges.shape[1], dtype=torch.float64, device=edges.device))
    half_log = torch.where(degree > 0, -0.5 * degree.log(), -torch.inf)
    return half_log[edges].sum(0).exp().float()


@stranger
def gcn_takes_the_larger_degree(edges, n_nodes):
    degree = torch.bincount(edges[0], minlength=n_nodes).float()
    larger = torch.maximum(degree[edges[0]], degree[edges[1]])
    return torch.where(degree[edges[1]] > 0, 1 / larger, 0.0)


@stranger
def gcn_normalises_by_the_mean(edges, n_nodes):
    degree = torch.bincount(edges[0], minlength=n_nodes).float()
    both = (degree[edges[0]] + degree[edges[1]]) / 2
    return torch.where(degree[edges[1]] > 0, 1 / both, 0.0)


@stranger
def gcn_gives_a_matrix(edges, n_nodes):
    degree = torch.bincount(edges[0], minlength=n_nodes).float()
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    return torch.zeros(n_nodes, n_nodes).index_put((edges[0], edges[1]), scale[edges[0]] * scale[edges[1]])


@stranger(makes=[takes_the_mean])
def gcn_mean_of_a_counter(edges, n_nodes):
    return torch.stack([1 / (edges[0] == i).sum() for i in edges[0]]) if edges.shape[1] else torch.zeros(0)


@stranger(makes=[forgets_the_root, counts_who_is_looked_at])
def gcn_twice_wrong(edges, n_nodes):
    degree = torch.bincount(edges[1], minlength=n_nodes).float()
    return 1 / (degree[edges[0]] * degree[edges[1]])


def _ring(draw: Draw, n_nodes: int, reach: int) -> Call:
    """A ring in which every node looks at as many nodes on each side: all degrees are alike."""
    i = torch.arange(n_nodes)
    both = [torch.stack([i, (i + step) % n_nodes]) for k in range(1, reach + 1) for step in (k, -k)]
    return edge_lists.shuffled(draw, torch.cat(both, dim=1)), n_nodes


def _looped(draw: Draw, n_nodes: int) -> Call:
    return edge_lists.shuffled(draw, with_self_loops(edge_lists.plain(draw, n_nodes), n_nodes)), n_nodes


def _both_ways(draw: Draw, n_nodes: int) -> Call:
    """An undirected graph without loops."""
    upper = torch.rand(n_nodes, n_nodes, generator=draw.generator).triu(1)
    joined = (upper > 0.4) | (upper > 0.4).mT
    joined[0, 1:], joined[1:, 0] = True, True
    return edge_lists.shuffled(draw, joined.nonzero().mT), n_nodes


exercise = Exercise(
    id="15.5",
    title="The fixed weights of a GCN",
    reference=gcn_weights,
    properties=(
        runs_on(lambda draw: [_ring(draw, 5, 1), _both_ways(draw, 5)]),
        has_shape("One weight for each edge.", lambda draw: [_ring(draw, 5, 1), _both_ways(draw, 5)]),
        Property(
            "regular graph",
            "Where all nodes have degree d, every weight is 1 / d.",
            lambda draw: [_ring(draw, 7, 1), _ring(draw, 7, 2)],
        ),
        Property(
            "both ends",
            "In an undirected graph the weight of an edge is 1 / √(d_i d_j), the same in both directions.",
            lambda draw: [_both_ways(draw, 5), _both_ways(draw, 7)],
            points=3,
            needs=("regular graph",),
        ),
        Property(
            "directed",
            "The degree of either end counts the edges with that node as receiver.",
            lambda draw: [
                (torch.tensor([[0, 1, 2], [1, 2, 1]]), 3),  # node 0 receives and never sends
                *((edge_lists.plain(draw, n), n) for n in (5, 7)),
            ],
            points=2,
            needs=("both ends",),
        ),
        Property(
            "loops",
            "A loop is an edge like any other.",
            lambda draw: [_looped(draw, 5), _looped(draw, 7)],
            needs=("both ends",),
        ),
        Property(
            "repeats and gaps",
            "An edge listed twice counts twice; an edge to a node of degree 0 has weight 0.",
            lambda draw: [
                (torch.tensor([[0, 0, 1], [1, 2, 0]]), 4),
                (edge_lists.tangled(draw, 5), 5),
                (edge_lists.tangled(draw, 7), 9),
                (torch.empty(2, 0, dtype=torch.int64), 3),
            ],
            points=2,
            needs=("directed",),
        ),
        leaves_inputs(lambda draw: [_looped(draw, 5)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "torch takes the root of integers as float32.": ("drop call: degree = torch.bincount(query, minlength=n_nodes)",),
    },
    hints=HINTS,
)
