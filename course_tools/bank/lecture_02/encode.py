"""Exercise 02.5, encode: read a padded batch of sequences with an Elman network."""

import torch

from course_lib.primitives import encode
from course_lib.primitives.recurrent import rnn_step
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
    "For one sequence without padding it is a loop: one step per token, each state kept. In a batch all sequences go "
    "through the loop together, though some have ended: what must happen to their state, and what does `states` hold "
    "for them?",
    "At time `t` the comparison `t < lengths` says which sequences still have a token; it is `(B,)`, a state is "
    "`(B, n)`. `torch.where` chooses between two tensors per sequence. Think of a sequence of length 0 as well: "
    "which state did it end in?",
    "Keep two things separate: the state of the loop, and the row that you record. The state becomes the new one "
    "where the token is real and *stays the old one* where it is not; the row is the state where the token is real "
    "and 0 where it is not. After the loop the state is that of the last real token. Write the rows into a tensor of "
    "zeros (B, T, n): stacking a list fails where T = 0.",
)


@wrong.part
def state_walks_on_over_the_padding(x, lengths, h, W, U, b):
    """You return the state after step T for every sequence. A shorter one has read its padding by then, and its last state
    depends on the padding."""
    states = []
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, W, U, b)
        states.append(torch.where((t < lengths)[:, None], h, 0.0))
    return torch.stack(states, dim=1), h


@wrong.part
def lengths_not_used(x, lengths, h, W, U, b):
    """You do not use the lengths: every sequence is read to step T, its padding included. Record 0 at padding, and keep the
    state of the last real token."""
    states = []
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, W, U, b)
        states.append(h)
    return torch.stack(states, dim=1), h


@stranger(makes=[lengths_not_used])
def lengths_not_used_without_a_list(x, lengths, h, W, U, b):
    states = x.new_zeros(len(x), x.shape[1], h.shape[-1])
    for t in range(x.shape[1]):
        states[:, t] = h = rnn_step(x[:, t], h, W, U, b)
    return states, h


@wrong.part
def padding_read_as_zeros(x, lengths, h, W, U, b):
    """You set the padding to 0 and let the network go on, as if a zero input had no effect. But U and b still act at each
    step, so the state moves on after the sequence has ended."""
    states = []
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = rnn_step(torch.where(real, x[:, t], 0.0), h, W, U, b)
        states.append(torch.where(real, h, 0.0))
    return torch.stack(states, dim=1), h


@wrong.detail
def padding_states_not_zeroed(x, lengths, h, W, U, b):
    """You hold the state where a sequence has ended, and record the held state at its padding too. The docstring asks for 0
    there; as it is, attention over the states would count the last token several times."""
    states = []
    for t in range(x.shape[1]):
        h = torch.where((t < lengths)[:, None], rnn_step(x[:, t], h, W, U, b), h)
        states.append(h)
    return torch.stack(states, dim=1), h


@wrong.detail
def state_reset_at_padding(x, lengths, h, W, U, b):
    """You set the state itself to 0 at padding, not only what you record. Every sequence that is followed by padding then ends
    in the state 0."""
    states = []
    for t in range(x.shape[1]):
        h = torch.where((t < lengths)[:, None], rnn_step(x[:, t], h, W, U, b), 0.0)
        states.append(h)
    return torch.stack(states, dim=1), h


@wrong.detail
def one_token_too_many(x, lengths, h, W, U, b):
    """You read one token of padding after the end of each shorter sequence. A sequence of length 1 has its only token at t =
    0."""
    states = []
    for t in range(x.shape[1]):
        real = (t <= lengths)[:, None]
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
        states.append(torch.where(real, h, 0.0))
    return torch.stack(states, dim=1), h


@wrong.part
def first_length_for_all(x, lengths, h, W, U, b):
    """You take the length of the first sequence for the whole batch. Longer sequences are cut off there, and shorter ones
    read their padding; each sequence has its own length."""
    states = []
    for t in range(x.shape[1]):
        real = t < lengths[0]
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
        states.append(torch.where(real, h, 0.0))
    return torch.stack(states, dim=1), h


@wrong.case
def empty_sequence_loses_its_state(x, lengths, h, W, U, b):
    """You pick the last state at the position before the length. For an empty sequence this is -1, which Python takes as
    the end of the axis, so you return the zeros of the last row instead of the initial state."""
    states = []
    for t in range(x.shape[1]):
        h = rnn_step(x[:, t], h, W, U, b)
        states.append(torch.where((t < lengths)[:, None], h, 0.0))
    states = torch.stack(states, dim=1)
    return states, states[torch.arange(len(x)), lengths - 1]


