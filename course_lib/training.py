"""Training loop as a generator: the caller owns the `for`, and can log, plot or stop at every step.

    for step in train(model, batches(tokens, labels, batch_size=64, seed=0), loss, steps=500, lr=3e-3, warmup=50):
        losses.append(step.loss)

By default Adam (Kingma & Ba 2015, https://arxiv.org/abs/1412.6980), a linear warm-up and a linear decay to 0, and gradients
clipped by their joint norm (Pascanu et al. 2013, algorithm 1, https://arxiv.org/abs/1211.5063). Optimizer and schedule are
functions that you pass: `optimizer=partial(torch.optim.AdamW, weight_decay=0.1), schedule=cosine_decay`. The number of steps is
fixed, so that the result does not depend on the speed of the machine.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.primitives.preconditions import of_tensors

__all__ = ["adam", "batches", "constant", "cosine_decay", "inverse_square_root", "linear_decay", "train"]

OptimizerFactory = Callable[[list[nn.Parameter], float], torch.optim.Optimizer]
"""`optimizer(parameters, lr)` makes an optimizer, such as `adam`, `torch.optim.SGD` or a `functools.partial` of one."""
Schedule = Callable[[int, int, int], float]
"""`schedule(index, warmup, steps)` returns the factor of the learning rate at step `index`, from 0, of `steps`."""


@dataclass(frozen=True)
class TrainingStep:
    """Report of one step: its index from 0, the loss before its update, and further metrics of the loss function.

    `gradient_norm` is the joint norm of the gradients before they were clipped.
    """

    index: int
    loss: float
    metrics: dict[str, float]
    gradient_norm: float


def adam(parameters: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
    """Make Adam (Kingma & Ba 2015, algorithm 1) of these parameters, with the learning rate lr."""
    return torch.optim.Adam(parameters, lr=lr, fused=True)


def linear_decay(index: int, warmup: int, steps: int) -> float:
    """Rise until index = warmup, then fall linearly to 0 at steps (BERT, appendix A.2, https://arxiv.org/abs/1810.04805)."""
    return min((index + 1) / max(warmup, 1), (steps - index) / max(steps - warmup, 1))


def cosine_decay(index: int, warmup: int, steps: int) -> float:
    """Rise linearly until index = warmup, then fall by half a cosine, to 0 at steps (Loshchilov & Hutter 2017, eq. 5).

    Source: https://arxiv.org/abs/1608.03983.
    """
    if index < warmup:
        return (index + 1) / warmup
    return (1 + math.cos(math.pi * (index - warmup) / max(steps - warmup, 1))) / 2


def inverse_square_root(index: int, warmup: int, steps: int) -> float:
    """Rise linearly until index = warmup, then fall as 1 / √index, regardless of steps (Vaswani et al. 2017, eq. 3)."""
    peak = max(warmup, 1)
    return min((index + 1) / peak, math.sqrt(peak / (index + 1)))


def constant(index: int, warmup: int, steps: int) -> float:
    """Rise linearly until index = warmup, then stay at 1, regardless of steps."""
    return min((index + 1) / max(warmup, 1), 1.0)


def train(
    model: nn.Module,
    batches: Iterable[Any],
    loss: Callable[[nn.Module, Any], Tensor | tuple[Tensor, dict[str, float]] | tuple[Tensor, dict[str, float], int]],
    *,
    steps: int,
    lr: float = 1e-3,
    warmup: int = 0,
    clip: float | None = 1.0,
    optimizer: OptimizerFactory = adam,
    schedule: Schedule = linear_decay,
    accumulate: int = 1,
    autocast: torch.dtype | None = None,
) -> Iterator[TrainingStep]:
    """Train a model for a fixed number of steps, one for each item taken from this generator.

    Args:
        model: trained in place; put into training mode at the start.
        batches: at least `steps` · `accumulate` batches, of the form that the loss function takes.
        loss: returns a scalar from (model, batch), alone, with a dict of metrics, or with metrics and the number of things that
            it averages over, such as real tokens.
        steps: number of updates.
        lr: the learning rate that the schedule multiplies.
        warmup: steps over which the learning rate rises from 0 to lr.
        clip: largest joint norm of the gradients, above 0; None = no clipping.
        optimizer: makes the optimizer of the parameters that need a gradient, and lr.
        schedule: `linear_decay`, `cosine_decay`, `inverse_square_root`, `constant`, or a function like them.
        accumulate: batches whose gradients are averaged before each update, weighted by the numbers that the loss returns: only
            then is the average that of one large batch where batches differ in their padding. Metrics are those of the last.
        autocast: compute the loss in this lower precision where torch considers it safe: torch.bfloat16, or torch.float16, for
            which the loss is scaled so that small gradients are not rounded to 0, and an update that overflows is skipped.
            Weights and updates keep the model's own.

    Yields:
        TrainingStep(index, loss, metrics, gradient_norm) after each update.

    Raises:
        ValueError: a number is out of range, no parameter needs a gradient, or the batches end before the steps.
        RuntimeError: the loss is not one number.
        FloatingPointError: the loss, or without float16 a gradient, is not finite; the model keeps the weights of that step.
    """
    if steps < 1 or not 0 <= warmup <= steps or lr <= 0 or accumulate < 1:
        raise ValueError(f"need steps ≥ 1, 0 ≤ warmup ≤ steps, lr > 0, accumulate ≥ 1: {steps=} {warmup=} {lr=} {accumulate=}")
    if clip is not None and not clip > 0:
        raise ValueError(f"clip is the largest norm of the gradients, above 0, got {clip}: pass None for no clipping.")
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = optimizer(parameters, lr)
    rates = [group["lr"] for group in optimiser.param_groups]
    device = parameters[0].device.type
    scaler = torch.amp.GradScaler(device, enabled=autocast is torch.float16)
    model.train()
    stream = iter(batches)
    for index in range(steps):
        optimiser.zero_grad()
        number = weight = 0.0
        unit = None  # the count of the first batch: gradients keep their size
        metrics: dict[str, float] = {}
        for _ in range(accumulate):
            try:
                batch = next(stream)
            except StopIteration:
                raise ValueError(f"the batches ended after {index} of {steps} steps.") from None
            with torch.autocast(device, dtype=autocast, enabled=autocast is not None):
                outcome = loss(model, batch)
            value, metrics, count = (*outcome, 1)[:3] if isinstance(outcome, tuple) else (outcome, {}, 1)
            if not isinstance(value, Tensor) or value.numel() != 1:
                got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise RuntimeError(f"the loss must be a tensor of one number, such as a mean over the batch, got {got}.")
            if not math.isfinite(value.item()):
                raise FloatingPointError(f"the loss is {value.item()} at step {index}: lower lr={lr}, or clip the gradients.")
            if not count > 0:
                raise ValueError(f"the loss must return the number of things that it averages over, above 0, got {count}.")
            unit = unit or count
            number, weight = number + value.item() * count / unit, weight + count / unit
            scaler.scale(value * (count / unit)).backward()
        number /= weight
        scaler.unscale_(optimiser)
        if weight != 1:
            torch._foreach_div_([p.grad for p in parameters if p.grad is not None], weight)
        norm = nn.utils.clip_grad_norm_(parameters, math.inf if clip is None else clip).item()
        if not (math.isfinite(norm) or scaler.is_enabled()):
            raise FloatingPointError(f"the norm of the gradients is {norm} at step {index}, where the loss is {number}.")
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * schedule(index, warmup, steps)
        scaler.step(optimiser)
        scaler.update()
        yield TrainingStep(index, number, metrics, norm)


@of_tensors
def batches(*tensors: Tensor, batch_size: int, seed: int) -> Iterator[tuple[Tensor, ...]]:
    """Split tensors that belong together into batches, endlessly, in a new random order for each epoch.

    Args:
        tensors: of any shapes, with the same first axis: the examples.
        batch_size: examples in a batch; the last batch of an epoch may be smaller.
        seed: seed of the orders.

    Yields:
        tuples of as many tensors as were passed.

    Raises:
        ValueError: there is no tensor, no example, or the tensors differ in their number of examples.
        TypeError: examples are in a list or a NumPy array.
    """
    sizes = sorted({len(tensor) for tensor in tensors})
    if len(sizes) != 1 or sizes[0] == 0:
        raise ValueError(f"need tensors with one and the same number of examples, got {sizes}.")
    return _endless(tensors, batch_size, torch.Generator().manual_seed(seed))


def _endless(tensors: tuple[Tensor, ...], batch_size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, ...]]:
    while True:
        for chosen in torch.randperm(len(tensors[0]), generator=generator).split(batch_size):
            yield tuple(tensor[chosen.to(tensor.device)] for tensor in tensors)
