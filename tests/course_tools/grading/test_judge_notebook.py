"""The engine is fair: honest work in any state earns its points, one exercise never costs another, and each mark says why."""

import os
import random
import signal
import sys
from types import SimpleNamespace

import pytest
import torch

from course_tools.bank import exercise, exercises, verdict
from course_tools.checks.judge_answer import Examination
from course_tools.checks.outcome import Outcome
from course_tools.checks.time_limit import TimedOut
from course_tools.grading.extract.notebook_reader import Cell, read_cells
from course_tools.grading.extract.programs import Notebook, handed_out
from course_tools.grading.judge_notebook import SHORTEST, Engine, _for_student, _seconds
from course_tools.grading.sandbox import session
from course_tools.grading.sandbox.measured_isolation import Isolation, NotIsolated
from course_tools.publishing import lectures, project_root
from course_tools.publishing.source import FunctionSource
from tests.course_tools.grading.conftest import submitted
from tests.course_tools.grading.odd_answers import BODY, NAME
from tests.course_tools.judged import misconception

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is graded on Windows")
ALL = [item for item in exercises() if item.lecture == "04"]
FULL = sum(item.points for item in ALL)
CODE = FunctionSource.of(ALL[0].reference).text()


def solved(number="04"):
    (lecture,) = lectures(project_root(), [number])
    return read_cells(lecture.solution)


def is_answer(cell):
    return "exercise" in cell.metadata and "bug" not in cell.metadata


def with_answer(change):
    """The solved notebook with each answer changed."""
    return [change(cell) if is_answer(cell) else cell for cell in solved()]


def total(engine, cells):
    return sum(mark.points for mark in engine.grade(cells, "04"))


def test_an_empty_notebook_has_not_been_started(engine):
    marks = engine.grade(handed_out("04"), "04")
    assert {(mark.status, mark.points, mark.detail) for mark in marks} == {("not started", 0, "The exercise is unchanged.")}


def test_a_notebook_of_another_lecture_holds_nothing(engine):
    marks = engine.grade(solved("02"), "4")
    assert {(mark.status, mark.points) for mark in marks} == {("not found", 0)}
    assert marks[0].detail == f"No cell of this notebook defines `{NAME}`; the library's own does not count."
    assert engine.grade(solved(), "99") == ()
    assert {mark.status for mark in engine.grade([], "04")} == {"not found"}


