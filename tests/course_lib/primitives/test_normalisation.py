"""Layer and batch normalisation, and RMSNorm: the laws, torch's own, numbers by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.primitives import batch_norm, layer_norm, rms_norm

B, T, D = 2, 5, 7


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def parameters():
    return drawn(D, seed=1), drawn(D, seed=2)


def test_layer_norm_is_torchs():
    x, (gain, bias) = 3 + 2 * drawn(B, T, D), parameters()
    torch.testing.assert_close(layer_norm(x, gain, bias), nn.functional.layer_norm(x, (D,), gain, bias))


def test_batch_norm_is_torchs_while_training():
    x, (gain, bias) = 3 + 2 * drawn(B, T, D), parameters()
    theirs = nn.functional.batch_norm(x.flatten(0, 1), None, None, gain, bias, training=True)
    torch.testing.assert_close(batch_norm(x, gain, bias), theirs.view_as(x))


def test_a_layer_norm_by_hand():
    ones, zeros = torch.ones(2), torch.zeros(2)
    expected = torch.tensor([-1.0, 1.0]) / math.sqrt(1 + 3)
    torch.testing.assert_close(layer_norm(torch.tensor([4.0, 6.0]), ones, zeros, epsilon=3.0), expected)


def test_rms_norm_is_torchs():
    x, (gain, _) = 3 + 2 * drawn(B, T, D), parameters()
    torch.testing.assert_close(rms_norm(x, gain, 0.1), nn.functional.rms_norm(x, (D,), gain, 0.1))


def test_an_rms_norm_by_hand():
    """The root of the mean square of 3 and 4, with ε = 3.5, is 4."""
    normed = rms_norm(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 2.0]), epsilon=3.5)
    torch.testing.assert_close(normed, torch.tensor([0.75, 2.0]))


def test_a_gain_of_another_size_is_refused():
    with pytest.raises(ValueError, match="rms_norm"):
        rms_norm(torch.ones(5, 1), torch.ones(7))


def test_rms_norm_of_features_of_mean_zero_is_layer_norm_without_a_bias():
    x, (gain, bias) = 2 * drawn(B, T, D), parameters()
    centred = x - x.mean(-1, keepdim=True)
    torch.testing.assert_close(rms_norm(centred, gain, 1e-5), layer_norm(x, gain, 0 * bias))
    assert (rms_norm(x, gain, 1e-5) - layer_norm(x, gain, 0 * bias)).abs().max() > 0.01


def test_rms_norm_forgets_the_size_but_not_the_offset_of_its_input():
    x, (gain, _) = drawn(B, T, D), parameters()
    torch.testing.assert_close(rms_norm(100 * x, gain, 0.0), rms_norm(x, gain, 0.0))
    assert (rms_norm(x + 7, gain, 0.0) - rms_norm(x, gain, 0.0)).abs().max() > 0.1


def test_layer_norm_does_not_see_the_other_positions():
    x, (gain, bias) = drawn(B, T, D).requires_grad_(), parameters()
    (gradient,) = torch.autograd.grad((layer_norm(x, gain, bias)[0, 2] * drawn(D, seed=3)).sum(), x)
    assert gradient[0, 2].abs().sum() > 0
    gradient[0, 2] = 0
    assert (gradient == 0).all()


def test_batch_norm_sees_the_whole_batch():
    x, (gain, bias) = drawn(B, T, D).requires_grad_(), parameters()
    (gradient,) = torch.autograd.grad((batch_norm(x, gain, bias)[0, 2] * drawn(D, seed=3)).sum(), x)
    assert (gradient.abs().sum(-1) > 0).all()


def test_layer_norm_forgets_the_size_and_the_offset_of_its_input():
    x, (gain, bias) = drawn(B, T, D), parameters()
    torch.testing.assert_close(layer_norm(100 * x - 7, gain, bias, 0.0), layer_norm(x, gain, bias, 0.0))


@pytest.mark.parametrize("norm", [layer_norm, batch_norm])
def test_gradients_are_right(norm):
    inputs = [t.requires_grad_() for t in (drawn(B, T, D), *parameters())]
    assert torch.autograd.gradcheck(norm, inputs)


def test_the_gradients_of_rms_norm_are_right():
    assert torch.autograd.gradcheck(rms_norm, [drawn(B, T, D).requires_grad_(), drawn(D, seed=1).requires_grad_()])


def test_a_constant_vector_becomes_the_bias():
    gain, bias = parameters()
    torch.testing.assert_close(layer_norm(torch.full((3, D), 5.0, dtype=torch.float64), gain, bias), bias.expand(3, D))


@pytest.mark.parametrize("n", [0, 1])
def test_a_batch_of_one_vector_is_refused(n):
    with pytest.raises(ValueError, match="at least two vectors"):
        batch_norm(torch.zeros(n, D), torch.ones(D), torch.zeros(D))


@pytest.mark.parametrize("scale", [3, 300, 1_000, 10_000])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_large_numbers_have_the_norm_of_torchs_own(dtype, scale):
    """The square of 300 overflows float16: a variance of infinity would give zeros, without a warning."""
    x = (scale * torch.randn(5, 7, 64, generator=torch.Generator().manual_seed(0))).clamp(-6e4, 6e4).to(dtype).requires_grad_()
    gain, bias = torch.linspace(0.5, 2, 64).to(dtype), torch.linspace(-1, 1, 64).to(dtype)
    for ours, theirs in (
        (layer_norm(x, gain, bias), F.layer_norm(x, (64,), gain, bias)),
        (batch_norm(x, gain, bias), F.batch_norm(x.flatten(0, 1), None, None, gain, bias, training=True).view_as(x)),
        (rms_norm(x, gain), F.rms_norm(x, (64,), gain, 1e-6)),
    ):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours, theirs, atol=16 * torch.finfo(dtype).eps, rtol=4 * torch.finfo(dtype).eps)
        assert ours.detach().abs().amax() > 1
        (gradient,) = torch.autograd.grad(ours[..., ::3].sum(), x)
        assert gradient.isfinite().all()
