"""Dates are composed; what a model generates is decoded and counted exactly."""

from typing import NamedTuple

from course_lib.datasets import Vocabulary
from course_tools.notebook.translation import (
    date_sentences,
    fraction_right,
    generated,
)


class Pair(NamedTuple):
    source: str
    target: str


PAIRS = [Pair("ab", "12"), Pair("ba", "21")]
WORDS = Vocabulary.of(["ab"]), Vocabulary.of(["12"])


def test_dates_are_composed_and_their_vocabularies_cover_them():
    known, new, (letters, characters) = date_sentences()
    assert ({n: len(pairs) for n, pairs in known.items()}, set(new)) == ({1: 3_000, 2: 6_000}, {1, 2, 3})
    assert len(known[2][0].target) > 2 * 10
    for pair in known[1][:5]:
        assert letters.decode(letters.encode(pair.source)) == pair.source
        assert characters.decode(characters.encode(pair.target)) == pair.target


def test_a_model_that_generates_without_a_target_is_decoded_and_counted():
    rows = WORDS[1].batch(["12", "12"], end=True)[0]
    answers = generated(lambda source, lengths: rows[: len(source)], ["ab", "ba"], WORDS)
    assert answers == ["12", "12"]
    assert fraction_right(answers, PAIRS) == 0.5
