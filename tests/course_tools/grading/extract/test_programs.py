"""What of a notebook is run: the answer by its marks or its name, what it needs by name, and no other statement."""

import pytest

from course_tools.bank import exercise
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.programs import Notebook, NotFound
from course_tools.grading.extract.statements import Unparsable

ASKED = exercise("04.4")
NAME = ASKED.reference.__name__
MARKED = {"exercise": "04.4", "nbgrader": {"grade_id": "exercise-04-4"}}
CHECK = {"nbgrader": {"grade_id": "check-04-4"}}
STUB = f"def {NAME}(x, n_heads):\n    raise NotImplementedError()"


def answer(body="return x"):
    return f"def {NAME}(x, n_heads):\n    {body}"


def code(source, metadata=None, id="", kind="code"):
    return Cell(kind, id, metadata or {}, source)


def program(*cells, asked=ASKED):
    return Notebook([cell if isinstance(cell, Cell) else code(cell) for cell in cells], "04").program(asked)


def run(*cells, asked=ASKED):
    """The statements that are run, as text."""
    lines = []
    for part in program(*cells, asked=asked).parts:
        lines += [line for line in part.source.splitlines() if line]
        assert part.take
    return lines


def chosen(*cells):
    """The body of the answer that counts."""
    (line,) = [line for line in run(*cells) if line.strip().startswith("return")]
    return line.strip()


def test_a_cell_is_found_by_its_marks_wherever_it_stands():
    assert chosen("x = 1", code(answer("return 1"), MARKED), "y = 2") == "return 1"
    assert chosen(code(answer("return 1"), {"exercise": "04.4"})) == "return 1"
    assert chosen(code(answer("return 1"), {"nbgrader": {"grade_id": "exercise-04-4"}})) == "return 1"


def test_a_cell_without_marks_is_found_by_the_name_it_defines():
    assert chosen(answer("return 1")) == "return 1"


def test_marks_that_are_nonsense_do_no_harm():
    assert chosen(code(answer("return 1"), {"nbgrader": "yes", "exercise": [1]})) == "return 1"


def test_the_last_definition_before_the_check_counts_as_in_a_kernel():
    check = code(f'{NAME} = check("04.4", {NAME})', CHECK)
    assert chosen(answer("return 1"), answer("return 2"), check, answer("return 3")) == "return 2"
    assert chosen(check, answer("return 1"), answer("return 2")) == "return 2"


@pytest.mark.parametrize("stub", [STUB, f"def {NAME}(x, n_heads): ...", f"def {NAME}(x, n_heads):\n    pass"])
def test_an_empty_copy_does_not_hide_an_answer(stub):
    assert chosen(code(answer("return 1"), MARKED), code(stub, MARKED)) == "return 1"
    assert chosen(code(stub, MARKED), answer("return 1")) == "return 1"


def test_a_cell_of_another_type_counts_where_no_code_does():
    assert chosen(code(answer("return 1"), MARKED, kind="raw")) == "return 1"
    assert chosen(code(answer("return 1"), MARKED, kind="markdown"), "Text with words.") == "return 1"
    assert chosen(code(answer("return 1"), MARKED, kind="raw"), answer("return 2")) == "return 2"


def test_a_marked_cell_may_name_its_function_otherwise():
    found = program(code("def my_own(x, n_heads):\n    return 1", MARKED))
    assert found.function == "my_own"


def test_the_cell_of_a_bug_hunt_is_no_answer():
    bug = code("def suspect(x, n_heads):\n    return 1", {"exercise": "04.4", "bug": "views_instead_of_splitting"})
    assert program(bug, code(STUB, MARKED)).untouched
    with pytest.raises(NotFound):
        program(bug)


def test_an_answer_may_be_a_value():
    assert program(f"{NAME} = lambda x, n: x").function == NAME
    assert run("import torch", f"def helper(x, n): return torch.abs(x)\n{NAME} = helper")[0] == "import torch"


def test_what_is_nowhere_is_not_found():
    for cells in ([], ["x = 1"], [f"from course_lib.attention import {NAME}"], [f'{NAME} = check("04.4", {NAME})']):
        with pytest.raises(NotFound, match=f"^No cell of this notebook defines `{NAME}`"):
            program(*cells)


def test_a_marked_cell_that_is_no_python_says_where():
    with pytest.raises(Unparsable, match="line 2"):
        program(code(f"def {NAME}(x, n_heads):\n    return x +", MARKED))


