"""Judges of a trained model: what must hold of every training, and the measurements that prove a mistake in one.

A judge is given what `training_record.measure` measured and the truth that the check keeps; it returns None where the property
holds, else what is wrong. Evidence of a mistake is a sentence about the measurements, whatever the design of the submission.
"""

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor

from course_tools.checks.comparisons import Comparison, Failure, runs
from course_tools.checks.exercise import Call, Draw, Evidence, Property, Truth
from course_tools.checks.outcome import Outcome
from course_tools.checks.time_limit import TimedOut
from course_tools.checks.training_record import Measured

Judge = Callable[[Measured, Truth], str | None]
"""None where the property holds, else a sentence."""

KEPT, UNUSED = 0.5, 0.02
TOO_FAR, TOO_NEAR = 20.0, 0.02
"""Relative distances: that of ten sound updates is below 5, that of a whole training above 0.2."""


def _no_calls(draw: Draw) -> Iterable[Call]:
    """Draw nothing: the one call of a build task belongs to its training."""
    return ()


def judged_by(judge: Judge) -> Comparison:
    """Make a comparison of a judge."""

    def compare(expected: Outcome, got: Outcome) -> Failure | None:
        sentence = judge(Measured(*got.results), expected.results[0])
        return None if sentence is None else Failure(sentence)

    return compare


def holds(name: str, law: str, judge: Judge, points: int, needs: tuple[str, ...] = ("model",)) -> Property:
    """Make a property of a trained model."""
    return Property(name, law, _no_calls, judged_by(judge), points, needs)


def trains_within(seconds: float) -> Property:
    """Make the root of the graph: the function trains something and returns a model, in time."""

    def judge(expected: Outcome, got: Outcome) -> Failure | None:
        if isinstance(got.error, TimedOut):
            allowed = f"it may take {seconds:g} seconds of processor time"
            return Failure(f"It did not end in time; {allowed}. Use a smaller model or smaller batches.")
        return runs(expected, got)

    return Property("runs", "It trains without an error and returns the model.", _no_calls, judge, points=0, needs=())


def within_budget(most_parameters: int) -> Property:
    """Make the property that a training keeps to `truth["n_steps"]` updates and a model to so many weights."""

    def judge(measured: Measured, truth: Truth) -> str | None:
        if makes_too_many_updates(measured, truth):
            return f"It made {measured.n_updates} updates, and {truth['n_steps']} are allowed."
        if measured.n_parameters > most_parameters:
            return f"The model has {measured.n_parameters:,} weights, and {most_parameters:,} are allowed."
        return None

    law = f"It makes at most `n_steps` updates, and the model has at most {most_parameters:,} weights."
    return holds("budget", law, judge, points=1)


def _gradients(measured: Measured, truth: Truth) -> str | None:
    if gradients_are_kept(measured, truth):
        return f"Before {measured.kept:.0%} of the updates the gradients of the update before were still there."
    if weights_without_gradient(measured, truth):
        return f"{measured.without_gradient:.0%} of the weights in the optimizer never had a gradient."
    return None


def _evaluation(measured: Measured, truth: Truth) -> str | None:
    if differs_when_asked_again(measured, truth):
        return "Asked twice about the same inputs, the returned model gives different results."
    return None


def _held(measured: Measured, truth: Truth) -> str | None:
    if weights_left_out(measured, truth):
        return f"{measured.left_out:.0%} of the weights that had a gradient are in no optimizer."
    return None


sound_gradients = holds(
    "gradients", "Each update uses only its own gradients, and every trained weight has a gradient.", _gradients, points=1
)
same_twice = holds("evaluation", "The returned model gives the same result for the same input.", _evaluation, points=1)
complete_optimizer = holds(
    "optimizer", "Every weight that has a gradient is in the optimizer.", _held, 1, ("training", "evaluation")
)


def makes_updates(measured: Measured, truth: Truth) -> str | None:
    """Ask for updates."""
    return None if measured.n_updates else "It made no update."


