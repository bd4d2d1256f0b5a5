"""Exercise 09.2, associative_dot_product: what students answer, wrong and right."""

import torch

from course_lib.attention import Attended, associative_dot_product
from course_tools.checks.exercise import (
    Answers,
    Call,
    Draw,
    Exercise,
    Property,
    costs_at_most,
    has_gradient,
    has_shape,
    leaves_inputs,
    runs_on,
)

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "(θ φᵀ) g = θ (φᵀ g), since there is no softmax between. Write the shape of each bracket: which of them grows "
        "with the square of the number of positions, and which is independent of it?"
    ),
    (
        "φᵀ g sums over the keys j: it has d_k rows and d columns, one such matrix for each image. Divide by the number "
        "of keys, which is not always the number of queries."
    ),
    (
        "Multiply φᵀ by g first: that is (d_k, d), whatever the number of positions. Divide it by N, and only then let θ "
        "read from it. No weights exist, so the result is a `ContextOnly`."
    ),
)


def _mixed(theta, phi, g, n):
    """θ (φᵀ g) / n."""
    return Attended(theta @ (phi.mT @ g) / n, None)


@wrong.part
def multiplies_from_the_left(theta, phi, g):
    """Your numbers are right, but you compute something for each pair of positions: θ φᵀ, or the sum φᵀ g anew for each query.
    The time grows with N². Compute φᵀ g first, and once for all queries."""
    return Attended((theta @ phi.mT) @ g / phi.shape[-2], None)


@wrong.detail
def forgets_to_divide(theta, phi, g):
    """You do not divide by the number of keys. Your features then grow with the number of positions."""
    return _mixed(theta, phi, g, 1)


@wrong.case
def divides_by_the_queries(theta, phi, g):
    """You divide by the number of queries. The sum runs over the keys: N is their number, and where they were pooled the
    two differ."""
    return _mixed(theta, phi, g, theta.shape[-2])


@wrong.detail
def divides_by_the_batch(theta, phi, g):
    """You divide by len(φ), which is the number of images. N is the number of keys: the last axis but one."""
    return _mixed(theta, phi, g, len(phi))


@wrong.detail
def divides_by_the_width(theta, phi, g):
    """You divide by d_k. Z = N turns the sum over the positions into a mean; it is independent of d_k."""
    return _mixed(theta, phi, g, phi.shape[-1])


@wrong.detail
def divides_both_factors(theta, phi, g):
    """You divide by N in both products. Divide by it once; yours is too small by a factor of N."""
    return _mixed(theta, phi, g, phi.shape[-2] ** 2)


@wrong.case
def adds_up_the_batch(theta, phi, g):
    """You sum φᵀ g over the batch too, perhaps by a letter that your einsum does not name on the right. Every image then
    mixes the positions of all images."""
    memory = torch.einsum("nk,nd->kd", phi.flatten(0, -2), g.flatten(0, -2))
    return Attended(theta @ memory / phi.shape[-2], None)


@wrong.idea
def normalises_both_factors(theta, phi, g):
    """You take a softmax of θ over its features and of φ over the positions. That is another attention with brackets from
    the right; here the products are used as they are, negative ones too."""
    return Attended(theta.softmax(-1) @ (phi.softmax(-2).mT @ g), None)


@wrong.idea
def normalises_the_memory(theta, phi, g):
    """You take a softmax of φᵀ g. The dot-product form has none; that is why the order of its products may be changed."""
    return Attended(theta @ (phi.mT @ g).softmax(-2), None)


@wrong.part
def divides_by_the_sum_of_weights(theta, phi, g):
    """You divide by θ_iᵀ Σ_j φ_j, the sum of the weights, as linear attention does. Without a positive feature map that sum
    may be near 0 or below; the paper divides by N for this reason."""
    return Attended(theta @ (phi.mT @ g) / (theta @ phi.sum(-2).unsqueeze(-1)), None)


@wrong.detail
def returns_it_transposed(theta, phi, g):
    """You return (φᵀ g)ᵀ θᵀ. Features and positions are exchanged: (d, N) instead of (N, d)."""
    return Attended((phi.mT @ g).mT @ theta.mT / phi.shape[-2], None)


@wrong.idea
def multiplies_the_means(theta, phi, g):
    """You average φ over the positions, and g, and multiply the means. The mean of products is not the product of means;
    the pairing of keys and values is lost."""
    return Attended((theta @ phi.mean(-2).unsqueeze(-1)) * g.mean(-2, keepdim=True), None)


@wrong.part
def makes_them_positive(theta, phi, g):
    """You cut θ and φ off at 0, so that no weight is negative. In this form weights may be negative."""
    return _mixed(theta.relu(), phi.relu(), g, phi.shape[-2])


