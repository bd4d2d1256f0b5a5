"""Answers that the bank does not hold: still refused, still told the right thing, or nothing."""

from functools import cache

import jaxtyping
import pytest

from course_tools.bank import exercise, exercises
from course_tools.checks.verdict import Examination
from tests.course_tools.bank.answers import (
    lecture_01,
    lecture_02,
    lecture_03,
    lecture_04,
    lecture_05,
    lecture_06,
    lecture_07,
    lecture_08,
    lecture_09,
    lecture_10,
    lecture_11,
    lecture_12,
    lecture_13,
    lecture_14,
    lecture_15,
    lecture_16,
)

LECTURES = (
    lecture_01,
    lecture_02,
    lecture_03,
    lecture_04,
    lecture_05,
    lecture_06,
    lecture_07,
    lecture_08,
    lecture_09,
    lecture_10,
    lecture_11,
    lecture_12,
    lecture_13,
    lecture_14,
    lecture_15,
    lecture_16,
)
STRANGERS = [(id, answer) for lecture in LECTURES for id, answers in lecture.STRANGERS.items() for answer in answers]
RELATIVES = [relative for lecture in LECTURES for relative in lecture.RELATIVES]
TWO_MISTAKES = [pair for lecture in LECTURES for pair in lecture.TWO_MISTAKES]


def misconceptions(id):
    return {wrong.__name__: " ".join(wrong.__doc__.split()) for wrong in exercise(id).wrong}


@cache
def questions(id, seed):
    return Examination(exercise(id), seed)


@pytest.mark.parametrize(("id", "answer"), STRANGERS, ids=[answer.__name__ for _, answer in STRANGERS])
def test_a_wrong_answer_that_the_bank_does_not_know_is_refused(id, answer, seeds):
    assert [seed for seed in seeds if questions(id, seed).examine(answer).passed] == []


def test_each_exercise_is_tried_by_three_strangers():
    assert {item.id for item in exercises() if item.training is None} == {
        id for lecture in LECTURES for id in lecture.STRANGERS
    }
    assert all(len(answers) >= 3 for lecture in LECTURES for answers in lecture.STRANGERS.values())


@pytest.mark.parametrize(("id", "answer", "wrong"), RELATIVES, ids=[answer.__name__ for _, answer, _ in RELATIVES])
def test_a_mistake_of_the_bank_in_other_words_gets_its_message(id, answer, wrong, seeds):
    for seed in seeds:
        found = questions(id, seed).examine(answer)
        assert (found.misconception or found.suspected) == misconceptions(id)[wrong]


@pytest.mark.parametrize(
    ("id", "answer", "both"), TWO_MISTAKES, ids=[f"{id}-{answer.__name__}" for id, answer, _ in TWO_MISTAKES]
)
def test_of_two_mistakes_at_once_one_is_told_or_none(id, answer, both, seeds):
    assert both <= misconceptions(id).keys()
    allowed = {None} | {misconceptions(id)[name] for name in both}
    for seed in seeds:
        found = questions(id, seed).examine(answer)
        assert not found.passed
        assert found.misconception in allowed


def test_of_two_mistakes_one_is_often_told():
    found = [questions(id, 0).examine(answer) for id, answer, _ in TWO_MISTAKES]
    assert sum(bool(verdict.misconception or verdict.suspected) for verdict in found) >= 6


def test_two_mistakes_are_tried_in_every_exercise():
    assert [id for id, _, _ in TWO_MISTAKES] == [item.id for item in exercises() if item.training is None]


def test_verdicts_are_the_same_with_the_types_checked_and_unchecked(asked):
    """Under pytest the library checks its shapes and types; a student's kernel does not."""
    strangers = [answer for id, answer in STRANGERS if id == asked.id]
    found = {}
    for disabled in (False, True):
        jaxtyping.config.update("jaxtyping_disable", disabled)
        try:
            asks = Examination(asked, seed=0)
            verdicts = [asks.examine(answer) for answer in (asked.reference, *asked.wrong, *asked.right, *strangers)]
        finally:
            jaxtyping.config.update("jaxtyping_disable", False)
        found[disabled] = [(v.passed, v.points, v.misconception) for v in verdicts]
    assert found[False] == found[True]
