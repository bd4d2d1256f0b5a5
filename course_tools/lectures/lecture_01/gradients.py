"""Gradients through time: run a recurrent step forward and backward over a sequence, and measure how its gradient vanishes."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import digits
from course_lib.fast import fused_gru, hoisted_rnn
from course_lib.primitives import GRU, LSTM, RNN
from course_lib.truncated_bptt import detached
from course_tools.notebook.plots import curves
from course_tools.notebook.show import show

# Run a step of a recurrent network over a sequence, forward and backward, and measure how its gradient vanishes or explodes.
#
# `rnn_step`, `bptt_step` and `lstm_step` are arguments: the lecture passes the student's.


RecurrentStep = Callable[..., Tensor]
"""`(x, h, W, U, b)` → the new state, as `course_lib.primitives.rnn_step`."""
BackwardStep = Callable[..., Sequence[Tensor]]
"""`(∂L/∂h_t, x, h, h_t, W, U)` → the gradients of x, h, W, U and b, as `course_lib.primitives.bptt_step`."""


def digit_pixels(n: int) -> tuple[Tensor, list[int]]:
    """Return the first n handwritten digits as x (64, n, 1) in float64, one pixel per step, and their labels."""
    images, labels = digits()
    return images[:n].flatten(1).T[..., None].double(), labels[:n].tolist()


def parameters_of(cell: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
    """Return W, U and the sum of both biases of a recurrent layer of torch or of the library, in float64 on the CPU."""
    W, U, b_W, b_U = (p.detach().double().cpu() for p in cell.parameters())
    return W, U, b_W + b_U


def torch_weights(d: int, n: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return W (n, d), U (n, n) and b (n,) in float64 as torch initialises a plain network by this seed."""
    torch.manual_seed(seed)
    return parameters_of(nn.RNN(d, n))


def states_of(step: RecurrentStep, x: Tensor, h: Tensor, W: Tensor, U: Tensor, b: Tensor) -> list[Tensor]:
    """Read x (T, B, d) from the state h (B, n); return all T + 1 states, h first."""
    states = [h]
    for x_t in x:
        states.append(step(x_t, states[-1], W, U, b))
    return states


def back_through_time(
    step: BackwardStep, grad: Tensor, x: Tensor, states: Sequence[Tensor], W: Tensor, U: Tensor
) -> tuple[list[Tensor], list[float]]:
    """Propagate ∂L/∂h_T (B, n) back to h_0 for inputs x (T, B, d) and the T + 1 states that they gave.

    Returns:
        the gradients of W, U and b, and the norm of ∂L/∂h at each of the T + 1 states, the last state first.
    """
    sums, norms = [torch.zeros_like(p) for p in (W, U, W[:, 0])], [grad.norm().item()]
    for t in reversed(range(len(x))):
        _, grad, *parts = step(grad, x[t], states[t], states[t + 1], W, U)
        sums = [total + part for total, part in zip(sums, parts, strict=True)]
        norms.append(grad.norm().item())
    return sums, norms


def difference_to_autograd(step: RecurrentStep, back_step: BackwardStep, x: Tensor, weights: Sequence[Tensor]) -> float:
    """Compare gradients by `back_step` with those of autograd, for the loss L = Σ h_T² after reading x (T, B, d) from state 0.

    Returns:
        the norm of the difference over that of autograd's gradients, all entries of W, U and b together.
    """
    parameters = [p.clone().requires_grad_() for p in weights]
    states = states_of(step, x, x.new_zeros(x.shape[1], len(weights[1])), *parameters)
    by_autograd = torch.autograd.grad(states[-1].square().sum(), parameters)
    constant, (W, U, _) = [h.detach() for h in states], weights
    by_hand, _ = back_through_time(back_step, 2 * constant[-1], x, constant, W, U)
    ours, theirs = (torch.cat([g.flatten() for g in gradients]) for gradients in (by_hand, by_autograd))
    return ((ours - theirs).norm() / theirs.norm()).item()


