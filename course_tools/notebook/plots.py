"""Figures of the course: arrays in, Figure out. The functions neither display a figure nor keep state.

Weights are drawn in viridis from 0 to 1, scores (logits) in a diverging colour map centred at 0, and curves in seaborn's
colour-blind palette with a marker for each line.
"""

from collections.abc import Mapping, Sequence
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_tools.notebook.legible import Numbers, in_the_font, printable, to_array
from course_tools.notebook.style import despine, palette

Names = Sequence[str] | None
Place = tuple[int | float, int | float]

MARKERS = "osD^vPX*"


def attention_map(
    weights: Numbers,
    queries: Names = None,
    keys: Names = None,
    title: str = "",
    x: str = "key",
    y: str = "query",
    outlined: Numbers | None = None,
) -> Figure:
    """Draw weights (T_q, T_k), each in 0…1: a row for each query, a column for each key, labelled by their tokens.

    Args:
        weights: (T_q, T_k).
        queries: a label for each row.
        keys: a label for each column.
        title: above the map.
        x: label of the columns.
        y: label of the rows.
        outlined: (T_q, T_k), true or not 0 for the cells that get an outline, such as those where the weight should be.

    Raises:
        ValueError: there are not as many labels as rows or columns, or `outlined` has another shape than the weights.
    """
    return attention_maps({title: weights}, queries, keys, x, y, outlined)


def attention_maps(
    weights: Mapping[str, Numbers],
    queries: Names = None,
    keys: Names = None,
    x: str = "key",
    y: str = "query",
    outlined: Numbers | None = None,
) -> Figure:
    """Draw maps of weights (T_q, T_k) side by side, such as the heads of a layer, with their titles.

    The other arguments are those of `attention_map`; the same cells are outlined in every map.
    """
    figure = _maps(weights, queries, keys, x, y, "attention weight", "viridis", (0.0, 1.0))
    for ax, each in zip(figure.axes, weights.values(), strict=False):  # the last of the axes is the scale of the colours
        _outline(ax, np.zeros(to_array(each).shape) if outlined is None else to_array(outlined), to_array(each).shape)
    return figure


def _outline(ax: Axes, cells: np.ndarray, shape: tuple[int, ...]) -> None:
    """Draw a frame inside each cell (row, column) that is not 0."""
    if cells.shape != shape:
        raise ValueError(f"the outlined cells have shape {cells.shape}, and the weights {shape}.")
    for row, column in np.argwhere(cells):
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="tab:red", linewidth=1.6))


def score_maps(
    scores: Mapping[str, Numbers],
    queries: Names = None,
    keys: Names = None,
    x: str = "key",
    y: str = "query",
    unit: str = "score",
) -> Figure:
    """Draw scores before the softmax, or other numbers of either sign, (T_q, T_k): the middle of the colour map is 0."""
    far = max(float(np.abs(to_array(s)).max()) for s in scores.values()) or 1.0
    return _maps(scores, queries, keys, x, y, unit, "RdBu_r", (-far, far))


