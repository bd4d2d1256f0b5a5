"""Compare graph networks on the classification of nodes and of graphs: tasks, a training for each seed, accuracies."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import digits, matching_neighbour
from course_lib.datasets.splits import Splits
from course_lib.training import batches
from course_tools.lectures.lecture_15.data import PixelGraphs, pixel_graphs
from course_tools.notebook.device import device
from course_tools.notebook.fitting import accuracy_of, classify, fitted, show_losses
from course_tools.notebook.seed_scores import show_seeds

# Train a network on the labels of some nodes of a graph and measure its accuracy on others.


Graph = TypeVar("Graph", bound=tuple)
"""A named tuple with `edges` (2, E), `features` (N, d) and `labels` (N,)."""


def here(graph: Graph, place: torch.device | str | None = None) -> Graph:
    """Move the tensors of a graph to the device of the notebook, or to another place, such as "cpu"."""
    parts = {name: getattr(graph, name).to(place or device()) for name in ("edges", "features", "labels")}
    return graph._replace(**parts)


def fit(make: Callable[[], nn.Module], graph: Any, learn: Tensor, seed: int, steps: int = 60, lr: float = 1e-2) -> nn.Module:
    """Train a new network `(features, edges)` → logits (N, n_classes) on the nodes `learn`; the seed determines its weights."""
    torch.manual_seed(seed)

    def loss(model: nn.Module, _: None) -> Tensor:
        return F.cross_entropy(model(graph.features, graph.edges)[learn], graph.labels[learn])

    model = make().to(device())
    return fitted(model, repeat(None), loss, steps=steps, lr=lr, label=f"seed {seed}", warmup=steps // 6)


@torch.no_grad()
def accuracy(model: nn.Module, graph: Any, asked: Tensor) -> float:
    """Measure the accuracy on the nodes `asked`."""
    return (model(graph.features, graph.edges)[asked].argmax(-1) == graph.labels[asked]).float().mean().item()


class Alone(nn.Module):
    """Two layers applied to each node separately; the edges are not used."""

    def __init__(self, d_in: int, d: int, n_out: int) -> None:
        """Create layers for d_in features per node, d hidden units and n_out classes."""
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(d_in, d), nn.ReLU(), nn.Linear(d, n_out))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Compute logits (N, n_out) for x (N, d_in)."""
        return self.layers(x)


class OneMatrix(nn.Module):
    """Logits of each node by a matrix, without a bias; the edges are not used."""

    def __init__(self, d_in: int, n_out: int) -> None:
        """Create a matrix for d_in features per node and n_out classes."""
        super().__init__()
        self.W = nn.Linear(d_in, n_out, bias=False)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Compute logits (N, n_out) for x (N, d_in)."""
        return self.W(x)


# Compare graph networks on node classification: tasks, one training for each seed, loss curves and accuracies.


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


# Digits as graphs of their pixels, with edges kept, removed or rewired, for graph-level classification.


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
