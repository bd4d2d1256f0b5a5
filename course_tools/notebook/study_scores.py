"""Print the scores of a recorded study as text: a line for each setting, a number for each seed."""

from collections.abc import Sequence

from course_tools.studies import RecordedStudy


def print_scores(study: RecordedStudy, *scores: str, costs: Sequence[str] = (), decimals: int = 2) -> None:
    """Print the cost of a study, then its scores, by setting and seed.

    Args:
        study: a record, as returned by `recorded` or `show_study`.
        scores: names of scores, such as "accuracy"; each is printed for every seed.
        costs: names of whole numbers that are equal for all seeds, such as "parameters"; printed once for each setting.
        decimals: digits after the decimal point of a score.

    Raises:
        KeyError: a run lacks one of the scores or costs.
    """
    print(study.cost)
    width = max(map(len, study.names))
    for name in study.names:
        once = [f"{study.scores(name, cost)[0]:>9,.0f} {cost}" for cost in costs]
        each = [f"{score} by seed " + ", ".join(f"{x:.{decimals}f}" for x in study.scores(name, score)) for score in scores]
        print(f"{name:<{width}}  {'; '.join([*once, *each])}")


def second_half_gain(study: RecordedStudy, name: str) -> float:
    """Compute by how much the curve of a setting, averaged over the seeds, falls in the second half of the updates.

    Raises:
        KeyError: no run has this name.
        ValueError: the curve has no value at half of its last update.
    """
    updates, values = study.curve(name)
    return values[updates.index(updates[-1] // 2)] - values[-1]
