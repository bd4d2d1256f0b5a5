"""Exercise 19.1, merge: what students answer, wrong and right."""

import torch
from torch import Tensor

from course_lib.attention import Partial, merge, partial_attention
from course_tools.checks.comparisons import finite_gradients, right_result
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
        "Take the tiles of the example: one kept the maximum ln 2 and the total 1.5, the other ln 6 and 1. In which unit is "
        "each total counted, and what must 1.5 be multiplied by so that both are counted in the same one?"
    ),
    (
        "The new maximum is the larger of both. Each total is multiplied by exp(its own maximum - the new maximum), and then "
        "they add up. The contexts are averaged with these rescaled totals as weights."
    ),
    (
        "Take both factors from the maximum of their own side; a factor times its total is the weight of that "
        "context, and needs a last axis for the features. Divide the weighted sum of the contexts by the sum of the "
        "weights, the new total. Where both sides are empty, -∞ minus -∞ and 0 divided by 0 are NaN: put finite "
        "numbers in their place first."
    ),
)


def _rescaled(a: Partial, b: Partial) -> tuple[Tensor, Tensor, Tensor]:
    """The new maximum, and both totals in its unit."""
    maximum = torch.maximum(a.maximum, b.maximum)
    finite = torch.where(maximum == -torch.inf, 0.0, maximum)
    return maximum, a.total * (a.maximum - finite).exp(), b.total * (b.maximum - finite).exp()


def _mean(of_a: Tensor, of_b: Tensor, a: Partial, b: Partial) -> Tensor:
    total = of_a + of_b
    total = torch.where(total == 0, 1.0, total)
    return (of_a[..., None] * a.context + of_b[..., None] * b.context) / total[..., None]


@wrong.part
def does_not_rescale(a, b):
    """You add the totals as they are. Each is counted in units of exp(its own maximum): before they are added, the one with
    the smaller maximum must shrink by exp(own - new)."""
    (c_a, m_a, l_a), (c_b, m_b, l_b) = a, b
    total = l_a + l_b
    divisor = torch.where(total == 0, 1.0, total)
    context = (l_a[..., None] * c_a + l_b[..., None] * c_b) / divisor[..., None]
    return context, torch.maximum(m_a, m_b), total


@wrong.part
def rescales_the_contexts_alone(a, b):
    """You rescale the weights of the contexts, but add the totals as they are, and divide by them. The new total is the sum of
    the rescaled ones, so that the weights of both contexts sum to 1."""
    (c_a, m_a, l_a), (c_b, m_b, l_b) = a, b
    maximum, total = torch.maximum(m_a, m_b), l_a + l_b
    of_a, of_b = (m_a - maximum).exp() * l_a, (m_b - maximum).exp() * l_b
    return (of_a[..., None] * c_a + of_b[..., None] * c_b) / total[..., None], maximum, total


@wrong.part
def returns_the_sum_of_the_old_totals(a, b):
    """Your context is right, but the total that you return is the sum of the old ones. Return the sum of the rescaled totals,
    by which you divide: the next merge counts on its unit."""
    (c_a, m_a, l_a), (c_b, m_b, l_b) = a, b
    maximum = torch.maximum(m_a, m_b)
    of_a, of_b = (m_a - maximum).exp() * l_a, (m_b - maximum).exp() * l_b
    return (of_a[..., None] * c_a + of_b[..., None] * c_b) / (of_a + of_b)[..., None], maximum, l_a + l_b


@wrong.part
def leaves_the_totals_out_of_the_weights(a, b):
    """You weigh the contexts by exp(own - new) alone, and divide by the new total. The weight of a context is its total times
    that factor: the weights then sum to what you divide by."""
    a, b = Partial(*a), Partial(*b)
    maximum, of_a, of_b = _rescaled(a, b)
    finite = torch.where(maximum == -torch.inf, 0.0, maximum)
    by_a, by_b = (a.maximum - finite).exp(), (b.maximum - finite).exp()
    total = torch.where(of_a + of_b == 0, 1.0, of_a + of_b)[..., None]
    return Partial((by_a[..., None] * a.context + by_b[..., None] * b.context) / total, maximum, of_a + of_b)


