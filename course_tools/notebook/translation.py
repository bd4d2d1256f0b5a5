"""Dates to convert to ISO 8601, the translations of a model that generates, and the fraction that is right."""

from collections.abc import Sequence
from statistics import mean
from typing import Any, NamedTuple

import torch
from torch import nn

from course_lib.datasets import Vocabulary, dates, joined

Vocabularies = tuple[Vocabulary, Vocabulary]
"""The vocabularies of the sources and of the targets."""


class Dates(NamedTuple):
    """Pairs of texts, for training and testing, by the number of dates in a sentence; and their vocabularies."""

    known: dict[int, list]
    new: dict[int, list]
    words: Vocabularies


def date_sentences() -> Dates:
    """Compose 3,000 training sentences with one date, 6,000 with two, and 300 test sentences each with one, two and three."""
    days = dates(4_000, 300, 500, formats=("medium",), seed=0)
    known = {1: joined(days.train, 1, 3_000, seed=1), 2: joined(days.train, 2, 6_000, seed=2)}
    new = {n: joined(days.test, n, 300, seed=9) for n in (1, 2, 3)}
    pairs = known[1] + known[2]
    return Dates(known, new, (Vocabulary.of(pair.source for pair in pairs), Vocabulary.of(pair.target for pair in pairs)))


def fraction_right(answers: Sequence[str], pairs: Sequence[Any]) -> float:
    """Measure the fraction of answers that equal the target of their pair in every character."""
    return mean(answer == pair.target for answer, pair in zip(answers, pairs, strict=True))


@torch.no_grad()
def generated(model: nn.Module, texts: Sequence[str], words: Vocabularies) -> list[str]:
    """Translate texts on the CPU with a model that generates where it gets no target: `(source, lengths)` → tokens (B, T)."""
    return [words[1].decode(row) for row in model(*words[0].batch(texts)).tolist()]
