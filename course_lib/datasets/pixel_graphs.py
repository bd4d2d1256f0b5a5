"""Images as graphs: each pixel with ink is a node, joined by edges to the pixels with ink around it.

A batch of graphs is one graph whose parts have no edges between them, so that message passing needs no padding.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.shapes import Edges

__all__ = ["PixelGraphs", "pixel_graphs"]

_AROUND = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if (down, right) != (0, 0)]


class PixelGraphs(NamedTuple):
    """n_graphs graphs with N nodes in all, in the order of the images, row by row.

    `edges` (2, E): node edges[0] attends to node edges[1], sorted by edges[0]; both directions are listed, self-loops are not.
    `ink` (N, 1), from 0 to 1. `positions` (N, 2): the row and the column of each node. `graph_of` (N,): the number of
    the image that it comes from.
    """

    edges: Edges
    ink: Float[Tensor, "N 1"]
    positions: Int[Tensor, "N 2"]
    graph_of: Int[Tensor, "N"]
    n_graphs: int


def pixel_graphs(images: Float[Tensor, "B H W"], threshold: float = 0.25) -> PixelGraphs:
    """Turn grey images into graphs of their inked pixels, with edges between pixels that touch, including at a corner.

    Args:
        images: (B, H, W), ink from 0 to 1, such as `digits().images`.
        threshold: a pixel is a node if its ink is above it.

    Returns:
        one graph for each image; an image without ink has no nodes.
    """
    B, H, W = images.shape
    graph_of, row, column = (images > threshold).nonzero(as_tuple=True)
    N = len(graph_of)
    number = torch.full((B, H + 2, W + 2), -1, device=images.device)
    number[graph_of, row + 1, column + 1] = torch.arange(N, device=images.device)
    around = torch.stack([number[graph_of, row + 1 + down, column + 1 + right] for down, right in _AROUND], dim=1)
    query, which = (around >= 0).nonzero(as_tuple=True)
    edges = torch.stack([query, around[query, which]])
    ink = images[graph_of, row, column].unsqueeze(1)
    return PixelGraphs(edges, ink, torch.stack([row, column], dim=1), graph_of, B)
