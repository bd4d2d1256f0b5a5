"""The figures of attention weights name the largest weight; self-loops are left out."""

import torch

from course_lib.datasets.social_networks import Graph
from course_tools.lectures.lecture_15.figures import show_mean_weights, weights_of_a_node

EDGES = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]])
GRAPH = Graph(EDGES, torch.eye(3), torch.tensor([0, 1, 1]), ("a", "b", "c"))
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
