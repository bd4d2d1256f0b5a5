"""Show the scores of several seeds as points, with the numbers in the alternative text, and compare scores seed by seed."""

from collections.abc import Mapping, Sequence

from course_tools.notebook.plots import seeds
from course_tools.notebook.show import show


def show_seeds(
    scores: Mapping[str, Sequence[float]],
    y: str = "accuracy on unseen digits",
    title: str = "",
    across: Mapping[str, float] | None = None,
    lowest: float | None = None,
) -> None:
    """Draw one point for each score of each model, one column per model; the alternative text lists all values.

    Args:
        scores: model -> its scores, one for each training unless the title says otherwise ("one point per …").
        y: label of the axis, with its unit.
        title: above the figure.
        across: name -> height of a dashed line, such as chance.
        lowest: where the axis begins, such as 0; None = below the lowest point or line.
    """
    points = "" if "one point per" in title else ", one point per training"
    subject = f"{y[0].upper()}{y[1:]}{points}" + f"; {title}" * (title != "")
    each = "; ".join(f"{name} {', '.join(f'{value:.3f}' for value in values)}" for name, values in scores.items())
    lines = "".join(f"; {name} is {height:.3g}" for name, height in (across or {}).items())
    figure = seeds(scores, y, title, across)
    if lowest is not None:
        figure.axes[0].set_ylim(bottom=lowest)
    show(figure, alt=f"{subject}: {each}{lines}.")


def paired_differences(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Subtract their scores from ours, seed by seed.

    Raises:
        ValueError: there are not as many scores of one as of the other.
    """
    return [a - b for a, b in zip(ours, theirs, strict=True)]


def lead_over_best(scores: Mapping[str, Sequence[float]], name: str) -> list[float]:
    """Subtract from the scores of one model, seed by seed, the highest score of all others.

    Raises:
        ValueError: there is no other model, or the models have different numbers of scores.
    """
    others = zip(*(values for other, values in scores.items() if other != name), strict=True)
    return paired_differences(scores[name], [max(row) for row in others])
