"""What is said of a wrong result is true of it on every input, and nothing is said of one that is merely wrong."""

import pytest
import torch

from course_tools.bank import verdict
from course_tools.checks.observation import observation
from course_tools.checks.outcome import Outcome

X = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(0))
SHARES = X.softmax(-1)
MASK = X > 0


def said(want, *haves):
    """Observe results in place of the right one."""
    rows = [(Outcome((want,), ("The result",)), Outcome((have,), ("The result",))) for have in haves]
    return observation(rows)[0].removeprefix("On this input the result ")


def but_last(x):
    return torch.cat([x[:, :-1], 2 * x[:, -1:] + 1], dim=1)


TRUE = [
    (X, 3 * X, "is a multiple of the right one."),
    (X, X - 2, "differs from the right one by the same number everywhere."),
    (X, -X, "is the right one with the sign changed."),
    (X, 0 * X, "is 0 everywhere."),
    (X, X.mT, "is the right one with its last two axes exchanged."),
    (X[:, :3], X[:, :3].mT, "is the right one with its last two axes exchanged."),
    (X[:, :3], X[:, :3].movedim(0, -1), "is the right one with its axes in another order, (1, 2, 0)."),
    (X[:, :3], X[:, :3].reshape(2, 5, 3), "holds the right numbers in their order, but in the shape (2, 5, 3)."),
    (X, X.sum(1, keepdim=True), "is the right one, summed over the last axis but one."),
    (X, X[:, 1:], "is right, but for entries missing at the beginning of the last axis but one."),
    (X, X.flip(-1), "is the right one reversed along the last axis."),
    (X, X.roll(1, 1), "is the right one moved one place later along the last axis but one."),
    (X, X.softmax(-1), "is the softmax of the right one over the last axis."),
    (X, X.exp(), "is the exponential of the right one."),
    (X, X * torch.arange(1, 6)[:, None], "is the right one times numbers that are the same along the last axis."),
    (X, but_last(X), "is right everywhere but at the last place of the last axis but one."),
    (X, X.flatten()[torch.arange(50).roll(7)].view(2, 5, 5), "holds the right numbers in another order."),
    (X, X.where(X.mT > 0, torch.nan), "is right, but for NaN where the right one is finite."),
    (X, X.where(X < 0.5, 0), "is 0 at some places where the right one is not, and right at all others."),
    (SHARES, X.exp().softmax(1), "sums to 1 over the last axis but one, and the right one over the last axis."),
    (SHARES, X.exp(), "is the right one times numbers that are the same along the last axis."),
    (MASK, ~MASK, "is the right one with True and False exchanged."),
    (MASK, MASK | MASK.mT, "is True wherever the right one is, and in other places too."),
]


@pytest.mark.parametrize(("want", "have", "says"), TRUE)
def test_a_simple_relation_is_said(want, have, says):
    assert said(want, have) == says


def test_what_is_said_of_a_larger_input_is_not_said_of_the_first():
    rows = [(Outcome((want,), ("x",)), Outcome((want.roll(1, 0),), ("x",))) for want in (X[0, :2, 0], X[0])]
    assert observation(rows)[0] == "On a larger input x is the right one moved one place later along the last axis but one."


def test_nothing_is_said_of_a_result_that_is_merely_wrong_or_too_small_to_tell():
    other = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(1))
    assert said(X, other) == ""
    assert said(X[0, 0, :2], 2 * X[0, 0, :2]) == ""


def test_what_is_said_is_true_of_every_failing_input():
    assert said(X, 3 * X, 5 * X) == "is a multiple of the right one."
    assert said(X, 3 * X, X + 1) == ""


def test_an_answer_without_a_name_is_told_what_is_true_of_it():
    found = verdict("01.5", lambda gates: 3 * gates.prod(0))
    assert found.misconception is None
    assert "On this input the result is a multiple of the right one." in found.message
    assert "The factor is 3." in found.message
    assert not any("factor" in finding.detail for finding in found.findings)
