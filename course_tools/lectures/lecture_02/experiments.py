"""Controls of a translator: other keys, other last states, no mask; the weight inside the date being converted."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.models.bigru_encoder import Encoded, reverse


class ReversedKeys(nn.Module):
    """An encoder with its keys in reverse order, so that each key stands for the value of another position."""

    def __init__(self, encoder: nn.Module) -> None:
        """Wrap a trained encoder."""
        super().__init__()
        self.encoder = encoder

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        """Encode source (B, T) with these lengths (B,); only real tokens are reversed, padding stays at the end."""
        encoded = self.encoder(source, lengths)
        return encoded._replace(keys=reverse(encoded.keys, lengths))


class OtherLastState(nn.Module):
    """An encoder that gives each sentence the last state of another one of the batch."""

    def __init__(self, encoder: nn.Module) -> None:
        """Wrap a trained encoder."""
        super().__init__()
        self.encoder = encoder

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        """Encode source (B, T) with these lengths (B,); the first sentence gets the last state of the last one."""
        encoded = self.encoder(source, lengths)
        return encoded._replace(final=encoded.final.roll(1, dims=0))


class MeanState(nn.Module):
    """An encoder whose one vector is the mean of all its states, so that each letter is one step away from it."""

    def __init__(self, encoder: nn.Module) -> None:
        """Wrap an encoder."""
        super().__init__()
        self.encoder = encoder

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        """Encode source (B, T) with these lengths (B,); states at padding are 0."""
        encoded = self.encoder(source, lengths)
        return encoded._replace(final=encoded.values.sum(dim=1) / lengths[:, None])


class Unmasked(nn.Module):
    """An encoder whose mask allows every position: padding gets weight as well."""

    def __init__(self, encoder: nn.Module) -> None:
        """Wrap an encoder."""
        super().__init__()
        self.encoder = encoder

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        """Encode source (B, T) with these lengths (B,)."""
        encoded = self.encoder(source, lengths)
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
