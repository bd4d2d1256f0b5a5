"""Exercise 02.4, attend: turn scores into weights over the allowed keys, and mix the values by them."""

import torch

from course_lib.attention import attend
from course_lib.attention.core import Attended
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
    "Take it in three steps: keep the forbidden keys out, normalise, mix. Each query distributes a total of 1 over "
    "the *keys*: which axis of the scores is that of the keys? And what should its weights be if every key is "
    "forbidden?",
    "A forbidden key must add nothing to the sum in the denominator, whatever the other scores are. Which score has "
    "the exponential 0 exactly? Try your answer on a row that is masked whole, on scores of 1000, and look at the "
    "gradients too. The tensors you are given belong to the caller.",
    "Find the rows that are masked whole first: `mask` has no True on the last axis there. Fill the forbidden scores "
    "with $-\\infty$ in a new tensor; give the rows you found any finite scores, so that the softmax over the last "
    "axis has no $0/0$, not even in the backward pass; and set the weights of these rows to 0 afterwards.",
)


@wrong.idea
def softmax_over_the_queries(scores, values, mask=None):
    """You normalise over the queries: for each key, your weights sum to 1. It is the query that distributes its
    attention, so for each query the weights over the keys must sum to 1."""
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    mask = mask.expand(scores.shape)
    unseen = ~mask.any(-2, keepdim=True)
    filled = scores.masked_fill(~mask, -torch.inf).masked_fill(unseen, 0.0)
    weights = filled.softmax(-2).masked_fill(~mask, 0.0)
    return Attended(weights @ values, weights)


@wrong.part
def mask_inverted(scores, values, mask=None):
    """You read True as "forbidden" and attend to exactly the forbidden keys. In this course True = may attend; other libraries
    differ, so read the docstring each time."""
    if mask is None:
        mask = torch.zeros_like(scores, dtype=torch.bool)
    blind = mask.all(-1, keepdim=True)
    weights = scores.masked_fill(mask, -torch.inf).masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    return Attended(weights @ values, weights)


@wrong.part
def mask_after_the_softmax(scores, values, mask=None):
    """You normalise over all keys and set the forbidden weights to 0 afterwards. The forbidden keys are then part of the
    denominator, so the other weights do not sum to 1."""
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return Attended(weights @ values, weights)


@wrong.part
def forbidden_scores_set_to_zero(scores, values, mask=None):
    """A forbidden key has the score 0, as a product with the mask makes it. But exp(0) = 1: it still gets weight, and
    more than an allowed key whose score is negative."""
    if mask is not None:
        scores = scores * mask
    weights = scores.softmax(-1)
    return Attended(weights @ values, weights)


@wrong.case
def nan_for_a_row_masked_whole(scores, values, mask=None):
    """Where a query may attend to no key, your weights are 0/0, as a softmax of scores that are all -inf is. One such row, for
    example in a padded sentence, makes the loss of the whole batch NaN."""
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    return Attended(weights @ values, weights)


@wrong.case
def uniform_weights_for_a_row_masked_whole(scores, values, mask=None):
    """Your forbidden scores are finite, such as -1e9. If all of a row are forbidden, all are equal again, and the softmax
    spreads the weight evenly over forbidden keys."""
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    weights = scores.softmax(-1)
    return Attended(weights @ values, weights)


@wrong.case
def forbidden_scores_lowered_by_ten_thousand(scores, values, mask=None):
    """You push forbidden scores down by 10 000 instead of giving them -inf. Scores may be any real numbers: where a forbidden
    score exceeds the others by more than that, its key still gets all the weight."""
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    weights = (scores - 1e4 * ~mask).softmax(-1).masked_fill(~mask.any(-1, keepdim=True), 0.0)
    return Attended(weights @ values, weights)


@wrong.case
def scores_overwritten(scores, values, mask=None):
    """You write the mask into the scores you were given. Your answer is right, but the caller's tensor is changed: code that
    uses the scores again finds -inf, and autograd may raise an error."""
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    blind = ~mask.any(-1, keepdim=True)
    weights = scores.masked_fill_(~mask, -torch.inf).masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    return Attended(weights @ values, weights)


@wrong.case
def exponentials_that_overflow(scores, values, mask=None):
    """You take the exponentials of the scores as they are. In float32 exp(89) is already infinite and exp(-104) is 0, so large
    scores give NaN and very low ones 0/0; the formula has a finite result for both."""
    exponentials = scores.exp()
    if mask is not None:
        exponentials = exponentials.masked_fill(~mask, 0.0)
    total = exponentials.sum(-1, keepdim=True)
    weights = exponentials / total.masked_fill(total == 0, 1.0)
    return Attended(weights @ values, weights)


@wrong.case
def nan_left_in_the_gradients(scores, values, mask=None):
    """You let a row masked whole become NaN and replace the NaN by 0 afterwards. The forward pass is right; in the backward
    pass the gradient of 0/0 is NaN, and after one step so are all parameters."""
    if mask is not None:
        scores = scores + torch.zeros_like(scores).masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return Attended(weights @ values, weights)


