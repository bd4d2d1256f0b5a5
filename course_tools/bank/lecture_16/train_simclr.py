"""Build task 16.7, train_simclr: SimCLR's training loop from an empty cell; what students hand in, wrong and right.

The student's function sees stickers without labels. The check keeps the labels of other stickers, and judges the encoder by a
linear probe of its features with four labels of each kind, beside a probe of the pixels.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import Augmentation, colour_matrix, few_of_each, recolour
from course_lib.fast import lean_nt_xent
from course_lib.losses import nt_xent
from course_lib.metrics import linear_probe
from course_lib.models import SimCLR
from course_lib.primitives import unit
from course_tools.bank import training_loops as loops
from course_tools.bank.drawn_stickers import SIDE, draw_stickers
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Training, Truth
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 150_000, 400
N_LEARN, N_LABELLED, N_UNSEEN, N_PAIRS, N_ALONE = 2_000, 400, 1_000, 256, 16
D_ENCODER, D_PROJECTION = 64, 32
N_EACH, N_DRAWS, PENALTY = 4, 8, 0.1
LEARNS, SCORE, TIMES_APART = 0.1, 0.25, 1.7

HINTS = (
    (
        "Work from the loss backwards, and print: two views of 32 stickers are 64 pictures (64, 3, 12, 12); features (64, 64); "
        "projections (64, 32), each divided by its norm; similarities (64, 64), the diagonal masked; which row is the partner "
        "of row 0? Before any update the loss should be near log 63."
    ),
    (
        "Three convolutions with normalisation and ReLU, then global max pooling, make a good encoder; a linear layer, a ReLU "
        "and a linear layer the head. `changed(batch, generator)` of section 6 draws a view of each sticker; call it twice in "
        "each update. A temperature of 0.2 and Adam with a rate of 0.003 suffice: the loss falls from 4.1 to about 1.9."
    ),
    (
        "The loop: draw 32 stickers and two views of each; encode and project both; compute the loss; `optimizer.zero_grad()`, "
        "`loss.backward()`, `optimizer.step()`. The optimizer holds the weights of the encoder *and* of the head: "
        "`[*encoder.parameters(), *head.parameters()]`. Return `encoder.eval()`, without the head."
    ),
)


def train_simclr(images: Tensor, n_steps: int) -> nn.Module:
    """Train an encoder by SimCLR on unlabelled stickers, and return it without its projection head.

    The encoder maps images (B, 3, 12, 12) to features (B, 64). In training a projection head maps these to (B, 32), where
    NT-Xent compares two augmented views of each sticker.

    Args:
        images: stickers without labels, (N, 3, 12, 12), colours from -1 to 1.
        n_steps: updates that the training may make.

    Returns:
        the trained encoder, ready to use: the features of a sticker do not depend on the other stickers of the batch.
    """
    n_pairs, temperature = 32, 0.2

    def convolution(d_in, d_out, stride):
        return nn.Conv2d(d_in, d_out, 3, stride, padding=1, bias=False), nn.BatchNorm2d(d_out), nn.ReLU()

    def view(batch):
        angle, shear, zoom, right, down, brightness, saturation, hue = torch.empty(8, len(batch)).uniform_(-1, 1)
        cos, sin = (0.15 * angle).cos(), (0.15 * angle).sin()
        rows = torch.stack([cos, 0.1 * shear - sin, 0.1 * right, sin, cos, 0.1 * down], dim=1).view(-1, 2, 3)
        grid = F.affine_grid(rows * 1.15 ** zoom[:, None, None], list(batch.shape), align_corners=False)
        negative = 1 - 2 * torch.randint(2, (len(batch), 1, 1))
        colours = negative * colour_matrix(1.5**brightness, 1 + 0.6 * saturation, math.pi * hue)
        return recolour(F.grid_sample(batch, grid, align_corners=False), colours)

    encoder = nn.Sequential(
        *convolution(3, 32, 2), *convolution(32, 64, 1), *convolution(64, 64, 2), nn.AdaptiveMaxPool2d(1), nn.Flatten()
    )
    head = nn.Sequential(
        nn.Linear(64, 128, bias=False), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 32, bias=False), nn.BatchNorm1d(32)
    )
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=3e-3)
    itself = torch.eye(2 * n_pairs, dtype=torch.bool)
    partner = torch.arange(2 * n_pairs).roll(n_pairs)
    for _ in range(n_steps):
        batch = images[torch.randint(len(images), (n_pairs,))]
        z = F.normalize(head(encoder(torch.cat([view(batch), view(batch)]))), dim=1)
        loss = F.cross_entropy((z @ z.mT / temperature).masked_fill(itself, -torch.inf), partner)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return encoder.eval()


def questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw stickers to learn from, and those that the encoder is asked about, whose drawings are new.

    The queries are: stickers to label (400, 3, 12, 12) · unseen ones (1000, 3, 12, 12) · the last 16 of these alone ·
    one view and another of 256 of them.
    """
    learn, labelled, unseen = (
        draw_stickers(n, int(draw.integers(0, 2**31, 1)), n == N_UNSEEN) for n in (N_LEARN, N_LABELLED, N_UNSEEN)
    )
    draw_view = Augmentation(turn=0.15, zoom=1.15, shear=0.1, shift=0.05, brightness=1.5, saturation=0.6, hue=math.pi)
    views = [draw_view(unseen.images[:N_PAIRS], draw.generator) for _ in range(2)]
    truth = {
        "labels": unseen.kinds,
        "labels of the few": labelled.kinds,
        "n_steps": N_STEPS,
        "pixels": labelled.images.flatten(1),
        "unseen pixels": unseen.images.flatten(1),
    }
    queries = [labelled.images, unseen.images, unseen.images[-N_ALONE:], *views]
    return ((learn.images, N_STEPS), queries), truth


