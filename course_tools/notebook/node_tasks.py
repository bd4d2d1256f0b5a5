"""Compare graph networks on node classification: tasks, one training for each seed, loss curves and accuracies."""

from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import matching_neighbour
from course_lib.datasets.splits import Splits
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted, show_losses
from course_tools.notebook.node_classifier import accuracy, here
from course_tools.notebook.seed_scores import show_seeds

SEEDS = (0, 1, 2)
"""Each network is trained once for each of them."""


class NodeTask(NamedTuple):
    """Train on the labels of the nodes `known` of the graph `learn`; test on the nodes `asked` of the graph `test`."""

    learn: Any
    known: Tensor
    test: Any
    asked: Tensor


TaskOfSeed = Callable[[int], NodeTask]
"""Gives the task of a seed."""


class Runs(NamedTuple):
    """The models trained with each seed, and their accuracies on the nodes asked."""

    models: list[nn.Module]
    scores: list[float]


def labelled(graph: Any) -> Tensor:
    """Return the indices of the nodes whose label is not negative."""
    return graph.labels.ge(0).nonzero().flatten()


def transductive(graph: Any, known: Tensor, asked: Tensor) -> TaskOfSeed:
    """Ask for the labels of other nodes of the graph that the network is trained on, the same for each seed."""
    return lambda seed: NodeTask(graph, known, graph, asked)


def random_edges(graph: Any, known: Tensor, asked: Tensor) -> TaskOfSeed:
    """Permute the second ends of all edges at random, by the seed: each node keeps its number of edges as query and as key."""

    def task(seed: int) -> NodeTask:
        order = torch.randperm(graph.edges.shape[1], generator=torch.Generator().manual_seed(seed))
        rewired = graph._replace(edges=torch.stack([graph.edges[0], graph.edges[1, order.to(graph.edges.device)]]))
        return NodeTask(rewired, known, rewired, asked)

    return task


def few_labels(graph: Any, per_class: int) -> TaskOfSeed:
    """Draw `per_class` labelled nodes of each class by the seed, and ask for all other nodes of the same graph."""

    def task(seed: int) -> NodeTask:
        labels = graph.labels.cpu()
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        known = torch.cat([order[labels[order] == each][:per_class] for each in labels.unique()])
        return NodeTask(graph, known, graph, order[~torch.isin(order, known)])

    return task


def inductive(parts: Splits[Any]) -> TaskOfSeed:
    """Train on the labelled nodes of the graph `parts.train`, and ask for those of `parts.test`, the same for each seed."""
    learn, unseen = here(parts.train), here(parts.test)
    return lambda seed: NodeTask(learn, labelled(learn), unseen, labelled(unseen))


def new_look_up_graphs(seed: int) -> Iterator[Any]:
    """Draw look-up graphs of 50 groups each (see `matching_neighbour`), without end."""
    index = 0
    while True:
        index += 1
        yield here(matching_neighbour(50, 1, 1, seed=100_000 * (seed + 1) + index).train)


def same_look_up_graphs(seed: int) -> Iterator[Any]:
    """Repeat the first graph of `new_look_up_graphs`, without end."""
    return repeat(next(new_look_up_graphs(seed)))


def over_seeds(
    make: Callable[[], nn.Module],
    task: TaskOfSeed,
    steps: int = 60,
    lr: float = 1e-2,
    fresh: Callable[[int], Iterator[Any]] | None = None,
) -> Runs:
    """Train a new network for each seed of `SEEDS`, and measure its accuracy on the nodes asked.

    Args:
        make: creates a network `(features, edges)` → logits (N, n_classes).
        task: gives the graphs and nodes of a seed.
        steps: number of updates, each with all known nodes.
        lr: the maximum learning rate; it increases during the first sixth of the updates.
        fresh: gives new training graphs of a seed, one for each update, instead of the task's own graph.
    """
    runs = Runs([], [])
    for seed in SEEDS:
        learn, known, test, asked = task(seed)
        stream = repeat((learn, known)) if fresh is None else ((graph, labelled(graph)) for graph in fresh(seed))
        torch.manual_seed(seed)
        model = make().to(device())
        fitted(model, stream, _cross_entropy, steps=steps, lr=lr, label=f"seed {seed}", warmup=steps // 6)
        runs.models.append(model)
        runs.scores.append(accuracy(model, test, asked))
    return runs


def accuracy_in_training(runs: Runs, task: TaskOfSeed) -> list[float]:
    """Measure the accuracy of each seed's model on the nodes that it was trained on."""
    tasks = map(task, SEEDS)
    return [accuracy(model, own.learn, own.known) for model, own in zip(runs.models, tasks, strict=True)]


def accuracy_on_first(runs: Runs, fresh: Callable[[int], Iterator[Any]]) -> list[float]:
    """Measure the accuracy of each seed's model on the labelled nodes of the first graph that `fresh` gives for the seed."""
    graphs = [next(fresh(seed)) for seed in SEEDS]
    return [accuracy(model, graph, labelled(graph)) for model, graph in zip(runs.models, graphs, strict=True)]


def show_runs(
    runs: Mapping[str, Runs], y: str, loss: str = "cross-entropy, nats", across: Mapping[str, float] | None = None
) -> None:
    """Show the training losses, mean of the seeds, then the accuracy of each seed, and print the numbers of parameters.

    Args:
        runs: name -> what `over_seeds` returned.
        y: label of the axis of the accuracies.
        loss: label of the axis of the losses, with its unit.
        across: name -> height of a dashed line beside the accuracies, such as chance.
    """
    show_losses({name: each.models for name, each in runs.items()}, loss)
    show_seeds({name: each.scores for name, each in runs.items()}, y, across=across)
    sizes = {name: sum(p.numel() for p in each.models[0].parameters()) for name, each in runs.items()}
    print("parameters: " + ", ".join(f"{size:,} ({name})" for name, size in sizes.items()))


def _cross_entropy(model: nn.Module, batch: tuple[Any, Tensor]) -> Tensor:
    graph, known = batch
    return F.cross_entropy(model(graph.features, graph.edges)[known], graph.labels[known])
