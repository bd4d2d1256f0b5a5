"""Translate with the attention weights of each token: draw them as a map, and measure where they lie; for lecture 02."""

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.generation import greedy_translation
from course_tools.notebook.device import device
from course_tools.notebook.plots import attention_map, describe
from course_tools.notebook.show import show
from course_tools.notebook.translation import Vocabularies

_DATE = len("1987-03-05")
"""Characters of one date in the answer; a separator stands between two dates."""


@torch.no_grad()
def aligned(model: nn.Module, texts: Sequence[str], words: Vocabularies, most: int = 36) -> tuple[list[str], Tensor | None]:
    """Translate texts by greedy decoding, at most `most` tokens each.

    Returns:
        the answers, and the attention weights (B, T_q, T_k) on the CPU; None if the model has no attention.
    """
    source, lengths = words[0].batch(texts)
    output = greedy_translation(model, source.to(device()), lengths.to(device()), most)
    weights = None if output.weights is None else output.weights.cpu()
    return [words[1].decode(row) for row in output.tokens.tolist()], weights


def _with_attention(model: nn.Module, texts: Sequence[str], words: Vocabularies) -> tuple[list[str], Tensor]:
    """Translate as `aligned` does; raise ValueError if the model has no attention."""
    answers, weights = aligned(model, texts, words)
    if weights is None:
        raise ValueError("the model has no attention, so there are no weights.")
    return answers, weights


def weight_in_own_date(model: nn.Module, pairs: Sequence[Any], words: Vocabularies) -> float:
    """Measure where a model attends while it writes two dates: the fraction of the weight in the source date that it converts.

    Args:
        model: as `aligned` takes it, with attention.
        pairs: sources of two dates, separated by "; "; a pair is left out if its answer does not have the length of two dates.
        words: the two vocabularies.

    Returns:
        the mean over the characters of the answers; uniform weights give about a half.

    Raises:
        ValueError: the model has no attention, or no answer has the length of two dates.
    """
    texts = [pair.source for pair in pairs]
    answers, weights = _with_attention(model, texts, words)
    found = []
    for text, rows, answer in zip(texts, weights, answers, strict=True):
        half, second = text.index(";"), _DATE + 1
        if len(answer) == second + _DATE:
            own = rows[:_DATE, :half].sum(1), rows[second : second + _DATE, half : len(text)].sum(1)
            found.append(torch.cat(own).mean().item())
    if not found:
        raise ValueError("no answer has the length of two dates.")
    return mean(found)


def show_alignment(
    model: nn.Module,
    text: str,
    words: Vocabularies,
    tokens: Callable[[str], list[str]] = list,
    x: str = "source",
    y: str = "answer",
    note: str = "",
) -> None:
    """Draw the attention weights while a model translates a text: a row for each token of the answer and one for its end.

    Args:
        model: as `aligned` takes it, with attention.
        text: the source.
        words: the two vocabularies.
        tokens: cuts a text into the tokens that the model reads and writes: `list` for characters, `str.split` for words.
        x: what the columns are.
        y: what the rows are.
        note: a sentence for the alternative text; by default the largest weights of the first rows.

    Raises:
        ValueError: the model has no attention.
    """
    (answer,), weights = _with_attention(model, [text], words)
    rows, columns = [*tokens(answer), "end"][: weights.shape[1]], tokens(text)
    weights = weights[0, : len(rows), : len(columns)]
    figure = attention_map(weights, rows, columns, x=x, y=y)
    show(figure, alt=f"Attention map for '{text}', answered by '{answer}'. {note or describe(weights, rows, columns, 9)}")
