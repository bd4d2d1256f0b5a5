"""Training on two views, looking on the way, and the accuracy of the probe."""

import pytest
import torch
from torch import nn

from course_lib.metrics import linear_probe
from course_tools.notebook import few_labels
from course_tools.notebook.contrastive_training import probe_accuracy, train_on_views, two_views

SEED = 0


@pytest.fixture(scope="module")
def digits():
    return few_labels.small_digits((SEED,))


def test_two_views_are_drawn_from_the_same_images(digits):
    first, second = next(two_views(digits, SEED, lambda batch, generator: batch, n_pairs=5))
    assert first.shape == (5, 1, 14, 14)
    torch.testing.assert_close(first, second)


def test_looks_are_kept_by_step_and_updates_are_called_after_each(digits):
    model, calls = nn.Sequential(nn.Flatten(), nn.Linear(196, 3)), []
    run = train_on_views(
        model,
        two_views(digits, SEED, lambda batch, generator: batch),
        lambda model, pair: model(pair[0]).square().mean(),
        lr=1e-2,
        steps=6,
        update=lambda model: calls.append(model.training),
        looks=(2, 5),
        look=lambda model: model.training,
    )
    assert run.seen == {2: False, 5: False}
    assert calls == [True] * 6
    assert len(run.losses) == 6
    assert run.losses[-1] < run.losses[0]
    assert not run.model.training


def test_the_probe_reads_pixels_better_than_chance_and_constants_at_chance(digits):
    assert probe_accuracy(nn.Flatten(), digits, SEED, 4, linear_probe) > 0.5
    assert probe_accuracy(lambda batch: batch.new_ones(len(batch), 3), digits, SEED, 4, linear_probe) < 0.2
