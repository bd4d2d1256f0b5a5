"""Build task 10.6, train_denoiser: a network of local attention layers that removes noise; what students hand in.

The images are stained glass, and the noise has another strength in each colour channel; which, the check draws. Two filters
that nothing trains set the scores: the best kernel, the same at every pixel, and the best bilateral filter, one rule for all.
The returned model also gives the context of its first attention layer. What that depends on is measured from outside: the
pixels of the window and no others, attention and not a convolution, relative positions, and nothing beyond the border. Of
later layers only this is measured: how far away pixels may be that influence a restored one.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import LocalAttention, local_attention
from course_tools.bank import training_loops as loops
from course_tools.bank.fixed_filters import best_bilateral_filter, best_twice, bilateral_filter, by_the_best_kernel, twice
from course_tools.bank.stained_glass import UNEVEN, decibels, stained_glass, with_noise
from course_tools.checks import trained
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Training, Truth
from course_tools.checks.trained import TOO_NEAR, both
from course_tools.checks.training_record import Measured

right = Answers()

SECONDS, MOST_PARAMETERS, N_STEPS = 60.0, 20_000, 600
SIDE, N_LEARN, N_HELD_OUT, N_FEW, N_TUNING = 16, 1_500, 200, 16, 100
N_COLOURS, N_SAME = 5, 8
REPLACED = torch.cartesian_prod(*2 * [torch.arange(0, SIDE, 3)])
"""Row and column of the pixels that are replaced, one at a time, (36, 2); the first and the last are at the border."""
AT, ROWS, COLUMNS = (3, 4), slice(2, 5), slice(3, 6)
"""The pixel whose window is changed, and that window."""
MOST_LAYERS = 3
"""Attention layers that a network may have: each widens what a restored pixel depends on by one pixel on each side."""
NONE, SOME = 1e-6, 1e-5
"""Changes of the context, relative to the largest: one that is at most rounding, and one that is more."""
LEAST = 0.1
"""Changes of colours are relative to this one if they are smaller: those of a model that returns one colour are rounding."""
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
        "that of an image of ones shows which positions are inside. A learned vector r for each head and each of the nine "
        "positions gives the scores q · r. Set the scores of positions outside to -∞ before the softmax."
    ),
    (
        "16 features, 4 heads and two layers are enough: a convolution of 1 × 1 and a ReLU, twice `x = x + attention(x)`, and "
        "a convolution of 1 × 1 to three colours. Adam with a learning rate that rises to 0.02 and falls "
        "(`torch.optim.lr_scheduler.OneCycleLR`), the mean squared error of random batches of 8, and at the end "
        "`return model.eval()`."
    ),
)


def train_denoiser(noisy: Tensor, clean: Tensor, n_steps: int) -> nn.Module:
    """Build a network whose only spatial operation is local attention, train it to remove noise, and return it.

    The model maps noisy images (B, 3, H, W) to restored ones of the same shape. Each attention layer attends to windows of
    3 × 3 pixels with relative positions, and there are at most three; all else acts on each pixel by itself. With a second
    argument, `model(noisy, True)`, it returns the context of its first attention layer instead, (B, d, H, W): the weighted sum
    of the values, before a linear layer, a residual connection or a norm that may follow.

    Args:
        noisy: images with noise to learn from, (N, 3, 16, 16). Its strength differs between the channels.
        clean: the same images without noise, colours from 0 to 1.
        n_steps: updates that the training may make.

    Returns:
        the trained model, ready to use: asked twice, it gives the same images.
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
            self.stem, self.head = nn.Conv2d(3, d, 1), nn.Conv2d(d, 3, 1)
            self.first, self.second = Attention(), Attention()

        def forward(self, images, only_context=False):
            x = self.stem(images).relu()
            context = self.first(x)
            if only_context:
                return context
            x = x + context
            return self.head(x + self.second(x))

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=n_steps + 1)
    for _ in range(n_steps):
        which = torch.randint(len(noisy), (8,))
        loss = F.mse_loss(model(noisy[which]), clean[which])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def questions(draw: Draw) -> tuple[Call, Truth]:
    """Draw the images to learn from, and what the model is asked.

    It is asked to restore held-out images (200, 3, 16, 16), the last 16 of them, one, and five of a single colour; and for
    contexts of images of random colours: one as it is, then with one of 36 pixels replaced, in turn (37, 3, 16, 16) ·
    five of a single colour · eight, and these with the neighbours of one pixel in another order (16, 3, 16, 16) · eight, these
    with the left part of a window replaced, the right part, both, its centre, centre and left (48, 3, 16, 16) · eight,
    and these moved down and to the right by one pixel (24, 3, 16, 16) · eight of one colour, eight of another, and eight in
    which each pixel has one of the two (24, 3, 16, 16). Last it is asked to restore those of which one pixel is replaced.
    """
    strengths = [UNEVEN[channel] for channel in draw.uniform(3).argsort()]
    images = stained_glass(N_LEARN + N_HELD_OUT, draw.generator, SIDE)
    given = images, with_noise(images, draw.generator, strengths)
    (clean, wanted), (noisy, asked) = (part.split([N_LEARN, N_HELD_OUT]) for part in given)

    base, other = draw.uniform(2, 1, 3, SIDE, SIDE)
    pixels = F.one_hot(REPLACED @ torch.tensor([SIDE, 1]), SIDE**2).bool().view(-1, 1, SIDE, SIDE)
    colours = draw.uniform(N_COLOURS, 3, 1, 1).expand(-1, -1, SIDE, SIDE).contiguous()
    same, new = draw.uniform(2, N_SAME, 3, SIDE, SIDE)
    mixed = same.clone()
    neighbours = same[:, :, ROWS, COLUMNS].flatten(2)[..., [6, 3, 8, 5, 4, 0, 7, 1, 2]]
    mixed[:, :, ROWS, COLUMNS] = neighbours.unflatten(2, (3, 3))
    left, right_, centre = (torch.zeros(SIDE, SIDE, dtype=torch.bool) for _ in range(3))
    left[ROWS, AT[1] - 1], right_[ROWS, AT[1] + 1], centre[AT] = True, True, True
    parts = [torch.where(where, new, same) for where in (left, right_, left | right_, centre, centre | left)]
    one, two = draw.uniform(2, N_SAME, 3, 1, 1).expand(-1, -1, -1, SIDE, SIDE)
    contexts = [
        torch.cat([base, torch.where(pixels, other, base)]),
        colours,
        torch.cat([same, mixed]),
        torch.cat([same, *parts]),
        torch.cat([same, same.roll(1, 2), same.roll(1, 3)]),
        torch.cat([one, two, torch.where(draw.uniform(N_SAME, 1, SIDE, SIDE) < 0.5, one, two)]),
    ]
    shown = [asked, asked[-N_FEW:], asked[:1], colours]
    queries = [*shown, *((each, torch.tensor(True)) for each in contexts), contexts[0]]
    known = noisy[:N_TUNING], clean[:N_TUNING]
    once, passes = best_bilateral_filter(*known, 5, itself=False), best_twice(*known, 3)
    filtered = bilateral_filter(asked, 5, *once, itself=False), twice(asked, 3, *passes)
    truth = {
        "labels": wanted,
        "noisy": asked,
        "n_steps": N_STEPS,
        "mean colour": decibels(clean.mean((0, 2, 3), keepdim=True).expand_as(wanted), wanted),
        "kernel": decibels(by_the_best_kernel(*known, asked, 5), wanted),
        "filter": max(decibels(one, wanted) for one in filtered),
    }
    return ((noisy, clean, N_STEPS), queries), truth


