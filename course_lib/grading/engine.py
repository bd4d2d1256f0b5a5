"""Judges one notebook: every exercise in a process of its own, the verdict outside of it."""

from collections.abc import Sequence
from types import TracebackType

from course_lib.grading.cells import Cell
from course_lib.grading.marks import Mark


class NotIsolated(RuntimeError):
    """A wall that was required does not hold on this machine; the text says which and what to do."""


class Isolation:
    """Which walls hold around a student's code, in words: `str(level)` is one sentence, `layers` one word each."""


class Engine:
    """A context manager that starts the sandbox once, tries its walls, and judges notebooks one after the other."""

    def __init__(self, *, require_isolation: bool = False, seed: int = 0) -> None:
        """Raise NotIsolated on entry where `require_isolation` is asked and a wall does not hold."""

    level: Isolation

    def __enter__(self) -> "Engine":
        """Start."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """End every process that was started."""

    def grade(self, cells: Sequence[Cell], lecture: str) -> tuple[Mark, ...]:
        """Give one mark for each exercise of the lecture, in order."""
        raise NotImplementedError
