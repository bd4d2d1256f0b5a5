"""Exercise 01.1, rnn_step: hints, and what students answer to one step of an Elman network."""

import torch
from torch.nn import functional as F

from course_lib.primitives import rnn_step
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
    "The step is an affine map of two vectors, followed by one nonlinearity. What must the shape of each of the three "
    "terms be, so that they can be added?",
    "`x` has its features in the **last** axis, whatever axes come before it, and `W` has the shape (n, d): a row for "
    "each unit. So `x` is the left factor of the product. With which axis of `W` is the last axis of `x` contracted?",
    "Multiply `x` from the right with the transpose `W.mT`, and the state with the transpose of `U` in the same way."
    " Add both products and `b`, once, and only then apply tanh, to the whole sum.",
)


@wrong.part
def forgets_the_bias(x, h, W, U, b):
    """You never add b: at a zero input and a zero state all of your units are 0, whatever the bias is."""
    return torch.tanh(x @ W.mT + h @ U.mT)


@wrong.detail
def adds_the_bias_twice(x, h, W, U, b):
    """You add b to the input's product and again to the state's. The formula has a single b, shared by both products."""
    return torch.tanh((x @ W.mT + b) + (h @ U.mT + b))


@wrong.part
def leaves_out_the_tanh(x, h, W, U, b):
    """You return the sum as it is. Without the nonlinearity the network stays linear, and its state can grow without bound."""
    return x @ W.mT + h @ U.mT + b


@wrong.detail
def squashes_with_the_sigmoid(x, h, W, U, b):
    """You apply the sigmoid, which is for gates: your states lie in 0…1, those of tanh in -1…1."""
    return torch.sigmoid(x @ W.mT + h @ U.mT + b)


@wrong.part
def squashes_each_product(x, h, W, U, b):
    """You apply tanh to each term and add afterwards. Your state can leave -1…1; the sum must be inside the nonlinearity."""
    return torch.tanh(x @ W.mT + b) + torch.tanh(h @ U.mT)


@wrong.idea
def ignores_the_state(x, h, W, U, b):
    """You never use h: without it the layer has no memory, and every step is computed like the first."""
    return torch.tanh(x @ W.mT + b)


@wrong.detail
def transposes_the_recurrent_matrix(x, h, W, U, b):
    """You multiply the state by U where its transpose is needed. U is square, so there is no shape error, but your weight from
    unit i to unit j is the one from j to i."""
    return torch.tanh(x @ W.mT + h @ U + b)


@wrong.case
def expects_exactly_one_batch_axis(x, h, W, U, b):
    """You go through the first axis and take each entry for a single vector. That holds for one batch axis, not for a lone
    vector and not for two batch axes."""
    return torch.stack([torch.tanh(W @ x_k + U @ h_k + b) for x_k, h_k in zip(x, h, strict=True)])


@wrong.case
def overwrites_the_state(x, h, W, U, b):
    """Your numbers are right, but you write them into h itself: the caller's old state is lost, and back-propagation through
    time needs it."""
    h.copy_(torch.tanh(x @ W.mT + h @ U.mT + b))
    return h


@wrong.case
def cuts_the_gradient_of_the_state(x, h, W, U, b):
    """Your numbers are right, but you detach the old state: no gradient can flow back in time beyond a single step."""
    return torch.tanh(x @ W.mT + h.detach() @ U.mT + b)


@wrong.detail
def uses_relu(x, h, W, U, b):
    """You apply ReLU to the sum. An Elman network uses tanh, which lets a unit be negative and bounds it by 1; your
    state is never negative and has no upper bound."""
    return (x @ W.mT + h @ U.mT + b).relu()


@wrong.detail
def does_not_transpose_the_matrices(x, h, W, U, b):
    """You multiply by W and U as they are stored, (out, in). A row vector from the left needs them as (in, out): `x @ W.mT`."""
    return torch.tanh(x @ W + h @ U + b)


@wrong.detail
def multiplies_a_column(x, h, W, U, b):
    """You write W x as the formula does, with x as a column. Here x has its features in the last axis, after those of the
    batch: x @ W.mT."""
    return torch.tanh(W @ x + U @ h + b)


@wrong.detail
def multiplies_the_transposed_batch(x, h, W, U, b):
    """You make columns of x and h, `W @ x.T`, so that W x can be written as in the formula. Each column is then an example,
    and b, a row, is added along the wrong axis. Leave the examples in the rows: `x @ W.mT`."""
    return torch.tanh(W @ x.T + U @ h.T + b)


@wrong.detail
def adds_the_state_outside(x, h, W, U, b):
    """You close the tanh before the state is added. Your state can leave -1…1: the whole sum, with U h, belongs inside the
    nonlinearity."""
    return torch.tanh(x @ W.mT + b) + h @ U.mT


