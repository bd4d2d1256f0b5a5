"""Texts that each follow their own order: the next symbol can be learned only from the text itself, never from other texts.

The simplest task that asks for induction, "what followed this symbol the last time?" (Elhage et al. 2021, *A Mathematical
Framework for Transformer Circuits*, https://transformer-circuits.pub/2021/framework; Olsson et al. 2022,
https://arxiv.org/abs/2209.11895). Each text has a secret circular order of the symbols. A walk takes the next symbol of that
order or, now and then, jumps to any symbol.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from course_lib.datasets.splits import Splits, distinct_rows
from course_lib.shapes import Tokens

__all__ = ["secret_orders", "walks"]

Orders = Int[Tensor, "n n_symbols"]


class Walks(NamedTuple):
    """Texts (B, T), and `told` (B, T): True where the text has already shown which symbol follows, and it follows again."""

    tokens: Tokens
    told: Bool[Tensor, "B T"]


def secret_orders(n_train: int, n_valid: int, n_test: int, n_symbols: int = 8, seed: int = 0) -> Splits[Orders]:
    """Draw different circular orders of the symbols 0 … n_symbols - 1, each written from symbol 0.

    Args:
        n_train: orders for training.
        n_valid: orders for validation.
        n_test: orders for testing; no order is in two parts.
        n_symbols: how many symbols; there are (n_symbols - 1)! orders.
        seed: seed of the random draw.

    Returns:
        Splits of (n, n_symbols); the first symbol of a row follows the last.

    Raises:
        ValueError: there are fewer different orders than requested.
    """

    def draw(n: int, generator: torch.Generator) -> Tokens:
        rest = 1 + torch.rand(n, n_symbols - 1, generator=generator).argsort(-1)
        return torch.cat([torch.zeros(n, 1, dtype=torch.long), rest], dim=1)

    n_orders = int(torch.arange(1, n_symbols).prod()) if n_symbols < 16 else 10**12
    sizes = [n_train, n_valid, n_test]
    return Splits(*distinct_rows(draw, sum(sizes), of=n_orders, seed=seed).split(sizes))


def successors(orders: Orders) -> Orders:
    """Compute the successors: successors[i, s] follows symbol s in orders[i]."""
    return torch.empty_like(orders).scatter_(1, orders, orders.roll(-1, 1))


def walks(orders: Orders, n: int, T: int = 32, jumps: tuple[float, float] = (0.1, 0.6), seed: int = 0) -> Walks:
    """Write texts, each along one of the orders.

    Args:
        orders: (n_orders, n_symbols).
        n: texts to write.
        T: length of a text.
        jumps: how often a text jumps; each text has its own rate between these two.
        seed: seed of the random draw.

    Returns:
        Walks(tokens (n, T), told (n, T)), on the device of the orders; they are drawn on the CPU.
    """
    generator, device = torch.Generator().manual_seed(seed), orders.device
    follows = successors(orders)[torch.randint(len(orders), (n,), generator=generator).to(device)]
    rate = jumps[0] + (jumps[1] - jumps[0]) * torch.rand(n, 1, generator=generator)
    jumped = (torch.rand(n, T, generator=generator) < rate).to(device)
    tokens = torch.randint(orders.shape[1], (n, T), generator=generator).to(device)
    told = torch.zeros(n, T, dtype=torch.bool, device=device)
    shown, row = torch.zeros_like(follows, dtype=torch.bool), torch.arange(n, device=device)
    for t in range(1, T):
        last = tokens[:, t - 1]
        tokens[:, t] = torch.where(jumped[:, t], tokens[:, t], follows[row, last])
        right = tokens[:, t] == follows[row, last]
        told[:, t] = shown[row, last] & right
        shown[row, last] |= right
    return Walks(tokens, told)
