"""Estimates of hard attention are unbiased with any baseline, and their variance is that of the samples."""

import pytest
import torch

from course_lib.losses import hard_attention_loss
from course_lib.models import ShowAttendAndTell, caption_step, soft_attention
from course_tools.notebook.reinforce_estimates import after_each_sample, average_and_variance

WEIGHTS, LOG_P = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([-1.0, -2.0, -0.5])


@pytest.mark.parametrize("baseline", [0.0, -1.2])
def test_the_mean_is_the_gradient_of_the_expected_log_p(baseline):
    scores = WEIGHTS.log().requires_grad_()
    (right,) = torch.autograd.grad(scores.softmax(-1) @ LOG_P, scores)
    average, variance = average_and_variance(hard_attention_loss, WEIGHTS, LOG_P, baseline)
    torch.testing.assert_close(average, right, atol=1e-5, rtol=1e-4)
    samples = (LOG_P - baseline)[:, None] * (torch.eye(3) - WEIGHTS)
    by_hand = (WEIGHTS @ (samples - WEIGHTS @ samples).square().sum(-1)).item()
    assert variance == pytest.approx(by_hand, rel=1e-4)


def test_each_region_is_sampled_once_before_the_first_word():
    torch.manual_seed(0)
    model = ShowAttendAndTell(11, 66, 5, 13, 3)
    task = type("Task", (), {"new_regions": torch.randn(2, 36, 66), "new_captions": torch.tensor([[1, 4, 2], [1, 3, 2]])})
    weights, log_p = after_each_sample(soft_attention, caption_step, model, task, 1)
    assert weights.shape == log_p.shape == (36,)
    assert weights.sum() == pytest.approx(1.0)
    assert (log_p < 0).all()
    assert log_p.unique().numel() > 30
