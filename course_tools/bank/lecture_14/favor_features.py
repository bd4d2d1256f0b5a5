"""Exercise 14.5, favor_features: what students answer, wrong and right."""

import math

import torch
import torch.nn.functional as F

from course_lib.primitives import favor_features
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
        "Multiply φ(q) by φ(k) for a single ω: what is the exponent? For ω ~ N(0, I) the mean of exp(ωᵀu) is exp(‖u‖²/2). "
        "With u = q + k, what is too much, and what must be subtracted from each side so that qᵀk is left?"
    ),
    (
        "Every direction gives one feature, the exponential of its dot product with x less half of the squared length of x. "
        "That length is one number for each vector. The dot product φ(q)ᵀφ(k) is to be a *mean* of m terms: what does each of "
        "the two sides contribute to the 1/m?"
    ),
    (
        "`x` times the transposed `omega` is (…, m). Subtract the sum of the squares of x over the last axis, halved and with "
        "that axis kept, take the exponential, and divide by the square root of the number of rows of `omega`."
    ),
)


@wrong.part
def forgets_the_norm(x, omega):
    """You leave out ‖x‖²/2. The mean of exp(ωᵀq) · exp(ωᵀk) is exp(‖q + k‖²/2): your products are too large by
    exp(‖q‖²/2 + ‖k‖²/2), more for long vectors than for short ones."""
    return (x @ omega.mT).exp() / math.sqrt(omega.shape[0])


@wrong.detail
def does_not_square_the_norm(x, omega):
    """You subtract half of the length of x instead of half of its square. The two agree only at length 1; elsewhere the mean
    of φ(q)ᵀφ(k) is no longer exp(qᵀk)."""
    return (x @ omega.mT - x.norm(dim=-1, keepdim=True) / 2).exp() / math.sqrt(omega.shape[0])


