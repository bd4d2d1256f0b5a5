"""`course test-me`: the marks of the grader beside what the student's notebook shows, and the reason where they differ."""

import json
import sys

import pytest

from course_tools import cli as command
from course_tools.bank import exercise, exercises
from course_tools.grading import self_assessment
from course_tools.grading.files import CannotGrade
from course_tools.grading.sandbox.measured_isolation import NotIsolated
from course_tools.publishing.source import FunctionSource
from tests.course_tools.grading.student_notebooks import ROOT, student_notebook

FULL = exercise("04.1").points
RIGHT = FunctionSource.of(exercise("04.1").reference).text()
WRONG = RIGHT.replace("math.sqrt", "abs")
NEEDS_THE_KERNEL = f"{RIGHT.splitlines()[0]}\n    return typed_in_a_console(q, k, v, mask)"


def check_cell(notebook, id):
    name = exercise(id).reference.__name__
    return next(cell for cell in notebook["cells"] if f'check("{id}", {name})' in "".join(cell["source"]))


def shows(notebook, id, points):
    """Store the output that the check of an exercise leaves in a kernel."""
    data = {"text/html": "<div>…</div>", "text/plain": [repr(float(points))]}
    check_cell(notebook, id)["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "7.0"},
        {"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": 1},
    ]
    return notebook


@pytest.fixture(autouse=True)
def one_engine(engine, monkeypatch):
    """Use the engine that the tests of grading share; it is not closed here."""

    class Shared:
        def __init__(self, seed):
            self.seed = seed

        def __enter__(self):
            return engine

        def __exit__(self, *error):
            return

    monkeypatch.setattr(self_assessment, "Engine", Shared)


def lines(tmp_path, notebook):
    path = tmp_path / "04_self_attention.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    table = self_assessment.assess(ROOT, "4", path)
    return {line.split()[0]: line for line in table.splitlines() if line}, table


def test_each_exercise_has_a_line_with_the_points_on_hand_in(tmp_path, engine):
    answers = {"04.1": RIGHT, "04.2": "def causal_mask(T_q, T_k=None, device=None):\n    return torch.zeros(T_q, T_k)"}
    notebook = shows(shows(student_notebook("04_self_attention", answers), "04.1", FULL), "04.2", 0)
    found, table = lines(tmp_path, notebook)
    assert found["04.1"].endswith(f"{FULL} of {FULL}   {FULL}")
    assert f"0 of {exercise('04.2').points}" in found["04.2"]
    assert found["04.3"].endswith("not run")
    marks = engine.grade([], "04")
    assert [id for id in found if id.startswith("04.")] == [mark.exercise for mark in marks]
    assert f"earns {FULL} of {sum(item.points for item in exercises('04') if not item.extra)} points." in table


def test_where_the_points_differ_the_reason_is_given(tmp_path):
    notebook = student_notebook("04_self_attention", {"04.1": NEEDS_THE_KERNEL})
    found, _ = lines(tmp_path, shows(notebook, "04.1", FULL))
    assert f"0 of {FULL}" in found["04.1"]
    assert "typed_in_a_console" in found["04.1"]
    assert found["04.1"].endswith(
        f"again. If they still show {FULL}, your answer depends on something that exists only in your kernel."
    )
    notebook = student_notebook("04_self_attention", {"04.1": RIGHT})
    found, _ = lines(tmp_path, shows(notebook, "04.1", 3))
    assert "run both again" in found["04.1"]
    notebook = student_notebook("04_self_attention", {"04.1": WRONG})
    found, _ = lines(tmp_path, notebook)
    assert "not run" in found["04.1"]
    assert "You divide the scores by d_k itself" in found["04.1"]


def test_a_bug_hunt_says_nothing_of_the_students_own_answer():
    notebook = student_notebook("04_self_attention")
    for cell in notebook["cells"]:
        if "suspect = check(" in "".join(cell["source"]):
            cell["outputs"] = [{"output_type": "execute_result", "data": {"text/plain": "5.0"}, "metadata": {}}]
    assert self_assessment.shown_points(json.dumps(notebook).encode()) == {}
    assert self_assessment.shown_points(json.dumps(shows(notebook, "04.6", 4)).encode()) == {"04.6": 4.0}


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "there is no notebook"), ("", "The file is empty"), ("no json", "not a notebook: its text is not JSON")],
)
def test_what_is_no_notebook_is_said_in_a_sentence(tmp_path, capsys, content, said):
    path = tmp_path / "mine.ipynb"
    if content is not None:
        path.write_text(content)
    assert command.main(["test-me", "04", str(path)]) == 1
    assert said in capsys.readouterr().err


def test_the_notebook_of_another_lecture_is_refused(tmp_path):
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps(student_notebook("02_alignment")))
    with pytest.raises(CannotGrade, match="It is the notebook of lecture 02, not of lecture 04"):
        self_assessment.assess(ROOT, "04", path)


def test_a_machine_without_the_sandbox_says_so(tmp_path, monkeypatch, capsys):
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps(student_notebook("04_self_attention")))

    def refuse(seed):
        raise NotIsolated("Windows cannot isolate a student's code.")

    monkeypatch.setattr(self_assessment, "Engine", refuse)
    assert command.main(["test-me", "04", str(path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(
        "course: your notebook cannot be graded on this machine, only checked in Jupyter. Windows cannot isolate"
    )


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is graded on Windows")
