"""Exercise 03.5, caption_step: what students answer, wrong and right."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from course_lib.models import CaptionStep, caption_step, soft_attention
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
    (
        "Put four computations in order: the new state, the attention over the image, the logits, the gate. Which of them "
        "use the state *before* the word, and which the state after it?"
    ),
    (
        "Attend with the old h; the gate, a sigmoid of the old h, scales the context to ẑ. The input of the LSTM is the "
        "embedded word and ẑ, concatenated, the word first. The logits come from a sum of three vectors of size d_y, the "
        "embedded word among them, and use the *new* h."
    ),
    (
        "Three calls in this order: `soft_attention` on the old h; the gate, a sigmoid of a linear layer of the old h, "
        "times the context; `lstm_step` on y and the gated context, joined. The logits add y, the *new* h by `L_h` and "
        "the gated context by `L_z`, and only this sum goes through `L_o`."
    ),
)


def _seen(h, regions, attention, gate):
    """The gated context ẑ, the bare one, and the weights."""
    context, weights = soft_attention(regions, h, *attention)
    return torch.sigmoid(h @ gate[0].mT + gate[1]) * context, context, weights


def _read(y, z, h, c, cell):
    return lstm_step(torch.cat([y, z], dim=-1), h, c, *cell)


def _say(y, h, z, readout):
    L_h, L_z, L_o = readout
    return (y + h @ L_h.mT + z @ L_z.mT) @ L_o.mT


@wrong.part
def forgets_the_gate(y, h, c, regions, attention, gate, cell, readout):
    """The gate β is missing from your context, or it is always 1, as a softmax of one number is. Then the image has full weight
    at words like "of" too, which do not depend on it."""
    _, context, weights = _seen(h, regions, attention, gate)
    h, c = _read(y, context, h, c, cell)
    return CaptionStep(_say(y, h, context, readout), h, c, weights)


@wrong.detail
def gates_without_a_sigmoid(y, h, c, regions, attention, gate, cell, readout):
    """You multiply the context by f h + b as it is, without the sigmoid. That number may be negative or large; a gate lies
    between 0 and 1."""
    context, weights = soft_attention(regions, h, *attention)
    z = (h @ gate[0].mT + gate[1]) * context
    h, c = _read(y, z, h, c, cell)
    return CaptionStep(_say(y, h, z, readout), h, c, weights)


@wrong.detail
def gates_the_weights(y, h, c, regions, attention, gate, cell, readout):
    """You multiply the returned weights by the gate. The gated context is right, but the weights are a distribution over
    regions and sum to 1; the gate acts on the context."""
    z, _, weights = _seen(h, regions, attention, gate)
    scaled = torch.sigmoid(h @ gate[0].mT + gate[1]) * weights
    h, c = _read(y, z, h, c, cell)
    return CaptionStep(_say(y, h, z, readout), h, c, scaled)


@wrong.part
def gates_for_the_lstm_alone(y, h, c, regions, attention, gate, cell, readout):
    """You give the LSTM the gated context, and the readout the one without the gate. There is one ẑ, and both get it."""
    z, context, weights = _seen(h, regions, attention, gate)
    h, c = _read(y, z, h, c, cell)
    return CaptionStep(_say(y, h, context, readout), h, c, weights)


@wrong.part
def looks_after_reading(y, h, c, regions, attention, gate, cell, readout):
    """You attend again with the new state, and the readout uses that context. Attention is computed once, with the state
    before the word; your weights belong to the next word."""
    z, _, _ = _seen(h, regions, attention, gate)
    h, c = _read(y, z, h, c, cell)
    z, _, weights = _seen(h, regions, attention, gate)
    return CaptionStep(_say(y, h, z, readout), h, c, weights)


@wrong.detail
def puts_the_picture_before_the_word(y, h, c, regions, attention, gate, cell, readout):
    """You concatenate ẑ first and the word second. The size is the same, so there is no error, but the columns of W that
    belong to the word now act on the context."""
    z, _, weights = _seen(h, regions, attention, gate)
    h, c = lstm_step(torch.cat([z, y], dim=-1), h, c, *cell)
    return CaptionStep(_say(y, h, z, readout), h, c, weights)


@wrong.idea
def speaks_from_the_old_state(y, h, c, regions, attention, gate, cell, readout):
    """You compute the logits from the state before the word. The LSTM's input then has an effect only one word later; the
    readout uses the new h."""
    z, _, weights = _seen(h, regions, attention, gate)
    new = _read(y, z, h, c, cell)
    return CaptionStep(_say(y, h, z, readout), *new, weights)


@wrong.part
def forgets_the_word_in_the_readout(y, h, c, regions, attention, gate, cell, readout):
    """You compute the logits from the state and the context alone. The embedded word is a term of the sum too, y + L_h h + L_z
    ẑ."""
    z, _, weights = _seen(h, regions, attention, gate)
    h, c = _read(y, z, h, c, cell)
    return CaptionStep(_say(torch.zeros_like(y), h, z, readout), h, c, weights)


@wrong.detail
def speaks_in_probabilities(y, h, c, regions, attention, gate, cell, readout):
    """You finish with a softmax. Asked for are logits: the loss takes the softmax itself, and a second one makes all words
    nearly equally likely."""
    z, _, weights = _seen(h, regions, attention, gate)
    h, c = _read(y, z, h, c, cell)
    return CaptionStep(_say(y, h, z, readout).softmax(-1), h, c, weights)


@wrong.case
def returns_the_old_state(y, h, c, regions, attention, gate, cell, readout):
    """You return the old states. Your logits are right, but the next step must start from the new h and c."""
    z, _, weights = _seen(h, regions, attention, gate)
    return CaptionStep(_say(y, _read(y, z, h, c, cell)[0], z, readout), h, c, weights)


@wrong.part
def forgets_the_context_in_the_readout(y, h, c, regions, attention, gate, cell, readout):
    """Your logits do not depend directly on the gated context ẑ: the term L_z ẑ is missing from L_o (E y + L_h h_t + L_z ẑ)."""
    L_h, L_z, L_o = readout
    return caption_step(y, h, c, regions, attention, gate, cell, (L_h, torch.zeros_like(L_z), L_o))


@wrong.part
def forgets_the_state_in_the_readout(y, h, c, regions, attention, gate, cell, readout):
    """Your logits do not depend on the new state: the term L_h h_t is missing from L_o (E y + L_h h_t + L_z ẑ)."""
    L_h, L_z, L_o = readout
    return caption_step(y, h, c, regions, attention, gate, cell, (torch.zeros_like(L_h), L_z, L_o))


@wrong.detail
def gates_by_a_tanh(y, h, c, regions, attention, gate, cell, readout):
    """You apply a tanh to f h + b. A gate is a sigmoid, between 0 and 1; yours may be negative and turn the context around."""
    context, weights = soft_attention(regions, h, *attention)
    z = torch.tanh(h @ gate[0].mT + gate[1]) * context
    h, c = _read(y, z, h, c, cell)
    return CaptionStep(_say(y, h, z, readout), h, c, weights)


@wrong.part
def gates_for_the_readout_alone(y, h, c, regions, attention, gate, cell, readout):
    """You give the readout the gated context, and the LSTM the one without the gate. Both get ẑ = β · context."""
    z, context, weights = _seen(h, regions, attention, gate)
    h, c = _read(y, context, h, c, cell)
    return CaptionStep(_say(y, h, z, readout), h, c, weights)


@wrong.detail
def asks_with_the_cell_state(y, h, c, regions, attention, gate, cell, readout):
    """You attend with the cell state c. The query is the state h before the word."""
    context, weights = soft_attention(regions, c, *attention)
    z = torch.sigmoid(h @ gate[0].mT + gate[1]) * context
    h, c = _read(y, z, h, c, cell)
    return CaptionStep(_say(y, h, z, readout), h, c, weights)


@wrong.detail
def gates_anew_for_the_readout(y, h, c, regions, attention, gate, cell, readout):
    """You compute a second gate, of the new state, for the readout. β is computed once, from the state before the word, and ẑ
    is the same in both places."""
    z, context, weights = _seen(h, regions, attention, gate)
    h, c = _read(y, z, h, c, cell)
    z = torch.sigmoid(h @ gate[0].mT + gate[1]) * context
    return CaptionStep(_say(y, h, z, readout), h, c, weights)


@wrong.detail
def speaks_in_log_probabilities(y, h, c, regions, attention, gate, cell, readout):
    """You finish with a log-softmax. Asked for are logits, before any normalisation."""
    logits, h, c, weights = caption_step(y, h, c, regions, attention, gate, cell, readout)
    return CaptionStep(logits.log_softmax(-1), h, c, weights)


@wrong.detail
def bends_the_readout(y, h, c, regions, attention, gate, cell, readout):
    """You put a tanh around the sum before L_o. The readout here has no nonlinearity: L_o (E y + L_h h_t + L_z ẑ)."""
    z, _, weights = _seen(h, regions, attention, gate)
    h, c = _read(y, z, h, c, cell)
    L_h, L_z, L_o = readout
    return CaptionStep(torch.tanh(y + h @ L_h.mT + z @ L_z.mT) @ L_o.mT, h, c, weights)


@wrong.detail
def gates_the_word_too(y, h, c, regions, attention, gate, cell, readout):
    """You multiply the word by the gate too. β scales the context alone: [y; β ẑ]."""
    z, weights = soft_attention(regions, h, *attention)
    beta = torch.sigmoid(F.linear(h, *gate))
    new, c_new = lstm_step(beta * torch.cat([y, z], -1), h, c, *cell)
    return _say(y, new, beta * z, readout), new, c_new, weights


@right
def with_torch_cells(y, h, c, regions, attention, gate, cell, readout):
    """torch's own LSTM cell and linear layers, the attention as one broadcast sum."""
    (W_a, W_h, v), (L_h, L_z, L_o) = attention, readout
    alpha = F.linear(torch.tanh(F.linear(regions, W_a) + F.linear(h, W_h).unsqueeze(1)), v[None]).softmax(1)
    z = F.linear(h, *gate).sigmoid() * (alpha * regions).sum(1)
    W, U, b = cell
    h, c = torch.lstm_cell(torch.cat((y, z), 1), (h, c), W, U, b, torch.zeros_like(b))
    return F.linear(y + F.linear(h, L_h) + F.linear(z, L_z), L_o), h, c, alpha.squeeze(-1)


