"""Edge lists that reveal: directed, in no order, with loops, repeated edges and nodes that have none."""

import torch
from torch import Tensor

from course_tools.checks.exercise import Draw


def plain(draw: Draw, n_nodes: int) -> Tensor:
    """Draw a directed graph in which every node looks at one to three others, and nothing stands twice; in no order."""
    n_others = draw.integers(1, min(4, n_nodes), n_nodes)
    order = (draw.uniform(n_nodes, n_nodes) + 2 * torch.eye(n_nodes)).argsort(-1)
    pairs = [(i, int(order[i, j])) for i in range(n_nodes) for j in range(int(n_others[i]))]
    return shuffled(draw, torch.tensor(pairs).mT)


def tangled(draw: Draw, n_nodes: int) -> Tensor:
    """Draw one more: with two loops, three edges listed twice, a node that attends to none, and a last node without edges."""
    edges = plain(draw, n_nodes - 1)
    edges = edges[:, edges[0] != 1]
    loops = torch.tensor([[0, 2], [0, 2]])
    return shuffled(draw, torch.cat([edges, edges[:, :3], loops], dim=1))


def shuffled(draw: Draw, edges: Tensor) -> Tensor:
    """Put edges (2, E) into another order."""
    return edges[:, draw.uniform(edges.shape[1]).argsort()]
