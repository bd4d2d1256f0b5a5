"""Look-alikes: names, comments and order do not hide them; what is near the reference, or everybody's, is no evidence."""

import ast
import random
import time

import pytest

from course_tools.bank import exercise, exercises
from course_tools.grading.extract.notebook_reader import Cell
from course_tools.grading.extract.programs import handed_out
from course_tools.grading.report.flags import (
    Flag,
    _published_bodies,
    likeness_to_published,
    look_alikes,
    published_solutions,
    shapes,
)
from course_tools.publishing.source import FunctionSource
from tests.course_tools.grading.test_bank import as_a_cell

ODD = '''
def causal_mask(T_q, T_k=None, device=None):
    """My mask."""
    T_k = T_q if T_k is None else T_k
    ages = [[T_k - T_q + row - column for column in range(T_k)] for row in range(T_q)]
    table = torch.tensor([max(0, min(1, age + 1)) for line in ages for age in line], device=device)
    return table.view(T_q, T_k).gt(0)
'''
ODD_TOO = """
def split_heads(x, n_heads):
    pieces = []
    for number in range(n_heads):
        start = number * (x.shape[-1] // n_heads)
        pieces.append(torch.narrow(x, -1, start, x.shape[-1] // n_heads))
    return torch.stack(list(reversed(pieces[::-1])), dim=pieces[0].dim() - 2)
"""
DISGUISED = '''
# my own idea
def causal_mask(n, m=None, where=None):
    """Quite another text."""
    if False: "a comment in disguise"
    m = n if m is None else m
    differences = [[m - n + i - j for j in range(m)] for i in range(n)]
    flat = torch.tensor([max(0, min(1, d + 1)) for r in differences for d in r], device=where)
    return flat.view(n, m).gt(0)
'''


def code(*sources: str) -> list[Cell]:
    return [Cell("code", "", {}, source) for source in sources]


def wrote(*sources: str) -> dict:
    return shapes(code(*sources), "04")


def bank(id: str, answer) -> str:
    return FunctionSource.of(answer).text().replace(f"def {answer.__name__}(", f"def {exercise(id).reference.__name__}(")


def a_class(seed: int, n: int = 30) -> dict:
    """Students who each take one of the answers of the course to each exercise of lecture 04."""
    draw = random.Random(seed)
    asked = [item for item in exercises() if item.lecture == "04"]
    chosen = {
        f"s{i}": [
            bank(item.id, draw.choice((item.reference, *item.right, *(() if item.training else item.wrong)))) for item in asked
        ]
        for i in range(n)
    }
    return {student: wrote(*sources) for student, sources in chosen.items()}


def test_names_docstrings_and_comments_do_not_change_the_shape():
    assert wrote(ODD)["04.2"] == wrote(DISGUISED.replace('    if False: "a comment in disguise"\n', ""))["04.2"]


def test_the_order_of_statements_does_not_change_the_shape():
    lines = ["    one = torch.ones(T_q, T_k).cumsum(0)\n", "    two = torch.ones(T_q, T_k).cumsum(1)\n"]
    forms = [f"def causal_mask(T_q, T_k):\n{''.join(order)}    return one >= two\n" for order in (lines, lines[::-1])]
    assert wrote(forms[0]) == wrote(forms[1])
    assert wrote(forms[0]) != wrote(forms[0].replace(">=", ">"))


def test_two_who_share_odd_solutions_of_two_exercises_are_flagged_and_nobody_else():
    everyone = a_class(0) | {"copied": wrote(ODD, ODD_TOO), "copier": wrote(DISGUISED, ODD_TOO)}
    (flag,) = look_alikes(everyone)
    assert flag.students == ("copied", "copier")
    assert flag.exercises == ("04.2", "04.4")
    assert "%" in flag.what


def test_one_short_exercise_is_no_evidence():
    assert look_alikes({"a": wrote(ODD), "b": wrote(ODD)}) == []


@pytest.mark.parametrize("seed", range(3))
def test_answers_near_the_courses_own_are_never_flagged(seed):
    assert look_alikes(a_class(seed)) == []


def test_the_same_answers_of_the_course_in_every_exercise_are_no_evidence():
    item = exercise("04.5")
    same = {f"s{i}": wrote(bank("04.5", item.right[0]), bank("04.1", exercise("04.1").right[0])) for i in range(2)}
    assert same["s0"]
    assert look_alikes(same) == []


def test_what_the_whole_class_wrote_is_no_evidence():
    assert look_alikes({f"s{i}": wrote(ODD, ODD_TOO) for i in range(200)}) == []


@pytest.mark.parametrize("n", [11, 60, 199])
def test_what_many_of_a_large_class_wrote_is_no_evidence(n):
    others = {
        f"other{i}": wrote(f"def causal_mask(T_q, T_k=None):\n    return torch.ones(T_q).cumsum({i}) > {i}")
        for i in range(200 - n)
    }
    assert look_alikes(others | {f"s{i}": wrote(ODD, ODD_TOO) for i in range(n)}) == []


def test_a_ring_of_six_is_found():
    everyone = a_class(1) | {f"ring{i}": wrote(ODD, ODD_TOO) for i in range(6)}
    assert len(look_alikes(everyone)) == 15


