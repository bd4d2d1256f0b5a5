"""Recall: which symbol was first? The rest of the sequence only distracts.

After Hochreiter & Schmidhuber 1997, section 5.2, task 2a/2b (https://doi.org/10.1162/neco.1997.9.8.1735): the symbol that
decides the answer is T - 1 steps back, so that a network must carry one symbol over the whole sequence. Chance is 1 /
n_symbols.
"""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from course_lib.datasets.splits import Splits, distinct_rows
from course_lib.shapes import Tokens

__all__ = ["Recall", "recall"]


class Recall(NamedTuple):
    """Sequences (B, T) and the first symbol of each, (B,)."""

    tokens: Tokens
    labels: Int[Tensor, "B"]


def recall(
    n_train: int,
    n_valid: int,
    n_test: int,
    *,
    T: int = 60,
    n_symbols: int = 8,
    n_distractors: int = 8,
    seed: int = 0,
) -> Splits[Recall]:
    """Draw different sequences whose first symbol is the label and whose others are distractors.

    Args:
        n_train: sequences for training.
        n_valid: sequences for validation.
        n_test: sequences for testing; no sequence is in two parts.
        T: length of a sequence, the first symbol included.
        n_symbols: symbols 0 … n_symbols - 1; the first of a sequence is one of them.
        n_distractors: symbols n_symbols … n_symbols + n_distractors - 1, which fill the rest.
        seed: seed of the random draw.

    Returns:
        Splits of Recall(tokens (n, T), labels (n,)).

    Raises:
        ValueError: a size is not positive, or there are fewer different sequences than requested.
    """
    if min(T, n_symbols, n_distractors) < 1:
        raise ValueError(f"T, n_symbols and n_distractors must be positive, got {T}, {n_symbols} and {n_distractors}.")

    def draw(n: int, generator: torch.Generator) -> Tokens:
        first = torch.randint(n_symbols, (n, 1), generator=generator)
        rest = n_symbols + torch.randint(n_distractors, (n, T - 1), generator=generator)
        return torch.cat([first, rest], dim=1)

    sizes = [n_train, n_valid, n_test]
    tokens = distinct_rows(draw, sum(sizes), of=n_symbols * n_distractors ** (T - 1), seed=seed)
    return Splits(*(Recall(part, part[:, 0].clone()) for part in tokens.split(sizes)))
