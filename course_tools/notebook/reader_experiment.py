"""Train models with one token-mixing layer with several seeds, and compare them on new texts: the experiments of lecture 04."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torch import nn

from course_lib.datasets import lookup, reversal
from course_lib.datasets.alignment import Lookup
from course_lib.datasets.splits import Splits
from course_tools.notebook import fitting
from course_tools.notebook.seed_scores import show_seeds
from course_tools.notebook.token_reader import (
    TokenReader,
    TokenTask,
    attends_correctly,
    fit_token_reader,
    lookup_task,
    only_symbols,
    reversal_task,
    show_heads,
    symbol_accuracies,
    token_accuracy,
    two_answers,
)


class TrainedReaders(NamedTuple):
    """Models that differ only in their seed, and their accuracies on the new texts of their task."""

    models: list[TokenReader]
    accuracies: list[float]


@dataclass(frozen=True)
class ReaderExperiment:
    """A task on which every model is trained once for each seed, and unless stated otherwise for the same number of steps."""

    task: TokenTask
    seeds: Sequence[int]
    n_steps: int

    def fit(
        self, make_mixer: Callable[[], nn.Module], n_steps: int | None = None, n_seeds: int | None = None, **settings: Any
    ) -> TrainedReaders:
        """Train a new model for each of the first `n_seeds` seeds, and measure its accuracy on new texts.

        Args:
            make_mixer: returns a layer that mixes tokens (B, T, d_model).
            n_steps: number of updates; None = that of the experiment.
            n_seeds: number of models; None = one for each seed.
            **settings: those of `fit_token_reader`, such as `lr`.
        """
        steps = self.n_steps if n_steps is None else n_steps
        models = [fit_token_reader(make_mixer, self.task, seed, steps, **settings) for seed in self.seeds[:n_seeds]]
        return TrainedReaders(models, [token_accuracy(model, self.task) for model in models])

    def without_positions(self) -> "ReaderExperiment":
        """Return the experiment on texts whose tokens do not contain their position."""
        return replace(self, task=only_symbols(self.task))

    def with_two_answers(self) -> "ReaderExperiment":
        """Return the experiment that asks for two symbols at each position, as `token_reader.two_answers`."""
        return replace(self, task=two_answers(self.task))

    def show_losses(self, readers: Mapping[str, TrainedReaders]) -> None:
        """Draw the training losses by name, beside that of a guess among all answers."""
        n = _n_answers(self.task)
        fitting.show_losses({name: group.models for name, group in readers.items()}, across={f"a guess among {n}": math.log(n)})

    def attends_correctly(self, readers: TrainedReaders) -> list[float]:
        """Measure for each model how often the largest weight of its first head is at the right position in new texts."""
        return [attends_correctly(model, self.task) for model in readers.models]

    def symbol_accuracies(self, readers: TrainedReaders) -> list[list[float]]:
        """Measure for each model the accuracy of each of the answers at a position, by itself."""
        return [symbol_accuracies(model, self.task) for model in readers.models]

    def show_heads(self, readers: Mapping[str, TrainedReaders]) -> None:
        """Draw the attention weights of every head of the last model of each name on the first new text."""
        show_heads({name: group.models[-1] for name, group in readers.items()}, self.task)


def lookup_experiment(T_k: int, seeds: Sequence[int], n_steps: int) -> tuple[Splits[Lookup], ReaderExperiment]:
    """Compose look-up texts of T_k pairs with one of eight values each, and four questions: 4,000 to train, 500 to test.

    Returns:
        the texts, and the experiment on them.
    """
    texts = lookup(4_000, 10, 500, T_q=4, T_k=T_k, n_keys=2 * T_k, n_values=8, seed=0)
    return texts, ReaderExperiment(lookup_task(texts, 8), seeds, n_steps)


def reversal_experiment(T: int, seeds: Sequence[int], n_steps: int) -> ReaderExperiment:
    """Compose 4,000 texts of T symbols, each one of eight, that are to be reversed."""
    return ReaderExperiment(reversal_task(reversal(4_000, 10, 500, T=T, n_symbols=8, seed=0)), seeds, n_steps)


def compare_tasks(trained: Mapping[str, tuple[ReaderExperiment, Mapping[str, TrainedReaders]]]) -> dict[str, list[float]]:
    """Draw the training losses of models on several tasks, and their accuracies on new texts.

    Args:
        trained: task -> (its experiment, name -> models).

    Returns:
        one accuracy for each seed, under "task: name".
    """
    readers = {f"{task}: {name}": group for task, (_, groups) in trained.items() for name, group in groups.items()}
    fitting.show_losses({name: group.models for name, group in readers.items()})
    found = {name: group.accuracies for name, group in readers.items()}
    n = max(_n_answers(experiment.task) for experiment, _ in trained.values())
    show_seeds(found, "accuracy", "new texts, one point per seed", {f"a guess among {n}": 1 / n})
    return found


def _n_answers(task: TokenTask) -> int:
    return int(task.targets.max()) + 1
