"""Exercise 16.6, spectrum: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.metrics import spectrum
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "If all embeddings point the same way, every number of your answer should be 0. Which step removes their common "
        "direction, and which one their lengths?"
    ),
    (
        "First each row gets length 1, then subtract the mean row. The squares of the singular values of the result are "
        "sums over n embeddings: divide so that they become means."
    ),
    (
        "Divide by the lengths along the last axis, subtract the mean over the first, take `torch.linalg.svdvals`, and divide "
        "by the square root of the number of embeddings."
    ),
)


@wrong.part
def keeps_the_lengths(embeddings):
    """You leave the embeddings as long as they are. Only directions count: divide each by its length."""
    return torch.linalg.svdvals(embeddings - embeddings.mean(0)) / len(embeddings) ** 0.5


@wrong.part
def keeps_the_mean(embeddings):
    """You do not centre. The mean is then the first singular value, and is 1 for a complete collapse instead of 0."""
    return torch.linalg.svdvals(F.normalize(embeddings, dim=-1)) / len(embeddings) ** 0.5


@wrong.part
def centres_first(embeddings):
    """You centre and then divide by the lengths. Each small deviation from the mean is then scaled to length 1; normalise
    first, then centre."""
    directions = F.normalize(embeddings - embeddings.mean(0), dim=-1)
    return torch.linalg.svdvals(directions) / len(embeddings) ** 0.5


@wrong.idea
def centres_each_embedding(embeddings):
    """You subtract from each embedding the mean of its own features. Subtract the mean over the embeddings."""
    directions = F.normalize(embeddings, dim=-1)
    return torch.linalg.svdvals(directions - directions.mean(-1, keepdim=True)) / len(embeddings) ** 0.5


@wrong.idea
def normalises_each_feature(embeddings):
    """You divide each feature by its length over all embeddings. Normalise the rows instead."""
    directions = F.normalize(embeddings, dim=0)
    return torch.linalg.svdvals(directions - directions.mean(0)) / len(embeddings) ** 0.5


@wrong.detail
def forgets_the_number_of_embeddings(embeddings):
    """You return the bare singular values. They grow with the number of embeddings, like √n; divided by it they are standard
    deviations, which can be compared."""
    directions = F.normalize(embeddings, dim=-1)
    return torch.linalg.svdvals(directions - directions.mean(0))


@wrong.detail
def divides_by_the_number_itself(embeddings):
    """You divide by n. Variances are divided by n, and singular values are their roots: they are divided by √n."""
    directions = F.normalize(embeddings, dim=-1)
    return torch.linalg.svdvals(directions - directions.mean(0)) / len(embeddings)


@wrong.case
def corrects_for_the_mean(embeddings):
    """You divide by √(n - 1), as one does to estimate a variance from a sample. Here divide by √n; for a single embedding
    yours is 0 / 0."""
    directions = F.normalize(embeddings, dim=-1)
    return torch.linalg.svdvals(directions - directions.mean(0)) / (len(embeddings) - 1) ** 0.5


@wrong.detail
def returns_variances(embeddings):
    """You return the squares, the eigenvalues of the covariance. They are variances; the spectrum here is of standard
    deviations."""
    directions = F.normalize(embeddings, dim=-1)
    return torch.linalg.svdvals(directions - directions.mean(0)).square() / len(embeddings)


@wrong.case
def lists_the_smallest_first(embeddings):
    """You return them in the order of `eigvalsh`, from the smallest up. A spectrum is read from its largest value down."""
    directions = F.normalize(embeddings.double(), dim=-1)
    centred = directions - directions.mean(0)
    rank = min(embeddings.shape)
    values = torch.linalg.eigvalsh(centred.mT @ centred / len(embeddings))[-rank:]
    return values.clamp(min=0).sqrt().to(embeddings.dtype)


@wrong.case
def lists_a_value_for_each_feature(embeddings):
    """You take the eigenvalues of the (d, d) covariance, d of them. There are min(n, d) singular values."""
    directions = F.normalize(embeddings.double(), dim=-1)
    centred = directions - directions.mean(0)
    values = torch.linalg.eigvalsh(centred.mT @ centred / len(embeddings)).flip(0)
    return values.clamp(min=0).sqrt().to(embeddings.dtype)


@wrong.detail
def divides_by_the_largest(embeddings):
    """You divide all values by the first, so that it is 1. The scale is then lost, and a complete collapse gives 0 / 0."""
    directions = F.normalize(embeddings, dim=-1)
    values = torch.linalg.svdvals(directions - directions.mean(0))
    return values / values[0]


@wrong.detail
def loses_the_axis_of_the_norm(embeddings):
    """Your norms have lost the axis that they were taken over, so that they cannot divide the features: keepdim=True keeps it,
    with size 1."""
    z = embeddings / embeddings.norm(dim=-1)
    return torch.linalg.svdvals(z - z.mean(0)) / math.sqrt(len(z))


@wrong.detail
def lists_a_value_for_each_feature_upwards(embeddings):
    """You return what `eigvalsh` gives for the (d, d) covariance: d numbers, the smallest first. There are min(n, d) singular
    values, and a spectrum is read from its largest value down."""
    directions = F.normalize(embeddings.double(), dim=-1)
    centred = directions - directions.mean(0)
    return torch.linalg.eigvalsh(centred.mT @ centred / len(embeddings)).clamp(min=0).sqrt().to(embeddings.dtype)


@wrong.detail
def gives_six_values_at_most(embeddings):
    """You call `pca_lowrank` as it is, and it gives six values at most. There are min(n, d): take `svdvals`."""
    _, values, _ = torch.pca_lowrank(F.normalize(embeddings, dim=-1))
    return values / len(embeddings) ** 0.5


@wrong.detail
def takes_the_roots_of_all_eigenvalues(embeddings):
    """You take the eigenvalues of the (d, d) covariance, of which there are d also where n is smaller. Asked for are min(n,
    d); and the root of an eigenvalue near 0 is rounded roughly, so take `svdvals`."""
    z = F.normalize(embeddings, dim=-1)
    z = z - z.mean(0)
    return torch.linalg.eigvalsh(z.mT @ z / len(z)).clamp(min=0).sqrt().flip(0)


@right
def by_the_smaller_gram_matrix(embeddings):
    """The roots of the eigenvalues of X Xᵀ or Xᵀ X, whichever is smaller, in float64."""
    x = F.normalize(embeddings.double(), dim=1, eps=1e-300)
    x = x - x.mean(dim=0, keepdim=True)
    gram = x @ x.mT if x.shape[0] < x.shape[1] else x.mT @ x
    variances = torch.linalg.eigvalsh(gram / x.shape[0])
    return variances.clamp(min=0).sqrt().flip(0).to(embeddings.dtype)


@right
def by_a_centring_matrix(embeddings):
    """Centred by I - 1 1ᵀ / n, and decomposed whole."""
    n = embeddings.shape[0]
    centring = torch.eye(n, dtype=embeddings.dtype, device=embeddings.device) - 1 / n
    lengths = torch.linalg.vector_norm(embeddings, dim=1, keepdim=True)
    _, values, _ = torch.linalg.svd(centring @ (embeddings / lengths), full_matrices=False)
    return values * n**-0.5


@right
def row_by_row(embeddings):
    """A loop for the lengths, each row scaled by 1 / √n at once, and the singular values of the transposed matrix."""
    n = len(embeddings)
    rows = [x / x.norm().clamp(min=1e-300) / n**0.5 for x in embeddings.double()]
    middle = sum(rows) / n
    columns = torch.stack([row - middle for row in rows], dim=1)
    return torch.linalg.svdvals(columns).to(embeddings.dtype)


@stranger
def spectrum_of_a_covariance_with_signs(embeddings):
    return -spectrum(embeddings)


@stranger
def spectrum_leaves_out_the_last(embeddings):
    return spectrum(embeddings)[:-1]


@stranger
def spectrum_centres_by_the_median(embeddings):
    directions = F.normalize(embeddings, dim=-1)
    return torch.linalg.svdvals(directions - directions.median(0).values) / len(embeddings) ** 0.5


@stranger
def spectrum_in_place(embeddings):
    embeddings /= embeddings.norm(dim=-1, keepdim=True)
    return spectrum(embeddings)


@stranger(makes=[forgets_the_number_of_embeddings])
def spectrum_by_the_svd_of_the_rows(embeddings):
    rows = embeddings / embeddings.norm(dim=-1, keepdim=True)
    return torch.linalg.svd(rows - rows.mean(dim=0, keepdim=True), full_matrices=False).S


@stranger(makes=[keeps_the_lengths, forgets_the_number_of_embeddings])
def spectrum_twice_wrong(embeddings):
    return torch.linalg.svdvals(embeddings)


def _cloud(draw: Draw, n: int, d: int, long: bool = False) -> Call:
    """Embeddings around a common direction; of length 1, or of many lengths."""
    rows = F.normalize(draw.normal(n, d) + 2 * draw.normal(d), dim=-1)
    return (rows * draw.normal(n, 1).exp() if long else rows,)


exercise = Exercise(
    id="16.6",
    title="The spectrum of embeddings",
    reference=spectrum,
    properties=(
        runs_on(lambda draw: [_cloud(draw, 11, 5)]),
        has_shape("min(n, d) numbers.", lambda draw: [_cloud(draw, 11, 5), _cloud(draw, 3, 7), _cloud(draw, 13, 11)]),
        Property(
            "spread",
            "Standard deviations along the principal axes, the largest first.",
            lambda draw: [_cloud(draw, 13, 5), _cloud(draw, 29, 3)],
            points=3,
        ),
        Property(
            "lengths", "Only directions count.", lambda draw: [_cloud(draw, 13, 5, long=True)], points=4, needs=("spread",)
        ),
        Property("few", "There may be fewer embeddings than axes.", lambda draw: [_cloud(draw, 3, 7)], needs=("spread",)),
        Property(
            "collapse",
            "Where all embeddings have the same direction, all values are 0.",
            lambda draw: [(draw.normal(1, 5).repeat(7, 1),), (draw.normal(1, 3),)],
            points=2,
        ),
        leaves_inputs(lambda draw: [_cloud(draw, 11, 5, long=True)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "The last of two axes is axis 1, which is also the default.": (
            "drop keyword: directions = F.normalize(embeddings)",
            "drop sign: F.normalize(embeddings, dim=1)",
        ),
        ("Singular values do not see a sign, the directions are a tensor of their own, and there are as many as embeddings."): (
            "swap operands: torch.linalg.svdvals(directions.mean(0) - directions)",
            "in place: torch.linalg.svdvals(directions.sub_(directions.mean(0)))",
            "other name: len(directions)",
        ),
    },
    hints=HINTS,
)
