"""What a student reads in the exercises is written in the field's terms."""

import re

import pytest

HOME_MADE = (
    r"behind|may look|looks? nowhere|hears?|pictures?|films?|mouths?|bends?|whoever|nobody|below each other|"
    r"nothing complains|speaks? about|foretells?|hands? over|blind|inmate|who asks?|share out"
)


def read_by_students(asked):
    yield asked.title
    yield from asked.hints
    yield from (wrong.__doc__ for wrong in asked.wrong)
    for prop in asked.properties:
        yield from (prop.name, prop.law)
    yield from asked.forbids.values()


def test_students_read_the_terms_of_the_field(asked):
    found = [text for text in read_by_students(asked) if re.search(rf"\b({HOME_MADE})\b", text, re.IGNORECASE)]
    assert found == []


@pytest.mark.parametrize("text", ["the token behind it", "a query that may look nowhere", "each picture is its own"])
def test_home_made_words_are_found(text):
    assert re.search(rf"\b({HOME_MADE})\b", text)
