"""Exercise 06.6, mix_states: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.primitives import halting_distribution, mix_states
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
    (
        "A token halts at its second of three steps, with h = (0.3, 0.9, 0.5). With which weight is each of its three "
        "states in the result? Through what does the halting unit get a gradient from the loss?"
    ),
    (
        "The weights p come from `halting_distribution`, one for each step, and sum to 1. Each state is multiplied by its "
        "p and summed over the axis of the steps, the last but one of the states."
    ),
    (
        "The distribution has the shape of h; with one more axis it multiplies the states. Sum over the axis of the "
        "steps, the last but one, and keep every axis in front. Nothing is detached."
    ),
)


def _mixed(p, states):
    """Each state by its share, (*batch, d)."""
    return (p[..., None] * states).sum(-2)


@wrong.idea
def takes_the_last_state(states, h, epsilon=0.01):
    """You return the state after the last of all steps. A position that halts earlier mixes the states of the steps it
    took, and the halting unit gets no gradient from yours."""
    return states[..., -1, :]


@wrong.idea
def takes_the_state_at_the_halt(states, h, epsilon=0.01):
    """You return the state of step N alone. The states before it have weight h; a choice of one step has no gradient with
    respect to h."""
    N = (halting_distribution(h, epsilon) > 0).sum(-1)
    last = F.one_hot(N - 1, h.shape[-1]).to(h.dtype)
    return _mixed(last, states)


@wrong.part
def weighs_by_h(states, h, epsilon=0.01):
    """You weigh the states by h itself. These do not sum to 1, and steps after the halt get weight; first turn h into p by
    `halting_distribution`."""
    return _mixed(h, states)


@wrong.part
def divides_by_the_sum_of_h(states, h, epsilon=0.01):
    """You divide h by its sum and weigh by that. States after the halt are still in your mixture, and the last step that is
    taken does not get the remainder."""
    return _mixed(h / h.sum(-1, keepdim=True), states)


@wrong.idea
def averages_all_states(states, h, epsilon=0.01):
    """You average over all steps and never use h. The weights of the steps depend on h."""
    return states.mean(-2)


@wrong.detail
def averages_until_the_halt(states, h, epsilon=0.01):
    """You average over the steps that were taken. The set of steps is right, but the states before the halt have weight h,
    and the last one the remainder."""
    taken = (halting_distribution(h, epsilon) > 0).to(h.dtype)
    return _mixed(taken / taken.sum(-1, keepdim=True), states)


@wrong.part
def takes_a_softmax(states, h, epsilon=0.01):
    """You take the softmax of h. It sums to 1, but no step ever gets 0, not even those after the halt; and h are
    probabilities, not logits."""
    return _mixed(h.softmax(-1), states)


@wrong.case
def types_epsilon_in(states, h, epsilon=0.01):
    """You do not pass epsilon on, so the halting distribution uses its default, 0.01."""
    return _mixed(halting_distribution(h), states)


@wrong.case
def takes_the_shares_from_the_graph(states, h, epsilon=0.01):
    """You detach p. Your result is right, but the halting unit gets no gradient from the loss; only the ponder cost reaches
    it."""
    return _mixed(halting_distribution(h, epsilon).detach(), states)


@wrong.part
def mixes_as_it_goes(states, h, epsilon=0.01):
    """You mix recursively: at each step p of the new state and 1 - p of the previous mixture. That shrinks earlier states
    again; a plain weighted sum needs no 1 - p, since p sums to 1."""
    mixed = torch.zeros_like(states[..., 0, :])
    for p, state in zip(halting_distribution(h, epsilon).unbind(-1), states.unbind(-2), strict=True):
        mixed = p[..., None] * state + (1 - p[..., None]) * mixed
    return mixed


@wrong.case
def keeps_the_axis_of_steps(states, h, epsilon=0.01):
    """You leave an axis of size 1 where the steps were, (…, 1, d). The product of a row with a matrix has it; squeeze it,
    since the result is one state for each position."""
    return halting_distribution(h, epsilon)[..., None, :] @ states


@wrong.detail
def chooses_the_largest_share(states, h, epsilon=0.01):
    """You take the state with the largest weight. A hard choice drops the others and passes no gradient to h; sum all
    states, each with its weight."""
    best = halting_distribution(h, epsilon).argmax(-1)
    return _mixed(F.one_hot(best, h.shape[-1]).to(h.dtype), states)


@wrong.idea
def takes_the_first_state(states, h, epsilon=0.01):
    """You return the state after the first step. It is the result only for a position that halts at once; otherwise all steps
    up to the halt count."""
    return states[..., 0, :]


@wrong.detail
def weighs_states_without_an_axis(states, h, epsilon=0.01):
    """You multiply the weights (*batch, n_steps) by the states (*batch, n_steps, d). A weight scales all features of its
    state: give it an axis of size 1, and sum over the steps."""
    return (halting_distribution(h, epsilon) * states).sum(-2)


@wrong.detail
def multiplies_the_weights_as_a_matrix(states, h, epsilon=0.01):
    """You write p @ states, where the last axis but one of p is a position and not a row of weights. Make each p a row:
    p[..., None, :] @ states, and take the axis away."""
    return halting_distribution(h, epsilon) @ states


@wrong.detail
def averages_after_weighing(states, h, epsilon=0.01):
    """You take the mean over the steps of the weighted states. The weights sum to 1 already, so their sum is an average; yours
    is smaller by a factor of n_steps."""
    return mix_states(states, h, epsilon) / h.shape[-1]


@right
def by_einsum(states, h, epsilon=0.01):
    """One einsum over shares and states."""
    return torch.einsum("...n,...nd->...d", halting_distribution(h, epsilon), states)


@right
def step_by_step(states, h, epsilon=0.01):
    """A running sum over the steps, the shares worked out on the way."""
    mixed, left = torch.zeros_like(states[..., 0, :]), torch.ones_like(h[..., 0])
    used, active = torch.zeros_like(left), torch.ones_like(left, dtype=torch.bool)
    for n in range(h.shape[-1]):
        used = used + h[..., n]
        halts = (used >= 1 - epsilon) | torch.tensor(n == h.shape[-1] - 1)
        p = torch.where(active, torch.where(halts, left, h[..., n]), 0.0)
        mixed, left, active = mixed + p[..., None] * states[..., n, :], left - p, active & ~halts
    return mixed


@right
def by_what_each_step_changes(states, h, epsilon=0.01):
    """The first state, plus every change from step to step times the share that is still to come."""
    to_come = halting_distribution(h, epsilon).flip(-1).cumsum(-1).flip(-1)
    changes = states.diff(dim=-2)
    return states[..., 0, :] + (to_come[..., 1:, None] * changes).sum(dim=-2)


@right
def as_a_batch_of_columns(states, h, epsilon=0.01):
    """All batch axes folded into one, features in front, a batched product with columns of shares, in float64."""
    n_steps, d = states.shape[-2:]
    columns = halting_distribution(h, epsilon).double().reshape(-1, n_steps, 1)
    mixed = torch.bmm(states.double().reshape(-1, n_steps, d).transpose(1, 2), columns)
    return mixed.reshape(*states.shape[:-2], d).to(states.dtype)


@stranger
def mixture_of_squares(states, h, epsilon=0.01):
    return mix_states(states.square(), h, epsilon)


@stranger
def mixture_backwards(states, h, epsilon=0.01):
    return mix_states(states.flip(-2), h, epsilon)


@stranger
def mixture_of_half(states, h, epsilon=0.01):
    return mix_states(states, h, epsilon) / 2


@stranger(makes=[types_epsilon_in, takes_the_shares_from_the_graph])
def mixture_by_detached_default_shares(states, h, epsilon=0.01):
    return mix_states(states, h.detach())


def _chances(draw: Draw, *shape: int, most: int = 8) -> torch.Tensor:
    """Probabilities in sixteenths: their sums are exact, and stay away from 1 - ε."""
    return draw.integers(0, most + 1, *shape) / 16


def _thought(draw: Draw, *batch: int, most: int = 8) -> Call:
    n_steps, d = draw.sizes(2)
    n_steps += 3
    return draw.normal(*batch, n_steps, d), _chances(draw, *batch, n_steps, most=most)


def _batches(draw: Draw) -> list[Call]:
    return [_thought(draw, 2, 5), _thought(draw, 7)]


exercise = Exercise(
    id="06.6",
    title="Mix the states of all steps",
    reference=mix_states,
    properties=(
        runs_on(_batches),
        has_shape("One state for each position.", _batches),
        Property(
            "one step",
            "A position that halts at the first step gets the first state. The same with a single step.",
            lambda draw: [(draw.normal(3, 5), torch.tensor([1.0, 0.5, 0.5])), (draw.normal(1, 5), torch.tensor([0.25]))],
        ),
        Property(
            "one position",
            "The states of the steps that were taken, each with its weight p.",
            lambda draw: [_thought(draw), _thought(draw, most=2)],
            points=2,
        ),
        Property(
            "epsilon",
            "epsilon is passed on to the halting distribution.",
            lambda draw: [(draw.normal(4, 5), torch.tensor([0.25, 0.5, 0.125, 0.5]), 0.3), (*_thought(draw, 3), 0.3)],
            needs=("one position",),
        ),
        Property(
            "each alone",
            "Each position has its own mixture, with any number of batch axes.",
            lambda draw: [*_batches(draw), _thought(draw, 2, 3, 2), _thought(draw, 1)],
            needs=("one position",),
        ),
        has_gradient(_batches, points=2, needs=("each alone",)),
        leaves_inputs(_batches),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
