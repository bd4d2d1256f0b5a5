"""The autograder for Gradescope: what is in the zip, what it writes, and the whole of it run from the unpacked zip."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from course_tools.bank import exercises
from course_tools.grading.batch import grade_notebook
from course_tools.grading.files import CannotGrade
from course_tools.grading.intake.submissions import handed_in
from course_tools.grading.lms.gradescope import export, report, run
from course_tools.grading.notebook_result import Graded
from tests.course_tools.grading.student_notebooks import ROOT, StandIn, course, notebook


def told(folder: Path, **notebooks: bytes) -> dict:
    """What Gradescope reads of one student's notebooks, graded by the stand-in."""
    for name, data in notebooks.items():
        (folder / f"{name}.ipynb").write_bytes(data)
    with handed_in(folder) as intake:
        graded = [Graded(s, grade_notebook(s.read(), s.file_name, StandIn(), course(), "04")) for s in intake.submissions]
    return json.loads(json.dumps(report(graded)))


def test_each_exercise_is_a_test_of_gradescope(tmp_path):
    found = told(tmp_path, nb=notebook(e1="# earns 14", e2="# earns 3\n# thinks You <forget>."))
    assert found["score"] == 17
    first, second, *_ = found["tests"]
    assert first.keys() == {"number", "name", "score", "max_score", "status", "output", "output_format", "visibility"}
    assert (first["number"], first["score"], first["max_score"], first["status"]) == ("04.1", 14, 14, "passed")
    assert (second["score"], second["status"], second["output_format"]) == (3, "failed", "html")
    assert "You &lt;forget&gt;." in second["output"]
    assert found["stdout_visibility"] == "hidden"


def test_of_several_notebooks_the_better_one_counts_and_another_lecture_is_named(tmp_path):
    found = told(tmp_path, a=notebook(e1="# earns 2"), b=notebook(e1="# earns 5"), c=notebook("05", e1="# earns 9"))
    assert found["score"] == 5
    assert "b.ipynb" in found["output"]
    assert "notebook of lecture 05" in found["output"]


def test_without_a_notebook_that_can_be_read_there_are_no_points_and_a_reason(tmp_path):
    assert told(tmp_path)["output"] == "<p>The submission contains no notebook (.ipynb).</p>"
    found = told(tmp_path, nb=b"")
    assert (found["score"], found["tests"]) == (0, [])
    assert "empty" in found["output"]


class _Refusing(StandIn):
    def __init__(self, *, require_isolation: bool = False, seed: int = 0) -> None:
        self.asked = f"isolation required: {require_isolation}, seed: {seed}"

    def __enter__(self) -> StandIn:
        raise RuntimeError(self.asked)


def test_isolation_is_required_with_the_seed_of_the_zip_and_without_it_nothing_is_written(tmp_path, capsys):
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission" / "nb.ipynb").write_bytes(notebook(e1="# earns 2"))
    (tmp_path / "seed.txt").write_text("7531\n")
    written = tmp_path / "results.json"
    assert run(ROOT, "04", tmp_path / "submission", written, tmp_path / "seed.txt", _Refusing) == 1
    assert "Nothing was graded: isolation required: True, seed: 7531" in capsys.readouterr().err
    assert not written.exists()


def test_a_lecture_without_exercises_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("course_tools.grading.lms.gradescope.exercises", lambda lecture: ())
    with pytest.raises(CannotGrade, match="has no exercises"):
        export(ROOT, "04", tmp_path / "g.zip")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Gradescope's containers run Linux")
def test_the_zip_holds_the_course_without_solutions_and_grades_from_there(tmp_path, engine):
    if not engine.level.full:
        pytest.skip(str(engine.level))
    with zipfile.ZipFile(export(ROOT, "04", tmp_path / "g.zip")) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "source")
        assert archive.getinfo("run_autograder").external_attr >> 16 == 0o100755
    assert {"setup.sh", "run_autograder", "course.py", "pyproject.toml", "seed.txt"} <= set(names)
    assert not [name for name in names if name.startswith(("solutions/", "authoring/", "tests/")) or "__pycache__" in name]
    (tmp_path / "submission").mkdir()
    (tmp_path / "results").mkdir()
    shutil.copy(ROOT / "solutions" / "04_self_attention.ipynb", tmp_path / "submission" / "nb.ipynb")
    script = tmp_path / "source" / "run_autograder"
    script.write_text(script.read_text().replace('Path("/autograder")', f"Path({str(tmp_path)!r})"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "source")}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "results" / "results.json").read_text())
    assert [test["status"] for test in found["tests"]] == ["passed"] * len(found["tests"]) != []
    assert found["score"] == sum(item.points for item in exercises("04"))
    assert sum(test["max_score"] for test in found["tests"]) == sum(item.points for item in exercises("04") if not item.extra)


def test_the_set_up_is_a_script_that_a_shell_reads(tmp_path):
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")
    with zipfile.ZipFile(export(ROOT, "04", tmp_path / "g.zip")) as archive:
        script = archive.read("setup.sh")
    assert b"\r" not in script
    assert subprocess.run(["bash", "-n"], input=script, capture_output=True, check=False).returncode == 0
