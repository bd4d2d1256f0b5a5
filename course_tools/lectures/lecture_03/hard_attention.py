"""Estimates of the gradient of hard attention, one for each region that can be sampled, and their mean and variance."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.datasets import BEGIN
from course_lib.models import ShowAttendAndTell
from course_tools.lectures.lecture_03.captions import CaptionStepFunction, CaptionTask, captioner_weights
from course_tools.notebook.device import device

HardLoss = Callable[[Tensor, Tensor, Tensor, float], Tensor]
"""`(log_p, weights, looks, baseline)` → a scalar, as `course_lib.losses.hard_attention_loss`."""


@torch.no_grad()
def after_each_sample(
    soft_attention: Callable[..., tuple[Tensor, Tensor]],
    caption_step: CaptionStepFunction,
    model: ShowAttendAndTell,
    task: CaptionTask,
    index: int,
) -> tuple[Tensor, Tensor]:
    """Sample each of the 36 regions of a new image in turn before the first word.

    Returns:
        the weights (36,), which sum to 1, and log p (36,) of the right first word if that region alone is attended to.
    """
    a = task.new_regions[index].to(device())
    h, c = model.initial_state(a[None])
    y, (attention, *others) = model.words(torch.tensor([BEGIN], device=device())), captioner_weights(model)
    weights = soft_attention(a[None], h, *attention)[1][0].cpu().clamp(min=1e-6)
    y, h, c = (part.expand(len(a), -1) for part in (y, h, c))
    logits = caption_step(y, h, c, a[:, None], attention, *others)[0]
    return weights / weights.sum(), logits.log_softmax(-1)[:, task.new_captions[index, 1]].cpu()


def average_and_variance(loss: HardLoss, weights: Tensor, log_p: Tensor, baseline: float) -> tuple[Tensor, float]:
    """Estimate the gradient with respect to the scores from each sample; return their mean and variance.

    Args:
        loss: its gradient is minus the estimate.
        weights: (L,), the probability of each region.
        log_p: (L,), log p of the right word after each sample.
        baseline: what is subtracted from log p.

    Returns:
        the mean (L,), and the variance summed over the L scores.
    """
    n = len(weights)
    scores = weights.log().expand(n, 1, n).clone().requires_grad_()
    value = loss(log_p, scores.softmax(-1), torch.arange(n)[:, None], baseline)
    estimates = -n * torch.autograd.grad(value, scores)[0][:, 0]
    average = weights @ estimates
    return average, (weights @ (estimates - average).square().sum(-1)).item()


class BaselineComparison(NamedTuple):
    """Estimates for the first word of some images, without a baseline and with each image's expectation of log p as baseline.

    An error is the largest difference of an entry between the mean of the estimates and the gradient of the expected log p,
    over the images; a variance is summed over the images.
    """

    error_without: float
    error_with: float
    variance_without: float
    variance_with: float


def compare_baselines(
    loss: HardLoss,
    soft_attention: Callable[..., tuple[Tensor, Tensor]],
    caption_step: CaptionStepFunction,
    model: ShowAttendAndTell,
    task: CaptionTask,
    images: Iterable[int],
) -> BaselineComparison:
    """Estimate the gradient with respect to the scores from each region of each image, as `average_and_variance`.

    Args:
        loss: the loss of hard attention.
        soft_attention: computes the probability of each region.
        caption_step: computes log p of the right first word after each sample.
        model: on the device of the lectures.
        task: its test images are used.
        images: their indices.
    """
    errors, variances = [], []
    for image in images:
        weights, log_p = after_each_sample(soft_attention, caption_step, model, task, image)
        expected = (weights @ log_p).item()
        estimates = [average_and_variance(loss, weights, log_p, baseline) for baseline in (0.0, expected)]
        gradient = weights * (log_p - expected)
        errors.append([(average - gradient).abs().max().item() for average, _ in estimates])
        variances.append([variance for _, variance in estimates])
    return BaselineComparison(*map(max, zip(*errors, strict=True)), *map(sum, zip(*variances, strict=True)))
