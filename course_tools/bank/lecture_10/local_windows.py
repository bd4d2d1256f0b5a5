"""Exercise 10.1, local_windows: what students answer, wrong and right."""

import torch
import torch.nn.functional as F
from einops import rearrange

from course_lib.primitives import local_windows
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
        "Take a picture of 3 × 4 places and windows of 3 × 3. How many of the nine places around the upper left corner lie "
        "inside? Which number of the nine is the corner itself, and what stands at the others?"
    ),
    (
        "A window reaches size // 2 places to each side. With that many zeros around the picture, the window of (i, j) begins "
        "at (i, j) of the padded one; every stride-th of them is wanted, in both directions."
    ),
    (
        "`F.pad(x, (0, 0, reach, reach, reach, reach))` leaves the features alone; `.unfold(-3, size, stride)` twice puts row "
        "and column of the window behind them, and `rearrange` to (row column) d brings all into order."
    ),
)


def _places(n, size, stride=1):
    """Along one axis, the places of each window, (n_windows, size)."""
    return torch.arange(0, n, stride)[:, None] + torch.arange(size) - size // 2


def _collect(x, down, across):
    """The places in these rows and columns, 0 outside the picture: (*batch, H_q, W_q, size, size, d)."""
    H, W = x.shape[-3:-1]
    rows, columns = down[:, None, :, None], across[:, None, :]
    inside = (rows >= 0) & (rows < H) & (columns >= 0) & (columns < W)
    return torch.where(inside[..., None], x[..., rows.clamp(0, H - 1), columns.clamp(0, W - 1), :], 0.0)


def _windows(x, size, stride=1):
    down, across = (_places(n, size, stride) for n in x.shape[-3:-1])
    return _collect(x, down, across)


def _flat(windows):
    return windows.flatten(-3, -2)


