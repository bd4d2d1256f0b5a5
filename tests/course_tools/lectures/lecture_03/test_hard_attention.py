"""Estimates of hard attention are unbiased with any baseline, and their variance is that of the samples."""

import pytest
import torch

from course_lib.losses import hard_attention_loss
from course_lib.models import ShowAttendAndTell, caption_step, soft_attention
from course_tools.lectures.lecture_03.hard_attention import after_each_sample, average_and_variance, compare_baselines

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


@pytest.fixture
def model_and_task():
    torch.manual_seed(0)
    model = ShowAttendAndTell(11, 66, 5, 13, 3)
    task = type("Task", (), {"new_regions": torch.randn(2, 36, 66), "new_captions": torch.tensor([[1, 4, 2], [1, 3, 2]])})
    return model, task


def test_each_region_is_sampled_once_before_the_first_word(model_and_task):
    model, task = model_and_task
    weights, log_p = after_each_sample(soft_attention, caption_step, model, task, 1)
    assert weights.shape == log_p.shape == (36,)
    assert weights.sum() == pytest.approx(1.0)
    assert (log_p < 0).all()
    assert log_p.unique().numel() > 30


def test_without_and_with_a_baseline_the_mean_is_right_and_the_variances_are_sums_over_the_images(model_and_task):
    steps = soft_attention, caption_step, *model_and_task
    found = compare_baselines(hard_attention_loss, *steps, [0, 1])
    assert max(found.error_without, found.error_with) < 1e-5
    assert found.variance_with < found.variance_without
    samples = [after_each_sample(*steps, image) for image in (0, 1)]
    alone = [average_and_variance(hard_attention_loss, weights, log_p, 0.0)[1] for weights, log_p in samples]
    assert found.variance_without == pytest.approx(sum(alone))


def test_a_loss_without_the_logarithm_of_the_weights_has_an_error(model_and_task):
    def biased(log_p, weights, looks, baseline):
        return -((log_p.detach() - baseline) * weights.gather(-1, looks[..., None]).sum((1, 2))).mean()

    assert compare_baselines(biased, soft_attention, caption_step, *model_and_task, [0]).error_with > 1e-4
