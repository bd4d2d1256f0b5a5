"""Exercise 01.2, bptt_step: hints, and what students answer to one step of back-propagation through time."""

import torch

from course_lib.primitives import bptt_step
from course_tools.checks.comparisons import right_result
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    "Go backwards through h_new = tanh(a), a = W x + U h + b, one operation at a time. Every other gradient needs one "
    "quantity first: δ = ∂L/∂a.",
    "tanh acts on each entry alone, and its derivative can be written by its **value**: you have that value already."
    " For the rest let the shapes lead you: from δ (B, n) and `W` (n, d) to (B, d); from δ (B, n) and `x` (B, d) to"
    " (n, d). Which axis is summed over in each case?",
    "δ is the incoming gradient times one minus the square of `h_new`. The gradients of `x` and `h` are δ times the"
    " matrix, **not** transposed; those of `W` and `U` are the transpose of δ times `x` and times the **old** state,"
    " which sums the outer products over the batch; that of `b` is δ summed over the batch.",
)


@wrong.part
def forgets_the_slope_of_tanh(grad_h_new, x, h, h_new, W, U):
    """You leave out the derivative of tanh, as if the step were linear. Where a unit is saturated, almost no gradient
    passes."""
    delta = grad_h_new
    return delta @ W, delta @ U, delta.mT @ x, delta.mT @ h, delta.sum(0)


@wrong.part
def squashes_the_new_state_again(grad_h_new, x, h, h_new, W, U):
    """You apply tanh to h_new before you take the derivative. But h_new is already a value of tanh, not its argument."""
    delta = grad_h_new * (1 - torch.tanh(h_new) ** 2)
    return delta @ W, delta @ U, delta.mT @ x, delta.mT @ h, delta.sum(0)


@wrong.detail
def recomputes_the_state_without_the_bias(grad_h_new, x, h, h_new, W, U):
    """You compute the new state anew from W x + U h. The bias is missing there, so your derivatives belong to a different step
    from the one that was taken."""
    delta = grad_h_new * (1 - torch.tanh(x @ W.mT + h @ U.mT) ** 2)
    return delta @ W, delta @ U, delta.mT @ x, delta.mT @ h, delta.sum(0)


@wrong.detail
def takes_the_slope_of_the_sigmoid(grad_h_new, x, h, h_new, W, U):
    """You use s (1 - s), the derivative of the sigmoid. That of tanh is 1 - h_new²: at h_new = 0 it is 1, and yours is 0."""
    delta = grad_h_new * h_new * (1 - h_new)
    return delta @ W, delta @ U, delta.mT @ x, delta.mT @ h, delta.sum(0)


@wrong.part
def transposes_the_recurrent_matrix(grad_h_new, x, h, h_new, W, U):
    """You send the gradient of the state through U in the forward direction. U is square, so the shapes fit, but the backward
    pass uses the transpose of the forward map; note that here δ is a row vector."""
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U.mT, delta.mT @ x, delta.mT @ h, delta.sum(0)


@wrong.part
def multiplies_by_the_new_state(grad_h_new, x, h, h_new, W, U):
    """For the gradient of U you pair δ with the state after the step. U was multiplied by the state before the step."""
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U, delta.mT @ x, delta.mT @ h_new, delta.sum(0)


@wrong.detail
def transposes_the_weight_gradients(grad_h_new, x, h, h_new, W, U):
    """Your gradients of W and U are transposed. A gradient has the shape of its parameter, (out, in) here; for the square U no
    shape error tells you."""
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U, x.mT @ delta, h.mT @ delta, delta.sum(0)


@wrong.detail
def averages_over_the_batch(grad_h_new, x, h, h_new, W, U):
    """You divide the gradients of W, U and b by the batch size. If L is a mean, its 1/B is already in the incoming gradient;
    here the examples are summed."""
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U, delta.mT @ x / len(x), delta.mT @ h / len(x), delta.mean(0)


@wrong.part
def sums_over_the_batch_too_early(grad_h_new, x, h, h_new, W, U):
    """You sum δ and the inputs over the batch, and multiply the sums. A sum of products is not the product of the sums:
    only for a batch of one do they agree."""
    delta = grad_h_new * (1 - h_new**2)
    total = delta.sum(0)
    return delta @ W, delta @ U, torch.outer(total, x.sum(0)), torch.outer(total, h.sum(0)), total


@wrong.case
def overwrites_the_incoming_gradient(grad_h_new, x, h, h_new, W, U):
    """Your numbers are right, but `*=` writes δ into the tensor that was passed in: code that still needs ∂L/∂h_new finds δ
    there."""
    grad_h_new *= 1 - h_new**2
    return grad_h_new @ W, grad_h_new @ U, grad_h_new.mT @ x, grad_h_new.mT @ h, grad_h_new.sum(0)