def test_an_answer_elsewhere_saves_a_broken_cell():
    assert chosen(code(f"def {NAME}(:", MARKED), answer("return 1")) == "return 1"


def test_helpers_are_taken_with_all_that_they_need_and_nothing_else_is():
    lines = run(
        "import math\nimport time",
        "SCALE = 2.0\nTHINGS = []\nTHINGS.append(1)\nprint('hello')",
        "def helper(x):\n    return x * SCALE * len(THINGS)",
        "model = train_for_an_hour()\nfor i in range(9): print(i)",
        answer("return helper(x) / math.pi") + "\nassert False\nwhile True: pass",
    )
    source = program(
        "SCALE = 2.0\nTHINGS = []\nTHINGS.append(1)\nprint('hello')", answer("return SCALE * len(THINGS)") + "\nassert False"
    )
    assert lines[0] == "import math"
    assert "model = train_for_an_hour()" not in lines
    assert [part.take for part in source.parts] == [(0, 1, 2), (0,)]


def test_a_helper_below_the_answer_is_taken():
    assert "def helper(x): return x" in run(answer("return helper(x)"), "def helper(x): return x")


def test_the_nearest_helper_before_the_answer_is_taken():
    lines = run("k = 1", "k = 2", answer("return k"), "k = 3")
    assert lines == ["k = 2", *answer("return k").splitlines()]


def test_a_value_that_changes_another_brings_it_along():
    assert run("k = 1", "k += 1", answer("return k"))[:2] == ["k = 1", "k += 1"]


def test_imports_that_were_deleted_come_from_the_lecture_as_it_was_handed_out():
    lines = run(answer("return rearrange(x, 'a -> a')"))
    assert any("from einops import" in line for line in lines)


def test_an_earlier_exercise_is_the_one_of_the_library():
    asked = exercise("04.5")
    wrong = "def split_heads(x, n_heads):\n    return None"
    cells = [wrong, "split_heads = check('04.4', split_heads)", "def multi_head_attention(x):\n    return split_heads(x, 2)"]
    lines = run(*cells, asked=asked)
    assert lines[0] == "from course_lib.attention.multihead import split_heads"
    assert not any("None" in line for line in lines)


def test_an_earlier_exercise_written_again_in_the_same_cell_is_the_students():
    asked = exercise("04.5")
    lines = run("def split_heads(x, n): return x\ndef multi_head_attention(x):\n    return split_heads(x, 2)", asked=asked)
    assert not any("course_lib" in line for line in lines)


def test_a_later_exercise_is_the_students():
    lines = run("def merge_all(x): return x", "def multi_head_attention(x): return x", answer("return multi_head_attention(x)"))
    assert "def multi_head_attention(x): return x" in lines


def test_names_of_unknown_origin_bring_every_star_import():
    assert "from somewhere import *" in run("from somewhere import *", answer("return mystery(x)"))
    assert "from somewhere import *" not in run("from somewhere import *", answer("return abs(x)"))


@pytest.mark.parametrize("join", ["\n", "; "])
def test_many_names_are_found_each_once(join):
    names = [f"a{i}" for i in range(500)]
    source = join.join(f"{name} = 1{join}{name}.b = 2" for name in names)
    (helper, own) = program("b = 1", source, answer(f"return ({', '.join(names)})"), "a3 = 1").parts
    assert helper.take == tuple(range(1000))
    assert own.take == (0,)


def test_what_is_changed_between_its_cell_and_the_answer_is_changed():
    needed = answer("return table[0]")
    assert "table[0] = 1" in run("table = {}", "table[0] = 1", needed)
    assert "table.append(1)" in run("table = []", "table.append(1)", needed)
    assert "table[0] = 1" not in run("table = {}", needed, "table[0] = 1")
    assert "table.x = 1" in run("class table: pass", "table.x = 1", needed)
    assert "table.draw()" not in run("import table", "table.draw()", needed)


def test_functions_that_change_something_are_called():
    prepare = "def prepare():\n    global table\n    table = [1]"
    assert "prepare()" in run(prepare, "prepare()", answer("return table[0]"))
    assert "prepare()" not in run(prepare, answer("return table[0]"), "prepare()")
    register = "def register(f):\n    table[f.__name__] = f\n    return f"
    assert "@register" in run("table = {}", register, "@register\ndef one(): pass", answer("return table"))
    assert "show(1)" not in run("def show(x): print(x)", "show(1)", answer("return show"))
