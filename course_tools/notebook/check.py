"""Check an answer in a notebook: show the verdict, and give back the function with which the lecture goes on."""

from collections.abc import Callable
from functools import wraps

from course_tools.bank import exercise
from course_tools.checks import Exercise, Verdict
from course_tools.checks.verdict import FailingInput, judge
from course_tools.checks.verdict_display import VerdictDisplay, show_verdict
from course_tools.notebook.answer_lookup import NamedAnswer, broken_cell
from course_tools.notebook.progress_record import remember

_REPEATED = "This is the verdict on your function as it was. When you have changed it, run its cell again, then this one."

_latest: dict[str, Verdict] = {}
_under_check: set[str] = set()


def check(id: str, fn: object) -> Callable[..., object]:
    """Check an answer in a notebook, show a report, and return the function to go on with.

    Running the check again repeats the verdict: what an earlier check returned in place of a wrong answer is never judged.
    A name that is not defined, and one whose cell ended with an error since, are reported in a sentence.

    Returns:
        `fn` where it is right, else a stand-in that calls the library's function, so that the lecture runs to its end.

    Raises:
        UnknownExercise: there is no such exercise. A wrong answer never raises.
    """
    asked = exercise(id)
    name = getattr(fn, "name", "") if isinstance(fn, NamedAnswer) else getattr(fn, "__name__", asked.reference.__name__)
    answer = fn.value if isinstance(fn, NamedAnswer) else fn
    if problem := broken_cell(name, answer):
        verdict = Verdict(False, 0, asked.points, None, f"{asked.id} {asked.title}: 0 of {asked.points} points. {problem}")
        return _show(asked, verdict, answer, problem)
    if (verdict := getattr(answer, "_verdict_of_the_answer", None)) is not None:
        return _show(asked, verdict, answer, _REPEATED)
    _under_check.add(id)
    try:
        verdict = judge(asked, answer)
    finally:
        _under_check.discard(id)
    if verdict.started:
        remember("check", id, points=verdict.points, passed=verdict.passed, misconception=verdict.misconception)
    return _show(asked, verdict, answer)


def failing(id: str) -> FailingInput:
    """Give the first input on which the latest checked answer to an exercise fails.

    Returns:
        (property, inputs, result, expected): `your_function(*failing("04.1").inputs)` repeats the failing call; `result` is
        what the answer returned, or the error that it raised.

    Raises:
        ValueError: no answer to this exercise has been checked in this kernel, or the latest one did not fail on an input.
    """
    verdict = _latest.get(exercise(id).id)
    if verdict is None or verdict.failing is None:
        raise ValueError(f"no answer to {id} has failed on an input here; run its check first.")
    return verdict.failing


def _show(asked: Exercise, verdict: Verdict, answer: object, note: str = "") -> Callable[..., object]:
    _latest[asked.id] = verdict
    show_verdict(VerdictDisplay(asked.id, asked.title, verdict, note))
    return answer if verdict.passed else _stand_in(asked, verdict)


def _stand_in(asked: Exercise, verdict: Verdict) -> Callable[..., object]:
    """Wrap the library's function, with the verdict on the student's; it refuses to take part in an answer to its exercise."""

    @wraps(asked.reference)
    def stand_in(*args: object, **kwargs: object) -> object:
        if asked.id in _under_check:
            raise RuntimeError(f"`{asked.reference.__name__}` is the library's function here: run the cell of your own again.")
        return asked.reference(*args, **kwargs)

    stand_in._verdict_of_the_answer = verdict
    return stand_in