def _maps(
    arrays: Mapping[str, Numbers],
    queries: Names,
    keys: Names,
    x: str,
    y: str,
    unit: str,
    colours: str,
    ends: tuple[float, float],
) -> Figure:
    n = len(arrays)
    rows = 1 if n <= 3 else 2
    columns = -(-n // rows)
    figure = Figure(figsize=(4.6 if n == 1 else 6.0, 4.0 if n == 1 or rows == 2 else 2.9), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for unused in axes[n:]:
        unused.remove()
    for number, (ax, (title, array)) in enumerate(zip(axes, arrays.items(), strict=False)):
        image = ax.imshow(to_array(array), cmap=colours, vmin=ends[0], vmax=ends[1], aspect="auto", interpolation="nearest")
        ax.set_title(in_the_font(title), parse_math=False, fontsize=10)
        _tokens(ax, "x", keys, to_array(array).shape[1], room=36 // columns)
        _tokens(ax, "y", queries, to_array(array).shape[0], room=24 // rows)
        if number + columns >= n:
            ax.set_xlabel(x)
        if number % columns == 0:
            ax.set_ylabel(y)
    figure.colorbar(image, ax=list(axes[:n]), label=unit, shrink=0.9)
    return figure


def _tokens(ax: Axes, axis: str, labels: Names, length: int, room: int) -> None:
    """Label an axis by tokens, in a smaller font if there are more than the `room` tokens that fit at full size."""
    if labels is None:
        return
    if len(labels) != length:
        raise ValueError(f"{len(labels)} labels for {length} positions on the {axis} axis.")
    texts = [printable(label) for label in labels]
    turned = axis == "x" and max(map(len, texts), default=0) > 2
    size = 9 if length <= room else max(5, 9 * room / length)
    style = {"fontsize": size, "parse_math": False, "rotation": 90 if turned else 0}
    (ax.set_xticks if axis == "x" else ax.set_yticks)(range(length), texts, **style)


def curves(
    lines: Mapping[str, tuple[Numbers, Numbers]],
    x: str,
    y: str,
    title: str = "",
    log: str = "",
    across: Mapping[str, int | float] | None = None,
) -> Figure:
    """Draw y against x for each name, each with its own marker and colour.

    Args:
        lines: name -> (x values, y values).
        x: label of the x axis, with its unit.
        y: label of the y axis, with its unit.
        title: above the figure.
        log: "x", "y" or "xy": which axes are logarithmic.
        across: name -> height of a dashed horizontal line, such as chance or a baseline.
    """
    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    ax = figure.subplots()
    for colour, marker, (name, (xs, ys)) in zip(palette(len(lines)), MARKERS * len(lines), lines.items(), strict=False):
        every = max(1, len(to_array(xs)) // 12)
        ax.plot(
            to_array(xs), to_array(ys), color=colour, marker=marker, markevery=every, markersize=5, linewidth=1.6, label=name
        )
    for style, (name, height) in zip(("--", ":", "-."), (across or {}).items(), strict=False):
        ax.axhline(height, color="0.35", linestyle=style, linewidth=1.2, label=name)
    _finish(ax, x, y, title)
    if "x" in log:
        ax.set_xscale("log")
        _ticks_at(ax, sorted({float(place) for xs, _ in lines.values() for place in to_array(xs)}))
    if "y" in log:
        ax.set_yscale("log")
        _plain_numbers(ax)
    else:
        _at_least_a_tenth(ax)
    _add_legend(figure, ax)
    return figure


def _add_legend(figure: Figure, ax: Axes) -> None:
    """Put the legend inside the axes, or below them if it has more than five lines or hides a curve within their limits.

    A line whose name is empty has no entry.
    """
    if not ax.get_legend_handles_labels()[1]:
        return
    legend = ax.legend(fontsize=8, framealpha=0.9, edgecolor="none")
    figure.draw_without_rendering()
    box = legend.get_window_extent()
    paths = [line.get_path().transformed(line.get_transform()) for line in ax.lines]
    if len(legend.get_texts()) > 5 or any(path.intersects_bbox(box, filled=False) for path in paths):
        legend.remove()
        figure.set_size_inches(6.0, 4.0)
        figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)


def _at_least_a_tenth(ax: Axes) -> None:
    """Let the y axis span a tenth of its largest value or more, so that noise on a flat curve does not look like a trend."""
    low, high = ax.get_ylim()
    missing = 0.1 * max(abs(low), abs(high)) - (high - low)
    if missing > 0:
        ax.set_ylim(low - missing / 2, high + missing / 2)


def _plain_numbers(ax: Axes) -> None:
    """Write plain numbers, such as 400 instead of 4 × 10², on a logarithmic axis with a moderate range."""
    low, high = ax.get_ylim()
    if low < 1e-4 or high > 1e5:
        return
    named = "23456789" if high < 5 * low else "25" if high < 100 * low else ""
    ax.yaxis.set_major_formatter(lambda value, place: f"{value:g}")
    ax.yaxis.set_minor_formatter(lambda value, place: f"{value:g}" if f"{value:e}"[0] in named else "")


def _ticks_at(ax: Axes, places: list[float]) -> None:
    """Label the measured values on a logarithmic axis; round numbers if they are too close, powers of ten if too many."""
    if len(places) > 10:
        return
    gaps = np.diff(np.log(places))
    if (gaps < 0.07 * gaps.sum()).any():
        powers = 10.0 ** np.arange(np.floor(np.log10(places[0])), np.log10(places[-1]))
        between = np.outer(powers, (1, 2, 5) if places[-1] < 100 * places[0] else (1,)).flatten()
        places = [place for place in between.tolist() if places[0] <= place <= places[-1]]
    ax.set_xticks(places, [f"{place:,.0f}" if place >= 1e5 else f"{place:g}" for place in places])
    ax.set_xticks([], minor=True)


def seeds(groups: Mapping[str, Numbers], y: str, title: str = "", across: Mapping[str, int | float] | None = None) -> Figure:
    """Draw every measurement as a point, one column per group, to show the spread that a table of means would hide."""
    figure = Figure(figsize=(6.0, 3.4), layout="constrained")
    ax = figure.subplots()
    each = zip(palette(len(groups)), MARKERS * len(groups), groups.items(), strict=False)
    for place, (colour, marker, (_, values)) in enumerate(each):
        heights = np.atleast_1d(to_array(values))
        spread = np.linspace(-0.12, 0.12, len(heights)) if len(heights) > 1 else [0.0]
        ax.plot(place + np.asarray(spread), heights, linestyle="", color=colour, marker=marker, markersize=7, alpha=0.85)
    for style, (name, height) in zip(("--", ":", "-."), (across or {}).items(), strict=False):
        ax.axhline(height, color="0.35", linestyle=style, linewidth=1.2, label=name)
    _finish(ax, "", y, title)
    names = ["\n".join(wrap(in_the_font(name), 66 // max(len(groups), 1), break_long_words=False)) for name in groups]
    ax.set_xticks(range(len(groups)), names, fontsize=min(9, 72 / max(len(groups), 1)), parse_math=False)
    ax.set_xlim(-0.5, len(groups) - 0.5)
    if across:
        figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _finish(ax: Axes, x: str, y: str, title: str) -> None:
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_title(in_the_font(title), parse_math=False, fontsize=10)
    ax.grid(alpha=0.25)
    despine(ax)


def pictures(
    images: Mapping[str, Numbers],
    marks: Mapping[str, Place] | None = None,
    arrows: Mapping[str, Numbers] | None = None,
    strongest: int = 8,
    label: str = "attention weight",
    most: float | None = None,
) -> Figure:
    """Draw images side by side: (H, W, 3) in 0…1 as colours, (H, W) as a map in viridis from 0 to its maximum.

    Args:
        images: title -> image.
        marks: title -> (row, column) of a pixel to mark by a ring in that image, such as the query.
        arrows: title -> weights (H, W) with which the marked pixel attends to the others: an arrow to each of the strongest,
            wider for more weight.
        strongest: number of arrows.
        label: what the maps show.
        most: the upper end of the colour scale of all maps, so that they can be compared; None = the maximum of each map.
    """
    figure = Figure(figsize=(6.0, 2.6 if len(images) <= 3 else 4.0), layout="constrained")
    rows = 1 if len(images) <= 3 else 2
    columns = -(-len(images) // rows)
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for unused in axes[len(images) :]:
        unused.remove()
    for number, (ax, (title, image)) in enumerate(zip(axes, images.items(), strict=False), start=1):
        array = to_array(image)
        drawn = ax.imshow(array, cmap="viridis", vmin=0.0, vmax=None if array.ndim == 3 else most or array.max() or 1.0)
        if array.ndim == 2:
            ends_row = number % columns == 0 or number == len(images)
            figure.colorbar(drawn, ax=ax, label=label if ends_row else "", shrink=0.7).ax.tick_params(labelsize=8)
        if marks and title in marks:
            _arrows(ax, marks[title], to_array(arrows[title]) if arrows and title in arrows else np.zeros((0, 0)), strongest)
        ax.set_title("\n".join(wrap(in_the_font(title), 48 // columns)), parse_math=False, fontsize=10)
        ax.set_xticks([])
        ax.set_yticks([])
    return figure


def _arrows(ax: Axes, place: Place, weights: np.ndarray, strongest: int) -> None:
    """Draw a ring at a pixel (row, column), and arrows from it to the strongest of the weights (H, W)."""
    for index in weights.argsort(axis=None)[::-1][:strongest]:
        row, column = np.unravel_index(index, weights.shape)
        width = 0.4 + 1.8 * weights[row, column] / weights.max()
        for colour, wider in (("black", 1.8), ("yellow", 0.4)):
            style = {
                "arrowstyle": "->",
                "mutation_scale": 7,
                "color": colour,
                "linewidth": width + wider,
                "shrinkA": 6,
                "shrinkB": 0,
            }
            ax.annotate("", xy=(column, row), xytext=place[::-1], arrowprops=style)
    ax.plot(place[1], place[0], "o", markersize=11, markerfacecolor="none", markeredgecolor="white", markeredgewidth=3)
    ax.plot(place[1], place[0], "o", markersize=11, markerfacecolor="none", markeredgecolor="black", markeredgewidth=1.2)


def describe(weights: Numbers, queries: Names = None, keys: Names = None, at_most: int = 6) -> str:
    """Name in one sentence the key with the largest weight of each query, for weights (T_q, T_k): an alt text of the map.

    Rows or columns with equal names are numbered, from 1.
    """
    table = to_array(weights)
    queries = _told_apart(queries or [f"query {i}" for i in range(table.shape[0])], "row")
    keys = _told_apart(keys or [f"key {j}" for j in range(table.shape[1])], "column")
    best = table.argmax(axis=1)
    parts = [f"{queries[i]} at {keys[j]} ({table[i, j]:.2f})" for i, j in list(enumerate(best))[:at_most]]
    rest = "" if len(best) <= at_most else f", and {len(best) - at_most} more rows"
    return f"Attention map of {table.shape[0]} queries by {table.shape[1]} keys. Largest weights: {', '.join(parts)}{rest}."


def _told_apart(names: Sequence[str], kind: str) -> Sequence[str]:
    """Number the names if some of them are equal."""
    return names if len(set(names)) == len(names) else [f"{kind} {i} '{name}'" for i, name in enumerate(names, start=1)]
