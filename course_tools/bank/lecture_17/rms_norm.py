"""Exercise 17.2, rms_norm: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.primitives import rms_norm
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
        "Take the vector (3, 4). Square both features, take the mean of the squares and its root. By what do you divide, and "
        "what is the mean square of the result?"
    ),
    (
        "Every vector along the last axis has its own mean square. No mean of the features is subtracted. Keep the reduced "
        "axis, so that it broadcasts back, and add ε before you take the root."
    ),
    (
        "Square x, take the mean over the last axis with `keepdim=True`, add ε, take the root. Divide x by that, and "
        "multiply by the gain at the very end."
    ),
)


def _mean_square(x):
    return x.square().mean(-1, keepdim=True)


@wrong.part
def subtracts_the_mean(x, gain, epsilon=1e-6):
    """You subtract the mean first, as layer normalisation does. RMSNorm leaves it out: only the size of a vector is
    normalised."""
    return F.layer_norm(x, x.shape[-1:], gain, eps=epsilon)


@wrong.part
def divides_by_torchs_deviation(x, gain, epsilon=1e-6):
    """You divide by `std`, which is taken around the mean. RMSNorm divides by the root of the mean of the squares
    themselves."""
    return x / (x.std(-1, keepdim=True) + epsilon) * gain


@wrong.part
def squares_the_mean(x, gain, epsilon=1e-6):
    """You square the mean. It is the mean of the squares: square each feature, then average."""
    return x / (x.mean(-1, keepdim=True).square() + epsilon).sqrt() * gain


@wrong.idea
def averages_over_the_first_axis(x, gain, epsilon=1e-6):
    """You average over the first axis, which holds the sequences or the positions. Each vector is normalised by its own
    features: the last axis, -1."""
    return x / (x.square().mean(0, keepdim=True) + epsilon).sqrt() * gain


@wrong.part
def divides_by_the_deviation(x, gain, epsilon=1e-6):
    """You divide by the standard deviation, which is taken around the mean. RMSNorm divides by the root of the mean of the
    squares themselves."""
    return x / (x.var(-1, correction=0, keepdim=True) + epsilon).sqrt() * gain


@wrong.detail
def divides_by_the_length(x, gain, epsilon=1e-6):
    """You divide by the root of the *sum* of the squares, the length of the vector. With the mean your result would be √d times
    as large, and independent of the number of features."""
    return x / (x.square().sum(-1, keepdim=True) + epsilon).sqrt() * gain


@wrong.part
def forgets_the_root(x, gain, epsilon=1e-6):
    """You divide by the mean square and leave out its root. A vector twice as long comes out half as long; it should come out
    the same."""
    return x / (_mean_square(x) + epsilon) * gain


@wrong.part
def takes_the_root_of_each_feature(x, gain, epsilon=1e-6):
    """You take the mean of the absolute values. The root comes after the mean: square, average, and then take the root of
    the average."""
    return x / (x.abs().mean(-1, keepdim=True) + epsilon) * gain


@wrong.part
def multiplies_by_the_root(x, gain, epsilon=1e-6):
    """You multiply by the root of the mean square. It divides: large vectors become smaller, small ones larger."""
    return x * (_mean_square(x) + epsilon).sqrt() * gain


@wrong.idea
def normalises_each_feature_over_the_batch(x, gain, epsilon=1e-6):
    """You average each feature over all the vectors, as batch normalisation does. A vector's result then depends on the others
    of its batch; each vector is normalised by its own features alone."""
    rows = x.reshape(-1, x.shape[-1])
    return x / (rows.square().mean(0) + epsilon).sqrt() * gain


@wrong.idea
def averages_over_everything(x, gain, epsilon=1e-6):
    """You take one mean square of the whole tensor. Each vector needs its own, or it depends on the rest of the batch."""
    return x / (x.square().mean() + epsilon).sqrt() * gain


@wrong.part
def averages_over_the_positions_too(x, gain, epsilon=1e-6):
    """You average over the last two axes together, so that all positions of a text share one mean square. In a decoder a token
    would then depend on later ones; each position is normalised by itself."""
    axes = (-2, -1) if x.dim() > 1 else -1
    return x / (x.square().mean(axes, keepdim=True) + epsilon).sqrt() * gain


@wrong.part
def scales_before_normalising(x, gain, epsilon=1e-6):
    """You multiply by the gain first and normalise then. The normalisation cancels a part of the gain: doubling all gains has
    almost no effect."""
    x = x * gain
    return x / (_mean_square(x) + epsilon).sqrt()


@wrong.part
def forgets_the_gain(x, gain, epsilon=1e-6):
    """You never multiply by the gain: each normalised feature is scaled by its own g."""
    return x / (_mean_square(x) + epsilon).sqrt() + 0 * gain


@wrong.detail
def adds_the_gain(x, gain, epsilon=1e-6):
    """You add the gain, as layer normalisation adds its bias. RMSNorm has no bias, and the gain multiplies."""
    return x / (_mean_square(x) + epsilon).sqrt() + gain


@wrong.detail
def adds_one_to_the_gain(x, gain, epsilon=1e-6):
    """You multiply by 1 + g, as some models do whose gains start at 0. Here the gain itself multiplies."""
    return x / (_mean_square(x) + epsilon).sqrt() * (1 + gain)


@wrong.detail
def loses_the_axis_of_the_mean(x, gain, epsilon=1e-6):
    """Your mean squares have lost the axis that they were taken over, so that they do not fit to the features: keepdim=True
    keeps it, with size 1."""
    return x / (x.square().mean(-1) + epsilon).sqrt() * gain


@wrong.case
def adds_epsilon_to_the_root(x, gain, epsilon=1e-6):
    """You add ε after the root. It belongs to the mean square, inside the root: the two differ for small vectors."""
    return x / (_mean_square(x).sqrt() + epsilon) * gain


@wrong.case
def uses_an_epsilon_of_its_own(x, gain, epsilon=1e-6):
    """You leave ε at its usual value and ignore the one that was passed. Models differ in it: `rms_norm_eps` in their
    config.json."""
    return x / (_mean_square(x) + 1e-6).sqrt() * gain


@wrong.case
def forgets_epsilon(x, gain, epsilon=1e-6):
    """You never use ε. A vector of zeros becomes 0 / 0, which is NaN, and so does everything computed from it."""
    return x / _mean_square(x).sqrt() * gain


@wrong.case
def divides_in_place(x, gain, epsilon=1e-6):
    """You divide the input itself in place. The caller's x is changed too, and the residual connection around the layer then
    adds the wrong tensor."""
    x /= (_mean_square(x) + epsilon).sqrt()
    return x * gain


@wrong.case
def takes_epsilon_for_the_least_square(x, gain, epsilon=1e-6):
    """You give the mean square at least the value ε. It is *added* to the mean square, whatever its size."""
    return x * _mean_square(x).clamp(min=epsilon).rsqrt() * gain


@wrong.case
def leaves_epsilon_to_torch(x, gain, epsilon=1e-6):
    """You call `F.rms_norm` without its `eps`. It then takes one of its own, and the argument has no effect."""
    return F.rms_norm(x, gain.shape, gain)


@right
def with_torchs_own(x, gain, epsilon=1e-6):
    """torch's function, told that only the last axis is normalised."""
    return F.rms_norm(x, (x.size(-1),), weight=gain, eps=epsilon)


