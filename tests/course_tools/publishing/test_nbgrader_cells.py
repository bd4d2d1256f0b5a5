"""The student's notebook is the one that nbgrader makes from the solved one; compared with nbgrader if it is installed."""

import copy

import pytest

from course_tools.publishing import lectures
from course_tools.publishing.lecture_cells import draft, student_version
from course_tools.publishing.nbgrader_cells import checksum

# (marks, checksum) of the cell `x = 1`, as nbgrader 0.9.6 computes it.
KNOWN = [
    ({"grade": False, "solution": True, "locked": False, "grade_id": "exercise-04-1"}, "77fd42a4a4492998a986eedadf87a5bc"),
    ({"grade": True, "solution": False, "locked": True, "grade_id": "check", "points": 12}, "ba8356019f031551f3b75913c82f9c20"),
    ({"grade": False, "solution": False, "locked": True, "grade_id": "check-04-1-mended"}, "fd664dd3c1e184aecd6c6fcae813e982"),
]


@pytest.mark.parametrize(("marks", "known"), KNOWN)
def test_checksums_are_nbgraders(marks, known):
    from nbformat.v4 import new_code_cell

    assert checksum(new_code_cell("x = 1", metadata={"nbgrader": marks})) == known


@pytest.mark.filterwarnings("ignore")
def test_the_students_notebook_is_what_nbgrader_generates(course):
    preprocessors = pytest.importorskip("nbgrader.preprocessors", reason="nbgrader is not installed")
    solved = draft(lectures(course)[0], "")
    theirs = copy.deepcopy(solved)
    steps = ("LockCells", "ClearSolutions", "ClearOutput", "CheckCellMetadata", "ComputeChecksums")
    steps += ("ClearHiddenTests", "ClearMarkScheme", "ComputeChecksums", "CheckCellMetadata")
    for step in steps:
        theirs, _ = getattr(preprocessors, step)().preprocess(theirs, {})
    ours = student_version(solved)
    assert [cell.source for cell in ours.cells] == [cell.source for cell in theirs.cells]
    assert [cell.metadata for cell in ours.cells] == [cell.metadata for cell in theirs.cells]
    assert [cell.id for cell in ours.cells] == [cell.id for cell in theirs.cells]
    assert any("checksum" in cell.metadata.get("nbgrader", {}) for cell in ours.cells)
