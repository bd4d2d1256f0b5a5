"""Exercise 09.4, non_local_block: what students answer, wrong and right."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange

from course_lib.attention import attend, non_local_block, non_local_embedded_gaussian
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
        "A video has T · H · W positions. How many tokens must the attention have so that a pixel of the last frame can "
        "attend to one of the first? And what should come out if W_z is 0?"
    ),
    (
        "Flatten all axes after the features into one, and bring the features to the end, where the attention expects "
        "them: (B, N, C). Afterwards apply W_z, exchange the axes back, unflatten the positions, and add x."
    ),
    (
        "Flatten all axes of positions to one, and bring it before the channels. Attend, project the context "
        "by W_z, undo the two steps in the opposite order, and add the image itself."
    ),
)


def _tokens(x):
    return x.flatten(2).mT


def _map(tokens, x):
    return tokens.mT.unflatten(2, x.shape[2:])


def _seen(tokens, W_theta, W_phi, W_g, W_z):
    return non_local_embedded_gaussian(tokens, W_theta, W_phi, W_g).context @ W_z.mT


@wrong.part
def keeps_the_times_apart(x, W_theta, W_phi, W_g, W_z):
    """You attend within each frame of a video separately. All positions of all frames belong to one softmax; for images the
    mistake has no effect."""
    is_film = x.dim() == 5
    pixels = x.flatten(3) if is_film else x.flatten(2)
    tokens = pixels.movedim(1, -1)
    context, _ = non_local_embedded_gaussian(tokens, W_theta, W_phi, W_g)
    return x + (context @ W_z.mT).movedim(-1, 1).reshape(x.shape)


@wrong.idea
def looks_along_time_only(x, *weights):
    """Each pixel of a video attends only to the same pixel in other frames. Attention in space-time is over all pixels of
    all frames."""
    if x.dim() < 5:
        return x + _map(_seen(_tokens(x), *weights), x)
    lines = rearrange(x, "B C T H W -> B H W T C")
    return x + rearrange(_seen(lines, *weights), "B H W T C -> B C T H W")


@wrong.case
def reads_pictures_alone(x, *weights):
    """You unpack the axes after the features into H and W. That holds for an image; a video has three such axes and a
    sequence one, and the same block serves all of them."""
    B, C, H, W = x.shape
    tokens = x.reshape(B, C, H * W).transpose(1, 2)
    return x + _seen(tokens, *weights).transpose(1, 2).reshape(B, C, H, W)


@wrong.part
def reshapes_into_tokens(x, *weights):
    """You reshape (B, C, places) to (B, places, C). A reshape does not exchange axes, so your tokens are runs of pixels of
    one channel, and not the channels of one pixel; transpose."""
    tokens = x.reshape(x.shape[0], -1, x.shape[1])
    return x + _map(_seen(tokens, *weights), x)


@wrong.part
def reshapes_there_and_back(x, *weights):
    """You reshape (B, C, places) to (B, places, C), and back. A reshape does not exchange axes, so your tokens are runs of
    pixels of one channel, and not the channels of one pixel; transpose, both times."""
    return x + _seen(x.reshape(x.shape[0], -1, x.shape[1]), *weights).reshape(x.shape)


@wrong.part
def reshapes_into_maps(x, *weights):
    """You reshape the tokens (B, N, C) to the shape of x. The features are the last axis there and must come first here:
    exchange the axes before you unflatten the positions."""
    return x + _seen(_tokens(x), *weights).reshape(x.shape)


@wrong.detail
def exchanges_height_and_width(x, *weights):
    """You unflatten the positions as if they were numbered column by column. The contexts are added at the wrong positions;
    for a square image there is no shape error."""
    if x.dim() < 4:
        return x + _map(_seen(_tokens(x), *weights), x)
    *before, H, W = x.shape[2:]
    return x + _seen(_tokens(x), *weights).mT.unflatten(2, (*before, W, H)).mT


@wrong.part
def forgets_the_input(x, *weights):
    """You return W_z y and do not add x. With W_z = 0 the block should be the identity, and yours gives 0."""
    return _map(_seen(_tokens(x), *weights), x)


@wrong.part
def lets_the_pictures_meet(x, *weights):
    """You put the positions of the whole batch into one sequence. Then every image attends to the others, and its result
    depends on the rest of the batch."""
    tokens = _tokens(x)
    return x + _map(_seen(tokens.reshape(1, -1, x.shape[1]), *weights).reshape(tokens.shape), x)


@wrong.detail
def scales_the_scores(x, W_theta, W_phi, W_g, W_z):
    """You divide the scores by √d_k. This paper does not: its scores are the plain products."""
    theta, phi, g = (_tokens(x) @ W.mT for W in (W_theta, W_phi, W_g))
    return x + _map(attend(theta @ phi.mT / len(W_theta) ** 0.5, g).context @ W_z.mT, x)


@wrong.part
def normalises_over_those_who_ask(x, W_theta, W_phi, W_g, W_z):
    """You normalise over i, the queries. The weights of each query sum to 1: the softmax runs along the last axis, over j."""
    theta, phi, g = (_tokens(x) @ W.mT for W in (W_theta, W_phi, W_g))
    return x + _map((theta @ phi.mT).softmax(-2) @ g @ W_z.mT, x)


@wrong.idea
def takes_no_softmax(x, W_theta, W_phi, W_g, W_z):
    """You divide the products by N and take no softmax. That is the dot-product form; this block uses the embedded
    Gaussian."""
    theta, phi, g = (_tokens(x) @ W.mT for W in (W_theta, W_phi, W_g))
    return x + _map(theta @ phi.mT / theta.shape[1] @ g @ W_z.mT, x)


@wrong.detail
def cuts_off_below_zero(x, *weights):
    """You end with ReLU, as other blocks of such networks do. The residual path must be the identity, for negative features
    too."""
    return F.relu(x + _map(_seen(_tokens(x), *weights), x))


@wrong.idea
def hands_all_the_same(x, W_theta, W_phi, W_g, W_z):
    """You give each position the mean of all. The weights must depend on the query, by θ and φ."""
    g = _tokens(x) @ W_g.mT
    return x + _map(g.mean(1, keepdim=True).expand_as(g) @ W_z.mT, x)


@wrong.case
def overwrites_the_input(x, *weights):
    """You add to x in place. That changes the caller's input, and autograd raises an error where x needs a gradient; make a
    new tensor by `x + …`."""
    return x.add_(_map(_seen(_tokens(x), *weights), x))


@wrong.detail
def exchanges_theta_and_phi(x, W_theta, W_phi, W_g, W_z):
    """You make the queries by W_φ and the keys by W_θ: the scores are transposed."""
    return non_local_block(x, W_phi, W_theta, W_g, W_z)


@wrong.part
def forgets_the_output_projection(x, W_theta, W_phi, W_g, W_z):
    """You add the context without W_z. It has d features and the input C: W_z maps the context back to C features before
    the sum."""
    tokens = x.flatten(2).mT
    y = non_local_embedded_gaussian(tokens, W_theta, W_phi, W_g).context
    return x + y.mT.unflatten(2, x.shape[2:])


@wrong.detail
def projects_rows_of_pixels(x, W_theta, W_phi, W_g, W_z):
    """You multiply x by W_theta.mT, and the last axis of an image is its width. Flatten the positions and bring the channels
    last first: x.flatten(2).mT."""
    q, k, v = (x @ W.mT for W in (W_theta, W_phi, W_g))
    return (q @ k.mT).softmax(-1) @ v @ W_z.mT + x


@wrong.detail
def adds_positions_to_pixels(x, W_theta, W_phi, W_g, W_z):
    """You add (B, N, C) to an image (B, C, H, W). Transpose the projected context and give it the positions of x before you
    add: .mT.reshape(x.shape)."""
    flat = x.flatten(2).mT
    q, k, v = (flat @ W.mT for W in (W_theta, W_phi, W_g))
    return (q @ k.mT).softmax(-1) @ v @ W_z.mT + x


@wrong.detail
def embeds_the_channels_from_the_wrong_side(x, W_theta, W_phi, W_g, W_z):
    """You pass the pixels with the channels in front, (B, C, N). The function takes a row for each position: turn the
    last two axes."""
    y = non_local_embedded_gaussian(x.flatten(2), W_theta, W_phi, W_g).context
    return x + (y @ W_z.mT).reshape(x.shape)


@right
def features_first(x, W_theta, W_phi, W_g, W_z):
    """The features stay in front throughout: all products by einsum, softmax over the last letter."""
    places = x.flatten(2)
    theta, phi, g = (torch.einsum("dc,bcn->bdn", W, places) for W in (W_theta, W_phi, W_g))
    weights = torch.einsum("bdi,bdj->bij", theta, phi).softmax(-1)
    return (places + torch.einsum("cd,bij,bdj->bci", W_z, weights, g)).reshape(x.shape)


@right
def with_convolutions(x, W_theta, W_phi, W_g, W_z):
    """Four convolutions of width 1 along the line of all positions, as in the authors' code; torch's attention between."""
    line = x.reshape(*x.shape[:2], -1)
    theta, phi, g = (F.conv1d(line, W.unsqueeze(-1)).transpose(1, 2) for W in (W_theta, W_phi, W_g))
    y = F.scaled_dot_product_attention(theta, phi, g, scale=1.0)
    return F.conv1d(y.transpose(1, 2), W_z.unsqueeze(-1)).view_as(x) + x


@right
def brings_back_first(x, W_theta, W_phi, W_g, W_z):
    """W_z W_g as one matrix for the values, since mixing the positions and mixing the features commute."""
    tokens = x.movedim(1, -1).flatten(1, -2)
    y = non_local_embedded_gaussian(tokens, W_theta, W_phi, W_z @ W_g).context
    return x + y.unflatten(1, x.shape[2:]).movedim(-1, 1)


@right
def picture_by_picture(x, W_theta, W_phi, W_g, W_z):
    """A loop over the batch, with matrices of one column for each position."""
    out = []
    for picture in x.flatten(2):
        weights = ((W_theta @ picture).T @ (W_phi @ picture)).softmax(1)
        out.append(picture + W_z @ (W_g @ picture) @ weights.T)
    return torch.stack(out).reshape(x.shape)


@stranger
def block_that_subtracts(x, W_theta, W_phi, W_g, W_z):
    return non_local_block(x, W_theta, W_phi, W_g, -W_z)


@stranger
def block_of_twice_the_input(x, W_theta, W_phi, W_g, W_z):
    return x + non_local_block(x, W_theta, W_phi, W_g, W_z)


@stranger
def block_upside_down(x, W_theta, W_phi, W_g, W_z):
    return x + (non_local_block(x, W_theta, W_phi, W_g, W_z) - x).flip(-1)


@stranger(makes=[scales_the_scores])
def block_with_a_smaller_query(x, W_theta, W_phi, W_g, W_z):
    return non_local_block(x, W_theta / math.sqrt(len(W_phi)), W_phi, W_g, W_z)


@stranger(makes=[scales_the_scores, cuts_off_below_zero])
def block_scaled_and_cut_off(x, W_theta, W_phi, W_g, W_z):
    return non_local_block(x, W_theta / math.sqrt(len(W_phi)), W_phi, W_g, W_z).relu()


def _drawn(draw: Draw, n_axes: int, B: int = 1) -> Call:
    """A line, an image or a video, by how many axes its positions have."""
    C, d_k, d, *places = draw.sizes(6)
    W_theta, W_phi, W_g = (draw.normal(n, C, scale=C**-0.5) for n in (d_k, d_k, d))
    return draw.normal(B, C, *sorted(places)[:n_axes]), W_theta, W_phi, W_g, draw.normal(C, d, scale=d**-0.5)


def _silent(draw: Draw) -> Call:
    """What the positions saw is brought back by zeros."""
    *others, W_z = _drawn(draw, 2, B=2)
    return *others, 0 * W_z


exercise = Exercise(
    id="09.4",
    title="A non-local block for images, videos and sequences",
    reference=non_local_block,
    properties=(
        runs_on(lambda draw: [_drawn(draw, 2)]),
        has_shape("The result has the shape of the input.", lambda draw: [_drawn(draw, 2, B=2)]),
        Property("residual", "With W_z = 0 the block is the identity.", lambda draw: [_silent(draw)], points=0),
        Property(
            "image",
            "Every pixel of an image attends to every other, and W_z y is added to it.",
            lambda draw: [_drawn(draw, 2), _drawn(draw, 2)],
            points=3,
        ),
        Property("batch", "Each image is computed independently.", lambda draw: [_drawn(draw, 2, B=3)], needs=("image",)),
        Property(
            "video",
            "Every pixel of a video attends to all pixels of all frames.",
            lambda draw: [_drawn(draw, 3), _drawn(draw, 3, B=2)],
            points=2,
            needs=("image",),
        ),
        Property("sequence", "A sequence has one axis of positions.", lambda draw: [_drawn(draw, 1, B=2)]),
        has_gradient(lambda draw: [_drawn(draw, 2, B=2), _drawn(draw, 3)], needs=("video",)),
        leaves_inputs(lambda draw: [_drawn(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "Only the shape is read, and a detached tensor has the same.": ("detach: x.detach().shape",),
    },
    hints=HINTS,
)
