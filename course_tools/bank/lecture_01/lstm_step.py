"""Exercise 01.4, lstm_step: hints, and what students answer to one step of an LSTM."""

import torch
from einops import rearrange
from torch._decomp import decompositions
from torch.nn import functional as F

from course_lib.primitives import lstm_step
from course_tools.checks.comparisons import right_result
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
    "Begin as in `rnn_step`: one affine map of input and state, for all four blocks of rows at once. What shape does "
    "the result have, and in which order are the blocks?",
    "Split the **last** axis into four equal blocks, in torch's order i, f, g, o. Three of them are gates and need "
    "values in 0…1; one is the candidate and needs values in -1…1. Then write the two equations, the cell state "
    "first: the new state needs it.",
    "Cut the affine map along its last axis with `chunk`; the sigmoid on i, f and o, tanh on g. The new cell state is"
    " forget gate times old cell state plus input gate times candidate; the new state is output gate times tanh of the"
    " **new** cell state. Return the state first, then the cell state.",
)


@wrong.detail
def reads_the_gates_in_the_order_of_many_textbooks(x, h, c, W, U, b):
    """You read the blocks as i, f, o, g, in the order of many textbooks. The rows are stored in torch's order: your output gate
    gets the candidate's weights, and the candidate those of the output gate."""
    i, f, o, g = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@wrong.detail
def swaps_input_gate_and_forget_gate(x, h, c, W, U, b):
    """You take the first block of rows for the forget gate and the second for the input gate: yours keeps the old cell state
    where it should add the candidate."""
    f, i, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@wrong.detail
def reads_the_gates_in_the_order_of_tensorflow(x, h, c, W, U, b):
    """You read the blocks in the order i, g, f, o, that of TensorFlow's first cells. Here they are stored in torch's order:
    i, f, g, o."""
    i, g, f, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@wrong.part
