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
            return Failure(f"It took longer than {seconds:g} seconds of processor time: a smaller model, or smaller batches?")
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


sound_gradients = holds(
    "gradients", "Each update uses its own gradients alone, and every weight that is trained has one.", _gradients, points=1
)
same_twice = holds("evaluation", "The returned model gives the same result for the same input.", _evaluation, points=1)


def gradients_are_kept(measured: Measured, truth: Truth) -> bool:
    """Evidence: at most updates the gradient left by the last one is still there, to the last bit."""
    return measured.kept > KEPT


def weights_without_gradient(measured: Measured, truth: Truth) -> bool:
    """Evidence: weights are in the optimizer and never had a gradient."""
    return measured.n_updates > 2 and measured.without_gradient > UNUSED


def differs_when_asked_again(measured: Measured, truth: Truth) -> bool:
    """Evidence: the returned model is not deterministic."""
    return not all(map(is_near, measured.outputs, measured.again))


def reads_one_batch(measured: Measured, truth: Truth) -> bool:
    """Evidence: every recorded call of the model while it trained had the same input."""
    first, *others = measured.read or [torch.zeros(0)]
    return len(others) >= 9 and all(first.shape == other.shape and torch.equal(first, other) for other in others)


def makes_too_many_updates(measured: Measured, truth: Truth) -> bool:
    """Evidence: there were more updates than `n_steps`."""
    return measured.n_updates > truth["n_steps"]


def no_weight_is_stepped(measured: Measured, truth: Truth) -> bool:
    """Evidence: optimizers stepped, and none of the weights of the returned model was among those stepped."""
    return measured.n_parameters > 0 and measured.n_updates > 0 and measured.untouched == 1.0


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
