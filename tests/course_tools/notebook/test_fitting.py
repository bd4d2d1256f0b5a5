"""A model learns under the bar and comes back ready for use; its accuracy is a fraction of right answers."""

import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

from course_lib.training import TrainingStep, batches
from course_tools.notebook import fitting
from course_tools.notebook.fitting import accuracy_of, classify, fitted, show_losses


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


def with_losses(monkeypatch, losses):
    """A model that `fitted` trained with these losses."""
    steps = (TrainingStep(i, loss, {}, 0.0) for i, loss in enumerate(losses))
    monkeypatch.setattr(fitting, "train", lambda *args, **settings: steps)
    return fitted(nn.Linear(1, 1), [], classify, steps=len(losses), lr=0.1)


def test_the_curve_of_a_training_is_the_mean_over_blocks_of_steps_and_over_the_models(monkeypatch, capsys):
    drawn = {}
    monkeypatch.setattr(fitting, "curves", lambda lines, *labels: drawn.update(lines) or Figure((6, 3)))
    falling, flat = with_losses(monkeypatch, [6.0, 4.0] * 30 + [2.0, 0.0] * 15), with_losses(monkeypatch, [1.0] * 90)
    show_losses({"falling": falling, "both": [falling, flat]})
    steps, values = drawn["falling"]
    assert list(steps) == list(range(3, 91, 3))
    assert values[:2] + values[-2:] == pytest.approx([16 / 3, 14 / 3, 4 / 3, 2 / 3])
    assert drawn["both"][1] == pytest.approx([(value + 1) / 2 for value in values])
    text = capsys.readouterr().out
    assert "Training loss, mean of the seeds, cross-entropy, nats, in the first" in text
    assert "nats, in the first and in the last block of updates: falling 5.33 and 0.67; both 3.17 and 0.83." in text


def test_losses_of_different_orders_of_magnitude_are_drawn_on_a_logarithmic_axis(monkeypatch):
    figures = []
    monkeypatch.setattr(fitting, "show", lambda figure, alt: figures.append(figure))
    models = {"small": with_losses(monkeypatch, [1e-3, 2e-3]), "large": with_losses(monkeypatch, [5.0, 4.0])}
    show_losses(models, log="y")
    show_losses(models)
    assert [figure.axes[0].get_yscale() for figure in figures] == ["log", "linear"]


def test_a_training_of_few_steps_has_a_point_for_each(monkeypatch, capsys):
    show_losses({"short": with_losses(monkeypatch, [3.0, 2.0])}, "bits")
    assert "Training loss, bits, in the first and in the last block of updates: short 3.00 and 2.00." in capsys.readouterr().out


def test_a_model_that_was_not_trained_here_has_no_curve():
    with pytest.raises(KeyError):
        show_losses({"new": nn.Linear(1, 1)})