def print_differences_to_autograd(
    step: RecurrentStep, back_step: BackwardStep, x: Tensor, weights: Sequence[Tensor], lengths: Sequence[int]
) -> None:
    """Print the difference of `difference_to_autograd` over the last t ≤ T steps of x (T, B, d), for each t of `lengths`."""
    for t in lengths:
        difference = difference_to_autograd(step, back_step, x[len(x) - t :], weights)
        print(f"{t} step{'s' * (t != 1)}: relative difference from autograd {difference:.1e}")


def rnn_difference_to_torch(step: RecurrentStep, x: Tensor, weights: tuple[Tensor, Tensor, Tensor]) -> float:
    """Read x (T, B, d) in float64 from state 0 by `step` and by torch.nn.RNN, both with the weights W, U and b.

    Returns:
        the largest difference of an entry of a state, over all T steps.
    """
    W, U, b = weights
    layer = nn.RNN(x.shape[2], len(U)).double()
    for parameter, value in zip(layer.parameters(), (W, U, b, torch.zeros_like(b)), strict=True):
        parameter.data.copy_(value)
    states = states_of(step, x, x.new_zeros(x.shape[1], len(U)), *weights)
    return (torch.stack(states[1:]) - layer(x)[0]).abs().max().item()


def lstm_difference_to_torch(lstm_step: Callable[..., tuple[Tensor, Tensor]], x: Tensor, seed: int = 0, n: int = 32) -> float:
    """Read x (T, B, d) in float64 by `lstm_step` and by torch.nn.LSTM with n units and the same weights.

    Returns:
        the largest difference of an entry of the last cell state.
    """
    torch.manual_seed(seed)
    layer = nn.LSTM(x.shape[2], n).double()
    h, c = x.new_zeros(x.shape[1], n), x.new_zeros(x.shape[1], n)
    for x_t in x:
        h, c = lstm_step(x_t, h, c, *parameters_of(layer))
    return (c - layer(x)[1][1][0]).abs().max().item()


def steps_reached(step: RecurrentStep, x: Tensor, weights: Sequence[Tensor], k: int) -> list[int]:
    """Return how many steps back the gradient of Σ h_T² reaches if x (T, B, d) is read in segments of k steps.

    The state is carried from segment to segment without its gradient. An input at the last step is 0 steps back; every input
    whose gradient is not 0 is listed, the earliest first.
    """
    source, state = x.clone().requires_grad_(), x.new_zeros(x.shape[1], len(weights[1]))
    for segment in source.split(k):
        state = states_of(step, segment, detached(state), *weights)[-1]
    (by_step,) = torch.autograd.grad(state.square().sum(), source)
    return (len(x) - 1 - by_step.abs().amax(dim=(1, 2)).nonzero().flatten()).tolist()


def gradient_norms(
    step: RecurrentStep, back_step: BackwardStep, x: Tensor, radius: float, input_scale: float, n: int = 64, seed: int = 0
) -> list[float]:
    """Measure the norm of a random gradient 0 to T steps back, over its norm at the end, for U = radius · orthogonal and b = 0.

    Args:
        step: one step forward.
        back_step: one step back.
        x: (T, B, d) in float64.
        radius: all singular values of U.
        input_scale: standard deviation of the entries of W.
        n: number of units.
        seed: of W, U and the gradient at the end.
    """
    generator = torch.Generator().manual_seed(seed)
    W, random, grad = (torch.randn(size, generator=generator).double() for size in ((n, x.shape[2]), (n, n), (x.shape[1], n)))
    W, U = input_scale * W, radius * torch.linalg.qr(random).Q
    states = states_of(step, x, x.new_zeros(x.shape[1], n), W, U, x.new_zeros(n))
    _, norms = back_through_time(back_step, grad, x, states, W, U)
    return [norm / norms[0] for norm in norms]


