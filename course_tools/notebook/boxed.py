"""Draw labelled boxes and points over pictures and maps: arrays in, figure out."""

from collections.abc import Mapping, Sequence

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_tools.notebook.legible import Numbers, in_the_font, to_array
from course_tools.notebook.plots import pictures


def boxed(
    images: Mapping[str, Numbers],
    corners: Mapping[str, Numbers] | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
    dots: Mapping[str, Numbers] | None = None,
    label: str = "attention weight",
) -> Figure:
    """Draw pictures beside each other, boxes and dots over them.

    Args:
        images: title -> picture, as `plots.pictures` takes them: (H, W, 3) in colours, (H, W) as a map.
        corners: title -> boxes over that picture, (n, 4) as (x_1, y_1, x_2, y_2) in parts of the picture.
        names: title -> a word at each of its boxes.
        dots: title -> points over that picture, (n, 2) as (x, y) in parts of the picture.
        label: what the maps show.

    Raises:
        ValueError: a picture has not as many words as boxes.
    """
    corners, names, dots = corners or {}, names or {}, dots or {}
    figure = pictures(images, label=label)
    for ax, (title, image) in zip(figure.axes, images.items(), strict=False):
        H, W = to_array(image).shape[:2]
        boxes = to_array(corners[title]).tolist() if title in corners else []
        words = names.get(title, [""] * len(boxes))
        if len(words) != len(boxes):
            raise ValueError(f"{title!r} has {len(boxes)} boxes and {len(words)} words; give one for each.")
        for number, ((x_1, y_1, x_2, y_2), word) in enumerate(zip(boxes, words, strict=True)):
            _box(ax, (x_1 * W - 0.5, y_1 * H - 0.5), ((x_2 - x_1) * W, (y_2 - y_1) * H), word, number)
        if title in dots:
            points = to_array(dots[title])
            ax.plot(points[:, 0] * W - 0.5, points[:, 1] * H - 0.5, ".", color="black", markersize=3, alpha=0.5)
    return figure


def _box(ax: Axes, corner: tuple[float, float], size: tuple[float, float], word: str, number: int) -> None:
    palette = sns.color_palette("colorblind", 8)
    colour = palette[number % len(palette)]
    for edge, width in (("white", 3.4), (colour, 1.8)):
        ax.add_patch(Rectangle(corner, *size, fill=False, edgecolor=edge, linewidth=width))
    if word:
        box = {"facecolor": "white", "edgecolor": colour, "pad": 1.0, "linewidth": 0.8}
        ax.text(*corner, in_the_font(word), fontsize=8, parse_math=False, va="bottom", bbox=box)
