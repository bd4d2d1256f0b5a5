"""The loss of hard attention: by hand, and its expected gradient is the gradient of the expectation."""

from itertools import product
from math import log

import pytest
import torch

from course_lib.losses import hard_attention_loss

B, T, L = 2, 3, 5


def test_by_hand():
    """log p = -2, usually -1; looks of weight ½ and ¼; entropies of one bit and one and a half."""
    weights = torch.tensor([[[0.5, 0.5, 1e-30], [0.25, 0.5, 0.25]]])
    log_looks, entropy = log(1 / 2) + log(1 / 4), log(2) + 1.5 * log(2)
    loss = hard_attention_loss(torch.tensor([-2.0]), weights, torch.tensor([[1, 2]]), baseline=-1.0, entropy_weight=0.1)
    assert loss.item() == pytest.approx(2 + log_looks - 0.1 * entropy)


@pytest.mark.parametrize("baseline", [0.0, -3.0])
def test_the_expected_gradient_is_that_of_the_expected_log_p_whatever_the_baseline(normal, baseline):
    """Every sequence of looks, weighted by its probability: the average of the estimates is exact."""
    scores, fit = normal(1, T, L), normal(T, L)

    def log_p_of(looks):
        return fit[torch.arange(T), looks].sum() + fit[0, looks[1]] * fit[1, looks[0]]

    weights = scores.softmax(-1)
    expected, estimate = 0.0, [torch.zeros_like(scores), torch.zeros_like(fit)]
    for chosen in product(range(L), repeat=T):
        looks = torch.tensor(chosen)
        p = weights[0, torch.arange(T), looks].prod()
        expected = expected + p * log_p_of(looks)
        loss = hard_attention_loss(log_p_of(looks)[None], scores.softmax(-1), looks[None], baseline)
        for total, gradient in zip(estimate, torch.autograd.grad(loss, [scores, fit]), strict=True):
            total -= p.detach() * gradient
    for ours, theirs in zip(estimate, torch.autograd.grad(expected, [scores, fit]), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_entropy_alone_makes_the_weights_even(normal):
    scores = normal(B, T, L).detach().requires_grad_()
    looks = torch.zeros(B, T, dtype=torch.long)
    for _ in range(200):
        loss = hard_attention_loss(torch.zeros(B, dtype=torch.float64), scores.softmax(-1), looks, 0.0, entropy_weight=1.0)
        (gradient,) = torch.autograd.grad(loss, scores)
        scores.data -= 5 * gradient
    torch.testing.assert_close(scores.softmax(-1), torch.full_like(scores, 1 / L), atol=1e-3, rtol=0)


def test_what_is_as_good_as_the_baseline_teaches_the_looks_nothing(normal):
    weights, log_p = normal(B, T, L).softmax(-1).detach().requires_grad_(), torch.full((B,), -1.5, requires_grad=True)
    hard_attention_loss(log_p, weights, torch.ones(B, T, dtype=torch.long), baseline=-1.5).backward()
    assert (weights.grad == 0).all()
    assert log_p.grad.tolist() == [-0.5, -0.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_weights_that_rounding_made_0_have_no_entropy_and_no_nan(dtype):
    """By hand: one region has all the weight, and was looked at; log 1 = 0, and 0 · log 0 counts as 0."""
    scores = torch.tensor([[[0.0, -3000.0, -3000.0]]], dtype=dtype, requires_grad=True)
    log_p = torch.tensor([-2.0], dtype=dtype)
    loss = hard_attention_loss(log_p, scores.softmax(-1), torch.tensor([[0]]), baseline=-1.0, entropy_weight=0.5)
    assert loss == 2
    loss.backward()
    assert (scores.grad == 0).all()
    unlikely = hard_attention_loss(log_p, scores.softmax(-1), torch.tensor([[1]]), baseline=-1.0, entropy_weight=0.5)
    assert unlikely.isfinite()
    assert torch.autograd.grad(unlikely, scores)[0].isfinite().all()


def test_gradients_against_differences_where_the_reward_is_given(normal):
    scores, looks = normal(B, T, L), torch.randint(L, (B, T), generator=torch.Generator().manual_seed(0))
    log_p = normal(B).detach()
    assert torch.autograd.gradcheck(lambda s: hard_attention_loss(log_p, s.softmax(-1), looks, 0.5, 0.3), scores)
