"""The checks refuse the reference of each exercise as soon as one thing in it is changed, but for the survivors listed.

An exercise lists every mutant that passes, with the reason: most are the same function in other words. Its `missed_mutants` are
not, and count against the check.
"""

import pytest

from course_tools.bank import exercises
from course_tools.checks import Exercise
from tests.course_tools.bank.mutator import mutants
from tests.course_tools.judged import passes


def listed(survivors):
    return {mutant for group in survivors.values() for mutant in group}


@pytest.mark.full
def test_the_checks_refuse_every_mutant_but_the_listed_survivors(asked: Exercise):
    made = mutants(asked.reference, gradients=any(prop.with_gradients for prop in asked.properties))
    passed = {mutant.label for mutant in made if passes(asked.id, mutant.function)}
    equivalent, missed = listed(asked.equivalent_mutants), listed(asked.missed_mutants)
    assert passed == equivalent | missed
    assert 1 - len(missed) / (len(made) - len(equivalent)) >= 0.95


def addition(a, b):
    """Add."""
    if a is None:
        raise ValueError("a number is asked for")
    return a + b


def test_a_mutant_differs_in_one_place_and_guards_are_left_alone():
    labels = {mutant.label for mutant in mutants(addition)}
    assert {
        "operator: return a - b",
        "drop right: return a",
        "drop left: return b",
        "other name: b + b",
    } <= labels
    assert not any("None" in label or "ValueError" in label for label in labels)


def test_mutants_run_among_the_names_of_their_module_and_leave_it_alone():
    results = {mutant.label: mutant.function for mutant in mutants(addition)}
    assert results["operator: return a - b"](5, 3) == 2
    assert addition(5, 3) == 8


@pytest.mark.parametrize("kind", ["detach", "pattern", "cousin", "drop keyword", "swap operands", "in place", "comparison"])
def test_every_kind_of_mistake_is_made_somewhere(kind):
    assert any(mutant.label.startswith(f"{kind}: ") for item in exercises() for mutant in mutants(item.reference))
