"""No attack earns a point that the same notebook would not have earned without it, and none changes anything outside."""

import json
import subprocess
import sys

import pytest

from tests.course_tools.grading.attacks import (
    as_an_object,
    by_searching,
    exits_and_floods,
    in_the_answer,
    on_comparisons,
    on_the_line,
    without_end,
)
from tests.course_tools.grading.attacks.stage import NEARLY, ROOT, attacks, carrier, for_points, honest, named, submission

FOR_POINTS = attacks(on_comparisons, by_searching, as_an_object, in_the_answer, exits_and_floods)
ON_THE_LINE = attacks(on_the_line)
WITHOUT_END = attacks(without_end)
LIMIT = 1.0


@pytest.fixture(autouse=True)
def short_of_time(monkeypatch):
    """Waiting is not what is tested, except below."""
    monkeypatch.setattr("course_tools.grading.sandbox.session.LOAD_LIMIT", 4 * LIMIT)
    monkeypatch.setattr("course_tools.grading.sandbox.session.CALL_LIMIT", 4 * LIMIT)


@pytest.fixture(scope="module")
def without(engine):
    """The points of the nearly right answer by itself."""
    from course_tools.grading.extract.programs import Notebook
    from tests.course_tools.grading.attacks.stage import general_scores

    earned = engine.mark(Notebook(submission({"02.2": honest(NEARLY)}), "02"), general_scores())
    assert 0 < earned.points < earned.max_points
    return earned.points


@pytest.mark.parametrize("attack", FOR_POINTS, ids=named)
def test_an_attack_earns_no_point(attack, judged, host, without):
    mark = judged(submission({"02.2": for_points(attack, host.known)}))
    assert mark.points <= without
    assert not mark.passed


@pytest.mark.parametrize("at_load", [True, False], ids=["early", "in the call"])
@pytest.mark.parametrize("attack", ON_THE_LINE, ids=named)
def test_a_forged_word_earns_no_point(attack, at_load, judged, host, without):
    mark = judged(submission({"02.2": for_points(attack, host.known, at_load)}))
    assert mark.points <= without
    assert not mark.passed


@pytest.mark.parametrize("attack", WITHOUT_END, ids=named)
def test_what_does_not_end_is_ended(attack, judged, host, without, monkeypatch):
    monkeypatch.setattr("course_tools.grading.sandbox.session.LOAD_LIMIT", LIMIT)
    monkeypatch.setattr("course_tools.grading.sandbox.session.CALL_LIMIT", LIMIT)
    mark = judged(submission({"02.2": for_points(attack, host.known)}))
    assert mark.points <= without
    assert mark.seconds < without_end.LONG


def test_a_loop_costs_its_own_exercise_only(engine):
    bomb = f"turned = [None for _ in iter(int, 1)]\n{honest('turned')}"
    marks = engine.grade(submission({"02.2": bomb, "02.1": ADDITIVE, "02.3": "def concat_scores(:"}), "02")[:3]
    assert [(mark.status, mark.passed) for mark in marks] == [("judged", True), ("judged", False), ("no answer", False)]
    assert [mark.points for mark in marks[1:]] == [0, 0]


ADDITIVE = """
def additive_scores(q, k, W, U, v):
    return torch.tanh((q @ W.mT).unsqueeze(-2) + (k @ U.mT).unsqueeze(-3)) @ v
"""
NAIVE = """
import json, os, resource, sys
from course_tools.bank import exercise; from course_tools.checks.judge_answer import judge

asked = exercise("02.2")
judge(asked, asked.reference, 7)
get_ipython = lambda: None
for cell in json.load(sys.stdin):
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        names = {"__name__": "__main__", "get_ipython": get_ipython}
        try:
            exec(cell, names)
            earned = judge(asked, names["general_scores"], 7).points
        except BaseException:
            earned = 0
        os._exit(earned)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_the_same_code_would_fool_a_judge_in_its_own_process(host, without):
    """The proof that these attacks are any good: where a student's code runs beside the verdict, these earn points."""
    named = {
        *("the_reference_by_name", "the_reference_of_the_exercise", "memory_holds_the_reference"),
        *("the_bank_of_answers", "allclose_says_yes"),
    }
    tried = [attack for attack in attacks(on_comparisons, by_searching) if attack.__name__ in named]
    cells = [for_points(attack, host.known) for attack in tried]
    done = subprocess.run(
        [sys.executable, "-c", NAIVE],
        cwd=ROOT,
        input=json.dumps(cells),
        capture_output=True,
        text=True,
        timeout=1_800,
        check=True,
    )
    earned = dict(zip([attack.__name__ for attack in tried], map(int, done.stdout.split()), strict=True))
    assert {name for name, points in earned.items() if points > without} == named


def test_an_honest_answer_in_the_same_carrier_earns_everything(judged, host):
    """Else the tests above would pass for another reason than the one they name."""
    cell = carrier(by_searching.weak_references, host.known) + honest(f"({'q @ W @ k.mT'}, tried(q, k, W))[0]")
    assert judged(submission({"02.2": cell})).passed
