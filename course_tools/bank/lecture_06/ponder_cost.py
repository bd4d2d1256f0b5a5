"""Exercise 06.3, ponder_cost: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.primitives import halting_distribution, ponder_cost
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
        "A position has h = (0.3, 0.5, 0.4). How many steps does it take, and how much of 1 is left for the last of them? And "
        "another with h = (1, 0.5, 0.4): why does that one cost 2?"
    ),
    (
        "N counts the steps before which the sum of h is still below 1 - ε, and R is 1 minus the sum of h before the last of "
        "them. A count has no gradient; R is what the halting unit learns from, so it must stay in the graph."
    ),
    (
        "As in 06.2, the sum before each step is the running sum without the step's own h. N is the number of places "
        "where it is below 1 - ε; at the place of the last of them, index N - 1, `gather` picks the sum that R "
        "subtracts from 1. The index needs an axis of size 1 for that."
    ),
)


def _before(h):
    """The sum of the h before each step, exactly 0 before the first."""
    return F.pad(h.cumsum(-1)[..., :-1], (1, 0))


def _N(h, epsilon):
    """How many steps are taken."""
    return (_before(h) < 1 - epsilon).sum(-1)


def _R(h, N):
    """What is left of 1 for step N."""
    return 1 - _before(h).gather(-1, N[..., None] - 1)[..., 0]


@wrong.idea
def counts_the_steps_only(h, epsilon=0.01):
    """You return N alone. A count has no gradient, so the halting unit learns nothing from it; the remainder is added for
    its gradient."""
    return _N(h, epsilon).to(h.dtype)


@wrong.case
def counts_the_weights_above_zero(h, epsilon=0.01):
    """You count the weights above 0 for N. A step whose h is 0 is taken all the same: count the steps before which the sum is
    below 1 - ε."""
    p = halting_distribution(h, epsilon)
    N = (p > 0).sum(-1).clamp(min=1)
    return N + p.gather(-1, N[..., None] - 1)[..., 0]


@wrong.idea
def takes_the_remainder_only(h, epsilon=0.01):
    """You return R alone. Its gradient is right, but the cost is the number of steps plus the remainder."""
    return _R(h, _N(h, epsilon))


@wrong.detail
def counts_from_zero(h, epsilon=0.01):
    """You take the index of the halting step for the number of steps. Indices begin at 0, so you count one too few: a
    position that halts at once has taken one step."""
    N = _N(h, epsilon)
    return N - 1 + _R(h, N)


@wrong.idea
def expects_the_number_of_steps(h, epsilon=0.01):
    """You return Σ n · p, the expected step. The position has computed all N steps, and the cost counts all of them."""
    return halting_distribution(h, epsilon) @ torch.arange(1.0, h.shape[-1] + 1)


@wrong.part
def adds_up_all_h(h, epsilon=0.01):
    """You use the sum of all h instead of the remainder. Steps after N are never taken, and R falls where h grows; yours
    grows."""
    return _N(h, epsilon) + h.sum(-1)


@wrong.detail
def subtracts_the_last_step_too(h, epsilon=0.01):
    """You subtract the h of step N from 1 as well. The remainder is 1 - Σ h of the steps up to N - 1; yours is near 0, and
    may be negative."""
    N = _N(h, epsilon)
    return N + _R(h, N) - h.gather(-1, N[..., None] - 1)[..., 0]


@wrong.case
def takes_the_remainder_from_the_graph(h, epsilon=0.01):
    """You detach the remainder. The value is right, but R is the only part with a gradient: yours has none."""
    N = _N(h, epsilon)
    return N + _R(h.detach(), N)


@wrong.detail
def subtracts_the_remainder(h, epsilon=0.01):
    """You subtract R. The gradient then has the wrong sign: minimising your cost makes h smaller in the early steps, and
    the number of steps larger."""
    N = _N(h, epsilon)
    return N - _R(h, N)


@wrong.case
def averages_over_the_batch(h, epsilon=0.01):
    """You return one mean for the whole batch. Each position has its own cost; they are averaged later, without the
    padding."""
    N = _N(h, epsilon)
    return (N + _R(h, N)).mean()


@wrong.detail
def forgets_epsilon(h, epsilon=0.01):
    """You wait until the sum reaches 1. A position halts at 1 - ε; otherwise one with a first h near 1 would still take two
    steps."""
    N = _N(h, 0.0)
    return N + _R(h, N)


@wrong.idea
def lets_all_take_every_step(h, epsilon=0.01):
    """You take n_steps for N, and what is missing to 1 before the last of them for R. That is the cost of a position that
    never halts early; each one stops where its own sum reaches 1 - ε."""
    return h.shape[-1] + 1 - h[..., :-1].sum(-1)


@wrong.case
def counts_the_steps_with_a_chance(h, epsilon=0.01):
    """You count the steps whose h is above 0. A step in which the position cannot halt is taken as well: N is the
    number of the step in which it halts."""
    p = halting_distribution(h, epsilon)
    before = F.pad(h, (1, 0)).cumsum(-1)[..., :-1]
    last = (before < 1 - epsilon).sum(-1, keepdim=True) - 1
    return (p > 0).sum(-1) + 1 - before.gather(-1, last).squeeze(-1)


@wrong.part
def takes_the_weight_of_the_last_column(h, epsilon=0.01):
    """You take the last column of the halting distribution for R. It is 0 wherever a position halts before: R belongs to the
    step at which it halts."""
    return _N(h, epsilon) + halting_distribution(h, epsilon)[..., -1]


@wrong.case
def counts_a_step_after_the_last(h, epsilon=0.01):
    """You count all steps at whose end the sum is below 1 - ε, and one more. Where a position never gets there, that is one
    step more than there are: the last step takes what is left."""
    going = h.cumsum(-1) < 1 - epsilon
    return going.sum(-1) + 1 + 1 - (h * going).sum(-1)


@right
def step_by_step(h, epsilon=0.01):
    """A loop over the steps: who has not yet halted pays 1 more, and what was left becomes smaller."""
    n_steps = h.shape[-1]
    left = torch.ones_like(h[..., 0])
    cost, active = torch.zeros_like(left), torch.ones_like(left, dtype=torch.bool)
    for n in range(n_steps):
        cost = cost + active
        goes_on = active & (1 - left + h[..., n] < 1 - epsilon) & (n < n_steps - 1)
        left = torch.where(goes_on, left - h[..., n], left)
        active = goes_on
    return cost + left


@right
def by_masking_what_comes_before(h, epsilon=0.01):
    """Who goes on after each step is a mask: N is 1 more than its sum, R is 1 less the sum of h under it."""
    goes_on = (h.cumsum(dim=-1) < 1 - epsilon)[..., :-1]
    return 2 + torch.where(goes_on, 1 - h[..., :-1], 0.0).sum(dim=-1)


@right
def position_by_position(h, epsilon=0.01):
    """Each position by itself, with a while loop in Python, in float64."""
    costs = []
    for p in h.double().reshape(-1, h.shape[-1]):
        n, used = 1, p[:0].sum()
        while n < len(p) and used + p[n - 1] < 1 - epsilon:
            used = used + p[n - 1]
            n += 1
        costs.append(n + 1 - used)
    return torch.stack(costs).reshape(h.shape[:-1]).to(h.dtype)


@right
def from_the_shares(h, epsilon=0.01):
    """N from a search in the sums, and R as the share of step N in the halting distribution."""
    n_before = torch.count_nonzero(h.detach().cumsum(-1)[..., :-1] < 1 - epsilon, dim=-1)
    here = F.one_hot(n_before, h.shape[-1]).bool()
    R = halting_distribution(h, epsilon).masked_fill(~here, 0.0).sum(-1)
    return R + n_before + 1


@right
def by_the_last_share(h, epsilon=0.01):
    """N as the place of the last share above 0, which is never 0 itself; R as what the shares before the last leave of 1."""
    shares = halting_distribution(h, epsilon)
    N = ((shares > 0) * torch.arange(1, h.shape[-1] + 1)).amax(-1)
    before = torch.arange(h.shape[-1]) < N[..., None] - 1
    return N + 1 - (shares * before).sum(-1)


@stranger
def cost_times_the_remainder(h, epsilon=0.01):
    cost = ponder_cost(h, epsilon)
    N = cost.ceil() - 1
    return N * (cost - N)


@stranger
def cost_of_twice_the_remainder(h, epsilon=0.01):
    cost = ponder_cost(h, epsilon)
    return 2 * cost - cost.detach().ceil() + 1


@stranger
def cost_of_the_largest(h, epsilon=0.01):
    return ponder_cost(h, epsilon).amax().expand(h.shape[:-1])


@stranger(makes=[counts_from_zero, forgets_epsilon])
def cost_from_zero_without_epsilon(h, epsilon=0.01):
    return ponder_cost(h, 0.0) - 1


def _chances(draw: Draw, *shape: int, most: int = 8) -> torch.Tensor:
    """Probabilities in sixteenths, never 0, as sigmoids are: their sums are exact, and stay away from 1 - ε."""
    return draw.integers(1, most + 1, *shape) / 16


def _batches(draw: Draw) -> list[Call]:
    B, T = draw.sizes(2)
    return [(_chances(draw, B, T, 7),), (_chances(draw, T, 5),)]


def _reached(draw: Draw) -> list[Call]:
    """One position that halts at the third of five steps."""
    first = draw.integers(3, 8, 2) / 16
    return [(torch.cat([first, torch.tensor([0.625]), draw.integers(1, 8, 2) / 16]),)]


exercise = Exercise(
    id="06.3",
    title="The ponder cost",
    reference=ponder_cost,
    properties=(
        runs_on(_batches),
        has_shape("One number for each position.", _batches),
        Property(
            "one step",
            "With one step, R = 1 and the cost is 2. The same where n_steps is 1.",
            lambda _: [(torch.tensor([1.0, 0.5, 0.5]),), (torch.tensor([0.995, 0.25, 0.5, 0.25]),), (torch.tensor([0.5]),)],
        ),
        Property("one halt", "The number of steps, and what is left of 1 for the last of them.", _reached, points=2),
        Property(
            "no early halt",
            "A position that never reaches 1 - ε takes all the steps, those with an h of 0 too.",
            lambda draw: [
                (_chances(draw, 5, most=3),),
                (torch.full((3,), 0.125),),
                (torch.tensor([0.0, 0.25, 0.0, 0.5, 0.0]),),
            ],
            needs=("one halt",),
        ),
        Property(
            "epsilon",
            "A position halts where the sum is 1 - ε or more.",
            lambda draw: [(*_batches(draw)[0], 0.3), (torch.tensor([0.25, 0.25, 0.125, 0.5]), 0.5)],
            needs=("one halt", "no early halt"),
        ),
        Property(
            "each alone",
            "Each position has its own cost, with any number of batch axes.",
            lambda draw: [*_batches(draw), (_chances(draw, 2, 3, 2, 5),), (_chances(draw, 3, 1, 5),)],
            needs=("one halt", "no early halt"),
        ),
        has_gradient(_batches, points=2, needs=("each alone",)),
        leaves_inputs(_batches),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Neither a comparison nor a count carries a gradient.": (
            "detach: before.detach() < 1 - epsilon",
            "detach: active.detach().sum",
            "detach: N.detach()[..., None]",
            "detach: N.detach() + R",
        ),
    },
    hints=HINTS,
    extra=True,
)
