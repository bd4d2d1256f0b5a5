"""The statements of a student's cell: names bound and needed, magics, split cells, and texts made to break a parser."""

import ast
import random
import time
import warnings
from functools import partial
from types import SimpleNamespace

import pytest

from course_tools.grading.sandbox import hardening
from course_tools.grading.sandbox.notebook_runner import (
    Statement,
    Unparsable,
    _bound,
    _parsed,
    _parsed_cells,
    _Spent,
    choose,
    parse,
    run,
)


class StandIn:
    """Stands for what the course does not provide inside the sandbox."""


REFERENCES = {"04.1": "library:attention", "04.4": "library:split_heads"}
NAME = "merge"
STUB = f"def {NAME}(x):\n    raise NotImplementedError()"


def only(source):
    (node,) = parse(source)[1]
    return Statement(0, 0, node, "own", source)


def cell(source, role="own"):
    return {"name": "<cell>", "source": source, "role": role}


def answer(value):
    return f"def {NAME}(x):\n    return {value}"


def found(*cells, namespace=None, skip=(), seconds=(1.0, 2.0, 1.0, 0.5)):
    """Run cells, of the student where nothing else is said, for exercise 04.5, whose function is `merge`."""
    listed = [cell(item) if isinstance(item, str) else item for item in cells]
    request = {"cells": listed, "exercise": "04.5", "function": NAME, "references": REFERENCES, "skip": skip, "chosen": None}
    library = {"library:split_heads": lambda x: "the library's"}
    names = {} if namespace is None else namespace
    slept = partial(hardening.own_time_slept, hardening.own_schedule())
    return run(request | {"seconds": seconds}, choose(request), names, lambda check: None, library.get, StandIn, slept)


def needed(*cells, id="04.5"):
    """The statements on which the answer to an exercise may depend: the text of the first line, and why it does not run."""
    listed = [cell(item) if isinstance(item, str) else item for item in cells]
    request = {"cells": listed, "exercise": "04.5", "function": NAME, "references": REFERENCES, "skip": (), "chosen": None}
    return {listed[i]["source"].split("\n")[line - 1]: why for i, _, line, why in choose(request).needed[id]}


def result(*cells):
    """What the answer that was found gives."""
    return found(*cells).answer(5)


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
def test_an_empty_function_is_recognised(source, is_stub):
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
        "\n%%time\n%time x = 1",
        ">>> x = 1",
        "    x = 1",
    ],
)
def test_magics_and_shell_lines_are_passed_over(source):
    assert "x" in set().union(*(set(_bound(node)) for node in parse(source)[1]))


@pytest.mark.parametrize("source", ["%%bash\nrm -rf x", "%%html\n<b>", "%%timeit -n 1\nx = 1"])
def test_cells_in_another_language_hold_nothing(source):
    assert parse(source) == ("", [])


def test_a_percent_sign_that_begins_a_continued_line_stays():
    source = 'x = (7\n%4)\ny = """\n%time\n!ls\n"""\n%time z\n'
    read, body = parse(source)
    assert read.rstrip() == source.replace("%time z", "z").rstrip()
    assert [sorted(_bound(node)) for node in body] == [["x"], ["y"], []]


def test_the_lines_keep_their_numbers():
    _, body = parse("%time a\n\n%%nothing\n\nx = 1\n")
    assert body[-1].lineno == 5
    assert parse("!pip install x \\\n  y\nx = 1")[1][-1].lineno == 3


def test_a_magic_that_runs_code_is_this_code():
    assert parse("%time x = 1")[0] == "x = 1\n"
    assert parse("%%capture\n%time x = 1")[0] == "pass\nx = 1\n\n"


def test_a_cell_that_writes_a_file_writes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert (
        result(
            "%%writefile written.py\nn = 3\n",
            "%%writefile -a written.py\nm = 4",
            "import written",
            answer("written.n + written.m"),
        )
        == 7
    )


@pytest.mark.parametrize(("cut", "parts"), [(2, 3), (1, 2), (3, 2)])
def test_a_function_that_was_split_into_cells_is_joined(cut, parts):
    lines = ["def f(x):", "    y = (x +", "         1)", "    return y"]
    cells, _, joined = _parsed_cells(
        [cell(text) for text in ("a = 1", "\n".join(lines[:cut]), "\n".join(lines[cut:]), "b = 2")]
    )
    assert [len(statements) for statements in cells] == [1, 1, 0, 1]
    assert ast.unparse(cells[1][0].node) == "def f(x):\n    y = x + 1\n    return y"
    assert joined


