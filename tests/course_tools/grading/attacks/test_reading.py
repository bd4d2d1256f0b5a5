"""Files and sources made to fell their reader: it says in a sentence what is wrong, and all others have their marks."""

import inspect

import pytest

from course_tools.bank import exercise
from course_tools.grading.extract.notebook_reader import Unreadable, cells_in
from tests.course_tools.grading.attacks import on_the_parser, on_the_reader
from tests.course_tools.grading.attacks.stage import honest, submission

CONCAT = """
def concat_scores(q, k, W, v):
    d = q.shape[-1]
    return torch.tanh((q @ W[:, :d].mT).unsqueeze(-2) + (k @ W[:, d:].mT).unsqueeze(-3)) @ v
"""


def makers(module):
    found = [f for f in vars(module).values() if inspect.isfunction(f) and f.__module__ == module.__name__]
    return [f for f in found if not inspect.signature(f).parameters]


def name(function):
    return function.__name__


@pytest.fixture(autouse=True)
def short_of_time(monkeypatch):
    monkeypatch.setattr("course_tools.grading.sandbox.session.LOAD_LIMIT", 12.0)
    monkeypatch.setattr("course_tools.grading.sandbox.session.CALL_LIMIT", 3.0)


@pytest.mark.parametrize("make", makers(on_the_reader), ids=name)
def test_a_hostile_file_is_read_or_refused_with_a_sentence(make, judged):
    data = make()
    try:
        cells = cells_in(data)
    except Unreadable as error:
        output = str(error)
    else:
        mark = judged(cells)
        assert mark.points == 0
        output = mark.detail or "It was judged."
    assert output.endswith((".", "?"))
    assert len(output) < 200


@pytest.mark.parametrize("make", makers(on_the_parser), ids=name)
def test_a_hostile_source_costs_its_own_exercise_only(make, judged):
    cells = submission({"02.2": make(), "02.3": CONCAT})
    mark = judged(cells)
    assert mark.points == 0
    assert mark.detail or mark.findings
    assert "None" not in mark.detail
    assert judged(cells, exercise("02.3")).passed


def test_the_same_cells_with_an_honest_source_earn_everything(judged):
    cells = submission({"02.2": honest(), "02.3": CONCAT})
    assert judged(cells).passed
    assert judged(cells, exercise("02.3")).passed
