"""Exercise 14.1, elu_feature_map: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.primitives import elu_feature_map
from course_tools.checks.comparisons import Failure, same_shapes
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
from course_tools.checks.outcome import Outcome, is_close

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Draw elu by hand, to the left and to the right of 0. Where is its curve after adding 1, and what becomes of e^x "
        "- 1? A sum of products of such features is a denominator: which sign must it have?"
    ),
    (
        "There are two branches: x + 1 where x is positive, e^x elsewhere. A choice between the two still computes both for "
        "every entry. What is e^x at x = 1000, and what happens to a gradient that is 0 times that?"
    ),
    (
        "Keep the exponential from ever seeing a positive number: clamp x at 0 from above first. Then e to that power "
        "is e^x to the left of 0, and 1 to the right. What must be added to the right of 0, and is 0 to the left? "
        "That, too, is a function you know."
    ),
)


@wrong.part
def forgets_the_one(x):
    """You return elu(x) alone, e^x - 1 for negative entries. Products of your features can then be negative, and the
    normaliser may be 0 or less; adding 1 makes all features positive."""
    return F.elu(x)


@wrong.detail
def takes_relu_for_elu(x):
    """You return relu(x) + 1. All negative entries then get the same feature, 1, and no gradient; the feature map is e^x
    there."""
    return F.relu(x) + 1


@wrong.idea
def turns_the_sign(x):
    """You map -x: your features decrease where x increases. The map must be increasing."""
    return F.elu(-x) + 1


@wrong.detail
def takes_the_exponential_everywhere(x):
    """You take e^x for positive entries as well, where the map is the line x + 1. Your features overflow for large entries,
    above 88 in float32."""
    return x.exp()


@wrong.detail
def takes_softplus(x):
    """You use softplus, log(1 + e^x), another positive function. It is log 2 at 0 where this map is 1."""
    return F.softplus(x)


@wrong.detail
def takes_selu(x):
    """You use selu, which stretches elu by a factor of 1.05 and its negative side by 1.67 more. With the 1 added, that is
    negative for very negative entries; elu has neither of these factors."""
    return F.selu(x) + 1


@wrong.part
def lifts_the_input(x):
    """You add the 1 to x before elu, not to its result. The curve is shifted to the left and not up: very negative entries
    get negative features, near -1."""
    return F.elu(x + 1)


@wrong.part
def lifts_only_the_positive_side(x):
    """You add the 1 only where x is positive and leave e^x - 1 elsewhere. The map is then discontinuous at 0, and negative
    for negative entries."""
    return torch.where(x > 0, x + 1, torch.expm1(x.clamp(max=0)))


@wrong.idea
def swaps_the_branches(x):
    """You exchange the branches: the exponential for positive entries and the line for negative ones. Below -1 your
    features are negative."""
    return torch.where(x > 0, x.exp(), x + 1)


@wrong.part
def normalises_the_features(x):
    """You divide the features by their sum, so that those of each vector add up to 1. The map acts on each entry
    independently; the division comes later in the attention, and over the keys."""
    features = F.elu(x) + 1
    return features / features.sum(-1, keepdim=True)


@wrong.case
def loses_small_features(x):
    """Your formula is right, but far left of 0 your features are not e^x any more. e^x - 1 + 1 is 0 there in any precision, in
    float32 from about -17 on, since 1 has no room for so small a rest; and a bound on x or on the features makes many of them
    equal. Write e^x itself for negative entries."""
    return F.elu(x) + 1


@wrong.case
def lets_the_unused_branch_overflow(x):
    """Your values are right, but you take the exponential of every entry and choose afterwards. Where x is large the
    unchosen branch is infinite, and in the backward pass 0 times infinity becomes NaN."""
    return torch.where(x > 0, x + 1, x.exp())


@wrong.case
def works_on_the_input_itself(x):
    """You apply elu in place: the values you return are right, but the x of the caller is changed. It may still be needed,
    for the residual connection or for the backward pass."""
    return F.elu(x, inplace=True) + 1


@wrong.part
def takes_relu_alone(x):
    """You take relu(x): every negative entry becomes 0. The feature map is elu(x) + 1, which is x + 1 or e^x, and positive
    everywhere."""
    return x.relu()


@wrong.idea
def takes_the_absolute_value(x):
    """You take |x|, which is 0 at 0 and grows again for negative entries. elu(x) + 1 increases everywhere, and is e^x below
    0."""
    return x.abs()


@wrong.part
def takes_leaky_relu(x):
    """You take a leaky ReLU, which is negative below 0. Features must be positive: elu(x) + 1 is e^x there."""
    return F.leaky_relu(x)


@wrong.idea
def returns_the_input(x):
    """You return x as it is: negative entries stay negative, and a sum of such products can be 0. The feature map is
    elu(x) + 1, positive everywhere."""
    return x.clone()


@wrong.idea
def squares_the_input(x):
    """You square the entries: x and -x get the same feature. elu(x) + 1 is x + 1 for positive and e^x for other entries."""
    return x.square()


@wrong.detail
def lifts_the_exponential_too(x):
    """You add 1 to e^x as well. elu is e^x - 1 left of 0, and the 1 only makes e^x of it; with yours the map jumps at 0."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp() + 1)


