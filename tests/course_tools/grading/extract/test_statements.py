"""The statements of a stranger's cell: names bound and needed, magics, split cells, and texts made to break a parser."""

import ast
import random
import warnings

import pytest

from course_tools.grading.extract.statements import Statement, Unparsable, read_all, statements


def only(source):
    (statement,) = statements(source)[1]
    return statement


@pytest.mark.parametrize(
    ("source", "binds"),
    [
        ("x = y = 1", "x y"),
        ("a, (b, *c) = f()", "a b c"),
        ("x: int = 1", "x"),
        ("x += 1", "x"),
        ("import a.b, c as d", "a d"),
        ("from m import a, b as c", "a c"),
        ("def f(x): y = 1", "f"),
        ("async def f(): pass", "f"),
        ("class A:\n    x = 1", "A"),
        ("for i in z:\n    k = i", "i k"),
        ("with o() as g: h = 1", "g h"),
        ("try:\n    a = 1\nexcept E as e:\n    b = 2", "a b e"),
        ("if (n := 3): m = 2", "n m"),
        ("match v:\n    case [p, *q]: r = p\n    case {'k': s}: pass", "p q r s"),
        ("[t for t in z]", ""),
        ("f = lambda w: w", "f"),
        ("x[0] = 1", ""),
        ("print(x)", ""),
    ],
)
def test_the_names_that_a_statement_binds(source, binds):
    assert only(source).binds == set(binds.split())


@pytest.mark.parametrize(
    ("source", "needs"),
    [
        ("def f(q, k=default):\n    s = q @ k.mT / math.sqrt(d)\n    return s", "default math d"),
        ("def f(x: Shape) -> Other:\n    y: Third = x\n    return y", ""),
        ("def f(x):\n    def g(y):\n        return x + y + z\n    return g", "z"),
        ("f = lambda x: x + y", "y"),
        ("x = [a for a in b if c]", "b c"),
        ("def f(x):\n    global n\n    n += x", "n"),
        ("@decorator\ndef f(x): return len(x)", "decorator len"),
        ("class A(Base):\n    x = y\n    def m(self): return z", "Base y z"),
        ("def f(n): return f(n - 1)", "f"),
        ("x += 1", "x"),
        ("from torch import nn", ""),
    ],
)
def test_the_names_that_a_statement_needs(source, needs):
    assert only(source).needs == set(needs.split())


@pytest.mark.parametrize(("source", "changes"), [("x[0] = 1", "x"), ("x.a.b = 1", "x"), ("x[1].add(2)", "x"), ("f(x)", "")])
def test_the_names_whose_value_a_statement_changes(source, changes):
    assert only(source).changes == set(changes.split())


def test_parts_are_assigned_and_methods_are_called():
    assert only("x[0].y = z.w = 1").stores == {"x", "z"}
    assert only("x.append(1)").stores == set()


@pytest.mark.parametrize(
    ("source", "calls"),
    [("f(x)", "f"), ("@f\n@g(1)\ndef h(): pass", "f g"), ("y = f(x)", ""), ("x.f()", ""), ("@f\nclass A: pass", "f")],
)
def test_the_functions_that_are_called_for_what_they_do(source, calls):
    assert only(source).calls == set(calls.split())


@pytest.mark.parametrize(
    ("source", "acts"),
    [
        ("def f():\n    global x\n    x = 1", True),
        ("def f(y):\n    x[y] = 1", True),
        ("def f(x):\n    x[0] = 1", False),
        ("def f():\n    return g(1)", False),
        ("x[0] = 1", False),
    ],
)
def test_a_function_acts_that_changes_what_is_outside_of_it(source, acts):
    assert only(source).acts is acts


@pytest.mark.parametrize(
    ("source", "is_stub"),
    [
        ('def f(x):\n    """What."""\n    # YOUR CODE HERE\n    raise NotImplementedError()', True),
        ("def f(x):\n    raise NotImplementedError", True),
        ("def f(x): ...", True),
        ("def f(x): pass", True),
        ('def f(x):\n    """What."""', True),
        ("def f(x):\n    return x\n    raise NotImplementedError()", False),
        ("def f(x):\n    raise ValueError()", False),
        ("def f(x):\n    if x: raise NotImplementedError", False),
        ("f = None", False),
    ],
)
def test_an_empty_function_is_told_from_a_full_one(source, is_stub):
    assert only(source).is_stub is is_stub


@pytest.mark.parametrize(
    "source",
    [
        "%matplotlib inline\nx = 1",
        "x = 1\n!pip install torch",
        "?torch\nx = 1",
        "torch.nn?\nx = 1",
        "files = !ls\nx = 1",
        "t = %timeit -o f()\nx = 1",
        "if True:\n    %time f()\n    !ls\nx = 1",
        "%%time\nx = 1",
        "%%capture out\nx = 1",
        "\n%%timeit -n 1\nx = 1",
    ],
)
def test_magics_and_shell_lines_are_passed_over(source):
    assert "x" in set().union(*(statement.binds for statement in statements(source)[1]))


