"""Build task 13.7, train_mixing_rival: a control for the Mixer without token mixing; what students hand in, wrong and right.

A picture is 49 patches of 4 × 4 pixels. Two questions are asked of it: which digit it shows, and whether it has a fine grain,
which every patch shows by itself.
"""

from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import mnist
from course_tools.bank import controls
from course_tools.bank import training_loops as loops
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, N_STEPS, BATCH_SIZE, LR = 60.0, 300, 64, 8e-3
N_PATCHES, N_PIXELS, N_DIGITS, N_ANSWERS = 49, 16, 10, 12
N_TRAIN, N_HELD_OUT, N_ALONE = 4000, 500, 16
GRAIN = 0.2

HINTS = (
    (
        "Two things distinguish a Mixer from a network on each patch alone: its patches exchange information, and each "
        "position has weights of its own, so that it knows where a patch is. Remove only the first. How can a network that "
        "processes each patch by itself know where the patch is?"
    ),
    (
        "Give each position its own embedding matrix, (49, 16, r), or add a vector of the position to each patch before a "
        "shared network. Then sum over the positions, with no nonlinearity after the sum."
    ),
    (
        "Each position multiplies its patch by a matrix of its own: in `torch.einsum` the letter of the positions is "
        "in all three terms, and that of the pixels in the first two. A GELU and a second product of this kind give "
        "12 numbers a position. The loss is the cross-entropy of the first ten logits plus that of the last two; Adam "
        "at 0.008, `n_steps` batches of 64; return the rival in evaluation mode."
    ),
)


class OneBlockMixer(nn.Module):
    """One Mixer block (pre-norm), the mean over the positions, and a linear read-out: ten digits, and grain or none."""

    def __init__(self, d=24, d_tokens=40, d_channels=48):
        super().__init__()
        self.embed, self.norms = nn.Linear(N_PIXELS, d), nn.ModuleList(nn.LayerNorm(d) for _ in range(3))
        self.tokens = nn.Sequential(nn.Linear(N_PATCHES, d_tokens), nn.GELU(), nn.Linear(d_tokens, N_PATCHES))
        self.channels = nn.Sequential(nn.Linear(d, d_channels), nn.GELU(), nn.Linear(d_channels, d))
        self.read_out = nn.Linear(d, N_ANSWERS)

    def forward(self, patches):
        x = self.embed(patches)
        x = x + self.tokens(self.norms[0](x).mT).mT
        x = x + self.channels(self.norms[1](x))
        return self.read_out(self.norms[2](x).mean(1))


class OnePatchAtATime(nn.Module):
    """A network of each position's own; what a wrong submission changes: its width, its dropout."""

    def __init__(self, d=5, dropout=0.0):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(N_PATCHES, N_PIXELS, d) / N_PIXELS**0.5)
        self.bias, self.dropout = nn.Parameter(torch.zeros(N_PATCHES, d)), nn.Dropout(dropout)
        self.read_out = nn.Parameter(torch.randn(N_PATCHES, d, N_ANSWERS) * 0.05)

    def forward(self, patches):
        hidden = F.gelu(torch.einsum("bnp,npr->bnr", self.dropout(patches), self.embed) + self.bias)
        return torch.einsum("bnr,nrk->bk", hidden, self.read_out)


loss_of = partial(controls.loss_of_two, N_DIGITS)
"""The cross-entropy of the digits plus that of the grain."""
scores_of = partial(controls.scores_of_two, N_DIGITS)
"""Measure the accuracies on digits and on the grain."""


submit = controls.submission(OnePatchAtATime, BATCH_SIZE, LR, loss_of)


def train_mixing_rival(patches: Tensor, labels: Tensor, n_parameters: int, n_steps: int) -> nn.Module:
    """Build a rival of the Mixer that mixes no tokens, train it, and return it.

    The rival maps patches (B, 49, 16) to logits (B, 12): ten of the digits, then two of the grain. They are a sum: each patch
    adds its own term, which depends on its position and not on the other patches.

    Args:
        patches: (N, 49, 16): for each picture its patches, row by row.
        labels: (N, 2), the digit (below 10) and whether there is grain (0 or 1).
        n_parameters: of the Mixer; the rival has as many, within five percent.
        n_steps: updates that the Mixer gets, with batches of 64 pictures; the rival gets as many.

    Returns:
        the trained rival, ready to predict: asked twice, it gives the same logits.
    """

    class Rival(nn.Module):
        def __init__(self, r=5):
            super().__init__()
            self.W_1 = nn.Parameter(torch.randn(49, 16, r) / 4)
            self.b_1 = nn.Parameter(torch.zeros(49, r))
            self.W_2 = nn.Parameter(torch.randn(49, r, 12) * 0.05)
            self.b_2 = nn.Parameter(torch.zeros(12))

        def forward(self, patches):
            hidden = F.gelu(torch.einsum("bnp,npr->bnr", patches, self.W_1) + self.b_1)
            return torch.einsum("bnr,nrk->bk", hidden, self.W_2) + self.b_2

    rival = Rival()
    optimizer = torch.optim.Adam(rival.parameters(), lr=8e-3)
    for _ in range(n_steps):
        rows = torch.randint(len(patches), (64,))
        logits, (digits, grain) = rival(patches[rows]), labels[rows].T
        loss = F.cross_entropy(logits[:, :10], digits) + F.cross_entropy(logits[:, 10:], grain)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return rival.eval()


