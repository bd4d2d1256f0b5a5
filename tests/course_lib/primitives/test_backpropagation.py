"""Back-propagation by hand is autograd's; the carousel carries a gradient by its forget gates; clipping keeps the direction."""

import math

import pytest
import torch
from torch import nn

from course_lib.primitives import bptt_step, carousel_gradient, clip_gradients, lstm_step, rnn_step

B, T, d, n = 3, 5, 7, 11


def test_a_step_back_by_hand():
    """h' = ½, so δ = 4 (1 - ¼) = 3; with x = 2, h = -1, W = 5, U = 10."""
    one = lambda number: torch.tensor([[number]])  # noqa: E731
    gradients = bptt_step(one(4.0), x=one(2.0), h=one(-1.0), h_new=one(0.5), W=one(5.0), U=one(10.0))
    assert [g.item() for g in gradients] == [15.0, 30.0, 6.0, -3.0, 3.0]


def test_a_step_back_is_autograds(normal):
    x, h, W, U, b = normal(B, d), normal(B, n), normal(n, d), normal(n, n), normal(n)
    h_new, pull = rnn_step(x, h, W, U, b), normal(B, n).detach()
    expected = torch.autograd.grad(h_new, (x, h, W, U, b), pull)
    torch.testing.assert_close(tuple(bptt_step(pull, x, h, h_new, W, U)), expected)


def test_steps_chained_back_through_time_are_autograds(normal):
    x, h_0, W, U, b = normal(T, B, d), normal(B, n), normal(n, d), normal(n, n, scale=n**-0.5), normal(n)
    pulls = normal(T, B, n).detach()
    states = [h_0]
    for x_t in x:
        states.append(rnn_step(x_t, states[-1], W, U, b))
    loss = sum((pull * state).sum() for pull, state in zip(pulls, states[1:], strict=True))
    expected = torch.autograd.grad(loss, (x, h_0, W, U, b))

    grad_h, from_inputs = torch.zeros_like(h_0), []
    grad_W, grad_U, grad_b = torch.zeros_like(W), torch.zeros_like(U), torch.zeros_like(b)
    for t in reversed(range(T)):
        step = bptt_step(grad_h + pulls[t], x[t], states[t], states[t + 1], W, U)
        grad_h = step.h
        from_inputs.insert(0, step.x)
        grad_W, grad_U, grad_b = grad_W + step.W, grad_U + step.U, grad_b + step.b
    torch.testing.assert_close((torch.stack(from_inputs), grad_h, grad_W, grad_U, grad_b), expected)


def test_a_saturated_step_passes_nothing_back(normal):
    h_new = normal(B, n).sign()
    assert not any(g.any() for g in bptt_step(normal(B, n), normal(B, d), normal(B, n), h_new, normal(n, d), normal(n, n)))


def test_the_step_back_is_differentiable(normal):
    small = normal(2, 3), normal(2, 2), normal(2, 3), normal(2, 3), normal(3, 2), normal(3, 3)
    assert torch.autograd.gradcheck(lambda *t: tuple(bptt_step(*t)), small)


def test_a_carousel_by_hand():
    gates = torch.tensor([[0.5, 1.0], [0.5, 0.0], [0.25, 1.0]])
    assert carousel_gradient(gates).tolist() == [0.0625, 0.0]


def test_a_carousel_of_open_gates_keeps_the_gradient_whole():
    assert (carousel_gradient(torch.ones(1000, B, n)) == 1).all()


def test_a_carousel_that_never_turns_keeps_the_gradient_whole():
    assert (carousel_gradient(torch.empty(0, B, n)) == 1).all()


def test_the_carousel_carries_the_gradient_of_an_lstm(normal):
    """∂c_T/∂c_0 by autograd, with the gates' own path through h held out: the product of the forget gates."""
    x, h_0, c_0 = normal(T, B, d), normal(B, n), normal(B, n)
    W, U, b = normal(4 * n, d, scale=0.3), normal(4 * n, n, scale=0.3), normal(4 * n)
    h, c, forget_gates = h_0, c_0, []
    for x_t in x:
        _, f, _, _ = (x_t @ W.T + h @ U.T + b).chunk(4, dim=-1)
        forget_gates.append(f.sigmoid())
        h, c = lstm_step(x_t, h, c, W, U, b)
        h = h.detach()
    gradient = carousel_gradient(torch.stack(forget_gates))
    by_autograd = torch.autograd.functional.jacobian(lambda c: run_with_h_held(x, h_0, c, W, U, b), c_0)
    expected = torch.zeros_like(by_autograd)
    for batch in range(B):
        for unit in range(n):
            expected[batch, unit, batch, unit] = gradient[batch, unit]
    torch.testing.assert_close(by_autograd, expected, atol=1e-12, rtol=1e-10)
    assert (gradient > 0).all()


