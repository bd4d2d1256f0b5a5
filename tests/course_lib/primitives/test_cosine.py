"""Vectors of length 1, from any length, even if squares overflow or underflow, and at zero."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.primitives import unit

B, d = 5, 7


def test_by_hand():
    assert torch.equal(unit(torch.tensor([[3.0, 4.0], [0.0, -2.0]])), torch.tensor([[0.6, 0.8], [0.0, -1.0]]))


def test_it_is_torchs_normalize(normal, agree):
    agree(unit, lambda x: F.normalize(x, dim=-1), normal(2, B, d))


def test_gradients_against_differences(normal):
    assert torch.autograd.gradcheck(unit, normal(B, d))


def test_the_gradient_is_at_a_right_angle_to_the_vector(normal):
    x = normal(B, d)
    unit(x).backward(normal(B, d).detach())
    torch.testing.assert_close((x * x.grad).sum(-1), torch.zeros(B, dtype=torch.float64), atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e-30, 1e-8, 1.0, 1e8, 1e30])
def test_the_length_does_not_matter(normal, dtype, size):
    x = normal(B, d).detach()
    torch.testing.assert_close((unit((size * x).to(dtype))).double(), unit(x), atol=2 * torch.finfo(dtype).eps, rtol=0)


def test_zero_has_no_direction_and_a_finite_gradient():
    x = torch.zeros(2, 3, requires_grad=True)
    y = unit(x)
    y.sum().backward()
    assert torch.equal(y, torch.zeros(2, 3))
    assert x.grad.isfinite().all()
    assert x.grad.abs().max() <= 1
