"""Exercise 17.3, gated_feed_forward: what students answer, wrong and right."""

import torch
import torch.nn.functional as F

from course_lib.blocks import gated_feed_forward
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
        "Follow the shape of one position: d_model numbers come in, and two matrices each make d_ff numbers of them. How do "
        "two lists of d_ff numbers become one list of d_ff numbers again?"
    ),
    (
        "One of the two goes through Swish, `F.silu`: these are the gates. The other one stays as it is. The two are "
        "multiplied number by number, and the third matrix leads back. Matrices are stored (out, in), as in 05.3."
    ),
    (
        "Both lists come from x itself, one by `W_gate` and one by `W_up`. Only the first goes through `F.silu`. "
        "Multiply them before the product with the transpose of `W_down`, which follows the whole product: mind the "
        "parentheses."
    ),
)


@wrong.idea
def leaves_out_the_gates(x, W_gate, W_up, W_down):
    """You use two of the three matrices, as in the network of the first Transformer. The gate is a second list of d_ff numbers,
    by which the first one is multiplied."""
    return F.silu(x @ W_up.mT) @ W_down.mT


@wrong.detail
def forgets_the_parentheses(x, W_gate, W_up, W_down):
    """You multiply the gates by x, not by `x @ W_up.mT`: `*` and `@` have the same rank and are taken from left to right. Put
    the features in parentheses, and the product of both, too."""
    return F.silu(x @ W_gate.mT) * x @ W_up.mT @ W_down.mT


@wrong.idea
def never_widens_a_second_time(x, W_gate, W_up, W_down):
    """You never use `W_up`: your gates are opened and closed, but nothing goes through them. Multiply them by `x @ W_up.mT`."""
    return F.silu(x @ W_gate.mT) @ W_down.mT


@wrong.part
def adds_the_gates(x, W_gate, W_up, W_down):
    """You add the gates to the features. A gate multiplies: where it is 0, the feature is 0, whatever its own size."""
    return (F.silu(x @ W_gate.mT) + x @ W_up.mT) @ W_down.mT


@wrong.part
def forgets_the_swish(x, W_gate, W_up, W_down):
    """You multiply the two linear maps, and no Swish is applied. Nothing in your network closes a gate: the product is a
    polynomial of x."""
    return ((x @ W_gate.mT) * (x @ W_up.mT)) @ W_down.mT


@wrong.part
def applies_swish_to_the_product(x, W_gate, W_up, W_down):
    """You apply Swish to the product of gates and features. It belongs to the gates alone, before the product."""
    return F.silu((x @ W_gate.mT) * (x @ W_up.mT)) @ W_down.mT


@wrong.part
def applies_swish_at_the_end(x, W_gate, W_up, W_down):
    """You apply Swish to the output. It belongs to the gates, between the two layers."""
    return F.silu(((x @ W_gate.mT) * (x @ W_up.mT)) @ W_down.mT)


@wrong.detail
def exchanges_gate_and_up(x, W_gate, W_up, W_down):
    """You apply Swish to `x @ W_up.mT`. It belongs to the gates, `x @ W_gate.mT`. A network trained from scratch would learn as
    well, but the weights of a published model would give nonsense, without an error."""
    return ((x @ W_gate.mT) * F.silu(x @ W_up.mT)) @ W_down.mT


@wrong.detail
def applies_swish_to_both(x, W_gate, W_up, W_down):
    """You apply Swish to both. The features that go through the gates stay as they are; of yours almost nothing negative is
    left."""
    return (F.silu(x @ W_gate.mT) * F.silu(x @ W_up.mT)) @ W_down.mT


@wrong.detail
def uses_the_sigmoid(x, W_gate, W_up, W_down):
    """Your gates are sigmoids: that is the gated linear unit of 2016. Swish is a σ(a), the sigmoid times its own input:
    `F.silu`."""
    return ((x @ W_gate.mT).sigmoid() * (x @ W_up.mT)) @ W_down.mT


@wrong.detail
def uses_gelu(x, W_gate, W_up, W_down):
    """You use GELU for the gates: that is GEGLU, of the same paper. SwiGLU has Swish, `F.silu`."""
    return (F.gelu(x @ W_gate.mT) * (x @ W_up.mT)) @ W_down.mT


@wrong.detail
def uses_relu(x, W_gate, W_up, W_down):
    """You use ReLU for the gates: that is ReGLU, of the same paper. SwiGLU has Swish, `F.silu`, which is smooth and slightly
    negative below 0."""
    return ((x @ W_gate.mT).relu() * (x @ W_up.mT)) @ W_down.mT


@wrong.detail
def adds_its_input(x, W_gate, W_up, W_down):
    """You add the input to the result. That residual connection belongs to the block around the network, which would then add
    it a second time."""
    return x + (F.silu(x @ W_gate.mT) * (x @ W_up.mT)) @ W_down.mT


@wrong.detail
def does_not_transpose_the_matrices(x, W_gate, W_up, W_down):
    """You multiply by the matrices as they are stored, (out, in). From the right they are needed as (in, out): `W.mT`."""
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


@wrong.part
def multiplies_matrices_where_numbers_are_meant(x, W_gate, W_up, W_down):
    """You take a matrix product of gates and features. Each gate belongs to one number: multiply element by element, with *."""
    return (F.silu(x @ W_gate.mT) @ (x @ W_up.mT)) @ W_down.mT


