"""Exercise 05.2, layer_norm: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.primitives import layer_norm
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
        "Take two vectors of three features and normalise them by hand. How many means do you compute, and does the second "
        "vector enter into that of the first?"
    ),
    (
        "Every vector along the last axis has its own mean and variance. Keep the reduced axis, so that they broadcast "
        "back, and check which variance it is: the mean of the squared deviations, over d and not d - 1."
    ),
    (
        "Subtract the mean over the last axis (with `keepdim=True`), divide by the square root of the mean square of what is "
        "left plus ε, and only then multiply by the gain and add the bias."
    ),
)


@wrong.detail
def estimates_the_variance_of_a_sample(x, gain, bias, epsilon=1e-5):
    """You divide the squared deviations by d - 1, as `torch.var` does unless told otherwise. The d features are not a sample
    of anything: the variance here is over d, and yours is 0 / 0 for a single feature."""
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + epsilon).sqrt() * gain + bias


@wrong.idea
def normalises_each_feature_over_the_batch(x, gain, bias, epsilon=1e-5):
    """You average each feature over all the vectors: that is batch normalisation. A vector's result then depends on the
    others of the batch; layer normalisation uses one vector alone."""
    rows = x.reshape(-1, x.shape[-1])
    return (x - rows.mean(0)) / (rows.var(0, correction=0) + epsilon).sqrt() * gain + bias


@wrong.idea
def normalises_over_the_first_axis(x, gain, bias, epsilon=1e-5):
    """You take mean and variance over axis 0, the batch: that is batch normalisation, and a batch of one has no variance to
    divide by. Each vector is normalised by its own features, over the last axis."""
    return (x - x.mean(0)) / (x.var(0) + epsilon).sqrt() * gain + bias


@wrong.idea
def averages_over_everything(x, gain, bias, epsilon=1e-5):
    """You take one mean and one variance of the whole tensor. Each vector needs its own, or it depends on the rest of the
    batch."""
    return (x - x.mean()) / (x.var(correction=0) + epsilon).sqrt() * gain + bias


@wrong.part
def averages_over_the_positions_too(x, gain, bias, epsilon=1e-5):
    """You average over the last two axes together, so that all positions of a sentence share one mean and one variance.
    Each position is normalised by itself, over its own features only."""
    mean = x.mean((-2, -1), keepdim=True)
    variance = x.var((-2, -1), correction=0, keepdim=True)
    return (x - mean) / (variance + epsilon).sqrt() * gain + bias


@wrong.case
def adds_epsilon_to_the_deviation(x, gain, bias, epsilon=1e-5):
    """You add ε after the root, to the standard deviation. It belongs to the variance, inside the root: the two differ for
    vectors of small variance."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (x.std(-1, correction=0, keepdim=True) + epsilon) * gain + bias


@wrong.part
def divides_by_the_variance(x, gain, bias, epsilon=1e-5):
    """You divide by the variance and leave out its root. The result then still depends on the scale of the input: a vector
    twice as long comes out half as long instead of the same."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + epsilon) * gain + bias


@wrong.part
def does_not_centre(x, gain, bias, epsilon=1e-5):
    """You divide by the root of the mean square and never subtract the mean. That is RMS normalisation: your result does
    not have mean 0."""
    return x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * gain + bias


@wrong.part
def divides_by_the_mean_square_of_the_input(x, gain, bias, epsilon=1e-5):
    """You subtract the mean, but divide by the root of the mean square of x itself, mean included. The variance is the mean
    square of what is left after the mean is subtracted."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * gain + bias


@wrong.part
def scales_before_normalising(x, gain, bias, epsilon=1e-5):
    """You multiply by the gain first and normalise then. The normalisation then cancels most of the gain: doubling all
    gains has almost no effect."""
    x = x * gain
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + epsilon).sqrt() + bias


