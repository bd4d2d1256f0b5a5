"""Train recurrent networks to recall the first symbol of a sequence and to read digits; latches by hand; gradient clipping."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import mean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import digits, recall
from course_lib.datasets.first_symbol import Recall
from course_lib.datasets.splits import Splits
from course_lib.training import batches
from course_tools.lectures.lecture_01.gradients import (
    BackwardStep,
    RecurrentStep,
    back_through_time,
    gradient_by_lag,
    show_gradient_norms,
    states_of,
)
from course_tools.notebook.device import device
from course_tools.notebook.fitting import accuracy_of, classify, fitted, show_losses
from course_tools.notebook.plots import curves
from course_tools.notebook.seed_scores import show_seeds
from course_tools.notebook.show import show

# Classify a sequence by the last state of a recurrent layer, or by a dense layer over all steps.


class SequenceClassifier(nn.Module):
    """A classifier of sequences (B, T, d) that uses the last state of a recurrent layer."""

    def __init__(self, cell: nn.Module, n_classes: int) -> None:
        """Create a classifier with a layer such as `LSTM(d, n)`."""
        super().__init__()
        self.cell, self.read_out = cell, nn.Linear(cell.d_hidden, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Compute logits (B, n_classes) for x (B, T, d)."""
        return self.read_out(self.cell(x)[0][:, -1])


def one_hot(tokens: Tensor) -> Tensor:
    """Encode symbols (B, T), eight possible first symbols and eight distractors, as one-hot vectors (B, T, 16)."""
    return F.one_hot(tokens, 16).float()


def fit_classifier(
    make_cell: Callable[[], nn.Module], known: tuple[Tensor, Tensor], seed: int, steps: int, lr: float
) -> SequenceClassifier:
    """Train a classifier on `known` = (inputs, labels); the seed determines weights and batches."""
    x, y = (part.to(device()) for part in known)
    torch.manual_seed(seed)
    model = SequenceClassifier(make_cell(), int(y.max()) + 1).to(device())
    return fitted(model, batches(x, y, batch_size=32, seed=seed), classify, steps=steps, lr=lr, label=f"seed {seed}")


def classifier_accuracy(model: SequenceClassifier, new: tuple[Tensor, Tensor]) -> float:
    """Measure the accuracy on `new` = (inputs, labels)."""
    return accuracy_of(model, *(part.to(device()) for part in new))


def fit_digits(make_cell: Callable[[], nn.Module], seed: int) -> tuple[SequenceClassifier, float]:
    """Train a classifier on 1,400 digits, one pixel per step, for 250 updates; return it and its accuracy on the other 397.

    Args:
        make_cell: returns a layer for inputs of size 1.
        seed: determines the split, the weights and the batches.
    """
    images, labels = digits()
    pixels = images.flatten(1)[..., None]
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(seed))
    known, new = ((pixels[part], labels[part]) for part in order.split([1_400, len(pixels) - 1_400]))
    model = fit_classifier(make_cell, known, seed, steps=250, lr=5e-3)
    return model, classifier_accuracy(model, new)


def compare_on_digits(makers: Mapping[str, Callable[[], nn.Module]], seeds: Sequence[int]) -> dict[str, list[float]]:
    """Train a classifier of digits for each layer and seed by `fit_digits`; draw losses and accuracies, return accuracies."""
    runs = {name: [fit_digits(make_cell, seed) for seed in seeds] for name, make_cell in makers.items()}
    models = {name: [model for model, _ in group] for name, group in runs.items()}
    show_losses(models, across={"a guess among 10": math.log(10)})
    found = {name: [accuracy for _, accuracy in group] for name, group in runs.items()}
    show_seeds(found, "accuracy", "real digits, read pixel by pixel, one point per seed", {"chance": 0.1})
    return found


