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

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Take an image of 3 × 4 pixels and windows of 3 × 3. How many of the nine positions around the upper left corner "
        "lie inside? Which index of the nine is the corner itself, and what do the others hold?"
    ),
    (
        "A window reaches size // 2 pixels to each side. With that many zeros around the image, the window of (i, j) "
        "begins at (i, j) of the padded one; every stride-th of them is wanted, in both directions."
    ),
    (
        "Pad rows and columns, not the features, by (size - 1) / 2 on either side; `F.pad` counts its pairs from the last "
        "axis. `unfold` along the rows, then along the columns, appends two axes of the window; bring them before the "
        "features and join them."
    ),
)


def _places(n, size, stride=1):
    """Along one axis, the positions of each window, (n_windows, size)."""
    return torch.arange(0, n, stride)[:, None] + torch.arange(size) - size // 2


def _collect(x, down, across):
    """The positions in these rows and columns, 0 outside the image: (*batch, H_q, W_q, size, size, d)."""
    H, W = x.shape[-3:-1]
    rows, columns = down[:, None, :, None], across[:, None, :]
    inside = (rows >= 0) & (rows < H) & (columns >= 0) & (columns < W)
    return torch.where(inside[..., None], x[..., rows.clamp(0, H - 1), columns.clamp(0, W - 1), :], 0.0)


def _windows(x, size, stride=1):
    down, across = (_places(n, size, stride) for n in x.shape[-3:-1])
    return _collect(x, down, across)


def _flat(windows):
    return windows.flatten(-3, -2)