def quality(measured: Measured, truth: Truth) -> float:
    """The peak signal-to-noise ratio on held-out images, in dB."""
    return decibels(measured.outputs[0].float(), truth["labels"])


def _model(measured: Measured, truth: Truth) -> str | None:
    *shown, last = *measured.outputs[:4], measured.outputs[-1]
    for n, restored in zip((N_HELD_OUT, N_FEW, 1, N_COLOURS, 1 + len(REPLACED)), (*shown, last), strict=True):
        if restored.shape != (n, 3, SIDE, SIDE):
            return f"For images {(n, 3, SIDE, SIDE)} it should return images of this shape, not {tuple(restored.shape)}."
    for n, context in zip(
        (1 + len(REPLACED), N_COLOURS, 2 * N_SAME, 6 * N_SAME, 3 * N_SAME, 3 * N_SAME), measured.outputs[4:-1], strict=True
    ):
        if context.ndim != 4 or (context.shape[0], *context.shape[2:]) != (n, SIDE, SIDE):
            expected = f"For images {(n, 3, SIDE, SIDE)} and True it should return the context ({n}, d, 16, 16)"
            return f"{expected}, not {tuple(context.shape)}."
    if torch.equal(measured.outputs[4 + 1], measured.outputs[3]):
        return "With True it returns the restored images and not the context. True comes as a tensor: write `if context:`."
    if not all(output.is_floating_point() and output.isfinite().all() for output in measured.outputs):
        return "Images and context should be floating point and finite."
    return None


