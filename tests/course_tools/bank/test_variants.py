"""In every variant the answers of the bank, carried over, earn what they earned; those of another convention do not."""

import itertools
from collections import Counter

import pytest

from course_tools.bank import exercise
from course_tools.bank.variants import (
    VARIANTS,
    UnknownVariant,
    chosen_for,
    lectures_with_variants,
    variant,
    variants,
    varied,
)
from course_tools.checks.judge_answer import Examination

NAMED = pytest.mark.parametrize("other_way", VARIANTS, ids=lambda one: f"{one.exercise} {one.name}")


@NAMED
def test_in_a_variant_only_answers_in_its_convention_earn_all_points(other_way):
    usual = exercise(other_way.exercise)
    exam = Examination(varied(usual, other_way), seed=3)
    for answer in (usual.reference, *usual.right):
        assert exam.examine(other_way.carried_over(answer)).passed, answer.__name__
    others = [other for other in variants(other_way.exercise) if other is not other_way]
    for answer in (usual.reference, *(other.carried_over(usual.reference) for other in others)):
        verdict = exam.examine(answer)
        assert not verdict.passed
        assert verdict.points < usual.points


@NAMED
def test_a_wrong_answer_carried_over_shows_its_misconception(other_way):
    usual = exercise(other_way.exercise)
    exam, before = Examination(varied(usual, other_way), seed=3), Examination(usual, seed=3)
    for wrong in usual.wrong[:1]:
        expected, found = before.examine(wrong), exam.examine(other_way.carried_over(wrong))
        assert (found.passed, found.misconception) == (expected.passed, expected.misconception), wrong.__name__


@NAMED
def test_carried_back_an_answer_is_in_the_usual_convention_again(other_way):
    usual = exercise(other_way.exercise)
    assert Examination(usual, seed=3).examine(other_way.carried_back(other_way.carried_over(usual.reference))).passed


def test_there_are_four_kinds_of_variants_over_eight_exercises_two_of_each():
    assert len({one.kind for one in VARIANTS}) == 4
    counts = Counter(one.exercise for one in VARIANTS)
    assert len(counts) >= 8
    assert min(counts.values()) >= 2
    assert len({(one.exercise, one.name) for one in VARIANTS}) == len(VARIANTS)
    assert lectures_with_variants() == ["01", "03", "05", "10", "12"]


def test_who_has_which_variant_hangs_on_the_secret_and_the_student_alone():
    students = [str(number) for number in range(400)]
    found = [chosen_for(student, b"secret") for student in students]
    assert found == [chosen_for(student, b"secret") for student in students]
    assert found != [chosen_for(student, b"another") for student in students]
    for id, counts in ((id, Counter(one[id] for one in found)) for id in found[0]):
        assert counts.keys() == {one.name for one in variants(id)}
        assert min(counts.values()) > 150
    same = [sum(a[id] == b[id] for id in a) / len(a) for a, b in itertools.pairwise(found)]
    assert 0.4 < sum(same) / len(same) < 0.6  # the variants of two exercises are drawn apart


def test_a_variant_that_is_none_is_said():
    with pytest.raises(UnknownVariant, match=r"exercise 10\.2 has no variant 'x'; its variants are: radius, outside"):
        variant("10.2", "x")
    with pytest.raises(UnknownVariant, match="its variants are: none"):
        variant("04.1", "x")