@right
def by_a_length(x, gain, epsilon=1e-6):
    """In float64, from the length of each vector and a reciprocal root."""
    wide = x.double()
    squares = torch.linalg.vector_norm(wide, dim=-1, keepdim=True) ** 2
    return (gain * wide * torch.rsqrt(squares / x.shape[-1] + epsilon)).to(x.dtype)


@right
def vector_by_vector(x, gain, epsilon=1e-6):
    """A loop over all vectors, each with a dot product of its own."""
    rows = [gain * row * (torch.dot(row, row) / len(row) + epsilon) ** -0.5 for row in x.reshape(-1, x.shape[-1])]
    return torch.stack(rows).reshape(x.shape)


@right
def by_a_matrix_of_gains(x, gain, epsilon=1e-6):
    """The mean square as an einsum, the gain as a diagonal matrix."""
    mean = torch.einsum("...i,...i->...", x, x).unsqueeze(-1) / x.shape[-1]
    return torch.div(x, (mean + epsilon).pow(0.5)) @ torch.diag(gain)


@stranger
def root_of_the_largest(x, gain, epsilon=1e-6):
    return x / (x.abs().amax(-1, keepdim=True) + epsilon) * gain


@stranger
def root_of_one_feature_fewer(x, gain, epsilon=1e-6):
    return x / (x.square().sum(-1, keepdim=True) / max(x.shape[-1] - 1, 1) + epsilon).sqrt() * gain


@stranger
def root_without_gradient(x, gain, epsilon=1e-6):
    return x / (_mean_square(x) + epsilon).sqrt().detach() * gain


@stranger(makes=[divides_by_the_length])
def root_as_a_direction(x, gain, epsilon=1e-6):
    return torch.einsum("...i,...->...i", x, ((x * x).sum(-1) + epsilon).rsqrt()).mul(gain)


@stranger(makes=[divides_by_the_length, adds_one_to_the_gain])
def root_of_the_sum_with_a_gain_of_one_more(x, gain, epsilon=1e-6):
    return x / (x.square().sum(-1, keepdim=True) + epsilon).sqrt() * (1 + gain)


def _vectors(draw: Draw, *batch: int, offset: float = 1.0, scale: float = 2.0) -> Call:
    d = draw.sizes(1)[0] + 3
    return offset + draw.normal(*batch, d, scale=scale), draw.normal(d)


def _plain(draw: Draw, *batch: int) -> Call:
    """A gain of 1: nothing but the normalisation."""
    x, gain = _vectors(draw, *batch)
    return x, torch.ones_like(gain)


def _batches(draw: Draw) -> list[Call]:
    return [_vectors(draw, 2, 3), _vectors(draw, 5)]


def _tiny(draw: Draw) -> list[Call]:
    """A mean square as small as ε, and another ε."""
    return [_vectors(draw, 2, offset=0.0, scale=1e-3), (*_vectors(draw, 2), 0.7)]


exercise = Exercise(
    id="17.2",
    title="RMSNorm",
    reference=rms_norm,
    properties=(
        runs_on(_batches),
        has_shape("A vector for each vector.", _batches),
        Property("one vector", "A single vector: mean square 1.", lambda draw: [_plain(draw), _plain(draw, 1)], points=3),
        Property(
            "each alone",
            "Each vector has its own mean square, independent of the others.",
            lambda draw: [_plain(draw, 3), _plain(draw, 2, 3), _plain(draw, 2, 1, 3)],
            points=2,
            needs=("one vector",),
        ),
        Property("gain", "Then the gain multiplies.", _batches, needs=("one vector",)),
        Property("epsilon", "ε is added to the mean square, under the root.", _tiny, needs=("gain",)),
        Property(
            "zeros", "A vector of zeros stays 0.", lambda draw: [(torch.zeros(2, 5), draw.normal(5))], needs=("one vector",)
        ),
        has_gradient(lambda draw: [_vectors(draw, 2, 3, scale=1.0)], needs=("gain",)),
        leaves_inputs(_batches),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
