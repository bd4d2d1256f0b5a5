"""The bank of exercises: one file per exercise, and `verdict`, which judges an answer to one of them."""

import difflib
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from course_tools.checks.exercise import Exercise
from course_tools.checks.judge_answer import Verdict, judge

LECTURES = tuple(sorted(found.name.removeprefix("lecture_") for found in iter_modules(__path__) if found.ispkg))
"""Numbers of the lectures that have exercises: the folders `lecture_NN`."""

__all__ = ["LECTURES", "UnknownExercise", "exercise", "exercises", "verdict"]


class UnknownExercise(KeyError):
    """No exercise has this id; the message names similar ones."""

    def __str__(self) -> str:
        """Return the message without the quotes that KeyError adds."""
        return str(self.args[0])


def exercises(lecture: str | None = None) -> tuple[Exercise, ...]:
    """Return the exercises of the course, or of one lecture, such as "04", in order; a lecture not in LECTURES has none."""
    return tuple(item for number in LECTURES if lecture in (None, number) for item in _of(number))


@cache
def _of(lecture: str) -> tuple[Exercise, ...]:
    """Import one lecture's exercises: `exercise` of each file in its folder, but those whose name begins with an underscore."""
    folder = import_module(f"{__name__}.lecture_{lecture}")
    names = [found.name for found in iter_modules(folder.__path__, f"{folder.__name__}.") if "._" not in found.name]
    return tuple(sorted((import_module(name).exercise for name in names), key=lambda item: int(item.id.partition(".")[2])))


def exercise(id: str) -> Exercise:
    """Return one exercise by its id, such as "04.1"; raises UnknownExercise if there is none."""
    lecture = str(id).partition(".")[0]
    if found := next((item for item in exercises(lecture) if item.id == id), None):
        return found
    known = [item.id for item in exercises(lecture.zfill(2)) or exercises()]
    near = difflib.get_close_matches(str(id), known, n=3, cutoff=0.3) or [item.id for item in exercises()]
    raise UnknownExercise(f"there is no exercise {id!r}; did you mean {', '.join(near)}?")


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
