"""Exercise 03.2, doubly_stochastic_penalty: what students answer, wrong and right."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from course_lib.models import doubly_stochastic_penalty
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
        "Draw the weights of one caption as a table, a row for each word and a column for each region. The softmax makes "
        "each row sum to 1; which other sums can be penalised, and what should they be?"
    ),
    (
        "Three steps, on three axes: over T sum the weights of each region over the caption; over L add the squared "
        "distances of these sums from 1; over B take the mean. Mind the order: the square comes between the first and the "
        "second."
    ),
    (
        "Sum over the time steps first: that leaves (B, L), how much each region got in all. Its distance from 1 is "
        "squared and summed over the regions; the batch is averaged at the end."
    ),
)


@wrong.idea
def looks_at_the_words(weights):
    """You sum over the regions, the last axis. The softmax has made each of those sums 1, so your penalty is 0 whatever the
    model attends to; it is over the *words* that a region's weights must sum to 1."""
    return (1 - weights.sum(2)).square().sum(-1).mean()


@wrong.detail
def averages_over_the_regions(weights):
    """You take the mean over the regions as well. The penalty sums over them: yours is smaller by the factor L, and weaker the
    finer the grid of regions is."""
    return (1 - weights.sum(1)).square().mean()


@wrong.detail
def sums_over_the_batch(weights):
    """You sum over the captions of the batch. Your penalty then grows with the batch while the loss of the words is a mean;
    take the mean over the captions."""
    return (1 - weights.sum(1)).square().sum()


@wrong.detail
def takes_the_distance(weights):
    """You take the absolute distance from 1 and not its square. Then one region with sum 0 costs as much as ten with sum 0.9,
    and the gradient does not shrink as a sum comes near 1."""
    return (1 - weights.sum(1)).abs().sum(-1).mean()


@wrong.part
def squares_before_adding_up(weights):
    """You subtract each single weight from 1 and square before you sum over the words. That asks every word to give every
    region the weight 1; it is the sum over the whole caption that should be 1."""
    return (1 - weights).square().sum((1, 2)).mean()


@wrong.detail
def averages_over_the_words(weights):
    """You take the mean over the words and ask it to be 1. A region has a mean of 1 only if every word attends to it alone;
    its weights should sum to 1."""
    return (1 - weights.mean(1)).square().sum(-1).mean()


@wrong.detail
def shares_the_words_out(weights):
    """You ask each region's sum to be T/L, its average. The paper asks for 1, however many words and regions there are; the
    two are the same only where there are as many words as regions."""
    T, L = weights.shape[1:]
    return (T / L - weights.sum(1)).square().sum(-1).mean()


@wrong.idea
def squares_the_total(weights):
    """You sum over the regions first and square the total. Sums above and below 1 cancel, and the result is (L - T)² for every
    caption; each region's own distance must be squared."""
    return (1 - weights.sum(1)).sum(-1).square().mean()


@wrong.part
def averages_the_captions_first(weights):
    """You take the mean over the batch before the square. Then a region with sum 2 in one caption and 0 in another counts as
    1; each caption has its own image and its own penalty."""
    return (1 - weights.sum(1).mean(0)).square().sum()


@wrong.case
def gives_one_for_each_caption(weights):
    """You return a penalty for each caption. It should be one number, to be added to a loss: the mean over the batch is
    missing."""
    return (1 - weights.sum(1)).square().sum(-1)


@wrong.part
def punishes_the_excess_alone(weights):
    """You count only the regions whose weights sum to more than 1. Regions that are never attended to then cost nothing;
    deviations in both directions count."""
    return (weights.sum(1) - 1).relu().square().sum(-1).mean()


@wrong.case
def stops_the_gradient(weights):
    """You cut the weights off from the graph, with `detach`, `no_grad`, `.item()` or a new tensor. The number is right, but no
    gradient reaches the weights."""
    return (1 - weights.detach().sum(1)).square().sum(-1).mean()


@wrong.part
def forgets_the_square(weights):
    """You add up 1 - Σ_t α_ti without squaring it: a region attended to twice makes up for one never attended to, and the
    penalty can be negative."""
    return (1 - weights.sum(1)).sum(-1).mean()


