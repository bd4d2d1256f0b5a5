"""The comparison of build task 04.7 trains both models on the same texts and measures both questions."""

import pytest
import torch
from torch import nn

from course_tools.bank.lecture_04.train_attention_rival import SelfAttentionReader
from course_tools.lectures.lecture_04 import rival
from course_tools.lectures.lecture_04.rival import compared, most_frequent_value, show_attention_rival, train_the_model


class Constant(nn.Module):
    """Always gives the value 3."""

    def forward(self, texts):
        return nn.functional.one_hot(torch.full(texts.shape[:2], 3), 8).float()


def test_accuracies_of_both_models_on_both_questions_one_for_each_seed():
    given = []

    def train_rival(texts, answers, n_parameters, n_steps):
        given.append((tuple(texts.shape), tuple(answers.shape), n_parameters, n_steps))
        return Constant()

    found = compared(train_rival, 1_000, (0, 1), n_steps=2)
    assert given == [((4_000, 12, 2), (4_000, 12), 1_000, 2)] * 2
    assert list(found) == ["look-up: attention", "look-up: rival", "reversal: attention", "reversal: rival"]
    assert all(len(scores) == 2 for scores in found.values())
    assert found["look-up: rival"] + found["reversal: rival"] == pytest.approx([1 / 8] * 4, abs=0.04)


def test_the_most_frequent_of_eight_values_is_right_more_often_than_one_in_eight():
    assert 0.25 < most_frequent_value(seed=0) < 0.45


def test_the_model_is_trained_with_a_loss_curve_and_its_parameters_are_counted(capsys):
    assert train_the_model(seed=0, n_steps=3) == sum(p.numel() for p in SelfAttentionReader().parameters())
    text = capsys.readouterr().out
    assert text.startswith("keys ")
    assert "Training loss of the model over 3 updates" in text


def test_the_losses_of_every_training_are_drawn(monkeypatch):
    drawn = {}
    monkeypatch.setattr(rival, "show_recorded_losses", lambda losses, y: drawn.update(losses))
    compared(lambda texts, answers, n_parameters, n_steps: Constant(), 1_000, (0, 1), n_steps=2)
    assert [len(losses) for losses in drawn["attention"]] == [2, 2]
    assert [len(losses) for losses in drawn["rival"]] == [0, 0]


def test_the_accuracies_are_drawn_beside_the_most_frequent_value(monkeypatch, capsys):
    monkeypatch.setattr(rival, "compared", lambda *given: {"look-up: rival": [given[1] / 4, 0.5]})
    show_attention_rival(None, 1, (0, 1))
    drawn = capsys.readouterr().out
    assert "look-up: rival 0.250, 0.500" in drawn
    assert f"the most frequent value is {most_frequent_value(seed=100):.3g}" in drawn
