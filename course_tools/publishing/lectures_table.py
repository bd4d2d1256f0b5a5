"""docs/lectures.md: the contents of each lecture: code that students write, prose, diagrams, exercises, build tasks."""

import ast
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from nbformat import NotebookNode

from course_tools.publishing.lecture_cells import draft
from course_tools.publishing.nbgrader_cells import BEGIN, END
from course_tools.publishing.outputs import tags
from course_tools.publishing.project import Lecture, lectures
from course_tools.publishing.student_time import n_words

_HEAD = """# Contents of the lectures

Code is counted in statements, without docstrings, independent of line breaks. A student writes the bodies of the exercises
and build tasks; all other code of the notebook is handed out. Prose is counted in words, without hints,
folded answers, tables and formulas. This page is written by `course build`.

| Lecture | Students write | Handed out | Share | Words | Diagrams | Exercises | Build tasks |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""


@dataclass(frozen=True)
class Parts:
    """Counts of one lecture: statements that students write and statements handed out, words, diagrams, exercises, tasks."""

    written: int
    given: int
    words: int
    diagrams: int
    exercises: int
    build_tasks: int


def lectures_table(root: Path) -> str:
    """Return the text of docs/lectures.md: a row for each lecture."""
    return _HEAD + "".join(_row(lecture, parts(draft(lecture, ""))) for lecture in lectures(root))


def parts(solved: NotebookNode) -> Parts:
    """Count the contents of the draft of a solved lecture; an exercise that appears twice counts once."""
    written, given, asked = 0, 0, {}
    for cell in (cell for cell in solved.cells if cell.cell_type == "code"):
        if "exercise" not in cell.metadata or "bug" in cell.metadata:
            given += _statements(cell.source)
        elif cell.metadata["exercise"] not in asked:
            asked[cell.metadata["exercise"]] = cell.source.startswith("# Build task")
            written += _statements(cell.source.partition(f"{BEGIN}\n")[2].partition(END)[0])
    prose = [cell.source for cell in solved.cells if cell.cell_type == "markdown" and "hints" not in tags(cell)]
    words = sum(map(n_words, prose))
    diagrams = sum(source.count("data:image/svg+xml") for source in prose)
    build_tasks = sum(asked.values())
    return Parts(written, given, words, diagrams, len(asked) - build_tasks, build_tasks)


def _statements(code: str) -> int:
    """Count statements, including nested ones, without docstrings and other string literals."""
    nodes = (node for node in ast.walk(ast.parse(dedent(code))) if isinstance(node, ast.stmt))
    return sum(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in nodes)


def _row(lecture: Lecture, found: Parts) -> str:
    share = found.written / max(found.written + found.given, 1)
    name = f"[{lecture.number} {lecture.title}](../{lecture.name(lecture.unsolved)})"
    counts = found.written, found.given, f"{share:.0%}", found.words, found.diagrams, found.exercises, found.build_tasks
    return f"| {name} | {' | '.join(map(str, counts))} |\n"
