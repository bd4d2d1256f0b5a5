"""What of the library a student's code gets: what an honest answer needs, never the answer itself, a stand-in for the rest."""

import ast
import importlib
import inspect
import re

import pytest
import torch
from torch.utils._pytree import tree_map_only

from course_lib.attention import multi_head_attention
from course_tools.bank import exercises
from course_tools.checks import Exercise
from course_tools.grading.extract.programs import Part, Program
from course_tools.grading.sandbox import wire_protocol
from course_tools.grading.sandbox.allowed_names import allowed_names, allowed_packed, forms_of, users_of
from course_tools.grading.sandbox.sandbox import Sandbox
from course_tools.grading.sandbox.session import NoAnswer
from tests.course_tools.conftest import each_exercise
from tests.course_tools.grading.student_notebooks import ROOT
from tests.course_tools.judged import passes


@pytest.fixture(scope="module")
def sandbox():
    started = Sandbox()
    yield started
    started.close()


def defined(asked):
    """Every function and class that the allowed names of an exercise holds, as (module, name)."""
    entries = allowed_names(asked.id)["entries"]
    for module, names in entries.items():
        for name, entry in names.items():
            if entry["source"].startswith(("def ", "class ", "@")):
                yield module, name


def imported_by_the_lecture(number):
    """What a lecture imports of the library, as (module, name); modules themselves left out."""
    (path,) = (ROOT / "authoring").glob(f"{number}_*.py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("course_lib"):
            module = importlib.import_module(node.module)
            yield from ((node.module, a.name) for a in node.names if not inspect.ismodule(getattr(module, a.name)))


def answers_of(asked):
    """The reference of an exercise, what the exercise forbids, and everything in the library that uses one of them."""
    forbidden = [(f.__module__, f.__name__) for f in asked.forbids if f.__module__.startswith("course_lib.")]
    return frozenset().union(*map(users_of, [*forms_of(asked.reference), *forbidden]))


def takes(function, n):
    """Whether a function can be called with n positional arguments."""
    try:
        inspect.signature(function).bind(*range(n))
    except TypeError:
        return False
    return True


def on_copies(function):
    """The function applied to copies of its arguments: the answer that a form which works in place gives away."""
    return lambda *inputs: function(*tree_map_only(torch.Tensor, torch.clone, inputs))


def load(sandbox, source, id="04.1"):
    """Run one statement inside; NoAnswer where it fails."""
    lines = "\n".join(f"    {line}" for line in source.splitlines())
    text = f"if True:\n{lines}\n    def f(): return True"
    with sandbox.fork() as worker:
        worker.load(Program(id, "f", (Part("<cell 1>", text, "own"),), {}), allowed_packed(id), [])


@each_exercise
def test_the_answer_and_what_uses_it_are_never_allowed(asked):
    own = (asked.reference.__module__, asked.reference.__name__)
    assert set(defined(asked)) & answers_of(asked) == set()
    assert not any(entry.get(own[1]) for entry in allowed_names(asked.id)["entries"].values())


def test_no_function_that_is_allowed_is_an_answer_by_itself(asked: Exercise):
    sizes = {len(call) for prop in asked.properties for call in asked.calls(prop, 0)}
    mechanisms = [(module, name) for module, name in defined(asked) if not module.startswith("course_lib.datasets")]
    functions = [getattr(importlib.import_module(module), name) for module, name in mechanisms]
    fitting = [f for f in functions if inspect.isfunction(f) and takes(f, min(sizes)) and takes(f, max(sizes))]
    assert [f.__name__ for f in fitting if passes(asked.id, on_copies(f))] == []


@each_exercise
def test_every_earlier_mechanism_of_the_lecture_is_there_unless_forbidden(asked):
    before = [item.reference for item in exercises() if item.lecture == asked.lecture and item.id < asked.id]
    earlier = {reference.__name__ for reference in before if reference.__module__.startswith("course_lib.")}
    forbidden = {function.__name__ for function in asked.forbids}
    assert earlier - forbidden <= {name for _, name in defined(asked)}


@pytest.mark.parametrize("id", ["01.1", "04.1", "12.3"])
def test_everything_that_is_allowed_can_be_imported_inside(sandbox, monkeypatch, id):
    monkeypatch.setattr("course_tools.grading.sandbox.session.LOAD_LIMIT", 100.0)
    entries = allowed_names(id)["entries"]
    load(sandbox, "\n".join(f"from {module} import {', '.join(names)}" for module, names in entries.items()), id)


@each_exercise
def test_what_the_lectures_import_is_allowed_unless_it_uses_the_answer(asked):
    allowed, own, missing = allowed_names(asked.id)["entries"], answers_of(asked), []
    for module, name in imported_by_the_lecture(asked.lecture):
        place = (getattr(getattr(importlib.import_module(module), name), "__module__", module), name)
        if name not in allowed.get(module, {}) and not {place, (module, name)} & own:
            missing.append((module, name))
    assert missing == []


@each_exercise
def test_every_argument_of_every_call_can_go_inside(asked):
    for prop in asked.properties:
        for call in asked.calls(prop, 0):
            given = [wire_protocol.FunctionReference.of(value) if callable(value) else value for value in call]
            assert "foreign" not in str(wire_protocol.flat(tuple(given), []))
            named = [(value.__module__, value.__qualname__) for value in call if callable(value)]
            assert set(named) <= set(defined(asked))


@pytest.mark.parametrize(
    "source",
    [
        "from course_lib.attention import scaled_dot_product_attention, fused_attention, MultiHead",
        "from course_tools.notebook import claim, device, plots, show\nplots.curves",
        "import course_lib.models.bert, course_lib.nowhere.at_all as n\nn.thing",
        "import course_lib\ncourse_lib.attention.core.attend\ncourse_lib.unknown",
        "from course_lib import attention, nothing\nattention.core",
        "from course_lib.attention import *\nattend",
        "from course_lib.models import Seq2Seq\nclass Mine(Seq2Seq):\n    pass",
        "from course_lib.shapes import Unknown\nx = Unknown | None, Unknown['a'], None | Unknown",
        "from course_tools.notebook import check; from course_tools.bank import verdict",
    ],
)
def test_every_import_from_the_course_succeeds(sandbox, source):
    load(sandbox, source)


@pytest.mark.parametrize(
    "source",
    [
        "from course_lib.attention import scaled_dot_product_attention as g\ng(1, 2, 3)",
        "from course_lib import attention\nattention.MultiHead(2, 2)",
        "from course_tools.bank import exercise\nexercise('04.1').reference",
        "from course_tools.bank import exercises\nexercises()",
    ],
)
def test_what_is_not_allowed_raises_when_it_is_used(sandbox, source):
    with pytest.raises(NoAnswer, match=r"NotAvailable: course_(lib|tools)\.\S+ is not available in this exercise"):
        load(sandbox, source)


def test_the_library_itself_is_not_in_the_memory_inside(sandbox):
    load(
        sandbox,
        "import gc, sys\n"
        "names = {getattr(f, '__name__', '') for f in gc.get_objects() if callable(f)}\n"
        "assert not names & {'scaled_dot_product_attention', 'judge', 'Examination', 'causal_attention'} - {'f'}\n"
        "assert not [n for n in sys.modules if n.startswith('course_lib')]",
    )


def test_library_functions_refuse_the_same_shapes_inside(sandbox):
    arguments = [torch.ones(2, 3, 5), torch.ones(2, 7, 5), torch.ones(2, 11, 5), *[torch.ones(5, 5)] * 4]
    with pytest.raises(ValueError, match="values does not fit") as outside:
        multi_head_attention(*arguments, 1)
    call = "multi_head_attention(*map(torch.ones, [(2, 3, 5), (2, 7, 5), (2, 11, 5), *[(5, 5)] * 4]), 1)"
    with pytest.raises(NoAnswer, match=re.escape(str(outside.value)[:100])):
        load(sandbox, f"import torch\nfrom course_lib.attention import multi_head_attention\n{call}", "05.6")


def test_the_device_is_there_for_an_answer_that_asks_for_it(sandbox):
    load(
        sandbox,
        "from course_tools.notebook import at_scale, device\nassert device().type == 'cpu'\nassert at_scale(cpu=1, gpu=2) == 1",
    )
