"""Exercise 09.1, non_local_embedded_gaussian: what students answer, wrong and right."""

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

wrong, right = Answers(), Answers()

HINTS = (
    (
        "Three matrices, three roles: what a place asks, what it offers, and what it hands over. Which of them decide the "
        "weights, and which is mixed by them? How many numbers are there in a row of weights?"
    ),
    (
        "θ = x W_θᵀ, φ = x W_φᵀ and g = x W_gᵀ, at each place by itself. The score of i and j is the plain product θ_iᵀ φ_j; "
        "C(x) = Σ_j f is what a softmax over the keys divides by."
    ),
    "`attend(theta @ phi.mT, g)` normalises over the last axis and mixes. There is no √d in this paper.",
)


def _embedded(x, *weights):
    return [x @ W.mT for W in weights]


@wrong
def divides_by_the_root(x, W_theta, W_phi, W_g):
    """You divide the scores by √d_k. That is scaled dot-product attention; the embedded Gaussian takes the product as it is,
    and your weights are too even."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    return attend(theta @ phi.mT / W_theta.shape[0] ** 0.5, g)


@wrong
def normalises_over_those_who_ask(x, W_theta, W_phi, W_g):
    """You normalise over i, the places that ask. C(x) sums over j: each place shares out a weight of 1 among those that it
    looks at, so the rows sum to 1 and not the columns."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    weights = (theta @ phi.mT).softmax(-2)
    return Attended(weights @ g, weights)


@wrong
def normalises_over_all_pairs(x, W_theta, W_phi, W_g):
    """You let one softmax run over all pairs of places. Then a place with small scores sees next to nothing; each place has a
    sum of its own to divide by."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    scores = theta @ phi.mT
    weights = scores.flatten(-2).softmax(-1).view_as(scores)
    return Attended(weights @ g, weights)


@wrong
def exchanges_theta_and_phi(x, W_theta, W_phi, W_g):
    """You let φ ask and θ answer. The scores are then transposed, and place i looks at those that would have looked at it."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    return attend(phi @ theta.mT, g)


@wrong
def embeds_both_alike(x, W_theta, W_phi, W_g):
    """You embed both sides by W_θ. Your scores are symmetric, and a place always likes itself well; what it seeks may differ
    from what it offers, which is why there is W_φ."""
    theta, g = _embedded(x, W_theta, W_g)
    return attend(theta @ theta.mT, g)


@wrong
def embeds_neither(x, W_theta, W_phi, W_g):
    """You compare the features themselves, x xᵀ. That is the Gaussian form, without the word "embedded": θ and φ are there so
    that it can be learned what to compare."""
    return attend(x @ x.mT, x @ W_g.mT)


@wrong
def hands_over_the_input(x, W_theta, W_phi, W_g):
    """You mix x itself. What a place hands over is g = W_g x, with d features; your context still has all C."""
    theta, phi = _embedded(x, W_theta, W_phi)
    return attend(theta @ phi.mT, x)


@wrong
def hands_over_the_keys(x, W_theta, W_phi, W_g):
    """You mix φ, and never use W_g. What makes a place be found need not be what is fetched from it."""
    theta, phi = _embedded(x, W_theta, W_phi)
    return attend(theta @ phi.mT, phi)


@wrong
def returns_the_scores(x, W_theta, W_phi, W_g):
    """You return the scores where the weights belong. The context is right, but who draws what a place looks at draws numbers
    below 0 and above 1."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    return Attended((theta @ phi.mT).softmax(-1) @ g, theta @ phi.mT)


@wrong
def divides_by_the_number(x, W_theta, W_phi, W_g):
    """You divide the products by N and take no exponential. That is the dot-product form; in the Gaussian ones f is an
    exponential, and C its sum."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    weights = theta @ phi.mT / x.shape[-2]
    return Attended(weights @ g, weights)


@wrong
def averages_once_more(x, W_theta, W_phi, W_g):
    """You divide by N behind the softmax. It has normalised already; your rows sum to 1/N, and the more places there are the
    less comes back."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    weights = (theta @ phi.mT).softmax(-1) / x.shape[-2]
    return Attended(weights @ g, weights)


@wrong
def compares_directions(x, W_theta, W_phi, W_g):
    """You bring θ and φ to length 1 first. Your scores are cosines between -1 and 1, too close together for any place to stand
    out; the product of the vectors as they are is asked for."""
    theta, phi, g = _embedded(x, W_theta, W_phi, W_g)
    return attend(F.normalize(theta, dim=-1) @ F.normalize(phi, dim=-1).mT, g)


@wrong
def takes_a_sigmoid(x, W_theta, W_phi, W_g):
    """You apply a sigmoid to each score. Your weights of a query do not sum to 1; the softmax makes the positions compete."""
    weights = ((x @ W_theta.mT) @ (x @ W_phi.mT).mT).sigmoid()
    return weights @ (x @ W_g.mT), weights


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
    """θᵀ φ as one bilinear form of x, and W_g applied to the mixture instead of to each place."""
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
    """A loop over the places that ask, each with its softmax."""
    theta, phi, g = (F.linear(x, W) for W in (W_theta, W_phi, W_g))
    rows = [(theta[..., i : i + 1, :] * phi).sum(-1).softmax(-1) for i in range(x.shape[-2])]
    return torch.stack([(row.unsqueeze(-1) * g).sum(-2) for row in rows], dim=-2), torch.stack(rows, dim=-2)


def _drawn(draw: Draw, *batch: int, N: int | None = None, spread: float = 1.0) -> Call:
    places, C, d_k, d = draw.sizes(4)
    W_theta, W_phi, W_g = (draw.normal(n, C, scale=C**-0.5) for n in (d_k, d_k, d))
    return draw.normal(*batch, N or places, C), spread * W_theta, W_phi, W_g


exercise = Exercise(
    id="09.1",
    title="The embedded Gaussian",
    reference=non_local_embedded_gaussian,
    properties=(
        runs_on(lambda draw: [_drawn(draw, 1)]),
        has_shape("A context of d features and a weight for every place, at each place.", lambda draw: [_drawn(draw, 2)]),
        Property("one place", "A place that is alone is handed its own g.", lambda draw: [_drawn(draw, 2, N=1)]),
        Property(
            "weights",
            "The weights are the softmax over j of θ_iᵀ φ_j.",
            lambda draw: [_drawn(draw, 1), _drawn(draw, 1)],
            right_result(1),
            points=2,
        ),
        Property(
            "context",
            "What is mixed is g = W_g x.",
            lambda draw: [_drawn(draw, 1), _drawn(draw, 1)],
            right_result(0),
            points=2,
        ),
        Property(
            "steep",
            "Large scores are no trouble.",
            lambda draw: [_drawn(draw, 2, spread=30.0)],
            needs=("weights", "context"),
        ),
        Property(
            "batch",
            "Each picture is its own, under any number of axes.",
            lambda draw: [_drawn(draw, 3), _drawn(draw, 2, 3), _drawn(draw)],
            needs=("weights", "context"),
        ),
        has_gradient(lambda draw: [_drawn(draw, 2)], needs=("weights", "context")),
        leaves_inputs(lambda draw: [_drawn(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
)
