"""The cells of a submission beside those that the course handed out: which role each has for an exercise."""

from course_tools.bank import exercise
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.programs import Notebook, handed_out

ASKED = exercise("04.4")
NAME = ASKED.reference.__name__


def code(source, metadata=None, id="", kind="code"):
    return Cell(kind, id, metadata or {}, source)


def roles(*cells):
    """The roles of the cells of a notebook for exercise 04.4."""
    program = Notebook([cell if isinstance(cell, Cell) else code(cell) for cell in cells], "04").program(ASKED)
    return [part.role for part in program.cells if part.name.startswith("<cell")]


def test_a_cell_of_the_exercise_is_known_by_its_marks_or_its_id():
    (given,) = [cell for cell in handed_out("04") if cell.metadata.get("exercise") == "04.4" and "bug" not in cell.metadata]
    assert roles(code("x = 1", {"exercise": "04.4"})) == ["marked"]
    assert roles(code("x = 1", {"nbgrader": {"grade_id": "exercise-04-4"}})) == ["marked"]
    assert roles(code("x = 1", id=given.id)) == ["marked"]
    assert roles("x = 1", code("x = 1", {"exercise": "04.5"})) == ["own", "own"]
    assert roles(code("x = 1", {"nbgrader": "yes", "exercise": [1]})) == ["own"]


def test_cells_as_they_were_handed_out_are_not_the_students():
    assert set(roles(*handed_out("04"))) == {"given"}
    assert roles(*(cell._replace(source=f"{cell.source}\n") for cell in handed_out("04")[:2])) == ["given", "given"]
    assert roles(code("def suspect(x): return 1", {"exercise": "04.4", "bug": "views_instead_of_splitting"})) == ["given"]


def test_cells_of_the_lecture_that_are_missing_come_first():
    everything = handed_out("04")
    program = Notebook(everything[1:], "04").program(ASKED)
    assert (program.cells[0].role, program.cells[0].source) == ("missing", everything[0].source)
    assert [part.source for part in program.cells if part.role == "missing"][1:] == [""] * (len(everything) - 1)


def test_text_is_read_as_code_only_in_the_cell_of_the_exercise():
    marked = code("def f(): pass", {"exercise": "04.4"}, kind="raw")
    program = Notebook([marked, code("x = 1", kind="markdown")], "04").program(ASKED)
    assert [part.source for part in program.cells if part.role != "missing"] == ["def f(): pass", ""]


def test_the_library_stands_in_for_every_other_exercise():
    program = Notebook([], "04").program(ASKED)
    assert program.function == NAME
    assert "04.4" not in program.references
    assert program.references["04.5"] == "course_lib.attention.multihead:multi_head_attention"


def test_statements_that_were_stopped_are_skipped_in_the_next_exercise():
    notebook = Notebook([code("while True: pass")], "04")
    notebook.late.add((3, 1))
    assert notebook.program(ASKED).skip == ((3, 1),)
    assert notebook.program(ASKED).text == "while True: pass"
