"""`fit` trains as `train` does, and prints the recipe of the run that took place."""

from functools import partial
from importlib import import_module

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.training import batches, constant, cosine_decay, train
from course_tools.notebook.fit import fit


def task(n=64):
    torch.manual_seed(0)
    x = torch.randn(n, 3)
    return nn.Linear(3, 2), batches(x, (x[:, 0] > 0).long(), batch_size=32, seed=0)


def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def test_it_trains_as_train_does_and_returns_the_losses(capsys):
    model, stream = task()
    expected = [step.loss for step in train(model, stream, loss, steps=20, lr=0.01, warmup=2)]
    untrained, stream = task()
    trained = fit(untrained, loss, stream, steps=20, lr=0.01)
    assert trained.losses == expected
    assert not trained.model.training
    assert torch.equal(trained.model.weight, model.weight)
    assert repr(trained) == f"Trained(Linear, 20 losses, the last {expected[-1]:.3g})"
    caption, recipe = capsys.readouterr().out.splitlines()
    assert caption.startswith("Training loss, loss, in the first and in the last block of updates: ")
    assert recipe == "Adam 0.01, 10 % warm-up, linear decay, clipped at 1.0, 20 updates of 32"


def test_without_the_curve_it_prints_the_recipe_alone(capsys):
    model, stream = task()
    fit(model, loss, stream, steps=20, lr=0.01, show_loss=False)
    assert capsys.readouterr().out == "Adam 0.01, 10 % warm-up, linear decay, clipped at 1.0, 20 updates of 32\n"


def test_the_progress_bar_names_the_model(monkeypatch, capsys):
    shown = []
    monkeypatch.setattr(
        import_module("course_tools.notebook.fit"), "progress", lambda run, what, total: shown.append(what) or run
    )
    model, stream = task()
    fit(model, loss, stream, steps=2, lr=0.01)
    assert shown == ["training Linear"]


@pytest.mark.parametrize(
    ("settings", "recipe"),
    [
        ({"warmup": 0, "clip": None}, "Adam 0.01, no warm-up, linear decay, not clipped, 8 updates of 32"),
        ({"warmup": 1, "clip": 0.5}, "Adam 0.01, 12.5 % warm-up, linear decay, clipped at 0.5, 8 updates of 32"),
        ({"warmup": 0, "schedule": constant}, "Adam 0.01, no warm-up, constant rate, clipped at 1.0, 8 updates of 32"),
        (
            {"warmup": 0, "schedule": cosine_decay, "optimizer": partial(torch.optim.AdamW, weight_decay=0.1)},
            "AdamW 0.01, weight decay 0.1, no warm-up, cosine decay, clipped at 1.0, 8 updates of 32",
        ),
        (
            {"warmup": 0, "optimizer": partial(torch.optim.SGD, momentum=0.9)},
            "SGD 0.01, momentum 0.9, no warm-up, linear decay, clipped at 1.0, 8 updates of 32",
        ),
    ],
)
def test_the_recipe_is_that_of_the_run(settings, recipe, capsys):
    model, stream = task()
    fit(model, loss, stream, steps=8, lr=0.01, **settings)
    assert capsys.readouterr().out.splitlines()[-1] == recipe


def test_a_smaller_last_batch_is_in_the_recipe(capsys):
    model, stream = task(70)
    fit(model, loss, stream, steps=3, lr=0.01)
    assert capsys.readouterr().out.endswith(", 3 updates of 6 to 32\n")
