"""Exercise 15.7, dirichlet_energy: what students answer, wrong and right."""

import torch

from course_lib.primitives import dirichlet_energy, require_edges
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
        "Two nodes joined in both directions, at distance 3 from each other: the list has two edges, and the energy "
        "should be 9. What does each edge contribute, and where does the ½ enter?"
    ),
    (
        "Pick the features of all first ends and of all second ends, on the axis of the *nodes*. Square the differences and "
        "add up the features and the edges, but no axis before them."
    ),
    (
        "Collect x at both ends of each edge and subtract. Square, sum over the edges and the features, and halve: each "
        "edge is listed in both directions."
    ),
)


@wrong.detail
def forgets_the_half(x, edges):
    """You leave out the ½. An undirected graph lists each pair in both directions, and your sum counts it twice."""
    return (x[..., edges[0], :] - x[..., edges[1], :]).square().sum((-2, -1))


@wrong.part
def takes_absolute_differences(x, edges):
    """You add up absolute differences. The energy sums their squares."""
    return 0.5 * (x[..., edges[0], :] - x[..., edges[1], :]).abs().sum((-2, -1))


@wrong.part
def adds_up_distances(x, edges):
    """You add up the distances of the neighbours and not their squares: the norm in the formula carries a 2 above it. Where
    two neighbours are equal, the root also has no gradient."""
    return 0.5 * (x[..., edges[0], :] - x[..., edges[1], :]).norm(dim=-1).sum(-1)


@wrong.detail
def averages_over_the_edges(x, edges):
    """You take the mean over the edges. The energy is their sum; and without any edge it is 0, where your mean is 0 / 0."""
    return 0.5 * (x[..., edges[0], :] - x[..., edges[1], :]).square().sum(-1).mean(-1)


@wrong.detail
def averages_over_the_features(x, edges):
    """You take the mean over the features. A squared distance is the sum over them: your energy is d times too small."""
    return 0.5 * (x[..., edges[0], :] - x[..., edges[1], :]).square().mean(-1).sum(-1)


@wrong.case
def adds_up_the_batch(x, edges):
    """You add up everything, the batch included. Each graph of the batch has its own energy: the result is (*batch,)."""
    return 0.5 * (x[..., edges[0], :] - x[..., edges[1], :]).square().sum()


@wrong.case
def picks_on_the_first_axis(x, edges):
    """You pick the nodes on the first axis. With a batch in front that axis is the batch, and you subtract whole graphs from
    each other; the nodes are the last axis but one."""
    return 0.5 * (x[edges[0]] - x[edges[1]]).square().sum((-2, -1))


@wrong.idea
def squares_at_the_end(x, edges):
    """You add up the differences along the edges and square the sum. Differences of opposite sign cancel; square before you
    sum."""
    return 0.5 * (x[..., edges[0], :] - x[..., edges[1], :]).sum(-2).square().sum(-1)


@wrong.idea
def compares_the_lengths(x, edges):
    """You take the difference of the squares, ‖x_i‖² - ‖x_j‖². The energy needs the square of the difference."""
    squares = x.square().sum(-1)
    return 0.5 * (squares[..., edges[0]] - squares[..., edges[1]]).sum(-1)


@wrong.detail
def keeps_one_direction(x, edges):
    """You keep only the edges from a smaller to a larger number and still take half. The ½ is there because both directions
    count; in a directed graph the edges that you drop are missing altogether."""
    query, key = edges[:, edges[0] < edges[1]]
    return 0.5 * (x[..., query, :] - x[..., key, :]).square().sum((-2, -1))


@wrong.case
def counts_each_edge_once(x, edges):
    """An edge that is listed twice counts once, as it does in a matrix of True and False. It must count twice."""
    N = x.shape[-2]
    A = torch.zeros(N, N, dtype=torch.bool)
    A[edges[0].long(), edges[1].long()] = True
    return 0.5 * ((x.unsqueeze(-2) - x.unsqueeze(-3)).square().sum(-1) * A).sum((-2, -1))


