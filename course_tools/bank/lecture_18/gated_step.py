"""Exercise 18.1, gated_step: what students answer, wrong and right."""

import torch
from torch import Tensor

from course_lib.attention import gated_step
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
    (
        "Three things happen, in this order: the old memory fades, the new position is written, the query reads. Which of them "
        "does the decay touch? A value that was written just now has not had time to fade."
    ),
    (
        "`log_decay` holds the logarithm of a gate for each row of S: `exp` makes the gate, and a new last axis lays it along "
        "the columns. What is written has the shape of S too: the key down the rows, the value along the columns."
    ),
    (
        "Give the gates a last axis and multiply S by them. Add the outer product: the key with a last axis of size "
        "1, the value with one before its last. To read, multiply each row of the *new* S by the query's entry for it "
        "and sum the rows. Return the context first, then S."
    ),
)


def _written(k: Tensor, v: Tensor) -> Tensor:
    """The outer product of key and value, (*batch, d_k, d_v)."""
    return k[..., :, None] * v[..., None, :]


def _read(q: Tensor, S: Tensor) -> Tensor:
    """What the memory says of a query, (*batch, d_v)."""
    return (q[..., :, None] * S).sum(-2)


@wrong.idea
def forgets_nothing(S, q, k, v, log_decay):
    """You never use `log_decay`: the memory is the plain sum of linear attention, and the oldest value counts as much as the
    newest."""
    S = S + _written(k, v)
    return _read(q, S), S


@wrong.detail
def reads_the_old_memory(S, q, k, v, log_decay):
    """You read the memory as it came in, before it fades and before this position is written. The context must come from the S
    that you return."""
    return _read(q, S), log_decay.exp()[..., None] * S + _written(k, v)


@wrong.detail
def gives_the_gates_no_axis(S, q, k, v, log_decay):
    """You multiply S by the gates without a new axis. A gate belongs to a channel of the keys, which is a row of S: give the
    gates a last axis of size 1, [..., None]."""
    S = log_decay.exp() * S + _written(k, v)
    return _read(q, S), S


@wrong.idea
def forgets_everything(S, q, k, v, log_decay):
    """You replace the memory by this position. Everything before it is gone, whatever the gates say: the old S must fade, not
    end."""
    S = _written(k, v) + 0 * log_decay.sum(-1)[..., None, None]
    return _read(q, S), S


@wrong.idea
def swaps_query_and_key(S, q, k, v, log_decay):
    """You exchange query and key: the key is written, the query only reads."""
    S = log_decay.exp()[..., None] * S + _written(q, v)
    return _read(k, S), S


@wrong.part
def multiplies_by_the_logarithm(S, q, k, v, log_decay):
    """You multiply the memory by `log_decay` itself. It is the logarithm of the gate: 0 means that everything is kept. Take
    its exponential first."""
    S = log_decay[..., None] * S + _written(k, v)
    return _read(q, S), S


@wrong.part
def writes_what_the_gate_closes(S, q, k, v, log_decay):
    """You write with 1 - gate, as the update gate of a GRU does. Here the gate decides only what is kept; a position is
    written whole."""
    gate = log_decay.exp()[..., None]
    S = gate * S + (1 - gate) * _written(k, v)
    return _read(q, S), S


@wrong.part
def transposes_the_outer_product(S, q, k, v, log_decay):
    """You exchange the axes of S, as you write it or as you read it: it is (d_k, d_v), with the key down the rows. The other
    way fits only where d_k = d_v, and then it is transposed."""
    S = log_decay.exp()[..., None] * S + v[..., :, None] * k[..., None, :]
    return _read(q, S), S


@wrong.part
def returns_the_old_memory(S, q, k, v, log_decay):
    """Your context is right, but the memory that you return is the one that came in. The next step then lacks this position."""
    return _read(q, log_decay.exp()[..., None] * S + _written(k, v)), S


@wrong.part
def lets_all_channels_fade_alike(S, q, k, v, log_decay):
    """You take the mean of the gates, so all rows of the memory fade alike. Each row, a channel of the keys, has its own
    gate."""
    S = log_decay.exp().mean(-1)[..., None, None] * S + _written(k, v)
    return _read(q, S), S


@wrong.part
def writes_all_sequences_into_one_memory(S, q, k, v, log_decay):
    """You sum what is written over the batch, and add it to every S. Each sequence and each head has its own memory; with a
    single one the mistake has no effect."""
    S = log_decay.exp()[..., None] * S + torch.einsum("...k,...d->kd", k, v)
    return _read(q, S), S


@wrong.part
def divides_by_what_the_query_finds(S, q, k, v, log_decay):
    """You divide the context by the similarity of query and key, as a normaliser. This memory has none: it is read as it
    is."""
    S = log_decay.exp()[..., None] * S + _written(k, v)
    return _read(q, S) / (q * k).sum(-1, keepdim=True), S


@wrong.detail
def reads_before_it_writes(S, q, k, v, log_decay):
    """You read the memory before this position is written. The position then does not attend to itself, and the very first one
    finds nothing."""
    faded = log_decay.exp()[..., None] * S
    return _read(q, faded), faded + _written(k, v)


