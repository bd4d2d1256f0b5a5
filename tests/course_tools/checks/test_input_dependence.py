"""Which inputs an answer ignores: judged on calls of several sizes, so that no single one hides an effect."""

import pytest
import torch

from course_tools.bank import exercise, verdict
from course_tools.checks.input_dependence import ignored_inputs, perturbed_calls
from course_tools.checks.outcome import observe

CALLS = [(torch.rand(n, 3), torch.rand(n, 3)) for n in (2, 3, 500)]


def scaled(x, y):
    return x * y.sum(0)


def ignored(answer, reference=scaled, calls=CALLS):
    perturbed = perturbed_calls(reference, calls)
    return ignored_inputs(perturbed, [observe(answer, call) for _, call in perturbed])


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (scaled, ()),
        (lambda x, y: torch.zeros(3), ("x", "y")),
        (lambda x, y: x, ()),  # half of what matters is in use
        (lambda x, y: (x * y).prod(), ()),  # of 1,500 numbers it is 0
        (lambda x, y: x * y.sum(0) if len(x) == 3 else torch.zeros(3), ()),
    ],
)
def test_an_input_is_ignored_where_it_has_no_effect_on_any_call(answer, named):
    assert ignored(answer) == named


def test_what_matters_is_what_the_reference_needs_for_its_largest_call():
    def needs_y_when_small(x, y):
        return x * y.sum(0) if len(x) < 500 else x

    assert ignored(lambda x, y: y.sum(), needs_y_when_small) == ("x",)


def test_an_answer_that_fails_is_not_said_to_ignore_anything():
    def fails(x, y):
        raise ValueError

    assert ignored(fails) == ()


def test_without_a_call_there_is_nothing_to_ask():
    assert perturbed_calls(scaled, []) == []
    assert ignored_inputs([], []) == ()


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("01.5", "multiplies_everything"),
        ("07.3", "compares_single_probabilities"),
        ("08.2", "reads_eligible_the_other_way"),
    ],
)
def test_an_answer_whose_result_is_the_same_for_one_call_alone_is_not_told_that_it_ignores_it(id, name):
    wrong = next(answer for answer in exercise(id).wrong if answer.__name__ == name)
    found = verdict(id, wrong)
    assert found.misconception == " ".join(wrong.__doc__.split())
    assert "inputs used" not in {finding.name for finding in found.findings}


@pytest.mark.parametrize(("id", "name"), [("04.3", "allows_everything"), ("12.5", "matches_nothing")])
def test_an_answer_that_ignores_what_matters_is_told_so_and_earns_nothing(id, name):
    wrong = next(answer for answer in exercise(id).wrong if answer.__name__ == name)
    found = verdict(id, wrong)
    assert found.points == 0
    assert "inputs used" in {finding.name for finding in found.findings}
