"""Evidence about an image classifier that mixes patches: what it is asked, and what its answers show.

The returned model is called on held-out images, whose labels are never sent to it, also with replaced or moved patches. Its
loss is compared with that of the class frequencies.
"""

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from course_tools.bank import training_loops as loops
from course_tools.checks.exercise import Draw, Property, Truth
from course_tools.checks.trained import (
    Judge,
    does_not_attend,
    each_alone,
    every,
    fault_of_logits,
    has_no_attention,
    holds,
    is_near,
    loss_falls,
    makes_updates,
    probe_of,
    reads_other_examples,
    shown,
    sound_training,
)
from course_tools.checks.training_record import Measured

N_FEW, FINEST = 16, 24
"""Images that are asked about alone, and most rows of an image whose pixels are changed one after the other."""
UNMOVED = 1e-6
"""Largest relative change of a logit that is attributed to rounding."""
GAIN = 1.0
"""Nats by which the loss must be below that of the class frequencies; unreachable if probabilities are used as logits."""
FALLS = 0.1
"""Required relative decrease of the loss; even with constant weights, tenths of 40 updates differ by a few percent."""


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
    return -(torch.bincount(labels) / len(labels)).log()[held_out].mean().item()


def held_out_loss(measured: Measured, truth: Truth) -> float:
    """The mean loss on held-out images, in nats."""
    return F.cross_entropy(measured.outputs[0].float(), truth["labels"]).item()


