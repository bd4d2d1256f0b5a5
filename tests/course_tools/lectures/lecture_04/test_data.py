"""Texts in words, what a bag of values knows about them, and sequences that count upwards as often as they should."""

import math

import pytest
import torch

from course_tools.lectures.lecture_04.data import ENTROPY, bag_of_values, draw_counting, in_words


def test_a_text_is_its_pairs_and_then_its_questions():
    keys, values = torch.arange(12), torch.tensor([7, 6, 5, 4, 3, 2, 1, 0, 8, 8, 8, 8])
    words = in_words(keys, values)
    assert words[0] == "k0=v7"
    assert words[7:9] == ["k7=v0", "k8?"]
    assert len(words) == 12


def test_a_bag_guesses_the_most_frequent_value_or_states_their_fractions():
    once, twice = [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8], [0, 0, 0, 0, 1, 1, 1, 1, 8, 8, 8, 8]
    assert bag_of_values(torch.tensor([once])) == pytest.approx((1 / 8, math.log(8)))
    assert bag_of_values(torch.tensor([once, twice])) == pytest.approx((5 / 16, math.log(16) / 2))


def test_counting_goes_up_by_one_as_often_as_it_should_and_its_entropy_is_that_of_the_next_symbol():
    torch.manual_seed(0)
    symbols, places, following = draw_counting(4_000)
    assert symbols[:, 1:].equal(following[:, :-1])
    assert places[7].tolist() == [*range(12)]
    jumps = torch.bincount(((following - symbols) % 8).flatten(), minlength=8) / following.numel()
    assert jumps[1].item() == pytest.approx(0.75, abs=0.01)
    assert jumps[0].item() == pytest.approx(0.25 / 7, abs=0.01)
    assert torch.special.entr(jumps).sum().item() == pytest.approx(ENTROPY, abs=0.02)
