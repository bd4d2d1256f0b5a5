"""Look-up: a task whose right attention pattern is known, to compare with a learned one.

Each position holds a key and a value; a query names a key, the answer is its value. The right pattern depends on the content
and differs in every example, as in the associative recall of Graves, Wayne, Danihelka 2014, section 4.3
(https://arxiv.org/abs/1410.5401).
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from course_lib.datasets.splits import Splits, distinct_rows
from course_lib.shapes import Tokens

__all__ = ["lookup"]


class Lookup(NamedTuple):
    """Queries (B, T_q), keys (B, T_k), values (B, T_k), answers (B, T_q), and the right weights (B, T_q, T_k)."""

    queries: Int[Tensor, "B T_q"]
    keys: Int[Tensor, "B T_k"]
    values: Int[Tensor, "B T_k"]
    targets: Int[Tensor, "B T_q"]
    pattern: Float[Tensor, "B T_q T_k"]


def lookup(
    n_train: int,
    n_valid: int,
    n_test: int,
    *,
    T_q: int = 4,
    T_k: int = 8,
    n_keys: int = 16,
    n_values: int = 8,
    seed: int = 0,
) -> Splits[Lookup]:
    """Draw T_k pairs of key and value in random order, and T_q queries for keys among them.

    Args:
        n_train: examples for training.
        n_valid: examples for validation.
        n_test: examples for testing; no example is in two parts.
        T_q: queries of an example.
        T_k: pairs of an example; their keys all differ.
        n_keys: keys 0 … n_keys - 1, at least T_k.
        n_values: values 0 … n_values - 1.
        seed: seed of the random draw.

    Returns:
        Splits of Lookup; the right pattern is 1 at [b, i, j] where query i names key j, and 0 elsewhere.

    Raises:
        ValueError: a size is not positive, n_keys is less than T_k, or there are fewer different examples than requested.
    """
    if min(T_q, T_k, n_values) < 1 or n_keys < T_k:
        raise ValueError(
            f"{T_q} queries, {T_k} pairs, {n_values} values must be positive, and {n_keys} keys at least as many as pairs."
        )

    def draw(n: int, generator: torch.Generator) -> Tokens:
        keys = torch.rand(n, n_keys, generator=generator).argsort(dim=1)[:, :T_k]
        values = torch.randint(n_values, (n, T_k), generator=generator)
        asked = torch.randint(T_k, (n, T_q), generator=generator)
        return torch.cat([keys, values, asked], dim=1)

    sizes = [n_train, n_valid, n_test]
    rows = distinct_rows(draw, sum(sizes), of=math.perm(n_keys, T_k) * n_values**T_k * T_k**T_q, seed=seed)
    return Splits(*(_lookup(*part.split([T_k, T_k, T_q], dim=1)) for part in rows.split(sizes)))


def _lookup(keys: Int[Tensor, "B T_k"], values: Int[Tensor, "B T_k"], asked: Int[Tensor, "B T_q"]) -> Lookup:
    """Complete examples from keys and values (B, T_k) and the positions (B, T_q) of the keys that the queries name."""
    pattern = F.one_hot(asked, keys.shape[1]).float()
    return Lookup(keys.gather(1, asked), keys, values, values.gather(1, asked), pattern)
