"""Scenes of digits in clutter, each digit with its class, its box and a segmentation mask: which ink is part of the digit.

The scenes are those of `digit_scenes`, with pieces of other images scattered over them, after the cluttered MNIST of Mnih,
Heess, Graves, Kavukcuoglu 2014, *Recurrent Models of Visual Attention*, section 4.1 (https://arxiv.org/abs/1406.6247). On an
empty background, the ink within the box of an object is its mask; with pieces in the box, it is not.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_lib.datasets.digit_scenes import Scenes, digit_scenes
from course_lib.datasets.drawings import stamp
from course_lib.datasets.pictures import LabelledImages
from course_lib.primitives import to_corners

_DARK = 0.5


class SegmentedScenes(NamedTuple):
    """Images (n, 1, H, W) with ink from 0 to 1, `classes` and `boxes` as in `Scenes`, and `masks` (n, M, H, W).

    The mask of an object is True at its pixels with at least half of full ink, False everywhere if there is no object.
    """

    images: Float[Tensor, "n 1 H W"]
    classes: Int[Tensor, "n M"]
    boxes: Float[Tensor, "n M 4"]
    masks: Bool[Tensor, "n M H W"]


def cluttered_scenes(
    pictures: LabelledImages,
    n: int,
    seed: int,
    size: tuple[int, int] = (32, 32),
    n_objects: tuple[int, int] = (1, 2),
    n_pieces: int = 20,
    side: int = 4,
) -> SegmentedScenes:
    """Compose scenes by `digit_scenes`, and scatter pieces of the same images over them.

    Args:
        pictures: the images to paste, with one channel, such as part of `digits()`; their background is 0.
        n: number of scenes.
        seed: determines the scenes.
        size: height and width of a scene.
        n_objects: the smallest and the largest number of objects of a scene; all numbers are equally likely.
        n_pieces: pieces of a scene. They may touch each other and the objects; where ink overlaps, the darker value is kept.
        side: rows and columns of a piece.

    Returns:
        the scenes; M is the largest number of objects. Classes, boxes and masks are those of the objects, without the pieces.

    Raises:
        ValueError: a piece is larger than an image or a scene, n_pieces is negative, the images have several channels, or
            `digit_scenes` cannot compose the scenes.
    """
    m, channels, height, width = pictures.images.shape
    if channels != 1 or n_pieces < 0 or not 1 <= side <= min(height, width, *size):
        raise ValueError(
            "need images with one channel, n_pieces ≥ 0, and pieces from one pixel to the size of an image or a scene; got "
            f"{channels} channels of {height} × {width} pixels, n_pieces={n_pieces} and side={side} for scenes of {size}."
        )
    generator = torch.Generator().manual_seed(seed)

    def draw(*sizes: int, below: int) -> Int[Tensor, "..."]:
        return torch.randint(below, sizes, generator=generator)

    scenes = digit_scenes(pictures, n, int(draw(below=2**31)), size, n_objects)
    cut = pictures.images[:, 0].unfold(1, side, 1).unfold(2, side, 1)
    canvas = scenes.images[:, 0]
    for _ in range(n_pieces):
        pieces = cut[draw(n, below=m), draw(n, below=cut.shape[1]), draw(n, below=cut.shape[2])]
        places = torch.stack([draw(n, below=length - side + 1) for length in size], dim=-1)
        canvas = stamp(canvas, pieces, places)
    return SegmentedScenes(canvas[:, None], scenes.classes, scenes.boxes, _object_masks(scenes))


def _object_masks(scenes: Scenes) -> Bool[Tensor, "n M H W"]:
    """Return the dark ink within the box of each object, before anything else is laid over the scenes."""
    H, W = scenes.images.shape[-2:]
    x_1, y_1, x_2, y_2 = (to_corners(scenes.boxes) * torch.tensor([W, H, W, H])).round().unbind(-1)
    rows, columns = torch.arange(H), torch.arange(W)
    tall = (rows >= y_1[..., None]) & (rows < y_2[..., None])
    wide = (columns >= x_1[..., None]) & (columns < x_2[..., None])
    return tall[..., :, None] & wide[..., None, :] & (scenes.images >= _DARK)
