"""Exercise 13.3, mixer_block: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.blocks import channel_mixing, mixer_block, token_mixing
from course_lib.primitives import layer_norm
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
        "Set all weights of both networks to 0. What should come out of the block? And what is the input of the second "
        "half: the result of the first half, or x?"
    ),
    (
        "Twice the same pattern: normalise over the features, mix, and add the result to the input of the norm. The input "
        "of the second half is the sum of the first."
    ),
    (
        "Two halves of the same form: normalise, mix, add what came in. The second half normalises the *sum* of the "
        "first, with the second pair of norms."
    ),
)


def _token_half(x, tokens, norm):
    return x + token_mixing(layer_norm(x, *norm), *tokens)


def _channel_half(x, channels, norm):
    return x + channel_mixing(layer_norm(x, *norm), *channels)


@wrong.part
def normalises_the_sums(x, tokens, channels, norms):
    """You normalise after each sum, as the original Transformer does. The Mixer is pre-norm: each network has a normalised
    input, and the residual path is never normalised."""
    h = layer_norm(x + token_mixing(x, *tokens), *norms[0])
    return layer_norm(h + channel_mixing(h, *channels), *norms[1])


@wrong.part
def adds_once_around_both(x, tokens, channels, norms):
    """You add the input once, after both networks. Each half adds its own input: the tokens are mixed and added, and then the
    channels of that sum."""
    mixed = token_mixing(layer_norm(x, *norms[0]), *tokens)
    return x + channel_mixing(layer_norm(mixed, *norms[1]), *channels)


@wrong.idea
def does_not_normalise(x, tokens, channels, norms):
    """You leave out the norms. Each network has a normalised input."""
    h = x + token_mixing(x, *tokens)
    return h + channel_mixing(h, *channels)


@wrong.detail
def uses_one_norm_twice(x, tokens, channels, norms):
    """You use the first norm in both halves. Each half has its own gain and bias."""
    return _channel_half(_token_half(x, tokens, norms[0]), channels, norms[0])


@wrong.detail
def exchanges_the_norms(x, tokens, channels, norms):
    """You use the first norm for the channels and the second for the tokens. They are in the order of their use, and the
    tokens are mixed first."""
    return _channel_half(_token_half(x, tokens, norms[1]), channels, norms[0])


@wrong.part
def adds_to_the_normalised_input(x, tokens, channels, norms):
    """You add each result to the normalised input instead of the input. The residual path must be the identity."""
    n = layer_norm(x, *norms[0])
    m = layer_norm(n + token_mixing(n, *tokens), *norms[1])
    return m + channel_mixing(m, *channels)


@wrong.part
def forgets_the_first_sum(x, tokens, channels, norms):
    """You do not add x to the result of token mixing: the first residual connection is missing."""
    return _channel_half(token_mixing(layer_norm(x, *norms[0]), *tokens), channels, norms[1])


@wrong.part
def forgets_the_second_sum(x, tokens, channels, norms):
    """You return the channel mixing alone: the second residual connection is missing."""
    return channel_mixing(layer_norm(_token_half(x, tokens, norms[0]), *norms[1]), *channels)


@wrong.idea
def works_side_by_side(x, tokens, channels, norms):
    """You apply both networks to x and add both results. The input of the channel mixing is the result of the token mixing."""
    return _token_half(x, tokens, norms[0]) + channel_mixing(layer_norm(x, *norms[1]), *channels)


@wrong.part
def adds_the_input_again(x, tokens, channels, norms):
    """You add x, not the result of the first half, to the channel mixing. The result of the token mixing then reaches the
    output only through the second network."""
    return x + channel_mixing(layer_norm(_token_half(x, tokens, norms[0]), *norms[1]), *channels)


@wrong.idea
def mixes_the_channels_first(x, tokens, channels, norms):
    """You mix the channels first and the tokens afterwards. Here the tokens come first."""
    return _token_half(_channel_half(x, channels, norms[1]), tokens, norms[0])


@wrong.part
def normalises_over_the_places(x, tokens, channels, norms):
    """In the first half you normalise over the positions. Both norms are over the features of one position."""
    over_places = F.layer_norm(x.mT, x.shape[1:2]).mT * norms[0][0] + norms[0][1]
    h = x + token_mixing(over_places, *tokens)
    return h + channel_mixing(layer_norm(h, *norms[1]), *channels)


@wrong.detail
def normalises_at_the_end(x, tokens, channels, norms):
    """You normalise the result once more. A final norm belongs to the whole stack, not to a block."""
    return layer_norm(_channel_half(_token_half(x, tokens, norms[0]), channels, norms[1]), *norms[1])


@wrong.detail
def adds_the_channels_to_the_normalised_input(x, tokens, channels, norms):
    """Your second sum begins from the normalised input of the channel mixing. It begins from the result of the first sum, as
    it is."""
    u = layer_norm(_token_half(x, tokens, norms[0]), *norms[1])
    return u + channel_mixing(u, *channels)


@right
def one_half_for_both(x, tokens, channels, norms):
    """The same half twice, in a loop: norm, two linear layers, sum; for the positions turned round before and after."""
    for turn, (W_in, b_in, W_out, b_out), norm in ((True, tokens, norms[0]), (False, channels, norms[1])):
        normed = layer_norm(x, *norm)
        seen = normed.transpose(1, 2) if turn else normed
        change = F.linear(F.gelu(F.linear(seen, W_in, b_in)), W_out, b_out)
        x = torch.add(x, change.transpose(1, 2) if turn else change)
    return x


@right
def in_einsum(x, tokens, channels, norms):
    """All products by the names of their axes, with torch's own norm."""
    (W_1, b_1, W_2, b_2), (W_3, b_3, W_4, b_4) = tokens, channels
    n = F.layer_norm(x, (x.shape[-1],), *norms[0])
    hidden = F.gelu(torch.einsum("sn,bnd->bsd", W_1, n) + b_1[:, None])
    x = x + torch.einsum("ns,bsd->bnd", W_2, hidden) + b_2[:, None]
    n = F.layer_norm(x, (x.shape[-1],), *norms[1])
    return x + torch.einsum("dc,bnc->bnd", W_4, F.gelu(torch.einsum("cd,bnd->bnc", W_3, n) + b_3)) + b_4