@wrong.detail
def exchanges_gain_and_bias(x, gain, bias, epsilon=1e-5):
    """You multiply by the bias and add the gain. With the initial values, a bias of 0 and a gain of 1, your result is a
    vector of ones for every input."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + epsilon).sqrt() * bias + gain


@wrong.case
def centres_the_input_in_place(x, gain, bias, epsilon=1e-5):
    """You subtract the mean from the input itself. The caller's x is changed too, and the residual connection around the
    layer then adds the wrong tensor; for a leaf tensor with requires_grad autograd raises an error."""
    x -= x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * gain + bias


@wrong.case
def uses_an_epsilon_of_its_own(x, gain, bias, epsilon=1e-5):
    """You leave ε at its usual value and ignore the one that was passed. The mistake has no effect until another one is
    passed in."""
    return F.layer_norm(x, x.shape[-1:], gain, bias)


@wrong.case
def forgets_epsilon(x, gain, bias, epsilon=1e-5):
    """You never use ε. A vector whose features are all equal has variance 0, and yours comes out as 0 / 0, which is NaN,
    and so is everything computed from it."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / centred.square().mean(-1, keepdim=True).sqrt() * gain + bias


@wrong.part
def forgets_the_bias(x, gain, bias, epsilon=1e-5):
    """You never add the bias: after the gain, each feature is shifted by its own b."""
    return layer_norm(x, gain, torch.zeros_like(bias), epsilon)


@wrong.part
def forgets_the_gain(x, gain, bias, epsilon=1e-5):
    """You never multiply by the gain: each normalised feature is scaled by its own g."""
    return layer_norm(x, torch.ones_like(gain), bias, epsilon)


@wrong.detail
def loses_the_axis_of_the_mean(x, gain, bias, epsilon=1e-5):
    """Your means have lost the axis that they were taken over, so that they cannot be subtracted from the features:
    keepdim=True keeps it, with size 1."""
    return gain * (x - x.mean(-1)) / (x.var(-1, correction=0) + epsilon).sqrt() + bias


@wrong.idea
def averages_over_the_axis_before_the_last(x, gain, bias, epsilon=1e-5):
    """You average over the axis before the last, the positions. Each feature of a sentence is then normalised over its
    tokens, and a token depends on those that follow it; the axis to average over is the last."""
    mean, variance = x.mean(-2, keepdim=True), x.var(-2, correction=0, keepdim=True)
    return (x - mean) / (variance + epsilon).sqrt() * gain + bias


@wrong.idea
def averages_over_the_first_axis(x, gain, bias, epsilon=1e-5):
    """You average over axis 0, the batch: a position is compared with the same position of other sentences. Each vector has
    a mean and a variance of its own, over the last axis."""
    return (x - x.mean(0, keepdim=True)) / (x.var(0, correction=0, keepdim=True) + epsilon).sqrt() * gain + bias


@wrong.detail
def adds_the_bias_before_the_gain(x, gain, bias, epsilon=1e-5):
    """You add the bias first and multiply by the gain then, so the bias is multiplied too. The gain comes first."""
    centred = x - x.mean(-1, keepdim=True)
    return (centred / (centred.square().mean(-1, keepdim=True) + epsilon).sqrt() + bias) * gain


@wrong.detail
def adds_one_to_the_gain(x, gain, bias, epsilon=1e-5):
    """You multiply by 1 + gain. The gain itself is the factor; it begins at 1, and yours would begin at 2."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + epsilon).sqrt() * (1 + gain) + bias


@wrong.case
def takes_epsilon_for_the_least_variance(x, gain, bias, epsilon=1e-5):
    """You give the variance at least the value ε. It is *added* to the variance, whatever its size."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / centred.square().mean(-1, keepdim=True).clamp(min=epsilon).sqrt() * gain + bias


@wrong.case
def subtracts_the_squared_mean(x, gain, bias, epsilon=1e-5):
    """You take the mean of the squares less the square of the mean. Where the features are far from 0, both are large and
    nearly equal, and rounding hides the variance between them: subtract the mean first, then square."""
    mean = x.mean(-1, keepdim=True)
    variance = (x.square().mean(-1, keepdim=True) - mean.square()).clamp(min=0.0)
    return (x - mean) / (variance + epsilon).sqrt() * gain + bias


@right
def with_torchs_own(x, gain, bias, epsilon=1e-5):
    """torch's function, told that only the last axis is normalised."""
    return F.layer_norm(x, (x.size(-1),), weight=gain, bias=bias, eps=epsilon)


@right
def by_mean_and_variance_together(x, gain, bias, epsilon=1e-5):
    """Variance and mean from one call, a reciprocal root, and gain and bias in one operation."""
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(bias, (x - mean) * torch.rsqrt(variance + epsilon), gain)