def probed(features: Tensor, unseen: Tensor, truth: Truth) -> float:
    """Accuracy on unseen stickers of a linear probe with four labels of each kind, mean of eight draws of the labels."""
    features, unseen = unit(features.double()), unit(unseen.double())
    accuracies = []
    for seed in range(N_DRAWS):
        few = few_of_each(truth["labels of the few"], N_EACH, seed)
        weight, bias = linear_probe(features[few], truth["labels of the few"][few], 10, PENALTY)
        accuracies.append(((unseen @ weight.mT + bias).argmax(-1) == truth["labels"]).double().mean().item())
    return sum(accuracies) / N_DRAWS


def _accuracy(measured: Measured, truth: Truth) -> float:
    return probed(*measured.outputs[:2], truth)


def _pixels(truth: Truth) -> float:
    return probed(truth["pixels"], truth["unseen pixels"], truth)


def _model(measured: Measured, truth: Truth) -> str | None:
    for n, output in zip((N_LABELLED, N_UNSEEN, N_ALONE, N_PAIRS, N_PAIRS), measured.outputs, strict=True):
        if output.ndim != 2 or len(output) != n:
            form = f"({n}, {D_ENCODER}), not {tuple(output.shape)}"
            return f"For images ({n}, 3, {SIDE}, {SIDE}) the features should have shape {form}."
        if not output.is_floating_point() or not output.isfinite().all():
            return "The features should be finite floating-point numbers."
    if trained.is_near(measured.outputs[1][:-1], measured.outputs[1][1:], tolerance=1e-6):
        return "The features are the same whatever the sticker is."
    return None


def _representation(measured: Measured, truth: Truth) -> str | None:
    d = measured.outputs[0].shape[1]
    return None if d == D_ENCODER else f"The encoder should give {D_ENCODER} features, and it gives {d}."


def _batch(measured: Measured, truth: Truth) -> str | None:
    if reads_other_pictures(measured, truth):
        return f"For the last {N_ALONE} stickers evaluated alone, the encoder gives different features than in a larger batch."
    return None


def _views(measured: Measured, truth: Truth) -> str | None:
    if (share := _share_of_a_guess(measured)) > 0.9 and not _nearer(measured, truth):
        return f"The loss ends at {share:.0%} of that of a guess among the other views."
    return _nearer(measured, truth)


def _nearer(measured: Measured, truth: Truth) -> str | None:
    if reads_no_pairs(measured, truth):
        return "In training, the encoder reads no two views of a sticker."
    first, second = (unit(output.double()) for output in measured.outputs[3:])
    distances = 1 - first @ second.mT
    of_one, of_others = distances.diagonal().mean(), distances[~torch.eye(N_PAIRS, dtype=torch.bool)].mean()
    if of_others >= TIMES_APART * of_one:
        return None
    return (
        f"1 minus the cosine is {of_one:.3f} for two views of one sticker and {of_others:.3f} for views of two, mean of "
        f"{N_PAIRS}: a ratio of {of_others / of_one:.1f}; at least {TIMES_APART:g} is required."
    )