@wrong.detail
def takes_one_maximum_for_all_queries(a, b):
    """You take one maximum over all queries. Each query has its own: compare both tiles entry by entry, `torch.maximum(m_a,
    m_b)`."""
    (c_a, m_a, l_a), (c_b, m_b, l_b) = a, b
    maximum = torch.maximum(m_a.max(), m_b.max())
    of_a, of_b = (m_a - maximum).exp() * l_a, (m_b - maximum).exp() * l_b
    total = of_a + of_b
    return (of_a[..., None] * c_a + of_b[..., None] * c_b) / total[..., None], maximum.expand_as(total), total


@wrong.case
def replaces_nan_at_the_end(a, b):
    """Your result is right, its gradient is NaN where both tiles are empty: `nan_to_num` hides the NaN of -∞ - (-∞) and 0/0,
    but the backward pass meets it again. Put finite numbers in their place before you subtract and divide."""
    a, b = Partial(*a), Partial(*b)
    maximum = torch.maximum(a.maximum, b.maximum)
    of_a, of_b = a.total * (a.maximum - maximum).exp(), b.total * (b.maximum - maximum).exp()
    context = (of_a[..., None] * a.context + of_b[..., None] * b.context) / (of_a + of_b)[..., None]
    return Partial(context.nan_to_num(0), maximum, (of_a + of_b).nan_to_num(0))


@wrong.case
def takes_the_logarithm_of_no_keys(a, b):
    """Your result is right, its gradient is not where both tiles are empty: you take the logarithm of a total of 0, whose slope
    is infinite. Multiply each total by exp(own - new): no logarithm is needed."""
    a, b = Partial(*a), Partial(*b)
    maximum = torch.maximum(a.maximum, b.maximum)
    finite = torch.where(maximum == -torch.inf, 0.0, maximum)
    of_a, of_b = ((x.maximum + x.total.log() - finite).exp() for x in (a, b))
    return Partial(_mean(of_a, of_b, a, b), maximum, of_a + of_b)


@wrong.idea
def averages_the_contexts(a, b):
    """You average the two contexts, one half each. A tile with the larger scores has more of the weight: its context counts by
    its rescaled total."""
    a, b = Partial(*a), Partial(*b)
    maximum, of_a, of_b = _rescaled(a, b)
    return Partial((a.context + b.context) / 2, maximum, of_a + of_b)


@wrong.idea
def adds_the_contexts(a, b):
    """You add the two contexts. Each is already a mean of values, so their sum is twice too large: take a mean of both, with
    the rescaled totals as weights."""
    a, b = Partial(*a), Partial(*b)
    maximum, of_a, of_b = _rescaled(a, b)
    return Partial(a.context + b.context, maximum, of_a + of_b)


@wrong.idea
def keeps_the_larger(a, b):
    """You keep the tile with the larger maximum, and drop the other. The softmax is not a maximum: keys with smaller scores
    keep their part of the weight."""
    a, b = Partial(*a), Partial(*b)
    larger = a.maximum > b.maximum
    return Partial(
        torch.where(larger[..., None], a.context, b.context),
        torch.maximum(a.maximum, b.maximum),
        torch.where(larger, a.total, b.total),
    )


@wrong.part
def does_not_divide(a, b):
    """You do not divide the context by the new total. A `Partial` keeps a mean of values, not a sum."""
    a, b = Partial(*a), Partial(*b)
    maximum, of_a, of_b = _rescaled(a, b)
    return Partial(of_a[..., None] * a.context + of_b[..., None] * b.context, maximum, of_a + of_b)


@wrong.part
def multiplies_old_totals(a, b):
    """Your total is right, but the contexts are weighted by the totals before they were rescaled. The weights of the mean are
    the rescaled totals."""
    a, b = Partial(*a), Partial(*b)
    maximum, of_a, of_b = _rescaled(a, b)
    total = torch.where(of_a + of_b == 0, 1.0, of_a + of_b)[..., None]
    return Partial((a.total[..., None] * a.context + b.total[..., None] * b.context) / total, maximum, of_a + of_b)


