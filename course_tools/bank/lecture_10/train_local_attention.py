"""Build task 10.6, train_local_attention: a network of local attention layers and its training; what students hand in.

The returned model also gives the context of its first attention layer. What that depends on is measured from outside: the
pixels of the window and no others, attention and not a convolution, relative positions, and nothing beyond the border.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import LocalAttention
from course_lib.datasets import digits
from course_tools.bank import image_classifiers as classifiers
from course_tools.bank import training_loops as loops
from course_tools.bank.image_classifiers import N_CLASSES, N_FEW, SIDE
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Training, Truth
from course_tools.checks.trained import TOO_NEAR
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS, LEAST = 60.0, 50_000, 400, 0.8
N_BASES, N_GREYS, N_SAME = 3, 5, 8
AT, ROWS, COLUMNS = (3, 4), slice(2, 5), slice(3, 6)
"""The pixel whose window is changed, and that window."""
NONE, SOME = 1e-6, 1e-5
"""Changes of the context, relative to the largest: one that is at most rounding, and one that is more."""
CLEAR = 1e-2
"""A change that no softmax has suppressed."""
MANY = 3
"""So many positions of a window have no influence if a row or column of it is missing; a softmax may suppress one or two."""
EXACT = 2e-5
"""Relative difference below which two contexts are the same: that of rounding is below 3e-6."""

HINTS = (
    (
        "Build the layer first, and print shapes after each step: features (B, d, H, W); queries, keys and values "
        "(B, h, d / h, H · W) by three convolutions of 1 × 1; keys and values of the windows (B, h, d / h, 9, H · W); scores "
        "and weights (B, h, 9, H · W). The sum of the weights over the axis of length 9 must be 1."
    ),
    (
        "`F.unfold(x, 3, padding=1)` gives the windows of (B, C, H, W) as (B, C · 9, H · W), to be viewed as (B, C, 9, H · W); "
        "that of a picture of ones shows which positions are inside. A learned vector r for each head and each of the nine "
        "positions gives the scores q · r. Set the scores of positions outside to -∞ before the softmax."
    ),
    (
        "Two blocks with 16 features and 4 heads are enough: `x = x + attention(norm(x))`, then `x = x + mlp(x)` with "
        "convolutions of 1 × 1 and BatchNorm2d; at the end the mean over all pixels and a linear layer. Adam with a learning "
        "rate that rises to 0.02 and falls (`torch.optim.lr_scheduler.OneCycleLR`), random batches of 32, and at the end "
        "`return model.eval()`."
    ),
)


def train_local_attention(images: Tensor, labels: Tensor, n_classes: int, n_steps: int) -> nn.Module:
    """Build a classifier whose only spatial operation is local attention, train it on images, and return it.

    The model maps images (B, 1, 8, 8) to logits (B, n_classes). Each attention layer attends to windows of 3 × 3 pixels with
    relative positions; all else acts on each pixel by itself, up to a mean or maximum over all pixels. With a second argument,
    `model(images, True)`, it returns the context of its first attention layer instead, (B, d, 8, 8): the weighted sum of the
    values, without the residual connection, a norm or an activation after it.

    Args:
        images: the images to learn from, (N, 1, 8, 8), ink from 0 to 1, sorted by their labels.
        labels: their classes, (N,), integers below n_classes.
        n_classes: number of classes.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to predict: asked twice, it gives the same logits.
    """
    d, n_heads, size = 16, 4, 3

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Conv2d(d, 3 * d, 1, bias=False)
            self.offsets = nn.Parameter(torch.randn(n_heads, d // n_heads, size**2) / 2)

        def forward(self, x):
            B, _, H, W = x.shape
            q, k, v = self.qkv(x).chunk(3, dim=1)
            q = q.reshape(B, n_heads, -1, H * W)
            k, v = (F.unfold(y, size, padding=size // 2).view(B, n_heads, -1, size**2, H * W) for y in (k, v))
            scores = (q.unsqueeze(3) * k).sum(2) + self.offsets.mT @ q
            inside = F.unfold(torch.ones(1, 1, H, W), size, padding=size // 2).view(size**2, H * W) > 0
            weights = scores.masked_fill(~inside, -torch.inf).softmax(dim=2)
            return (weights.unsqueeze(2) * v).sum(3).reshape(B, d, H, W)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(1, d, 1), nn.BatchNorm2d(d), nn.ReLU())
            self.attention = nn.ModuleList([Attention(), Attention()])
            self.norms = nn.ModuleList([nn.BatchNorm2d(d), nn.BatchNorm2d(d)])
            self.feed_forward = nn.ModuleList(
                nn.Sequential(nn.Conv2d(d, 2 * d, 1), nn.ReLU(), nn.Conv2d(2 * d, d, 1), nn.BatchNorm2d(d)) for _ in range(2)
            )
            self.logits = nn.Linear(d, n_classes)

        def forward(self, images, only_context=False):
            x = self.stem(images)
            if only_context:
                return self.attention[0](x)
            for attention, norm, feed_forward in zip(self.attention, self.norms, self.feed_forward, strict=True):
                x = x + norm(attention(x)).relu()
                x = x + feed_forward(x)
            return self.logits(x.mean((2, 3)))

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=n_steps + 1)
    for _ in range(n_steps):
        which = torch.randint(len(labels), (32,))
        loss = F.cross_entropy(model(images[which]), labels[which])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw the digits to learn from, and what the model is asked.

    It is asked for logits of held-out images (500, 1, 8, 8), of the last 16 of them and of one; and for contexts of pictures
    of random greys: three as they are, then with one pixel replaced, one after the other (195, 1, 8, 8) · five of a single
    grey · eight, and these with the neighbours of one pixel in another order (16, 1, 8, 8) · eight, these with the left part
    of a window replaced, with the right part, with both, with its centre, with centre and left (48, 1, 8, 8) · eight, and
    these moved down and to the right by one pixel (24, 1, 8, 8).
    """
    images, labels, asked, truth = classifiers.drawn_digits(N_STEPS, draw)
    bases, others = draw.uniform(2, N_BASES, 1, SIDE, SIDE)
    pixels = torch.eye(SIDE**2, dtype=torch.bool).view(-1, 1, 1, SIDE, SIDE)
    greys = torch.linspace(0, 1, N_GREYS).view(-1, 1, 1, 1).expand(-1, 1, SIDE, SIDE)
    same, new = draw.uniform(2, N_SAME, 1, SIDE, SIDE)
    mixed = same.clone()
    neighbours = same[:, :, ROWS, COLUMNS].flatten(2)[..., [6, 3, 8, 5, 4, 0, 7, 1, 2]]
    mixed[:, :, ROWS, COLUMNS] = neighbours.unflatten(2, (3, 3))
    left, right_, centre = (torch.zeros(SIDE, SIDE, dtype=torch.bool) for _ in range(3))
    left[ROWS, AT[1] - 1], right_[ROWS, AT[1] + 1], centre[AT] = True, True, True
    parts = [torch.where(where, new, same) for where in (left, right_, left | right_, centre, centre | left)]
    contexts = [
        torch.cat([bases, *torch.where(pixels, others, bases)]),
        greys.contiguous(),
        torch.cat([same, mixed]),
        torch.cat([same, *parts]),
        torch.cat([same, same.roll(1, 2), same.roll(1, 3)]),
    ]
    queries = [asked, asked[-N_FEW:], asked[:1], *((pictures, torch.tensor(True)) for pictures in contexts)]
    return ((images, labels, N_CLASSES, N_STEPS), queries), truth