_PROBE = "On unseen stickers the accuracy of the probe"
_learns = trained.at_least(lambda truth: _pixels(truth) + LEARNS, _accuracy, _PROBE, " (0.1 above that of the pixels)")
score = trained.at_least(lambda truth: _pixels(truth) + SCORE, _accuracy, _PROBE, " (0.25 above that of the pixels)")


def reads_other_pictures(measured: Measured, truth: Truth) -> bool:
    """Evidence: the features of a sticker change with the others of the batch."""
    return not trained.is_near(measured.outputs[1][-N_ALONE:], measured.outputs[2])


def returns_the_projection(measured: Measured, truth: Truth) -> bool:
    """Evidence: there are as many numbers a sticker as the projection has."""
    return measured.outputs[0].shape[1] == D_PROJECTION


def reads_no_pairs(measured: Measured, truth: Truth) -> bool:
    """Evidence: the shapes that the encoder reads are no nearer to those at any one distance in their order than to others.

    With two views of each sticker, together or in turn, half of them are, by 0.17 or more; without, the gain was 0.02.
    """
    near = _nearness(measured)
    return bool(len(near)) and not _stands_out(near)


def _nearness(measured: Measured) -> Tensor:
    """How alike shapes at each distance in the order of reading are: the mean cosine of their grey values, without its sign."""
    read = _read_in_a_row(measured)
    if not len(read):
        return torch.zeros(0)
    shapes = F.avg_pool2d(read.mean(1, keepdim=True), 3, 1, 1).flatten(1)
    shapes = F.normalize(shapes - shapes.mean(1, keepdim=True), dim=1)
    return _by_distance(measured, lambda n: (shapes[n:] * shapes[:-n]).sum(1).abs().mean())


def _stands_out(near: Tensor) -> bool:
    return bool(len(near) and near.max() - near.median() > 0.1)


def reads_equal_colours(measured: Measured, truth: Truth) -> bool:
    """Evidence: the pictures at some distance in the order of reading have nearly the same mean colour, half of them at least.

    Of views in the same colours, half of which differ little, it is 0.12 of the usual distance at most; of others 0.6 at least.
    """
    read = _read_in_a_row(measured)
    if not len(read):
        return False
    colours = read.mean((2, 3))
    apart = _by_distance(measured, lambda n: (colours[n:] - colours[:-n]).norm(dim=1).quantile(0.25))
    return bool(apart.min() < 0.3 * apart.median())


def _read_in_a_row(measured: Measured) -> Tensor:
    """All pictures that the encoder reads in its first calls, in order; none if there are few calls."""
    read = [x.double() for x in measured.read_inside if x.ndim == 4 and len(x) > 1]
    return torch.cat(read) if len(read) >= 10 else torch.zeros(0)


def _by_distance(measured: Measured, value: Callable[[int], Tensor]) -> Tensor:
    """Compute a value for each distance of two pictures in the order of reading, up to two batches."""
    return torch.stack([value(n) for n in range(1, 2 * len(measured.read_inside[0]) + 1)])


def reads_equal_views(measured: Measured, truth: Truth) -> bool:
    """Evidence: the two views that the encoder reads of a sticker are the same picture, in every update."""
    read = [x for x in measured.read if x.ndim == 4 and len(x) > 1]
    together = all(_equal_halves(x) for x in read) and bool(read)
    in_turn = len(read) > 1 and all(torch.equal(*pair) for pair in zip(read[::2], read[1::2], strict=False))
    return together or in_turn


def _equal_halves(x: Tensor) -> bool:
    return len(x) % 2 == 0 and (torch.equal(*x.chunk(2)) or torch.equal(x[::2], x[1::2]))


def reads_the_same_views(measured: Measured, truth: Truth) -> bool:
    """Evidence: in every update the encoder reads the same pictures, both views together or one after the other."""
    read = measured.read
    return len(read) >= 20 and all(x.shape == y.shape and torch.equal(x, y) for x, y in zip(read, read[2:], strict=False))


def _share_of_a_guess(measured: Measured) -> float:
    """The loss at the end over that of a uniform guess among the other views, log(2N - 1).

    The encoder reads 2N views in one call, or N in each of two: then the second views lie a whole call further.
    """
    if not measured.read or not len(measured.losses):
        return 0.0
    n, near = len(measured.read[0]), _nearness(measured)
    sizes = (n, 2 * n) if not _stands_out(near) else (n,) if near.argmax() + 1 < n else (2 * n,)
    return min((_end(measured) / math.log(max(m - 1, 2)) for m in sizes), key=lambda share: abs(share - 1))


