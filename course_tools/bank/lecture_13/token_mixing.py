"""Exercise 13.1, token_mixing: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.blocks import token_mixing
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
        "Take one channel by itself: a column of N numbers, one from each place. The network reads this column and writes "
        "another of the same length. Which axis of x do W_1 and W_2 meet, and which axis only repeats?"
    ),
    (
        "A linear layer acts on the last axis, and the places are the last but one. `x.mT` exchanges these two; what was "
        "exchanged must be exchanged back at the end."
    ),
    (
        "From `x.mT`, (B, d, N): `@ W_1.mT + b_1`, then `F.gelu`, then `@ W_2.mT + b_2`; the `.mT` of that result is "
        "(B, N, d) again."
    ),
)


def _mix(x, W_1, b_1, W_2, b_2, activation=F.gelu):
    """Mix the places with another activation."""
    return (activation(x.mT @ W_1.mT + b_1) @ W_2.mT + b_2).mT


@wrong
def leaves_it_transposed(x, W_1, b_1, W_2, b_2):
    """You do not turn the result back. Your channels stand where the places were, (B, d, N), and nothing behind this layer
    can be added to x any more."""
    return _mix(x, W_1, b_1, W_2, b_2).mT


@wrong
def reshapes_instead_of_transposing(x, W_1, b_1, W_2, b_2):
    """You use `reshape` to exchange places and channels. That keeps the numbers in their old order and only draws the rows
    elsewhere: your columns hold bits of several channels. An exchange of two axes is `.mT`."""
    B, N, d = x.shape
    return (F.gelu(x.reshape(B, d, N) @ W_1.mT + b_1) @ W_2.mT + b_2).reshape(B, N, d)


@wrong
def mixes_the_channels(x, W_1, b_1, W_2, b_2):
    """You apply the network to the last axis, the channels of each place. No place then hears of another, which is what this
    layer is for; it runs only where there are as many channels as places."""
    return F.gelu(x @ W_1.mT + b_1) @ W_2.mT + b_2


@wrong
def forgets_the_inner_bias(x, W_1, b_1, W_2, b_2):
    """You leave out b_1. Each hidden unit then begins to bend at 0, wherever that lies, and cannot move its threshold."""
    return _mix(x, W_1, torch.zeros_like(b_1), W_2, b_2)


@wrong
def forgets_the_outer_bias(x, W_1, b_1, W_2, b_2):
    """You leave out b_2. It holds a number for each place, and is added behind the second layer."""
    return _mix(x, W_1, b_1, W_2, torch.zeros_like(b_2))


@wrong
def forgets_the_activation(x, W_1, b_1, W_2, b_2):
    """You apply the two layers with nothing between them. Two linear layers are one: W_2 W_1 could be a single N × N matrix,
    and the hidden units buy nothing."""
    return _mix(x, W_1, b_1, W_2, b_2, lambda hidden: hidden)


@wrong
def uses_relu(x, W_1, b_1, W_2, b_2):
    """You cut the hidden units off at 0, with ReLU. The Mixer uses GELU, which lets a little through below 0 and bends
    smoothly."""
    return _mix(x, W_1, b_1, W_2, b_2, F.relu)


@wrong
def approximates_gelu(x, W_1, b_1, W_2, b_2):
    """You take GELU's approximation by tanh. It is close, and the authors' code in JAX has it too; here the equation stands as
    it is written, with the distribution function of the normal distribution: `F.gelu` without `approximate`."""
    return _mix(x, W_1, b_1, W_2, b_2, lambda hidden: F.gelu(hidden, approximate="tanh"))


@wrong
def bends_the_output_too(x, W_1, b_1, W_2, b_2):
    """You apply GELU behind the second layer too. The output is then hardly ever below 0, and the block could add to x but
    never take away from it."""
    return F.gelu(_mix(x, W_1, b_1, W_2, b_2))


@wrong
def adds_the_input(x, W_1, b_1, W_2, b_2):
    """You add x to the result. The residual path belongs to the block around this layer, which would add it once more."""
    return x + _mix(x, W_1, b_1, W_2, b_2)


@wrong
def normalises_first(x, W_1, b_1, W_2, b_2):
    """You normalise x before you mix. The norm belongs to the block around this layer and has a gain and a bias of its own
    there; here x is mixed as it comes."""
    return _mix(F.layer_norm(x, x.shape[-1:]), W_1, b_1, W_2, b_2)


@wrong
def mixes_by_the_first_layer_alone(x, W_1, b_1, W_2, b_2):
    """You go back through the transposed W_1 and never use W_2. What reads the places and what writes them are two sets of
    weights, learned apart."""
    return _mix(x, W_1, b_1, W_1.mT, b_2)


@right
def in_einsum(x, W_1, b_1, W_2, b_2):
    """Two products named by their axes, the biases down the columns, and nothing transposed."""
    hidden = F.gelu(torch.einsum("sn,bnd->bsd", W_1, x) + b_1[:, None])
    return torch.einsum("ns,bsd->bnd", W_2, hidden) + b_2[:, None]


@right
def channel_by_channel(x, W_1, b_1, W_2, b_2):
    """A loop over the channels, each a batch of columns through two linear layers."""
    columns = [F.linear(F.gelu(F.linear(column, W_1, b_1)), W_2, b_2) for column in x.unbind(-1)]
    return torch.stack(columns, dim=-1)


@right
def as_convolutions(x, W_1, b_1, W_2, b_2):
    """The places as channels of a convolution of width 1, which runs along the features."""
    return F.conv1d(F.gelu(F.conv1d(x, W_1[..., None], b_1)), W_2[..., None], b_2)


@right
def by_the_error_function(x, W_1, b_1, W_2, b_2):
    """All columns in one tall matrix, in float64, with GELU written out."""
    B, N, d = x.shape
    columns = x.double().permute(0, 2, 1).reshape(B * d, N)
    hidden = torch.addmm(b_1.double(), columns, W_1.double().t())
    hidden = hidden * (1 + torch.erf(hidden / 2**0.5)) / 2
    return torch.addmm(b_2.double(), hidden, W_2.double().t()).reshape(B, d, N).permute(0, 2, 1).to(x.dtype)


def _network(draw: Draw, B: int, N: int, d: int, d_s: int, biases: float = 1.0) -> Call:
    W_1, W_2 = draw.normal(d_s, N, scale=N**-0.5), draw.normal(N, d_s)
    return draw.normal(B, N, d), W_1, biases * draw.normal(d_s), W_2, biases * draw.normal(N)


def _images(draw: Draw) -> list[Call]:
    N, d, d_s = draw.sizes(3)
    return [_network(draw, 2, N, d, d_s), _network(draw, 1, d, N, d_s)]


def _one_place(draw: Draw) -> list[Call]:
    """One place and one hidden unit: every channel shows what the activation does to a number from -3 to 3."""
    numbers = torch.linspace(-3, 3, 13).view(1, 1, -1)
    return [(numbers, torch.ones(1, 1), torch.zeros(1), torch.ones(1, 1), torch.zeros(1))]


exercise = Exercise(
    id="13.1",
    title="Mix the places",
    reference=token_mixing,
    properties=(
        runs_on(_images),
        has_shape("A number for each place and channel, in their old order.", _images),
        Property("activation", "Between the two layers stands GELU, exactly.", _one_place, points=2),
        Property(
            "places",
            "Both layers act on the column of a channel, whatever stands in the others.",
            lambda draw: [_network(draw, 2, 5, 3, 7, biases=0.0), _network(draw, 3, 7, 1, 2, biases=0.0)],
            points=2,
            needs=("activation",),
        ),
        Property(
            "square",
            "The same where there are as many channels as places, and hidden units.",
            lambda draw: [_network(draw, 2, 5, 5, 3, biases=0.0), _network(draw, 2, 3, 3, 3, biases=0.0)],
            needs=("activation",),
        ),
        Property("biases", "b_1 goes with the hidden units, b_2 with the places.", _images, points=2, needs=("places",)),
        has_gradient(_images, needs=("biases",)),
        leaves_inputs(_images),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
)
