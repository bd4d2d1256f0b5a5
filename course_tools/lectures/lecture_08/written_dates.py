"""Dates that a BERT writes gap by gap: each step printed, and the share that is the day of the other sentence."""

import datetime
import re
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from course_lib.datasets import END
from course_lib.models import PretrainingBERT
from course_lib.optional_import import optional_import
from course_tools.lectures.lecture_08.date_pairs import LANGUAGES, BERTInput, DatePair, DateTexts
from course_tools.notebook.device import device


def second_sentences(tokens: Tensor, texts: BERTInput, vocabulary: DateTexts) -> list[str]:
    """Read off the second sentence of each text, with a space between two tokens.

    Args:
        tokens: (n, T), the texts after they were filled.
        texts: as they were, whose segments say where the second sentence is.
        vocabulary: of the tokens.
    """
    second = (texts.segments == 1) & (texts.tokens > END)
    rows = zip(tokens.tolist(), second.tolist(), strict=True)
    return [" ".join(vocabulary.symbols[token] for token, here in zip(*row, strict=True) if here) for row in rows]


def share_of_dates(sentences: Sequence[str], pairs: Sequence[DatePair]) -> float:
    """Measure how many sentences are the day of their pair, correctly written in one of the languages, with any weekday."""
    right = [_any_weekday(text) in _writings(pair.day) for text, pair in zip(sentences, pairs, strict=True)]
    return sum(right) / len(right)


def _any_weekday(text: str) -> str:
    return " ".join("weekday" if word in _weekdays() else word for word in text.split())


def _writings(day: datetime.date) -> set[str]:
    dates = optional_import("babel.dates", "babel", "Dates of many countries")
    written = (dates.format_date(day, form, locale=language) for form in ("long", "full") for language in LANGUAGES)
    return {_any_weekday(" ".join(re.findall(r"\w+|[^\w\s]", text))) for text in written}


@cache
def _weekdays() -> frozenset[str]:
    dates = optional_import("babel.dates", "babel", "Dates of many countries")
    return frozenset(name for language in LANGUAGES for name in dates.get_day_names("wide", locale=language).values())


@torch.no_grad()
def print_steps(
    model: PretrainingBERT, texts: DateTexts, first: str, second: str | None, fill: Callable[[Tensor, Tensor, int], Tensor]
) -> None:
    """Print a text with gaps after each step of a function that fills them, such as `fill_surest`.

    Args:
        model: predicts the gaps.
        texts: the vocabulary.
        first: tokens with spaces between, such as "5 . [MASK] 2050".
        second: another sentence, or None.
        fill: (logits, tokens, mask) -> tokens.
    """
    tokens, segments, lengths = (part.to(device()) for part in texts.lay_out([(first, second)]))
    while True:
        print(" ".join(texts.symbols[token] for token in tokens[0].tolist()).replace("[MASK]", "?"))
        if not (tokens == texts.mask).any():
            break
        tokens = fill(model(tokens, segments, lengths).words, tokens, texts.mask)