@wrong.case
def leaves_columns(x, h, W, U, b):
    """You make columns of x and h to write W x as the formula does, and return columns: your numbers are right, and the
    last axis, of size 1, is one too many. Take it away at the end, or write x @ W.mT."""
    return torch.tanh(W @ x[..., None] + U @ h[..., None] + b[:, None])


@wrong.detail
def multiplies_the_state_as_a_column(x, h, W, U, b):
    """You write U h as the formula does, with h as a column. Here h has its features in the last axis, after those of the
    batch, as x has: h @ U.mT."""
    return torch.tanh(x @ W.mT + U @ h + b)


@right
def concatenates_input_and_state(x, h, W, U, b):
    """One product: [W U] times the input and the state in one vector."""
    return torch.tanh(torch.cat([x, h], dim=-1) @ torch.cat([W, U], dim=1).mT + b)


@right
def adds_two_linear_layers(x, h, W, U, b):
    """Two calls of torch's linear layer, the bias in one of them."""
    return F.linear(x, W, b).add(F.linear(h, U)).tanh()


@right
def contracts_with_einsum(x, h, W, U, b):
    """Both products by einsum, the axes by name."""
    products = torch.einsum("...d,nd->...n", x, W) + torch.einsum("...m,nm->...n", h, U)
    return torch.tanh(products + b)


@right
def loops_over_the_units_in_float64(x, h, W, U, b):
    """One unit after the other, as sums over its row of weights, in float64 until the end."""
    dtype, x, h, W, U, b = x.dtype, x.double(), h.double(), W.double(), U.double(), b.double()
    units = [(x * W[k]).sum(-1) + (h * U[k]).sum(-1) + b[k] for k in range(len(b))]
    return torch.tanh(torch.stack(units, dim=-1)).to(dtype)


@stranger
def rnn_keeps_the_old_state_beside(x, h, W, U, b):
    return h + torch.tanh(x @ W.mT + h @ U.mT + b)


@stranger
def rnn_detaches_the_weights(x, h, W, U, b):
    return torch.tanh(F.linear(x, W.data) + h @ U.mT + b)


@stranger
def rnn_squeezes_a_batch_of_one(x, h, W, U, b):
    return torch.tanh(x @ W.mT + h @ U.mT + b).squeeze(0)


@stranger
def rnn_softsign(x, h, W, U, b):
    return F.softsign(x @ W.mT + h @ U.mT + b)


@stranger(makes=[transposes_the_recurrent_matrix])
def rnn_by_einsum_with_swapped_indices(x, h, W, U, b):
    return (torch.einsum("...d,nd->...n", x, W) + torch.einsum("...m,mn->...n", h, U) + b).tanh()


@stranger(makes=[adds_the_bias_twice])
def rnn_with_two_layers_and_two_biases(x, h, W, U, b):
    return (F.linear(x, W, b) + F.linear(h, U, b)).tanh()


@stranger(makes=[squashes_with_the_sigmoid, transposes_the_recurrent_matrix])
def rnn_with_two_mistakes(x, h, W, U, b):
    return torch.sigmoid(x @ W.mT + h @ U + b)


def _step(draw: Draw, *batch: int, scale_h: float = 1.0, scale_b: float = 1.0) -> Call:
    d, n = draw.sizes(2)
    x, h = draw.normal(*batch, d), draw.normal(*batch, n, scale=scale_h)
    return x, h, draw.normal(n, d, scale=0.5), draw.normal(n, n, scale=0.5), draw.normal(n, scale=scale_b)


exercise = Exercise(
    id="01.1",
    title="One step of an RNN",
    reference=rnn_step,
    properties=(
        runs_on(lambda draw: [_step(draw, 3)]),
        has_shape("One new state for each row of the batch.", lambda draw: [_step(draw, 3)]),
        Property("input", "Without state and bias, it is tanh(W x).", lambda draw: [_step(draw, 1, scale_h=0.0, scale_b=0.0)]),
        Property(
            "bias", "The bias is added once, inside the tanh.", lambda draw: [_step(draw, 1, scale_h=0.0)], needs=("input",)
        ),
        Property("state", "The previous state is multiplied by U.", lambda draw: [_step(draw, 1)], needs=("input",)),
        Property(
            "batch",
            "Each row is computed independently, with any number of batch axes.",
            lambda draw: [_step(draw, 5), _step(draw), _step(draw, 2, 3)],
            needs=("state", "bias"),
        ),
        has_gradient(lambda draw: [_step(draw, 3)], needs=("batch",)),
        leaves_inputs(lambda draw: [_step(draw, 3)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