def test_a_cell_with_an_error_stays_alone():
    cells, why, joined = _parsed_cells(
        [cell("a = 1"), cell("def f(:", "marked"), cell("b = 2"), cell(""), cell("b = 1\n  c = 3")]
    )
    assert [len(statements) for statements in cells] == [1, 0, 1, 0, 0]
    assert (why, joined) == ({1: "line 1: invalid syntax", 4: "line 2: unexpected indent"}, False)


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
        body = _parsed("<cell>", source)
        assert found(source, answer(1)).answer(0) == 1
    if isinstance(body, Unparsable):
        assert 0 < len(str(body)) < 300


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
        body = _parsed("<cell>", "".join(chance.choice(words) for _ in range(chance.randint(1, 30))))
        assert isinstance(body, Unparsable) or all(isinstance(part.node, ast.stmt) for part in body)


def test_what_follows_half_a_million_characters_is_not_read():
    cells, *_ = _parsed_cells([cell("#" * 90_000)] * 12 + [cell("x = 1")])
    assert cells[-1] == []


def test_thousands_of_cells_are_read_in_linear_time():
    begun = time.process_time()
    assert found(*(f"a{i} = {i}" for i in range(3_000)), answer("a2999")).answer(0) == 2999
    assert time.process_time() - begun < 20.0


def test_the_last_check_receives_the_answer_whatever_it_is_called():
    assert result("def mine(x): return 1", 'check("04.5", mine)') == 1
    assert result("def mine(x): return 1", f'{NAME} = check("04.5", fn=mine)', "mine = None") == 1
    assert result('check("04.5", lambda x: 1)', 'check("04.5", lambda x: 2)') == 2
    assert result("class Mine:\n    def __call__(self, x): return x", 'check("04.5", Mine())') == 5


def test_an_older_attempt_does_not_win_over_the_later_check():
    assert result(answer(1), f'check("04.5", {NAME})', answer(2), f'check("04.5", {NAME})') == 2
    assert result(answer(1), answer(2), f'{NAME} = check("04.5", {NAME})', answer(3)) == 2


def test_without_a_check_the_last_definition_counts():
    assert result(answer(1), answer(2)) == 2
    assert result(cell("def my_own(x):\n    return 3", "marked")) == 3


def test_an_empty_exercise_never_hides_an_answer():
    assert result(cell(STUB, "marked"), answer(1), f'check("04.5", {NAME})') == 1
    assert result(answer(1), f'check("04.5", {NAME})', cell(STUB, "given"), cell(f'check("04.5", {NAME})', "given")) == 1


def test_an_exercise_as_it_was_handed_out_is_no_answer():
    empty = found(cell(STUB, "given"), cell(f'{NAME} = check("04.5", {NAME})', "given"))
    assert (empty.is_there, empty.started) == (False, False)
    bug = found(cell("def suspect(x): return 7", "given"), cell('suspect = check("04.5", suspect)', "given"))
    assert (bug.is_there, bug.started) == (False, True)


def test_what_the_course_does_not_provide_is_no_answer():
    assert not found(f'check("04.5", {NAME})', namespace={NAME: StandIn()}).is_there


def test_the_other_exercises_are_those_of_the_library():
    own = "def split_heads(x): return 'mine'"
    use = answer("split_heads(x)")
    assert result(own, 'split_heads = check("04.4", split_heads)', use) == "the library's"
    assert result(cell("def split_heads(x):\n    raise NotImplementedError()", "given"), use) == "the library's"
    assert result(own, use) == "the library's"
    assert result(own, 'split_heads = check("04.4", split_heads)', f"{own}\n{use}") == "mine"


def test_everything_of_the_student_runs_in_order_and_what_fails_is_passed_over():
    assert result("table = {}", "for i in range(3):\n    table[i] = i * i", "table[1] += undefined", answer("table[2]")) == 4
    assert result("1 / 0", "%magic", "def (", "import nothing_at_all", answer(1)) == 1
    assert result(answer("later"), "later = 3") == 3
    assert result("value = later + 1", "later = 3", answer("value")) == 4
    assert result("setattr(__builtins__, 'x', 1) if False else None\nglobals()['y'] = 2", answer("y")) == 2


FIT = "def fit_it(model):\n    model.loss().backward()"


def test_what_trains_and_no_answer_needs_does_not_run():
    for training in ("fit_it(model)", "for step in train(model):\n    done.append(1)", "x = fit(done.append(1))"):
        namespace = {"done": [], "train": lambda model: [1], "model": 0}
        namespace["fit_it"] = namespace["done"].append
        assert found(FIT if "fit_it" in training else "", training, answer(1), namespace=namespace).answer(0) == 1
        assert namespace["done"] == []


def test_what_only_has_the_name_of_a_training_runs():
    layer = "class Layer:\n    on = True\n    def train(self, on): self.on = on\n    def fit(self, x): self.x = x; return self"
    assert result(layer, "layer = Layer()\nlayer.train(False)", answer("layer.on")) is False
    assert result(layer, "scaler = Layer().fit(7)", answer("scaler.x")) == 7
    assert result("def fit_line(x):\n    return fit(x)", "fit = lambda x: 2 * x\nslope = fit_line(4)", answer("slope")) == 8


