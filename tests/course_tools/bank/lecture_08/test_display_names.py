"""Each name has one language and is in one part, and its document contains its neighbours."""

import pytest
from babel.core import Locale

from course_tools.bank.lecture_08._display_names import DisplayName, display_names


def test_a_text_has_one_language_and_stands_once():
    names = display_names(3, 7)
    texts = [name.text for part in (names.train, names.valid, names.test) for name in part]
    assert len(texts) == len(set(texts)) > 2_000


def test_each_text_is_what_its_language_calls_something():
    languages = ("fr", "fi")
    for name in display_names(2, 5, languages=languages, kinds=("territories",)).test:
        assert name.text in {text.lower() for text in Locale.parse(languages[name.language]).territories.values()}


def test_a_text_that_two_languages_share_belongs_to_neither():
    def names(languages):
        return {name.text for name in display_names(0, 1, languages=languages, kinds=("territories",)).train}

    assert "portugal" in names(["fr"])
    assert "portugal" in names(["de"])
    assert "portugal" not in names(["fr", "de"])
    assert "frankreich" in names(["fr", "de"])


def test_parts_have_as_many_of_each_language_as_asked_for():
    names = display_names(3, 7, languages=("de", "nl", "sv"))
    for part, n in ((names.valid, 3), (names.test, 7)):
        assert [sum(name.language == i for name in part) for i in range(3)] == [n] * 3


def test_documents_follow_each_other_and_hold_one_kind_of_one_language():
    names = display_names(2, 2, languages=("de", "fr"), kinds=("territories", "time zones"))
    numbers = [name.document for name in names.train]
    assert numbers == sorted(numbers)
    assert {(name.document, name.language) for name in names.train} == {(0, 0), (1, 0), (2, 1), (3, 1)}
    codes = {text.lower(): code for code, text in sorted(Locale.parse("de").territories.items(), reverse=True)}
    order = [codes[name.text] for name in names.train if name.document == 0]
    assert order == sorted(order)


def test_texts_are_small_and_short():
    for name in display_names(1, 1, languages=("pl",), longest=12).train:
        assert name.text == name.text.lower()
        assert 3 <= len(name.text) <= 12


def test_the_seed_decides_what_is_set_apart():
    first, again, other = (display_names(2, 9, seed=seed, languages=("de", "nl")) for seed in (0, 0, 1))
    assert first == again
    assert first.test != other.test


def test_time_zones_without_a_name_are_left_out():
    names = display_names(1, 1, languages=("es",), kinds=("time zones",))
    assert "hora estándar de europa central" in {name.text for part in (names.train, names.valid, names.test) for name in part}
    assert isinstance(names.test[0], DisplayName)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kinds": ("rivers",)}, "there are no names of"),
        ({"languages": ("xx",)}, "CLDR has no locale 'xx'"),
        ({"n_valid": -1}, "sizes must not be negative"),
        ({"n_test": 10_000}, "leave none of the"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        display_names(**{"n_valid": 1, "n_test": 1, **arguments})
