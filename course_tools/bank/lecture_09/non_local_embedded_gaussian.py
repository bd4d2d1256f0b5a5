"""Exercise 09.1, non_local_embedded_gaussian: what students answer, wrong and right."""

import math

import torch
import torch.nn.functional as F

from course_lib.attention import Attended, attend, non_local_embedded_gaussian
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
        "Three matrices, three roles: query, key and value. Which of them decide the weights, and which is mixed by them? "
        "How many numbers are there in a row of weights?"
    ),
    (
        "θ = x W_θᵀ, φ = x W_φᵀ and g = x W_gᵀ, at each position independently. The score of i and j is the plain product "
        "θ_iᵀ φ_j; Z_i = Σ_j f is what a softmax over the keys divides by."
    ),
    (
        "The scores are θφᵀ, not divided by anything: there is no √d in this paper. `attend` normalises over the last "
        "axis and mixes the rows of g."
    ),
)


def _embedded(x, *weights):
    return [x @ W.mT for W in weights]


@wrong.detail
def divides_by_the_root(x, W_theta, W_phi, W_g):
    """You divide the scores by √d_k. That is scaled dot-product attention; the embedded Gaussian takes the product as it is,
    and your weights are too even."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    return attend(theta @ phi.mT / W_theta.shape[0] ** 0.5, g)


@wrong.idea
def normalises_over_those_who_ask(x, W_theta, W_phi, W_g):
    """You normalise over i, the queries. Z_i sums over j, so the rows sum to 1 and not the columns."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    weights = (theta @ phi.mT).softmax(-2)
    return Attended(weights @ g, weights)


@wrong.idea
def normalises_over_all_pairs(x, W_theta, W_phi, W_g):
    """You take one softmax over all pairs of positions. The weights of each query must sum to 1."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    scores = theta @ phi.mT
    weights = scores.flatten(-2).softmax(-1).view_as(scores)
    return Attended(weights @ g, weights)


@wrong.detail
def exchanges_theta_and_phi(x, W_theta, W_phi, W_g):
    """You take φ for the queries and θ for the keys. The scores are then transposed."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    return attend(phi @ theta.mT, g)


@wrong.part
def embeds_both_alike(x, W_theta, W_phi, W_g):
    """You embed both sides by W_θ. Your scores are then symmetric; the keys have their own matrix W_φ."""
    theta, g = _embedded(x, W_theta, W_g)
    return attend(theta @ theta.mT, g)


@wrong.idea
def embeds_neither(x, W_theta, W_phi, W_g):
    """You use the products of the features themselves, x xᵀ. That is the Gaussian form; the embedded one projects by W_θ
    and W_φ."""
    return attend(x @ x.mT, x @ W_g.mT)


@wrong.part
def hands_over_the_input(x, W_theta, W_phi, W_g):
    """You mix x itself. The values are g = W_g x, with d features; your context has C."""
    theta, phi = _embedded(x, W_theta, W_phi)
    return attend(theta @ phi.mT, x)


@wrong.part
def hands_over_the_keys(x, W_theta, W_phi, W_g):
    """You mix φ, and never use W_g. The values have their own projection, g = W_g x."""
    theta, phi = _embedded(x, W_theta, W_phi)
    return attend(theta @ phi.mT, phi)


@wrong.case
def returns_the_scores(x, W_theta, W_phi, W_g):
    """You return the scores instead of the weights. The context is right, but the second result must be the softmax."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    return Attended((theta @ phi.mT).softmax(-1) @ g, theta @ phi.mT)


@wrong.idea
def divides_by_the_number(x, W_theta, W_phi, W_g):
    """You divide the products by N and take no exponential. That is the dot-product form; in the Gaussian ones f is an
    exponential, and Z its sum."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    weights = theta @ phi.mT / x.shape[-2]
    return Attended(weights @ g, weights)


@wrong.detail
def averages_once_more(x, W_theta, W_phi, W_g):
    """You divide by N after the softmax, which has normalised already; your rows sum to 1/N."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    weights = (theta @ phi.mT).softmax(-1) / x.shape[-2]
    return Attended(weights @ g, weights)


@wrong.part
def compares_directions(x, W_theta, W_phi, W_g):
    """You normalise θ and φ to length 1. Your scores are cosines; asked for are the plain products."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    return attend(F.normalize(theta, dim=-1) @ F.normalize(phi, dim=-1).mT, g)