@wrong
def begins_at_the_pixel(x, size, stride=1):
    """You lay the upper left corner of the window on the pixel, with all padding below and to the right. Its middle belongs
    there: a pixel should see as far to the left as to the right."""
    down, across = (_places(n, size, stride) + size // 2 for n in x.shape[-3:-1])
    return _flat(_collect(x, down, across))


@wrong
def does_not_pad(x, size, stride=1):
    """You do not pad. Then only the places far enough from the border have a window, and the picture shrinks by size - 1;
    every stride-th place should have one."""
    return rearrange(x.unfold(-3, size, stride).unfold(-3, size, stride), "... d a b -> ... (a b) d")


@wrong
def pads_too_much(x, size, stride=1):
    """You pad by the whole side of a window, where half of it, size // 2, is enough. You get windows whose middle lies outside
    the picture."""
    padded = F.pad(x, (0, 0, size, size, size, size))
    return rearrange(padded.unfold(-3, size, stride).unfold(-3, size, stride), "... d a b -> ... (a b) d")


@wrong
def counts_column_by_column(x, size, stride=1):
    """You number the places of a window column by column. They should come row by row, the uppermost first: number a·size + b
    is row a, column b."""
    return _flat(_windows(x, size, stride).transpose(-3, -2))


@wrong
def turns_the_window_round(x, size, stride=1):
    """You number the places of a window from its lower right corner, as the mathematical convolution turns its kernel. Number 0
    is the upper left one."""
    return _flat(_windows(x, size, stride)).flip(-2)


@wrong
def repeats_the_border(x, size, stride=1):
    """You repeat the border where a window leaves the picture. There is nothing outside: those places hold zeros, and the mask
    says later that they do not count."""
    down, across = (_places(n, size, stride).clamp(0, n - 1) for n in x.shape[-3:-1])
    return _flat(_collect(x, down, across))


@wrong
def goes_round_the_edge(x, size, stride=1):
    """You let a window that leaves the picture on one side come in on the other, as `torch.roll` does. A pixel at the left
    border has no neighbours at the right one."""
    down, across = (_places(n, size, stride) % n for n in x.shape[-3:-1])
    return _flat(_collect(x, down, across))


@wrong
def leaves_the_features_before(x, size, stride=1):
    """You leave the features where `unfold` has them, before the window. Keys and values want a list of places, each with its
    features: (size², d)."""
    return _flat(_windows(x, size, stride)).mT


@wrong
def reshapes_the_features_away(x, size, stride=1):
    """You reshape (d, size, size) to (size², d). The features stand in front there and must be moved; in yours, a place holds
    numbers of one feature from several places."""
    moved = _windows(x, size, stride).movedim(-1, -3)
    return moved.reshape(*moved.shape[:-3], size * size, -1)


@wrong
def takes_far_neighbours(x, size, stride=1):
    """You take every stride-th neighbour too. That is a window with holes, a dilation; the stride says how far the windows are
    apart, and each holds neighbours without a gap."""
    down, across = (torch.arange(0, n, stride)[:, None] + stride * (torch.arange(size) - size // 2) for n in x.shape[-3:-1])
    return _flat(_collect(x, down, across))


@wrong
def steps_by_one(x, size, stride=1):
    """You give every place a window, whatever the stride is. Only every stride-th row and column has one."""
    return _flat(_windows(x, size))


@wrong
def leaves_out_the_last(x, size, stride=1):
    """You make ⌊H / stride⌋ rows of ⌊W / stride⌋ windows. The first lies on place 0, so where the stride does not divide the
    height there is one more: ⌈H / stride⌉."""
    H, W = x.shape[-3:-1]
    return _flat(_windows(x, size, stride))[..., : H // stride, : W // stride, :, :]


@right
def by_torchs_own(x, size, stride=1):
    """`F.unfold` on pictures with the features in front; what it lays side by side is parted again."""
    H, W, d = x.shape[-3:]
    columns = F.unfold(x.reshape(-1, H, W, d).permute(0, 3, 1, 2), size, padding=size // 2, stride=stride)
    windows = rearrange(columns, "B (d window) (H W) -> B H W window d", d=d, H=-(-H // stride))
    return windows.reshape(*x.shape[:-3], *windows.shape[1:])


@right
def by_shifting(x, size, stride=1):
    """The padded picture, cut out anew for each of the size² offsets."""
    H, W = x.shape[-3:-1]
    reach = size // 2
    padded = F.pad(x, (0, 0, reach, reach, reach, reach))
    offsets = [(a, b) for a in range(size) for b in range(size)]
    return torch.stack([padded[..., a : a + H : stride, b : b + W : stride, :] for a, b in offsets], dim=-2)


@right
def from_a_list(x, size, stride=1):
    """All places in one list with a row of zeros behind; the number of each place that is wanted, or that of the zeros."""
    H, W, d = x.shape[-3:]
    rows, columns = (_places(n, size, stride) for n in (H, W))
    number = rearrange(rows, "i a -> i 1 a 1") * W + rearrange(columns, "j b -> 1 j 1 b")
    outside = ((rows < 0) | (rows >= H))[:, None, :, None] | ((columns < 0) | (columns >= W))[:, None, :]
    known = torch.cat([x.flatten(-3, -2), x.new_zeros(*x.shape[:-3], 1, d)], dim=-2)
    return known[..., number.masked_fill(outside, H * W).flatten(2), :]


def _picture(draw: Draw, size: int, stride: int, *batch: int, H: int = 5, W: int = 7, d: int = 3) -> Call:
    return draw.normal(*batch, H, W, d), size, stride


def _pictures(draw: Draw) -> list[Call]:
    """Sides of which no two are equal, by windows and strides that divide neither."""
    H, W, d = draw.sizes(3)
    return [_picture(draw, 3, 1, 2, H=H, W=W, d=d), _picture(draw, 5, 1, H=W, W=H, d=2), _picture(draw, 3, 4, 3, H=7, W=5)]


exercise = Exercise(
    id="10.1",
    title="The windows of a picture",
    reference=local_windows,
    properties=(
        runs_on(lambda draw: [_picture(draw, 3, 1, 2)]),
        has_shape("size² places with all their features, around every stride-th place.", _pictures),
        Property("one place", "A window of one place is the place itself.", lambda draw: [_picture(draw, 1, 1, 2)]),
        Property(
            "places",
            "The places come row by row, the middle is the place itself, and outside the picture there are zeros.",
            lambda draw: [_picture(draw, 3, 1, 2), _picture(draw, 5, 1, 2, H=7, W=11)],
            points=3,
            needs=("one place",),
        ),
        Property(
            "large",
            "A window may be larger than the picture.",
            lambda draw: [_picture(draw, 7, 1, 2, H=2, W=3), _picture(draw, 5, 1, 1, H=1, W=2)],
            needs=("places",),
        ),
        Property(
            "stride",
            "The first window lies on the first place, the next one stride places further, and none is left out.",
            lambda draw: [_picture(draw, 3, 2, 2), _picture(draw, 5, 3, 2, H=11, W=7), _picture(draw, 1, 4, 2, H=7, W=5)],
            points=2,
            needs=("places",),
        ),
        Property(
            "batch",
            "One picture, a batch of them, or a batch with heads; a stride only where one is given.",
            lambda draw: [_picture(draw, 3, 1), _picture(draw, 3, 2, 2, 3, H=3), _picture(draw, 3, 1, 2)[:-1]],
            needs=("places",),
        ),
        has_gradient(lambda draw: [_picture(draw, 3, 1, 2), _picture(draw, 3, 2, 2)], needs=("places",)),
        leaves_inputs(_pictures),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
)