@wrong.part
def divides_by_the_degrees(x, edges):
    """You divide each x_i by √(1 + d_i) first, as the paper does for its normalised graph. Here the features are compared
    as they are."""
    degree = torch.bincount(edges[0], minlength=x.shape[-2])
    x = x / (1 + degree).to(x.dtype).sqrt().unsqueeze(-1)
    return 0.5 * (x[..., edges[0], :] - x[..., edges[1], :]).square().sum((-2, -1))


@wrong.idea
def adds_instead_of_subtracting(x, edges):
    """You add the features of the two neighbours where they must be subtracted: the energy is 0 where neighbours are equal."""
    query, key = edges
    return 0.5 * (x[..., query, :] + x[..., key, :]).square().sum((-2, -1))


@wrong.idea
def takes_the_product(x, edges):
    """You add up the products of neighbours' features. The energy is built of squared differences: it must be 0 where
    neighbours are equal."""
    query, key = edges
    return 0.5 * (x[..., query, :] * x[..., key, :]).sum((-2, -1))


@wrong.idea
def measures_the_features_alone(x, edges):
    """You add up the squared lengths of all features and never use the edges. The energy compares the two ends of each edge."""
    return 0.5 * x.square().sum((-2, -1))


@wrong.part
def takes_the_root_of_the_sum(x, edges):
    """You take the root at the end. The energy is the sum of squared distances itself."""
    return (0.5 * (x[..., edges[0], :] - x[..., edges[1], :]).square().sum((-2, -1))).sqrt()


@wrong.idea
def compares_all_pairs_of_nodes(x, edges):
    """You compare each node with every other one, whatever the edges are. Only neighbours count."""
    return 0.5 * (x.unsqueeze(-2) - x.unsqueeze(-3)).square().sum((-3, -2, -1))


@wrong.case
def forgets_the_batch_without_edges(x, edges):
    """Without edges you return a single 0. Each graph of a batch has its energy: as many zeros as there are graphs."""
    if edges.shape[1] == 0:
        return 0 * x.sum()
    return dirichlet_energy(x, edges)


@right
def edge_by_edge(x, edges):
    """A loop over the edges, each with the dot product of its difference with itself."""
    require_edges(edges, x.shape[-2])
    energy = x[..., :0, :].sum((-2, -1))
    for i, j in edges.mT.tolist():
        step = x[..., i, :] - x[..., j, :]
        energy = energy + torch.einsum("...d,...d->...", step, step) / 2
    return energy


@right
def by_the_incidence_matrix(x, edges):
    """An incidence matrix B (E, N) with 1 at the attending node and -1 at the other, and a zero row for a loop: ½ ‖B X‖²."""
    E, N = edges.shape[1], x.shape[-2]
    require_edges(edges, N)
    node = torch.arange(N, device=edges.device)
    B = (edges[0].unsqueeze(1) == node).to(x.dtype) - (edges[1].unsqueeze(1) == node).to(x.dtype)
    steps = torch.matmul(B, x).reshape(*x.shape[:-2], E * x.shape[-1])
    return steps.pow(2).sum(dim=-1).mul(0.5)


@right
def as_a_trace(x, edges):
    """tr(Xᵀ L X) with the Laplacian of the graph made symmetric, in float64."""
    N = x.shape[-2]
    require_edges(edges, N)
    place = edges[0].long() * N + edges[1].long()
    A = torch.bincount(place, minlength=N * N).view(N, N).double()
    A = (A + A.mT) / 2
    laplacian = A.sum(1).diag() - A
    wide = x.double()
    return torch.einsum("...nd,nm,...md->...", wide, laplacian, wide).to(x.dtype)


@right
def feature_by_feature(x, edges):
    """The batch and the features laid out as rows over the nodes, so that each row is picked from along its last axis."""
    require_edges(edges, x.shape[-2])
    rows = x.mT
    steps = torch.index_select(rows, -1, edges[0]).sub(torch.index_select(rows, -1, edges[1]))
    return torch.linalg.vecdot(steps, steps).sum(-1) / 2


@stranger
def energy_takes_the_root(x, edges):
    return (0.5 * (x[..., edges[0], :] - x[..., edges[1], :]).square().sum((-2, -1))).sqrt()


