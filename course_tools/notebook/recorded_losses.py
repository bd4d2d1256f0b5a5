"""Draw the losses of trainings that `Recorder` observed, such as those of a build task, averaged over the seeds."""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import TypeVar

from course_tools.checks.training_record import Recorder
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

Result = TypeVar("Result")


def trained_with_losses(train: Callable[[], Result], name: str, y: str = "loss") -> Result:
    """Call `train()`, draw the loss of its updates, and return its result.

    Args:
        train: trains a model by `loss.backward()` and an optimizer of torch, for ten updates at least.
        name: whose training it is, for the legend, such as "your model".
        y: label of the axis.
    """
    with Recorder() as training:
        result = train()
    show_recorded_losses({name: [training.losses]}, y)
    return result


def mean_losses(runs: Sequence[Sequence[float]], block: int = 10) -> tuple[range, list[float]]:
    """Average the losses of trainings that differ in their seed over blocks of updates: (ends of the blocks, means)."""
    ends = range(block, min(map(len, runs)) + 1, block)
    return ends, [mean(loss for run in runs for loss in run[end - block : end]) for end in ends]


def show_recorded_losses(
    runs: Mapping[str, Sequence[Sequence[float]]], y: str = "loss", across: Mapping[str, float] | None = None
) -> None:
    """Draw the mean losses of several kinds of training.

    Args:
        runs: name -> the losses of each training, which differ in their seed.
        y: label of the axis, with its unit.
        across: name -> height of a dashed line, such as a uniform guess.
    """
    lines = {name: mean_losses(losses) for name, losses in runs.items()}
    ends = "; ".join(f"{name} {values[0]:.2f} and {values[-1]:.2f}" for name, (_, values) in lines.items())
    title = "training loss" + ", mean of the seeds" * (max(map(len, runs.values())) > 1)
    drawn = curves(lines, "update", y, title, across=across)
    show(drawn, alt=f"{title[0].upper()}{title[1:]}, in the first and in the last ten updates: {ends}.")
