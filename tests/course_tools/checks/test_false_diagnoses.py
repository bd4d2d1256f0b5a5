"""Leave one out: a wrong answer that the bank does not hold is told no misconception that belongs to another."""

from dataclasses import replace

from course_tools.checks import Exercise
from course_tools.checks.outcome import watch
from course_tools.checks.time_limit import guarded
from course_tools.checks.verdict import Examination


def verdicts_without_their_own(asked: Exercise) -> list:
    """Judge each wrong answer of an exercise by a bank from which it is removed."""
    all_known = Examination(asked, seed=0)
    found = []
    for left_out in asked.wrong:
        others = replace(asked, wrong=[wrong for wrong in asked.wrong if wrong is not left_out])
        without = Examination(others, seed=0)
        without._known = all_known._known  # what the others do on the same calls is observed once
        without.asked = all_known.asked
        with guarded():
            outcomes = watch(left_out, without.calls, without.n_preliminary, asked.forbids)
        found.append((left_out.__name__, without.judge(outcomes)))
    return found


def test_no_wrong_answer_is_told_the_misconception_of_another(asked):
    named = [(name, v.misconception) for name, v in verdicts_without_their_own(asked) if v.misconception is not None]
    assert named == []
