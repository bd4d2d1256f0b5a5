"""Add & norm: the position of the normalisation, and its effect on the path of the gradient."""

import pytest
import torch
from torch import nn

from course_lib.blocks import post_norm, pre_norm

B, T, D = 2, 5, 7


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_by_hand():
    x = torch.tensor([1.0, 2.0])
    assert post_norm(x, lambda y: y + 1, lambda y: 10 * y).tolist() == [30.0, 50.0]
    assert pre_norm(x, lambda y: y + 1, lambda y: 10 * y).tolist() == [12.0, 23.0]


def test_post_norm_hands_on_normalised_vectors_and_pre_norm_does_not():
    x, sublayer, norm = 5 + drawn(B, T, D), nn.Linear(D, D).double(), nn.LayerNorm(D).double()
    assert post_norm(x, sublayer, norm).mean(-1).abs().max() < 1e-9
    assert pre_norm(x, sublayer, norm).mean(-1).abs().min() > 1


def test_pre_norm_leaves_a_path_on_which_the_gradient_is_one():
    x = drawn(B, T, D).requires_grad_()
    y = x
    for _ in range(50):
        y = pre_norm(y, torch.zeros_like, nn.LayerNorm(D).double())
    (gradient,) = torch.autograd.grad((y * drawn(B, T, D, seed=1)).sum(), x)
    assert torch.equal(gradient, drawn(B, T, D, seed=1))


@pytest.mark.parametrize("residual", [post_norm, pre_norm])
def test_the_input_is_left_as_it_was(residual):
    x = drawn(B, T, D)
    residual(x, lambda y: y * 2, nn.LayerNorm(D).double())
    assert torch.equal(x, drawn(B, T, D))
