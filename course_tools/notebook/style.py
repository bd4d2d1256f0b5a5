"""Colours of the course's figures, and axes without the upper and right line.

They are those of seaborn, whose import takes as long as that of all other tools of a notebook together.
"""

from itertools import cycle, islice

from matplotlib.axes import Axes

COLOUR_BLIND = (
    "#0173B2", "#DE8F05", "#029E73", "#D55E00", "#CC78BC", "#CA9161", "#FBAFE4", "#949494", "#ECE133", "#56B4E9",
)  # fmt: skip
"""Ten colours that most people with a colour deficiency can tell apart."""

PASTEL = (
    "#A1C9F4", "#FFB482", "#8DE5A1", "#FF9F9B", "#D0BBFF", "#DEBB9B", "#FAB0E4", "#CFCFCF", "#FFFEA3", "#B9F2F0",
)  # fmt: skip
"""The same hues, light enough to write on."""


def palette(n: int = len(COLOUR_BLIND), colours: tuple[str, ...] = COLOUR_BLIND) -> list[str]:
    """Return n colours, from the first on again when there are no more."""
    return list(islice(cycle(colours), n))


def despine(*axes: Axes, sides: tuple[str, ...] = ("top", "right")) -> None:
    """Hide some of the lines around axes."""
    for ax in axes:
        ax.spines[list(sides)].set_visible(False)
