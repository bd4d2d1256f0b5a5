"""What of the library a student's code gets: what an honest answer needs, never the answer itself, a stand-in for the rest."""

import importlib

import pytest

from course_tools.bank import exercises, verdict
from course_tools.checks import Exercise
from course_tools.grading.extract.programs import Part, Program
from course_tools.grading.sandbox import wire_protocol
from course_tools.grading.sandbox.allowed_names import allowed_names, reach
from course_tools.grading.sandbox.sandbox import Sandbox
from course_tools.grading.sandbox.session import NoAnswer


@pytest.fixture(scope="module")
def sandbox():
    started = Sandbox()
    yield started
    started.close()


def defined(asked):
    """Every function and class that the kit of an exercise holds, as (module, name)."""
    entries = allowed_names(asked.id)["entries"]
    for module, names in entries.items():
        for name, entry in names.items():
            if entry["source"].startswith(("def ", "class ", "@")):
                yield module, name


def load(sandbox, source, id="04.1"):
    """Run one statement inside; NoAnswer where it fails."""
    lines = "\n".join(f"    {line}" for line in source.splitlines())
    text = f"if True:\n{lines}\n    def f(): return True"
    with sandbox.inmate() as inmate:
        inmate.load(Program("f", (Part("<cell 1>", text, (0,)),)), allowed_names(id), [])


def test_no_kit_holds_its_own_answer_or_anything_that_uses_it(asked: Exercise):
    own = (asked.reference.__module__, asked.reference.__name__)
    places = list(defined(asked))
    assert [place for place in places if own in reach(place)] == []
    assert not any(entry.get(own[1]) for entry in allowed_names(asked.id)["entries"].values())


def test_no_function_of_a_kit_is_an_answer_by_itself(asked: Exercise):
    functions = [getattr(importlib.import_module(module), name) for module, name in defined(asked)]
    assert [f.__name__ for f in functions if verdict(asked.id, f).passed] == []


def test_every_earlier_exercise_of_the_lecture_is_there(asked: Exercise):
    earlier = {item.reference.__name__ for item in exercises() if item.lecture == asked.lecture and item.id < asked.id}
    assert earlier <= {name for _, name in defined(asked)}


def test_everything_in_a_kit_can_be_made_inside(sandbox, asked: Exercise):
    entries = allowed_names(asked.id)["entries"]
    load(sandbox, "\n".join(f"from {module} import {name}" for module, names in entries.items() for name in names), asked.id)


def test_every_argument_of_every_call_can_go_inside(asked: Exercise):
    for prop in asked.properties:
        for call in asked.calls(prop, 0):
            given = [wire_protocol.Function.of(value) if callable(value) else value for value in call]
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
def test_what_is_not_in_the_kit_says_so_when_it_is_used(sandbox, source):
    with pytest.raises(NoAnswer, match=r"NotAtHand: course_lib\.\S+ is not at hand while this exercise is judged"):
        load(sandbox, source)


def test_the_library_itself_is_not_in_the_memory_inside(sandbox):
    load(
        sandbox,
        "import gc, sys\n"
        "names = {getattr(f, '__name__', '') for f in gc.get_objects() if callable(f)}\n"
        "assert not names & {'scaled_dot_product_attention', 'judge', 'Questions', 'causal_attention'} - {'f'}\n"
        "assert not [n for n in sys.modules if n.startswith('course_lib')]",
    )


def test_the_device_is_there_for_an_answer_that_asks_for_it(sandbox):
    load(
        sandbox,
        "from course_tools.notebook import at_scale, device\nassert device().type == 'cpu'\nassert at_scale(cpu=1, gpu=2) == 1",
    )
