"""Drawing of a graph with its attention weights: arrays in, figure out."""

import numpy as np
import seaborn as sns
from matplotlib import colormaps
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from course_tools.notebook.legible import Numbers, in_the_font, to_array
from course_tools.notebook.plots import MARKERS, Names


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
