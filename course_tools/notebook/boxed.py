"""Draw labelled boxes and points over images and maps: arrays in, figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_tools.notebook.legible import Numbers, in_the_font, to_array
from course_tools.notebook.plots import pictures
from course_tools.notebook.style import palette


def boxed(
    images: Mapping[str, Numbers],
    corners: Mapping[str, Numbers] | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
    dots: Mapping[str, Numbers] | None = None,
    label: str = "attention weight",
    expected: Mapping[str, Numbers] | None = None,
    ink: Mapping[str, Numbers] | None = None,
    colours: Mapping[str, Sequence[int]] | None = None,
) -> Figure:
    """Draw images side by side, with boxes and dots over them.

    Args:
        images: title -> image, as in `plots.pictures`: (H, W, 3) in colours, (H, W) as a map.
        corners: title -> boxes over that image, (n, 4) as (x_1, y_1, x_2, y_2), as fractions of the image's size.
        names: title -> a word for each of its boxes.
        dots: title -> points over that image, (n, 2) as (x, y), as fractions of the image's size.
        label: what the maps show.
        expected: title -> true boxes over that image, as in `corners`: dashed, below the others.
        ink: title -> the ink (H', W') in 0…1 of the image to which a map refers, drawn over it in white.
        colours: title -> the number of the colour of each of its boxes; by default all of an image differ.

    Raises:
        ValueError: the number of words differs from the number of boxes of an image.
    """
    corners, names, dots = corners or {}, names or {}, dots or {}
    figure = pictures(images, label=label)
    for ax, (title, image) in zip(figure.axes, images.items(), strict=False):
        H, W = to_array(image).shape[:2]
        if ink and title in ink:
            opacity = 0.7 * to_array(ink[title])
            ax.imshow(np.dstack([np.ones((*opacity.shape, 3)), opacity]), extent=(-0.5, W - 0.5, H - 0.5, -0.5))
        for box in _boxes(expected, title):
            ax.add_patch(_rectangle(box, H, W, edgecolor="white", linewidth=2.2))
            ax.add_patch(_rectangle(box, H, W, edgecolor="black", linewidth=1.4, linestyle="--"))
        boxes = _boxes(corners, title)
        words = names.get(title, [""] * len(boxes))
        if len(words) != len(boxes):
            raise ValueError(f"{title!r} has {len(boxes)} boxes and {len(words)} words; the numbers must be equal.")
        numbers = colours[title] if colours and title in colours else range(len(boxes))
        for number, box, word in zip(numbers, boxes, words, strict=True):
            colour = palette(8)[number % 8]
            for edge, width in (("white", 3.0), (colour, 1.8)):
                ax.add_patch(_rectangle(box, H, W, edgecolor=edge, linewidth=width))
            if word:
                frame = {"facecolor": "white", "edgecolor": colour, "pad": 1.0, "linewidth": 0.8}
                place = {"xy": ax.patches[-1].get_xy(), "xytext": (3, -3), "textcoords": "offset points", "va": "top"}
                ax.annotate(in_the_font(word), **place, fontsize=8, parse_math=False, bbox=frame)
        if title in dots:
            points = to_array(dots[title])
            ax.plot(points[:, 0] * W - 0.5, points[:, 1] * H - 0.5, ".", color="black", markersize=3, alpha=0.5)
    return figure


def _boxes(corners: Mapping[str, Numbers] | None, title: str) -> list[list[float]]:
    return to_array(corners[title]).tolist() if corners and title in corners else []


def _rectangle(box: Sequence[float], H: int, W: int, **style: object) -> Rectangle:
    """The outline of a box, given as fractions, in an image of H × W pixels whose centres are at whole numbers."""
    x_1, y_1, x_2, y_2 = box
    return Rectangle((x_1 * W - 0.5, y_1 * H - 0.5), (x_2 - x_1) * W, (y_2 - y_1) * H, fill=False, **style)
