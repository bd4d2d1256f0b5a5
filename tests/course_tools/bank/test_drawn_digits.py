"""Drawings are split without overlap, stamped at the given position, and half of the pairs show equal digits."""

import pytest
import torch

from course_tools.bank.drawn_digits import composed, halved_digits, pairs_of_kinds, stamp


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_every_drawing_falls_to_one_part():
    parts = halved_digits(rng())
    assert [tuple(part.shape) for part in (parts.train, parts.valid, parts.test)] == [(10, n, 14, 14) for n in (350, 50, 100)]
    together = torch.cat([parts.train, parts.valid, parts.test], dim=1)
    assert len(together.flatten(0, 1).flatten(1).unique(dim=0)) == 5000
    assert not torch.equal(halved_digits(rng(1)).test, parts.test)


def test_a_stamp_by_hand():
    """A drawing of 1 × 2 on 2 × 3, at (1, 1): darker ink is kept, and nothing outside changes."""
    canvas = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    stamped = stamp(canvas, torch.tensor([[0.9, 0.1]]), torch.tensor([1, 1]))
    torch.testing.assert_close(stamped, torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.9, 0.6]]))
    assert canvas[1, 1] == 0.5


def test_stamps_of_many_canvases_are_those_of_each():
    drawings = torch.rand(3, 5, 4, 4, generator=rng())
    places = torch.randint(7, (3, 5, 2), generator=rng())
    stamped = stamp(torch.zeros(3, 5, 10, 11), drawings, places)
    for i in range(3):
        for j in range(5):
            top, left = places[i, j]
            by_hand = torch.zeros(10, 11)
            by_hand[top : top + 4, left : left + 4] = drawings[i, j]
            assert torch.equal(stamped[i, j], by_hand)


@pytest.mark.parametrize("n_kinds", [2, 7, 10])
def test_half_of_the_pairs_are_of_one_kind_and_neither_digit_tells(n_kinds):
    kinds, same = pairs_of_kinds(2000, n_kinds, rng())
    assert same.sum() == 1000
    assert torch.equal(kinds[:, 0] == kinds[:, 1], same == 1)
    for i in range(2):
        assert kinds[:, i].unique().tolist() == list(range(n_kinds))
        shares = torch.stack([same[kinds[:, i] == kind].float().mean() for kind in range(n_kinds)])
        assert ((shares > 0.35) & (shares < 0.65)).all()


@pytest.mark.parametrize("n_kinds", [1, 11])
def test_too_few_or_too_many_kinds_are_refused(n_kinds):
    with pytest.raises(ValueError, match=f"n_kinds is {n_kinds}"):
        pairs_of_kinds(4, n_kinds, rng())


@pytest.mark.parametrize("n", [1, 7])
def test_of_an_odd_number_of_pairs_half_is_rounded_down(n):
    assert pairs_of_kinds(n, 10, rng())[1].sum() == n // 2


def test_parts_are_composed_in_their_order_each_of_its_own_drawings():
    parts = composed((5, 3, 2), 7, lambda n, drawings, generator: (n, drawings, torch.rand(n, generator=generator)))
    generator = rng(7)
    dealt = halved_digits(generator)
    for n, part in ((5, "train"), (3, "valid"), (2, "test")):
        got = getattr(parts, part)
        assert got[0] == n
        assert torch.equal(got[1], getattr(dealt, part))
        assert torch.equal(got[2], torch.rand(n, generator=generator))


def test_an_empty_part_is_refused():
    with pytest.raises(ValueError, match="got 3, 0 and 5"):
        composed((3, 0, 5), 0, lambda *_: None)