@right
def with_the_matrices_parted(y, h, c, regions, attention, gate, cell, readout):
    """The image gated before it is mixed, W cut into a part for the word and one for ẑ, each gate of the LSTM for itself."""
    weights = soft_attention(regions, h, *attention).weights
    z = torch.einsum("bl,bld->bd", torch.sigmoid(torch.einsum("bn,on->bo", h, gate[0]) + gate[1]) * weights, regions)
    W_y, W_z = cell[0].tensor_split([y.shape[1]], dim=1)
    i, f, g, o = (y @ W_y.T + z @ W_z.T + h @ cell[1].T + cell[2]).unflatten(1, (4, -1)).unbind(1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    parts = torch.cat([y, h, z], dim=1) @ torch.cat([torch.eye(y.shape[1]).to(y), *readout[:2]], dim=1).T
    return parts @ readout[2].T, h, c, weights


@right
def picture_by_picture_in_double_precision(y, h, c, regions, attention, gate, cell, readout):
    """A loop over the batch in float64, vectors and matrices only."""
    (W_a, W_h, v), (f, b), (W, U, d), (L_h, L_z, L_o) = (
        [w.double() for w in part] for part in (attention, gate, cell, readout)
    )
    rows = []
    for word, state, memory, picture in zip(y.double(), h.double(), c.double(), regions.double(), strict=True):
        alpha = (torch.tanh(picture @ W_a.T + W_h.mv(state)) @ v).softmax(0)
        z = torch.sigmoid(f.mv(state) + b) * (alpha @ picture)
        state, memory = lstm_step(torch.cat([word, z]), state, memory, W, U, d)
        rows.append((L_o.mv(word + L_h.mv(state) + L_z.mv(z)), state, memory, alpha))
    return tuple(torch.stack(column).to(y.dtype) for column in zip(*rows, strict=True))


@stranger
def word_of_another_picture(y, h, c, regions, attention, gate, cell, readout):
    return caption_step(y, h, c, -regions, attention, gate, cell, readout)


@stranger
def word_with_a_closed_gate(y, h, c, regions, attention, gate, cell, readout):
    return caption_step(y, h, c, regions, attention, (gate[0], gate[1] - 50), cell, readout)


@stranger
def word_with_a_deep_tanh(y, h, c, regions, attention, gate, cell, readout):
    logits, *rest = caption_step(y, h, c, regions, attention, gate, cell, readout)
    return logits.tanh(), *rest


@stranger(makes=[forgets_the_gate, speaks_in_probabilities])
def word_without_gate_in_probabilities(y, h, c, regions, attention, gate, cell, readout):
    context, weights = soft_attention(regions, h, *attention)
    h, c = lstm_step(torch.cat([y, context], dim=-1), h, c, *cell)
    L_h, L_z, L = readout
    return CaptionStep(((y + h @ L_h.mT + context @ L_z.mT) @ L.mT).softmax(-1), h, c, weights)


def _word(draw: Draw, B: int, remembers: float = 1.0, decides: float = 1.0) -> Call:
    """One word of B captions; `remembers` is how large the old states are, `decides` how much the gate has to say."""
    d_y, n, L, d_a, m, n_tokens = (size + (size == B) for size in draw.sizes(6))
    attention = draw.normal(m, d_a), draw.normal(m, n), draw.normal(m)
    gate = draw.normal(1, n, scale=decides), draw.normal(1, scale=decides)
    cell = 0.5 * draw.normal(4 * n, d_y + d_a), 0.5 * draw.normal(4 * n, n), draw.normal(4 * n)
    readout = draw.normal(d_y, n), draw.normal(d_y, d_a), draw.normal(n_tokens, d_y)
    h, c = draw.normal(B, n, scale=remembers), draw.normal(B, n, scale=remembers)
    return draw.normal(B, d_y), h, c, 1.0 + draw.normal(B, L, d_a), attention, gate, cell, readout


def _mute(call: Call) -> Call:
    """The same word with a readout that leaves the image and the state out."""
    *given, (L_h, L_z, L_o) = call
    return *given, (torch.zeros_like(L_h), torch.zeros_like(L_z), L_o)


def _words(*B: int, **how: float) -> Callable[[Draw], list[Call]]:
    return lambda draw: [_word(draw, b, **how) for b in B]


exercise = Exercise(
    id="03.5",
    title="One step of a captioner with attention",
    reference=caption_step,
    properties=(
        runs_on(_words(2)),
        has_shape("Logits, the new h and c, and the weights.", _words(2, 1)),
        Property("attention", "Attention uses the state before the word.", _words(1, 1), right_result(3), points=2),
        Property(
            "half open",
            "With f and b of 0 the gate is 0.5; the LSTM's input is the word, then ẑ.",
            _words(1, 1, decides=0.0),
            right_result(1, 2),
            points=2,
            needs=("attention",),
        ),
        Property(
            "gate",
            "The gate, a sigmoid of the old state, scales the context.",
            _words(1, 1),
            right_result(1, 2),
            needs=("half open",),
        ),
        Property(
            "word",
            "The embedded previous word is a term of the logits.",
            lambda draw: [_mute(_word(draw, 1)), _mute(_word(draw, 2))],
            right_result(0),
        ),
        Property(
            "readout",
            "The logits add the word, the new state and the gated context.",
            _words(1, 1),
            points=2,
            needs=("gate", "word"),
        ),
        Property("batch", "Each caption has its own image and state.", _words(3, 2), needs=("readout",)),
        has_gradient(_words(2), needs=("batch",)),
        leaves_inputs(_words(2)),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "The last of two axes is axis 1.": ("drop sign: torch.cat([y, z], dim=1)",),
    },
    hints=HINTS,
)
