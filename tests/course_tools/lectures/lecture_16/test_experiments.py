"""Neighbours are counted right, two views are of the same images, and a spectrum is read as spread."""

import pytest
import torch

from course_lib.metrics import spectrum
from course_tools.lectures.lecture_16 import experiments
from course_tools.lectures.lecture_16.experiments import (
    backbone,
    few,
    nearest_neighbour_accuracy,
    probe,
    show_spectra,
    small_digits,
    two_views,
)


def test_neighbours_by_hand():
    points = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]])
    distances = -points @ points.mT
    assert nearest_neighbour_accuracy(distances, torch.tensor([0, 0, 1, 1])) == 1.0
    assert nearest_neighbour_accuracy(distances, torch.tensor([0, 1, 0, 1])) == 0.0
    assert nearest_neighbour_accuracy(distances, torch.tensor([0, 1, 1, 1])) == 0.5
    assert torch.equal(distances, -points @ points.mT)


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


@pytest.fixture(scope="module")
def digits():
    return experiments.small_digits((0,))


def same(batch, generator):
    return batch


def test_a_probe_finds_in_the_pixels_what_it_does_not_find_in_a_constant(digits):
    assert probe(torch.nn.Flatten(), digits) > 0.5
    assert probe(lambda images: torch.ones(len(images), 3), digits) < 0.2


def test_two_views_are_drawn_from_the_same_images(digits):
    first, second = next(two_views(digits, 0, same, n_pairs=5))
    assert first.shape == (5, 1, 14, 14)
    torch.testing.assert_close(first, second)


def test_a_circle_has_the_spread_of_a_plane_and_a_point_none():
    angle = torch.arange(100) * 2 * torch.pi / 100
    circle = torch.nn.functional.pad(torch.stack([angle.cos(), angle.sin()], 1), (0, 3))
    spread = show_spectra({"circle": circle, "point": torch.ones(100, 5)}, spectrum, n=5)
    assert spread == {"circle": pytest.approx(1), "point": pytest.approx(0, abs=1e-9)}
