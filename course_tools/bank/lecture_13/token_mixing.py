"""Exercise 13.1, token_mixing: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.blocks import token_mixing
from course_lib.fast import lean_token_mixing
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
        "Take one channel: a column of N numbers, one from each position. The network maps this column to another of the "
        "same length. On which axis of x do W_1 and W_2 act, and which is a batch axis?"
    ),
    (
        "A linear layer acts on the last axis, and the positions are the last but one. `x.mT` exchanges these two; "
        "exchange them back at the end."
    ),
    (
        "The layer acts along the positions: swap the last two axes, apply the hidden layer with its GELU and the output "
        "layer, each with its bias, and swap back."
    ),
)


def _mix(x, W_1, b_1, W_2, b_2, activation=F.gelu):
    """Mix the positions with another activation."""
    return (activation(x.mT @ W_1.mT + b_1) @ W_2.mT + b_2).mT


@wrong.detail
def leaves_it_transposed(x, W_1, b_1, W_2, b_2):
    """You do not transpose the result back. It is (B, d, N) instead of (B, N, d)."""
    return _mix(x, W_1, b_1, W_2, b_2).mT


@wrong.idea
def reshapes_instead_of_transposing(x, W_1, b_1, W_2, b_2):
    """You use `reshape` to exchange positions and channels. A reshape keeps the order of the numbers in memory, so your
    columns mix several channels. Exchange two axes by `.mT`."""
    B, N, d = x.shape
    return (F.gelu(x.reshape(B, d, N) @ W_1.mT + b_1) @ W_2.mT + b_2).reshape(B, N, d)


@wrong.detail
def reshapes_back_at_the_end(x, W_1, b_1, W_2, b_2):
    """You turn the result back by `reshape`. It then has the right shape, but a reshape keeps the order of the numbers in
    memory, so that each number stands in another place. Exchange the two axes by `.mT`, as at the start."""
    return (F.gelu(x.mT @ W_1.mT + b_1) @ W_2.mT + b_2).reshape(x.shape)


@wrong.idea
def mixes_the_channels(x, W_1, b_1, W_2, b_2):
    """You apply the network to the last axis, the channels of each position. That is channel mixing; it runs only where
    there are as many channels as positions."""
    return F.gelu(x @ W_1.mT + b_1) @ W_2.mT + b_2


@wrong.detail
def forgets_the_inner_bias(x, W_1, b_1, W_2, b_2):
    """You leave out b_1. It is added to the hidden units, before the GELU."""
    return _mix(x, W_1, torch.zeros_like(b_1), W_2, b_2)


@wrong.detail
def forgets_the_outer_bias(x, W_1, b_1, W_2, b_2):
    """You leave out b_2. It has an entry for each position, and is added after the second layer."""
    return _mix(x, W_1, b_1, W_2, torch.zeros_like(b_2))


@wrong.idea
def forgets_the_activation(x, W_1, b_1, W_2, b_2):
    """You have no activation between the two layers. Together they are then one matrix, W_2 W_1."""
    return _mix(x, W_1, b_1, W_2, b_2, lambda hidden: hidden)


@wrong.detail
def uses_relu(x, W_1, b_1, W_2, b_2):
    """You use ReLU. The Mixer uses GELU."""
    return _mix(x, W_1, b_1, W_2, b_2, F.relu)


@wrong.case
def approximates_gelu(x, W_1, b_1, W_2, b_2):
    """You take GELU's approximation by tanh. Asked for is the exact one, x Φ(x): `F.gelu` without `approximate`."""
    return _mix(x, W_1, b_1, W_2, b_2, lambda hidden: F.gelu(hidden, approximate="tanh"))


@wrong.detail
def approximates_gelu_by_a_sigmoid(x, W_1, b_1, W_2, b_2):
    """You take x σ(1.702 x), the quick approximation of GELU. Asked for is the exact one, x Φ(x): `F.gelu` computes it."""
    return _mix(x, W_1, b_1, W_2, b_2, lambda hidden: hidden * torch.sigmoid(1.702 * hidden))


@wrong.detail
def bends_the_output_too(x, W_1, b_1, W_2, b_2):
    """You apply GELU after the second layer too. The output has no activation."""
    return F.gelu(_mix(x, W_1, b_1, W_2, b_2))


@wrong.detail
def adds_the_input(x, W_1, b_1, W_2, b_2):
    """You add x to the result. The residual connection belongs to the block around this layer."""
    return x + _mix(x, W_1, b_1, W_2, b_2)


@wrong.part
def normalises_first(x, W_1, b_1, W_2, b_2):
    """You normalise x before you mix. The norm belongs to the block around this layer."""
    return _mix(F.layer_norm(x, x.shape[-1:]), W_1, b_1, W_2, b_2)