def _influences(measured: Measured) -> Tensor:
    """How far the context at each pixel moves when one of REPLACED is replaced, relative to the largest, (36, 16, 16)."""
    plain, *replaced = measured.outputs[4].double()
    moved = (torch.stack(replaced) - plain).abs().amax(1)
    return moved / moved.max().clamp(min=1e-12)


def _beyond(reach: int, around: bool = False) -> Tensor:
    """Where pixels are further than `reach` from each of REPLACED, (36, 16, 16); `around` joins opposite borders."""
    apart = (REPLACED[:, :, None] - torch.arange(SIDE)).abs()
    far = (torch.minimum(apart, SIDE - apart) if around else apart) > reach
    return far[:, 0, :, None] | far[:, 1, None, :]


def _from_outside(measured: Measured, around: bool = False) -> bool:
    """Whether a pixel influences the context of one in whose window it is not; `around` joins opposite borders."""
    return bool((_influences(measured)[_beyond(1, around)] > SOME).any())


def _from_afar(measured: Measured) -> bool:
    """Whether a pixel influences a restored one that is further away than layers of attention, as many as allowed, reach."""
    plain, *replaced = measured.outputs[-1].double()
    moved = (torch.stack(replaced) - plain).abs().amax(1)
    return bool((moved[_beyond(MOST_LAYERS)] > SOME * moved.max().clamp(min=LEAST)).any())


def _missing(measured: Measured) -> int:
    """How many positions of a window have no influence on the context of any pixel."""
    inner = ((REPLACED > 0) & (REPLACED < SIDE - 1)).all(1)
    influences, (row, column) = _influences(measured)[inner], REPLACED[inner].mT
    offsets = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    return sum(int((influences[torch.arange(len(row)), row + a, column + b] < NONE).all()) for a, b in offsets)