@wrong.part
def averages_by_old_totals(a, b):
    """Your total is right, but the mean of the contexts is taken with the totals as they were before. Weigh by the rescaled
    ones, and divide by their sum."""
    a, b = Partial(*a), Partial(*b)
    maximum, of_a, of_b = _rescaled(a, b)
    return Partial(_mean(a.total, b.total, a, b), maximum, of_a + of_b)


@wrong.part
def weighs_by_exponentials_alone(a, b):
    """You weigh the contexts by exp(maximum) alone. A tile with many keys has more weight than one with a single key of the
    same score: multiply by its total."""
    a, b = Partial(*a), Partial(*b)
    maximum, of_a, of_b = _rescaled(a, b)
    finite = torch.where(maximum == -torch.inf, 0.0, maximum)
    by_a, by_b = (a.maximum - finite).exp(), (b.maximum - finite).exp()
    return Partial(_mean(by_a, by_b, a, b), maximum, of_a + of_b)


@wrong.detail
def turns_the_factor_around(a, b):
    """Your factor is exp(new - own), which is above 1 and enlarges the tile with the smaller scores. It is exp(own - new), at
    most 1."""
    a, b = Partial(*a), Partial(*b)
    maximum = torch.maximum(a.maximum, b.maximum)
    of_a, of_b = (x.total * torch.where(x.total == 0, 0.0, maximum - x.maximum).exp() for x in (a, b))
    return Partial(_mean(of_a, of_b, a, b), maximum, of_a + of_b)


@wrong.detail
def takes_the_smaller_maximum(a, b):
    """You take the smaller maximum. The factors then exceed 1, and scores that lie far apart overflow; a tile without keys,
    with -∞, makes everything infinite. Take the larger."""
    a, b = Partial(*a), Partial(*b)
    smaller = torch.minimum(a.maximum, b.maximum)
    of_a, of_b = a.total * (a.maximum - smaller).exp(), b.total * (b.maximum - smaller).exp()
    return Partial((of_a[..., None] * a.context + of_b[..., None] * b.context) / (of_a + of_b)[..., None], smaller, of_a + of_b)


@wrong.detail
def adds_the_maxima(a, b):
    """You add the maxima. The largest score of both tiles is the larger of the two."""
    a, b = Partial(*a), Partial(*b)
    _, of_a, of_b = _rescaled(a, b)
    return Partial(_mean(of_a, of_b, a, b), a.maximum + b.maximum, of_a + of_b)


@wrong.detail
def rescales_the_first_alone(a, b):
    """You rescale the first total alone, as if the maximum could only grow by the second tile. The first may hold the largest
    score, and then the second must shrink."""
    a, b = Partial(*a), Partial(*b)
    maximum, of_a, _ = _rescaled(a, b)
    return Partial(_mean(of_a, b.total, a, b), maximum, of_a + b.total)


@wrong.detail
def rescales_by_two(a, b):
    """Your factor is a power of 2. The scores are exponents of e: use `exp`."""
    a, b = Partial(*a), Partial(*b)
    maximum = torch.maximum(a.maximum, b.maximum)
    finite = torch.where(maximum == -torch.inf, 0.0, maximum)
    of_a, of_b = (x.total * torch.exp2(x.maximum - finite) for x in (a, b))
    return Partial(_mean(of_a, of_b, a, b), maximum, of_a + of_b)


@wrong.case
def subtracts_infinities(a, b):
    """Where both tiles are empty, you compute -∞ - (-∞), which is NaN. Where no key was seen, the difference is to be 0, and
    so is the context."""
    a, b = Partial(*a), Partial(*b)
    maximum = torch.maximum(a.maximum, b.maximum)
    of_a, of_b = a.total * (a.maximum - maximum).exp(), b.total * (b.maximum - maximum).exp()
    total = of_a + of_b
    return Partial((of_a[..., None] * a.context + of_b[..., None] * b.context) / total[..., None], maximum, total)


