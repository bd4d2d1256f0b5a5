"""Numbers are spelled correctly, in words separated by one space."""

import pytest
from num2words import num2words

from course_lib.datasets import number_words, spelled


@pytest.mark.parametrize(
    ("number", "language", "words"),
    [
        (97, "en", "ninety seven"),
        (97, "fr", "quatre vingt dix sept"),
        (1999, "en", "one thousand nine hundred and ninety nine"),
        (71, "fr", "soixante et onze"),
        (42, "de", "zwei und vierzig"),
        (101_017, "de", "ein hundert eins tausend siebzehn"),
    ],
)
def test_numbers_by_hand(number, language, words):
    assert spelled(number, language) == words


def test_german_is_cut_without_losing_a_letter():
    for number in [*range(2000), *range(2001, 1_000_000, 997)]:
        assert spelled(number, "de").replace(" ", "") == num2words(number, lang="de")


def test_numbers_stay_below_the_highest():
    numbers = number_words(60, 20, 21, highest=100)
    sources = {pair.source for pair in numbers.train + numbers.valid + numbers.test}
    assert sources == {spelled(n, "en") for n in range(101)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "xx"}, "no language 'xx'"),
        ({"highest": 1_000_000}, "between 0 and 999999"),
        ({"highest": 3}, "only 4 different"),
    ],
)
def test_number_words_refuse_what_they_cannot_spell(arguments, message):
    with pytest.raises(ValueError, match=message):
        number_words(3, 1, 1, **arguments)
