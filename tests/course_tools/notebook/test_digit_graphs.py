"""Graphs of digits: edges are kept, removed or permuted within each graph."""

import torch

from course_lib.datasets import digits, pixel_graphs
from course_tools.lectures.lecture_15 import experiments
from course_tools.lectures.lecture_15.experiments import described, fit_graph_classifiers, kept, removed, rewired


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


def test_a_classifier_is_trained_for_each_seed(monkeypatch):
    monkeypatch.setattr(experiments, "fit_graph_classifier", lambda make, seed, change, with_positions: (make(), seed / 4))
    runs = fit_graph_classifiers(torch.nn.Identity, kept, True)
    assert [type(model) for model in runs.models] == [torch.nn.Identity] * 3
    assert runs.scores == [0.0, 0.25, 0.5]
