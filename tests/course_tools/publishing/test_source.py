"""The source of a library function, parsed and joined again."""

import functools
import importlib
import inspect
import sys
from pathlib import Path

import pytest

from course_lib.attention import dot_product as library
from course_tools.publishing.source import FunctionSource, ReferenceImport


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return `module(text)`: a module with this text."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(text: str):
        (tmp_path / "temporary_source.py").write_text(text, encoding="utf-8")
        sys.modules.pop("temporary_source", None)
        importlib.invalidate_caches()
        return importlib.import_module("temporary_source")

    yield make
    sys.modules.pop("temporary_source", None)


DECORATED = '''
import functools
def loud(f):
    @functools.wraps(f)
    def inner(*args):
        return f(*args)
    return inner

@loud
def twice(
    x: int,  # a number
) -> int:
    """Double it."""
    # by adding

    return x + x


after = 1
'''


def test_a_decorated_function_is_taken_without_its_decorator(module):
    source = FunctionSource.of(module(DECORATED).twice)
    assert source.signature == "def twice(\n    x: int,  # a number\n) -> int:"
    assert source.docstring == '    """Double it."""'
    assert source.body == "    # by adding\n\n    return x + x"


def test_the_parts_put_together_run_like_the_original(module):
    space: dict = {}
    exec(FunctionSource.of(module(DECORATED).twice).named("double").text(), space)
    assert space["double"](21) == 42
    assert space["double"].__doc__ == "Double it."


def test_a_function_wrapped_by_the_type_checker_is_read_from_its_file():
    function = library.scaled_dot_product_attention
    assert FunctionSource.of(functools.wraps(function)(lambda *a: None)) == FunctionSource.of(function)
    assert FunctionSource.of(function).text() in inspect.getsource(library)
    assert "jaxtyp" not in FunctionSource.of(function).text()


def test_the_docstring_can_be_left_out(module):
    text = FunctionSource.of(module(DECORATED).twice).text(documented=False)
    assert "Double" not in text
    assert text.endswith("return x + x")


def test_a_function_without_docstring(module):
    source = FunctionSource.of(module("def f(x):\n    return x\n").f)
    assert (source.docstring, source.body) == ("", "    return x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(x): return x\n", "on the line of its signature"),
        ("class A:\n    def f(self):\n        return 1\nf = A.f\n", "top level"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused(module, text, message):
    with pytest.raises(ValueError, match=message):
        FunctionSource.of(module(text).f)


def test_a_function_that_calls_itself_is_not_renamed(module):
    source = FunctionSource.of(module("def f(x):\n    return f(x - 1) if x else 0\n").f)
    with pytest.raises(ValueError, match="refers to itself"):
        source.named("g")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from a.b import c", ReferenceImport("a.b", "c", "c")),
        ("# a comment\nfrom a import c as d", ReferenceImport("a", "c", "d")),
        ("from a import b, c", None),
        ("import a", None),
        ("from a import c\nc()", None),
        ("from . import c", None),
        ("%matplotlib", None),
    ],
)
def test_the_import_of_an_exercise_cell(source, expected):
    assert ReferenceImport.parse(source) == expected


def test_an_import_of_what_is_not_there_says_so():
    with pytest.raises(ImportError, match=r"course_lib\.attention has no nothing"):
        ReferenceImport("course_lib.attention", "nothing", "nothing").load()
