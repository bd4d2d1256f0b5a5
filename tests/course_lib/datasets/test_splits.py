"""No data set leaks from one part into another, and a seed determines everything."""

import pytest

from course_lib.datasets import dates, joined, lookup, number_words, split

SIZES = (23, 7, 5)


def test_split_draws_parts_without_a_common_item():
    parts = split(range(50), 20, 10, 15, seed=3)
    assert [len(parts.train), len(parts.valid), len(parts.test)] == [20, 10, 15]
    assert len({*parts.train, *parts.valid, *parts.test}) == 45


def test_split_counts_an_item_that_occurs_twice_once():
    parts = split([1, 1, 2, 2, 3, 3], 1, 1, 1, seed=0)
    assert {*parts.train, *parts.valid, *parts.test} == {1, 2, 3}
    with pytest.raises(ValueError, match="only 3 different"):
        split([1, 1, 2, 2, 3, 3], 2, 1, 1, seed=0)


def test_split_refuses_negative_sizes():
    with pytest.raises(ValueError, match="negative"):
        split(range(9), 3, -1, 2, seed=0)


@pytest.mark.parametrize("make", [dates, number_words])
def test_pairs_stand_in_one_part_only(make):
    parts = make(400, 200, 100, seed=11)
    for side in (0, 1):
        texts = [{pair[side] for pair in part} for part in (parts.train, parts.valid, parts.test)]
        assert not texts[0] & texts[1]
        assert not texts[0] & texts[2]
        assert not texts[1] & texts[2]
    assert [len(part) for part in (parts.train, parts.valid, parts.test)] == [400, 200, 100]


def test_sentences_of_several_dates_hold_days_of_their_own_part_only():
    parts = dates(50, 10, 50, seed=2)
    seen = {day for pair in joined(parts.train, 2, 300, seed=1) for day in pair.target.split()}
    new = {day for pair in joined(parts.test, 2, 300, seed=1) for day in pair.target.split()}
    assert len(new) > 40
    assert not seen & new


def test_examples_of_a_small_task_stand_in_one_part_only():
    parts = lookup(*SIZES, T_q=1, T_k=2, n_keys=3, n_values=3, seed=5)
    rows = [
        str([tensor[i].tolist() for tensor in part])
        for part in (parts.train, parts.valid, parts.test)
        for i in range(len(part[0]))
    ]
    assert len(rows) == len(set(rows)) == sum(SIZES)


@pytest.mark.parametrize("make", [dates, number_words])
def test_a_seed_decides_the_pairs(make):
    assert make(*SIZES, seed=1) == make(*SIZES, seed=1)
    assert make(*SIZES, seed=1) != make(*SIZES, seed=2)


def test_a_seed_decides_a_small_task():
    first, again, other = (lookup(*SIZES, seed=seed) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(first.train, again.train, strict=True))
    assert not (first.train[0] == other.train[0]).all()
