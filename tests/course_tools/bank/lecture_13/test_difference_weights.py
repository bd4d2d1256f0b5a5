"""Weights set by hand make token mixing return differences."""

import torch

from course_lib.blocks import token_mixing
from course_tools.bank.lecture_13.difference_weights import difference_weights


def test_difference_weights_return_about_the_absolute_difference_to_the_counterpart():
    """Positions 0 and 2 of the image belong together, and 1 and 3; they arrive as 3, 0, 2, 1, each with a gain of its own."""
    gain = torch.tensor([1.0, -0.5, 0.25, -1.0])
    order, counterpart = torch.tensor([3, 0, 2, 1]), torch.tensor([2, 3, 0, 1])
    image = 5 * torch.randn(1, 4, 7, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    mixed = token_mixing(image[:, order] * gain[:, None], *(w.double() for w in difference_weights(order, counterpart, gain)))
    away = mixed - (image - image[:, [2, 3, 0, 1]])[:, order].abs()
    assert away.max() <= 1e-12
    assert away.min() > -0.34
