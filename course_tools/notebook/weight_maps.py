"""Small maps of learned weights over the positions of an image: arrays in, figure out."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from course_tools.notebook.legible import Numbers, in_the_font, to_array


def weight_maps(panels: Mapping[str, Numbers], columns: int = 4, label: str = "weight") -> Figure:
    """Draw up to three panels of small maps side by side, with one colour scale for all, centred at 0.

    Args:
        panels: title -> (n, H, W), n maps of either sign, row by row from the top left.
        columns: number of maps in a row of a panel.
        label: what the maps show.

    Raises:
        ValueError: there are more than three panels, or a panel has no maps or the wrong number of axes.
    """
    arrays = {title: to_array(maps).astype(float) for title, maps in panels.items()}
    if not 1 <= len(arrays) <= 3 or any(maps.ndim != 3 or maps.size == 0 for maps in arrays.values()):
        raise ValueError("give one to three panels of one or more maps, each panel (n, H, W).")
    far = max(np.abs(maps).max() for maps in arrays.values()) or 1.0
    figure = Figure(figsize=(6.0, 2.9 if len(arrays) > 1 else 3.6), layout="constrained")
    axes = figure.subplots(1, len(arrays), squeeze=False, gridspec_kw={"wspace": 0.15})[0]
    for ax, (title, maps) in zip(axes, arrays.items(), strict=True):
        drawn = ax.imshow(_sheet(maps, columns), cmap="RdBu_r", vmin=-far, vmax=far, interpolation="nearest")
        ax.set_title(in_the_font(title), parse_math=False, fontsize=10)
        ax.set_axis_off()
    figure.colorbar(drawn, ax=list(axes), label=label, shrink=0.8)
    return figure


def _sheet(maps: np.ndarray, columns: int) -> np.ndarray:
    """Arrange maps (n, H, W) in rows, separated by empty lines."""
    n, H, W = maps.shape
    columns = min(columns, n)
    rows = -(-n // columns)
    sheet = np.full((rows * (H + 1) - 1, columns * (W + 1) - 1), np.nan)
    for number, one in enumerate(maps):
        top, left = number // columns * (H + 1), number % columns * (W + 1)
        sheet[top : top + H, left : left + W] = one
    return sheet