def run_with_h_held(x, h, c, W, U, b):
    for x_t in x:
        h, c = lstm_step(x_t, h, c, W, U, b)
        h = h.detach()
    return c


def test_the_carousel_is_differentiable_even_through_a_shut_gate(normal):
    gates = normal(T, 2, 3).sigmoid().detach()
    gates[2, 0, 0] = 0
    assert torch.autograd.gradcheck(carousel_gradient, gates.requires_grad_())


def test_clipping_by_hand():
    """The joint norm of (3, 0) and (4) is 5; at most 1 makes a fifth of each."""
    clipped = clip_gradients([torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])], max_norm=1.0)
    torch.testing.assert_close(clipped, [torch.tensor([0.6, 0.0]), torch.tensor([[0.8]])])


@pytest.mark.parametrize("max_norm", [1e-3, 1.0, 7.0, 1e6])
def test_clipping_is_torchs_own(normal, max_norm):
    gradients = [normal(n, d), normal(n, n), normal(n)]
    parameters = [nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = g.detach().clone()
    norm = nn.utils.clip_grad_norm_(parameters, max_norm)
    assert 7 < norm < 1e6
    torch.testing.assert_close(clip_gradients(gradients, max_norm), [p.grad for p in parameters], rtol=1e-5, atol=0)


def test_clipping_shortens_to_the_threshold_and_keeps_the_direction(normal):
    gradients = [normal(n, d, scale=1e6), normal(n, scale=1e-6)]
    whole, clipped = (torch.cat([g.flatten() for g in tensors]) for tensors in (gradients, clip_gradients(gradients, 0.5)))
    assert clipped.norm().item() == pytest.approx(0.5)
    assert torch.cosine_similarity(whole, clipped, dim=0).item() == pytest.approx(1)


def test_short_gradients_stay_as_they_are(normal):
    gradients = [normal(n, d), normal(n)]
    length = math.sqrt(sum(g.square().sum().item() for g in gradients))
    for before, after in zip(gradients, clip_gradients(gradients, 1.001 * length), strict=True):
        assert (before == after).all()


def test_gradients_of_zero_stay_zero():
    (clipped,) = clip_gradients([torch.zeros(n)], 1.0)
    assert (clipped == 0).all()


@pytest.mark.parametrize("max_norm", [0.0, -1.0, math.nan])
def test_clipping_refuses_a_threshold_that_is_not_positive(max_norm):
    with pytest.raises(ValueError, match="max_norm must be above 0"):
        clip_gradients([torch.ones(3)], max_norm)


def test_clipping_changes_no_gradient_in_place(normal):
    gradients = [normal(n, d), normal(n)]
    before = [g.detach().clone() for g in gradients]
    clip_gradients(gradients, 1e-3)
    assert all((now == then).all() for now, then in zip(gradients, before, strict=True))


def test_clipping_is_differentiable(normal):
    assert torch.autograd.gradcheck(lambda *g: tuple(clip_gradients(g, 1.0)), (normal(3, 2), normal(5)))


@pytest.mark.parametrize(("dtype", "size"), [(torch.float16, 3e4), (torch.bfloat16, 1e30), (torch.float32, 1e30)])
def test_the_norm_of_large_gradients_does_not_overflow(dtype, size):
    clipped = clip_gradients([torch.full((3,), size, dtype=dtype), torch.full((1,), size, dtype=dtype)], 1.0)
    for gradient in clipped:
        torch.testing.assert_close(gradient, torch.full_like(gradient, 0.5), rtol=1e-2, atol=0)


def test_no_gradients_and_zero_gradients_stay_as_they_are():
    assert clip_gradients([], 1.0) == []
    assert clip_gradients([torch.zeros(3)], 1.0)[0].tolist() == [0.0, 0.0, 0.0]


def test_a_factor_too_small_for_half_precision_still_shortens_to_the_threshold():
    """1 / 3e7 is not representable in float16: rounded before the product, it would leave a norm of 1.8."""
    (clipped,) = clip_gradients([torch.full((10**6,), 3e4, dtype=torch.float16)], 1.0)
    assert clipped.dtype == torch.float16
    assert clipped.float().norm().item() == pytest.approx(1.0, rel=2e-3)
