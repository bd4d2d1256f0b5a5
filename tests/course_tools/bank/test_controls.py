"""Controls: the report says what a fair comparison shows, and no point depends on which model wins."""

import pytest
import torch

from course_tools.bank import exercise
from course_tools.bank.controls import ClaimScores, cannot_succeed, conclusion, reads_few_examples
from course_tools.checks.training_record import Measured
from tests.course_tools.judged import examination, judged, misconception, outcomes

CONTROLS = ["04.7", "09.7"]


@pytest.fixture(params=CONTROLS, ids=[f"{id}-control" for id in CONTROLS])
def control(request):
    """A task that asks for a control, the verdict on its reference, what was measured of it, and the truth."""
    task = exercise(request.param)
    (outcome,) = outcomes(task.id, task.reference)
    return task, judged(task.id, task.reference), Measured(*outcome.results), examination(task.id)._truth


def test_a_fair_rival_earns_all_points_and_is_told_what_it_shows(control):
    task, verdict, measured, truth = control
    assert (verdict.passed, verdict.points) == (True, 12)
    said = task.training.conclusion(measured, truth)
    assert verdict.conclusion == said
    assert verdict.message.endswith(f"Right. {said}")
    assert f"{truth['scores'].claim:.2f}" in said
    assert "What your comparison shows" in said


def test_no_point_depends_on_which_of_the_two_wins(control):
    task, _, measured, truth = control
    for claimed in (0.0, 1.0):
        other = truth | {"scores": ClaimScores(claimed, truth["scores"].control)}
        assert all(prop.judge(_outcome(other), _outcome(*measured)) is None for prop in task.properties if prop.name != "runs")


def _outcome(*results):
    from course_tools.checks.outcome import Outcome

    return Outcome(results)


@pytest.mark.parametrize(
    ("rival", "said"),
    [
        (0.3, "supports the claim: without"),
        (0.6, "supports the claim in part"),
        (0.96, "speaks against the claim: without"),
        (1.2, "speaks against the claim: a rival of equal size, information and training does better"),
    ],
)
def test_the_words_of_the_conclusion_follow_from_the_numbers(rival, said):
    claim = exercise(CONTROLS[0]).training.conclusion.args[0]._replace(score=lambda measured, truth: ClaimScores(rival, 1.0))
    told = conclusion(claim, None, {"scores": ClaimScores(1.0, 1.0), "guess": 0.3})
    assert said in told
    assert f"{rival:.2f} for your rival" in told


def test_a_rival_that_fails_at_the_positive_control_could_not_have_succeeded():
    claim = exercise(CONTROLS[0]).training.conclusion.args[0]
    for found, fails in ((0.89, True), (0.91, False)):
        shows = cannot_succeed(claim._replace(score=lambda measured, truth, found=found: ClaimScores(0.3, found)))
        assert shows(None, {"scores": ClaimScores(1.0, 1.0)}) is fails


def test_batches_of_another_size_cost_their_own_point_alone():
    task = exercise("04.7")
    smaller = next(wrong for wrong in task.wrong if wrong.__name__ == "batches_of_another_size")
    found = judged(task.id, smaller)
    assert (found.points, found.misconception) == (11, misconception(smaller))
    assert [f.name for f in found.findings if f.status != "holds"] == ["trained"]
    assert "Its batches hold 32 examples, those of the model 64." in found.message


def test_repeated_examples_are_seen_in_what_a_model_reads():
    empty = Measured(*[None] * len(Measured._fields))
    rows = torch.arange(640).reshape(10, 64, 1)
    truth = {"inputs": torch.zeros(3, 1)}
    assert not reads_few_examples(empty._replace(read=list(rows)), truth)
    assert reads_few_examples(empty._replace(read=list(rows % 100)), truth)
