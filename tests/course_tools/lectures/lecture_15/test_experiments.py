"""Tasks on nodes and graphs keep what they promise, and each run is the training of one seed."""

import pytest
import torch

from course_lib.datasets import digits, karate_club, marked_neighbour, matching_neighbour
from course_lib.models import GCN
from course_tools.lectures.lecture_15.data import pixel_graphs
from course_tools.lectures.lecture_15.experiments import (
    SEEDS,
    Alone,
    accuracy,
    accuracy_in_training,
    accuracy_on_first,
    described,
    few_labels,
    fit,
    here,
    inductive,
    kept,
    labelled,
    new_look_up_graphs,
    over_seeds,
    random_edges,
    removed,
    rewired,
    same_look_up_graphs,
    transductive,
)

# A network learns the labels of the nodes that it is shown, and without edges nothing about the others.


LEADERS = torch.tensor([0, 33])
OTHERS = torch.arange(1, 33)


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


# The tasks of lecture 15: which nodes are known and asked; a run of each seed equals the training of one network.


def network():
    return GCN(34, 7, 2)


def test_random_edges_keep_the_number_of_edges_of_each_node_and_depend_on_the_seed():
    club = here(karate_club())
    task = random_edges(club, LEADERS, OTHERS)
    drawn = [task(seed).learn.edges for seed in SEEDS]
    for edges in drawn:
        assert torch.equal(edges[0], club.edges[0])
        assert torch.equal(edges[1].bincount(), club.edges[1].bincount())
    assert not torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], task(SEEDS[0]).test.edges)


def test_few_labels_are_as_many_of_each_class_and_all_others_are_asked():
    club = here(karate_club())
    _, known, _, asked = few_labels(club, 3)(0)
    assert club.labels.cpu()[known].bincount().tolist() == [3, 3]
    assert torch.cat([known, asked]).sort().values.tolist() == list(range(34))


def test_an_inductive_task_asks_for_the_labelled_nodes_of_another_graph():
    parts = marked_neighbour(5, 1, 3)
    learn, known, test, asked = inductive(parts)(0)
    assert (len(known), len(asked)) == (5, 3)
    assert (learn.labels[known] >= 0).all()
    assert torch.equal(test.features.cpu(), parts.test.features)


def test_new_graphs_differ_from_each_other_and_from_those_of_other_seeds():
    first, second = (graph.features for graph, _ in zip(new_look_up_graphs(0), range(2), strict=False))
    assert not torch.equal(first, second)
    assert not torch.equal(first, next(new_look_up_graphs(1)).features)
    assert len(labelled(next(new_look_up_graphs(0)))) == 50 * 8


def test_each_run_is_the_training_of_one_network_with_its_seed():
    club = here(karate_club())
    task = transductive(club, LEADERS, OTHERS)
    runs = over_seeds(network, task, steps=6)
    for seed, score in zip(SEEDS, runs.scores, strict=True):
        assert score == accuracy(fit(network, club, LEADERS, seed, steps=6), club, OTHERS)
    expected = [accuracy(model, club, LEADERS) for model in runs.models]
    assert accuracy_in_training(runs, task) == expected


def test_fresh_graphs_replace_those_of_the_task():
    parts = marked_neighbour(5, 1, 3)
    asked_for = []

    def fresh(seed):
        asked_for.append(seed)
        while True:
            yield here(parts.valid)

    runs = over_seeds(lambda: GCN(10, 7, 8), inductive(parts), steps=6, fresh=fresh)
    assert asked_for == list(SEEDS)
    assert runs.scores == pytest.approx([accuracy(m, here(parts.test), labelled(here(parts.test))) for m in runs.models])


def test_the_same_graph_is_given_again_and_again_and_measured():
    stream = same_look_up_graphs(1)
    first, second = next(stream), next(stream)
    assert torch.equal(first.features, second.features)
    assert torch.equal(first.features, next(new_look_up_graphs(1)).features)
    task = inductive(matching_neighbour(5, 1, 3))
    runs = over_seeds(lambda: GCN(first.features.shape[1], 7, 8), task, steps=6, fresh=same_look_up_graphs)
    graphs = [next(same_look_up_graphs(seed)) for seed in SEEDS]
    expected = [accuracy(model, graph, labelled(graph)) for model, graph in zip(runs.models, graphs, strict=True)]
    assert accuracy_on_first(runs, same_look_up_graphs) == expected


# Graphs of digits: edges are kept, removed or permuted within each graph.


def test_rewired_graphs_keep_their_nodes_and_their_numbers_of_edges():
    torch.manual_seed(0)
    graphs = pixel_graphs(digits()[0][:5])
    query, key = rewired(graphs)
    assert (query == graphs.edges[0]).all()
    assert (key.sort().values == graphs.edges[1].sort().values).all()
    assert (graphs.graph_of[query] == graphs.graph_of[key]).all()
    assert (key != graphs.edges[1]).any()
    assert kept(graphs).shape == graphs.edges.shape
    assert removed(graphs).shape == (2, 0)


def test_without_positions_their_features_are_zero():
    edges, features, members, n_graphs = described(digits()[0][:5], kept, False)
    assert (features.shape[1], n_graphs, edges.max() < len(features), members.shape) == (26, 5, True, (2, len(features)))
    assert features[:, 10:].abs().max() == 0
