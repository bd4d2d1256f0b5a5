"""Sensors in the rooms of buildings, as graphs: each receives from its neighbours, also through walls, and readings are noisy.

The air of each sensor comes through a duct from another room, and the question is how warm that room is. Each sensor measures
three gases of its own room; three noses smell the air of the duct, each a fixed mixture of the same gases. So what tells whom
a sensor should listen to is not what it has in common with it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.primitives import propagate
from course_lib.shapes import Edges

FEATURES = ("reading", "CO₂", "humidity", "ozone", "nose 1", "nose 2", "nose 3")
DEGREES = 3.0
"""One unit of a reading, and the spread of the rooms, in °C."""
NOISE, UNEVEN = 0.5, 0.25
"""Standard deviations within a room: of readings, and of gases and what the noses smell; between rooms they are 1."""
NOSES = ((0.36, -0.48, 0.8), (0.8, 0.6, 0.0), (-0.48, 0.64, 0.6))
"""What each nose reports for one unit of each gas."""


class Sensors(NamedTuple):
    """Buildings with N sensors in all, as one graph whose parts have no edges between them.

    `features` (N, 7), see FEATURES. `edges` (2, E): sensor edges[0] receives from sensor edges[1], and each from itself.
    `targets` (N,): the temperature of the room that the air comes from, from the mean of all rooms, in units of DEGREES, as the
    readings. For figures and for filters that are told: `rooms` (N,), where each sensor is, `asked` (N,), the room its air
    comes from, `warmth`, the temperature of every room, and `places` (N, 2), from 0 to 1; so are `walls` (n, 2, ·) of the
    buildings: first where x, then where y is constant.
    """

    features: Float[Tensor, "N 7"]
    edges: Edges
    targets: Float[Tensor, "N"]
    rooms: Int[Tensor, "N"]
    asked: Int[Tensor, "N"]
    warmth: Float[Tensor, "rooms"]
    places: Float[Tensor, "N 2"]
    walls: Float[Tensor, "n 2 walls"]


def sensors(generator: torch.Generator, n: int = 4, neighbours: int = 12, side: int = 4, each: int = 100) -> Sensors:
    """Draw n buildings of side × side rooms, with `each` sensors at random places.

    The air of a sensor comes from the room of one of its twelve nearest neighbours, drawn among those in other rooms.
    """

    def walls() -> Tensor:
        return torch.arange(1, side) / side + 0.08 * (torch.rand(n, side - 1, generator=generator) - 0.5)

    vertical, horizontal, places = walls(), walls(), torch.rand(n, each, 2, generator=generator)
    column, row = (
        (places[..., axis, None] > lines[:, None]).sum(-1) for axis, lines in enumerate((vertical, horizontal))
    )  # (n, each)
    rooms = (row * side + column + torch.arange(n)[:, None] * side**2).flatten()
    of_rooms = torch.randn(n * side**2, 4, generator=generator)  # temperature, three gases
    nearest = torch.cdist(places, places).topk(max(neighbours, 12) + 1, largest=False).indices  # (n, each, ·), itself first
    nearest = (nearest + torch.arange(n)[:, None, None] * each).flatten(0, 1)
    elsewhere = (rooms[nearest[:, :13]] != rooms[:, None]) + 1e-6  # those with no other room in reach are asked about their own
    source = nearest.gather(1, torch.multinomial(elsewhere, 1, generator=generator)).squeeze(1)
    asked, (warmth, gases) = rooms[source], of_rooms.split((1, 3), dim=1)

    def uneven(values: Tensor, spread: float) -> Tensor:
        return values + spread * torch.randn(values.shape, generator=generator)

    smelled = uneven(gases[asked], UNEVEN) @ torch.tensor(NOSES).mT
    features = torch.cat([uneven(warmth[rooms], NOISE), uneven(gases[rooms], UNEVEN), smelled], dim=1)
    heard = nearest[:, : neighbours + 1]
    hearing = torch.arange(n * each)[:, None].expand_as(heard)
    edges, warmth = torch.stack([hearing.flatten(), heard.flatten()]), warmth.squeeze(1)
    planned = torch.stack([vertical, horizontal], 1)
    return Sensors(features, edges, warmth[asked], rooms, asked, warmth, places.flatten(0, 1), planned)


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


def from_the_duct(graph: Sensors) -> Float[Tensor, "E"]:
    """Weigh the edges from the room that the air comes from by 1, all others by 0: what a filter could do that knows it."""
    hearing, heard = graph.edges
    return (graph.asked[hearing] == graph.rooms[heard]).float()
