"""Exercise 03.3, pool: what students answer, wrong and right."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from course_lib.attention import Attended, attend, pool
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
        "Each token gets one score, independent of the other tokens: what do W, b and the tanh make of it, and what turns "
        "those d_a numbers into one? Then consider a sequence that is all padding. What do its weights sum to?"
    ),
    (
        "Scores first, of shape (*batch, T): W and b, then tanh, then a product with u. Padding must be masked *before* "
        "the softmax, so its scores become -inf; a row that is all -inf gives NaN and needs separate treatment."
    ),
    (
        r"One hidden layer with $\tanh$, a product with `u`, and a masked softmax over the words. A row that is masked "
        r"whole must have no $-\infty$ in it: give it any finite scores before the softmax, and set its weights to 0 after "
        "it."
    ),
)


def _scores(values, W, b, u):
    return torch.tanh(values @ W.mT + b) @ u


def _pool(scores, values, mask):
    """Weights by softmax over the real tokens, and what they mix."""
    context, weights = attend(scores[..., None, :], values, None if mask is None else mask[..., None, :])
    return Attended(context[..., 0, :], weights[..., 0, :])


def _mix(weights, values):
    return Attended((weights[..., None] * values).sum(-2), weights)


@wrong.part
def forgets_the_mask(values, W, b, u, mask=None):
    """You never use the mask. The padding after a short sequence gets weight like any token, and the vector of a sentence
    depends on how far it is padded."""
    return _pool(_scores(values, W, b, u), values, None)


@wrong.part
def masks_after_the_softmax(values, W, b, u, mask=None):
    """You take the softmax over all tokens and set the weights of the padding to 0 afterwards. The other weights then sum to
    less than 1; mask the padding before the softmax."""
    weights = _scores(values, W, b, u).softmax(-1)
    return _mix(weights if mask is None else weights * mask, values)


@wrong.idea
def turns_the_mask_round(values, W, b, u, mask=None):
    """You mask the tokens at which the mask is True. Here True marks a real token: you pool the padding and leave out the
    sentence."""
    return _pool(_scores(values, W, b, u), values, None if mask is None else ~mask)


@wrong.part
def gives_padding_a_score_of_zero(values, W, b, u, mask=None):
    """You set the scores of the padding to 0. exp(0) = 1, more than any token whose score is negative; only -inf has weight
    0."""
    scores = _scores(values, W, b, u)
    return _mix((scores if mask is None else scores * mask).softmax(-1), values)


@wrong.case
def gives_nan_for_nothing(values, W, b, u, mask=None):
    """You give every score of an empty sequence -inf, and the softmax then divides 0 by 0: its weights and its vector are NaN,
    and so is every loss computed from them. A sequence without a real token should give zeros."""
    scores = _scores(values, W, b, u)
    return _mix((scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1), values)


@wrong.case
def spreads_over_nothing(values, W, b, u, mask=None):
    """You set the scores of the padding to -10⁹. In an empty sequence all of them are equally low, so the softmax spreads the
    weight over the padding; there both weights and vector should be 0."""
    scores = _scores(values, W, b, u)
    return _mix((scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(-1), values)


@wrong.part
def leaves_the_tanh_out(values, W, b, u, mask=None):
    """You multiply W h + b by the query without the tanh. Without it, W and u are equivalent to one vector, and the bias adds
    the same to all scores."""
    return _pool((values @ W.mT + b) @ u, values, mask)


@wrong.detail
def lets_the_bias_cancel(values, W, b, u, mask=None):
    """Your b has no effect: it is left out, or added after the tanh, where it adds the same to every token's score and cancels
    in the softmax. It must be added to W h, inside the tanh."""
    return _pool((torch.tanh(values @ W.mT) + b) @ u, values, mask)


@wrong.idea
def asks_nothing(values, W, b, u, mask=None):
    """You add up the hidden units and never use u. That is a fixed query of ones; multiply the hidden units by the learned
    query u."""
    return _pool(torch.tanh(values @ W.mT + b).sum(-1), values, mask)


@wrong.part
def pools_the_hidden_units(values, W, b, u, mask=None):
    """You mix the hidden units tanh(W h + b) and not the tokens. They only serve to compute scores; the result has the d_v
    features of a token, and yours has d_a."""
    return _pool(_scores(values, W, b, u), torch.tanh(values @ W.mT + b), mask)


@wrong.part
def shares_the_weight_among_sequences(values, W, b, u, mask=None):
    """You take the softmax over the first axis. Where that is the batch, the sequences compete with each other, and the
    weights of one sequence do not sum to 1; normalise over T, the last axis of the scores."""
    scores = _scores(values, W, b, u)
    scores = scores if mask is None else scores.masked_fill(~mask, -1e9)
    weights = scores.softmax(0)
    return _mix(weights if mask is None else weights.masked_fill(~mask, 0.0), values)


@wrong.detail
def scales_like_a_dot_product(values, W, b, u, mask=None):
    """You divide the scores by √d_a, as in scaled dot products. There is no such factor here: u is learned together with its
    scale, and your weights are too even."""
    return _pool(_scores(values, W, b, u) / u.shape[0] ** 0.5, values, mask)


@wrong.detail
def multiplies_by_the_stored_matrix(values, W, b, u, mask=None):
    """You multiply by W as it is stored. It has a row for each unit of the query, so the features of a token meet its columns:
    values @ W.mT."""
    scores = torch.tanh(values @ W + b) @ u
    weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
    return (weights.unsqueeze(-1) * values).sum(-2), weights


@wrong.detail
def weighs_tokens_without_an_axis(values, W, b, u, mask=None):
    """You multiply the weights (*batch, T_k) by the tokens (*batch, T_k, d_v). A weight scales all features of its token: give
    it an axis of size 1, and sum over the tokens."""
    scores = torch.tanh(values @ W.mT + b) @ u
    weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
    return (weights * values).sum(-2), weights


@wrong.detail
def transposes_the_hidden_vectors(values, W, b, u, mask=None):
    """You multiply the transposed hidden vectors by u, as in u_tᵀ u. There u_t is a column; here each row is one, and the
    product sums over their last axis: hidden @ u."""
    weights = (torch.tanh(values @ W.mT + b).mT @ u).softmax(-1)
    return (weights[..., None] * values).sum(-2), weights


@wrong.part
def sets_the_padding_to_zero(values, W, b, u, mask=None):
    """You set the vectors of the padding to 0. Their score is then u · tanh(b), and not -inf: they still take weight from the
    real tokens."""
    return pool(values if mask is None else values * mask[..., None], W, b, u)


@right
def by_counting_exponentials(values, W, b, u, mask=None):
    """The softmax written out in float64: exponentials, 0 at the padding, divided by their sum, or by 1 where that is 0."""
    scores = F.linear(F.linear(values.double(), W.double(), b.double()).tanh(), u.double()[None])
    real = torch.ones_like(scores) if mask is None else mask[..., None].double()
    top = (scores.detach() - 1e9 * (1 - real)).amax(-2, keepdim=True)
    shares = torch.where(real > 0, scores - top, 0.0).exp() * real
    total = shares.sum(-2, keepdim=True)
    weights = shares / torch.where(total > 0, total, 1.0)
    return (weights.mT @ values.double()).squeeze(-2).to(values.dtype), weights.squeeze(-1).to(values.dtype)


@right
def sequence_by_sequence(values, W, b, u, mask=None):
    """A loop over the sequences: the real tokens are picked out, pooled, and their weights put back in their places."""
    *batch, T, d_v = values.shape
    mask = torch.ones(*batch, T, dtype=torch.bool, device=values.device) if mask is None else mask
    contexts, rows = [], []
    for tokens, real in zip(values.reshape(-1, T, d_v), mask.reshape(-1, T), strict=True):
        h = tokens[real]
        alpha = torch.softmax(torch.tanh(h @ W.T + b).mv(u), dim=0)
        contexts.append(alpha @ h)
        rows.append(tokens.new_zeros(T).masked_scatter(real, alpha))
    return torch.stack(contexts).reshape(*batch, d_v), torch.stack(rows).reshape(*batch, T)


@right
def with_the_empty_ones_let_through(values, W, b, u, mask=None):
    """-inf for the padding; an empty sequence is put through with all its tokens, and multiplied by 0 at the end."""
    scores = torch.einsum("...ta,a->...t", torch.einsum("...tv,av->...ta", values, W).add(b).tanh(), u)
    if mask is not None:
        some = mask.any(-1, keepdim=True)
        weights = torch.where(mask | ~some, scores, -torch.inf).softmax(-1) * some
    else:
        weights = scores.softmax(-1)
    return torch.einsum("...t,...tv->...v", weights, values), weights


@stranger
def pool_the_opposite(values, W, b, u, mask=None):
    return pool(values, W, b, -u, mask)


@stranger
def pool_with_a_relu(values, W, b, u, mask=None):
    weights = (
        ((values @ W.mT + b).relu() @ u).masked_fill(~mask if mask is not None else torch.tensor(False), -1e30).softmax(-1)
    )
    return (weights[..., None] * values).sum(-2), weights


@stranger
def pool_by_the_first_token(values, W, b, u, mask=None):
    context, weights = pool(values, W, b, u, mask)
    return context - context + values[..., 0, :], weights


@stranger(makes=[forgets_the_mask, lets_the_bias_cancel])
def pool_without_mask_and_bias(values, W, b, u, mask=None):
    return pool(values, W, torch.zeros_like(b), u)


def _sequences(draw: Draw, *batch: int, masked: bool = False, asks: float = 1.0) -> Call:
    """Tokens, the weights, and, where `masked`, a mask that is no prefix; `asks` is how sharp the query is."""
    T, d_v, d_a = (size + 1 for size in draw.sizes(3))
    values, W, b = 1.0 + draw.normal(*batch, T, d_v), draw.normal(d_a, d_v), draw.normal(d_a)
    call = values, W, b, draw.normal(d_a, scale=asks)
    return (*call, draw.mask(*batch, T)) if masked else call


def _empty(draw: Draw) -> list[Call]:
    """One sequence of the batch has no real token, and then the only one."""
    *some, mask = _sequences(draw, 3, masked=True)
    mask[1] = False
    *alone, nothing = _sequences(draw, 1, masked=True)
    return [(*some, mask), (*alone, torch.zeros_like(nothing))]


def _plain(*batches: tuple[int, ...], **how: float) -> Callable[[Draw], list[Call]]:
    return lambda draw: [_sequences(draw, *batch, **how) for batch in batches]


_MASKED = _plain((1,), (2,), masked=True)

exercise = Exercise(
    id="03.3",
    title="Pool by a learned query",
    extra=True,
    reference=pool,
    properties=(
        runs_on(_plain((2,))),
        has_shape("A vector for each sequence, and a weight for each of its tokens.", _plain((2,), (1,))),
        Property(
            "mean", "A query of 0 gives all tokens equal weights: the vector is their mean.", _plain((1,), (2,), asks=0.0)
        ),
        Property(
            "query",
            "The weights are the softmax of the products of tanh(W h + b) with the query.",
            _plain((1,), (1,)),
            right_result(1),
            points=2,
            needs=("mean",),
        ),
        Property("context", "The vector mixes the tokens themselves by these weights.", _plain((1,)), needs=("query",)),
        Property(
            "mask", "Padding has weight 0, and the weights of the real tokens sum to 1.", _MASKED, points=2, needs=("context",)
        ),
        Property("empty", "A sequence without a real token gives zeros, and no NaN.", _empty, points=2, needs=("mask",)),
        Property(
            "batch",
            "Each sequence is computed independently, with any number of batch axes, or none.",
            lambda draw: [*_plain((3,), (2, 3), ())(draw), _sequences(draw, 2, 3, masked=True)],
            needs=("context",),
        ),
        has_gradient(lambda draw: [*_plain((2,))(draw), *_MASKED(draw), *_empty(draw)], needs=("empty", "batch")),
        leaves_inputs(lambda draw: [*_plain((2,))(draw), *_MASKED(draw)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "`is` has no sides, and a bool tensor carries no gradient.": (
            "swap sides: None if None is mask else mask[..., None, :]",
            "detach: mask.detach()[..., None, :]",
        ),
    },
    hints=HINTS,
)