def dense_first_to_last(tokens: Tensor, labels: Tensor, steps: int = 300) -> tuple[float, float]:
    """Train one dense layer over all symbols of a sequence; compare its weights for the first symbol with those for the last.

    Args:
        tokens: (n, T), as `one_hot` takes them.
        labels: (n,), each from 0 to 7.
        steps: number of updates with batches of 32, learning rate 0.0015.

    Returns:
        the norm of the weights for the first symbol over that of the weights for the last, before and after the training.
    """
    dense = nn.Sequential(nn.Flatten(), nn.Linear(16 * tokens.shape[1], 8))

    def ratio() -> float:
        norms = dense[1].weight.detach().unflatten(1, (tokens.shape[1], 16)).norm(dim=(0, 2))
        return (norms[0] / norms[-1]).item()

    before = ratio()
    fitted(dense, batches(one_hot(tokens), labels, batch_size=32, seed=0), classify, steps=steps, lr=1.5e-3, warmup=0)
    return before, ratio()


# Train recurrent networks to recall the first symbol of a sequence, one for each seed.


N_SYMBOLS = 8


@cache
def _sequences(T: int, seed: int) -> Splits[Recall]:
    return recall(4_000, 1, 1_000, T=T, n_symbols=N_SYMBOLS, seed=seed)


@dataclass(frozen=True)
class RecallExperiment:
    """Train every network on 4,000 sequences with the same number of updates and, unless stated otherwise, learning rate.

    A seed determines the sequences, the initial weights and the order of the batches. T is the length of a sequence.
    """

    seeds: Sequence[int]
    n_steps: int
    lr: float

    def known(self, T: int) -> Recall:
        """Return the training sequences of the first seed."""
        return _sequences(T, self.seeds[0]).train

    def unseen(self, T: int) -> Recall:
        """Return the 1,000 test sequences of the first seed."""
        return _sequences(T, self.seeds[0]).test

    def print_example(self, T: int) -> None:
        """Print the first test sequence of the first seed, and its answer."""
        tokens, labels = (part[0].tolist() for part in self.unseen(T))
        print(f"symbols {tokens}, answer {labels}; 0 to {N_SYMBOLS - 1} come first, {N_SYMBOLS} to 15 are noise")

    def fit(
        self, make_cell: Callable[[], nn.Module], T: int, lr: float | None = None, n_seeds: int | None = None
    ) -> list[SequenceClassifier]:
        """Train a new network for each of the first `n_seeds` seeds; None = all of them.

        Args:
            make_cell: returns a layer for inputs of size 16, such as `RNN(16, 64)`.
            T: length of the sequences.
            lr: the maximum learning rate; None = that of the experiment.
            n_seeds: number of networks.
        """
        rate = self.lr if lr is None else lr
        parts = ((seed, _sequences(T, seed).train) for seed in self.seeds[:n_seeds])
        return [
            fit_classifier(make_cell, (one_hot(part.tokens), part.labels), seed, self.n_steps, rate) for seed, part in parts
        ]

    def accuracies(self, models: Sequence[nn.Module], T: int) -> list[float]:
        """Measure the accuracy of each model on the test sequences of its seed; the models are in the order of the seeds."""
        parts = (_sequences(T, seed).test for seed in self.seeds)
        pairs = zip(models, parts, strict=False)
        return [classifier_accuracy(model, (one_hot(part.tokens), part.labels)) for model, part in pairs]

    def show_losses(self, models: Mapping[str, Sequence[nn.Module]]) -> None:
        """Draw the training loss of each group of models, beside that of a guess among the symbols."""
        show_losses(models, across={f"a guess among {N_SYMBOLS}": math.log(N_SYMBOLS)})

    def compare(self, models: Mapping[str, Sequence[nn.Module]], T: int) -> dict[str, list[float]]:
        """Draw the losses of groups of models and their accuracies on new sequences; return the accuracies by name."""
        self.show_losses(models)
        found = {name: self.accuracies(group, T) for name, group in models.items()}
        show_seeds(found, "accuracy", f"recall after {T} steps, one point per seed", {"chance": 1 / N_SYMBOLS})
        return found

    def compare_gradients(
        self,
        rnn_step: RecurrentStep,
        lstm_step: Callable[..., tuple[Tensor, Tensor]],
        makers: Mapping[str, Callable[[], nn.Module]],
        T: int,
    ) -> dict[str, list[list[float]]]:
        """Measure the gradient of untrained networks on 32 test sequences; draw that of the first seed.

        Returns:
            name -> for each seed, the T values of `gradient_by_lag`.
        """
        found = {
            name: [self._gradient(rnn_step, lstm_step, make, T, seed) for seed in self.seeds] for name, make in makers.items()
        }
        first = {name: runs[0] for name, runs in found.items()}
        show_gradient_norms(first, f"before training, first of {len(self.seeds)} seeds")
        return found

    def try_out(
        self,
        rnn_step: RecurrentStep,
        lstm_step: Callable[..., tuple[Tensor, Tensor]],
        make_cell: Callable[[], nn.Module],
        T: int,
    ) -> None:
        """Train one network with the first seed; print its gradient at the first step before training, and its accuracy."""
        left = self._gradient(rnn_step, lstm_step, make_cell, T, self.seeds[0])[-1]
        print(f"before training, gradient at the first step: {left:.0e} of that at the end")
        models = self.fit(make_cell, T, n_seeds=1)
        print(f"accuracy: {self.accuracies(models, T)[0]:.2f}, chance {1 / N_SYMBOLS:.2f}")
        self.show_losses({"one seed": models})

    @staticmethod
    def _gradient(
        rnn_step: RecurrentStep,
        lstm_step: Callable[..., tuple[Tensor, Tensor]],
        make_cell: Callable[[], nn.Module],
        T: int,
        seed: int,
    ) -> list[float]:
        part = _sequences(T, seed).test
        torch.manual_seed(seed)
        return gradient_by_lag(rnn_step, lstm_step, make_cell(), one_hot(part.tokens[:32]), part.labels[:32])


