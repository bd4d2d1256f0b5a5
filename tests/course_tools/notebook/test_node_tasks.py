"""The tasks of lecture 15: which nodes are known and asked; a run of each seed equals the training of one network."""

import pytest
import torch

from course_lib.datasets import karate_club, marked_neighbour, matching_neighbour
from course_lib.models import GCN
from course_tools.lectures.lecture_15.experiments import (
    SEEDS,
    accuracy,
    accuracy_in_training,
    accuracy_on_first,
    few_labels,
    fit,
    here,
    inductive,
    labelled,
    new_look_up_graphs,
    over_seeds,
    random_edges,
    same_look_up_graphs,
    show_runs,
    transductive,
)

LEADERS, OTHERS = torch.tensor([0, 33]), torch.arange(1, 33)


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


def test_each_run_is_the_training_of_one_network_with_its_seed(capsys):
    club = here(karate_club())
    task = transductive(club, LEADERS, OTHERS)
    runs = over_seeds(network, task, steps=6)
    for seed, score in zip(SEEDS, runs.scores, strict=True):
        assert score == accuracy(fit(network, club, LEADERS, seed, steps=6), club, OTHERS)
    expected = [accuracy(model, club, LEADERS) for model in runs.models]
    assert accuracy_in_training(runs, task) == expected
    capsys.readouterr()
    show_runs({"GCN": runs}, "accuracy on members", across={"chance": 0.5})
    told = capsys.readouterr().out
    assert "chance is 0.5" in told
    assert "Training loss" in told
    assert f"parameters: {sum(p.numel() for p in network().parameters())} (GCN)" in told


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
