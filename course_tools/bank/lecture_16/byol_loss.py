"""Exercise 16.4, byol_loss: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.losses import byol_loss
from course_lib.primitives import unit
from course_tools.checks.comparisons import same_gradients
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    ("Two vectors of length 1: what is their largest squared distance? And which of the two inputs may get a gradient?"),
    (
        "Normalise both inputs to length 1. The sum of their product over the features is the cosine of each row. Detach "
        "the target first."
    ),
    (
        "Write out the squared distance of two vectors of length 1: 1 plus 1 minus twice their product. The product "
        "is the cosine of the row; the loss is the mean over the batch."
    ),
)


@wrong.case
def lets_the_target_move(prediction, target):
    """You let the gradient flow into the target as well. The stop-gradient prevents the collapse to one vector for all
    images."""
    return (2 - 2 * (unit(prediction) * unit(target)).sum(-1)).mean()


@wrong.idea
def stops_the_prediction(prediction, target):
    """You detach the prediction instead of the target. The online network is trained by the gradient of the prediction."""
    return (2 - 2 * (unit(prediction.detach()) * unit(target)).sum(-1)).mean()


@wrong.idea
def compares_without_lengths(prediction, target):
    """You take the squared distance of the vectors as they are. Only directions count: divide both by their lengths first."""
    return (prediction - target.detach()).square().sum(-1).mean()


@wrong.part
def leaves_the_target_as_it_is(prediction, target):
    """You give the prediction length 1, but not the target. Your product is the cosine times the target's length."""
    return (2 - 2 * (unit(prediction) * target.detach()).sum(-1)).mean()


@wrong.detail
def counts_the_cosine_once(prediction, target):
    """You return 1 - cos. ‖u - v‖² = 2 - 2 cos: your loss is half as large as it should be."""
    return (1 - (unit(prediction) * unit(target.detach())).sum(-1)).mean()


@wrong.detail
def forgets_the_square(prediction, target):
    """You average the distance and not its square. The loss is the squared distance."""
    return (unit(prediction) - unit(target.detach())).norm(dim=-1).mean()


@wrong.detail
def averages_over_the_features(prediction, target):
    """You average over the features too, as `F.mse_loss` does. The squared distance is a sum over them, so your loss is d
    times too small and depends on the size of the embedding."""
    return (unit(prediction) - unit(target.detach())).square().mean()


@wrong.detail
def adds_up_the_batch(prediction, target):
    """You sum over the batch. The loss is the mean, so that it stays between 0 and 4 and a step does not grow with the
    number of images."""
    return (2 - 2 * (unit(prediction) * unit(target.detach())).sum(-1)).sum()


@wrong.part
def normalises_each_feature(prediction, target):
    """You divide each feature by its length over the batch. The rows must have length 1, one for each image; yours change
    with the other images of the batch."""
    cosine = (unit(prediction.mT).mT * unit(target.detach().mT).mT).sum(-1)
    return (2 - 2 * cosine).mean()


@wrong.idea
def compares_everyone_with_everyone(prediction, target):
    """You multiply each prediction with every target. Row i belongs to row i alone: this loss has no negatives."""
    return (2 - 2 * unit(prediction) @ unit(target.detach()).mT).mean()


@wrong.part
def adds_the_other_direction(prediction, target):
    """You add the same loss with the two roles exchanged. Exchanging the *views* is done by the caller, with another
    prediction and target."""
    one = 2 - 2 * (unit(prediction) * unit(target.detach())).sum(-1)
    other = 2 - 2 * (unit(target.detach()) * unit(prediction)).sum(-1)
    return (one + other).mean()


@wrong.case
def divides_by_the_bare_length(prediction, target):
    """You divide by the plain norm. It is 0 for a zero vector, and for very long or very short ones its squares overflow or
    vanish: the loss is then NaN or inf. `unit` has an answer to all three."""
    goal = target.detach()
    cosine = (prediction * goal).sum(-1) / (prediction.norm(dim=-1) * goal.norm(dim=-1))
    return (2 - 2 * cosine).mean()


@wrong.idea
def takes_the_raw_dot_product(prediction, target):
    """You take the dot product of the vectors as they are. Only directions count: divide both by their lengths first."""
    return (2 - 2 * (prediction * target.detach()).sum(-1)).mean()


@wrong.detail
def returns_the_negative_cosine(prediction, target):
    """You return the mean of -cos. ‖u - v‖² is 2 - 2 cos for vectors of length 1: yours has the same minimum, but half of the
    gradient, and lies between -1 and 1."""
    return -(unit(prediction) * unit(target.detach())).sum(-1).mean()


@wrong.part
def takes_the_root_of_the_squared_distance(prediction, target):
    """You return the root of the mean squared distance. The loss is the mean of the squared distances themselves."""
    return (2 - 2 * (unit(prediction) * unit(target.detach())).sum(-1)).mean().sqrt()


