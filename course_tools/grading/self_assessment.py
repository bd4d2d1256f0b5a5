"""`course test-me`: a student's notebook, graded as if it were submitted.

The points are those of `course grade`: the same extraction, the same sandbox, and inputs that are not known in advance. They
are compared with the latest results of the checks in the notebook, and differences are explained.
"""

import ast
import json
import re
import secrets
from pathlib import Path

from course_tools.bank import exercise
from course_tools.bank.variants import variants
from course_tools.grading.batch import grade_notebook
from course_tools.grading.extract.notebook_reader import Cell, Unreadable, cells_in
from course_tools.grading.files import CannotGrade
from course_tools.grading.intake.recognise import Course
from course_tools.grading.judge_notebook import Engine
from course_tools.grading.marks import Mark
from course_tools.grading.sandbox.measured_isolation import NotIsolated
from course_tools.grading.sandbox.sandbox import SandboxFailed
from course_tools.publishing import lectures
from course_tools.whole_file import reason

_VARIANT = re.compile(r'\bcheck\("(\d\d\.\d{1,2})", \w+, variant="([\w ]+)"\)')
_POINTS = re.compile(r"\d+\.\d+")


def assess(root: Path, number: str, notebook: Path | None = None, seed: int | None = None) -> str:
    """Grade a student's notebook as if it were submitted, and compare the marks with the results of its checks.

    Args:
        root: the folder of the course.
        number: the number of the lecture, such as "04".
        notebook: the file; by default the copy in `work/`.
        seed: determines the inputs of the checks; by default a secret one, as in grading.

    Returns:
        a table with one line for each exercise, and a sentence.

    Raises:
        UnknownLecture: there is no such lecture.
        CannotGrade: the notebook does not exist or is not of this lecture, or this machine cannot run the sandbox.
    """
    (lecture,) = lectures(root, [number])
    course = Course.at(root)
    if lecture.number not in course.stems:
        raise CannotGrade(f"lecture {lecture.number} has no exercises.")
    path = notebook or root / "work" / lecture.unsolved.name
    try:
        data = path.read_bytes()
        shown = shown_points(data)
    except FileNotFoundError:
        raise CannotGrade(f"there is no notebook {path}: `course lab` puts a copy of each lecture into work/.") from None
    except OSError as error:
        raise CannotGrade(f"{path} cannot be read: {reason(error)}") from error
    except Unreadable as error:
        raise CannotGrade(f"{path}: {error}") from error
    seed = secrets.randbelow(2**31) if seed is None else seed
    try:
        with Engine(seed=seed) as engine:
            result = grade_notebook(data, path.name, engine, course, lecture.number, named_variants(data))
    except (NotIsolated, SandboxFailed) as error:
        raise CannotGrade(f"your notebook cannot be graded on this machine, only checked in Jupyter. {error}") from error
    if result.lecture is None:
        raise CannotGrade(f"{path}: {result.note}")
    return table(result.marks, shown)


def named_variants(data: bytes) -> dict[str, str]:
    """Read the variants that the checks of a notebook name; the instructor's grading does not use them."""
    found = [pair for cell in cells_in(data) if cell.type == "code" for pair in _VARIANT.findall(cell.source)]
    return {id: name for id, name in found if name in {one.name for one in variants(id)}}


def shown_points(data: bytes) -> dict[str, float]:
    """Read the latest points of each exercise's check from the stored outputs of a notebook; bug hunts are ignored.

    Args:
        data: the bytes of the notebook.

    Returns:
        points by exercise id, without exercises whose check has not been run.

    Raises:
        Unreadable: the file is not a notebook.
    """
    cells = cells_in(data)
    suspects = {
        name for cell in cells if "bug" in cell.metadata for name in re.findall(r"^def (\w+)", cell.source, re.MULTILINE)
    }
    found: dict[str, float] = {}
    for cell, outputs in zip(cells, _outputs(data), strict=False):
        checked = [id for id, name in _checks(cell) if name not in suspects]
        texts = ["".join(output.get("data", {}).get("text/plain", "")) for output in outputs]
        found |= dict(zip(checked, (float(text) for text in texts if _POINTS.fullmatch(text)), strict=False))
    return found


def table(marks: tuple[Mark, ...], shown: dict[str, float]) -> str:
    """Write marks as a table, one line for each exercise, with the reason if the notebook's check shows other points."""
    rows = [("exercise", "", "submitted", "your check", "")]
    for mark in marks:
        own = shown.get(mark.exercise)
        title = exercise(mark.exercise).title
        here = "not run" if own is None else f"{own:g}"
        rows.append((mark.exercise, title, f"{mark.points} of {mark.max_points}", here, _reason(mark, own)))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join([*(cell.ljust(n) for cell, n in zip(row, widths, strict=False)), row[4]]).rstrip() for row in rows]
    earned, possible = sum(mark.points for mark in marks), sum(m.max_points for m in marks if not exercise(m.exercise).extra)
    total = f"Submitted as last saved, this notebook earns {earned} of {possible} points."
    return "\n".join([*lines, "", f"{total} Unsaved changes do not count; save with Ctrl+S."])


def _reason(mark: Mark, own: float | None) -> str:
    """State why the grader and the notebook's check differ; "" if they agree."""
    if own == mark.points or (own is None and mark.status == "not started"):
        return ""
    if own is None and mark.passed:
        return "Right; its check has not been run in your notebook."
    failed = next((f for f in mark.findings if f.status == "fails"), None)
    says = failed and f"{failed.law} {failed.detail}".strip()
    crashed = failed and failed.name == "runs"  # what it says names the line and what is missing there
    why = mark.detail or (crashed and says) or mark.misconception or says or ""
    if mark.not_run:
        why = f"{why} Cell {mark.not_run[0].cell}, `{mark.not_run[0].line}`, did not run: {mark.not_run[0].why}."
    if own is None:
        return why
    if mark.points > own:
        return "The check shows the result of an earlier answer, or the cell had not been run: run both again."
    why = why if why.endswith((".", "?")) else f"{why}."
    return (
        f"{why} Run the cell and its check again. If they still show {own:g}, your answer depends on something that exists "
        "only in your kernel."
    )


def _checks(cell: Cell) -> list[tuple[str, str]]:
    """The exercise and the name in each `check("04.1", name)` of a cell, in order."""
    try:
        calls = [node for node in ast.walk(ast.parse(cell.source)) if cell.type == "code" and isinstance(node, ast.Call)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = []
    for call in sorted(calls, key=lambda call: call.lineno):
        match call:
            case ast.Call(func=ast.Name(id="check"), args=[ast.Constant(value=str(id)), ast.Name(id=name)]):
                found.append((id, name))
    return found


def _outputs(data: bytes) -> list[list[dict]]:
    """The outputs of each cell that `cells_in` returns."""
    try:
        cells = json.loads(data.decode("utf-8-sig", "replace")).get("cells", [])
    except ValueError:  # another encoding: its cells can be graded, its outputs are ignored
        return []
    listed = [cell.get("outputs") for cell in cells if isinstance(cell, dict)]
    return [
        [output for output in outputs if isinstance(output, dict)] if isinstance(outputs, list) else [] for outputs in listed
    ]