def fault_of_classes(
    outputs: Sequence[Tensor],
    sizes: Sequence[int],
    image: tuple[int, int, int],
    n_classes: int,
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
    if patches_overlap(measured, truth):
        return "The patches overlap: some pixels belong to several tokens."
    return "The pixels of a token are no square patch." if reads_no_squares(measured, truth) else None


def _order(measured: Measured, truth: Truth) -> str | None:
    if ignores_the_order(measured, truth):
        return "The logits do not change if the four quarters of an image change places, each with its patches."
    return None


def _mixes(measured: Measured, truth: Truth) -> str | None:
    if adds_up_patches(measured, truth):
        return "Replacing a quarter of the patches changes the logits by an amount that is independent of the opposite quarter."
    if weighs_over_the_queries(measured, truth):
        return "The weights that multiply the values sum to 1 over the queries, and not over the keys."
    if has_no_attention(measured, truth):
        return "No values are multiplied by weights that depend on the image and sum to 1 over the keys."
    if does_not_attend(measured, truth):
        return "With equal weights in place of attention weights, the logits stay the same."
    return None


def learns(measured: Measured, truth: Truth) -> str | None:
    """Require a loss that is 1 nat below that of the class frequencies."""
    loss, wanted = held_out_loss(measured, truth), truth["frequencies"] - GAIN
    if loss <= wanted:
        return None
    return f"On held-out images its loss is {loss:.2f} nats; that of a guess is {truth['frequencies']:.2f}."


MIXES_PATCHES = (
    shown(
        "patches",
        "Each token is a square patch without overlap, and every patch influences the logits.",
        every(every_patch, _squares),
    ),
    shown("order", "The logits depend on the position of a patch.", _order),
    shown("attention", "Tokens attend to each other, with weights that depend on their content.", _mixes, 2),
)


def properties(
    seconds: float,
    most_parameters: int,
    model: tuple[str, Judge],
    score: tuple[str, Judge],
) -> tuple[Property, ...]:
    """Make the properties of an image classifier: 12 points, of which an untrained model earns at most four.

    `model` is the law and the judge of the form of the results, `score` that of the accuracy.
    """
    return (
        *sound_training(seconds, most_parameters, model, every(makes_updates, loss_falls(by=FALLS, unless=learns))),
        shown("batch", "The logits of an image do not depend on the other images of its batch.", each_alone("images")),
        *MIXES_PATCHES,
        shown("learns", "On held-out images the loss is 1 nat below that of a guess.", learns),
        holds("score", *score, 1, ("learns",)),
    )


def _influences(measured: Measured) -> Tensor:
    """The largest change of a logit if a patch is replaced, relative to the largest logit, (16,)."""
    plain, *replaced = measured.outputs[3].double().chunk(17)
    return (torch.stack(replaced) - plain).abs().amax((1, 2)) / plain.abs().max().clamp(min=1e-12)


def reads_no_squares(measured: Measured, truth: Truth) -> bool:
    """Evidence: the values that the attention mixes belong to other groups of pixels than squares."""
    changes, rows = _changes_of_values(measured, truth), min(truth["held out"].shape[-1], FINEST)
    if not len(changes):
        return False
    token = changes.argmax(-1).reshape(rows, rows)
    return not any(is_cut_into(token, P) for P in range(2, rows // 2 + 1) if rows % P == 0)


def patches_overlap(measured: Measured, truth: Truth) -> bool:
    """Evidence: the values that the attention mixes belong to squares of pixels, cut off by the border or not, that overlap."""
    changes, rows = _changes_of_values(measured, truth), min(truth["held out"].shape[-1], FINEST)
    if not len(changes) or reads_other_examples(measured, truth):
        return False
    reads = (changes > 1e-3 * changes.amax(-1, keepdim=True)).mT.reshape(-1, rows, rows)
    reads = reads[reads.flatten(1).any(-1)]
    heights, widths = reads.any(2).sum(-1), reads.any(1).sum(-1)
    filled = bool((reads.flatten(1).sum(-1) == heights * widths).all())
    return filled and bool(heights.max() == widths.max() < rows) and bool((reads.sum(0) > 1).any())


def _changes_of_values(measured: Measured, truth: Truth) -> Tensor:
    """How much the values of each token change with each pixel, or block of pixels, (S², T); empty if they are not known."""
    values = probe_of(measured, 1).values
    known = len(values) == 1 + min(truth["held out"].shape[-1], FINEST) ** 2
    return (values[1:] - values[0]).abs().sum(-1) if known else torch.zeros(0)


def is_cut_into(token: Tensor, P: int) -> bool:
    """Whether the number of the token of each pixel (S, S) is the same in each square of P × P pixels, and no two share one."""
    squares = token.unfold(0, P, P).unfold(1, P, P).flatten(2)
    return bool((squares == squares[..., :1]).all()) and len(squares[..., 0].unique()) == (len(token) // P) ** 2


def misses_patches(measured: Measured, truth: Truth) -> bool:
    """Evidence: some patches have no influence, others a large one."""
    influences = _influences(measured)
    return bool(influences.min() < UNMOVED) and bool(influences.max() > 0.01)


def reads_every_patch(measured: Measured, truth: Truth) -> bool:
    """Evidence: every patch has an influence on the logits."""
    return every_patch(measured, truth) is None


def reads_no_patch(measured: Measured, truth: Truth) -> bool:
    """Evidence: whatever an image shows, the logits are the same."""
    logits = measured.outputs[0]
    return bool(_influences(measured).max() < UNMOVED) and is_near(logits, logits[:1].expand_as(logits), tolerance=UNMOVED)


def embeds_other_images(measured: Measured, truth: Truth) -> bool:
    """Evidence: the same image, first in both probes, is embedded otherwise among other images: not at the same place."""
    one, other = (probe_of(measured, i).embedded[:1] for i in range(2))
    return one.numel() > 0 and one.shape == other.shape and not is_near(one, other)


def weighs_over_the_queries(measured: Measured, truth: Truth) -> bool:
    """Evidence: weights that depend on the image sum to 1 over the queries, and none over the keys."""
    _, over_keys, over_queries = probe_of(measured).counts.tolist()
    return over_keys == 0 < over_queries


def layers_are_side_by_side(measured: Measured, truth: Truth) -> bool:
    """Evidence: several attentions are computed, and no chain of nonlinear operations leads through more than one layer.

    A layer has three of them, two norms and a nonlinearity; before the logits there may be one more.
    """
    shown = probe_of(measured)
    return int(shown.counts[1]) > 1 and int(shown.depth) < 3 * int(shown.counts[1])


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
    return adds_up_patches(measured, truth) and reads_every_patch(measured, truth)


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


def has_learned_nothing(measured: Measured, truth: Truth) -> bool:
    """Evidence: the loss is that of an untrained model."""
    return held_out_loss(measured, truth) > truth["frequencies"] - 0.15


def submission(small, lr=5e-3, usual=1.0):
    """Make the `submit` of a task: it trains `small(n_classes)` on the images, with a change."""

    def submit(data, part=usual, model=small, lr=lr, in_order=False, shuffled=None, **change):
        *examples, n_classes, n_steps = data
        examples = shuffled(*examples) if shuffled else examples
        batches = loops.in_given_order(examples)
        batch = partial(next, batches) if in_order else partial(loops.drawn_examples, examples)
        return loops.train(partial(model, n_classes), part * n_steps, batch, lr=lr, **change)

    return submit
