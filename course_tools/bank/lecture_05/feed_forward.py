"""Exercise 05.3, feed_forward: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.blocks import feed_forward
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
        "Follow the shape of one position: d_model numbers come in, d_ff is the hidden size, d_model go out. Which axis "
        "of `W_1` is contracted with the features of `x`?"
    ),
    (
        "Two linear layers, each with its own bias, and one function between them that turns what is negative into 0. The "
        "matrices are stored (out, in), so a product from the right needs them transposed."
    ),
    (
        "Four steps: the product with the transpose of `W_1`, plus the first bias; the function, which is ReLU; the "
        "product with the transpose of `W_2`, plus the second bias. No function follows the second layer."
    ),
)


@wrong.idea
def forgets_the_relu(x, W_1, b_1, W_2, b_2):
    """You put nothing between the two layers. Two linear maps in a row are one linear map, however wide the hidden layer
    is."""
    return (x @ W_1.mT + b_1) @ W_2.mT + b_2


@wrong.part
def cuts_off_at_the_end(x, W_1, b_1, W_2, b_2):
    """You apply the ReLU after the second layer and not between the two. The two layers are then one linear map, and your
    output is never negative."""
    return ((x @ W_1.mT + b_1) @ W_2.mT + b_2).relu()


@wrong.detail
def cuts_off_twice(x, W_1, b_1, W_2, b_2):
    """You apply a second ReLU after the second layer. The output is added to the input, and yours could only increase
    features."""
    return ((x @ W_1.mT + b_1).relu() @ W_2.mT + b_2).relu()


@wrong.part
def cuts_off_the_input(x, W_1, b_1, W_2, b_2):
    """You apply the ReLU to the input, before the first layer. All that is negative in the embeddings is lost before any
    weight has seen it, and between the two layers nothing happens."""
    return (x.relu() @ W_1.mT + b_1) @ W_2.mT + b_2


@wrong.detail
def uses_gelu(x, W_1, b_1, W_2, b_2):
    """You use GELU, as GPT and BERT do. The network of the original Transformer has ReLU: negative values become exactly 0,
    and positive ones stay as they are."""
    return F.gelu(x @ W_1.mT + b_1) @ W_2.mT + b_2


@wrong.idea
def takes_the_maximum_over_the_positions(x, W_1, b_1, W_2, b_2):
    """You take max(0, ·) for a maximum over the positions. It compares each single number with 0; yours reduces the
    sequence to one vector, and here each position is independent of the others."""
    inner = x @ W_1.mT + b_1
    return inner.amax(-2, keepdim=True).clamp(min=0) @ W_2.mT + b_2


@wrong.part
def does_not_transpose_the_matrices(x, W_1, b_1, W_2, b_2):
    """You multiply by the matrices as they are stored, (out, in). From the right they are needed as (in, out): the sizes do
    not fit, and where d_ff = d_model there is no error and both products are wrong."""
    return (x @ W_1 + b_1).relu() @ W_2 + b_2


@wrong.idea
def takes_each_matrix_for_the_other(x, W_1, b_1, W_2, b_2):
    """You widen with `W_2` and narrow with `W_1`, because untransposed they fit in that order. The sizes are right, but
    each matrix was learned for the other layer."""
    return (x @ W_2 + b_1).relu() @ W_1 + b_2


@wrong.detail
def forgets_the_first_bias(x, W_1, b_1, W_2, b_2):
    """You leave out b₁. It shifts the threshold of each hidden unit."""
    return (x @ W_1.mT).relu() @ W_2.mT + b_2


@wrong.detail
def forgets_the_second_bias(x, W_1, b_1, W_2, b_2):
    """You leave out b₂. Where all hidden units are 0, your output is always 0."""
    return (x @ W_1.mT + b_1).relu() @ W_2.mT


@wrong.detail
def adds_the_first_bias_too_late(x, W_1, b_1, W_2, b_2):
    """You add b₁ after the ReLU. There it does not shift the thresholds; it only adds a constant to the output, as b₂ does
    already."""
    return ((x @ W_1.mT).relu() + b_1) @ W_2.mT + b_2


@wrong.detail
def adds_its_input(x, W_1, b_1, W_2, b_2):
    """You add the input to the result. That residual connection belongs to the block around the network, which would then
    add it a second time."""
    return x + (x @ W_1.mT + b_1).relu() @ W_2.mT + b_2


@wrong.detail
def uses_the_sigmoid(x, W_1, b_1, W_2, b_2):
    """You use the sigmoid between the two layers. The position-wise network has ReLU, max(0, ·), there."""
    return (x @ W_1.mT + b_1).sigmoid() @ W_2.mT + b_2


@wrong.detail
def multiplies_a_column(x, W_1, b_1, W_2, b_2):
    """You write W_1 x, with x as a column. Here x has its features in the last axis, after batch and positions: x @ W_1.mT."""
    return W_2 @ (W_1 @ x + b_1).relu() + b_2


@right
def with_linear_layers(x, W_1, b_1, W_2, b_2):
    """torch's linear layer twice, with a threshold between them."""
    inner = F.linear(x, W_1, b_1)
    return F.linear(F.threshold(inner, 0.0, 0.0), W_2, b_2)


