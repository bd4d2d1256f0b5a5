"""Exercise 03.1, soft_attention: what students answer, wrong and right."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from course_lib.attention import Attended, additive_scores
from course_lib.models import soft_attention
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
        "An image of five regions and one state: how many numbers must come out before the softmax, and over what do they "
        "sum to 1? Write the shapes of W_a a_i, of W_h h and of v down. What has to be added *inside* the tanh?"
    ),
    (
        "Project all regions to size m at once, (B, L, m), and the state too, (B, m); give the state an axis of length 1 "
        "so that it is added to every region of its own image. Then tanh, then v, then a softmax over L, which mixes the "
        "regions."
    ),
    (
        r"The state needs an axis for the regions before the two projections can be added. After $\tanh$, the product with "
        "`v` leaves one score a region; softmax over the regions makes the weights. The context is a weighted sum of the "
        "*regions themselves*, so give the weights a last axis of size 1."
    ),
)


def _hidden(regions, h, W_a, W_h):
    """The hidden units of each region, (B, L, m)."""
    return torch.tanh(regions @ W_a.mT + (h @ W_h.mT)[:, None])


def _mix(weights, regions):
    return Attended((weights[..., None] * regions).sum(1), weights)


@wrong.part
def has_no_tanh(regions, h, W_a, W_h, v):
    """You add the two parts and go straight to v. Without the tanh the state adds the same number to every region's score, the
    softmax takes it out again, and the weights are independent of the state."""
    weights = ((regions @ W_a.mT + (h @ W_h.mT)[:, None]) @ v).softmax(-1)
    return (weights[..., None] * regions).sum(1), weights


@wrong.idea
def keeps_the_state_apart(regions, h, W_a, W_h, v):
    """The state has no effect on your weights: it is left out, or has its own tanh and is added afterwards. Then it adds the
    same to every region of an image and cancels in the softmax; it must be added *inside* the one tanh."""
    return _mix(((regions @ W_a.mT).tanh() @ v + (h @ W_h.mT).tanh() @ v[:, None]).softmax(-1), regions)


@wrong.detail
def squashes_the_score(regions, h, W_a, W_h, v):
    """You multiply by v first and take the tanh of the finished score. All scores then lie between -1 and 1, and no region can
    ever weigh more than e² times another; the tanh belongs to the m hidden units, before v."""
    return _mix(((regions @ W_a.mT + (h @ W_h.mT)[:, None]) @ v).tanh().softmax(-1), regions)


@wrong.idea
def normalises_over_the_batch(regions, h, W_a, W_h, v):
    """You take the softmax over axis 0. There the images of the batch compete with each other, and in a batch of one all
    weights are 1; the weights of *one* image must sum to 1."""
    return _mix((_hidden(regions, h, W_a, W_h) @ v).softmax(0), regions)


@wrong.part
def decides_region_by_region(regions, h, W_a, W_h, v):
    """You take a sigmoid of each score. The weights of an image then do not sum to 1; the softmax makes the regions compete."""
    return _mix((_hidden(regions, h, W_a, W_h) @ v).sigmoid(), regions)


@wrong.idea
def never_normalises(regions, h, W_a, W_h, v):
    """You mix with the raw scores. They may be negative and do not sum to 1; a softmax over the regions turns them into
    weights."""
    return _mix(_hidden(regions, h, W_a, W_h) @ v, regions)


@wrong.detail
def uses_one_state_for_all(regions, h, W_a, W_h, v):
    """You use the first state of the batch for every image. Each image has its own caption and state; in a batch of one the
    mistake has no effect."""
    return _mix((_hidden(regions, h[:1], W_a, W_h) @ v).softmax(-1), regions)


@wrong.part
def mixes_the_hidden_units(regions, h, W_a, W_h, v):
    """You mix W_a a_i, the regions in the attention space. Those only serve to compute scores, and have size m; the context
    mixes the regions themselves, of size d_a."""
    return _mix((_hidden(regions, h, W_a, W_h) @ v).softmax(-1), regions @ W_a.mT)


@wrong.idea
def looks_everywhere_alike(regions, h, W_a, W_h, v):
    """You compute the weights, and then take the plain mean of the regions. It is the same before every word; each region must
    be multiplied by its weight."""
    return Attended(regions.mean(1), (_hidden(regions, h, W_a, W_h) @ v).softmax(-1))


@wrong.part
def picks_one_region(regions, h, W_a, W_h, v):
    """You pick the region with the largest score and leave out the rest. That is a hard choice, through which no gradient
    flows to the scores; soft attention mixes all regions, each by its weight."""
    scores = _hidden(regions, h, W_a, W_h) @ v
    return _mix(F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype), regions)


@wrong.detail
def scales_like_a_dot_product(regions, h, W_a, W_h, v):
    """You divide the scores by √m, as in scaled dot products. Additive scores have no such factor: v is learned together with
    its scale, and your weights are too even."""
    return _mix((_hidden(regions, h, W_a, W_h) @ v / v.shape[0] ** 0.5).softmax(-1), regions)


@wrong.case
def returns_weights_first(regions, h, W_a, W_h, v):
    """You return the weights first and the context second. The caller expects the context (B, d_a) first, then the weights (B,
    L)."""
    context, weights = _mix((_hidden(regions, h, W_a, W_h) @ v).softmax(-1), regions)
    return weights, context


@wrong.detail
def takes_relu_for_tanh(regions, h, W_a, W_h, v):
    """You use ReLU where the attention network has tanh: hidden units whose sum is negative drop out of the score."""
    hidden = (regions @ W_a.mT + (h @ W_h.mT)[:, None]).relu()
    weights = (hidden @ v).softmax(-1)
    return (weights[:, None] @ regions)[:, 0], weights


@wrong.detail
def adds_the_state_without_an_axis_for_the_regions(regions, h, W_a, W_h, v):
    """You add one projected state (B, m) to L projected regions (B, L, m). Give the state an axis of size 1 for the regions:
    (B, 1, m)."""
    weights = (torch.tanh(regions @ W_a.mT + h @ W_h.mT) @ v).softmax(-1)
    return (weights.unsqueeze(-1) * regions).sum(1), weights


@wrong.detail
def multiplies_by_the_stored_matrix(regions, h, W_a, W_h, v):
    """You multiply by W_a as it is stored. It has a row for each of the m units, so the features of a region meet its columns:
    regions @ W_a.mT."""
    weights = (torch.tanh(regions @ W_a + (h @ W_h)[:, None]) @ v).softmax(-1)
    return (weights.unsqueeze(-1) * regions).sum(1), weights


@wrong.detail
def weighs_regions_without_an_axis(regions, h, W_a, W_h, v):
    """You multiply the weights (B, L) by the regions (B, L, d_a). A weight scales all features of its region: give it an axis
    of size 1, and sum over the regions."""
    weights = (torch.tanh(regions @ W_a.mT + (h @ W_h.mT)[:, None]) @ v).softmax(-1)
    return (weights * regions).sum(1), weights


@wrong.detail
def takes_the_weights_of_a_batch_for_one_matrix(regions, h, W_a, W_h, v):
    """You multiply the weights (B, L) by the regions (B, L, d_a) with `@`, which takes the weights of all images for *one*
    matrix and gives (B, B, d_a). In lecture 02 they had an axis of queries; here there is one query, so give them an axis of
    size 1, weights[:, None] @ regions, and remove it afterwards."""
    weights = (_hidden(regions, h, W_a, W_h) @ v).softmax(-1)
    return weights @ regions, weights


@wrong.part
def takes_a_softmax_over_one_score(regions, h, W_a, W_h, v):
    """Your scores are (B, L, 1), and your softmax runs over this last axis of size 1, so that all weights are 1. It runs over
    the L regions."""
    scores = torch.tanh(regions @ W_a.mT + (h @ W_h.mT)[:, None]) @ v[:, None]
    weights = scores.softmax(-1)
    return (weights * regions).sum(1), weights[..., 0]


@wrong.detail
def takes_the_mean_of_the_weighted_regions(regions, h, W_a, W_h, v):
    """You take the mean of the weighted regions. The weights sum to 1 already, so that their sum is an average; yours is
    smaller by a factor of L."""
    context, weights = soft_attention(regions, h, W_a, W_h, v)
    return context / regions.shape[1], weights


@wrong.case
def squeezes_the_batch_away(regions, h, W_a, W_h, v):
    """You remove an axis by `squeeze()`, which removes every axis of size 1, also a batch of one: name the axis."""
    context, weights = soft_attention(regions, h, W_a, W_h, v)
    return context.squeeze(), weights


@right
def in_einsum(regions, h, W_a, W_h, v):
    """Every product an einsum, the softmax written out."""
    hidden = torch.einsum("bld,md->blm", regions, W_a) + torch.einsum("bn,mn->bm", h, W_h).unsqueeze(1)
    scores = torch.einsum("blm,m->bl", hidden.tanh(), v)
    shares = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = shares / shares.sum(-1, keepdim=True)
    return torch.einsum("bl,bld->bd", weights, regions), weights


@right
def as_one_network(regions, h, W_a, W_h, v):
    """The state put beside each region, both weight matrices beside each other: one small network that scores the pairs."""
    pairs = torch.cat([regions, h[:, None].expand(-1, regions.shape[1], -1)], dim=-1)
    weights = F.softmax(F.linear(F.linear(pairs, torch.cat([W_a, W_h], dim=1)).tanh(), v[None]), dim=1)
    return Attended((weights.mT @ regions).squeeze(1), weights.squeeze(-1))


@right
def picture_by_picture(regions, h, W_a, W_h, v):
    """A loop over the images and one over their regions."""
    contexts, rows = [], []
    for picture, state in zip(regions, h, strict=True):
        scores = torch.stack([v.dot(torch.tanh(W_a.mv(a) + W_h.mv(state))) for a in picture])
        rows.append(scores.softmax(0))
        contexts.append(sum(weight * a for weight, a in zip(rows[-1], picture, strict=True)))
    return torch.stack(contexts), torch.stack(rows)


@right
def with_the_scores_of_lecture_02(regions, h, W_a, W_h, v):
    """The additive scores of the library, with the state as the only query; the rest in double precision."""
    scores = additive_scores(h.double()[:, None], regions.double(), W_h.double(), W_a.double(), v.double())
    weights = scores.softmax(-1)
    return torch.bmm(weights, regions.double())[:, 0].to(regions.dtype), weights[:, 0].to(regions.dtype)


@stranger
def looks_at_the_opposite(regions, h, W_a, W_h, v):
    return soft_attention(regions, h, W_a, W_h, -v)


@stranger
def looks_through_a_relu(regions, h, W_a, W_h, v):
    weights = ((regions @ W_a.mT + (h @ W_h.mT)[:, None]).relu() @ v).softmax(-1)
    return (weights[..., None] * regions).sum(1), weights


@stranger
def looks_with_squared_weights(regions, h, W_a, W_h, v):
    weights = soft_attention(regions, h, W_a, W_h, v).weights.square()
    return (weights[..., None] * regions).sum(1), weights


@stranger(makes=[keeps_the_state_apart])
def looks_without_asking(regions, h, W_a, W_h, v):
    return soft_attention(regions, torch.zeros_like(h), W_a, W_h, v)


@stranger(makes=[decides_region_by_region, scales_like_a_dot_product])
def looks_through_a_scaled_sigmoid(regions, h, W_a, W_h, v):
    scores = (regions @ W_a.mT + (h @ W_h.mT)[:, None]).tanh() @ v / len(v) ** 0.5
    return (scores.sigmoid()[..., None] * regions).sum(1), scores.sigmoid()


def _look(draw: Draw, B: int, says: float = 1.0, fits: float = 1.0) -> Call:
    """Images with regions of all sizes different; `says` is how much the state has to say, `fits` how sharp the look is."""
    L, d_a, n, m = (size + (size == B) for size in draw.sizes(4))
    W_h = draw.normal(m, n, scale=says)
    return 1.0 + draw.normal(B, L, d_a), draw.normal(B, n), draw.normal(m, d_a), W_h, draw.normal(m, scale=fits)


def _looks(*B: int, **scales: float) -> Callable[[Draw], list[Call]]:
    return lambda draw: [_look(draw, b, **scales) for b in B]


exercise = Exercise(
    id="03.1",
    title="Soft attention over regions",
    reference=soft_attention,
    properties=(
        runs_on(_looks(2)),
        has_shape("A context for each image, and a weight for each of its regions.", _looks(2, 1)),
        Property("mean", "Where v is 0, the context is the mean of the regions.", _looks(2, fits=0.0)),
        Property(
            "regions alone",
            "A state without effect: the scores of the regions alone, normalised over the regions.",
            _looks(1, says=0.0),
            right_result(1),
            points=2,
            needs=("mean",),
        ),
        Property(
            "state",
            "The state is added inside the tanh, to every region.",
            _looks(1, 1),
            right_result(1),
            points=2,
            needs=("regions alone",),
        ),
        Property("context", "The context mixes the regions by these weights.", _looks(1, 1), needs=("state",)),
        Property("sharp", "Large scores do not overflow.", _looks(1, fits=100.0), needs=("context",)),
        Property("batch", "Each image has its own state.", _looks(3, 2), needs=("context",)),
        has_gradient(_looks(2), needs=("batch",)),
        leaves_inputs(_looks(2)),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "There is one query, so the first is the last.": (
            "constant: context[:, -1]",
            "constant: weights[:, -1]",
        ),
    },
    hints=HINTS,
)