def _end(measured: Measured) -> float:
    return measured.losses[-max(len(measured.losses) // 10, 1) :].mean().item()


def _fell(measured: Measured) -> float:
    """By which share of its first value the loss fell."""
    return 1 - _end(measured) / max(measured.losses[0].item(), 1e-6)


def ends_at_a_guess(measured: Measured, truth: Truth) -> bool:
    """Evidence: the loss ends where a uniform guess is, or above it, and fell little, although the weights were moved.

    A head that ends in a batch normalisation cannot make all projections equal, which is what a guess would take.
    """
    return measured.moved > 0.1 and 0.99 < _share_of_a_guess(measured) < 1.3 and _fell(measured) < 0.25


def hardly_uses_the_cosines(measured: Measured, truth: Truth) -> bool:
    """Evidence: the encoder separates the views of stickers, and yet the loss stays near that of a uniform guess."""
    return 0.9 < _share_of_a_guess(measured) < 0.99 and _nearer(measured, truth) is None


def has_no_negatives(measured: Measured, truth: Truth) -> bool:
    """Evidence: the loss is negative, or begins far below that of a guess among other views and falls to nothing."""
    losses = measured.losses
    if not len(losses) or not measured.read:
        return False
    small = losses[0] < 0.5 * math.log(len(measured.read[0])) and losses[-1].abs() < 0.1 * losses[0].abs()
    return bool(small or losses[-1] < -0.5)


def _moved(batch):
    angle, shear, zoom, right, down = torch.empty(5, len(batch)).uniform_(-1, 1)
    cos, sin = (0.15 * angle).cos(), (0.15 * angle).sin()
    rows = torch.stack([cos, 0.1 * shear - sin, 0.1 * right, sin, cos, 0.1 * down], dim=1).view(-1, 2, 3)
    grid = F.affine_grid(rows * 1.15 ** zoom[:, None, None], list(batch.shape), align_corners=False)
    return F.grid_sample(batch, grid, align_corners=False)


def _view(batch):
    brightness, saturation, hue = torch.empty(3, len(batch)).uniform_(-1, 1)
    negative = 1 - 2 * torch.randint(2, (len(batch), 1, 1))
    return recolour(_moved(batch), negative * colour_matrix(1.5**brightness, 1 + 0.6 * saturation, math.pi * hue))


def two_views(images, n=24):
    batch = images[torch.randint(len(images), (n,))]
    return _view(batch), _view(batch)


def contrast(a, b, temperature=0.2, shift=None):
    """NT-Xent; a wrong submission gives another temperature, or another shift from a view to its partner."""
    z = F.normalize(torch.cat([a, b]), dim=1)
    scores = (z @ z.mT / temperature).masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
    return F.cross_entropy(scores, torch.arange(len(z)).roll(len(a) if shift is None else shift))


def networks(dropout=0.0):
    """A small encoder, and a head."""
    layers = []
    for d_in, d_out, stride in ((3, 16, 2), (16, 32, 1), (32, 64, 2)):
        layers += [nn.Conv2d(d_in, d_out, 3, stride, padding=1, bias=False), nn.BatchNorm2d(d_out), nn.ReLU()]
    encoder = nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Dropout(dropout))
    head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, D_PROJECTION, bias=False), nn.BatchNorm1d(D_PROJECTION))
    return encoder, head


def submit(
    data,
    part=0.5,
    views=two_views,
    loss=contrast,
    held=None,
    returned=None,
    dropout=0.0,
    one_batch=False,
    lr=3e-3,
    clears=True,
    left_on=False,
):
    """Train in the usual way, or with one mistake, and return the encoder."""
    images, n_steps = data
    encoder, head = networks(dropout)
    once = views(images) if one_batch else None
    weights = held(encoder, head) if held else [*encoder.parameters(), *head.parameters()]

    def value():
        return loss(*head(encoder(torch.cat(once or views(images)))).chunk(2))

    loops.updates(weights, int(part * n_steps), value, lr, clears)
    return (returned(encoder, head) if returned else encoder).train(left_on)


SAYS = {name: loops.LOOP[name] for name in ("gradients_not_cleared", "learning_rate_too_large", "learning_rate_too_small")} | {
    "dropout_left_on": "The returned encoder is still in training mode: its dropout draws new zeros at each call, so that its "
    "features are random. Return `encoder.eval()`.",
    "one_batch_for_all_updates": "Every update reads the same views: stickers and views are drawn once, before the loop. Draw "
    "new stickers, and new views of them, in each update.",
}
wrong = loops.Submissions(__name__, submit, rates="0.001 to 0.01")
wrong.loop_mistakes(trained.fails(score), trained.fails(score), SAYS, same=reads_the_same_views)


