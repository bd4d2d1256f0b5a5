"""WordPiece tokens, as the published BERTs read them: lower-case words, split greedily into the longest known pieces.

Wu et al. 2016, section 4.1 (https://arxiv.org/abs/1609.08144); Devlin et al. 2019, section 3 (https://arxiv.org/abs/1810.04805),
whose ## marks a piece that continues a word. This is the tokenisation of the "uncased" models, which also drops accents.

    unaffable  →  un ##aff ##able
"""

import re
import unicodedata
from collections.abc import Collection, Iterator

__all__ = ["word_pieces"]


def word_pieces(text: str, vocabulary: Collection[str], unknown: str = "[UNK]") -> list[str]:
    """Split a text into word pieces.

    Args:
        text: any text.
        vocabulary: the known pieces, such as the lines of a published `vocab.txt`, as a set or as the keys of a dict.
        unknown: the piece for a word that cannot be split.

    Returns:
        pieces, in order; punctuation marks are words of their own.
    """
    plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    return [
        piece for word in re.findall(r"\w+|[^\w\s]", plain.replace("_", " _ ")) for piece in _cut(word, vocabulary) or [unknown]
    ]


def _cut(word: str, vocabulary: Collection[str]) -> list[str]:
    """Return the pieces of a word, each the longest that fits; empty if no piece fits at some position."""
    pieces: list[str] = []
    while word:
        piece = next((piece for piece in _beginnings(word, bool(pieces)) if piece in vocabulary), None)
        if piece is None:
            return []
        pieces.append(piece)
        word = word[len(piece.removeprefix("##") if len(pieces) > 1 else piece) :]
    return pieces


def _beginnings(word: str, goes_on: bool) -> Iterator[str]:
    """Return the prefixes of a word, the longest first, marked if they continue it."""
    return ("##" * goes_on + word[:n] for n in range(len(word), 0, -1))
