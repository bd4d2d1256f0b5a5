"""Build task 09.7, train_reach_rival: a rival of the non-local block without attention; what students hand in.

A picture is a canvas of the lecture, averaged to 22 × 22 pixels: two digits, each a 0, a 1 or a 2, at opposite borders. Two
questions are asked of it: whether the digits are of one class, and whether a 0 occurs, for which no digits need be compared.

Attention is recognised by what it does to large inputs. Convolution, pooling and ReLU are Lipschitz, attention is not (Kim,
Papamakarios, Mnih 2021, *The Lipschitz Constant of Self-Attention*): products of features grow with a power of the input, and a
softmax of such products jumps from one position to another.
"""

from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import NonLocal, NonLocalBlock, associative_dot_product
from course_lib.blocks import ConvNet
from course_tools.bank import controls
from course_tools.bank import training_loops as loops
from course_tools.bank.drawn_digits import SIDE, Drawings, composed, pairs_of_kinds, stamp
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, N_STEPS, BATCH_SIZE, LR = 60.0, 600, 32, 1e-2
CANVAS, N_PIXELS, N_KINDS, N_ANSWERS = 44, 22, 3, 4
N_TRAIN, N_HELD_OUT, N_ALONE = 4000, 500, 16
N_PATHS, N_POINTS, SCALES = 2, 401, (10.0, 1000.0)
GROWS, STRIDE, JUMPS, NOISE = 30.0, 16, 4.0, 1e-3
"""How much more than in proportion logits grow, and how much more than a sixteenth of sixteen steps one step is, if larger
than noise, where there is attention. Without it both are about 1; the latter was 8 or more in four networks with a softmax or
a gate. Attention after a layer norm is bounded; it is not recognised."""

HINTS = (
    (
        "The block gives each position access to the whole canvas. What else does? Think of what a convolution can be given "
        "(stride, dilation, more layers), or of what is done with the map at the end. The mean of a map of local features "
        "cannot tell whether two classes are equal; a pooling that keeps the largest value can."
    ),
    (
        "Three convolutions of 3 × 3 with 8, 16 and 20 features (each with BatchNorm2d and ReLU, the first with stride 2), "
        "then `nn.AdaptiveMaxPool2d(1)`, `nn.Flatten()` and a linear layer have about the right size. Print "
        "`sum(p.numel() for p in rival.parameters())`, and change a width until it fits."
    ),
    (
        "The loss is the cross-entropy of `logits[:, :2]` and `labels[:, 0]` plus that of `logits[:, 2:]` and `labels[:, 1]`. "
        "Adam at 0.01; `for group in optimizer.param_groups: group['lr'] = 0.01 * (1 - step / n_steps)` lowers the rate, as "
        "for the model. `n_steps` batches of 32; `return rival.eval()`."
    ),
)


def network(*between: nn.Module, widths=(8, 16, 16), strides=(2, 1, 1), pool=nn.AdaptiveAvgPool2d) -> nn.Sequential:
    """The lecture's network, smaller: convolutions, further layers, global pooling, four logits."""
    return nn.Sequential(ConvNet(1, widths, strides), *between, pool(1), nn.Flatten(), nn.Linear(widths[-1], N_ANSWERS))


def with_block() -> nn.Sequential:
    """The model: three convolutions, one non-local block in the dot-product form, and the mean of the map."""
    return network(NonLocalBlock(16, NonLocal(16, mechanism=associative_dot_product)))


def rival_of(width=20, dropout=0.0) -> nn.Sequential:
    """Three convolutions and the maximum of each feature; what a wrong submission changes: the last width, dropout."""
    return nn.Sequential(nn.Dropout(dropout), network(widths=(8, 16, width), pool=nn.AdaptiveMaxPool2d))


def falling(n_steps):
    """Make a learning rate that falls to 0."""
    return partial(torch.optim.lr_scheduler.LinearLR, start_factor=1.0, end_factor=0.01, total_iters=n_steps)


loss_of = partial(controls.loss_of_two, 2)
"""The cross-entropy of "same or different" plus that of "does a 0 occur"."""
scores_of = partial(controls.scores_of_two, 2)
"""Measure the accuracies on "same or different" and on "does a 0 occur"."""


submit = controls.submission(rival_of, BATCH_SIZE, LR, loss_of, falling)


