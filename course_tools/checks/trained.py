"""Judges of a trained model: properties of every sound training, and the measurements that prove a mistake.

A judge takes the measurements of `training_record.measure` and the truth, which only the check knows. It returns None if the
property holds, else what is wrong. Evidence of a mistake depends only on the measurements, not on the design of the submission.
"""

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor

from course_tools.checks.attention_probe import Probe
from course_tools.checks.comparisons import Comparison, Failure, runs
from course_tools.checks.exercise import Call, Draw, Evidence, Property, Truth
from course_tools.checks.outcome import Outcome
from course_tools.checks.time_limit import TimedOut
from course_tools.checks.training_record import Measured

Judge = Callable[[Measured, Truth], str | None]
"""Returns None if the property holds, else a sentence."""

KEPT, UNUSED = 0.5, 0.02
TOO_FAR, TOO_NEAR = 20.0, 0.02
"""Relative distances: ten sound updates move the weights by less than 5, an entire training by more than 0.2."""


def _no_calls(draw: Draw) -> Iterable[Call]:
    """Draw no calls: the only call of a build task belongs to its training."""
    return ()


def judged_by(judge: Judge) -> Comparison:
    """Turn a judge into a comparison."""

    def compare(expected: Outcome, got: Outcome) -> Failure | None:
        sentence = judge(Measured(*got.results), expected.results[0])
        return None if sentence is None else Failure(sentence)

    return compare


def holds(name: str, law: str, judge: Judge, points: int, needs: tuple[str, ...] = ("model",)) -> Property:
    """Make a property of a trained model."""
    return Property(name, law, _no_calls, judged_by(judge), points, needs)


def trains_within(seconds: float, advice: str = "Use a smaller model or smaller batches.") -> Property:
    """Make the root of the graph: the function trains and returns a model, in time; `advice` says how to save time."""

    def judge(expected: Outcome, got: Outcome) -> Failure | None:
        if isinstance(got.error, TimedOut):
            allowed = f"the limit is {seconds:g} seconds of processor time"
            return Failure(f"It did not end in time: {allowed}. {advice}")
        return runs(expected, got)

    return Property("runs", "It trains without an error and returns the model.", _no_calls, judge, points=0, needs=())


def within_budget(most_parameters: int) -> Property:
    """Make a property: no more updates than `truth["n_steps"]`, and at most `most_parameters` weights."""

    def judge(measured: Measured, truth: Truth) -> str | None:
        if makes_too_many_updates(measured, truth):
            return f"It made {measured.n_updates} updates, but only {truth['n_steps']} are allowed."
        if measured.n_parameters > most_parameters:
            return f"The model has {measured.n_parameters:,} weights, but only {most_parameters:,} are allowed."
        return None

    law = f"It makes no more updates than it may, and the model has at most {most_parameters:,} weights."
    return holds("budget", law, judge, points=1)


def _gradients(measured: Measured, truth: Truth) -> str | None:
    if gradients_are_kept(measured, truth):
        return f"Before {measured.kept:.0%} of the updates, the gradients of the previous update had not been cleared."
    if weights_without_gradient(measured, truth):
        return f"{measured.without_gradient:.0%} of the weights in the optimizer never had a gradient."
    return None


def _evaluation(expected: Outcome, got: Outcome) -> Failure | None:
    measured = Measured(*got.results)
    if not differs_when_asked_again(measured, {}):
        return None
    what = "Called twice with the same inputs, the returned model returns different results."
    if not measured.settled:
        return Failure(what)
    return Failure(f"{what} All else is judged after a call of its `eval()`.", stops=False)


def _held(measured: Measured, truth: Truth) -> str | None:
    if weights_left_out(measured, truth):
        return f"{measured.left_out:.0%} of the weights that had a gradient are not in any optimizer."
    return None


sound_gradients = holds(
    "gradients", "Each update uses only its own gradients, and every trained weight has a gradient.", _gradients, points=1
)
same_twice = Property(
    "evaluation", "The returned model returns the same result for the same input.", _no_calls, _evaluation, 1, ("model",)
)


