"""Answers that the bank does not hold: still refused, still told the right thing, or nothing."""

from collections import Counter

import pytest

from course_tools.bank import exercises
from tests.course_tools.judged import judged, misconception

ASKED = [item for item in exercises() if item.training is None]


def n_mistakes(stranger):
    """How many mistakes of the bank a stranger makes; several count as two."""
    return min(len(getattr(stranger, "makes", ())), 2)


def strangers(n):
    """The strangers that make n mistakes of the bank, each with its exercise."""
    return [(item.id, answer) for item in ASKED for answer in item.strangers if n_mistakes(answer) == n]


def each(pairs):
    return pytest.mark.parametrize(("id", "answer"), pairs, ids=[f"{id}-{answer.__name__}" for id, answer in pairs])


@each(strangers(0))
def test_a_wrong_answer_that_the_bank_does_not_know_is_refused(id, answer, seeds):
    assert [seed for seed in seeds if judged(id, answer, seed).passed] == []


@each(strangers(1))
def test_a_mistake_of_the_bank_in_other_words_gets_its_message(id, answer, seeds):
    (wrong,) = answer.makes
    for seed in seeds:
        found = judged(id, answer, seed)
        assert (found.misconception or found.suspected) == misconception(wrong)


@each(strangers(2))
def test_of_two_mistakes_at_once_one_is_told_or_none(id, answer, seeds):
    for seed in seeds:
        found = judged(id, answer, seed)
        assert not found.passed
        assert found.misconception in {None, *map(misconception, answer.makes)}


def test_three_strangers_and_one_with_two_mistakes_try_each_exercise():
    for item in ASKED:
        n = Counter(map(n_mistakes, item.strangers))
        assert n[0] >= 3, item.id
        assert n[2] == 1, item.id
        assert {wrong for answer in item.strangers for wrong in getattr(answer, "makes", ())} <= set(item.wrong), item.id


def test_of_two_mistakes_one_is_often_told():
    found = [judged(id, answer) for id, answer in strangers(2)]
    assert sum(bool(verdict.misconception or verdict.suspected) for verdict in found) >= 6
