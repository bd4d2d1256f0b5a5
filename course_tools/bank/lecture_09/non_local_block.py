"""Exercise 09.4, non_local_block: what students answer, wrong and right."""

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

wrong, right = Answers(), Answers()

HINTS = (
    (
        "A film has T · H · W places. How many tokens must the attention see so that a pixel of the last picture can look at "
        "one of the first? And what should come out if W_z is 0?"
    ),
    (
        "Join all axes behind the features into one, and bring the features to the end, where the attention expects them: "
        "(B, N, C). Afterwards apply W_z, exchange the axes back, part the places again, and add x."
    ),
    (
        "`x.flatten(2).mT` makes the tokens, `non_local_embedded_gaussian(…).context @ W_z.mT` what they saw; `.mT` and "
        "`.unflatten(2, x.shape[2:])` give it the shape of x."
    ),
)


def _tokens(x):
    return x.flatten(2).mT


def _map(tokens, x):
    return tokens.mT.unflatten(2, x.shape[2:])


def _seen(tokens, W_theta, W_phi, W_g, W_z):
    return non_local_embedded_gaussian(tokens, W_theta, W_phi, W_g).context @ W_z.mT


@wrong
def keeps_the_times_apart(x, W_theta, W_phi, W_g, W_z):
    """You attend within each picture of a film by itself. A pixel cannot see what was before or comes after; all places of all
    times belong into one softmax. A single picture hides this."""
    is_film = x.dim() == 5
    pixels = x.flatten(3) if is_film else x.flatten(2)
    tokens = pixels.movedim(1, -1)
    context, _ = non_local_embedded_gaussian(tokens, W_theta, W_phi, W_g)
    return x + (context @ W_z.mT).movedim(-1, 1).reshape(x.shape)


@wrong
def looks_along_time_only(x, *weights):
    """You let each pixel of a film look at the same pixel at other times. Whatever moves has left that pixel: attention in
    space-time goes over all pixels of all times. A single picture hides this."""
    if x.dim() < 5:
        return x + _map(_seen(_tokens(x), *weights), x)
    lines = rearrange(x, "B C T H W -> B H W T C")
    return x + rearrange(_seen(lines, *weights), "B H W T C -> B C T H W")


@wrong
def reads_pictures_alone(x, *weights):
    """You unpack the axes behind the features into H and W. That is a picture; a film has three such axes and a line one, and
    the same block should serve all of them."""
    B, C, H, W = x.shape
    tokens = x.reshape(B, C, H * W).transpose(1, 2)
    return x + _seen(tokens, *weights).transpose(1, 2).reshape(B, C, H, W)


@wrong
def reshapes_into_tokens(x, *weights):
    """You reshape (B, C, places) to (B, places, C). Nothing moves in memory by this, so that your tokens are runs of pixels of
    one channel, and not the channels of one pixel; exchange the axes."""
    tokens = x.reshape(x.shape[0], -1, x.shape[1])
    return x + _map(_seen(tokens, *weights), x)


@wrong
def reshapes_into_maps(x, *weights):
    """You reshape the tokens (B, N, C) to the shape of x. The features stand last there and must stand first here: exchange the
    axes before you part the places."""
    return x + _seen(_tokens(x), *weights).reshape(x.shape)


@wrong
def exchanges_height_and_width(x, *weights):
    """You part the places again as if they had been counted column by column. What the places saw is added at others; a square
    picture does not even complain."""
    if x.dim() < 4:
        return x + _map(_seen(_tokens(x), *weights), x)
    *before, H, W = x.shape[2:]
    return x + _seen(_tokens(x), *weights).mT.unflatten(2, (*before, W, H)).mT


@wrong
def forgets_the_input(x, *weights):
    """You return what the places saw and do not add x. The block could then not be put into a trained network: with W_z = 0 it
    should change nothing, and yours gives 0."""
    return _map(_seen(_tokens(x), *weights), x)


@wrong
def lets_the_pictures_meet(x, *weights):
    """You put the places of the whole batch into one row of tokens. Then every picture sees the others, and its result depends
    on its neighbours in the batch."""
    tokens = _tokens(x)
    return x + _map(_seen(tokens.reshape(1, -1, x.shape[1]), *weights).reshape(tokens.shape), x)


@wrong
def scales_the_scores(x, W_theta, W_phi, W_g, W_z):
    """You divide the scores by √d_k. This paper does not: its weights are those of the plain product."""
    theta, phi, g = (_tokens(x) @ W.mT for W in (W_theta, W_phi, W_g))
    return x + _map(attend(theta @ phi.mT / len(W_theta) ** 0.5, g).context @ W_z.mT, x)


@wrong
def normalises_over_those_who_ask(x, W_theta, W_phi, W_g, W_z):
    """You normalise over i, the places that ask. Each place shares out a weight of 1 among those that it looks at: the softmax
    runs along the last axis, over j."""
    theta, phi, g = (_tokens(x) @ W.mT for W in (W_theta, W_phi, W_g))
    return x + _map((theta @ phi.mT).softmax(-2) @ g @ W_z.mT, x)


@wrong
def takes_no_softmax(x, W_theta, W_phi, W_g, W_z):
    """You divide the products by N and take no softmax. That is the dot-product form; this block is the embedded Gaussian's."""
    theta, phi, g = (_tokens(x) @ W.mT for W in (W_theta, W_phi, W_g))
    return x + _map(theta @ phi.mT / theta.shape[1] @ g @ W_z.mT, x)


