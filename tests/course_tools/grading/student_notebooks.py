"""Notebooks of imaginary students, and an engine that believes what they claim, for the tests of the pipeline."""

import json
import os
import re
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from course_tools.bank import exercises
from course_tools.checks import Finding
from course_tools.grading.batch import grade_notebook
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.intake.archive import Refused
from course_tools.grading.intake.recognise import Course
from course_tools.grading.intake.submissions import Submission, handed_in
from course_tools.grading.marks import Mark
from course_tools.grading.notebook_result import Graded, NotebookResult
from course_tools.grading.report.results import Results, collect

ROOT = Path(__file__).parents[3]


def notebook(lecture: str = "04", **output: str) -> bytes:
    """Make a notebook with one exercise cell for each argument, such as `e1="# earns 7"`."""
    cells = [_cell(f"{lecture}.{name[1:]}", text) for name, text in output.items()]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def student_notebook(stem: str, answers: dict[str, str] | None = None) -> dict:
    """Return the notebook of a lecture as a student gets it, with answers, by exercise, in place of the empty ones."""
    reported = json.loads((ROOT / "lectures" / f"{stem}.ipynb").read_text(encoding="utf-8"))
    for cell in reported["cells"]:
        asked = cell["metadata"].get("exercise")
        if asked in (answers or {}) and "nbgrader" in cell["metadata"]:
            cell["source"] = answers[asked]
    return reported


def _cell(id: str, source: str) -> dict:
    return {"cell_type": "code", "metadata": {"exercise": id}, "source": source, "outputs": [], "execution_count": None}


class StandIn:
    """An engine for tests: `# earns 7` in the cell of an exercise earns 7 points, `# takes 9` says that it took 9 seconds.

    Other words make it fail, die or wait.
    """

    def __init__(self, *, require_isolation: bool = False, seed: int = 0) -> None:
        self.level = "No layer: this is a stand-in."
        self.seed = seed

    def __enter__(self) -> "StandIn":
        return self

    def __exit__(self, *error: object) -> None:
        return

    def grade(self, cells: Sequence[Cell], lecture: str, chosen: object = ()) -> tuple[Mark, ...]:
        text = {cell.metadata.get("exercise"): cell.source for cell in cells}
        everything = "\n".join(cell.source for cell in cells)
        if "# dies" in everything:
            os._exit(9)
        if "# fails" in everything:
            raise RuntimeError("<b>the engine stopped</b>")
        if found := re.search(r"# waits (\d+)", everything):
            time.sleep(int(found[1]) / 1000)
        return tuple(_mark(item, text.get(item.id)) for item in exercises() if item.lecture == lecture)


@cache
def course() -> Course:
    """What the lectures of the course are known by."""
    return Course.at(ROOT)


def graded_here(path: Path, lecture: str | None = None) -> tuple[Results, tuple[Submission, ...]]:
    """Grade a folder or zip with the stand-in, in this process; give the results and what was handed in."""
    with handed_in(path, tuple(course().stems.values())) as intake:
        done = [Graded(item, _result(item, lecture)) for item in intake.submissions]
        return collect(intake, done), intake.submissions


def _result(item: Submission, lecture: str | None) -> NotebookResult:
    try:
        data = item.read()
    except Refused as error:
        return NotebookResult(None, note=f"The file {error}")
    return grade_notebook(data, item.file_name, StandIn(), course(), lecture)


class Refusing(StandIn):
    """An engine whose isolation is missing."""

    def __enter__(self) -> "StandIn":
        raise RuntimeError("the layer against forks does not hold here; leave --require-isolation out to go on without it.")


def _mark(item, source: str | None) -> Mark:
    if source is None:
        return Mark(item.id, "not found", 0, item.points, False, None, (), "No cell holds this exercise.", (), 0.1)
    earned = re.search(r"# earns (\d+)", source)
    points = min(int(earned[1]), item.points) if earned else 0
    misconception = re.search(r"# thinks (.+)", source)
    flags = tuple(re.findall(r"# flag (.+)", source))
    detail = re.search(r"# detail (.+)", source)
    failing = Finding("value", "The law of values.", "fails", 3, detail[1] if detail else "", "q (2, 3, 5)")
    findings = () if points == item.points else (failing, Finding("gradient", "The law of gradients.", "skipped", 2))
    reported = misconception[1] if misconception else None
    takes = re.search(r"# takes (\d+)", source)
    seconds = float(takes[1]) if takes else time.perf_counter() % 1
    return Mark(item.id, "judged", points, item.points, points == item.points, reported, findings, "", flags, seconds)
