"""Figures of embeddings, of augmented digits and photographs, and of nearest neighbours."""

import math
from collections.abc import Callable, Mapping

import numpy as np
import seaborn as sns
import torch
from einops import rearrange
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.datasets import colour_matrix, photographs, recolour
from course_tools.notebook.legible import Numbers, in_the_font, to_array
from course_tools.notebook.plots import pictures
from course_tools.notebook.show import show

# Embeddings in two dimensions, with the label of each point as its marker: arrays in, figure out.


def clouds(embeddings: Mapping[str, Numbers], labels: Numbers) -> Figure:
    """Draw embeddings along their first two principal axes, in up to three panels side by side.

    Every point is the numeral of its label, so that the figure can be read without distinguishing ten colours.

    Args:
        embeddings: title -> (n, d), such as one encoder at several steps of its training.
        labels: (n,), whole numbers from 0 to 9, the same for all panels.

    Raises:
        ValueError: there are more than three panels, or the numbers of labels and points differ.
    """
    kinds = to_array(labels)
    if not 1 <= len(embeddings) <= 3 or any(len(to_array(points)) != len(kinds) for points in embeddings.values()):
        raise ValueError(f"give one to three panels of {len(kinds)} points each, one for each label.")
    figure = Figure(figsize=(6.0, 2.6), layout="constrained")
    palette = sns.color_palette("colorblind", 10)
    palette[8] = (0.15, 0.15, 0.15)  # its yellow is too pale for a thin numeral on white
    for ax, (title, points) in zip(figure.subplots(1, len(embeddings), squeeze=False)[0], embeddings.items(), strict=True):
        places = _widest(to_array(points))
        for kind in np.unique(kinds):
            own = places[kinds == kind]
            ax.scatter(own[:, 0], own[:, 1], s=22, color=[palette[kind]], marker=f"${kind}$", linewidths=0.4)
        ax.set_title(in_the_font(title), parse_math=False, fontsize=10)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.margins(0.04)
    return figure


def _widest(points: np.ndarray) -> np.ndarray:
    """Project points (n, d) onto their first two principal axes, (n, 2)."""
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    places = centred @ axes[:2].T
    return np.pad(places, ((0, 0), (0, 2 - places.shape[1])))


# Figures of augmented digits, of a photograph under augmentation, and of nearest neighbours.


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