@cache
def examples(seed: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Split the digits into (patches (N, 49, 16), labels (N, 2)) to learn from and unseen ones; half of them get a grain."""
    generator = torch.Generator().manual_seed(seed)
    images, digits = mnist()
    grain = torch.rand(len(images), generator=generator) < 0.5
    chequers = torch.arange(28)[:, None].add(torch.arange(28)) % 2 * 2.0 - 1
    pictures = images + GRAIN * grain[:, None, None, None] * chequers
    patches, labels = F.unfold(pictures, 4, stride=4).mT.contiguous(), torch.stack([digits, grain.long()], dim=1)
    order = torch.randperm(len(images), generator=generator)
    known, unseen = order[:N_TRAIN], order[N_TRAIN : N_TRAIN + N_HELD_OUT]
    return (patches[known], labels[known]), (patches[unseen], labels[unseen])


@cache
def _of_the_model(seed: int) -> tuple[int, controls.ClaimScores]:
    """Train the Mixer, and give its size and its scores."""
    known, unseen = examples(seed)
    return controls.of_the_model(lambda: submit((*known, 0, N_STEPS), model=OneBlockMixer), seed, unseen, scores_of)


def questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw the pictures to learn from, the size of the Mixer, and pictures whose patches are replaced in parts.

    The queries are: patches (500, 49, 16) · the last 16 of them · these with one half of the patches replaced, with the other,
    with both · with the upper 25 replaced, with the lower 24 · with the patches in another order.
    """
    seed = int(draw.integers(0, 2**20, 1))
    known, (patches, labels) = examples(seed)
    n_parameters, scores = _of_the_model(seed)
    base, half = patches[-N_ALONE:], draw.uniform(N_ALONE, N_PATCHES).argsort(1)[..., None] < N_PATCHES // 2
    upper = torch.arange(N_PATCHES)[:, None] <= N_PATCHES // 2
    changed = [torch.where(where, patches[:N_ALONE], base) for where in (half, ~half, half | True, upper, ~upper)]
    truth = {
        "inputs": patches,
        "labels": labels,
        "n_parameters": n_parameters,
        "n_updates": N_STEPS,
        "batch_size": BATCH_SIZE,
        "scores": scores,
        "guess": labels[:, 0].bincount().max().item() / len(labels),
    }
    shuffled = base[:, draw.uniform(N_PATCHES).argsort()]
    return ((*known, n_parameters, N_STEPS), [patches, base, *changed, shuffled]), truth


CLAIM = controls.Claim(
    ingredient="token mixing",
    model="the Mixer",
    question="digits",
    control="grain",
    score=lambda measured, truth: scores_of(measured.outputs[0], truth["labels"]),
)


def _model(measured: Measured, truth: Truth) -> str | None:
    for n, output in zip([len(truth["inputs"]), *[N_ALONE] * 7], measured.outputs, strict=True):
        if fault := trained.fault_of_logits(output, (n, N_ANSWERS), f"patches {(n, N_PATCHES, N_PIXELS)}"):
            return fault
    return None


def _information(measured: Measured, truth: Truth) -> str | None:
    if leaves_patches_out(measured, truth):
        return "When the upper or the lower half of the patches is replaced, the logits stay the same."
    if knows_no_positions(measured, truth):
        return "When the patches change places, the logits stay the same; the Mixer's logits change."
    return None


def _without(measured: Measured, truth: Truth) -> str | None:
    if controls.is_no_sum(measured, truth):
        return "What one half of the patches adds to the logits changes when the other half is replaced."
    return None


def leaves_patches_out(measured: Measured, truth: Truth) -> bool:
    """Evidence: replacing the upper or the lower half of the patches changes no logit."""
    return any(trained.is_near(measured.outputs[1], measured.outputs[i], tolerance=1e-6) for i in (5, 6))


def knows_no_positions(measured: Measured, truth: Truth) -> bool:
    """Evidence: the logits do not depend on the order of the patches."""
    return trained.is_near(measured.outputs[1], measured.outputs[7], tolerance=1e-5)


wrong = loops.Submissions(
    __name__,
    submit,
    model="the Mixer",
    also="; the Mixer is trained in the same way",
    control="It does not see the grain either",
    rates="at 0.008",
    examples="pictures",
    rows="patches",
    filling="they fill up the count and do nothing",
    instead="Make the parts that are used larger instead.",
)
controls.mistakes(wrong, CLAIM, partial(OnePatchAtATime, d=3), partial(OnePatchAtATime, d=8))


class _Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)


