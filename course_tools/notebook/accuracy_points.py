"""Draw an accuracy, or another score, with one point per seed, and say the same in the alt text."""

from collections.abc import Mapping, Sequence

from course_tools.notebook.plots import seeds
from course_tools.notebook.show import show


def show_by_seed(
    values: Mapping[str, Sequence[float]],
    y: str = "accuracy on unseen digits",
    title: str = "",
    across: Mapping[str, float] | None = None,
) -> None:
    """Draw one point for each seed; the alt text lists all values to three digits.

    Args:
        values: name -> the value of each seed.
        y: label of the axis, with its unit.
        title: above the figure.
        across: name -> height of a dashed line, such as chance.
    """
    listed = "; ".join(f"{name} {', '.join(f'{value:.3f}' for value in points)}" for name, points in values.items())
    lines = "".join(f"; {name} is {height:g}" for name, height in (across or {}).items())
    show(seeds(values, y, title, across=across), alt=f"{y[0].upper()}{y[1:]}, one point per seed: {listed}{lines}.")
