"""Exercise 10.2, window_mask: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.primitives import local_windows, window_mask
from course_tools.checks.comparisons import same_shapes
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, runs_on

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "In an image of 3 × 4 pixels with windows of 3 × 3: how many of the nine are True at a corner, at the middle of "
        "an edge, and inside? And with windows of 5 × 5?"
    ),
    (
        "A position of the window in row y and column x lies inside if 0 ≤ y < H and 0 ≤ x < W. There is also a shorter "
        "way: `local_windows` puts zeros outside. For which image does that give the mask?"
    ),
    (
        "Where is the zero padding of `local_windows` visible? An image of ones, collected in the same way as the keys, "
        "shows it: 1 inside and 0 outside."
    ),
)


def _places(n, size, stride=1):
    """Along one axis, the positions of each window, (n_windows, size)."""
    return torch.arange(0, n, stride)[:, None] + torch.arange(size) - size // 2


def _both(down, across):
    """What holds of the rows (H_q, size) and of the columns (W_q, size), for all positions of all windows."""
    return (down[:, None, :, None] & across[:, None, :]).flatten(2)


def _inside(n, size, stride):
    places = _places(n, size, stride)
    return (places >= 0) & (places < n)


@wrong.idea
def says_what_is_outside(H, W, size, stride=1, device=None):
    """Your mask is True outside the image. In this course True = may attend, so your pixels attend to the padding only."""
    return (~_both(_inside(H, size, stride), _inside(W, size, stride))).to(device=device)


@wrong.case
def gives_numbers(H, W, size, stride=1, device=None):
    """You return zeros and ones. A mask is of type bool: `~mask` and `masked_fill` need a bool."""
    return _both(_inside(H, size, stride), _inside(W, size, stride)).float().to(device=device)


@wrong.detail
def exchanges_height_and_width(H, W, size, stride=1, device=None):
    """You take W for the number of rows and H for that of columns. For a square image the mistake has no effect."""
    return _both(_inside(W, size, stride), _inside(H, size, stride)).to(device=device)


@wrong.detail
def counts_column_by_column(H, W, size, stride=1, device=None):
    """You number the positions of a window column by column. `local_windows` is in row-major order, and so is the mask."""
    down, across = _inside(H, size, stride), _inside(W, size, stride)
    return ((down[:, None, None, :] & across[:, :, None]).flatten(2)).to(device=device)


@wrong.detail
def reaches_one_place(H, W, size, stride=1, device=None):
    """You treat every window as if it reached one pixel beyond its middle. A window of size × size reaches size // 2."""

    def inside(n):
        at, offset = torch.arange(0, n, stride)[:, None], torch.arange(size) - size // 2
        return ~((at == 0) & (offset < 0)) & ~((at == n - 1) & (offset > 0))

    return _both(inside(H), inside(W)).to(device=device)


@wrong.idea
def shuts_off_the_border(H, W, size, stride=1, device=None):
    """You forbid the whole window of a pixel near the border. Only the positions outside the image are forbidden."""
    down, across = (_inside(n, size, stride).all(-1, keepdim=True).expand(-1, size) for n in (H, W))
    return _both(down, across).to(device=device)


@wrong.part
def watches_one_corner(H, W, size, stride=1, device=None):
    """You check that row and column are not negative, and no more. Windows leave the image at the lower and the right
    border too."""
    return _both(_places(H, size, stride) >= 0, _places(W, size, stride) >= 0).to(device=device)


@wrong.detail
def lets_one_more_in(H, W, size, stride=1, device=None):
    """You allow row H and column W. Counted from 0, the last ones are H - 1 and W - 1: compare with <, not ≤."""
    places = ((_places(n, size, stride), n) for n in (H, W))
    return _both(*((at >= 0) & (at <= n) for at, n in places)).to(device=device)


@wrong.detail
def leaves_the_border_out(H, W, size, stride=1, device=None):
    """You allow only what lies strictly between the edges, > 0. Row 0 and column 0 are inside the image."""
    places = ((_places(n, size, stride), n) for n in (H, W))
    return _both(*((at > 0) & (at < n) for at, n in places)).to(device=device)


@wrong.part
def counts_through_the_rows(H, W, size, stride=1, device=None):
    """You check that the number of a position, row · W + column, lies between 0 and H · W. A position beyond the right edge
    then counts as one of the next row; check rows and columns separately."""
    number = _places(H, size, stride)[:, None, :, None] * W + _places(W, size, stride)[:, None, :]
    return (((number >= 0) & (number < H * W)).flatten(2)).to(device=device)


@wrong.part
def ignores_the_stride(H, W, size, stride=1, device=None):
    """You make a window for every pixel. With a stride there is a window for every stride-th row and column only."""
    return _both(_inside(H, size, 1), _inside(W, size, 1)).to(device=device)


@wrong.case
def makes_a_list_of_windows(H, W, size, stride=1, device=None):
    """You put all windows in one list, (H_q · W_q, size²). The result has the shape of the grid: (H_q, W_q, size²)."""
    return _both(_inside(H, size, stride), _inside(W, size, stride)).flatten(0, 1).to(device=device)


@wrong.case
def ignores_the_device(H, W, size, stride=1, device=None):
    """You create the mask on the CPU whatever `device` is: with a model on a GPU the next operation fails. Pass `device` to
    every tensor that you create."""
    return window_mask(H, W, size, stride)


