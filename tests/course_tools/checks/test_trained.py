"""Judges of a trained model: each holds for a sound training, and says what is wrong with another one."""

import math

import pytest
import torch

from course_tools.checks.outcome import Outcome
from course_tools.checks.trained import (
    at_least,
    complete_optimizer,
    each_alone,
    every,
    fault_of_logits,
    loss_falls,
    makes_updates,
)
from course_tools.checks.training_record import Measured

EMPTY = Measured(*[None] * len(Measured._fields))


def with_losses(*losses, n_updates=20):
    return EMPTY._replace(losses=torch.tensor(losses, dtype=torch.float32), n_updates=n_updates)


def holds(judge, measured):
    return judge(measured, {}) is None


def faulty(measured, truth):
    return "A fault."


def sound(measured, truth):
    return None


@pytest.mark.parametrize(
    ("last", "by", "falls"),
    [(1.88, 0.05, True), (1.92, 0.05, False), (1.92, 0.03, True), (1.96, 0.03, False), (math.nan, 0.03, False)],
)
def test_a_loss_falls_by_a_part_of_what_it_was_in_the_first_tenth(last, by, falls):
    losses = [2.1, 1.9, *[0.5] * 16, last, last]
    assert holds(loss_falls(by), with_losses(*losses)) is falls


def test_a_loss_below_zero_falls_too():
    assert holds(loss_falls(0.02), with_losses(-1.0, -1.5))
    assert not holds(loss_falls(0.02), with_losses(-1.0, -1.01))


def test_the_loss_of_a_part_of_the_training_is_judged_up_to_its_end():
    losses = [5.0] * 2 + [4.0] * 12 + [9.0] * 6
    until = loss_falls(until=0.7, when="near the end of the first part")
    assert holds(until, with_losses(*losses))
    assert loss_falls()(with_losses(*losses), {}) == "In the first tenth of the training the loss is 5.00, in the last 9.00."
    said = until(with_losses(*[5.0] * 20), {})
    assert said == "In the first tenth of the training the loss is 5.00, near the end of the first part 5.00."


def test_without_an_update_no_loss_falls():
    assert loss_falls()(with_losses(n_updates=0), {}) == "It made no update."
    assert loss_falls()(with_losses(2.0, 1.0, n_updates=0), {}) == "It made no update."
    assert holds(loss_falls(), with_losses(n_updates=5))


def test_a_model_that_has_learned_was_trained_however_that_was_done():
    constant = with_losses(1.0, 1.0)
    assert not holds(loss_falls(unless=faulty), constant)
    assert holds(loss_falls(unless=sound), constant)
    assert holds(loss_falls(unless=sound), with_losses(n_updates=0))
    assert not holds(every(makes_updates, loss_falls(unless=sound)), with_losses(n_updates=0))


def test_the_first_fault_of_several_judges_is_said():
    assert holds(every(sound, sound), EMPTY)
    assert every(sound, faulty, makes_updates)(with_losses(n_updates=0), {}) == "A fault."
    assert every(sound, makes_updates, faulty)(with_losses(n_updates=0), {}) == "It made no update."


@pytest.mark.parametrize("least", [0.5, lambda truth: truth["baseline"] + 0.1])
def test_a_score_is_compared_with_a_number_or_with_the_truth(least):
    truth = {"baseline": 0.4}
    assert at_least(least, lambda *_: 0.5, "The score")(EMPTY, truth) is None
    said = at_least(least, lambda *_: 0.25, "The score", " (of a guess)")(EMPTY, truth)
    assert said == "The score is 0.25; at least 0.50 is required (of a guess)."


def test_examples_are_asked_about_alone():
    both, last = torch.arange(10.0).reshape(5, 2), torch.arange(6.0, 10.0).reshape(2, 2)
    assert holds(each_alone("images"), EMPTY._replace(outputs=[both, last]))
    said = each_alone("scenes", "predictions")(EMPTY._replace(outputs=[both, last + 1]), {})
    assert said == "For the last 2 scenes evaluated alone, it returns different predictions than in a batch with the others."


def test_logits_have_a_shape_and_are_floating_point():
    assert fault_of_logits(torch.zeros(3, 7), (3, 7), "3 names") is None
    assert fault_of_logits(torch.zeros(7, 3), (3, 7), "3 names") == (
        "For 3 names the logits should have shape (3, 7), not (7, 3)."
    )
    assert (
        fault_of_logits(torch.zeros(3, 7).long(), (3, 7), "")
        == "The logits should be floating point, but they are torch.int64."
    )


def test_weights_with_a_gradient_that_no_optimizer_holds_are_counted():
    def failure(left_out):
        return complete_optimizer.judge(Outcome(({},)), Outcome(tuple(EMPTY._replace(left_out=left_out))))

    assert failure(0.0) is None
    assert failure(0.25).what == "25% of the weights that had a gradient are not in any optimizer."
