"""Build tasks that train an image classifier: the data, the queries, and the evidence of mistakes.

The images are the handwritten digits of scikit-learn, 8 × 8 pixels, or the maps of lecture 11. The returned model is called on
held-out images, whose labels are never sent to it; a model that mixes patches, also on images with replaced or moved patches.
Its loss is compared with that of the class frequencies, on digits its accuracy with that of the nearest class mean.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.datasets import digits
from course_tools.bank import training_loops as loops
from course_tools.bank.language_models import gives_probabilities
from course_tools.checks.exercise import Call, Draw, Evidence, Property, Truth
from course_tools.checks.trained import (
    Judge,
    both,
    does_not_attend,
    each_alone,
    every,
    fault_of_logits,
    holds,
    is_near,
    loss_falls,
    makes_too_many_updates,
    makes_updates,
    probe_of,
    shown,
    sound_training,
)
from course_tools.checks.training_record import Measured

N_CLASSES, N_TRAIN, N_FEW = 10, 1_297, 16
SIDE, FINEST = 8, 24
"""Side of a digit in pixels, and most rows of an image whose pixels are changed one after the other."""
UNMOVED = 1e-6
"""Largest relative change of a logit that is attributed to rounding."""
GAIN = 1.0
"""Nats by which the loss must be below that of the class frequencies; unreachable if probabilities are used as logits."""
FALLS = 0.1
"""Required relative decrease of the loss; even with constant weights, tenths of 40 updates differ by a few percent."""


def drawn_digits(n_steps: int, draw: Draw) -> tuple[Tensor, Tensor, Tensor, Truth]:
    """Draw training digits, sorted by their labels, and held-out digits.

    Returns:
        training images (1297, 1, 8, 8) and labels (1297,) · held-out images (500, 1, 8, 8) · the truth about them.
    """
    images, labels = digits()
    order = draw.uniform(len(labels)).argsort()
    learn, held_out = order[:N_TRAIN], order[N_TRAIN:]
    learn = learn[labels[learn].argsort(stable=True)]
    images = images[:, None]
    asked = images[held_out]
    truth = {
        "labels": labels[held_out],
        "images": images[learn],
        "held out": asked,
        "n_steps": n_steps,
        "frequencies": loss_of_frequencies(labels[learn], labels[held_out]),
        "class means": _accuracy_of_class_means(images[learn], labels[learn], asked, labels[held_out]),
    }
    return images[learn], labels[learn], asked, truth


def questions(n_steps: int, draw: Draw) -> tuple[Call, Truth]:
    """Draw the training digits, and the queries about others for a model that mixes patches."""
    images, labels, asked, truth = drawn_digits(n_steps, draw)
    queries, probed = about_patches(asked, draw)
    return ((images, labels, N_CLASSES, n_steps), queries, (), probed), truth


def about_patches(asked: Tensor, draw: Draw) -> tuple[list[Tensor], list[Tensor]]:
    """Make the queries about held-out images (n, C, S, S) for a model that mixes patches, and what it is probed with.

    The queries are: the images · the last 16 of them · these with their quadrants in another order · these unchanged, then with
    each of 16 squares replaced in turn (272, C, S, S) · these with the first quadrant replaced, with the last one, and with
    both (48, C, S, S) · one image (1, C, S, S). The model is probed with the 16 images, and with one image, first as it is and
    then with 1 added to each of its pixels in turn (1 + S², C, S, S), or to each block of pixels where S is above 24.
    """
    few, S = asked[-N_FEW:], asked.shape[-1]
    other = draw.uniform(*few.shape)
    corners = [(0,), (3,), (0, 3)]
    places = [(row, column) for row in range(0, S, S // 4) for column in range(0, S, S // 4)]
    queries = [
        asked,
        few,
        _joined([_quadrant(few, k) for k in (3, 2, 0, 1)]),
        torch.cat([few, *(_with_square(few, other, row, column) for row, column in places)]),
        torch.cat([_joined([_quadrant(other if k in new else few, k) for k in range(4)]) for new in corners]),
        few[:1],
    ]
    rows = min(S, FINEST)
    blocks = torch.cat([torch.zeros(1, rows**2), torch.eye(rows**2)]).reshape(-1, 1, rows, rows)
    return queries, [few, few[:1] + F.interpolate(blocks, scale_factor=S // rows)]


def _quadrant(images: Tensor, k: int) -> Tensor:
    half = images.shape[-1] // 2
    row, column = k // 2 * half, k % 2 * half
    return images[..., row : row + half, column : column + half]


def _joined(quadrants: list[Tensor]) -> Tensor:
    return torch.cat([torch.cat(quadrants[:2], -1), torch.cat(quadrants[2:], -1)], -2)


def _with_square(images: Tensor, other: Tensor, row: int, column: int) -> Tensor:
    changed, side = images.clone(), images.shape[-1] // 4
    square = (..., slice(row, row + side), slice(column, column + side))
    changed[square] = other[square]
    return changed


def loss_of_frequencies(labels: Tensor, held_out: Tensor) -> float:
    """The loss of predicting the class frequencies, in nats."""
    return -(torch.bincount(labels, minlength=N_CLASSES) / len(labels)).log()[held_out].mean().item()


def _accuracy_of_class_means(images: Tensor, labels: Tensor, asked: Tensor, held_out: Tensor) -> float:
    """The accuracy of predicting the class with the nearest mean image."""
    means = torch.stack([images[labels == k].mean(0) for k in range(N_CLASSES)])
    return (torch.cdist(asked.flatten(1), means.flatten(1)).argmin(1) == held_out).float().mean().item()


def held_out_loss(measured: Measured, truth: Truth) -> float:
    """The mean loss on held-out images, in nats."""
    return F.cross_entropy(measured.outputs[0].float(), truth["labels"]).item()


def held_out_accuracy(measured: Measured, truth: Truth) -> float:
    """The accuracy on held-out images."""
    return (measured.outputs[0].argmax(-1) == truth["labels"]).float().mean().item()


def fault_of_classes(
    outputs: Sequence[Tensor],
    sizes: Sequence[int],
    image: tuple[int, int, int] = (1, SIDE, SIDE),
    n_classes: int = N_CLASSES,
) -> str | None:
    """Say what is wrong with the logits for batches of these sizes; None if nothing is."""
    for n, output in zip(sizes, outputs, strict=True):
        if fault := fault_of_logits(output, (n, n_classes), f"images {(n, *image)}"):
            return fault
        if not output.isfinite().all():
            return "Some logits are infinite or NaN."
    return None


def every_patch(measured: Measured, truth: Truth) -> str | None:
    """Require that every patch influences the logits."""
    n = int((_influences(measured) < UNMOVED).sum())
    side = truth["held out"].shape[-1] // 4
    return f"{n} of the 16 patches of {side} × {side} pixels can be replaced without changing the logits." if n else None


def _squares(measured: Measured, truth: Truth) -> str | None:
    return "The pixels of a token are no square patch." if reads_no_squares(measured, truth) else None


def _order(measured: Measured, truth: Truth) -> str | None:
    if ignores_the_order(measured, truth):
        return "The logits do not change if the four quadrants of an image are permuted."
    return None


def _mixes(measured: Measured, truth: Truth) -> str | None:
    if adds_up_patches(measured, truth):
        return "Replacing a quadrant changes the logits by an amount that is independent of the opposite quadrant."
    if does_not_attend(measured, truth):
        return "With equal weights in place of attention weights, the logits stay the same."
    return None


def learns(measured: Measured, truth: Truth) -> str | None:
    """Require a loss that is 1 nat below that of the class frequencies, learned from other images than the held-out ones."""
    if reads_held_out_images(measured, truth):
        return "In training, the model read images that are held out."
    loss, wanted = held_out_loss(measured, truth), truth["frequencies"] - GAIN
    if loss <= wanted:
        return None
    return f"On held-out images its loss is {loss:.2f} nats; that of the class frequencies is {truth['frequencies']:.2f}."


def _score(measured: Measured, truth: Truth) -> str | None:
    accuracy, wanted = held_out_accuracy(measured, truth), truth["class means"]
    if accuracy > wanted:
        return None
    return f"On held-out images its accuracy is {accuracy:.3f}; that of the nearest class mean is {wanted:.3f}."


SQUARE_PATCHES = "Each token is a square patch, and every patch influences the logits."
MIXES_PATCHES = (
    shown("patches", SQUARE_PATCHES, every(every_patch, _squares)),
    shown("order", "The logits depend on the position of a patch.", _order),
    shown("attention", "Tokens attend to each other, with weights that depend on their content.", _mixes, 2),
)
BEATS_CLASS_MEANS = ("On held-out images the accuracy is above that of the nearest class mean.", _score)


def properties(
    seconds: float,
    most_parameters: int,
    model: tuple[str, Judge],
    mixing: tuple[Property, ...] = MIXES_PATCHES,
    score: tuple[str, Judge] = BEATS_CLASS_MEANS,
) -> tuple[Property, ...]:
    """Make the properties of an image classifier: 12 points, of which an untrained model earns at most four.

    `model` is the law and the judge of the form of the results, `score` that of the accuracy; `mixing` has four points.
    """
    return (
        *sound_training(seconds, most_parameters, model, every(makes_updates, loss_falls(by=FALLS, unless=learns))),
        shown("batch", "The logits of an image do not depend on the other images of its batch.", each_alone("images")),
        *mixing,
        shown("learns", "On held-out images the loss is 1 nat below that of the class frequencies.", learns),
        holds("score", *score, 1, ("learns",)),
    )


def _influences(measured: Measured) -> Tensor:
    """The largest change of a logit if a patch is replaced, relative to the largest logit, (16,)."""
    plain, *replaced = measured.outputs[3].double().chunk(17)
    return (torch.stack(replaced) - plain).abs().amax((1, 2)) / plain.abs().max().clamp(min=1e-12)


def reads_no_squares(measured: Measured, truth: Truth) -> bool:
    """Evidence: the values that the attention mixes belong to other groups of pixels than squares."""
    values, rows = probe_of(measured, 1).values, min(truth["held out"].shape[-1], FINEST)
    if len(values) != 1 + rows**2:
        return False
    token = (values[1:] - values[0]).abs().sum(-1).argmax(-1).reshape(rows, rows)
    return not any(is_cut_into(token, P) for P in range(2, rows // 2 + 1) if rows % P == 0)


def is_cut_into(token: Tensor, P: int) -> bool:
    """Whether the number of the token of each pixel (S, S) is the same in each square of P × P pixels, and no two share one."""
    squares = token.unfold(0, P, P).unfold(1, P, P).flatten(2)
    return bool((squares == squares[..., :1]).all()) and len(squares[..., 0].unique()) == (len(token) // P) ** 2


def misses_patches(measured: Measured, truth: Truth) -> bool:
    """Evidence: some patches have no influence, others a large one."""
    influences = _influences(measured)
    return bool(influences.min() < UNMOVED) and bool(influences.max() > 0.01)


def ignores_the_order(measured: Measured, truth: Truth) -> bool:
    """Evidence: the logits do not change if the quadrants of an image are permuted."""
    return is_near(measured.outputs[1], measured.outputs[2], tolerance=1e-5)


def adds_up_patches(measured: Measured, truth: Truth) -> bool:
    """Evidence: with two quadrants replaced, the logits change by the sum of both changes, up to rounding.

    Compared with the changes and not with the logits: a model that has learned little changes little.
    """
    plain = measured.outputs[1].double()
    first, last, both = (output - plain for output in measured.outputs[4].double().chunk(3))
    change = max(float(first.abs().max()), float(last.abs().max()))
    return bool((both - first - last).abs().max() <= max(1e-5 * change, 1e-6 * float(plain.abs().max())))


def is_a_sum_over_patches(measured: Measured, truth: Truth) -> bool:
    """Evidence: every patch has an influence on the logits, and the same whatever others show."""
    return adds_up_patches(measured, truth) and every_patch(measured, truth) is None


def reads_in_order(measured: Measured, truth: Truth) -> bool:
    """Evidence: the model read the training images in the given order, up to their scale."""
    if not all(batch.ndim > 1 for batch in measured.read):
        return False
    images, pairs, n = truth["images"].flatten(1), [], 0
    for rows in (batch.flatten(1) for batch in measured.read):
        known = images[n : n + len(rows), :: max(round(images.shape[1] / rows.shape[1]), 1)]  # the record thins large batches
        pairs.append(torch.stack([rows[: len(known)].double().mean(1), known.double().mean(1)]))
        n += len(rows)
    pairs = torch.cat(pairs, 1) if pairs else torch.zeros(2, 0)
    return pairs.shape[1] > 1 and bool(torch.corrcoef(pairs)[0, 1] > 0.999)


def reads_held_out_images(measured: Measured, truth: Truth) -> bool:
    """Evidence: an image that the model read in training is a held-out one, up to its brightness and contrast."""
    batches = [batch.flatten(1) for batch in measured.read if batch.ndim > 1 and batch.is_floating_point()]
    read = [_standardised(rows) for rows in batches if rows.shape[1] == SIDE**2]
    return bool(read) and bool((torch.cat(read) @ _standardised(truth["held out"].flatten(1)).mT).max() > 0.9999)


def _standardised(rows: Tensor) -> Tensor:
    return F.normalize(rows.double() - rows.double().mean(1, keepdim=True), dim=1)


def has_learned_nothing(measured: Measured, truth: Truth) -> bool:
    """Evidence: the loss is that of an untrained model."""
    return held_out_loss(measured, truth) > truth["frequencies"] - 0.15


def predicts_the_frequencies(measured: Measured, truth: Truth) -> bool:
    """Evidence: many updates moved the weights, and the loss is that of the class frequencies."""
    return (
        measured.n_updates >= 50 and measured.moved > 0.05 and abs(held_out_loss(measured, truth) - truth["frequencies"]) < 0.15
    )


def fails_to_learn(measured: Measured, truth: Truth) -> bool:
    """Evidence: loss or accuracy is worse than required."""
    return learns(measured, truth) is not None or _score(measured, truth) is not None


def submission(small, lr=5e-3, usual=1.0):
    """Make the `submit` of a task: it trains `small(n_classes)` on the images, with a change."""

    def submit(data, part=usual, model=small, lr=lr, in_order=False, shuffled=None, **change):
        *examples, n_classes, n_steps = data
        examples = shuffled(*examples) if shuffled else examples
        batches = loops.in_given_order(examples)
        batch = partial(next, batches) if in_order else partial(loops.drawn_examples, examples)
        return loops.train(partial(model, n_classes), part * n_steps, batch, lr=lr, **change)

    return submit


WORDS = {"learned": "these few images", "new": "others", "falls": "cannot fall below 1.46"}


def loop_mistakes(
    wrong: loops.Submissions, says: Mapping[str, str], fails: Evidence = fails_to_learn, part: float = 0.5, **how: float
) -> None:
    """Add the mistakes of any training loop, and that of examples in the given order."""
    wrong.loop_mistakes(fails, has_learned_nothing, says, part, probabilities=gives_probabilities, **how)

    @wrong(proof=both(reads_in_order, fails))
    def without_shuffling(*data):
        """You read the images in the order in which they are given, sorted by their labels: each batch shows one or two
        classes, and the model forgets the others. Draw the images of each batch at random."""
        return wrong.submit(data, part, in_order=True)


LABELS = (
    "The model is trained in a sound way and still predicts little more than how often each class occurs, as if the labels did "
    "not belong to the images. Do you take `images[which]` and `labels[which]` with the same `which`? Print a batch.{advice}"
)


def data_mistakes(wrong: loops.Submissions) -> None:
    """Add the mistakes of epochs counted as updates, of labels of other images, and of reading the held-out images."""

    @wrong.change("shuffled", reads_held_out_images, part=0.5)
    def all_digits_of_the_file(images, labels):
        """Your model learned from images that are held out, so that what it scores on them says nothing. Train it with the
        images that the function is given, and load no others."""
        from sklearn.datasets import load_digits

        found = load_digits()
        return torch.tensor(found.images / 16, dtype=torch.float32)[:, None], torch.tensor(found.target)

    @wrong(proof=makes_too_many_updates)
    def epochs_for_updates(*data):
        """You make more updates than `n_steps`. An update is one step of the optimizer; a pass over all images makes many."""
        return wrong.submit(data, 1.08)

    @wrong.change("shuffled", suspicion=predicts_the_frequencies, says=LABELS, part=0.5)
    def labels_of_other_images(images, labels):
        return images[torch.randperm(len(images))], labels[torch.randperm(len(labels))]
