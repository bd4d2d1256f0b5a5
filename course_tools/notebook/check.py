"""Check an answer in a notebook: show the verdict, and give back the function with which the lecture goes on."""

from collections.abc import Callable

from course_tools.bank import exercise
from course_tools.checks.verdict import judge
from course_tools.checks.verdict_display import VerdictDisplay, publish


def check(id: str, fn: object) -> Callable[..., object]:
    """Check an answer in a notebook, show a report, and return the function to go on with.

    Returns:
        `fn` where it is right, else the library's reference, so that the lecture runs to its end.

    Raises:
        UnknownExercise: there is no such exercise. A wrong answer never raises.
    """
    asked = exercise(id)
    result = judge(asked, fn)
    publish(VerdictDisplay(asked.id, asked.title, result))
    return fn if result.passed else asked.reference
