"""Show the scores of several seeds as points, with the numbers in the alternative text."""

from collections.abc import Mapping, Sequence

from course_tools.notebook.plots import seeds
from course_tools.notebook.show import show


def show_seeds(
    scores: Mapping[str, Sequence[float]], y: str, title: str, across: Mapping[str, float] | None = None, decimals: int = 2
) -> None:
    """Draw a point for each seed of each model, one column a model; the alternative text names them all.

    Args:
        scores: model -> one score for each seed.
        y: label of the axis, such as "accuracy on unseen digits".
        title: above the figure; how many seeds there are is added in the text.
        across: name -> height of a dashed line, such as chance.
        decimals: digits after the decimal point in the text.
    """
    each = "; ".join(f"{name} {', '.join(f'{x:.{decimals}f}' for x in values)}" for name, values in scores.items())
    show(seeds(scores, y, title, across), alt=f"{y[0].upper()}{y[1:]}, a point for each seed; {title}: {each}.")
