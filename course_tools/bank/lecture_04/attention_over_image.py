"""Exercise 04.6, attention_over_image: what students answer, wrong and right."""

import math

import torch
import torch.nn.functional as F
from einops import einsum, rearrange

from course_lib.attention import attention_over_image
from course_lib.attention.core import attend
from course_lib.attention.dot_product import scaled_dot_product_attention
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
        "What is a token here, and what are its features? An image (B, C, H, W) has H·W pixels, and each is a vector of C "
        "numbers: find the shape that a sequence of such tokens has."
    ),
    (
        "Bring the channels to the end *before* you make one axis of H and W: a reshape alone cannot exchange axes. After "
        "the attention do the same steps backwards, in the opposite order, and keep H and W apart from each other."
    ),
    (
        "Make the image (B, H·W, C), row by row; multiply by the three matrices, stored (out, in), to get q, k and v; let "
        "`scaled_dot_product_attention` do its work; then cut the axis of pixels into H and W again, with the features in "
        "front of them."
    ),
)


@wrong.detail
def forgets_the_scale(x, W_q, W_k, W_v):
    """Your scores are not divided by √d_k: they grow with the size of the vectors, until nearly all the weight of each
    pixel is on one other."""
    pixels = rearrange(x, "B C H W -> B (H W) C")
    context, _ = attend(pixels @ W_q.mT @ (pixels @ W_k.mT).mT, pixels @ W_v.mT)
    return rearrange(context, "B (H W) d_v -> B d_v H W", H=x.shape[-2])


@wrong.detail
def scales_by_the_number_of_channels(x, W_q, W_k, W_v):
    """You scale by √C, the channels of the image. The dot products are of projected pixels, so the scale is √d_k, the size
    of a key."""
    pixels = rearrange(x, "B C H W -> B (H W) C")
    context, _ = attend(pixels @ W_q.mT @ (pixels @ W_k.mT).mT / math.sqrt(x.shape[1]), pixels @ W_v.mT)
    return rearrange(context, "B (H W) d_v -> B d_v H W", H=x.shape[-2])


@wrong.detail
def flattens_column_by_column(x, W_q, W_k, W_v):
    """You lay the pixels out column by column, but put them back row by row: the right contexts end up at the wrong pixels."""
    pixels = rearrange(x, "B C H W -> B (W H) C")
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return rearrange(context, "B (H W) d_v -> B d_v H W", H=x.shape[-2])


@wrong.idea
def reshapes_without_permuting(x, W_q, W_k, W_v):
    """You make the tokens by a reshape alone. It keeps the order in memory, where a whole channel comes before the
    next, so a token of yours holds one channel of several pixels instead of all channels of one pixel."""
    B, C, H, W = x.shape
    pixels = x.reshape(B, H * W, C)
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return rearrange(context, "B (H W) d_v -> B d_v H W", H=H)


@wrong.part
def reshapes_without_permuting_back(x, W_q, W_k, W_v):
    """Your attention is right, but you reshape its result straight to (B, d_v, H, W). The features of a pixel are
    contiguous in memory, so they are spread over several pixels."""
    pixels = rearrange(x, "B C H W -> B (H W) C")
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return context.reshape(x.shape[0], -1, *x.shape[-2:])


@wrong.case
def looks_at_the_whole_batch(x, W_q, W_k, W_v):
    """Your pixels attend to the pixels of every image in the batch. The result of an image must be independent of the other
    images."""
    B, _, H, _ = x.shape
    pixels = rearrange(x, "B C H W -> (B H W) C")
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return rearrange(context, "(B H W) d_v -> B d_v H W", B=B, H=H)


@wrong.idea
def stays_within_the_row(x, W_q, W_k, W_v):
    """You keep the rows of the image as a batch axis, so a pixel attends only to its own row. Each pixel attends to the
    whole image: H and W must become one axis of tokens."""
    pixels = rearrange(x, "B C H W -> B H W C")
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return rearrange(context, "B H W d_v -> B d_v H W")