@right
def vector_by_vector(x, gain, bias, epsilon=1e-5):
    """A loop over all vectors, each normalised by sums over its own features."""
    rows = x.reshape(-1, x.shape[-1])
    normalised = torch.empty_like(rows)
    for i, row in enumerate(rows):
        deviation = row - row.sum() / len(row)
        scale = (torch.dot(deviation, deviation) / len(row) + epsilon) ** -0.5
        normalised[i] = gain * (deviation * scale) + bias
    return normalised.reshape(x.shape)


@right
def by_a_projection(x, gain, bias, epsilon=1e-5):
    """In float64: projected onto the vectors of mean 0, then divided by a length instead of a deviation."""
    d = x.shape[-1]
    onto = torch.eye(d, dtype=torch.float64, device=x.device) - 1 / d
    centred = torch.einsum("...i,ij->...j", x.double(), onto)
    squared_length = torch.einsum("...i,...i->...", centred, centred)[..., None]
    return (d**0.5 * centred / torch.sqrt(squared_length + d * epsilon) * gain + bias).to(x.dtype)


@stranger
def norm_by_the_largest(x, gain, bias, epsilon=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.abs().amax(-1, keepdim=True) + epsilon) * gain + bias


@stranger
def norm_by_the_median(x, gain, bias, epsilon=1e-5):
    return layer_norm(x, gain, bias, epsilon) + (x.mean(-1, keepdim=True) - x.median(-1, keepdim=True).values) * gain


@stranger
def norm_without_gradient(x, gain, bias, epsilon=1e-5):
    return layer_norm(x.detach(), gain, bias, epsilon)


@stranger(makes=[estimates_the_variance_of_a_sample, does_not_centre])
def norm_of_a_sample_without_centring(x, gain, bias, epsilon=1e-5):
    return x / (x.var(-1, keepdim=True) + epsilon).sqrt() * gain + bias


def _vectors(draw: Draw, *batch: int, offset: float = 3.0, scale: float = 2.0) -> Call:
    d = draw.sizes(1)[0] + 3
    return offset + draw.normal(*batch, d, scale=scale), draw.normal(d), draw.normal(d)


def _plain(draw: Draw, *batch: int) -> Call:
    """Gain 1 and bias 0: nothing but the normalisation."""
    x, gain, bias = _vectors(draw, *batch)
    return x, torch.ones_like(gain), torch.zeros_like(bias)


def _batches(draw: Draw) -> list[Call]:
    return [_vectors(draw, 2, 3), _vectors(draw, 5)]


def _tiny(draw: Draw) -> list[Call]:
    """Variance as small as ε, and another ε."""
    return [_vectors(draw, 2, scale=3e-3), (*_vectors(draw, 2), 0.7)]


exercise = Exercise(
    id="05.2",
    title="Layer normalisation",
    reference=layer_norm,
    properties=(
        runs_on(_batches),
        has_shape("A vector for each vector.", _batches),
        Property("one vector", "A single vector: mean 0, variance 1.", lambda draw: [_plain(draw), _plain(draw, 1)]),
        Property(
            "each alone",
            "Each vector has its own mean and variance, independent of the others.",
            lambda draw: [_plain(draw, 3), _plain(draw, 2, 3), _plain(draw, 2, 1, 3)],
            points=2,
            needs=("one vector",),
        ),
        Property("gain and bias", "Then the gain multiplies and the bias is added.", _batches, needs=("one vector",)),
        Property(
            "far from 0",
            "Features far from 0 are centred before they are squared.",
            lambda draw: [_vectors(draw, 3, offset=300.0, scale=1.0)],
            needs=("gain and bias",),
        ),
        Property("epsilon", "ε is added to the variance, under the root.", _tiny, needs=("gain and bias",)),
        Property(
            "constant",
            "A vector of equal numbers becomes the bias.",
            lambda draw: [(torch.full((2, 5), 4.0), draw.normal(5), draw.normal(5))],
            needs=("gain and bias",),
        ),
        has_gradient(lambda draw: [_vectors(draw, 2, 3, offset=0.5, scale=1.0)], needs=("gain and bias",)),
        leaves_inputs(_batches),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "The variance is a tensor of its own: adding in place changes nothing that anybody sees.": (
            "in place: variance.add_(epsilon).sqrt",
        ),
    },
    hints=HINTS,
)
