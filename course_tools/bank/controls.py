"""Build tasks that require a control: a rival of the lecture's model without one ingredient, and what the comparison shows.

The held-out examples contain two questions. One is the question for which, according to the lecture, the ingredient is needed;
the other is a positive control, for which it is not needed: a rival that fails even on the control could not have succeeded,
whatever the effect of the ingredient. Measurements decide whether the rival is fair; no points depend on which model is better.

`truth` contains `n_parameters`, `n_updates` and `batch_size` of the lecture's model, its `scores`, the score of a `guess`, and
the held-out examples, `inputs` and `labels`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_tools.bank import training_loops as loops
from course_tools.checks.comparisons import Failure
from course_tools.checks.exercise import Evidence, Property, Truth
from course_tools.checks.outcome import Outcome
from course_tools.checks.trained import (
    TOO_NEAR,
    Judge,
    holds,
    is_near,
    loss_falls,
    same_twice,
    sound_gradients,
    trains_within,
    weights_without_gradient,
)
from course_tools.checks.training_record import Measured

CLOSE = 0.05
"""Smaller differences in accuracy are not significant for one run of each model."""
SIZE = 0.05
"""Largest relative difference in the number of parameters from that of the model."""
LEAST_CONTROL = 0.9
"""Required fraction of the model's accuracy on the positive control."""


class ClaimScores(NamedTuple):
    """Accuracies on held-out examples: on the question of the claim, and on the positive control."""

    claim: float
    control: float


class Claim(NamedTuple):
    """The lecture's claim, in words for the report: which ingredient, in which model, for which question."""

    ingredient: str
    model: str
    question: str
    control: str
    score: Callable[[Measured, Truth], ClaimScores]