@wrong.idea
def attends_over_the_channels(x, W_q, W_k, W_v):
    """Your tokens are the channels, each with H·W features: you mix feature maps and no information moves between pixels.
    Here the pixels are the tokens, and the channels their features."""
    channels = rearrange(x, "B C H W -> B C (H W)")
    context, _ = scaled_dot_product_attention(W_q @ channels, W_k @ channels, W_v @ channels)
    return rearrange(context, "B d_v (H W) -> B d_v H W", H=x.shape[-2])


@wrong.part
def normalises_over_the_queries(x, W_q, W_k, W_v):
    """Your softmax runs over the queries. It must run over the keys, so that the context of each pixel is an average with
    weights that sum to 1."""
    pixels = rearrange(x, "B C H W -> B (H W) C")
    scores = pixels @ W_q.mT @ (pixels @ W_k.mT).mT / math.sqrt(W_k.shape[0])
    return rearrange(scores.softmax(1) @ pixels @ W_v.mT, "B (H W) d_v -> B d_v H W", H=x.shape[-2])


@wrong.detail
def swaps_the_matrices_of_queries_and_keys(x, W_q, W_k, W_v):
    """You make the queries with W_k and the keys with W_q. That transposes the matrix of scores."""
    pixels = rearrange(x, "B C H W -> B (H W) C")
    context, _ = scaled_dot_product_attention(pixels @ W_k.mT, pixels @ W_q.mT, pixels @ W_v.mT)
    return rearrange(context, "B (H W) d_v -> B d_v H W", H=x.shape[-2])


@wrong.part
def mixes_the_pixels_themselves(x, W_q, W_k, W_v):
    """You average the input pixels and never use W_v. What is mixed are the values W_v x, so the result has d_v channels."""
    pixels = rearrange(x, "B C H W -> B (H W) C")
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels)
    return rearrange(context, "B (H W) C -> B C H W", H=x.shape[-2])


@wrong.detail
def adds_its_input(x, W_q, W_k, W_v):
    """You add the input image to the result. That residual belongs to a block around the attention; here the context of each
    pixel is asked for, and it has d_v channels, not C."""
    return x + attention_over_image(x, W_q, W_k, W_v)


@wrong.detail
def reshapes_to_the_channels_of_the_input(x, W_q, W_k, W_v):
    """You shape the result like x, with C channels. It has those of the values, d_v, and W_v decides how many these are."""
    B, C, H, W = x.shape
    pixels = x.flatten(2).mT
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return context.mT.reshape(B, C, H, W)


@wrong.detail
def projects_rows_of_pixels(x, W_q, W_k, W_v):
    """You multiply x by W_q.mT, and the last axis of an image is its width. Flatten the pixels and bring the channels last
    first: x.flatten(2).mT, (B, H·W, C)."""
    q, k, v = (x @ W.mT for W in (W_q, W_k, W_v))
    return scaled_dot_product_attention(q, k, v).context


@wrong.detail
def projects_columns_of_pixels(x, W_q, W_k, W_v):
    """You multiply W_q @ x, and the last axis but one of an image is its height. Flatten the pixels first, so that the channels
    are there: W_q @ x.flatten(2), (B, d_k, H·W)."""
    q, k, v = (W @ x for W in (W_q, W_k, W_v))
    return v @ (q.mT @ k / math.sqrt(len(W_k))).softmax(-1).mT


@wrong.detail
def convolves_with_a_matrix(x, W_q, W_k, W_v):
    """You give conv2d a matrix. It takes kernels (out, in, height, width), and those of one pixel have height and width 1:
    W_q[:, :, None, None]."""
    q, k, v = (F.conv2d(x, W).flatten(2) for W in (W_q, W_k, W_v))
    weights = (q.mT @ k / math.sqrt(len(W_k))).softmax(-1)
    return (v @ weights.mT).unflatten(-1, x.shape[2:])


@wrong.detail
def projects_before_the_channels_are_last(x, W_q, W_k, W_v):
    """You flatten the pixels and leave the channels in front: (B, C, H·W). A projection x @ W_q.mT acts on the last axis:
    transpose, so that it holds the channels."""
    pixels = x.flatten(2)
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return context.mT.unflatten(-1, x.shape[2:])


