"""Social graphs, real and fictional, from networkx; and the type of a graph data set.

Zachary 1977, *An Information Flow Model for Conflict and Fission in Small Groups*, https://doi.org/10.1086/jar.33.4.3629752;
Knuth 1993, *The Stanford GraphBase*, for the characters of Les Misérables. networkx is BSD-3-Clause.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.optional_import import optional_import
from course_lib.shapes import Edges

__all__ = ["karate_club", "les_miserables"]

if TYPE_CHECKING:
    import networkx


class Graph(NamedTuple):
    """A graph of N nodes: edges, features, labels and names of the nodes.

    `edges` (2, E): node edges[0] attends to node edges[1]; an undirected graph has both directions. `features` (N, d). `labels`
    (N,), -1 if the label is unknown or not to be predicted. `names` (N,).
    """

    edges: Edges
    features: Float[Tensor, "N d"]
    labels: Int[Tensor, "N"]
    names: tuple[str, ...]


def karate_club() -> Graph:
    """Return the karate club of Zachary: 34 members, 78 friendships, and the side each member took when the club split.

    Node 0 is the instructor, node 33 the officer: the two leaders. The label is 0 for members who stayed with the instructor,
    1 for those who left with the officer. The features are one-hot: the only thing known about a member is its identity.
    """
    networkx = optional_import("networkx", "networkx", "The karate club")
    club = networkx.karate_club_graph()
    sides = torch.tensor([int(club.nodes[member]["club"] != "Mr. Hi") for member in club])
    return _undirected(club, sides)


def les_miserables() -> Graph:
    """Return the 77 characters of Les Misérables, with an edge between two who meet in a chapter; all labels are -1 (none)."""
    networkx = optional_import("networkx", "networkx", "The graph of Les Misérables")
    novel = networkx.les_miserables_graph()
    return _undirected(novel, torch.full((len(novel),), -1))


def _undirected(graph: "networkx.Graph", labels: Int[Tensor, "N"]) -> Graph:
    """List both directions of each edge, sorted; the features are one-hot numbers of the nodes."""
    number: dict[Hashable, int] = {node: i for i, node in enumerate(graph)}
    pairs = [(number[u], number[v]) for u, v in graph.edges]
    edges = torch.tensor(sorted(pairs + [(v, u) for u, v in pairs])).mT.contiguous()
    return Graph(edges, torch.eye(len(number)), labels, tuple(map(str, graph)))