@wrong.part
def takes_a_sigmoid(x, W_theta, W_phi, W_g):
    """You apply a sigmoid to each score. Your weights of a query do not sum to 1; the softmax makes the positions compete."""
    weights = ((x @ W_theta.mT) @ (x @ W_phi.mT).mT).sigmoid()
    return weights @ (x @ W_g.mT), weights


@wrong.detail
def multiplies_by_the_stored_matrix(x, W_theta, W_phi, W_g):
    """You write x @ W_theta. The matrices are stored with a row for each feature that they make, (d_k, C): x @ W_theta.mT."""
    weights = (x @ W_theta @ (x @ W_phi).mT).softmax(-1)
    return Attended(weights @ (x @ W_g), weights)


@wrong.detail
def multiplies_keys_that_are_not_transposed(x, W_theta, W_phi, W_g):
    """You multiply θ @ φ. Each query meets each key feature by feature: transpose the last two axes of φ."""
    weights = ((x @ W_theta.mT) @ (x @ W_phi.mT)).softmax(-1)
    return Attended(weights @ (x @ W_g.mT), weights)


@wrong.case
def exponentiates_as_written(x, W_theta, W_phi, W_g):
    """You take the exponentials of the scores as they are. Without a scale these reach 100, where exp is infinite and the
    quotient NaN: `softmax` subtracts the largest first."""
    f = torch.exp((x @ W_theta.mT) @ (x @ W_phi.mT).mT)
    weights = f / f.sum(-1, keepdim=True)
    return Attended(weights @ (x @ W_g.mT), weights)


@wrong.detail
def keeps_positions_in_columns(x, W_theta, W_phi, W_g):
    """You compute W x, with the positions in columns: g is (d, N), and so is your context. And g @ weights sums over the
    queries. Write x @ W.mT, with a row for each position, and weights @ g."""
    theta, phi, g = (W @ x.mT for W in (W_theta, W_phi, W_g))
    weights = (theta.mT @ phi).softmax(-1)
    return Attended(g @ weights, weights)


@wrong.case
def returns_positions_in_columns(x, W_theta, W_phi, W_g):
    """You return the context with the positions in columns, (d, N). Each position is a row: exchange the last two axes."""
    theta, phi, g = (W @ x.mT for W in (W_theta, W_phi, W_g))
    weights = (theta.mT @ phi).softmax(-1)
    return Attended(g @ weights.mT, weights)


@wrong.detail
def mixes_columns_over_the_queries(x, W_theta, W_phi, W_g):
    """You mix g over the queries. With the positions in columns, g is (d, N), and g @ weights sums over i: y_i = Σ_j weights_ij
    g_j is a sum over the keys j."""
    theta, phi, g = (W @ x.mT for W in (W_theta, W_phi, W_g))
    weights = (theta.mT @ phi).softmax(-1)
    return Attended((g @ weights).mT, weights)


@wrong.part
def never_looks_at_itself(x, W_theta, W_phi, W_g):
    """You leave each position out of its own sum. j runs over all positions, i among them."""
    others = ~torch.eye(x.shape[-2], dtype=torch.bool)
    return attend((x @ W_theta.mT) @ (x @ W_phi.mT).mT, x @ W_g.mT, others)


@right
def in_einsum(x, W_theta, W_phi, W_g):
    """Sums over named axes, the exponential and its sum written out."""
    theta, phi, g = (torch.einsum("...nc,dc->...nd", x, W) for W in (W_theta, W_phi, W_g))
    scores = torch.einsum("...id,...jd->...ij", theta, phi)
    f = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = f / f.sum(-1, keepdim=True)
    return Attended(torch.einsum("...ij,...jd->...id", weights, g), weights)


@right
def by_one_form(x, W_theta, W_phi, W_g):
    """θᵀ φ as one bilinear form of x, and W_g applied to the mixture instead of to each position."""
    weights = torch.softmax(x @ (W_theta.mT @ W_phi) @ x.mT, dim=-1)
    return weights @ x @ W_g.mT, weights


