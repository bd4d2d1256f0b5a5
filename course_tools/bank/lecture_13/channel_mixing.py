"""Exercise 13.2, channel_mixing: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.blocks import channel_mixing
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
        "Take one position: a row of d numbers. The network maps this row to another of the same length. On which "
        "positions can the result of this one depend?"
    ),
    (
        "The channels are the last axis already, so nothing has to be transposed: this is the feed-forward network of the "
        "Transformer, with GELU instead of ReLU."
    ),
    (
        "A hidden layer of d_c and an output layer of d, along the last axis, with GELU between them: nothing is swapped, "
        "since the channels come last already."
    ),
)


@wrong.idea
def mixes_the_places(x, W_3, b_3, W_4, b_4):
    """You transpose x and mix the positions, as in token mixing. Here the channels of each position are mixed; yours runs
    only where there are as many positions as channels."""
    return (F.gelu(x.mT @ W_3.mT + b_3) @ W_4.mT + b_4).mT


@wrong.detail
def forgets_the_inner_bias(x, W_3, b_3, W_4, b_4):
    """You leave out b_3. It is added to the hidden units, before the GELU."""
    return F.gelu(x @ W_3.mT) @ W_4.mT + b_4


@wrong.detail
def forgets_the_outer_bias(x, W_3, b_3, W_4, b_4):
    """You leave out b_4. It is added after the second layer, the same at every position."""
    return F.gelu(x @ W_3.mT + b_3) @ W_4.mT


@wrong.detail
def adds_the_inner_bias_late(x, W_3, b_3, W_4, b_4):
    """You add b_3 after the GELU. It belongs to the first layer, before the GELU."""
    return (F.gelu(x @ W_3.mT) + b_3) @ W_4.mT + b_4


@wrong.idea
def forgets_the_activation(x, W_3, b_3, W_4, b_4):
    """You have no activation between the two layers. Together they are then one matrix, W_4 W_3."""
    return (x @ W_3.mT + b_3) @ W_4.mT + b_4


@wrong.detail
def uses_relu(x, W_3, b_3, W_4, b_4):
    """You use ReLU, as the original Transformer does. The Mixer, as ViT and BERT, has GELU: x Φ(x), smooth and a little
    below 0 for negative x."""
    return F.relu(x @ W_3.mT + b_3) @ W_4.mT + b_4


@wrong.case
def approximates_gelu(x, W_3, b_3, W_4, b_4):
    """You take the approximation of GELU by tanh. Asked for is x Φ(x) itself, as `F.gelu` computes it by default; the two
    differ in the fourth digit."""
    return F.gelu(x @ W_3.mT + b_3, approximate="tanh") @ W_4.mT + b_4


@wrong.detail
def approximates_gelu_by_a_sigmoid(x, W_3, b_3, W_4, b_4):
    """You take x σ(1.702 x), the quick approximation of GELU. Asked for is x Φ(x) itself, as `F.gelu` computes it by default;
    the two differ in the second digit."""
    hidden = x @ W_3.mT + b_3
    return (hidden * torch.sigmoid(1.702 * hidden)) @ W_4.mT + b_4


@wrong.part
def bends_first(x, W_3, b_3, W_4, b_4):
    """You apply GELU to x and then both layers. The activation is between the layers; without it the two are one linear
    map."""
    return (F.gelu(x) @ W_3.mT + b_3) @ W_4.mT + b_4


@wrong.detail
def bends_the_output(x, W_3, b_3, W_4, b_4):
    """You apply GELU a second time, after the last layer. The output has no activation."""
    return F.gelu(F.gelu(x @ W_3.mT + b_3) @ W_4.mT + b_4)


@wrong.detail
def adds_the_input(x, W_3, b_3, W_4, b_4):
    """You add x at the end. The residual connection belongs to the block around this network."""
    return x + F.gelu(x @ W_3.mT + b_3) @ W_4.mT + b_4


@wrong.part
def normalises_first(x, W_3, b_3, W_4, b_4):
    """You apply a layer norm first. That belongs to the block; this function is the network alone."""
    return F.gelu(F.layer_norm(x, x.shape[-1:]) @ W_3.mT + b_3) @ W_4.mT + b_4


@wrong.part
def averages_the_places(x, W_3, b_3, W_4, b_4):
    """You add the mean of all positions to each of them before the network. In channel mixing each position is independent
    of the others."""
    return F.gelu((x + x.mean(1, keepdim=True)) @ W_3.mT + b_3) @ W_4.mT + b_4


@wrong.detail
def multiplies_by_the_stored_matrix(x, W_3, b_3, W_4, b_4):
    """You write x @ W_3. The matrices are stored as torch.nn.Linear stores them, a row for each feature that they make: x @
    W_3.mT."""
    return F.gelu(x @ W_3 + b_3) @ W_4 + b_4


@wrong.detail
def multiplies_from_the_left(x, W_3, b_3, W_4, b_4):
    """You write W_3 @ x, which mixes the positions. The channels are in the last axis: x @ W_3.mT."""
    return W_4 @ F.gelu(W_3 @ x + b_3) + b_4


@right
def in_einsum(x, W_3, b_3, W_4, b_4):
    """Both products as sums over a named axis."""
    hidden = F.gelu(torch.einsum("bnd,cd->bnc", x, W_3) + b_3)
    return torch.einsum("bnc,dc->bnd", hidden, W_4) + b_4


@right
def place_by_place(x, W_3, b_3, W_4, b_4):
    """A loop over the positions, each through two linear layers."""
    return torch.stack([F.linear(F.gelu(F.linear(place, W_3, b_3)), W_4, b_4) for place in x.unbind(1)], dim=1)


@right
def as_convolutions(x, W_3, b_3, W_4, b_4):
    """Two convolutions of width 1 along the positions."""
    return F.conv1d(F.gelu(F.conv1d(x.transpose(1, 2), W_3.unsqueeze(2), b_3)), W_4.unsqueeze(2), b_4).transpose(1, 2)


@right
def unit_by_unit(x, W_3, b_3, W_4, b_4):
    """A sum over the hidden units: what each feels, GELU by the error function, and where it writes to."""
    total = b_4.expand_as(x)
    for reads, threshold, writes in zip(W_3, b_3, W_4.unbind(1), strict=True):
        felt = (x * reads).sum(-1, keepdim=True) + threshold
        total = total + 0.5 * felt * (1 + torch.erf(felt * 0.5**0.5)) * writes
    return total


@stranger
def channels_by_a_tanh(x, W_3, b_3, W_4, b_4):
    return (x @ W_3.mT + b_3).tanh() @ W_4.mT + b_4


@stranger
def channels_by_swish(x, W_3, b_3, W_4, b_4):
    return F.silu(x @ W_3.mT + b_3) @ W_4.mT + b_4


@stranger
def channels_of_the_mean_place(x, W_3, b_3, W_4, b_4):
    return channel_mixing(x.mean(1, keepdim=True).expand_as(x), W_3, b_3, W_4, b_4)


@stranger
def channels_with_a_dead_image(x, W_3, b_3, W_4, b_4):
    result = channel_mixing(x, W_3, b_3, W_4, b_4)
    return torch.cat([result[:-1], torch.zeros_like(result[-1:])])


@stranger(makes=[uses_relu])
def channels_by_linear_layers(x, W_3, b_3, W_4, b_4):
    return F.linear(F.relu(F.linear(x, W_3, b_3)), W_4, b_4)


@stranger(makes=[uses_relu, adds_the_input])
def channels_twice_wrong(x, W_3, b_3, W_4, b_4):
    return x + F.relu(x @ W_3.mT + b_3) @ W_4.mT + b_4


def _network(draw: Draw, B: int, N: int, d: int, d_c: int, biases: float = 1.0) -> Call:
    W_3, W_4 = draw.normal(d_c, d, scale=d**-0.5), draw.normal(d, d_c)
    return draw.normal(B, N, d), W_3, biases * draw.normal(d_c), W_4, biases * draw.normal(d)


def _images(draw: Draw) -> list[Call]:
    N, d, d_c = draw.sizes(3)
    return [_network(draw, 2, N, d, d_c), _network(draw, 1, d, N, d_c)]


def _one_channel(draw: Draw) -> list[Call]:
    """One channel and one hidden unit: every position shows what the activation does to a number from -3 to 3."""
    numbers = torch.linspace(-3, 3, 13).view(1, -1, 1)
    return [(numbers, torch.ones(1, 1), torch.zeros(1), torch.ones(1, 1), torch.zeros(1))]


exercise = Exercise(
    id="13.2",
    title="Mix the channels",
    reference=channel_mixing,
    properties=(
        runs_on(_images),
        has_shape("A number for each position and channel, in their old order.", _images),
        Property("activation", "The activation between the two layers is the exact GELU.", _one_channel, points=2),
        Property(
            "channels",
            "Both layers act on the row of a position, independent of the others.",
            lambda draw: [_network(draw, 2, 5, 3, 7, biases=0.0), _network(draw, 3, 1, 7, 2, biases=0.0)],
            points=2,
            needs=("activation",),
        ),
        Property(
            "square",
            "The same where there are as many positions as channels, and hidden units.",
            lambda draw: [_network(draw, 2, 5, 5, 3, biases=0.0), _network(draw, 2, 3, 3, 3, biases=0.0)],
            needs=("activation",),
        ),
        Property("biases", "b_3 is added before the GELU, b_4 after the last layer.", _images, points=2, needs=("channels",)),
        has_gradient(_images, needs=("biases",)),
        leaves_inputs(_images),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
