"""Exercise 01.5, carousel_gradient: hints, and what students answer to the gradient along the LSTM's carousel."""

import math

import torch

from course_lib.primitives import carousel_gradient
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    "Write out c_1, c_2, c_3 on paper, each by the one before it, and underline what c_0 is multiplied by each time.",
    "Along the cell's own path a single step contributes ∂c_t/∂c_{t-1} = f_t, for each unit by itself. The chain rule"
    " joins T such steps. Which axis of `forget_gates` has to disappear, and which ones stay? And what is ∂c_0/∂c_0?",
    "Steps lie along the **first** axis: reduce that axis, and only that one, by multiplication, all T gates included."
    " A product without factors is 1, and torch's own reduction knows that.",
)


@wrong.idea
def adds_the_gates_up(forget_gates):
    """You add the gates. Each step multiplies the cell state by its gate, so the factors of the chain rule multiply
    too; your gradient grows with T, though no gate can enlarge it."""
    return forget_gates.sum(0)


@wrong.part
def raises_the_mean_gate(forget_gates):
    """You treat all steps as if each had the mean gate. One closed gate is enough to stop the gradient; in your mean
    the open ones make up for it."""
    return forget_gates.mean(0) ** len(forget_gates)


@wrong.part
def multiplies_along_the_units(forget_gates):
    """You multiply along the last axis, over the units, and keep the steps. On the carousel the units do not interact; the
    time axis is the one to reduce."""
    return forget_gates.prod(-1)


@wrong.part
def multiplies_everything(forget_gates):
    """You multiply all gates into a single number. Every unit of every example has its own carousel and its own gradient."""
    return forget_gates.prod()


@wrong.detail
def keeps_every_step(forget_gates):
    """You return the running products, ∂c_t/∂c_0 for each t. Asked for is the last one, ∂c_T/∂c_0, from the first step to T."""
    return forget_gates.cumprod(0)


@wrong.detail
def leaves_out_the_first_gate(forget_gates):
    """You skip f_1. The step from c_0 to c_1 already has this gate; what you have is ∂c_T/∂c_1."""
    return forget_gates[1:].prod(0)


@wrong.part
def squashes_the_gates_again(forget_gates):
    """You apply the sigmoid to the gates. They are already values in 0…1: an open gate of yours lets only 0.73 pass, a closed
    one 0.5."""
    return torch.sigmoid(forget_gates).prod(0)


@wrong.part
def multiplies_the_slopes_of_the_gates(forget_gates):
    """You multiply the derivatives f (1 - f) of the sigmoids. They belong to the path through the gates; along the carousel
    the factor is the gate itself."""
    return (forget_gates * (1 - forget_gates)).prod(0)


@wrong.case
def overwrites_the_gates(forget_gates):
    """Your numbers are right, but `*=` writes the running products into the tensor you were given: the caller's gates are
    overwritten."""
    if len(forget_gates) == 0:
        return torch.ones_like(forget_gates.sum(0))
    for t in range(1, len(forget_gates)):
        forget_gates[t] *= forget_gates[t - 1]
    return forget_gates[-1]


@wrong.case
def fails_without_steps(forget_gates):
    """For T = 0 there is no first gate and no last running product: you raise an error, though the answer is known, as c_0
    has the gradient 1 to itself."""
    return forget_gates.cumprod(0)[-1]


@wrong.case
def adds_logarithms(forget_gates):
    """You add logarithms and take the exponential. Where a gate is closed, the logarithm is -inf, and the gradient with respect
    to the gates becomes NaN; `prod` multiplies, and its gradient is right there as well."""
    return forget_gates.log().sum(0).exp()


@wrong.detail
def starts_from_ones_of_one_axis(forget_gates):
    """You start from ones of the size `forget_gates.shape[1]`. That is all of a step only if there is no batch, or one with as
    many examples as units: a step has the shape `forget_gates.shape[1:]`."""
    gradient = torch.ones(forget_gates.shape[1])
    for gate in forget_gates:
        gradient = gradient * gate
    return gradient


@wrong.idea
def takes_the_last_gate_only(forget_gates):
    """You return the last gate alone, which is ∂c_T/∂c_{T-1}. From c_0 to c_T every gate is a factor."""
    return forget_gates[-1]


@wrong.case
def multiplies_with_python(forget_gates):
    """Your products are right, but `math.prod` begins with Python's number 1, and without a gate it returns that: the
    result is then no tensor. `forget_gates.prod(0)` gives ones in the shape of a step."""
    return math.prod(forget_gates)


