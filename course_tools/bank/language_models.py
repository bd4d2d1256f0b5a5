"""Build tasks that train a language model on characters: the data, the queries, and the evidence of mistakes.

The text is Python's language reference in lower-case letters and spaces. The model reads windows of held-out text and predicts
the character after each. That character is never sent to it, so that it cannot leak. Its loss is compared with that of tables
of counts over the same characters.
"""

import math
import re
from collections.abc import Mapping
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import language_reference
from course_tools.bank import training_loops as loops
from course_tools.checks import trained
from course_tools.checks.exercise import Call, Draw, Property, Severity, Truth
from course_tools.checks.trained import (
    both,
    does_not_attend,
    each_alone,
    fault_of_logits,
    has_no_attention,
    holds,
    is_near,
    loss_falls,
    probe_of,
    shown,
    sound_training,
)
from course_tools.checks.training_record import Measured

N_TOKENS, T = 27, 32
N_TRAIN, N_WINDOWS, N_PAIRS = 100_000, 1024, 16
CUT = 20
"""First position at which the windows of a pair differ."""
NEAR, SHORT = 3, 7
"""Number of the last tokens of a window that are near, and the length of a short window."""
LEAST_READ = 16
"""Length of a window that is on no other page by chance."""
LEAST_LEARNED = 1_000
"""Least number of weights that a recurrence learns. One with 16 units and as many features has more than twice as many."""


def encoded(text: str) -> Tensor:
    """Encode a text as tokens (N,): 0 for each run of characters that are not letters, 1 to 26 for a to z."""
    letters = re.sub("[^a-z]+", " ", text.lower())
    return torch.tensor([0 if letter == " " else ord(letter) - 96 for letter in letters])


@cache
def _texts() -> tuple[Tensor, Tensor]:
    parts = language_reference()
    return encoded(parts.train), encoded(parts.test)


def questions(n_steps: int, draw: Draw) -> tuple[Call, Truth]:
    """Draw the training text, windows of held-out text, and the tokens after each window.

    The queries are: windows (1024, 32) · windows (16, 32) · the same with different tokens from position 20 on · the same with
    the tokens before the last one permuted · windows (3, 7) · the windows (16, 32) with different tokens before the last three.
    The model is probed with the windows (16, 32) and with their first seven tokens.
    """
    train, held_out = _texts()
    start = int(draw.integers(0, len(train) - N_TRAIN, 1))
    text = train[start : start + N_TRAIN]
    spans = held_out[draw.integers(0, len(held_out) - T - 1, N_WINDOWS)[:, None] + torch.arange(T + 2)]
    windows, one = spans[:, :T], spans[-N_PAIRS:, :T]
    other, mixed = one.clone(), one.clone()
    other[:, CUT:] = (one[:, CUT:] + draw.integers(1, N_TOKENS, N_PAIRS, T - CUT)) % N_TOKENS
    mixed[:, :-1] = one[:, :-1].roll(5, 1)[:, draw.uniform(T - 1).argsort()]
    distant = one.clone()
    distant[:, :-NEAR] = (one[:, :-NEAR] + draw.integers(1, N_TOKENS, N_PAIRS, T - NEAR)) % N_TOKENS
    queries = [windows, one, other, mixed, windows[:3, :7], distant]
    bigram = _table(text, windows, spans[:, T], 1)
    truth = {
        "queries": queries,
        "next": spans[:, T],
        "next but one": spans[:, T + 1],
        "windows": windows,
        "text": text,
        "held out": held_out,
        "n_steps": n_steps,
        "unigram": _table(text, windows, spans[:, T], 0),
        "bigram": bigram,
        "across": {"a bigram table, new text": bigram},
    }
    return ((text, N_TOKENS, n_steps), queries, (), [one, one[:, :SHORT]]), truth


def _table(text: Tensor, windows: Tensor, following: Tensor, n: int) -> float:
    """The loss of a table that counts the characters after each n characters (n is 0 or 1), in nats."""
    before = text[:-1] if n else torch.zeros_like(text[:-1])
    counts = torch.bincount(before * N_TOKENS + text[1:], minlength=N_TOKENS**2).reshape(N_TOKENS, N_TOKENS) + 0.1
    last = windows[:, -1] if n else torch.zeros_like(following)
    return F.cross_entropy(counts.log()[last], following).item()


