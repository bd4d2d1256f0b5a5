"""Leave one out: a wrong answer that the bank does not hold is told no misconception that belongs to another."""

import copy
from dataclasses import replace

from course_tools.checks import Exercise
from course_tools.checks.common_crash import KINDS
from course_tools.checks.judge_answer import Verdict
from tests.course_tools.judged import examination, outcomes


def verdicts_without_their_own(asked: Exercise) -> list[tuple[str, Verdict]]:
    """Judge each wrong answer of an exercise by a bank from which it is removed."""
    found = []
    for left_out in asked.wrong:
        without = copy.copy(examination(asked.id))
        without.exercise = replace(asked, wrong=[wrong for wrong in asked.wrong if wrong is not left_out])
        found.append((left_out.__name__, without.judge(outcomes(asked.id, left_out))))
    return found


def test_no_wrong_answer_is_told_the_misconception_of_another(asked):
    """An error that means the same in every exercise is recognised by its line and shapes, with or without the bank."""
    anywhere = {None, *(kind.text for kind in KINDS.values())}
    named = [(name, v.misconception) for name, v in verdicts_without_their_own(asked) if v.misconception not in anywhere]
    assert named == []