@wrong.detail
def starts_from_zero(x, lengths, h, W, U, b):
    """You start from a state of zeros and ignore the one you are given. The caller may pass a state that is not 0, for
    instance that of an earlier part of the text."""
    states, h = [], torch.zeros_like(h)
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
        states.append(torch.where(real, h, 0.0))
    return torch.stack(states, dim=1), h


@wrong.case
def gradient_cut_at_each_step(x, lengths, h, W, U, b):
    """You detach the state before each step. All numbers are right, but no gradient flows from a state to the one before: the
    network cannot learn to remember anything for longer than one step."""
    states = []
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = torch.where(real, rnn_step(x[:, t], h.detach(), W, U, b), h)
        states.append(torch.where(real, h, 0.0))
    return torch.stack(states, dim=1), h


@wrong.case
def initial_state_overwritten(x, lengths, h, W, U, b):
    """You write each new state into the tensor of the initial state. Your result is right, but it is the caller's
    tensor: a second call with the same initial state starts where the first one ended."""
    states = []
    for t in range(x.shape[1]):
        real = t < lengths
        h[real] = rnn_step(x[real, t], h[real], W, U, b)
        states.append(torch.where(real[:, None], h, 0.0))
    return torch.stack(states, dim=1), h


@wrong.part
def forgets_the_bias(x, lengths, h, W, U, b):
    """You never add b: a step is tanh(W x_t + U h_{t-1} + b)."""
    states = x.new_zeros(*x.shape[:2], len(b))
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = torch.where(real, torch.tanh(x[:, t] @ W.mT + h @ U.mT), h)
        states[:, t] = torch.where(real, h, 0.0)
    return states, h


@wrong.idea
def leaves_out_the_tanh(x, lengths, h, W, U, b):
    """Your step has no tanh: without the nonlinearity the network is linear and its state can grow without bound."""
    states = x.new_zeros(*x.shape[:2], len(b))
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = torch.where(real, x[:, t] @ W.mT + h @ U.mT + b, h)
        states[:, t] = torch.where(real, h, 0.0)
    return states, h


@wrong.part
def squashes_with_the_sigmoid(x, lengths, h, W, U, b):
    """You apply the sigmoid. Your states lie in 0…1; those of an Elman network are tanh, in -1…1."""
    states = x.new_zeros(*x.shape[:2], len(b))
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = torch.where(real, torch.sigmoid(x[:, t] @ W.mT + h @ U.mT + b), h)
        states[:, t] = torch.where(real, h, 0.0)
    return states, h


@wrong.part
def transposes_the_recurrent_matrix(x, lengths, h, W, U, b):
    """You multiply the state by U where Uᵀ is needed: the state is a row, so it is `h @ U.mT`. U is square, so no shape error
    tells you."""
    states = x.new_zeros(*x.shape[:2], len(b))
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = torch.where(real, torch.tanh(x[:, t] @ W.mT + h @ U + b), h)
        states[:, t] = torch.where(real, h, 0.0)
    return states, h


@wrong.idea
def forgets_the_state_before(x, lengths, h, W, U, b):
    """Your steps never use the state before them. Each state then depends on a single token, and order has no effect."""
    states = x.new_zeros(*x.shape[:2], len(b))
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = torch.where(real, torch.tanh(x[:, t] @ W.mT + b), h)
        states[:, t] = torch.where(real, h, 0.0)
    return states, h


@wrong.case
def fails_without_steps(x, lengths, h, W, U, b):
    """You stack a list with one state for each step. For T = 0 the list is empty and `torch.stack` raises an error, though
    the result is defined: states of shape (B, 0, n), and the initial state."""
    states = []
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
        states.append(torch.where(real, h, 0.0))
    return torch.stack(states, dim=1), h


@wrong.case
def runs_out_of_states(x, lengths, h, W, U, b):
    """You look up the state at index `length`, and there is none if a length is greater than T. Such a length counts as T."""
    states = [h]
    for x_t in x.unbind(1):
        states.append(rnn_step(x_t, states[-1], W, U, b))
    states = torch.stack(states, dim=1)
    real = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return states[:, 1:] * real[..., None], states[torch.arange(len(x)), lengths]


