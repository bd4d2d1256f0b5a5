"""Exercise 13.4, no_token_mixing: a control for the Mixer; what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.blocks import channel_mixing, mixer_block, token_mixing
from course_lib.blocks.block import FeedForwardWeights, NormWeights
from course_lib.blocks.mlp_mixer import PatchFeatures
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


def no_token_mixing(
    x: PatchFeatures, tokens: FeedForwardWeights, channels: FeedForwardWeights, norms: tuple[NormWeights, NormWeights]
) -> PatchFeatures:
    """Apply a Mixer block without token mixing: a control, which differs from `mixer_block` in this alone.

    Args:
        x: (B, N, d).
        tokens: (W_1, b_1, W_2, b_2) of token mixing, which the control leaves unused.
        channels: (W_3, b_3, W_4, b_4) of channel mixing.
        norms: (gain, bias) of the norm before token mixing, and of the one before channel mixing.

    Returns:
        (B, N, d); no position depends on another.

    Source: Tolstikhin et al. 2021, eq. 1, second line, with U = X.
    """
    return x + channel_mixing(layer_norm(x, *norms[1]), *channels)


HINTS = (
    (
        "Look at both lines of your block: U = X + …, and Y = U + …. In which of them does a patch learn of other patches? "
        "If that line adds nothing, what is U?"
    ),
    "U is X, as it is: neither normalised nor 0. The second line stays, with everything in it.",
    "Y = X + Channels(LN(X)), one line. Which of the two norms belongs to the channels?",
)


@wrong.idea
def leaves_out_the_channels(x, tokens, channels, norms):
    """You leave out channel mixing. The control leaves out *token* mixing: no patch may learn of another one."""
    return x + token_mixing(layer_norm(x, *norms[0]), *tokens)


@wrong.idea
def leaves_out_both(x, tokens, channels, norms):
    """You leave out both networks. A control differs in one ingredient: channel mixing stays."""
    return x.clone()


@wrong.idea
def is_the_whole_block(x, tokens, channels, norms):
    """That is the whole block: the patches still exchange what they know."""
    return mixer_block(x, tokens, channels, norms)


@wrong.part
def adds_nothing(x, tokens, channels, norms):
    """You return the channel mixing alone. The residual connection is another ingredient, and it stays: without it, a failure
    may have two causes."""
    return channel_mixing(layer_norm(x, *norms[1]), *channels)


@wrong.part
def keeps_the_first_norm(x, tokens, channels, norms):
    """You add the normalised x in place of its token mixing. Then the first line adds something else: leave out all that it
    adds."""
    x = x + layer_norm(x, *norms[0])
    return x + channel_mixing(layer_norm(x, *norms[1]), *channels)


@wrong.part
def replaces_x_by_its_norm(x, tokens, channels, norms):
    """You normalise x where the token mixing was, and go on with the result. The residual path is the identity; the first norm
    serves the token mixing alone and goes with it."""
    x = layer_norm(x, *norms[0])
    return x + channel_mixing(layer_norm(x, *norms[1]), *channels)


@wrong.part
def does_not_normalise(x, tokens, channels, norms):
    """You leave out the norm before channel mixing as well. It is another ingredient, and it stays."""
    return x + channel_mixing(x, *channels)


@wrong.part
def adds_a_mean(x, tokens, channels, norms):
    """You take the mean over the patches in place of token mixing. Then the patches still exchange something, in another way:
    whether an exchange is needed at all, this does not tell."""
    x = x + layer_norm(x, *norms[0]).mean(1, keepdim=True)
    return x + channel_mixing(layer_norm(x, *norms[1]), *channels)


@wrong.detail
def uses_the_first_norm(x, tokens, channels, norms):
    """You use the first norm before the channels. That norm belongs to token mixing and goes with it."""
    return x + channel_mixing(layer_norm(x, *norms[0]), *channels)


@wrong.detail
def keeps_the_outer_bias(x, tokens, channels, norms):
    """You call token mixing with zeros in place of its input or of its first matrix. It still adds what its biases make of
    them: the control adds nothing there."""
    x = x + token_mixing(torch.zeros_like(x), *tokens)
    return x + channel_mixing(layer_norm(x, *norms[1]), *channels)


@right
def written_out(x, tokens, channels, norms):
    """The norm and the two linear layers written out, in float64."""
    (gain, bias), (W_3, b_3, W_4, b_4) = norms[1], channels
    u = x.double()
    centred = u - u.mean(-1, keepdim=True)
    n = centred * (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * gain + bias
    return (u + F.gelu(n @ W_3.double().mT + b_3) @ W_4.double().mT + b_4).to(x.dtype)


@right
def a_block_whose_token_mixing_adds_nothing(x, tokens, channels, norms):
    """The whole block, with weights of 0 in its token mixing: the last matrix and the last bias suffice."""
    W_1, b_1, W_2, b_2 = tokens
    return mixer_block(x, (W_1, b_1, 0 * W_2, 0 * b_2), channels, norms)


@right
def place_by_place(x, tokens, channels, norms):
    """A loop over the positions, each by itself."""
    places = [F.layer_norm(place, place.shape[-1:], *norms[1]) for place in x.unbind(1)]
    return x + torch.stack([channel_mixing(place[:, None], *channels)[:, 0] for place in places], 1)


@stranger
def control_with_the_channels_twice(x, tokens, channels, norms):
    x = x + channel_mixing(layer_norm(x, *norms[1]), *channels)
    return x + channel_mixing(layer_norm(x, *norms[1]), *channels)


@stranger
def control_of_the_last_patch(x, tokens, channels, norms):
    return x + channel_mixing(layer_norm(x, *norms[1]), *channels)[:, -1:]


@stranger
def control_with_a_normalised_residual(x, tokens, channels, norms):
    x = layer_norm(x, *norms[1])
    return x + channel_mixing(x, *channels)


@stranger(makes=[adds_nothing, does_not_normalise])
def control_of_the_network_alone(x, tokens, channels, norms):
    W_3, b_3, W_4, b_4 = channels
    return F.linear(F.gelu(F.linear(x, W_3, b_3)), W_4, b_4)


def _four(draw: Draw, n: int, hidden: int, speaks: float) -> tuple[torch.Tensor, ...]:
    W_in, W_out = draw.normal(hidden, n, scale=n**-0.5), draw.normal(n, hidden, scale=hidden**-0.5)
    return W_in, draw.normal(hidden), speaks * W_out, speaks * draw.normal(n)


def _block(draw: Draw, B: int, N: int, d: int, channels: float = 1.0) -> Call:
    """A block of random weights; `channels` says how large its second half is, 0 = silent."""
    norms = tuple((1 + draw.normal(d, scale=0.5), draw.normal(d)) for _ in range(2))
    return 1 + 2 * draw.normal(B, N, d), _four(draw, N, 11, 1.0), _four(draw, d, 13, channels), norms


def _whole(draw: Draw) -> list[Call]:
    N, d = draw.sizes(2)
    return [_block(draw, 2, N + 1, d + 1), _block(draw, 1, d, d)]


exercise = Exercise(
    id="13.4",
    title="A control: the block without token mixing",
    reference=no_token_mixing,
    properties=(
        runs_on(_whole),
        has_shape("A vector for each position.", _whole),
        Property(
            "silent",
            "Where channel mixing returns 0, the output equals the input: nothing else is added.",
            lambda draw: [_block(draw, 2, 5, 3, channels=0.0), _block(draw, 1, 7, 4, channels=0.0)],
            points=2,
        ),
        Property("channels", "Channel mixing is that of the block, on the normalised input.", _whole, points=3),
        has_gradient(_whole, needs=("channels",)),
        leaves_inputs(_whole),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
