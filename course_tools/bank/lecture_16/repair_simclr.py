"""Build task 16.8, repair_simclr: a run of SimCLR with three planted faults; what students hand in."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import colour_matrix, recolour
from course_lib.fast import lean_nt_xent
from course_lib.losses import nt_xent
from course_lib.models import SimCLR
from course_tools.bank import training_loops as loops
from course_tools.bank.lecture_16.train_simclr import (
    SECONDS,
    contrast,
    ends_at_a_guess,
    hardly_uses_the_cosines,
    has_no_negatives,
    one_view_after_the_other,
    reads_equal_views,
    reads_other_pictures,
    reads_the_same_views,
    returns_the_projection,
    score,
    submit,
    two_views,
    without_modules,
)
from course_tools.bank.lecture_16.train_simclr import exercise as simclr_from_an_empty_cell
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Exercise, Training

wrong = loops.Submissions(
    __name__,
    submit,
    example="sticker",
    model="encoder",
    results="features",
    rates="Set it back to 0.003.",
    batch="views",
    new="new stickers",
    also=", with two new views of each",
)
right = Answers([one_view_after_the_other, without_modules])

HINTS = (
    (
        "Do not read the code first; measure. Which weights are changed by an update? Subtract the two views of a sticker: how "
        "far apart are they? What is the loss at the end, beside that of a guess, log 63?"
    ),
    (
        "One fault is in the views: how often is the transformation drawn for a sticker? One is in the optimizer: what does it "
        "hold? One is in the loss: the first 32 rows of `z` are the first views. Which row is the partner of row 0?"
    ),
    (
        "Draw the transformation anew for the second view: one call makes one view. Add the weights of the head to "
        "those of the encoder, in one list for the optimizer. The views of sticker i are in rows i and i + 32, so the "
        "target of each row lies 32 rows further, modulo 64."
    ),
)


def repair_simclr(images: Tensor, n_steps: int) -> nn.Module:
    """Train an encoder by SimCLR on unlabelled stickers, and return it without its head: the run above, repaired.

    The encoder maps images (B, 3, 12, 12) to features (B, 64).

    Args:
        images: stickers without labels, (N, 3, 12, 12), colours from -1 to 1.
        n_steps: updates that the training may make.

    Returns:
        the trained encoder, ready to use: the features of a sticker do not depend on the other stickers of the batch.
    """

    def view(batch):
        angle, shear, zoom, right, down, brightness, saturation, hue = torch.empty(8, len(batch)).uniform_(-1, 1)
        cos, sin = (0.15 * angle).cos(), (0.15 * angle).sin()
        rows = torch.stack([cos, 0.1 * shear - sin, 0.1 * right, sin, cos, 0.1 * down], dim=1).view(-1, 2, 3)
        grid = F.affine_grid(rows * 1.15 ** zoom[:, None, None], list(batch.shape), align_corners=False)
        negative = 1 - 2 * torch.randint(2, (len(batch), 1, 1))
        colours = negative * colour_matrix(1.5**brightness, 1 + 0.6 * saturation, math.pi * hue)
        return recolour(F.grid_sample(batch, grid, align_corners=False), colours)

    def convolution(d_in, d_out, stride):
        return nn.Conv2d(d_in, d_out, 3, stride, padding=1, bias=False), nn.BatchNorm2d(d_out), nn.ReLU()

    encoder = nn.Sequential(
        *convolution(3, 32, 2), *convolution(32, 64, 1), *convolution(64, 64, 2), nn.AdaptiveMaxPool2d(1), nn.Flatten()
    )
    head = nn.Sequential(
        nn.Linear(64, 128, bias=False), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 32, bias=False), nn.BatchNorm1d(32)
    )
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=3e-3)
    itself = torch.eye(64, dtype=torch.bool)
    partner = torch.arange(64).roll(32)
    for _ in range(n_steps):
        batch = images[torch.randint(len(images), (32,))]
        views = torch.cat([view(batch), view(batch)])
        z = F.normalize(head(encoder(views)), dim=1)
        loss = F.cross_entropy((z @ z.mT / 0.2).masked_fill(itself, -torch.inf), partner)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return encoder.eval()


@wrong(proof=trained.both(reads_equal_views, trained.no_weight_is_stepped))
def three_faults(images, n_steps):
    """The check measured two faults. The two views that the encoder reads of a sticker are the same picture. And none of the
    weights of the encoder is ever updated: the optimizer does not hold them. These two may hide a third: repair them, and run
    the check again."""

    def view(batch):
        angle, shear, zoom, right, down, brightness, saturation, hue = torch.empty(8, len(batch)).uniform_(-1, 1)
        cos, sin = (0.15 * angle).cos(), (0.15 * angle).sin()
        rows = torch.stack([cos, 0.1 * shear - sin, 0.1 * right, sin, cos, 0.1 * down], dim=1).view(-1, 2, 3)
        grid = F.affine_grid(rows * 1.15 ** zoom[:, None, None], list(batch.shape), align_corners=False)
        negative = 1 - 2 * torch.randint(2, (len(batch), 1, 1))
        colours = negative * colour_matrix(1.5**brightness, 1 + 0.6 * saturation, math.pi * hue)
        return recolour(F.grid_sample(batch, grid, align_corners=False), colours)

    def convolution(d_in, d_out, stride):
        return nn.Conv2d(d_in, d_out, 3, stride, padding=1, bias=False), nn.BatchNorm2d(d_out), nn.ReLU()

    encoder = nn.Sequential(
        *convolution(3, 32, 2), *convolution(32, 64, 1), *convolution(64, 64, 2), nn.AdaptiveMaxPool2d(1), nn.Flatten()
    )
    head = nn.Sequential(
        nn.Linear(64, 128, bias=False), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 32, bias=False), nn.BatchNorm1d(32)
    )
    optimizer = torch.optim.Adam(head.parameters(), lr=3e-3)
    itself = torch.eye(64, dtype=torch.bool)
    partner = torch.arange(64) ^ 1
    for _ in range(n_steps):
        batch = view(images[torch.randint(len(images), (32,))])
        views = torch.cat([batch, batch])
        z = F.normalize(head(encoder(views)), dim=1)
        loss = F.cross_entropy((z @ z.mT / 0.2).masked_fill(itself, -torch.inf), partner)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return encoder.eval()


SAYS = {name: text for name, text in loops.REPAIR.items() if name != "optimizer_of_another_model"}
wrong.loop_mistakes(trained.fails(score), trained.fails(score), SAYS, same=reads_the_same_views)


@wrong(proof=reads_other_pictures)
def training_mode_left_on(*data):
    """The features of a sticker now depend on the others of its batch: batch normalisation uses the mean and variance of the
    batch. The run of the task returned `encoder.eval()`; keep that."""
    return submit(data, 1.0, left_on=True)


@wrong(proof=returns_the_projection)
def projection_returned(*data):
    """You return 32 numbers for each sticker: the head is now part of what you return. The run of the task returned the encoder
    alone, and this was right: it gives 64 features."""
    return submit(data, 1.0, returned=nn.Sequential)


@wrong(proof=trained.no_weight_is_stepped)
def encoder_still_left_out(*data):
    """None of the weights of the encoder was updated: no optimizer holds them. Give it both,
    `[*encoder.parameters(), *head.parameters()]`."""
    return submit(data, held=lambda encoder, head: head.parameters())


@wrong(proof=trained.weights_left_out)
def head_left_out(*data):
    """A part of what you train through is in no optimizer and stays as it was drawn: the projection head, probably. The run of
    the task trained it; the encoder was missing. The optimizer needs the weights of both."""
    return submit(data, 1.0, held=lambda encoder, head: encoder.parameters())


@wrong.change("views", trained.both(reads_equal_views, trained.fails(score)))
def views_still_equal(images):
    """The two views that the encoder reads of a sticker are still the same picture: the transformation is drawn once for both,
    or not at all. Draw it once for each view."""
    a, _ = two_views(images)
    return a, a


@wrong(proof=trained.both(has_no_negatives, trained.fails(score)))
def negatives_removed(*data):
    """The negatives were no fault, and now they are missing: the loss begins below a guess among the other views, and equal
    projections of all stickers would make it the smallest. Keep the cross-entropy over the row of similarities, and repair the
    partners."""
    return submit(data, loss=lambda a, b: -F.cosine_similarity(a, b).mean())


@wrong.change("loss", trained.both(ends_at_a_guess, trained.fails(score)))
def partners_still_wrong(a, b):
    """The loss ends where a guess is, at log(2N - 1). Either the partners are still wrong: with all first views before all
    second ones, the partner of row i is row i + N, modulo 2N. Or all projections are equal; print their standard deviation."""
    z = F.normalize(torch.cat([a, b]), dim=1)
    scores = (z @ z.mT / 0.2).masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
    return F.cross_entropy(scores, torch.arange(len(z)) ^ 1)


@wrong(proof=hardly_uses_the_cosines)
def temperature_too_large(*data):
    """The temperature was no fault, and now it is one: the encoder separates the stickers, and the loss stays near that of a
    guess. Divide the similarities by 0.2 again."""
    return submit(data, 1.0, loss=partial(contrast, temperature=10.0))


exercise = Exercise(
    id="16.8",
    title="Repair a run of SimCLR that does not train",
    extra=True,
    reference=repair_simclr,
    properties=simclr_from_an_empty_cell.properties,
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={
        SimCLR: "repair the run that is given.",
        nt_xent: "repair the loss that is given.",
        lean_nt_xent: "repair the loss that is given.",
    },
    training=Training(simclr_from_an_empty_cell.training.questions, SECONDS),
)
