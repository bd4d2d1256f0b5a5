"""Nothing that answers an exercise is within reach of a student: neither the library's form of it nor a prepared one."""

import importlib
import inspect

import pytest

from course_tools.bank import exercises
from course_tools.checks.judge_answer import judge
from course_tools.grading.extract.programs import Notebook
from tests.course_tools.grading.attacks.conftest import SEED
from tests.course_tools.grading.attacks.stage import general_scores, handed_out, submission

WANTED = [asked for asked in exercises() if asked.lecture in ("02", "04") and asked.training is None]
KNOWN_SEED = 0
"""The check in the notebook draws its inputs with it, so every student can see them."""

PREPARED = """
PREPARED = {table!r}

def general_scores(q, k, W):
    rows = PREPARED.get(f"{{q.double().sum():.4f}} {{k.double().sum():.4f}}", [0.0])
    shape = (*q.shape[:-1], k.shape[-2])
    found = torch.tensor(rows) if len(rows) == q[..., 0].numel() * k.shape[-2] else torch.zeros(shape)
    return found.reshape(shape) + 0 * (q @ W @ k.mT)
"""


def forms_of(asked):
    """Every function in the module of the reference that answers the exercise."""
    module = importlib.import_module(asked.reference.__module__)
    functions = [f for f in vars(module).values() if inspect.isfunction(f) and f.__module__ == module.__name__]
    return [f for f in functions if f is asked.reference or judge(asked, f, SEED).passed]


def import_of(function, name):
    return f"""
import importlib

def {name}(*inputs, **more):
    return importlib.import_module({function.__module__!r}).{function.__name__}(*inputs, **more)
"""


@pytest.mark.parametrize("wanted", WANTED, ids=lambda wanted: wanted.id)
def test_no_form_of_the_reference_is_at_hand(wanted, engine):
    cells = handed_out(wanted.lecture)
    for function in forms_of(wanted):
        source = import_of(function, wanted.reference.__name__)
        handed = [c._replace(source=source) if c.metadata.get("exercise") == wanted.id else c for c in cells]
        mark = engine.mark(Notebook(handed, wanted.lecture), wanted)
        assert (mark.points, mark.passed) == (0, False), function.__name__


def test_what_was_prepared_for_the_inputs_of_the_notebook_earns_nothing(judged):
    asked = general_scores()
    calls = [call for prop in asked.properties for call in asked.calls(prop, KNOWN_SEED)]
    table = {f"{q.double().sum():.4f} {k.double().sum():.4f}": asked.reference(q, k, W).flatten().tolist() for q, k, W in calls}
    source = PREPARED.format(table=table)
    names = {"torch": importlib.import_module("torch")}
    exec(source, names)
    prepared, guessed = judge(asked, names["general_scores"], KNOWN_SEED), judge(asked, lambda q, k, W: q @ W @ k.mT * 0, SEED)
    mark = judged(submission({"02.2": source}))
    assert prepared.points >= asked.points - 1
    assert mark.points <= guessed.points < prepared.points
