"""The answers are right, and no text can be read as two days."""

import datetime

import pytest
from babel.dates import format_date

from course_lib.datasets import dates, joined
from course_lib.datasets.cldr_dates import FORMATS, LOCALES


def test_no_text_of_a_whole_year_reads_as_two_days():
    day_of: dict[str, datetime.date] = {}
    for n in range(365):
        day = datetime.date(1987, 1, 1) + datetime.timedelta(days=n)
        for text in {format_date(day, format=form, locale=locale) for locale in LOCALES for form in FORMATS}:
            assert "1987" in text
            assert day_of.setdefault(text, day) == day, text
    assert len(day_of) > 365 * len(LOCALES)


def test_short_dates_would_read_as_two_days():
    march = format_date(datetime.date(1987, 3, 5), format="short", locale="en_US")
    may = format_date(datetime.date(1987, 5, 3), format="short", locale="es")
    assert march == may


def test_each_target_is_the_day_of_its_source():
    pairs = dates(50, 1, 1, seed=4, locales=["fr", "en_US"], formats=["long"]).train
    for source, target in pairs:
        day = datetime.date.fromisoformat(target)
        assert source in {format_date(day, format="long", locale=locale) for locale in ("fr", "en_US")}


def test_all_locales_and_formats_are_drawn():
    pairs = dates(3000, 1, 1, seed=0).train
    written = {form_of(pair) for pair in pairs}
    assert {locale for locale, _ in written} >= {"fr", "hu", "de"}
    assert {form for _, form in written} == set(FORMATS)


def form_of(pair):
    day = datetime.date.fromisoformat(pair.target)
    return next(
        (locale, form) for locale in LOCALES for form in FORMATS if format_date(day, format=form, locale=locale) == pair.source
    )


def test_years_are_kept():
    parts = dates(300, 30, 30, seed=0, years=(2000, 2000))
    assert {pair.target[:4] for pair in parts.train + parts.valid + parts.test} == {"2000"}


def test_joined_dates_stand_in_the_same_order_on_both_sides():
    singles = dict(dates(20, 1, 1, seed=0).train)
    for sentence in joined(dates(20, 1, 1, seed=0).train, 3, 100, seed=9):
        assert [singles[text] for text in sentence.source.split("; ")] == sentence.target.split(" ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"locales": ["xx"]}, "no locale 'xx'"),
        ({"locales": []}, "at least one locale"),
        ({"formats": ["tiny"]}, "formats of short"),
        ({"years": (2000, 1999)}, "years must run"),
        ({"years": (0, 1999)}, "years must run"),
    ],
)
def test_dates_refuse_what_they_cannot_write(arguments, message):
    with pytest.raises(ValueError, match=message):
        dates(3, 1, 1, **arguments)


def test_dates_refuse_more_days_than_there_are():
    with pytest.raises(ValueError, match="only 365 different"):
        dates(300, 60, 6, years=(1999, 1999))


def test_joined_refuses_more_sentences_than_there_are():
    pairs = dates(2, 1, 1).train
    assert len(joined(pairs, 2, 4)) == 4
    with pytest.raises(ValueError, match="do not make 5"):
        joined(pairs, 2, 5)
    with pytest.raises(ValueError, match="at least one"):
        joined(pairs, 0, 1)
