"""What the tests of grading share: one engine for all of them, and notebooks made of cells."""

import multiprocessing
import sys
from collections.abc import Callable, Iterator

import pytest

from course_tools.bank import exercise, exercises
from course_tools.checks import Exercise
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.programs import handed_out
from course_tools.grading.judge_notebook import Engine
from course_tools.grading.marks import Mark


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """One engine, with whatever isolation this machine has."""
    if sys.platform == "win32":
        pytest.skip("nothing is graded on Windows")
    with Engine() as started:
        yield started


@pytest.fixture
def started_quickly(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes with a stand-in are forks of one that has imported everything; in other tests they start as in a real run."""
    if sys.platform == "linux" and not request.node.get_closest_marker("slow"):
        context = multiprocessing.get_context("forkserver")
        lectures = (f"course_tools.bank.lecture_{item.lecture}.{item.reference.__name__}" for item in exercises())
        context.set_forkserver_preload(
            ["course_tools.grading.batch", "tests.course_tools.grading.student_notebooks", *lectures]
        )
        monkeypatch.setattr(multiprocessing, "get_context", lambda method: context)


@pytest.fixture
def mark_of(engine: Engine) -> Callable[..., Mark]:
    """Return `mark_of(source, id, *others)`: the mark of an exercise whose cell has this source, and other cells after it."""

    def mark(source: str, id: str = "04.1", *others: Cell) -> Mark:
        asked = exercise(id)
        marks = engine.grade([*submitted(asked, source), *others], asked.lecture)
        return next(mark for mark in marks if mark.exercise == id)

    return mark


def is_answer(cell: Cell, asked: Exercise) -> bool:
    return cell.metadata.get("exercise") == asked.id and "bug" not in cell.metadata


def submitted(asked: Exercise, source: str) -> list[Cell]:
    """The notebook of a lecture as it was handed out, with one cell answered; that cell alone while there is no notebook."""
    handed = handed_out(asked.lecture) or [Cell("code", "", {"exercise": asked.id}, "")]
    cells = [cell._replace(source=source) if is_answer(cell, asked) else cell for cell in handed]
    assert any(cell.source == source for cell in cells)
    return cells
