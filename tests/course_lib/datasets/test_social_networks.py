"""Graphs of people: all of them, every friendship in both directions, and the two leaders on different sides."""

import pytest
import torch

from course_lib.datasets import karate_club, les_miserables

networkx = pytest.importorskip("networkx")


def is_undirected(edges):
    pairs = set(map(tuple, edges.T.tolist()))
    return len(pairs) == edges.shape[1] and pairs == {(j, i) for i, j in pairs} and all(i != j for i, j in pairs)


@pytest.mark.parametrize(
    ("load", "nodes", "links"), [(karate_club, 34, 78), (les_miserables, 77, 254)], ids=["karate_club", "les_miserables"]
)
def test_the_graphs_of_networkx_have_all_their_people_and_both_directions(load, nodes, links):
    graph = load()
    assert (len(graph.names), graph.edges.shape[1]) == (nodes, 2 * links)
    assert is_undirected(graph.edges)
    assert graph.features.equal(torch.eye(nodes))
    assert graph.labels.shape == (nodes,)


def test_the_leaders_of_the_club_are_on_different_sides_and_all_took_one():
    club = karate_club()
    assert (club.labels[0].item(), club.labels[33].item()) == (0, 1)
    assert club.labels.bincount().tolist() == [17, 17]
    assert torch.bincount(club.edges[0]).topk(2).indices.sort().values.tolist() == [0, 33]


def test_the_characters_have_names_and_no_sides():
    novel = les_miserables()
    assert "Valjean" in novel.names
    assert novel.names[torch.bincount(novel.edges[0]).argmax()] == "Valjean"
    assert novel.labels.eq(-1).all()