def train_reach_rival(pictures: Tensor, labels: Tensor, n_parameters: int, n_steps: int) -> nn.Module:
    """Build a rival of the network with a non-local block that has no attention, train it, and return it.

    The rival maps pictures (B, 1, 22, 22) to logits (B, 4): different, same; no 0 occurs, a 0 occurs. Nothing in it multiplies
    features by weights that are computed from features; convolutions, pooling, linear layers and activations that grow with
    their input (ReLU, GELU) do not. Tanh and sigmoid saturate and are not allowed: at large inputs they jump as a softmax does.

    Args:
        pictures: (N, 1, 22, 22), ink from 0 to 1.
        labels: (N, 2), whether the two digits are of one class, and whether a 0 occurs (0 or 1).
        n_parameters: of the network with the block; the rival has as many, within five percent.
        n_steps: updates that the network gets, with batches of 32 pictures; the rival gets as many.

    Returns:
        the trained rival, ready to predict: asked twice, it gives the same logits.
    """
    layers, before = [], 1
    for width, stride in ((8, 2), (16, 1), (20, 1)):
        layers += [nn.Conv2d(before, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        before = width
    rival = nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(before, 4))
    optimizer = torch.optim.Adam(rival.parameters())
    for step in range(n_steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * (1 - step / n_steps)
        rows = torch.randint(len(pictures), (32,))
        logits, (same, has_zero) = rival(pictures[rows]), labels[rows].T
        loss = F.cross_entropy(logits[:, :2], same) + F.cross_entropy(logits[:, 2:], has_zero)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return rival.eval()


@cache
def examples(seed: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Compose (pictures (N, 1, 22, 22), labels (N, 2)) to learn from, and unseen ones of other drawings."""
    parts = composed((N_TRAIN, 1, N_HELD_OUT), seed, _two_digits)
    return parts.train, parts.test


def _two_digits(n: int, drawings: Drawings, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Compose n pictures as `same_or_different` of lecture 09 does, with both labels."""
    kinds, same = pairs_of_kinds(n, N_KINDS, generator)
    which = torch.rand(n, drawings.shape[1], generator=generator).argsort(-1)[:, :2]
    across = torch.randint(CANVAS - SIDE + 1, (n, 2), generator=generator)
    beside = torch.randint(2, (n, 1), generator=generator) == 1
    canvas = torch.zeros(n, CANVAS, CANVAS)
    for i, along in enumerate((0, CANVAS - SIDE)):
        place = torch.stack([torch.full((n,), along), across[:, i]], dim=1)
        canvas = stamp(canvas, drawings[kinds[:, i], which[:, i]], torch.where(beside, place.flip(1), place))
    return F.avg_pool2d(canvas[:, None], CANVAS // N_PIXELS), torch.stack([same, (kinds == 0).any(1).long()], dim=1)


@cache
def _of_the_model(seed: int) -> tuple[int, controls.ClaimScores]:
    """Train the network with the block, and give its size and its scores."""
    known, unseen = examples(seed)
    return controls.of_the_model(lambda: submit((*known, 0, N_STEPS), model=with_block), seed, unseen, scores_of)


def questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw the pictures to learn from, the size of the model, pictures with one half replaced, and paths between pictures.

    The queries are: pictures (500, 1, 22, 22) · the last 16 of them · these with the left half replaced, with the right, with
    the upper, with the lower · two paths of 401 points from one picture to another, with ten times the ink · with 1,000.
    """
    seed = int(draw.integers(0, 2**20, 1))
    known, (pictures, labels) = examples(seed)
    n_parameters, scores = _of_the_model(seed)
    base, other = pictures[-N_ALONE:], pictures[:N_ALONE]
    first = torch.arange(N_PIXELS) < N_PIXELS // 2
    halves = [torch.where(where, other, base) for where in (first, ~first, first[:, None], ~first[:, None])]
    along = torch.linspace(0, 1, N_POINTS)[:, None, None, None]
    paths = torch.cat([torch.lerp(one, another, along) for one, another in zip(base[:N_PATHS], other, strict=False)])
    truth = {
        "inputs": pictures,
        "labels": labels,
        "n_parameters": n_parameters,
        "n_updates": N_STEPS,
        "batch_size": BATCH_SIZE,
        "scores": scores,
        "guess": labels[:, 0].bincount().max().item() / len(labels),
    }
    return ((*known, n_parameters, N_STEPS), [pictures, base, *halves, *(scale * paths for scale in SCALES)]), truth


CLAIM = controls.Claim(
    ingredient="attention",
    model="the network with a non-local block",
    question="same or different",
    control="whether a 0 occurs",
    score=lambda measured, truth: scores_of(measured.outputs[0], truth["labels"]),
)


def _model(measured: Measured, truth: Truth) -> str | None:
    n_points = N_PATHS * N_POINTS
    for n, output in zip([len(truth["inputs"]), *[N_ALONE] * 5, n_points, n_points], measured.outputs, strict=True):
        if fault := trained.fault_of_logits(output, (n, N_ANSWERS), f"pictures {(n, 1, N_PIXELS, N_PIXELS)}"):
            return fault
    if not measured.outputs[0].isfinite().all():
        return "Some logits are infinite or NaN: the training has diverged. Try a smaller learning rate."
    return None


def _information(measured: Measured, truth: Truth) -> str | None:
    if leaves_a_half_out(measured, truth):
        return "When one half of the canvas is replaced, the logits stay the same."
    return None


def _without(measured: Measured, truth: Truth) -> str | None:
    if weights_by_softmax(measured, truth):
        return "With 1,000 times the ink, its logits jump on the way from one picture to another."
    if multiplies_features(measured, truth):
        more = SCALES[1] / SCALES[0]
        return f"With {more:g} times the ink, its logits change {more * _growth(measured):,.0f} times as fast."
    return None


def _steps(measured: Measured, query: int, stride: int = 1) -> Tensor:
    """How far the logits move in so many steps of a path, (N_PATHS, about N_POINTS / stride)."""
    return measured.outputs[query].double().unflatten(0, (N_PATHS, N_POINTS))[:, ::stride].diff(dim=1).norm(dim=-1)


def _growth(measured: Measured) -> float:
    """How much more than in proportion the fastest change of the logits grows with the ink."""
    less, more = (_steps(measured, query).max().item() for query in (6, 7))
    return more / max(less, 1e-12) / (SCALES[1] / SCALES[0])


def leaves_a_half_out(measured: Measured, truth: Truth) -> bool:
    """Evidence: replacing one half of the canvas changes no logit."""
    return any(trained.is_near(measured.outputs[1], measured.outputs[i], tolerance=1e-6) for i in range(2, 6))


def weights_by_softmax(measured: Measured, truth: Truth) -> bool:
    """Evidence: for large inputs, one step of a path moves the logits far more than a sixteenth of what sixteen steps do."""
    step, steps = (_steps(measured, 7, stride).max() for stride in (1, STRIDE))
    return bool(STRIDE * step > JUMPS * steps) and bool(step > NOISE * measured.outputs[7].abs().max())


def multiplies_features(measured: Measured, truth: Truth) -> bool:
    """Evidence: for large inputs, the logits grow with a power of the input; where they overflow, too."""
    return not _growth(measured) <= GROWS


wrong = loops.Submissions(
    __name__,
    submit,
    model="the model",
    also="; the model is trained in the same way",
    control="It does not find the zeros either",
    rates="from 0.01 down to 0",
    examples="pictures",
    rows="pictures",
    filling="they fill up the count and do nothing",
    instead="Make the layers that are used wider instead.",
)
SAYS = {
    "dropout_left_on": "Asked twice about the same pictures, the rival gives different logits: it is still in training mode, "
    "and its dropout draws new zeros at each call, while the model is evaluated without. Return `rival.eval()`.",
    "smaller_rival": "The rival has fewer parameters than the model. Three convolutions without the block are smaller than "
    "those with it. If the rival does worse, the size may be the cause. Make a width larger, until it has `n_parameters` "
    "within five percent.",
    "larger_rival": "The rival has more parameters than the model; one convolution more easily costs more than the block. If "
    "the rival does as well, the size may be the cause. Make a width smaller, until it has `n_parameters` within five percent.",
}
LARGER = partial(network, widths=(8, 16, 16, 16), strides=(2, 1, 2, 1))
controls.mistakes(wrong, CLAIM, partial(rival_of, 16), LARGER, SAYS)


@wrong(proof=trained.reads_other_examples)
def batch_statistics_in_evaluation(*data):
    """The rival reads the other pictures of its batch: alone, a picture gets different logits. Either the returned rival is
    still in training mode, in which BatchNorm uses the statistics of the batch, or it normalises over the batch itself.
    Return `rival.eval()`."""
    return submit(data, left_on=True)


class _LeftHalf(nn.Module):
    def forward(self, pictures):
        return pictures * (torch.arange(N_PIXELS) < N_PIXELS // 2)


@wrong(proof=leaves_a_half_out)
def one_half_of_the_canvas(*data):
    """The rival gets less information than the model: one half of the canvas can be replaced, and no logit changes. Then one
    digit is often missing. Print the shape of the map before the pooling, and let the pooling read all of it."""
    return submit(data, model=lambda: nn.Sequential(_LeftHalf(), rival_of()))


@wrong(proof=weights_by_softmax)
def attention_still_there(*data):
    """For large inputs your rival's logits jump. A softmax over scores of features does this, and so does a tanh or a sigmoid;
    convolutions, ReLU and pooling do not. Remove every weight that is computed from features (attention, gates, attention
    pooling), and use ReLU or GELU. Stride, dilation and pooling may stay."""
    return submit(data, model=lambda: network(NonLocalBlock(16, NonLocal(16))))


@wrong(proof=multiplies_features)
def attention_without_a_softmax(*data):
    """The ingredient is still there: your rival's logits grow with a power of its input, so features are multiplied by
    features, as in the dot-product form. A block without a softmax is attention too. Remove all products of
    features (their squares and covariances too)."""
    return submit(data, model=with_block)


@right
def dilated_convolutions(pictures, labels, n_parameters, n_steps):
    """Dilations 1, 2 and 4 at full resolution, GELU, the mean of the map; cosine schedule and clipping. It is fair and
    weak: it may lose to the model, and earns all points."""

    class Rival(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(1, 8, 3, stride=2, padding=1)
            self.second = nn.Conv2d(8, 16, 3, padding=2, dilation=2)
            self.third = nn.Conv2d(16, 20, 3, padding=4, dilation=4)
            self.norms = nn.ModuleList([nn.BatchNorm2d(8), nn.BatchNorm2d(16)])
            self.head = nn.Linear(20, 4)

        def forward(self, pictures):
            x = F.gelu(self.norms[0](self.first(pictures)))
            x = F.gelu(self.norms[1](self.second(x)))
            return self.head(F.relu(self.third(x)).mean((2, 3)))

    rival = Rival()
    optimizer = torch.optim.Adam(rival.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    for _ in range(n_steps):
        rows = torch.randperm(len(pictures))[:32]
        optimizer.zero_grad()
        loss_of(rival(pictures[rows]), labels[rows]).backward()
        nn.utils.clip_grad_norm_(rival.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    rival.eval()
    return rival


@right
def mean_and_standard_deviation(pictures, labels, n_parameters, n_steps):
    """Local features of three convolutions; of each feature both the mean and the standard deviation over the map; dropout and
    a one-cycle schedule."""

    class Rival(nn.Module):
        def __init__(self):
            super().__init__()
            self.features, self.drop = ConvNet(1, (8, 16, 19), (2, 1, 1)), nn.Dropout(0.02)
            self.head = nn.Linear(38, 4)

        def forward(self, pictures):
            x = self.features(pictures).flatten(2)
            return self.head(self.drop(torch.cat([x.mean(2), (x.var(2) + 1e-5).sqrt()], dim=1)))

    rival = Rival()
    optimizer = torch.optim.Adam(rival.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.5e-2, total_steps=n_steps)
    for _ in range(n_steps):
        rows = torch.randint(len(pictures), (32,))
        loss = loss_of(rival(pictures[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return rival.eval()


exercise = Exercise(
    id="09.7",
    title="A control for the non-local block",
    reference=train_reach_rival,
    properties=controls.properties(
        SECONDS,
        CLAIM,
        model=("It maps pictures (B, 1, 22, 22) to logits (B, 4).", _model),
        information=("It reads the whole canvas.", _information),
        without=(
            "It has no attention: where its input is large, its logits change in proportion to it, without jumps.",
            _without,
        ),
        alone=("The logits of a picture do not depend on the other pictures of its batch.", trained.each_alone("pictures")),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    training=Training(questions, SECONDS, partial(controls.conclusion, CLAIM), "control"),
    extra=True,
)