@wrong.detail
def fades_after_it_writes(S, q, k, v, log_decay):
    """You write first and let all of it fade then. The new position loses a part of itself at once: only the old memory
    fades."""
    S = log_decay.exp()[..., None] * (S + _written(k, v))
    return _read(q, S), S


@wrong.detail
def reads_before_it_fades(S, q, k, v, log_decay):
    """You read from the memory that has not faded yet, with the new position added. The context must come from the S that you
    return."""
    return _read(q, S + _written(k, v)), log_decay.exp()[..., None] * S + _written(k, v)


@wrong.detail
def grows_instead_of_fading(S, q, k, v, log_decay):
    """You take exp(-log_decay), so the memory grows with each step. `log_decay` is negative already, and its exponential is
    the gate, at most 1."""
    S = (-log_decay).exp()[..., None] * S + _written(k, v)
    return _read(q, S), S


@wrong.detail
def takes_a_sigmoid(S, q, k, v, log_decay):
    """You take the sigmoid of `log_decay`, as if it were the input of a gate. It is the logarithm of the finished gate: its
    exponential is what is kept, and 0 keeps everything."""
    S = log_decay.sigmoid()[..., None] * S + _written(k, v)
    return _read(q, S), S


@wrong.detail
def scales_the_query(S, q, k, v, log_decay):
    """You divide the query by √d_k. No softmax follows that would saturate: the formula has no scale."""
    S = log_decay.exp()[..., None] * S + _written(k, v)
    return _read(q / q.shape[-1] ** 0.5, S), S


@wrong.detail
def lays_the_gates_along_the_columns(S, q, k, v, log_decay):
    """You multiply S by the gates as they are, and so along its columns. A gate belongs to a channel of the keys, which is a
    row: give the gates a last axis of size 1, [..., None]."""
    S = log_decay.exp()[..., None, :] * S + _written(k, v)
    return _read(q, S), S


@wrong.detail
def multiplies_key_by_value(S, q, k, v, log_decay):
    """You multiply key and value entry by entry, d_k numbers against d_v. What is written is an outer product:
    k[..., None] * v[..., None, :]."""
    S = log_decay.exp()[..., None] * S + (k * v)[..., None, :]
    return _read(q, S), S


@wrong.detail
def meets_the_query_with_rows(S, q, k, v, log_decay):
    """You multiply q @ S as they are: the batch of the queries is then taken for rows of one matrix. A query is one row, (…, 1,
    d_k): give it an axis of size 1, q[..., None, :], and take that axis away from what comes out."""
    S = log_decay.exp()[..., None] * S + _written(k, v)
    return q @ S, S


@wrong.case
def leaves_the_axis_of_the_product(S, q, k, v, log_decay):
    """Your context has an axis of size 1 left over from the product of a row and a matrix: take it away, by [..., 0, :] or
    squeeze(-2)."""
    S = log_decay.exp()[..., None] * S + _written(k, v)
    return q[..., None, :] @ S, S


@wrong.case
def squeezes_every_axis(S, q, k, v, log_decay):
    """You squeeze without saying which axis: a batch of size 1 is lost, too. Name the one that the product left over:
    squeeze(-2)."""
    S = log_decay.exp()[..., None] * S + _written(k, v)
    return (q[..., None, :] @ S).squeeze(), S


@wrong.case
def squeezes_axis_one(S, q, k, v, log_decay):
    """You squeeze axis 1, which is the one that the product left over only after exactly one batch axis. There may be none or
    several, as with heads: count from the back, squeeze(-2)."""
    S = log_decay.exp()[..., None] * S + _written(k, v)
    return (q[..., None, :] @ S).squeeze(1), S


@wrong.case
def expands_a_gate_that_is_missing(S, q, k, v, log_decay):
    """You take one gate for each channel for granted. There may be a single one for the whole head, (*batch, 1), which
    broadcasts by itself."""
    rows = [log_decay[..., i, None].exp() * S[..., i, :] for i in range(S.shape[-2])]
    S = torch.stack(rows, dim=-2) + _written(k, v)
    return _read(q, S), S


@wrong.case
def changes_the_memory_in_place(S, q, k, v, log_decay):
    """You change S in place, and with it the memory that the caller holds, who can then neither step from it again nor
    differentiate through it. Make a new tensor."""
    S *= log_decay.exp()[..., None]
    S += _written(k, v)
    return _read(q, S), S


@right
def in_einsum(S, q, k, v, log_decay):
    """Write and read as einsum."""
    S = torch.exp(log_decay).unsqueeze(-1) * S + torch.einsum("...k,...d->...kd", k, v)
    return torch.einsum("...k,...kd->...d", q, S), S


@right
def by_matrices(S, q, k, v, log_decay):
    """The gates as a diagonal matrix, the key as a column and the value as a row."""
    gates = torch.diag_embed(log_decay.exp().expand_as(k))
    S = gates @ S + k.unsqueeze(-1) @ v.unsqueeze(-2)
    return (q.unsqueeze(-2) @ S).squeeze(-2), S