@wrong.idea
def allows_everything(H, W, size, stride=1, device=None):
    """Your mask is True everywhere. A window at the border reaches beyond the image, and what lies there is no pixel: it
    must be False."""
    return torch.ones_like(window_mask(H, W, size, stride, device))


@wrong.detail
def rounds_the_number_of_windows_down(H, W, size, stride=1, device=None):
    """You round the number of windows down, H // stride. The first pixel has a window, and then every stride-th: that is H /
    stride rounded *up*, as `range(0, H, stride)` counts."""
    return window_mask(H, W, size, stride, device)[: H // stride, : W // stride]


@wrong.detail
def counts_the_windows_and_not_the_rows(H, W, size, stride=1, device=None):
    """You take the number of the window for the row of its centre. Window i is centred on row i · stride."""
    r = torch.arange(size, device=device) - size // 2
    rows, columns = (torch.arange(-(-n // stride), device=device)[:, None] + r for n in (H, W))
    return _both((rows >= 0) & (rows < H), (columns >= 0) & (columns < W))


@wrong.detail
def gives_the_image_no_features(H, W, size, stride=1, device=None):
    """You hand `local_windows` an image (H, W). It takes features in the last axis: (H, W, 1)."""
    return local_windows(torch.ones(H, W, device=device), size, stride) > 0


@right
def of_a_picture_of_ones(H, W, size, stride=1, device=None):
    """The windows of an image that is 1 everywhere, which hold 0 outside."""
    return local_windows(torch.ones((H, W, 1), device=device), size, stride)[..., 0].bool()


@right
def by_torchs_unfold(H, W, size, stride=1, device=None):
    """Padding that says False, and two views of it."""
    reach = size // 2
    padded = F.pad(torch.ones(H, W, dtype=torch.bool, device=device), (reach, reach, reach, reach), value=False)
    return padded.unfold(0, size, stride).unfold(1, size, stride).reshape(-(-H // stride), -(-W // stride), size * size)


@right
def by_distance(H, W, size, stride=1, device=None):
    """A position is inside where it is no further than half the image from the image's middle, down and across."""
    number = torch.arange(size * size, device=device)
    y = torch.arange(0, H, stride, device=device)[:, None, None] + number.div(size, rounding_mode="floor") - size // 2
    x = torch.arange(0, W, stride, device=device)[None, :, None] + number.remainder(size) - size // 2
    return ((2 * y - H + 1).abs() < H) & ((2 * x - W + 1).abs() < W)


@right
def one_by_one(H, W, size, stride=1, device=None):
    """Four loops, and two ranges that know what they hold."""
    reach = range(-(size // 2), size // 2 + 1)
    rows = [
        [[i + a in range(H) and j + b in range(W) for a in reach for b in reach] for j in range(0, W, stride)]
        for i in range(0, H, stride)
    ]
    return torch.tensor(rows, device=device)


@stranger
def mask_of_the_left_half(H, W, size, stride=1):
    return window_mask(H, W, size, stride) & (torch.arange(size**2) % size <= size // 2)


@stranger
def mask_of_a_cross(H, W, size, stride=1):
    place = torch.arange(size**2)
    return window_mask(H, W, size, stride) & ((place // size == size // 2) | (place % size == size // 2))


@stranger
def mask_without_the_middle(H, W, size, stride=1):
    return window_mask(H, W, size, stride) & (torch.arange(size**2) != size**2 // 2)


@stranger(makes=[says_what_is_outside, counts_column_by_column])
def mask_inverted_and_column_by_column(H, W, size, stride=1):
    return ~window_mask(H, W, size, stride).unflatten(-1, (size, size)).mT.flatten(-2)


def _drawn(draw: Draw, sizes: tuple[int, ...], strides: tuple[int, ...]) -> list[Call]:
    """Images with two different sides, one for each size and stride."""
    return [(*draw.sizes(2), size, stride) for size in sizes for stride in strides]


exercise = Exercise(
    id="10.2",
    title="The mask of the windows",
    reference=window_mask,
    properties=(
        runs_on(lambda draw: [(5, 7, 3, 1)]),
        has_shape(
            "A bool for each position of each window.",
            lambda draw: [*_drawn(draw, (3, 5), (1,)), (5, 7, 3, 2), (11, 7, 3, 4)],
        ),
        Property("one pixel", "A window of size 1 lies inside.", lambda draw: _drawn(draw, (1,), (1,))),
        Property(
            "border",
            "A window of 3 × 3 leaves the image by one pixel, at each of the four borders.",
            lambda draw: [(5, 7, 3, 1), (1, 2, 3, 1), *_drawn(draw, (3,), (1,)), (3, 5, 3)],
            points=3,
            needs=("one pixel",),
        ),
        Property(
            "reach",
            "A window reaches size // 2 pixels in each direction.",
            lambda draw: [(5, 7, 5, 1), (2, 3, 7, 1), *_drawn(draw, (5, 7), (1,))],
            points=2,
            needs=("border",),
        ),
        Property(
            "stride",
            "With a stride there is a window for every stride-th row and column, beginning with the first.",
            lambda draw: [(5, 7, 3, 2), (11, 7, 5, 3), (7, 5, 1, 4), *_drawn(draw, (5,), (2, 3))],
            points=2,
            needs=("border",),
        ),
        Property(
            "device",
            "The mask is created on the device that is passed in.",
            lambda draw: [(5, 7, 3, 2, "meta")],
            same_shapes,
            needs=("border",),
        ),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
