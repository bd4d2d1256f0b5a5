"""Digits scattered over a canvas, each with its class and the box around its ink: composed images for detection.

The digits are real; the scenes are composed here, so that every box is known to the pixel.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.datasets.pictures import LabelledImages

__all__ = ["Scenes", "digit_scenes"]


class Scenes(NamedTuple):
    """Images (n, C, H, W), and for each object the class (n, M), -1 if there is none, and the box (n, M, 4).

    Boxes are centre and size (x, y, w, h), as fractions of the image; 0 if there is no object. Objects have no order.
    """

    images: Float[Tensor, "n C H W"]
    classes: Int[Tensor, "n M"]
    boxes: Float[Tensor, "n M 4"]


def digit_scenes(
    pictures: LabelledImages, n: int, seed: int, size: tuple[int, int] = (32, 32), n_objects: tuple[int, int] = (1, 2)
) -> Scenes:
    """Paste images onto canvases so that the boxes around their ink do not overlap.

    Args:
        pictures: the images to paste, such as part of `mnist()`; their background is 0.
        n: number of scenes.
        seed: determines the scenes.
        size: height and width of a scene.
        n_objects: the smallest and the largest number of objects of a scene; all numbers are equally likely.

    Returns:
        the scenes; M is the largest number of objects.

    Raises:
        ValueError: an image does not fit onto the canvas, is empty, or there is no room for so many objects.
    """
    generator = torch.Generator().manual_seed(seed)
    fewest, most = n_objects
    H, W = size
    if not 0 <= fewest <= most:
        raise ValueError(f"n_objects is the smallest and the largest number, 0 ≤ smallest ≤ largest; got {n_objects}.")
    edges = ink_edges(pictures.images)
    scenes = Scenes(torch.zeros(n, pictures.images.shape[1], H, W), torch.full((n, most), -1), torch.zeros(n, most, 4))
    counts = torch.randint(fewest, most + 1, (n,), generator=generator).tolist()
    for i, count in enumerate(counts):
        taken: list[tuple[int, int, int, int]] = []
        for m, which in enumerate(torch.randint(len(edges), (count,), generator=generator).tolist()):
            x_1, y_1, x_2, y_2 = edges[which].tolist()
            x, y = _free_place(x_2 - x_1, y_2 - y_1, (W, H), taken, generator)
            taken.append((x, y, x + x_2 - x_1, y + y_2 - y_1))
            scenes.images[i, :, y : y + y_2 - y_1, x : x + x_2 - x_1] = pictures.images[which, :, y_1:y_2, x_1:x_2]
            scenes.classes[i, m] = pictures.labels[which]
            centre = torch.tensor([x + (x_2 - x_1) / 2, y + (y_2 - y_1) / 2, x_2 - x_1, y_2 - y_1])
            scenes.boxes[i, m] = centre / torch.tensor([W, H, W, H])
    return scenes


def ink_edges(images: Float[Tensor, "n C H W"]) -> Int[Tensor, "n 4"]:
    """Find the bounding box of the ink of each image.

    Args:
        images: (n, C, H, W), 0 where there is no ink.

    Returns:
        (n, 4): the first column and row with ink, and one past the last, (x_1, y_1, x_2, y_2).

    Raises:
        ValueError: an image has no ink.
    """
    inked = (images > 0).any(1)
    if not inked.flatten(1).any(1).all():
        raise ValueError("an image without ink has no box; leave it out.")
    ends = []
    for axis in (1, 2):  # columns, then rows
        line = inked.any(axis).int()
        ends.append((line.argmax(1), line.shape[1] - line.flip(1).argmax(1)))
    (x_1, x_2), (y_1, y_2) = ends
    return torch.stack([x_1, y_1, x_2, y_2], dim=1)


def _free_place(
    w: int, h: int, room: tuple[int, int], taken: list[tuple[int, int, int, int]], generator: torch.Generator
) -> tuple[int, int]:
    """Draw a corner for w × h pixels that do not overlap any earlier object."""
    if w > room[0] or h > room[1]:
        raise ValueError(f"an object of {w} × {h} pixels does not fit onto a canvas of {room[0]} × {room[1]}.")
    for _ in range(1_000):
        x, y = (int(torch.randint(free + 1, (), generator=generator)) for free in (room[0] - w, room[1] - h))
        if all(x + w <= x_1 or x >= x_2 or y + h <= y_1 or y >= y_2 for x_1, y_1, x_2, y_2 in taken):
            return x, y
    raise ValueError(
        f"no room is left for {w} × {h} pixels next to {len(taken)} others: use a larger canvas, or fewer objects."
    )