@wrong.case
def merges_without_a_maximum(a, b):
    """You go back to exp(score) without a maximum, which overflows beyond a score of 88. Rescale by the difference to the
    larger maximum, which is never positive."""
    a, b = Partial(*a), Partial(*b)
    of_a, of_b = a.total * a.maximum.exp(), b.total * b.maximum.exp()
    maximum = torch.maximum(a.maximum, b.maximum)
    finite = torch.where(maximum == -torch.inf, 0.0, maximum)
    return Partial(_mean(of_a, of_b, a, b), maximum, (of_a + of_b) * (-finite).exp())


@wrong.detail
def returns_the_logarithm_of_the_total(a, b):
    """Your total is the logarithm of the sum of all exponentials. A `Partial` counts its total in units of exp(maximum): the
    sum of both totals, each rescaled."""
    a, b = Partial(*a), Partial(*b)
    context, maximum, total = merge(a, b)
    return Partial(context, maximum, maximum + total.log())


@wrong.part
def takes_the_contexts_for_sums(a, b):
    """You rescale the contexts and add them, as if they were sums of weighted values that are divided at the end. A `Partial`
    keeps the mean: multiply each by its total, and divide the sum by the new one."""
    a, b = Partial(*a), Partial(*b)
    maximum, of_a, of_b = _rescaled(a, b)
    finite = torch.where(maximum == -torch.inf, 0.0, maximum)
    by_a, by_b = (a.maximum - finite).exp(), (b.maximum - finite).exp()
    return Partial(by_a[..., None] * a.context + by_b[..., None] * b.context, maximum, of_a + of_b)


@wrong.detail
def keeps_the_logarithm_of_the_sum(a, b):
    """You keep the logarithm of the sum of all exponentials in place of the maximum, and totals of 1: FlashAttention's output
    has this form. The context is right. A `Partial` keeps the largest score, and the sum in units of its exponential."""
    (c_a, m_a, l_a), (c_b, m_b, l_b) = a, b
    of_a, of_b = m_a + l_a.log(), m_b + l_b.log()
    total = torch.logaddexp(of_a, of_b)
    return Partial((of_a - total).exp()[..., None] * c_a + (of_b - total).exp()[..., None] * c_b, total, torch.ones_like(total))


@wrong.part
def returns_context_and_logarithm(a, b):
    """You return the context and the logarithm of the sum of all exponentials, as FlashAttention does. A `Partial` holds three
    tensors: the context, the largest score, and the sum in units of its exponential."""
    context, logarithm, _ = keeps_the_logarithm_of_the_sum(a, b)
    return context, logarithm


@wrong.detail
def returns_the_logarithm_for_the_maximum(a, b):
    """Your maximum is the logarithm of the sum of all exponentials. A `Partial` keeps the largest score of both tiles."""
    a, b = Partial(*a), Partial(*b)
    context, maximum, total = merge(a, b)
    return Partial(context, maximum + total.log(), total)


@wrong.part
def takes_maxima_for_logarithms(a, b):
    """You treat the maxima as logarithms of the sums, as in FlashAttention's output, and never use the totals as weights. Here
    the sum of a tile is total · exp(maximum)."""
    (c_a, m_a, l_a), (c_b, m_b, l_b) = a, b
    total = torch.logaddexp(m_a, m_b)
    return Partial((m_a - total).exp()[..., None] * c_a + (m_b - total).exp()[..., None] * c_b, total, l_a + l_b)


@wrong.case
def gives_no_keys_a_maximum_of_zero(a, b):
    """You replace the maximum of two empty tiles by 0 and return it. Without keys it stays -∞: use the 0 for the differences
    alone."""
    merged = merge(a, b)
    return merged.context, torch.where(merged.maximum == -torch.inf, 0.0, merged.maximum), merged.total


