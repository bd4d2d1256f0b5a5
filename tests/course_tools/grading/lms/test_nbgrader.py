"""nbgrader's course folder, and its autograder in our sandbox; the last test runs nbgrader itself where it is installed."""

import copy
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import nbformat
import pytest

from course_tools.bank import exercise
from course_tools.grading.lms.nbgrader import Sandboxed, export
from course_tools.publishing import lectures
from course_tools.publishing.source import FunctionSource
from tests.course_tools.grading.student_notebooks import ROOT, StandIn, student_notebook

STEM = "04_self_attention"


@pytest.fixture(autouse=True)
def course_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def taken(notebook: dict) -> tuple[nbformat.NotebookNode, Sandboxed]:
    sandboxed = Sandboxed(ROOT, Path.cwd(), StandIn)
    whole, _ = sandboxed.take(nbformat.reads(json.dumps(notebook), as_version=4), {"nbgrader": {"notebook": STEM}})
    return sandboxed.grade(whole, {})[0], sandboxed


def marks(notebook: nbformat.NotebookNode) -> dict[str, float]:
    """What nbgrader reads: an error is 0 points, a number that many."""
    found = {}
    for cell in notebook.cells:
        reported = cell.metadata.get("nbgrader", {})
        if reported.get("grade"):
            kinds = [output.output_type for output in cell.outputs]
            points = 0.0 if "error" in kinds else float(cell.outputs[0].data["text/plain"])
            found[reported["grade_id"]] = points
    return found


def cell_with(notebook: dict, grade_id: str) -> dict:
    return next(cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)


def test_a_course_folder_holds_each_lecture_solved_and_without_outputs(tmp_path):
    written = export(ROOT, tmp_path)
    stems = [lecture.stem for lecture in lectures(ROOT) if lecture.solution.exists()]
    assert written == [
        *(str(tmp_path / "source" / stem / f"{stem}.ipynb") for stem in stems),
        str(tmp_path / "nbgrader_config.py"),
    ]
    reported = nbformat.read(tmp_path / "source" / STEM / f"{STEM}.ipynb", as_version=4)
    assert not [cell for cell in reported.cells if cell.get("outputs")]
    assert "### BEGIN SOLUTION" in cell_with(reported, "exercise-04-1")["source"]
    compile((tmp_path / "nbgrader_config.py").read_text(encoding="utf-8"), "nbgrader_config.py", "exec")
    assert export(ROOT, tmp_path) == written


def test_marks_stand_where_nbgrader_reads_them():
    done, _ = taken(student_notebook(STEM, {"04.1": "# earns 12", "04.2": "# earns 3\n# thinks You forget."}))
    assert marks(done) == {"check-04-1": 12.0, "check-04-2": 3.0} | {f"check-04-{i}": 0.0 for i in range(3, 9)}
    (output,) = cell_with(done, "check-04-2")["outputs"]
    assert "You forget." in output.data["text/html"]
    assert output.output_type == "execute_result"


def test_the_inputs_are_drawn_from_a_secret_seed_and_isolation_is_reported(tmp_path):
    made = []

    class Recording(StandIn):
        def __init__(self, **options):
            super().__init__(**options)
            made.append(options)

    for _ in range(2):
        sandboxed = Sandboxed(ROOT, tmp_path, Recording, require_isolation=True)
        sandboxed.take(nbformat.reads(json.dumps(student_notebook(STEM)), as_version=4), {})
    seed = int((tmp_path / "seed.txt").read_text())
    assert made == [{"require_isolation": True, "seed": seed}] * 2
    assert seed != 0
    assert (tmp_path / "isolation.txt").read_text() == "No layer: this is a stand-in.\n"


def test_isolation_that_is_required_is_required_of_nbgrader_too(tmp_path):
    export(ROOT, tmp_path, require_isolation=True)
    text = (tmp_path / "nbgrader_config.py").read_text(encoding="utf-8")
    assert "require_isolation=True" in text
    assert str(tmp_path) in text


def test_nothing_that_a_student_hands_in_as_output_counts():
    notebook = student_notebook(STEM)
    forged = {"output_type": "execute_result", "data": {"text/plain": "12.0"}, "metadata": {}, "execution_count": 1}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [forged]
    assert set(marks(taken(notebook)[0]).values()) == {0.0}


def test_copied_deleted_and_retyped_cells_are_made_whole():
    notebook = student_notebook(STEM, {"04.1": "# earns 12"})
    answer, check = cell_with(notebook, "exercise-04-1"), cell_with(notebook, "check-04-1")
    notebook["cells"].insert(3, copy.deepcopy(check) | {"id": "a-copy"})
    notebook["cells"].remove(cell_with(notebook, "check-04-2"))
    retyped = cell_with(notebook, "check-04-3")
    retyped["cell_type"] = "markdown"
    del retyped["outputs"], retyped["execution_count"]
    answer["metadata"]["nbgrader"]["points"] = 900
    done, _ = taken(notebook)
    assert marks(done) == {"check-04-1": 12.0} | {f"check-04-{i}": 0.0 for i in range(2, 9)}
    ids = [cell.metadata["nbgrader"]["grade_id"] for cell in done.cells if "nbgrader" in cell.metadata]
    assert len(ids) == len(set(ids))
    assert cell_with(done, "exercise-04-1")["source"] == "# earns 12"
    assert "points" not in cell_with(done, "exercise-04-1")["metadata"]["nbgrader"]
    nbformat.validate(done)


def test_the_marks_of_one_notebook_are_not_anothers():
    _, sandboxed = taken(student_notebook(STEM, {"04.1": "# earns 12"}))
    foreign = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1")])
    sandboxed.take(foreign, {})
    again = nbformat.reads(json.dumps(student_notebook(STEM)), as_version=4)
    assert set(marks(sandboxed.grade(again, {})[0]).values()) == {0.0}


@pytest.mark.slow
def test_nbgrader_itself_takes_our_marks(tmp_path):
    pytest.importorskip("nbgrader", reason="nbgrader is not installed")
    export(ROOT, tmp_path)
    run(tmp_path, "generate_assignment", STEM)
    right = exercise("04.1").reference
    wrong = exercise("04.1").wrong[0]
    answers = {"ada": FunctionSource.of(right).text(), "bob": FunctionSource.of(wrong).named(right.__name__).text()}
    for student, source in answers.items():
        folder = tmp_path / "submitted" / student / STEM
        folder.mkdir(parents=True)
        (folder / f"{STEM}.ipynb").write_text(json.dumps(student_notebook(STEM, {"04.1": source})))
    run(tmp_path, "autograde", STEM)
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as book:
        scores = {student: book.find_submission(STEM, student).score for student in answers}
    assert scores["ada"] == exercise("04.1").points
    assert 0 < scores["bob"] < scores["ada"]


def run(folder, *words: str) -> None:
    scripts = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))  # where nbgrader finds alembic
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": scripts}
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
