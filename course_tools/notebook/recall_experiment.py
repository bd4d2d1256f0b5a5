"""Train recurrent networks to recall the first symbol of a sequence, one for each seed: the experiments of lecture 01."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from course_lib.datasets import recall
from course_lib.datasets.first_symbol import Recall
from course_lib.datasets.splits import Splits
from course_tools.notebook.fitting import show_losses
from course_tools.notebook.gradients_through_time import RecurrentStep, gradient_by_lag, show_gradient_norms
from course_tools.notebook.seed_scores import show_seeds
from course_tools.notebook.sequence_classifier import SequenceClassifier, classifier_accuracy, fit_classifier, one_hot

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
