"""Exercise 02.8, aligned_context: what students answer, wrong and right."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from course_lib.attention import Attended, additive_scores, attend
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


def aligned_context(
    states: Float[Tensor, "B T d"],
    keys: Float[Tensor, "B T_k d"],
    values: Float[Tensor, "B T_k d"],
    mask: Bool[Tensor, "B 1 T_k"],
    W: Float[Tensor, "d_a d"],
    U: Float[Tensor, "d_a d"],
    v: Float[Tensor, "d_a"],
) -> Attended:
    """Look up a context for each position of the answer, in all states of the encoder.

    Args:
        states: the states of the decoder, one at each position of the answer.
        keys: what the encoder offers to be found, one for each letter of the source.
        values: what the encoder passes on where a key is found.
        mask: True at the real letters of the source, False at padding.
        W: projects the queries, as in `additive_scores`.
        U: projects the keys.
        v: sums up the hidden units.

    Returns:
        context (B, T, d) and weights (B, T, T_k).

    Source: Bahdanau et al. 2015, eqs. 5 and 6.
    """
    return attend(additive_scores(states, keys, W, U, v), values, mask)


HINTS = (
    "The decoder asks, and the encoder answers. Which of the tensors are the queries? Say the shape of the scores before"
    " you write them: which axis is that of the letters?",
    "`additive_scores` takes queries, keys, W, U and v, and gives a score for each position of the answer and each letter"
    " of the source. `attend` turns them into weights over the letters, without padding, and mixes what the encoder passes"
    " on.",
    "Two lines: the scores of `states` against `keys`, (B, T, T_k); then `attend` with these scores, `values` and `mask`,"
    " as they are. Its result, (context, weights), is what is asked for.",
)


@wrong.idea
def averages_the_values(states, keys, values, mask, W, U, v):
    """Your context is the mean of the values: no state asks for anything, and every position gets the same. Score the states
    of the decoder against the keys."""
    scores = torch.zeros(*states.shape[:2], keys.shape[1])
    return attend(scores, values, mask)


@wrong.idea
def asks_once_for_all_positions(states, keys, values, mask, W, U, v):
    """You ask with the last state for all positions, so that they all get the same context. Each position has a state of its
    own, and asks by itself."""
    return attend(additive_scores(states[:, -1:].expand_as(states), keys, W, U, v), values, mask)


@wrong.idea
def attends_to_the_decoder(states, keys, values, mask, W, U, v):
    """You score the states of the decoder against one another. What they look for is in the source: score them against the
    keys of the encoder."""
    return attend(additive_scores(states, states, W, U, v), values, mask)


@wrong.idea
def lets_the_letters_ask(states, keys, values, mask, W, U, v):
    """You have exchanged the two sides: each letter of the source asks, and the positions of the answer are its keys. It is
    the decoder that needs something: its states are the queries."""
    return attend(additive_scores(keys, states, W, U, v), values, mask)


@wrong.part
def scores_the_values(states, keys, values, mask, W, U, v):
    """You score the states against the values. The keys are what is compared; the values are what is passed on. In this
    lecture the encoder gives the same vectors as both, elsewhere they differ."""
    return attend(additive_scores(states, values, W, U, v), values, mask)


@wrong.part
def mixes_the_keys(states, keys, values, mask, W, U, v):
    """You mix the keys. They say where something is found, and the values what it is. In this lecture the encoder gives the
    same vectors as both, elsewhere they differ."""
    return attend(additive_scores(states, keys, W, U, v), keys, mask)


@wrong.part
def forgets_the_mask(states, keys, values, mask, W, U, v):
    """You attend without the mask: padding gets weight, and the context depends on how long the other sentences of the batch
    are."""
    return attend(additive_scores(states, keys, W, U, v), values)


@wrong.part
def turns_the_mask_around(states, keys, values, mask, W, U, v):
    """You attend to the padding alone. True = may attend: the mask is right as it is."""
    return attend(additive_scores(states, keys, W, U, v), values, ~mask)


@wrong.part
def multiplies_the_scores_by_the_mask(states, keys, values, mask, W, U, v):
    """You multiply the scores by the mask: padding then has the score 0, and exp(0) = 1. Give the mask to `attend`, which
    gives padding no weight."""
    return attend(additive_scores(states, keys, W, U, v) * mask, values)


@wrong.part
def multiplies_keys_and_values_by_the_mask(states, keys, values, mask, W, U, v):
    """You set keys and values of the padding to 0. Its value then adds nothing, but a key of zeros still gets a score, and its
    weight is missing elsewhere. Give the mask to `attend`."""
    real = mask.mT
    return attend(additive_scores(states, keys * real, W, U, v), values * real)


@wrong.detail
def exchanges_the_matrices(states, keys, values, mask, W, U, v):
    """You project the states by U and the keys by W. In `additive_scores` W belongs to the queries, which are the states."""
    return attend(additive_scores(states, keys, U, W, v), values, mask)


@wrong.detail
def takes_the_softmax_twice(states, keys, values, mask, W, U, v):
    """You take a softmax before `attend`, which takes one itself. The second makes the weights nearly even: give it the
    scores."""
    return attend(additive_scores(states, keys, W, U, v).softmax(-1), values, mask)


@wrong.detail
def scales_the_scores(states, keys, values, mask, W, U, v):
    """You divide the scores by √d. Additive scores have no scale: v learns its own."""
    return attend(additive_scores(states, keys, W, U, v) / states.shape[-1] ** 0.5, values, mask)


@wrong.detail
def adds_the_state(states, keys, values, mask, W, U, v):
    """You add the state to the context. The read-out gets both, side by side; what is asked for is the context alone."""
    context, weights = attend(additive_scores(states, keys, W, U, v), values, mask)
    return Attended(context + states, weights)


@wrong.case
def returns_the_context_alone(states, keys, values, mask, W, U, v):
    """You return the context alone. The weights are asked for as well: the maps of section 7 show them."""
    return attend(additive_scores(states, keys, W, U, v), values, mask).context


@wrong.case
def weights_first(states, keys, values, mask, W, U, v):
    """Both of your results are right, but you return the weights first. The order is (context, weights)."""
    return tuple(reversed(attend(additive_scores(states, keys, W, U, v), values, mask)))


@right
def scored_from_the_other_side(states, keys, values, mask, W, U, v):
    """The keys scored against the states, by the matrices of the other side, and transposed."""
    scores = additive_scores(keys, states, U, W, v).mT
    return attend(scores, values, mask)


@right
def by_hand(states, keys, values, mask, W, U, v):
    """Scores, softmax and mixture written out again."""
    hidden = torch.tanh((states @ W.mT)[:, :, None] + (keys @ U.mT)[:, None])
    weights = (hidden @ v).masked_fill(~mask, -torch.inf).softmax(-1)
    return weights @ values, weights


@right
def position_by_position(states, keys, values, mask, W, U, v):
    """A loop over the positions of the answer, as the decoder writes."""
    steps = [attend(additive_scores(state[:, None], keys, W, U, v), values, mask) for state in states.unbind(1)]
    contexts, weights = zip(*steps, strict=True)
    return Attended(torch.cat(contexts, dim=1), torch.cat(weights, dim=1))


@stranger
def context_of_the_sentence_before(states, keys, values, mask, W, U, v):
    return attend(additive_scores(states, keys.roll(1, 0), W, U, v), values, mask)


@stranger
def context_of_the_state_before(states, keys, values, mask, W, U, v):
    return attend(additive_scores(states.roll(1, 1), keys, W, U, v), values, mask)


@stranger
def context_of_twice_the_scores(states, keys, values, mask, W, U, v):
    return attend(2 * additive_scores(states, keys, W, U, v), values, mask)


@stranger(makes=[forgets_the_mask, mixes_the_keys])
def context_of_keys_without_a_mask(states, keys, values, mask, W, U, v):
    return attend(additive_scores(states, keys, W, U, v), keys)


def _answer(draw: Draw, T: int, T_k: int, B: int = 2, decides: float = 1.0) -> Call:
    """B answers of T positions to sources of T_k real letters; `decides` scales the scores."""
    d, d_a = draw.sizes(2)
    states, keys, values = (draw.normal(B, n, d) for n in (T, T_k, T_k))
    matrices = draw.normal(d_a, d), draw.normal(d_a, d), draw.normal(d_a, scale=decides)
    return states, keys, values, torch.ones(B, 1, T_k, dtype=torch.bool), *matrices


def _padded(draw: Draw, T: int, T_k: int) -> Call:
    """The same, with padding at the end of all sources but the first."""
    states, keys, values, _, *matrices = _answer(draw, T, T_k, B=3)
    real = torch.arange(T_k) < torch.tensor([T_k, T_k - 1, 1])[:, None]
    return states, keys, values, real[:, None], *matrices


exercise = Exercise(
    id="02.8",
    title="The context of the decoder",
    reference=aligned_context,
    properties=(
        runs_on(lambda draw: [_answer(draw, 5, 7)]),
        has_shape("A context and weights for each position of the answer.", lambda draw: [_answer(draw, 5, 7)]),
        Property(
            "mean",
            "Where all scores are equal, the context is the mean of the values.",
            lambda draw: [_answer(draw, 5, 7, decides=0.0)],
        ),
        Property(
            "look-up",
            "Each state of the decoder asks, and the keys of the encoder are compared with it.",
            lambda draw: [_answer(draw, 1, 2, B=1), _answer(draw, 5, 7), _answer(draw, 5, 5)],
            points=2,
            needs=("mean",),
        ),
        Property(
            "mask",
            "Padding gets no weight.",
            lambda draw: [_padded(draw, 5, 7), _padded(draw, 5, 5)],
            points=2,
            needs=("look-up",),
        ),
        has_gradient(lambda draw: [_padded(draw, 5, 7)], needs=("mask",)),
        leaves_inputs(lambda draw: [_padded(draw, 5, 7)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "A mask has no gradient.": ("detach: attend(additive_scores(states, keys, W, U, v), values, mask.detach())",),
    },
    hints=HINTS,
)
