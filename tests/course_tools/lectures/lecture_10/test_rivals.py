"""Rivals have about as many parameters as local attention; the bilateral filter averages what is near and alike."""

import pytest
import torch

from course_tools.lectures.lecture_10 import rivals
from course_tools.lectures.lecture_10.glass import NOISE, decibels, noisy_glass, stained_glass


@pytest.mark.parametrize("size", [3, 5, 7])
@pytest.mark.parametrize("make", [rivals.convolution, rivals.separable, rivals.stack])
def test_a_rival_has_about_as_many_parameters_and_sees_the_window_alone(make, size):
    torch.manual_seed(0)
    model, image = make(size), torch.rand(1, 3, 11, 13, requires_grad=True)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(rivals.PARAMETERS, rel=0.12)
    model(image)[0, :, 5, 6].sum().backward()
    rows, columns = image.grad[0].abs().sum(0).nonzero().T
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (
        5 - size // 2,
        5 + size // 2,
        6 - size // 2,
        6 + size // 2,
    )


def test_the_bilateral_filter_gives_the_numbers_worked_by_hand():
    row = torch.tensor([0.9, 0.8, 0.1]).expand(1, 3, 1, 3) / 3**0.5  # of each channel: the difference in colour is that of one
    filtered = rivals.bilateral_filter(row, 3, near=1e6, alike=0.2)
    assert filtered[0, 0, 0, 1] * 3**0.5 == pytest.approx(0.846, abs=1e-3)


def test_the_bilateral_filter_with_wide_gaussians_is_the_mean_of_what_is_inside():
    image = torch.rand(2, 3, 5, 7)
    filtered = rivals.bilateral_filter(image, 3, near=1e6, alike=30.0)
    torch.testing.assert_close(filtered[..., 0, 0], image[..., :2, :2].mean((-2, -1)), atol=1e-3, rtol=0)
    torch.testing.assert_close(filtered[..., 2, 3], image[..., 1:4, 2:5].mean((-2, -1)), atol=1e-3, rtol=0)


def test_the_chosen_widths_have_the_least_error():
    noisy, clean = next(noisy_glass(0, 20))
    best = rivals.best_bilateral_filter(noisy, clean, 3)
    assert decibels(rivals.bilateral_filter(noisy, 3, *best), clean) > decibels(
        rivals.bilateral_filter(noisy, 3, 1.0, 0.3), clean
    )


def test_glass_has_one_colour_for_each_pane_and_noise_of_the_stated_strength():
    glass = stained_glass(4, torch.Generator().manual_seed(0), side=11, panes=3)
    assert glass.shape == (4, 3, 11, 11)
    assert all(2 <= len(image.flatten(1).unique(dim=1).T) <= 3 for image in glass)
    noisy, clean = next(noisy_glass(seed=0, n=100))
    assert (noisy - clean).std().item() == pytest.approx(NOISE, rel=0.02)
    assert decibels(noisy, clean) == pytest.approx(13.98, abs=0.1)


def test_a_bilateral_filter_may_leave_out_the_pixel_itself():
    image = torch.zeros(1, 3, 5, 5)
    image[..., 2, 2] = 1.0
    filtered = rivals.bilateral_filter(image, 3, near=1e6, alike=30.0, itself=False)
    assert filtered[0, 0, 2, 2] == 0
    assert filtered[0, 0, 2, 3] == pytest.approx(1 / 8, abs=1e-3)


def test_two_passes_see_the_neighbours_of_the_neighbours_and_restore_more_than_one():
    image = torch.rand(1, 3, 9, 11, requires_grad=True)
    rivals.twice(image, 3, (2.0, 0.5), (2.0, 0.5))[0, :, 4, 5].sum().backward()
    rows, columns = image.grad[0].abs().sum(0).nonzero().T
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (2, 6, 3, 7)
    noisy, clean = next(noisy_glass(0, 20))
    first, second = rivals.best_twice(noisy, clean, 3)
    once = rivals.bilateral_filter(noisy, 3, *first, itself=False)
    assert decibels(rivals.twice(noisy, 3, first, second), clean) > decibels(once, clean) + 0.5