@wrong.part
def takes_the_last_column(x, lengths, h0, W, U, b):
    """Your last state is the last column of the recorded states. After padding that is 0: the last state of a sequence is the
    one at its last real token."""
    states, _ = encode(x, lengths, h0, W, U, b)
    return states, states[:, -1]


@wrong.case
def reads_the_last_state_of_an_empty_sequence(x, lengths, h, W, U, b):
    """You read the last state at index length - 1. For an empty sequence this is -1, the end of the row; it keeps its initial
    state."""
    T, states = x.shape[1], []
    for x_t in x.unbind(1):
        states.append(rnn_step(x_t, states[-1] if states else h, W, U, b))
    states = torch.stack(states, 1) if T else x.new_zeros(len(x), 0, len(b))
    last = states[torch.arange(len(x)), lengths.clamp(max=T) - 1] if T else h
    return states * (torch.arange(T) < lengths[:, None])[..., None], last


@right
def by_picking_the_last_state(x, lengths, h, W, U, b):
    """Run over everything, keep the initial state in front, and pick the state at index `length`."""
    states = [h]
    for x_t in x.unbind(1):
        states.append(rnn_step(x_t, states[-1], W, U, b))
    states = torch.stack(states, dim=1)
    real = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return states[:, 1:].masked_fill(~real[..., None], 0.0), states[torch.arange(len(x)), lengths.clamp(max=x.shape[1])]


@right
def by_loop_over_sequences(x, lengths, h, W, U, b):
    """One sequence after the other, each only as far as it goes, then filled up with zeros."""
    all_states, last = [], []
    for sequence, length, state in zip(x, lengths.tolist(), h, strict=True):
        rows = []
        for x_t in sequence[:length]:
            state = rnn_step(x_t, state, W, U, b)
            rows.append(state)
        rows += [torch.zeros_like(state)] * (len(sequence) - length)
        all_states.append(torch.cat([state.new_zeros(0, len(b)), *(row[None] for row in rows)]))
        last.append(state)
    return torch.stack(all_states), torch.stack(last)


@right
def by_packing(x, lengths, h, W, U, b):
    """Sorted by length, so that each step computes only the sequences still running; the order restored at the end."""
    order = lengths.argsort(descending=True)
    x, h, back = x[order], h[order], order.argsort()
    states = []
    for t in range(x.shape[1]):
        n_running = int((lengths > t).sum())
        running = rnn_step(x[:n_running, t], h[:n_running], W, U, b)
        states.append(torch.cat([running, torch.zeros_like(h[n_running:])]))
        h = torch.cat([running, h[n_running:]])
    return torch.stack([*states, h], dim=1)[back, :-1], h[back]


@right
def by_products_before_the_loop(x, lengths, h, W, U, b):
    """Padding set to 0, all inputs multiplied by W at once; in the loop a factor of 0 or 1 on each change."""
    padded = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
    from_inputs = torch.einsum("btd,nd->btn", x.masked_fill(padded[..., None], 0.0), W) + b
    real = (~padded).to(x.dtype)[..., None]
    states = [h]
    for t in range(x.shape[1]):
        states.append(states[-1] + real[:, t] * (torch.tanh(from_inputs[:, t] + states[-1] @ U.mT) - states[-1]))
    return torch.stack(states, dim=1)[:, 1:] * real, states[-1]


@stranger
def encode_reads_backwards(x, lengths, h, W, U, b):
    states = []
    for t in reversed(range(x.shape[1])):
        real = (t < lengths)[:, None]
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
        states.append(torch.where(real, h, 0.0))
    return torch.stack(states[::-1], dim=1), h


@stranger
def encode_records_the_state_before_the_step(x, lengths, h, W, U, b):
    states = []
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        states.append(torch.where(real, h, 0.0))
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
    return torch.stack(states, dim=1), h


@stranger
def encode_leaves_the_batch_sorted(x, lengths, h, W, U, b):
    order = lengths.argsort(descending=True)
    x, h, lengths, states = x[order], h[order], lengths[order], []
    for t in range(x.shape[1]):
        real = (t < lengths)[:, None]
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
        states.append(torch.where(real, h, 0.0))
    return torch.stack(states, dim=1), h


