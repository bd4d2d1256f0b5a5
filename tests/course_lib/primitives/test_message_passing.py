"""Edge lists, self-loops, the fixed weights of a GCN, propagation and the Dirichlet energy."""

import itertools
import math

import pytest
import torch

from course_lib.primitives import dirichlet_energy, gcn_weights, propagate, with_self_loops

N, d, B = 7, 3, 2


def directed(n=N, chance=0.4, seed=0):
    """A random directed graph with loops and unsorted edges; node 2 attends to no node, and no node attends to node 3."""
    generator = torch.Generator().manual_seed(seed)
    allowed = torch.rand(n, n, generator=generator) < chance
    allowed[2], allowed[:, 3] = False, False
    edges = allowed.nonzero().mT
    return edges[:, torch.randperm(edges.shape[1], generator=generator)], allowed


def undirected(n=N, chance=0.4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    upper = torch.rand(n, n, generator=generator).triu(1)
    allowed = (upper > 1 - chance) | (upper > 1 - chance).mT
    return allowed.nonzero().mT, allowed


def test_loops_are_added_where_they_are_missing_and_after_the_other_edges():
    edges = torch.tensor([[2, 0, 1, 1], [2, 1, 0, 1]])
    expected = torch.tensor([[2, 0, 1, 1, 0, 3], [2, 1, 0, 1, 0, 3]])
    torch.testing.assert_close(with_self_loops(edges, 4), expected)
    torch.testing.assert_close(with_self_loops(expected, 4), expected)
    assert with_self_loops(edges.int(), 4).dtype == torch.int32
    assert with_self_loops(torch.empty(2, 0, dtype=torch.int64), 3).tolist() == [[0, 1, 2]] * 2


def test_gcn_weights_by_hand():
    """A path 0 - 1 - 2 with loops: the degrees are 2, 3, 2."""
    edges = torch.tensor([[0, 0, 1, 1, 1, 2, 2], [0, 1, 0, 1, 2, 1, 2]])
    outer, across, inner = 1 / 2, 1 / math.sqrt(6), 1 / 3
    expected = torch.tensor([outer, across, across, inner, across, across, outer])
    torch.testing.assert_close(gcn_weights(edges, 3), expected)


@pytest.mark.parametrize("make", [directed, undirected])
def test_gcn_weights_are_those_of_the_matrix(make):
    edges, allowed = make()
    looped = with_self_loops(edges, N)
    matrix = (allowed | torch.eye(N, dtype=torch.bool)).double()
    scale = torch.diag(matrix.sum(1) ** -0.5)
    expected = scale @ matrix @ scale
    torch.testing.assert_close(gcn_weights(looped, N).double(), expected[looped[0], looped[1]])


def test_an_edge_to_a_node_that_looks_nowhere_weighs_nothing():
    weights = gcn_weights(torch.tensor([[0, 0], [1, 0]]), 2)
    assert weights.tolist() == pytest.approx([0.0, 0.5])
    assert gcn_weights(torch.empty(2, 0, dtype=torch.int64), 3).shape == (0,)


@pytest.mark.parametrize("batch", [(), (B,)])
def test_propagation_is_a_product_with_the_matrix(normal, agree, batch):
    edges, _ = directed()
    places = edges[0], edges[1]

    def by_matrix(x, weights):
        matrix = weights.new_zeros(*batch, N, N)
        matrix[..., places[0], places[1]] = weights
        return matrix @ x

    agree(lambda x, w: propagate(x, edges, w), by_matrix, normal(*batch, N, d), normal(*batch, edges.shape[1]))


def test_relabelling_the_nodes_relabels_what_propagates(normal):
    edges, _ = directed()
    x, weights, order = normal(N, d), normal(edges.shape[1]), torch.randperm(N, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(propagate(x[order], order.argsort()[edges], weights), propagate(x, edges, weights)[order])


def test_many_small_messages_add_up_in_bfloat16():
    """Two thousand leaves with weight 1: added up in bfloat16, ones stop growing at 256."""
    edges = torch.stack([torch.zeros(2000, dtype=torch.int64), torch.arange(1, 2001)])
    ones = torch.ones(2001, 1, dtype=torch.bfloat16)
    assert propagate(ones, edges, torch.ones(2000, dtype=torch.bfloat16))[0].item() == pytest.approx(2000, rel=0.01)


def test_dirichlet_energy_by_hand():
    """A path 0 - 1 - 2 with values 0, 1, 3: one squared and two squared."""
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    assert dirichlet_energy(torch.tensor([[0.0], [1.0], [3.0]]), edges).item() == 5.0


def test_the_energy_of_a_large_graph_is_beyond_float16():
    """5,000 edges between 0 and 8 sum to 160,000, but float16 ends at 65,504."""
    edges = torch.tensor([[0], [1]]).expand(2, 5000)
    energy = dirichlet_energy(torch.tensor([[0.0], [8.0]], dtype=torch.float16), edges)
    assert energy.item() == 160_000.0


def test_dirichlet_energy_is_the_form_of_the_laplacian(normal, agree):
    edges, allowed = undirected()
    laplacian = torch.diag(allowed.sum(1).double()) - allowed.double()

    def trace(x):
        return (x * (laplacian @ x)).sum((-2, -1))

    agree(lambda x: dirichlet_energy(x, edges), trace, normal(B, N, d))


def test_the_energy_is_0_where_neighbours_are_alike_and_only_there(normal):
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    x = torch.tensor([[1.0], [1.0], [5.0], [5.0], [9.0]])
    assert dirichlet_energy(x, edges).item() == 0.0
    assert dirichlet_energy(x + torch.tensor([[0.0], [0.1], [0.0], [0.0], [0.0]]), edges).item() > 0.0
    assert dirichlet_energy(normal(B, N, d), edges[:, :0]).tolist() == [0.0] * B


def test_over_smoothing_each_step_shrinks_the_energy_by_the_second_eigenvalue(normal):
    """Cai & Wang 2020, proposition 3.1: E(Â x) ≤ (largest |μ| ≠ 1)² E(x), where E is that of x_i / √d_i."""
    edges, _ = undirected(n=11, chance=0.5)
    looped = with_self_loops(edges, 11)
    weights, root = gcn_weights(looped, 11).double(), torch.bincount(looped[0]).double().sqrt()[:, None]
    matrix = torch.zeros(11, 11, dtype=torch.float64)
    matrix[looped[0], looped[1]] = weights
    second = torch.linalg.eigvalsh(matrix).abs().sort().values[-2]
    assert second < 0.95
    x = normal(11, d).detach()
    energies = []
    for _ in range(60):
        energies.append(dirichlet_energy(x / root, edges).item())
        x = propagate(x, looped, weights)
    shrunk = [after / before for before, after in itertools.pairwise(energies[:9])]
    assert max(shrunk) <= second.item() ** 2 * (1 + 1e-4)
    assert shrunk[-1] == pytest.approx(second.item() ** 2, rel=0.1)
    flat = x / root
    torch.testing.assert_close(flat, flat[:1].expand_as(flat), atol=1e-3 * x.abs().max().item(), rtol=0.0)


@pytest.mark.parametrize(("edges", "named"), [([[0, 1], [1, 9]], "0 to 9"), ([[0, -1], [1, 0]], "-1 to 1")])
def test_an_edge_to_a_node_that_is_not_there_is_refused(edges, named):
    edges = torch.tensor(edges)
    for call in (
        lambda: gcn_weights(edges, N),
        lambda: with_self_loops(edges, N),
        lambda: dirichlet_energy(torch.zeros(N, d), edges),
        lambda: propagate(torch.zeros(N, d), edges, torch.zeros(2)),
    ):
        with pytest.raises(ValueError, match=f"edges name nodes {named}, but there are nodes 0 to 6"):
            call()


def test_many_weightings_of_one_graph_are_a_batch():
    generator = torch.Generator().manual_seed(0)
    x, edges = torch.randn(5, 3, generator=generator), torch.randint(5, (2, 11), generator=generator)
    weights = torch.randn(7, 2, 11, generator=generator)
    expected = torch.stack([torch.stack([propagate(x, edges, w) for w in row]) for row in weights])
    torch.testing.assert_close(propagate(x, edges, weights), expected)
    torch.testing.assert_close(propagate(x.expand(7, 2, 5, 3), edges, weights), expected)
