"""Add two numbers by a model of columns, sums whose carry travels far, and figures of the weights of the steps."""

from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.datasets import Sums
from course_lib.primitives import halting_distribution
from course_tools.notebook.device import device
from course_tools.notebook.plots import attention_map
from course_tools.notebook.show import show

Adds = Callable[[Tensor, Tensor], tuple[Tensor, ...]]
"""`model(columns (B, T), mask (T, T))` returns two logits for each digit (B, T, 2), the halting values (B, T, n_steps)."""


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
    logits, h, *_ = model(pairs, mask)
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


def far_sums(distance: int, n: int, T: int, device: torch.device | str, seed: int = 0) -> Sums:
    """Draw sums in which one carry, or its absence, travels just so many columns; all other columns are 0 + 0 or 1 + 1.

    Args:
        distance: of the column that decides from the one that receives.
        n: how many sums.
        T: columns, at least two more than `distance`; the first and the last are 0 + 0.
        device: of the sums.
        seed: of the draw.
    """
    draw = torch.Generator().manual_seed(1_000 * seed + distance)
    columns = 3 * torch.randint(2, (n, T), generator=draw)
    lowest = torch.randint(1, T - distance, (n, 1), generator=draw)
    passing = torch.randint(1, 3, (n, distance - 1), generator=draw)  # 0 + 1 or 1 + 0
    columns.scatter_(1, lowest + torch.arange(1, distance), passing)
    columns[:, [0, -1]] = 0  # an empty column below, and room for the last carry
    return _added(columns, device)


def long_carries(n: int, n_digits: int, T: int, device: torch.device | str, seed: int = 0) -> Sums:
    """Draw sums at a random offset in which four of five columns pass a carry on, so that carries travel far.

    Args:
        n: how many sums.
        n_digits: of either number.
        T: columns, more than digits.
        device: of the sums.
        seed: of the draw.
    """
    draw = torch.Generator().manual_seed(seed)
    passing, deciding = (torch.randint(*kinds, (n, n_digits), generator=draw) for kinds in ((1, 3), (0, 2)))
    drawn = torch.where(torch.rand(n, n_digits, generator=draw) < 0.8, passing, 3 * deciding)
    places = torch.randint(T - n_digits, (n, 1), generator=draw) + torch.arange(n_digits)
    return _added(torch.zeros(n, T, dtype=torch.long).scatter_(1, places, drawn), device)


def _added(columns: Tensor, device: torch.device | str) -> Sums:
    """Add column by column; a column that passes a carry on takes it one column farther."""
    places = 2 ** torch.arange(columns.shape[1])
    digits = ((columns // 2 + columns % 2) * places).sum(1, keepdim=True) // places % 2
    walks = torch.zeros_like(columns)
    for t in range(1, columns.shape[1]):
        walks[:, t] = torch.where((columns[:, t - 1] == 1) | (columns[:, t - 1] == 2), walks[:, t - 1] + 1, 1)
    return Sums(columns.to(device), digits.to(device), walks.to(device))


def show_budgets(*halting_values: list[float]) -> None:
    """Draw for each position a bar of length 1, which its steps fill with their weights from left to right."""
    import seaborn as sns

    weights = halting_distribution(torch.tensor(halting_values))
    figure = Figure(figsize=(5.0, 0.5 + 0.5 * len(weights)), layout="constrained")
    ax, colors = figure.subplots(), sns.color_palette("colorblind")
    for row, (p, h) in enumerate(zip(weights.tolist(), halting_values, strict=True)):
        for step, weight in enumerate(p):
            if weight > 0:
                left = sum(p[:step])
                ax.barh(row, weight, left=left, color=colors[step], edgecolor="white", height=0.7)
                if weight > 0.1:
                    told = f"h = {h[step]:g}" if abs(h[step] - weight) < 0.01 else f"rest {weight:.1f} of h = {h[step]:g}"
                    ax.text(left + weight / 2, row, f"step {step + 1}\n{told}", ha="center", va="center", fontsize=7)
    ax.set(xlim=(0, 1), xlabel="budget", yticks=[])
    ax.invert_yaxis()
    sns.despine(ax=ax, left=True)
    each = "; ".join(", ".join(f"{weight:.3g}" for weight in p if weight > 0) for p in weights.tolist())
    show(figure, alt=f"Budgets of 1, filled step by step with the weights {each}.")
