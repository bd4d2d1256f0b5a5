"""Plain gradient descent on the recall task from weights whose gradient explodes, with and without gradient clipping.

An experiment of lecture 01: U = 1.5 Q with an orthogonal Q. `rnn_step`, `clip` and the learning rate are arguments.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.datasets import recall
from course_lib.training import batches
from course_tools.notebook.gradients_through_time import RecurrentStep, states_of
from course_tools.notebook.plots import curves
from course_tools.notebook.sequence_classifier import one_hot
from course_tools.notebook.show import show

Clip = Callable[[Sequence[Tensor]], Sequence[Tensor]]


class Descent(NamedTuple):
    """The loss before each update, in nats, and the accuracy on new sequences after the last."""

    losses: list[float]
    accuracy: float


def exploding_weights(seed: int, n: int = 32) -> list[Tensor]:
    """Draw W (n, 16), U (n, n), b (n,) and the readout V (8, n) of a plain network; all singular values of U are 1.5."""
    generator = torch.Generator().manual_seed(seed)
    W, random, V = (torch.randn(size, generator=generator).double() for size in ((n, 16), (n, n), (8, n)))
    return [0.1 * W, 1.5 * torch.linalg.qr(random).Q, torch.zeros(n).double(), V / n**0.5]


def recall_logits(rnn_step: RecurrentStep, x: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """Compute the logits V h_T (B, 8) of the first symbol for x (B, T, 16)."""
    *cell, V = weights
    h = torch.zeros(len(x), V.shape[1]).double()
    return states_of(rnn_step, x.double().transpose(0, 1), h, *cell)[-1] @ V.mT


def first_gradient(rnn_step: RecurrentStep, tokens: Tensor, labels: Tensor, seed: int) -> Tensor:
    """Compute the gradient of the loss at the initial weights, as one vector, for sequences (B, T) and labels (B,)."""
    weights = [w.requires_grad_() for w in exploding_weights(seed)]
    loss = F.cross_entropy(recall_logits(rnn_step, one_hot(tokens), weights), labels)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights)])


def descend(rnn_step: RecurrentStep, clip: Clip | None, seed: int, T: int = 10, steps: int = 150, lr: float = 1.0) -> Descent:
    """Train on recall of T symbols by gradient descent, in batches of 32.

    Args:
        rnn_step: one step of the network.
        clip: applied to the gradients before each update; None = none.
        seed: of the data, the weights and the batches.
        T: length of a sequence.
        steps: number of updates.
        lr: the learning rate.
    """
    data, weights, losses = recall(4_000, 1, 1_000, T=T, seed=seed), exploding_weights(seed), []
    stream = batches(one_hot(data.train.tokens), data.train.labels, batch_size=32, seed=seed)
    for x, y in (next(stream) for _ in range(steps)):
        weights = [w.detach().requires_grad_() for w in weights]
        loss = F.cross_entropy(recall_logits(rnn_step, x, weights), y)
        gradients = torch.autograd.grad(loss, weights)
        gradients = gradients if clip is None else clip(gradients)
        weights = [w - lr * g for w, g in zip(weights, gradients, strict=True)]
        losses.append(loss.item())
    right = recall_logits(rnn_step, one_hot(data.test.tokens), weights).argmax(-1) == data.test.labels
    return Descent(losses, right.float().mean().item())


def show_descents(descents: Mapping[str, Sequence[Descent]]) -> None:
    """Draw the loss of the first run of each name; the alternative text states the mean of its last twenty losses."""
    first = {name: runs[0].losses for name, runs in descents.items()}
    lines = {name: (range(len(losses)), losses) for name, losses in first.items()}
    across = {"a guess among 8": math.log(8)}
    figure = curves(lines, "step of gradient descent", "cross-entropy, nats", "training loss, first seed", "y", across)
    ends = "; ".join(f"{name} {mean(losses[-20:]):.2g}" for name, losses in first.items())
    guess = f"a guess costs {math.log(8):.2f}"
    alt = f"Loss against steps of gradient descent, first seed. Mean of the last 20 steps: {ends}; {guess}."
    show(figure, alt=alt)
