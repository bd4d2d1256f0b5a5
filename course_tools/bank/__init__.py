"""The bank of exercises: one file per exercise, and `verdict`, which judges an answer to one of them."""

import difflib
from functools import cache
from importlib import import_module

from course_tools.checks.exercise import Exercise
from course_tools.checks.verdict import Verdict, judge

LECTURES = ("01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16")

__all__ = ["UnknownExercise", "exercise", "exercises", "verdict"]


class UnknownExercise(KeyError):
    """No exercise has this id; the message names similar ones."""

    def __str__(self) -> str:
        """Return the message without the quotes that KeyError adds."""
        return str(self.args[0])


@cache
def exercises() -> tuple[Exercise, ...]:
    """Return all exercises of the course, in order."""
    return tuple(item for number in LECTURES for item in import_module(f"course_tools.bank.lecture_{number}").EXERCISES)


def exercise(id: str) -> Exercise:
    """Return one exercise by its id, such as "04.1"; raises UnknownExercise if there is none."""
    by_id = {item.id: item for item in exercises()}
    if id not in by_id:
        in_lecture = [known for known in by_id if known.partition(".")[0] == str(id).partition(".")[0].zfill(2)]
        near = difflib.get_close_matches(str(id), in_lecture or by_id, n=3, cutoff=0.3) or list(by_id)
        raise UnknownExercise(f"there is no exercise {id!r}; did you mean {', '.join(near)}?")
    return by_id[id]


def verdict(id: str, fn: object, seed: int = 0) -> Verdict:
    """Judge a function as an answer to an exercise.

    Args:
        id: the exercise, such as "04.1".
        fn: the answer; it may raise, loop, print or return anything.
        seed: determines the inputs and their sizes.

    Returns:
        whether it passed, its points and the maximum, its misconception if one is recognised, and a message.

    Raises:
        UnknownExercise: there is no such exercise.
    """
    return judge(exercise(id), fn, seed)
