"""What a student reads in the exercises is written in the field's terms."""

import pytest

from tests.vocabulary import FOR_STUDENTS, refused_words


def read_by_students(asked):
    yield asked.title
    yield from asked.hints
    yield from (wrong.__doc__ for wrong in asked.wrong)
    for prop in asked.properties:
        yield from (prop.name, prop.law)
    yield from asked.forbids.values()


def test_students_read_the_terms_of_the_field(asked):
    assert [found for text in read_by_students(asked) for found in refused_words(text, FOR_STUDENTS)] == []


@pytest.mark.parametrize("text", ["the token behind it", "a query that may look nowhere", "Each picture is its own"])
def test_home_made_words_are_found(text):
    assert refused_words(text, FOR_STUDENTS)
