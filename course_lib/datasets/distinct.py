"""Rows drawn at random, no two the same: what keeps the parts of a generated data set apart."""

from collections.abc import Callable

import torch

from course_lib.shapes import Tokens


def distinct_rows(draw: Callable[[int, torch.Generator], Tokens], n: int, *, of: int, seed: int) -> Tokens:
    """Draw until there are n different rows.

    Args:
        draw: gives a number of random rows, (number, T), from a generator.
        n: rows wanted.
        of: how many different rows there are at all.
        seed: decides the draw.

    Returns:
        (n, T), in the order in which they were drawn.

    Raises:
        ValueError: n is less than 1 or greater than `of`.
    """
    if not 1 <= n <= of:
        raise ValueError(f"{n} different sequences asked for; with these sizes there are 1 to {of}.")
    generator = torch.Generator().manual_seed(seed)
    rows: dict[tuple[int, ...], None] = {}
    while len(rows) < n:
        rows.update(dict.fromkeys(map(tuple, draw(n, generator).tolist())))
    return torch.tensor(list(rows)[:n])
