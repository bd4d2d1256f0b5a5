"""Readers of tokens are trained once for each seed, and measured and drawn by name."""

import math

import pytest
import torch
from torch import nn

from course_tools.lectures.lecture_04 import experiments
from course_tools.lectures.lecture_04.experiments import (
    ReaderExperiment,
    TokenTask,
    TrainedReaders,
    compare_tasks,
    lookup_experiment,
    reversal_experiment,
)


class Keep(nn.Module):
    """A mixer that mixes nothing; as a recurrent layer it gives two results."""

    def forward(self, x):
        return x, None


@pytest.fixture
def experiment():
    tokens = torch.randint(0, 5, (64, 7), generator=torch.Generator().manual_seed(0))
    return ReaderExperiment(TokenTask((tokens,), tokens, (tokens,), tokens), (0, 1), n_steps=60)


def test_a_model_is_trained_for_each_seed_and_measured_on_new_texts(experiment):
    readers = experiment.fit(Keep, lr=3e-2)
    assert readers.accuracies == [1.0, 1.0]
    one, two = readers.models
    assert not one.read_out.weight.equal(two.read_out.weight)


def test_steps_seeds_and_settings_can_differ(experiment, monkeypatch):
    given = []
    monkeypatch.setattr(experiments, "token_accuracy", lambda model, task: 0.5)
    monkeypatch.setattr(experiments, "fit_token_reader", lambda *args, **settings: given.append((*args[2:], settings)))
    experiment.fit(Keep)
    experiment.fit(Keep, n_steps=7, n_seeds=1, lr=1e-4)
    assert given == [(0, 60, {}), (1, 60, {}), (0, 7, {"lr": 1e-4})]


def test_losses_are_drawn_beside_a_guess_among_all_answers(experiment, monkeypatch):
    drawn = []
    monkeypatch.setattr(experiments.fitting, "show_losses", lambda trained, across: drawn.append((trained, across)))
    experiment.show_losses({"A": TrainedReaders(["model"], [0.5])})
    assert drawn == [({"A": ["model"]}, {"a guess among 5": math.log(5)})]


def test_tasks_are_compared_by_the_accuracies_of_their_models(experiment, capsys):
    ours = {"A": experiment.fit(Keep, n_steps=2), "B": experiment.fit(Keep, n_steps=2, n_seeds=1)}
    found = compare_tasks({"copy": (experiment, ours)})
    assert found == {"copy: A": ours["A"].accuracies, "copy: B": ours["B"].accuracies}
    losses, accuracies = capsys.readouterr().out.splitlines()[-2:]
    assert losses.startswith("Training loss")
    assert "a guess among 5 is 0.2" in accuracies


def test_the_texts_of_the_look_up_are_those_of_its_task():
    texts, looking_up = lookup_experiment(8, (0,), n_steps=3)
    assert texts.test.keys.shape == (500, 8)
    assert looking_up.task.new[0][:, :8].equal(texts.test.keys)
    assert looking_up.task.known[0].shape == (4_000, 12)


def test_a_reversal_can_lose_its_positions_or_ask_for_two_symbols():
    reversing = reversal_experiment(10, (0, 2), n_steps=3)
    tokens, _ = reversing.task.known
    assert reversing.task.targets.equal(tokens.flip(1))
    without, twice = reversing.without_positions(), reversing.with_two_answers()
    assert (without.seeds, without.n_steps) == (twice.seeds, twice.n_steps) == ((0, 2), 3)
    assert [part.equal(tokens) for part in without.task.known] == [True]
    assert twice.task.targets[..., 0].equal(tokens.flip(1))


def test_weights_and_symbols_are_measured_for_each_model(experiment, monkeypatch):
    monkeypatch.setattr(experiments, "attends_correctly", lambda model, task: {"a": 0.25, "b": 0.75}[model])
    assert experiment.attends_correctly(TrainedReaders(["a", "b"], [])) == [0.25, 0.75]
    monkeypatch.setattr(experiments, "symbol_accuracies", lambda model, task: [{"a": 0.25, "b": 0.75}[model], 1.0])
    assert experiment.symbol_accuracies(TrainedReaders(["a", "b"], [])) == [[0.25, 1.0], [0.75, 1.0]]
    drawn = []
    monkeypatch.setattr(experiments, "show_heads", lambda models, task: drawn.append((models, task)))
    experiment.show_heads({"A": TrainedReaders(["a", "b"], [])})
    assert drawn == [({"A": "b"}, experiment.task)]
