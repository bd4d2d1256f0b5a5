"""Estimates of the gradient of hard attention, one for each region that can be sampled, and their mean and variance."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.datasets import BEGIN
from course_lib.models import ShowAttendAndTell
from course_tools.notebook.captioner_by_function import CaptionStepFunction, captioner_weights
from course_tools.notebook.captioning import CaptionTask
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
