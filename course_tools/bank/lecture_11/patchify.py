"""Exercise 11.1, patchify: what students answer, wrong and right."""

import torch
import torch.nn.functional as F
from einops import rearrange

from course_lib.primitives import patchify
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
        "Draw an image of 4 × 6 pixels and P = 2, and number its pixels in memory order. Which four numbers make the "
        "first patch, and which the second? A plain reshape would give others."
    ),
    (
        "Split each of the two axes of the image into two: patch and pixel within it, H = rows · P. That makes six axes. "
        "Permute them into the order of the result, then merge."
    ),
    (
        "Split each side in two, (rows, P) and (columns, P): that makes six axes. Bring rows and columns together in "
        "front and C, P, P after them, and join each of the two groups. With einops this is one pattern."
    ),
)


@wrong.idea
def cuts_the_memory(images, P):
    """You only reshape the image. Each of your vectors is then a run of pixels of one channel and not a square: a reshape
    does not permute axes."""
    B, C, H, W = images.shape
    return images.reshape(B, H * W // P**2, C * P**2)


@wrong.detail
def puts_the_channels_last(images, P):
    """You let the channels run fastest in each patch: red, green, blue of one pixel, then of the next. Here all of the
    first channel comes before the second, as in the weights of a convolution."""
    return rearrange(images, "B C (r P_1) (c P_2) -> B (r c) (P_1 P_2 C)", P_1=P, P_2=P)


@wrong.detail
def counts_the_patches_downwards(images, P):
    """You count the patches column by column. They are in row-major order: the first row from left to right, then the next."""
    return rearrange(images, "B C (r P_1) (c P_2) -> B (c r) (C P_1 P_2)", P_1=P, P_2=P)


@wrong.detail
def reads_each_patch_downwards(images, P):
    """You read the pixels within each patch column by column, so every patch is transposed. Its pixels are in row-major
    order."""
    return rearrange(images, "B C (r P_1) (c P_2) -> B (r c) (C P_2 P_1)", P_1=P, P_2=P)


@wrong.part
def turns_the_image(images, P):
    """You exchange height and width before you cut. Both the order of the patches and that of their pixels then run down the
    columns of the image; they should run along its rows."""
    return rearrange(images, "B C (r P_1) (c P_2) -> B (c r) (C P_2 P_1)", P_1=P, P_2=P)


@wrong.idea
def takes_pixels_far_apart(images, P):
    """You split the height as (P rows), not (rows P). A vector of yours collects pixels from all over the image: the last
    axis in the parentheses is the contiguous one."""
    return rearrange(images, "B C (P_1 r) (P_2 c) -> B (r c) (C P_1 P_2)", P_1=P, P_2=P)


@wrong.detail
def leaves_the_axes_exchanged(images, P):
    """You return what `unfold` gives, with one patch in each column. Tokens are rows, (B, N, C · P²): exchange the last two
    axes."""
    return F.unfold(images, P, stride=P)


@wrong.idea
def makes_a_token_of_each_channel(images, P):
    """You make a patch of each channel by itself. A token has all channels: N tokens, each with C · P² numbers."""
    return rearrange(images, "B C (r P_1) (c P_2) -> B (C r c) (P_1 P_2)", P_1=P, P_2=P)


@wrong.idea
def joins_without_permuting(images, P):
    """You split correctly, but merge the axes while the channels still come before the grid. Your tokens hold several
    patches of one channel; with a single channel the mistake has no effect."""
    squares = images.unfold(2, P, P).unfold(3, P, P)
    return squares.reshape(len(images), -1, images.shape[1] * P**2)


@wrong.case
def keeps_the_squares(images, P):
    """You leave each patch as a small image. A linear layer needs one vector: merge channel, row and column into one axis."""
    return rearrange(images, "B C (r P_1) (c P_2) -> B (r c) C P_1 P_2", P_1=P, P_2=P)


@wrong.part
def lets_the_patches_overlap(images, P):
    """Your stride is half a patch, so that your squares overlap. Patches do not overlap: the stride is P."""
    return F.unfold(images, P, stride=max(1, P // 2)).mT


@wrong.idea
def looks_at_one_channel(images, P):
    """You use the first channel only. All channels of a pixel belong to its patch; in a grey image the mistake has no
    effect."""
    return rearrange(images[:, :1], "B C (r P_1) (c P_2) -> B (r c) (C P_1 P_2)", P_1=P, P_2=P)


@wrong.part
def reshapes_what_unfold_returns(images, P):
    """You reshape what `unfold` returns, (B, C·P², N). A reshape keeps the order in memory: exchange the last two axes
    instead, by `.mT`."""
    return F.unfold(images, P, stride=P).reshape(len(images), -1, images.shape[1] * P * P)


@wrong.detail
def counts_as_many_columns_as_rows(images, P):
    """You count as many columns of patches as rows, H // P. H and W may differ: there are H // P rows of W // P patches."""
    B, C, H, _ = images.shape
    n = H // P
    return images.reshape(B, C, n, P, n, P).permute(0, 2, 4, 1, 3, 5).reshape(B, n * n, C * P * P)


@wrong.detail
def counts_as_many_rows_as_columns(images, P):
    """You count as many rows of patches as columns, W // P. H and W may differ: there are H // P rows of W // P patches."""
    B, C, _, W = images.shape
    n = W // P
    return images.reshape(B, C, n, P, n, P).permute(0, 2, 4, 1, 3, 5).reshape(B, n * n, C * P * P)


@right
def by_unfolding(images, P):
    """torch's function for the windows of a convolution, turned round."""
    return F.unfold(images, kernel_size=(P, P), stride=(P, P)).transpose(1, 2)


@right
def square_by_square(images, P):
    """Two loops over the grid, a slice for each patch."""
    _, _, H, W = images.shape
    corners = [(top, left) for top in range(0, H, P) for left in range(0, W, P)]
    return torch.stack([images[:, :, i : i + P, j : j + P].flatten(1) for i, j in corners], dim=1)


@right
def by_six_axes(images, P):
    """Six axes by reshape, in another order by permute."""
    B, C, H, W = images.shape
    return images.reshape(B, C, H // P, P, W // P, P).permute(0, 2, 4, 1, 3, 5).reshape(B, -1, C * P * P)


@right
def by_convolution(images, P):
    """A convolution whose kernels are the unit vectors: each of its outputs picks one number of the patch."""
    n = images.shape[1] * P * P
    kernels = torch.eye(n, dtype=images.dtype).reshape(n, -1, P, P)
    return F.conv2d(images, kernels, stride=P).flatten(2).mT


@right
def by_counting(images, P):
    """The position of every number in memory is computed, and picked there."""
    _, C, H, W = images.shape
    row, column = torch.arange(H).reshape(-1, 1, 1, P, 1), torch.arange(W).reshape(1, -1, 1, 1, P)
    place = torch.arange(C)[:, None, None] * H * W + row * W + column
    return images.flatten(1)[:, place.reshape(H * W // P**2, C * P**2)]


@stranger
def patches_mirrored(images, P):
    return patchify(images.flip(-1), P)


@stranger
def patches_of_the_image_upside_down(images, P):
    return patchify(images, P).flip(1)


@stranger
def patches_less_their_mean(images, P):
    patches = patchify(images, P)
    return patches - patches.mean(-1, keepdim=True)


@stranger
def patches_with_the_colours_turned(images, P):
    return patchify(images.roll(1, dims=1), P)


@stranger(makes=[cuts_the_memory])
def patches_by_a_view_of_the_memory(images, P):
    _, C, H, W = images.shape
    return torch.stack([image.flatten().view(H * W // P**2, C * P**2) for image in images])


@stranger(makes=[puts_the_channels_last, counts_the_patches_downwards])
def patches_downwards_with_channels_last(images, P):
    return rearrange(images, "B C (r P_1) (c P_2) -> B (c r) (P_1 P_2 C)", P_1=P, P_2=P)


def _image(draw: Draw, B: int, C: int, rows: int, columns: int, P: int) -> Call:
    return draw.normal(B, C, rows * P, columns * P), P


def _images(draw: Draw) -> list[Call]:
    rows, columns = draw.sizes(2)
    return [_image(draw, 2, 3, rows, columns, 2), _image(draw, 1, 2, columns, rows, 3)]


exercise = Exercise(
    id="11.1",
    title="An image as a sequence of patches",
    reference=patchify,
    properties=(
        runs_on(_images),
        has_shape("A token for each patch: (B, H W / P², C · P²).", _images),
        Property("pixels", "With patches of one pixel, each token is a pixel.", lambda draw: [_image(draw, 2, 3, 5, 7, 1)]),
        Property("whole", "With one patch, the token is the image.", lambda draw: [_image(draw, 2, 3, 1, 1, 5)]),
        Property(
            "squares", "A grey image is cut into squares, row by row.", lambda draw: [_image(draw, 2, 1, 3, 5, 2)], points=2
        ),
        Property("channels", "Each token holds one channel after the other.", _images, points=2, needs=("squares",)),
        Property(
            "views",
            "The result is independent of the memory layout of the image.",
            lambda draw: [(_image(draw, 2, 3, 5, 3, 2)[0].mT, 2)],
            needs=("channels",),
        ),
        has_gradient(_images, needs=("channels",)),
        leaves_inputs(_images),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