@wrong
def cuts_off_below_zero(x, *weights):
    """You end with ReLU, as other blocks of such networks do. What comes along the residual path must pass unchanged, negative
    features too."""
    return F.relu(x + _map(_seen(_tokens(x), *weights), x))


@wrong
def hands_all_the_same(x, W_theta, W_phi, W_g, W_z):
    """You give each place the mean of all. Without weights that depend on the place that asks, θ and φ are of no use, and
    nothing can be looked for."""
    g = _tokens(x) @ W_g.mT
    return x + _map(g.mean(1, keepdim=True).expand_as(g) @ W_z.mT, x)


@wrong
def overwrites_the_input(x, *weights):
    """You add to x in place. Whoever called finds the input changed, and autograd refuses where x needs a gradient; make a new
    tensor by `x + …`."""
    return x.add_(_map(_seen(_tokens(x), *weights), x))


@wrong
def exchanges_theta_and_phi(x, W_theta, W_phi, W_g, W_z):
    """You make the queries by W_φ and the keys by W_θ: each pair of positions is scored the other way round."""
    return non_local_block(x, W_phi, W_theta, W_g, W_z)


@wrong
def forgets_the_output_projection(x, W_theta, W_phi, W_g, W_z):
    """You add the context without W_z. It has d features and the input C: W_z maps the context back to C features before
    the sum."""
    tokens = x.flatten(2).mT
    y = non_local_embedded_gaussian(tokens, W_theta, W_phi, W_g).context
    return x + y.mT.unflatten(2, x.shape[2:])


@right
def features_first(x, W_theta, W_phi, W_g, W_z):
    """The features stay in front throughout: all products by einsum, softmax over the last letter."""
    places = x.flatten(2)
    theta, phi, g = (torch.einsum("dc,bcn->bdn", W, places) for W in (W_theta, W_phi, W_g))
    weights = torch.einsum("bdi,bdj->bij", theta, phi).softmax(-1)
    return (places + torch.einsum("cd,bij,bdj->bci", W_z, weights, g)).reshape(x.shape)


@right
def with_convolutions(x, W_theta, W_phi, W_g, W_z):
    """Four convolutions of width 1 along the line of all places, as in the authors' code; torch's attention between."""
    line = x.reshape(*x.shape[:2], -1)
    theta, phi, g = (F.conv1d(line, W.unsqueeze(-1)).transpose(1, 2) for W in (W_theta, W_phi, W_g))
    y = F.scaled_dot_product_attention(theta, phi, g, scale=1.0)
    return F.conv1d(y.transpose(1, 2), W_z.unsqueeze(-1)).view_as(x) + x


@right
def brings_back_first(x, W_theta, W_phi, W_g, W_z):
    """W_z W_g as one matrix for the values, since mixing the places and mixing the features commute."""
    tokens = x.movedim(1, -1).flatten(1, -2)
    y = non_local_embedded_gaussian(tokens, W_theta, W_phi, W_z @ W_g).context
    return x + y.unflatten(1, x.shape[2:]).movedim(-1, 1)


@right
def picture_by_picture(x, W_theta, W_phi, W_g, W_z):
    """A loop over the batch, with matrices of one column for each place."""
    out = []
    for picture in x.flatten(2):
        weights = ((W_theta @ picture).T @ (W_phi @ picture)).softmax(1)
        out.append(picture + W_z @ (W_g @ picture) @ weights.T)
    return torch.stack(out).reshape(x.shape)


def _drawn(draw: Draw, n_axes: int, B: int = 1) -> Call:
    """A line, a picture or a film, by how many axes its places have."""
    C, d_k, d, *places = draw.sizes(6)
    W_theta, W_phi, W_g = (draw.normal(n, C, scale=C**-0.5) for n in (d_k, d_k, d))
    return draw.normal(B, C, *sorted(places)[:n_axes]), W_theta, W_phi, W_g, draw.normal(C, d, scale=d**-0.5)


def _silent(draw: Draw) -> Call:
    """What the places saw is brought back by zeros."""
    *others, W_z = _drawn(draw, 2, B=2)
    return *others, 0 * W_z


exercise = Exercise(
    id="09.4",
    title="A block for pictures, films and lines",
    reference=non_local_block,
    properties=(
        runs_on(lambda draw: [_drawn(draw, 2)]),
        has_shape("What comes out has the shape of what goes in.", lambda draw: [_drawn(draw, 2, B=2)]),
        Property("silent", "With W_z = 0 the block changes nothing.", lambda draw: [_silent(draw)]),
        Property(
            "picture",
            "Every pixel of a picture sees every other, and W_z y is added to it.",
            lambda draw: [_drawn(draw, 2), _drawn(draw, 2)],
            points=3,
        ),
        Property("batch", "Each picture is its own.", lambda draw: [_drawn(draw, 2, B=3)], needs=("picture",)),
        Property(
            "film",
            "Every pixel of a film sees all pixels of all times.",
            lambda draw: [_drawn(draw, 3), _drawn(draw, 3, B=2)],
            points=2,
            needs=("picture",),
        ),
        Property("line", "A line has places too.", lambda draw: [_drawn(draw, 1, B=2)]),
        has_gradient(lambda draw: [_drawn(draw, 2, B=2), _drawn(draw, 3)], needs=("film",)),
        leaves_inputs(lambda draw: [_drawn(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
)