def shown(name: str, law: str, judge: Judge, points: int = 1, *needs: str) -> Property:
    """Make a property that is judged of a model whose training was sound and which answers the same twice."""
    return holds(name, law, judge, points, ("training", "evaluation", *needs))


def sound_training(
    seconds: float,
    most_parameters: int,
    model: tuple[str, Judge],
    falls: Judge | None = None,
    advice: str = "Use a smaller model or smaller batches.",
) -> tuple[Property, ...]:
    """Make the properties of any training that ends in time and returns a model that keeps to its budget.

    `model` is the law and the judge of the form of its results. Where no loss is judged (`falls` is None), what the model has
    learned must be a property named "learns".
    """
    training = (holds("training", "It makes updates, and the loss falls.", falls, 1),) if falls else ()
    return (
        trains_within(seconds, advice),
        holds("model", *model, 1, ("runs",)),
        within_budget(most_parameters),
        sound_gradients,
        *training,
        same_twice,
    )


complete_optimizer = shown("optimizer", "Every weight that has a gradient is in the optimizer.", _held)


def makes_updates(measured: Measured, truth: Truth) -> str | None:
    """Judge whether any updates were made."""
    return None if measured.n_updates else "It made no update."


def loss_falls(by: float = 0.03, unless: Judge | None = None, until: float = 1.0, when: str = "in the last") -> Judge:
    """Make a judge that requires updates and a falling loss.

    Args:
        by: required decrease of the loss from the first tenth of the training to a later tenth, relative to the former.
        unless: a judge of what was learned; if it finds no fault, the loss is not judged.
        until: the end of the later tenth, as a fraction of the training.
        when: the later tenth, in words.
    """

    def judge(measured: Measured, truth: Truth) -> str | None:
        if unless is not None and unless(measured, truth) is None:
            return None
        losses = measured.losses
        n, end = max(len(losses) // 10, 1), round(until * len(losses))
        first, last = losses[:n].mean(), losses[max(end - n, 0) : end].mean()
        if len(losses) and measured.n_updates and not last < first - by * first.abs():
            return f"In the first tenth of the training the loss is {first:.2f}, {when} {last:.2f}."
        return makes_updates(measured, truth)

    return judge


def at_least(
    least: float | Callable[[Truth], float], score: Callable[[Measured, Truth], float], words: str, reason: str = ""
) -> Judge:
    """Make a judge that requires a minimum score.

    Args:
        least: the required score, or a function that computes it from the truth.
        score: computes the score from the measurements and the truth.
        words: the name of the score, in words.
        reason: appended to the required score in the message.
    """

    def judge(measured: Measured, truth: Truth) -> str | None:
        found, wanted = score(measured, truth), least(truth) if callable(least) else least
        return None if found >= wanted else f"{words} is {found:.2f}; at least {wanted:.2f} is required{reason}."

    return judge


def each_alone(examples: str, outputs: str = "logits") -> Judge:
    """Make a judge: a result must not depend on other examples of its batch. Examples and outputs are named in words."""

    def judge(measured: Measured, truth: Truth) -> str | None:
        if not reads_other_examples(measured, truth):
            return None
        n = len(measured.outputs[1])
        return f"For the last {n} {examples} evaluated alone, it returns different {outputs} than in a batch with the others."

    return judge


def every(*judges: Judge) -> Judge:
    """Combine judges into one that returns the first fault that any of them finds."""
    return lambda measured, truth: next((fault for judge in judges if (fault := judge(measured, truth))), None)


def fault_of_logits(output: Tensor, shape: tuple[int, ...], inputs: str) -> str | None:
    """Say what is wrong with the shape or dtype of logits; None if nothing is. `inputs` names the inputs in words."""
    if tuple(output.shape) != shape:
        return f"For {inputs} the logits should have shape {shape}, not {tuple(output.shape)}."
    if not output.is_floating_point():
        return f"The logits should be floating point, but they are {output.dtype}."
    return None


def probe_of(measured: Measured, i: int = 0) -> Probe:
    """Return what the i-th probe of the model showed."""
    n = len(Probe._fields)
    return Probe(*measured.probes[n * i : n * i + n])


def does_not_attend(measured: Measured, truth: Truth, query: int = 1) -> bool:
    """Evidence: equal weights in place of its attention weights change nothing. The first probe is the query of that number."""
    return is_near(measured.outputs[query], probe_of(measured).averaged, tolerance=1e-6)


def has_no_attention(measured: Measured, truth: Truth) -> bool:
    """Evidence: no weights that depend on the example and sum to 1, over the keys or the queries, multiply values."""
    return not probe_of(measured).counts[1:].any()


def carries_a_state(measured: Measured, truth: Truth, more: int) -> bool:
    """Evidence of a recurrence: in the second probe, the first one cut short, chains of nonlinear operations are shorter.

    A network that reads all positions at once has chains of one length, whatever it reads.
    """
    long, short = (int(probe_of(measured, i).depth) for i in range(2))
    return long - short >= more


def gradients_are_kept(measured: Measured, truth: Truth) -> bool:
    """Evidence: at most updates, the gradient left by the previous one is unchanged, bit for bit."""
    return measured.kept > KEPT


def weights_without_gradient(measured: Measured, truth: Truth) -> bool:
    """Evidence: weights are in the optimizer and never had a gradient."""
    return measured.n_updates > 2 and measured.without_gradient > UNUSED


def differs_when_asked_again(measured: Measured, truth: Truth) -> bool:
    """Evidence: the returned model is not deterministic."""
    return not all(map(is_near, measured.outputs, measured.again))


def reads_other_examples(measured: Measured, truth: Truth) -> bool:
    """Evidence: the last examples of the first query, evaluated alone in the second query, have different results."""
    return not is_near(measured.outputs[0][-len(measured.outputs[1]) :], measured.outputs[1])


def reads_one_batch(measured: Measured, truth: Truth) -> bool:
    """Evidence: every recorded call of the model during training had the same input."""
    first, *others = measured.read or [torch.zeros(0)]
    return len(others) >= 9 and all(first.shape == other.shape and torch.equal(first, other) for other in others)


def makes_too_many_updates(measured: Measured, truth: Truth) -> bool:
    """Evidence: there were more updates than `n_steps`."""
    return measured.n_updates > truth["n_steps"]


def makes_no_update(measured: Measured, truth: Truth) -> bool:
    """Evidence: no optimizer made a step, and no loss was differentiated."""
    return measured.n_updates == 0


def no_weight_is_stepped(measured: Measured, truth: Truth) -> bool:
    """Evidence: no optimizer updated a weight of the returned model, and weights with a gradient are in no optimizer.

    For a copy of a trained model, such as its best state or the mean of its weights, only the first is true.
    """
    stepped_others = measured.n_parameters > 0 and measured.n_updates > 0 and measured.untouched == 1.0
    return stepped_others and weights_left_out(measured, truth)


def weights_left_out(measured: Measured, truth: Truth) -> bool:
    """Evidence: weights that received a gradient are in no optimizer."""
    return measured.left_out > UNUSED


def updates_are_too_large(measured: Measured, truth: Truth) -> bool:
    """Evidence: the first ten updates move the weights by many times their norm."""
    return measured.moved_at_first > TOO_FAR


def updates_are_too_small(measured: Measured, truth: Truth) -> bool:
    """Evidence: all updates together move the weights by less than two percent of their norm."""
    return measured.n_updates > 0 and 0.0 < measured.moved < TOO_NEAR


def both(*evidence: Evidence) -> Evidence:
    """Combine evidence: all of it must apply."""
    return partial(_all, evidence)


def fails(judge: Judge) -> Evidence:
    """Turn a judge into evidence: it finds a fault."""
    return lambda measured, truth: judge(measured, truth) is not None


def _all(evidence: tuple[Evidence, ...], measured: Measured, truth: Truth) -> bool:
    return all(shows(measured, truth) for shows in evidence)


def is_near(one: Tensor, other: Tensor, tolerance: float = 1e-3) -> bool:
    """Whether two results are equal up to the rounding of a forward pass."""
    if one.shape != other.shape:
        return False
    size = float(one.abs().nan_to_num().max()) if one.numel() else 0.0
    return torch.allclose(one.double(), other.double(), rtol=0.0, atol=tolerance * max(size, 1.0), equal_nan=True)