@wrong.detail
def returns_the_transposed_map(x, W_q, W_k, W_v):
    """You return an image that is turned over: its rows are the columns of x. Height comes before width, also in the result:
    (B, d_v, H, W)."""
    pixels = x.flatten(2).mT
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return context.mT.unflatten(-1, x.shape[2:]).mT


@wrong.detail
def cuts_the_pixels_into_columns(x, W_q, W_k, W_v):
    """You cut the axis of pixels into (W, H). The pixels lie row by row, and there are H rows of W: (B, d_v, H, W)."""
    pixels = x.flatten(2).mT
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return context.mT.unflatten(-1, (x.shape[3], x.shape[2]))


@wrong.detail
def puts_the_pixels_back_column_by_column(x, W_q, W_k, W_v):
    """You lay the pixels out row by row, but put them back column by column: the right contexts end up at the wrong pixels."""
    pixels = x.flatten(2).mT
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return context.mT.unflatten(-1, (x.shape[3], x.shape[2])).mT


@wrong.case
def leaves_the_channels_last(x, W_q, W_k, W_v):
    """Your result has its features last, (B, H, W, d_v). An image has them in front of the pixels: (B, d_v, H, W)."""
    pixels = x.flatten(2).mT
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return context.unflatten(1, x.shape[2:])


@wrong.detail
def returns_the_sequence(x, W_q, W_k, W_v):
    """You return the sequence of pixels, (B, H·W, d_v). Make an image of it: the features in front, and the axis of pixels cut
    into H and W."""
    pixels = x.flatten(2).mT
    return scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT).context


@wrong.detail
def leaves_the_pixels_on_one_axis(x, W_q, W_k, W_v):
    """You return all pixels on one axis, (B, d_v, H·W). Cut it into H and W again: `unflatten`."""
    pixels = x.flatten(2).mT
    return scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT).context.mT


@wrong.part
def mixes_by_transposed_weights(x, W_q, W_k, W_v):
    """You multiply the values by the transposed weights, so that each pixel gives to the others by its own softmax. The context
    of a pixel is the mean of the values with the weights of its own row."""
    pixels = x.flatten(2).mT
    _, weights = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    return (weights.mT @ (pixels @ W_v.mT)).mT.unflatten(-1, x.shape[2:])


@right
def with_convolutions(x, W_q, W_k, W_v):
    """The projections as 1×1 convolutions, and the algebra with the channels in front, as in EE-559's layer."""
    q, k, v = (F.conv2d(x, W[:, :, None, None]).flatten(2) for W in (W_q, W_k, W_v))
    weights = torch.softmax(q.transpose(1, 2) @ k / math.sqrt(k.shape[1]), dim=2)
    return (v @ weights.transpose(1, 2)).view(x.shape[0], -1, *x.shape[2:])


@right
def with_places_as_two_axes(x, W_q, W_k, W_v):
    """No flattening at all: einsum over places (h, w) that ask and places (i, j) that answer."""
    q, k, v = (einsum(x, W, "b c h w, d c -> b d h w") for W in (W_q, W_k, W_v))
    scores = einsum(q, k, "b d h w, b d i j -> b h w i j") / len(W_q) ** 0.5
    shares = (scores - scores.detach().amax((-2, -1), keepdim=True)).exp()
    weights = shares / shares.sum((-2, -1), keepdim=True)
    return einsum(weights, v, "b h w i j, b d i j -> b d h w")


@right
def pixel_by_pixel(x, W_q, W_k, W_v):
    """Loops over the images and the places of each, one query at a time."""
    images = []
    for image in x:
        pixels = torch.stack([pixel for row in image.permute(1, 2, 0) for pixel in row])
        contexts = []
        for pixel in pixels:
            scores = pixels @ W_k.T @ (W_q @ pixel) / math.sqrt(W_q.size(0))
            contexts.append(scores.softmax(0) @ (pixels @ W_v.T))
        images.append(torch.stack(contexts, 1).unflatten(1, image.shape[1:]))
    return torch.stack(images)


