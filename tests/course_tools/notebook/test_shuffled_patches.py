"""Images are shuffled all in the same way, and the text gives the share of the ink that remains in its pixels."""

import torch

from course_lib.primitives import patchify
from course_tools.notebook.shuffled_patches import random_orders, show_shuffled, shuffled


def test_patches_and_the_pixels_within_them_are_permuted_in_the_same_way_in_all_images():
    images, (order, inner) = torch.rand(2, 1, 6, 9), random_orders(6, 9, seed=5)
    before, after = patchify(images, 3), patchify(shuffled(images, 3, order, inner), 3)
    assert torch.equal(after, before[:, order][:, :, inner])
    assert not torch.equal(after, before)


def test_the_ink_that_remains_is_the_minimum_of_both(capsys):
    images, changed = torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2, 2)
    images[0, 0, 0], changed[0, 0, 0, 0] = torch.tensor([0.5, 1.5]), 0.75
    show_shuffled(images, changed, torch.tensor([7]))
    assert "1 digits, 7, in order, and all shuffled in the same way; 25 % of the ink" in capsys.readouterr().out
