"""Figures of graphs: the graph with its attention weights, weights of a small graph, and over-smoothing."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import seaborn as sns
import torch
from matplotlib import colormaps
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from course_lib.primitives import propagate, with_self_loops
from course_tools.notebook.legible import Numbers, in_the_font, to_array
from course_tools.notebook.plots import MARKERS, Names, curves
from course_tools.notebook.show import show

# Drawing of a graph with its attention weights: arrays in, figure out.


def network(
    edges: Numbers,
    groups: Numbers,
    weights: Numbers | None = None,
    names: Names = None,
    legend: Names = None,
    title: str = "",
    most: float = 1.0,
) -> Figure:
    """Draw nodes by group, and the edges between them: the half next to a node shows how much that node attends to the other.

    Positions come from a spring layout, the same in every run; loops are not drawn.

    Args:
        edges: (2, E); node edges[0] attends to node edges[1].
        groups: (N,), integers from 0: each group has its own colour and marker.
        weights: (E,), each in 0…most: from dark and thin to bright and thick in viridis; NaN is grey. None draws all edges
            alike.
        names: (N,), written on the nodes.
        legend: a name for each group.
        title: above the figure.
        most: the upper end of the colour scale; use the same value for figures that are to be compared.
    """
    edges, groups = to_array(edges), to_array(groups)
    places = _places(edges, len(groups))
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    ax = figure.subplots()
    query, key = edges[:, edges[0] != edges[1]]
    halves = np.stack([places[query], (places[query] + places[key]) / 2], axis=1)
    lines = LineCollection(halves, colors="0.7", linewidths=0.8, zorder=1)
    if weights is not None:
        shares = to_array(weights)[edges[0] != edges[1]]
        widths = 0.6 + 3.4 * np.nan_to_num(shares) / most
        colours = colormaps["viridis"].with_extremes(bad="0.85")
        lines = LineCollection(halves, cmap=colours, linewidths=widths, zorder=1)
        lines.set_array(np.ma.masked_invalid(shares))
        lines.set_clim(0.0, most)
        figure.colorbar(lines, ax=ax, label="attention weight", shrink=0.8)
    ax.add_collection(lines)
    kinds = range(int(groups.max()) + 1)
    palette = sns.color_palette("colorblind", len(kinds))
    for kind, colour, marker in zip(kinds, palette, MARKERS * len(kinds), strict=False):
        own = places[groups == kind]
        ax.scatter(own[:, 0], own[:, 1], s=150, color=[colour], marker=marker, edgecolors="white", linewidths=1.0, zorder=2)
    for place, name, group in zip(places, names or (), groups, strict=False):
        ink = "white" if np.dot(palette[group], (0.3, 0.6, 0.1)) < 0.5 else "black"
        ax.text(*place, in_the_font(name), ha="center", va="center", fontsize=7, color=ink, zorder=3, parse_math=False)
    if legend:
        keys = [
            Line2D([], [], linestyle="", marker=m, color=c, label=g) for c, m, g in zip(palette, MARKERS, legend, strict=False)
        ]
        ax.legend(handles=keys, fontsize=8, frameon=False)
    ax.set_title(in_the_font(title), parse_math=False, fontsize=10)
    ax.set_axis_off()
    return figure


def _places(edges: np.ndarray, n_nodes: int) -> np.ndarray:
    """Compute the positions (N, 2) of the nodes by a spring layout."""
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(n_nodes))
    graph.add_edges_from(edges.T.tolist())
    places = networkx.spring_layout(graph, seed=0, iterations=100)
    return np.array([places[node] for node in range(n_nodes)])


# Figures of the attention weights of a small graph: the mean of the heads, and one node in one head.


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


# Over-smoothing: features and Dirichlet energy of a graph after repeated steps of graph convolution without training.


class EnergyDecay(NamedTuple):
    """What repeated multiplication by Â does to the features of a graph.

    `features`: (N, d) in float64, after 0, 1, …, depth steps. `energy` (depth + 1,): the energy of x_i / √d_i, relative to
    that of step 0. `rate`: the factor per step by which it falls from step 20 to step 40. `limit`: the square of the second
    largest absolute eigenvalue of Â, to which the factor converges on a connected graph.
    """

    features: list[Tensor]
    energy: Tensor
    rate: float
    limit: float


def smoothed(
    graph: Any, depth: int, edge_weights: Callable[[Tensor, int], Tensor], energy: Callable[[Tensor, Tensor], Tensor]
) -> EnergyDecay:
    """Multiply the features of a connected graph by Â, `depth` times.

    Args:
        graph: with `edges` (2, E), without self-loops, and `features` (N, d).
        depth: number of steps, at least 40.
        edge_weights: `gcn_weights`.
        energy: `dirichlet_energy`.
    """
    features, n_nodes = [graph.features.cpu().double()], len(graph.features)
    edges = with_self_loops(graph.edges.cpu(), n_nodes)
    weights = edge_weights(edges, n_nodes).double()
    for _ in range(depth):
        features.append(propagate(features[-1], edges, weights))
    root = torch.bincount(edges[0], minlength=n_nodes).double().sqrt().unsqueeze(1)
    energies = torch.stack([energy(x / root, graph.edges.cpu()) for x in features])
    matrix = torch.zeros(n_nodes, n_nodes, dtype=torch.float64).index_put(tuple(edges), weights)
    limit = torch.linalg.eigvalsh(matrix).abs().sort().values[-2].item() ** 2
    return EnergyDecay(features, energies / energies[0], (energies[40] / energies[20]).item() ** (1 / 20), limit)


def rescaled(features: Tensor, edges: Tensor) -> Tensor:
    """Remove from the features of a smoothed graph what all nodes share, and enlarge the rest to a standard deviation of 1.

    Args:
        features: (N, d).
        edges: (2, E), without self-loops; those of `smoothed` count as edges, too.

    Returns:
        x_i / √d_i minus its mean over the nodes, divided by its standard deviation over all entries, (N, d).
    """
    degrees = torch.bincount(edges[0].cpu(), minlength=len(features)) + 1
    centred = features / degrees.double().sqrt().unsqueeze(1)
    centred = centred - centred.mean(0)
    return centred / centred.std()


def show_energies(graphs: Mapping[str, EnergyDecay]) -> None:
    """Draw the relative energy of each graph against the number of steps, on a logarithmic axis."""
    lines = {name: (range(len(each.energy)), each.energy) for name, each in graphs.items()}
    ends = (f"{each.energy[-1]:.0e} is left on {name}, a factor of {each.rate:.2f} per step" for name, each in graphs.items())
    show(
        curves(lines, "steps of Â", "energy, relative to that of the features", log="y"),
        alt=f"Energy against the number of steps, logarithmic: at the last step {', '.join(ends)}.",
    )