@right
def fused_twice(x, W_theta, W_phi, W_g):
    """One projection for all three, and torch's fused attention without a scale: on g, and on unit vectors for the weights."""
    theta, phi, g = F.linear(x, torch.cat([W_theta, W_phi, W_g])).split([len(W_theta), len(W_phi), len(W_g)], -1)
    ones = torch.eye(x.shape[-2], dtype=x.dtype).expand(*x.shape[:-1], -1)
    both = F.scaled_dot_product_attention(theta, phi, torch.cat([g, ones], dim=-1), scale=1.0)
    return Attended(*both.split([len(W_g), x.shape[-2]], dim=-1))


@right
def place_by_place(x, W_theta, W_phi, W_g):
    """A loop over the positions that ask, each with its softmax."""
    theta, phi, g = (F.linear(x, W) for W in (W_theta, W_phi, W_g))
    rows = [(theta[..., i : i + 1, :] * phi).sum(-1).softmax(-1) for i in range(x.shape[-2])]
    return torch.stack([(row.unsqueeze(-1) * g).sum(-2) for row in rows], dim=-2), torch.stack(rows, dim=-2)


@stranger
def gaussian_of_distances(x, W_theta, W_phi, W_g):
    return attend(-(torch.cdist(x @ W_theta.mT, x @ W_phi.mT) ** 2), x @ W_g.mT)


@stranger
def gaussian_that_skips_itself(x, W_theta, W_phi, W_g):
    alone = torch.eye(x.shape[-2], dtype=torch.bool)
    return attend((x @ W_theta.mT @ (x @ W_phi.mT).mT).masked_fill(alone, -1e9), x @ W_g.mT)


@stranger
def gaussian_without_gradient_of_the_weights(x, W_theta, W_phi, W_g):
    weights = non_local_embedded_gaussian(x, W_theta, W_phi, W_g).weights.detach()
    return Attended(weights @ x @ W_g.mT, weights)


@stranger(makes=[divides_by_the_root])
def gaussian_by_a_later_scale(x, W_theta, W_phi, W_g):
    return non_local_embedded_gaussian(x, W_theta / math.sqrt(len(W_theta)), W_phi, W_g)


@stranger(makes=[divides_by_the_root, exchanges_theta_and_phi])
def gaussian_scaled_and_exchanged(x, W_theta, W_phi, W_g):
    return non_local_embedded_gaussian(x, W_phi / math.sqrt(len(W_theta)), W_theta, W_g)


def _drawn(draw: Draw, *batch: int, N: int | None = None) -> Call:
    places, C, d_k, d = draw.sizes(4)
    W_theta, W_phi, W_g = (draw.normal(n, C, scale=C**-0.5) for n in (d_k, d_k, d))
    return draw.normal(*batch, N or places, C), W_theta, W_phi, W_g


def _with_large_scores(draw: Draw) -> list[Call]:
    """The largest score is 120, and its exponential infinite."""
    x, W_theta, W_phi, W_g = _drawn(draw, 2)
    return [(x, W_theta * 120 / ((x @ W_theta.mT) @ (x @ W_phi.mT).mT).amax(), W_phi, W_g)]


exercise = Exercise(
    id="09.1",
    title="The embedded Gaussian form",
    reference=non_local_embedded_gaussian,
    properties=(
        runs_on(lambda draw: [_drawn(draw, 1)]),
        has_shape(
            "For each position, a context of d features and a weight for every position.", lambda draw: [_drawn(draw, 2)]
        ),
        Property("one position", "With a single position, the context is its g.", lambda draw: [_drawn(draw, 2, N=1)]),
        Property(
            "weights",
            "The weights are the softmax over j of θ_iᵀ φ_j.",
            lambda draw: [_drawn(draw, 1), _drawn(draw, 1)],
            right_result(1),
            points=2,
        ),
        Property(
            "context",
            "The values are g = W_g x.",
            lambda draw: [_drawn(draw, 1), _drawn(draw, 1)],
            right_result(0),
            points=2,
        ),
        Property(
            "large scores",
            "Large scores do not overflow.",
            _with_large_scores,
            needs=("weights", "context"),
        ),
        Property(
            "batch",
            "Each image is computed independently, with any number of batch axes.",
            lambda draw: [_drawn(draw, 3), _drawn(draw, 2, 3), _drawn(draw)],
            needs=("weights", "context"),
        ),
        has_gradient(lambda draw: [_drawn(draw, 2)], needs=("weights", "context")),
        leaves_inputs(lambda draw: [_drawn(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
