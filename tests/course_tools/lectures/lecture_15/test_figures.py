"""A graph is drawn with the weights it has, and over-smoothing falls at the rate of the second eigenvalue."""

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection

from course_lib.datasets import karate_club
from course_lib.datasets.social_networks import Graph
from course_lib.primitives import dirichlet_energy, gcn_weights
from course_tools.lectures.lecture_15.figures import network, rescaled, show_mean_weights, smoothed, weights_of_a_node
from course_tools.notebook.show import MAX_HEIGHT, MAX_WIDTH, png

# A graph is drawn whole: every node in its group's colour, every half edge by its own weight.


EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 2, 0]])
GROUPS = torch.tensor([0, 0, 1, 2])


def halves(figure):
    (lines,) = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
    return lines


def test_it_fits_the_page_and_draws_without_a_warning():
    figure = network(EDGES, GROUPS, torch.rand(6), ["a", "$b$", "日", ""], ["x", "y", "z"], "Où $\\bad")
    assert tuple(figure.get_size_inches()) <= (MAX_WIDTH, MAX_HEIGHT)
    assert png(figure).startswith(b"\x89PNG")


def test_each_node_has_its_place_and_each_edge_but_loops_its_half():
    figure = network(EDGES, GROUPS)
    nodes = [c.get_offsets() for c in figure.axes[0].collections if not isinstance(c, LineCollection)]
    assert [len(own) for own in nodes] == [2, 1, 1]
    places = np.concatenate(nodes)
    ends = np.array(halves(figure).get_segments())
    assert len(ends) == 5
    for (start, middle), query, key in zip(ends, [0, 1, 1, 2, 3], [1, 0, 2, 1, 0], strict=True):
        assert start == pytest.approx(places[query])
        assert middle == pytest.approx((places[query] + places[key]) / 2)


def test_weights_are_drawn_from_zero_to_one_and_a_loop_has_none():
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.6, 1.0])
    lines = halves(network(EDGES, GROUPS, weights))
    assert (lines.norm.vmin, lines.norm.vmax, lines.cmap.name) == (0.0, 1.0, "viridis")
    assert np.allclose(lines.get_array(), [0.1, 0.2, 0.3, 0.4, 1.0])
    assert np.all(np.diff(lines.get_linewidths()) > 0)


def test_the_colours_end_where_they_are_told_to():
    weights = torch.tensor([0.1, 0.2, 0.3, 0.3, 0.2, 0.1])
    lines = halves(network(EDGES, GROUPS, weights, most=0.3))
    assert (lines.norm.vmin, lines.norm.vmax) == (0.0, 0.3)
    assert lines.get_linewidths()[2] == pytest.approx(4.0)


def test_what_has_no_weight_is_grey():
    lines = halves(network(EDGES, GROUPS, torch.tensor([0.1, torch.nan, 0.3, 0.4, 0.6, torch.nan])))
    assert lines.get_array().mask.tolist() == [False, True, False, False, True]
    assert lines.get_linewidths()[1] == pytest.approx(0.6)
    assert lines.cmap.get_bad().tolist() == [0.85, 0.85, 0.85, 1.0]


def test_the_same_graph_is_drawn_alike():
    assert png(network(EDGES, GROUPS)) == png(network(EDGES, GROUPS))


# The figures of attention weights name the largest weight; self-loops are left out.


BOTH_WAYS = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]])
GRAPH = Graph(BOTH_WAYS, torch.eye(3), torch.tensor([0, 1, 1]), ("a", "b", "c"))
HEADS = torch.tensor([[0.2, 0.3, 0.6, 0.4, 0.5, 0.4, 0.6], [0.4, 0.1, 0.2, 0.8, 0.5, 0.8, 0.9]])


def test_the_mean_leaves_the_loops_out(capsys):
    show_mean_weights(GRAPH, HEADS, ["x", "y"])
    assert "node 2 on node 0, 0.60" in capsys.readouterr().out


def test_one_node_in_one_head_has_its_largest_weight_named(capsys):
    draw = weights_of_a_node(GRAPH, HEADS, ["x", "y"])
    for head, most in ((1, "node 2, 0.30"), (2, "node 1, 0.40")):
        draw(0, head)
        told = capsys.readouterr().out
        assert "with 2 neighbours and itself, a uniform weight is 0.33" in told
        assert most in told


# Repeated graph convolution: its features are powers of Â, and the energy falls by the square of an eigenvalue.


def test_two_nodes_are_equal_after_one_step():
    """Â of a pair is ½ everywhere: eigenvalues 1 and 0."""
    pair = Graph(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[1.0], [3.0]]), torch.tensor([0, 1]), ("a", "b"))
    found = smoothed(pair, 40, gcn_weights, dirichlet_energy)
    assert found.features[1].flatten().tolist() == pytest.approx([2.0, 2.0])
    assert found.energy[:2].tolist() == pytest.approx([1.0, 0.0])
    assert found.limit == pytest.approx(0.0)


def test_on_the_club_the_rate_is_the_square_of_the_second_eigenvalue():
    club = smoothed(karate_club(), 43, gcn_weights, dirichlet_energy)
    assert len(club.features) == len(club.energy) == 44
    assert club.rate == pytest.approx(club.limit, rel=1e-2)
    assert 0 < club.limit < 1


def test_rescaling_removes_what_all_nodes_share_however_small_the_rest_is():
    """Two nodes of degree 1 and one of 2, self-loops not counted: their features are √d_i times (1, 1 + tiny, 1 - tiny)."""
    edges = torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]])
    for tiny in (0.1, 1e-6):
        x = torch.tensor([3, 2, 2]).double().sqrt() * torch.tensor([1.0, 1.0 + tiny, 1.0 - tiny], dtype=torch.float64)
        assert rescaled(x[:, None], edges).flatten().tolist() == pytest.approx([0.0, 1.0, -1.0], abs=1e-6)
