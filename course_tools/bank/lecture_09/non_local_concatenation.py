"""Exercise 09.3, non_local_concatenation: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.attention import Attended, non_local_concatenation
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
        "w_f is multiplied by the concatenation of θ_i and φ_j, 2·d_k numbers. Which part of the score does not depend on "
        "j, and which not on i? Must you really build all N_q · N pairs?"
    ),
    (
        "The score of (i, j) is the dot product of θ_i with the first half of w_f, plus that of φ_j with the second half. The "
        "weight is the ReLU of this score, divided by the number of keys; there is no softmax."
    ),
    (
        "The two halves of w_f act on θ and φ alone: a column of N_q numbers and a row of N. Their sum by broadcasting "
        "goes through the ReLU and is divided by N, not normalised; these are the weights that mix g."
    ),
)


def _scores(theta, phi, w_theta, w_phi):
    return (theta @ w_theta).unsqueeze(-1) + (phi @ w_phi).unsqueeze(-2)


def _pairs(theta, phi, w_f):
    return _scores(theta, phi, *w_f.chunk(2))


def _attended(weights, g):
    return Attended(weights @ g, weights)


@wrong.detail
def exchanges_the_halves(theta, phi, g, w_f):
    """You multiply φ_j by the first half of w_f and θ_i by the second. In [θ_i, φ_j] the query comes first."""
    return _attended(_scores(theta, phi, *reversed(w_f.chunk(2))).relu() / phi.shape[-2], g)


@wrong.part
def interleaves_the_features(theta, phi, g, w_f):
    """You multiply θ_i by every other entry of w_f, as if the features were interleaved. In a concatenation the first d_k
    entries belong to θ_i."""
    return _attended(_scores(theta, phi, w_f[0::2], w_f[1::2]).relu() / phi.shape[-2], g)


@wrong.part
def uses_one_half_for_both(theta, phi, g, w_f):
    """You use the first half of w_f for both θ_i and φ_j. The second half is for φ_j."""
    w_theta, _ = w_f.chunk(2)
    return _attended(_scores(theta, phi, w_theta, w_theta).relu() / phi.shape[-2], g)


@wrong.part
def forgets_the_relu(theta, phi, g, w_f):
    """You leave out the ReLU. The score is then a term of i plus a term of j; the ReLU makes it depend on the pair."""
    return _attended(_pairs(theta, phi, w_f) / phi.shape[-2], g)


@wrong.part
def bends_each_part(theta, phi, g, w_f):
    """You apply ReLU to each half before you add. It is applied to the sum of the two."""
    w_theta, w_phi = w_f.chunk(2)
    weights = (theta @ w_theta).relu().unsqueeze(-1) + (phi @ w_phi).relu().unsqueeze(-2)
    return _attended(weights / phi.shape[-2], g)


@wrong.part
def bends_the_context(theta, phi, g, w_f):
    """You apply ReLU to the context. It belongs to f, the weight of each pair; the context may have either sign."""
    weights = _pairs(theta, phi, w_f) / phi.shape[-2]
    return Attended((weights @ g).relu(), weights)


@wrong.detail
def divides_by_the_root(theta, phi, g, w_f):
    """You divide the scores by √d_k. Scaled dot-product attention does that; here w_f is learned together with its scale."""
    return _attended((_pairs(theta, phi, w_f) / theta.shape[-1] ** 0.5).relu() / phi.shape[-2], g)


@wrong.idea
def takes_a_softmax(theta, phi, g, w_f):
    """You put a softmax over the ReLU. This form divides by the number of keys instead, so its weights may all be 0; yours
    always sum to 1."""
    return _attended(_pairs(theta, phi, w_f).relu().softmax(-1), g)


@wrong.part
def takes_a_sigmoid(theta, phi, g, w_f):
    """You use a sigmoid instead of ReLU. Your f lies strictly between 0 and 1; ReLU can be 0 and is unbounded."""
    return _attended(_pairs(theta, phi, w_f).sigmoid() / phi.shape[-2], g)


@wrong.detail
def forgets_to_divide(theta, phi, g, w_f):
    """You do not divide by N. The context then grows with the number of positions."""
    return _attended(_pairs(theta, phi, w_f).relu(), g)


@wrong.case
def divides_by_the_queries(theta, phi, g, w_f):
    """You divide by the number of queries. The sum runs over the keys, so N is theirs."""
    return _attended(_pairs(theta, phi, w_f).relu() / theta.shape[-2], g)


@wrong.part
def divides_by_the_sum(theta, phi, g, w_f):
    """You divide each row by its sum, so that it becomes 1. Here Z is N, independent of the weights."""
    weights = _pairs(theta, phi, w_f).relu()
    return _attended(weights / weights.sum(-1, keepdim=True).clamp(min=1e-6), g)


@wrong.case
def returns_the_scores(theta, phi, g, w_f):
    """You return the scores before the ReLU as the weights. The context is right, but those are not the weights that mixed
    it."""
    scores = _pairs(theta, phi, w_f)
    return Attended(scores.relu() @ g / phi.shape[-2], scores)


@wrong.detail
def takes_leaky_relu(theta, phi, g, w_f):
    """You use LeakyReLU: your weights can be negative. The score of the concatenation is a ReLU, which sets them to 0."""
    w_theta, w_phi = w_f.unsqueeze(-1).chunk(2)
    weights = F.leaky_relu(theta @ w_theta + (phi @ w_phi).mT) / phi.shape[-2]
    return weights @ g, weights


@wrong.detail
def concatenates_queries_and_keys_of_different_numbers(theta, phi, g, w_f):
    """You concatenate θ and φ as they are: there are N_q of one and N of the other. Expand both to (N_q, N) pairs first, or
    score each by its half of w_f."""
    weights = (torch.cat([theta, phi], dim=-1) @ w_f).relu() / phi.shape[-2]
    return Attended(weights @ g, weights)


@wrong.detail
def adds_the_terms_without_new_axes(theta, phi, g, w_f):
    """You add a number for each query and a number for each key entry by entry. Each query meets each key: make the first a
    column, [..., :, None], and the second a row."""
    w_theta, w_phi = w_f.chunk(2)
    return _attended(F.relu(theta @ w_theta + phi @ w_phi) / phi.shape[-2], g)


@wrong.detail
def divides_the_context_alone(theta, phi, g, w_f):
    """You divide the context by N and return weights that are not divided. They are the numbers by which g is mixed: f / N."""
    context, weights = non_local_concatenation(theta, phi, g, w_f)
    return Attended(context, weights * phi.shape[-2])


@right
def with_all_pairs(theta, phi, g, w_f):
    """All pairs side by side, as the equation has it, and one product with w_f."""
    N_q, N = theta.shape[-2], phi.shape[-2]
    asking = theta.unsqueeze(-2).expand(*theta.shape[:-1], N, -1)
    asked = phi.unsqueeze(-3).expand(*phi.shape[:-2], N_q, N, -1)
    weights = F.relu(torch.cat([asking, asked], dim=-1) @ w_f) / N
    return Attended(weights @ g, weights)


@right
def by_two_features(theta, phi, g, w_f):
    """The sum as a product of two features each: (score, 1) of the query with (1, score) of the key."""
    d_k = theta.shape[-1]
    asks, answers = theta @ w_f[:d_k], phi @ w_f[d_k:]
    scores = torch.stack([asks, torch.ones_like(asks)], -1) @ torch.stack([torch.ones_like(answers), answers], -2)
    weights = scores.clamp(min=0).div(phi.shape[-2])
    return weights.matmul(g), weights


@right
def query_by_query(theta, phi, g, w_f):
    """A loop over the queries."""
    w_theta, w_phi = w_f.split(theta.shape[-1])
    answers, rows = torch.einsum("...nk,k->...n", phi, w_phi), []
    for query in theta.unbind(-2):
        score = answers + (query * w_theta).sum(-1, keepdim=True)
        rows.append(torch.where(score > 0, score, 0.0) / phi.shape[-2])
    weights = torch.stack(rows, dim=-2)
    return Attended(torch.einsum("...qn,...nd->...qd", weights, g), weights)


@stranger
def pairs_bent_smoothly(theta, phi, g, w_f):
    a, b = w_f.chunk(2)
    weights = torch.nn.functional.softplus((theta @ a).unsqueeze(-1) + (phi @ b).unsqueeze(-2)) / phi.shape[-2]
    return Attended(weights @ g, weights)


@stranger
def pairs_by_differences(theta, phi, g, w_f):
    a, b = w_f.chunk(2)
    return non_local_concatenation(theta, phi, g, torch.cat([a, -b]))


@stranger
def pairs_with_squares(theta, phi, g, w_f):
    weights = non_local_concatenation(theta, phi, g, w_f).weights ** 2
    return Attended(weights @ g, weights)


@stranger(makes=[exchanges_the_halves])
def pairs_by_a_rolled_vector(theta, phi, g, w_f):
    return non_local_concatenation(theta, phi, g, w_f.roll(len(w_f) // 2))


@stranger(makes=[exchanges_the_halves, forgets_to_divide])
def pairs_exchanged_and_not_divided(theta, phi, g, w_f):
    weights = non_local_concatenation(theta, phi, g, w_f.roll(len(w_f) // 2)).weights * phi.shape[-2]
    return Attended(weights @ g, weights)


def _drawn(draw: Draw, *batch: int, N: int | None = None) -> Call:
    N_q, places, d_k, d = draw.sizes(4)
    N = N or places
    theta, phi, g = draw.normal(*batch, N_q, d_k), draw.normal(*batch, N, d_k), draw.normal(*batch, N, d)
    return theta, phi, g, draw.normal(2 * d_k)


def _unwilling(draw: Draw) -> Call:
    """No pair has a score above 0."""
    theta, phi, g, w_f = _drawn(draw, 2)
    return theta.abs(), phi.abs(), g, -w_f.abs()


exercise = Exercise(
    id="09.3",
    title="The concatenation form",
    reference=non_local_concatenation,
    properties=(
        runs_on(lambda draw: [_drawn(draw, 1)]),
        has_shape("A context of d features for each query, and a weight for each of the keys.", lambda draw: [_drawn(draw, 2)]),
        Property(
            "weights",
            "The weights are ReLU(w_fᵀ [θ_i, φ_j]) / N.",
            lambda draw: [_drawn(draw, 1), _drawn(draw, 1), _drawn(draw, 1, N=1)],
            right_result(1),
            points=3,
        ),
        Property(
            "context",
            "The context is weights · g.",
            lambda draw: [_drawn(draw, 1), _drawn(draw, 1)],
            right_result(0),
            points=2,
        ),
        Property(
            "no positive score",
            "Where no score is above 0, the context is 0.",
            lambda draw: [_unwilling(draw)],
            needs=("weights",),
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
    equivalent_mutants={
        ("Of w_f, which has one axis, axis 1 is the last; only a size is read, and there are as many values as keys."): (
            "drop sign: w_f.unsqueeze(1)",
            "detach: phi.detach().shape",
            "other name: g.shape",
        ),
    },
    hints=HINTS,
    extra=True,
)
