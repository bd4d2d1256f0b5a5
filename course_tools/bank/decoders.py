"""Build tasks that train a decoder with attention: its training, the queries, and the evidence of mistakes.

A model is called in two ways. `model(*inputs, target)` returns logits under teacher forcing: those at t predict the token after
`target[:, t]`. `model(*inputs)` returns the tokens that it generates by greedy decoding. The sequences by which it is scored
are never sent to it; those that it reads under teacher forcing are different ones.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.datasets import BEGIN, END, PADDING
from course_lib.losses import teacher_forced_loss
from course_tools.bank import training_loops as loops
from course_tools.bank.language_models import gives_probabilities
from course_tools.checks.exercise import Draw, Evidence, Property, Truth
from course_tools.checks.trained import (
    Judge,
    both,
    carries_a_state,
    does_not_attend,
    fault_of_logits,
    holds,
    is_near,
    loss_falls,
    makes_too_many_updates,
    shown,
    sound_training,
)
from course_tools.checks.training_record import Measured

ANSWERS, FORCED, ALTERED, ELSEWHERE, OWN, N_COMMON = range(6)
"""Indices of the queries that all these tasks share, and their number."""
N_FORCED = 64
"""Number of sequences that are read under teacher forcing."""
LONGER = 4
"""Least number of nonlinear operations by which a recurrence has a longer chain for the longer sequences."""
FEW = 0.05
"""Largest fraction of sequences that is attributed to ties between logits."""

Inputs = tuple[Tensor, ...]

decoder_loss = partial(teacher_forced_loss, padding=PADDING)
"""The mean cross-entropy of logits (B, T, n_tokens) with the next tokens of a target (B, T), ignoring padding."""


def taught(make, inputs, target, n_steps, loss=decoder_loss, **change):
    """Train a decoder under teacher forcing in the usual way, or with one mistake, and return it.

    Args:
        make: builds a model that returns logits when it is called with inputs and target.
        inputs: returns a tuple of the model's inputs for the sequences with given indices (32,).
        target: tokens of all sequences, (N, T).
        n_steps: the number of updates.
        loss: the loss of logits and target.
        change: that of `loops.train`.
    """

    def batch():
        rows = torch.randint(len(target), (32,))
        return *inputs(rows), target[rows], target[rows]

    return loops.train(make, n_steps, batch, loss, **change)


def common_queries(asked: Inputs, forced: Inputs, target: Tensor, cut: int, n_tokens: int, draw: Draw) -> list[Inputs]:
    """Make the queries that all tasks share.

    They are: the inputs that are scored, without a target · others with their target (64, T) · the same with different tokens
    from position `cut` on · the same targets with the inputs of other rows · these inputs without a target.
    """
    read = target[:, :-1]
    altered = read.clone()
    altered[:, cut:] = 4 + (read[:, cut:] - 4 + draw.integers(1, n_tokens - 4, *read[:, cut:].shape)) % (n_tokens - 4)
    elsewhere = tuple(part.roll(1, 0) for part in forced)
    return [asked, (*forced, read), (*forced, altered), (*elsewhere, read), forced]


def common_truth(labels: Tensor, target: Tensor, cut: int, n_tokens: int, n_steps: int) -> dict[str, object]:
    """Return what the judges know: the requested sequences (B, T), and the targets read (64, T); both begin with BEGIN."""
    return {
        "labels": labels[:, 1:],
        "read": target[:, :-1],
        "following": target[:, 1:],
        "cut": cut,
        "n_tokens": n_tokens,
        "n_steps": n_steps,
    }


def written(tokens: Tensor, n: int) -> Tensor:
    """The first n tokens that a model generated, (B, n): a leading BEGIN is removed, and padding follows an END."""
    tokens = tokens[:, 1:] if tokens.shape[1] and bool((tokens[:, 0] == BEGIN).all()) else tokens
    tokens = F.pad(tokens, (0, n), value=PADDING)[:, :n]
    ended = (tokens == END).long().cumsum(1) - (tokens == END).long() > 0
    return tokens.masked_fill(ended, PADDING)


def answers(measured: Measured, truth: Truth) -> Tensor:
    """The tokens that the model generated, with the length of the labels (B, T)."""
    return written(measured.outputs[ANSWERS], truth["labels"].shape[1])


def exact(measured: Measured, truth: Truth) -> Tensor:
    """Whether each answer is exactly right, (B,)."""
    return (answers(measured, truth) == truth["labels"]).all(1)


def token_accuracy(answers: Tensor, labels: Tensor) -> float:
    """The fraction of the labels' tokens that occur at their position in the answers."""
    real = labels != PADDING
    return (answers == labels)[real].float().mean().item()