@stranger
def encode_counts_the_lengths_down(x, lengths, h, W, U, b):
    states = []
    for t in range(x.shape[1]):
        real = (lengths > 0)[:, None]
        h = torch.where(real, rnn_step(x[:, t], h, W, U, b), h)
        states.append(torch.where(real, h, 0.0))
        lengths -= 1
    return torch.stack(states, dim=1), h


@stranger(makes=[state_walks_on_over_the_padding])
def encode_takes_the_last_column(x, lengths, h, W, U, b):
    states = [h]
    for t in range(x.shape[1]):
        states.append(torch.tanh(x[:, t] @ W.T + states[-1] @ U.T + b))
    after = torch.stack(states[1:], 1)
    return after * (torch.arange(x.shape[1]) < lengths[:, None])[..., None], states[-1]


@stranger(makes=[padding_states_not_zeroed, starts_from_zero])
def read_with_two_mistakes(x, lengths, h, W, U, b):
    h, states = torch.zeros_like(h), []
    for t in range(x.shape[1]):
        h = torch.where((t < lengths)[:, None], rnn_step(x[:, t], h, W, U, b), h)
        states.append(h)
    return torch.stack(states, dim=1), h


def _sentences(draw: Draw, lengths: list[int], T: int, scale_h: float = 1.0) -> Call:
    """Sentences of these lengths, with large numbers in the padding."""
    d, n = draw.sizes(2)
    x, ends = draw.normal(len(lengths), T, d), torch.tensor(lengths)
    x = torch.where((torch.arange(T) < ends[:, None])[..., None], x, 30.0 * draw.normal(len(lengths), T, d))
    h = draw.normal(len(lengths), n, scale=scale_h)
    return x, ends, h, draw.normal(n, d, scale=0.5), draw.normal(n, n, scale=0.5), draw.normal(n, scale=0.5)


exercise = Exercise(
    id="02.5",
    title="Read a padded batch",
    extra=True,
    reference=encode,
    results=("states", "h"),
    properties=(
        runs_on(lambda draw: [_sentences(draw, [5, 3], 5)]),
        has_shape("All states, and the last state of each sequence.", lambda draw: [_sentences(draw, [5, 3], 5)]),
        Property("one step", "A sequence of one token takes one step.", lambda draw: [_sentences(draw, [1], 1)]),
        Property(
            "steps",
            "Each step starts from the state before it.",
            lambda draw: [_sentences(draw, [4], 4), _sentences(draw, [3, 3], 3)],
            needs=("one step",),
        ),
        Property(
            "padding",
            "The states at padding are 0.",
            lambda draw: [_sentences(draw, [5, 2, 3], 5)],
            right_result(0),
            needs=("steps",),
        ),
        Property(
            "last state",
            "The last state is the one after the last real token.",
            lambda draw: [_sentences(draw, [5, 2, 3], 5), _sentences(draw, [1, 4], 7)],
            right_result(1),
            points=2,
            needs=("steps",),
        ),
        Property(
            "empty",
            "An empty sequence keeps its initial state, and a length beyond T counts as T.",
            lambda draw: [_sentences(draw, [3, 0], 3), _sentences(draw, [3, 7], 5)],
            needs=("padding", "last state"),
        ),
        Property(
            "no step",
            "Where T = 0, states is (B, 0, n) and the last state the initial one.",
            lambda draw: [_sentences(draw, [0, 0], 0)],
            needs=("steps",),
        ),
        has_gradient(lambda draw: [_sentences(draw, [5, 2, 3], 5)], needs=("padding", "last state")),
        leaves_inputs(lambda draw: [_sentences(draw, [5, 2, 3], 5)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "new_zeros takes the kind and the device alone, and these are the same for every input.": (
            "detach: x.detach().new_zeros",
            "other name: h.new_zeros",
            "other name: W.new_zeros",
            "other name: U.new_zeros",
            "other name: b.new_zeros",
        ),
        (
            "Only a size is read, and these sizes agree: W, U and b have a row for each unit, the states a column for "
            "each step."
        ): (
            "detach: x.detach().shape (2)",
            "detach: len(b.detach())",
            "other name: len(W)",
            "other name: len(U)",
            "detach: x.detach().shape",
            "other name: states.shape",
        ),
        "Integers and bools carry no gradient.": (
            "detach: t < lengths.detach()",
            "detach: torch.where(real.detach(), rnn_step(x[:, t], h, W, U, b), h)",
            "detach: torch.where(real.detach(), h, 0.0)",
        ),
    },
    hints=HINTS,
)
