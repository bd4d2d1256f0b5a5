"""Classifiers trained on images in order and on shuffled ones."""

import torch
from torch import nn

from course_tools.lectures.lecture_13.experiments import first_losses, show_both_orders


def test_the_first_losses_fall_and_the_same_seed_gives_the_same_ones():
    torch.manual_seed(0)
    images, labels = torch.randn(64, 1, 2, 3), torch.arange(64) % 2
    images[labels == 1] += 3

    def losses(seed):
        torch.manual_seed(1)
        return first_losses(nn.Sequential(nn.Flatten(), nn.Linear(6, 2)), images, labels, seed)

    assert losses(0) == losses(0) != losses(5)
    assert len(losses(0)) == 40
    assert losses(0)[-1] < losses(0)[0]


def test_both_orders_contain_the_same_pixels_and_are_measured_on_the_other_digits(capsys):
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
    assert "a constant: in order 0.1" in capsys.readouterr().out.replace("0.09", "0.1")