@wrong.detail
def forgets_the_one_on_the_right(x):
    """You take x itself on the right of 0. The map is elu(x) + 1, so that x + 1 meets exp(x) at 0."""
    return torch.where(x > 0, x, x.clamp(max=0).exp())


@right
def chooses_between_safe_branches(x):
    """A choice between two branches, of which the exponential never sees a positive entry."""
    return torch.where(x > 0, x + 1, torch.exp(torch.where(x > 0, 0.0, x)))


@right
def as_a_product(x):
    """Two factors instead of two terms, each 1 on the side of the other: (1 + relu(x)) · exp(min(x, 0))."""
    return (1 + F.relu(x)) * x.clamp(max=0).exp()


@right
def by_elu_where_nothing_is_rounded_away(x):
    """torch's elu and its 1 where the sum is accurate, the bare exponential below -1, in float64 and cast back."""
    wide = x.double()
    return torch.where(wide > -1, F.elu(wide) + 1, wide.clamp(max=0).exp()).to(x.dtype)


@right
def fills_in_each_side(x):
    """Both sides gathered by a mask and written into a new tensor one after the other."""
    features, positive = torch.zeros_like(x), x > 0
    features[positive] = x[positive] + 1
    features[~positive] = x[~positive].exp()
    return features


@stranger
def map_with_another_alpha(x):
    return F.elu(x, alpha=0.5) + 1


@stranger
def map_squared(x):
    return elu_feature_map(x).square()


@stranger
def map_of_the_absolute_value(x):
    return elu_feature_map(x.abs())


@stranger
def map_cut_off_above(x):
    return elu_feature_map(x.clamp(max=20.0))


@stranger(makes=[forgets_the_one])
def elu_by_hand_without_the_one(x):
    return torch.where(x > 0, x, torch.expm1(x.clamp(max=0.0)))


@stranger(makes=[forgets_the_one, turns_the_sign])
def feature_map(x):
    return F.elu(-x)


def _inputs(draw: Draw, *batch: int, scale: float = 1.0) -> Call:
    T, d = draw.sizes(2)
    return (draw.normal(*batch, T, d, scale=scale),)


def _on_one_side(draw: Draw, sign: float) -> Call:
    (x,) = _inputs(draw, 2)
    return (sign * (x.abs() + 0.05),)


def _same_logarithms(expected: Outcome, got: Outcome) -> Failure | None:
    """Compare features by their logarithms: those of -1 and of -80 count alike."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    (want,), (have,) = expected.results, got.results
    if (have <= 0).any():
        return Failure("A feature is 0 or less.")
    return None if is_close(want.log(), have.log()) else Failure("A feature is not e^x: its logarithm is not x.")


exercise = Exercise(
    id="14.1",
    title="The feature map elu + 1",
    reference=elu_feature_map,
    properties=(
        runs_on(lambda draw: [_inputs(draw)]),
        has_shape("A feature for each entry.", lambda draw: [_inputs(draw, 2), (draw.normal(3),), _inputs(draw, 2, 3)]),
        Property("right of 0", "A positive entry x gets x + 1.", lambda draw: [_on_one_side(draw, 1.0)], points=2),
        Property("left of 0", "A negative entry x gets e^x.", lambda draw: [_on_one_side(draw, -1.0)], points=2),
        Property("at 0", "The two branches meet at 0, in 1.", lambda draw: [(0.0 * draw.normal(3, 5),)]),
        Property(
            "elementwise",
            "The feature of an entry depends on no other entry.",
            lambda draw: [_inputs(draw, 2), _inputs(draw, 2, 3)],
            needs=("right of 0", "left of 0"),
        ),
        Property(
            "large entries",
            "Entries far from 0 have the right feature too.",
            lambda draw: [_inputs(draw, scale=10.0), _inputs(draw, scale=300.0)],
            needs=("elementwise",),
        ),
        Property(
            "far left",
            "Features stay positive far left of 0: e^x, to its leading digits.",
            lambda draw: [(torch.full((1,), -87.0),), (-87.0 * draw.uniform(3, 5),)],
            _same_logarithms,
            needs=("left of 0",),
        ),
        has_gradient(lambda draw: [_inputs(draw, 2), _inputs(draw, scale=300.0)], needs=("large entries",)),
        leaves_inputs(lambda draw: [_inputs(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Where x is positive, e^(x - relu(x)) = 1 hands on the gradient that relu(x) does not.": ("detach: x.detach().relu",),
    },
    hints=HINTS,
)