def test_a_training_that_an_answer_needs_has_a_limit_and_takes_no_time_from_others():
    endless = "for i in iter(int, 1):\n    model.append(fit(1))"
    cells = ("def fit(x): return x\nmodel = []", endless, "n = sum(range(10**5))", answer("n + len(model)"))
    ran = found(*cells, seconds=(2.0, 2.0, 1.0, 0.2))
    assert (ran.late, ran.answer(0) > sum(range(10**5))) == ([(1, 0)], True)
    assert found(*cells, skip=ran.late).answer(0) == sum(range(10**5))
    assert needed(*cells)["for i in iter(int, 1):"] == ""


def test_of_the_lecture_only_what_is_needed_runs():
    lecture = [
        cell("import math\nSCALE = done.append(1) or 2", "given"),
        cell("OTHER = done.append(2)", "given"),
        cell("done.append(3)", "given"),
    ]
    namespace = {"done": []}
    assert found(*lecture, answer("SCALE * math.pi"), namespace=namespace).answer(0) > 6
    assert namespace["done"] == [1]


def test_what_is_missing_from_the_notebook_comes_from_the_lecture():
    missing = cell("import math\nSCALE = 2", "missing")
    assert result(missing, answer("math.sqrt(4) * SCALE")) == 4
    assert result(missing, "SCALE = 3", answer("SCALE")) == 3


def test_a_statement_without_end_is_stopped_and_skipped_the_next_time():
    endless = "for i in iter(int, 1):\n    tries.append(1)"
    first = found(endless, answer(1), namespace={"tries": []}, seconds=(0.05, 0.1, 0.1, 0.1))
    assert (first.answer(0), first.late) == (1, [(0, 0)])
    namespace = {"tries": []}
    assert found(endless, answer(1), namespace=namespace, skip=first.late).answer(0) == 1
    assert namespace["tries"] == []
    sleeping = found("import time\ntime.sleep(60)", answer(1), seconds=(0.05, 0.1, 0.1, 0.1))
    assert (sleeping.answer(0), sleeping.late) == (1, [(0, 1)])


@pytest.mark.parametrize(("passed", "computed", "waited", "counted"), [(9.0, 0.5, 8.4, 0.5), (9.0, 0.5, 1.0, 7.5)])
def test_a_statement_that_waits_for_a_busy_machine_is_not_stopped_and_one_that_sleeps_is(
    monkeypatch, passed, computed, waited, counted
):
    clock = SimpleNamespace(passed=0.0, computed=0.0, waited=0)
    clock.monotonic, clock.process_time = lambda: clock.passed, lambda: clock.computed
    monkeypatch.setattr(hardening, "time", clock)
    monkeypatch.setattr("course_tools.grading.sandbox.notebook_runner.time", clock)
    monkeypatch.setattr(hardening.os, "pread", lambda *file: f"0 {clock.waited} 0".encode())
    spent = _Spent(partial(hardening.own_time_slept, [0]))
    clock.passed, clock.computed, clock.waited = passed, computed, int(waited * 1e9)
    assert spent.seconds() == pytest.approx(counted)


def test_what_an_answer_may_depend_on_is_known_before_anything_runs():
    """Directly, through helpers and through values that are changed; not what only uses it, nor what comes after its check."""
    cells = (
        "import math\nWEIGHT = load('w.pt')",
        "WEIGHT.fill_(1)\nWEIGHT[0] = 2\nprint(WEIGHT)\nother = helper(1)\nscaled(other)",
        "def helper(x):\n    return math.sqrt(x) * WEIGHT",
        answer("helper(x)"),
        f'{NAME} = check("04.5", {NAME})',
        "WEIGHT.fill_(3)\nhelper = None",
    )
    wanted = ["import math", "WEIGHT = load('w.pt')", "WEIGHT.fill_(1)", "WEIGHT[0] = 2", "def helper(x):", f"def {NAME}(x):"]
    assert list(needed(*cells)) == wanted
    assert set(needed(*cells).values()) == {""}
    assert needed(*cells, id="04.4") == {}