class Carousel(NamedTuple):
    """An untrained LSTM on some inputs: its forget gates (T, B, n), and ∂(Σ c_T)/∂c_0 (B, n) along two sets of paths.

    `along` is the gradient along the cell's own path, `all_paths` that which also flows through h and the gates.
    """

    gates: Tensor
    along: Tensor
    all_paths: Tensor


def carousel(
    lstm_step: Callable[..., tuple[Tensor, Tensor]], x: Tensor, forget_bias: float, n: int = 64, seed: int = 0
) -> Carousel:
    """Read x (T, B, d) in float64 with a new LSTM of n units, and differentiate its last cell state by its first one.

    Args:
        lstm_step: `(x, h, c, W, U, b)` → h, c.
        x: the inputs.
        forget_bias: initial bias of the forget gates.
        n: number of units.
        seed: of the weights.
    """
    torch.manual_seed(seed)
    W, U, b = parameters_of(LSTM(x.shape[-1], n, forget_bias=forget_bias))
    c_0 = x.new_zeros(x.shape[1], n).requires_grad_()
    h, c, h_any, c_any, gates = torch.zeros_like(c_0), c_0, torch.zeros_like(c_0), c_0, []
    for x_t in x:
        gates.append(torch.sigmoid(x_t @ W.mT + h @ U.mT + b)[:, n : 2 * n].detach())
        h, c = lstm_step(x_t, h, c, W, U, b)
        h = h.detach()  # what is left is the cell's own path
        h_any, c_any = lstm_step(x_t, h_any, c_any, W, U, b)
    along, all_paths = (torch.autograd.grad(c_T.sum(), c_0)[0] for c_T in (c, c_any))
    return Carousel(torch.stack(gates), along, all_paths)


def gradient_by_lag(
    rnn_step: RecurrentStep, lstm_step: Callable[..., tuple[Tensor, Tensor]], cell: nn.Module, x: Tensor, labels: Tensor
) -> list[float]:
    """Measure the gradient of the final loss at the memory 0, 1, 2 … T - 1 steps before the end, over its norm at the end.

    The memory is c of an LSTM, h of a plain network. A random readout computes the logits of eight classes from h_T.

    Args:
        rnn_step: one step of a plain network.
        lstm_step: one step of an LSTM.
        cell: a layer with the weights, `RNN` or `LSTM`.
        x: (B, T, d).
        labels: (B,), each from 0 to 7.
    """
    W, U, b = (p.requires_grad_() for p in parameters_of(cell))
    h = c = torch.zeros(len(x), cell.d_hidden).double()
    memories = []
    for x_t in x.double().unbind(1):
        if isinstance(cell, LSTM):
            h, c = lstm_step(x_t, h, c, W, U, b)
        else:
            h = c = rnn_step(x_t, h, W, U, b)
        memories.append(c)
    logits = h @ torch.randn(cell.d_hidden, 8).double() / cell.d_hidden**0.5
    gradients = torch.autograd.grad(F.cross_entropy(logits, labels), memories)
    return [(g.norm() / gradients[-1].norm()).item() for g in reversed(gradients)]


def show_gradient_norms(norms: Mapping[str, Sequence[float]], title: str, x: str = "steps back") -> None:
    """Draw norms of gradients 0, 1, 2 … steps back on a logarithmic axis, one curve per name; each starts at 1.

    Args:
        norms: name -> norms, as returned by `gradient_norms` or `gradient_by_lag`.
        title: above the figure.
        x: label of the x axis.
    """
    ends = ", ".join(f"{values[-1]:.0e} after {len(values) - 1} steps ({name})" for name, values in norms.items())
    lines = {name: (range(len(values)), values) for name, values in norms.items()}
    figure = curves(lines, x, "norm of the gradient, 1 at the end", title, log="y")
    show(
        figure, alt=f"Norm of the gradient against the number of steps back, logarithmic; {title}. From 1 it changes to {ends}."
    )