def _differ(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest number."""
    return ((one - other).abs().max() / one.abs().max().clamp(min=1e-12)).item()


def _border_and_inside(measured: Measured) -> tuple[float, float]:
    """How much contexts in images of one colour differ from that of an inner pixel: those of all pixels, and of inner ones."""
    context = measured.outputs[5].double()
    centre = context[:, :, AT[0], AT[1], None, None]
    return _differ(context, centre), _differ(context[:, :, 1:-1, 1:-1], centre)


def _outside_the_two(measured: Measured) -> float:
    """How far contexts in images of two colours lie outside the interval between those of the two, feature by feature."""
    one, two, mixture = measured.outputs[9].double().chunk(3)
    one, two = (each[:, :, AT[0], AT[1], None, None] for each in (one, two))
    least, most = torch.minimum(one, two), torch.maximum(one, two)
    return (torch.maximum(least - mixture, mixture - most).max() / torch.maximum(most, -least).max().clamp(min=1e-12)).item()


def _sums(measured: Measured) -> tuple[float, float]:
    """How much the change of a context by the left part of its window depends on the right part, and on the centre."""
    plain, left, right_, all_, centre, two = measured.outputs[7].double()[..., AT[0], AT[1]].chunk(6)
    size = torch.stack([left - plain, right_ - plain]).abs().max().clamp(min=1e-12)
    return tuple(((x - left + plain).abs().max() / size).item() for x in (all_ - right_, two - centre))


def _mixed(measured: Measured) -> float:
    """How much the context of a pixel changes when its neighbours change places."""
    return _differ(*measured.outputs[6].double()[..., AT[0], AT[1]].chunk(2))


def _moved(measured: Measured) -> float:
    """How much the context of an inner pixel changes when the image moves with it."""
    plain, down, across = measured.outputs[8].double().chunk(3)
    steps = ((down[:, :, 2:-1, 1:-1], plain[:, :, 1:-2, 1:-1]), (across[:, :, 1:-1, 2:-1], plain[:, :, 1:-1, 1:-2]))
    return max(_differ(before, after) for after, before in steps)


def _colours(measured: Measured) -> float:
    """How much the colours of a restored image of a single colour differ."""
    restored = measured.outputs[3].double()
    return _differ(restored, restored[:, :, AT[0], AT[1], None, None])


def _local(measured: Measured, truth: Truth) -> str | None:
    if _from_outside(measured):
        return "The context of a pixel changes when a pixel outside its window of 3 × 3 is replaced."
    if (n := _missing(measured)) >= MANY:
        return f"{n} of the 9 positions of a window have no influence on the context."
    if _from_afar(measured):
        side = 2 * MOST_LAYERS + 1
        return f"A restored pixel changes when a pixel outside the {side} × {side} pixels around it is replaced."
    return None


def _weights(measured: Measured, truth: Truth) -> str | None:
    if _border_and_inside(measured)[0] > EXACT:
        return "In an image of a single colour, where all values are equal, the context is not the same at every pixel."
    if _colours(measured) > EXACT:
        return "A restored image of a single colour has not the same colour at every pixel."
    if _outside_the_two(measured) > EXACT:
        return "In an image of two colours, features of the context are not between those of the two single colours."
    return None


def _content(measured: Measured, truth: Truth) -> str | None:
    if _sums(measured)[0] < EXACT:
        return "Other pixels on its left change the context of a pixel by the same amount whatever is on its right."
    return None


def _positions(measured: Measured, truth: Truth) -> str | None:
    if _mixed(measured) < EXACT:
        return "When the neighbours of a pixel change places, its context stays the same."
    if _moved(measured) > EXACT:
        return "When an image moves by one pixel, the context of its inner pixels does not move with it but changes."
    return None


def _batches(measured: Measured, truth: Truth) -> str | None:
    return "Every update reads the same images." if trained.reads_one_batch(measured, truth) else None


def _learns(measured: Measured, truth: Truth) -> str | None:
    found, least = quality(measured, truth), truth["kernel"]
    if found > least:
        return None
    return f"On held-out images it reaches {found:.1f} dB; the best kernel of 5 × 5, the same at every pixel, {least:.1f}."


def _score(measured: Measured, truth: Truth) -> str | None:
    found, least = quality(measured, truth), truth["filter"]
    if found > least:
        return None
    return f"On held-out images it reaches {found:.1f} dB; the best bilateral filter, which learns nothing, {least:.1f}."


fails_to_learn = trained.fails(_score)
"""Evidence: the best bilateral filter restores held-out images as well or better."""


def has_learned_nothing(measured: Measured, truth: Truth) -> bool:
    """Evidence: one colour, the mean of all images, is nearer to the held-out ones than what the model returns."""
    return quality(measured, truth) < truth["mean colour"]


def returns_one_colour(measured: Measured, truth: Truth) -> bool:
    """Evidence: many updates moved the weights, and what it returns is about as near as the mean colour of all images."""
    trains = measured.n_updates >= 50 and measured.moved > TOO_NEAR
    return trains and abs(quality(measured, truth) - truth["mean colour"]) < 0.5


def keeps_the_noise(measured: Measured, truth: Truth) -> bool:
    """Evidence: what the model returns is nearer to the noisy images than to the clean ones."""
    return F.mse_loss(measured.outputs[0], truth["noisy"]) < F.mse_loss(measured.outputs[0], truth["labels"])


def returns_the_noise(measured: Measured, truth: Truth) -> bool:
    """Evidence: the noisy images minus what the model returns are restored better than by a kernel."""
    return decibels(truth["noisy"] - measured.outputs[0], truth["labels"]) > truth["kernel"]


def mixes_pixels_later(measured: Measured, truth: Truth) -> bool:
    """Evidence: images of one colour have one context in the first layer, and the restored images have more colours."""
    return _border_and_inside(measured)[0] <= EXACT < _colours(measured)


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


def loses_weight_at_the_border(measured: Measured, truth: Truth) -> bool:
    """Evidence: in images of one colour each feature at the border is that of the inside times a number from 0 to 1."""
    context = measured.outputs[5].double()
    inside, size = context[:, :, AT[0], AT[1], None, None], context.abs().max().clamp(min=1e-12)
    shrunk = (context * inside.sign() > -EXACT * size) & (context.abs() < inside.abs() + EXACT * size)
    return reads_beyond_the_border(measured, truth) and bool(shrunk.all())


def restores_from_afar(measured: Measured, truth: Truth) -> bool:
    """Evidence: the first layer keeps to its window, and a restored pixel depends on more than three such layers reach."""
    return not _from_outside(measured) and _from_afar(measured)


def adds_to_the_weighted_sum(measured: Measured, truth: Truth) -> bool:
    """Evidence: contexts keep to their windows, and equal values give equal ones; but they are not between those they mix."""
    sound = not _from_outside(measured) and _border_and_inside(measured)[0] <= EXACT
    return sound and _outside_the_two(measured) > EXACT


def ignores_the_order_of_neighbours(measured: Measured, truth: Truth) -> bool:
    """Evidence: weights that were trained, and neighbours that have an influence on the context between them in any order."""
    plain, _, _, replaced, *_ = measured.outputs[7].double()[..., AT[0], AT[1]].chunk(6)
    many = measured.n_updates >= 50 and measured.moved > TOO_NEAR
    return many and _mixed(measured) < EXACT and _differ(plain, replaced) > CLEAR


def unfolded(x):
    """Give the windows of (B, C, H, W) as (B, C, 9, H · W), with zeros outside the image."""
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
    """Two residual layers between convolutions of 1 × 1, and what a wrong submission changes, settings of the layer too."""

    def __init__(self, layer=OneHead, d=16, dropout=0.0, stem=1, head=1, norm=nn.Identity, **settings):
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, d, stem, padding="same"), nn.Conv2d(d, 3, head, padding="same")
        self.first, self.second = (layer(**settings) for _ in range(2))
        self.norm, self.dropout = norm(), nn.Dropout(dropout)

    def forward(self, images, only_context=False):
        x = self.stem(images).relu()
        context = self.first(x)
        if only_context:
            return context
        x = x + self.norm(context)
        return self.head(self.dropout(x + self.second(x)))


def submit(data, part=0.25, pairs=None, model=SmallNetwork, lr=1e-2, **change):
    *examples, n_steps = data
    examples = pairs(*examples) if pairs else examples
    batch = partial(loops.drawn_examples, examples, 8)
    return loops.train(model, part * n_steps, batch, F.mse_loss, lr, **change)


wrong = loops.Submissions(
    __name__,
    submit,
    results="images",
    rates="0.003 to 0.01, or up to 0.02 with a schedule",
)
says = {name: text for name, text in loops.LOOP.items() if name != "one_batch_for_all_updates"}
wrong.loop_mistakes(fails_to_learn, has_learned_nothing, says, part=0.25, dropout=0.2, too_large=10.0)


@wrong(proof=trained.reads_one_batch)
def one_batch_for_all_updates(*data):
    """Every update reads the same batch: it is drawn once, before the loop. A few images show few colours and edges. Draw new
    ones in each update."""
    return submit(data, one_batch=True)


@wrong(proof=trained.makes_too_many_updates)
def epochs_for_updates(*data):
    """You make more updates than `n_steps`. An update is one step of the optimizer; a pass over all images makes many."""
    return submit(data, 1.08)


@wrong.change("pairs", suspicion=returns_one_colour)
def clean_images_of_other_noisy_ones(noisy, clean):
    """The model is trained in a sound way and returns nearly one colour, the mean of all images, as if the clean images did not
    belong to the noisy ones. Do you take `noisy[which]` and `clean[which]` with the same `which`? Show a pair. If they belong
    together, take a smaller learning rate."""
    return noisy, clean[torch.randperm(len(clean))]


@wrong.change("pairs", both(keeps_the_noise, lambda measured, truth: not has_learned_nothing(measured, truth)))
def noisy_images_for_clean_ones(noisy, clean):
    """Your model gives back the noise: what it returns is nearer to the noisy images than to the clean ones. Is the target of
    the loss `noisy[which]`? It must be `clean[which]`."""
    return noisy, noisy


@wrong.change("pairs", returns_the_noise)
def noise_for_the_image(noisy, clean):
    """Your model returns the noise: subtracted from its input, what it returns gives the restored image. To learn the noise
    is a good idea; but then the model must return its input minus the noise."""
    return noisy, noisy - clean


@wrong(proof=trained.reads_other_examples)
def batch_statistics_in_evaluation(*data):
    """What an image becomes depends on the other images of its batch. Either the model is still in training mode, in which
    BatchNorm uses the statistics of the batch (return `model.eval()`), or a softmax or a norm runs along the batch axis."""
    return submit(data, left_on=True, norm=partial(nn.BatchNorm2d, 16))


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
    and circular padding do this. Pad the image by one pixel on each side, and mask what is outside."""
    return torch.stack([x.roll((a, b), (2, 3)).flatten(2) for a in (1, 0, -1) for b in (1, 0, -1)], dim=2)


@wrong(proof=reads_outside_with_another_border)
def softmax_over_pixels(*data):
    """The context of a pixel depends on pixels outside its window, and in an image of a single colour it differs at the border
    from that inside. Either the softmax runs along the axis of the pixels instead of that of the nine positions, or a norm over
    pixels comes before the attention, and positions outside the image take part in it. Print the shape of the scores, and
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
    """Your layer uses the place in the image: inner pixels with the same window have another context after the image has
    moved by one pixel. Positions of this layer are *relative*: a vector r for the offset from the query to the key, the same
    for every query. Add nothing to the features that depends on the row or column in the image, and centre each window on
    its query: blocks into which the image is cut do not move with it."""

    def __init__(self, d=16):
        super().__init__(d)
        self.places = nn.Parameter(torch.randn(d, SIDE, SIDE))

    def forward(self, x):
        return super().forward(x + self.places)


@wrong(proof=adds_up_fewer_at_the_border)
def softmax_left_out(*data):
    """What a neighbour adds to a context does not depend on the other neighbours, and in an image of a single colour the
    context at the border differs from that inside. Either the softmax over the nine positions is missing, or it runs along
    another axis, such as that of the heads; or the scores leave out the keys, and positions outside the image take part. Print
    the sums of the weights of each window over the pixels inside: they must be 1."""
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


@wrong(proof=loses_weight_at_the_border)
def beyond_the_border(*data):
    """Positions outside the image take part: in an image of a single colour the context at the border is only a part of that
    inside. A padded key has a score, too, and takes weight from the pixels. Set these scores to -∞ *before* the softmax, so
    that the weights inside sum to 1."""
    return submit(data, masked=False)


@wrong.change("layer", reads_beyond_the_border)
class PositionsInValues(OneHead):
    """In an image of a single colour the context at the border is neither that inside nor a part of it. Either positions are
    added to the values: they belong to the scores alone. Or the windows are viewed in a wrong order: `F.unfold` gives C · 9,
    the features first. Or the image is padded before a layer with a bias, and positions outside have no scores of -∞."""

    def forward(self, x):
        q, k, v = self.q(x).flatten(2), self.windows(self.k(x)), self.windows(self.v(x)) + self.offsets[..., None]
        inside = self.windows(torch.ones_like(x[:1, :1]))[0, 0] > 0
        weights = self.scores(q, k, self.offsets).masked_fill(~inside, -torch.inf).softmax(1)
        return (weights.unsqueeze(1) * v).sum(2).view_as(x)


@wrong(proof=mixes_pixels_later)
def convolution_after_the_attention(*data):
    """In a restored image of a single colour the border has another colour, and the context of your first layer has not: a
    later layer mixes pixels by a convolution, which pads the border with zeros, or without a mask. After the first layer, too,
    only attention in windows may mix pixels."""
    return submit(data, head=3)


@wrong.change("model", restores_from_afar)
class GlobalAttentionLater(SmallNetwork):
    """A restored pixel depends on pixels further away than three layers with windows of 3 × 3 reach; your first layer keeps to
    its window. Is a later layer global attention, a larger window or a norm over pixels, or are there too many layers?"""

    def __init__(self, layer=OneHead, **settings):
        super().__init__(layer, **settings)
        self.second = GlobalAttention()


@wrong.change("model", adds_to_the_weighted_sum)
class ContextAfterTheResidual(SmallNetwork):
    """In an image of two colours your context is not between those of the two single colours, feature by feature, as every
    weighted mean of values is. Does `model(noisy, True)` return the features after a linear layer, a residual connection or a
    norm? It must return the weighted sum of the values itself."""

    def forward(self, images, only_context=False):
        x = self.stem(images).relu()
        x = x + self.first(x)
        return x if only_context else self.head(x + self.second(x))


@wrong.change("layer", trained.weights_without_gradient, says=loops.CUT_OFF)
class AttentionCutOff(OneHead):
    def forward(self, x):
        return super().forward(x).detach()


@right
def with_the_functions_above(noisy, clean, n_steps):
    """Features last; windows and relative positions by the lecture's functions; no residual connection; AdamW and clipping."""

    class Layer(nn.Module):
        def __init__(self, d=16, n_heads=2):
            super().__init__()
            self.n_heads, half = n_heads, d // n_heads // 2
            self.W_q, self.W_k, self.W_v = (nn.Linear(d, d, bias=False) for _ in range(3))
            self.rows, self.columns = (nn.Parameter(half**-0.5 * torch.randn(n_heads, 3, half)) for _ in range(2))

        def forward(self, x):
            q, k, v = (W(x).unflatten(-1, (self.n_heads, -1)).movedim(-2, 1) for W in (self.W_q, self.W_k, self.W_v))
            return local_attention(q, k, v, self.rows, self.columns)[0].movedim(1, -2).flatten(-2)

    class Denoiser(nn.Module):
        def __init__(self, d=16):
            super().__init__()
            self.stem, self.head = nn.Linear(3, d), nn.Linear(d, 3)
            self.layers = nn.ModuleList([Layer(), Layer()])

        def forward(self, images, context=None):
            x = self.stem(images.movedim(1, -1)).relu()
            for i, layer in enumerate(self.layers):
                x = layer(x)
                if i == 0 and context:
                    return x.movedim(-1, 1)
            return self.head(x).movedim(-1, 1)

    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-2)
    for step in range(n_steps):
        for group in optimizer.param_groups:
            group["lr"] = 1.5e-2 * min(1, (step + 1) / 50) * (1 - step / n_steps)
        which = torch.randperm(len(noisy))[:10]
        optimizer.zero_grad()
        (model(noisy[which]) - clean[which]).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


