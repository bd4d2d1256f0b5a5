"""Draw the losses of recorded trainings, averaged over blocks of updates, and over the seeds where there are several."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import TypeVar

from course_tools.checks.training_record import MOST_LOSSES, RecordedLosses, Recorder
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

Result = TypeVar("Result")

_POINTS = 30
"""About how many points a curve has."""
_SMALL = (3.6, 2.2)
"""Inches of a curve from which only its course is read."""


def block_means(runs: Sequence[Sequence[float]]) -> tuple[range, list[float]]:
    """Average losses over the runs and over blocks of equal length, about thirty: a curve without the noise of single batches.

    Args:
        runs: the losses of each run, one per update; the length of the shortest run counts, and a last block that is not full
            is left out.

    Returns:
        the number of updates at the end of each block, and the mean loss in it.
    """
    losses = [mean(of_one_update) for of_one_update in zip(*runs, strict=False)]
    block = max(1, len(losses) // _POINTS)
    ends = range(block, len(losses) + 1, block)
    return ends, [mean(losses[end - block : end]) for end in ends]


def show_recorded_losses(
    runs: Mapping[str, Sequence[Sequence[float]]], y: str = "loss", across: Mapping[str, float] | None = None
) -> None:
    """Draw the mean losses of several kinds of training, one curve per name; runs of fewer than two losses have no curve.

    Args:
        runs: name -> the losses of each training; these trainings differ only in their seed.
        y: label of the axis, with its unit.
        across: name -> height of a dashed line, such as a uniform guess.
    """
    lines = {name: block_means(losses) for name, losses in runs.items() if min(map(len, losses), default=0) > 1}
    if not lines:
        return
    ends = "; ".join(f"{name} {values[0]:.2f} and {values[-1]:.2f}" for name, (_, values) in lines.items())
    title = "training loss" + ", mean of the seeds" * (max(len(runs[name]) for name in lines) > 1)
    drawn = curves(lines, "update", y, title, across=across)
    show(drawn, alt=f"{title[0].upper()}{title[1:]}, in the first and in the last block of updates: {ends}.")


def show_training(name: str, losses: RecordedLosses, y: str = "loss", title: str = "training loss") -> None:
    """Draw the recorded losses of a training, averaged over blocks of updates; draw nothing if there are fewer than two.

    Args:
        name: what was trained.
        losses: as `Verdict.losses` holds them; losses that are not finite leave a gap in the curve. If there is nothing to
            draw across, the axis starts at 0.
        y: label of the axis, with its unit where it is known.
        title: what the curve is, the first words of the caption.
    """
    n = len(losses.values)
    if n < 2:
        return
    is_full = n == MOST_LOSSES
    by_update = losses.n_updates == n or (is_full and losses.n_updates > n)
    unit, units = ("update", "updates") if by_update else ("backward pass", "backward passes")
    ends, means = block_means([losses.values])
    broken = next((number for number, loss in enumerate(losses.values, 1) if not math.isfinite(loss)), None)
    alt = f"{title[0].upper()}{title[1:]} of {name}"
    if is_full:
        alt += f" (at most {MOST_LOSSES:,} losses are recorded)"
    if broken is None:
        of_what = (
            f"mean of the first and of the last averaged block of {ends.step}" if ends.step > 1 else "the first and the last"
        )
        alt += f" over {n:,} {units}, {of_what}: {means[0]:.2f} and {means[-1]:.2f}."
    else:
        alt += f": at {unit} {broken:,} it is not a finite number."
    alt += "".join(f" {label[0].upper()}{label[1:]}: {height:.2f}." for label, height in losses.across.items())
    figure = curves({"": (ends, means)}, unit, y, across=losses.across)  # the caption says whose it is
    if not losses.across and figure.axes[0].get_ylim()[0] > 0:
        figure.axes[0].set_ylim(bottom=0)
    figure.set_size_inches(*_SMALL)
    show(figure, alt=alt)


def trained_with_losses(train: Callable[[], Result], name: str, y: str = "loss") -> Result:
    """Call `train()`, draw its losses as `show_training` does, and return its result.

    Args:
        train: trains a model by `loss.backward()` and an optimizer of torch.
        name: what is trained, such as "your model".
        y: label of the axis.
    """
    with Recorder() as training:
        result = train()
    show_training(name, RecordedLosses(tuple(training.losses), training.n_steps), y)
    return result