def loss_after(measured: Measured, following: Tensor) -> float:
    """The mean loss in predicting the character after each window, in nats."""
    return F.cross_entropy(measured.outputs[0][:, -1].float(), following).item()


def maps_tokens_to_logits(measured: Measured, truth: Truth) -> str | None:
    """Require logits of the right shape for each query, which depend on the tokens."""
    for query, output in zip(truth["queries"], measured.outputs, strict=True):
        if fault := fault_of_logits(output, (*query.shape, N_TOKENS), f"tokens {tuple(query.shape)}"):
            return fault
    if not measured.outputs[0].isfinite().all():
        return "Some logits are infinite or NaN: the training has diverged. Try a smaller learning rate."
    if is_near(measured.outputs[0][:-1, -1], measured.outputs[0][1:, -1], tolerance=1e-6):
        return "The logits do not depend on the tokens."
    return None


keeps_windows_apart = each_alone("windows")
"""Require that a window's logits are the same in any batch."""


def is_causal(measured: Measured, truth: Truth) -> str | None:
    """Require that logits do not depend on later tokens."""
    if reads_the_future(measured, truth):
        return f"When the tokens from position {CUT} on are replaced, the logits before it change."
    return None


def knows_the_order(measured: Measured, truth: Truth) -> str | None:
    """Require that the prediction depends on the order of the tokens."""
    if ignores_the_order(measured, truth):
        return "The prediction does not change if the tokens before the last one are permuted."
    return None


def attends(measured: Measured, truth: Truth) -> str | None:
    """Require attention: weights that depend on the tokens and sum to 1 over the keys, and that the prediction depends on."""
    if does_not_attend(measured, truth):
        return "With equal weights in place of attention weights, the logits stay the same."
    return None


def attends_to_all_at_once(measured: Measured, truth: Truth) -> str | None:
    """Require attention, no recurrence beside it, and a network or a norm: attention alone only adds up vectors of tokens."""
    if fault := attends(measured, truth):
        return fault
    if is_attention_alone(measured, truth):
        return "Between the embeddings and the logits nothing but the softmax of attention is nonlinear."
    if steps_from_token_to_token(measured, truth):
        return f"The longest chain of its nonlinear operations is longer for {T} tokens than for {SHORT}: it carries a state."
    return None


def carries_a_state(measured: Measured, truth: Truth) -> str | None:
    """Require a learned recurrence over the tokens, which remembers more than the last ones, and no attention."""
    if forgets_distant_tokens(measured, truth):
        return f"The prediction does not change if all tokens but the last {NEAR} are replaced."
    if reads_all_at_once(measured, truth):
        return f"It makes as many operations for {T} tokens as for {SHORT}: it takes no step for each token."
    if attends_to_tokens(measured, truth):
        return "Weights that sum to 1 over the tokens and depend on them multiply values: it attends."
    if learns_few_weights(measured, truth):
        return f"Updates reached {_n_learned(measured):,.0f} of its weights; an LSTM learns more than {LEAST_LEARNED:,}."
    if not steps_from_token_to_token(measured, truth):
        return (
            f"The longest chain of its nonlinear operations is as long for {T} tokens as for {SHORT}: no state is computed "
            "through gates from the state before."
        )
    if has_no_gates(measured, truth):
        return "No sigmoid is computed: an LSTM has three gates in each step."
    if has_the_gates_of_a_gru(measured, truth):
        return (
            "For each `tanh` it computes two sigmoids, as a GRU does; an LSTM computes three for two, and carries two states."
        )
    return None


def beats_the_frequencies(measured: Measured, truth: Truth) -> str | None:
    """Require a loss 0.2 nats below that of the character frequencies, of a model that was not trained on held-out text."""
    if reads_held_out_text(measured, truth):
        return "In training, the model read text that is held out."
    return _worse_than(measured, truth, "unigram", 0.2, "the character frequencies")