def _model(measured: Measured, truth: Truth) -> str | None:
    if fault := classifiers.fault_of_classes(measured.outputs[:3], (len(truth["labels"]), N_FEW, 1)):
        return fault
    sizes = ((1 + SIDE**2) * N_BASES, N_GREYS, 2 * N_SAME, 6 * N_SAME, 3 * N_SAME)
    for n, context in zip(sizes, measured.outputs[3:], strict=True):
        if context.ndim != 4 or (context.shape[0], *context.shape[2:]) != (n, SIDE, SIDE):
            expected = f"For images {(n, 1, SIDE, SIDE)} and True it should return the context ({n}, d, 8, 8)"
            advice = " True comes as a tensor: write `if context:`, not `is True`." if context.shape == (n, N_CLASSES) else ""
            return f"{expected}, not {tuple(context.shape)}.{advice}"
        if not context.is_floating_point() or not context.isfinite().all():
            return "The context should be floating point and finite."
    return None


def _influences(measured: Measured) -> Tensor:
    """How far the context of each pixel (last two axes) moves when a pixel (first two) is replaced, relative to the largest."""
    plain, *replaced = measured.outputs[3].double().chunk(1 + SIDE**2)
    moved = (torch.stack(replaced) - plain).abs().amax((1, 2))
    return (moved / moved.max().clamp(min=1e-12)).view(SIDE, SIDE, SIDE, SIDE)