@wrong(proof=reads_other_pictures)
def training_mode_left_on(*data):
    """The features of a sticker depend on the others of its batch: batch normalisation still uses the mean and variance of the
    batch. Return `encoder.eval()`, which uses those of the training."""
    return submit(data, 1.0, left_on=True)


@wrong(proof=returns_the_projection)
def projection_returned(*data):
    """You return 32 numbers for each sticker, as many as the projection has. The head serves the loss alone and is discarded
    afterwards: return the encoder, which gives 64 features."""
    return submit(data, 1.0, returned=nn.Sequential)


@wrong(proof=trained.no_weight_is_stepped)
def optimizer_of_the_head_alone(*data):
    """None of the weights of the encoder that you return was ever updated: the optimizer holds others. Give it the weights of
    encoder and head, `[*encoder.parameters(), *head.parameters()]`."""
    return submit(data, held=lambda encoder, head: head.parameters())


@wrong(proof=trained.weights_left_out)
def head_not_in_the_optimizer(*data):
    """A part of what you train is in no optimizer and stays as it was drawn: the projection head, probably. Give the optimizer
    the weights of both: `[*encoder.parameters(), *head.parameters()]`."""
    return submit(data, 1.0, held=lambda encoder, head: encoder.parameters())


@wrong.change("views", trained.both(reads_equal_views, trained.fails(score)))
def both_views_the_same(images):
    """The two views that your encoder reads of a sticker are the same picture: any feature tells it from the others, and the
    encoder learns no invariance. Draw the second view anew; do not use the first one twice, and do augment both."""
    a, _ = two_views(images)
    return a, a


@wrong.change("views", trained.both(reads_equal_colours, trained.fails(score)))
def colours_not_changed(images, n=24):
    """The two views of a sticker have the same colours: the loss falls quickly, for ground and ink are enough to find the
    partner, and no shape needs to be known. Change the colours of each view at random, beside its turn and size."""
    batch = images[torch.randint(len(images), (n,))]
    return _moved(batch), _moved(batch)


@wrong.idea(proof=reads_no_pairs)
def an_autoencoder(images, n_steps):
    """Your encoder never reads two views of one sticker: in training, none comes back in another view, neither in its batch nor
    in the next one. To rebuild images, or to predict labels, is another task. SimCLR draws two views of each sticker in every
    update, and its loss brings them together."""
    encoder, _ = networks()
    decoder = nn.Linear(D_ENCODER, 3 * SIDE * SIDE)

    def loss():
        batch = images[torch.randint(len(images), (64,))]
        return F.mse_loss(decoder(encoder(batch)), batch.flatten(1))

    loops.updates([*encoder.parameters(), *decoder.parameters()], n_steps, loss, 3e-3)
    return encoder.eval()


@wrong(proof=trained.both(has_no_negatives, trained.fails(score)))
def without_negatives(*data):
    """Your loss begins below a guess among the other views: it compares with no other sticker. One that only pulls two views
    together is least for equal projections of all. Divide by a sum over all other views: NT-Xent is a cross-entropy over the
    row of similarities."""
    return submit(data, loss=lambda a, b: -F.cosine_similarity(a, b).mean())


@wrong(proof=trained.both(ends_at_a_guess, trained.fails(score)))
def partner_next_door(*data):
    """Your loss ends where a guess is, at log(2N - 1), or above it. Either it pulls together views of *different* stickers, or
    all projections are equal. With all first views before all second ones, the partner of row i is row i + N (modulo 2N), not
    its neighbour, and both views must be of the same batch. If the pairs are right, print the standard deviation of the
    projections."""
    return submit(data, loss=partial(contrast, shift=1))


@wrong(proof=hardly_uses_the_cosines)
def temperature_multiplied(*data):
    """Your encoder separates the stickers, and yet your loss stays near that of a guess, log(2N - 1): the cosines hardly count.
    They are to be *divided* by a temperature well below 1, such as 0.2; multiplied by it, or divided by a large one, they all
    have nearly the same exponential, and the similar negatives have no more weight than the others."""
    return submit(data, 1.0, loss=partial(contrast, temperature=10.0))


