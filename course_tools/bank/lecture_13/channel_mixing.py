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

wrong, right = Answers(), Answers()

HINTS = (
    (
        "Take one place by itself: a row of d numbers. The network reads this row and writes another of the same length. "
        "Which of the places could have an influence on the result of this one?"
    ),
    (
        "The channels are the last axis already, so nothing has to be turned round: this is the feed-forward network of the "
        "Transformer, with GELU in the place of ReLU."
    ),
    "`x @ W_3.mT + b_3` is (B, N, d_c); apply `F.gelu` to it, then `@ W_4.mT + b_4` leads back to (B, N, d).",
)


@wrong
def mixes_the_places(x, W_3, b_3, W_4, b_4):
    """You turn x round and mix the places, as in the layer before. Here each place stays by itself and its channels hear of
    each other; yours runs only where there are as many places as channels."""
    return (F.gelu(x.mT @ W_3.mT + b_3) @ W_4.mT + b_4).mT


@wrong
def forgets_the_inner_bias(x, W_3, b_3, W_4, b_4):
    """You leave out b_3. It belongs to the hidden units, before the GELU, and says where each begins to answer."""
    return F.gelu(x @ W_3.mT) @ W_4.mT + b_4


@wrong
def forgets_the_outer_bias(x, W_3, b_3, W_4, b_4):
    """You leave out b_4. It is added behind the second layer, the same at every place."""
    return F.gelu(x @ W_3.mT + b_3) @ W_4.mT


@wrong
def adds_the_inner_bias_behind(x, W_3, b_3, W_4, b_4):
    """You add b_3 behind the GELU. There it is only a constant more, that b_4 could have held; before it, it moves the place
    where the hidden unit bends."""
    return (F.gelu(x @ W_3.mT) + b_3) @ W_4.mT + b_4


@wrong
def forgets_the_activation(x, W_3, b_3, W_4, b_4):
    """You have nothing between the two layers. Together they are then one matrix, W_4 W_3, however many hidden units you pay
    for."""
    return (x @ W_3.mT + b_3) @ W_4.mT + b_4


@wrong
def uses_relu(x, W_3, b_3, W_4, b_4):
    """You take ReLU, as the first Transformer did. The Mixer, as ViT and BERT, has GELU: x Φ(x), smooth and a little below 0
    for negative x."""
    return F.relu(x @ W_3.mT + b_3) @ W_4.mT + b_4


@wrong
def approximates_gelu(x, W_3, b_3, W_4, b_4):
    """You take the approximation of GELU by tanh. Asked for is x Φ(x) itself, as `F.gelu` computes it by default; the two
    differ in the fourth digit."""
    return F.gelu(x @ W_3.mT + b_3, approximate="tanh") @ W_4.mT + b_4


@wrong
def bends_first(x, W_3, b_3, W_4, b_4):
    """You apply GELU to x and then both layers. The activation stands between the layers; before them it only flattens what
    was negative in x, and the two layers behind it are one."""
    return (F.gelu(x) @ W_3.mT + b_3) @ W_4.mT + b_4


@wrong
def bends_the_output(x, W_3, b_3, W_4, b_4):
    """You apply GELU a second time, behind the last layer. What the block adds to x must be able to have either sign."""
    return F.gelu(F.gelu(x @ W_3.mT + b_3) @ W_4.mT + b_4)


@wrong
def adds_the_input(x, W_3, b_3, W_4, b_4):
    """You add x at the end. That is the block's task, and where the block does it too the input counts twice."""
    return x + F.gelu(x @ W_3.mT + b_3) @ W_4.mT + b_4


@wrong
def normalises_first(x, W_3, b_3, W_4, b_4):
    """You send x through a layer norm first. The block does that, with a gain and a bias that are learned; this function is
    the network alone."""
    return F.gelu(F.layer_norm(x, x.shape[-1:]) @ W_3.mT + b_3) @ W_4.mT + b_4


@wrong
def averages_the_places(x, W_3, b_3, W_4, b_4):
    """You add the mean of all places to each of them before the network. Then each place depends on all others; in this half
    of the block every place is alone."""
    return F.gelu((x + x.mean(1, keepdim=True)) @ W_3.mT + b_3) @ W_4.mT + b_4


@right
def in_einsum(x, W_3, b_3, W_4, b_4):
    """Both products as sums over a named axis."""
    hidden = F.gelu(torch.einsum("bnd,cd->bnc", x, W_3) + b_3)
    return torch.einsum("bnc,dc->bnd", hidden, W_4) + b_4


@right
def place_by_place(x, W_3, b_3, W_4, b_4):
    """A loop over the places, each through two linear layers."""
    return torch.stack([F.linear(F.gelu(F.linear(place, W_3, b_3)), W_4, b_4) for place in x.unbind(1)], dim=1)


@right
def as_convolutions(x, W_3, b_3, W_4, b_4):
    """Two convolutions of width 1 along the places."""
    return F.conv1d(F.gelu(F.conv1d(x.transpose(1, 2), W_3.unsqueeze(2), b_3)), W_4.unsqueeze(2), b_4).transpose(1, 2)


@right
def unit_by_unit(x, W_3, b_3, W_4, b_4):
    """A sum over the hidden units: what each feels, GELU by the error function, and where it writes to."""
    total = b_4.expand_as(x)
    for reads, threshold, writes in zip(W_3, b_3, W_4.unbind(1), strict=True):
        felt = (x * reads).sum(-1, keepdim=True) + threshold
        total = total + 0.5 * felt * (1 + torch.erf(felt * 0.5**0.5)) * writes
    return total


def _network(draw: Draw, B: int, N: int, d: int, d_c: int, biases: float = 1.0) -> Call:
    W_3, W_4 = draw.normal(d_c, d, scale=d**-0.5), draw.normal(d, d_c)
    return draw.normal(B, N, d), W_3, biases * draw.normal(d_c), W_4, biases * draw.normal(d)


def _images(draw: Draw) -> list[Call]:
    N, d, d_c = draw.sizes(3)
    return [_network(draw, 2, N, d, d_c), _network(draw, 1, d, N, d_c)]


def _one_channel(draw: Draw) -> list[Call]:
    """One channel and one hidden unit: every place shows what the activation does to a number from -3 to 3."""
    numbers = torch.linspace(-3, 3, 13).view(1, -1, 1)
    return [(numbers, torch.ones(1, 1), torch.zeros(1), torch.ones(1, 1), torch.zeros(1))]


exercise = Exercise(
    id="13.2",
    title="Mix the channels",
    reference=channel_mixing,
    properties=(
        runs_on(_images),
        has_shape("A number for each place and channel, in their old order.", _images),
        Property("activation", "Between the two layers stands GELU, exactly.", _one_channel, points=2),
        Property(
            "channels",
            "Both layers act on the row of a place, whatever stands in the others.",
            lambda draw: [_network(draw, 2, 5, 3, 7, biases=0.0), _network(draw, 3, 1, 7, 2, biases=0.0)],
            points=2,
            needs=("activation",),
        ),
        Property(
            "square",
            "The same where there are as many places as channels, and hidden units.",
            lambda draw: [_network(draw, 2, 5, 5, 3, biases=0.0), _network(draw, 2, 3, 3, 3, biases=0.0)],
            needs=("activation",),
        ),
        Property("biases", "b_3 stands before the GELU, b_4 behind the last layer.", _images, points=2, needs=("channels",)),
        has_gradient(_images, needs=("biases",)),
        leaves_inputs(_images),
    ),
    wrong=wrong,
    right=right,
    hints=HINTS,
)
