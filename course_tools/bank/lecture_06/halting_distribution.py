"""Exercise 06.2, halting_distribution: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.primitives import halting_distribution
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
        "Take h = (0.3, 0.5, 0.4, 0.9) and ε = 0.01. After which step has the sum reached 0.99, and what is still missing to 1 "
        "before that step? Write the four p down. What changes if the third h is 0.1 and the fourth 0?"
    ),
    (
        "Everything follows from the sum of all h *before* each step. A step is taken where this sum is below 1 - ε; the "
        "last step that is taken is N. Before N the weight p is h, at N it is 1 minus that sum, after it 0."
    ),
    (
        "The sum before each step is the running sum without the step's own h. A step is N where it is taken and the "
        "next one is not; the last column has no next one, so no position goes on there. Two nested `torch.where` do "
        "the rest."
    ),
)


def _before(h):
    """The sum of the h before each step, exactly 0 before the first."""
    return F.pad(h.cumsum(-1)[..., :-1], (1, 0))


def _shares(h, active, last, before=None):
    """h before the last step taken, what is missing to 1 at it, 0 after."""
    goes_on = F.pad(active[..., 1:], (0, 1))
    return torch.where(goes_on, h, torch.where(active, last, 0.0))


@wrong.part
def forgets_the_remainder(h, epsilon=0.01):
    """You leave h at the step at which the position halts. Your p then do not sum to 1; that step gets the remainder, 1 - Σ
    h of the steps before."""
    return torch.where(_before(h) < 1 - epsilon, h, 0.0)


@wrong.part
def subtracts_the_step_itself(h, epsilon=0.01):
    """You subtract the sum up to and with the step itself, and do so at every later step, too. The remainder is 1 minus the
    sum of the steps *before* N, and after N the weight is 0."""
    total = h.cumsum(-1)
    return torch.where(total >= 1 - epsilon, 1 - total, h)


@wrong.case
def goes_on_where_the_sum_is_the_threshold(h, epsilon=0.01):
    """You go on where the sum is exactly 1 - ε, by `>`. The position halts where it reaches it: `>=`."""
    active = _before(h) <= 1 - epsilon
    return _shares(h, active, 1 - _before(h))


@wrong.idea
def takes_a_softmax(h, epsilon=0.01):
    """You take a softmax over the steps. It knows no step at which a position halts: no later step gets 0, and ε has no
    effect."""
    return h.softmax(-1)


@wrong.idea
def divides_h_by_its_sum(h, epsilon=0.01):
    """You divide h by its sum over all steps. A position then never halts: the steps before the sum reaches 1 - ε keep their
    h, one gets the remainder, and the later ones get 0."""
    return h / h.sum(-1, keepdim=True)


@wrong.idea
def never_halts(h, epsilon=0.01):
    """You go on to the end: every step keeps its h, and the last gets the rest, which may be negative. As soon as the sum
    reaches 1 - ε the position halts, and all later steps get 0."""
    return torch.cat([h[..., :-1], 1 - h[..., :-1].sum(-1, keepdim=True)], dim=-1)


@wrong.detail
def forgets_epsilon(h, epsilon=0.01):
    """You wait until the sum reaches 1. A sigmoid never does, so your positions take one step too many; with 1 - ε, one
    step with h near 1 is enough."""
    before = _before(h)
    return _shares(h, before < 1, 1 - before)


@wrong.case
def types_epsilon_in(h, epsilon=0.01):
    """You write 0.99 instead of 1 - ε. That is only the default; another epsilon has no effect in yours."""
    before = _before(h)
    return _shares(h, before < 0.99, 1 - before)


@wrong.idea
def breaks_a_stick(h, epsilon=0.01):
    """You take h as the probability to halt *given* that the position has not halted before: h_n times all 1 - h before.
    That is another model of halting; here p is h itself, until the sum reaches 1 - ε."""
    going_on = F.pad((1 - h).cumprod(-1)[..., :-1], (1, 0), value=1.0)
    return torch.cat([(h * going_on)[..., :-1], going_on[..., -1:]], dim=-1)


@wrong.idea
def breaks_a_stick_and_keeps_the_rest(h, epsilon=0.01):
    """You multiply each h by all 1 - h before it: the probability of halting at this step. That is another model of
    halting, and its p need not sum to 1; here p is h itself, until the sum reaches 1 - ε."""
    return h * F.pad((1 - h).cumprod(-1)[..., :-1], (1, 0), value=1.0)


@wrong.part
def stops_when_the_stick_is_short(h, epsilon=0.01):
    """You take h_n times all 1 - h before as p, and halt where these reach 1 - ε. A position then halts too late; add up
    the h themselves, which are p before N."""
    going_on = F.pad((1 - h).cumprod(-1)[..., :-1], (1, 0), value=1.0)
    return _shares(h * going_on, going_on > epsilon, going_on)


@wrong.part
def divides_by_the_sum(h, epsilon=0.01):
    """You set p to 0 after N and divide by the sum. Your p sum to 1, but before N they are no longer h; only the last step
    changes."""
    p = torch.where(_before(h) < 1 - epsilon, h, 0.0)
    return p / p.sum(-1, keepdim=True).clamp(min=1e-9)


@wrong.detail
def gives_the_rest_to_the_very_end(h, epsilon=0.01):
    """You add the remainder at the last of all steps, though the position has halted before. It belongs to N, the last step
    that is taken."""
    goes_on = F.pad((_before(h) < 1 - epsilon)[..., 1:], (0, 1))
    p = torch.where(goes_on, h, 0.0)
    return torch.cat([p[..., :-1], 1 - p[..., :-1].sum(-1, keepdim=True)], dim=-1)


@wrong.detail
def adds_the_remainder_to_h(h, epsilon=0.01):
    """You give the halting step its h plus the remainder. It gets the remainder alone; your p sum to more than 1."""
    before = _before(h)
    return _shares(h, before < 1 - epsilon, 1 - before + h)


@wrong.detail
def halts_one_step_too_late(h, epsilon=0.01):
    """You give the remainder to the step after the one that reaches 1 - ε. The sum may exceed 1 by then, and your remainder
    is negative; the step that reaches 1 - ε is N itself."""
    reached = h.cumsum(-1)
    active = F.pad((_before(h) < 1 - epsilon)[..., :-1], (1, 0), value=True)
    return _shares(h, active, 1 - reached + h)


@wrong.part
def halts_all_at_once(h, epsilon=0.01):
    """You stop only when every position of the batch has reached 1 - ε. Each position halts independently; in yours the
    early ones go on, and their last p is negative."""
    before = _before(h)
    active = (before < 1 - epsilon).reshape(-1, h.shape[-1]).any(0).expand_as(h)
    return _shares(h, active, 1 - before)


@wrong.case
def leaves_the_undecided_open(h, epsilon=0.01):
    """Where the sum never reaches 1 - ε you keep all h as they are. At the last step every position halts: it gets the
    remainder."""
    before = _before(h)
    halts = (before < 1 - epsilon) & (before + h >= 1 - epsilon)
    return torch.where(halts, 1 - before, torch.where(before < 1 - epsilon, h, 0.0))


@wrong.idea
def chooses_one_step(h, epsilon=0.01):
    """You give everything to the step at which the position halts. The steps before keep p = h; and your 0s and 1s pass no
    gradient to the halting unit."""
    active = _before(h) < 1 - epsilon
    return F.one_hot(active.sum(-1) - 1, h.shape[-1]).to(h.dtype)


@wrong.case
def takes_the_remainder_from_the_graph(h, epsilon=0.01):
    """You detach the sum of which the remainder is made. Your numbers are right, but the last step passes no gradient to the h
    of the steps before."""
    before = _before(h)
    return _shares(h, before < 1 - epsilon, 1 - before.detach())


@wrong.detail
def takes_epsilon_off_the_remainder(h, epsilon=0.01):
    """You give the last step what is missing to 1 - ε, and so your p sum to that. ε decides when a position halts; the
    remainder is what is missing to 1."""
    before = _before(h)
    return _shares(h, before < 1 - epsilon, 1 - epsilon - before)


@right
def step_by_step(h, epsilon=0.01):
    """A loop over the steps that keeps what is left of 1, and which positions are still active."""
    left, active, p = torch.ones_like(h[..., 0]), torch.ones_like(h[..., 0], dtype=torch.bool), []
    for n in range(h.shape[-1]):
        halts = active & (1 - left + h[..., n] >= 1 - epsilon) if n < h.shape[-1] - 1 else active
        p.append(torch.where(halts, left, torch.where(active, h[..., n], torch.zeros_like(left))))
        left, active = left - p[-1], active & ~halts
    return torch.stack(p, dim=-1)


@right
def by_the_index_of_the_step(h, epsilon=0.01):
    """N from argmax, masks by comparing indices with it, and the rest added at N; in float64."""
    n_steps = h.shape[-1]
    reached = h.double().cumsum(-1) >= 1 - epsilon
    reached[..., -1] = True
    N = reached.int().argmax(-1, keepdim=True)
    kept = h.double() * (torch.arange(n_steps) < N)
    return kept.scatter(-1, N, 1 - kept.sum(-1, keepdim=True)).to(h.dtype)


@right
def by_capping_the_sum(h, epsilon=0.01):
    """The sum jumps to 1 where it reaches 1 - ε or the steps end; the shares are its differences."""
    total = h.cumsum(dim=-1)
    ends = torch.arange(h.shape[-1]) == h.shape[-1] - 1
    total = torch.where((total >= 1 - epsilon) | ends, torch.ones_like(total), total)
    return total.diff(dim=-1, prepend=torch.zeros_like(total[..., :1]))


@stranger
def shares_of_squares(h, epsilon=0.01):
    return halting_distribution(h.square(), epsilon)


@stranger
def shares_read_backwards(h, epsilon=0.01):
    return halting_distribution(h.flip(-1), epsilon).flip(-1)


@stranger
def shares_that_are_all_equal(h, epsilon=0.01):
    return torch.full_like(h, 1 / h.shape[-1])


@stranger(makes=[forgets_the_remainder, forgets_epsilon])
def shares_without_remainder_and_epsilon(h, epsilon=0.01):
    before = F.pad(h, (1, 0)).cumsum(-1)[..., :-1]
    return torch.where(before < 1, h, 0.0)


def _chances(draw: Draw, *shape: int, most: int = 8) -> torch.Tensor:
    """Probabilities in sixteenths: their sums are exact, and stay away from 1 - ε."""
    return draw.integers(0, most + 1, *shape) / 16


def _batches(draw: Draw) -> list[Call]:
    B, T = draw.sizes(2)
    return [(_chances(draw, B, T, 7),), (_chances(draw, T, 5),)]


def _sums_of(*rows: tuple[float, ...]) -> list[Call]:
    return [(torch.tensor(row),) for row in rows]


def _reached(draw: Draw) -> list[Call]:
    """One position that halts on its way: two steps keep their h, the third gets the rest, two come too late."""
    first = draw.integers(3, 8, 2) / 16
    return [(torch.cat([first, torch.tensor([0.625, 0.125]), draw.integers(1, 8, 1) / 16]),)]


exercise = Exercise(
    id="06.2",
    title="The halting distribution",
    reference=halting_distribution,
    properties=(
        runs_on(_batches),
        has_shape("A p for each step.", _batches),
        Property("one halt", "h before the halt, the remainder at it, 0 after it.", _reached, points=2),
        Property(
            "no early halt",
            "A position that never reaches 1 - ε halts at the last step, which gets the remainder.",
            lambda draw: [(_chances(draw, 5, most=3),), (torch.full((3,), 0.125),)],
            points=2,
        ),
        Property(
            "one step",
            "Where the first h is within ε of 1, p is 1 at the first step. The same with a single step.",
            lambda _: _sums_of((1.0, 0.5, 0.5), (0.995, 0.25, 0.5, 0.25), (0.5,)),
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
            "Each position halts independently, with any number of batch axes.",
            lambda draw: [*_batches(draw), (_chances(draw, 2, 3, 2, 5),)],
            needs=("one halt", "no early halt"),
        ),
        has_gradient(_batches, needs=("each alone",)),
        leaves_inputs(_batches),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "A comparison carries no gradient.": (
            "detach: before.detach() < 1 - epsilon",
            "detach: active.detach()[..., 1:]",
            "detach: torch.where(stays_active.detach(), h, torch.where(active, 1 - before, 0.0))",
            "detach: torch.where(active.detach(), 1 - before, 0.0)",
        ),
    },
    hints=HINTS,
)
