"""The verdict on an answer to an exercise, judged once: tests that ask for the same answer and seed share it."""

import time
from dataclasses import replace
from functools import cache, lru_cache

from course_tools.bank import exercise
from course_tools.checks import Verdict
from course_tools.checks.exercise import Answer
from course_tools.checks.judge_answer import Examination
from course_tools.checks.outcome import Outcome, watch
from course_tools.checks.time_limit import TIME_LIMIT, guarded

TIMES_LONGER, LEAST_SECONDS = 10.0, 0.2
"""What `passes` gives an answer: so many times the processor time of the reference, and these seconds."""


def examination(id: str, seed: int = 0) -> Examination:
    """Return the calls of an exercise, with what the reference and the wrong answers of the bank do on them."""
    return _examination(id, seed)


def outcomes(id: str, answer: Answer, seed: int = 0) -> list[Outcome]:
    """Observe an answer on the calls of an exercise."""
    return _outcomes(id, answer, seed)


def judged(id: str, answer: Answer, seed: int = 0) -> Verdict:
    """Judge an answer; the verdict has no prints, failing input or losses, which only a notebook shows."""
    return _judged(id, answer, seed)


# A cache takes `f(id)` and `f(id, 0)` for different calls, so the functions above always pass the seed. Outcomes hold tensors:
# only those of the latest exercises are kept, whose tests follow each other (conftest.py).
_examination = lru_cache(maxsize=8)(lambda id, seed: Examination(exercise(id), seed))


@cache
def _judged(id: str, answer: Answer, seed: int) -> Verdict:
    asks, found = examination(id, seed), outcomes(id, answer, seed)
    if seed != 1 and asks.exercise.training is None and answer in asks.exercise.wrong and len(found) == len(asks.calls):
        _share(asks, answer, found)
    return asks.judge(found)


def _share(asks: Examination, answer: Answer, found: list[Outcome]) -> None:
    """Compare answers with an answer of the bank as it was observed here; with seed 1, it is observed twice."""
    known, names = asks._known.setdefault(answer, {}), asks.exercise.results
    named = [replace(one, names=names) if one.results is not None and len(names) == len(one.results) else one for one in found]
    for prop in asks.exercise.properties:
        known.setdefault(prop.name, [one for (asked, _), one in zip(asks.asked, named, strict=False) if asked is prop])


@lru_cache(maxsize=256)
def _outcomes(id: str, answer: Answer, seed: int) -> list[Outcome]:
    asks = examination(id, seed)
    with guarded():
        return watch(answer, asks.calls, asks.n_preliminary, asks.exercise.forbids, asks.ask, asks.seconds)


def passes(id: str, answer: Answer, seed: int = 0) -> bool:
    """Return whether an answer passes, without asking it further once a property fails: mutants are many.

    One that takes ten times as long as the reference does not end, or might as well.
    """
    asks = examination(id, seed)
    for prop in asks.exercise.properties:
        calls = [(call, prop.with_gradients, prop.counts_cost) for one, call in asks.asked if one is prop]
        with guarded():
            found = watch(answer, calls, len(calls), asks.exercise.forbids, seconds=_limit(id, seed, prop.name))
            expected = asks._of(asks.exercise.reference, prop)
            if len(found) < len(calls) or any(got.called or got.results is None for got in found):
                return False
            if any(prop.judge(one, got) is not None for one, got in zip(expected, found, strict=True)):
                return False
    return True


@cache
def _limit(id: str, seed: int, name: str) -> float:
    asks = examination(id, seed)
    calls = [(call, prop.with_gradients, prop.counts_cost) for prop, call in asks.asked if prop.name == name]
    start = time.process_time()
    watch(asks.exercise.reference, calls, len(calls), asks.exercise.forbids)
    return min(TIME_LIMIT, LEAST_SECONDS + TIMES_LONGER * (time.process_time() - start))


def misconception(wrong: Answer) -> str:
    """Return what a wrong answer of the bank is told."""
    return " ".join((wrong.__doc__ or "").split())
