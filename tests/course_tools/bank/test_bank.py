"""Every wrong answer of the bank is refused with its own misconception, every right variant earns all points."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import jaxtyping

from course_tools.bank import exercises
from course_tools.checks import Exercise
from course_tools.checks.judge_answer import Examination
from course_tools.checks.outcome import copied
from course_tools.checks.time_limit import guarded
from tests.course_tools.conftest import each_exercise
from tests.course_tools.judged import judged, misconception

ROOT = Path(__file__).parents[3]


def test_every_wrong_answer_is_refused_with_its_own_misconception(asked: Exercise, seeds):
    other = []
    for seed in seeds:
        for wrong in asked.wrong:
            found = judged(asked.id, wrong, seed)
            if found.passed or found.misconception != misconception(wrong) or found.points >= found.max_points:
                other.append((seed, wrong.__name__, found.misconception))
    assert other == []


def test_every_right_variant_earns_all_points(asked: Exercise, seeds):
    refused = []
    for seed in seeds:
        for right in (asked.reference, *asked.right):
            found = judged(asked.id, right, seed)
            if not found.passed or found.points != found.max_points or found.misconception is not None:
                refused.append((seed, right.__name__, found.message))
    assert refused == []


@each_exercise
def test_the_types_of_the_library_accept_every_input_of_an_exercise(asked):
    """Shapes and types are checked here, and neither in a student's kernel nor in the other tests of the bank."""
    jaxtyping.config.update("jaxtyping_disable", False)
    for prop in asked.properties:
        for call in asked.calls(prop, 0):
            with guarded():
                asked.reference(*copied(call))


def test_verdicts_are_the_same_with_the_types_checked_and_unchecked(sample: Exercise):
    answers = (sample.reference, *sample.wrong, *sample.right, *sample.strangers)
    unchecked = [judged(sample.id, answer) for answer in answers]
    jaxtyping.config.update("jaxtyping_disable", False)
    asks = Examination(sample, seed=0)
    checked = [asks.examine(answer) for answer in answers]
    assert [(v.passed, v.points, v.misconception) for v in checked] == [
        (v.passed, v.points, v.misconception) for v in unchecked
    ]


def test_a_wrong_answer_is_told_what_is_wrong_before_anything_else(asked: Exercise):
    for wrong in asked.wrong:
        first, second, *_ = judged(asked.id, wrong).message.splitlines()
        assert first.startswith(f"{asked.id} {asked.title}: ")
        assert second == misconception(wrong)


@each_exercise
def test_the_bank_is_large_enough_and_says_what_it_holds(asked):
    assert len(asked.wrong) >= 6
    assert len(asked.right) >= (2 if asked.training else 3)
    answers = asked.wrong + asked.right
    assert all(answer.__doc__ and answer.__doc__.strip() for answer in answers)
    assert len({misconception(answer) for answer in answers}) == len(answers)
    assert len({answer.__name__ for answer in answers}) == len(answers)


@each_exercise
def test_an_exercise_helps_in_three_steps_and_gives_points(asked):
    assert len(asked.hints) == 3
    assert all(hint.strip() for hint in asked.hints)
    assert len(set(asked.hints)) == 3
    assert asked.points == sum(prop.points for prop in asked.properties) > 0
    assert asked.title.strip()


def test_the_exercises_stand_in_order_and_each_lecture_has_five():
    ids = [item.id for item in exercises()]
    assert ids == sorted(set(ids))
    for lecture, n in Counter(item.lecture for item in exercises()).items():
        assert n >= 5
        assert [item.id for item in exercises() if item.lecture == lecture] == [f"{lecture}.{i + 1}" for i in range(n)]


def test_an_exercise_imports_the_exercises_of_its_own_lecture_alone():
    lines = ["import sys", "from course_tools.bank import exercise", "exercise('04.1')", "print(*sys.modules)"]
    done = subprocess.run([sys.executable, "-c", "; ".join(lines)], cwd=ROOT, capture_output=True, text=True, check=True)
    others = {name.split(".")[2] for name in done.stdout.split() if name.startswith("course_tools.bank.lecture_")}
    assert others == {"lecture_04"}


def test_the_reference_of_each_exercise_is_of_the_library_or_needed_by_one_lecture_alone():
    """What only one lecture needs stands in the exercise's own file: weights that a student sets without training, or a line or
    two that join functions of the library, hide a token or leave out a part in one experiment."""
    joins = {"aligned_context", "loss_of_steps", "hiding_mask", "no_token_mixing"}
    others = [
        item.reference for item in exercises() if item.training is None and "course_lib." not in item.reference.__module__
    ]
    assert all(
        other.__module__.endswith(f".{other.__name__}")
        and (other.__name__ in joins or other.__name__.endswith(("_weights", "_matrices")))
        for other in others
    )
    assert len({item.reference.__name__ for item in exercises()}) == len(exercises())


@each_exercise
def test_the_last_hint_quotes_no_more_than_one_operation_at_a_time(asked):
    quoted = re.findall(r"`([^`]+)`", asked.hints[2])
    assert [code for code in quoted if _n_operations(code) > 1] == []


def _n_operations(code: str) -> int:
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except SyntaxError:  # an operator, such as `@`
        return 0
    return sum(isinstance(node, ast.Call | ast.BinOp | ast.Compare | ast.IfExp | ast.Assign) for node in nodes)
