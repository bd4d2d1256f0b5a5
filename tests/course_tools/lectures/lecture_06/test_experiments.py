"""The adder learns sums without carries and repeats its block by the given function; steps and sums are read as stated."""

import torch

from course_lib.datasets import Sums, sums
from course_lib.models import AdaptiveSteps, SharedSteps, UniversalOutput, shared_encoder
from course_tools.lectures.lecture_06.experiments import (
    EncoderSteps,
    accuracy_by_carry,
    add,
    adder,
    block,
    exact,
    fit_adder,
    step_map,
    steps_taken,
)

EVERYWHERE = torch.ones(7, 7, dtype=torch.bool)


def test_steps_by_the_function_equal_those_of_the_library():
    model = adder(lambda: SharedSteps(block(), 3), seed=0)
    by_function = EncoderSteps(model.steps.block, 3, shared_encoder)
    x, mask = torch.randn(2, 7, 32), EVERYWHERE.tril()
    for ours, of_library in zip(by_function(x, mask), model.steps(x, mask), strict=True):
        torch.testing.assert_close(ours, of_library, atol=1e-5, rtol=1e-5)


def test_columns_that_never_carry_are_learned():
    known = sums(400, 1, 1, n_digits=5, T=7).train
    columns = torch.where(known.columns == 3, 0, known.columns)
    no_carry = Sums(columns, (columns > 0).long(), known.walks)
    model = fit_adder(adder(lambda: SharedSteps(block(), 1), 0), no_carry, EVERYWHERE, 0, 60)
    assert exact(model, no_carry, EVERYWHERE) > 0.9
    total, weights, names = add(model, 20, 3, EVERYWHERE, n_columns=5)
    assert (total, weights.tolist(), names) == (23, [[1.0]] * 5, ["0+1", "0+1", "1+0", "0+0", "1+0"])


def test_steps_are_counted_and_drawn():
    model = adder(lambda: AdaptiveSteps(block(), 32, 6), seed=0)
    new = sums(11, 1, 1, n_digits=5, T=7).train
    taken = steps_taken(model, new, EVERYWHERE)
    assert taken.shape == (11, 7)
    assert set(taken.flatten().tolist()) == {4}
    _, weights, columns = add(model, 3, 1, EVERYWHERE, n_columns=5)
    assert step_map(weights, columns).axes[0].get_ylabel() == "column, lowest first"


def test_a_price_adds_the_ponder_cost():
    model = adder(lambda: AdaptiveSteps(block(), 32, 6), seed=0)
    pondered = model(sums(11, 1, 1, n_digits=5, T=7).train.columns, mask=EVERYWHERE)[1]
    assert isinstance(pondered, UniversalOutput)
    assert pondered.cost.mean().item() > 1


class SecondNearest(torch.nn.Module):
    """Take the carry of a column from the second nearest lower column that decides one, by a loop."""

    def forward(self, columns, mask):
        digits = []
        for row in columns.tolist():
            for t, column in enumerate(row):
                carries = [int(c == 3) for c in reversed(row[:t]) if c in (0, 3)] + [0, 0]
                digits.append((column % 2 + column // 2 + carries[1]) % 2)
        logits = torch.nn.functional.one_hot(torch.tensor(digits).view(columns.shape), 2).float()
        return UniversalOutput(logits, None, None)


def test_accuracy_by_carry_separates_where_the_two_deciding_columns_agree():
    part = sums(1, 1, 200, n_digits=5, T=7).test
    assert accuracy_by_carry(SecondNearest(), part, EVERYWHERE) == (1.0, 0.0)