@right
def fused_column_by_column(x, W_q, W_k, W_v):
    """torch's fused kernel over the pixels column by column, and put back the same way."""
    pixels = x.transpose(2, 3).flatten(2).transpose(1, 2)
    context = F.scaled_dot_product_attention(F.linear(pixels, W_q), F.linear(pixels, W_k), F.linear(pixels, W_v))
    return context.transpose(1, 2).unflatten(2, (x.shape[3], x.shape[2])).transpose(2, 3)


@stranger
def image_upside_down(x, W_q, W_k, W_v):
    return attention_over_image(x, W_q, W_k, W_v).flip(-2)


@stranger
def image_with_a_residual(x, W_q, W_k, W_v):
    pixels = x.flatten(2).mT
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT)
    out = context.mT.unflatten(-1, x.shape[2:])
    return out + x if out.shape == x.shape else out


@stranger
def image_looks_at_neighbours_only(x, W_q, W_k, W_v):
    H, W = x.shape[2:]
    pixels = x.flatten(2).mT
    row, column = torch.arange(H * W) // W, torch.arange(H * W) % W
    near = ((row[:, None] - row).abs() <= 1) & ((column[:, None] - column).abs() <= 1)
    context, _ = scaled_dot_product_attention(pixels @ W_q.mT, pixels @ W_k.mT, pixels @ W_v.mT, near)
    return context.mT.unflatten(-1, (H, W))


@stranger(makes=[forgets_the_scale])
def image_by_convolutions_without_the_scale(x, W_q, W_k, W_v):
    q, k, v = (F.conv2d(x, W[..., None, None]).flatten(2) for W in (W_q, W_k, W_v))
    return (v @ (q.mT @ k).softmax(-1).mT).unflatten(-1, x.shape[2:])


@stranger(makes=[forgets_the_scale, flattens_column_by_column])
def over_image_with_two_mistakes(x, W_q, W_k, W_v):
    pixels = x.transpose(2, 3).flatten(2).mT
    context, _ = attend(pixels @ W_q.mT @ (pixels @ W_k.mT).mT, pixels @ W_v.mT)
    return context.mT.unflatten(-1, x.shape[2:])


def _image(draw: Draw, B: int, H: int, W: int, square: bool = False) -> Call:
    C, d_k, d_v = draw.sizes(3)
    d_k, d_v = (C, C) if square else (d_k, d_v)
    return draw.normal(B, C, H, W), draw.normal(d_k, C, scale=0.7), draw.normal(d_k, C, scale=0.7), draw.normal(d_v, C)


exercise = Exercise(
    id="04.6",
    title="Attention over the pixels of an image",
    extra=True,
    reference=attention_over_image,
    properties=(
        runs_on(lambda draw: [_image(draw, 2, 3, 5)]),
        has_shape("An image of d_v channels, as high and as wide as before.", lambda draw: [_image(draw, 2, 3, 5)]),
        Property("one pixel", "A single pixel attends to itself: the result is W_v x.", lambda draw: [_image(draw, 1, 1, 1)]),
        Property(
            "row",
            "The pixels of one row attend to each other.",
            lambda draw: [_image(draw, 1, 1, 4), _image(draw, 1, 4, 1)],
            points=2,
            needs=("one pixel",),
        ),
        Property(
            "image",
            "Every pixel attends to every other, and its context is at its own position.",
            lambda draw: [_image(draw, 1, 2, 3), _image(draw, 1, 3, 3, square=True)],
            points=2,
            needs=("row",),
        ),
        Property(
            "batch",
            "Each image attends to itself alone.",
            lambda draw: [_image(draw, 2, 2, 3), _image(draw, 3, 3, 3, square=True)],
            needs=("image",),
        ),
        has_gradient(lambda draw: [_image(draw, 2, 2, 3)], needs=("batch",)),
        leaves_inputs(lambda draw: [_image(draw, 2, 2, 3)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "einops finds one of the two sizes from the other and the number of pixels.": (
            "drop keyword: return rearrange(context, 'B (H W) d_v -> B d_v H W', W=W)",
            "drop keyword: return rearrange(context, 'B (H W) d_v -> B d_v H W', H=H)",
        ),
        "Only the shape of four axes is read: its last two are those from the third on, detached or not.": (
            "detach: x.detach().shape",
            "drop sign: x.shape[2:]",
        ),
    },
    hints=HINTS,
)
