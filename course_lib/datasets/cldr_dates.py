"""Dates as people in many countries write them, and the same dates in ISO 8601.

The formats come from the Unicode CLDR (https://cldr.unicode.org) through Babel (https://babel.pocoo.org), the days from
the calendar: `giovedì 5 marzo 1987` → `1987-03-05`. Several dates joined in one sentence make a text of any length whose right
answer and alignment are known exactly: each date has its own position.

The default locales and formats write the year in four digits and never put day and month next to each other unless the
punctuation shows their order, so that no text can be read as two different days; a test holds this for every day of a year.
"""

import datetime
import random
from collections.abc import Sequence

from course_lib.datasets.splits import Pair, Splits, split
from course_lib.optional_import import optional_import

__all__ = ["dates", "joined"]

LOCALES = ("en_US", "en_GB", "fr", "de", "es", "it", "nl", "pt", "da", "hu")
FORMATS = ("medium", "long", "full")


def dates(
    n_train: int,
    n_valid: int,
    n_test: int,
    *,
    seed: int = 0,
    locales: Sequence[str] = LOCALES,
    formats: Sequence[str] = FORMATS,
    years: tuple[int, int] = (1900, 2099),
) -> Splits[tuple[Pair, ...]]:
    """Draw days, each in one part only, and write each day in a random locale and format.

    Args:
        n_train: pairs for training.
        n_valid: pairs for validation.
        n_test: pairs for testing; none of their days occurs in the other parts, in any language.
        seed: determines the days, locales and formats.
        locales: CLDR locales such as "fr" or "en_GB".
        formats: of "short", "medium", "long", "full"; "short" can be read in two ways in many locales.
        years: the first and the last year, both included.

    Returns:
        Splits of pairs (source `5 mars 1987`, target `1987-03-05`).

    Raises:
        ValueError: a locale or format is unknown, the years are not 1 to 9999 in order, or there are too few days.
    """
    first, last = years
    if not 1 <= first <= last <= 9999:
        raise ValueError(f"years must run from a first to a last one between 1 and 9999, got {first} to {last}.")
    if not locales or not formats or not set(formats) <= {"short", "medium", "long", "full"}:
        raise ValueError(f"give at least one locale, and formats of short, medium, long, full; got {locales} and {formats}.")
    start, stop = datetime.date(first, 1, 1).toordinal(), datetime.date(last, 12, 31).toordinal()
    days = split(range(start, stop + 1), n_train, n_valid, n_test, seed)
    rng = random.Random(f"writing {seed}")
    parts = (days.train, days.valid, days.test)
    return Splits(*(tuple(_written(day, rng, locales, formats) for day in part) for part in parts))


def joined(pairs: Sequence[Pair], n_dates: int, n: int, *, seed: int = 0) -> tuple[Pair, ...]:
    """Draw n different sentences of n_dates dates each from the pairs of one part.

    Args:
        pairs: single dates, of the train part for training sentences, of the test part for test sentences.
        n_dates: dates in a sentence.
        n: sentences.
        seed: seed of the random draw.

    Returns:
        pairs such as (`5 mars 1987; 3 April 2004`, `1987-03-05 2004-04-03`), no two equal.

    Raises:
        ValueError: n_dates or n is not positive, or the pairs do not make n different sentences.
    """
    if n_dates < 1 or n < 1:
        raise ValueError(f"ask for at least one sentence of at least one date, got {n} of {n_dates}.")
    different = list(dict.fromkeys(pairs))
    if len(different) ** n_dates < n:
        raise ValueError(f"{len(different)} dates do not make {n} different sentences of {n_dates}.")
    rng = random.Random(seed)
    sentences: dict[Pair, None] = {}
    while len(sentences) < n:
        chosen = rng.choices(different, k=n_dates)
        sentences.setdefault(Pair("; ".join(p.source for p in chosen), " ".join(p.target for p in chosen)))
    return tuple(sentences)


def _written(ordinal: int, rng: random.Random, locales: Sequence[str], formats: Sequence[str]) -> Pair:
    """Write the day of the given ordinal number in a random locale and format."""
    day = datetime.date.fromordinal(ordinal)
    locale, form = rng.choice(locales), rng.choice(formats)
    babel_dates = optional_import("babel.dates", "babel", "Dates of many countries")
    babel_core = optional_import("babel.core", "babel", "Dates of many countries")
    try:
        return Pair(babel_dates.format_date(day, format=form, locale=locale), day.isoformat())
    except babel_core.UnknownLocaleError as error:
        raise ValueError(f"CLDR has no locale {locale!r}; use names such as 'fr' or 'en_GB'.") from error
