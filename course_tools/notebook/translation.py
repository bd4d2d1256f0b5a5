"""Train a translation model on pairs of texts by teacher forcing, translate, count exact matches; dates to ISO 8601."""

from collections.abc import Sequence
from statistics import mean
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from course_lib.datasets import BEGIN, END, PADDING, Vocabulary, dates, joined
from course_lib.generation import greedy
from course_lib.losses import teacher_forced_loss
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted

Model = TypeVar("Model", bound=nn.Module)
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


def logits_of(model: nn.Module, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
    """Return the next-token logits (B, T, n_tokens) of a Transformer, or of a recurrent model, whose result has more parts."""
    given = model(source, lengths, target)
    return given if isinstance(given, Tensor) else given.logits


def fit_pairs(
    model: Model,
    pairs: Sequence[Any],
    words: Vocabularies,
    *,
    seed: int,
    steps: int,
    lr: float,
    loss: Any = teacher_forced_loss,
) -> Model:
    """Train a model on pairs of texts by teacher forcing, in batches of 32, and set it to evaluation mode.

    Args:
        model: `(source, lengths, target)` → logits, such as `Transformer` or `Seq2Seq`.
        pairs: each has a `source` and a `target`.
        words: the two vocabularies.
        seed: determines the order of the batches.
        steps: number of updates.
        lr: the maximum learning rate.
        loss: `(logits, target, padding)` → a scalar, such as your `teacher_forced_loss`.
    """
    source, lengths = words[0].batch([pair.source for pair in pairs])
    target, _ = words[1].batch([pair.target for pair in pairs], begin=True, end=True)

    def of_batch(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        source, lengths, target = batch
        return loss(logits_of(model, source[:, : lengths.max()], lengths, target), target, PADDING)

    stream = batches(*(part.to(device()) for part in (source, lengths, target)), batch_size=32, seed=seed)
    return fitted(model.to(device()), stream, of_batch, steps=steps, lr=lr, label=f"seed {seed}")


@torch.no_grad()
def translations(model: nn.Module, texts: Sequence[str], words: Vocabularies, most: int = 36) -> list[str]:
    """Translate texts by greedy decoding, at most `most` tokens each, with a model that has `start` and `step`."""
    source, lengths = (part.to(device()) for part in words[0].batch(texts))
    first = torch.full_like(lengths, BEGIN)
    output = greedy(model.step, model.start(source, lengths), first, END, PADDING, most)
    return [words[1].decode(row) for row in output.tolist()]


def exact_matches(model: nn.Module, pairs: Sequence[Any], words: Vocabularies, most: int = 36) -> float:
    """Measure the fraction of pairs whose translation is right in every character."""
    return fraction_right(translations(model, [pair.source for pair in pairs], words, most), pairs)


def fraction_right(answers: Sequence[str], pairs: Sequence[Any]) -> float:
    """Measure the fraction of answers that equal the target of their pair in every character."""
    return mean(answer == pair.target for answer, pair in zip(answers, pairs, strict=True))


@torch.no_grad()
def generated(model: nn.Module, texts: Sequence[str], words: Vocabularies) -> list[str]:
    """Translate texts on the CPU with a model that generates where it gets no target: `(source, lengths)` → tokens (B, T)."""
    return [words[1].decode(row) for row in model(*words[0].batch(texts)).tolist()]
