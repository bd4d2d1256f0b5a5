"""Gradescope: an autograder for one lecture, as a zip to upload, and the program that runs in its container.

The container holds the course without its solutions. Each submission is graded by the same engine as in `course grade`, with
the same isolation layers. If one of them is missing, nothing is graded and no results are written, which Gradescope reports as
a failure of the autograder. https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

import io
import json
import secrets
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from course_tools.bank import exercise, exercises
from course_tools.command_failed import CommandFailed
from course_tools.grading.batch import GradingEngine, GradingOptions, grade_all
from course_tools.grading.files import CannotGrade, make_folder, secret_seed
from course_tools.grading.intake.submissions import handed_in
from course_tools.grading.journal import Journal
from course_tools.grading.judge_notebook import Engine
from course_tools.grading.marks import Mark
from course_tools.grading.notebook_result import Graded
from course_tools.grading.report.html import html
from course_tools.grading.report.student_page import section
from course_tools.publishing import lectures
from course_tools.whole_file import write_whole

_SET_UP = """\
#!/usr/bin/env bash
# Runs once, while Gradescope builds the image: Python 3.11 or newer, then the packages of the course.
set -e
apt-get update
apt-get install -y python3.11 python3.11-venv || apt-get install -y python3 python3-venv
"$(command -v python3.11 || command -v python3)" /autograder/source/course.py setup --cpu
"""
_RUN = """\
#!/autograder/source/.venv/bin/python
import sys
from pathlib import Path

from course_tools.grading.lms.gradescope import run
from course_tools.publishing import lectures_root

if __name__ == "__main__":
    root = Path("/autograder")
    sys.exit(run(lectures_root(), {lecture!r}, root / "submission", root / "results/results.json", root / "source/seed.txt"))
"""
_FILES = ("course.py", "pyproject.toml", "README.md", "LICENSE")
_PACKAGES = ("course_lib", "course_tools")
_LEFT_OUT = ("__pycache__", ".pyc")


def export(root: Path, lecture: str, archive: Path) -> Path:
    """Write the autograder of one lecture: setup.sh, run_autograder, a secret seed, and the course without its solutions.

    Args:
        root: the folder of the course.
        lecture: its number, such as "04".
        archive: the zip to write; its folder is created if missing.

    Returns:
        the zip.

    Raises:
        UnknownLecture: there is no such lecture.
        CannotGrade: the lecture has no exercises, or the zip cannot be written.
    """
    (found,) = lectures(root, [lecture])
    if not exercises(found.number):
        raise CannotGrade(f"lecture {found.number} has no exercises.")
    if not found.unsolved.exists():
        raise CannotGrade(f"{found.name(found.unsolved)} does not exist: run `python course.py build`.")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as written:
        for name, text in (("setup.sh", _SET_UP), ("run_autograder", _RUN.format(lecture=found.number))):
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o100755 << 16
            written.writestr(info, text)
        written.writestr("seed.txt", f"{secrets.randbelow(2**31)}\n")
        for path, name in _course(root):
            written.write(path, name)
    make_folder(archive.resolve().parent)
    write_whole(archive, data.getvalue())
    return archive


def _course(root: Path) -> Iterator[tuple[Path, str]]:
    """The files that grading needs, with their names in the zip."""
    yield from ((root / name, name) for name in _FILES)
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.is_file() and not any(part in str(path) for part in _LEFT_OUT):
                yield path, path.relative_to(root).as_posix()
    for lecture in lectures(root):
        if lecture.unsolved.exists():
            yield lecture.unsolved, f"lectures/{lecture.unsolved.name}"


def run(
    root: Path,
    lecture: str,
    submission: Path,
    results: Path,
    seed: Path,
    engine: Callable[..., AbstractContextManager[GradingEngine]] = Engine,
) -> int:
    """Grade one submission, and write the results for Gradescope; if there are several notebooks, the best one counts.

    Args:
        root: the folder whose `lectures/` were distributed.
        lecture: its number.
        submission: the folder with the student's files.
        results: the file to write, results.json.
        seed: the file with the seed of the inputs.
        engine: the grading engine, called with require_isolation and seed.

    Returns:
        the exit status: 0, or 1 if grading failed for a reason other than the submission; then no file is written.
    """
    try:
        options = GradingOptions(engine, root, lecture, 1, secret_seed(seed), require_isolation=True)
        with (
            tempfile.TemporaryDirectory() as folder,
            handed_in(submission) as intake,
            Journal(Path(folder, "journal")) as journal,
        ):
            graded = grade_all(intake.submissions, journal, options)
        if failures := [item.failure for item in graded if item.failure]:
            raise CannotGrade(" ".join(failures))
        write_whole(results, json.dumps(report(graded), indent=1) + "\n")
    except CommandFailed as error:
        print(f"Nothing was graded: {error}", file=sys.stderr)
        return 1
    return 0


def report(graded: list[Graded]) -> dict:
    """Return the results of one student in Gradescope's format: one test for each exercise, with the feedback as HTML."""
    notes = [f"{item.submission.source}: {item.result.note}" for item in graded if item.result.note]
    counting = [item for item in graded if item.result.lecture is not None]
    if not graded:
        notes.append("The submission contains no notebook (.ipynb).")
    tests, best = [], max(counting, key=lambda item: item.result.points, default=None)
    if best is not None:
        tests = [_test(mark) for mark in best.result.marks]
        if len(counting) > 1:
            notes.append(f"{len(counting)} notebooks: the one with the most points counts, {best.submission.source}.")
    found = {"output": "".join(f"<p>{html(note)}</p>" for note in notes), "output_format": "html", "tests": tests}
    return {"score": sum(test["score"] for test in tests), "stdout_visibility": "hidden", **found}


def _test(mark: Mark) -> dict:
    asked = exercise(mark.exercise)
    return {
        "number": asked.id,
        "name": asked.title,
        "score": mark.points,
        "max_score": 0 if asked.extra else mark.max_points,
        "status": "passed" if mark.passed else "failed",
        "output": str(section(asked, mark)),
        "output_format": "html",
        "visibility": "visible",
    }
