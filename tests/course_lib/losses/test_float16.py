"""Losses of float16 logits: the sum over many tokens exceeds 65,504, its mean does not."""

import pytest
import torch
from torch import Tensor

from course_lib.losses import (
    distillation_loss,
    label_smoothed_loss,
    mlm_loss,
    next_token_loss,
    teacher_forced_loss,
)

B, T, N = 32, 1024, 17
TARGET = torch.randint(1, N, (B, T), generator=torch.Generator().manual_seed(0))
LOSSES = {
    "teacher forcing": lambda x: teacher_forced_loss(x, TARGET, 0),
    "smoothed labels": lambda x: label_smoothed_loss(x, TARGET, 0),
    "next token": lambda x: next_token_loss(x, TARGET),
    "next token, some": lambda x: next_token_loss(x, TARGET, TARGET > 0),
    "masked words": lambda x: mlm_loss(x, TARGET, TARGET > 0),
    "distillation": lambda x: distillation_loss(x.flatten(0, 1), x.flatten(0, 1).flip(0), TARGET.flatten(), 2.0, 0.5),
}


def of(loss: str, x: Tensor) -> tuple[Tensor, Tensor]:
    """The loss and its gradient at x."""
    x = x.clone().requires_grad_()
    value = LOSSES[loss](x)
    return value.detach(), torch.autograd.grad(value, x)[0]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_in_half_precision_is_that_of_float32_rounded(loss):
    logits = torch.randn(B, T, N, generator=torch.Generator().manual_seed(1)).half()
    (value, gradient), (expected, exact) = of(loss, logits), of(loss, logits.float())
    assert value.dtype == gradient.dtype == torch.float16
    torch.testing.assert_close(value, expected.half())
    torch.testing.assert_close(gradient, exact.half())


@pytest.mark.parametrize("loss", LOSSES)
def test_under_autocast_a_loss_is_float32(loss):
    logits = torch.randn(B, T, N, generator=torch.Generator().manual_seed(1)).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        assert LOSSES[loss](logits).dtype == torch.float32