@stranger
def energy_adds_the_neighbours(x, edges):
    return 0.5 * (x[..., edges[0], :] + x[..., edges[1], :]).square().sum((-2, -1))


@stranger
def energy_divides_by_the_nodes(x, edges):
    return 0.5 * (x[..., edges[0], :] - x[..., edges[1], :]).square().sum((-2, -1)) / x.shape[-2]


@stranger(makes=[forgets_the_half])
def energy_in_a_loop_without_the_half(x, edges):
    steps = [(x[..., i, :] - x[..., j, :]).square().sum(-1) for i, j in edges.T.tolist()]
    return sum(steps, torch.zeros(x.shape[:-2]))


@stranger(makes=[forgets_the_half, takes_absolute_differences])
def energy_twice_wrong(x, edges):
    return (x[..., edges[0], :] - x[..., edges[1], :]).abs().sum((-2, -1))


def _graph(draw: Draw, n_nodes: int, *batch: int, d: int | None = None, make=edge_lists.plain) -> Call:
    d = draw.sizes(1)[0] if d is None else d
    return draw.normal(*batch, n_nodes, d), make(draw, n_nodes)


def _both_ways(draw: Draw, n_nodes: int, d: int) -> Call:
    """An undirected graph: both directions of each edge."""
    x, edges = _graph(draw, n_nodes, d=d)
    places = torch.zeros(n_nodes, n_nodes, dtype=torch.bool).index_put((edges[0], edges[1]), torch.tensor(True))
    return x, edge_lists.shuffled(draw, (places | places.mT).nonzero().mT)


exercise = Exercise(
    id="15.7",
    title="The Dirichlet energy",
    reference=dirichlet_energy,
    properties=(
        runs_on(lambda draw: [_both_ways(draw, 5, 3), _graph(draw, 5)]),
        has_shape("One number for a graph.", lambda draw: [_both_ways(draw, 5, 3), _graph(draw, 5)]),
        Property(
            "two nodes",
            "Two neighbours, with both directions listed, have the energy ‖x_i - x_j‖².",
            lambda draw: [(draw.normal(2, d), torch.tensor([[0, 1], [1, 0]])) for d in (1, 3)],
            points=2,
        ),
        Property(
            "sum",
            "The energy of a graph is the sum over its edges.",
            lambda draw: [_both_ways(draw, 5, 1), _both_ways(draw, 7, 3), _both_ways(draw, 7, 2)],
            points=2,
            needs=("two nodes",),
        ),
        Property(
            "any edges",
            "Every listed edge contributes half its squared distance, repeated ones repeatedly; without edges the energy is 0.",
            lambda draw: [
                _graph(draw, 5),
                _graph(draw, 7, make=edge_lists.tangled),
                *((draw.normal(*shape, 5, 2), torch.empty(2, 0, dtype=torch.int64)) for shape in ((), (3,))),
            ],
            needs=("sum",),
        ),
        Property(
            "batch",
            "Each graph of a batch has its own energy, with any number of batch axes.",
            lambda draw: [_graph(draw, 5, 7), _graph(draw, 5, 7, 3), _graph(draw, 7, 7, make=edge_lists.tangled)],
            needs=("sum",),
        ),
        has_gradient(
            lambda draw: [_both_ways(draw, 5, 3), _graph(draw, 7, 2), (torch.ones(2, 3), torch.tensor([[0, 1], [1, 0]]))],
            needs=("sum",),
        ),
        leaves_inputs(lambda draw: [_graph(draw, 5)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "A square does not tell x - y from y - x, and a sum over two axes not which comes first.": (
            "swap elements: key, query = edges",
            "swap operands: difference = x[..., key, :] - x[..., query, :]",
            "swap elements: difference.square().sum((-1, -2))",
        ),
        "A tensor of integers carries no gradient.": (
            "detach: query, key = edges.detach()",
            "detach: x[..., query.detach(), :]",
            "detach: x[..., key.detach(), :]",
        ),
    },
    hints=HINTS,
    extra=True,
)
