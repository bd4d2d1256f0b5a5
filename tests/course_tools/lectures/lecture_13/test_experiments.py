"""Images are shuffled all in the same way, and both orders are trained and measured on the same digits."""

import torch
from torch import nn

from course_lib.primitives import patchify
from course_tools.lectures.lecture_13.experiments import random_orders, show_both_orders, shuffled


def test_patches_and_the_pixels_within_them_are_permuted_in_the_same_way_in_all_images():
    images, (order, inner) = torch.rand(2, 1, 6, 9), random_orders(6, 9, seed=5)
    before, after = patchify(images, 3), patchify(shuffled(images, 3, order, inner), 3)
    assert torch.equal(after, before[:, order][:, :, inner])
    assert not torch.equal(after, before)


def test_both_orders_contain_the_same_pixels_and_are_measured_on_the_other_digits():
    given = []

    class Ink(nn.Module):
        def forward(self, images):
            return torch.zeros(len(images), 10).scatter(1, (images.sum((1, 2, 3))[:, None] > 0).long(), 1.0)

    def train_mixer(images, labels, n_classes, n_steps):
        given.append(images)
        return Ink()

    show_both_orders(train_mixer, (0,), "a constant", n_steps=1)
    in_order, moved = given
    assert in_order.shape == moved.shape == (1_297, 1, 8, 8)
    assert not torch.equal(in_order, moved)
    torch.testing.assert_close(in_order.sum((1, 2, 3)), moved.sum((1, 2, 3)))
