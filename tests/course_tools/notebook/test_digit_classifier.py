"""A classifier learns the digits of its seed, and is judged on those that it has not seen."""

import math

import pytest
import torch
from torch import nn

from course_tools.lectures.lecture_13.experiments import fit, fit_seeds, initialised, loss_on_unseen, show_classifiers
from course_tools.notebook import digit_split
from course_tools.notebook.fitting import accuracy_of


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def test_a_linear_classifier_learns_the_digits_of_its_seed():
    digits = digit_split((0, 1))
    model, accuracy, seconds = fit(linear, digits, 1, steps=150)
    unseen = digits.unseen[1]
    assert accuracy == accuracy_of(model, digits.images[unseen], digits.labels[unseen]) > 0.75
    assert seconds > 0


def test_the_seed_decides_the_weights_and_the_digits():
    digits = digit_split((0, 1))
    first, again, other = (fit(linear, digits, seed, steps=2).model[1].weight for seed in (0, 0, 1))
    torch.testing.assert_close(first, again)
    assert (first - other).abs().max() > 1e-2
    with pytest.raises(KeyError):
        fit(linear, digits, 2, steps=2)


def test_initial_weights_are_those_from_which_a_training_starts():
    digits = digit_split((0, 1))
    trained = fit(linear, digits, 1, steps=1, lr=1e-12).model
    torch.testing.assert_close(initialised(linear, 1)[1].weight, trained[1].weight)


def test_equal_logits_have_the_loss_of_a_uniform_guess():
    model = linear()
    torch.nn.init.zeros_(model[1].weight)
    torch.nn.init.zeros_(model[1].bias)
    assert loss_on_unseen(model, digit_split((1,)), 1) == pytest.approx(math.log(10))


def test_earlier_classifiers_are_drawn_by_their_accuracy_only(capsys, monkeypatch):
    monkeypatch.setattr("course_tools.lectures.lecture_13.experiments.at_scale", lambda cpu, gpu: 4)
    digits = digit_split((0, 1))
    runs = {name: fit_seeds(linear, digits, (0, 1)) for name in ("new", "old")}
    show_classifiers({"new": runs["new"]}, earlier={"old": runs["old"]})
    losses, accuracies = (
        line for line in capsys.readouterr().out.splitlines() if "block of updates" in line or "training:" in line
    )
    assert "new" in losses
    assert "old" not in losses
    for name, each in runs.items():
        assert f"{name} {each[0].accuracy:.3f}, {each[1].accuracy:.3f}" in accuracies