CarouselGradient = Callable[[Tensor], Tensor]
"""Forget gates (T, …, n) → their product over the steps, as `course_lib.primitives.carousel_gradient`."""


def show_carousel(
    lstm_step: Callable[..., tuple[Tensor, Tensor]],
    product: CarouselGradient,
    x: Tensor,
    labels: Sequence[int],
    forget_bias: float = 2.0,
    digit: int = 0,
) -> None:
    """Draw the factor of the carousel of an untrained LSTM after each pixel of a digit, beside the rule σ(bias)^t.

    Args:
        lstm_step: one step of an LSTM.
        product: the product of forget gates.
        x: digits, (T, B, 1).
        labels: of the digits.
        forget_bias: initial bias of the forget gates.
        digit: index of the digit that is read, 0 to B - 1.
    """
    gates = carousel(lstm_step, x[:, digit : digit + 1], forget_bias).gates
    t = range(len(gates) + 1)
    measured = [product(gates[:k]).mean().item() for k in t]
    rule = [torch.sigmoid(torch.tensor(forget_bias)).item() ** k for k in t]
    lines = {"product of the gates": (t, measured), "σ(bias) to the power t": (t, rule)}
    show(
        curves(lines, "pixels read", "factor of the gradient", log="y"),
        alt=f"With a forget bias of {forget_bias:g} and an image of the digit {labels[digit]}, the carousel multiplies a "
        f"gradient by {measured[-1]:.1e} over {len(gates)} pixels; the rule gives {rule[-1]:.1e}.",
    )


def show_carousel_by_bias(lstm_step: Callable[..., tuple[Tensor, Tensor]], product: CarouselGradient, x: Tensor) -> None:
    """Draw the factor of the carousel over all steps of x (T, B, d) against the forget bias, from -1 to 8.

    Args:
        lstm_step: one step of an LSTM.
        product: the product of forget gates.
        x: the inputs.
    """
    biases = [b / 2 for b in range(-2, 17)]
    left = {bias: product(carousel(lstm_step, x, bias).gates).mean().item() for bias in biases}
    half = min((bias for bias in biases if left[bias] >= 0.5), default=None)
    show(
        curves(
            {"mean over the units of the cell": (biases, list(left.values()))},
            "initial bias of the forget gate",
            f"factor of the gradient over {len(x)} pixels",
            across={"one half": 0.5},
        ),
        alt=f"Factor by which the carousel multiplies a gradient over {len(x)} pixels against the forget bias: {left[0.0]:.0e} "
        f"at 0, {left[4.0]:.2f} at 4, {left[8.0]:.2f} at 8; at least one half from a bias of {half} on.",
    )


# Recurrent layers whose initial weights preserve or halve the gradient.


def orthogonal_rnn(d: int, n: int, input_scale: float = 1.0, stretch: float = 1.0) -> RNN:
    """Create a plain network with torch's initial weights, except that U = stretch · Q, where Q is orthogonal.

    Args:
        d: size of the inputs.
        n: number of units.
        input_scale: multiplies torch's initial W; below 1, tanh is more nearly linear.
        stretch: all singular values of U; 1 preserves the length of every vector.
    """
    cell = RNN(d, n, hoisted_rnn)
    nn.init.orthogonal_(cell.weight_hh_l0, gain=stretch)
    cell.weight_ih_l0.data.mul_(input_scale)
    return cell


def gru_with_bias(d: int, n: int, update_bias: float) -> GRU:
    """Create a GRU of n units for inputs of size d whose update gate starts near σ(update_bias)."""
    cell = GRU(d, n, fused_gru)
    nn.init.constant_(cell.bias_ih_l0[n : 2 * n], update_bias)
    nn.init.zeros_(cell.bias_hh_l0[n : 2 * n])
    return cell