ODD = {  # beside those of attacks/odd_notebooks.py
    "the cells of text deleted": lambda: [cell for cell in solved() if cell.type == "code"],
    "empty copies behind": lambda: [*solved(), *handed_out("04")],
    "empty copies before": lambda: [*handed_out("04"), *solved()],
    "shuffled": lambda: random.Random(0).sample(solved(), len(solved())),
    "backwards": lambda: solved()[::-1],
    "text turned into code": lambda: [cell._replace(type="code") for cell in solved()],
    "cells cut in two": lambda: [
        cell._replace(source=part)
        for cell in solved()
        for part in (cell.source.rsplit("\n", 1) if is_answer(cell) else [cell.source])
    ],
    "an error below each answer": lambda: with_answer(lambda c: c._replace(source=f"{c.source}\nraise ValueError('I tried')")),
    "a loop below each answer": lambda: with_answer(lambda c: c._replace(source=f"{c.source}\nwhile True: pass")),
    "magics": lambda: with_answer(
        lambda c: c._replace(source=f"%load_ext autoreload\n{c.source}\n!ls\nget_ipython().run_line_magic('time', '')")
    ),
    "a broken cell in between": lambda: [
        Cell("code", "", {}, "def ("),
        *solved(),
        Cell("code", "", {}, "import nothing_at_all"),
    ],
    "another default": lambda: [Cell("code", "", {}, "import torch\ntorch.set_default_dtype(torch.float64)"), *solved()],
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_an_honest_notebook_in_an_odd_state_loses_nothing(engine, make, monkeypatch):
    monkeypatch.setattr("course_tools.grading.sandbox.session.LOAD_LIMIT", 4.0)
    assert total(engine, make()) == FULL


def test_helpers_in_other_cells_are_found(engine):
    helper = Cell(
        "code", "", {}, "import math as m\n\ndef scaled(q, k):\n    return q @ k.mT / m.sqrt(k.shape[-1])\n\nprint('hello')"
    )
    cells = submitted(ALL[0], f"def {NAME}(q, k, v, mask=None):\n    return attend(scaled(q, k), v, mask)")
    for places in ([helper, *cells], [*cells, helper]):
        assert engine.grade(places, "04")[0].passed


def test_one_exercise_costs_no_other(engine, monkeypatch):
    monkeypatch.setattr("course_tools.grading.sandbox.session.LOAD_LIMIT", 1.0)
    monkeypatch.setattr("course_tools.grading.sandbox.session.CALL_LIMIT", 1.0)
    broken = [
        "def {}(*x):\n    while True: pass",
        "def {}(:",
        "import os\nx = os._exit(0)\ndef {}(*y): return x",
        "def {}(*x): exit()",
    ]
    cells, left, spoilt = [], iter(broken), []
    for cell in solved():
        source = next(left, None) if is_answer(cell) else None
        if source:
            spoilt.append(cell.metadata["exercise"])
            cell = cell._replace(source=source.format(exercise(spoilt[-1]).reference.__name__))
        cells.append(cell)
    marks = {mark.exercise: mark for mark in engine.grade(cells, "04")}
    assert {id: mark.points for id, mark in marks.items()} == {each.id: 0 if each.id in spoilt else each.points for each in ALL}
    assert [id for id, mark in marks.items() if mark.status != "judged"] == sorted(spoilt[:2])
    assert [marks[id].detail.split()[0] for id in spoilt[:2]] == ["It", "Its"]


def test_a_later_exercise_is_judged_with_the_right_earlier_ones(engine):
    wrong = "def split_heads(x, n_heads):\n    return x.new_zeros(3)"
    marks = engine.grade([c._replace(source=wrong) if c.metadata.get("exercise") == "04.4" else c for c in solved()], "04")
    assert [each.id for each, mark in zip(ALL, marks, strict=True) if not mark.passed] == ["04.4"]


def test_what_is_parsed_for_all_workers_is_what_was_handed_out_and_nothing_of_a_student(engine, monkeypatch):
    learned = []
    monkeypatch.setattr(type(engine._sandbox), "learn", lambda sandbox, sources: learned.extend(sources))
    assert total(engine, solved()) == FULL
    assert learned
    assert set(learned) == {cell.source for cell in handed_out("04")}


def test_cells_that_cannot_be_stopped_are_loaded_twice_and_no_more(engine, monkeypatch):
    monkeypatch.setattr("course_tools.grading.sandbox.session.LOAD_LIMIT", 1.0)
    deaf = "import signal\n\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass"
    marks = engine.grade([Cell("code", "", {}, deaf), *solved()], "04")
    assert [mark.points for mark in marks] == [0] * len(ALL)
    assert ["did not finish in the previous 2 exercises" in mark.detail for mark in marks] == [False] * 2 + [True] * (
        len(ALL) - 2
    )


def test_half_an_answer_earns_the_points_of_that_half_as_in_a_notebook(mark_of):
    mark = mark_of(f"def {NAME}(q, k, v, mask=None):\n    return attend(q @ k.mT / math.sqrt(k.shape[-1]), v)")
    in_a_notebook = verdict("04.1", lambda q, k, v, mask=None: ALL[0].reference(q, k, v))
    assert (mark.points, mark.misconception) == (in_a_notebook.points, in_a_notebook.misconception)
    assert 0 < mark.points < mark.max_points


def test_the_marks_are_the_same_on_other_seeds():
    with Engine(seed=123) as other:
        assert total(other, solved()) == FULL
        assert [mark.points for mark in other.grade(handed_out("04"), "04")] == [0] * len(ALL)


def test_a_forbidden_call_is_a_flag_and_costs_what_it_costs_in_the_notebook(mark_of):
    source = (
        "def clip_gradients(gradients, max_norm):\n    copies = [torch.nn.Parameter(g.clone()) for g in gradients]\n"
        "    for c, g in zip(copies, gradients): c.grad = g.clone()\n"
        "    norm = torch.nn.utils.clip_grad_norm_(copies, max_norm)\n    return [c.grad for c in copies], norm\n"
    )
    mark = mark_of(source, "01.3")
    assert "calls clip_grad_norm_" in mark.flags
    assert (mark.status, mark.passed) == ("judged", False)
    names = {"torch": torch}
    exec(source, names)
    assert mark.points == verdict("01.3", names["clip_gradients"]).points


def test_a_hang_in_one_case_keeps_the_points_of_the_others(mark_of, monkeypatch):
    monkeypatch.setattr("course_tools.grading.sandbox.session.CALL_LIMIT", 2.0)
    mark = mark_of(f"def {NAME}(q, k, v, mask=None):\n    while mask is not None: pass\n{BODY}")
    assert mark.status == "judged"
    assert 0 < mark.points < mark.max_points
    assert any("still running after 2 seconds of processor time. " in finding.detail for finding in mark.findings)


@pytest.fixture
def short_of_time(monkeypatch):
    """The limits of the engine, a twentieth as long: 0.5 seconds for an answer, 1 for all that do not end, 0.05 at least."""
    monkeypatch.setattr("course_tools.grading.sandbox.session.CALL_LIMIT", 0.5)
    monkeypatch.setattr("course_tools.grading.judge_notebook.NOTEBOOK_ALLOWANCE", 1.0)
    monkeypatch.setattr("course_tools.grading.judge_notebook.SHORTEST", 0.05)


def with_endless(body, ids):
    """The solved notebook in which some functions do not end; a build task is never one of them."""
    return [
        cell._replace(source=f"import time\n\ndef {exercise(cell.metadata['exercise']).reference.__name__}(*x): {body}")
        if is_answer(cell) and cell.metadata["exercise"] in ids
        else cell
        for cell in solved()
    ]


ORDINARY = [item.id for item in ALL if item.training is None]


@pytest.mark.parametrize(
    ("body", "kind"), [("\n    while True: pass", "of processor time"), ("time.sleep(600)", "in which it did not compute")]
)
def test_answers_that_do_not_end_share_one_allowance(engine, short_of_time, monkeypatch, body, kind):
    given = []
    allow = session.WorkerSession.allow
    monkeypatch.setattr(
        session.WorkerSession, "allow", lambda worker, seconds: (given.append(seconds), allow(worker, seconds))[1]
    )
    notebook = Notebook(with_endless(body, ORDINARY), "04")
    marks = [engine.mark(notebook, item) for item in ALL if item.training is None]
    assert [seconds for seconds in given if seconds != session.LOAD_LIMIT] == [0.5, 0.5] + [0.05] * (len(ORDINARY) - 2)
    assert [mark.detail for mark in marks] == [
        f"It was still running after {seconds} seconds {kind}." for seconds in ["0.5"] * 2 + ["0.05"] * (len(ORDINARY) - 2)
    ]
    shorter = "Its time limit was 0.05 instead of 0.5 seconds, because previous answers in the notebook did not end."
    assert [mark.shortened for mark in marks] == [""] * 2 + [shorter] * (len(ORDINARY) - 2)
    assert not any(mark.flags for mark in marks)


def test_honest_answers_after_those_that_do_not_end_earn_their_points(engine, monkeypatch):
    monkeypatch.setattr("course_tools.grading.sandbox.session.CALL_LIMIT", 0.5)
    monkeypatch.setattr("course_tools.grading.judge_notebook.NOTEBOOK_ALLOWANCE", 1.0)
    endless = ORDINARY[:3]
    marks = engine.grade(with_endless("\n    while True: pass", endless), "04")
    assert [mark.exercise for mark in marks if not mark.passed] == endless
    assert all(mark.points == mark.max_points and not mark.shortened for mark in marks[3:])


def test_an_answer_has_what_is_left_of_the_allowance_and_a_build_task_its_own_seconds():
    ordinary, build = exercise("04.1"), exercise("04.7")
    assert [_seconds(ordinary, lost) for lost in (0.0, 4.0, 10.0, 12.0)] == [10.0, 10.0, 5.0, 3.0]
    assert [_seconds(ordinary, lost) for lost in (15.0, 500.0)] == [SHORTEST, SHORTEST] == [2.0, 2.0]
    assert [_seconds(build, lost) for lost in (0.0, 4.0, 500.0)] == [120.0, 60.0, 60.0]


def test_a_finding_names_the_limit_that_held_and_not_that_of_the_notebook():
    late = [Outcome(None, error=TimedOut())]
    finding = Examination(exercise("04.1"), 0).judge(late).findings[0]
    assert finding.status == "fails"
    assert "after 5 seconds. " in finding.detail
    told = _for_student(finding, late, "It was still running after 7 seconds in which it did not compute.").detail
    assert told.startswith("It was still running after 7 seconds in which it did not compute. ")


def test_statements_that_did_not_run_are_named_where_a_wrong_answer_may_depend_on_them(engine, monkeypatch):
    """In the cells of the student's own notebook, text cells counted; a right answer, and one beside it, has none."""
    monkeypatch.setattr("course_tools.grading.sandbox.session.LOAD_LIMIT", 4.0)
    before = [
        Cell("markdown", "", {}, "# Mine"),
        Cell("code", "", {}, "%matplotlib inline\n  \nlost = open('weights.pt')\nprint(lost)\nunused = 1 / 0"),
        Cell("code", "", {}, "BIAS = [0]\ndef train(bias):\n    while True: yield bias\nfor step in train(BIAS): pass"),
        Cell("code", "", {}, "import time\nSCALE = time.sleep(60)"),
        Cell("code", "", {}, "def helper(q: return q"),
    ]
    source = f"def {NAME}(q, k, v, mask=None):\n    return helper(q) * SCALE * BIAS[0] + lost.x"
    cells = [*before, *submitted(ALL[0], source)]
    cells = [Cell("code", "", {}, "other = 1"), *cells]
    marks = engine.grade(cells, "04")
    assert marks[0].detail == ""
    assert [(s.cell, s.line, s.why.split(",")[0]) for s in marks[0].not_run] == [
        (3, "lost = open('weights.pt')", "it raised FileNotFoundError"),
        (4, "for step in train(BIAS): pass", "it did not end in time"),
        (5, "SCALE = time.sleep(60)", "it did not end in time"),
        (6, "def helper(q: return q", "this cell is not valid Python"),
    ]
    assert {mark.not_run for mark in marks[1:]} == {()}
    (broken,) = engine.grade(submitted(ALL[3], "def split_heads(x, n_heads:\n    pass"), "04")[3].not_run
    assert (broken.line, broken.why.split(",")[0]) == ("def split_heads(x, n_heads:", "this cell is not valid Python")
    right = engine.grade([*before, *submitted(ALL[0], f"{CODE}\n{NAME}.lost = lost")], "04")
    assert (right[0].passed, right[0].not_run) == (True, ())


def test_an_answer_that_uses_what_is_not_there_says_so(mark_of):
    call = "return MultiHead(2, 1)(q, k, v)"
    mark = mark_of(f"from course_lib.attention import MultiHead\ndef {NAME}(q, k, v, mask=None):\n    {call}")
    assert mark.points == 0
    assert "course_lib.attention.MultiHead is not available" in mark.findings[0].detail
    assert "`return MultiHead(2, 1)(q, k, v)`" in mark.findings[0].detail


def test_a_function_that_is_begun_and_still_raises_is_told_so(mark_of):
    mark = mark_of(
        "def split_heads(x, n_heads):\n    heads = x.unflatten(-1, (n_heads, -1))\n    raise NotImplementedError()", "04.4"
    )
    assert (mark.status, mark.points) == ("not started", 0)
    assert mark.detail.startswith("It still raises NotImplementedError: replace")


def test_a_crash_on_minus_infinity_is_named_as_in_a_notebook(mark_of):
    """The operands of the operation that fails are reported by their means, and JSON has no infinity."""
    (wrong,) = (wrong for wrong in exercise("16.2").wrong if wrong.__name__ == "runs_past_the_last_row")
    mark = mark_of(
        """def nt_xent(a, b, temperature):
    z = F.normalize(torch.cat([a, b]), dim=-1)
    itself = torch.eye(len(z), dtype=torch.bool)
    logits = (z @ z.mT / temperature).masked_fill(itself, -torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z)) + len(a))""",
        "16.2",
    )
    assert mark.misconception == misconception(wrong)


def test_a_dead_zygote_costs_no_mark(mark_of):
    with Engine() as own:
        os.kill(own._sandbox._process.pid, signal.SIGKILL)
        assert own.grade(submitted(ALL[0], CODE), "04")[0].passed


def test_isolation_that_is_required_and_missing_stops_at_once(monkeypatch):
    monkeypatch.setattr(
        "course_tools.grading.judge_notebook.measure_isolation",
        lambda sandbox: Isolation({"Landlock": "no"}, ("read core.py",)),
    )
    monkeypatch.setattr("course_tools.grading.judge_notebook.Sandbox", lambda: SimpleNamespace(close=lambda: None))
    with pytest.raises(NotIsolated, match=r"Isolation is required.*Landlock.*read core\.py"), Engine(require_isolation=True):
        pass
    with Engine() as weak:
        assert not weak.level.full


def test_on_windows_the_way_is_named(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(NotIsolated, match="WSL"), Engine():
        pass


CORNERS = """def to_corners(boxes):
    x, y, w, h = boxes.unbind(-1)
    return torch.stack({}, -1)
"""
USUAL = "[x - w / 2, y - h / 2, x + w / 2, y + h / 2]"
ROWS_FIRST = "[y - h / 2, x - w / 2, y + h / 2, x + w / 2]"
THOUSANDTHS = "[1000 * (x - w / 2), 1000 * (y - h / 2), 1000 * (x + w / 2), 1000 * (y + h / 2)]"
WRONG = "[x, y, x + w, y + h]"


@pytest.mark.parametrize(
    ("returned", "passes", "flag"),
    [
        (ROWS_FIRST, True, ""),
        (USUAL, False, "the usual convention, that of the published solution"),
        (THOUSANDTHS, False, "the variant 'thousandths'; the student's variant is 'rows first'"),
        (WRONG, False, ""),
    ],
)
def test_a_variant_is_judged_by_its_own_reference_whatever_the_notebook_says(engine, returned, passes, flag):
    asked = exercise("12.1")
    claim = 'to_corners = check("12.1", to_corners, variant="thousandths")'  # forged: the LMS says who handed it in
    cells = [*submitted(asked, "import torch\n" + CORNERS.format(returned)), Cell("code", "", {}, claim)]
    mark = next(mark for mark in engine.grade(cells, "12", {"12.1": "rows first"}) if mark.exercise == "12.1")
    assert mark.passed is passes
    assert (mark.points == mark.max_points) is passes
    assert ("Judged in your variant: The corners are returned with the rows first" in mark.detail) is not passes
    assert len(mark.flags) == bool(flag)
    assert all("answers another variant" in text and flag in text for text in mark.flags)