def test_what_does_not_run_is_told_with_its_reason_where_an_answer_may_depend_on_it():
    use = answer("model(x) + SIZE")
    assert needed("model = new()\nfit(model)", use) == {"model = new()": "", "fit(model)": "", f"def {NAME}(x):": ""}
    given = cell("model = new()\nmodel.fit()", "given")
    assert needed(given, use) == {"model = new()": "", "model.fit()": "trains", f"def {NAME}(x):": ""}
    assert needed("SIZE = 3\nshifted(SIZE)", use) == {"SIZE = 3": "", "shifted(SIZE)": "", f"def {NAME}(x):": ""}
    assert needed(cell("SIZE = 3\nshifted(SIZE)", "given"), use) == {"SIZE = 3": "", f"def {NAME}(x):": ""}
    assert needed("other = new()\nfit(other)", use) == {f"def {NAME}(x):": ""}
    given = cell("SIZE = 5\nSIZE.update(3)", "given")
    assert needed(given, use) == {"SIZE = 5": "", "SIZE.update(3)": "handed out", f"def {NAME}(x):": ""}
    assert needed("SIZE = 3", cell("SIZE = 5", "given"), use)["SIZE = 5"] == "handed out"
    assert "SIZE = 5" not in needed(cell("SIZE = 5", "given"), "SIZE = 3", use)
    assert needed(cell("SIZE = 5\nSIZE.update(3)", "missing"), use) == {f"def {NAME}(x):": ""}
    assert needed("x = 1\nSIZE = (3", use)["SIZE = (3"] == "no Python"
    assert needed("x = 1\nsize = (3", use) == {f"def {NAME}(x):": ""}
    given = cell(f"from course_lib.attention import model, {NAME}", "given")
    assert needed(given, f"def {NAME}(x:") == {f"def {NAME}(x:": "no Python"}
    assert needed(given, use) == {f"from course_lib.attention import model, {NAME}": "", f"def {NAME}(x):": ""}
    assert needed(given, f"from own import model\ndef {NAME}(x): return model") == {
        "from own import model": "",
        f"def {NAME}(x): return model": "",
    }
    assert needed("def model(x): return x", "def broken(:", cell(use)) == {"def model(x): return x": "", f"def {NAME}(x):": ""}


def test_statements_that_raise_are_told_and_those_that_run_at_last_are_not():
    ran = found("1 / 0\nvalue = later", "later = 3\nother = nothing", answer("value"))
    assert sorted(ran.raised) == [(0, 0, "ZeroDivisionError"), (1, 1, "NameError")]
    assert found("while True: pass", answer(1), seconds=(0.05, 0.1, 0.1, 0.1)).raised == []


def test_a_slow_import_has_a_limit_of_its_own_and_takes_no_time_from_other_statements(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.7)\nnumber = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    ran = found("import slow_to_import\nnumber = slow_to_import.number", answer("number"), seconds=(0.5, 0.6, 30.0, 0.5))
    assert (ran.answer(0), ran.late) == (5, [])


def test_the_error_of_the_answer_is_the_one_that_is_reported():
    broken = found("1 / 0", cell(f"{NAME} = wrong_name(3)", "marked"))
    assert not broken.is_there
    assert isinstance(broken.failed, NameError)


def test_a_later_cell_changes_nothing_of_what_was_checked():
    use, check = answer("help_out(x)"), f'{NAME} = check("04.5", {NAME})'
    assert result("def help_out(x): return 1", use, check, "def help_out(x): return 2") == 1
    assert result("def help_out(x): return 1", use, check, "del help_out") == 1
    assert result("def help_out(x): return 1", use, check, "def help_out(x): return 2", check) == 2
    assert result(use, check, "def help_out(x): return 2") == 2
    own, checked = "def split_heads(x): return 'mine'", 'split_heads = check("04.4", split_heads)'
    assert result(own, checked, answer("split_heads(x)"), check, own) == "the library's"
    assert result(own, answer("split_heads(x)"), check, checked) == "the library's"


def test_the_statements_chosen_for_one_exercise_serve_the_next_one():
    cells = [cell("import math\nSCALE = done.append(1) or 2", "given"), cell("OTHER = 3", "given"), cell(answer("SCALE"))]
    request = {"cells": cells, "exercise": "04.5", "function": NAME, "references": REFERENCES, "skip": (), "chosen": None}
    places = choose(request).places
    assert places == [(0, 1), (2, 0)]
    again = choose(request | {"chosen": places})
    assert [(s.cell, s.number) for s in again.statements] == places
    assert (again.unparsable, again.places) == ("", None)
    halves = [cell("def f(x):\n    y = (x +"), cell("         1)\n    return y")]
    assert choose(request | {"cells": halves}).places is None


def test_the_text_of_a_statement_is_its_own():
    source = "x = 1; y = 'é'; z = 2\n@a\n@b\ndef f(x):\n    return '''\n'''\n\r\nif x:\r\n    y = 1\nelse: z = 3\n"
    (statements,), *_ = _parsed_cells([cell(source)])
    assert [s.text.replace("\r", "") for s in statements] == [
        "x = 1",
        "y = 'é'",
        "z = 2",
        "@a\n@b\ndef f(x):\n    return '''\n'''",
        "if x:\n    y = 1\nelse: z = 3",
    ]
