"""Texts are recovered from their indices; padding is not part of a text."""

import pytest

from course_lib.datasets import BEGIN, END, PADDING, Vocabulary, pad
from course_lib.datasets.vocabulary import UNKNOWN


def test_indices_by_hand():
    letters = Vocabulary.of(["ba", "ab"])
    assert letters.symbols[4:] == ("a", "b")
    assert letters.encode("abc", begin=True, end=True) == [BEGIN, 4, 5, UNKNOWN, END]


@pytest.mark.parametrize(("between", "text"), [("", "5. März 1987"), (" ", "zwei und vierzig"), (" ", "")])
def test_decode_undoes_encode(between, text):
    vocabulary = Vocabulary.of([text, "neun"], between)
    assert vocabulary.decode(vocabulary.encode(text, begin=True, end=True)) == text


def test_decode_stops_at_the_first_end_and_skips_padding():
    words = Vocabulary.of(["one two"], " ")
    assert words.decode([BEGIN, 4, PADDING, 5, END, 4, 4]) == "one two"


def test_decode_refuses_an_index_outside_the_vocabulary():
    with pytest.raises(IndexError, match="outside a vocabulary of 5"):
        Vocabulary.of("a").decode([5])


def test_unknown_symbols_are_marked():
    assert Vocabulary.of(["one"], " ").decode(Vocabulary.of(["one"], " ").encode("one ten")) == "one <unknown>"


def test_a_text_cannot_smuggle_in_a_special_symbol():
    words = Vocabulary.of(["<end> one"], " ")
    assert len(words) == 5
    assert words.decode(words.encode("<end> one")) != "<end> one"


def test_a_batch_is_padded_to_its_longest_text():
    tokens, lengths = Vocabulary.of(["a", "abc"]).batch(["abc", "a"], end=True)
    assert tokens.tolist() == [[4, 5, 6, END], [4, END, PADDING, PADDING]]
    assert lengths.tolist() == [4, 2]


def test_an_empty_sequence_is_all_padding():
    tokens, lengths = pad([[7], []], padding=9)
    assert tokens.tolist() == [[7], [9]]
    assert lengths.tolist() == [1, 0]


def test_pad_needs_a_sequence():
    with pytest.raises(ValueError, match="at least one sequence"):
        pad([])


def test_a_vocabulary_refuses_symbols_without_clear_indices():
    with pytest.raises(ValueError, match="first symbols"):
        Vocabulary(("a", "b"))
    with pytest.raises(ValueError, match="twice"):
        Vocabulary((*Vocabulary.of("a").symbols, "a"))