def interleaves_the_gates(x, h, c, W, U, b):
    """You read the 4n rows as n groups of four, a group for each unit. They are stored as four blocks of n, a block for
    each gate."""
    i, f, g, o = (x @ W.mT + h @ U.mT + b).unflatten(-1, (-1, 4)).unbind(-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@wrong.detail
def squashes_the_candidate_with_the_sigmoid(x, h, c, W, U, b):
    """You put the sigmoid on all four blocks. The candidate is not a gate: with values in 0…1 it could never lower a cell
    state."""
    i, f, g, o = torch.sigmoid(x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = f * c + i * g
    return o * torch.tanh(c), c


@wrong.part
def never_forgets(x, h, c, W, U, b):
    """You keep the old cell state in full. That is the LSTM of 1997; here it is multiplied by the forget gate, which you never
    use."""
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@wrong.part
def feeds_the_cell_state_to_the_gates(x, h, c, W, U, b):
    """You multiply U by the cell state c. The gates are computed from the hidden state h, not from the cell state."""
    i, f, g, o = (x @ W.mT + c @ U.mT + b).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@wrong.part
def shows_the_raw_cell_state(x, h, c, W, U, b):
    """You leave out the tanh of the cell state. The cell state can grow without bound; tanh maps it to -1…1 before the output
    gate."""
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * c, c


@wrong.part
def shows_the_old_cell_state(x, h, c, W, U, b):
    """You make the new state from the old cell state: the input of this step has an effect only one step later."""
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c_new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c_new


@wrong.case
def returns_the_cell_state_first(x, h, c, W, U, b):
    """Both of your results are right, but you return the cell state first. The shapes agree, so no error shows that the two
    are exchanged."""
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return c, torch.sigmoid(o) * torch.tanh(c)


@wrong.case
def overwrites_the_cell_state(x, h, c, W, U, b):
    """Your numbers are right, but `*=` and `+=` write them into the caller's cell state: the old one is lost, though the
    backward pass needs it."""
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c *= torch.sigmoid(f)
    c += torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@wrong.part
def couples_the_gates(x, h, c, W, U, b):
    """You use 1 - f instead of the input gate. This is the variant with coupled gates; here i has its own rows of W, U and
    b, and both gates may be open at once."""
    _, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    f = torch.sigmoid(f)
    c = f * c + (1 - f) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@wrong.detail
def adds_the_bias_twice(x, h, c, W, U, b):
    """You add b to the input's product and again to the state's. torch.nn.LSTM has two biases; here there is one, added
    once."""
    i, f, g, o = (x @ W.mT + b + h @ U.mT + b).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@wrong.part
def forgets_the_bias(x, h, c, W, U, b):
    """You never add b: the gates of your cell cannot be open or closed by default."""
    i, f, g, o = (x @ W.mT + h @ U.mT).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@wrong.part
def forgets_the_output_gate(x, h, c, W, U, b):
    """You return tanh(c) as the new state. The output gate o is missing: it decides how much of each unit the state
    passes on."""
    i, f, g, _ = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.tanh(c), c


@wrong.part
def squashes_the_gates_with_tanh(x, h, c, W, U, b):
    """You apply tanh to all four blocks. A gate must lie in 0…1, so i, f and o take the sigmoid; yours can change the sign of
    what they gate."""
    i, f, g, o = torch.tanh(x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = f * c + i * g
    return o * torch.tanh(c), c


@wrong.detail
def reads_the_gates_in_the_order_of_a_textbook(x, h, c, W, U, b):
    """You read the blocks as f, i, o, g, the order of many textbooks. The rows are stored in torch's order, i, f, g, o: each of
    your gates has the weights of another."""
    f, i, o, g = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@wrong.idea
def computes_the_gates_from_the_input_alone(x, h, c, W, U, b):
    """You never use U and h. Every gate and the candidate depend on the hidden state, too: add h Uᵀ."""
    i, f, g, o = (x @ W.mT + b).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@wrong.detail
def multiplies_a_column(x, h, c, W, U, b):
    """You write W x as the formula does, with x as a column. Here x has its features in the last axis, after those of the
    batch: x @ W.mT."""
    i, f, g, o = (W @ x + U @ h + b).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@wrong.detail
def multiplies_by_the_stored_matrix(x, h, c, W, U, b):
    """You write x @ W. W is stored with a row for each unit, (4n, d), so the features of x meet its columns: x @ W.mT, and h @
    U.mT."""
    i, f, g, o = (x @ W + h @ U + b).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@wrong.detail
def cuts_the_batch_into_gates(x, h, c, W, U, b):
    """You cut the gates along the first axis: chunk does so unless it is told another one, and here that is the batch. The 4n
    gates are in the last axis."""
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@wrong.detail
def splits_into_pieces_of_four(x, h, c, W, U, b):
    """You cut by `split(4)`, which makes pieces *of size* 4. `chunk(4, -1)` makes 4 pieces; `split` takes their size, which
    is n."""
    i, f, g, o = (x @ W.mT + h @ U.mT + b).split(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@wrong.part
def does_not_squash_the_candidate(x, h, c, W, U, b):
    """You add the candidate without its tanh, so a single step can write any number into the cell. The three gates take the
    sigmoid, and the candidate takes tanh."""
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g
    return o.sigmoid() * c.tanh(), c


@wrong.detail
def cuts_the_gates_by_the_size_of_the_input(x, h, c, W, U, b):
    """You cut the gates to the size of the input. They have that of the state: n numbers each, 4n together."""
    n = x.shape[-1]
    a = x @ W.mT + h @ U.mT + b
    i, f, g, o = (a[..., k * n : (k + 1) * n] for k in range(4))
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@right
def gives_each_gate_its_own_weights(x, h, c, W, U, b):
    """Weights and bias cut into four first, then one affine map for each block."""
    blocks = zip(W.chunk(4), U.chunk(4), b.chunk(4), strict=True)
    i, f, g, o = (F.linear(x, W_k, b_k) + F.linear(h, U_k) for W_k, U_k, b_k in blocks)
    c = i.sigmoid() * g.tanh() + f.sigmoid() * c
    return o.sigmoid() * c.tanh(), c


@right
def slices_one_product(x, h, c, W, U, b):
    """One product with [W U], cut by slices; in float64 until the end."""
    n = c.shape[-1]
    both, weights = torch.cat([x, h], dim=-1).double(), torch.cat([W, U], dim=1).double()
    gates = both @ weights.mT + b.double()
    i, f, o = (torch.sigmoid(gates[..., start : start + n]) for start in (0, n, 3 * n))
    c = f * c.double() + i * torch.tanh(gates[..., 2 * n : 3 * n])
    return (o * torch.tanh(c)).to(h.dtype), c.to(h.dtype)


@right
def names_the_gate_axis(x, h, c, W, U, b):
    """The gates as an axis of their own, by einsum and einops."""
    W, U = (rearrange(weights, "(gate n) d -> gate n d", gate=4) for weights in (W, U))
    gates = torch.einsum("...d,gnd->...gn", x, W) + torch.einsum("...m,gnm->...gn", h, U) + b.unflatten(0, (4, -1))
    i, f, g, o = gates.unbind(-2)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@right
def writes_the_sigmoid_by_tanh(x, h, c, W, U, b):
    """One nonlinearity for all: σ(a) = (1 + tanh(a/2)) / 2, the blocks by torch.split."""
    i, f, g, o = torch.split(h @ U.mT + x @ W.mT + b, h.shape[-1], dim=-1)
    i, f, o = ((1 + torch.tanh(a / 2)) / 2 for a in (i, f, o))
    c_new = f * c + i * torch.tanh(g)
    return o * torch.tanh(c_new), c_new


@stranger
def lstm_couples_the_gates(x, h, c, W, U, b):
    _, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = f.sigmoid() * c + (1 - f.sigmoid()) * g.tanh()
    return o.sigmoid() * c.tanh(), c


@stranger
def lstm_opens_the_forget_gate_by_one(x, h, c, W, U, b):
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = (f + 1).sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@stranger
def lstm_cuts_the_carousel(x, h, c, W, U, b):
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = f.sigmoid() * c.detach() + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@stranger
def lstm_looks_through_a_peephole(x, h, c, W, U, b):
    i, f, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return (o + c).sigmoid() * c.tanh(), c


@stranger(makes=[reads_the_gates_in_the_order_of_many_textbooks])
def lstm_split_in_the_wrong_order(x, h, c, W, U, b):
    gates, n = F.linear(x, W, b) + F.linear(h, U), h.shape[-1]
    i, f, o, g = gates[..., :n], gates[..., n : 2 * n], gates[..., 2 * n : 3 * n], gates[..., 3 * n :]
    new = c * f.sigmoid() + i.sigmoid() * g.tanh()
    return new.tanh() * o.sigmoid(), new


@stranger(makes=[shows_the_raw_cell_state])
def lstm_without_the_last_tanh(x, h, c, W, U, b):
    i, f, g, o = torch.split(F.linear(x, W, b) + F.linear(h, U), len(b) // 4, dim=-1)
    new = c * f.sigmoid() + i.sigmoid() * g.tanh()
    return new * o.sigmoid(), new


@stranger(makes=[swaps_input_gate_and_forget_gate, shows_the_raw_cell_state])
def lstm_with_two_mistakes(x, h, c, W, U, b):
    f, i, g, o = (x @ W.mT + h @ U.mT + b).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * c, c


def _step(draw: Draw, *batch: int, scale_x: float = 1.0, scale_h: float = 1.0, scale_c: float = 1.0) -> Call:
    d, n = draw.sizes(2)
    x, h = draw.normal(*batch, d, scale=scale_x), draw.normal(*batch, n, scale=scale_h)
    c = draw.normal(*batch, n, scale=scale_c)
    return x, h, c, draw.normal(4 * n, d, scale=0.7), draw.normal(4 * n, n, scale=0.7), draw.normal(4 * n)


exercise = Exercise(
    id="01.4",
    title="One step of an LSTM",
    reference=lstm_step,
    results=("h", "c"),
    properties=(
        runs_on(lambda draw: [_step(draw, 3)]),
        has_shape(
            "The new state, then the new cell state, each with the shape of the old ones.", lambda draw: [_step(draw, 3)]
        ),
        Property(
            "write",
            "From an empty cell, c = σ(i) tanh(g).",
            lambda draw: [_step(draw, 1, scale_x=0.0, scale_h=0.0, scale_c=0.0)],
            right_result(1),
        ),
        Property(
            "carry",
            "The forget gate multiplies the old cell state.",
            lambda draw: [_step(draw, 1, scale_x=0.0, scale_h=0.0)],
            right_result(1),
            needs=("write",),
        ),
        Property(
            "output",
            "The new state is the output gate times tanh of the cell state.",
            lambda draw: [_step(draw, 1, scale_x=0.0, scale_h=0.0)],
            needs=("carry",),
        ),
        Property(
            "input",
            "The input x acts on all four gates.",
            lambda draw: [_step(draw, 1, scale_h=0.0)],
            points=0,
            needs=("carry",),
        ),
        Property(
            "state", "The state h acts on all four gates.", lambda draw: [_step(draw, 1)], points=2, needs=("input", "output")
        ),
        Property(
            "batch",
            "Each row is computed independently, with any number of batch axes.",
            lambda draw: [_step(draw, 5), _step(draw), _step(draw, 2, 3)],
            needs=("state",),
        ),
        has_gradient(lambda draw: [_step(draw, 3)], needs=("batch",)),
        leaves_inputs(lambda draw: [_step(draw, 3)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
    forbids=dict.fromkeys(
        (
            torch.lstm_cell,
            torch.lstm,
            torch.mkldnn_rnn_layer,
            decompositions.lstm_cell,
            torch.ao.nn.quantizable.LSTMCell,
        ),
        "write the gates and the two states by their equations.",
    ),
)
