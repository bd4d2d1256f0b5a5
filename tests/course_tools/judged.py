"""The verdict on an answer to an exercise, judged once: tests that ask for the same answer and seed share it."""

from functools import cache

from course_tools.bank import exercise
from course_tools.checks import Verdict
from course_tools.checks.exercise import Answer
from course_tools.checks.judge_answer import Examination
from course_tools.checks.outcome import Outcome, watch
from course_tools.checks.time_limit import guarded


def examination(id: str, seed: int = 0) -> Examination:
    """Return the calls of an exercise, with what the reference and the wrong answers of the bank do on them."""
    return _examination(id, seed)


def outcomes(id: str, answer: Answer, seed: int = 0) -> list[Outcome]:
    """Observe an answer on the calls of an exercise."""
    return _outcomes(id, answer, seed)


def judged(id: str, answer: Answer, seed: int = 0) -> Verdict:
    """Judge an answer; the verdict has no prints, failing input or losses, which only a notebook shows."""
    return _judged(id, answer, seed)


# A cache takes `f(id)` and `f(id, 0)` for different calls, so the functions above always pass the seed.
_examination = cache(lambda id, seed: Examination(exercise(id), seed))
_judged = cache(lambda id, answer, seed: examination(id, seed).judge(outcomes(id, answer, seed)))


@cache
def _outcomes(id: str, answer: Answer, seed: int) -> list[Outcome]:
    asks = examination(id, seed)
    with guarded():
        return watch(answer, asks.calls, asks.n_preliminary, asks.exercise.forbids, asks.ask, asks.seconds)


def passes(id: str, answer: Answer, seed: int = 0) -> bool:
    """Return whether an answer passes, without asking it further once a property fails: mutants are many."""
    asks = examination(id, seed)
    for prop in asks.exercise.properties:
        calls = [(call, prop.with_gradients, prop.counts_cost) for one, call in asks.asked if one is prop]
        with guarded():
            found = watch(answer, calls, len(calls), asks.exercise.forbids)
            expected = asks._of(asks.exercise.reference, prop)
            if len(found) < len(calls) or any(got.called or got.results is None for got in found):
                return False
            if any(prop.judge(one, got) is not None for one, got in zip(expected, found, strict=True)):
                return False
    return True


def misconception(wrong: Answer) -> str:
    """Return what a wrong answer of the bank is told."""
    return " ".join((wrong.__doc__ or "").split())
