"""Figures of graphs: the sensors of a building and what one of them attends to, two small graphs, and over-smoothing."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from torch import Tensor

from course_lib.datasets.social_networks import Graph
from course_lib.primitives import propagate, with_self_loops
from course_tools.lectures.lecture_15.rooms import DEGREES, Sensors
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

# A small graph, as a list of edges and as a mask.


def show_edge_list(edges: Tensor, names: str) -> None:
    """Draw a small graph with an arrow from each sender to its receiver, its list of edges, and the same as a mask."""
    figure = Figure(figsize=(6.0, 2.5), layout="constrained")
    graph, listed, mask = figure.subplots(1, 3, width_ratios=(1.0, 1.9, 1.0))
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / len(names)
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for i, j in edges.T.tolist():
        if i == j:
            graph.add_patch(Circle(1.42 * places[i], 0.26, fill=False, color="0.3"))
        else:
            style = {"arrowstyle": "-|>", "color": "0.3", "shrinkA": 13, "shrinkB": 13, "connectionstyle": "arc3,rad=0.16"}
            graph.annotate("", places[i], places[j], arrowprops=style)
    graph.scatter(*places.T, s=420, color="#dcd3f5", edgecolors="black", zorder=3)
    for name, place in zip(names, places, strict=True):
        graph.text(*place, name, ha="center", va="center", zorder=4)
    graph.set(xlim=(-1.75, 1.75), ylim=(-1.4, 1.9), aspect="equal", xticks=(), yticks=())
    graph.set_title("sender → receiver", fontsize=10)
    graph.axis("off")
    n_edges = edges.shape[1]
    for row, what in enumerate(("edges[0], receives", "edges[1], sends")):
        listed.text(-0.2, 1 - row, what, ha="right", va="center", fontsize=9)
        for e, node in enumerate(edges[row].tolist()):
            listed.text(0.45 + e, 1 - row, f"{names[node]}\n{node}", ha="center", va="center", fontsize=9)
            listed.add_patch(Rectangle((e, 0.6 - row), 0.9, 0.8, fill=False, color="0.6"))
    listed.set(xlim=(-5.2, n_edges), ylim=(-2.2, 3.2))
    listed.set_title(f"a list: (2, {n_edges})", fontsize=10, y=0.72)
    listed.axis("off")
    allowed = np.zeros((len(names), len(names)))
    allowed[tuple(edges.numpy())] = 1
    mask.imshow(allowed, cmap="Purples", vmin=0, vmax=2)
    ticks = {"ticks": range(len(names)), "labels": list(names)}
    mask.set_xticks(**ticks), mask.set_yticks(**ticks)
    mask.set(xlabel="sends", ylabel="receives")
    mask.set_title(f"a mask: {allowed.shape}", fontsize=10)
    pairs = ", ".join(f"{names[i]} from {names[j]}" for i, j in edges.T.tolist())
    show(figure, alt=f"A graph, its list of edges and its mask. These receive: {pairs}.")


# The sensors of one building, on the plan of its rooms.


def show_readings(graph: Sensors, panels: Mapping[str, Tensor], building: int = 0, hearing: int = 40) -> None:
    """Draw the sensors of one building in the colours of some temperatures, on the temperatures of the rooms.

    Args:
        graph: buildings with equally many sensors.
        panels: name -> temperatures of all sensors (N,), in the units of the readings.
        building: which one.
        hearing: the sensor of the building whose edges are drawn in the first panel.
    """
    graph, own = Sensors(*(part.cpu() for part in graph)), _of(graph, building)
    hearing = int(own.nonzero()[hearing])
    figure = Figure(figsize=(2.0 * len(panels), 2.6), layout="constrained")
    errors = []
    panels = {name: temperatures.cpu() for name, temperatures in panels.items()}
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (name, temperatures) in zip(axes, panels.items(), strict=True):
        _plan(ax, graph, building, hearing if ax is axes[0] else None)
        x, y = graph.places[own].T.numpy()
        ax.scatter(x, y, c=temperatures[own].numpy(), **_COLOURS, s=20, edgecolors="black", linewidths=0.5)
        errors.append(DEGREES * (temperatures - graph.targets).square()[own].mean().sqrt().item())
        ax.set_title(f"{name}\nerror here {errors[-1]:.1f} °C", fontsize=9)
    heard = graph.edges[1, graph.edges[0] == hearing]
    inside = graph.rooms[heard] == graph.asked[hearing]
    for sender, in_the_room in zip(heard.tolist(), inside.tolist(), strict=True):
        line = graph.places[[hearing, sender]].T.numpy()
        axes[0].plot(*line, color="black", linewidth=1.4, linestyle="-" if in_the_room else ":", zorder=0.5)
    axes[0].scatter(*graph.places[hearing].numpy(), **_STAR)
    _bar(figure, axes)
    said = ", ".join(f"{name} {each:.1f}" for name, each in zip(panels, errors, strict=True))
    show(
        figure,
        alt="The rooms of a building, coloured by their temperatures, and its sensors, coloured by a temperature of their own. "
        f"Root mean squared error over the building, in °C: {said}. The star receives from twelve others and itself, "
        f"{int(inside.sum())} in the framed room that its air comes from (full lines), the others elsewhere (dotted).",
    )


def show_all_pairs(weights: Mapping[str, Tensor], asked: Tensor, rooms: Tensor) -> None:
    """Draw the weights (n, n) of sensors that all receive from all, rows sorted by the room asked for, columns by their own."""
    asked, rooms = asked.cpu(), rooms.cpu()
    orders = [each.argsort(stable=True) for each in (asked, rooms)]
    figure = Figure(figsize=(6.0, 3.1), layout="constrained")
    axes = figure.subplots(1, len(weights))
    for ax, (name, each) in zip(axes, weights.items(), strict=True):
        drawn = ax.imshow(each.cpu()[orders[0]][:, orders[1]].numpy(), cmap="magma", vmin=0, vmax=0.05)
        for line, numbers, order in zip((ax.axhline, ax.axvline), (asked, rooms), orders, strict=True):
            for wall in numbers[order].diff().nonzero().flatten().numpy() + 0.5:
                line(wall, color="white", linewidth=0.3)
        ax.set(title=name, xlabel="sender, by its room", ylabel="receiver, by the room of its air", xticks=(), yticks=())
    figure.colorbar(drawn, ax=axes, label="weight", extend="max", shrink=0.8)
    right = asked[:, None] == rooms
    said = ", ".join(f"{name} {(each.cpu() * right).sum() / len(rooms):.2f}" for name, each in weights.items())
    show(
        figure,
        alt="Weights of all sensors of a building for all, receivers sorted by the room of their air, senders by their own: "
        "with dynamic scores bright blocks on the diagonal and off it, with static ones the same columns in every row. "
        f"Weight on that room: {said}.",
    )


def show_attended(graph: Sensors, weights: Mapping[str, Tensor], sensor: int) -> None:
    """Draw whom one sensor attends to, in one panel for each set of weights.

    Args:
        graph: buildings with equally many sensors.
        weights: name -> weights of all edges (E,).
        sensor: the number of a sensor.
    """
    graph = Sensors(*(part.cpu() for part in graph))
    building, mine = sensor // 100, graph.edges[0] == sensor
    heard = graph.edges[1, mine].numpy()
    inside = (graph.rooms[heard] == graph.asked[sensor]).numpy()
    places = graph.places.numpy()
    figure, shares = Figure(figsize=(3.0 * len(weights), 3.5), layout="constrained"), []
    axes = figure.subplots(1, len(weights), squeeze=False)[0]
    for ax, (name, each) in zip(axes, weights.items(), strict=True):
        _plan(ax, graph, building, sensor)
        of_mine = each.detach().cpu()[mine].numpy()
        lines = np.stack([places[heard], np.broadcast_to(places[sensor], (len(heard), 2))], axis=1)
        ax.add_collection(LineCollection(lines, colors="black", linewidths=0.4 + 14 * of_mine))
        ax.scatter(*places[_of(graph, building)].T, s=10, color="0.35")
        ax.scatter(*places[heard].T, s=25 + 500 * of_mine, color="white", edgecolors="black", zorder=2)
        ax.scatter(*places[sensor], **_STAR)
        shares.append(of_mine[inside].sum().item())
        ax.set_title(f"{name}\n{shares[-1]:.0%} of the weight in the framed room", fontsize=9)
    _bar(figure, axes)
    said = ", ".join(f"{name} {share:.0%}" for name, share in zip(weights, shares, strict=True))
    show(
        figure,
        alt=f"Sensor {sensor} receives from {len(heard)} sensors, itself included, {int(inside.sum())} of them in the "
        f"framed room that its air comes from. Weight on that room: {said}.",
    )


_STAR = {"s": 110, "marker": "*", "color": "gold", "edgecolors": "black", "linewidths": 0.8, "zorder": 3}
_COLOURS = {"cmap": "coolwarm", "vmin": -2.0, "vmax": 2.0}


def _of(graph: Sensors, building: int, each: int = 100) -> Tensor:
    numbers = torch.arange(len(graph.rooms))
    return (numbers >= building * each) & (numbers < (building + 1) * each)


def _plan(ax: Axes, graph: Sensors, building: int, sensor: int | None = None) -> None:
    """Colour the rooms, draw the walls, and frame the room that the air of a sensor comes from."""
    upright, level = graph.walls[building]
    side, grid = len(upright) + 1, (torch.arange(150) + 0.5) / 150
    rooms = graph.warmth[building * side**2 :][: side**2]
    plan = rooms[torch.bucketize(grid, level)[:, None] * side + torch.bucketize(grid, upright)]
    ax.imshow(plan.numpy(), origin="lower", extent=(0, 1, 0, 1), alpha=0.55, **_COLOURS)
    ax.vlines(upright, 0, 1, "black", linewidth=1.5)
    ax.hlines(level, 0, 1, "black", linewidth=1.5)
    if sensor is not None:
        row, column = divmod(int(graph.asked[sensor]) % side**2, side)
        (left, right), (low, high) = ([0, *lines.tolist(), 1][k : k + 2] for lines, k in ((upright, column), (level, row)))
        frame = {"fill": False, "edgecolor": "black", "linewidth": 4, "zorder": 1, "clip_on": False}
        ax.add_patch(Rectangle((left, low), right - left, high - low, **frame))
    ax.set(xticks=(), yticks=())


def _bar(figure: Figure, axes: np.ndarray) -> None:
    """Say which colour is which temperature."""
    limits = Normalize(DEGREES * _COLOURS["vmin"], DEGREES * _COLOURS["vmax"])
    figure.colorbar(ScalarMappable(limits, _COLOURS["cmap"]), ax=axes, label="°C from the mean", extend="both", shrink=0.8)


# Two graphs that message passing takes for the same.


def show_small_graphs(graphs: Mapping[str, object]) -> None:
    """Draw small graphs of networkx side by side."""
    import networkx

    figure = Figure(figsize=(2.6 * len(graphs), 2.6), layout="constrained")
    for ax, (name, graph) in zip(figure.subplots(1, len(graphs)), graphs.items(), strict=True):
        triangle = next((each for each in networkx.enumerate_all_cliques(graph) if len(each) == 3), None)
        shells = [triangle, [next(iter(set(graph[node]) - set(triangle))) for node in triangle]] if triangle else None
        networkx.draw(graph, networkx.shell_layout(graph, shells, rotate=0), ax, node_color="0.2", node_size=90, width=1.4)
        ax.set_title(name, fontsize=10)
    show(figure, alt="; ".join(f"{name}: edges {sorted(graph.edges)}" for name, graph in graphs.items()) + ".")


# Over-smoothing: features and Dirichlet energy of a graph after repeated steps of graph convolution without training.


class Smoothed(NamedTuple):
    """What repeated multiplication by Â does to the features of a graph.

    `features`: (N, d) in float64, after 0, 1, …, depth steps. `energy` (depth + 1,): the energy of x_i / √d_i, relative to
    that of step 0.
    """

    features: list[Tensor]
    energy: Tensor


def smoothed(
    graph: Graph, depth: int, edge_weights: Callable[[Tensor, int], Tensor], energy: Callable[[Tensor, Tensor], Tensor]
) -> Smoothed:
    """Multiply the features of a connected graph without self-loops by Â, `depth` times.

    Args:
        graph: the graph.
        depth: number of steps.
        edge_weights: `gcn_weights`.
        energy: `dirichlet_energy`.
    """
    features, n_nodes = [graph.features.double()], len(graph.features)
    edges = with_self_loops(graph.edges, n_nodes)
    weights = edge_weights(edges, n_nodes).double()
    for _ in range(depth):
        features.append(propagate(features[-1], edges, weights))
    root = torch.bincount(edges[0], minlength=n_nodes).double().sqrt().unsqueeze(1)
    energies = torch.stack([energy(x / root, graph.edges) for x in features])
    return Smoothed(features, energies / energies[0])


def rescaled(features: Tensor, edges: Tensor) -> Tensor:
    """Remove from the features of a smoothed graph what all nodes share, and enlarge the rest to a standard deviation of 1.

    Args:
        features: (N, d).
        edges: (2, E), without self-loops; those of `smoothed` count as edges, too.

    Returns:
        x_i / √d_i minus its mean over the nodes, divided by its standard deviation over all entries, (N, d).
    """
    degrees = torch.bincount(edges[0], minlength=len(features)) + 1
    centred = features / degrees.double().sqrt().unsqueeze(1)
    centred = centred - centred.mean(0)
    return centred / centred.std()


def show_energies(graphs: Mapping[str, Smoothed]) -> None:
    """Draw the relative energy of each graph against the number of steps, on a logarithmic axis."""
    lines = {name: (range(len(each.energy)), each.energy) for name, each in graphs.items()}
    ends = (f"{each.energy[-1]:.0e} is left on {name}" for name, each in graphs.items())
    show(
        curves(lines, "steps of Â", "energy, relative to that of the features", log="y"),
        alt=f"Energy against the number of steps, logarithmic: at the last step {', '.join(ends)}.",
    )
