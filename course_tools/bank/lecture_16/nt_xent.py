"""Exercise 16.2, nt_xent: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.fast import lean_nt_xent
from course_lib.losses import nt_xent
from course_lib.primitives import unit
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
        "Stack all 2N views row-wise and consider one of them as a classification problem: how many classes are there, "
        "and which one is right? Which would win if the view itself were a class?"
    ),
    (
        "It is one cross-entropy: the (2N, 2N) cosines over τ are the logits, and a view is not its own class, so that "
        "logit is -∞. With a above b, the partner of row i is row i + N or i - N."
    ),
    (
        "Join a and b along the rows, `unit`, multiply by its transpose, divide by τ, fill the diagonal with -inf. The "
        "classes are 0 … 2N - 1 rolled by N; `F.cross_entropy` of the two is the mean already."
    ),
)


@wrong.idea
def compares_without_lengths(a, b, temperature):
    """You compare by dot products and leave out the lengths. The similarity of this loss is a cosine: divide by the
    lengths."""
    z = torch.cat([a, b])
    logits = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device).roll(len(a)))


@wrong.detail
def divides_both_sides_by_the_temperature(a, b, temperature):
    """You divide each view by τ before multiplying the two, so every cosine is divided by τ². The temperature belongs to
    the similarity, once."""
    z = unit(torch.cat([a, b])) / temperature
    logits = (z @ z.mT).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device).roll(len(a)))


@wrong.part
def multiplies_by_the_temperature(a, b, temperature):
    """You multiply the cosines by τ. Divide by τ: a small temperature makes the softmax sharper."""
    z = unit(torch.cat([a, b]))
    logits = (z @ z.mT * temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device).roll(len(a)))


@wrong.part
def competes_with_itself(a, b, temperature):
    """You keep each view among its own classes. Its cosine with itself is always 1: exclude the diagonal."""
    z = unit(torch.cat([a, b]))
    return F.cross_entropy(z @ z.mT / temperature, torch.arange(len(z), device=a.device).roll(len(a)))


@wrong.detail
def compares_each_view_with_itself_alone(a, b, temperature):
    """You call F.cosine_similarity(z, z): it compares row with row, not each row with all others, and its 2N ones spread over
    a table without an error. Normalise z and multiply by its transpose."""
    z = torch.cat([a, b])
    logits = (F.cosine_similarity(z, z) / temperature).repeat(len(z), 1).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device).roll(len(a)))


@wrong.detail
def hides_itself_with_a_small_number(a, b, temperature):
    """You set the cosine of each view with itself to -9. Divided by a temperature near 1 that is no −∞: the view stays a
    little in its own sum."""
    z = unit(torch.cat([a, b]))
    logits = (z @ z.mT).fill_diagonal_(-9.0) / temperature
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device).roll(len(a)))


@wrong.detail
def hides_itself_with_a_zero(a, b, temperature):
    """You set the similarity of each view with itself to 0. exp(0) = 1 is still in the sum: set it to -∞."""
    z = unit(torch.cat([a, b]))
    logits = (z @ z.mT / temperature).fill_diagonal_(0.0)
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device).roll(len(a)))


@wrong.part
def leaves_the_partner_out_of_the_sum(a, b, temperature):
    """Your denominator holds the negatives only. The sum runs over all k ≠ i, the partner included; without it your loss
    can be negative."""
    z = unit(torch.cat([a, b]))
    N = len(a)
    similarity = z @ z.mT / temperature
    partner = torch.arange(2 * N, device=a.device).roll(N)
    positive = similarity.gather(1, partner[:, None])[:, 0]
    itself = torch.eye(2 * N, dtype=torch.bool, device=a.device)
    negatives = similarity.masked_fill(itself, -torch.inf).scatter(1, partner[:, None], -torch.inf)
    return (negatives.logsumexp(1) - positive).mean()


@wrong.part
def looks_across_only(a, b, temperature):
    """You compare the first views with the second ones only, N classes for each, as in CLIP. Here the other views of the
    *same* side are negatives too: 2N - 1 classes."""
    logits = unit(a) @ unit(b).mT / temperature
    classes = torch.arange(len(a), device=a.device)
    return (F.cross_entropy(logits, classes) + F.cross_entropy(logits.mT, classes)) / 2


@wrong.detail
def asks_the_first_views_only(a, b, temperature):
    """You average over the N first views. Each pair counts twice, as ℓ(i, j) and ℓ(j, i): the two terms differ."""
    z = unit(torch.cat([a, b]))
    N = len(a)
    logits = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits[:N], torch.arange(N, 2 * N, device=a.device))


@wrong.detail
def divides_by_the_number_of_pairs(a, b, temperature):
    """You add up the terms of all 2N views and divide by N, the number of pairs. The mean is over the views, so your loss
    is twice too large."""
    z = unit(torch.cat([a, b]))
    N = len(a)
    logits = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(2 * N, device=a.device).roll(N), reduction="sum") / N


@wrong.idea
def seeks_the_partner_next_door(a, b, temperature):
    """You take rows 0 and 1, 2 and 3, … for pairs. That is so where views are interleaved; with b below a, the partner of
    row i is row i + N."""
    z = unit(torch.cat([a, b]))
    logits = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device) ^ 1)


@wrong.idea
def normalises_each_feature(a, b, temperature):
    """You divide each feature by its length over the batch. Each embedding, one row, must have length 1."""
    z = unit(torch.cat([a, b]).mT).mT
    logits = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device).roll(len(a)))


@wrong.case
def exponentiates_as_written(a, b, temperature):
    """You take exp of the cosines over τ and then the log of the fraction, as the formula is written. At a small τ the
    exponentials overflow and inf / inf is NaN; a cross-entropy or `logsumexp` subtracts the largest one first."""
    z = unit(torch.cat([a, b]))
    N = len(a)
    shares = (z @ z.mT / temperature).exp() * (1 - torch.eye(2 * N, device=a.device))
    shares = shares / shares.sum(1, keepdim=True)
    return -shares[torch.arange(2 * N), torch.arange(2 * N).roll(N)].log().mean()


@wrong.part
def forgets_the_temperature(a, b, temperature):
    """You never divide by the temperature: cosines lie in -1…1, and without τ the softmax over them stays almost flat."""
    return nt_xent(a, b, 1.0)


@wrong.detail
def multiplies_views_that_are_not_transposed(a, b, temperature):
    """You multiply the views by themselves without a transpose. Each view meets each feature by feature: z @ z.mT, (2N, 2N)."""
    z = F.normalize(torch.cat([a, b]), dim=-1)
    logits = (z @ z / temperature).masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z)).roll(len(a)))


@wrong.detail
def loses_the_axis_of_the_norm(a, b, temperature):
    """Your norms have lost the axis that they were taken over, so that they cannot divide the features: keepdim=True keeps it,
    with size 1."""
    z = torch.cat([a, b])
    z = z / z.norm(dim=-1)
    logits = (z @ z.mT / temperature).masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z)).roll(len(a)))


@wrong.part
def takes_the_next_row_for_the_partner(a, b, temperature):
    """You take a neighbouring row, i + 1 or i - 1, for the partner of row i. With b below a, the partner is N rows further,
    i + N, and that of the second half is i - N."""
    z = unit(torch.cat([a, b]))
    logits = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device).roll(-1))


@wrong.part
def seeks_the_partner_one_row_off(a, b, temperature):
    """Your partner is one row off: i + N + 1 or i + N - 1 for row i. Rows count from 0, so row N is the first of b; and the
    columns move up by one only where the diagonal is *cut out*, not where it is -∞."""
    z = unit(torch.cat([a, b]))
    logits = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device).roll(-len(a) - 1))


@wrong.detail
def cuts_the_diagonal_out_and_keeps_the_classes(a, b, temperature):
    """You cut the diagonal out, 2N - 1 columns are left, and the partner of row i < N is now column i + N - 1. Shift the
    classes too, or write -∞ on the diagonal, where nothing moves."""
    z = unit(torch.cat([a, b]))
    others = ~torch.eye(len(z), dtype=torch.bool, device=a.device)
    logits = (z @ z.mT / temperature)[others].view(len(z), -1)
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device).roll(len(a)))


@wrong.detail
def runs_past_the_last_row(a, b, temperature):
    """Your partner is i + N for all 2N rows, so that the second half asks for rows that do not exist. There it is i - N: take
    the remainder by 2N, or `roll`."""
    z = unit(torch.cat([a, b]))
    logits = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device) + len(a))


@wrong.part
def takes_a_view_for_its_own_partner(a, b, temperature):
    """For some rows or all of them, your right class is the view itself, which is excluded, so that the loss is infinite. The
    right class is the *other* view of the same image: i + N in the first half, i - N in the second."""
    z = unit(torch.cat([a, b]))
    logits = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device))


@wrong.part
def reverses_the_rows_for_the_partners(a, b, temperature):
    """Your classes run backwards, 2N - 1 … 0. That exchanges the halves, but reverses them, too: the partner of row i is row
    i + N."""
    z = unit(torch.cat([a, b]))
    logits = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=a.device).flip(0))


@wrong.detail
def hides_half_of_the_diagonal(a, b, temperature):
    """You make the diagonal for N views. There are 2N of them, and so 2N rows and columns."""
    z = unit(torch.cat([a, b]))
    itself = torch.eye(len(a), dtype=torch.bool)
    return F.cross_entropy((z @ z.mT / temperature).masked_fill(itself, -torch.inf), torch.arange(len(z)).roll(len(a)))


@right
def without_the_diagonal(a, b, temperature):
    """The diagonal cut out, 2N - 1 columns left, and the log of the sum minus the partner's cosine."""
    z = unit(torch.cat((a, b), dim=0))
    n = z.shape[0]
    others = ~torch.eye(n, dtype=torch.bool, device=z.device)
    rivals = torch.einsum("id,kd->ik", z, z)[others].view(n, n - 1) / temperature
    positive = torch.einsum("id,id->i", *z.chunk(2)) / temperature
    return rivals.logsumexp(dim=1).mean() - positive.mean()


