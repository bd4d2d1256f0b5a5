"""Exercise 16.9, clip_loss: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.losses import clip_loss, nt_xent
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
        "Lay out a table with a row for each image and a column for each text, and write their cosine into each cell. "
        "Which cell of row i should be the largest of its row? And of column i?"
    ),
    (
        "The (N, N) cosines over τ are the logits of *two* classifications: each row asks for a text, each column for an "
        "image. In both, the right class of number i is i."
    ),
    (
        "`unit` of both, images times texts transposed, over τ. `F.cross_entropy` of this table and of its transpose, both "
        "with the classes 0 … N - 1; return the mean of the two."
    ),
)


def _logits(images, texts, temperature):
    return unit(images) @ unit(texts).mT / temperature


def _own(images):
    return torch.arange(len(images), device=images.device)


@wrong.part
def asks_the_images_alone(images, texts, temperature):
    """You ask each image for its text, and no text for its image: only the softmax over rows. The columns are a second
    classification."""
    return F.cross_entropy(_logits(images, texts, temperature), _own(images))


@wrong.part
def asks_the_texts_alone(images, texts, temperature):
    """You ask each text for its image, and no image for its text: only the softmax over columns. The rows are a second
    classification."""
    return F.cross_entropy(_logits(texts, images, temperature), _own(images))


@wrong.part
def compares_images_with_images(images, texts, temperature):
    """You use NT-Xent: there the other images are negatives of an image, and the other texts of a text. Here each image is
    compared with texts alone, N classes instead of 2N - 1."""
    return nt_xent(images, texts, temperature)


@wrong.idea
def pulls_partners_together_only(images, texts, temperature):
    """You only pull each image and its text together. Without other texts to compare with, equal vectors for all would be
    perfect."""
    return -(unit(images) * unit(texts)).sum(-1).mean() / temperature


@wrong.idea
def compares_without_lengths(images, texts, temperature):
    """You compare by dot products and leave out the lengths. The similarity is a cosine: divide by the lengths."""
    logits = images @ texts.mT / temperature
    return (F.cross_entropy(logits, _own(images)) + F.cross_entropy(logits.mT, _own(images))) / 2


@wrong.part
def normalises_the_images_alone(images, texts, temperature):
    """You give one side length 1, but not the other. Your product is the cosine times the length of the other vector."""
    logits = unit(images) @ texts.mT / temperature
    return (F.cross_entropy(logits, _own(images)) + F.cross_entropy(logits.mT, _own(images))) / 2


@wrong.idea
def normalises_each_feature(images, texts, temperature):
    """You divide each feature by its length over the batch. Each vector, one row, must have length 1."""
    logits = unit(images.mT).mT @ unit(texts.mT) / temperature
    return (F.cross_entropy(logits, _own(images)) + F.cross_entropy(logits.mT, _own(images))) / 2


@wrong.part
def forgets_the_temperature(images, texts, temperature):
    """You never divide by the temperature: cosines lie in -1…1, and without τ the softmax over them stays almost flat."""
    return clip_loss(images, texts, 1.0)


@wrong.part
def multiplies_by_the_temperature(images, texts, temperature):
    """You multiply the cosines by τ. Divide by τ: a small temperature makes the softmax sharper."""
    return clip_loss(images, texts, 1 / temperature)


@wrong.detail
def divides_both_sides_by_the_temperature(images, texts, temperature):
    """You divide both vectors by τ before multiplying them, so every cosine is divided by τ². The temperature belongs to the
    similarity, once."""
    return clip_loss(images, texts, temperature**2)


@wrong.detail
def adds_both_questions(images, texts, temperature):
    """You add the two cross-entropies. The loss is their mean, half of it."""
    return 2 * clip_loss(images, texts, temperature)


@wrong.detail
def adds_up_the_batch(images, texts, temperature):
    """You sum over the pairs. The loss is the mean over the batch, so that a step does not grow with the number of pairs."""
    return len(images) * clip_loss(images, texts, temperature)


@wrong.part
def competes_with_all_cells(images, texts, temperature):
    """You take one softmax over all N² cells of the table. Each row is a classification by itself, and each column."""
    logits = _logits(images, texts, temperature)
    return (logits.flatten().logsumexp(0) - logits.diagonal()).mean()


@wrong.case
def exponentiates_as_written(images, texts, temperature):
    """You take exp of the cosines over τ and then the log of a fraction. At a small τ the exponentials overflow and inf / inf
    is NaN; a cross-entropy or `logsumexp` subtracts the largest one first."""
    weights = _logits(images, texts, temperature).exp()
    shares = weights.diagonal() / weights.sum(1), weights.diagonal() / weights.sum(0)
    return -(shares[0].log() + shares[1].log()).mean() / 2


@wrong.case
def divides_by_the_bare_length(images, texts, temperature):
    """You divide by the plain norm, which is 0 for a zero vector: the loss is then NaN. `unit` leaves such a vector 0."""
    a, b = (x / x.norm(dim=-1, keepdim=True) for x in (images, texts))
    logits = a @ b.mT / temperature
    return (F.cross_entropy(logits, _own(images)) + F.cross_entropy(logits.mT, _own(images))) / 2


@wrong.detail
def multiplies_without_a_transpose(images, texts, temperature):
    """You multiply images and texts without a transpose. Each image meets each *text*: the product with the transposed texts,
    (N, N)."""
    logits = unit(images) @ unit(texts) / temperature
    return (F.cross_entropy(logits, _own(images)) + F.cross_entropy(logits.mT, _own(images))) / 2


@wrong.detail
def compares_row_with_row(images, texts, temperature):
    """You call F.cosine_similarity(images, texts): it compares row i with row i alone, N numbers. The table has all N² cosines:
    the normalised images times the normalised texts, transposed."""
    logits = F.cosine_similarity(images, texts) / temperature
    return (F.cross_entropy(logits, _own(images)) + F.cross_entropy(logits.mT, _own(images))) / 2


@right
def in_loops(images, texts, temperature):
    """One image and one text at a time, by the log of a softmax."""
    a, b = unit(images), unit(texts)
    total = 0.0
    for i in range(len(a)):
        total = total - (b @ a[i] / temperature).log_softmax(0)[i] - (a @ b[i] / temperature).log_softmax(0)[i]
    return total / (2 * len(a))


@right
def by_the_sums(images, texts, temperature):
    """The logs of the sums of rows and columns, minus the diagonal."""
    table = torch.einsum("id,jd->ij", unit(images), unit(texts)) / temperature
    return ((table.logsumexp(0) + table.logsumexp(1)) / 2 - table.diagonal()).mean()


@right
def both_questions_in_one_batch(images, texts, temperature):
    """Rows and columns stacked into one classification of 2N rows."""
    table = unit(images).double() @ unit(texts).double().mT / temperature
    classes = torch.arange(len(table), device=table.device).repeat(2)
    return F.cross_entropy(torch.cat([table, table.mT]), classes).to(images.dtype)


@stranger
def clip_loss_learns_from_the_images(images, texts, temperature):
    return clip_loss(images, texts.detach(), temperature)


@stranger
def clip_loss_shifts_the_names(images, texts, temperature):
    return clip_loss(images, texts.roll(1, 0), temperature)


@stranger
def clip_loss_takes_distances(images, texts, temperature):
    logits = -torch.cdist(unit(images), unit(texts)) / temperature
    own = torch.arange(len(images))
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.mT, own)) / 2


@stranger(makes=[asks_the_images_alone])
def clip_loss_of_rows_by_hand(images, texts, temperature):
    table = torch.einsum("id,jd->ij", F.normalize(images, dim=1), F.normalize(texts, dim=1)) / temperature
    return (table.logsumexp(1) - table.diagonal()).mean()


@stranger(makes=[asks_the_images_alone, compares_without_lengths])
def clip_loss_twice_wrong(images, texts, temperature):
    return F.cross_entropy(images @ texts.mT / temperature, torch.arange(len(images)))


def _pairs(draw: Draw, N: int, temperature: float = 1.0, scale: float | None = None) -> Call:
    """Images near their texts; of length 1, or, with a scale, of very different lengths."""
    d = draw.sizes(2)[1] + 1
    a = draw.normal(N, d)
    views = unit(a), unit(a + 0.7 * draw.normal(N, d))
    if scale is not None:
        views = tuple(scale * x * (2 * draw.normal(N, 1)).exp() for x in views)
    return *views, temperature


def _strangers(draw: Draw) -> list[Call]:
    """Images that are not near their texts, at a τ at which exp(1 / τ) is infinite."""
    d = draw.sizes(1)[0] + 1
    return [(unit(draw.normal(7, d)), unit(draw.normal(7, d)), 0.004)]


def _with_zeros(draw: Draw) -> list[Call]:
    a, b, temperature = _pairs(draw, 5, 0.5)
    a[1], b[3] = 0.0, 0.0
    return [(a, b, temperature)]


exercise = Exercise(
    id="16.9",
    title="The loss of CLIP",
    reference=clip_loss,
    extra=True,
    properties=(
        runs_on(lambda draw: [_pairs(draw, 3)]),
        has_shape("One number.", lambda draw: [_pairs(draw, 3)]),
        Property("one pair", "A single pair has no negatives: the loss is 0.", lambda draw: [_pairs(draw, 1)]),
        Property(
            "both questions",
            "Each image classifies the texts, each text the images; the mean is over all 2N.",
            lambda draw: [_pairs(draw, 2), _pairs(draw, 7)],
            points=4,
        ),
        Property(
            "temperature",
            "The cosines are divided by τ.",
            lambda draw: [_pairs(draw, 5, 0.1), _pairs(draw, 3, 2.5)],
            needs=("both questions",),
        ),
        Property(
            "lengths",
            "Only directions count.",
            lambda draw: [_pairs(draw, 5, 0.5, 1.0), _pairs(draw, 3, 0.5, 100.0)],
            points=2,
            needs=("both questions",),
        ),
        Property("no direction", "A zero vector has cosine 0 with every vector.", _with_zeros, needs=("lengths",)),
        Property("sharp", "Where exp(1 / τ) overflows, the loss stays right.", _strangers, needs=("temperature",)),
        has_gradient(lambda draw: [_pairs(draw, 5, 0.5, 1.0)], needs=("lengths",)),
        leaves_inputs(lambda draw: [_pairs(draw, 5, 0.5, 1.0)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only a size or the device is read, and these are the same for every input.": (
            "drop keyword: own = torch.arange(len(images))",
            "detach: len(images.detach())",
            "other name: len(similarity)",
            "other name: len(texts)",
            "detach: images.detach().device",
            "other name: similarity.device",
            "other name: texts.device",
        ),
        "A tensor of integers carries no gradient.": (
            "detach: F.cross_entropy(similarity, own.detach())",
            "detach: F.cross_entropy(similarity.mT, own.detach())",
        ),
    },
    hints=HINTS,
)
