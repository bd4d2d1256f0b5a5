"""The controls change what they say, and the weights on a date are counted."""

from types import SimpleNamespace

import pytest
import torch

from course_lib.datasets import Vocabulary
from course_lib.models import Encoder
from course_tools.lectures.lecture_02.experiments import (
    Changed,
    keys_reversed,
    mean_state,
    other_last_state,
    unmasked,
    updates_until,
    weight_in_own_date,
)

ANSWER = "1987-03-05; 1988-04-06"
SOURCE = "5 mars; 6 avr"
WORDS = Vocabulary.of([SOURCE]), Vocabulary.of([ANSWER])
PAIR = SimpleNamespace(source=SOURCE, target=ANSWER)
D = 6


def encoder():
    torch.manual_seed(0)
    return Encoder(len(WORDS[0]), D // 2, D // 2)


def test_only_the_keys_of_real_tokens_are_reversed():
    given = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]]), torch.tensor([4, 2])
    wrapped = encoder()
    before, after = wrapped(*given), Changed(wrapped, keys_reversed)(*given)
    torch.testing.assert_close(after.keys[0], before.keys[0].flip(0))
    torch.testing.assert_close(after.keys[1, :2], before.keys[1, :2].flip(0))
    torch.testing.assert_close(after.keys[1, 2:], before.keys[1, 2:])
    torch.testing.assert_close(after.values, before.values)


def test_the_mean_of_the_states_leaves_out_padding():
    given = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]]), torch.tensor([4, 2])
    wrapped = encoder()
    before, after = wrapped(*given), Changed(wrapped, mean_state)(*given)
    torch.testing.assert_close(after.final[0], before.values[0].mean(0))
    torch.testing.assert_close(after.final[1], before.values[1, :2].mean(0))


def test_only_the_last_state_is_that_of_another_sentence():
    given = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]]), torch.tensor([4, 2])
    wrapped = encoder()
    before, after = wrapped(*given), Changed(wrapped, other_last_state)(*given)
    torch.testing.assert_close(after.final, before.final.flip(0))
    torch.testing.assert_close(after.keys, before.keys)


def test_without_the_mask_padding_may_be_read():
    given = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]]), torch.tensor([4, 2])
    wrapped = encoder()
    assert not wrapped(*given).mask.all()
    assert Changed(wrapped, unmasked)(*given).mask.all()


def test_the_first_update_at_which_a_curve_reaches_a_score():
    assert updates_until(0.5, [100, 200, 300], [0.2, 0.5, 0.4]) == 200
    with pytest.raises(ValueError, match=r"the curve ends at 0\.50, below 0\.6"):
        updates_until(0.6, [100, 200, 300], [0.2, 0.5, 0.4])


def translates_to(answer, weights):
    """A model that translates every text to this answer, with these weights."""
    return SimpleNamespace(translate=lambda texts: ([answer] * len(texts), weights))


def own_dates(right):
    """Weights of 22 rows over the source: all on the own date where `right`, else all on the other."""
    half = SOURCE.index(";")
    first, second = torch.zeros(len(SOURCE)), torch.zeros(len(SOURCE))
    first[:half], second[half:] = 1 / half, 1 / (len(SOURCE) - half)
    rows = [first] * 11 + [second] * 11 if right else [second] * 11 + [first] * 11
    return torch.stack(rows)[None]


ANSWER_OF_21 = "1987-03-05;1988-04-06"


@pytest.mark.parametrize("right", [True, False])
def test_the_weight_in_the_own_date_is_all_or_nothing(right):
    assert weight_in_own_date(translates_to(ANSWER_OF_21, own_dates(right)), [PAIR]) == pytest.approx(float(right))


def test_uniform_weights_give_about_a_half():
    uniform = torch.full((1, 22, len(SOURCE)), 1 / len(SOURCE))
    assert weight_in_own_date(translates_to(ANSWER_OF_21, uniform), [PAIR]) == pytest.approx(0.5, abs=0.05)


def test_answers_of_another_length_are_refused():
    with pytest.raises(ValueError, match="no answer has the length of two dates"):
        weight_in_own_date(translates_to("1987-03-05", torch.zeros(1, 11, len(SOURCE))), [PAIR])