def loss_falls(by: float = 0.03, unless: Judge | None = None, until: float = 1.0, when: str = "in the last") -> Judge:
    """Make a judge that asks for updates, and for a loss that falls.

    Args:
        by: by how much the loss of a later tenth of the training is below that of the first tenth, relative to that.
        unless: a judge of what was learned: a model that it passes was trained, however that was done.
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
    """Make a judge that asks for a score.

    Args:
        least: the score that is required, or what gives it from the truth.
        score: what is measured.
        words: the score, in words.
        reason: follows the score that is required, in the sentence about it.
    """

    def judge(measured: Measured, truth: Truth) -> str | None:
        found, wanted = score(measured, truth), least(truth) if callable(least) else least
        return None if found >= wanted else f"{words} is {found:.2f}; at least {wanted:.2f} is required{reason}."

    return judge


def each_alone(examples: str, outputs: str = "logits") -> Judge:
    """Make a judge that asks that results for examples do not depend on the others of their batch; both are given in words."""

    def judge(measured: Measured, truth: Truth) -> str | None:
        if not reads_other_examples(measured, truth):
            return None
        n = len(measured.outputs[1])
        return f"For the last {n} {examples} evaluated alone, it gives different {outputs} than in a batch with the others."

    return judge


def every(*judges: Judge) -> Judge:
    """Make a judge of several: it says the first fault that one of them finds."""
    return lambda measured, truth: next((fault for judge in judges if (fault := judge(measured, truth))), None)


def fault_of_logits(output: Tensor, shape: tuple[int, ...], inputs: str) -> str | None:
    """Say what is wrong with the shape or the type of logits; None where nothing is. The inputs are given in words."""
    if tuple(output.shape) != shape:
        return f"For {inputs} the logits should have shape {shape}, not {tuple(output.shape)}."
    if not output.is_floating_point():
        return f"The logits should be floating point, and they are {output.dtype}."
    return None


def gradients_are_kept(measured: Measured, truth: Truth) -> bool:
    """Evidence: at most updates the gradient left by the last one is still there, to the last bit."""
    return measured.kept > KEPT


def weights_without_gradient(measured: Measured, truth: Truth) -> bool:
    """Evidence: weights are in the optimizer and never had a gradient."""
    return measured.n_updates > 2 and measured.without_gradient > UNUSED


def differs_when_asked_again(measured: Measured, truth: Truth) -> bool:
    """Evidence: the returned model is not deterministic."""
    return not all(map(is_near, measured.outputs, measured.again))


def reads_other_examples(measured: Measured, truth: Truth) -> bool:
    """Evidence: the results for the last examples, asked about alone, the second query, are others than in the first."""
    return not is_near(measured.outputs[0][-len(measured.outputs[1]) :], measured.outputs[1])


def reads_one_batch(measured: Measured, truth: Truth) -> bool:
    """Evidence: every recorded call of the model while it trained had the same input."""
    first, *others = measured.read or [torch.zeros(0)]
    return len(others) >= 9 and all(first.shape == other.shape and torch.equal(first, other) for other in others)


def makes_too_many_updates(measured: Measured, truth: Truth) -> bool:
    """Evidence: there were more updates than `n_steps`."""
    return measured.n_updates > truth["n_steps"]


def no_weight_is_stepped(measured: Measured, truth: Truth) -> bool:
    """Evidence: optimizers stepped no weight of the returned model, and weights with a gradient are in no optimizer.

    A copy of a trained model, such as its best state or the mean of its weights, shows the first and not the second.
    """
    stepped_others = measured.n_parameters > 0 and measured.n_updates > 0 and measured.untouched == 1.0
    return stepped_others and weights_left_out(measured, truth)


def weights_left_out(measured: Measured, truth: Truth) -> bool:
    """Evidence: modules were trained through, and weights of theirs with a gradient are in no optimizer."""
    return measured.left_out > UNUSED


def updates_are_too_large(measured: Measured, truth: Truth) -> bool:
    """Evidence: the first ten updates move the weights by many times their size."""
    return measured.moved_at_first > TOO_FAR


def updates_are_too_small(measured: Measured, truth: Truth) -> bool:
    """Evidence: all updates together move the weights by less than two percent of their size."""
    return measured.n_updates > 0 and 0.0 < measured.moved < TOO_NEAR


def both(*evidence: Evidence) -> Evidence:
    """Make evidence that all of these show."""
    return partial(_all, evidence)


def fails(judge: Judge) -> Evidence:
    """Make evidence of a judge: it finds fault."""
    return lambda measured, truth: judge(measured, truth) is not None


def _all(evidence: tuple[Evidence, ...], measured: Measured, truth: Truth) -> bool:
    return all(shows(measured, truth) for shows in evidence)


def is_near(one: Tensor, other: Tensor, tolerance: float = 1e-3) -> bool:
    """Whether two results are the same up to the rounding of a forward pass."""
    if one.shape != other.shape:
        return False
    size = float(one.abs().nan_to_num().max()) if one.numel() else 0.0
    return torch.allclose(one.double(), other.double(), rtol=0.0, atol=tolerance * max(size, 1.0), equal_nan=True)
