"""nbgrader's metadata in a notebook, so that instructors can use the course's notebooks with nbgrader unchanged.

The metadata is schema 3 of nbgrader 0.9 (https://nbgrader.readthedocs.io); the student's cell is the one that
`nbgrader generate_assignment` makes from the solved one: solution regions removed, cells locked, checksums computed.
"""

import hashlib
from copy import deepcopy

from nbformat import NotebookNode

STUB = "# YOUR CODE HERE\nraise NotImplementedError()"
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def solved_body(body: str) -> str:
    """Put the body of a function between the marks of a solution."""
    return f"    {BEGIN}\n{body}\n    {END}"


def answer(grade_id: str) -> dict:
    """Mark a cell that the student writes; the cell that checks it carries the points."""
    return _marks(grade_id, solution=True)


def graded_check(grade_id: str, points: int) -> dict:
    """Mark a cell whose result earns points."""
    return _marks(grade_id, grade=True, locked=True) | {"points": points}


def read_only(grade_id: str) -> dict:
    """Mark a cell that the student should not change and that earns no points."""
    return _marks(grade_id, locked=True)


def for_student(cell: NotebookNode) -> NotebookNode:
    """Make the student's cell from a solved one: without solution and outputs (but of diagrams), locked, with its checksum."""
    cell = deepcopy(cell)
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = cell.outputs if "diagram" in cell.metadata.get("tags", ()) else [], None
    marks = cell.metadata.get("nbgrader")
    if marks is None:
        return cell
    if marks["solution"]:
        cell.source = _without_solution(cell.source)
    cell.metadata["deletable"] = False
    if not marks["solution"]:
        cell.metadata["editable"] = False
    marks.update(checksum=checksum(cell), cell_type=cell.cell_type)
    return cell


def checksum(cell: NotebookNode) -> str:
    """Compute nbgrader's checksum of a marked cell: over its source, type, marks, id and points."""
    marks = cell.metadata["nbgrader"]
    locked = not marks["solution"] and (marks["grade"] or marks["locked"])
    parts = [cell.source, cell.cell_type, str(marks["grade"]), str(marks["solution"]), str(locked), marks["grade_id"]]
    if marks["grade"]:
        parts.append(str(float(marks["points"])))
    return hashlib.md5("".join(parts).encode(), usedforsecurity=False).hexdigest()


def _marks(grade_id: str, *, solution: bool = False, grade: bool = False, locked: bool = False) -> dict:
    flags = {"schema_version": 3, "solution": solution, "grade": grade, "locked": locked, "task": False}
    return {**flags, "grade_id": grade_id}


def _without_solution(source: str) -> str:
    kept, inside = [], False
    for line in source.split("\n"):
        if BEGIN in line:
            indent, inside = line[: len(line) - len(line.lstrip())], True
            kept += [indent + stub for stub in STUB.split("\n")]
        elif END in line:
            inside = False
        elif not inside:
            kept.append(line)
    return "\n".join(kept)
