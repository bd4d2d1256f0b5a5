"""Conversion between text and indices: a vocabulary of characters or words, and padded batches.

The first four indices are the same in every vocabulary: padding 0, begin 1, end 2, unknown 3.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from course_lib.shapes import Lengths, Tokens

__all__ = ["BEGIN", "END", "PADDING", "Vocabulary", "pad"]

PADDING, BEGIN, END, UNKNOWN = range(4)
SPECIAL = ("<padding>", "<begin>", "<end>", "<unknown>")


@dataclass(frozen=True)
class Vocabulary:
    """The symbols of a text, each with its index.

    `between` separates two symbols of a text: nothing for characters, a space for words.
    """

    symbols: tuple[str, ...]
    between: str = ""

    @classmethod
    def of(cls, texts: Iterable[str], between: str = "") -> "Vocabulary":
        """Collect the symbols of `texts`, sorted, after the four special ones.

        Use only the texts of the train part: symbols that occur only in the test part must be unknown.
        """
        found = {symbol for text in texts for symbol in _cut(text, between)}
        return cls(SPECIAL + tuple(sorted(found - set(SPECIAL))), between)

    def __post_init__(self) -> None:
        """Raise a ValueError unless the four special symbols come first and no symbol occurs twice."""
        if self.symbols[: len(SPECIAL)] != SPECIAL:
            raise ValueError(
                f"the first symbols must be {SPECIAL}, got {self.symbols[: len(SPECIAL)]}; build one by Vocabulary.of."
            )
        if len(set(self.symbols)) != len(self.symbols):
            raise ValueError("a symbol occurs twice, so that its index would not be clear.")

    def __len__(self) -> int:
        """Count the symbols, including the four special ones."""
        return len(self.symbols)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {symbol: index for index, symbol in enumerate(self.symbols)}

    def encode(self, text: str, begin: bool = False, end: bool = False) -> list[int]:
        """Return the index of each symbol of a text, optionally with begin and end; a new symbol is unknown."""
        indices = [self._index.get(symbol, UNKNOWN) for symbol in _cut(text, self.between)]
        return [BEGIN] * begin + indices + [END] * end

    def decode(self, indices: Iterable[int]) -> str:
        """Return the text of indices up to the first end, without begin and padding; unknown ones read `<unknown>`.

        Raises:
            IndexError: an index is outside the vocabulary.
        """
        said = []
        for index in map(int, indices):
            if not 0 <= index < len(self):
                raise IndexError(f"index {index} is outside a vocabulary of {len(self)} symbols.")
            if index == END:
                break
            if index not in (PADDING, BEGIN):
                said.append(self.symbols[index])
        return self.between.join(said)

    def batch(self, texts: Sequence[str], begin: bool = False, end: bool = False) -> tuple[Tokens, Lengths]:
        """Encode texts and pad them to the longest: tokens (B, T), lengths (B,) counting begin and end."""
        return pad([self.encode(text, begin, end) for text in texts])


def pad(sequences: Sequence[Sequence[int]], padding: int = PADDING) -> tuple[Tokens, Lengths]:
    """Stack sequences of different lengths in one padded batch.

    Args:
        sequences: B lists of indices; one may be empty.
        padding: the index that fills shorter sequences.

    Returns:
        tokens (B, T), T the greatest length; and the lengths (B,).

    Raises:
        ValueError: there is no sequence.
    """
    if not sequences:
        raise ValueError("a batch needs at least one sequence.")
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    tokens = torch.full((len(sequences), int(lengths.max())), padding)
    for row, sequence in zip(tokens, sequences, strict=True):
        row[: len(sequence)] = torch.tensor(sequence, dtype=torch.long)
    return tokens, lengths


def _cut(text: str, between: str) -> list[str]:
    """Split a text into its symbols."""
    if not between:
        return list(text)
    return text.split(between) if text else []