def _model(measured: Measured, truth: Truth) -> str | None:
    n_tokens = truth["n_tokens"]
    for query in (FORCED, ALTERED, ELSEWHERE):
        shape = tuple(truth["read"].shape)
        if fault := fault_of_logits(measured.outputs[query], (*shape, n_tokens), f"a target {shape}"):
            return fault
    for query, n in ((ANSWERS, len(truth["labels"])), (OWN, N_FORCED)):
        output = measured.outputs[query]
        if output.ndim != 2 or len(output) != n or output.is_floating_point() or not output.shape[1]:
            return (
                f"Without a target, the model should return the {n} sequences that it generates: tokens ({n}, T), integers. It "
                f"returned {output.dtype} of shape {tuple(output.shape)}."
            )
    if not measured.outputs[FORCED].isfinite().all():
        return "Some logits are infinite or NaN."
    return None


def _causal(measured: Measured, truth: Truth) -> str | None:
    if reads_the_token_it_predicts(measured, truth):
        return f"When the target is replaced from position {truth['cut']} on, the logits before it change."
    if ignores_the_target(measured, truth):
        return f"When the target is replaced from position {truth['cut']} on, the logits stay the same at all positions."
    return None


def _padding(measured: Measured, truth: Truth) -> str | None:
    found = _padding_after_the_end(measured, truth)
    return f"After the end of a sequence it predicts padding, at {found:.0%} of the positions." if found > 0.5 else None


def _decoding(measured: Measured, truth: Truth) -> str | None:
    strays, stops = _strays(measured, truth), _stops(measured, truth)
    if strays > FEW:
        return (
            f"In {strays:.0%} of the sequences it generates a token that does not have the largest logit, although all "
            "previous tokens are right."
        )
    if stops > FEW:
        return f"In {stops:.0%} of the sequences the answer stops before END, which belongs to the answer."
    return None


def attends(measured: Measured, truth: Truth) -> str | None:
    """Require that the logits under teacher forcing depend on attention weights; the first probe is that query."""
    if does_not_attend(measured, truth, FORCED):
        return "With equal weights in place of attention weights, the logits stay the same."
    return None


def attends_to_all_at_once(measured: Measured, truth: Truth) -> str | None:
    """Require attention, and no recurrence beside it; the second probe is a shorter query."""
    if fault := attends(measured, truth):
        return fault
    if steps_from_token_to_token(measured, truth):
        return "The longest chain of its nonlinear operations is longer for longer sequences: it carries a state."
    return None


def steps_from_token_to_token(measured: Measured, truth: Truth) -> bool:
    """Evidence: a chain of nonlinear operations is longer for longer sequences."""
    return carries_a_state(measured, truth, LONGER)


def _padding_after_the_end(measured: Measured, truth: Truth) -> float:
    after = truth["following"] == PADDING
    return (measured.outputs[FORCED].argmax(-1)[after] == PADDING).float().mean().item()


def _own_and_unlike(measured: Measured, truth: Truth) -> tuple[Tensor, Tensor]:
    """The generated tokens (64, T), and where they are not the most likely ones although the previous tokens are right (64, T).

    Up to its first wrong token, greedy decoding reads the same tokens as teacher forcing, so both must choose the same tokens.
    """
    following, likeliest = truth["following"], measured.outputs[FORCED].argmax(-1)
    own = written(measured.outputs[OWN], following.shape[1])
    right_before = F.pad((own == following).long().cumprod(1)[:, :-1], (1, 0), value=1).bool() & (following != PADDING)
    return own, (own != likeliest) & right_before


def _strays(measured: Measured, truth: Truth) -> float:
    """The fraction of sequences in which the model, right so far, generates a token that is not its most likely one."""
    own, unlike = _own_and_unlike(measured, truth)
    return (unlike & (own != PADDING)).any(1).float().mean().item()


def _stops(measured: Measured, truth: Truth) -> float:
    """The fraction of sequences in which the model, right so far, stops without END."""
    own, unlike = _own_and_unlike(measured, truth)
    return (unlike & (own == PADDING)).any(1).float().mean().item()


def properties(
    seconds: float,
    most_parameters: int,
    inputs: str,
    rows: Property,
    learns: tuple[str, Judge],
    score: tuple[str, Judge],
    mechanism: tuple[str, Judge] = ("The logits depend on attention weights, which sum to 1 over the keys.", attends),
) -> tuple[Property, ...]:
    """Make the properties of a model that generates sequences: 12 points, of which an untrained model earns at most four.

    Args:
        seconds: limit of the processor time of the training.
        most_parameters: maximum number of weights of the model.
        inputs: the inputs of the model, in words.
        rows: the property that a sequence does not depend on other sequences of its batch.
        learns: law and judge of a first, lower score.
        score: law and judge of the required score.
        mechanism: law and judge of what mixes the tokens.
    """
    model = f"With a target, the model maps {inputs} to logits; without one, to tokens.", _model
    return (
        *sound_training(seconds, most_parameters, model, loss_falls(by=0.1)),
        rows,
        shown("attention", *mechanism),
        shown("causal", "The logits depend on the target up to their position, and not on later tokens.", _causal),
        shown("padding", "Padding is never a target of the loss.", _padding),
        shown("decoding", "Without a target, it generates and reads its most likely token at each step.", _decoding),
        shown("learns", *learns),
        holds("score", *score, 1, ("learns",)),
    )


