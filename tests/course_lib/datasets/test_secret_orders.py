"""Texts with their own orders: `told` marks what was shown before, and no order is in two parts."""

import pytest
import torch

from course_lib.datasets import secret_orders, walks
from course_lib.datasets.secret_orders import successors


def test_an_order_is_a_cycle_through_all_symbols_and_stands_in_one_part_only():
    parts = secret_orders(50, 20, 30, n_symbols=6)
    orders = torch.cat([parts.train, parts.valid, parts.test])
    assert [len(part) for part in (parts.train, parts.valid, parts.test)] == [50, 20, 30]
    assert len(orders.unique(dim=0)) == 100
    assert (orders.sort(-1).values == torch.arange(6)).all()
    assert (orders[:, 0] == 0).all()


def test_successors_by_hand():
    """0 → 2 → 1 → 0."""
    assert successors(torch.tensor([[0, 2, 1]])).tolist() == [[2, 0, 1]]


def test_following_a_cycle_comes_back_after_all_symbols_and_not_before():
    follows = successors(secret_orders(10, 1, 1, n_symbols=5).train)
    symbol = torch.zeros(10, 1, dtype=torch.long)
    for step in range(1, 6):
        symbol = follows.gather(1, symbol)
        assert (symbol == 0).all().item() is (step == 5)


def test_without_jumps_a_text_goes_round_and_all_is_told_after_one_round():
    orders = secret_orders(1, 1, 1, n_symbols=5).train
    tokens, told = walks(orders, 20, T=12, jumps=(0.0, 0.0))
    assert (tokens[:, 5:] == tokens[:, :-5]).all()
    assert (told == (torch.arange(12) >= 6)).all()


def test_what_is_told_stood_there_before_and_agrees_with_the_order():
    """By a loop with a dictionary."""
    orders = secret_orders(1, 1, 1, n_symbols=5, seed=4).train
    follows = successors(orders)[0].tolist()
    tokens, told = walks(orders, 50, T=20)
    for text, flags in zip(tokens.tolist(), told.tolist(), strict=True):
        shown = set()
        for t in range(1, 20):
            right = text[t] == follows[text[t - 1]]
            assert flags[t] == (right and text[t - 1] in shown)
            if right:
                shown.add(text[t - 1])
        assert flags[0] is False


def test_texts_jump_at_different_rates_within_the_bounds():
    tokens, _ = walks(secret_orders(1, 1, 1).train, 4_000, T=200, jumps=(0.5, 0.5))
    follows = successors(secret_orders(1, 1, 1).train)[0]
    share = (tokens[:, 1:] == follows[tokens[:, :-1]]).double().mean().item()
    assert share == pytest.approx(0.5 + 0.5 / 8, abs=0.005)


def test_a_seed_decides_orders_and_texts():
    orders = secret_orders(9, 1, 1, seed=1).train
    assert torch.equal(orders, secret_orders(9, 1, 1, seed=1).train)
    assert not torch.equal(orders, secret_orders(9, 1, 1, seed=2).train)
    assert torch.equal(walks(orders, 5, seed=1).tokens, walks(orders, 5, seed=1).tokens)
    assert not torch.equal(walks(orders, 5, seed=1).tokens, walks(orders, 5, seed=2).tokens)


def test_more_orders_than_there_are_are_refused():
    assert len(secret_orders(4, 1, 1, n_symbols=4).train) == 4
    with pytest.raises(ValueError, match="1 to 6"):
        secret_orders(5, 1, 1, n_symbols=4)


def test_many_symbols_have_more_orders_than_can_be_counted():
    assert secret_orders(3, 1, 1, n_symbols=29).train.shape == (3, 29)