@right
def as_convolutions(x, W_1, b_1, W_2, b_2):
    """Two convolutions over the positions with kernels of size 1, the leading axes folded into one."""
    channels_first = x.reshape(-1, *x.shape[-2:]).transpose(1, 2)
    inner = F.relu(F.conv1d(channels_first, W_1.unsqueeze(-1), b_1))
    return F.conv1d(inner, W_2.unsqueeze(-1), b_2).transpose(1, 2).reshape(x.shape)


@right
def unit_by_unit(x, W_1, b_1, W_2, b_2):
    """A loop over the d_ff units of the middle: each adds its column of W₂, as far as it is switched on."""
    result = b_2.expand(x.shape)
    for w_in, b, w_out in zip(W_1, b_1, W_2.unbind(1), strict=True):
        activity = ((x * w_in).sum(-1, keepdim=True) + b).clamp(min=0)
        result = result + activity * w_out
    return result


@right
def in_double_precision(x, W_1, b_1, W_2, b_2):
    """Both layers as einsum in float64, the negative values multiplied by False."""
    inner = torch.einsum("...i,oi->...o", x.double(), W_1.double()) + b_1
    return (torch.einsum("...i,oi->...o", inner * (inner > 0), W_2.double()) + b_2).to(x.dtype)


@stranger
def leaky_network(x, W_1, b_1, W_2, b_2):
    return F.leaky_relu(x @ W_1.mT + b_1) @ W_2.mT + b_2


@stranger
def network_of_sigmoids(x, W_1, b_1, W_2, b_2):
    return (x @ W_1.mT + b_1).sigmoid() @ W_2.mT + b_2


@stranger
def network_of_halves(x, W_1, b_1, W_2, b_2):
    return (x @ W_1.mT + b_1).relu() @ W_2.mT / 2 + b_2


@stranger(makes=[forgets_the_relu, forgets_the_first_bias])
def network_without_relu_and_bias(x, W_1, b_1, W_2, b_2):
    return x @ W_1.mT @ W_2.mT + b_2


def _network(draw: Draw, *batch: int, biases: float = 1.0) -> Call:
    d_model, d_ff = draw.sizes(2)
    x, W_1, W_2 = draw.normal(*batch, d_model), draw.normal(d_ff, d_model), draw.normal(d_model, d_ff)
    return x, W_1, biases * draw.normal(d_ff), W_2, biases * draw.normal(d_model)


def _square(draw: Draw) -> Call:
    """As many features inside as outside: here a matrix that is turned round goes unnoticed by its shape."""
    return draw.normal(2, 3, 5), draw.normal(5, 5), draw.normal(5), draw.normal(5, 5), draw.normal(5)


def _sentences(draw: Draw) -> list[Call]:
    return [_network(draw, 1, 3), _network(draw, 2, 5), _square(draw)]


def _lined_up(draw: Draw) -> list[Call]:
    """W₂ picks single hidden features, so that what the activation does to each is seen."""
    x = torch.tensor([[[-2.0], [0.5], [3.0]]])
    return [(x, torch.tensor([[1.0]]), torch.zeros(1), torch.tensor([[1.0]]), torch.zeros(1))]


exercise = Exercise(
    id="05.3",
    title="The position-wise network",
    reference=feed_forward,
    properties=(
        runs_on(_sentences),
        has_shape("As many features as came in.", _sentences),
        Property("activation", "Between the two layers, negative values become 0.", _lined_up, points=2),
        Property(
            "matrices",
            "Both matrices, stored as (out, in).",
            lambda draw: [_network(draw, 1, 1, biases=0.0), _square(draw)],
            points=2,
        ),
        Property("biases", "Each layer has its bias, the first before the activation.", _sentences, needs=("matrices",)),
        Property(
            "batch",
            "Each position is computed independently, with any number of batch axes.",
            lambda draw: [_network(draw, 3), _network(draw, 2, 2, 3)],
            needs=("biases",),
        ),
        has_gradient(_sentences, needs=("biases",)),
        leaves_inputs(_sentences),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
