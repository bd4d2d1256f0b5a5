"""Figures of the attention weights of a small graph: the mean of the heads, and one node in one head."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_tools.notebook.network_drawing import network
from course_tools.notebook.show import show


def show_mean_weights(graph: Any, heads: Tensor, legend: Sequence[str]) -> None:
    """Draw the mean attention weights of the heads along the edges of a graph.

    Args:
        graph: with `edges` (2, E) and `labels` (N,).
        heads: (h, E or more): the weights of the edges; those of self-loops after them are not drawn.
        legend: a name for each label.
    """
    weights = heads.detach().cpu()[:, : graph.edges.shape[1]].mean(0)
    query, key = graph.edges[:, int(weights.argmax())].tolist()
    show(
        _drawn(graph, weights, legend, "mean of the heads", weights.max().item()),
        alt=f"A graph of {len(graph.labels)} nodes in groups; half edges are coloured by attention. The largest weight is that "
        f"of node {query} on node {key}, {weights.max():.2f}; half of the weights are below {weights.median():.2f}.",
    )


def weights_of_a_node(graph: Any, heads: Tensor, legend: Sequence[str]) -> Callable[[int, int], None]:
    """Create a function `draw(member, head)` that draws the weights of one node in one head; heads count from 1.

    Args:
        graph: with `edges` (2, E) and `labels` (N,).
        heads: (h, E or more), as for `show_mean_weights`; each node also has a self-loop.
        legend: a name for each label.
    """
    heads = heads.detach().cpu()[:, : graph.edges.shape[1]]

    def draw(member: int = 0, head: int = 1) -> None:
        """Draw the weights of one node only."""
        own = graph.edges[0].cpu() == member
        weights, n = heads[head - 1].where(own, torch.nan), int(own.sum())
        uniform = 1 / (n + 1)
        best = int(weights.nan_to_num(-1).argmax())
        show(
            _drawn(
                graph,
                weights,
                legend,
                f"member {member}, head {head}: {n} neighbours, uniform {uniform:.2f}",
                heads.max().item(),
            ),
            alt=f"Node {member} in head {head}: with {n} neighbours and itself, a uniform weight is {uniform:.2f}; it attends "
            f"most to node {int(graph.edges[1, best])}, {weights[best]:.2f}.",
        )

    return draw


def _drawn(graph: Any, weights: Tensor, legend: Sequence[str], title: str, most: float) -> object:
    return network(graph.edges, graph.labels, weights, list(map(str, range(len(graph.labels)))), legend, title, most)