@wrong.part
def adds_the_norm(x, omega):
    """You add ‖x‖²/2, the sign that it has in the trigonometric features. Here the mean of the exponentials is already
    too large by this factor, and you make it larger still."""
    return (x @ omega.mT + x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(omega.shape[0])


@wrong.detail
def forgets_the_half(x, omega):
    """You subtract all of ‖x‖² and not half of it. The mean of exp(ωᵀx) is exp(‖x‖²/2), so half is what there is to
    take away; your features are too small for long vectors."""
    return (x @ omega.mT - x.square().sum(-1, keepdim=True)).exp() / math.sqrt(omega.shape[0])


@wrong.detail
def divides_by_m(x, omega):
    """You divide the features by m. The mean over the directions is that of the *product* of two features, so each side
    gives √m; with yours φ(q)ᵀφ(k) is too small by a factor of m."""
    return (x @ omega.mT - x.square().sum(-1, keepdim=True) / 2).exp() / omega.shape[0]


@wrong.idea
def subtracts_outside_the_exponential(x, omega):
    """You subtract ‖x‖²/2 after the exponential. In the exponent it is a positive factor; outside it makes features
    negative, and positive features are the point of this map."""
    return ((x @ omega.mT).exp() - x.square().sum(-1, keepdim=True) / 2) / math.sqrt(omega.shape[0])


@wrong.detail
def takes_the_mean_of_the_squares(x, omega):
    """You take the mean of the squared entries where the squared length is their sum. Your correction is too small by a
    factor of d, and the estimate too large."""
    return (x @ omega.mT - x.square().mean(-1, keepdim=True) / 2).exp() / math.sqrt(omega.shape[0])


@wrong.part
def takes_one_norm_for_all(x, omega):
    """You sum the squares over the whole tensor, so all vectors share one norm, and it grows with the batch. Each vector
    has its own norm; with a single vector the mistake has no effect."""
    return (x @ omega.mT - x.square().sum() / 2).exp() / math.sqrt(omega.shape[0])


@wrong.part
def takes_the_norm_of_the_projections(x, omega):
    """You subtract half of the squared length of Ωx instead of x. That is a random number which grows with m, while the
    correction must be the same for every draw of the directions."""
    projected = x @ omega.mT
    return (projected - projected.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(omega.shape[0])


@wrong.idea
def takes_sines_and_cosines(x, omega):
    """You compute the trigonometric features, 2m of them and of either sign. They estimate the same number, but their
    products can be negative, and a normaliser made of them may come near 0."""
    angle = x @ omega.mT
    size = (x.square().sum(-1, keepdim=True) / 2).exp()
    return torch.cat([angle.cos(), angle.sin()], dim=-1) * size / math.sqrt(omega.shape[0])


@wrong.detail
def scales_by_the_size_of_the_vectors(x, omega):
    """You divide x by d^¼ first, as for the softmax of qᵀk/√d. These features estimate exp(qᵀk) itself; the caller applies
    the scale before the map."""
    x = x / x.shape[-1] ** 0.25
    return (x @ omega.mT - x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(omega.shape[0])


@wrong.part
def subtracts_the_largest(x, omega):
    """You subtract the largest exponent of each vector, as a stable softmax does. Inside the map it does not cancel: each
    vector is scaled by its own factor, and φ(q)ᵀφ(k) is no longer exp(qᵀk) on average."""
    exponent = x @ omega.mT - x.square().sum(-1, keepdim=True) / 2
    return (exponent - exponent.amax(-1, keepdim=True)).exp() / math.sqrt(omega.shape[0])


@wrong.detail
def forgets_to_divide(x, omega):
    """You do not divide by √m: the product of two features then grows with the number m of random directions."""
    half_square = x.square().sum(-1, keepdim=True) / 2
    return (x @ omega.mT - half_square).exp()


@wrong.idea
def takes_relu_features(x, omega):
    """You take ReLU of the projections. Those are features of another kernel; the softmax kernel needs
    exp(Ω x - ‖x‖²/2) / √m."""
    return (x @ omega.mT).relu() / omega.shape[0] ** 0.5


@wrong.detail
def multiplies_by_the_stored_directions(x, omega):
    """You write x @ Ω. Ω has a direction in each row, (m, d), so x meets its columns: x @ omega.mT."""
    return torch.exp(x @ omega - x.square().sum(-1, keepdim=True) / 2) / math.sqrt(len(omega))


@wrong.detail
def loses_the_axis_of_the_norm(x, omega):
    """Your ‖x‖² has lost its axis, so that it cannot be subtracted from the m features of its vector: keepdim=True keeps it,
    with size 1."""
    return torch.exp(x @ omega.mT - x.square().sum(-1) / 2) / math.sqrt(len(omega))


@wrong.detail
def subtracts_the_largest_of_all(x, omega):
    """You subtract the largest exponent of all rows, as code does that divides by a sum of features later, where it cancels.
    Here it does not: the mean of φ(q)ᵀφ(k) is exp(qᵀk) only for the features as they are."""
    exponents = x @ omega.mT - x.square().sum(-1, keepdim=True) / 2
    return (exponents - exponents.amax()).exp() / math.sqrt(omega.shape[0])


@wrong.detail
def divides_by_the_root_of_d(x, omega):
    """You divide by √d, the size of the vectors. The mean is over the m directions, so each side gives √m."""
    return (x @ omega.mT - x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(omega.shape[1])


@right
def by_completing_the_square(x, omega):
    """ωᵀx - ‖x‖²/2 as (‖ω‖² - ‖x - ω‖²)/2, in float64 and cast back."""
    wide, directions = x.double(), omega.double()
    distance = (wide[..., None, :] - directions).square().sum(-1)
    return (((directions.square().sum(-1) - distance) / 2).exp() * directions.shape[0] ** -0.5).to(x.dtype)


@right
def with_the_root_in_the_exponent(x, omega):
    """Two einsum, and 1/√m taken into the exponential as half of a logarithm."""
    square = torch.einsum("...d,...d->...", x, x).unsqueeze(-1)
    return torch.exp(torch.einsum("...d,md->...m", x, omega) - 0.5 * (square + math.log(omega.shape[0])))


@right
def direction_by_direction(x, omega):
    """A loop over the rows of Ω, which makes the features one by one."""
    half_square = torch.linalg.vecdot(x, x) / 2
    features = [torch.exp((x * row).sum(-1) - half_square) / math.sqrt(len(omega)) for row in omega]
    return torch.stack(features, dim=-1)


@right
def as_one_linear_layer(x, omega):
    """x with its halved square as one entry more, through a linear layer whose last weight is -1."""
    longer = torch.cat([x, (x * x).sum(-1, keepdim=True) / 2], dim=-1)
    weight = F.pad(omega, (0, 1), value=-1.0)
    return F.linear(longer, weight).exp().div(math.sqrt(omega.size(0)))


@stranger
def favor_with_an_epsilon(x, omega):
    return favor_features(x, omega) + 1e-2


@stranger
def favor_over_the_root_of_d(x, omega):
    return favor_features(x, omega) * (omega.shape[0] / omega.shape[1]) ** 0.5


@stranger
def favor_with_a_frozen_norm(x, omega):
    return (x @ omega.mT - x.detach().square().sum(-1, keepdim=True) / 2).exp() / len(omega) ** 0.5


@stranger
def favor_of_unit_directions(x, omega):
    return favor_features(x, F.normalize(omega, dim=1) * omega.shape[1] ** 0.5)


@stranger(makes=[forgets_the_half])
def favor_in_a_loop_without_the_half(x, omega):
    return torch.stack([((x * w).sum(-1) - (x * x).sum(-1)).exp() for w in omega], dim=-1) * len(omega) ** -0.5


@stranger(makes=[forgets_the_norm, divides_by_m])
def favor(x, omega):
    return (x @ omega.mT).exp() / len(omega)


def _inputs(draw: Draw, *batch: int, m: int | None = None, scale: float = 1.0) -> Call:
    T, d, n = draw.sizes(3)
    return draw.normal(*batch, T, d, scale=scale / d**0.5), draw.normal(n if m is None else m, d)


exercise = Exercise(
    id="14.5",
    title="Positive random features",
    extra=True,
    reference=favor_features,
    properties=(
        runs_on(lambda draw: [_inputs(draw)]),
        has_shape("A feature for each direction.", lambda draw: [_inputs(draw, 2)]),
        Property(
            "zero",
            "A vector of zeros has m features of 1/√m: their products are to have the mean exp(0) = 1.",
            lambda draw: [_inputs(draw, scale=0.0), _inputs(draw, m=1, scale=0.0)],
        ),
        Property(
            "one feature",
            "With one direction, the feature is exp(ωᵀx - ‖x‖²/2).",
            lambda draw: [_inputs(draw, m=1), _inputs(draw, m=1, scale=2.0)],
            points=2,
        ),
        Property(
            "features",
            "Each direction makes one feature, over √m.",
            lambda draw: [_inputs(draw), _inputs(draw, scale=2.0)],
            points=2,
            needs=("zero", "one feature"),
        ),
        Property(
            "batch",
            "Each vector is mapped independently.",
            lambda draw: [_inputs(draw, 3), _inputs(draw, 2, 3), (draw.normal(3), draw.normal(5, 3))],
            needs=("features",),
        ),
        has_gradient(lambda draw: [_inputs(draw, 2)], needs=("features",)),
        leaves_inputs(lambda draw: [_inputs(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only the shape is read, and a detached tensor has the same.": ("detach: omega.detach().shape",),
    },
    hints=HINTS,
)
