"""Sensors in the rooms of buildings, as graphs: each receives from its neighbours, also through walls, and readings are noisy.

The question is the temperature of the room of each sensor. Sensors of one room share light, sound and humidity; two further
features, battery and age, tell nothing. The positions are not among the features.
"""

from collections.abc import Iterator
from itertools import combinations, product
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.primitives import propagate
from course_lib.shapes import Edges

FEATURES = ("reading", "light", "sound", "humidity", "battery", "age")
DEGREES = 3.0
"""One unit of a reading, and the spread of the rooms, in °C; noise of a reading has this standard deviation too."""
LIKENESS = 0.25
"""Standard deviation of light, sound and humidity within a room; between rooms it is 1."""


class Sensors(NamedTuple):
    """Buildings with N sensors in all, as one graph whose parts have no edges between them.

    `features` (N, 6), see FEATURES. `edges` (2, E): sensor edges[0] receives from sensor edges[1], and each from itself.
    `targets` (N,): the temperature of the room, from the mean of all rooms, in units of DEGREES, as the readings. `rooms` (N,)
    and `places` (N, 2), from 0 to 1, are for figures and for filters that are told; so are `walls` (n, 2, ·) of the buildings:
    first where x, then where y is constant.
    """

    features: Float[Tensor, "N 6"]
    edges: Edges
    targets: Float[Tensor, "N"]
    rooms: Int[Tensor, "N"]
    places: Float[Tensor, "N 2"]
    walls: Float[Tensor, "n 2 walls"]


def sensors(generator: torch.Generator, n: int = 4, neighbours: int = 12, side: int = 4, each: int = 100) -> Sensors:
    """Draw n buildings of side × side rooms, with `each` sensors at random places."""

    def walls() -> Tensor:
        return torch.arange(1, side) / side + 0.08 * (torch.rand(n, side - 1, generator=generator) - 0.5)

    vertical, horizontal, places = walls(), walls(), torch.rand(n, each, 2, generator=generator)
    column, row = (
        (places[..., axis, None] > lines[:, None]).sum(-1) for axis, lines in enumerate((vertical, horizontal))
    )  # (n, each)
    room = row * side + column + torch.arange(n)[:, None] * side**2
    of_room = torch.randn(n * side**2, 4, generator=generator)[room.flatten()]  # temperature, light, sound, humidity
    spread = torch.tensor([1.0, LIKENESS, LIKENESS, LIKENESS])
    seen = of_room + spread * torch.randn(n * each, 4, generator=generator)
    features = torch.cat([seen, torch.randn(n * each, 2, generator=generator)], dim=1)
    heard = torch.cdist(places, places).topk(neighbours + 1, largest=False).indices  # (n, each, neighbours + 1), itself first
    heard = heard + torch.arange(n)[:, None, None] * each
    hearing = torch.arange(n * each).view(n, each, 1).expand_as(heard)
    edges = torch.stack([hearing.flatten(), heard.flatten()])
    return Sensors(features, edges, of_room[:, 0], room.flatten(), places.flatten(0, 1), torch.stack([vertical, horizontal], 1))


def new_buildings(seed: int, n: int = 4) -> Iterator[Sensors]:
    """Draw new buildings for every update, without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield sensors(generator, n)


def unseen_buildings(neighbours: int = 12) -> Sensors:
    """Draw a hundred buildings for the test, the same in every call."""
    return sensors(torch.Generator().manual_seed(1_000_000), 100, neighbours)


def error(predicted: Float[Tensor, "N"], graph: Sensors) -> float:
    """Measure the root mean squared error of the predicted temperatures, in °C."""
    return DEGREES * (predicted - graph.targets).square().mean().sqrt().item()


def filtered(graph: Sensors, weights: Float[Tensor, "E"]) -> Float[Tensor, "N"]:
    """Average the readings that each sensor receives, with weights of the edges that need not sum to 1."""
    both = torch.cat([graph.features[:, :1], torch.ones(len(graph.features), 1, device=weights.device)], dim=1)
    total, weight = propagate(both, graph.edges, weights).unbind(1)
    return total / weight


def in_the_same_room(graph: Sensors) -> Float[Tensor, "E"]:
    """Weigh the edges inside a room by 1, those through a wall by 0: what a filter could do that knows the rooms."""
    hearing, heard = graph.rooms[graph.edges]
    return (hearing == heard).float()


class Filter(NamedTuple):
    """Weigh each edge by exp(-distance² / 2 width²) of some features of its ends: nothing is trained."""

    columns: tuple[int, ...]
    width: float

    def __call__(self, graph: Sensors) -> Float[Tensor, "N"]:
        """Average the readings that each sensor receives."""
        hearing, heard = graph.features[:, self.columns][graph.edges]
        weights = (-(hearing - heard).square().sum(-1) / (2 * self.width**2)).exp()
        return filtered(graph, weights)


def subsets(n: int) -> list[tuple[int, ...]]:
    """List the subsets of n columns, but for the empty one."""
    return [chosen for size in range(1, n + 1) for chosen in combinations(range(n), size)]


def best_filter(graph: Sensors, columns: list[tuple[int, ...]]) -> Filter:
    """Return the filter with the least error on a graph whose targets are known, of nine widths."""
    widths = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0)
    filters = [Filter(*choice) for choice in product(columns, widths)]
    return min(filters, key=lambda each: error(each(graph), graph))
