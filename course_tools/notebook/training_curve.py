"""Draw the loss of one recorded training, such as the one that the check of a build task ran."""

import math
from collections.abc import Sequence
from statistics import mean

from course_tools.checks.training_record import MOST_LOSSES, RecordedLosses
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

_POINTS = 30
"""About how many points a curve has."""


def block_means(losses: Sequence[float]) -> tuple[range, list[float]]:
    """Average losses over blocks of equal length, about thirty, for a curve without the noise of single batches.

    Args:
        losses: one per update; a last block that is not full is left out.

    Returns:
        the number of updates at the end of each block, and the mean loss in it.
    """
    block = max(1, len(losses) // _POINTS)
    ends = range(block, len(losses) + 1, block)
    return ends, [mean(losses[end - block : end]) for end in ends]


def show_training(name: str, losses: RecordedLosses, y: str = "loss") -> None:
    """Draw the recorded losses of a training, averaged over blocks of updates; draw nothing if there are fewer than two.

    Args:
        name: what was trained, the label of the curve.
        losses: as `Verdict.losses` holds them; losses that are not finite leave a gap in the curve.
        y: label of the axis, with its unit where it is known.
    """
    if len(losses.values) < 2:
        return
    unit = "update" if losses.n_updates == len(losses.values) else "backward pass"
    ends, means = block_means(losses.values)
    broken = next((number for number, loss in enumerate(losses.values, 1) if not math.isfinite(loss)), None)
    if broken is None:
        of_block = (
            f"the first {ends.step} and of the last {ends.step} losses" if ends.step > 1 else "the first and the last loss"
        )
        alt = f"Training loss of {name} over {len(losses.values):,} {unit}{'es' if unit.endswith('s') else 's'}, "
        alt += f"{'mean of ' if ends.step > 1 else ''}{of_block}: {means[0]:.2f} and {means[-1]:.2f}."
    else:
        alt = f"Training loss of {name}: at {unit} {broken} it is not a finite number."
    if len(losses.values) == MOST_LOSSES:
        alt += f" At most {MOST_LOSSES:,} losses are recorded."
    show(curves({name: (ends, means)}, unit, y, "training loss"), alt=alt)