@wrong.part
def begins_at_the_pixel(x, size, stride=1):
    """Your window begins at the pixel, with all padding below and to the right. The pixel is the middle of its window."""
    down, across = (_places(n, size, stride) + size // 2 for n in x.shape[-3:-1])
    return _flat(_collect(x, down, across))


@wrong.idea
def does_not_pad(x, size, stride=1):
    """You do not pad. Then only the positions far enough from the border have a window, and the image shrinks by size - 1;
    every stride-th position should have one."""
    return rearrange(x.unfold(-3, size, stride).unfold(-3, size, stride), "... d a b -> ... (a b) d")


@wrong.part
def pads_too_much(x, size, stride=1):
    """You pad by the whole side of a window, where half of it, size // 2, is enough. You get windows whose middle lies
    outside the image."""
    padded = F.pad(x, (0, 0, size, size, size, size))
    return rearrange(padded.unfold(-3, size, stride).unfold(-3, size, stride), "... d a b -> ... (a b) d")


@wrong.detail
def pads_the_features(x, size, stride=1):
    """You pad the features and the columns. `F.pad` counts its pairs from the last axis, which holds the features here: begin
    with (0, 0)."""
    padded = F.pad(x, (size // 2,) * 4)
    return rearrange(padded.unfold(-3, size, stride).unfold(-3, size, stride), "... d a b -> ... (a b) d")


@wrong.detail
def pads_the_features_and_leaves_them_before(x, size, stride=1):
    """You pad the features and the columns. `F.pad` counts its pairs from the last axis, which holds the features here: begin
    with (0, 0). And the features come last in the result, after the window."""
    return F.pad(x, (size // 2,) * 4).unfold(-3, size, stride).unfold(-3, size, stride).flatten(-2)


@wrong.detail
def counts_column_by_column(x, size, stride=1):
    """You number the positions of a window column by column. They should come row by row, the uppermost first: number
    a·size + b is row a, column b."""
    return _flat(_windows(x, size, stride).transpose(-3, -2))


@wrong.detail
def turns_the_window_round(x, size, stride=1):
    """You number the positions of a window from its lower right corner, as the mathematical convolution turns its kernel.
    Number 0 is the upper left one."""
    return _flat(_windows(x, size, stride)).flip(-2)


@wrong.detail
def repeats_the_border(x, size, stride=1):
    """You repeat the border where a window leaves the image. Positions outside hold zeros, and are masked later."""
    down, across = (_places(n, size, stride).clamp(0, n - 1) for n in x.shape[-3:-1])
    return _flat(_collect(x, down, across))


@wrong.detail
def goes_round_the_edge(x, size, stride=1):
    """Your windows wrap around the border, as with `torch.roll`. Positions outside the image hold zeros."""
    down, across = (_places(n, size, stride) % n for n in x.shape[-3:-1])
    return _flat(_collect(x, down, across))


@wrong.detail
def leaves_the_features_before(x, size, stride=1):
    """You leave the features where `unfold` has them, before the window. The result has the features last: (size², d)."""
    return _flat(_windows(x, size, stride)).mT


@wrong.idea
def reshapes_the_features_away(x, size, stride=1):
    """You reshape (d, size, size) to (size², d). The features are the first axis there and must be moved; in yours, a
    position holds one feature of several positions."""
    moved = _windows(x, size, stride).movedim(-1, -3)
    return moved.reshape(*moved.shape[:-3], size * size, -1)


@wrong.idea
def takes_far_neighbours(x, size, stride=1):
    """You take every stride-th neighbour too. That is dilation; the stride is the distance between windows, and each window
    is contiguous."""
    down, across = (torch.arange(0, n, stride)[:, None] + stride * (torch.arange(size) - size // 2) for n in x.shape[-3:-1])
    return _flat(_collect(x, down, across))


@wrong.part
def steps_by_one(x, size, stride=1):
    """You give every position a window, whatever the stride is. Only every stride-th row and column has one."""
    return _flat(_windows(x, size))


@wrong.case
def leaves_out_the_last(x, size, stride=1):
    """You make ⌊H / stride⌋ rows of ⌊W / stride⌋ windows. The first is at position 0, so where the stride does not divide
    the height there is one more: ⌈H / stride⌉."""
    H, W = x.shape[-3:-1]
    return _flat(_windows(x, size, stride))[..., : H // stride, : W // stride, :, :]


def _unfolded(x, size, stride):
    """What `F.unfold` returns, (B, d · size², H_q · W_q)."""
    images = x.reshape(-1, *x.shape[-3:]).permute(0, 3, 1, 2)
    return F.unfold(images, size, padding=size // 2, stride=stride)


@wrong.idea
def reshapes_what_unfold_returns(x, size, stride=1):
    """You reshape what `F.unfold` returns, (B, d · size², H_q · W_q), with the windows last. A reshape keeps the order in
    memory: exchange the last two axes, split d · size² into (d, size²), and exchange these two."""
    *batch, H, W, d = x.shape
    return _unfolded(x, size, stride).reshape(*batch, -(-H // stride), -(-W // stride), size * size, d)


@wrong.idea
def reshapes_what_unfold_returns_and_rounds_down(x, size, stride=1):
    """You make two mistakes. There are ⌈H / stride⌉ rows of windows, rounded up: `H // stride` rounds down. And a reshape of
    what `F.unfold` returns, (B, d · size², H_q · W_q), keeps its order: the windows come last there, and the features first."""
    *batch, H, W, d = x.shape
    return _unfolded(x, size, stride).reshape(*batch, H // stride, W // stride, size * size, d)


@wrong.idea
def splits_the_positions_first_and_rounds_down(x, size, stride=1):
    """You make two mistakes. There are ⌈H / stride⌉ rows of windows, rounded up: `H // stride` rounds down. And of d · size²
    numbers that `F.unfold` collects, the feature is the first axis: split them into (d, size²), and exchange these two."""
    *batch, H, W, d = x.shape
    return _unfolded(x, size, stride).mT.reshape(*batch, H // stride, W // stride, size * size, d)


@wrong.detail
def rounds_the_windows_of_unfold_down(x, size, stride=1):
    """You count ⌊H / stride⌋ rows of windows. The first window is at position 0, so where the stride does not divide the height
    there is one more, and `F.unfold` makes it: ⌈H / stride⌉, which is -(-H // stride)."""
    *batch, H, W, d = x.shape
    return _unfolded(x, size, stride).mT.reshape(*batch, H // stride, W // stride, d, size * size).mT


@right
def by_torchs_own(x, size, stride=1):
    """`F.unfold` on images with the features in front; what it lays side by side is parted again."""
    H, W, d = x.shape[-3:]
    columns = F.unfold(x.reshape(-1, H, W, d).permute(0, 3, 1, 2), size, padding=size // 2, stride=stride)
    windows = rearrange(columns, "B (d window) (H W) -> B H W window d", d=d, H=-(-H // stride))
    return windows.reshape(*x.shape[:-3], *windows.shape[1:])


@right
def by_shifting(x, size, stride=1):
    """The padded image, cut out anew for each of the size² offsets."""
    H, W = x.shape[-3:-1]
    reach = size // 2
    padded = F.pad(x, (0, 0, reach, reach, reach, reach))
    offsets = [(a, b) for a in range(size) for b in range(size)]
    return torch.stack([padded[..., a : a + H : stride, b : b + W : stride, :] for a, b in offsets], dim=-2)


@right
def from_a_list(x, size, stride=1):
    """All positions in one list with a row of zeros after; the number of each position that is wanted, or that of the
    zeros."""
    H, W, d = x.shape[-3:]
    rows, columns = (_places(n, size, stride) for n in (H, W))
    number = rearrange(rows, "i a -> i 1 a 1") * W + rearrange(columns, "j b -> 1 j 1 b")
    outside = ((rows < 0) | (rows >= H))[:, None, :, None] | ((columns < 0) | (columns >= W))[:, None, :]
    known = torch.cat([x.flatten(-3, -2), x.new_zeros(*x.shape[:-3], 1, d)], dim=-2)
    return known[..., number.masked_fill(outside, H * W).flatten(2), :]


@stranger
def windows_with_an_empty_middle(x, size, stride=1):
    windows = local_windows(x, size, stride)
    keep = torch.arange(size**2) != size**2 // 2
    return windows * keep[:, None]


@stranger
def windows_of_differences(x, size, stride=1):
    return local_windows(x, size, stride) - x[..., ::stride, ::stride, None, :]


@stranger
def windows_without_gradient(x, size, stride=1):
    return local_windows(x.detach(), size, stride)


@stranger
def windows_of_the_first_picture(x, size, stride=1):
    windows = local_windows(x, size, stride)
    return windows[:1].expand_as(windows) if x.dim() > 3 else windows


@stranger(makes=[turns_the_window_round, steps_by_one])
def windows_stepping_by_one_and_turned(x, size, stride=1):
    return local_windows(x, size).flip(-2)


def _picture(draw: Draw, size: int, stride: int, *batch: int, H: int = 5, W: int = 7, d: int = 3) -> Call:
    return draw.normal(*batch, H, W, d), size, stride


def _pictures(draw: Draw) -> list[Call]:
    """Sides of which no two are equal, by windows and strides that divide neither."""
    H, W, d = draw.sizes(3)
    return [_picture(draw, 3, 1, 2, H=H, W=W, d=d), _picture(draw, 5, 1, H=W, W=H, d=2), _picture(draw, 3, 4, 3, H=7, W=5)]


exercise = Exercise(
    id="10.1",
    title="The windows of an image",
    reference=local_windows,
    properties=(
        runs_on(lambda draw: [_picture(draw, 3, 1, 2)]),
        has_shape("size² positions with all their features, around every stride-th pixel.", _pictures),
        Property("one position", "A window of size 1 is the pixel itself.", lambda draw: [_picture(draw, 1, 1, 2)]),
        Property(
            "positions",
            "The positions are in row-major order, the middle is the pixel itself, and outside the image there are zeros.",
            lambda draw: [_picture(draw, 3, 1, 2), _picture(draw, 5, 1, 2, H=7, W=11)],
            points=3,
            needs=("one position",),
        ),
        Property(
            "large",
            "A window may be larger than the image.",
            lambda draw: [_picture(draw, 7, 1, 2, H=2, W=3), _picture(draw, 5, 1, 1, H=1, W=2)],
            needs=("positions",),
        ),
        Property(
            "stride",
            "The first window is at the first pixel, the next one stride pixels further, and none is left out.",
            lambda draw: [_picture(draw, 3, 2, 2), _picture(draw, 5, 3, 2, H=11, W=7), _picture(draw, 1, 4, 2, H=7, W=5)],
            points=2,
            needs=("positions",),
        ),
        Property(
            "batch",
            "One image, a batch of them, or a batch with heads; the default stride is 1.",
            lambda draw: [_picture(draw, 3, 1), _picture(draw, 3, 2, 2, 3, H=3), _picture(draw, 3, 1, 2)[:-1]],
            needs=("positions",),
        ),
        has_gradient(lambda draw: [_picture(draw, 3, 1, 2), _picture(draw, 3, 2, 2)], needs=("positions",)),
        leaves_inputs(_pictures),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
