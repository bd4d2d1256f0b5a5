"""Train with a recorder of torch's updates and draw the losses of that training: a student's own training loop."""

from collections.abc import Callable
from statistics import mean
from typing import TypeVar

from course_tools.checks.training_record import Recorder
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

Result = TypeVar("Result")

_BLOCK = 10
"""How many updates a point of the curve averages."""


def trained_with_losses(train: Callable[[], Result], name: str, y: str = "loss") -> Result:
    """Call `train()`, draw the loss of each of its updates, averaged over ten, and give back what it returned.

    Args:
        train: trains a model by `loss.backward()` and an optimizer of torch, for ten updates at least.
        name: whose training it is, for the legend, such as "your model".
        y: label of the axis.
    """
    with Recorder() as training:
        result = train()
    ends = range(_BLOCK, len(training.losses) + 1, _BLOCK)
    losses = [mean(training.losses[end - _BLOCK : end]) for end in ends]
    show(
        curves({name: (ends, losses)}, "update", y, "training loss"),
        alt=f"Training loss of {name}, means of the first and of the last ten updates: {losses[0]:.2f} and {losses[-1]:.2f}.",
    )
    return result