@wrong.case
def keeps_the_bias_gradient_of_each_example(grad_h_new, x, h, h_new, W, U):
    """Your gradient of b still has a batch axis. All examples share one b of shape (n,), so its gradient is δ summed over
    the batch."""
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U, delta.mT @ x, delta.mT @ h, delta


@wrong.case
def returns_the_parameters_first(grad_h_new, x, h, h_new, W, U):
    """Your five gradients are computed correctly, but you return those of the parameters first. The order asked for is x, h, W,
    U, b."""
    delta = grad_h_new * (1 - h_new**2)
    return delta.mT @ x, delta.mT @ h, delta.sum(0), delta @ W, delta @ U


@wrong.detail
def takes_the_slope_at_the_old_state(grad_h_new, x, h, h_new, W, U):
    """You take the derivative 1 - h² from the state before the step. The tanh of this step gave h_new: it is 1 - h_new²."""
    delta = grad_h_new * (1 - h**2)
    return delta @ W, delta @ U, delta.mT @ x, delta.mT @ h, delta.sum(0)


@wrong.detail
def transposes_the_input_matrix(grad_h_new, x, h, h_new, W, U):
    """You send the gradient back to x by the transpose of W. The step multiplies by Wᵀ, so its gradient is δ W."""
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W.mT, delta @ U, delta.mT @ x, delta.mT @ h, delta.sum(0)


@wrong.detail
def multiplies_the_weights_gradient_in_the_wrong_order(grad_h_new, x, h, h_new, W, U):
    """You multiply the gradient by x without a transpose. ∂L/∂W is (n, d) and sums over the batch: the batch must be the inner
    axis, grad.mT @ x."""
    grad = grad_h_new * (1 - h_new**2)
    return grad @ W, grad @ U, grad @ x, grad @ h, grad.sum(0)


@wrong.detail
def multiplies_a_column(grad_h_new, x, h, h_new, W, U):
    """You write Wᵀδ and Uᵀδ as the formula does, with δ as a column. Here each row of δ belongs to an example, and the
    products are δ @ W and δ @ U."""
    delta = grad_h_new * (1 - h_new**2)
    return W.mT @ delta, U.mT @ delta, delta.mT @ x, delta.mT @ h, delta.sum(0)


@wrong.detail
def squares_the_difference(grad_h_new, x, h, h_new, W, U):
    """You square the difference, (1 - h_new)². The derivative of tanh is 1 - h_new²: only the state is squared."""
    delta = grad_h_new * (1 - h_new) ** 2
    return delta @ W, delta @ U, delta.mT @ x, delta.mT @ h, delta.sum(0)


@wrong.detail
def averages_the_bias_alone(grad_h_new, x, h, h_new, W, U):
    """You average the gradient of b over the batch and sum those of W and U. All three are summed."""
    found = bptt_step(grad_h_new, x, h, h_new, W, U)
    return *found[:4], found[4] / len(x)


@wrong.part
def forgets_the_slope_for_the_input(grad_h_new, x, h, h_new, W, U):
    """You send the incoming gradient through W as it is. The way to x leads through the tanh too: δ times W."""
    return grad_h_new @ W, *bptt_step(grad_h_new, x, h, h_new, W, U)[1:]


@wrong.detail
def transposes_the_gradient_of_the_recurrent_matrix(grad_h_new, x, h, h_new, W, U):
    """You transpose the gradient of U, hᵀ δ. It has the shape of U, and a row for each unit of the new state: δᵀ h."""
    found = bptt_step(grad_h_new, x, h, h_new, W, U)
    return *found[:3], found[3].mT, found[4]


@right
def contracts_with_einsum(grad_h_new, x, h, h_new, W, U):
    """Every product by einsum, the batch axis by name."""
    delta = torch.einsum("bn,bn->bn", grad_h_new, 1 - h_new.square())
    grad_x, grad_h = torch.einsum("bn,nd->bd", delta, W), torch.einsum("bn,nm->bm", delta, U)
    grad_W, grad_U = torch.einsum("bn,bd->nd", delta, x), torch.einsum("bn,bm->nm", delta, h)
    return grad_x, grad_h, grad_W, grad_U, torch.einsum("bn->n", delta)


@right
def loops_over_the_batch(grad_h_new, x, h, h_new, W, U):
    """One example after the other, with column vectors as on the blackboard, in float64 until the end."""
    dtype = x.dtype
    grad_h_new, x, h, h_new, W, U = (t.double() for t in (grad_h_new, x, h, h_new, W, U))
    grad_x, grad_h = torch.zeros_like(x), torch.zeros_like(h)
    grad_W, grad_U, grad_b = torch.zeros_like(W), torch.zeros_like(U), torch.zeros_like(U[0])
    for k in range(len(x)):
        delta = grad_h_new[k] * (1 + h_new[k]) * (1 - h_new[k])
        grad_x[k], grad_h[k] = W.T @ delta, U.T @ delta
        grad_W, grad_U, grad_b = grad_W + torch.outer(delta, x[k]), grad_U + torch.outer(delta, h[k]), grad_b + delta
    return tuple(grad.to(dtype) for grad in (grad_x, grad_h, grad_W, grad_U, grad_b))


