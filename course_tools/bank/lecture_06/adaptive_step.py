"""Exercise 06.5, adaptive_step: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.primitives import adaptive_step
from course_tools.checks.comparisons import right_result
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
        "Three tokens have the halting values (0.3, 0.2), (0.6, 0.5) and (0.1, 0.9), with ε = 0.01. Which of them "
        "takes a step now, and what are the states of the others after it? What if there are no previous steps?"
    ),
    (
        "First the decision, from the sum of the h so far; then the states, y or x for each token by itself; then the "
        "halting unit, whose input is the states *after* the step and which appends one column to h, for all positions."
    ),
    (
        "A token takes a step where the sum of its h over the last axis is below 1 - ε; keep that axis, so that the "
        "decision broadcasts over the features. `torch.where` chooses between y and x for each token. The sigmoid of "
        "the states' product with w plus b is one number a token: give it a last axis, and join it to h."
    ),
)


def _still_active(h, epsilon):
    """Which positions are still active, (B, T, 1)."""
    return h.sum(-1, keepdim=True) < 1 - epsilon


def _asked(states, halt, h, seen=None):
    """States, and h with the answer of the halting unit to what it has seen."""
    w, b = halt
    seen = states if seen is None else seen
    return states, torch.cat([h, torch.sigmoid(seen @ w + b)[..., None]], dim=-1)


@wrong.idea
def lets_everyone_think_on(x, y, halt, h, epsilon=0.01):
    """You take y for every token. The state of a halted position must stay as it was, so that the others can go on
    attending to it."""
    return _asked(y, halt, h)


@wrong.idea
def lets_the_halted_think(x, y, halt, h, epsilon=0.01):
    """You update the halted positions and keep the others. A position goes on while its sum is *below* 1 - ε."""
    return _asked(torch.where(_still_active(h, epsilon), x, y), halt, h)


@wrong.idea
def looks_at_the_last_probability(x, y, halt, h, epsilon=0.01):
    """You compare only the newest h with 1 - ε. Halting adds up: a position with h of 0.5 twice has halted too. It is the
    sum over all steps so far that counts."""
    last = F.pad(h, (1, 0))[..., -1:]
    return _asked(torch.where(last < 1 - epsilon, y, x), halt, h)


@wrong.idea
def looks_at_the_last_entry(x, y, halt, h, epsilon=0.01):
    """You compare the last entry of h with 1 - ε, and before the first step there is none. The sum of all h so far counts: a
    position with h of 0.5 twice has halted, too."""
    return _asked(torch.where(h[..., -1:] < 1 - epsilon, y, x), halt, h)


@wrong.part
def averages_the_probabilities(x, y, halt, h, epsilon=0.01):
    """You take the mean of the h so far. It rarely reaches 1 - ε, so your positions take too many steps; at the first step
    it is a mean of no numbers. Take the sum."""
    return _asked(torch.where(h.mean(-1, keepdim=True) < 1 - epsilon, y, x), halt, h)


@wrong.detail
def forgets_epsilon(x, y, halt, h, epsilon=0.01):
    """You let a position go on until its sum reaches 1. It halts at 1 - ε; without ε even a position with h near 1 takes
    another step."""
    return _asked(torch.where(_still_active(h, 0.0), y, x), halt, h)


@wrong.part
def halts_the_whole_sentence(x, y, halt, h, epsilon=0.01):
    """You let all positions of a sequence go on as long as one of them does. Each position halts independently: that makes
    the depth adaptive."""
    active = (h.sum(-1, keepdim=True) < 1 - epsilon).any(1, keepdim=True)
    states, (w, b) = torch.where(active, y, x), halt
    return states, torch.cat([h, torch.sigmoid(states @ w + b)[..., None]], dim=-1)


@wrong.part
def wipes_out_the_halted(x, y, halt, h, epsilon=0.01):
    """You set the states of halted positions to 0. A halted position keeps its x, and the others go on attending to it."""
    return _asked(torch.where(_still_active(h, epsilon), y, 0.0), halt, h)


@wrong.part
def asks_before_the_step(x, y, halt, h, epsilon=0.01):
    """You let the halting unit read x, the states before the step. Its input is the new states."""
    return _asked(torch.where(_still_active(h, epsilon), y, x), halt, h, seen=x)


@wrong.detail
def asks_what_was_not_taken(x, y, halt, h, epsilon=0.01):
    """The input of your halting unit is y for every position. A halted position keeps x; the input is the state after the
    step."""
    return _asked(torch.where(_still_active(h, epsilon), y, x), halt, h, seen=y)


@wrong.part
def counts_the_new_probability_first(x, y, halt, h, epsilon=0.01):
    """You add the new h to the sum before you decide which positions go on. The decision depends on the previous steps
    alone."""
    _, longer = _asked(y, halt, h)
    return _asked(torch.where(_still_active(longer, epsilon), y, x), halt, h)


@wrong.part
def forgets_the_sigmoid(x, y, halt, h, epsilon=0.01):
    """You append w · state + b without the sigmoid. That is any real number, not one in 0…1."""
    states = torch.where(_still_active(h, epsilon), y, x)
    return states, torch.cat([h, (states @ halt[0] + halt[1])[..., None]], dim=-1)


@wrong.detail
def returns_the_new_probability_only(x, y, halt, h, epsilon=0.01):
    """You return the newest h alone. The next step needs the sum of all, so append it to the previous ones."""
    states, longer = _asked(torch.where(_still_active(h, epsilon), y, x), halt, h)
    return states, longer[..., -1:]


@wrong.detail
def silences_the_halted(x, y, halt, h, epsilon=0.01):
    """You write h = 0 for halted positions. The halting value is computed for every position; `halting_distribution` ignores
    what follows the halt."""
    active = _still_active(h, epsilon)
    states, longer = _asked(torch.where(active, y, x), halt, h)
    return states, torch.cat([h, torch.where(active, longer[..., -1:], 0.0)], dim=-1)


@wrong.detail
def forgets_the_bias(x, y, halt, h, epsilon=0.01):
    """You never add the bias b of the halting unit: the halting value is σ(w · state + b)."""
    return adaptive_step(x, y, (halt[0], torch.zeros_like(halt[1])), h, epsilon)


@wrong.case
def takes_the_sum_from_a_running_one(x, y, halt, h, epsilon=0.01):
    """You take the last entry of the running sum, and before the first step there is none. The sum of no numbers is 0:
    `sum`."""
    return _asked(torch.where(h.cumsum(-1)[..., -1:] < 1 - epsilon, y, x), halt, h)


@wrong.part
def decides_with_the_new_probability(x, y, halt, h, epsilon=0.01):
    """You add the h of this step before you decide who takes it. A position takes the step if its sum *before* it is
    below 1 - ε."""
    h = _asked(y, halt, h)[1]
    return torch.where(_still_active(h, epsilon), y, x), h


@right
def by_arithmetic(x, y, halt, h, epsilon=0.01):
    """0 and 1 as numbers that weigh x and y; the halting unit as a linear layer with one output."""
    w, b = halt
    active = (torch.einsum("btn->bt", h) < 1 - epsilon).to(x.dtype).unsqueeze(-1)
    states = active * y + (1 - active) * x
    return states, torch.cat((h, F.linear(states, w[None], b[None]).sigmoid()), dim=2)


@right
def by_writing_into_copies(x, y, halt, h, epsilon=0.01):
    """A clone of x that takes y where a position is active, and an empty h with one column more, filled in two parts."""
    w, b = halt
    active = ~(h.sum(dim=2) >= 1 - epsilon)
    states = x.clone()
    states[active] = y[active]
    longer = h.new_empty(*h.shape[:2], h.shape[2] + 1)
    longer[..., :-1] = h
    longer[..., -1] = 1 / (1 + torch.exp(-((states * w).sum(-1) + b)))
    return states, longer


@right
def word_by_word(x, y, halt, h, epsilon=0.01):
    """Two loops, each token with its own decision and its own question."""
    (B, T, d), (w, b) = x.shape, halt
    states, rows = [], []
    for i in range(B * T):
        at = divmod(i, T)
        state = y[at] if sum(h[at].tolist()) < 1 - epsilon else x[at]
        states.append(state)
        rows.append(torch.hstack([h[at], torch.sigmoid(torch.dot(w, state) + b)]))
    return torch.stack(states).reshape(B, T, d), torch.stack(rows).reshape(B, T, -1)


@stranger
def step_halfway(x, y, halt, h, epsilon=0.01):
    return adaptive_step(x, (x + y) / 2, halt, h, epsilon)


@stranger
def step_that_asks_twice(x, y, halt, h, epsilon=0.01):
    w, b = halt
    return adaptive_step(x, y, (2 * w, b), h, epsilon)


@stranger
def step_that_multiplies_what_is_left(x, y, halt, h, epsilon=0.01):
    active = 1 - (1 - h).prod(-1, keepdim=True) < 1 - epsilon
    states = torch.where(active, y, x)
    return states, torch.cat([h, (states @ halt[0] + halt[1]).sigmoid()[..., None]], dim=-1)


@stranger(makes=[lets_everyone_think_on, forgets_the_sigmoid])
def step_of_all_without_sigmoid(x, y, halt, h, epsilon=0.01):
    w, b = halt
    return y, torch.cat([h, (y @ w + b)[..., None]], dim=-1)


def _chances(draw: Draw, *shape: int, most: int = 8) -> torch.Tensor:
    """Probabilities in sixteenths: their sums are exact, and stay away from 1 - ε."""
    return draw.integers(0, most + 1, *shape) / 16


def _step(draw: Draw, B: int, n: int, most: int = 8) -> Call:
    T, d = draw.sizes(2)
    halt = draw.normal(d), draw.normal(1).sum()
    return draw.normal(B, T, d), draw.normal(B, T, d), halt, _chances(draw, B, T, n, most=most)


def _first(draw: Draw) -> list[Call]:
    return [_step(draw, 1, 0), _step(draw, 3, 0)]


def _later(draw: Draw) -> list[Call]:
    """In the first sentence some have halted, one by its last h alone, and some have not; the last has halted whole."""
    x, y, halt, h = _step(draw, 3, 3)
    h[:, 0], h[:, -1], h[0, 0, -1], h[-1] = 0.375, 0.0625, 1.0, 0.375
    return [(x, y, halt, h), _step(draw, 1, 5)]


def _sure(draw: Draw) -> list[Call]:
    """Sums just below 1, and h = 1."""
    x, y, halt, h = _step(draw, 2, 2)
    h[:, 0], h[:, -1] = torch.tensor([0.5, 0.495]), torch.tensor([1.0, 0.0])
    return [(x, y, halt, h)]


def _epsilon(draw: Draw) -> list[Call]:
    """With ε = 0.3 a sum of 0.75 has halted, and one of 0.6875 has not; with ε = 0.25, one of 0.75 just has."""
    x, y, halt, h = _step(draw, 2, 2)
    h[:, 0], h[:, -1] = torch.tensor([0.5, 0.25]), torch.tensor([0.5, 0.1875])
    return [(x, y, halt, h, 0.3), (x, y, halt, h, 0.25)]


exercise = Exercise(
    id="06.5",
    title="One step of adaptive computation",
    reference=adaptive_step,
    properties=(
        runs_on(_later),
        has_shape("A state for each position, and one h more.", lambda draw: [*_first(draw), *_later(draw)]),
        Property("first step", "At the first step every position takes y.", _first, right_result(0)),
        Property("who steps", "A position that goes on takes y; a halted one keeps x.", _later, right_result(0), points=2),
        Property("halted", "A sum within ε of 1 counts as halted.", _sure, right_result(0), needs=("who steps",)),
        Property(
            "epsilon", "A position halts where the sum is 1 - ε or more.", _epsilon, right_result(0), needs=("who steps",)
        ),
        Property(
            "halting unit",
            "The new h is computed from the state after the step and appended to the others.",
            lambda draw: [*_first(draw), *_later(draw)],
            points=2,
            needs=("first step", "who steps"),
        ),
        has_gradient(lambda draw: [*_first(draw), *_later(draw)], needs=("halting unit",)),
        leaves_inputs(_later),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "A comparison carries no gradient.": (
            "detach: torch.where(active.detach(), y, x)",
            "detach: F.pad(h.detach(), (1, 0))",
        ),
        "A zero more, in front or after them, leaves the sum of all as it is.": (
            "swap elements: F.pad(h, (0, 1))",
            "constant: F.pad(h, (2, 0))",
            "constant: F.pad(h, (1, 1))",
        ),
    },
    hints=HINTS,
)
