"""Display names of time zones, places and the like, in many languages: short real texts of known language.

From the Unicode CLDR (https://cldr.unicode.org) through Babel (https://babel.pocoo.org), in lower case: `heure de l’arabie`,
`mitteleuropäische normalzeit`. A text that occurs in two of the languages is left out. The texts of one kind
in one language, in the order of their codes, make a document: neighbouring names are related.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from course_lib.datasets.splits import Splits
from course_lib.optional_import import optional_import

if TYPE_CHECKING:
    import babel.core

LANGUAGES = ("de", "nl", "sv", "fr", "es", "pl", "fi", "tr")
KINDS = ("time zones", "territories")


class DisplayName(NamedTuple):
    """A text, its language as an index into the requested languages, and the number of its document."""

    text: str
    language: int
    document: int


def display_names(
    n_valid: int,
    n_test: int,
    *,
    seed: int = 0,
    languages: Sequence[str] = LANGUAGES,
    kinds: Sequence[str] = KINDS,
    longest: int = 40,
) -> Splits[tuple[DisplayName, ...]]:
    """Read the display names, and set some of each language aside.

    Args:
        n_valid: texts of each language for validation.
        n_test: texts of each language for testing.
        seed: determines which ones are set aside.
        languages: CLDR locales such as "fr" or "pt".
        kinds: of "currencies", "time zones", "territories", "languages", "scripts".
        longest: the largest number of characters of a text.

    Returns:
        Splits with no text in common; the texts of each part are in the order of their documents.

    Raises:
        ValueError: a language or a kind is unknown, a size is negative, or a language has too few texts.
    """
    if unknown := set(kinds) - _READ.keys():
        raise ValueError(f"there are no names of {sorted(unknown)}; kinds are {sorted(_READ)}.")
    if min(n_valid, n_test) < 0:
        raise ValueError(f"sizes must not be negative, got {n_valid} and {n_test}.")
    read = [(i, kind, text) for i, name in enumerate(languages) for kind in kinds for text in _texts(name, kind, longest)]
    spoken = Counter(text for _, text in {(i, text) for i, _, text in read})
    documents = {(i, kind): number for number, (i, kind) in enumerate((i, k) for i in range(len(languages)) for k in kinds)}
    first: dict[str, DisplayName] = {}
    for i, kind, text in read:
        if spoken[text] == 1:
            first.setdefault(text, DisplayName(text, i, documents[i, kind]))
    part = _parts(list(first.values()), n_valid, n_test, languages, seed)
    return Splits(*(tuple(name for name in first.values() if part[name.text] == number) for number in range(3)))


def _parts(names: list[DisplayName], n_valid: int, n_test: int, languages: Sequence[str], seed: int) -> dict[str, int]:
    """Return the part of each text: 0 for training, 1 for validation, 2 for testing."""
    rng = random.Random(seed)
    part = dict.fromkeys((name.text for name in names), 0)
    for i, language in enumerate(languages):
        own = [name.text for name in names if name.language == i]
        if len(own) <= n_valid + n_test:
            raise ValueError(
                f"{n_valid} + {n_test} texts set apart leave none of the {len(own)} of {language!r} to learn from."
            )
        drawn = rng.sample(own, n_valid + n_test)
        part |= dict.fromkeys(drawn[:n_valid], 1) | dict.fromkeys(drawn[n_valid:], 2)
    return part


def _texts(language: str, kind: str, longest: int) -> Iterator[str]:
    """Return the texts of one document, in the order of their codes, in lower case, with plain spaces."""
    babel = optional_import("babel.core", "babel", "Display names of CLDR")
    try:
        locale = babel.Locale.parse(language)
    except (babel.UnknownLocaleError, ValueError):
        raise ValueError(f"CLDR has no locale {language!r}; use names such as 'fr' or 'pt'.") from None
    for _, text in sorted(_READ[kind](locale)):
        plain = " ".join(text.lower().split())
        if 3 <= len(plain) <= longest:
            yield plain


def _time_zones(locale: "babel.core.Locale") -> Iterator[tuple[str, str]]:
    for code, names in locale.meta_zones.items():
        if text := names.get("long", {}).get("standard"):
            yield code, text


_READ = {
    "currencies": lambda locale: locale.currencies.items(),
    "time zones": _time_zones,
    "territories": lambda locale: locale.territories.items(),
    "languages": lambda locale: locale.languages.items(),
    "scripts": lambda locale: locale.scripts.items(),
}
