"""The language reference: nothing repeats, nothing leaks, and it reads as Python's own help does."""

from itertools import combinations
from pydoc_data.topics import topics

import pytest

from course_lib.datasets import language_reference


def paragraphs(text):
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def test_no_paragraph_stands_in_two_parts_or_twice_in_one():
    parts = language_reference()
    lists = [paragraphs(text) for text in (parts.train, parts.valid, parts.test)]
    assert all(len(part) == len(set(part)) for part in lists)
    assert all(not set(a) & set(b) for a, b in combinations(lists, 2))


def test_every_paragraph_of_every_page_is_there():
    """An independent form: all paragraphs of all pages as a set."""
    parts = language_reference(seed=3)
    there = {paragraph for text in (parts.train, parts.valid, parts.test) for paragraph in paragraphs(text)}
    assert there == {paragraph for text in topics.values() for paragraph in paragraphs(text)} - {""}


def test_few_long_strings_of_the_test_part_stand_in_the_train_part():
    """Partly repeated paragraphs remain; they are rare. With the repetitions it would be one in five."""
    parts = language_reference()
    known = {parts.train[i : i + 60] for i in range(len(parts.train) - 60)}
    new = [parts.test[i : i + 60] for i in range(len(parts.test) - 60)]
    assert sum(text in known for text in new) / len(new) < 0.08


def test_the_parts_have_their_shares():
    parts = language_reference(valid=0.05, test=0.1)
    total = len(parts.train) + len(parts.valid) + len(parts.test)
    assert 300_000 < total < 700_000
    assert 0.1 <= len(parts.test) / total < 0.13
    assert 0.05 <= len(parts.valid) / total < 0.08


def test_a_passage_keeps_its_indentation_and_its_paragraphs():
    text = language_reference(valid=0, test=0).train
    assert 'lambda_expr ::= "lambda"' in text
    assert "\n   " in text
    assert "\n\n\n" not in text


def test_a_seed_decides_the_parts():
    assert language_reference(seed=1) == language_reference(seed=1)
    assert language_reference(seed=1).test != language_reference(seed=2).test


def test_longer_passages_are_fewer_pieces_of_the_same_text():
    whole = language_reference(valid=0, test=0, passage=10**9).train
    assert sorted(paragraphs(whole)) == sorted(paragraphs(language_reference(valid=0, test=0).train))


@pytest.mark.parametrize(("valid", "test"), [(-0.1, 0.1), (0.1, -0.1), (0.5, 0.5)])
def test_shares_that_leave_nothing_are_refused(valid, test):
    with pytest.raises(ValueError, match="something to learn from"):
        language_reference(valid, test)
