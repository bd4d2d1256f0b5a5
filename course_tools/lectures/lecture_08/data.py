"""Display names as inputs of BERT: pieces, passages, pairs of passages, labelled names, texts of two names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.datasets import BEGIN, END, BytePairs, DisplayName, Vocabulary, pad
from course_lib.datasets.display_names import LANGUAGES
from course_lib.losses import SentencePairs
from course_tools.notebook.device import device

_LONGEST = 24
"""Largest number of pieces of a passage; a name in a text of two has at most half as many."""


class BERTInput(NamedTuple):
    """The input of a BERT: tokens and segments (n, T), and lengths (n,)."""

    tokens: Tensor
    segments: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class NameTexts:
    """Conversion of names to tokens: byte pairs, a vocabulary, and functions such as `segment_input` and `nsp_pairs`."""

    pieces: BytePairs
    words: Vocabulary
    segment_input: Callable[..., tuple[Tensor, Tensor]]
    nsp_pairs: Callable[..., SentencePairs]

    def encode(self, text: str) -> Tensor:
        """Return the pieces (T,) of a text."""
        return torch.tensor(self.words.encode(self.pieces.cut(text)))

    def passages(self, part: Sequence[DisplayName], offset: int = 0, n_names: int = 4) -> list[tuple[int, Tensor]]:
        """Cut each document into passages of n_names names, from name `offset` on: (document, at most 24 pieces) for each."""
        found = []
        for document, group in groupby(part, key=lambda name: name.document):
            names = [self.encode(name.text) for name in group][offset:]
            found += [(document, torch.cat(names[i : i + n_names])[:_LONGEST]) for i in range(0, len(names), n_names)]
        return found

    def lay_out(self, rows: Sequence[tuple[Tensor, Tensor | None]]) -> BERTInput:
        """Convert rows (first segment, second segment or None) to an input of BERT."""
        both = [self.segment_input(*row, BEGIN, END) for row in rows]
        tokens, lengths = pad([tokens.tolist() for tokens, _ in both])
        return BERTInput(tokens, pad([segments.tolist() for _, segments in both])[0], lengths)

    def one_name_each(self, part: Sequence[DisplayName]) -> tuple[Tensor, ...]:
        """Convert names, one to a row, for pre-training: tokens, segments, lengths, and the class 0 (n,)."""
        rows = [(row, None) for _, row in self.passages(part, n_names=1)]
        return *self.lay_out(rows), torch.zeros(len(rows), dtype=torch.long)

    def unpaired(self, part: Sequence[DisplayName]) -> Tensor:
        """Convert the passages from all four offsets, one to a row: tokens (n, T)."""
        return self.lay_out([(row, None) for offset in range(4) for _, row in self.passages(part, offset)]).tokens

    def alone(self, part: Sequence[DisplayName]) -> tuple[Tensor, ...]:
        """Convert names, one to a row: tokens, segments, lengths, and the language (n,) of each, on `device()`."""
        rows = self.lay_out([(self.encode(name.text), None) for name in part])
        return tuple(x.to(device()) for x in (*rows, torch.tensor([name.language for name in part])))

    def pairs(self, part: Sequence[DisplayName], seed: int, strangers: bool = True) -> tuple[Tensor, ...]:
        """Pair the passages from all four offsets.

        Args:
            part: names, the documents in order.
            seed: determines the pairs.
            strangers: whether half of the second passages are from another document; otherwise each is the next passage.

        Returns:
            tokens, segments, lengths, and the class (n,): 0 where the second passage follows the first, 1 where it is random.
        """
        generator, rows, classes = torch.Generator().manual_seed(seed), [], []
        for offset in range(4):
            documents, coded = zip(*self.passages(part, offset), strict=True)
            document = torch.tensor(documents)
            n = int((document[1:] == document[:-1]).sum())
            coins, picks = torch.rand(2, n, generator=generator)
            first, second, follows = self.nsp_pairs(document, coins if strangers else coins * 0, picks)
            rows += [(coded[i], coded[j]) for i, j in zip(first.tolist(), second.tolist(), strict=True)]
            classes += (~follows).long().tolist()
        return *self.lay_out(rows), torch.tensor(classes)

    def sentences(self, tokens: Tensor) -> list[str]:
        """Return the texts of the two segments of a row (T,)."""
        parts = torch.tensor_split(tokens, (tokens == END).nonzero()[:1, 0])
        return [self.pieces.join(self.words.decode([t for t in part.tolist() if t not in (BEGIN, END)])) for part in parts]

    def print_pairs(self, part: Sequence[DisplayName], seed: int, n: int) -> None:
        """Print the beginnings of n pairs of passages, every fiftieth, and whether the second follows the first."""
        tokens, _, _, classes = self.pairs(part, seed)
        for row, random in zip(tokens[: 50 * n : 50], classes[: 50 * n : 50].tolist(), strict=True):
            first, second = self.sentences(row)
            print("random  " if random else "follows ", first[:48], "|", second[:48])

    def same_document_rate(self, part: Sequence[DisplayName]) -> float:
        """Compute the probability that a passage drawn from all documents comes from the document of the first of a pair."""
        document = torch.tensor([document for document, _ in self.passages(part)])
        first = document[:-1][document[1:] == document[:-1]]
        return (first[:, None] == document).float().mean().item()

    def two_names(self, part: Sequence[DisplayName], n: int, seed: int) -> list[Tensor]:
        """Create rows of a question, the code of a language, and two names in two languages, one of them in that language.

        Args:
            part: names to draw from, some in each language.
            n: number of rows.
            seed: determines the sample.

        Returns:
            tokens, segments (n, T), lengths (n,), the tags (n, T), which are the language of each piece of a name and -100
            elsewhere, and the first and last position (n, 2) of the name in the language asked for; on `device()`.
        """
        generator, rows, tags, ends = torch.Generator().manual_seed(seed), [], [], []
        of_language = [[name.text for name in part if name.language == i] for i in range(len(LANGUAGES))]
        for _ in range(n):
            chosen = torch.randperm(len(LANGUAGES), generator=generator)[:2].tolist()
            drawn = [of_language[i][int(torch.randint(len(of_language[i]), (), generator=generator))] for i in chosen]
            asked = int(torch.randint(2, (), generator=generator))
            question, *both = (self.encode(text)[: _LONGEST // 2] for text in (LANGUAGES[chosen[asked]], *drawn))
            start = len(question) + 2 + asked * len(both[0])
            rows.append((question, torch.cat(both)))
            ends.append((start, start + len(both[asked]) - 1))
            of_pieces = [i for i, name in zip(chosen, both, strict=True) for _ in name]
            tags.append([-100] * (len(question) + 2) + of_pieces + [-100])
        return [x.to(device()) for x in (*self.lay_out(rows), pad(tags, -100)[0], torch.tensor(ends))]


def mixed_documents(names: Sequence[DisplayName], seed: int) -> list[DisplayName]:
    """Exchange the names of all documents at random; the numbers and the sizes of the documents stay the same."""
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(seed)).tolist()
    return [names[i]._replace(document=place.document) for i, place in zip(order, names, strict=True)]


def word_piece_vocabulary(pieces: Sequence[str]) -> set[str]:
    """Convert byte pairs, of which "▁" starts a word, to word pieces, of which "##" continues one."""
    first = {piece.removeprefix("▁") for piece in pieces if piece[0] == "▁" or len(piece) == 1}
    return first | {f"##{piece}" for piece in pieces if piece[0] != "▁"}


def labelled(names: Sequence[DisplayName], seed: int, n_each: int = 5) -> list[DisplayName]:
    """Sample n_each names of every language; the seed determines which."""
    drawn = torch.randperm(len(names), generator=torch.Generator().manual_seed(seed)).tolist()
    of_language = ([names[j] for j in drawn if names[j].language == i] for i in range(len(LANGUAGES)))
    return [name for found in of_language for name in found[:n_each]]
