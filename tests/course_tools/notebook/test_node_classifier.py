"""A network learns the labels of the nodes that it is shown, and without edges nothing about the others."""

import torch

from course_lib.datasets import karate_club
from course_lib.models import GCN
from course_tools.lectures.lecture_15.experiments import Alone, accuracy, fit, here

LEADERS = torch.tensor([0, 33])
OTHERS = torch.tensor([i for i in range(34) if i not in (0, 33)])


def test_the_leaders_are_learned_and_the_edges_carry_it_to_the_others():
    club = here(karate_club())
    with_edges = fit(lambda: GCN(34, 16, 2), club, LEADERS, seed=0)
    assert not with_edges.training
    assert accuracy(with_edges, club, LEADERS) == 1.0
    assert accuracy(with_edges, club, OTHERS) > 0.8


def test_a_network_without_edges_gives_a_node_the_same_whatever_the_others_are():
    torch.manual_seed(0)
    model, x = Alone(5, 7, 2), torch.randn(3, 5)
    torch.testing.assert_close(model(x, None)[:1], model(x[:1], None))


def test_a_graph_is_moved_to_a_place_that_is_named():
    moved = here(karate_club(), "meta")
    assert {part.device.type for part in (moved.edges, moved.features, moved.labels)} == {"meta"}
