"""Neighbours are counted right, two views are of the same images, and a spectrum is read as spread."""

import pytest
import torch

from course_lib.metrics import spectrum
from course_tools.bank.drawn_stickers import draw_stickers
from course_tools.lectures.lecture_16.experiments import (
    backbone,
    nearest_neighbour_accuracy,
    probe,
    show_spectra,
    two_views,
)


def test_neighbours_by_hand():
    points = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]])
    distances = -points @ points.mT
    assert nearest_neighbour_accuracy(distances, torch.tensor([0, 0, 1, 1])) == 1.0
    assert nearest_neighbour_accuracy(distances, torch.tensor([0, 1, 0, 1])) == 0.0
    assert nearest_neighbour_accuracy(distances, torch.tensor([0, 1, 1, 1])) == 0.5
    assert torch.equal(distances, -points @ points.mT)


def test_the_encoder_gives_64_numbers_whatever_the_size():
    assert backbone()(torch.zeros(2, 3, 12, 12)).shape == (2, 64)


def test_a_probe_finds_in_the_ink_what_it_finds_in_neither_colours_nor_a_constant():
    known, unseen = draw_stickers(600, 0), draw_stickers(300, 1, unseen=True)

    def ink(images):
        """The distance of each pixel from the ground, the colour of a corner: what remains if colours are taken away."""
        apart = (images - images[:, :, :1, :1]).norm(dim=1)
        return (apart / apart.amax((1, 2), keepdim=True)).flatten(1)

    assert probe(ink, known, unseen) > 0.7
    assert probe(torch.nn.Flatten(), known, unseen) < 0.4
    assert probe(lambda images: torch.ones(len(images), 3), known, unseen) < 0.2


def test_two_views_are_drawn_from_the_same_images():
    first, second = next(two_views(draw_stickers(20, 0).images, 0, lambda batch, generator: batch, n_pairs=5))
    assert first.shape == (5, 3, 12, 12)
    torch.testing.assert_close(first, second)


def test_a_circle_has_the_spread_of_a_plane_and_a_point_none():
    angle = torch.arange(100) * 2 * torch.pi / 100
    circle = torch.nn.functional.pad(torch.stack([angle.cos(), angle.sin()], 1), (0, 3))
    spread = show_spectra({"circle": circle, "point": torch.ones(100, 5)}, spectrum, n=5)
    assert spread == {"circle": pytest.approx(1), "point": pytest.approx(0, abs=1e-9)}
