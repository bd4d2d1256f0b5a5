"""Mean losses of several trainings; figures that say in words what they draw."""

import torch
from torch import nn

from course_tools.notebook import accuracy_points, recorded_losses
from course_tools.notebook.accuracy_points import show_by_seed
from course_tools.notebook.recorded_losses import mean_losses, show_recorded_losses, trained_with_losses


def test_losses_are_averaged_over_blocks_and_over_the_shortest_run():
    ends, means = mean_losses([[1.0] * 10 + [3.0] * 10, [2.0] * 10 + [4.0] * 15])
    assert (list(ends), means) == ([10, 20], [1.5, 3.5])


def test_the_alt_texts_give_the_numbers(monkeypatch):
    shown = []
    for module in (accuracy_points, recorded_losses):
        monkeypatch.setattr(module, "show", lambda figure, alt: shown.append(alt))
    show_recorded_losses({"model": [[2.0] * 10 + [0.5] * 10]})
    show_by_seed({"model": [0.25, 0.5]}, "accuracy", across={"chance": 0.1})
    assert shown == [
        "Training loss, in the first and in the last ten updates: model 2.00 and 0.50.",
        "Accuracy, one point per seed: model 0.250, 0.500; chance is 0.1.",
    ]


def test_the_curve_averages_ten_updates_and_the_model_comes_back(capsys):
    def train():
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, 3.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        for update in range(25):
            optimizer.zero_grad()
            (model.weight.sum() * (1.0 if update < 10 else 2.0)).backward()
            optimizer.step()
        return model

    model = trained_with_losses(train, "your model")
    assert model.weight.item() == 3.0
    assert "Training loss, in the first and in the last ten updates: your model 3.00 and 6.00." in capsys.readouterr().out