@wrong.idea
def mixes_by_the_first_layer_alone(x, W_1, b_1, W_2, b_2):
    """You use the transpose of W_1 for the second layer and never use W_2."""
    return _mix(x, W_1, b_1, W_1.mT, b_2)


@wrong.detail
def adds_the_bias_along_the_channels(x, W_1, b_1, W_2, b_2):
    """W_1 @ x is right: (B, d_s, d), with the hidden units in the middle axis. b_1 is added along the last axis, the channels:
    give it an axis of size 1, b_1[:, None]."""
    return W_2 @ F.gelu(W_1 @ x + b_1) + b_2


@wrong.part
def gives_the_channels_to_the_network(x, W_1, b_1, W_2, b_2):
    """You apply the layers to the last axis, the channels. Here they mix positions: exchange the two axes first, and back at
    the end."""
    return F.linear(F.gelu(F.linear(x, W_1, b_1)), W_2, b_2)


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
    """The positions as channels of a convolution of width 1, which runs along the features."""
    return F.conv1d(F.gelu(F.conv1d(x, W_1[..., None], b_1)), W_2[..., None], b_2)


@right
def by_the_error_function(x, W_1, b_1, W_2, b_2):
    """All columns in one tall matrix, in float64, with GELU written out."""
    B, N, d = x.shape
    columns = x.double().permute(0, 2, 1).reshape(B * d, N)
    hidden = torch.addmm(b_1.double(), columns, W_1.double().t())
    hidden = hidden * (1 + torch.erf(hidden / 2**0.5)) / 2
    return torch.addmm(b_2.double(), hidden, W_2.double().t()).reshape(B, d, N).permute(0, 2, 1).to(x.dtype)


@stranger
def places_by_a_softmax(x, W_1, b_1, W_2, b_2):
    return ((x.mT @ W_1.mT + b_1).softmax(-1) @ W_2.mT + b_2).mT


@stranger
def places_from_the_last_to_the_first(x, W_1, b_1, W_2, b_2):
    return token_mixing(x.flip(1), W_1, b_1, W_2, b_2)


@stranger
def places_of_the_mean_channel(x, W_1, b_1, W_2, b_2):
    return token_mixing(x.mean(2, keepdim=True).expand_as(x), W_1, b_1, W_2, b_2)


@stranger
def places_without_gradient_in_the_weights(x, W_1, b_1, W_2, b_2):
    return token_mixing(x, W_1.detach(), b_1, W_2.detach(), b_2)


@stranger(makes=[forgets_the_outer_bias, uses_relu])
def places_twice_wrong(x, W_1, b_1, W_2, b_2):
    return (F.relu(x.mT @ W_1.mT + b_1) @ W_2.mT).mT


def _network(draw: Draw, B: int, N: int, d: int, d_s: int, biases: float = 1.0) -> Call:
    W_1, W_2 = draw.normal(d_s, N, scale=N**-0.5), draw.normal(N, d_s)
    return draw.normal(B, N, d), W_1, biases * draw.normal(d_s), W_2, biases * draw.normal(N)


def _images(draw: Draw) -> list[Call]:
    N, d, d_s = draw.sizes(3)
    return [_network(draw, 2, N, d, d_s), _network(draw, 1, d, N, d_s)]


def _one_place(draw: Draw) -> list[Call]:
    """One position and one hidden unit: every channel shows what the activation does to a number from -3 to 3."""
    numbers = torch.linspace(-3, 3, 13).view(1, 1, -1)
    return [(numbers, torch.ones(1, 1), torch.zeros(1), torch.ones(1, 1), torch.zeros(1))]


exercise = Exercise(
    id="13.1",
    title="Token mixing",
    reference=token_mixing,
    properties=(
        runs_on(_images),
        has_shape("A number for each position and channel, in the same order as in x.", _images),
        Property("activation", "The activation between the two layers is the exact GELU.", _one_place, points=2),
        Property(
            "positions",
            "Both layers act on the column of a channel, independent of the others.",
            lambda draw: [_network(draw, 2, 5, 3, 7, biases=0.0), _network(draw, 3, 7, 1, 2, biases=0.0)],
            points=2,
            needs=("activation",),
        ),
        Property(
            "square",
            "The same where there are as many channels as positions, and hidden units.",
            lambda draw: [_network(draw, 2, 5, 5, 3, biases=0.0), _network(draw, 2, 3, 3, 3, biases=0.0)],
            needs=("activation",),
        ),
        Property(
            "biases", "b_1 has an entry for each hidden unit, b_2 for each position.", _images, points=2, needs=("positions",)
        ),
        has_gradient(_images, needs=("biases",)),
        leaves_inputs(_images),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
    forbids={
        lean_token_mixing: "write the transposition and the perceptron yourself.",
    },
)