@right
def in_four_blocks(a, b, temperature):
    """The blocks a-b, a-a, b-a, b-b, as the authors' program has them: N answers across, then N on the same side."""
    a, b = unit(a), unit(b)
    N = a.size(0)
    classes = torch.arange(N, device=a.device)
    itself = torch.diag(a.new_full((N,), torch.inf))
    from_a = torch.cat([a @ b.mT / temperature, a @ a.mT / temperature - itself], dim=1)
    from_b = torch.cat([b @ a.mT / temperature, b @ b.mT / temperature - itself], dim=1)
    return 0.5 * (F.cross_entropy(from_a, classes) + F.cross_entropy(from_b, classes))


@right
def interleaved_in_double_precision(a, b, temperature):
    """The two views of an image next to each other, in float64; the partner is the other one of the two."""
    z = unit(torch.stack([a.double(), b.double()], dim=1).flatten(0, 1))
    view = torch.arange(len(z), device=z.device)
    log_shares = (z @ z.mT / temperature).masked_fill(view == view[:, None], -torch.inf).log_softmax(-1)
    return log_shares[view, view ^ 1].mean().neg().to(a.dtype)


@right
def view_by_view(a, b, temperature):
    """A loop over the views: the log-probabilities of the others, and among them the partner's."""
    views = [*unit(a), *unit(b)]
    N = len(views) // 2
    losses = []
    for i, view in enumerate(views):
        others = [k for k in range(2 * N) if k != i]
        logits = torch.stack([torch.dot(view, views[k]) for k in others]) / temperature
        losses.append(-logits.log_softmax(0)[others.index((i + N) % (2 * N))])
    return torch.stack(losses).mean()


