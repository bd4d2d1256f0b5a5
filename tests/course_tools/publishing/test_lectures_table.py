"""The table counts code written by students, code handed out, words without formulas, diagrams, exercises and build tasks."""

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course_tools.notebook.diagrams import multi_head
from course_tools.publishing.lectures_table import Parts, lectures_table, parts

ANSWER = '''# {kind} 04.1 · a title
def f(x):
    """Say what it does."""
    ### BEGIN SOLUTION
    # a comment
    y = x + 1

    return y
    ### END SOLUTION'''


def answered(id, kind="Exercise", **metadata):
    return new_code_cell(ANSWER.replace("{kind}", kind), metadata={"exercise": id} | metadata)


def test_each_part_is_counted_once():
    prose = f"# A title\n\nTwo words, $x = 1$, `code`.\n\n| a | table |\n| --- | --- |\n\nAfter it.\n\n{multi_head().image()}"
    cells = [
        new_markdown_cell(prose),
        new_markdown_cell("Look at the axes.", metadata={"tags": ["hints"]}),
        new_code_cell("import torch\n\n# a comment\nx = 1"),
        answered("04.1"),
        answered("04.1"),
        answered("04.2", "Build task"),
        new_code_cell("def suspect(x):\n    return x", metadata={"exercise": "04.1", "bug": "a_wrong_answer"}),
    ]
    found = parts(new_notebook(cells=cells))
    assert found == Parts(written=4, given=4, words=7, diagrams=1, exercises=1, build_tasks=1)


def test_every_lecture_has_a_row(course):
    (row,) = [line for line in lectures_table(course).splitlines() if line.startswith("| [04")]
    assert "lectures/04_tiny.ipynb" in row
    assert "%" in row
