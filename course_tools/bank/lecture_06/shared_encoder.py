"""Exercise 06.4, shared_encoder: what students answer, wrong and right."""

from collections.abc import Callable
from functools import reduce

import torch
import torch.nn.functional as F

from course_lib.attention import multi_head_attention
from course_lib.blocks import encoder_block, feed_forward
from course_lib.models import shared_encoder, step_encoding
from course_lib.primitives import layer_norm, sinusoidal_positions
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
        "Draw two steps in a column: states, an addition, the block, states, an addition, the block. Which of these boxes "
        "have weights, and are they the same? What is different in the second addition?"
    ),
    (
        "It is one loop over the steps 1 … n_steps. In each, add the encoding of *this* step to the states as they are now, "
        "and give the sum to the block; what it returns are the states of the next step."
    ),
    (
        "The loop counts its steps from 1. In each, the encoding of that step is added to the state, out of place, and "
        "the sum goes through the *same* block. T and d_model come from the shape of x."
    ),
)


def _encoding(x, step):
    """The encoding of a step for these states."""
    return step_encoding(x.shape[1], x.shape[2], step)


@wrong.part
def encodes_once(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You add the encoding before the first step only. In a Universal Transformer the encodings of position and step are
    added before every step; your later steps have none."""
    for step in range(1, n_steps + 1):
        x = encoder_block(x + _encoding(x, 1) if step == 1 else x, attention, network, norms, n_heads, mask)
    return x


@wrong.idea
def never_encodes(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You apply the block n_steps times without any encoding, so it is independent of the order of the tokens and of the
    step."""
    for _ in range(n_steps):
        x = encoder_block(x, attention, network, norms, n_heads, mask)
    return x


@wrong.part
def tells_the_place_only(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You add the sinusoids of the positions before each step, but not those of the step. Your block is then the same
    function at every step."""
    for _ in range(n_steps):
        x = encoder_block(x + sinusoidal_positions(*x.shape[1:]), attention, network, norms, n_heads, mask)
    return x


@wrong.detail
def counts_steps_from_zero(x, attention, network, norms, n_heads, n_steps, mask=None):
    """Your steps run from 0 to n_steps - 1, as `range(n_steps)` gives them. They are counted from 1, so each of yours gets the
    encoding of the one before."""
    for step in range(n_steps):
        x = encoder_block(x + _encoding(x, step), attention, network, norms, n_heads, mask)
    return x


@wrong.detail
def encodes_after_the_block(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You add the encoding to what the block returns. The first step then has none, and the last encoding is in the result;
    add it before the block."""
    for step in range(1, n_steps + 1):
        x = encoder_block(x, attention, network, norms, n_heads, mask) + _encoding(x, step)
    return x


@wrong.idea
def begins_anew_each_time(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You apply the block to the initial states at every step. The results of the earlier steps are lost; each step
    continues from the output of the one before."""
    y = x
    for step in range(1, n_steps + 1):
        y = encoder_block(x + _encoding(x, step), attention, network, norms, n_heads, mask)
    return y


@wrong.detail
def adds_a_second_residual(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You add what the block returns to the states. The block has its residual connections inside; the states after a step
    are its output alone."""
    for step in range(1, n_steps + 1):
        x = x + encoder_block(x + _encoding(x, step), attention, network, norms, n_heads, mask)
    return x


@wrong.detail
def forgets_the_mask(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You do not pass the mask on to the block. At every step each token attends to the padding."""
    for step in range(1, n_steps + 1):
        x = encoder_block(x + _encoding(x, step), attention, network, norms, n_heads)
    return x


@wrong.detail
def cuts_the_graph_between_steps(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You detach the states after each step but the last. Your numbers are right, but the shared weights learn from the
    last step alone, and nothing reaches the input."""
    for step in range(1, n_steps + 1):
        x = encoder_block(x + _encoding(x, step), attention, network, norms, n_heads, mask)
        x = x.detach() if step < n_steps else x
    return x


@wrong.case
def overwrites_the_states(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You add the encoding with `+=` in place. At the first step x is still the caller's own tensor, and it comes back
    changed."""
    for step in range(1, n_steps + 1):
        x += _encoding(x, step)
        x = encoder_block(x, attention, network, norms, n_heads, mask)
    return x


@wrong.idea
def takes_one_step_only(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You apply the block once and never use n_steps."""
    return shared_encoder(x, attention, network, norms, n_heads, 1, mask)


@wrong.detail
def takes_one_step_too_few(x, attention, network, norms, n_heads, n_steps, mask=None):
    """Your loop ends one step too early: range(1, n_steps) leaves out the step n_steps."""
    return shared_encoder(x, attention, network, norms, n_heads, max(n_steps - 1, 0), mask)


@wrong.detail
def inverts_the_mask(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You invert the mask, as torch's own encoder needs it. In this course True = may attend, so in every step your tokens
    attend to exactly the forbidden positions."""
    return shared_encoder(x, attention, network, norms, n_heads, n_steps, None if mask is None else ~mask)


@wrong.detail
def encodes_the_last_step_each_time(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You add the encoding of step n_steps at every step. Each step has its own: step 1 first."""
    for _ in range(n_steps):
        x = encoder_block(x + _encoding(x, n_steps), attention, network, norms, n_heads, mask)
    return x


@wrong.detail
def encodes_as_many_positions_as_sequences(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You make encodings for x.shape[0] positions, the size of the batch. The positions are the last axis but one,
    x.shape[-2]."""
    for step in range(1, n_steps + 1):
        P = step_encoding(x.shape[0], x.shape[-1], step)
        x = encoder_block(x + P, attention, network, norms, n_heads, mask)
    return x


@wrong.detail
def masks_the_first_step_alone(x, attention, network, norms, n_heads, n_steps, mask=None):
    """You pass the mask on at the first step alone. The padding must be hidden at every step."""
    for step in range(1, n_steps + 1):
        x = encoder_block(x + _encoding(x, step), attention, network, norms, n_heads, mask if step == 1 else None)
    return x


@right
def by_recursion(x, attention, network, norms, n_heads, n_steps, mask=None):
    """The states after n steps are one step from those after n - 1."""
    if n_steps == 0:
        return x
    before = by_recursion(x, attention, network, norms, n_heads, n_steps - 1, mask)
    encoding = step_encoding(x.shape[1], x.shape[2], n_steps)
    return encoder_block(before + encoding, attention, network, norms, n_heads, mask)


@right
def as_a_fold(x, attention, network, norms, n_heads, n_steps, mask=None):
    """All encodings made beforehand, positions and steps from one table, and folded into the states one by one."""
    T, d_model = x.shape[1:]
    table = sinusoidal_positions(T + n_steps + 1, d_model)
    encodings = table[:T] + table[1 : n_steps + 1, None]
    return reduce(lambda h, P: encoder_block(h + P, attention, network, norms, n_heads, mask), encodings, x)


@right
def with_the_block_written_out(x, attention, network, norms, n_heads, n_steps, mask=None):
    """The two halves of the block in the loop, every step ending in torch's own norm."""
    step = 0
    while step < n_steps:
        step += 1
        h = x + _encoding(x, step)[None]
        h = layer_norm(h + multi_head_attention(h, h, h, *attention, n_heads, mask).context, *norms[0])
        x = F.layer_norm(feed_forward(h, *network) + h, x.shape[-1:], *norms[1])
    return x


@right
def in_double_precision(x, attention, network, norms, n_heads, n_steps, mask=None):
    """Everything in float64, with an iterator of encodings."""
    weights = [tuple(w.double() for w in group) for group in (attention, network, *norms)]
    states = x.double()
    for encoding in (_encoding(x, step).double() for step in range(1, n_steps + 1)):
        states = encoder_block(states.add(encoding), weights[0], weights[1], (weights[2], weights[3]), n_heads, mask)
    return states.to(x.dtype)


@stranger
def encoder_of_half_the_encoding(x, attention, network, norms, n_heads, n_steps, mask=None):
    for step in range(1, n_steps + 1):
        x = encoder_block(x + step_encoding(*x.shape[1:], step) / 2, attention, network, norms, n_heads, mask)
    return x


@stranger
def encoder_that_turns_the_weights(x, attention, network, norms, n_heads, n_steps, mask=None):
    return shared_encoder(x, (*attention[1:], attention[0]), network, norms, n_heads, n_steps, mask)


@stranger
def encoder_of_an_average(x, attention, network, norms, n_heads, n_steps, mask=None):
    states = [shared_encoder(x, attention, network, norms, n_heads, n, mask) for n in range(n_steps + 1)]
    return torch.stack(states).mean(0)


@stranger(makes=[tells_the_place_only, forgets_the_mask])
def encoder_without_steps_and_mask(x, attention, network, norms, n_heads, n_steps, mask=None):
    for _ in range(n_steps):
        x = encoder_block(x + sinusoidal_positions(*x.shape[1:]), attention, network, norms, n_heads)
    return x


def _pair(draw: Draw, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    return 1.0 + 0.5 * draw.normal(d), draw.normal(d)


def _stack(draw: Draw, B: int, n_steps: int, n_heads: int = 2) -> Call:
    T, half, d_ff = draw.sizes(3)
    d = n_heads * half
    attention = (*(draw.normal(d, d, scale=d**-0.5) for _ in range(3)), draw.normal(d, d, scale=0.5))
    network = draw.normal(d_ff, d, scale=0.5), draw.normal(d_ff), draw.normal(d, d_ff, scale=0.5), 0.5 * draw.normal(d)
    return 0.5 + draw.normal(B, T, d), attention, network, (_pair(draw, d), _pair(draw, d)), n_heads, n_steps


def _stacks(*n_steps: int) -> Callable[[Draw], list[Call]]:
    return lambda draw: [_stack(draw, 1 + i, n) for i, n in enumerate(n_steps)]


_MANY = _stacks(5, 3)


def _masked(draw: Draw) -> list[Call]:
    x, *rest = _stack(draw, 2, 3)
    T = x.shape[1]
    return [(x, *rest, draw.mask(2, T, T)), (x, *rest, draw.mask(2, 1, T))]


exercise = Exercise(
    id="06.4",
    title="The encoder of a Universal Transformer",
    reference=shared_encoder,
    properties=(
        runs_on(_MANY),
        has_shape("A vector for each vector.", _MANY),
        Property("no step", "Zero steps return the input.", _stacks(0)),
        Property("one step", "One step: the encoding of step 1 is added, then comes the block.", _stacks(1, 1), points=2),
        Property(
            "two steps",
            "The second step goes on from the first, with the same weights and the encoding of step 2.",
            _stacks(2, 2),
            points=2,
            needs=("one step",),
        ),
        Property("many", "n_steps may be any number.", _MANY, needs=("two steps",)),
        Property("mask", "The mask is passed on at every step.", _masked, points=3, needs=("two steps",)),
        has_gradient(_stacks(3, 2), needs=("two steps",)),
        leaves_inputs(_stacks(2, 1)),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "All answers are called for the CPU: a check that asked for another device would need one.": (
            "drop keyword: encoding = step_encoding(x.shape[1], x.shape[2], step)",
        ),
        "All answers are called with float32, the kind of the encoding; only bfloat16 would be widened.": (
            "drop call: x + encoding",
            "drop argument: x + encoding.to()",
            "other name: encoding.dtype",
        ),
        "Of the tensor only its kind, size or device is read, or it has no gradient.": (
            "detach: x.detach().shape",
            "detach: x.detach().shape (2)",
            "detach: x.detach().device",
            "drop attribute: encoding.to(x)",
            "detach: encoding.detach().to",
            "detach: x.detach().dtype",
        ),
    },
    hints=HINTS,
    extra=True,
)