def loss_of_two(n: int, logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of the first n logits (B, n + m) with the first labels (B, 2), plus that of the others."""
    return F.cross_entropy(logits[:, :n], labels[:, 0]) + F.cross_entropy(logits[:, n:], labels[:, 1])


def scores_of_two(n: int, logits: Tensor, labels: Tensor) -> ClaimScores:
    """Measure the accuracies of the first n logits (B, n + m) and of the others, for labels (B, 2)."""
    hits = (part.argmax(-1) == wanted for part, wanted in zip((logits[:, :n], logits[:, n:]), labels.T, strict=True))
    return ClaimScores(*(part.float().mean().item() for part in hits))


def of_the_model(
    train: Callable[[], nn.Module], seed: int, unseen: tuple[Tensor, Tensor], scores_of: Callable[[Tensor, Tensor], ClaimScores]
) -> tuple[int, ClaimScores]:
    """Train the lecture's model with its own seed; return its number of parameters and its scores on held-out examples."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        model = train()
    with torch.no_grad():
        return sum(p.numel() for p in model.parameters()), scores_of(model(unseen[0]), unseen[1])


def properties(
    seconds: float,
    claim: Claim,
    *,
    model: tuple[str, Judge],
    information: tuple[str, Judge],
    without: tuple[str, Judge],
    alone: tuple[str, Judge],
) -> tuple[Property, ...]:
    """Make the properties of a rival: 12 points, of which an untrained rival earns at most four.

    Each of the last four parameters is a law and its judge: the form of the results, the same information, the missing
    ingredient, and that each example is answered independently.
    """
    trained = ("model", "trained", "evaluation")

    def succeeds(measured: Measured, truth: Truth) -> str | None:
        if not cannot_succeed(claim)(measured, truth):
            return None
        found, model = claim.score(measured, truth).control, truth["scores"].control
        return (
            f"On {claim.control} its accuracy is {found:.2f}, that of {claim.model} {model:.2f}; at least "
            f"{LEAST_CONTROL * model:.2f} is required. A rival that fails even here could not have succeeded on "
            f"{claim.question}."
        )

    return (
        trains_within(seconds),
        holds("model", model[0], model[1], 1, needs=("runs",)),
        holds("size", f"It has as many parameters as {claim.model}, within five percent.", _size, 1),
        replace(
            holds("trained", f"It is trained like {claim.model}: with the same number of updates and examples.", _trained, 1),
            judge=_trained_alike,
        ),
        sound_gradients,
        same_twice,
        holds("batch", alone[0], alone[1], 1, trained),
        holds("information", information[0], information[1], 1, trained),
        holds("without", without[0], without[1], 3, trained),
        holds(
            "control",
            f"It learns {claim.control}, for which the ingredient is not needed.",
            succeeds,
            2,
            ("information", "without"),
        ),
    )


def _size(measured: Measured, truth: Truth) -> str | None:
    if measured.n_parameters < 0:
        return "The rival is not an `nn.Module`, so its parameters cannot be counted."
    if abs(measured.n_parameters / truth["n_parameters"] - 1) > SIZE:
        return f"The rival has {measured.n_parameters:,} parameters, the model {truth['n_parameters']:,}."
    return None


def _trained_alike(expected: Outcome, got: Outcome) -> Failure | None:
    """Judge the training. Of a rival that was trained with batches of another size, the rest is judged all the same."""
    measured, truth = Measured(*got.results), expected.results[0]
    if fault := _trained(measured, truth):
        return Failure(fault)
    if batches_of_another_size(measured, truth):
        most = max(map(len, _batches(measured, truth)))
        return Failure(f"Its batches hold {most} examples, those of the model {truth['batch_size']}.", stops=False)
    return None


def _trained(measured: Measured, truth: Truth) -> str | None:
    if measured.n_updates != truth["n_updates"]:
        return f"The rival is updated {measured.n_updates} times, the model {truth['n_updates']} times."
    if reads_few_examples(measured, truth):
        return "Most examples of its first batches are repetitions: it receives only a part of the data."
    if measured.moved < TOO_NEAR and loss_falls()(measured, truth) is not None:
        return "Its weights barely change during training, and its loss does not fall."
    return None


def too_few_parameters(measured: Measured, truth: Truth) -> bool:
    """Evidence: the rival is smaller than the model, beyond the tolerance."""
    return 0 <= measured.n_parameters < (1 - SIZE) * truth["n_parameters"]


def too_many_parameters(measured: Measured, truth: Truth) -> bool:
    """Evidence: the rival is larger than the model, beyond the tolerance."""
    return measured.n_parameters > (1 + SIZE) * truth["n_parameters"]


def fewer_updates(measured: Measured, truth: Truth) -> bool:
    """Evidence: the rival is updated less often than the model."""
    return 0 < measured.n_updates < truth["n_updates"]


def more_updates(measured: Measured, truth: Truth) -> bool:
    """Evidence: the rival is updated more often than the model."""
    return measured.n_updates > truth["n_updates"]


def _batches(measured: Measured, truth: Truth) -> list[Tensor]:
    return [batch for batch in measured.read if batch.shape[1:] == truth["inputs"].shape[1:]]


def batches_of_another_size(measured: Measured, truth: Truth) -> bool:
    """Evidence: the rival reads more or fewer examples in an update than the model."""
    return any(len(batch) != truth["batch_size"] for batch in _batches(measured, truth))


def reads_few_examples(measured: Measured, truth: Truth) -> bool:
    """Evidence: fewer than three in ten of the first training examples are distinct."""
    rows = [row.numpy().tobytes() for batch in _batches(measured, truth) for row in batch]
    return len(rows) >= 256 and len(set(rows)) < 0.3 * len(rows)


def is_no_sum(measured: Measured, truth: Truth) -> bool:
    """Evidence: replacing both parts of an example does not change the result by the sum of the two single changes.

    The queries two to five are: examples · with one part replaced · with the other replaced · with both replaced.
    """
    base, one, other, both = (output.double() for output in measured.outputs[1:5])
    return not is_near(both - one, other - base)


def cannot_succeed(claim: Claim) -> Evidence:
    """Make evidence: the rival does not learn the positive control."""
    return lambda measured, truth: claim.score(measured, truth).control < LEAST_CONTROL * truth["scores"].control


def conclusion(claim: Claim, measured: Measured, truth: Truth) -> str:
    """State the result of a fair comparison, with the numbers."""
    rival, model, guess = claim.score(measured, truth), truth["scores"], truth["guess"]
    numbers = (
        f"What your comparison shows: accuracy on {claim.question} {rival.claim:.2f} for your rival and {model.claim:.2f} for "
        f"{claim.model} (always guessing the most frequent answer: {guess:.2f}); on {claim.control} {rival.control:.2f} and "
        f"{model.control:.2f}."
    )
    lead, equal = model.claim - rival.claim, "a rival of equal size, information and training"
    if lead < -CLOSE:
        finding = f"This speaks against the claim: {equal} does better without {claim.ingredient}."
    elif lead < CLOSE:
        finding = f"This speaks against the claim: without {claim.ingredient}, {equal} comes within {CLOSE:g} of {claim.model}."
    elif rival.claim < guess + CLOSE:
        finding = f"This supports the claim: without {claim.ingredient}, {equal} stays within {CLOSE:g} of guessing."
    else:
        finding = f"This supports the claim in part: without {claim.ingredient}, {equal} does worse, but better than guessing."
    return f"{numbers} {finding} This is one run of each model: repeat it with other seeds before you rely on it."


def submission(small, batch_size, lr, loss=loops.cross_entropy, schedule=None):
    """Make the `submit` of a rival: it trains `small()` as the model is trained, with a change.

    `schedule` makes the schedule of so many updates. `first` is how many of the examples are used, `read` the part of a batch
    that is read, and `filled` says whether weights that do nothing fill up the number of parameters.
    """

    def submit(data, part=1.0, model=small, lr=lr, first=None, read=1.0, filled=False, **change):
        *examples, n_parameters, n_steps = data
        batch = partial(loops.drawn_examples, [rows[:first] for rows in examples], int(read * batch_size))
        make, n = partial(_filled, model, n_parameters) if filled else model, int(part * n_steps)
        return loops.train(make, n, batch, loss, lr, schedule=schedule and schedule(n), **change)

    return submit


def _filled(make, n_parameters):
    rival = make()
    rival.filling = nn.Parameter(torch.zeros(n_parameters - sum(p.numel() for p in rival.parameters())))
    return rival


RATES = {
    "learning_rate_too_large": "The rival has no chance: its first ten updates move the weights by more than twenty times "
    "their own size. {control}, so it shows nothing. Use the learning rate of {model}, Adam {rates}."
}
"""What is said of a learning rate that is too large, where a rival is known to suffer from it."""
_LOOP = {
    "dropout_left_on": "The returned rival is still in training mode: its dropout draws new zeros at each call, while {model} "
    "is evaluated without. Return `rival.eval()`.",
    "optimizer_of_another_model": "None of the weights of the rival that you return was ever updated: the optimizer holds "
    "those of another model. Make the optimizer after the rival, from the parameters of the rival that you train and return.",
    "gradients_not_cleared": loops.LOOP["gradients_not_cleared"],
    "learning_rate_too_small": "The rival has no chance: all updates together move its weights by less than two percent. "
    "{control}, so it shows nothing. Use the learning rate of {model}, Adam {rates}.",
}
_RIVAL = {
    "weights_that_do_nothing": "A part of the rival's weights never has a gradient: {filling}, or the graph is cut before "
    "them. {instead}",
    "smaller_rival": "The rival has fewer parameters than {model}. If it does worse, the size may be the cause: a control "
    "differs in one thing. Give it `n_parameters` parameters, within five percent{width}.",
    "larger_rival": "The rival has more parameters than {model}. If it does as well, the size may be the cause: a control "
    "differs in one thing. Give it `n_parameters` parameters, within five percent{width}.",
    "fewer_updates_than_{name}": "The rival gets fewer updates than {model}. If it does worse, it may only be trained less. "
    "Make exactly `n_steps` updates.",
    "more_updates_than_{name}": "The rival gets more updates than {model}. If it does as well, the reason may be the longer "
    "training. Make exactly `n_steps` updates.",
    "a_part_of_the_{examples}": "The rival learns from a few {examples} only: most of what its first batches hold are "
    "repetitions. {Model} draws from all of them. Draw the rows of each batch from `len({rows})`.",
    "batches_of_another_size": "The batches of the rival hold more or fewer {examples} than those of {model}. If it does "
    "better or worse, the reason may be how much it has read. Take batches of the size that {model} gets.",
}


def mistakes(wrong: loops.Submissions, claim: Claim, smaller, larger, says: Mapping[str, str] | None = None) -> None:
    """Add the mistakes that any rival can contain, made with a smaller and a larger one; `says` replaces misconceptions."""
    says, fails = says or {}, cannot_succeed(claim)
    name = wrong.words["model"]
    wrong.words |= {"name": name.lower().replace(" ", "_"), "Model": name[0].upper() + name[1:]}
    loop = _LOOP | {mistake: text for mistake, text in says.items() if mistake in _LOOP | RATES}
    wrong.loop_mistakes(fails, fails, loop, part=1.0, short=1.0)
    changes = (
        (weights_without_gradient, {"model": smaller, "filled": True}),
        (too_few_parameters, {"model": smaller}),
        (too_many_parameters, {"model": larger}),
        (fewer_updates, {"part": 0.5}),
        (more_updates, {"part": 4 / 3}),
        (reads_few_examples, {"first": 200}),
        (batches_of_another_size, {"read": 0.5}),
    )
    for (mistake, text), (proof, change) in zip(_RIVAL.items(), changes, strict=True):
        wrong.add(mistake.format_map(wrong.words), says.get(mistake, text), change, proof=proof)