@right
def concatenates_input_and_state(grad_h_new, x, h, h_new, W, U):
    """One layer with the weights [W U b], which acts on the input, the state and a constant 1."""
    delta = grad_h_new - grad_h_new * h_new**2
    sizes = [x.shape[1], h.shape[1]]
    grad_x, grad_h = (delta @ torch.cat([W, U], dim=1)).split(sizes, dim=1)
    inputs = torch.cat([x, h, torch.ones_like(x[:, :1])], dim=1)
    grad_W, grad_U, grad_b = (delta.T @ inputs).split([*sizes, 1], dim=1)
    return grad_x, grad_h, grad_W, grad_U, grad_b.squeeze(1)


@stranger
def bptt_takes_the_bias_before_the_slope(grad_h_new, x, h, h_new, W, U):
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U, delta.mT @ x, delta.mT @ h, grad_h_new.sum(0)


@stranger
def bptt_squares_the_whole_slope(grad_h_new, x, h, h_new, W, U):
    delta = grad_h_new * (1 - h_new) ** 2
    return delta @ W, delta @ U, delta.mT @ x, delta.mT @ h, delta.sum(0)


@stranger
def bptt_lets_the_gradient_pass_beside(grad_h_new, x, h, h_new, W, U):
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U + grad_h_new, delta.mT @ x, delta.mT @ h, delta.sum(0)


@stranger
def bptt_takes_the_first_example_only(grad_h_new, x, h, h_new, W, U):
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U, torch.outer(delta[0], x[0]), torch.outer(delta[0], h[0]), delta[0]


@stranger(makes=[multiplies_by_the_new_state])
def bptt_by_einsum_on_the_new_state(grad_h_new, x, h, h_new, W, U):
    d = grad_h_new - grad_h_new * h_new.square()
    return d @ W, d @ U, d.T @ x, torch.einsum("bn,bm->nm", d, h_new), d.sum(dim=0)


@stranger(makes=[averages_over_the_batch])
def bptt_with_mean_in_a_loop(grad_h_new, x, h, h_new, W, U):
    d = grad_h_new * (1 - h_new * h_new)
    rows = range(len(x))
    grad_W = sum(torch.outer(d[k], x[k]) for k in rows) / len(x)
    grad_U = sum(torch.outer(d[k], h[k]) for k in rows) / len(x)
    return d @ W, d @ U, grad_W, grad_U, d.mean(0)


@stranger(makes=[transposes_the_recurrent_matrix, averages_over_the_batch])
def bptt_with_two_mistakes(grad_h_new, x, h, h_new, W, U):
    delta = grad_h_new * (1 - h_new**2)
    return delta @ W, delta @ U.mT, delta.mT @ x / len(x), delta.mT @ h / len(x), delta.mean(0)


def _backward(draw: Draw, B: int | None = None) -> Call:
    d, n, rows = draw.sizes(3)
    B = rows if B is None else B
    grad, x, h = draw.normal(B, n), draw.normal(B, d), draw.normal(B, n)
    return grad, x, h, torch.tanh(draw.normal(B, n)), draw.normal(n, d), draw.normal(n, n)


exercise = Exercise(
    id="01.2",
    extra=True,
    title="One step of back-propagation through time",
    reference=bptt_step,
    properties=(
        runs_on(lambda draw: [_backward(draw)]),
        has_shape("Five gradients, each with the shape of what it is the gradient of.", lambda draw: [_backward(draw)]),
        Property("bias", "∂L/∂b contains the derivative of tanh.", lambda draw: [_backward(draw, 1)], right_result(4)),
        Property("input", "∂L/∂x is δ times W.", lambda draw: [_backward(draw, 1)], right_result(0)),
        Property("state", "∂L/∂h is δ times U.", lambda draw: [_backward(draw, 1)], right_result(1)),
        Property("weights", "∂L/∂W and ∂L/∂U are outer products.", lambda draw: [_backward(draw, 1)], right_result(2, 3)),
        Property(
            "batch",
            "Gradients of parameters are summed over the batch, those of inputs and states are not.",
            lambda draw: [_backward(draw), _backward(draw)],
            needs=("bias", "input", "state", "weights"),
        ),
        leaves_inputs(lambda draw: [_backward(draw)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
    forbids={
        torch.autograd.grad: "write each gradient as a product; that is what autograd does for you.",
        torch.autograd.backward: "write each gradient as a product; that is what autograd does for you.",
        torch.func.jacfwd: "write each gradient as a product; that is what autograd does for you.",
        torch.func.jvp: "write each gradient as a product; that is what autograd does for you.",
        torch.autograd.forward_ad.make_dual: "write each gradient as a product; that is what autograd does for you.",
    },
)
