"""Legible figures: numbers of any type as arrays, and text restricted to the characters of the font."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from matplotlib.font_manager import FontProperties, findfont, get_font
from torch import Tensor

Numbers = np.ndarray | Tensor | Sequence | int | float


def to_array(values: Numbers) -> np.ndarray:
    """Convert anything that holds numbers, including a tensor on a GPU or with a gradient, to a NumPy array."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def printable(text: str) -> str:
    """Make a token visible: whitespace is replaced by visible characters, and characters that the font lacks by a box."""
    signs = {" ": "␣", "": "∅"}
    return in_the_font(signs.get(text, text).replace("\n", "↵").replace("\t", "⇥"))


def in_the_font(text: str) -> str:
    """Replace each character that the font of the figures lacks by a box."""
    return "".join(sign if ord(sign) in _glyphs() else "□" for sign in text)


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties())).get_charmap())
