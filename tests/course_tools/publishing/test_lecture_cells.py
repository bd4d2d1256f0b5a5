"""The cells drafted from an authoring source: stub, solution, bug hunt, check, hints; and the mistakes that are refused."""

import re

import pytest
from nbformat.v4 import new_output

from course_lib.attention import scaled_dot_product_attention
from course_tools.bank import exercise
from course_tools.publishing import PublishingFailed, lectures
from course_tools.publishing.cell_width import wrapped
from course_tools.publishing.lecture_cells import check_call, draft, student_version
from course_tools.publishing.source import FunctionSource


def solved(course):
    return draft(lectures(course)[0], "Runs in no time.")


def by_grade_id(notebook):
    return {cell.metadata["nbgrader"]["grade_id"]: cell for cell in notebook.cells if "nbgrader" in cell.metadata}


def test_the_student_gets_signature_and_docstring_and_no_line_of_the_body(course):
    cell = by_grade_id(student_version(solved(course)))["exercise-04-1"]
    source = FunctionSource.of(scaled_dot_product_attention)
    head, text = cell.source.split("\n", 1)
    assert head == f"# Exercise 04.1 · {exercise('04.1').title} · ●●○ · about 10 minutes · {exercise('04.1').points} points"
    stub = f"{source.signature}\n{source.docstring}\n    # YOUR CODE HERE\n    raise NotImplementedError()"
    assert text == wrapped(stub.replace("Raises:", "Raises (not graded):"))
    for line in source.body.splitlines():
        assert line.strip() not in text


def test_an_unsolved_function_raises_not_implemented(course):
    cell = by_grade_id(student_version(solved(course)))["exercise-04-1"]
    space: dict = {}
    exec("from course_lib.attention import Attended\nfrom course_lib.shapes import *\n" + cell.source, space)
    with pytest.raises(NotImplementedError):
        space["scaled_dot_product_attention"](1, 2, 3)


def test_the_solution_is_the_library_between_marks(course):
    cell = by_grade_id(solved(course))["exercise-04-1"]
    inside = re.search(r"    ### BEGIN SOLUTION\n(.*)\n    ### END SOLUTION$", cell.source, flags=re.DOTALL)[1]
    assert inside == FunctionSource.of(scaled_dot_product_attention).body


def test_a_bug_hunt_shows_the_wrong_answer_under_another_name_without_its_misconception(course):
    wrong = exercise("04.1").wrong[0]
    (hunt,) = (cell for cell in solved(course).cells if "bug" in cell.metadata)
    assert "def suspect(" in hunt.source
    assert wrong.__name__ not in hunt.source
    assert wrong.__doc__ not in hunt.source
    assert "nbgrader" not in hunt.metadata
    assert hunt.source in [cell.source for cell in student_version(solved(course)).cells]


def test_an_exercise_is_graded_once_and_a_mended_function_is_only_locked(course):
    cells = by_grade_id(student_version(solved(course)))
    assert set(cells) == {"exercise-04-1", "check-04-1", "exercise-04-1-mended", "check-04-1-mended"}
    assert cells["check-04-1"].metadata["nbgrader"]["points"] == exercise("04.1").points
    graded = [name for name, cell in cells.items() if cell.metadata["nbgrader"]["grade"]]
    assert graded == ["check-04-1"]
    locked = [name for name, cell in cells.items() if cell.metadata["nbgrader"]["locked"]]
    assert locked == ["check-04-1", "check-04-1-mended"]
    assert "def mended(" in cells["exercise-04-1-mended"].source


def test_three_hints_follow_the_check_once(course):
    cells = solved(course).cells
    (place,) = (i for i, cell in enumerate(cells) if "hints" in cell.metadata.get("tags", ()))
    assert check_call(cells[place - 1].source) == ("04.1", "scaled_dot_product_attention")
    for hint in exercise("04.1").hints:
        assert hint in cells[place].source
    assert cells[place].source.count("<details>") == cells[place].source.count("</details>") == 3


GUARDED = '# %% tags=["guard"]\nsquare = q @ q.mT\nclaim("04.shape", shape=square.shape)\n'


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (GUARDED + "\n# %%\nprint(square)\n", "define square, which other cells use"),
        (
            '# %% tags=["guard"]\nmended = check("04.1", mended)\n',
            "cannot be tagged guard",
        ),
    ],
)
def test_a_guard_that_a_student_would_miss_is_refused(course, added, message):
    _append(course, added)
    with pytest.raises(PublishingFailed, match=message):
        solved(course)


def test_a_guard_is_in_the_solution_only(course):
    _append(course, GUARDED)
    notebook = solved(course)
    guards = [cell.source for cell in notebook.cells if "guard" in cell.metadata.get("tags", ())]
    assert len(guards) == 1
    assert [cell.source for cell in student_version(notebook).cells if cell.source in guards] == []
    assert len(student_version(notebook).cells) == len(notebook.cells) - 1


