"""The bilateral filter averages what is near and alike, and its widths are the best; so is the kernel."""

import pytest
import torch
import torch.nn.functional as F

from course_tools.bank.fixed_filters import best_bilateral_filter, best_twice, bilateral_filter, by_the_best_kernel, twice
from course_tools.bank.stained_glass import decibels, noisy_glass


def test_the_bilateral_filter_gives_the_numbers_worked_by_hand():
    row = torch.tensor([0.9, 0.8, 0.1]).expand(1, 3, 1, 3) / 3**0.5  # of each channel: the difference in colour is that of one
    filtered = bilateral_filter(row, 3, near=1e6, alike=0.2)
    assert filtered[0, 0, 0, 1] * 3**0.5 == pytest.approx(0.846, abs=1e-3)


def test_the_bilateral_filter_with_wide_gaussians_is_the_mean_of_what_is_inside():
    image = torch.rand(2, 3, 5, 7)
    filtered = bilateral_filter(image, 3, near=1e6, alike=30.0)
    torch.testing.assert_close(filtered[..., 0, 0], image[..., :2, :2].mean((-2, -1)), atol=1e-3, rtol=0)
    torch.testing.assert_close(filtered[..., 2, 3], image[..., 1:4, 2:5].mean((-2, -1)), atol=1e-3, rtol=0)


def test_the_chosen_widths_have_the_least_error():
    noisy, clean = next(noisy_glass(0, 20))
    best = best_bilateral_filter(noisy, clean, 3)
    assert decibels(bilateral_filter(noisy, 3, *best), clean) > decibels(bilateral_filter(noisy, 3, 1.0, 0.3), clean)


def test_a_bilateral_filter_may_leave_out_the_pixel_itself():
    image = torch.zeros(1, 3, 5, 5)
    image[..., 2, 2] = 1.0
    filtered = bilateral_filter(image, 3, near=1e6, alike=30.0, itself=False)
    assert filtered[0, 0, 2, 2] == 0
    assert filtered[0, 0, 2, 3] == pytest.approx(1 / 8, abs=1e-3)


def test_two_passes_see_the_neighbours_of_the_neighbours_and_restore_more_than_one():
    image = torch.rand(1, 3, 9, 11, requires_grad=True)
    twice(image, 3, (2.0, 0.5), (2.0, 0.5))[0, :, 4, 5].sum().backward()
    rows, columns = image.grad[0].abs().sum(0).nonzero().T
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (2, 6, 3, 7)
    noisy, clean = next(noisy_glass(0, 20))
    first, second = best_twice(noisy, clean, 3)
    once = bilateral_filter(noisy, 3, *first, itself=False)
    assert decibels(twice(noisy, 3, first, second), clean) > decibels(once, clean) + 0.5


def test_no_kernel_has_a_smaller_error_than_the_best():
    noisy, clean = torch.rand(2, 7, 3, 5, 6)
    best = by_the_best_kernel(noisy, clean, noisy, size=3).requires_grad_()
    F.mse_loss(best, clean).backward()
    against = F.conv2d(noisy.transpose(0, 1), best.grad.transpose(0, 1), padding=1)  # how the error changes with the kernel
    assert against.abs().max() < 1e-4
