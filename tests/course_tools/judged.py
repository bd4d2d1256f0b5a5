"""The verdict on an answer to an exercise, judged once: tests that ask for the same answer and seed share it."""

from functools import cache

from course_tools.bank import exercise
from course_tools.checks import Verdict
from course_tools.checks.exercise import Answer
from course_tools.checks.outcome import Outcome, watch
from course_tools.checks.time_limit import guarded
from course_tools.checks.verdict import Examination


@cache
def examination(id: str, seed: int = 0) -> Examination:
    """Return the calls of an exercise, with what the reference and the wrong answers of the bank do on them."""
    return Examination(exercise(id), seed)


@cache
def outcomes(id: str, answer: Answer, seed: int = 0) -> list[Outcome]:
    """Observe an answer on the calls of an exercise."""
    asks = examination(id, seed)
    with guarded():
        return watch(answer, asks.calls, asks.n_preliminary, asks.exercise.forbids, asks.ask, asks.seconds)


@cache
def judged(id: str, answer: Answer, seed: int = 0) -> Verdict:
    """Judge an answer; the verdict has no prints, failing input or losses, which only a notebook shows."""
    return examination(id, seed).judge(outcomes(id, answer, seed))


def passes(id: str, answer: Answer, seed: int = 0) -> bool:
    """Return whether an answer passes, without asking it further once a property fails: mutants are many."""
    asks = examination(id, seed)
    for prop in asks.exercise.properties:
        calls = [(call, prop.with_gradients, prop.counts_cost) for one, call in asks.asked if one is prop]
        with guarded():
            found = watch(answer, calls, len(calls), asks.exercise.forbids)
            expected = asks._of(asks.exercise.reference, prop)
            if len(found) < len(calls) or any(got.called for got in found):
                return False
            if any(prop.judge(one, got) is not None for one, got in zip(expected, found, strict=True)):
                return False
    return True


def misconception(wrong: Answer) -> str:
    """Return what a wrong answer of the bank is told."""
    return " ".join((wrong.__doc__ or "").split())
