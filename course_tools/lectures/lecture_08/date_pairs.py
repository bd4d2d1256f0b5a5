"""The same day in two of six languages, as BERT reads it; counts of neighbours; seasons of dates in one language."""

import datetime
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.datasets import BEGIN, END, Vocabulary, pad
from course_lib.datasets.vocabulary import UNKNOWN
from course_lib.losses import Masked, SentencePairs, corrupt, segment_input
from course_lib.models import KneserNey
from course_lib.optional_import import optional_import

LANGUAGES = ("en", "de", "fr", "pl", "fi", "tr")
T_MAX = 24
"""Room for the longest pair of dates, with its special tokens."""

MaskedLogits = Callable[[Tensor, Tensor, Tensor], Tensor]


class DatePair(NamedTuple):
    """A day, and how it is written in two different languages, with a space between two tokens."""

    day: datetime.date
    languages: tuple[str, str]
    first: str
    second: str


class BERTInput(NamedTuple):
    """The input of a BERT: tokens and segments (n, T), and lengths (n,)."""

    tokens: Tensor
    segments: Tensor
    lengths: Tensor


def date_pairs(n_train: int, n_test: int, seed: int = 0) -> tuple[list[DatePair], list[DatePair]]:
    """Draw different days of the years 1900 to 2099, and write each in two of the languages, in CLDR's long or full format.

    Returns:
        pairs to learn from, and pairs of other days to test on.
    """
    rng, found = random.Random(seed), []
    ends = (datetime.date(1900, 1, 1).toordinal(), datetime.date(2100, 1, 1).toordinal())
    for number in rng.sample(range(*ends), n_train + n_test):
        day, (one, other) = datetime.date.fromordinal(number), rng.sample(LANGUAGES, 2)
        found.append(DatePair(day, (one, other), _written(day, one, rng), _written(day, other, rng)))
    return found[:n_train], found[n_train:]


def _written(day: datetime.date, language: str, rng: random.Random) -> str:
    dates = optional_import("babel.dates", "babel", "Dates of many countries")
    text = dates.format_date(day, format=rng.choice(("long", "full")), locale=language)
    return " ".join(re.findall(r"\w+|[^\w\s]", text))


