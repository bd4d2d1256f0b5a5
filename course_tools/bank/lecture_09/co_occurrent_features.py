"""Exercise 09.6, co_occurrent_features: what students answer, wrong and right."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange

from course_lib.attention import Attended, co_occurrent_features, split_heads
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

wrong, right = Answers(), Answers()

HINTS = (
    (
        "How many softmaxes are there for one place, and which features does each compare? What is mixed by π: scores, weights "
        "or contexts – and for which of these does it matter that π sums to 1?"
    ),
    (
        "Embed once, z = x W_kᵀ, and split it into n_mix parts, each with its own scores over all places. π comes from the "
        "mean of z over the places: one set of n_mix shares for each picture, by a softmax."
    ),
    (
        "`parts = split_heads(z, n_mix)`; `(parts @ parts.mT / math.sqrt(d_k)).softmax(-1)` has an axis of n_mix in front of "
        "the two of the places. Multiply by `shares[..., None, None]` and sum it out: weights, that then mix x W_vᵀ."
    ),
)


def _softmaxes(z, n_mix, scale=None, dim=-1):
    """One for each part, (*batch, n_mix, N, N)."""
    parts = split_heads(z, n_mix)
    return (parts @ parts.mT / math.sqrt(scale or z.shape[-1])).softmax(dim)


def _shares(z, W_pi):
    return (z.mean(-2) @ W_pi.mT).softmax(-1)


def _features(x, W_k, W_v, W_pi, shares=_shares, scale=None, dim=-1):
    """Mix with other shares, another scale, or softmaxes along another axis."""
    z = x @ W_k.mT
    weights = (shares(z, W_pi)[..., None, None] * _softmaxes(z, len(W_pi), scale, dim)).sum(-3)
    return Attended(weights @ (x @ W_v.mT), weights)


@wrong
def scales_by_the_part(x, W_k, W_v, W_pi):
    """You divide by the root of the features of one part. The authors take √d_k, of the whole embedding, for every part; your
    softmaxes are sharper."""
    return _features(x, W_k, W_v, W_pi, scale=len(W_k) // len(W_pi))


@wrong
def forgets_the_scale(x, W_k, W_v, W_pi):
    """You do not divide by √d_k. Embedded by one matrix, each place is most like itself, and without the scale it would see
    little else."""
    return _features(x, W_k, W_v, W_pi, scale=1)


@wrong
def mixes_the_scores(x, W_k, W_v, W_pi):
    """You mix the scores of the parts and take one softmax. That is again one softmax of one product, with as few degrees of
    freedom; each part normalises first, and probabilities are mixed."""
    z = x @ W_k.mT
    parts = split_heads(z, len(W_pi))
    scores = (_shares(z, W_pi)[..., None, None] * (parts @ parts.mT)).sum(-3)
    weights = (scores / math.sqrt(len(W_k))).softmax(-1)
    return Attended(weights @ (x @ W_v.mT), weights)


@wrong
def takes_one_softmax(x, W_k, W_v, W_pi):
    """You take one softmax of the whole embedding, and neither parts nor π. That is plain attention with keys as queries; a
    mixture can say "either like this, or like that"."""
    z = x @ W_k.mT
    weights = (z @ z.mT / math.sqrt(len(W_k))).softmax(-1)
    return Attended(weights @ (x @ W_v.mT), weights)


@wrong
def mixes_in_equal_parts(x, W_k, W_v, W_pi):
    """You average the softmaxes. How much each one counts is for the picture to decide, by π; W_pi has no effect in yours."""
    return _features(x, W_k, W_v, W_pi, lambda z, W: torch.ones_like(_shares(z, W)) / len(W))


@wrong
def leaves_the_shares_raw(x, W_k, W_v, W_pi):
    """You use W_π z̄ as it is. These numbers may be negative and need not sum to 1, so that your rows are no probabilities: π
    is their softmax."""
    return _features(x, W_k, W_v, W_pi, lambda z, W: z.mean(-2) @ W.mT)


@wrong
def lets_each_place_choose(x, W_k, W_v, W_pi):
    """You compute π from each place's own z. It is one for the whole picture, from the mean of all places: the context of the
    scene, which no single place knows."""
    z = x @ W_k.mT
    shares = (z @ W_pi.mT).softmax(-1).mT
    weights = (shares.unsqueeze(-1) * _softmaxes(z, len(W_pi))).sum(-3)
    return Attended(weights @ (x @ W_v.mT), weights)


@wrong
def chooses_from_the_largest(x, W_k, W_v, W_pi):
    """You take the largest value of each feature over the places, where the mean is asked for. A single odd pixel then chooses
    for the whole picture."""
    return _features(x, W_k, W_v, W_pi, lambda z, W: (z.amax(-2) @ W.mT).softmax(-1))


@wrong
def chooses_from_the_sum(x, W_k, W_v, W_pi):
    """You add z up over the places and do not divide by their number. Then a larger picture chooses more sharply, and one part
    takes all; z̄ is the mean."""
    return _features(x, W_k, W_v, W_pi, lambda z, W: (z.sum(-2) @ W.mT).softmax(-1))


@wrong
def reshapes_into_parts(x, W_k, W_v, W_pi):
    """You reshape (N, d_k) to (n_mix, N, d) at once. Nothing moves in memory by this, so that your parts are runs of places;
    part the features first, then exchange the axes."""
    z, n_mix = x @ W_k.mT, len(W_pi)
    parts = z.reshape(*z.shape[:-2], n_mix, z.shape[-2], -1)
    softmaxes = (parts @ parts.mT / math.sqrt(len(W_k))).softmax(-1)
    weights = (_shares(z, W_pi)[..., None, None] * softmaxes).sum(-3)
    return Attended(weights @ (x @ W_v.mT), weights)


@wrong
def chooses_once_for_all(x, W_k, W_v, W_pi):
    """You average π over the batch. Each picture should choose for itself; in yours the shares depend on which other pictures
    stand beside it. One picture alone hides this."""
    return _features(x, W_k, W_v, W_pi, lambda z, W: _shares(z, W).reshape(-1, len(W)).mean(0).expand(*z.shape[:-2], -1))


@wrong
def cuts_every_other_feature(x, W_k, W_v, W_pi):
    """You deal the features out to the parts in turn. Part m owns features that stand together, m·d to (m+1)·d, as heads do."""
    dealt = rearrange(W_k, "(d n_mix) C -> (n_mix d) C", n_mix=len(W_pi))
    return _features(x, dealt, W_v, rearrange(W_pi, "p (d n_mix) -> p (n_mix d)", n_mix=len(W_pi)))


@wrong
def hands_over_the_input(x, W_k, W_v, W_pi):
    """You mix x itself. What a place hands over is W_v x, with d_v features."""
    _, weights = _features(x, W_k, W_v, W_pi)
    return Attended(weights @ x, weights)


@wrong
def normalises_over_those_who_ask(x, W_k, W_v, W_pi):
    """You normalise over i, the places that ask. p(x_j | x_i) is a probability of j: its rows sum to 1. The scores are
    symmetric, so only the sums tell the two apart."""
    return _features(x, W_k, W_v, W_pi, dim=-2)


@right
def part_by_part(x, W_k, W_v, W_pi):
    """A loop over the parts, each with its rows of W_k."""
    n_mix, d_k = W_pi.shape
    shares = ((x.mean(-2) @ W_k.mT) @ W_pi.mT).softmax(-1)
    weights = 0.0
    for m, rows in enumerate(W_k.split(d_k // n_mix)):
        z = F.linear(x, rows)
        weights = weights + shares[..., m, None, None] * (z @ z.mT * d_k**-0.5).softmax(-1)
    return weights @ F.linear(x, W_v), weights


@right
def in_einsum(x, W_k, W_v, W_pi):
    """All products by the names of their axes, π too."""
    z = torch.einsum("...nc,kc->...nk", x, W_k).unflatten(-1, (len(W_pi), -1))
    likely = (torch.einsum("...imd,...jmd->...mij", z, z) / len(W_k) ** 0.5).softmax(-1)
    logits = torch.einsum("pmd,...imd->...p", W_pi.unflatten(1, (len(W_pi), -1)), z) / x.shape[-2]
    weights = torch.einsum("...m,...mij->...ij", logits.softmax(-1), likely)
    return Attended(torch.einsum("...ij,...jc,vc->...iv", weights, x, W_v), weights)


@right
def in_logarithms(x, W_k, W_v, W_pi):
    """The logarithm of each share added to its log-softmax, and all parts summed by `logsumexp`."""
    z = x @ W_k.mT
    parts = torch.stack(z.chunk(len(W_pi), dim=-1), dim=-3)
    log_p = (parts @ parts.mT / math.sqrt(z.shape[-1])).log_softmax(-1)
    log_pi = F.linear(z.mean(-2), W_pi).log_softmax(-1)[..., None, None]
    weights = (log_pi + log_p).logsumexp(-3).exp()
    return Attended(weights @ x @ W_v.mT, weights)


def _drawn(draw: Draw, *batch: int, n_mix: int = 3, d: int = 5, N: int | None = None) -> Call:
    """Pictures of which each has a mean of its own, so that each chooses other shares."""
    places, C, d_v = draw.sizes(3)
    x = draw.normal(*batch, N or places, C) + draw.normal(*batch, 1, C)
    W_k, W_v = (draw.normal(n, C, scale=C**-0.5) for n in (n_mix * d, d_v))
    return x, W_k, W_v, draw.normal(n_mix, n_mix * d, scale=(n_mix * d) ** -0.5)


def _plain(draw: Draw) -> Call:
    return _drawn(draw, 1, n_mix=1, d=3)


exercise = Exercise(
    id="09.6",
    title="Co-occurrent features",
    reference=co_occurrent_features,
    properties=(
        runs_on(lambda draw: [_drawn(draw, 1)]),
        has_shape("A context of d_v features and a weight for every place, at each place.", lambda draw: [_drawn(draw, 2)]),
        Property("one place", "A place that is alone is handed its own W_v x.", lambda draw: [_drawn(draw, 2, N=1)]),
        Property(
            "one part",
            "With one part it is attention with the keys as queries, over √d_k.",
            lambda draw: [_plain(draw), _plain(draw)],
            points=2,
        ),
        Property(
            "mixture",
            "The weights mix the softmaxes of the parts by π.",
            lambda draw: [_drawn(draw, 1), _drawn(draw, 1, n_mix=2, d=3)],
            right_result(1),
            points=3,
        ),
        Property("values", "What the weights mix is W_v x.", lambda draw: [_drawn(draw, 1)], right_result(0)),
        Property(
            "batch",
            "Each picture has its own shares, under any number of axes.",
            lambda draw: [_drawn(draw, 3), _drawn(draw, 2, 3, n_mix=2), _drawn(draw)],
            needs=("mixture", "values"),
        ),
        has_gradient(lambda draw: [_drawn(draw, 2)], needs=("mixture", "values")),
        leaves_inputs(lambda draw: [_drawn(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
)
