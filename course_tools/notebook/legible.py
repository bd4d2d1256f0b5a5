"""Legible figures: numbers of any kind as arrays, and text in characters that the font has."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from matplotlib.font_manager import FontProperties, findfont, get_font
from torch import Tensor

Numbers = np.ndarray | Tensor | Sequence | int | float


def to_array(values: Numbers) -> np.ndarray:
    """Give anything that holds numbers, also a tensor on a GPU or in a graph, as a NumPy array."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def printable(text: str) -> str:
    """Make a token visible: spaces and line ends get a visible character, and a character that the font lacks becomes a box."""
    signs = {" ": "␣", "": "∅"}
    return in_the_font(signs.get(text, text).replace("\n", "↵").replace("\t", "⇥"))


def in_the_font(text: str) -> str:
    """Put a box in the place of each character that the font of the figures lacks."""
    return "".join(sign if ord(sign) in _glyphs() else "□" for sign in text)


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties())).get_charmap())
