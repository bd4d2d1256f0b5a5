"""Rivals have about as many parameters as local attention, and see its window alone."""

import pytest
import torch

from course_tools.lectures.lecture_10 import rivals


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
