"""Few labels, two views, SimCLR and BYOL do what they say, and neighbours are counted right."""

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
    backbone,
    few,
    fit_byol,
    fit_simclr,
    gap_to_byol_update,
    mean_on_unseen,
    nearest_neighbour_accuracy,
    nt_xent_of_adjacent_rows,
    on_unseen,
    probe_accuracy,
    show_spectra,
    small_digits,
    supervised,
    supervised_seeds,
    target_gradients,
    train_on_views,
    two_views,
    without_stop_gradient,
)

# The nearest neighbour of a point is another point, and the distances are not changed.


def test_neighbours_by_hand():
    points = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]])
    distances = -points @ points.mT
    assert nearest_neighbour_accuracy(distances, torch.tensor([0, 0, 1, 1])) == 1.0
    assert nearest_neighbour_accuracy(distances, torch.tensor([0, 1, 0, 1])) == 0.0
    assert nearest_neighbour_accuracy(distances, torch.tensor([0, 1, 1, 1])) == 0.5
    assert torch.equal(distances, -points @ points.mT)


# A few labels are as many of each class, none of an unseen digit; a network learns them, and more labels teach it more.


def test_digits_have_half_the_sides_and_the_mean_ink():
    images = small_digits((0,)).images
    assert images.shape == (5000, 1, 14, 14)
    assert 0.1 < images.mean() < 0.2


def test_the_chosen_digits_are_as_many_of_each_class_and_none_is_unseen():
    digits = small_digits((0, 1))
    chosen = few(digits, 1, 3, draw=0)
    assert digits.labels[chosen].bincount().tolist() == [3] * 10
    assert not torch.isin(chosen, digits.unseen[1]).any()
    assert chosen.tolist() != few(digits, 1, 3, draw=1).tolist()


def test_the_encoder_gives_64_numbers_whatever_the_size():
    assert backbone()(torch.zeros(2, 1, 14, 14)).shape == (2, 64)


def test_more_labels_teach_more():
    digits = small_digits((0,))
    one, ten = (on_unseen(supervised(digits, 0, n_each, 0, steps=60), digits, 0) for n_each in (1, 10))
    assert 0.3 < one < ten - 0.1


def test_each_seed_has_the_mean_accuracy_of_its_draws(monkeypatch):
    monkeypatch.setattr("course_tools.lectures.lecture_16.experiments.fitted", lambda model, *args, **settings: model.eval())
    digits = small_digits((0, 1))
    models, accuracies = supervised_seeds(digits, (0, 1), 1, draws=2)
    assert accuracies == [mean_on_unseen(models[:2], digits, 0), mean_on_unseen(models[2:], digits, 1)]


# Training on two views, looking on the way, and the accuracy of the probe.


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


def test_byol_moves_its_target_by_the_given_update(digits, monkeypatch):
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


def test_the_librarys_update_and_another_decay_are_told_apart():
    assert gap_to_byol_update(ema_update) < 1e-5
    assert gap_to_byol_update(lambda target, online, decay: ema_update(target, online, 0.5)) > 0.1


def test_only_a_loss_through_the_target_gives_it_a_gradient(digits):
    pair = next(two_views(digits, SEED, same, n_pairs=4))
    assert target_gradients(bootstrap, pair) == 0
    assert target_gradients(lambda model, pair: sum(xi.sum() for xi in model.target.parameters()), pair) > 10


def test_a_circle_has_the_spread_of_a_plane_and_a_point_none():
    angle = torch.arange(100) * 2 * torch.pi / 100
    circle = torch.nn.functional.pad(torch.stack([angle.cos(), angle.sin()], 1), (0, 3))
    spread = show_spectra({"circle": circle, "point": torch.ones(100, 5)}, spectrum, n=5)
    assert spread == {"circle": pytest.approx(1), "point": pytest.approx(0, abs=1e-9)}


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