@pytest.mark.parametrize("source", ["%%bash\nrm -rf x", "%%html\n<b>", "%%writefile a.py\nx = 1"])
def test_cells_in_another_language_hold_nothing(source):
    assert statements(source) == ("", [])


def test_a_percent_sign_that_begins_a_continued_line_stays():
    source = 'x = (7\n%4)\ny = """\n%time\n!ls\n"""\n%time z\n'
    read, found = statements(source)
    assert read == source.replace("%time z", "pass")
    assert [sorted(statement.binds) for statement in found] == [["x"], ["y"], []]


def test_the_lines_keep_their_numbers():
    read, found = statements("%time a\n\n%%nothing\n\nx = 1\n")
    assert read.count("\n") == 5
    assert found[-1].node.lineno == 5


@pytest.mark.parametrize(("cut", "parts"), [(2, 3), (1, 2), (3, 2)])
def test_a_function_that_was_split_into_cells_is_joined(cut, parts):
    lines = ["def f(x):", "    y = (x +", "         1)", "    return y"]
    found = read_all(["a = 1", *("\n".join(part) for part in (lines[:cut], lines[cut:])), "b = 2"])
    assert [len(read[1]) for read in found] == [1, 1, 0, 1]
    assert ast.unparse(found[1][1][0].node) == "def f(x):\n    y = x + 1\n    return y"
    assert parts


def test_a_cell_with_an_error_stays_alone():
    found = read_all(["a = 1", "def f(:", "b = 2", "", "  c = 3"])
    assert [type(read) for read in found] == [tuple, Unparsable, tuple, tuple, Unparsable]
    assert str(found[1]) == "line 1: invalid syntax"


HOSTILE = {
    "brackets": "(" * 5000 + ")" * 5000,
    "a few brackets": "x = " + "[" * 150 + "]" * 150,
    "signs": "x = " + "-" * 50_000 + "1",
    "nots": "x = " + "not " * 20_000 + "y",
    "sums": "x = " + "1+" * 40_000 + "1",
    "powers": "x = " + "1**" * 30_000 + "1",
    "dots": "x = a" + ".a" * 40_000,
    "calls": "x = a" + "()" * 40_000,
    "lambdas": "x = " + "lambda: " * 10_000 + "1",
    "conditions": "x = " + "1 if 1 else " * 8_000 + "1",
    "blocks": "".join(" " * i + "if 1:\n" for i in range(99)) + " " * 99 + "x = 1",
    "too many blocks": "".join(" " * i + "if 1:\n" for i in range(300)) + " " * 300 + "x = 1",
    "else ifs": "if 1: pass\n" + "elif 1: pass\n" * 7_000,
    "a long number": "x = " + "9" * 90_000,
    "f-strings": 'x = f"' + "{f'" * 200 + "1" + "'}" * 200 + '"',
    "zeros": "x = 1\0",
    "half a character": "x = '\ud800'",
    "escapes": r"x = '\d\w'",
    "a tab": "if 1:\n\tx = 1\n        y = 2",
    "an encoding": "# -*- coding: nonsense -*-\nx = 1",
    "magics": "%a\n" * 30_000,
    "walrus": "(x:=" * 150 + "1" + ")" * 150,
    "await": "x = await f()",
    "return": "return 1",
    "too long": "x" * 200_000,
    "patterns": "match x:\n    case " + "[" * 150 + "]" * 150 + ": pass",
    "decorators": "@f\n" * 20_000 + "def x(): pass",
    "annotations": "def f(" + ", ".join(f"a{i}: 'x'" for i in range(3000)) + "): pass",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_a_text_made_to_break_the_parser_is_read_or_refused(source):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = read_all([source])
    if isinstance(found, Unparsable):
        assert 0 < len(str(found)) < 300
        return
    for statement in found[1]:
        assert isinstance(statement.binds | statement.changes | statement.needs, frozenset)
        assert statement.is_stub in (True, False)


def test_texts_at_random_are_read_or_refused():
    chance = random.Random(0)
    words = [
        "def f(x):",
        "\n",
        "    ",
        "return",
        "x",
        "=",
        "(",
        ")",
        "[",
        "]",
        "%",
        "!",
        "?",
        "'",
        '"""',
        "lambda",
        ":",
        "\t",
        "\\",
        "é",
    ]
    for _ in range(2000):
        (found,) = read_all(["".join(chance.choice(words) for _ in range(chance.randint(1, 30)))])
        assert isinstance(found, Unparsable) or all(isinstance(statement, Statement) for statement in found[1])


def test_what_stands_behind_half_a_million_characters_is_not_read():
    found = read_all(["#" * 90_000] * 12 + ["x = 1"])
    assert isinstance(found[-1], Unparsable)
    assert isinstance(found[0], tuple)
