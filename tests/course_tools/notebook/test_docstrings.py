"""Docstrings as documents: split into sentences, no document in two parts; and documents labelled by one sentence."""

import pytest

from course_tools.notebook.docstrings import MARK, LabelledText, docstrings, documented, marked_sentences, sentences_of

DOCSTRING = """Compute one thing. It is small.

Parameters
----------
x : array
    The first thing to be used, over
    two lines. Yes.

See Also
--------
other : leave this out of it

Examples
--------
>>> leave_this_out_too(1)

Notes
-----
Some last remark of ten words, two more than fit.
"""


@pytest.fixture(scope="module")
def parts():
    return docstrings(40, 60, n_topics=4, n_sentences=5, n_words=7)


def test_a_docstring_becomes_sentences_of_words():
    assert sentences_of(DOCSTRING, 8) == (
        "compute one thing",
        "it is small",
        "array the first thing to be used over",
        "some last remark of ten words two more",
    )


def test_the_sections_that_name_others_and_the_code_are_left_out():
    text = " ".join(sentences_of(DOCSTRING, 100))
    assert "leave" not in text
    assert text.endswith("than fit")


def test_no_document_stands_in_two_parts(parts):
    texts = [set(parts.train), set(parts.valid), set(parts.test)]
    assert [len(parts.valid), len(parts.test)] == [40, 60]
    assert sum(map(len, texts)) == len(set().union(*texts)) == len(parts.train) + 100
    assert len({text.sentences for part in texts for text in part}) == sum(map(len, texts))


def test_documents_keep_to_their_sizes_and_topics(parts):
    for text in (*parts.train, *parts.test):
        assert 1 <= len(text.sentences) <= 5
        assert all(3 <= len(sentence.split()) <= 7 for sentence in text.sentences)
    assert len({text.topic for text in parts.train}) == 4
    assert "scipy.stats" in {text.topic for text in parts.train}


def test_the_seed_decides(parts):
    assert docstrings(40, 60, n_topics=4, n_sentences=5, n_words=7) == parts
    assert docstrings(40, 60, n_topics=4, n_sentences=5, n_words=7, seed=1).test != parts.test


def test_one_sentence_is_marked_and_its_topic_is_the_answer(parts):
    origin = {}
    for text in parts.test:
        for sentence in text.sentences:
            origin.setdefault(sentence, set()).add(text.topic)
    composed = marked_sentences(parts.test, 30, n_sentences=4, seed=5)
    assert composed == marked_sentences(parts.test, 30, n_sentences=4, seed=5)
    assert composed != marked_sentences(parts.test, 30, n_sentences=4, seed=6)
    places = set()
    for text in composed:
        marked = [i for i, sentence in enumerate(text.sentences) if sentence.startswith(f"{MARK} ")]
        assert len(text.sentences) == 4
        assert len(marked) == 1
        assert text.topic in origin[text.sentences[marked[0]].removeprefix(f"{MARK} ")]
        places.update(marked)
    assert places == {0, 1, 2, 3}


def test_the_mark_is_a_word_of_no_document(parts):
    assert all(MARK not in sentence.split() for text in parts.train for sentence in text.sentences)


def test_what_cannot_be_drawn_is_refused(parts):
    with pytest.raises(ValueError, match="cannot draw 3 sentences from 2 different documents"):
        marked_sentences((LabelledText(("one two three",), "a"), LabelledText(("four five six",), "b")), 1, n_sentences=3)
    with pytest.raises(ModuleNotFoundError, match="the package no_such_package is not installed"):
        documented("no_such_package")
    with pytest.raises(ValueError, match="none is left for training"):
        docstrings(10**6, 10**6, n_topics=1)