@wrong.part
def subtracts_before_adding_up(weights):
    """You subtract each weight from 1 and then add up over the words: T minus the sum. The 1 stands outside the sum."""
    return (1 - weights).sum(1).square().sum(-1).mean()


@wrong.detail
def takes_the_norm(weights):
    """You take the norm of the distances, the root of the sum of their squares. The penalty is the sum itself."""
    return (1 - weights.sum(1)).norm(dim=-1).mean()


@right
def as_mean_squared_error(weights):
    """torch's squared error between the sums and a table of ones, times the number of regions."""
    sums = torch.einsum("btl->bl", weights)
    return F.mse_loss(sums, torch.ones_like(sums)) * sums.shape[-1]


@right
def as_squared_lengths(weights):
    """A row of ones from the left makes the sums; the squared length of their distance from a corner of ones, in float64."""
    ones = weights.new_ones(weights.shape[0], 1, weights.shape[1], dtype=torch.float64)
    distance = 1 - ones @ weights.double()
    return (distance @ distance.mT).mean().to(weights.dtype)


@right
def multiplied_out(weights):
    """(1 - s)² = 1 - 2s + s², in which Σ s² is a sum over pairs of words; in float64."""
    double = weights.double()
    pairs = (double @ double.mT).sum((1, 2))
    return (weights.shape[2] - 2 * double.sum((1, 2)) + pairs).mean().to(weights.dtype)


@right
def region_by_region(weights):
    """Three loops: over the captions, over their regions, over the words."""
    penalty = weights.new_zeros(())
    for caption in weights:
        for i in range(caption.shape[1]):
            got = weights.new_zeros(())
            for row in caption:
                got = got + row[i]
            penalty = penalty + (1 - got) ** 2
    return penalty / len(weights)


@stranger
def penalty_halved(weights):
    return doubly_stochastic_penalty(weights) / 2


@stranger
def penalty_of_the_largest_look(weights):
    return (1 - weights.amax(1)).square().sum(-1).mean()


@stranger
def penalty_of_the_root(weights):
    return (1 - weights.sum(1)).square().sum(-1).sqrt().mean()


@stranger(makes=[sums_over_the_batch, takes_the_distance])
def penalty_of_distances_over_the_batch(weights):
    return (1 - weights.sum(1)).abs().sum()


def _weights(draw: Draw, B: int, sharp: float = 2.0) -> Call:
    """Where a caption of T words looks at L regions; T and L differ, either may be the larger."""
    T, L = draw.sizes(2)
    return (draw.normal(B, T, L, scale=sharp).softmax(-1),)


def _evenly(draw: Draw) -> list[Call]:
    """As many words as regions, and each region looked at once in all: evenly, or one after the other in any order."""
    L = draw.sizes(1)[0]
    order = draw.uniform(L).argsort()
    one_by_one = (order[:, None] == torch.arange(L)).float()
    return [(torch.full((1, L, L), 1 / L),), (one_by_one[None],)]


def _padded(draw: Draw) -> list[Call]:
    """The last words of a caption are padding, without any weight."""
    (weights,) = _weights(draw, 3)
    weights[1, -1:] = 0.0
    return [(weights,)]


def _captions(*B: int) -> Callable[[Draw], list[Call]]:
    return lambda draw: [_weights(draw, b) for b in B]


exercise = Exercise(
    id="03.2",
    title="The doubly stochastic penalty",
    extra=True,
    reference=doubly_stochastic_penalty,
    properties=(
        runs_on(_captions(2)),
        has_shape("One number for the batch.", _captions(2, 1)),
        Property("once each", "Where the weights of each region sum to 1, the penalty is 0.", _evenly),
        Property(
            "one caption",
            "One caption: the squared distances from 1, summed over the regions.",
            _captions(1, 1, 1),
            points=2,
            needs=("once each",),
        ),
        Property("batch", "The mean over captions, each with its own penalty.", _captions(3, 5), needs=("one caption",)),
        Property("padding", "Padding has weights of 0 and no effect.", _padded, needs=("batch",)),
        has_gradient(_captions(1, 3), needs=("batch",)),
        leaves_inputs(_captions(2)),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "A square does not see the sign, and the last of two axes is axis 1.": (
            "swap operands: (weights.sum(1) - 1).square",
            "drop sign: (1 - weights.sum(1)).square().sum(1)",
        ),
    },
    hints=HINTS,
)
