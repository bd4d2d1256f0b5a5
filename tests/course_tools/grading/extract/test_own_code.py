"""A student's own code for an exercise: the answer whatever its name, with its helpers, and nothing of another exercise."""

import time

from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.own_code import LONGEST, own_code
from course_tools.grading.extract.programs import handed_out


def code(*sources: str) -> list[Cell]:
    return [Cell("code", "", {}, source) for source in sources]


def test_an_answer_is_shown_with_the_functions_that_it_uses_and_no_other():
    helper, other = "def entries(n):\n    return range(n)", "def unused():\n    pass"
    mask, answer = (
        "def padding_mask(lengths, T=None):\n    return entries(T)",
        "def causal_mask(T_q):\n    padding_mask(entries(T_q))",
    )
    found = own_code(code(helper, other, mask, answer), "04")
    assert found == {"04.2": f"{helper}\n\n\n{answer}", "04.3": f"{helper}\n\n\n{mask}"}


def test_an_answer_of_another_name_and_one_that_is_not_python_are_shown():
    renamed, broken = "mine = lambda n: n\ncheck('04.2', mine)", "def split_heads(x, n_heads)\n    return x"
    tagged = Cell("code", "", {"exercise": "04.1"}, "# nothing yet, sorry")
    assert own_code([*code(renamed, broken), tagged], "04") == {"04.1": tagged.source, "04.2": renamed, "04.4": broken}


def test_of_the_notebook_as_it_was_handed_out_nothing_is_the_students():
    given = list(handed_out("04"))
    assert len(given) > 10
    assert own_code(given, "04") == {}


def test_many_cells_that_name_each_other_take_a_moment_and_little_space():
    chain = [f"def causal_mask():\n    f0()  # {'x' * 100}", *(f"def f{i}():\n    f{i + 1}()" for i in range(19_000))]
    start = time.process_time()
    found = own_code(code(*chain), "04")
    assert time.process_time() - start < 5
    assert len(found["04.2"]) == LONGEST