@wrong.case
def weights_first(scores, values, mask=None):
    """Both of your results are right, but you return the weights first. The order is (context, weights)."""
    context, weights = attend(scores, values, mask)
    return weights, context


@wrong.idea
def scores_divided_by_their_sum(scores, values, mask=None):
    """You divide the scores by their sum, without exp. Scores may be negative, so your weights can be negative too, or
    divide by 0."""
    if mask is not None:
        scores = scores.masked_fill(~mask, 0.0)
    weights = scores / scores.sum(-1, keepdim=True)
    return weights @ values, weights


@wrong.detail
def scores_scaled_by_the_number_of_keys(scores, values, mask=None):
    """You divide the scores by √T_k. Scaling belongs to the function that computes the scores; this one normalises them
    as they are."""
    return attend(scores / scores.shape[-1] ** 0.5, values, mask)


@wrong.detail
def mixes_transposed_values(scores, values, mask=None):
    """You multiply the weights by the transposed values. The keys are the inner axis: weights (T_q, T_k) times values (T_k,
    d_v), as they are."""
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ values.mT, weights


@wrong.detail
def multiplies_values_by_weights(scores, values, mask=None):
    """You multiply the values from the left by nothing and from the right by the weights: values @ weights. The weights come
    first, (T_q, T_k) times (T_k, d_v)."""
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    return values @ weights, weights


@wrong.part
def mask_never_used(scores, values, mask=None):
    """You never use the mask: forbidden keys get their full weight."""
    return attend(scores, values)


@wrong.part
def mask_added_as_a_number(scores, values, mask=None):
    """You add the mask to the scores. True is 1, so an allowed key gains 1, and a forbidden one still gets weight."""
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return Attended(weights @ values, weights)


@wrong.part
def infinity_times_false(scores, values, mask=None):
    """You multiply -∞ by the mask. Where it is False that is 0 · -∞ = NaN; fill the forbidden places alone, by `masked_fill` or
    `torch.where`."""
    weights = (scores if mask is None else scores + ~mask * -torch.inf).softmax(-1).nan_to_num()
    return Attended(weights @ values, weights)


@wrong.idea
def exponentials_not_divided(scores, values, mask=None):
    """You take the exponentials and do not divide by their sum: your weights do not sum to 1."""
    weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).exp()
    return Attended(weights @ values, weights)


@wrong.case
def always_wants_a_mask(scores, values, mask=None):
    """You use the mask without asking whether there is one. None means that every query may attend to every key."""
    scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1).nan_to_num()
    return Attended(weights @ values, weights)


@wrong.case
def makes_a_batch_of_a_mask_of_two_axes(scores, values, mask=None):
    """You insert a batch axis in a mask of two axes. Scores without a batch, (T_q, T_k), then get this axis too, and with them
    your result; a mask of two axes broadcasts as it is."""
    if mask is None:
        weights = scores.softmax(-1)
    else:
        mask = mask[None] if mask.dim() == 2 else mask
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(~mask.any(-1, keepdim=True), 0.0)
    return weights @ values, weights


@wrong.case
def largest_of_all_scores_subtracted(scores, values, mask=None):
    """You subtract the largest of *all* scores of a row. If a forbidden one is far above the others, their exponentials are
    rounded to 0: mask first, and then take the maximum."""
    weights = torch.exp(scores - scores.amax(-1, keepdim=True).detach())
    weights = weights if mask is None else weights * mask
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-20)
    return weights @ values, weights


@right
def by_logsumexp(scores, values, mask=None):
    """The logarithm of the denominator by logsumexp over the allowed keys, then one exponential."""
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    filled = scores.masked_fill(~mask, -torch.inf)
    log_total = filled.masked_fill(~mask.any(-1, keepdim=True), 0.0).logsumexp(-1, keepdim=True)
    weights = torch.exp(filled - log_total)
    return weights @ values, weights


@right
def by_nan_to_num(scores, values, mask=None):
    """-inf filled in by masked_fill, which passes no gradient back, so that nan_to_num is safe."""
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return Attended(torch.einsum("...ij,...jd->...id", weights, values), weights)


@right
def by_exponentials(scores, values, mask=None):
    """The softmax by hand: the largest allowed score taken away first, an empty sum replaced by 1."""
    allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    largest = scores.detach().masked_fill(~allowed, -torch.inf).amax(-1, keepdim=True)
    exponentials = torch.where(allowed, scores - largest, -torch.inf).exp()
    weights = exponentials / exponentials.sum(-1, keepdim=True).masked_fill(~allowed.any(-1, keepdim=True), 1.0)
    return weights @ values, weights


@right
def in_double_precision(scores, values, mask=None):
    """Softmax and mixture in float64 until the end; forbidden scores at the least finite number."""
    scores = scores.double()
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return Attended((weights @ values.double()).to(values.dtype), weights.to(values.dtype))


