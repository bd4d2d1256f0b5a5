"""Binary addition: a column of the sum can depend on a column far away, through the carry.

The task on which Dehghani et al. 2019, section 4.2 (https://arxiv.org/abs/1807.03819), test whether a model trained on short
numbers adds longer ones. As there, the numbers begin at a random position: a test has no new positions, only a new length.

    s_t = a_t ⊕ b_t ⊕ c_t        c_{t+1} = 1 where at least two of a_t, b_t, c_t are 1
"""

from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.datasets.splits import Splits, distinct_rows
from course_lib.shapes import Tokens

__all__ = ["Sums", "sums"]


class Sums(NamedTuple):
    """Sums in columns, the lowest digit first.

    `columns` (B, T) = 2a + b in 0…3, `digits` (B, T) of the sum, and `walks` (B, T): the number of columns through
    which the incoming carry may have propagated; 0 in the first column, and 1 if the previous column alone determines it.
    """

    columns: Tokens
    digits: Tokens
    walks: Tokens


def sums(n_train: int, n_valid: int, n_test: int, *, n_digits: int = 10, T: int = 21, seed: int = 0) -> Splits[Sums]:
    """Draw pairs of numbers, each pair at a random offset, and add each pair, digit by digit.

    Args:
        n_train: sums for training.
        n_valid: sums for validation.
        n_test: sums for testing; no row of columns is in two parts, but the same numbers may be, at different offsets.
        n_digits: binary digits of either number, the highest of which may be 0.
        T: columns; the numbers are shifted to the left by 0 … T - n_digits - 1 of them, so that there is always room for the
            carry.
        seed: seed of the random draw.

    Returns:
        Splits of Sums; columns outside the numbers are 0.

    Raises:
        ValueError: there is no digit, no room for the last carry, or there are fewer different sums than requested.
    """
    if not 1 <= n_digits < T:
        raise ValueError(f"need at least one digit and a column more than digits, got n_digits={n_digits} and T={T}.")

    def draw(n: int, generator: torch.Generator) -> Tokens:
        columns = torch.randint(4, (n, n_digits), generator=generator)
        places = torch.randint(T - n_digits, (n, 1), generator=generator) + torch.arange(n_digits)
        return torch.zeros(n, T, dtype=torch.long).scatter_(1, places, columns)

    sizes = [n_train, n_valid, n_test]
    rows = distinct_rows(draw, sum(sizes), of=_n_rows(n_digits, T), seed=seed)
    return Splits(*(Sums(part, *_add(part)) for part in rows.split(sizes)))


def _n_rows(n_digits: int, T: int) -> int:
    """Count the different rows: all zeros, or at most n_digits columns from the lowest non-zero column to the highest."""
    spans = (((T - span) * 9 * 4 ** (span - 2)) for span in range(2, n_digits + 1))
    return 1 + (T - 1) * 3 + sum(spans)


def _add(columns: Tokens) -> tuple[Tokens, Tokens]:
    """Add column by column, from the lowest; count how far each carry may have propagated."""
    carry, walk = torch.zeros_like(columns[:, 0]), torch.zeros_like(columns[:, 0])
    digits: list[Tensor] = []
    walks: list[Tensor] = []
    for column in columns.unbind(1):
        a, b = column // 2, column % 2
        digits.append((a + b + carry) % 2)
        walks.append(walk)
        carry = (a + b + carry) // 2
        walk = torch.where(a == b, 1, walk + 1)
    return torch.stack(digits, dim=1), torch.stack(walks, dim=1)
