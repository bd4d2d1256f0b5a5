"""Who solved the exercises has all points, whatever state the notebook is in and however odd the answer is written."""

import inspect
import os
import sysconfig

import pytest

from course_tools.bank import exercise, exercises
from course_tools.grading.extract.notebook_reader import Cell, cells_in
from course_tools.grading.extract.programs import Notebook
from tests.course_tools.grading.attacks import odd_company, odd_forms, odd_notebooks
from tests.course_tools.grading.attacks.stage import handed_out, honest, submission

SOURCES = odd_forms.SOURCES | odd_company.SOURCES
STATES = [f for f in vars(odd_notebooks).values() if inspect.isfunction(f) and f.__module__ == odd_notebooks.__name__]
STATES = [f for f in STATES if f.__name__ not in ("solved", "written", "changed", "source")]


def with_cells(source):
    """The notebook as it was handed out, with the cells of a source in the place of exercise 02.2."""
    cells = submission({"02.2": "here"})
    (at,) = [n for n, cell in enumerate(cells) if cell.source == "here"]
    parts = source.split("# %%\n")
    made = [cells[at]._replace(source=part) for part in parts[-1:]]
    return [*cells[:at], *(Cell("code", "", {}, part) for part in parts[:-1]), *made, *cells[at + 1 :]]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_an_odd_answer_earns_everything(source, judged, monkeypatch):
    monkeypatch.setattr("course_tools.grading.sandbox.session.LOAD_LIMIT", 4.0)
    mark = judged(with_cells(source))
    assert (mark.status, mark.points) == ("judged", mark.max_points), (mark.detail, mark.findings)


@pytest.mark.parametrize("state", STATES, ids=lambda f: f.__name__)
def test_a_notebook_in_an_odd_state_earns_everything(state, engine):
    """In its short exercises; the build task, which trains for seconds, is judged in the two states below."""
    notebook = Notebook(cells_in(state()), "02")
    short = [asked for asked in notebook.exercises if asked.training is None]
    marks = [engine.mark(notebook, asked) for asked in short]
    assert [(mark.exercise, mark.status, mark.detail) for mark in marks if not mark.passed] == []
    assert len(marks) >= 6


@pytest.mark.parametrize("state", [odd_notebooks.without_marks, odd_notebooks.answers_in_one_cell], ids=lambda f: f.__name__)
def test_with_its_build_task_too(state, engine):
    marks = engine.grade(cells_in(state()), "02")
    assert [(mark.exercise, mark.status, mark.detail) for mark in marks if not mark.passed] == []
    assert len(marks) == sum(asked.lecture == "02" for asked in exercises())


def test_a_package_is_found_though_others_are_installed_meanwhile(judged, engine):
    assert engine.level
    os.utime(sysconfig.get_path("purelib"))
    assert judged(with_cells(SOURCES["something is displayed"])).passed


def test_a_notebook_of_another_lecture_has_nothing_in_it(engine):
    notebook = Notebook(handed_out("04"), "02")
    marks = [engine.mark(notebook, asked) for asked in notebook.exercises[:2]]
    assert {(mark.status, mark.points) for mark in marks} == {("not found", 0)}
    assert all("No cell of this notebook defines" in mark.detail for mark in marks)


def test_no_cells_are_no_answers(engine):
    marks = engine.grade([], "02")
    assert [(mark.status, mark.points) for mark in marks] == [("not found", 0)] * len(marks)
    assert len(marks) == sum(asked.lecture == "02" for asked in exercises())


def test_what_is_asked_here_could_be_lost(judged):
    """Else the tests above would pass whatever is handed in."""
    assert not judged(with_cells(honest("q @ k.mT"))).passed
    assert judged(submission({}), exercise("02.2")).status == "not started"
