"""Names say the thing and the colour of each photograph, in four languages, and are spelled letter by letter."""

import pytest
import torch

from course_tools.bank.drawn_stickers import THINGS
from course_tools.bank.glyphs import hsv
from course_tools.lectures.lecture_16 import captions
from course_tools.lectures.lecture_16.windows import CELL, Windows, draw_windows


def test_each_combination_has_a_name_of_its_own_in_each_language():
    for language in captions.IN_WORDS:
        assert len(set(language)) == len(language) == len(THINGS) * len(captions.COLOURS)
    assert [language[0] for language in captions.IN_WORDS] == ["red star", "roter Stern", "estrella roja", "красная звезда"]
    assert captions.IN_WORDS[0][57] == "turquoise scissors"
    assert captions.IN_WORDS[2][57] == "tijeras turquesas"


def test_each_word_of_a_name_means_that_name_and_all_others_of_its_thing_or_colour():
    for language in captions.IN_WORDS:
        for number, name in enumerate(language):
            assert [number in captions.WORDS[word] for word in name.split()] == [True, True]
    assert {word for language in captions.IN_WORDS for name in language for word in name.split()} == set(captions.WORDS)
    assert list(captions.WORDS["Herz"]) == [6, 7, 8, 9, 10, 11]
    assert list(captions.WORDS["azul"]) == list(captions.WORDS["blaue"]) == [4, 10, 16, 22, 28, 34, 40, 46, 52, 58]


def test_the_colour_is_that_of_the_ground_whatever_the_ink():
    hues = torch.tensor([0.0, 0.07, 0.1, 0.5, 0.66, 0.99])
    photos = torch.zeros(6, 4, 3, 2 * CELL, 3 * CELL)
    ground = hsv(hues, torch.full((6,), 0.8), torch.full((6,), 0.7))
    photos[:, 2, :, CELL:, CELL : 2 * CELL] = ground[..., None, None]  # the fifth cell of the third photograph
    photos[:, 2, :, CELL + 3 : CELL + 7, CELL + 2 : CELL + 9] = 1.0
    cells = torch.tensor([0, 1, 4, 2]).expand(6, 4)
    found = captions.colours(Windows(photos, torch.zeros(6, dtype=torch.long), cells))
    assert [captions.COLOURS[i] for i in found[:, 2]] == ["red", "red", "yellow", "turquoise", "blue", "red"]


def test_every_colour_is_about_as_frequent():
    counts = captions.colours(draw_windows(200, seed=0)).flatten().bincount(minlength=6)
    assert counts.sum() == 800
    assert counts.min() > 80


def test_names_are_spelled_and_can_be_read_back():
    names = ["rote Note", "синяя звезда"]
    spelled = captions.spell(names)
    assert spelled.shape == (2, captions.LONGEST)
    assert ["".join(captions.LETTERS[i - 1] for i in row if i) for row in spelled.tolist()] == names
    with pytest.raises(ValueError, match="'czerwony #'"):
        captions.spell(["red sun", "czerwony #"])


def test_made_up_names_are_as_long_and_share_nothing():
    made = captions.made_up(0)
    assert [[len(name) for name in names] for names in made] == [[len(name) for name in names] for names in captions.IN_WORDS]
    assert len({name for names in made for name in names}) == 240
    assert made == captions.made_up(0)
    assert made != captions.made_up(1)