@wrong.detail
def multiplies_without_a_transpose(theta, phi, g):
    """You multiply φ @ g. The sum runs over the keys, so they must be the inner axis: φ.mT @ g, (d_k, N) times (N, d)."""
    return Attended(theta @ (phi @ g) / phi.shape[-2], None)


@right
def in_einsum(theta, phi, g):
    """A mean outer product of keys and values, read by the queries."""
    memory = torch.einsum("...nk,...nd->...kd", phi, g) / phi.shape[-2]
    return Attended(torch.einsum("...qk,...kd->...qd", theta, memory), None)


@right
def piece_by_piece(theta, phi, g):
    """A running sum over pieces of a thousand keys."""
    memory = 0.0
    for keys, values in zip(phi.split(1000, dim=-2), g.split(1000, dim=-2), strict=True):
        memory = memory + keys.transpose(-1, -2) @ values
    return theta @ (memory * (1 / phi.shape[-2])), None


@right
def value_by_value(theta, phi, g):
    """For each feature of the values a vector of d_k numbers, and a product of it with each query."""
    columns = [(phi * column.unsqueeze(-1)).mean(-2, keepdim=True) for column in g.unbind(-1)]
    return torch.stack([(theta * column).sum(-1) for column in columns], dim=-1), None


@right
def picture_by_picture(theta, phi, g):
    """A loop over the images, each by two matrix products."""
    flat = zip(*(x.reshape(-1, *x.shape[-2:]) for x in (theta, phi, g)), strict=True)
    seen = [torch.mm(asking, torch.mm(keys.t(), values).div(len(keys))) for asking, keys, values in flat]
    return Attended(torch.stack(seen).reshape(*theta.shape[:-1], g.shape[-1]), None)


@stranger
def product_of_centred_keys(theta, phi, g):
    return associative_dot_product(theta, phi - phi.mean(-2, keepdim=True), g)


@stranger
def product_of_the_sizes(theta, phi, g):
    return Attended(associative_dot_product(theta, phi, g).context.abs(), None)


@stranger
def product_with_one_key_less(theta, phi, g):
    return Attended(theta @ (phi.mT @ g) / max(1, phi.shape[-2] - 1), None)


@stranger(makes=[multiplies_from_the_left])
def product_row_by_row_of_weights(theta, phi, g):
    return Attended(torch.einsum("...qn,...nd->...qd", torch.einsum("...qk,...nk->...qn", theta, phi), g) / phi.shape[-2], None)


@stranger(makes=[divides_by_the_width, makes_them_positive])
def product_over_width_of_positives(theta, phi, g):
    return Attended(theta.relu() @ (phi.relu().mT @ g) / phi.shape[-1], None)


def _drawn(draw: Draw, *batch: int, N: int | None = None) -> Call:
    N_q, places, d_k, d = draw.sizes(4)
    N = N or places
    return draw.normal(*batch, N_q, d_k), draw.normal(*batch, N, d_k), draw.normal(*batch, N, d)


def _large(draw: Draw) -> Call:
    """An image of 512 positions."""
    return draw.normal(512, 2), draw.normal(512, 2), draw.normal(512, 3)


exercise = Exercise(
    id="09.2",
    title="The dot-product form, by associativity",
    reference=associative_dot_product,
    properties=(
        runs_on(lambda draw: [_drawn(draw, 1)]),
        has_shape("A context of d features for each query, and None for the weights.", lambda draw: [_drawn(draw, 2)]),
        Property("one position", "With a single position, the context is θᵀφ g.", lambda draw: [_drawn(draw, 1, N=1)]),
        Property(
            "mean",
            "The context is the mean over the keys of θ_iᵀ φ_j g_j.",
            lambda draw: [_drawn(draw, 1), _drawn(draw, 1)],
            points=3,
        ),
        Property(
            "batch",
            "Each image is computed independently, with any number of batch axes.",
            lambda draw: [_drawn(draw, 3), _drawn(draw, 2, 3), _drawn(draw)],
            needs=("mean",),
        ),
        costs_at_most(
            24,
            "The cost grows with the number of positions, not with that of their pairs.",
            lambda draw: [_large(draw)],
            points=3,
            needs=("mean",),
        ),
        has_gradient(lambda draw: [_drawn(draw, 2)], needs=("mean",)),
        leaves_inputs(lambda draw: [_drawn(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only a size is read, and there are as many values as keys.": (
            "detach: phi.detach().shape",
            "other name: g.shape",
        ),
    },
    hints=HINTS,
)
