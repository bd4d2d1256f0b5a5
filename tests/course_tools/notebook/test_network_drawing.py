"""A graph is drawn whole: every node in its group's colour, every half edge by its own weight."""

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection

from course_tools.lectures.lecture_15.figures import network
from course_tools.notebook.show import MAX_HEIGHT, MAX_WIDTH, png

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
