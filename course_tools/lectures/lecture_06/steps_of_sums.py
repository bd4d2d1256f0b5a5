"""Add two numbers by a model of columns, and draw the weight of each step in each column."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.primitives import halting_distribution
from course_tools.notebook.device import device
from course_tools.notebook.plots import attention_map
from course_tools.notebook.show import show

Adds = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""`model(columns (B, T), mask (T, T))` returns two logits for each digit (B, T, 2), and the halting values (B, T, n_steps)."""


@torch.no_grad()
def add(model: Adds, a: int, b: int, mask: Tensor, n_columns: int = 12) -> tuple[int, Tensor, list[str]]:
    """Add two numbers by a model.

    Args:
        model: adds columns, the lowest first.
        a: the first number, below 2 to the power of T.
        b: the second.
        mask: (T, T), bool; True = may attend.
        n_columns: how many columns to describe, the lowest first.

    Returns:
        the model's sum, the weights (n_columns, n_steps) of the steps in each column, and the columns, such as "1+0",
        or "1+0, carry" if it receives one.
    """
    pairs = torch.tensor([[2 * (a >> t & 1) + (b >> t & 1) for t in range(len(mask))]], device=device())
    logits, h = model(pairs, mask)
    total = sum(bit << t for t, bit in enumerate(logits[0].argmax(-1).tolist()))
    carries = a ^ b ^ (a + b)
    columns = [f"{a >> t & 1}+{b >> t & 1}" + ", carry" * (carries >> t & 1) for t in range(min(n_columns, len(mask)))]
    return total, halting_distribution(h)[0, :n_columns].cpu(), columns


def show_steps(model: Adds, a: int, b: int, mask: Tensor) -> None:
    """Show the weights of the steps in each column of a sum, a row for each column."""
    total, weights, columns = add(model, a, b, mask)
    figure = attention_map(
        weights, columns, [str(step) for step in range(1, weights.shape[1] + 1)], x="step", y="column, lowest first"
    )
    figure.axes[-1].set_ylabel("weight of the step")
    taken = ", ".join(map(str, (weights > 0).sum(-1).tolist()))
    show(figure, alt=f"{a} + {b}, answered by {total}: weights of the steps, column by column. Last step taken: {taken}.")