def beats_a_table_of_pairs(measured: Measured, truth: Truth, margin: float = 0.0) -> str | None:
    """Require a loss below that of a table of pairs, by a margin in nats."""
    return _worse_than(measured, truth, "bigram", margin, "a table of pairs of characters")


def _worse_than(measured: Measured, truth: Truth, table: str, margin: float, words: str) -> str | None:
    loss = loss_after(measured, truth["next"])
    if loss <= truth[table] - margin:
        return None
    below = f"{margin:g} below" if margin else "below"
    return (
        f"On held-out text its loss is {loss:.2f} nats per character; it must be {below} that of {words}, {truth[table]:.2f}."
    )


ATTENDS = shown(
    "attention",
    "The logits depend on attention weights, which sum to 1 over the keys, and on a feed-forward network; no state is carried.",
    attends_to_all_at_once,
)
RECURRENT = shown(
    "state",
    "It reads one token after the other, and learns to compute its state from the one before by the gates of an LSTM, without "
    "attention.",
    carries_a_state,
)


def properties(
    seconds: float, most_parameters: int, mechanism: Property = ATTENDS, margin: float = 0.0
) -> tuple[Property, ...]:
    """Make the properties of a language model: 12 points, of which an untrained model earns at most four.

    `mechanism` is the property of what mixes the tokens, one point; `margin` is how far below the loss of a table of pairs that
    of the model must be, in nats.
    """
    return (
        *sound_training(
            seconds,
            most_parameters,
            ("The model maps tokens (B, T), T ≤ 32, to logits (B, T, n_tokens).", maps_tokens_to_logits),
            loss_falls(unless=beats_the_frequencies),
        ),
        shown("causal", "The logits at a position do not depend on later tokens.", is_causal, 2),
        shown("batch", "The logits of a window do not depend on the other windows of its batch.", keeps_windows_apart),
        shown("order", "The prediction depends on the order of the tokens.", knows_the_order),
        mechanism,
        shown(
            "learns", "On held-out text the loss is 0.2 nats below that of the character frequencies.", beats_the_frequencies
        ),
        holds(
            "score",
            f"On held-out text the loss is {f'{margin:g} nats ' if margin else ''}below that of a table of pairs.",
            partial(beats_a_table_of_pairs, margin=margin),
            1,
            needs=("learns",),
        ),
    )


def reads_the_future(measured: Measured, truth: Truth) -> bool:
    """Evidence: logits change when later tokens change."""
    return not is_near(measured.outputs[1][:, :CUT], measured.outputs[2][:, :CUT])


def ignores_the_order(measured: Measured, truth: Truth) -> bool:
    """Evidence: the prediction after the last token does not change if the previous tokens are permuted."""
    return is_near(measured.outputs[1][:, -1], measured.outputs[3][:, -1], tolerance=1e-5)


def forgets_distant_tokens(measured: Measured, truth: Truth) -> bool:
    """Evidence: the prediction after the last token does not change if all but the last three are replaced."""
    return is_near(measured.outputs[1][:, -1], measured.outputs[5][:, -1], tolerance=1e-6)


def reads_all_at_once(measured: Measured, truth: Truth) -> bool:
    """Evidence: the number of operations does not grow with the number of tokens."""
    long, short = (int(probe_of(measured, i).counts[0]) for i in range(2))
    return long - short < T - SHORT


def attends_to_tokens(measured: Measured, truth: Truth) -> bool:
    """Evidence: values are multiplied by weights that depend on the tokens and sum to 1."""
    return not has_no_attention(measured, truth)


def is_attention_alone(measured: Measured, truth: Truth) -> bool:
    """Evidence: it attends, and computes neither a norm nor the activation of a network."""
    return attends_to_tokens(measured, truth) and not probe_of(measured).depth


def steps_from_token_to_token(measured: Measured, truth: Truth) -> bool:
    """Evidence: a chain of nonlinear operations grows with the number of tokens, by one or more for each."""
    return trained.carries_a_state(measured, truth, T - SHORT)


