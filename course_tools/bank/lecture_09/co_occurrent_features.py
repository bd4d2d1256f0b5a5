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

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "How many softmaxes are there for one position, and which features does each compare? What is mixed by π: scores, "
        "weights or contexts – and for which of these does it matter that π sums to 1?"
    ),
    (
        "Embed once, z = x W_kᵀ, and split it into n_mix parts, each with its own scores over all positions. π comes from "
        "the mean of z over the positions: one π of n_mix numbers for each image, by a softmax."
    ),
    (
        "`split_heads` cuts the features into n_mix parts; each part attends to itself by scaled dot products, and gives "
        "its own softmax. The shares need two more axes to weigh these maps; their sum over the parts is the map that "
        "mixes the projected values."
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


@wrong.detail
def scales_by_the_part(x, W_k, W_v, W_pi):
    """You divide by the root of the features of one part. The authors take √d_k, of the whole embedding, for every part; your
    softmaxes are sharper."""
    return _features(x, W_k, W_v, W_pi, scale=len(W_k) // len(W_pi))


@wrong.detail
def forgets_the_scale(x, W_k, W_v, W_pi):
    """You do not divide by √d_k. With one embedding for queries and keys, each position is most similar to itself, and
    without the scale it gets nearly all the weight."""
    return _features(x, W_k, W_v, W_pi, scale=1)


@wrong.part
def mixes_the_scores(x, W_k, W_v, W_pi):
    """You mix the scores of the parts and take one softmax. Each part is normalised first, and the probabilities are mixed."""
    z = x @ W_k.mT
    parts = split_heads(z, len(W_pi))
    scores = (_shares(z, W_pi)[..., None, None] * (parts @ parts.mT)).sum(-3)
    weights = (scores / math.sqrt(len(W_k))).softmax(-1)
    return Attended(weights @ (x @ W_v.mT), weights)


@wrong.idea
def takes_one_softmax(x, W_k, W_v, W_pi):
    """You take one softmax of the whole embedding, and neither parts nor π. That is plain attention with keys as queries;
    here it is a mixture of n_mix softmaxes."""
    z = x @ W_k.mT
    weights = (z @ z.mT / math.sqrt(len(W_k))).softmax(-1)
    return Attended(weights @ (x @ W_v.mT), weights)


@wrong.part
def mixes_in_equal_parts(x, W_k, W_v, W_pi):
    """You average the softmaxes. Their weights are π, which depends on the image; W_pi has no effect in yours."""
    return _features(x, W_k, W_v, W_pi, lambda z, W: torch.ones_like(_shares(z, W)) / len(W))


@wrong.part
def leaves_the_shares_raw(x, W_k, W_v, W_pi):
    """You use W_π z̄ as it is. These numbers may be negative and need not sum to 1, so that your rows are not
    probabilities: π is their softmax."""
    return _features(x, W_k, W_v, W_pi, lambda z, W: z.mean(-2) @ W.mT)


@wrong.part
def lets_each_place_choose(x, W_k, W_v, W_pi):
    """You compute π from each position's own z. There is one π for the whole image, from the mean of z over the positions."""
    z = x @ W_k.mT
    shares = (z @ W_pi.mT).softmax(-1).mT
    weights = (shares.unsqueeze(-1) * _softmaxes(z, len(W_pi))).sum(-3)
    return Attended(weights @ (x @ W_v.mT), weights)


@wrong.detail
def chooses_from_the_largest(x, W_k, W_v, W_pi):
    """You take the largest value of each feature over the positions, where the mean is asked for. A single pixel then
    decides for the whole image."""
    return _features(x, W_k, W_v, W_pi, lambda z, W: (z.amax(-2) @ W.mT).softmax(-1))


@wrong.detail
def chooses_from_the_sum(x, W_k, W_v, W_pi):
    """You sum z over the positions and do not divide by their number. π then depends on the size of the image; z̄ is the
    mean."""
    return _features(x, W_k, W_v, W_pi, lambda z, W: (z.sum(-2) @ W.mT).softmax(-1))


@wrong.part
def reshapes_into_parts(x, W_k, W_v, W_pi):
    """You reshape (N, d_k) to (n_mix, N, d) at once. A reshape does not exchange axes, so that your parts are runs of
    positions; split the features first, then exchange the axes."""
    z, n_mix = x @ W_k.mT, len(W_pi)
    parts = z.reshape(*z.shape[:-2], n_mix, z.shape[-2], -1)
    softmaxes = (parts @ parts.mT / math.sqrt(len(W_k))).softmax(-1)
    weights = (_shares(z, W_pi)[..., None, None] * softmaxes).sum(-3)
    return Attended(weights @ (x @ W_v.mT), weights)


@wrong.case
def chooses_once_for_all(x, W_k, W_v, W_pi):
    """You average π over the batch. Each image has its own π; in yours it depends on the rest of the batch. In a batch of
    one the mistake has no effect."""
    return _features(x, W_k, W_v, W_pi, lambda z, W: _shares(z, W).reshape(-1, len(W)).mean(0).expand(*z.shape[:-2], -1))


@wrong.detail
def cuts_every_other_feature(x, W_k, W_v, W_pi):
    """You assign the features to the parts in turn. The features of part m are contiguous, m·d to (m+1)·d, as for heads."""
    dealt = rearrange(W_k, "(d n_mix) C -> (n_mix d) C", n_mix=len(W_pi))
    return _features(x, dealt, W_v, rearrange(W_pi, "p (d n_mix) -> p (n_mix d)", n_mix=len(W_pi)))


@wrong.part
def hands_over_the_input(x, W_k, W_v, W_pi):
    """You mix x itself. The values are W_v x, with d_v features."""
    _, weights = _features(x, W_k, W_v, W_pi)
    return Attended(weights @ x, weights)


@wrong.part
def normalises_over_those_who_ask(x, W_k, W_v, W_pi):
    """You normalise over i, the queries. p(x_j | x_i) is a probability of j: its rows sum to 1. The scores are symmetric,
    so only the sums tell the two apart."""
    return _features(x, W_k, W_v, W_pi, dim=-2)


@wrong.detail
def multiplies_by_the_stored_matrix(x, W_k, W_v, W_pi):
    """You write x @ W_k. The matrices are stored with a row for each feature that they make, (d_k, C): x @ W_k.mT."""
    keys = x @ W_k
    weights = (keys @ keys.mT).softmax(-1)
    return Attended(weights @ (x @ W_v), weights)


@wrong.part
def chooses_from_the_input(x, W_k, W_v, W_pi):
    """You give W_pi the mean of x. It acts on the embedded features, π = softmax(W_pi z̄), where z = W_k x."""
    z = x @ W_k.mT
    weights = ((x.mean(-2) @ W_pi.mT).softmax(-1)[..., None, None] * _softmaxes(z, len(W_pi))).sum(-3)
    return Attended(weights @ (x @ W_v.mT), weights)


@wrong.detail
def shares_without_axes_of_the_positions(x, W_k, W_v, W_pi):
    """You multiply π (*batch, n_mix) by softmaxes (*batch, n_mix, N, N) as it is, and it meets the keys. Give it two axes of
    size 1: π[..., None, None]."""
    z = x @ W_k.mT
    weights = (_shares(z, W_pi) * _softmaxes(z, len(W_pi))).sum(-3)
    return Attended(weights @ (x @ W_v.mT), weights)


@wrong.detail
def opens_each_part_by_a_sigmoid(x, W_k, W_v, W_pi):
    """You take a sigmoid of W_pi z̄. The parts share one whole: π is a softmax, and each row of the mixture sums to 1."""
    return _features(x, W_k, W_v, W_pi, lambda z, W: (z.mean(-2) @ W.mT).sigmoid())


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


@stranger
def features_of_another_share(x, W_k, W_v, W_pi):
    return co_occurrent_features(x, W_k, W_v, W_pi.flip(0))


@stranger
def features_with_cosines(x, W_k, W_v, W_pi):
    z = torch.nn.functional.normalize(x @ W_k.mT, dim=-1)
    weights = (z @ z.mT).softmax(-1)
    return Attended(weights @ x @ W_v.mT, weights)


@stranger
def features_with_sharper_shares(x, W_k, W_v, W_pi):
    return co_occurrent_features(x, W_k, W_v, 2 * W_pi)


@stranger(makes=[mixes_in_equal_parts])
def features_without_a_choice(x, W_k, W_v, W_pi):
    return co_occurrent_features(x, W_k, W_v, 0 * W_pi)


@stranger(makes=[forgets_the_scale, mixes_in_equal_parts])
def features_unscaled_in_equal_parts(x, W_k, W_v, W_pi):
    return co_occurrent_features(x, W_k * len(W_k) ** 0.25, W_v, 0 * W_pi)


def _drawn(draw: Draw, *batch: int, n_mix: int = 3, d: int = 5, N: int | None = None) -> Call:
    """Images with different means, so that each has different mixture weights."""
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
        has_shape(
            "For each position, a context of d_v features and a weight for every position.", lambda draw: [_drawn(draw, 2)]
        ),
        Property("one position", "With a single position, the context is W_v x.", lambda draw: [_drawn(draw, 2, N=1)]),
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
        Property("values", "The values are W_v x.", lambda draw: [_drawn(draw, 1)], right_result(0)),
        Property(
            "batch",
            "Each image has its own π, with any number of batch axes.",
            lambda draw: [_drawn(draw, 3), _drawn(draw, 2, 3, n_mix=2), _drawn(draw)],
            needs=("mixture", "values"),
        ),
        has_gradient(lambda draw: [_drawn(draw, 2)], needs=("mixture", "values")),
        leaves_inputs(lambda draw: [_drawn(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only the shape is read, and a detached tensor has the same.": (
            "detach: W_k.detach().shape",
            "detach: W_pi.detach().shape",
        ),
    },
    hints=HINTS,
    extra=True,
)
