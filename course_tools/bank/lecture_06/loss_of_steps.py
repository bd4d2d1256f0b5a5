"""Exercise 06.8, loss_of_steps: what students answer, wrong and right."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

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


def loss_of_steps(
    nats: Float[Tensor, "*batch n_steps"],
    h: Float[Tensor, "*batch n_steps"],
    price: float,
) -> Float[Tensor, ""]:
    """Weigh the losses of all steps by the halting distribution, and add the price of the steps taken.

    Args:
        nats: the cross-entropy of each step at each position.
        h: the halting values of the steps, in 0…1.
        price: what the ponder cost ρ = N + R of a position is multiplied by.

    Returns:
        one number, the mean over all positions.

    Source: Graves 2016, section 2 (the ponder cost); Banino et al. 2021 (the expected loss of the steps).
    """
    of_steps = (halting_distribution(h) * nats).sum(-1)
    return (of_steps + price * ponder_cost(h)).mean()


HINTS = (
    "A column has h = (0.3, 0.5, 0.4, 0.9) and the nats (0.7, 0.4, 0.1, 0.1). With what weights do its four steps count?"
    " And what does it pay for the three that it takes?",
    "`halting_distribution(h)` are the weights: they sum to 1, and are 0 after the halt. The loss of a column is the sum"
    " of its nats, each times its weight, plus the price times `ponder_cost(h)`. It is a number for each column.",
    "Multiply the weights and the nats, and sum over the last axis, that of the steps: one number for each column. The"
    " ponder cost has the same shape, so the two can be added, the second times the price. One mean over all columns ends"
    " it.",
)


def _weighed(nats, h):
    return (halting_distribution(h) * nats).sum(-1)


def _N(h):
    """How many steps each position takes, without a gradient."""
    return (F.pad(h, (1, 0)).cumsum(-1)[..., :-1] < 0.99).sum(-1)


@wrong.idea
def counts_every_step_alike(nats, h, price):
    """You average the nats over the steps. Then a guess costs a column that waits as much as one that halts at once, and
    nothing but the price decides when to halt. Each step counts with its weight in the halting distribution."""
    return (nats.mean(-1) + price * ponder_cost(h)).mean()


@wrong.idea
def takes_the_best_step(nats, h, price):
    """You take the step with the smallest loss. Which one that is only the label tells; the model must say by its h when it
    knows the answer. Weigh the nats by the halting distribution."""
    return (nats.amin(-1) + price * ponder_cost(h)).mean()


@wrong.part
def reads_the_halting_step_alone(nats, h, price):
    """You take the nats of the step at which a column halts. Then h has a gradient through the price alone, which asks for
    fewer steps and never for more. All steps up to there count, each with its weight."""
    last = nats.gather(-1, _N(h)[..., None] - 1)[..., 0]
    return (last + price * ponder_cost(h)).mean()


@wrong.part
def weighs_by_h(nats, h, price):
    """You weigh the steps by h. The step at which a column halts gets what is left of 1, and those after it get nothing:
    `halting_distribution` turns h into these weights."""
    return ((h * nats).sum(-1) + price * ponder_cost(h)).mean()


@wrong.part
def divides_h_by_its_sum(nats, h, price):
    """You divide h by its sum. Such weights sum to 1, but steps after the halt still count, and that of the halt with its own h
    in place of what is left of 1: `halting_distribution` turns h into the weights."""
    return ((h / h.sum(-1, keepdim=True) * nats).sum(-1) + price * ponder_cost(h)).mean()


@wrong.part
def pays_nothing(nats, h, price):
    """The price is missing. Then waiting costs nothing, and no column has a reason to halt early."""
    return _weighed(nats, h).mean()


@wrong.part
def pays_for_the_count_alone(nats, h, price):
    """You charge the number of steps, N. A count has no gradient, so the price would teach nothing: the ponder cost adds the
    remainder R, which has one."""
    return (_weighed(nats, h) + price * _N(h)).mean()


@wrong.part
def pays_for_the_remainder_alone(nats, h, price):
    """You charge the remainder R and not the steps. Its gradient is right, but the ponder cost is N + R."""
    return (_weighed(nats, h) + price * (ponder_cost(h) - _N(h))).mean()


@wrong.part
def pays_for_the_sum_of_h(nats, h, price):
    """You charge the sum of h. It grows where a column wants to halt, so your price asks it to go on. `ponder_cost` turns h
    into N + R."""
    return (_weighed(nats, h) + price * h.sum(-1)).mean()


@wrong.part
def pays_for_the_expected_step(nats, h, price):
    """You charge Σ n · p, the mean step of the halting distribution. A column computes all N steps, and pays for all: N +
    R."""
    steps = torch.arange(1, h.shape[-1] + 1)
    return (_weighed(nats, h) + price * (halting_distribution(h) * steps).sum(-1)).mean()


@wrong.detail
def averages_over_the_steps(nats, h, price):
    """You average the weighted nats over the steps. The weights sum to 1 already: add them up, or the nats count for less the
    more steps are allowed."""
    return ((halting_distribution(h) * nats).mean(-1) + price * ponder_cost(h)).mean()


@wrong.detail
def adds_up_the_positions(nats, h, price):
    """You add up all positions. The loss is their mean: otherwise a larger batch would take larger steps."""
    return (_weighed(nats, h) + price * ponder_cost(h)).sum()


@wrong.detail
def prices_the_nats_too(nats, h, price):
    """You multiply the nats by the price as well. The price says how many nats a step costs: it belongs to the ponder cost
    alone."""
    return price * (_weighed(nats, h) + ponder_cost(h)).mean()


@wrong.detail
def pays_once_more_for_each_step(nats, h, price):
    """You add the ponder cost to each step, and then add up the steps: it is paid once for every step that is allowed. N is in
    it already; add it after the sum over the steps."""
    return (halting_distribution(h) * nats + price * ponder_cost(h)[..., None]).sum(-1).mean()


@wrong.detail
def subtracts_the_price(nats, h, price):
    """You subtract the price of the steps. Training makes the loss small, and yours falls with every step that is taken."""
    return (_weighed(nats, h) - price * ponder_cost(h)).mean()


@wrong.detail
def fixes_the_price(nats, h, price):
    """You charge a price of 0.06, that of the lecture, whatever `price` is. Multiply the ponder cost by `price`."""
    return (_weighed(nats, h) + 0.06 * ponder_cost(h)).mean()


@wrong.detail
def adds_the_cost_without_the_price(nats, h, price):
    """You add the ponder cost as it is, at a price of 1. Multiply it by `price`."""
    return (_weighed(nats, h) + ponder_cost(h)).mean()


@wrong.case
def takes_the_weights_from_the_graph(nats, h, price):
    """You detach the weights. The value is right, but when to halt is learned through them: without their gradient, only the
    price says anything about it."""
    return (_weighed(nats, h.detach()) + price * ponder_cost(h)).mean()


@wrong.case
def returns_the_loss_of_each_position(nats, h, price):
    """You return a loss for each position. It is right, but training needs one number: take the mean."""
    return _weighed(nats, h) + price * ponder_cost(h)


@right
def means_of_both_parts(nats, h, price):
    """The mean of the nats by einsum, plus the mean of the price."""
    nats_of_positions = torch.einsum("...n,...n->...", halting_distribution(h), nats)
    return nats_of_positions.mean() + price * ponder_cost(h).mean()


@right
def price_on_every_step(nats, h, price):
    """The price of a position is added to the nats of each of its steps: their weights sum to 1."""
    costs = nats + price * ponder_cost(h)[..., None]
    return (halting_distribution(h) * costs).sum() / costs[..., 0].numel()


@right
def step_by_step(nats, h, price):
    """A loop over the steps: what is left of the budget, who still goes on, and what has been paid."""
    left, loss = torch.ones_like(h[..., 0]), torch.zeros_like(h[..., 0])
    going, n_steps = torch.ones_like(left, dtype=torch.bool), h.shape[-1]
    for n in range(n_steps):
        ends = going & ((1 - left + h[..., n] >= 0.99) | torch.tensor(n == n_steps - 1))
        weight = torch.where(ends, left, torch.where(going, h[..., n], 0.0))
        loss = loss + weight * nats[..., n] + price * going + price * torch.where(ends, left, 0.0)
        left, going = torch.where(going & ~ends, left - h[..., n], left), going & ~ends
    return loss.mean()


@right
def in_double_precision(nats, h, price):
    """All in float64, the product of weights and nats as a matrix product."""
    p, nats = halting_distribution(h.double()), nats.double()
    loss = (p[..., None, :] @ nats[..., None]).flatten() + price * ponder_cost(h.double()).flatten()
    return (loss.sum() / len(loss)).to(h.dtype)


@stranger
def loss_of_the_squares(nats, h, price):
    return (_weighed(nats**2, h) + price * ponder_cost(h)).mean()


@stranger
def loss_from_the_last_step_backwards(nats, h, price):
    return (_weighed(nats.flip(-1), h) + price * ponder_cost(h)).mean()


@stranger
def loss_at_half_the_price(nats, h, price):
    return (_weighed(nats, h) + price * ponder_cost(h) / 2).mean()


@stranger
def loss_of_the_worst_position(nats, h, price):
    return (_weighed(nats, h) + price * ponder_cost(h)).amax()


@stranger(makes=[pays_nothing, averages_over_the_steps])
def loss_without_a_price_averaged_over_the_steps(nats, h, price):
    return (halting_distribution(h) * nats).mean()


def _halting(draw: Draw, *shape: int) -> Tensor:
    """Halting values in sixteenths, never 0, as sigmoids are: their sums are exact, and stay away from 1 - ε."""
    return draw.integers(1, 9, *shape) / 16


def _steps(draw: Draw, *batch: int, n_steps: int = 7, price: float = 0.25) -> Call:
    """Positions of which some halt early, and the nats of their steps: above 0, and larger than those of a guess at times."""
    nats = 2 * draw.uniform(*batch, n_steps) + 0.05
    return nats, _halting(draw, *batch, n_steps), price


def _batches(draw: Draw) -> list[Call]:
    B, T = draw.sizes(2)
    return [_steps(draw, B, T), _steps(draw, T, n_steps=5, price=0.0625)]


def _for_free(draw: Draw) -> list[Call]:
    return [_steps(draw, size, price=0.0) for size in draw.sizes(2)]


def _all_known(draw: Draw) -> list[Call]:
    """No step makes a mistake: the price is left."""
    return [(0 * nats, h, price) for nats, h, price in (_steps(draw, 1), _steps(draw, 3))]


exercise = Exercise(
    id="06.8",
    title="The loss of the steps and their price",
    reference=loss_of_steps,
    properties=(
        runs_on(_batches),
        has_shape("One number for all positions.", _batches),
        Property("nats", "At a price of 0: the nats of the steps, each with its weight.", _for_free, points=2),
        Property("price", "Where no step has a loss: the price times N + R.", _all_known, points=2),
        Property("both", "The sum of both, as a mean over the positions.", _batches, needs=("nats", "price")),
        Property(
            "batch",
            "Any number of batch axes.",
            lambda draw: [_steps(draw, 2, 3, 2), _steps(draw, n_steps=5), _steps(draw, 3, n_steps=1)],
            needs=("both",),
        ),
        has_gradient(_batches, points=2, needs=("both",)),
        leaves_inputs(_batches),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "The sum over the steps is a new tensor, and its old values are not needed again.": (
            "in place: of_steps.add_(price * ponder_cost(h)).mean",
        ),
    },
    hints=HINTS,
)