@right
def image_by_image(x, tokens, channels, norms):
    """A loop over the images, the means and variances of the features written out, in float64."""

    def normed(image, gain, bias):
        centred = image - image.mean(1, keepdim=True)
        return centred * (centred.pow(2).mean(1, keepdim=True) + 1e-5).rsqrt() * gain + bias

    (W_1, b_1, W_2, b_2), (W_3, b_3, W_4, b_4) = ([w.double() for w in four] for four in (tokens, channels))
    images = []
    for image in x.double():
        over_places = W_2 @ F.gelu(W_1 @ normed(image, *norms[0]) + b_1[:, None]) + b_2[:, None]
        image = image + over_places
        images.append(image + F.gelu(normed(image, *norms[1]) @ W_3.T + b_3) @ W_4.T + b_4)
    return torch.stack(images).to(x.dtype)


@stranger
def block_of_the_places_alone(x, tokens, channels, norms):
    return x + token_mixing(layer_norm(x, *norms[0]), *tokens)


@stranger
def block_twice_as_loud(x, tokens, channels, norms):
    return 2 * mixer_block(x, tokens, channels, norms) - x


@stranger
def block_by_the_root_mean_square(x, tokens, channels, norms):
    def normed(x, gain, bias):
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain + bias

    x = x + token_mixing(normed(x, *norms[0]), *tokens)
    return x + channel_mixing(normed(x, *norms[1]), *channels)


@stranger
def block_run_twice(x, tokens, channels, norms):
    return mixer_block(mixer_block(x, tokens, channels, norms), tokens, channels, norms)


@stranger(makes=[normalises_the_sums])
def block_post_norm_by_hand(x, tokens, channels, norms):
    d = x.shape[2:]
    h = F.layer_norm(x + token_mixing(x, *tokens), d, *norms[0])
    return F.layer_norm(h + channel_mixing(h, *channels), d, *norms[1])


@stranger(makes=[uses_one_norm_twice, forgets_the_first_sum])
def block_twice_wrong(x, tokens, channels, norms):
    h = token_mixing(layer_norm(x, *norms[0]), *tokens)
    return h + channel_mixing(layer_norm(h, *norms[0]), *channels)


def _four(draw: Draw, n: int, hidden: int, speaks: float) -> tuple[torch.Tensor, ...]:
    W_in, W_out = draw.normal(hidden, n, scale=n**-0.5), draw.normal(n, hidden, scale=hidden**-0.5)
    return W_in, draw.normal(hidden), speaks * W_out, speaks * draw.normal(n)


def _block(draw: Draw, B: int, N: int, d: int, tokens: float = 1.0, channels: float = 1.0) -> Call:
    """A block of random weights; `tokens` and `channels` say how large its two halves are, 0 = silent."""
    norms = tuple((1 + draw.normal(d, scale=0.5), draw.normal(d)) for _ in range(2))
    return 1 + 2 * draw.normal(B, N, d), _four(draw, N, 11, tokens), _four(draw, d, 13, channels), norms


def _whole(draw: Draw) -> list[Call]:
    N, d = draw.sizes(2)
    return [_block(draw, 2, N + 1, d + 1), _block(draw, 1, d, d)]


exercise = Exercise(
    id="13.3",
    title="The block of the Mixer",
    reference=mixer_block,
    properties=(
        runs_on(_whole),
        has_shape("A vector for each position.", _whole),
        Property(
            "residual",
            "Where both networks return 0, the output equals the input.",
            lambda draw: [_block(draw, 2, 5, 3, tokens=0.0, channels=0.0)],
            points=0,
        ),
        Property(
            "tokens",
            "The tokens alone: mixed after the first norm, and added to the input.",
            lambda draw: [_block(draw, 2, 5, 3, channels=0.0), _block(draw, 2, 3, 3, channels=0.0)],
            points=2,
            needs=("residual",),
        ),
        Property(
            "channels",
            "The channels alone: mixed after the second norm, and added to the input.",
            lambda draw: [_block(draw, 2, 5, 3, tokens=0.0), _block(draw, 2, 3, 3, tokens=0.0)],
            points=2,
            needs=("residual",),
        ),
        Property(
            "order",
            "The tokens first; the second half acts on the result of the first, and adds to it.",
            _whole,
            points=2,
            needs=("tokens", "channels"),
        ),
        has_gradient(_whole, needs=("order",)),
        leaves_inputs(_whole),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "x is the sum of the first half by then, a tensor of the answer's own.": (
            "in place: return x.add_(channel_mixing(layer_norm(x, *norms[1]), *channels))",
        ),
    },
    hints=HINTS,
)
