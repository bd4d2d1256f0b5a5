"""Sampling the next word: the words left after top-k and top-p, their probabilities, and frequencies of draws."""

import math

import pytest
import torch

from course_lib.generation import sample, top_k, top_p
from course_lib.generation.sampling import next_word_probabilities

PROBABILITIES = torch.tensor([0.1, 0.4, 0.05, 0.3, 0.15])
LOGITS = PROBABILITIES.log() + 3.0
B, T, N = 2, 3, 11


def some_logits():
    return torch.randn(B, T, N, generator=torch.Generator().manual_seed(0)) * 2


def test_the_k_largest_are_left_as_they_are():
    assert (top_k(LOGITS, 2) == -torch.inf).tolist() == [True, False, True, False, True]
    assert torch.equal(top_k(LOGITS, 2)[[1, 3]], LOGITS[[1, 3]])


@pytest.mark.parametrize("k", [1, 4, N, N + 5])
def test_exactly_k_are_left_of_each_row_also_where_logits_are_equal(k):
    for logits in (some_logits(), torch.zeros(B, T, N)):
        assert ((top_k(logits, k) > -torch.inf).sum(-1) == min(k, N)).all()


@pytest.mark.parametrize(
    ("p", "left"),
    [
        (0.05, {1}),
        (0.39, {1}),
        (0.41, {1, 3}),
        (0.69, {1, 3}),
        (0.71, {1, 3, 4}),
        (0.96, {0, 1, 2, 3, 4}),
        (1.0, {0, 1, 2, 3, 4}),
    ],
)
def test_the_nucleus_by_hand(p, left):
    """In order 0.4, 0.3, 0.15, 0.1, 0.05."""
    assert set((top_p(LOGITS, p) > -torch.inf).nonzero().flatten().tolist()) == left


def test_the_nucleus_is_the_smallest_set_that_reaches_p():
    """By brute force: the nucleus has the likeliest words, and without its least likely one it would not reach p."""
    for logits in some_logits().flatten(0, 1):
        left = top_p(logits, 0.7) > -torch.inf
        probabilities = logits.softmax(-1)
        assert probabilities[left].sum() >= 0.7 - 1e-6
        assert probabilities[left].sum() - probabilities[left].min() < 0.7
        assert probabilities[left].min() >= probabilities[~left].max()


def test_temperature_1_without_cuts_is_the_softmax():
    torch.testing.assert_close(next_word_probabilities(LOGITS), PROBABILITIES)


def test_half_the_temperature_squares_the_odds():
    p = next_word_probabilities(LOGITS, temperature=0.5)
    assert (p[1] / p[3]).item() == pytest.approx((0.4 / 0.3) ** 2, rel=1e-5)


def test_what_is_left_keeps_its_odds_and_sums_to_1():
    torch.testing.assert_close(next_word_probabilities(LOGITS, k=2), torch.tensor([0.0, 4 / 7, 0.0, 3 / 7, 0.0]))
    torch.testing.assert_close(next_word_probabilities(LOGITS, p=0.71), torch.tensor([0.0, 8 / 17, 0.0, 6 / 17, 3 / 17]))


def test_the_nucleus_is_taken_of_what_temperature_and_k_have_left():
    """Of the three likeliest, 0.4 0.3 0.15 / 0.85, the first two reach 0.8; of all, they would not."""
    assert (next_word_probabilities(LOGITS, k=3, p=0.8) > 0).sum() == 2
    assert (next_word_probabilities(LOGITS, p=0.8) > 0).sum() == 3
    assert (next_word_probabilities(LOGITS, temperature=0.1, p=0.8) > 0).sum() == 1


def test_a_large_temperature_forgets_the_logits_and_a_small_one_takes_the_largest():
    torch.testing.assert_close(next_word_probabilities(LOGITS, 1e9), torch.full((5,), 0.2))
    assert next_word_probabilities(LOGITS, 1e-6).tolist() == [0, 1, 0, 0, 0]


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.7}, {"k": 3}, {"p": 0.6}])
def test_draws_keep_the_probabilities_at_5_sigma(settings):
    n = 20_000
    drawn = sample(LOGITS.expand(n, -1), **settings, generator=torch.Generator().manual_seed(0))
    expected = next_word_probabilities(LOGITS, **settings)
    shares = torch.bincount(drawn, minlength=5) / n
    assert ((shares - expected).abs() <= 5 * (expected * (1 - expected) / n).sqrt()).all()


def test_one_word_is_drawn_for_each_row_and_k_1_is_greedy():
    logits = some_logits()
    assert torch.equal(sample(logits, k=1), logits.argmax(-1))
    assert sample(logits[0, 0]).shape == ()


def test_the_same_generator_draws_the_same():
    first, second = (sample(some_logits(), generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)


def test_nothing_that_came_in_is_changed():
    logits = some_logits()
    before = logits.clone()
    sample(logits, 0.5, 3, 0.5)
    assert torch.equal(logits, before)


def test_words_that_were_impossible_stay_so():
    logits = torch.tensor([0.0, -math.inf, 1.0])
    assert next_word_probabilities(logits, k=3, p=1.0)[1] == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "argmax"),
        ({"temperature": -1.0}, "above 0"),
        ({"k": 0}, "k = 0 leaves no token"),
        ({"p": 0.0}, "got p = 0.0: give"),
        ({"p": 1.5}, "got p = 1.5: give"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        sample(LOGITS, **settings)


@pytest.mark.parametrize("row", [[0.0, torch.nan, 1.0], [-torch.inf] * 3, [0.0, torch.inf, 1.0]])
@pytest.mark.parametrize("options", [{}, {"k": 2}, {"p": 0.9}])
def test_logits_that_leave_no_distribution_are_refused(row, options):
    with pytest.raises(ValueError, match="no distribution: they contain NaN or"):
        sample(torch.tensor([[0.0, 1.0, 2.0], row]), **options)
    assert sample(torch.tensor([[-torch.inf, 1.0, -torch.inf]]), **options).tolist() == [1]