def _append(course, text):
    (authored,) = (course / "authoring").glob("*.py")
    authored.write_text(authored.read_text(encoding="utf-8") + "\n" + text, encoding="utf-8")


def test_the_header_tells_what_the_lecture_costs(course):
    assert solved(course).cells[0].source == "# 04 · Tiny attention\n\nRuns in no time."


def test_ids_are_unique_the_same_in_both_notebooks_and_last_while_the_rest_changes(course, author):
    before = solved(course)
    ids = [cell.id for cell in before.cells]
    assert len(set(ids)) == len(ids)
    assert [cell.id for cell in student_version(before).cells] == ids
    text = (course / "authoring" / "04_tiny.py").read_text(encoding="utf-8")
    author("04_tiny", text.replace("# ## 1 One query", "# ## 1 One query\n#\n# More words."))
    changed = [(old, new.id) for old, new in zip(ids, solved(course).cells, strict=True) if old != new.id]
    assert len(changed) == 1


def test_a_diagram_becomes_a_cell_that_draws_it_and_keeps_its_output_for_students(course, author):
    text = (course / "authoring" / "04_tiny.py").read_text(encoding="utf-8")
    author(
        "04_tiny",
        text.replace("# ## 1 One query", "# ## 1 One query\n#\n# ![](diagram:multi_head)\n\n# %% [markdown]\n# More."),
    )
    notebook = solved(course)
    (i,) = (i for i, cell in enumerate(notebook.cells) if "diagram" in cell.metadata.get("tags", ()))
    assert [cell.source for cell in notebook.cells[i - 1 : i + 1]] == [
        "## 1 One query",
        "from course_tools.notebook import diagrams; diagrams.multi_head()",
    ]
    notebook.cells[i].outputs = [new_output("display_data", {"image/png": "A"})]
    assert student_version(notebook).cells[i].outputs == notebook.cells[i].outputs


def test_no_trace_of_jupytext_stays(course):
    keys = {key for cell in solved(course).cells for key in cell.metadata}
    assert keys <= {"tags", "exercise", "difficulty", "minutes", "bug", "nbgrader"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('exercise="04.1" difficulty', 'exercise="04.77" difficulty', "there is no exercise '04.77'"),
        ("from course_lib.attention import scaled_dot_product_attention\n", "import math\n", "must be one import"),
        ("import scaled_dot_product_attention\n", "import attend as scaled_dot_product_attention\n", "not the reference"),
        ("import scaled_dot_product_attention\n", "import scaled_dot\n", "has no scaled_dot"),
        ("mended = check", "print(check", "no check cell"),
        ('scaled_dot_product_attention = check("04.1"', 'scaled_dot_product_attention = check("04.2"', "expected `check"),
        ('exercise="04.1" bug=', 'exercise="04.2" bug=', "is not a wrong answer"),
        ('" bug="', '" bug="not_', "the cell has bug='not_"),
        ("# ## 1 One query", "# ![](diagram:no_such)\n\n# %% [markdown]\n# ## 1 One query", "there is no diagram 'no_such'"),
        ("# ## 1 One query", "# ![](diagram:multi_head)\n# ## 1 One query", "a diagram must be the last line"),
        (
            "# ## 1 One query",
            "# ![](diagram:gpt)\n#\n# ![](diagram:rnn)\n\n# %% [markdown]\n# ## 1 One query",
            "a diagram must be the last line",
        ),
        ('# %% exercise="04.1"\n', '# %% [raw]\n# raw\n# %% exercise="04.1"\n', "only code and Markdown cells"),
    ],
)
def test_a_mistake_in_the_source_is_refused_with_file_and_reason(course, author, old, new, message):
    text = (course / "authoring" / "04_tiny.py").read_text(encoding="utf-8")
    assert old in text
    author("04_tiny", text.replace(old, new, 1))
    with pytest.raises(PublishingFailed, match=r"^authoring/04_tiny\.py:") as failure:
        solved(course)
    assert message in str(failure.value)


def test_the_line_of_a_mistake_is_named(course, author):
    text = (course / "authoring" / "04_tiny.py").read_text(encoding="utf-8")
    line = text.splitlines().index('# %% exercise="04.1" difficulty="●●○" minutes=10') + 1
    author("04_tiny", text.replace('exercise="04.1" difficulty', 'exercise="04.77" difficulty'))
    with pytest.raises(PublishingFailed, match=rf"^authoring/04_tiny\.py:{line}: "):
        solved(course)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('f = check("04.1", f)', ("04.1", "f")),
        ('f = check("04.1", f)\nprint(f)', ("04.1", "f")),
        ('g = check("04.1", f)', None),
        ('check("04.1", f)', None),
        ("f = check(id, f)", None),
        ("%time f()", None),
    ],
)
def test_the_check_in_a_cell(source, expected):
    assert check_call(source) == expected