@wrong.case
def takes_the_distance_of_unit_vectors(prediction, target):
    """You take the squared distance of the unit vectors. It is 2 - 2 cos, except for a vector of zeros, whose unit vector is
    0: its cosine is 0, its distance 1 and not 2."""
    return (unit(prediction) - unit(target).detach()).square().sum(-1).mean()


@right
def as_a_batch_of_products(prediction, target):
    """Each row times its own column, B products of (1, d) and (d, 1); the target under `no_grad`."""
    with torch.no_grad():
        goal = unit(target)
    return 2 - 2 * torch.bmm(unit(prediction).unsqueeze(1), goal.unsqueeze(2)).mean()


@right
def as_one_long_vector(prediction, target):
    """Both sums at once, over the batch and the features: all rows after each other, and a single dot product."""
    total = torch.dot(unit(prediction).flatten(), unit(target).detach().flatten())
    return 2.0 - 2.0 * total / prediction.shape[0]


@right
def row_by_row(prediction, target):
    """A loop over the images in float64, with the lengths by hand."""
    if prediction.shape != target.shape:
        raise RuntimeError(f"{tuple(prediction.shape)} predictions for {tuple(target.shape)} targets.")
    losses = []
    for row, goal in zip(prediction.double(), target.detach().double(), strict=True):
        p, z = (v / length if (length := torch.linalg.vector_norm(v)) > 0 else v for v in (row, goal))
        losses.append(2 - 2 * torch.dot(p, z))
    return torch.stack(losses).mean().to(prediction.dtype)


@right
def by_the_sum_and_the_difference(prediction, target):
    """The law of the parallelogram: 4 cos is ‖p + z‖² - ‖p - z‖², which is right at zero vectors as well."""
    p, z = unit(prediction), unit(target.detach())
    return 2 - ((p + z).square().sum(1) - (p - z).square().sum(1)).mean() / 2


@stranger
def byol_takes_the_worst_row(prediction, target):
    return (2 - 2 * (unit(prediction) * unit(target.detach())).sum(-1)).amax()


@stranger
def byol_forgets_the_sign(prediction, target):
    return (2 + 2 * (unit(prediction) * unit(target.detach())).sum(-1)).mean()


@stranger
def byol_shifts_the_rows(prediction, target):
    return byol_loss(prediction, target.roll(1, 0))


@stranger
def byol_learns_nothing(prediction, target):
    return byol_loss(prediction.detach(), target)


@stranger(makes=[counts_the_cosine_once])
def byol_by_the_library_cosine(prediction, target):
    return (1 - F.cosine_similarity(prediction, target.detach())).mean()


@stranger(makes=[lets_the_target_move, compares_without_lengths])
def byol_twice_wrong(prediction, target):
    return (prediction - target).square().sum(-1).mean()


def _rows(draw: Draw, B: int, long: bool = False) -> Call:
    """Predictions and targets; of length 1, or of many lengths."""
    d = draw.sizes(1)[0]
    pair = unit(draw.normal(B, d)), unit(draw.normal(B, d))
    return tuple(x * (2 * draw.normal(B, 1)).exp() for x in pair) if long else pair


def _with_zeros(draw: Draw) -> list[Call]:
    prediction, target = _rows(draw, 5)
    prediction[1], target[3] = 0.0, 0.0
    return [(prediction, target)]


exercise = Exercise(
    id="16.4",
    title="The loss of BYOL",
    reference=byol_loss,
    properties=(
        runs_on(lambda draw: [_rows(draw, 3)]),
        has_shape("One number.", lambda draw: [_rows(draw, 3)]),
        Property(
            "one row",
            "The squared distance of two vectors of length 1.",
            lambda draw: [_rows(draw, 1), _rows(draw, 1)],
            points=2,
        ),
        Property("batch", "The mean over the batch, row by row.", lambda draw: [_rows(draw, 5)], needs=("one row",)),
        Property("lengths", "Only directions count.", lambda draw: [_rows(draw, 7, long=True)], points=2, needs=("one row",)),
        Property("no direction", "A zero vector has cosine 0 with everything.", _with_zeros, needs=("batch",)),
        Property(
            "gradient",
            "The prediction gets its gradient, and the target none.",
            lambda draw: [_rows(draw, 5), _rows(draw, 3, long=True)],
            same_gradients,
            points=3,
            needs=("lengths", "batch"),
        ),
        leaves_inputs(lambda draw: [_rows(draw, 3)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "The last of two axes is axis 1, and what is cut off once is cut off.": (
            "drop sign: (unit(prediction) * unit(target.detach())).sum(1)",
            "detach: target.detach().detach",
        ),
    },
    hints=HINTS,
)