@wrong.detail
def gives_prod_a_tuple_of_axes(forget_gates):
    """`prod` takes a single axis, a number, and not a tuple as `sum` does: `forget_gates.prod(0)`."""
    return torch.prod(forget_gates, dim=(0,))


@right
def loops_over_the_steps(forget_gates):
    """One multiplication for each step, from 1, in float64 until the end."""
    gradient = forget_gates.new_ones(forget_gates.shape[1:], dtype=torch.float64)
    for f in forget_gates:
        gradient = gradient * f
    return gradient.to(forget_gates.dtype)


@right
def starts_the_running_product_at_one(forget_gates):
    """The last of the running products, with a 1 put before the first gate."""
    start = torch.ones_like(forget_gates.sum(0, keepdim=True))
    return torch.cat([start, forget_gates]).cumprod(0)[-1]


@right
def multiplies_the_halves(forget_gates):
    """Recursion: the product of the first half of the steps times that of the second."""
    T = len(forget_gates)
    if T < 2:
        return forget_gates.sum(0) + (1 - T)
    return multiplies_the_halves(forget_gates[: T // 2]) * multiplies_the_halves(forget_gates[T // 2 :])


@right
def differentiates_the_path(forget_gates):
    """The definition: run the carousel from c_0 and let torch.func take the derivative."""

    def run(c):
        for f in forget_gates:
            c = f * c
        return c

    ones = forget_gates.new_ones(forget_gates.shape[1:])
    _, pull_back = torch.func.vjp(run, ones)
    return pull_back(ones)[0]


@stranger
def carousel_leaves_out_the_last_gate(forget_gates):
    return forget_gates[:-1].prod(0)


@stranger
def carousel_with_sorted_gates(forget_gates):
    return forget_gates.sort(-1).values.prod(0)


@stranger
def carousel_never_closes(forget_gates):
    return forget_gates.clamp(min=1e-3).prod(0)


@stranger
def carousel_takes_the_weakest_gate(forget_gates):
    return forget_gates.amin(0) if len(forget_gates) else forget_gates.new_ones(forget_gates.shape[1:])


@stranger(makes=[fails_without_steps])
def carousel_starts_from_the_first_gate(forget_gates):
    product = forget_gates[0]
    for f in forget_gates[1:]:
        product = product * f
    return product


@stranger(makes=[adds_the_gates_up])
def carousel_adds_in_a_loop(forget_gates):
    total = torch.zeros_like(forget_gates.sum(0))
    for f in forget_gates:
        total = total + f
    return total


@stranger(makes=[leaves_out_the_first_gate, squashes_the_gates_again])
def carousel_with_two_mistakes(forget_gates):
    return torch.sigmoid(forget_gates[1:]).prod(0)


def _gates(draw: Draw, T: int | None = None, *batch: int) -> Call:
    steps, n = draw.sizes(2)
    return (draw.uniform(steps if T is None else T, *batch, n) * 0.9 + 0.05,)


def _closed_once(draw: Draw) -> Call:
    """A gate that is shut at one step, so that nothing comes through; all others are wide open."""
    (gates,) = _gates(draw, 5)
    gates = 1 - 0.1 * gates
    gates[2, 0] = 0.0
    return (gates,)


exercise = Exercise(
    id="01.5",
    extra=True,
    title="The gradient along the carousel",
    reference=carousel_gradient,
    properties=(
        runs_on(lambda draw: [_gates(draw)]),
        has_shape("One number for each unit; the time axis is reduced.", lambda draw: [_gates(draw), _gates(draw, None, 3)]),
        Property("one step", "Over one step it is the forget gate itself.", lambda draw: [_gates(draw, 1)]),
        Property(
            "product",
            "Over several steps the gates multiply.",
            lambda draw: [_gates(draw, 2), _gates(draw, 7)],
            points=2,
            needs=("one step",),
        ),
        Property(
            "closed", "A gate that is closed once stops the gradient.", lambda draw: [_closed_once(draw)], needs=("product",)
        ),
        Property("no step", "Over zero steps the gradient is 1.", lambda draw: [_gates(draw, 0)]),
        Property(
            "batch",
            "Each sequence of a batch is computed independently.",
            lambda draw: [_gates(draw, None, 3), _gates(draw, 5, 2, 3)],
            needs=("product",),
        ),
        has_gradient(lambda draw: [_gates(draw, 5, 2), _closed_once(draw)], needs=("product",)),
        leaves_inputs(lambda draw: [_gates(draw)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