@wrong.part
def multiplies_too_late(x, W_gate, W_up, W_down):
    """You lead only the features back by `W_down`, and multiply by the gates afterwards: the sizes do not fit, or it is another
    network. @ and * have the same rank in Python, so put the product in parentheses."""
    return F.silu(x @ W_gate.mT) * (x @ W_up.mT @ W_down.mT)


@wrong.idea
def lets_the_gates_compete(x, W_gate, W_up, W_down):
    """You take a softmax over the gates, so that they share an opening of 1. Each gate opens by itself: Swish of its own
    number."""
    return ((x @ W_gate.mT).softmax(-1) * (x @ W_up.mT)) @ W_down.mT


@right
def with_linear_layers(x, W_gate, W_up, W_down):
    """torch's linear layers, and Swish written out."""
    gate = F.linear(x, W_gate)
    return F.linear(gate * torch.sigmoid(gate) * F.linear(x, W_up), W_down)


@right
def with_one_wide_matrix(x, W_gate, W_up, W_down):
    """Both widening matrices as one, whose result is cut in two."""
    gate, up = torch.einsum("...i,oi->...o", x, torch.cat([W_gate, W_up])).chunk(2, dim=-1)
    return torch.einsum("...h,oh->...o", F.silu(gate) * up, W_down)


@right
def unit_by_unit(x, W_gate, W_up, W_down):
    """A loop over the d_ff units: each adds its column of the last matrix, as far as its gate is open."""
    result = torch.zeros_like(x)
    for w_gate, w_up, w_down in zip(W_gate, W_up, W_down.unbind(1), strict=True):
        a = (x * w_gate).sum(-1, keepdim=True)
        result = result + a / (1 + torch.exp(-a)) * (x * w_up).sum(-1, keepdim=True) * w_down
    return result


@right
def in_double_precision(x, W_gate, W_up, W_down):
    """In float64, by columns: each position is a column of a transposed matrix."""
    x, W_gate, W_up, W_down = (each.double() for each in (x, W_gate, W_up, W_down))
    return (W_down @ (_swish(W_gate @ x.mT) * (W_up @ x.mT))).mT.float()


def _swish(a):
    """Swish as a module of torch."""
    return torch.nn.SiLU()(a)


@stranger
def gate_of_the_tanh(x, W_gate, W_up, W_down):
    return ((x @ W_gate.mT).tanh() * (x @ W_up.mT)) @ W_down.mT


@stranger
def gate_that_passes_no_gradient(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate.mT).detach() * (x @ W_up.mT)) @ W_down.mT


@stranger
def gate_of_the_last_position(x, W_gate, W_up, W_down):
    return (F.silu(x[..., -1:, :] @ W_gate.mT) * (x @ W_up.mT)) @ W_down.mT


@stranger
def gate_scaled(x, W_gate, W_up, W_down):
    return gated_feed_forward(x, W_gate, W_up, W_down) / W_gate.shape[0] ** 0.5


@stranger(makes=[uses_the_sigmoid])
def gate_by_torchs_own(x, W_gate, W_up, W_down):
    return F.glu(torch.cat([F.linear(x, W_up), F.linear(x, W_gate)], dim=-1)) @ W_down.mT


@stranger(makes=[exchanges_gate_and_up, adds_its_input])
def gate_exchanged_with_a_residual(x, W_gate, W_up, W_down):
    return x + gated_feed_forward(x, W_up, W_gate, W_down)


def _inputs(draw: Draw, *batch: int, d_ff: int | None = None, T: int | None = None) -> Call:
    d_model, drawn_ff, drawn = draw.sizes(3)
    d_ff, T = drawn_ff if d_ff is None else d_ff, drawn if T is None else T
    return draw.normal(*batch, T, d_model), draw.normal(d_ff, d_model), draw.normal(d_ff, d_model), draw.normal(d_model, d_ff)


def _closed(draw: Draw) -> list[Call]:
    """Gates of 0: whatever the features are, nothing comes through."""
    x, W_gate, W_up, W_down = _inputs(draw, T=3)
    return [(x, torch.zeros_like(W_gate), W_up, W_down)]


exercise = Exercise(
    id="17.3",
    title="The gated feed-forward network",
    reference=gated_feed_forward,
    properties=(
        runs_on(lambda draw: [_inputs(draw, 2)]),
        has_shape("A vector for each position.", lambda draw: [_inputs(draw, 2)]),
        Property("closed", "Where the gates are 0, the result is 0.", _closed),
        Property(
            "one unit",
            "With one hidden unit, the result is its feature times Swish of its gate, along the column of W_down.",
            lambda draw: [_inputs(draw, T=1, d_ff=1), _inputs(draw, d_ff=1)],
            points=3,
        ),
        Property(
            "units",
            "Each unit has its own gate.",
            lambda draw: [_inputs(draw, T=1), _inputs(draw)],
            points=2,
            needs=("one unit",),
        ),
        Property(
            "batch",
            "Each position of each sequence is transformed by itself.",
            lambda draw: [_inputs(draw, 2), _inputs(draw, 2, 3)],
            needs=("units",),
        ),
        has_gradient(lambda draw: [_inputs(draw), _inputs(draw, 2)], needs=("units",)),
        leaves_inputs(lambda draw: [_inputs(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
