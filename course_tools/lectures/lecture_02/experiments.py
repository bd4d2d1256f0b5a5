"""Controls of a translator: other keys, other last states, no mask; the weight inside the date being converted."""

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.models.bigru_encoder import Encoded, reverse


class Changed(nn.Module):
    """An encoder of which one thing is changed before the decoder reads it."""

    def __init__(self, encoder: nn.Module, change: Callable[[Encoded, Tensor], Encoded]) -> None:
        """Wrap an encoder; `change(encoded, lengths)` returns what the decoder gets."""
        super().__init__()
        self.encoder = encoder
        self.change = change

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        """Encode source (B, T) with these lengths (B,)."""
        return self.change(self.encoder(source, lengths), lengths)


def keys_reversed(encoded: Encoded, lengths: Tensor) -> Encoded:
    """Let each key stand for the value of another position; only real tokens are reversed, padding stays at the end."""
    return encoded._replace(keys=reverse(encoded.keys, lengths))


def other_last_state(encoded: Encoded, lengths: Tensor) -> Encoded:
    """Give each sentence the last state of its neighbour in the batch."""
    return encoded._replace(final=encoded.final.roll(1, dims=0))


def mean_state(encoded: Encoded, lengths: Tensor) -> Encoded:
    """Pass the mean of all states on as the last one, so that each letter is one step away from it; states at padding are 0."""
    return encoded._replace(final=encoded.values.sum(dim=1) / lengths[:, None])


def unmasked(encoded: Encoded, lengths: Tensor) -> Encoded:
    """Allow every position: padding gets weight as well."""
    return encoded._replace(mask=torch.ones_like(encoded.mask))


def updates_until(score: float, updates: Sequence[int], scores: Sequence[float]) -> int:
    """Return the first number of updates at which a curve reaches this score.

    Raises:
        ValueError: the curve never does.
    """
    for n, reached in zip(updates, scores, strict=True):
        if reached >= score:
            return n
    raise ValueError(f"the curve ends at {max(scores):.2f}, below {score}.")


_DATE = len("1987-03-05")
"""Characters of one date in the answer; a separator stands between two dates."""


def weight_in_own_date(model: Any, pairs: Sequence[Any]) -> float:
    """Measure where a model attends while it writes two dates: the fraction of the weight in the source date that it converts.

    Args:
        model: a `Translator` of the lecture, with attention.
        pairs: sources of two dates, separated by "; "; a pair is left out if its answer does not have the length of two dates.

    Returns:
        the mean over the characters of the answers; uniform weights give about a half.

    Raises:
        ValueError: no answer has the length of two dates.
    """
    texts = [pair.source for pair in pairs]
    answers, weights = model.translate(texts)
    found = []
    for text, rows, answer in zip(texts, weights, answers, strict=True):
        half, second = text.index(";"), _DATE + 1
        if len(answer) == second + _DATE:
            own = rows[:_DATE, :half].sum(1), rows[second : second + _DATE, half : len(text)].sum(1)
            found.append(torch.cat(own).mean().item())
    if not found:
        raise ValueError("no answer has the length of two dates.")
    return mean(found)
