"""Measure what the decks state about self-attention: scale, shapes, normalisation, memory."""

import math
from typing import NamedTuple

import torch
from torch import nn

from course_lib.attention import scaled_dot_product_attention
from course_tools.notebook.layer_costs import dilated_convolutions, numbers_kept, path_length
from course_tools.notebook.matrix_shapes import conforms


class AttentionStatements(NamedTuple):
    """Measured values, one for each statement.

    Attributes:
        spread_by_values: standard deviation of the scores of keys of size 512, divided by √8 for values of size 8.
        without_bias: whether a linear layer with bias=None has no bias, and one with bias=False.
        matches: whether the shapes of W_k X match, and those of X W_k.
        columns_miss: largest distance from 1 of a sum over a column of weights whose rows sum to 1.
        dilated_layers: number of dilated convolutions of width 3 that join the ends of 65 tokens.
        features_compared: shape of Q Kᵀ for five tokens of size 3 that are stored as columns.
        unequal_match: whether queries of size 3 and keys of size 4 can be multiplied.
        growth: factor by which the numbers that attention over 1,024 tokens keeps grow if d grows from 16 to 64.
    """

    spread_by_values: float
    without_bias: list[bool]
    matches: list[bool]
    columns_miss: float
    dilated_layers: int
    features_compared: tuple[int, ...]
    unequal_match: bool
    growth: float


def deck_statements(seed: int = 0) -> AttentionStatements:
    """Measure the statements of the decks with random matrices; the seed determines them."""
    generator = torch.Generator().manual_seed(seed)
    n, d_key, d_value = 5, 512, 8
    queries, keys = (torch.randn(1_000, d_key, generator=generator) for _ in range(2))
    X, W_k = torch.randn(n, d_key, generator=generator), torch.randn(d_key, 3, generator=generator)
    weights = torch.randn(n, n, generator=generator).softmax(-1)
    as_columns = W_k.mT @ X.mT
    ends = torch.randn(65, 8, dtype=torch.float64, requires_grad=True)

    def kept(d: int) -> int:
        return numbers_kept(scaled_dot_product_attention, *(torch.randn(1_024, d, requires_grad=True) for _ in range(3)))

    return AttentionStatements(
        spread_by_values=(queries @ keys.mT / math.sqrt(d_value)).std().item(),
        without_bias=[nn.Linear(3, 2, bias=bias).bias is None for bias in (None, False)],
        matches=[conforms(W_k, X), conforms(X, W_k)],
        columns_miss=(weights.sum(0) - 1).abs().max().item(),
        dilated_layers=path_length(dilated_convolutions(8), ends),
        features_compared=tuple((as_columns @ as_columns.mT).shape),
        unequal_match=conforms(torch.randn(n, 3), torch.randn(n, 4).mT),
        growth=kept(64) / kept(16),
    )
