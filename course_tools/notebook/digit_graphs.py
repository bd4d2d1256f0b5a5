"""Digits as graphs of their pixels, with edges kept, removed or rewired, for graph-level classification in lecture 15."""

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import digits, pixel_graphs
from course_lib.datasets.pixel_graphs import PixelGraphs
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import accuracy_of, classify, fitted
from course_tools.notebook.node_tasks import SEEDS, Runs

EdgeChange = Callable[[PixelGraphs], Tensor]
"""Computes the edges (2, E) of the input of a network from some graphs."""


def kept(graphs: PixelGraphs) -> Tensor:
    """Keep the edges as they are."""
    return graphs.edges


def removed(graphs: PixelGraphs) -> Tensor:
    """Remove all edges."""
    return graphs.edges[:, :0]


def rewired(graphs: PixelGraphs) -> Tensor:
    """Permute the keys of the edges within each graph: every node keeps its number of neighbours as query and as key.

    Self-loops and repeated edges may occur. The edges must be sorted by graph.
    """
    query, key = graphs.edges
    order = graphs.graph_of[key] + torch.rand(len(key), device=key.device).double()
    return torch.stack([query, key[order.argsort()]])


def described(images: Tensor, change: EdgeChange, with_positions: bool) -> tuple[Tensor, Tensor, Tensor, int]:
    """Turn digits (B, 8, 8) into one graph without edges between its parts.

    Args:
        images: ink from 0 to 1.
        change: `kept`, `removed` or `rewired`.
        with_positions: whether row and column are among the features.

    Returns:
        edges (2, E); features (N, 26): ink, number of neighbours, and position, or zeros for it; the nodes of each graph as
        edges (2, N) from graph to node; the number of graphs.
    """
    graphs = pixel_graphs(images)
    nodes = torch.arange(len(graphs.ink), device=images.device)
    degrees = F.one_hot(graphs.edges[0].bincount(minlength=len(nodes)), 9)
    places = F.one_hot(graphs.positions, 8).flatten(1) * with_positions
    features = torch.cat([graphs.ink, degrees, places], dim=1)
    return change(graphs), features, torch.stack([graphs.graph_of, nodes]), graphs.n_graphs


def fit_graph_classifier(
    make: Callable[[], nn.Module], seed: int, change: EdgeChange, with_positions: bool
) -> tuple[nn.Module, float]:
    """Train a classifier on 1,000 graphs of digits for 60 updates; return it with its accuracy on the other 797.

    Args:
        make: creates the classifier, which takes what `described` returns.
        seed: determines the split, the weights and the order.
        change: `kept`, `removed` or `rewired`.
        with_positions: whether row and column are among the features.
    """
    images, labels = (part.to(device()) for part in _data())
    torch.manual_seed(seed)
    learned, tested = torch.randperm(len(labels)).to(device()).split([1_000, 797])
    stream = batches(images[learned], labels[learned], batch_size=64, seed=seed)
    graphs = ((described(batch, change, with_positions), answers) for batch, answers in stream)
    model = fitted(make().to(device()), graphs, classify, steps=60, lr=3e-2, label=f"seed {seed}")
    return model, accuracy_of(model, described(images[tested], change, with_positions), labels[tested])


def fit_graph_classifiers(make: Callable[[], nn.Module], change: EdgeChange, with_positions: bool) -> Runs:
    """Train a classifier by `fit_graph_classifier` for each seed of `SEEDS`; the scores are accuracies on unseen graphs."""
    fits = [fit_graph_classifier(make, seed, change, with_positions) for seed in SEEDS]
    return Runs([model for model, _ in fits], [score for _, score in fits])


@cache
def _data() -> tuple[Tensor, Tensor]:
    return digits()