def reads_the_token_it_predicts(measured: Measured, truth: Truth) -> bool:
    """Evidence: logits change when tokens after their position change."""
    forced, altered = (measured.outputs[query][:, : truth["cut"]] for query in (FORCED, ALTERED))
    return not is_near(forced, altered)


def ignores_the_target(measured: Measured, truth: Truth) -> bool:
    """Evidence: no logit changes with the target."""
    return is_near(measured.outputs[FORCED], measured.outputs[ALTERED], tolerance=1e-6)


def ignores_the_inputs(measured: Measured, truth: Truth) -> bool:
    """Evidence: no logit changes with the inputs, although the logits depend on the target."""
    return is_near(measured.outputs[FORCED], measured.outputs[ELSEWHERE], tolerance=1e-6) and not ignores_the_target(
        measured, truth
    )


def repeats_the_token_read(measured: Measured, truth: Truth) -> bool:
    """Evidence: the model predicts the token that it has just read."""
    read = truth["read"]
    real = (read != PADDING) & (read != END)
    return (measured.outputs[FORCED].argmax(-1) == read)[real].float().mean().item() > 0.8


def predicts_padding(measured: Measured, truth: Truth) -> bool:
    """Evidence: a trained model predicts padding after the end of a sequence, which is never a target of a sound loss."""
    return _padding(measured, truth) is not None and not has_learned_nothing(measured, truth)


def never_ends(measured: Measured, truth: Truth) -> bool:
    """Evidence: the model predicts the other tokens, but never END, with or without teacher forcing."""
    following, likeliest = truth["following"], measured.outputs[FORCED].argmax(-1)
    real = (following != PADDING) & (following != END)
    knows = (likeliest == following)[real].float().mean().item() > 0.5
    return knows and not bool((likeliest == END).any()) and not bool((measured.outputs[ANSWERS] == END).any())


def writes_at_random(measured: Measured, truth: Truth) -> bool:
    """Evidence: on a second call, the logits under teacher forcing are the same, but the generated tokens differ."""
    same = is_near(measured.outputs[FORCED], measured.again[FORCED])
    first, second = measured.outputs[ANSWERS], measured.again[ANSWERS]
    return same and (first.shape != second.shape or not torch.equal(first, second))


def has_random_logits(measured: Measured, truth: Truth) -> bool:
    """Evidence: on a second call, the logits under teacher forcing differ."""
    return not is_near(measured.outputs[FORCED], measured.again[FORCED])


def strays_from_its_logits(measured: Measured, truth: Truth) -> bool:
    """Evidence: the generated tokens do not follow from the logits, although both have read the same tokens."""
    return _strays(measured, truth) > FEW


def has_learned_nothing(measured: Measured, truth: Truth) -> bool:
    """Evidence: under teacher forcing, the loss is that of an untrained model."""
    logits, following = measured.outputs[FORCED].float(), truth["following"]
    loss = F.cross_entropy(logits.flatten(0, 1), following.flatten(), ignore_index=PADDING).item()
    return loss > torch.tensor(float(truth["n_tokens"])).log().item() - 0.15


WORDS = {
    "results": "logits",
    "model": "model",
    "token": "token",
    "target": "target",
    "units": "characters",
    "answers": "answers",
}
"""Words of the misconceptions below, beside `ending`, as in "an answer"."""


def loop_mistakes(wrong: loops.Submissions, fails: Evidence, **how: float) -> None:
    """Add the mistakes of any training loop, with the parts and numbers of `Submissions.loop_mistakes`."""
    probabilities = both(gives_probabilities, fails)
    wrong.loop_mistakes(fails, has_learned_nothing, random=has_random_logits, probabilities=probabilities, **how)


def target_mistakes(wrong: loops.Submissions) -> None:
    """Add the mistakes in the targets of the loss, and that of too many updates."""

    @wrong.change("loss", repeats_the_token_read)
    def targets_not_shifted(logits, target):
        """Your {model} predicts the {token} that it has just read: logits and {target} are not shifted against each other. The
        logits at t are compared with `{target}[:, t + 1]`."""
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PADDING)

    @wrong.change("loss", predicts_padding)
    def padding_counted(logits, target):
        """Your loss counts padding: after the end of {ending} your model predicts padding, which it can have learned only from
        targets that are padding. Give the loss `ignore_index=PADDING`, so that it learns {units} alone."""
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), target[:, 1:].flatten())

    @wrong.change("loss", never_ends, part=1.0)
    def end_not_learned(logits, target):
        """Your {answers} never end: the model never predicts END, because its loss leaves this token out. END is a target like
        any other; only padding is none."""
        return decoder_loss(logits, target.masked_fill(target == END, PADDING))

    @wrong(proof=makes_too_many_updates)
    def more_updates_than_allowed(*data):
        """Your training makes more updates than `n_steps`. The task is to reach the score within this budget, so end the loop
        after `n_steps` calls of `optimizer.step()`."""
        return wrong.submit(data, 1.02)