@wrong.case
def gives_no_keys_a_total_of_one(a, b):
    """You replace the total of two empty tiles by 1 and return it. Without keys it is 0: divide by 1, and return 0."""
    merged = merge(a, b)
    return merged.context, merged.maximum, torch.where(merged.total == 0, 1.0, merged.total)


@right
def in_logarithms(a, b):
    """By the logarithms of the totals, and a softmax of two numbers for each query."""
    a, b = Partial(*a), Partial(*b)
    logs = torch.stack([x.maximum + torch.where(x.total == 0, 1.0, x.total).log() for x in (a, b)])
    seen = (torch.stack([a.total, b.total]) > 0).any(0)
    weights = torch.where(seen, logs, 0.0).softmax(0)
    weights = torch.where(seen, weights, 0.0)
    maximum = torch.maximum(a.maximum, b.maximum)
    total = torch.where(seen, (torch.logsumexp(torch.where(seen, logs, 0.0), 0) - torch.where(seen, maximum, 0.0)).exp(), 0.0)
    return Partial(weights[0, ..., None] * a.context + weights[1, ..., None] * b.context, maximum, total)


@right
def as_a_plain_tuple(a, b):
    """Unpacks the fields, and returns a tuple without names."""
    (c_a, m_a, l_a), (c_b, m_b, l_b) = a, b
    m = torch.where(m_a > m_b, m_a, m_b)
    safe = m.clamp(min=torch.finfo(m.dtype).min)
    r_a, r_b = l_a * torch.exp(m_a - safe), l_b * torch.exp(m_b - safe)
    total = r_a + r_b
    share = r_b / torch.where(total > 0, total, torch.ones_like(total))
    context = torch.where((total > 0)[..., None], c_a + share[..., None] * (c_b - c_a), torch.zeros_like(c_a))
    return context, m, total


@right
def through_one_stack(a, b):
    """Both tiles on a new first axis, reduced as any number of them could be."""
    context, maxima, totals = (torch.stack(parts) for parts in zip(a, b, strict=True))
    maximum = maxima.amax(0)
    rescaled = totals * (maxima - maximum.masked_fill(maximum == -torch.inf, 0.0)).exp()
    total = rescaled.sum(0)
    mean = (rescaled[..., None] * context).sum(0) / total.masked_fill(total == 0, 1.0)[..., None]
    return Partial(mean, maximum, total)


@stranger
def merge_that_forgets_a_tenth(a, b):
    a, b = Partial(*a), Partial(*b)
    return merge(a, Partial(b.context, b.maximum, 0.9 * b.total))


@stranger
def merge_with_the_maximum_of_the_first(a, b):
    a, b = Partial(*a), Partial(*b)
    found = merge(a, b)
    return found._replace(maximum=a.maximum)


@stranger
def merge_that_squares_the_totals(a, b):
    a, b = Partial(*a), Partial(*b)
    return merge(a._replace(total=a.total.square()), b._replace(total=b.total.square()))


@stranger(makes=[does_not_divide])
def merge_of_sums(a, b):
    a, b = Partial(*a), Partial(*b)
    found = merge(a, b)
    return found._replace(context=found.context * found.total.unsqueeze(-1))


@stranger(makes=[does_not_divide, adds_the_maxima])
def merge_of_sums_with_a_sum_of_maxima(a, b):
    a, b = Partial(*a), Partial(*b)
    found = merge(a, b)
    return Partial(found.context * found.total[..., None], a.maximum + b.maximum, found.total)


def _partials(draw: Draw, *batch: int, shift: float = 0.0) -> list[Partial]:
    """What queries keep of two tiles of different sizes."""
    T_q, d_k, d_v, n, m = draw.sizes(5)
    q = draw.normal(*batch, T_q, d_k) * 2
    parts = [partial_attention(q, draw.normal(*batch, T, d_k), draw.normal(*batch, T, d_v)) for T in (n, m)]
    return [part._replace(maximum=part.maximum + shift) for part in parts]