@right
def row_by_row(S, q, k, v, log_decay):
    """A loop over the rows: each fades, is written, and adds its share to the context."""
    gates, rows, context = log_decay.exp().expand_as(k), [], torch.zeros_like(v)
    for i in range(k.shape[-1]):
        row = gates[..., i, None] * S[..., i, :] + k[..., i, None] * v
        rows.append(row)
        context = context + q[..., i, None] * row
    return context, torch.stack(rows, dim=-2)


@right
def in_double_precision(S, q, k, v, log_decay):
    """Reads the old memory and the new position apart, in float64, and casts both results back."""
    q, k, value = q.double(), k.double(), v.double()
    faded = torch.exp(log_decay.double()).unsqueeze(-1).mul(S.double())
    context = q.unsqueeze(-2).matmul(faded).squeeze(-2) + (q * k).sum(-1, keepdim=True) * value
    return context.to(v.dtype), torch.addcmul(faded, k.unsqueeze(-1), value.unsqueeze(-2)).to(S.dtype)


@stranger
def step_that_fades_by_half_the_logarithm(S, q, k, v, log_decay):
    return gated_step(S, q, k, v, log_decay / 2)


@stranger
def step_that_cuts_the_past_off(S, q, k, v, log_decay):
    return gated_step(S.detach(), q, k, v, log_decay)


@stranger
def step_that_writes_twice(S, q, k, v, log_decay):
    return gated_step(S, q, 2 * k, v, log_decay)


@stranger
def step_with_gates_in_the_wrong_order(S, q, k, v, log_decay):
    return gated_step(S, q, k, v, log_decay.flip(-1))


@stranger(makes=[reads_before_it_writes])
def step_by_einsum_on_the_faded_memory(S, q, k, v, log_decay):
    faded = torch.einsum("...k,...kd->...kd", log_decay.exp().expand_as(k), S)
    return torch.einsum("...k,...kd->...d", q, faded), torch.einsum("...k,...d->...kd", k, v) + faded


@stranger(makes=[multiplies_by_the_logarithm, fades_after_it_writes])
def step(S, q, k, v, log_decay):
    S = (S + k[..., :, None] * v[..., None, :]) * log_decay[..., None]
    return (q[..., None, :] @ S)[..., 0, :], S


def _inputs(draw: Draw, *batch: int, seen: bool = True, gates: bool = True) -> Call:
    """A memory that has seen something, or nothing, one more position, and a gate for each channel, or for all."""
    d_k, d_v = draw.sizes(2)
    S = draw.normal(*batch, d_k, d_v) * seen
    q, k, v = draw.normal(*batch, d_k), draw.normal(*batch, d_k), draw.normal(*batch, d_v)
    return S, q, k, v, -0.1 - 2 * draw.uniform(*batch, d_k if gates else 1)


def _kept(draw: Draw) -> Call:
    """All gates are open: nothing fades."""
    *inputs, log_decay = _inputs(draw, 1)
    return *inputs, 0 * log_decay


def _left_out(draw: Draw) -> Call:
    """Nothing is written: what is left is the memory, which has faded."""
    S, q, k, v, log_decay = _inputs(draw, 1)
    return S, q, k, 0 * v, log_decay


exercise = Exercise(
    id="18.1",
    title="A memory that fades",
    reference=gated_step,
    results=("context", "S"),
    properties=(
        runs_on(lambda draw: [_inputs(draw, 2)]),
        has_shape("A context, and a memory of the old size.", lambda draw: [_inputs(draw, 2), _inputs(draw)]),
        Property(
            "first",
            "From an empty memory, the context is (q · k) v.",
            lambda draw: [_inputs(draw, 1, seen=False)],
            right_result(0),
        ),
        Property("written", "With open gates, k vᵀ is added to S.", lambda draw: [_kept(draw)], right_result(1), points=2),
        Property(
            "faded", "Each row of S is multiplied by its gate.", lambda draw: [_left_out(draw)], right_result(1), points=2
        ),
        Property(
            "memory",
            "The old memory fades; what is written now does not.",
            lambda draw: [_inputs(draw, 1)],
            right_result(1),
            points=2,
            needs=("written", "faded"),
        ),
        Property(
            "context", "The context is read from the new memory.", lambda draw: [_inputs(draw, 1)], needs=("first", "memory")
        ),
        Property(
            "one gate",
            "A single gate lets all channels fade alike.",
            lambda draw: [_inputs(draw, 2, gates=False)],
            needs=("context",),
        ),
        Property(
            "batch",
            "Each sequence and each head has its own memory.",
            lambda draw: [_inputs(draw, 3), _inputs(draw, 2, 3), _inputs(draw)],
            needs=("context",),
        ),
        has_gradient(lambda draw: [_inputs(draw, 2), _inputs(draw, gates=False)], needs=("batch", "one gate")),
        leaves_inputs(lambda draw: [_inputs(draw, 2)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    hints=HINTS,
)
