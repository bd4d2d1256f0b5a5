"""The photographs are tensors in 0…1, and resizing averages."""

import pytest
import torch

from course_lib.datasets import photographs, resize
from course_lib.datasets.sample_images import PHOTOGRAPHS


def test_the_photographs_are_two_colour_pictures():
    images = photographs()
    assert images.shape == (len(PHOTOGRAPHS), 3, 427, 640)
    assert images.dtype == torch.float32
    assert images.min() >= 0
    assert images.max() <= 1
    assert images.std() > 0.1


def test_the_dahlia_is_red_and_the_sky_over_the_temple_is_blue():
    china, flower = photographs((43, 64))
    assert china[2, 0].mean() > china[0, 0].mean()
    assert flower[0, 15:30, 15:50].mean() > 2 * flower[2, 15:30, 15:50].mean()


def test_halving_averages_blocks_by_hand():
    ramp = torch.arange(16.0).reshape(1, 1, 4, 4)
    smaller = resize(ramp, (1, 1))
    torch.testing.assert_close(smaller.flatten(), torch.tensor([7.5]))


def test_resizing_keeps_a_constant_picture():
    torch.testing.assert_close(resize(torch.full((2, 3, 7, 11), 0.3), (5, 13)), torch.full((2, 3, 5, 13), 0.3))


def test_resize_needs_a_pixel():
    with pytest.raises(ValueError, match="at least one pixel"):
        resize(torch.zeros(1, 1, 2, 2), (0, 3))