def has_no_gates(measured: Measured, truth: Truth) -> bool:
    """Evidence of a plain RNN: a state is carried, and no sigmoid is computed."""
    return steps_from_token_to_token(measured, truth) and not probe_of(measured).gates[0]


def has_the_gates_of_a_gru(measured: Measured, truth: Truth) -> bool:
    """Evidence: a state is carried, and for each `tanh` two sigmoids are computed; an LSTM that leaves out one has three."""
    sigmoids, tanhs = probe_of(measured).gates.tolist()
    return steps_from_token_to_token(measured, truth) and 0 < 2 * tanhs <= sigmoids < 3 * tanhs


def carries_no_learned_state(measured: Measured, truth: Truth) -> bool:
    """Evidence: it takes a step for each token, and computes no state through gates from the one before."""
    return not steps_from_token_to_token(measured, truth) and not reads_all_at_once(measured, truth)


def learns_few_weights(measured: Measured, truth: Truth) -> bool:
    """Evidence: optimizers updated fewer weights of the model than any recurrence has."""
    return measured.n_updates > 0 and 0 < _n_learned(measured) < LEAST_LEARNED


def _n_learned(measured: Measured) -> float:
    """How many weights of the model an optimizer updated; negative if it is no module."""
    return measured.n_parameters * (1 - measured.untouched)


def repeats_the_last_token(measured: Measured, truth: Truth) -> bool:
    """Evidence: the model predicts the token that it has just read."""
    return _agrees(measured, truth["windows"][:, -1])


def repeats_the_token_before(measured: Measured, truth: Truth) -> bool:
    """Evidence: the model predicts the token before the one that it has just read."""
    return _agrees(measured, truth["windows"][:, -2])


def predicts_two_ahead(measured: Measured, truth: Truth) -> bool:
    """Evidence: the model predicts the token after the next better than the next token."""
    return loss_after(measured, truth["next but one"]) < min(loss_after(measured, truth["next"]) - 0.2, truth["unigram"])


def gives_probabilities(measured: Measured, truth: Truth) -> bool:
    """Evidence: the results are nonnegative and sum to one over the classes, or over another axis."""
    output = measured.outputs[1].double()
    sums = [output.sum(axis) for axis in range(output.ndim)]
    return bool((output >= 0).all()) and any(bool((total - 1).abs().max() < 1e-3) for total in sums)


def reads_held_out_text(measured: Measured, truth: Truth) -> bool:
    """Evidence: a window that the model read in training is in the held-out text, and not in the text that it was given."""
    read = {_letters(row) for tokens in measured.read if tokens.ndim == 2 for row in tokens if len(row) >= LEAST_READ}
    held_out, given = _letters(truth["held out"]), _letters(truth["text"])
    return any(window in held_out and window not in given for window in read)


def _letters(tokens: Tensor) -> str:
    """Write tokens as characters, one for each."""
    return "".join(map(chr, tokens.clamp(0, N_TOKENS).tolist()))


def has_learned_nothing(measured: Measured, truth: Truth) -> bool:
    """Evidence: the loss is that of an untrained model."""
    return loss_after(measured, truth["next"]) > math.log(N_TOKENS) - 0.15


def fails_to_learn(measured: Measured, truth: Truth) -> bool:
    """Evidence: the loss is above the required one."""
    return beats_a_table_of_pairs(measured, truth) is not None


def _agrees(measured: Measured, tokens: Tensor) -> bool:
    return bool((measured.outputs[0][:, -1].argmax(-1) == tokens).float().mean() > 0.8)


def submission(small):
    """Make the `submit` of a task: it trains `small(n_tokens)` on the text, with a change."""

    def submit(data, part=1.0, model=small, batch=loops.drawn, **change):
        text, n_tokens, n_steps = data
        return loops.train(partial(model, n_tokens), part * n_steps, lambda: batch(text), **change)

    return submit