@right
def noise_by_global_scores_with_a_mask(noisy, clean, n_steps):
    """Finds the noise and subtracts it, trained by L1; fused attention over all pixels with a bias: -∞ outside the window, and
    a learned number for each head and offset in it; a network at each pixel after it."""
    place = torch.stack(torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")).flatten(1)
    offset = place[:, None, :] - place[:, :, None] + 1
    in_window, index = ((offset >= 0) & (offset < 3)).all(0), (3 * offset[0] + offset[1]).clamp(0, 8)

    class Layer(nn.Module):
        def __init__(self, d=16, n_heads=2):
            super().__init__()
            self.table, self.n_heads = nn.Parameter(torch.randn(n_heads, 9)), n_heads
            self.qkv = nn.Conv2d(d, 3 * d, 1)

        def forward(self, x):
            bias = self.table[:, index].masked_fill(~in_window, -torch.inf)
            q, k, v = (y.unflatten(1, (self.n_heads, -1)).flatten(3).mT for y in self.qkv(x).chunk(3, 1))
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None]).mT.reshape(x.shape)

    class FindsNoise(nn.Module):
        def __init__(self, d=16):
            super().__init__()
            self.stem, self.a, self.b = nn.Conv2d(3, d, 1), Layer(), Layer()
            self.mlp = nn.Sequential(nn.Conv2d(d, 2 * d, 1), nn.GELU(), nn.Conv2d(2 * d, 3, 1))

        def forward(self, images, context=False):
            x = F.gelu(self.stem(images))
            y = self.a(x)
            if context:
                return y
            x = x + y
            return images - self.mlp(x + self.b(x))

    model = FindsNoise()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    for images, wanted in loops.epochs((noisy, clean), n_steps, 8):
        optimizer.zero_grad()
        F.l1_loss(model(images), wanted).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@right
