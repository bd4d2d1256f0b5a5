"""Byte-pair encoding (BPE): a subword vocabulary learned from text.

Frequent words stay whole, rare ones are split into subwords, and no word is unknown.

Sennrich, Haddow, Birch 2016, *Neural Machine Translation of Rare Words with Subword Units*, section 3.2 and algorithm 1
(https://arxiv.org/abs/1508.07909): begin with characters, and merge the most frequent pair of neighbours again and again. GPT-2
begins with bytes, so that no character is unknown; BERT's WordPiece chooses merges by another score and segments greedily
from the left. The paper marks the end of a word, this file its beginning.

    peseta andorrane  →  ▁peseta ▁and orr ane        ▁ marks where a word begins
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

__all__ = ["BytePairs"]

START = "▁"


@dataclass(frozen=True)
class BytePairs:
    """Merges of two pieces into one, in the order in which they were learned."""

    merges: tuple[tuple[str, str], ...]

    @classmethod
    def learn(cls, texts: Iterable[str], n_merges: int) -> "BytePairs":
        """Learn merges; of equally frequent pairs, the one that is last in Unicode order is merged first.

        Args:
            texts: words are separated by white space; no pair crosses it.
            n_merges: number of merges to learn; fewer are learned if every word is whole earlier.

        Returns:
            BytePairs.

        Raises:
            ValueError: n_merges is negative, texts is a single string, or a text contains the character ▁.

        Source: Sennrich et al. 2016, algorithm 1.
        """
        if n_merges < 0:
            raise ValueError(f"the number of merges must not be negative, got {n_merges}.")
        if isinstance(texts, str):
            raise ValueError("texts is one string; give a list of texts.")
        counted = Counter(word for text in texts for word in _words(text))
        words = [[START, *word] for word in counted]
        times = list(counted.values())
        frequency: Counter[tuple[str, str]] = Counter()
        places = defaultdict(set)
        for i, word in enumerate(words):
            for pair in pairwise(word):
                frequency[pair] += times[i]
                places[pair].add(i)
        merges: list[tuple[str, str]] = []
        while len(merges) < n_merges and (most := max(frequency.values(), default=0)):
            best = max(pair for pair, n in frequency.items() if n == most)
            merges.append(best)
            for i in places.pop(best):
                before, words[i] = words[i], _merged(words[i], best)
                for pair in pairwise(before):
                    frequency[pair] -= times[i]
                for pair in pairwise(words[i]):
                    frequency[pair] += times[i]
                    places[pair].add(i)
            del frequency[best]
        return cls(tuple(merges))

    @cached_property
    def _rank(self) -> dict[tuple[str, str], int]:
        return {pair: rank for rank, pair in enumerate(self.merges)}

    @cached_property
    def _known(self) -> dict[str, str]:
        """Cache of words that were already split, as pieces separated by spaces."""
        return {}

    def cut(self, text: str) -> str:
        """Split a text into its pieces, separated by spaces, as a `Vocabulary` with `between=" "` reads them.

        Raises:
            ValueError: the text contains the character ▁, which marks the beginning of a word.
        """
        return " ".join(self._cut_word(word) for word in _words(text))

    def join(self, pieces: str) -> str:
        """Join the pieces of a text, with one space between words regardless of the original white space."""
        return pieces.replace(" ", "").replace(START, " ").strip()

    def _cut_word(self, word: str) -> str:
        if word not in self._known:
            pieces = [START, *word]
            while ranked := [pair for pair in pairwise(pieces) if pair in self._rank]:
                pieces = _merged(pieces, min(ranked, key=self._rank.__getitem__))
            self._known[word] = " ".join(pieces)
        return self._known[word]


def _words(text: str) -> list[str]:
    if START in text:
        raise ValueError(f"the character {START} marks where a word begins and must not occur in a text; replace it.")
    return text.split()


def _merged(pieces: list[str], pair: tuple[str, str]) -> list[str]:
    """Join every occurrence of a pair, from left to right."""
    joined, i = [], 0
    while i < len(pieces):
        both = tuple(pieces[i : i + 2]) == pair
        joined.append("".join(pair) if both else pieces[i])
        i += 1 + both
    return joined