@stranger
def attend_at_half_the_temperature(scores, values, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = (2 * scores).softmax(-1).nan_to_num(0.0)
    return weights @ values, weights


@stranger
def attend_renormalises_what_is_left(scores, values, mask=None):
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
    return weights @ values, weights


@stranger
def attend_returns_the_weights_first(scores, values, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return weights, weights @ values


@stranger
def attend_masks_by_an_index(scores, values, mask=None):
    scores = scores.clone()
    if mask is not None:
        scores[~mask] = -torch.inf
    weights = scores.softmax(-1).nan_to_num(0.0)
    return weights @ values, weights


@stranger
def attend_shows_other_weights_than_it_uses(scores, values, mask=None):
    masked = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return masked.softmax(-1).nan_to_num(0.0) @ values, scores.softmax(-1)


@stranger(makes=[softmax_over_the_queries])
def attend_by_hand_over_the_wrong_axis(scores, values, mask=None):
    allowed = torch.ones_like(scores).bool() if mask is None else mask.broadcast_to(scores.shape)
    shares = torch.where(allowed, (scores - scores.amax(-2, keepdim=True)).exp(), 0.0)
    weights = shares / shares.sum(-2, keepdim=True).clamp(min=1e-30)
    return weights @ values, weights


@stranger(makes=[nan_for_a_row_masked_whole])
def attend_with_an_additive_mask(scores, values, mask=None):
    if mask is not None:
        scores = scores + torch.zeros(mask.shape).masked_fill(mask.logical_not(), float("-inf"))
    shares = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = shares / shares.sum(-1, keepdim=True)
    return weights @ values, weights


@stranger(makes=[softmax_over_the_queries, mask_after_the_softmax])
def normalise_and_mix_with_two_mistakes(scores, values, mask=None):
    weights = scores.softmax(-2)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ values, weights


def _scores(draw: Draw, *batch: int, scale: float = 1.0) -> Call:
    T_q, T_k, d_v = draw.sizes(3)
    return draw.normal(*batch, T_q, T_k, scale=scale), draw.normal(*batch, T_k, d_v)


def _masked(draw: Draw, *batch: int, scale: float = 1.0) -> Call:
    scores, values = _scores(draw, *batch, scale=scale)
    return scores, values, draw.mask(*scores.shape)


def _over_keys(draw: Draw) -> Call:
    """A mask that broadcasts over the queries, as padding does."""
    scores, values = _scores(draw, 2)
    return scores, values, draw.mask(2, 1, scores.shape[-1])


def _of_all(draw: Draw) -> Call:
    """One mask of two axes for all sequences, as a causal mask is."""
    scores, values = _scores(draw, 2)
    return scores, values, draw.mask(*scores.shape[-2:])


def _blind(draw: Draw) -> Call:
    scores, values, mask = _masked(draw, 2)
    mask[0, 0] = mask[1, -1] = False
    return scores, values, mask


exercise = Exercise(
    id="02.4",
    title="Normalise and mix, under a mask",
    reference=attend,
    properties=(
        runs_on(lambda draw: [_scores(draw, 2)]),
        has_shape("A context for each query, and a weight for each pair.", lambda draw: [_scores(draw, 2)]),
        Property(
            "average",
            "Where all scores are equal, the context is the average of the values.",
            lambda draw: [_scores(draw, 1, scale=0.0)],
        ),
        Property(
            "softmax",
            "The weights of each query are a softmax over the keys.",
            lambda draw: [_scores(draw, 1)],
            needs=("average",),
        ),
        Property(
            "mask",
            "A forbidden key gets weight 0, and the weights of the others sum to 1.",
            lambda draw: [_masked(draw, 1), _over_keys(draw), _masked(draw, 1, scale=20.0), _of_all(draw), _masked(draw)],
            points=2,
            needs=("softmax",),
        ),
        Property(
            "masked row",
            "A query that may attend to no key has weights 0 and context 0.",
            lambda draw: [_blind(draw)],
            needs=("mask",),
        ),
        Property(
            "large scores",
            "Large scores do not overflow, and a forbidden one has no effect.",
            lambda draw: [_scores(draw, 1, scale=50.0), _scores(draw, 1, scale=300.0), _masked(draw, 3, scale=1e5)],
            needs=("mask",),
        ),
        Property(
            "batch",
            "Each sequence and each head is computed independently.",
            lambda draw: [_scores(draw, 3), _scores(draw, 2, 3)],
            needs=("softmax",),
        ),
        has_gradient(lambda draw: [_scores(draw, 2), _masked(draw, 2, 3), _blind(draw)], needs=("masked row",)),
        leaves_inputs(lambda draw: [_scores(draw, 2), _masked(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "`is` has no sides.": ("swap sides: if None is mask:",),
        "A bool tensor carries no gradient.": (
            "detach: scores.softmax(-1).masked_fill(empty.detach(), 0.0)",
            "detach: mask.detach().any",
            "detach: mask.detach() | empty",
            "detach: mask | empty.detach()",
        ),
        (
            "In a row masked whole the softmax gives NaN, but masked_fill puts 0 there, and torch.where passes no "
            "gradient back, not even a NaN."
        ): (
            "drop right: torch.where(mask, scores, -torch.inf)",
            "other name: mask | mask",
        ),
    },
    hints=HINTS,
)
