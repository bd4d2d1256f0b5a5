"""Train a model with a progress bar, and measure its accuracy: what almost every experiment of the lectures does."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.training import train
from course_tools.notebook.progress_bar import progress

Model = TypeVar("Model", bound=nn.Module)


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
    """Train a model in place under a progress bar, and give it back in evaluation mode.

    Args:
        model: on the device of the batches.
        stream: batches, at least as many as steps, such as `course_lib.training.batches` gives.
        loss: gives a scalar from (model, batch).
        steps: number of updates.
        lr: the learning rate at its highest.
        label: stands beside the bar.
        warmup: steps over which the learning rate rises; None = a tenth of the steps.
    """
    run = train(model, stream, loss, steps=steps, lr=lr, warmup=steps // 10 if warmup is None else warmup)
    for _ in progress(run, label, total=steps):
        pass
    return model.eval()


def classify(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Compute the cross-entropy of a batch (inputs, labels (B,)): the loss of a classifier, in nats."""
    return F.cross_entropy(model(batch[0]), batch[1])


@torch.no_grad()
def accuracy_of(model: nn.Module, x: Tensor, labels: Tensor) -> float:
    """Measure the fraction of inputs x whose largest logit is that of the label (B,); puts the model into evaluation mode."""
    return (model.eval()(x).argmax(-1) == labels).float().mean().item()
