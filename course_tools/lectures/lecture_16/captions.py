"""Name the thing in a shop window and its colour in four languages, "roter Stern", and spell names for a network."""

import math
import random
from collections.abc import Sequence

import torch
from torch import Tensor

from course_tools.lectures.lecture_16.windows import Windows, thing_of
from course_tools.notebook.device import device

COLOURS = ("red", "yellow", "green", "turquoise", "blue", "violet")
"""A sixth of the colour circle each, around the hues 0°, 60°, … 300°."""
LANGUAGES = ("English", "German", "Spanish", "Russian")
_COLOURS = {  # by the gender of the thing, p for a plural
    "English": {"": " ".join(COLOURS)},
    "German": {
        "m": "roter gelber grüner türkiser blauer violetter",
        "f": "rote gelbe grüne türkise blaue violette",
        "n": "rotes gelbes grünes türkises blaues violettes",
    },
    "Spanish": {
        "m": "rojo amarillo verde turquesa azul morado",
        "f": "roja amarilla verde turquesa azul morada",
        "p": "rojas amarillas verdes turquesas azules moradas",
    },
    "Russian": {
        "m": "красный жёлтый зелёный бирюзовый синий лиловый",
        "f": "красная жёлтая зелёная бирюзовая синяя лиловая",
        "n": "красное жёлтое зелёное бирюзовое синее лиловое",
        "p": "красные жёлтые зелёные бирюзовые синие лиловые",
    },
}
_THINGS = {  # in the order of drawn_stickers.THINGS
    "English": "star heart umbrella plane telephone note anchor horse sun scissors",
    "German": "Stern:m Herz:n Regenschirm:m Flugzeug:n Telefon:n Note:f Anker:m Pferd:n Sonne:f Schere:f",
    "Spanish": "estrella:f corazón:m paraguas:m avión:m teléfono:m nota:f ancla:f caballo:m sol:m tijeras:p",
    "Russian": "звезда:f сердце:n зонт:m самолёт:m телефон:m нота:f якорь:m конь:m солнце:n ножницы:p",
}


def _named(language: str, thing: str, colour: int) -> str:
    noun, _, gender = thing.partition(":")
    adjective = _COLOURS[language][gender].split()[colour]
    return f"{noun} {adjective}" if language == "Spanish" else f"{adjective} {noun}"


IN_WORDS = [
    [_named(language, thing, colour) for thing in _THINGS[language].split() for colour in range(len(COLOURS))]
    for language in LANGUAGES
]
"""The 60 names in each language; that of kind k in colour c is the one of number 6 k + c."""
WORDS = {
    **{
        thing.partition(":")[0]: range(6 * kind, 6 * kind + 6)
        for language in LANGUAGES
        for kind, thing in enumerate(_THINGS[language].split())
    },
    **{
        word: range(colour, 60, 6)
        for language in LANGUAGES
        for forms in _COLOURS[language].values()
        for colour, word in enumerate(forms.split())
    },
}
"""Each word of the names, such as "Stern" or "roter" -> the numbers of all names with that thing or colour."""
LETTERS = "".join(sorted({letter for names in IN_WORDS for name in names for letter in name}))
LONGEST = max(len(name) for names in IN_WORDS for name in names)


def spell(names: Sequence[str]) -> Tensor:
    """Number the letters of names, from 1, each name filled up with zeros: (n, LONGEST).

    Raises:
        ValueError: a name is longer, or has a letter that is in none of the names.
    """
    if bad := [name for name in names if len(name) > LONGEST or not set(name) <= set(LETTERS)]:
        raise ValueError(f"names have at most {LONGEST} letters, of {LETTERS!r}; got {', '.join(map(repr, bad))}.")
    codes = [[1 + LETTERS.index(letter) for letter in name] for name in names]
    return torch.tensor([code + [0] * (LONGEST - len(code)) for code in codes], device=device())


def made_up(seed: int) -> list[list[str]]:
    """Draw random letters for each of the names in `IN_WORDS`, as many: such a name says nothing about thing and colour."""
    drawn = random.Random(seed)
    return [["".join(drawn.choices(LETTERS, k=len(name))) for name in names] for names in IN_WORDS]


def colours(windows: Windows) -> Tensor:
    """Measure which of the six colours the thing of each photograph stands on, (n, 4).

    The ink of a thing is white, which changes a colour but not its hue; so the mean of the cell has the hue of its ground.
    """
    red, green, blue = thing_of(windows).mean((-2, -1)).unbind(-1)
    hue = torch.atan2(math.sqrt(3) * (green - blue), 2 * red - green - blue)
    return (len(COLOURS) * hue / (2 * math.pi)).round().long() % len(COLOURS)
