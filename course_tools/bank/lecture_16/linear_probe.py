"""Exercise 16.3, linear_probe: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.metrics import LinearProbe, linear_probe
from course_tools.checks.comparisons import right_result
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Fix W for a moment. Which b is then the best one, written with the mean of the features and the mean of the "
        "one-hot labels? Insert it into the sum: what becomes of the x_i and the y_i?"
    ),
    (
        "With b at its best, only features and labels minus their means are left, and no bias. Set the derivative with respect "
        "to W to 0: you get a linear system whose matrix is (d, d), with λ on its diagonal."
    ),
    (
        "With X and Y for the centred features and labels, the matrix of the system is XᵀX plus λ on the diagonal, "
        "and its right side XᵀY; `torch.linalg.solve` gives Wᵀ, (d, n_classes). The bias is what W leaves of the mean "
        "label at the mean feature."
    ),
)


@wrong.idea
def has_no_bias(features, labels, n_classes, penalty):
    """You fit scores that are 0 at the origin, and return a bias of 0. Features hardly ever have mean 0, and b is the mean
    label minus W times the mean feature."""
    y = F.one_hot(labels, n_classes).to(features.dtype)
    d = features.shape[1]
    W = torch.linalg.solve(features.mT @ features + penalty * torch.eye(d), features.mT @ y).mT
    return LinearProbe(W, torch.zeros(n_classes))


@wrong.detail
def penalises_the_bias(features, labels, n_classes, penalty):
    """You append a feature that is always 1 and put λ on it too. That pulls the bias towards 0 along with the weights; it
    should be free, so that a shift of all features changes no prediction."""
    y = F.one_hot(labels, n_classes).to(features.dtype)
    x = torch.cat([features, torch.ones(len(features), 1)], dim=1)
    both = torch.linalg.solve(x.mT @ x + penalty * torch.eye(x.shape[1]), x.mT @ y).mT
    return LinearProbe(both[:, :-1], both[:, -1])


@wrong.part
def keeps_the_bias_of_the_centred_problem(features, labels, n_classes, penalty):
    """You return the mean label as the bias. That is right for centred features; subtract W times the mean feature."""
    y = F.one_hot(labels, n_classes).to(features.dtype)
    x = features - features.mean(0)
    W = torch.linalg.solve(x.mT @ x + penalty * torch.eye(x.shape[1]), x.mT @ (y - y.mean(0))).mT
    return LinearProbe(W, y.mean(0))


@wrong.part
def leaves_the_features_uncentred(features, labels, n_classes, penalty):
    """You solve for W with features and labels as they are, and make b of their means afterwards. W itself must come from the
    centred ones: subtract both means before XᵀX and XᵀY."""
    y = F.one_hot(labels, n_classes).to(features.dtype)
    d = features.shape[1]
    W = torch.linalg.solve(features.mT @ features + penalty * torch.eye(d), features.mT @ y).mT
    return LinearProbe(W, y.mean(0) - W @ features.mean(0))


@wrong.part
def takes_the_bias_from_the_centred_means(features, labels, n_classes, penalty):
    """You make b of the means of the *centred* features and labels, which are 0. b needs the means that were subtracted."""
    y = F.one_hot(labels, n_classes).to(features.dtype)
    x = features - features.mean(0)
    W = torch.linalg.solve(x.mT @ x + penalty * torch.eye(x.shape[1]), x.mT @ (y - y.mean(0))).mT
    return LinearProbe(W, torch.zeros(n_classes))


@wrong.part
def forgets_the_mean_of_the_labels(features, labels, n_classes, penalty):
    """You return -W times the mean feature as the bias. The mean of the labels is missing: at the mean of the features the
    scores must be the class frequencies."""
    y = F.one_hot(labels, n_classes).to(features.dtype)
    x = features - features.mean(0)
    W = torch.linalg.solve(x.mT @ x + penalty * torch.eye(x.shape[1]), x.mT @ (y - y.mean(0))).mT
    return LinearProbe(W, -W @ features.mean(0))


@wrong.part
def centres_by_one_number(features, labels, n_classes, penalty):
    """You subtract one mean over all entries of the features. Each feature has its own mean, over the examples."""
    y = F.one_hot(labels, n_classes).to(features.dtype)
    x = features - features.mean()
    W = torch.linalg.solve(x.mT @ x + penalty * torch.eye(x.shape[1]), x.mT @ (y - y.mean(0))).mT
    return LinearProbe(W, y.mean(0) - W @ features.mean(0))


@wrong.detail
def returns_features_by_classes(features, labels, n_classes, penalty):
    """You return the solution as it comes, (d, n_classes). A weight is stored (out, in): one row for each class, so that
    the scores are x Wᵀ + b."""
    y = F.one_hot(labels, n_classes).to(features.dtype)
    x = features - features.mean(0)
    W = torch.linalg.solve(x.mT @ x + penalty * torch.eye(x.shape[1]), x.mT @ (y - y.mean(0)))
    return LinearProbe(W, y.mean(0) - features.mean(0) @ W)


@wrong.part
def ignores_the_penalty(features, labels, n_classes, penalty):
    """You fit without λ. λ must be added to the diagonal."""
    y = F.one_hot(labels, n_classes).to(features.dtype)
    x = features - features.mean(0)
    W = (torch.linalg.pinv(x, rtol=1e-4) @ (y - y.mean(0))).mT
    return LinearProbe(W, y.mean(0) - W @ features.mean(0))


@wrong.detail
def averages_the_errors(features, labels, n_classes, penalty):
    """You take the mean of the squared errors and add λ‖W‖² to it. The errors are to be summed: your penalty weighs n times
    as much as it should."""
    y = F.one_hot(labels, n_classes).to(features.dtype)
    n, d = features.shape
    x = features - features.mean(0)
    W = torch.linalg.solve(x.mT @ x / n + penalty * torch.eye(d), x.mT @ (y - y.mean(0)) / n).mT
    return LinearProbe(W, y.mean(0) - W @ features.mean(0))


@wrong.part
def adds_the_penalty_everywhere(features, labels, n_classes, penalty):
    """You add the number λ to the matrix, and so to each of its entries. The derivative of λ‖W‖² is λ times W itself: λ is
    on the diagonal only."""
    y = F.one_hot(labels, n_classes).to(features.dtype)
    x = features - features.mean(0)
    W = (torch.linalg.pinv(x.mT @ x + penalty, rtol=1e-4) @ x.mT @ (y - y.mean(0))).mT
    return LinearProbe(W, y.mean(0) - W @ features.mean(0))


@wrong.detail
def aims_at_plus_and_minus_one(features, labels, n_classes, penalty):
    """Your targets are 1 for the class and -1 for all others. The labels are one-hot, 1 and 0; yours double the weights and
    move the bias."""
    y = 2 * F.one_hot(labels, n_classes).to(features.dtype) - 1
    x = features - features.mean(0)
    W = torch.linalg.solve(x.mT @ x + penalty * torch.eye(x.shape[1]), x.mT @ (y - y.mean(0))).mT
    return LinearProbe(W, y.mean(0) - W @ features.mean(0))


@wrong.case
def counts_the_classes_it_sees(features, labels, n_classes, penalty):
    """You infer the number of classes from the labels. When the last class has no example, its row of W and its entry of b
    are missing."""
    y = F.one_hot(labels).to(features.dtype)
    x = features - features.mean(0)
    W = torch.linalg.solve(x.mT @ x + penalty * torch.eye(x.shape[1]), x.mT @ (y - y.mean(0))).mT
    return LinearProbe(W, y.mean(0) - W @ features.mean(0))


@wrong.detail
def standardises_the_features(features, labels, n_classes, penalty):
    """You also divide each feature by its standard deviation. The features are taken as they are."""
    y = F.one_hot(labels, n_classes).to(features.dtype)
    x = features - features.mean(0)
    x = x / x.square().mean(0).sqrt().clamp(min=1e-6)
    W = torch.linalg.solve(x.mT @ x + penalty * torch.eye(x.shape[1]), x.mT @ (y - y.mean(0))).mT
    return LinearProbe(W, y.mean(0) - W @ features.mean(0))


@wrong.detail
def adds_rows_of_the_penalty(features, labels, n_classes, penalty):
    """You add λ times the identity as further rows of the least squares. Their errors are squared: add √λ times the
    identity."""
    return linear_probe(features, labels, n_classes, penalty**2)


@right
def with_a_column_of_ones(features, labels, n_classes, penalty):
    """No centring: the bias as the weight of a feature that is always 1, which has no penalty; in float64."""
    n, d = features.shape
    x = torch.column_stack([features.double(), torch.ones(n, dtype=torch.float64, device=features.device)])
    ridge = torch.full((d + 1,), float(penalty), dtype=torch.float64, device=features.device)
    ridge[-1] = 0.0
    y = F.one_hot(labels, n_classes).double()
    both = torch.linalg.solve(x.T @ x + ridge.diag(), x.T @ y).to(features.dtype)
    return LinearProbe(weight=both[:d].T, bias=both[d])


@right
def by_the_examples(features, labels, n_classes, penalty):
    """A system of n × n instead of d × d: the weights as mixtures of the examples (the dual form), in float64."""
    n = len(labels)
    centre = torch.eye(n, dtype=torch.float64, device=features.device) - 1 / n
    x = centre @ features.double()
    y = F.one_hot(labels, num_classes=n_classes).double()
    shift = penalty * torch.eye(n, dtype=torch.float64, device=features.device)
    weight = torch.linalg.solve(x @ x.mT + shift, centre @ y).mT @ x
    bias = (y - features.double() @ weight.mT).mean(0)
    return weight.to(features.dtype), bias.to(features.dtype)


@right
def as_least_squares(features, labels, n_classes, penalty):
    """The penalty written as d more examples, √λ times the unit vectors with the label 0, for `torch.linalg.lstsq`."""
    mean = features.mean(dim=0, keepdim=True)
    y = torch.zeros(len(labels), n_classes, dtype=features.dtype, device=features.device).scatter(1, labels[:, None], 1.0)
    share = y.mean(dim=0, keepdim=True)
    d = features.shape[1]
    examples = torch.cat([features - mean, penalty**0.5 * torch.eye(d, dtype=features.dtype, device=features.device)])
    answers = torch.cat([y - share, y.new_zeros(d, n_classes)])
    W = torch.linalg.lstsq(examples, answers).solution.mT
    return LinearProbe(W, share[0] - (mean @ W.mT)[0])


@right
def class_by_class(features, labels, n_classes, penalty):
    """One class after the other against the rest, all with the same Cholesky factor."""
    mean = features.mean(0)
    x = features - mean
    gram = torch.einsum("ni,nj->ij", x, x)
    factor = torch.linalg.cholesky(gram + torch.diag(gram.new_full((len(gram),), penalty)))
    y = F.one_hot(labels, n_classes).to(features.dtype)
    weights, biases = [], []
    for c in range(n_classes):
        w = torch.cholesky_solve((x * y[:, c, None]).sum(0)[:, None], factor)[:, 0]
        weights.append(w)
        biases.append(y[:, c].mean() - torch.dot(w, mean))
    return LinearProbe(torch.stack(weights), torch.stack(biases))


@stranger
def probe_halves_the_penalty(features, labels, n_classes, penalty):
    return linear_probe(features, labels, n_classes, penalty / 2)


@stranger
def probe_exchanges_weight_and_bias(features, labels, n_classes, penalty):
    weight, bias = linear_probe(features, labels, n_classes, penalty)
    return bias, weight


@stranger
def probe_turns_the_labels_round(features, labels, n_classes, penalty):
    return linear_probe(features, n_classes - 1 - labels, n_classes, penalty)


@stranger
def probe_centres_in_place(features, labels, n_classes, penalty):
    features -= features.mean(0)
    return linear_probe(features, labels, n_classes, penalty)


@stranger(makes=[ignores_the_penalty])
def probe_by_the_pseudoinverse(features, labels, n_classes, penalty):
    y = torch.eye(n_classes)[labels]
    x = features - features.mean(0)
    W = (torch.linalg.pinv(x, rtol=1e-4) @ (y - y.mean(0))).T
    return W, y.mean(0) - W @ features.mean(0)


@stranger(makes=[has_no_bias, aims_at_plus_and_minus_one])
def probe_twice_wrong(features, labels, n_classes, penalty):
    y = 2 * F.one_hot(labels, n_classes).float() - 1
    x = features
    W = torch.linalg.solve(x.mT @ x + penalty * torch.eye(x.shape[1]), x.mT @ y).mT
    return W, torch.zeros(n_classes)


def _examples(draw: Draw, n: int, d: int, n_classes: int, penalty: float, unseen: int = 0) -> Call:
    """Features off centre, each with a spread of its own; the last `unseen` classes have no example."""
    features = draw.normal(n, d) * (0.5 + draw.uniform(d)) + draw.normal(d)
    return features, draw.integers(0, n_classes - unseen, n), n_classes, penalty


def _many(draw: Draw) -> list[Call]:
    return [_examples(draw, 23, 5, 3, 0.5), _examples(draw, 17, 3, 7, 4.0)]


exercise = Exercise(
    id="16.3",
    title="A linear probe in closed form",
    reference=linear_probe,
    properties=(
        runs_on(lambda draw: [_examples(draw, 13, 5, 3, 1.0)]),
        has_shape("A weight (n_classes, d) and a bias (n_classes,).", lambda draw: [_examples(draw, 13, 5, 3, 1.0)]),
        Property("weight", "The weight is at the minimum.", _many, right_result(0), points=3),
        Property("bias", "The bias is at the minimum, and free of the penalty.", _many, right_result(1), points=3),
        Property(
            "few",
            "The penalty decides where there are more features than examples.",
            lambda draw: [_examples(draw, 5, 11, 3, 0.5), _examples(draw, 1, 3, 2, 0.5)],
            needs=("weight", "bias"),
        ),
        Property(
            "unseen",
            "A class without an example still has its row.",
            lambda draw: [_examples(draw, 13, 5, 7, 0.5, unseen=2)],
            needs=("weight",),
        ),
        leaves_inputs(_many),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Of a tensor, `to` takes the kind and the device, which are those of the labels already.": (
            "drop attribute: F.one_hot(labels, n_classes).to(features)",
        ),
        (
            "Only a size, a kind or the device is read, and these are the same; a unit matrix of integers becomes one "
            "of floats."
        ): (
            "drop keyword: penalty * torch.eye(x.shape[1], device=x.device)",
            "drop keyword: penalty * torch.eye(x.shape[1], dtype=x.dtype)",
            "other name: features.shape",
            "other name: y.dtype (2)",
            "other name: features.dtype",
            "other name: labels.dtype (2)",
            "other name: y.device",
            "other name: features.device",
            "other name: labels.device",
        ),
        ("The columns of centred features sum to 0: what is the same for all examples drops out of a product with them."): (
            "other name: x.mT @ features",
            "other name: features.mT",
            "operator: x.mT @ (y + y.mean(0))",
            "drop right: x.mT @ y",
            "other name: features.mT (2)",
            "drop call: y - 0",
            "drop argument: y - y.mean()",
            "cousin: y.sum(0) (2)",
        ),
    },
    hints=HINTS,
)
