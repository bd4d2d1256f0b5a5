"""A model learns under the bar and comes back ready for use; its accuracy is a fraction of right answers."""

import pytest
import torch
from torch import nn

from course_lib.training import batches
from course_tools.notebook.fitting import accuracy_of, classify, fitted


def test_a_fitted_model_has_learned_and_is_in_evaluation_mode():
    torch.manual_seed(0)
    x = torch.randn(60, 2)
    labels = (x[:, 0] > 0).long()
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1))
    same = fitted(model, batches(x, labels, batch_size=20, seed=0), classify, steps=60, lr=0.3)
    assert same is model
    assert not model.training
    assert accuracy_of(model, x, labels) > 0.9


def test_accuracy_is_the_fraction_of_right_answers_without_dropout():
    model = nn.Sequential(nn.Identity(), nn.Dropout(0.9)).train()
    logits = torch.tensor([[2.0, 1.0], [2.0, 1.0], [1.0, 2.0], [1.0, 2.0]])
    assert accuracy_of(model, logits, torch.tensor([0, 1, 1, 1])) == pytest.approx(0.75)


def test_a_tenth_of_the_steps_warms_up(monkeypatch):
    seen = {}

    def train(model, stream, loss, **settings):
        seen.update(settings)
        return iter(())

    monkeypatch.setattr("course_tools.notebook.fitting.train", train)
    fitted(nn.Linear(1, 1), [], classify, steps=50, lr=0.1)
    assert seen == {"steps": 50, "lr": 0.1, "warmup": 5}