@dataclass(frozen=True)
class DateTexts:
    """A vocabulary of dates, and the layout of pairs, by a function such as `segment_input`."""

    words: Vocabulary
    segment_input: Callable[..., tuple[Tensor, Tensor]] = segment_input

    @classmethod
    def of(cls, pairs: Sequence[DatePair], segment_input: Callable[..., tuple[Tensor, Tensor]] = segment_input) -> "DateTexts":
        """Collect the tokens of pairs."""
        return cls(Vocabulary.of((text for pair in pairs for text in (pair.first, pair.second)), between=" "), segment_input)

    @property
    def mask(self) -> int:
        """The index of [MASK]: the token after those of the vocabulary."""
        return len(self.words)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The tokens as they are drawn and printed."""
        return ("[PAD]", "[CLS]", "[SEP]", "[UNK]", *self.words.symbols[4:], "[MASK]")

    def encode(self, text: str) -> Tensor:
        """Return the tokens (T,) of a text with a space between two tokens; [MASK] may be one of them."""
        return torch.tensor([self.symbols.index(word) if word in self.symbols else UNKNOWN for word in text.split()])

    def lay_out(self, rows: Sequence[tuple[str, str | None]]) -> BERTInput:
        """Lay out texts, each with a second one or None, as BERT reads them."""
        code = {word: i for i, word in enumerate(self.symbols)}
        different = {text for row in rows for text in row if text is not None}
        encoded = {text: torch.tensor([code.get(word, UNKNOWN) for word in text.split()]) for text in different}
        laid = [self.segment_input(encoded[a], None if b is None else encoded[b], BEGIN, END) for a, b in rows]
        tokens, lengths = pad([tokens.tolist() for tokens, _ in laid])
        return BERTInput(tokens, pad([segments.tolist() for _, segments in laid])[0], lengths)

    def pairs(self, part: Sequence[DatePair]) -> BERTInput:
        """Lay out both writings of each day as one sequence."""
        return self.lay_out([(pair.first, pair.second) for pair in part])


def mask_batch(
    tokens: Tensor, mask: int, rate: float, corrupt: Callable[..., Masked] = corrupt, always: bool = False
) -> Masked:
    """Corrupt tokens (B, T) at random by a function such as `corrupt`; special tokens and padding are not eligible.

    Args:
        tokens: (B, T).
        mask: the index of [MASK], which comes after all other tokens.
        rate: the fraction of the eligible tokens to choose.
        corrupt: as that of `course_lib.losses`.
        always: whether every chosen token becomes [MASK].
    """
    choice, fate = torch.rand(2, *tokens.shape, device=tokens.device)
    instead = torch.randint_like(tokens, 4, mask)
    return corrupt(tokens, tokens > END, mask, choice, fate * 0 if always else fate, instead, rate)


class Hidden(NamedTuple):
    """Hidden tokens, one in each text: its row and place in the texts, the true token, and the nats for it, (n,) each."""

    row: Tensor
    place: Tensor
    truth: Tensor
    nats: Tensor

    def mean(self, of: Tensor | None = None) -> float:
        """Average the nats, of all tokens or of those of a mask (n,)."""
        return (self.nats if of is None else self.nats[of]).mean().item()


@torch.no_grad()
def nats_of_hidden(logits: MaskedLogits, texts: BERTInput, mask: int, every: int = 1) -> Hidden:
    """Hide each token of texts, one at a time, and measure -log of the probability that a model gives the true one.

    Args:
        logits: (tokens, segments, lengths) -> logits (B, T, n_tokens).
        texts: the texts.
        mask: the index of [MASK].
        every: ask for every so-manieth token only, which saves time.
    """
    row, place = (each[::every] for each in (texts.tokens > END).nonzero(as_tuple=True))
    truth, nats = texts.tokens[row, place], []
    for rows, places in zip(row.split(500), place.split(500), strict=True):
        asked = torch.arange(len(rows), device=rows.device)
        tokens = texts.tokens[rows].clone()
        tokens[asked, places] = mask
        of_hidden = logits(tokens, texts.segments[rows], texts.lengths[rows])[asked, places]
        nats.append(F.cross_entropy(of_hidden, texts.tokens[rows, places], reduction="none"))
    return Hidden(row, place, truth, torch.cat(nats))


@torch.no_grad()
def nats_from_the_left(model: torch.nn.Module, texts: BERTInput, like: Hidden) -> Hidden:
    """Measure what a GPT gives the tokens that `like` asks for, each from the tokens to its left."""
    logits = torch.cat([model(part) for part in texts.tokens.split(500)])
    of_asked = logits[like.row, like.place - 1]
    return like._replace(nats=F.cross_entropy(of_asked, like.truth, reduction="none"))


def nats_of_counts(known: BERTInput, texts: BERTInput, like: Hidden, places: Sequence[int], n_tokens: int) -> Hidden:
    """Measure what counts of neighbours give the tokens that `like` asks for (Kneser and Ney's smoothing).

    Args:
        known: the texts that are counted.
        texts: those that are asked about.
        like: which of their tokens.
        places: of the neighbours, such as (-2, -1) for two before; where a combination is rare, the first is left out first.
        n_tokens: size of the vocabulary.
    """
    width = max(map(abs, places))
    offsets = torch.tensor([*places, 0]) + width

    def runs(tokens: Tensor, row: Tensor, place: Tensor) -> Tensor:
        return F.pad(tokens.cpu(), (width, width))[row.cpu()[:, None], place.cpu()[:, None] + offsets]

    counts = KneserNey(runs(known.tokens, *(known.tokens.cpu() > END).nonzero(as_tuple=True)), n_tokens)
    p = counts.probability(runs(texts.tokens, like.row, like.place))
    return like._replace(nats=-p.log().to(like.nats))


def seasons(part: Sequence[DatePair]) -> Tensor:
    """Return the season (n,) of each day, by its month: winter is December to February."""
    return torch.tensor([pair.day.month % 12 // 3 for pair in part])


def labelled_dates(part: Sequence[DatePair], language: str, n_each: int, seed: int) -> list[DatePair]:
    """Draw dates whose first writing is in a language, n_each of every month."""
    own = [pair for pair in part if pair.languages[0] == language]
    random.Random(seed).shuffle(own)
    return [pair for month in range(1, 13) for pair in [p for p in own if p.day.month == month][:n_each]]


def kinds_of(texts: DateTexts, hidden: Hidden) -> dict[str, Tensor]:
    """Sort the hidden tokens by kind, a mask (n,) of each: numbers, names of months and weekdays, and the rest."""
    words = [texts.symbols[token] for token in hidden.truth.tolist()]
    number, months, weekdays = (torch.tensor(found) for found in zip(*map(_kind, words), strict=True))
    return {"numbers": number, "months": months, "weekdays": weekdays, "the rest": ~(number | months | weekdays)}


def _kind(word: str) -> tuple[bool, bool, bool]:
    names = _names()
    return word.isdigit(), word in names["months"], word in names["days"]


@cache
def _names() -> dict[str, frozenset[str]]:
    dates = optional_import("babel.dates", "babel", "Dates of many countries")
    read = {"months": dates.get_month_names, "days": dates.get_day_names}
    return {
        kind: frozenset(name for language in LANGUAGES for name in names("wide", locale=language).values())
        for kind, names in read.items()
    }


def neighbours(
    part: Sequence[DatePair], nsp_pairs: Callable[..., SentencePairs], seed: int
) -> tuple[list[tuple[str, str | None]], Tensor]:
    """Pair texts by a function such as `nsp_pairs`, each day being a document of two sentences.

    Returns:
        rows for `DateTexts.lay_out`, and whether the second text is of the same day as the first, (n,) bool.
    """
    sentences = [text for pair in part for text in (pair.first, pair.second)]
    generator = torch.Generator().manual_seed(seed)
    coins, picks = torch.rand(2, len(part), generator=generator)
    pairs = nsp_pairs(torch.arange(len(part)).repeat_interleave(2), coins, picks)
    rows = [(sentences[i], sentences[j]) for i, j in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)]
    return rows, pairs.follows


def without_numbers(text: str) -> str:
    """Hide the numbers of a text, so that only its words can tell the season."""
    return re.sub(r"\d+", "[MASK]", text)
