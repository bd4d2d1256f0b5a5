"""Training loop as a generator: the caller owns the `for`, and can log, plot or stop at every step.

    for step in train(model, batches(tokens, labels, batch_size=64, seed=0), loss, steps=500, lr=3e-3, warmup=50):
        losses.append(step.loss)

Adam (Kingma & Ba 2015, https://arxiv.org/abs/1412.6980), a linear warm-up and a linear decay to 0, and gradients clipped by
their joint norm (Pascanu et al. 2013, algorithm 1, https://arxiv.org/abs/1211.5063). The number of steps is fixed, so that a
slow machine learns the same as a fast one.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class TrainingStep:
    """Report of one step: its index from 0, the loss before its update, and further metrics of the loss function."""

    index: int
    loss: float
    metrics: dict[str, float]


def train(
    model: nn.Module,
    batches: Iterable[Any],
    loss: Callable[[nn.Module, Any], Tensor | tuple[Tensor, dict[str, float]]],
    *,
    steps: int,
    lr: float = 1e-3,
    warmup: int = 0,
    clip: float | None = 1.0,
) -> Iterator[TrainingStep]:
    """Train a model for a fixed number of steps, one for each item taken from this generator.

    Args:
        model: trained in place; put into training mode at the start.
        batches: at least `steps` batches, of whatever form the loss function takes.
        loss: gives a scalar from (model, batch), alone or with a dict of metrics.
        steps: number of updates.
        lr: the learning rate at its highest, after the warm-up.
        warmup: steps over which the learning rate rises from 0 to lr; over the others it falls to 0.
        clip: greatest joint norm of the gradients; None leaves them as they are.

    Yields:
        TrainingStep(index, loss, metrics) after each update.

    Raises:
        ValueError: a number is out of range, or the batches end before the steps.
        FloatingPointError: the loss is not finite; the model still has the weights that gave it.
    """
    if steps < 1 or not 0 <= warmup <= steps or lr <= 0:
        raise ValueError(f"need steps ≥ 1, 0 ≤ warmup ≤ steps and lr > 0, got steps={steps}, warmup={warmup}, lr={lr}.")
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.Adam(parameters, lr=lr, fused=True)
    model.train()
    stream = iter(batches)
    for index in range(steps):
        try:
            batch = next(stream)
        except StopIteration:
            raise ValueError(f"the batches ended after {index} of {steps} steps.") from None
        outcome = loss(model, batch)
        value, metrics = outcome if isinstance(outcome, tuple) else (outcome, {})
        number = value.item()
        if not math.isfinite(number):
            raise FloatingPointError(f"the loss is {number} at step {index}: lower lr={lr}, or clip the gradients.")
        optimiser.zero_grad()
        value.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(parameters, clip)
        for group in optimiser.param_groups:
            group["lr"] = lr * min((index + 1) / max(warmup, 1), (steps - index) / max(steps - warmup, 1))
        optimiser.step()
        yield TrainingStep(index, number, metrics)


def batches(*tensors: Tensor, batch_size: int, seed: int) -> Iterator[tuple[Tensor, ...]]:
    """Cut tensors that belong together into batches, in a new random order each epoch, without end.

    Args:
        tensors: of any shapes, with one first axis: the examples.
        batch_size: examples in a batch; the last batch of an epoch holds what is left.
        seed: decides the orders.

    Yields:
        tuples of as many tensors as came in.

    Raises:
        ValueError: there is no tensor, no example, no positive batch size, or the tensors differ in their number of examples.
    """
    sizes = sorted({len(tensor) for tensor in tensors})
    if len(sizes) != 1 or sizes[0] == 0 or batch_size < 1:
        raise ValueError(
            f"need tensors with one and the same number of examples, and batch_size ≥ 1; got sizes {sizes} and {batch_size}."
        )
    return _endless(tensors, batch_size, torch.Generator().manual_seed(seed))


def _endless(tensors: tuple[Tensor, ...], batch_size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, ...]]:
    while True:
        for chosen in torch.randperm(len(tensors[0]), generator=generator).split(batch_size):
            yield tuple(tensor[chosen.to(tensor.device)] for tensor in tensors)
