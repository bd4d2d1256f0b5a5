"""Crops are cut out of their photograph, and their histograms are frequencies."""

import torch

from course_tools.lectures.lecture_16.colour_crops import colour_histograms, matched_by_histogram, random_crops


def test_crops_of_plain_images_have_the_histogram_of_their_image():
    photos = torch.tensor([0.1, 0.9]).view(2, 1, 1, 1).expand(2, 3, 11, 13)
    crops, origin = random_crops(photos, 5, 7, torch.Generator().manual_seed(0))
    assert crops.shape == (10, 3, 7, 7)
    histograms = colour_histograms(crops, 4)
    torch.testing.assert_close(histograms[0].view(3, 4), torch.tensor([1.0, 0, 0, 0]).expand(3, 4))
    assert origin.tolist() == [0] * 5 + [1] * 5


def test_colour_distortion_hides_which_crops_are_of_one_image():
    plain, distorted = matched_by_histogram(n_each=9, seed=1)
    assert 1 / 8 < distorted < plain <= 1
