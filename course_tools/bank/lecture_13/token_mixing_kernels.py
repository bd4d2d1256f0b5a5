"""Exercise 13.5, token_mixing_kernels: what students answer, wrong and right."""

import torch
from einops import repeat

from course_lib.blocks import TokenMixingKernels, token_mixing_kernels
from course_tools.checks.comparisons import right_result
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

wrong, right = Answers(), Answers()

HINTS = (
    (
        "Think of one channel alone, d = 1: hidden unit j adds up the pixels of the whole image, pixel (r, s) weighed by "
        "W_1[j, r·W + s]. How large is the kernel that does this, how many are there, and where can it stand without padding?"
    ),
    (
        "With groups = d, torch gives the first d_s kernels to channel 0, the next d_s to channel 1, and so on; every channel "
        "has the same ones. What of the second convolution: how many pixels are left for it to see?"
    ),
    (
        "`W_1.reshape(d_s, 1, H, W)` repeated d times along the first axis by `.repeat(d, 1, 1, 1)`; W_2 as (N, d_s, 1, 1) "
        "likewise, and both biases with `.repeat(d)`. `repeat_interleave` would give another order."
    ),
)


def _kernels(first, b_1, second, b_2, d):
    """Repeat the kernels of one channel, (d_s, 1, H, W) and (N, d_s, 1, 1), for all."""
    return TokenMixingKernels(first.repeat(d, 1, 1, 1), b_1.repeat(d), second.repeat(d, 1, 1, 1), b_2.repeat(d))


@wrong
def repeats_each_kernel_in_turn(W_1, b_1, W_2, b_2, d, H, W):
    """You repeat every kernel d times before you take the next. But a group is a run of kernels that stand together: your
    first channel is given the first kernel several times, and others never meet it. The whole set must be repeated."""
    first = repeat(W_1, "d_s (H W) -> (d_s d) 1 H W", d=d, H=H)
    second = repeat(W_2, "N d_s -> (N d) d_s 1 1", d=d)
    return TokenMixingKernels(first, b_1.repeat_interleave(d), second, b_2.repeat_interleave(d))


@wrong
def repeats_each_bias_in_turn(W_1, b_1, W_2, b_2, d, H, W):
    """You have the kernels in order, but each bias d times before the next. The biases stand as the kernels do: all of the
    first channel, then all of the second."""
    first, _, second, _ = _kernels(W_1.reshape(-1, 1, H, W), b_1, W_2[..., None, None], b_2, d)
    return TokenMixingKernels(first, b_1.repeat_interleave(d), second, b_2.repeat_interleave(d))


@wrong
def exchanges_height_and_width(W_1, b_1, W_2, b_2, d, H, W):
    """You lay the kernels out with W rows and H columns. The places are counted row by row, W to a row; and a kernel of that
    shape does not fit into the image unless it is a square."""
    return _kernels(W_1.reshape(-1, 1, W, H), b_1, W_2[..., None, None], b_2, d)


@wrong
def counts_column_by_column(W_1, b_1, W_2, b_2, d, H, W):
    """You fill the kernels column by column. Their shape is right, and the weights stand at the wrong pixels: place number n
    is row n // W, column n % W."""
    return _kernels(W_1.reshape(-1, 1, W, H).mT, b_1, W_2[..., None, None], b_2, d)


@wrong
def turns_the_kernels_round(W_1, b_1, W_2, b_2, d, H, W):
    """You turn the kernels round, since a convolution does that in mathematics. torch's does not: it lays the kernel on the
    image as it is, so that your first weight meets the last pixel."""
    return _kernels(W_1.reshape(-1, 1, H, W).flip(-2, -1), b_1, W_2[..., None, None], b_2, d)


@wrong
def serves_one_channel(W_1, b_1, W_2, b_2, d, H, W):
    """You make the kernels once. That is enough for an image of one channel; with groups = d each channel needs a copy of its
    own, and torch refuses, or parts your few kernels among them."""
    return TokenMixingKernels(W_1.reshape(-1, 1, H, W), b_1, W_2[..., None, None], b_2)


@wrong
def lets_the_channels_meet(W_1, b_1, W_2, b_2, d, H, W):
    """Your first kernels reach over all d channels, as those of a usual convolution. Token mixing is depth-wise: each group
    sees one channel, so the second axis of its kernels is 1."""
    first = repeat(W_1, "d_s (H W) -> (copies d_s) d H W", copies=d, d=d, H=H)
    return TokenMixingKernels(first, b_1.repeat(d), repeat(W_2, "N d_s -> (d N) d_s 1 1", d=d), b_2.repeat(d))


@wrong
def divides_by_the_channels(W_1, b_1, W_2, b_2, d, H, W):
    """You divide the kernels by d, because they stand there d times. Nothing is added up over the channels: each is mixed by
    itself, with the full weights."""
    return _kernels(W_1.reshape(-1, 1, H, W) / d, b_1, W_2[..., None, None] / d, b_2, d)


