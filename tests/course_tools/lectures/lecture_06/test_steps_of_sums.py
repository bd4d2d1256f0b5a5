"""A model of columns adds two numbers, and its columns and steps are read and drawn as stated."""

import pytest
import torch

from course_tools.lectures.lecture_06 import steps_of_sums

MASK = torch.ones(7, 7, dtype=torch.bool)


def by_hand(columns, mask):
    """Digits of a carry that is added column by column; column t halts after t + 1 steps, at most 4."""
    digits, carry = [], 0
    for column in columns[0].tolist():
        total = column // 2 + column % 2 + carry
        digits.append(total % 2)
        carry = total // 2
    steps, column = torch.arange(4), torch.arange(len(digits))[:, None]
    h = torch.where(steps >= column, 1.0, 0.25)
    return torch.nn.functional.one_hot(torch.tensor([digits]), 2).float(), h[None]


@pytest.mark.parametrize(("a", "b"), [(20, 3), (31, 1), (0, 0), (63, 63)])
def test_the_sum_the_columns_and_the_weights_of_their_steps(a, b):
    total, weights, columns = steps_of_sums.add(by_hand, a, b, MASK, n_columns=5)
    assert total == a + b
    digits, carry = [column[:3] for column in columns], [len(column) > 3 for column in columns]
    assert digits == [f"{a >> t & 1}+{b >> t & 1}" for t in range(5)]
    assert [(sum(map(int, each.split("+"))) + more) % 2 for each, more in zip(digits, carry, strict=True)] == [
        (a + b) >> t & 1 for t in range(5)
    ]
    assert weights.tolist() == [[1, 0, 0, 0], [0.25, 0.75, 0, 0], [0.25, 0.25, 0.5, 0], [0.25] * 4, [0.25] * 4]


def test_the_picture_says_what_was_answered_and_how_many_steps_it_took(monkeypatch):
    shown = []
    monkeypatch.setattr(steps_of_sums, "show", lambda figure, alt: shown.append((figure, alt)))
    steps_of_sums.show_steps(by_hand, 20, 3, MASK)
    ((figure, alt),) = shown
    assert alt.startswith("20 + 3, answered by 23: ")
    assert alt.endswith("Last step taken: 1, 2, 3, 4, 4, 4, 4.")
    assert figure.axes[0].get_ylabel() == "column, lowest first"


@pytest.mark.parametrize("distance", [2, 4, 5])
def test_a_carry_travels_just_as_far_as_asked(distance):
    found = steps_of_sums.far_sums(distance, 40, 7, "cpu")
    digits, _ = by_hand(found.columns[:1], MASK)
    assert digits[0].argmax(-1).tolist() == found.digits[0].tolist()
    assert set(found.walks.amax(1).tolist()) == {distance}
    decided = found.columns.gather(1, (found.walks == distance).int().argmax(1, keepdim=True) - distance)
    assert set(decided[:, 0].tolist()) == {0, 3}  # with a carry, and without


def test_long_carries_are_added_as_by_hand_and_four_of_five_columns_pass_them_on():
    found = steps_of_sums.long_carries(200, 5, 7, "cpu")
    for columns, digits in zip(found.columns[:20], found.digits[:20], strict=True):
        assert by_hand(columns[None], MASK)[0][0].argmax(-1).tolist() == digits.tolist()
    assert found.walks.max() == 6  # from the lowest of five digits, to the column above the highest
    passing = ((found.columns == 1) | (found.columns == 2)).float().sum(1).mean() / 5
    assert 0.75 < passing < 0.85


def test_a_budget_is_filled_with_the_weights(capsys):
    steps_of_sums.show_budgets([0.3, 0.5, 0.4, 0.9], [0.995, 0.5, 0.5, 0.5])
    assert "with the weights 0.3, 0.5, 0.2; 1." in capsys.readouterr().out
