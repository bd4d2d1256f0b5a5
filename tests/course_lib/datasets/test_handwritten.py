"""The digits are small images in 0…1 with their labels."""

import torch

from course_lib.datasets import digits


def test_there_are_ten_kinds_of_pictures_about_equally_many():
    images, labels = digits()
    assert images.shape == (1797, 8, 8)
    assert images.dtype == torch.float32
    assert (images.min(), images.max()) == (0, 1)
    assert labels.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_a_zero_is_hollow_and_a_one_is_not():
    images, labels = digits()
    middle = images[:, 3:5, 3:5].mean((1, 2))
    assert middle[labels == 0].mean() < 0.3 < 0.7 < middle[labels == 1].mean()
