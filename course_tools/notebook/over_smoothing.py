"""Over-smoothing: features and Dirichlet energy of a graph after repeated steps of graph convolution without training."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_lib.primitives import propagate, with_self_loops
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show


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
