"""Training on two views, looking on the way, and the accuracy of the probe."""

from functools import partial

import pytest
import torch
from torch import nn

from course_lib.losses import byol_loss, nt_xent
from course_lib.metrics import linear_probe, spectrum
from course_lib.models import BYOL, ema_update
from course_tools.lectures.lecture_16 import experiments
from course_tools.lectures.lecture_16.experiments import (
    LOOKS,
    fit_byol,
    fit_simclr,
    gap_to_byol_update,
    nt_xent_of_adjacent_rows,
    probe_accuracy,
    show_byol_losses,
    show_probe_curves,
    show_spectra,
    target_gradients,
    train_on_views,
    two_views,
    without_stop_gradient,
)

SEED = 0


@pytest.fixture(scope="module")
def digits():
    return experiments.small_digits((SEED,))


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


def same(batch, generator):
    return batch


def bootstrap(model, pair):
    return byol_loss(*model(*pair))


def quick(monkeypatch):
    """Train for fifteen updates: the first two looks."""
    monkeypatch.setattr("course_tools.lectures.lecture_16.experiments.train_on_views", partial(train_on_views, steps=15))


def test_simclr_is_looked_at_through_its_features(digits, monkeypatch):
    quick(monkeypatch)
    asked = []
    run = fit_simclr(
        "test",
        SEED,
        digits,
        same,
        lambda model, pair: nt_xent(*model(*pair), 0.2).float(),
        lambda encoder, seed, n_each: asked.append((seed, n_each)) or 0.5,
    )
    assert asked == [(SEED, 4)] * 2
    assert list(run.seen) == list(LOOKS[:2])
    points, accuracy = run.seen[15]
    torch.testing.assert_close(points.norm(dim=1), torch.ones(1_000))
    assert accuracy == 0.5


def test_byol_moves_its_target_by_the_given_update(digits, monkeypatch, capsys):
    quick(monkeypatch)
    decays = []

    def frozen(target, online, decay):
        decays.append(decay)
        return target

    start = fit_byol("test", SEED, digits, same, bootstrap, lambda *args, **settings: 0.5, frozen, nn.Identity())
    assert decays == [0.95] * 15
    assert isinstance(start.model.predictor, nn.Identity)
    moved = fit_byol("test", SEED, digits, same, bootstrap, lambda *args, **settings: 0.5, ema_update)
    weights = (next(iter(run.model.target.parameters())) for run in (start, moved))
    assert not torch.equal(*weights)
    show_byol_losses({"frozen": start})
    assert "frozen from" in capsys.readouterr().out


def test_the_librarys_update_and_another_decay_are_told_apart():
    assert gap_to_byol_update(ema_update) < 1e-5
    assert gap_to_byol_update(lambda target, online, decay: ema_update(target, online, 0.5)) > 0.1


def test_only_a_loss_through_the_target_gives_it_a_gradient(digits):
    pair = next(two_views(digits, SEED, same, n_pairs=4))
    assert target_gradients(bootstrap, pair) == 0
    assert target_gradients(lambda model, pair: sum(xi.sum() for xi in model.target.parameters()), pair) > 10


def test_figures_contain_the_numbers_that_they_show(capsys):
    angle = torch.arange(100) * 2 * torch.pi / 100
    circle = torch.nn.functional.pad(torch.stack([angle.cos(), angle.sin()], 1), (0, 3))
    spread = show_spectra({"circle": circle, "point": torch.ones(100, 5)}, spectrum, n=5)
    assert spread == {"circle": pytest.approx(1), "point": pytest.approx(0, abs=1e-9)}
    show_probe_curves({"probe": ((1, 15), (0.25, 0.5))}, 0.4, (1, 15), "test")
    assert "probe 0.25 after 1, 0.50 after 15; the pixels 0.40" in capsys.readouterr().out


def test_without_a_stop_gradient_equal_views_of_one_digit_have_the_loss_of_the_predictor(digits):
    torch.manual_seed(0)
    model = BYOL(experiments.backbone(), 64).eval()
    model.predictor = nn.Identity()
    one = digits.images[:1].cpu()
    assert without_stop_gradient(model, (one, one)).item() == pytest.approx(0, abs=1e-5)
    other = digits.images[1:2].cpu()
    loss = without_stop_gradient(model, (one, other))
    torch.testing.assert_close(loss, 2 - 2 * nn.functional.cosine_similarity(*map(model.online, (one, other)))[0])


def test_adjacent_rows_are_pairs_of_interleaved_views_only():
    torch.manual_seed(0)
    a, b = torch.randn(2, 6, 5)
    interleaved = torch.stack([a, b], 1).flatten(0, 1)
    found = nt_xent_of_adjacent_rows(interleaved[:6], interleaved[6:], 0.2)
    torch.testing.assert_close(found, nt_xent(a, b, 0.2).to(found))
    assert nt_xent_of_adjacent_rows(a, a, 0.2) > 5 * nt_xent(a, a, 0.2)
