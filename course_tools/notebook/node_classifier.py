"""Train a network on the labels of some nodes of a graph and measure its accuracy on others: the experiment of lecture 15."""

from collections.abc import Callable
from itertools import repeat
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted

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


def fit_alone(graph: Any, learn: Tensor, seed: int) -> nn.Module:
    """Train `Alone` with 16 hidden units on the nodes `learn` of a graph with two classes."""
    return fit(lambda: Alone(graph.features.shape[1], 16, 2), graph, learn, seed)


class OneMatrix(nn.Module):
    """Logits of each node by a matrix, without a bias; the edges are not used."""

    def __init__(self, d_in: int, n_out: int) -> None:
        """Create a matrix for d_in features per node and n_out classes."""
        super().__init__()
        self.W = nn.Linear(d_in, n_out, bias=False)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Compute logits (N, n_out) for x (N, d_in)."""
        return self.W(x)