@stranger
def nt_xent_learns_from_one_side(a, b, temperature):
    return nt_xent(a, b.detach(), temperature)


@stranger
def nt_xent_shifts_the_partners(a, b, temperature):
    return nt_xent(a, b.roll(1, 0), temperature)


@stranger
def nt_xent_takes_the_median(a, b, temperature):
    z = unit(torch.cat([a, b]))
    logits = (z @ z.mT / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z)).roll(len(a)), reduction="none").median()


@stranger
def nt_xent_takes_distances(a, b, temperature):
    z = unit(torch.cat([a, b]))
    logits = (-torch.cdist(z, z) / temperature).fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z)).roll(len(a)))


@stranger(makes=[looks_across_only])
def nt_xent_as_clip_by_hand(a, b, temperature):
    similarity = torch.einsum("id,jd->ij", F.normalize(a, dim=1), F.normalize(b, dim=1)) / temperature
    right = similarity.diagonal()
    return (similarity.logsumexp(1) - right + similarity.logsumexp(0) - right).mean() / 2


@stranger(makes=[compares_without_lengths, competes_with_itself])
def nt_xent_twice_wrong(a, b, temperature):
    z = torch.cat([a, b])
    return F.cross_entropy(z @ z.mT / temperature, torch.arange(len(z)).roll(len(a)))


