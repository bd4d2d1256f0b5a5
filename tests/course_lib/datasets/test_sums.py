"""Binary addition: Python's own sums, and carries that propagate as far as `walks` states."""

from itertools import product

import pytest
import torch

from course_lib.datasets import sums


def number(bits):
    return sum(bit << t for t, bit in enumerate(bits))


def test_the_digits_are_those_of_pythons_sum():
    part = sums(200, 1, 1, n_digits=7, T=13).train
    for columns, digits in zip(part.columns.tolist(), part.digits.tolist(), strict=True):
        assert number(digits) == number([c // 2 for c in columns]) + number([c % 2 for c in columns])


def test_a_sum_by_hand():
    """11 + 01 = 100, the lowest digit first: 1 + 1 starts a carry, 1 + 0 passes it on. Nearly all 16 sums are in one part."""
    every = sums(14, 1, 1, n_digits=2, T=3).train
    row = every.columns.tolist().index([3, 2, 0])
    assert every.digits[row].tolist() == [0, 0, 1]
    assert every.walks[row].tolist() == [0, 1, 2]


def test_only_the_columns_of_the_walk_and_the_one_before_it_decide_a_digit():
    """Columns below the start of the carry do not affect the digit; the column where it starts does."""
    part = sums(300, 1, 1, n_digits=9, T=11).train
    seen = 0
    for columns, digits, walks in zip(part.columns.tolist(), part.digits.tolist(), part.walks.tolist(), strict=True):
        for t, walk in enumerate(walks):
            start = t - walk
            assert all(c in (1, 2) for c in columns[start + 1 : t])
            if columns[start] in (0, 3) and walk:
                carry = columns[start] == 3
                assert digits[t] == (columns[t] // 2 + columns[t] % 2 + carry) % 2
                seen += 1
            else:
                assert start == 0
    assert seen > 1_000


def test_numbers_stand_at_every_place_and_leave_a_column_for_the_carry():
    used = (sums(60, 1, 1, n_digits=3, T=6).train.columns > 0).any(0)
    assert used.tolist() == [True] * 5 + [False]


def test_no_sum_stands_in_two_parts_and_a_seed_decides():
    parts = sums(50, 20, 30, n_digits=5, T=7)
    rows = torch.cat([parts.train.columns, parts.valid.columns, parts.test.columns])
    assert len(rows.unique(dim=0)) == 100
    assert torch.equal(parts.test.digits, sums(50, 20, 30, n_digits=5, T=7).test.digits)
    assert not torch.equal(parts.train.columns, sums(50, 20, 30, n_digits=5, T=7, seed=1).train.columns)


@pytest.mark.parametrize(("n_digits", "T"), [(0, 3), (3, 3), (5, 2)])
def test_no_digit_and_no_room_for_the_carry_are_refused(n_digits, T):
    with pytest.raises(ValueError, match="a column more than digits"):
        sums(1, 1, 1, n_digits=n_digits, T=T)


@pytest.mark.parametrize(("n_digits", "T"), [(1, 2), (1, 4), (2, 5), (3, 4), (3, 6)])
def test_all_rows_can_be_had_and_no_more(n_digits, T):
    """Counted by hand: every choice of columns at every offset, with the last column free."""
    rows = set()
    for place in range(T - n_digits):
        for columns in product(range(4), repeat=n_digits):
            rows.add((0,) * place + columns + (0,) * (T - n_digits - place))
    parts = sums(len(rows) - 2, 1, 1, n_digits=n_digits, T=T)
    drawn = torch.cat([part.columns for part in (parts.train, parts.valid, parts.test)])
    assert set(map(tuple, drawn.tolist())) == rows
    with pytest.raises(ValueError, match=f"there are 1 to {len(rows)}"):
        sums(len(rows) - 1, 1, 1, n_digits=n_digits, T=T)


def test_more_sums_than_there_are_are_refused():
    with pytest.raises(ValueError, match="1 to 16"):
        sums(15, 1, 1, n_digits=2, T=3)
