"""A few labels are as many of each class, none of an unseen digit; a network learns them, and more labels teach it more."""

import torch

from course_tools.lectures.lecture_16.experiments import (
    backbone,
    few,
    mean_on_unseen,
    on_unseen,
    show_accuracy_by_labels,
    small_digits,
    supervised,
    supervised_seeds,
)


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


def test_each_seed_has_the_mean_accuracy_of_its_draws(monkeypatch, capsys):
    monkeypatch.setattr("course_tools.lectures.lecture_16.experiments.fitted", lambda model, *args, **settings: model.eval())
    digits = small_digits((0, 1))
    models, accuracies = supervised_seeds(digits, (0, 1), 1, draws=2)
    assert accuracies == [mean_on_unseen(models[:2], digits, 0), mean_on_unseen(models[2:], digits, 1)]
    show_accuracy_by_labels({"untrained": {1: accuracies, 4: [0.25, 0.75]}})
    assert f"untrained {sum(accuracies) / 2:.2f} with 10, 0.50 with 40" in capsys.readouterr().out