def test_code_that_was_added_does_not_hide_a_copy():
    padded = ODD.replace("    T_k =", "    junk = [i ** 3 + 7 * i for i in range(12) if i % 5]\n    T_k =")
    assert look_alikes({"a": wrote(ODD, ODD_TOO), "b": wrote(padded, ODD_TOO)})


def test_the_bug_hunt_and_imports_are_not_the_students():
    hunts = [cell for cell in handed_out("04") if "bug" in cell.metadata]
    assert hunts
    assert shapes([*hunts, *code("from torch import tensor, causal_mask")], "04") == {}


@pytest.mark.parametrize(
    "disguised",
    [
        Cell("code", "", {"bug": "04.2"}, ODD),
        Cell("markdown", "", {"exercise": "04.2"}, ODD),
        Cell("raw", "", {"nbgrader": {"grade_id": "exercise-04-2"}}, ODD),
    ],
)
def test_a_cell_that_runs_is_compared_whatever_it_says_it_is(disguised):
    assert shapes([disguised], "04") == wrote(ODD)


def test_an_answer_in_a_cell_too_long_to_compare_is_flagged():
    cells = code("#" * 20_100 + "\n" + ODD)
    (flag,) = published_solutions({"ada": shapes(cells, "04")})
    assert (flag.kind, flag.exercises) == ("long cell", ("04.2",))


def test_an_alias_is_known_by_its_check():
    source = ODD.replace("def causal_mask", "def mended")
    assert "04.2" in shapes(code(source, 'mended = check("04.2", mended)'), "04")


@pytest.mark.parametrize(
    "hostile",
    [
        "(" * 9000,
        "-" * 9000 + "1",
        "x" + ".a" * 9000,
        "x" + "[1]" * 6000,
        "lambda:" * 2800 + "1",
        "1 if 1 else " * 1500 + "1",
        "".join(" " * i + "if 1:\n" for i in range(99)),
        "def causal_mask(:",
        "\0",
        "\ud800",
        "def causal_mask(): return '\\d'",
        "x = 1\n" * 100_000,
        "%matplotlib inline\n!rm -rf /\ndef causal_mask(): return 1",
    ],
)
def test_hostile_source_does_no_harm(hostile):
    assert set(wrote(hostile, ODD_TOO)) <= {"04.2", "04.4"}
    assert wrote(ODD_TOO)["04.4"] == wrote(hostile, ODD_TOO)["04.4"]


def test_the_published_solution_is_flagged_whatever_stands_around_it():
    asked = exercise("04.5")
    text = FunctionSource.of(asked.reference).text()
    cells = [Cell("code", "", {}, f"# mine\n{text}\nprint('done')")]
    what = "Identical to the published solution, including the names of variables."
    assert published_solutions({"ada": shapes(cells, "04")}) == [Flag("published solution", ("ada",), ("04.5",), what)]
    answers = [as_a_cell(answer, asked.reference.__name__) for answer in asked.right]
    assert published_solutions({str(i): shapes([Cell("code", "", {}, text)], "04") for i, text in enumerate(answers)}) == []


def renamed(text: str) -> str:
    """Every name that the function chose itself, replaced."""
    tree = ast.parse(text)
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in own:
            node.id = f"my_{node.id}"
        elif isinstance(node, ast.arg):
            node.arg = f"my_{node.arg}"
    return ast.unparse(tree)


def test_the_published_solution_under_other_names_is_flagged_in_every_lecture():
    large = [item for item in exercises() if _published_bodies(item.id)[0]]
    assert len(large) > 50
    for item in large:
        text = renamed(FunctionSource.of(item.reference).text())
        (flag,) = published_solutions({"ada": shapes(code(f"# mine\n{text}"), item.lecture)})
        assert flag.exercises == (item.id,)
        assert flag.what == "Identical to the published solution except for names."


def test_the_likeness_to_the_published_solution_is_a_share_of_its_parts():
    text = FunctionSource.of(exercise("04.5").reference).text()
    whole, other = wrote(renamed(text))["04.5"], wrote(ODD)["04.2"]
    assert likeness_to_published("04.5", whole) == 1.0
    assert likeness_to_published("04.5", wrote(text.rpartition("\n")[0])["04.5"]) > 0.5
    assert likeness_to_published("04.2", other) < 0.5


def test_a_class_of_a_thousand_is_compared_in_time():
    wrote = {f"s{i}": {"04.1": (*(f"{part}-{i % 500}" for part in range(40)), "everybody")} for i in range(1000)}
    begun = time.process_time()
    found = look_alikes(wrote)
    assert time.process_time() - begun < 5.0
    assert len(found) == 500


def test_a_number_of_6000_hexadecimal_digits_has_a_shape():
    """Python refuses to write such a number in decimal digits."""
    odd = ODD.replace('"""My mask."""', f"key = 0x{'f' * 6000}")
    assert shapes(code(odd), "04").keys() == shapes(code(ODD), "04").keys() != set()


def test_a_cell_with_many_answers_is_read_once(monkeypatch):
    read = []
    monkeypatch.setattr("course_tools.grading.report.flags._names_given", lambda tree: read.append(tree) or set())
    both = ODD + ODD_TOO
    assert set(shapes([Cell("code", "", {}, both)], "04")) == {"04.2", "04.4"}
    assert len(read) == 1
