"""The notebook as it is handed out earns nothing, bug hunts included, and the solved one everything."""

import pytest

from course_tools.bank import exercises
from course_tools.grading.extract.notebook_reader import read_cells
from course_tools.publishing import lectures
from tests.course_tools.grading.student_notebooks import ROOT

BUILT = [lecture for lecture in lectures(ROOT) if lecture.unsolved.exists() and lecture.solution.exists()]


@pytest.mark.parametrize("lecture", BUILT, ids=lambda lecture: lecture.number)
def test_an_untouched_notebook_is_not_started(engine, lecture):
    marks = engine.grade(read_cells(lecture.unsolved), lecture.number)
    assert {(mark.exercise, mark.status, mark.points) for mark in marks} == {
        (item.id, "not started", 0) for item in exercises() if item.lecture == lecture.number
    }


@pytest.mark.parametrize("lecture", BUILT, ids=lambda lecture: lecture.number)
def test_a_solved_notebook_earns_all_points(engine, lecture):
    marks = engine.grade(read_cells(lecture.solution), lecture.number)
    assert [mark.exercise for mark in marks] == [item.id for item in exercises() if item.lecture == lecture.number]
    assert [(mark.exercise, mark.points) for mark in marks if not mark.passed or mark.points != mark.max_points] == []
    assert not any(mark.detail or mark.flags or mark.misconception for mark in marks)
