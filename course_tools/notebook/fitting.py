"""Train a model with a progress bar, draw its loss and measure its accuracy, as in most experiments of the lectures."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.training import train
from course_tools.notebook.plots import curves
from course_tools.notebook.progress_bar import progress
from course_tools.notebook.show import show
from course_tools.notebook.training_curve import block_means

Model = TypeVar("Model", bound=nn.Module)

_losses: WeakKeyDictionary[nn.Module, list[float]] = WeakKeyDictionary()
"""For each model: the losses of its latest training."""


def fitted(
    model: Model,
    stream: Iterable[Any],
    loss: Callable[[nn.Module, Any], Tensor],
    *,
    steps: int,
    lr: float,
    label: str = "training",
    warmup: int | None = None,
) -> Model:
    """Train a model in place with a progress bar, and return it in evaluation mode; `show_losses` draws its losses.

    Args:
        model: on the device of the batches.
        stream: batches, at least as many as steps, such as those of `course_lib.training.batches`.
        loss: computes a scalar from (model, batch).
        steps: number of updates.
        lr: the maximum learning rate.
        label: shown next to the bar.
        warmup: number of steps in which the learning rate increases; None = a tenth of the steps.
    """
    run = train(model, stream, loss, steps=steps, lr=lr, warmup=steps // 10 if warmup is None else warmup)
    _losses[model] = [step.loss for step in progress(run, label, total=steps)]
    return model.eval()


def show_losses(
    trained: Mapping[str, nn.Module | Sequence[nn.Module]],
    y: str = "cross-entropy, nats",
    across: Mapping[str, float] | None = None,
    log: str = "",
) -> None:
    """Draw the training losses of models trained by `fitted`, one curve per name, averaged over blocks of steps.

    Args:
        trained: name -> a model, or models that differ only in their seed: the curve is then their mean.
        y: label of the y axis, with its unit.
        across: name -> height of a dashed horizontal line, such as the entropy.
        log: which axes are logarithmic: "y" if the losses differ by orders of magnitude.

    Raises:
        KeyError: `fitted` has not trained one of the models.
    """
    lines = {}
    for name, models in trained.items():
        losses = [_losses[model] for model in ([models] if isinstance(models, nn.Module) else models)]
        lines[name] = block_means(losses)
    ends_at = "; ".join(f"{name} {values[0]:.2f} and {values[-1]:.2f}" for name, (_, values) in lines.items())
    several = any(not isinstance(models, nn.Module) and len(models) > 1 for models in trained.values())
    title = "training loss" + ", mean of the seeds" * several
    figure = curves(lines, "update", y, title, log, across)
    show(figure, alt=f"{title[0].upper()}{title[1:]}, {y}, in the first and in the last block of updates: {ends_at}.")


def classify(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Compute the cross-entropy of a batch (inputs, labels (B,)), in nats: the loss of a classifier."""
    return F.cross_entropy(model(batch[0]), batch[1])


@torch.no_grad()
def accuracy_of(model: nn.Module, x: Tensor, labels: Tensor) -> float:
    """Measure the fraction of inputs x whose largest logit is that of the label (B,); sets the model to evaluation mode."""
    return (model.eval()(x).argmax(-1) == labels).float().mean().item()