@right
def one_view_after_the_other(images, n_steps):
    """Larger kernels; each view through the encoder by itself; NAdam with a schedule, shuffled epochs, and a loss from
    which the diagonal is left out."""
    layers = []
    for d_in, d_out in ((3, 32), (32, 40), (40, 64)):
        layers += [nn.Conv2d(d_in, d_out, 5, 2, 2), nn.BatchNorm2d(d_out), nn.LeakyReLU(0.1)]
    encoder = nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten())
    head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.NAdam([{"params": encoder.parameters()}, {"params": head.parameters()}], lr=4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(n_steps, 1))
    ranges = Augmentation(turn=0.2, zoom=1.2, shear=0.1, shift=0.06, brightness=1.3, saturation=0.5, hue=math.pi)
    generator = torch.Generator().manual_seed(1)
    for batch in loops.epochs(images, n_steps, 40, drop_last=True):
        a, b = (F.normalize(head(encoder(ranges(batch, generator)))) for _ in range(2))
        n, z = len(batch), torch.cat([a, b])
        others = (z @ z.mT)[~torch.eye(2 * n, dtype=torch.bool)].view(2 * n, -1) / 0.2
        pairs = (a * b).sum(1).repeat(2) / 0.2
        loss = (others.logsumexp(1) - pairs).mean()
        loss.backward()
        optimizer.step()
        encoder.zero_grad()
        head.zero_grad()
        schedule.step()
    return encoder.eval()


@right
def without_modules(images, n_steps):
    """Weights in a dict, a function, gradients from autograd, and Adam by hand; the views are interleaved, and the loss takes
    exponentials."""
    shapes = {"a": (24, 3, 3, 3), "b": (48, 24, 3, 3), "c": (64, 48, 3, 3), "up": (64, 64), "down": (32, 64)}
    weights = {name: (torch.randn(s) * (2 / math.prod(s[1:])) ** 0.5).requires_grad_() for name, s in shapes.items()}

    def encoder(x):
        for name, stride in (("a", 2), ("b", 1), ("c", 2)):
            x = F.conv2d(x, weights[name], stride=stride, padding=1)
            x = F.relu(x - x.mean((2, 3), keepdim=True)) / (x.var((2, 3), keepdim=True) + 1e-5).sqrt()
        return x.amax((2, 3))

    def draw_view(x):
        A = torch.eye(2) + 0.12 * (2 * torch.rand(len(x), 2, 2) - 1)
        rows = torch.cat([A, 0.2 * torch.rand(len(x), 2, 1) - 0.1], dim=2)
        moved = F.grid_sample(x, F.affine_grid(rows, list(x.shape), align_corners=False), align_corners=False)
        return recolour(moved, torch.linalg.qr(torch.randn(len(x), 3, 3)).Q * (0.7 + 0.6 * torch.rand(len(x), 1, 1)))

    def loss():
        batch = images[torch.randperm(len(images))[:32]].repeat_interleave(2, 0)
        z = F.relu(encoder(draw_view(batch)) @ weights["up"].T) @ weights["down"].T
        z = (z - z.mean(0)) / z.std(0)
        z = z / (z * z).sum(1, keepdim=True).sqrt()
        p = (z @ z.T / 0.25).exp()
        partner = torch.arange(64) ^ 1
        return (-(p[range(64), partner] / (p.sum(1) - p.diagonal())).log()).mean()

    loops.adam_by_hand(list(weights.values()), n_steps, loss, 3e-3)
    return encoder


exercise = Exercise(
    id="16.7",
    title="SimCLR and its training loop",
    extra=True,
    reference=train_simclr,
    properties=(
        *trained.sound_training(
            SECONDS,
            MOST_PARAMETERS,
            ("The encoder maps images (B, 3, 12, 12) to features (B, n).", _model),
            trained.loss_falls(by=0.02, unless=_learns),
        ),
        trained.shown("representation", "It gives the 64 features of the encoder, not the projection.", _representation),
        trained.shown("batch", "The features of a sticker do not depend on the other stickers of its batch.", _batch),
        trained.complete_optimizer,
        trained.shown("views", "By its loss, two views of a sticker come nearer than those of others.", _views),
        trained.shown("learns", "The probe is 0.1 more accurate than that of the pixels.", _learns),
        trained.holds("score", "The probe is 0.25 more accurate than that of the pixels.", score, 2, needs=("learns",)),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={
        SimCLR: "build encoder and head yourself.",
        draw_stickers: "learn from the images that you are given.",
        nt_xent: "use the loss that you wrote in 16.2, or write it here.",
        lean_nt_xent: "use the loss that you wrote in 16.2, or write it here.",
    },
    training=Training(questions, SECONDS),
)
