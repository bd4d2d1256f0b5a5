"""Every wrong answer of the bank is refused with its own misconception, every right variant earns all points."""

from collections import Counter

from course_tools.bank import exercises
from course_tools.checks import Exercise
from course_tools.checks.verdict import Examination


def misconception(wrong):
    return " ".join(wrong.__doc__.split())


def test_every_wrong_answer_is_refused_with_its_own_misconception(asked: Exercise, seeds):
    other = []
    for seed in seeds:
        questions = Examination(asked, seed)
        for wrong in asked.wrong:
            found = questions.examine(wrong)
            if found.passed or found.misconception != misconception(wrong) or found.points >= found.max_points:
                other.append((seed, wrong.__name__, found.misconception))
    assert other == []


def test_every_right_variant_earns_all_points(asked: Exercise, seeds):
    refused = []
    for seed in seeds:
        questions = Examination(asked, seed)
        for right in (asked.reference, *asked.right):
            found = questions.examine(right)
            if not found.passed or found.points != found.max_points or found.misconception is not None:
                refused.append((seed, right.__name__, found.message))
    assert refused == []


def test_a_wrong_answer_is_told_what_is_wrong_before_anything_else(asked: Exercise):
    questions = Examination(asked, seed=0)
    for wrong in asked.wrong:
        first, second, *_ = questions.examine(wrong).message.splitlines()
        assert first.startswith(f"{asked.id} {asked.title}: ")
        assert second == misconception(wrong)


def test_the_bank_is_large_enough_and_says_what_it_holds(asked: Exercise):
    assert len(asked.wrong) >= 6
    assert len(asked.right) >= 3
    answers = asked.wrong + asked.right
    assert all(answer.__doc__ and answer.__doc__.strip() for answer in answers)
    assert len({misconception(answer) for answer in answers}) == len(answers)
    assert len({answer.__name__ for answer in answers}) == len(answers)


def test_an_exercise_helps_in_three_steps_and_gives_points(asked: Exercise):
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


def test_the_reference_of_each_exercise_is_a_function_of_the_library():
    modules = [item.reference.__module__ for item in exercises() if item.training is None]
    assert all(module.startswith("course_lib.") and ".exercises" not in module for module in modules)
    assert len({item.reference.__name__ for item in exercises()}) == len(exercises())
