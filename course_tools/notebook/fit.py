"""Train a model in a notebook in the open: `fit` draws the loss and prints the whole recipe, with nothing left to defaults."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from course_lib.training import OptimizerFactory, Schedule, adam, linear_decay, train
from course_tools.notebook.plots import curves
from course_tools.notebook.progress_bar import progress
from course_tools.notebook.show import show
from course_tools.notebook.training_curve import block_means


class Trained(NamedTuple):
    """A trained model, in evaluation mode, and the loss of each update."""

    model: nn.Module
    losses: list[float]

    def __repr__(self) -> str:
        """Name the model and the last loss: a cell that ends with `fit(…)` shows this, not every layer and every loss."""
        return f"Trained({type(self.model).__name__}, {len(self.losses):,} losses, the last {self.losses[-1]:.3g})"


def fit(
    model: nn.Module,
    loss: Callable[[nn.Module, Any], Tensor],
    batches: Iterable[Any],
    *,
    steps: int,
    lr: float,
    warmup: int | None = None,
    clip: float | None = 1.0,
    optimizer: OptimizerFactory = adam,
    schedule: Schedule = linear_decay,
    y: str = "loss",
    show_loss: bool = True,
) -> Trained:
    """Train a model in place by `course_lib.training.train`, draw its loss, and print its recipe in one line.

    The recipe is that of the run: "Adam 0.01, 10 % warm-up, linear decay, clipped at 1.0, 300 updates of 32".

    Args:
        model: on the device of the batches.
        loss: computes a scalar from (model, batch).
        batches: at least as many as steps, such as those of `course_lib.training.batches`.
        steps: number of updates.
        lr: the maximum learning rate.
        warmup: number of updates in which the learning rate increases; None = a tenth of the steps.
        clip: the largest norm of the gradients; None = they are not clipped.
        optimizer: makes the optimizer of the parameters and lr.
        schedule: the factor of the learning rate at an update.
        y: label of the axis of the curve, with its unit.
        show_loss: draw the curve; False where nothing is read off it.

    Raises:
        ValueError, FloatingPointError: as `train` does.
    """
    made: list[torch.optim.Optimizer] = []
    sizes: set[int] = set()

    def observed_optimizer(parameters: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
        made.append(optimizer(parameters, lr))
        return made[-1]

    def observed_loss(model: nn.Module, batch: Any) -> Tensor:
        first = batch if isinstance(batch, Tensor) else next((part for part in batch if isinstance(part, Tensor)), None)
        sizes.update([] if first is None else [len(first)])
        return loss(model, batch)

    warmup = steps // 10 if warmup is None else warmup
    settings = {"steps": steps, "lr": lr, "warmup": warmup, "clip": clip, "schedule": schedule}
    run = train(model, batches, observed_loss, optimizer=observed_optimizer, **settings)
    losses = [step.loss for step in progress(run, f"training {type(model).__name__}", total=steps)]
    if show_loss:
        ends, means = block_means([losses])
        figure = curves({"training": (ends, means)}, "update", y, "training loss")
        ends_of = f"in the first and in the last block of updates: {means[0]:.2f} and {means[-1]:.2f}"
        show(figure, alt=f"Training loss, {y}, {ends_of}.")
    rises = f"{100 * warmup / steps:.3g} % warm-up" if warmup else "no warm-up"
    clipped = "not clipped" if clip is None else f"clipped at {clip:.1f}"
    of = f" of {' to '.join(map(str, sorted({min(sizes), max(sizes)})))}" if sizes else ""
    print(f"{_optimizer(made[0], lr)}, {rises}, {_schedule(schedule)}, {clipped}, {len(losses):,} updates{of}")
    return Trained(model.eval(), losses)


def _optimizer(made: torch.optim.Optimizer, lr: float) -> str:
    """Name an optimizer with its rate, and its momentum and weight decay if it has any."""
    of = {key: max(group.get(key) or 0 for group in made.param_groups) for key in ("momentum", "weight_decay")}
    more = "".join(f", {key.replace('_', ' ')} {value:g}" for key, value in of.items() if value)
    return f"{type(made).__name__} {lr:g}{more}"


def _schedule(schedule: Schedule) -> str:
    while isinstance(schedule, partial):
        schedule = schedule.func
    return f"{schedule.__name__.replace('_', ' ')}{' rate' * (schedule.__name__ == 'constant')}"
