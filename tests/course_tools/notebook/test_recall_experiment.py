"""The recall experiment trains one network per seed on the sequences of that seed, and measures each on its own test part."""

from functools import partial

import pytest

from course_lib.primitives import LSTM, RNN, lstm_step, rnn_step
from course_tools.lectures.lecture_01 import experiments
from course_tools.lectures.lecture_01.experiments import RecallExperiment

EXPERIMENT = RecallExperiment((0, 1), n_steps=2, lr=1e-3)
SMALL = partial(RNN, 16, 5)


@pytest.fixture
def fits(monkeypatch):
    """Replaces training and measurement by a record of what they were given."""
    given = []

    def fit_classifier(make_cell, known, seed, steps, lr):
        given.append((make_cell, tuple(known[0].shape), seed, steps, lr))
        return seed

    monkeypatch.setattr(experiments, "fit_classifier", fit_classifier)
    monkeypatch.setattr(experiments, "classifier_accuracy", lambda model, new: model + len(new[0]) / 10_000)
    return given


def test_a_network_is_trained_for_each_seed_with_the_settings_of_the_experiment(fits):
    assert EXPERIMENT.fit(SMALL, 5) == [0, 1]
    assert fits == [(SMALL, (4_000, 5, 16), seed, 2, 1e-3) for seed in (0, 1)]


def test_the_learning_rate_and_the_number_of_seeds_can_differ(fits):
    EXPERIMENT.fit(SMALL, 5, lr=4e-3, n_seeds=1)
    assert fits == [(SMALL, (4_000, 5, 16), 0, 2, 4e-3)]


def test_accuracies_are_measured_on_the_thousand_test_sequences(fits):
    assert EXPERIMENT.accuracies([0], 5) == [0.1]
    assert EXPERIMENT.accuracies([0, 1], 5) == [0.1, 1.1]


def test_training_and_test_sequences_are_those_of_the_first_seed_and_the_first_symbol_is_the_label():
    known, unseen = EXPERIMENT.known(5), EXPERIMENT.unseen(5)
    assert (known.tokens.shape, unseen.tokens.shape) == ((4_000, 5), (1_000, 5))
    assert unseen.tokens[:, 0].equal(unseen.labels)
    assert RecallExperiment((1, 0), 2, 1e-3).unseen(5).tokens.equal(unseen.tokens) is False


def test_the_printed_answer_is_the_first_symbol(capsys):
    EXPERIMENT.print_example(5)
    symbols = EXPERIMENT.unseen(5).tokens[0].tolist()
    assert capsys.readouterr().out == f"symbols {symbols}, answer {symbols[0]}; 0 to 7 come first, 8 to 15 are noise\n"


def test_a_comparison_draws_losses_and_accuracies_and_returns_the_accuracies(capsys):
    models = {"plain": EXPERIMENT.fit(SMALL, 5)}
    found = EXPERIMENT.compare(models, 5)
    assert found == {"plain": EXPERIMENT.accuracies(models["plain"], 5)}
    losses, accuracies = capsys.readouterr().out.splitlines()[-2:]
    assert losses.startswith("Training loss")
    assert "recall after 5 steps" in accuracies
    assert "chance is 0.125" in accuracies


def test_gradients_have_a_value_for_each_network_seed_and_step_and_those_of_the_first_seed_are_drawn(capsys):
    found = EXPERIMENT.compare_gradients(rnn_step, lstm_step, {"plain": SMALL, "LSTM": partial(LSTM, 16, 5)}, T=7)
    assert {name: [len(lags) for lags in runs] for name, runs in found.items()} == {"plain": [7, 7], "LSTM": [7, 7]}
    assert all(lags[0] == 1.0 for runs in found.values() for lags in runs)
    assert found["plain"][0][1:] != found["plain"][1][1:]
    drawn = capsys.readouterr().out
    assert all(f"{runs[0][-1]:.0e} after 6 steps ({name})" in drawn for name, runs in found.items())


def test_one_network_is_tried_with_the_first_seed(fits, monkeypatch, capsys):
    monkeypatch.setattr(experiments, "show_losses", lambda models, across: None)
    EXPERIMENT.try_out(rnn_step, lstm_step, SMALL, 5)
    assert fits == [(SMALL, (4_000, 5, 16), 0, 2, 1e-3)]
    gradient, accuracy = capsys.readouterr().out.splitlines()
    assert gradient.startswith("before training, gradient at the first step:")
    assert accuracy == "accuracy: 0.10, chance 0.12"