@wrong
def forgets_the_biases(W_1, b_1, W_2, b_2, d, H, W):
    """You leave the biases at 0. The convolutions then equal token mixing only where b_1 and b_2 happen to be 0."""
    return _kernels(W_1.reshape(-1, 1, H, W), b_1 * 0, W_2[..., None, None], b_2 * 0, d)


@wrong
def transposes_the_second(W_1, b_1, W_2, b_2, d, H, W):
    """You lay out W_2 the other way round, inputs first. That is how a transposed convolution has it; `F.conv2d` wants for
    each of the N outputs its d_s weights."""
    return _kernels(W_1.reshape(-1, 1, H, W), b_1, W_2.mT[..., None, None], b_2, d)


@wrong
def spreads_the_second_over_the_image(W_1, b_1, W_2, b_2, d, H, W):
    """You make the second kernels as large as the image too. Behind the first convolution only one pixel is left, with d_s
    numbers for each channel, and 1 × 1 is all that fits."""
    return _kernels(W_1.reshape(-1, 1, H, W), b_1, W_2[..., None, None].expand(-1, -1, H, W), b_2, d)


@wrong
def leaves_out_the_group_axis(W_1, b_1, W_2, b_2, d, H, W):
    """Your kernels lack the axis of the input channels, which is 1 for a depth-wise convolution but still there: torch wants
    (out, in / groups, height, width)."""
    return TokenMixingKernels(W_1.reshape(-1, H, W).repeat(d, 1, 1), b_1.repeat(d), W_2.repeat(d, 1), b_2.repeat(d))


@right
def with_an_axis_for_the_channels(W_1, b_1, W_2, b_2, d, H, W):
    """Everything expanded along a new first axis of d, which is then merged with the outputs."""
    wide = [w.expand(d, *w.shape).flatten(0, 1) for w in (W_1, b_1, W_2, b_2)]
    return TokenMixingKernels(wide[0].unflatten(1, (1, H, W)), wide[1], wide[2][:, :, None, None], wide[3])


@right
def one_list_of_copies(W_1, b_1, W_2, b_2, d, H, W):
    """Concatenation of d copies, and a plain tuple."""
    first = torch.cat([W_1] * d).view(d * len(b_1), 1, H, W)
    second = torch.cat([W_2] * d)[:, :, None, None]
    return first, torch.cat([b_1] * d), second, torch.cat([b_2] * d)


@right
def by_index(W_1, b_1, W_2, b_2, d, H, W):
    """Output i of a convolution is unit i modulo their number, pixel (r, s) is place r·W + s."""
    n_hidden, n_places = W_1.shape
    unit, place = torch.arange(d * n_hidden) % n_hidden, torch.arange(d * n_places) % n_places
    pixel = torch.arange(H)[:, None] * W + torch.arange(W)
    return TokenMixingKernels(W_1[unit][:, pixel][:, None], b_1[unit], W_2[place].reshape(-1, n_hidden, 1, 1), b_2[place])


def _weights(draw: Draw, d_s: int, d: int, H: int, W: int) -> Call:
    N = H * W
    return draw.normal(d_s, N), draw.normal(d_s), draw.normal(N, d_s), draw.normal(N), d, H, W


def _grids(draw: Draw) -> list[Call]:
    d_s, d, H, W = draw.sizes(4)
    return [_weights(draw, d_s, d, H, W), _weights(draw, d, d_s, W, H)]


def _one_channel(draw: Draw) -> list[Call]:
    return [_weights(draw, 5, 1, 2, 3), _weights(draw, 2, 1, 3, 2)]


exercise = Exercise(
    id="13.5",
    title="Token mixing as a convolution",
    reference=token_mixing_kernels,
    properties=(
        runs_on(_grids),
        has_shape("Two sets of kernels and their biases, as `F.conv2d` takes them in d groups.", _grids),
        Property(
            "image",
            "One channel: each row of W_1 is laid out as a picture of H × W, row by row.",
            _one_channel,
            right_result(0),
            points=2,
        ),
        Property(
            "back", "One channel: W_2 leads from d_s numbers to all places.", _one_channel, right_result(2), needs=("shape",)
        ),
        Property(
            "groups",
            "Every channel has all of the first kernels, and they stand together.",
            _grids,
            right_result(0),
            points=2,
            needs=("image",),
        ),
        Property(
            "second",
            "Every channel has all of the second kernels, and they stand together.",
            _grids,
            right_result(2),
            needs=("back",),
        ),
        Property("biases", "A bias for each kernel, in the order of the kernels.", _grids, right_result(1, 3)),
        Property(
            "edges",
            "A single place, a single hidden unit, a single row.",
            lambda draw: [_weights(draw, 3, 2, 1, 1), _weights(draw, 1, 3, 1, 5), _weights(draw, 2, 3, 5, 1)],
            needs=("groups", "second", "biases"),
        ),
        has_gradient(_grids, needs=("groups", "second", "biases")),
        leaves_inputs(_grids),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
)
