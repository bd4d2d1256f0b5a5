"""Check an answer in a notebook: show the verdict, and return the function with which the lecture continues."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import wraps
from inspect import unwrap
from typing import get_type_hints

from course_tools.bank import exercise
from course_tools.bank.variants import variant as variant_of
from course_tools.bank.variants import varied
from course_tools.checks import Exercise, Verdict
from course_tools.checks.judge_answer import FailingInput, judge
from course_tools.checks.verdict_display import Hint, VerdictDisplay, show_verdict
from course_tools.notebook.answer_lookup import NamedAnswer, broken_cell, in_this_shell
from course_tools.notebook.own_functions import accept
from course_tools.notebook.progress_bar import updates_shown
from course_tools.notebook.progress_record import remember
from course_tools.notebook.training_curve import show_training

_REPEATED = "Your function has not changed since the last check. After changing it, run its cell again, then this one."

_SUSPECT = "suspect"
"""The name under which the cell of a bug hunt defines a wrong answer of the bank."""

_SAME_WAY = 3
"""Number of answers that fail in the same way before the next hint is offered."""

_OF_THE_LIBRARY = "it is the library's own answer, which does not exist when your notebook is graded. Write it by hand."

_latest: dict[str, Verdict] = {}
_under_check: set[str] = set()
_failures: dict[str, list[str]] = {}
"""For each exercise without a right answer: how each answer so far failed."""
_n_hints: dict[str, int] = {}
"""For each exercise: the number of hints offered."""


def check(id: str, fn: object, variant: str | None = None) -> Callable[..., object]:
    """Check an answer in a notebook, show a report, and return the function to continue with.

    While a build task trains, a progress bar counts its updates. Its report is followed by the loss curve of the training
    that was checked, whether it passed or not. Running the check again repeats the verdict: the library's function,
    returned in place of a wrong answer or imported, is never judged, and a right answer that calls it earns nothing, as in
    grading. An undefined name, or one whose cell has since ended with an error, is reported in a sentence. After three
    consecutive answers that fail in the same way, the next hint is offered. The `suspect` of a bug hunt is not the
    student's: it is no attempt in the progress record, and no reason for a hint.

    Args:
        id: the exercise, such as "04.1".
        fn: the answer.
        variant: the name of the convention that the answer follows, if the notebook has a variant.

    Returns:
        `fn` if it is right, converted to the usual convention if it has a variant, and to the named tuple of the library's
        function; else a wrapper of the library's function, so that the lecture runs to its end.

    Raises:
        UnknownExercise: there is no such exercise. A wrong answer does not raise.
        UnknownVariant: the exercise has no such variant.
    """
    asked = exercise(id)
    own = None if variant is None else variant_of(id, variant)
    name = getattr(fn, "name", "") if isinstance(fn, NamedAnswer) else getattr(fn, "__name__", asked.reference.__name__)
    answer, planted = fn.value if isinstance(fn, NamedAnswer) else fn, name == _SUSPECT
    problem = broken_cell(name, answer)
    if isinstance(fn, NamedAnswer) and answer is asked.reference:  # imported by the first cell, after a restart of the kernel
        problem = f"`{name}` is still the library's: run the cell above, which defines your own."
    if problem:
        verdict = Verdict(False, 0, asked.points, None, f"{asked.id} {asked.title}: 0 of {asked.points} points. {problem}")
        return _show(asked, verdict, answer, problem, problem, planted=planted)
    if (verdict := getattr(answer, "_verdict_of_the_answer", None)) is not None:
        return _show(asked, verdict, answer, answer._note_when_repeated, answer._note_when_repeated, planted=planted)
    _under_check.add(id)
    try:
        with nullcontext() if asked.training is None else updates_shown(f"Check {id} trains"):
            judged = asked if own is None else varied(asked, own)
            verdict = judge(judged, answer)
            if verdict.passed and asked.training is None and answer is not asked.reference:
                by_hand = judge(replace(judged, forbids={**asked.forbids, asked.reference: _OF_THE_LIBRARY}), answer)
                verdict = by_hand if by_hand.findings[-1].name == "by hand" else verdict
    finally:
        _under_check.discard(id)
    if own is not None and verdict.failing is not None:  # the lines would draw the inputs of the usual convention
        verdict = replace(verdict, failing=verdict.failing._replace(rebuilt=""))
    if planted:
        return _show(asked, verdict, answer, "", "", planted=True)
    if verdict.started:
        named = {"misconception": verdict.misconception, "suspected": verdict.suspected}
        remember("check", id, points=verdict.points, passed=verdict.passed, **named)
    if own is not None and verdict.passed:
        answer = own.carried_back(answer)
        answer._verdict_of_the_answer, answer._note_when_repeated = verdict, ""
    if verdict.passed:
        answer = _with_names(asked, answer, verdict)
    note = "" if own is None or verdict.passed else own.note
    return _show(asked, verdict, answer, note, f"{note} {_REPEATED}".strip(), _next_hint(asked, verdict))


def failing(id: str) -> FailingInput:
    """Return the first input on which the latest checked answer to an exercise fails.

    Returns:
        (property, inputs, result, expected, rebuilt): `your_function(*failing("04.1").inputs)` repeats the failing call;
        `result` is what the answer returned, or the error that it raised. `failing("04.1").code()` prints three lines that
        draw the inputs again.

    Raises:
        ValueError: no answer to this exercise has been checked in this kernel, or the latest one did not fail on an input.
    """
    verdict = _latest.get(exercise(id).id)
    if verdict is None or verdict.failing is None:
        raise ValueError(f"no answer to {id} has failed on an input in this kernel; run its check first.")
    return verdict.failing


def _next_hint(asked: Exercise, verdict: Verdict) -> Hint | None:
    """Return the next hint if this is the third answer, or the third since the last hint, that fails in the same way."""
    if verdict.passed:
        _failures.pop(asked.id, None)
    if verdict.passed or not verdict.started:
        return None
    failures = _failures.setdefault(asked.id, [])
    failures.append(verdict.misconception or next(f.name for f in verdict.findings if f.status == "fails"))
    n = _n_hints.get(asked.id, 0)
    if failures[-_SAME_WAY:] != [failures[-1]] * _SAME_WAY or n == len(asked.hints):
        return None
    failures.clear()
    _n_hints[asked.id] = n + 1
    return Hint(n + 1, asked.hints[n])


def _show(
    asked: Exercise,
    verdict: Verdict,
    answer: object,
    note: str,
    repeated: str,
    hint: Hint | None = None,
    planted: bool = False,
) -> Callable[..., object]:
    """Show a verdict with a note, and return the function to continue with; `repeated` is the note if the check runs again."""
    _latest[asked.id] = verdict
    show_verdict(VerdictDisplay(asked.id, asked.title, verdict, note, hint, planted))
    if verdict.losses is not None:
        trained = "the faulty version" if planted else asked.reference.__name__
        show_training(f"{trained} in check {asked.id}", verdict.losses, title=asked.curve)
    if verdict.passed and not planted:
        accept(asked.id, answer)
    return answer if verdict.passed else _stand_in(asked, verdict, repeated)


def _with_names(asked: Exercise, answer: Callable[..., object], verdict: Verdict) -> Callable[..., object]:
    """Wrap a right answer that may return a plain tuple: the lecture reads its results by name, as in `.context`."""
    kind = get_type_hints(unwrap(asked.reference)).get("return")
    if not hasattr(kind, "_fields") or answer is asked.reference:
        return answer

    @wraps(answer)
    def named(*args: object, **kwargs: object) -> object:
        results = answer(*args, **kwargs)
        return kind(*results) if type(results) in (tuple, list) else results

    named._verdict_of_the_answer, named._note_when_repeated = verdict, ""
    return named


def _stand_in(asked: Exercise, verdict: Verdict, note: str) -> Callable[..., object]:
    """Wrap the library's function, with the verdict on the student's function and a note.

    The wrapper raises a RuntimeError if it is called within an answer to its exercise.
    """

    @wraps(asked.reference)
    def stand_in(*args: object, **kwargs: object) -> object:
        if asked.id in _under_check:
            raise RuntimeError(
                f"`{asked.reference.__name__}` is the library's function here: run the cell with your own function again."
            )
        return asked.reference(*args, **kwargs)

    stand_in._verdict_of_the_answer = verdict
    stand_in._note_when_repeated = note
    return stand_in


in_this_shell()