class _Picked(nn.Module):
    """A rival that reads its patches through a function."""

    def __init__(self, rival, through):
        super().__init__()
        self.rival, self.through = rival, through

    def forward(self, patches):
        return self.rival(self.through(patches))


@wrong(proof=trained.reads_other_examples)
def centred_over_the_batch(*data):
    """The rival reads the other pictures of its batch: alone, a picture gets different logits. Subtract no mean over the batch;
    a batch norm must use its running statistics when it is evaluated."""
    return submit(data, model=lambda: _Picked(OnePatchAtATime(), lambda patches: patches - patches.mean(0)))


@wrong(proof=controls.is_no_sum)
def tokens_still_mixed(*data):
    """The ingredient is still there: what one half of the patches adds to the logits depends on the other half. Either a layer
    still mixes positions (a matrix over the positions, a convolution, attention), or a nonlinearity follows the final sum over
    the positions, where the Mixer has only a linear read-out. Process each patch by itself, and only add up at the end."""
    return submit(data, model=OneBlockMixer)


@wrong(proof=leaves_patches_out)
def upper_half_only(*data):
    """The rival gets less information than the Mixer: replacing half of the picture changes no logit. If it fails, missing
    patches may be the cause. Let every patch add its term."""
    seen = (torch.arange(N_PATCHES) <= N_PATCHES // 2)[:, None]
    return submit(data, model=lambda: _Picked(OnePatchAtATime(), lambda patches: patches * seen))


@wrong(proof=knows_no_positions)
def a_bag_of_patches(*data):
    """Two ingredients were removed: the rival does not mix tokens, and it does not know where a patch is. If it fails, either
    may be the cause. The Mixer has weights of its own for each position; give the rival positions too, as weights of each
    position or as a vector that is added to the patch."""
    bag = nn.Linear(16, 72), nn.GELU(), nn.Linear(72, 70), nn.GELU(), nn.Linear(70, 12), _Mean()
    return submit(data, model=lambda: nn.Sequential(*bag))


@right
def one_linear_map(patches, labels, n_parameters, n_steps):
    """A linear classifier of low rank for each position, without any activation; AdamW on shuffled epochs."""

    class Rival(nn.Module):
        def __init__(self, r=5):
            super().__init__()
            self.down = nn.Parameter(torch.randn(49, 16, r) / 4)
            self.up, self.bias = nn.Parameter(torch.randn(49 * r, 12) * 0.02), nn.Parameter(torch.zeros(49, r))

        def forward(self, patches):
            return (torch.einsum("bnp,npr->bnr", patches, self.down) + self.bias).flatten(1) @ self.up

    rival = Rival()
    optimizer = torch.optim.AdamW(rival.parameters(), lr=8e-3)
    for inputs, targets in loops.epochs((patches, labels), n_steps, 64, drop_last=True):
        optimizer.zero_grad()
        logits = rival(inputs)
        (F.cross_entropy(logits[:, :10], targets[:, 0]) + F.cross_entropy(logits[:, 10:], targets[:, 1])).backward()
        optimizer.step()
    return rival.eval()


@right
def positions_added_to_a_shared_network(patches, labels, n_parameters, n_steps):
    """A network of three layers, the same at all positions, on patch plus position vector; the mean of what it gives. It is
    fair and weak: it loses to the Mixer and earns all points."""

    class Rival(nn.Module):
        def __init__(self, d=34, width=50):
            super().__init__()
            self.embed, self.positions = nn.Linear(16, d), nn.Parameter(torch.randn(49, d) / 2)
            self.hidden = nn.Sequential(nn.GELU(), nn.Linear(d, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
            self.head = nn.Linear(width, 12)

        def forward(self, patches):
            return self.head(self.hidden(self.embed(patches) + self.positions)).mean(1)

    rival = Rival()
    optimizer = torch.optim.Adam(rival.parameters(), lr=8e-3)
    for _ in range(n_steps):
        rows = torch.randperm(len(patches))[:64]
        optimizer.zero_grad()
        loss_of(rival(patches[rows]), labels[rows]).backward()
        nn.utils.clip_grad_norm_(rival.parameters(), 1.0)
        optimizer.step()
    rival.eval()
    return rival


exercise = Exercise(
    id="13.7",
    extra=True,
    title="A control for token mixing",
    reference=train_mixing_rival,
    properties=controls.properties(
        SECONDS,
        CLAIM,
        model=("It maps patches (B, 49, 16) to logits (B, 12).", _model),
        information=("It reads both halves of the patches, and knows where they are.", _information),
        without=("What a patch adds to the logits does not depend on the other patches.", _without),
        alone=("The logits of a picture do not depend on the other pictures of its batch.", trained.each_alone("pictures")),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    training=Training(questions, SECONDS, partial(controls.conclusion, CLAIM), "control"),
)
