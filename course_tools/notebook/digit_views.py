"""Figures of augmented digits, of a photograph under augmentation, and of nearest neighbours: for lecture 16."""

import math
from collections.abc import Callable

import torch
from einops import rearrange
from torch import Tensor

from course_lib.datasets import colour_matrix, photographs, recolour
from course_tools.notebook.plots import pictures
from course_tools.notebook.show import show


def show_views(images: Tensor, view: Callable[[Tensor, torch.Generator], Tensor], seed: int = 0) -> None:
    """Draw grey images (20, 1, H, W) and two views of each; the alternative text contains how much a view differs.

    Args:
        images: on any device.
        view: draws one view of each image of a batch.
        seed: of the views.
    """
    generator = torch.Generator().manual_seed(seed)
    one, another = view(images, generator), view(images, generator)
    changed = ((one - images).abs().mean() / images.mean()).item()
    show(
        pictures({"original": _sheet(images, 4), "one view": _sheet(one, 4), "another view": _sheet(another, 4)}),
        alt="The same twenty digits three times: the originals and two views of each, slightly rotated, sheared, zoomed and "
        f"shifted. The absolute difference between a digit and its view is {100 * changed:.0f} % of the ink.",
    )


def show_photograph_view(
    warp: Callable[[Tensor, Tensor, Tensor], Tensor], turn: float, zoom: float, hue: float, saturation: float
) -> None:
    """Draw the photograph of a dahlia and a view of it.

    Args:
        warp: transforms images by a matrix A and a shift t.
        turn: rotation in degrees.
        zoom: zoom factor.
        hue: rotation of the hue in degrees.
        saturation: factor of the saturation.
    """
    photo = photographs((60, 90))[1:]
    angle = torch.tensor(math.radians(turn))
    A = zoom * torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(1, 2, 2)
    M = colour_matrix(torch.ones(1), torch.tensor([saturation]), torch.tensor([math.radians(hue)]))
    view = recolour(warp(photo, A, torch.zeros(1, 2)).float(), M).clamp(0, 1)
    show(
        pictures({"photograph": photo[0].permute(1, 2, 0), "view": view[0].permute(1, 2, 0)}),
        alt=f"A dahlia and its view: rotated by {turn:g}°, zoomed by {zoom:g}, hue rotated by {hue:g}°, saturation "
        f"{saturation:g}; the mean of the red channel changes from {photo[:, 0].mean():.2f} to {view[:, 0].mean():.2f}.",
    )


def show_neighbours(number: int, points: Tensor, images: Tensor, kinds: Tensor, n: int = 5) -> None:
    """Draw a grey image and the n images with the nearest embeddings.

    Args:
        number: of the image.
        points: embeddings (N, d) of unit length.
        images: (N, 1, H, W), in the same order.
        kinds: classes (N,).
        n: number of neighbours.
    """
    nearest = (points @ points[number]).topk(n + 1).indices
    classes = kinds[nearest].tolist()
    title = f"a {classes[0]}, then {', '.join(map(str, classes[1:]))}"
    show(
        pictures({title: _sheet(images[nearest.to(images.device)], 1)}),
        alt=f"Unseen digit {number}, {title}: its {n} nearest neighbours, of which {classes[1:].count(classes[0])} show the "
        "same digit.",
    )


def _sheet(images: Tensor, rows: int) -> Tensor:
    """Arrange grey images (B, 1, H, W) in rows, as one image of three equal channels."""
    joined = rearrange(images.cpu(), "(rows columns) 1 H W -> (rows H) (columns W) 1", rows=rows)
    return joined.expand(-1, -1, 3).clamp(0, 1)