def without_modules(noisy, clean, n_steps):
    """Weights in a dict, shifted views of padded features, positions added to the keys, a softmax by hand; Adam by hand."""
    d = 16
    shapes = {"embed": (4, d), "out": (d, 3)} | {f"{name}{i}": (d, d) for name in ("q", "k", "v") for i in (0, 1)}
    weights = {name: (torch.randn(shape) * shape[0] ** -0.5).requires_grad_() for name, shape in shapes.items()}
    weights |= {f"r{i}": torch.randn(9, d).requires_grad_() for i in (0, 1)}

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

    def model(images, context=False):
        pixels = images.movedim(1, -1)
        x = (torch.cat([pixels, torch.ones_like(pixels[..., :1])], -1) @ weights["embed"]).relu()
        y = mixed(x, 0)
        return y.movedim(-1, 1) if context else (mixed(x + y, 1) @ weights["out"]).movedim(-1, 1)

    def error():
        which = torch.randint(len(noisy), (8,))
        return F.mse_loss(model(noisy[which]), clean[which])

    def rate(step):
        return 2e-2 * min(1, step / 50) * (1 - step / (n_steps + 1))

    loops.adam_by_hand(list(weights.values()), n_steps, error, rate)
    return model


exercise = Exercise(
    id="10.6",
    title="A denoiser of local attention and its training loop",
    extra=True,
    reference=train_denoiser,
    properties=(
        *trained.sound_training(
            SECONDS,
            MOST_PARAMETERS,
            ("The model maps images (B, 3, H, W) to images, and with True to the context (B, d, H, W).", _model),
            trained.every(trained.makes_updates, _batches, trained.loss_falls(by=0.1, unless=_learns)),
        ),
        trained.shown(
            "batch",
            "What an image becomes does not depend on the other images of its batch.",
            trained.each_alone("images", "restored images"),
        ),
        trained.shown(
            "local",
            "A context depends on each pixel of its window of 3 × 3 and on no other; a restored pixel on 7 × 7 at most.",
            _local,
        ),
        trained.shown(
            "weights",
            "Where all pixels are equal, so are contexts and restored colours; a context of two colours is between theirs.",
            _weights,
        ),
        trained.shown("content", "The weights depend on the content of the window, as a convolution's do not.", _content),
        trained.shown("positions", "The weights depend on relative positions, and not on the place in the image.", _positions),
        trained.shown("learns", "Held-out images are restored better than by the best kernel of 5 × 5.", _learns),
        trained.holds(
            "score", "Held-out images are restored better than by the best bilateral filter.", _score, 1, ("learns",)
        ),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
    forbids={
        LocalAttention: "write the layer yourself; your functions from above may be used.",
        stained_glass: "learn from the images that you are given.",
    },
    training=Training(questions, SECONDS),
)
