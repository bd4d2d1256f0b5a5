"""Exercise 13.6, token_mixing_kernels: what students answer, wrong and right."""

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

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Take one channel, d = 1: hidden unit j is the sum over the pixels of the whole image, pixel (r, s) times W_1[j, "
        "r·W + s]. How large is the kernel that does this, how many are there, and how many output pixels are there "
        "without padding?"
    ),
    (
        "With groups = d, torch gives the first d_s kernels to channel 0, the next d_s to channel 1, and so on; every "
        "channel has the same ones. And the second convolution: how many pixels does its input have?"
    ),
    (
        "A kernel of the first convolution is a row of W_1, cut into H rows of W; one of the second is a row of W_2 "
        "on a single pixel; each has one input channel. All d_s (or N) of them in order, then all of them again for "
        "the next channel: that is `repeat`, d times along the first axis, and not `repeat_interleave`. Biases "
        "likewise."
    ),
)


def _kernels(first, b_1, second, b_2, d):
    """Repeat the kernels of one channel, (d_s, 1, H, W) and (N, d_s, 1, 1), for all."""
    return TokenMixingKernels(first.repeat(d, 1, 1, 1), b_1.repeat(d), second.repeat(d, 1, 1, 1), b_2.repeat(d))


@wrong.part
def repeats_each_kernel_in_turn(W_1, b_1, W_2, b_2, d, H, W):
    """You repeat every kernel d times before you take the next. The kernels of a group are contiguous: your first channel
    gets the first kernel several times. The whole set must be repeated."""
    first = repeat(W_1, "d_s (H W) -> (d_s d) 1 H W", d=d, H=H)
    second = repeat(W_2, "N d_s -> (N d) d_s 1 1", d=d)
    return TokenMixingKernels(first, b_1.repeat_interleave(d), second, b_2.repeat_interleave(d))


@wrong.detail
def repeats_each_bias_in_turn(W_1, b_1, W_2, b_2, d, H, W):
    """You have the kernels in order, but repeat each bias d times before the next. The biases are in the order of the
    kernels: all of the first channel, then all of the second."""
    first, _, second, _ = _kernels(W_1.reshape(-1, 1, H, W), b_1, W_2[..., None, None], b_2, d)
    return TokenMixingKernels(first, b_1.repeat_interleave(d), second, b_2.repeat_interleave(d))


@wrong.detail
def exchanges_height_and_width(W_1, b_1, W_2, b_2, d, H, W):
    """You lay the kernels out with W rows and H columns. The positions are in row-major order, W in a row."""
    return _kernels(W_1.reshape(-1, 1, W, H), b_1, W_2[..., None, None], b_2, d)


@wrong.part
def counts_column_by_column(W_1, b_1, W_2, b_2, d, H, W):
    """You fill the kernels column by column. The shape is right, but the weights are at the wrong pixels: position n is row
    n // W, column n % W."""
    return _kernels(W_1.reshape(-1, 1, W, H).mT, b_1, W_2[..., None, None], b_2, d)


@wrong.detail
def turns_the_kernels_round(W_1, b_1, W_2, b_2, d, H, W):
    """You flip the kernels, as in the mathematical convolution. `F.conv2d` is a cross-correlation and does not flip."""
    return _kernels(W_1.reshape(-1, 1, H, W).flip(-2, -1), b_1, W_2[..., None, None], b_2, d)


@wrong.part
def serves_one_channel(W_1, b_1, W_2, b_2, d, H, W):
    """You make the kernels once. That is enough for an image of one channel; with groups = d each channel needs its own
    copy."""
    return TokenMixingKernels(W_1.reshape(-1, 1, H, W), b_1, W_2[..., None, None], b_2)


@wrong.idea
def lets_the_channels_meet(W_1, b_1, W_2, b_2, d, H, W):
    """Your first kernels span all d channels, as in an ordinary convolution. Token mixing is depth-wise: each group has one
    channel, so the second axis of its kernels is 1."""
    first = repeat(W_1, "d_s (H W) -> (copies d_s) d H W", copies=d, d=d, H=H)
    return TokenMixingKernels(first, b_1.repeat(d), repeat(W_2, "N d_s -> (d N) d_s 1 1", d=d), b_2.repeat(d))


@wrong.detail
def divides_by_the_channels(W_1, b_1, W_2, b_2, d, H, W):
    """You divide the kernels by d. There is no sum over the channels: each is mixed independently, with the full weights."""
    return _kernels(W_1.reshape(-1, 1, H, W) / d, b_1, W_2[..., None, None] / d, b_2, d)


@wrong.detail
def forgets_the_biases(W_1, b_1, W_2, b_2, d, H, W):
    """You leave the biases at 0. The convolutions then equal token mixing only where b_1 and b_2 happen to be 0."""
    return _kernels(W_1.reshape(-1, 1, H, W), b_1 * 0, W_2[..., None, None], b_2 * 0, d)


