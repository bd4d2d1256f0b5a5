"""Gradients through time: run a recurrent step forward and backward over a sequence, and measure what is left of its gradient.

`rnn_step` and `bptt_step` are arguments: the lecture passes the student's.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from course_lib.datasets import digits

RecurrentStep = Callable[..., Tensor]
"""`(x, h, W, U, b)` → the new state, as `course_lib.primitives.rnn_step`."""
BackwardStep = Callable[..., Sequence[Tensor]]
"""`(∂L/∂h_t, x, h, h_t, W, U)` → the gradients of x, h, W, U and b, as `course_lib.primitives.bptt_step`."""


def digit_pixels(n: int) -> Tensor:
    """Return the first n handwritten digits as x (64, n, 1) in float64, one pixel per step."""
    return digits()[0][:n].flatten(1).T[..., None].double()


def torch_weights(d: int, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return W (n, d), U (n, n) and b (n,) in float64, drawn as torch draws those of a plain network."""
    torch.manual_seed(0)
    W, U, b_W, b_U = (p.detach().double() for p in nn.RNN(d, n).parameters())
    return W, U, b_W + b_U


def states_of(step: RecurrentStep, x: Tensor, h: Tensor, W: Tensor, U: Tensor, b: Tensor) -> list[Tensor]:
    """Read x (T, B, d) from the state h (B, n); return all T + 1 states, h first."""
    states = [h]
    for x_t in x:
        states.append(step(x_t, states[-1], W, U, b))
    return states


def back_through_time(
    step: BackwardStep, grad: Tensor, x: Tensor, states: Sequence[Tensor], W: Tensor, U: Tensor
) -> list[Tensor]:
    """Propagate ∂L/∂h_T (B, n) back to h_0 for inputs x (T, B, d) and the T + 1 states that they gave.

    Returns:
        the gradients of W, U and b.
    """
    sums = [torch.zeros_like(p) for p in (W, U, W[:, 0])]
    for t in reversed(range(len(x))):
        _, grad, *parts = step(grad, x[t], states[t], states[t + 1], W, U)
        sums = [total + part for total, part in zip(sums, parts, strict=True)]
    return sums


def both_ways(step: RecurrentStep, back_step: BackwardStep, x: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Compute the gradients of W, U and b by `back_step` and by autograd, for L = Σ h_T² after x (T, B, d).

    Returns:
        two vectors with all entries of the three gradients.
    """
    parameters = [p.clone().requires_grad_() for p in weights]
    states = states_of(step, x, x.new_zeros(x.shape[1], len(weights[1])), *parameters)
    by_autograd = torch.autograd.grad(states[-1].square().sum(), parameters)
    constant, (W, U, _) = [h.detach() for h in states], weights
    by_hand = back_through_time(back_step, 2 * constant[-1], x, constant, W, U)
    by_hand, by_autograd = (torch.cat([g.flatten() for g in found]) for found in (by_hand, by_autograd))
    return by_hand, by_autograd


def steps_reached(step: RecurrentStep, x: Tensor, weights: Sequence[Tensor], k: int) -> list[int]:
    """Return how many steps back the gradient of Σ h_T² reaches if x (T, B, d) is read in segments of k steps.

    The state is carried from segment to segment without its gradient. An input at the last step is 0 steps back; every input
    whose gradient is not 0 is listed, the earliest first.
    """
    source, state = x.clone().requires_grad_(), x.new_zeros(x.shape[1], len(weights[1]))
    for segment in source.split(k):
        state = states_of(step, segment, state.detach(), *weights)[-1]
    (by_step,) = torch.autograd.grad(state.square().sum(), source)
    return (len(x) - 1 - by_step.abs().amax(dim=(1, 2)).nonzero().flatten()).tolist()


def gradient_norms(step: RecurrentStep, x: Tensor, radius: float, input_scale: float, n: int = 64) -> list[float]:
    """Measure the norm of a random gradient 0 to T steps back, over its norm at the end, for U = radius · orthogonal and b = 0.

    Args:
        step: one step forward.
        x: (T, B, d) in float64.
        radius: all singular values of U.
        input_scale: standard deviation of the entries of W.
        n: number of units.
    """
    generator = torch.Generator().manual_seed(0)
    W, random, grad = (torch.randn(size, generator=generator).double() for size in ((n, x.shape[2]), (n, n), (x.shape[1], n)))
    W, U = input_scale * W, radius * torch.linalg.qr(random).Q
    states = states_of(step, x, x.new_zeros(x.shape[1], n).requires_grad_(), W, U, x.new_zeros(n))
    norms = [found.norm().item() for found in torch.autograd.grad((states[-1] * grad).sum(), states)]
    return [norm / norms[-1] for norm in reversed(norms)]
