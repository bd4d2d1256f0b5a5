"""The lecture of a notebook is reported by its cells, whatever the file is called."""

import json

import pytest

from course_tools.grading.extract.notebook_reader import Cell, cells_in
from course_tools.grading.intake.recognise import Course
from tests.course_tools.grading.student_notebooks import ROOT, notebook, student_notebook


@pytest.fixture(scope="module")
def course() -> Course:
    return Course.at(ROOT)


def stripped(stem: str, *keys: str) -> list[Cell]:
    """The cells of a lecture without some of what they are known by."""
    reported = student_notebook(stem)
    for cell in reported["cells"]:
        for key in keys:
            cell["metadata"].pop(key, None)
            cell.pop(key, None)
    return cells_in(json.dumps(reported).encode())


@pytest.mark.parametrize("stem", ["01_recurrence", "02_alignment", "04_self_attention"])
@pytest.mark.parametrize("gone", [(), ("exercise",), ("exercise", "nbgrader"), ("exercise", "nbgrader", "id")])
def test_a_renamed_notebook_is_known_by_what_is_left_of_its_cells(course, stem, gone):
    assert course.lecture_of(stripped(stem, *gone), "01_recurrence (1).ipynb") == stem[:2]


def test_functions_tell_where_nothing_else_does(course):
    cells = [Cell("code", "", {}, "def split_heads(x, n):\n    pass\ndef lstm_step(): pass\ndef causal_mask(): pass")]
    assert course.lecture_of(cells, "x.ipynb") == "04"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ada_04_self_attention-1.ipynb", "04"),
        ("Self-Attention.ipynb", "04"),
        ("ada_11_vision_transformer.ipynb", "11"),
        ("Linear Transformers.ipynb", "14"),
        ("transformer.ipynb", "05"),
        ("lecture 2.ipynb", "02"),
        ("Lecture_01_ada.ipynb", "01"),
        ("lecture 12.ipynb", "12"),
        ("lecture 97.ipynb", None),
        ("homework.ipynb", None),
    ],
)
def test_the_name_of_the_file_is_asked_where_the_cells_are_silent(course, name, number):
    assert course.lecture_of([Cell("markdown", "", {}, "# hello")], name) == number


def test_cells_copied_from_another_lecture_do_not_outvote_the_rest(course):
    mixed = stripped("04_self_attention") + cells_in(notebook("01", e1="x"))
    assert course.lecture_of(mixed, "x.ipynb") == "04"


@pytest.mark.parametrize("strange", [{"exercise": 4.1}, {"exercise": "99.1"}, {"nbgrader": []}, {"nbgrader": {"grade_id": {}}}])
def test_strange_marks_tell_nothing(course, strange):
    assert course.lecture_of([Cell("code", "", strange, "")], "x.ipynb") is None
