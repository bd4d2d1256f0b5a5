"""A plan tells the errors and the weights that it draws, and over-smoothing falls at the rate of the second eigenvalue."""

import pytest
import torch

from course_lib.datasets import karate_club
from course_lib.datasets.social_networks import Graph
from course_lib.primitives import dirichlet_energy, gcn_weights, with_self_loops
from course_tools.lectures.lecture_15 import rooms
from course_tools.lectures.lecture_15.figures import (
    rescaled,
    show_all_pairs,
    show_attended,
    show_edge_list,
    show_readings,
    smoothed,
)

# The plan of a building: the error of what is drawn, and the weight that a sensor gives to a room.


def test_the_error_over_one_building_is_told(capsys):
    graph = rooms.sensors(torch.Generator().manual_seed(0), n=2)
    off = graph.targets + torch.tensor([0.5, 1.0]).repeat_interleave(100)
    for building, told in ((0, "off 1.5"), (1, "off 3.0")):
        show_readings(graph, {"right": graph.targets, "off": off}, building)
        said = capsys.readouterr().out
        assert f"in °C: right 0.0, {told}" in said
        near = int(rooms.from_the_duct(graph)[graph.edges[0] == 100 * building + 40].sum())
        assert f"itself, {near} in the framed room that its air comes from (full lines), the others elsewhere" in said


def test_an_edge_list_is_read_as_receiver_and_sender(capsys):
    show_edge_list(torch.tensor([[0, 1, 1], [2, 1, 0]]), "ABC")
    assert "These receive: A from C, B from B, B from A." in capsys.readouterr().out


def test_the_weight_of_the_room_asked_for_is_told_for_all_pairs(capsys):
    asked, numbers = torch.tensor([0, 1, 1, 0]), torch.tensor([1, 0, 1, 1])
    right = (asked[:, None] == numbers) / torch.tensor([[1], [3], [3], [1]])
    show_all_pairs({"right": right, "equal": torch.ones(4, 4) / 4}, asked, numbers)
    assert "Weight on that room: right 1.00, equal 0.50." in capsys.readouterr().out


def test_the_weight_of_the_room_is_told(capsys):
    graph = rooms.sensors(torch.Generator().manual_seed(0), n=2)
    inside = rooms.from_the_duct(graph)
    in_room = inside / torch.zeros(200).index_add(0, graph.edges[0], inside)[graph.edges[0]]
    show_attended(graph, {"in": in_room, "equal": torch.full((2600,), 1 / 13)}, 105)
    n = int(inside[graph.edges[0] == 105].sum())
    assert f"{n} of them in the framed room" in (said := capsys.readouterr().out)
    assert f"Weight on that room: in 100%, equal {n / 13:.0%}" in said


# Repeated graph convolution: its features are powers of Â, and the energy falls by the square of an eigenvalue.


def test_two_nodes_are_equal_after_one_step():
    """Â of a pair is ½ everywhere: eigenvalues 1 and 0."""
    pair = Graph(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[1.0], [3.0]]), torch.tensor([0, 1]), ("a", "b"))
    found = smoothed(pair, 40, gcn_weights, dirichlet_energy)
    assert found.features[1].flatten().tolist() == pytest.approx([2.0, 2.0])
    assert found.energy[:2].tolist() == pytest.approx([1.0, 0.0])


def test_on_the_club_the_energy_falls_by_the_square_of_the_second_eigenvalue():
    graph = karate_club()
    club = smoothed(graph, 43, gcn_weights, dirichlet_energy)
    assert len(club.features) == len(club.energy) == 44
    edges = with_self_loops(graph.edges, 34)
    matrix = torch.zeros(34, 34).index_put(tuple(edges), gcn_weights(edges, 34)).double()
    second = torch.linalg.eigvalsh(matrix).abs().sort().values[-2]
    assert (club.energy[40] / club.energy[20]).item() ** (1 / 20) == pytest.approx(second.item() ** 2, rel=1e-2)


def test_rescaling_removes_what_all_nodes_share_however_small_the_rest_is():
    """Two nodes of degree 1 and one of 2, self-loops not counted: their features are √d_i times (1, 1 + tiny, 1 - tiny)."""
    edges = torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]])
    for tiny in (0.1, 1e-6):
        x = torch.tensor([3, 2, 2]).double().sqrt() * torch.tensor([1.0, 1.0 + tiny, 1.0 - tiny], dtype=torch.float64)
        assert rescaled(x[:, None], edges).flatten().tolist() == pytest.approx([0.0, 1.0, -1.0], abs=1e-6)