# Recall the first symbol by units that work as latches, with weights set by hand.


_N_SYMBOLS, _N_NOISE = 8, 8


class Latches(NamedTuple):
    """A plain network of eight latches, one for each first symbol, after it has read some sequences; numbers are float64.

    Attributes:
        x: one-hot symbols, (T, B, 16).
        labels: the first symbol of each sequence, (B,).
        W: (8, 16).
        U: (8, 8).
        states: T + 1 states (B, 8), the initial one first.
    """

    x: Tensor
    labels: Tensor
    W: Tensor
    U: Tensor
    states: Sequence[Tensor]

    def accuracy(self) -> float:
        """Measure the fraction of the sequences at whose end the unit of the first symbol has the largest value."""
        return (self.states[-1].argmax(-1) == self.labels).float().mean().item()

    def gradient_left(self, bptt_step: BackwardStep) -> float:
        """Propagate a gradient of norm 1 at the unit of the first symbol back from the last state, by `bptt_step`.

        Returns:
            the norm of the gradient at the state after step 1, over its norm at the end, all sequences together.
        """
        at_the_end = F.one_hot(self.labels, _N_SYMBOLS).double()
        _, norms = back_through_time(bptt_step, at_the_end, self.x, self.states, self.W, self.U)
        return norms[-2] / norms[0]


def read_by_latches(rnn_step: RecurrentStep, part: Recall, feedback: float = 3.0, bias: float = -1.0, seed: int = 0) -> Latches:
    """Read sequences of the recall task by latches: U = feedback · I and the same bias for each unit.

    A first symbol adds 5 to the input of its own unit. Noise adds a random number to that of every unit, with standard
    deviation 0.1.

    Args:
        rnn_step: one step of a plain network.
        part: tokens (B, T) and labels (B,).
        feedback: weight of each unit's own state; above 1, a unit can have two stable values.
        bias: of every unit.
        seed: of the weights of the noise.
    """
    noise = torch.randn(_N_SYMBOLS, _N_NOISE, generator=torch.Generator().manual_seed(seed))
    W = torch.cat([5 * torch.eye(_N_SYMBOLS), 0.1 * noise], dim=1).double()
    U, b = feedback * torch.eye(_N_SYMBOLS).double(), torch.full((_N_SYMBOLS,), bias).double()
    x = one_hot(part.tokens).double().transpose(0, 1)
    states = states_of(rnn_step, x, x.new_zeros(x.shape[1], _N_SYMBOLS), W, U, b)
    return Latches(x, part.labels, W, U, states)


# Plain gradient descent on the recall task from weights whose gradient explodes, with and without gradient clipping.
#
# U = 1.5 Q with an orthogonal Q. `rnn_step`, `clip` and the learning rate are arguments.


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