def loop_mistakes(wrong: loops.Submissions, says: Mapping[str, str] = loops.LOOP, **how: float) -> None:
    """Add the mistakes of any training loop, with the parts and numbers of `Submissions.loop_mistakes`."""
    probabilities = both(gives_probabilities, fails_to_learn)
    wrong.loop_mistakes(fails_to_learn, has_learned_nothing, says, probabilities=probabilities, **how)
    drawn_elsewhere = {"part": 0.5, "batch": lambda text: loops.drawn(_texts()[1])}
    wrong.add("trained_on_held_out_text", HELD_OUT, drawn_elsewhere, proof=reads_held_out_text)


HELD_OUT = (
    "Your model learned from text that is held out, so that what it scores there says nothing. Train it with the text that the "
    "function is given, and read no other."
)


class OfAnLSTM(nn.Module):
    """A language model without attention: embedding, LSTM, logits."""

    def __init__(self, n_tokens: int) -> None:
        super().__init__()
        self.embed, self.lstm, self.logits = (
            nn.Embedding(n_tokens, 16),
            nn.LSTM(16, 64, batch_first=True),
            nn.Linear(64, n_tokens),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, T) to logits (B, T, n_tokens)."""
        return self.logits(self.lstm(self.embed(tokens))[0])


NO_ATTENTION = (
    "Your model has no attention: no values are multiplied by weights of a softmax over keys that depend on the tokens. What "
    "mixes your tokens is something else, such as a recurrence, a convolution or a table."
)


class OfAnAttendingLSTM(nn.Module):
    """A language model with attention over the states of an LSTM."""

    def __init__(self, n_tokens: int) -> None:
        super().__init__()
        self.embed, self.lstm = nn.Embedding(n_tokens, 16), nn.LSTM(16, 64, batch_first=True)
        self.qkv, self.logits = nn.Linear(64, 192), nn.Linear(64, n_tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, T) to logits (B, T, n_tokens)."""
        states = self.lstm(self.embed(tokens))[0]
        mixed = F.scaled_dot_product_attention(*self.qkv(states).chunk(3, dim=-1), is_causal=True)
        return self.logits(states + mixed)


RECURRENCE = (
    "Your model carries a state from position to position: the more it reads, the longer the chain of nonlinear operations "
    "to its result, as in an LSTM or a GRU. A Transformer reads all positions at once: nothing but attention mixes them."
)


def without_attention(wrong: loops.Submissions) -> None:
    """Add a model that is not the one asked for: it has no attention."""
    marks = {"proof": has_no_attention, "severity": Severity.IDEA}
    wrong.add("an_lstm_for_attention", NO_ATTENTION, {"model": OfAnLSTM, "lr": 1e-2}, **marks)


def with_a_recurrence(wrong: loops.Submissions) -> None:
    """Add a model that is not the one asked for: it has a recurrence beside its attention."""
    marks = {"proof": steps_from_token_to_token, "severity": Severity.IDEA}
    wrong.add("an_lstm_below_attention", RECURRENCE, {"model": OfAnAttendingLSTM, "lr": 1e-2}, **marks)


NOT_SHIFTED = (
    "Your model predicts the token that it has just read: the targets are the inputs themselves. Shift them by one, so that "
    "the logits at t are compared with the token at t + 1."
)
SHIFTED_BACK = (
    "Your model predicts the token before the one that it has just read: the targets are shifted to the wrong side. The inputs "
    "are `windows[:, :-1]` and the targets `windows[:, 1:]`."
)
SHIFTED_TWICE = (
    "Your model predicts the next token but one: the targets are shifted twice, as when the batch is shifted already and the "
    "loss shifts it again."
)


def shifted_targets(wrong: loops.Submissions) -> None:
    """Add the mistakes in the targets of a language model."""
    wrong.add("targets_not_shifted", NOT_SHIFTED, {"part": 0.5, "batch": loops.not_shifted}, proof=repeats_the_last_token)
    wrong.add("targets_shifted_back", SHIFTED_BACK, {"batch": loops.shifted_back}, proof=repeats_the_token_before)
    wrong.add("targets_shifted_twice", SHIFTED_TWICE, {"batch": loops.next_but_one}, proof=predicts_two_ahead)