@wrong.part
def transposes_the_second(W_1, b_1, W_2, b_2, d, H, W):
    """Your second kernels have the inputs first, as in a transposed convolution. `F.conv2d` expects (out, in): d_s weights
    for each of the N outputs."""
    return _kernels(W_1.reshape(-1, 1, H, W), b_1, W_2.mT[..., None, None], b_2, d)


@wrong.idea
def spreads_the_second_over_the_image(W_1, b_1, W_2, b_2, d, H, W):
    """You make the second kernels as large as the image too. After the first convolution there is only one pixel, so the
    second kernels are 1 × 1."""
    return _kernels(W_1.reshape(-1, 1, H, W), b_1, W_2[..., None, None].expand(-1, -1, H, W), b_2, d)


@wrong.case
def leaves_out_the_group_axis(W_1, b_1, W_2, b_2, d, H, W):
    """Your kernels lack the axis of the input channels, which is 1 for a depth-wise convolution but still there: torch
    expects (out, in / groups, height, width)."""
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
    """Output i of a convolution is unit i modulo their number, pixel (r, s) is position r·W + s."""
    n_hidden, n_places = W_1.shape
    unit, place = torch.arange(d * n_hidden) % n_hidden, torch.arange(d * n_places) % n_places
    pixel = torch.arange(H)[:, None] * W + torch.arange(W)
    return TokenMixingKernels(W_1[unit][:, pixel][:, None], b_1[unit], W_2[place].reshape(-1, n_hidden, 1, 1), b_2[place])


@stranger
def kernels_of_the_first_channel_only(W_1, b_1, W_2, b_2, d, H, W):
    first, first_bias, second, second_bias = token_mixing_kernels(W_1, b_1, W_2, b_2, d, H, W)
    first = first * (torch.arange(len(first)) < len(b_1))[:, None, None, None]
    return first, first_bias, second, second_bias


@stranger
def kernels_mirrored(W_1, b_1, W_2, b_2, d, H, W):
    first, *others = token_mixing_kernels(W_1, b_1, W_2, b_2, d, H, W)
    return first.flip(-1), *others


@stranger
def kernels_with_the_hidden_units_turned_round(W_1, b_1, W_2, b_2, d, H, W):
    return token_mixing_kernels(W_1.flip(0), b_1, W_2, b_2, d, H, W)


@stranger
def kernels_without_gradient(W_1, b_1, W_2, b_2, d, H, W):
    return tuple(part.detach() for part in token_mixing_kernels(W_1, b_1, W_2, b_2, d, H, W))


@stranger(makes=[turns_the_kernels_round])
def kernels_turned_round_by_hand(W_1, b_1, W_2, b_2, d, H, W):
    return token_mixing_kernels(W_1.flip(1), b_1, W_2, b_2, d, H, W)


@stranger(makes=[turns_the_kernels_round, forgets_the_biases])
def kernels_twice_wrong(W_1, b_1, W_2, b_2, d, H, W):
    return token_mixing_kernels(W_1.flip(1), 0 * b_1, W_2, 0 * b_2, d, H, W)


def _weights(draw: Draw, d_s: int, d: int, H: int, W: int) -> Call:
    N = H * W
    return draw.normal(d_s, N), draw.normal(d_s), draw.normal(N, d_s), draw.normal(N), d, H, W


def _grids(draw: Draw) -> list[Call]:
    d_s, d, H, W = draw.sizes(4)
    return [_weights(draw, d_s, d, H, W), _weights(draw, d, d_s, W, H)]


def _one_channel(draw: Draw) -> list[Call]:
    return [_weights(draw, 5, 1, 2, 3), _weights(draw, 2, 1, 3, 2)]


exercise = Exercise(
    id="13.6",
    extra=True,
    title="Token mixing as a convolution",
    reference=token_mixing_kernels,
    properties=(
        runs_on(_grids),
        has_shape("Two sets of kernels and their biases, as `F.conv2d` takes them in d groups.", _grids),
        Property(
            "image",
            "One channel: each row of W_1 becomes a kernel of H × W, in row-major order.",
            _one_channel,
            right_result(0),
            points=2,
        ),
        Property(
            "back", "One channel: W_2 maps d_s numbers to all positions.", _one_channel, right_result(2), needs=("shape",)
        ),
        Property(
            "groups",
            "Every channel has all of the first kernels, and they are contiguous.",
            _grids,
            right_result(0),
            points=2,
            needs=("image",),
        ),
        Property(
            "second",
            "Every channel has all of the second kernels, and they are contiguous.",
            _grids,
            right_result(2),
            needs=("back",),
        ),
        Property("biases", "A bias for each kernel, in the order of the kernels.", _grids, right_result(1, 3)),
        Property(
            "edges",
            "A single position, a single hidden unit, a single row.",
            lambda draw: [_weights(draw, 3, 2, 1, 1), _weights(draw, 1, 3, 1, 5), _weights(draw, 2, 3, 5, 1)],
            needs=("groups", "second", "biases"),
        ),
        has_gradient(_grids, needs=("groups", "second", "biases")),
        leaves_inputs(_grids),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