def _tiles(draw: Draw, *batch: int) -> Call:
    return tuple(map(tuple, _partials(draw, *batch)))


def _single(draw: Draw) -> Call:
    """One query, with one key in each tile: the totals are 1."""
    d_v = draw.sizes(1)[0]
    maxima = draw.normal(2, 1)
    return tuple((draw.normal(1, d_v), maximum, torch.ones(1)) for maximum in maxima)


def _empty(draw: Draw) -> list[Call]:
    """One tile without keys, on either side, and two of them."""
    some, _ = _tiles(draw)
    none = (torch.zeros_like(some[0]), torch.full_like(some[1], -torch.inf), torch.zeros_like(some[2]))
    return [(some, none), (none, some), (none, none)]


def _partly_empty(draw: Draw) -> Call:
    """The first query has seen no key in either tile, the others have."""
    a, b = _partials(draw)
    for part in (a, b):
        part.context[..., 0, :], part.maximum[..., 0], part.total[..., 0] = 0.0, -torch.inf, 0.0
    return tuple(a), tuple(b)


def _far(draw: Draw) -> list[Call]:
    """Scores beyond what exp can hold."""
    a, b = _partials(draw, shift=200.0)
    return [(tuple(a), tuple(b)), (tuple(a._replace(maximum=a.maximum - 150)), tuple(b))]


exercise = Exercise(
    id="19.1",
    title="Merge two tiles",
    reference=merge,
    properties=(
        runs_on(lambda draw: [_tiles(draw)]),
        has_shape("A context, a maximum and a total for each query.", lambda draw: [_tiles(draw), _tiles(draw, 2)]),
        Property("maximum", "The maximum is the largest score of both tiles.", lambda draw: [_tiles(draw)], right_result(1)),
        Property(
            "two keys",
            "Two tiles of one key each give the softmax of two scores.",
            lambda draw: [_single(draw), _single(draw)],
            right_result(0),
            points=2,
        ),
        Property(
            "total",
            "Both totals are counted in units of the new maximum.",
            lambda draw: [_tiles(draw)],
            right_result(2),
            points=2,
        ),
        Property(
            "context",
            "The context is that of one softmax over all keys.",
            lambda draw: [_tiles(draw), _tiles(draw, 2, 3)],
            right_result(0),
            points=3,
            needs=("two keys",),
        ),
        Property("empty", "A tile without keys changes nothing.", _empty, needs=("context", "total")),
        Property(
            "no NaN",
            "Where both tiles are empty, no gradient is NaN.",
            lambda draw: [_partly_empty(draw)],
            finite_gradients,
            needs=("empty",),
        ),
        Property("large", "Scores of 200 do not overflow.", _far, needs=("context", "total")),
        has_gradient(lambda draw: [_tiles(draw)], needs=("context", "total", "maximum")),
        leaves_inputs(lambda draw: [_tiles(draw)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "The operation is commutative, and so are a maximum and a comparison.": (
            "swap elements: (context_b, maximum_b, total_b), (context_a, maximum_a, total_a) = (a, b)",
            "swap elements: (context_a, maximum_a, total_a), (context_b, maximum_b, total_b) = (b, a)",
            "swap arguments: maximum = torch.maximum(maximum_b, maximum_a)",
            "swap sides: torch.where(-torch.inf == maximum, 0.0, maximum)",
            "swap sides: torch.where(0 == total, 1.0, total)",
        ),
        "Where both tiles are empty, any finite unit and any divisor but 0 give 0.": (
            "constant: torch.where(maximum == -torch.inf, 1.0, maximum)",
            "constant: torch.where(maximum == -torch.inf, -1.0, maximum)",
            "constant: torch.where(total == 0, 2.0, total)",
        ),
        "A comparison has no gradient.": (
            "detach: maximum.detach() == -torch.inf",
            "detach: total.detach() == 0",
        ),
    },
    missed_mutants={
        "A divisor of 1 where the largest score is exactly 0 is wrong; no input has such a score.": ("other name: unit == 0",),
    },
    hints=HINTS,
)