def _pairs(draw: Draw, N: int, temperature: float = 1.0, scale: float | None = None) -> Call:
    """Views that are near their partners; of length 1, or, with a scale, of very different lengths."""
    d = draw.sizes(2)[1] + 1
    a = draw.normal(N, d)
    views = unit(a), unit(a + 0.7 * draw.normal(N, d))
    if scale is not None:
        views = tuple(scale * x * (2 * draw.normal(N, 1)).exp() for x in views)
    return *views, temperature


def _strangers(draw: Draw) -> list[Call]:
    """Views that are not near their partners, at a τ at which exp(1 / τ) is infinite."""
    d = draw.sizes(1)[0] + 1
    return [(unit(draw.normal(7, d)), unit(draw.normal(7, d)), 0.004)]


def _with_zeros(draw: Draw) -> list[Call]:
    a, b, temperature = _pairs(draw, 5, 0.5)
    a[1], b[3] = 0.0, 0.0
    return [(a, b, temperature)]


exercise = Exercise(
    id="16.2",
    title="NT-Xent",
    reference=nt_xent,
    properties=(
        runs_on(lambda draw: [_pairs(draw, 3)]),
        has_shape("One number.", lambda draw: [_pairs(draw, 3)]),
        Property("one pair", "A single pair has no negatives: the loss is 0.", lambda draw: [_pairs(draw, 1)], points=2),
        Property(
            "negatives",
            "Each view classifies its partner among all views but itself; the mean is over the 2N views.",
            lambda draw: [_pairs(draw, 2), _pairs(draw, 7)],
            points=3,
        ),
        Property(
            "temperature",
            "The cosines are divided by τ.",
            lambda draw: [_pairs(draw, 5, 0.1), _pairs(draw, 3, 2.5)],
            points=2,
            needs=("negatives",),
        ),
        Property(
            "lengths",
            "Only directions count.",
            lambda draw: [_pairs(draw, 5, 0.5, 1.0), _pairs(draw, 3, 0.5, 100.0)],
            points=3,
            needs=("negatives",),
        ),
        Property("no direction", "A zero vector has cosine 0 with every vector.", _with_zeros, needs=("lengths",)),
        Property(
            "sharp",
            "Where exp(1 / τ) overflows, the loss stays right.",
            _strangers,
            needs=("temperature",),
        ),
        has_gradient(lambda draw: [_pairs(draw, 5, 0.5, 1.0)], needs=("lengths",)),
        leaves_inputs(lambda draw: [_pairs(draw, 5, 0.5, 1.0)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only a size or the device is read, and these are the same for every input.": (
            "drop keyword: itself = torch.eye(2 * N, dtype=torch.bool)",
            "drop keyword: torch.arange(2 * N).roll",
            "detach: len(a.detach())",
            "other name: len(b)",
            "detach: z.detach().device",
            "other name: similarity.device",
            "other name: a.device",
            "other name: b.device",
            "detach: z.detach().device (2)",
            "other name: itself.device (2)",
            "other name: similarity.device (2)",
            "other name: a.device (2)",
            "other name: b.device (2)",
        ),
        "A tensor of integers or of bools carries no gradient.": (
            "detach: F.cross_entropy(similarity.masked_fill(itself, -torch.inf), partner.detach())",
            "detach: similarity.masked_fill(itself.detach(), -torch.inf)",
        ),
        "The loss does not change when the two views change places.": ("swap elements: torch.cat([b, a])",),
    },
    hints=HINTS,
    forbids={
        lean_nt_xent: "write the similarities and the cross-entropy yourself.",
    },
)
