"""Numbers spelled out in two languages: translation with changes of word order, exact answers and little data.

From num2words (https://github.com/savoirfairelinux/num2words). Every token is a word: hyphens and commas become spaces, and
German, which writes a number as one word, is split between its number words.

    ninety two → quatre vingt douze      French counts on from sixty and eighty: "douze" needs both "ninety" and "two"
    forty two  → zwei und vierzig        German has the ones before the tens
"""

import re

from course_lib.datasets.splits import Pair, Splits, split
from course_lib.optional_import import optional_import

__all__ = ["number_words", "spelled"]

_GERMAN = re.compile(
    "tausend|hundert|zwanzig|dreißig|vierzig|fünfzig|sechzig|siebzig|achtzig|neunzig|dreizehn|vierzehn|fünfzehn|sechzehn|siebzehn|"
    "achtzehn|neunzehn|elf|zwölf|zehn|und|null|eins|ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun"
)
HIGHEST = 999_999


def number_words(
    n_train: int,
    n_valid: int,
    n_test: int,
    *,
    seed: int = 0,
    source: str = "en",
    target: str = "fr",
    highest: int = 9_999,
) -> Splits[tuple[Pair, ...]]:
    """Draw numbers, each in one part only, and spell each in two languages.

    Args:
        n_train: pairs for training.
        n_valid: pairs for validation.
        n_test: pairs for testing; none of their numbers occurs in the other parts.
        seed: determines the numbers.
        source: language of the source, by its num2words code: "en", "fr", "de", "es", …
        target: language of the target.
        highest: numbers run from 0 to this one, at most 999,999.

    Returns:
        Splits of pairs (source `ninety seven`, target `quatre vingt dix sept`), words separated by one space.

    Raises:
        ValueError: a language is unknown, highest is outside 0…999,999, or there are too few numbers.
    """
    if not 0 <= highest <= HIGHEST:
        raise ValueError(f"highest must be between 0 and {HIGHEST}, got {highest}.")
    numbers = split(range(highest + 1), n_train, n_valid, n_test, seed)
    parts = (numbers.train, numbers.valid, numbers.test)
    return Splits(*(tuple(Pair(spelled(n, source), spelled(n, target)) for n in part) for part in parts))


def spelled(number: int, language: str) -> str:
    """Spell a number from 0 to 999,999 in words with one space between them; ValueError for an unknown language."""
    spell = optional_import("num2words", "num2words", "Numbers in words").num2words
    try:
        words = spell(number, lang=language)
    except NotImplementedError as error:
        raise ValueError(f"num2words has no language {language!r}; use names such as 'en', 'fr' or 'de'.") from error
    if language == "de":
        return " ".join(_GERMAN.findall(words))
    return " ".join(re.findall(r"\w+", words))
