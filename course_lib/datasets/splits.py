"""Split a data set into train, valid and test without overlap; pairs of texts; distinct random rows."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import torch

from course_lib.shapes import Tokens

__all__ = ["Pair", "Splits", "split"]

Examples = TypeVar("Examples")
Item = TypeVar("Item")


class Pair(NamedTuple):
    """A source text and its target text."""

    source: str
    target: str


@dataclass(frozen=True)
class Splits(Generic[Examples]):
    """Three parts of one data set: for training, for validation, and for the final test."""

    train: Examples
    valid: Examples
    test: Examples


def split(items: Iterable[Item], n_train: int, n_valid: int, n_test: int, seed: int) -> Splits[tuple[Item, ...]]:
    """Draw three parts from `items`, each item at most once over all of them.

    Args:
        items: hashable things to draw from; one that occurs twice counts once.
        n_train: size of the training part.
        n_valid: size of the validation part.
        n_test: size of the test part.
        seed: of the random draw; the order of `items` matters too, so a set should be sorted first.

    Returns:
        Splits of tuples with no item in common.

    Raises:
        ValueError: a size is negative, or there are too few different items.
    """
    if min(n_train, n_valid, n_test) < 0:
        raise ValueError(f"sizes must not be negative, got {n_train}, {n_valid} and {n_test}.")
    different = list(dict.fromkeys(items))
    wanted = n_train + n_valid + n_test
    if wanted > len(different):
        raise ValueError(
            f"{n_train} + {n_valid} + {n_test} = {wanted} items requested, but there are only {len(different)} different ones, "
            "and none may be in two parts."
        )
    drawn = random.Random(seed).sample(different, wanted)
    return Splits(
        train=tuple(drawn[:n_train]),
        valid=tuple(drawn[n_train : n_train + n_valid]),
        test=tuple(drawn[n_train + n_valid :]),
    )


def distinct_rows(draw: Callable[[int, torch.Generator], Tokens], n: int, *, of: int, seed: int) -> Tokens:
    """Draw until there are n different rows.

    Args:
        draw: returns the given number of random rows, (number, T), from a generator.
        n: number of rows.
        of: number of different rows that exist.
        seed: seed of the random draw.

    Returns:
        (n, T), in the order in which they were drawn.

    Raises:
        ValueError: n is less than 1 or greater than `of`.
    """
    if not 1 <= n <= of:
        raise ValueError(f"{n} different sequences requested; with these sizes there are 1 to {of}.")
    generator = torch.Generator().manual_seed(seed)
    rows: dict[tuple[int, ...], None] = {}
    while len(rows) < n:
        rows.update(dict.fromkeys(map(tuple, draw(n, generator).tolist())))
    return torch.tensor(list(rows)[:n])