def _from_outside(measured: Measured, around: bool = False) -> bool:
    """Whether a pixel influences the context of one in whose window it is not; `around` joins opposite borders."""
    apart = (torch.arange(SIDE)[:, None] - torch.arange(SIDE)).abs()
    far = (torch.minimum(apart, SIDE - apart) if around else apart) > 1
    return bool((_influences(measured)[far[:, None, :, None] | far[None, :, None, :]] > SOME).any())


def _missing(measured: Measured) -> int:
    """How many positions of a window have no influence on the context of any inner pixel."""
    influences, inner = _influences(measured), torch.arange(1, SIDE - 1)
    offsets = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    return sum(int((influences[inner[:, None] + a, inner + b, inner[:, None], inner] < NONE).all()) for a, b in offsets)


def _differ(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest number."""
    return ((one - other).abs().max() / one.abs().max().clamp(min=1e-12)).item()


def _border_and_inside(measured: Measured) -> tuple[float, float]:
    """How much contexts in pictures of one grey differ from that of an inner pixel: those of all pixels, and of inner ones."""
    context = measured.outputs[4].double()
    centre = context[:, :, AT[0], AT[1], None, None]
    return _differ(context, centre), _differ(context[:, :, 1:-1, 1:-1], centre)


def _sums(measured: Measured) -> tuple[float, float]:
    """How much the change of a context by the left part of its window depends on the right part, and on the centre."""
    plain, left, right_, all_, centre, two = measured.outputs[6].double()[..., AT[0], AT[1]].chunk(6)
    size = torch.stack([left - plain, right_ - plain]).abs().max().clamp(min=1e-12)
    return tuple(((x - left + plain).abs().max() / size).item() for x in (all_ - right_, two - centre))


def _mixed(measured: Measured) -> float:
    """How much the context of a pixel changes when its neighbours change places."""
    return _differ(*measured.outputs[5].double()[..., AT[0], AT[1]].chunk(2))


def _moved(measured: Measured) -> float:
    """How much the context of an inner pixel changes when the picture moves with it."""
    plain, down, across = measured.outputs[7].double().chunk(3)
    steps = ((down[:, :, 2:-1, 1:-1], plain[:, :, 1:-2, 1:-1]), (across[:, :, 1:-1, 2:-1], plain[:, :, 1:-1, 1:-2]))
    return max(_differ(before, after) for after, before in steps)


def _local(measured: Measured, truth: Truth) -> str | None:
    if _from_outside(measured):
        return "The context of a pixel changes when a pixel outside its window of 3 × 3 is replaced."
    if (n := _missing(measured)) >= MANY:
        return f"{n} of the 9 positions of a window have no influence on the context."
    return None


def _weights(measured: Measured, truth: Truth) -> str | None:
    if _border_and_inside(measured)[0] > EXACT:
        return "In a picture of a single grey, where all values are equal, the context is not the same at every pixel."
    return None


def _content(measured: Measured, truth: Truth) -> str | None:
    if _sums(measured)[0] < EXACT:
        return "Other pixels on its left change the context of a pixel by the same amount whatever is on its right."
    return None


def _positions(measured: Measured, truth: Truth) -> str | None:
    if _mixed(measured) < EXACT:
        return "When the neighbours of a pixel change places, its context stays the same."
    if _moved(measured) > EXACT:
        return "When a picture moves by one pixel, the context of its inner pixels does not move with it but changes."
    return None


_score = trained.at_least(LEAST, classifiers.held_out_accuracy, "On held-out images the accuracy")

fails_to_learn = trained.fails(_score)
"""Evidence: the accuracy is lower than what is asked for."""


def wraps_around(measured: Measured, truth: Truth) -> bool:
    """Evidence: outside its window, only pixels at the opposite border influence a context, as if the borders were joined."""
    return _from_outside(measured) and not _from_outside(measured, around=True)


def leaves_neighbours_out(measured: Measured, truth: Truth) -> bool:
    """Evidence: some positions of the window have no influence on the context of any pixel."""
    return MANY <= _missing(measured) < 8


def leaves_all_neighbours_out(measured: Measured, truth: Truth) -> bool:
    """Evidence: a single pixel of the window has an influence on a context, and none outside has."""
    return not _from_outside(measured) and _missing(measured) == 8


def _differs_at_the_border(measured: Measured) -> bool:
    all_, inner = _border_and_inside(measured)
    return inner < EXACT < all_


def reads_outside_with_another_border(measured: Measured, truth: Truth) -> bool:
    """Evidence: pixels outside the window have an influence; equal values give equal contexts everywhere but at the border."""
    return _from_outside(measured) and _differs_at_the_border(measured)


def reads_outside(measured: Measured, truth: Truth) -> bool:
    """Evidence: pixels outside the window have an influence on a context."""
    return _from_outside(measured)


def is_a_sum_over_pixels(measured: Measured, truth: Truth) -> bool:
    """Evidence: what a pixel adds to a context does not depend on any other pixel."""
    return max(_sums(measured)) < EXACT


def is_a_padded_sum(measured: Measured, truth: Truth) -> bool:
    """Evidence: what a pixel adds to a context does not depend on any other, and there is less of it at the border."""
    return is_a_sum_over_pixels(measured, truth) and _border_and_inside(measured)[0] > EXACT


def adds_up_neighbours(measured: Measured, truth: Truth) -> bool:
    """Evidence: what a neighbour adds to a context depends on the centre of the window and not on the other neighbours."""
    neighbours, centre = _sums(measured)
    return neighbours < EXACT <= centre


def adds_up_fewer_at_the_border(measured: Measured, truth: Truth) -> bool:
    """Evidence: contexts are such sums, and where a window has fewer pixels, the weights inside have another sum."""
    return adds_up_neighbours(measured, truth) and _differs_at_the_border(measured)


def depends_on_the_place(measured: Measured, truth: Truth) -> bool:
    """Evidence: inner pixels with the same window have other contexts."""
    return not _from_outside(measured) and _moved(measured) > EXACT


def reads_beyond_the_border(measured: Measured, truth: Truth) -> bool:
    """Evidence: equal values give equal contexts everywhere but at the border, where windows have fewer pixels."""
    return not _from_outside(measured) and _differs_at_the_border(measured)


def ignores_the_order_of_neighbours(measured: Measured, truth: Truth) -> bool:
    """Evidence: weights that were trained, and neighbours that have an influence on the context between them in any order."""
    plain, _, _, replaced, *_ = measured.outputs[6].double()[..., AT[0], AT[1]].chunk(6)
    many = measured.n_updates >= 50 and measured.moved > TOO_NEAR
    return many and _mixed(measured) < EXACT and _differ(plain, replaced) > CLEAR


def unfolded(x):
    """Give the windows of (B, C, H, W) as (B, C, 9, H · W), with zeros outside the picture."""
    return F.unfold(x, 3, padding=1).unflatten(1, (-1, 9))


def _content_and_position(q, k, offsets):
    return (q.unsqueeze(2) * k).sum(1) + offsets.mT @ q


def _over_positions(scores):
    return scores.softmax(1)


class OneHead(nn.Module):
    """Local attention with one head, and what a wrong submission changes: windows, mask, scores and softmax."""

    def __init__(
        self, d=16, windows=unfolded, scores=_content_and_position, normalised=_over_positions, masked=True, positions=1.0
    ):
        super().__init__()
        self.q, self.k, self.v = (nn.Conv2d(d, d, 1, bias=False) for _ in range(3))
        self.offsets, self.used = nn.Parameter(torch.randn(d, 9) * d**-0.5), positions
        self.windows, self.scores, self.normalised, self.masked = windows, scores, normalised, masked

    def forward(self, x):
        q, k, v = self.q(x).flatten(2), self.windows(self.k(x)), self.windows(self.v(x))
        scores = self.scores(q, k, self.used * self.offsets)
        inside = self.windows(torch.ones_like(x[:1, :1]))[0, 0] > 0
        scores = scores.masked_fill(~inside, -torch.inf) if self.masked else scores
        return (self.normalised(scores).unsqueeze(1) * v).sum(2).view_as(x)


class SmallNetwork(nn.Module):
    """Two residual blocks around the given attention layers, and the mean over all pixels; dropout where it is asked for."""

    def __init__(self, n_classes, layer=OneHead, d=16, dropout=0.0, stem=1, **settings):
        super().__init__()
        layer = partial(layer, **settings)
        self.stem = nn.Sequential(nn.Conv2d(1, d, stem, padding="same"), nn.BatchNorm2d(d), nn.ReLU())
        self.mixing, self.norms = (nn.ModuleList(make() for _ in range(2)) for make in (layer, lambda: nn.BatchNorm2d(d)))
        self.feed_forward = nn.ModuleList(
            nn.Sequential(nn.Conv2d(d, 2 * d, 1), nn.ReLU(), nn.Conv2d(2 * d, d, 1), nn.BatchNorm2d(d)) for _ in range(2)
        )
        self.logits, self.dropout = nn.Linear(d, n_classes), nn.Dropout(dropout)

    def forward(self, images, only_context=False):
        x = self.stem(images)
        if only_context:
            return self.mixing[0](x)
        for mix, norm, feed_forward in zip(self.mixing, self.norms, self.feed_forward, strict=True):
            x = x + norm(mix(x)).relu()
            x = x + feed_forward(x)
        return self.logits(self.dropout(x.mean((2, 3))))


DROPOUT = (
    "Asked twice about the same image, your model gives different results: it is still in training mode, and its dropout draws "
    "new zeros at each call. Return `model.eval()`."
)
submit = classifiers.submission(SmallNetwork, lr=1e-2, usual=0.25)
ADVICE = " If they belong together, take a smaller learning rate."
wrong = loops.Submissions(
    __name__, submit, rates="0.003 to 0.01, or up to 0.02 with a schedule", advice=ADVICE, **classifiers.WORDS
)
says = loops.LOOP | {"dropout_left_on": DROPOUT}
classifiers.loop_mistakes(wrong, says, fails_to_learn, part=0.25, dropout=0.2, too_large=10.0)
classifiers.data_mistakes(wrong)


@wrong(proof=trained.reads_other_examples)
def batch_statistics_in_evaluation(*data):
    """The logits of an image depend on the other images of its batch. Either the model is still in training mode, in which
    BatchNorm uses the statistics of the batch (return `model.eval()`), or a softmax or a norm runs along the batch axis."""
    return submit(data, left_on=True)


@wrong.change("layer", leaves_all_neighbours_out)
class HeadsAttendToEachOther(OneHead):
    """A pixel receives nothing from its neighbours: its context depends on itself alone. In a product of (…, h, d) with
    (…, d, h) the *heads* of one pixel attend to each other. Scores, weights and values need an axis for the nine positions of
    the window."""

    def forward(self, x):
        q, k, v = (layer(x).unflatten(1, (4, 4)).permute(0, 3, 4, 1, 2) for layer in (self.q, self.k, self.v))
        return ((q @ k.mT).softmax(-1) @ v).permute(0, 3, 4, 1, 2).flatten(1, 2)


@wrong.change("windows", leaves_neighbours_out)
def windows_not_centred(x):
    """Some neighbours of a pixel, the same for all pixels, have no influence on its context: your windows are not centred. A
    window of 3 × 3 needs a padding of one pixel on *each* side; then position 4 of the nine is the pixel itself."""
    return F.unfold(F.pad(x, (0, 2, 0, 2)), 3).unflatten(1, (-1, 9))


@wrong.change("windows", wraps_around)
def windows_that_wrap_around(x):
    """Your windows wrap around: pixels at one border attend to pixels at the opposite border. `torch.roll`, negative indices
    and circular padding do this. Pad the picture by one pixel on each side, and mask what is outside."""
    return torch.stack([x.roll((a, b), (2, 3)).flatten(2) for a in (1, 0, -1) for b in (1, 0, -1)], dim=2)


@wrong(proof=reads_outside_with_another_border)
def softmax_over_pixels(*data):
    """The context of a pixel depends on pixels outside its window, and in a picture of a single grey it differs at the border
    from that inside. Either the softmax runs along the axis of the pixels instead of that of the nine positions, or a norm over
    pixels comes before the attention, and positions outside the picture take part in it. Print the shape of the scores, and
    the sums of the weights of each window over the pixels inside: they must be 1."""
    return submit(data, normalised=partial(torch.softmax, dim=-1))


@wrong.change("layer", reads_outside)
class GlobalAttention(OneHead):
    """The context of a pixel depends on pixels outside its window of 3 × 3. Is the attention global, the window too large or
    dilated, or is there a convolution or a norm over pixels before it? A `view` or `reshape` that mixes pixels with features
    does this too, and so do axes of the context in another order than (B, d, H, W)."""

    def forward(self, x):
        q, k, v = (layer(x).flatten(2).mT for layer in (self.q, self.k, self.v))
        return ((q @ k.mT).softmax(-1) @ v).mT.reshape(x.shape)


@wrong(proof=is_a_padded_sum)
def convolution_for_attention(*data):
    """The first layer computes a convolution, not attention: what a pixel adds to a context is the same whatever the other
    pixels of the window show, and the border is padded with zeros. In attention the *weights* are computed from the features: a
    softmax of the scores of a query with the keys of its window."""
    return submit(data, layer=partial(nn.Conv2d, 16, 16, 3, padding=1))


@wrong.change("scores", is_a_sum_over_pixels)
def weights_of_positions_alone(q, k, offsets):
    """Your weights depend on the relative position and on nothing else: what a pixel adds to a context is the same whatever the
    window shows. That is a convolution whose kernel has passed a softmax. The scores need the products of the queries with the
    keys, qᵀk, besides those with the positions, qᵀr."""
    return offsets.sum(0)[:, None].expand(len(q), 9, q.shape[-1])


@wrong.change("layer", depends_on_the_place)
class AbsolutePositions(OneHead):
    """Your layer uses the place in the picture: inner pixels with the same window have another context after the picture has
    moved by one pixel. Positions of this layer are *relative*: a vector r for the offset from the query to the key, the same
    for every query. Add nothing to the features that depends on the row or column in the picture, and centre each window on
    its query: blocks into which the picture is cut do not move with it."""

    def __init__(self, d=16):
        super().__init__(d)
        self.places = nn.Parameter(torch.randn(d, SIDE, SIDE))

    def forward(self, x):
        return super().forward(x + self.places)


@wrong(proof=adds_up_fewer_at_the_border)
def softmax_left_out(*data):
    """What a neighbour adds to a context does not depend on the other neighbours, and in a picture of a single grey the context
    at the border differs from that inside. Either the softmax over the nine positions is missing, or it runs along another
    axis, such as that of the heads; or the scores leave out the keys, and positions outside the picture take part. Print the
    sums of the weights of each window over the pixels inside: they must be 1."""
    return submit(data, normalised=torch.sigmoid)


@wrong.change("scores", adds_up_neighbours)
def keys_left_out(q, k, offsets):
    """Your weights depend on the query and not on the keys: what the left neighbours add to a context is the same whatever is
    on the right. Add the products of each query with the keys of its window, qᵀk, to the scores of the positions, qᵀr."""
    return offsets.mT @ q


@wrong(proof=ignores_the_order_of_neighbours)
def without_positions(*data):
    """Your attention does not know where in its window a pixel is: when the neighbours of a pixel change places, its context
    stays the same. Either there are no vectors of relative positions, or they do not reach the scores, or they began at 0 and
    no optimizer holds them. Add qᵀr to the scores, where r is an `nn.Parameter` for each of the nine positions. If that is
    done, the products qᵀk have outgrown them: take a smaller learning rate."""
    return submit(data, positions=0.0)


@wrong(proof=reads_beyond_the_border)
def beyond_the_border(*data):
    """In a picture of a single grey, where all values are equal, the context at the border differs from that inside. Either
    positions outside take part: a padded key has a score, too, and takes weight from the pixels. Set these scores to -∞
    *before* the softmax, so that the weights inside sum to 1. Or the windows are viewed in a wrong order: `F.unfold` gives
    C · 9, the features first. Or positions are added to the values: they belong to the scores alone."""
    return submit(data, masked=False)


@wrong.change("layer", trained.weights_without_gradient, says=loops.CUT_OFF)
class AttentionCutOff(OneHead):
    def forward(self, x):
        return super().forward(x).detach()


@right
def global_scores_with_a_mask_and_a_table(images, labels, n_classes, n_steps):
    """Fused attention over all pixels with a bias: -∞ outside the window, and a learned number for each head and offset in it;
    the maximum over the pixels."""
    place = torch.stack(torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")).flatten(1)
    offset = place[:, None, :] - place[:, :, None] + 1
    in_window, index = ((offset >= 0) & (offset < 3)).all(0), (3 * offset[0] + offset[1]).clamp(0, 8)

    class Layer(nn.Module):
        def __init__(self, d=16, n_heads=4):
            super().__init__()
            self.table, self.n_heads = nn.Parameter(torch.randn(n_heads, 9)), n_heads
            self.qkv = nn.Conv2d(d, 3 * d, 1)

        def forward(self, x):
            bias = self.table[:, index].masked_fill(~in_window, -torch.inf)
            q, k, v = (y.unflatten(1, (self.n_heads, -1)).flatten(3).mT for y in self.qkv(x).chunk(3, 1))
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None]).mT.reshape(x.shape)

    model = SmallNetwork(n_classes, Layer)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(n_steps):
        for group in optimizer.param_groups:
            group["lr"] = 2e-2 * (1 - step / n_steps)
        which = torch.randperm(len(labels))[:32]
        loss = F.cross_entropy(model(images[which]), labels[which], label_smoothing=0.05)
        model.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@right
def without_modules(images, labels, n_classes, n_steps):
    """Weights in a dict, shifted views of padded features, positions added to the keys, a softmax by hand; batch statistics in
    a list; Adam by hand."""
    d = 16
    shapes = {"embed": (2, d), "out": (d, n_classes)}
    shapes |= {f"{name}{i}": (d, d) for name in ("q", "k", "v") for i in (0, 1)}
    shapes |= {f"{name}{i}": shape for name, shape in (("up", (d, 3 * d)), ("down", (3 * d, d))) for i in (0, 1)}
    weights = {name: (torch.randn(shape) * shape[0] ** -0.5).requires_grad_() for name, shape in shapes.items()}
    weights |= {f"r{i}": torch.randn(9, d).requires_grad_() for i in (0, 1)}
    statistics = [(torch.zeros(d), torch.ones(d)) for _ in range(5)]
    trains = True

    def normal(x, i):
        return F.batch_norm(x.flatten(0, 2), *statistics[i], training=trains).view_as(x)

    def windows(x):
        H, W = x.shape[1:3]
        padded = F.pad(x, (0, 0, 1, 1, 1, 1))
        return torch.stack([padded[:, a : a + H, b : b + W] for a in range(3) for b in range(3)], dim=3)

    def mixed(x, i):
        inside = windows(torch.ones_like(x[:1, ..., :1]))[..., 0]
        keys, values = windows(x @ weights[f"k{i}"]) + weights[f"r{i}"], windows(x @ weights[f"v{i}"])
        q, k, v = (y.unflatten(-1, (4, -1)) for y in ((x @ weights[f"q{i}"])[..., None, :], keys, values))
        scores = (q * k).sum(-1)
        exponentials = (scores - scores.amax(-2, keepdim=True)).exp() * inside[..., None]
        return ((exponentials / exponentials.sum(-2, keepdim=True))[..., None] * v).sum(3).flatten(-2)

    def model(pictures, context=False):
        pixels = pictures[:, 0, ..., None]
        x = normal(torch.cat([pixels, 1 - pixels], -1) @ weights["embed"], 0).relu()
        for i in (0, 1):
            y = mixed(x, i)
            if context:
                return y.permute(0, 3, 1, 2)
            x = x + normal(y, 1 + i).relu()
            x = x + normal((x @ weights[f"up{i}"]).relu() @ weights[f"down{i}"], 3 + i)
        return x.mean((1, 2)) @ weights["out"]

    first, second = ({name: torch.zeros_like(w) for name, w in weights.items()} for _ in range(2))
    for step in range(1, n_steps + 1):
        which = torch.randint(len(labels), (32,))
        loss = -model(images[which]).log_softmax(-1).gather(1, labels[which][:, None]).mean()
        for name, gradient in zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True):
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.99 * second[name] + 0.01 * gradient**2
            mean, square = first[name] / (1 - 0.9**step), second[name] / (1 - 0.99**step)
            weights[name].data -= 2e-2 * min(1, step / 50) * (1 - step / (n_steps + 1)) * mean / (square.sqrt() + 1e-8)
    trains = False
    return model


MIXES_WINDOWS = (
    trained.shown("local", "A context depends on each pixel of the window of 3 × 3 around it, and on no other.", _local),
    trained.shown("weights", "Where all pixels are equal, so are all contexts: weights inside the picture sum to 1.", _weights),
    trained.shown("content", "The weights depend on the content of the window, as a convolution's do not.", _content),
    trained.shown("positions", "The weights depend on relative positions, and not on the place in the picture.", _positions),
)

exercise = Exercise(
    id="10.6",
    title="A network of local attention and its training loop",
    extra=True,
    reference=train_local_attention,
    properties=classifiers.properties(
        SECONDS,
        MOST_PARAMETERS,
        model=("The model maps images (B, 1, 8, 8) to logits (B, n_classes), and with True to (B, d, 8, 8).", _model),
        mixing=MIXES_WINDOWS,
        score=(f"On held-out images the accuracy is at least {LEAST:g}.", _score),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={
        LocalAttention: "write the layer yourself; your functions from above may be used.",
        digits: "learn from the images that you are given.",
    },
    training=Training(questions, SECONDS),
)
