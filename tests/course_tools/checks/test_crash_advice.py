"""Errors that mean the same in every exercise come with advice."""

import pytest
import torch
import torch.nn.functional as F

from course_tools.bank import verdict
from course_tools.checks.crash_advice import advice_on

SLIPS = [
    (lambda: torch.elu(torch.ones(2)), "`F.elu`"),
    (lambda: __import__("torch_scatter"), "does without `torch_scatter`"),
    (lambda: torch.ones(2, 3).gather(-1, torch.zeros(2, dtype=torch.long)), "index.unsqueeze(-1)"),
    (lambda: F.cross_entropy(torch.ones(2, 3), torch.zeros(2)), "Classes and indices are integers"),
    (lambda: torch.ones(2, 3) @ torch.ones(3, 2).long(), "Two kinds of numbers"),
    (lambda: 1 if torch.ones(2) > 0 else 0, "torch.where"),
    (lambda: torch.ones(2, requires_grad=True).numpy(), ".detach()"),
    (lambda: torch.ones(2, 3) @ torch.ones(2, 3), "x @ W.mT"),
    (lambda: torch.ones(2, 3) + torch.ones(2), "keepdim=True"),
    (lambda: torch.cat([torch.ones(2), torch.ones(2, 2)]), "`stack` makes a new axis"),
    (lambda: torch.stack([]), "may be empty"),
    (lambda: F.cross_entropy(torch.ones(2, 5, 7), torch.zeros(2, 5).long()), "classes on axis 1"),
    (lambda: torch.ones(2, 3).max(-1) - 1, "amax"),
    (lambda: torch.ones(2, 3).reshape(4, 2), "number of entries"),
    (lambda: torch.sqrt(3), "`d**0.5`"),
    (lambda: -torch.ones(2, dtype=torch.bool), "`~mask`"),
    (lambda: torch.arange(3)[torch.tensor([-4])], "negative index"),
    (lambda: [a for a, b in [torch.ones(3).shape]], "`*batch, T, d = x.shape`"),
]


@pytest.mark.parametrize(("slip", "advice"), SLIPS)
def test_an_error_that_is_the_same_everywhere_comes_with_advice(slip, advice):
    with pytest.raises(Exception, match=r"\w") as raised:
        slip()
    assert advice in advice_on(raised.value), raised.value


def test_the_advice_stands_after_the_error():
    found = verdict("14.1", lambda x: torch.elu(x) + 1)
    assert "has no attribute 'elu'. `elu` is in torch.nn.functional: `F.elu`." in found.message


def test_an_error_of_its_own_comes_without_advice():
    assert advice_on(ValueError("three heads do not divide four features")) == ""
