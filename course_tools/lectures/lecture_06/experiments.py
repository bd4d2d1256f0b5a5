"""Add binary numbers with an encoder of repeated steps: block, training, exact match, steps taken."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib.attention import MultiHead
from course_lib.blocks import Block, FeedForward, SelfAttention
from course_lib.datasets import Sums
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.models import Universal, UniversalOutput
from course_lib.shapes import Mask
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted
from course_tools.notebook.plots import attention_map


def block(d_model: int = 32) -> Block:
    """Create an untrained encoder block with four heads, whose projections have no bias."""
    attention = MultiHead(d_model, 4, fused_scaled_dot_product_attention, bias=False)
    return Block(SelfAttention(attention), FeedForward(d_model, 2 * d_model), d_model)


def _block_weights(block: Block) -> dict[str, Any]:
    """Return the weights of a block as `shared_encoder` takes them: `attention`, `network`, `norms` and `n_heads`."""
    heads, network = block.mixer.attention, block.feed_forward
    return {
        "attention": tuple(getattr(heads, f"W_{name}").weight for name in "qkvo"),
        "network": (*network.W_1.parameters(), *network.W_2.parameters()),
        "norms": tuple((norm.weight, norm.bias) for norm in (block.norm_1, block.norm_2)),
        "n_heads": heads.n_heads,
    }


class EncoderSteps(nn.Module):
    """A fixed number of steps of one block, taken by a function with the arguments of `shared_encoder`; for `Universal`."""

    def __init__(self, block: Block, n_steps: int, encoder: Callable[..., Tensor]) -> None:
        """Create the steps from a block, their number, which may be changed at any time, and the function."""
        super().__init__()
        self.block, self.n_steps, self.encoder = block, n_steps, encoder

    def forward(self, x: Tensor, mask: Mask | None = None) -> UniversalOutput:
        """Apply the steps to x (B, T, d_model); each costs 1."""
        states = self.encoder(x, **_block_weights(self.block), n_steps=self.n_steps, mask=mask)
        last = F.one_hot(torch.tensor(self.n_steps - 1, device=x.device), self.n_steps).to(x)
        return UniversalOutput(states, last.expand(*x.shape[:-1], -1), x.new_full(x.shape[:-1], self.n_steps))


def adder(make_steps: Callable[[], nn.Module], seed: int) -> Universal:
    """Create a model that adds: `make_steps()` creates the steps of its states (B, T, 32); the seed determines all weights."""
    torch.manual_seed(seed)
    return Universal(4, 2, 32, make_steps()).to(device())


def fit_adder(
    model: Universal, known: Sums, mask: Tensor, seed: int, steps: int, lr: float = 5e-3, price: float = 0.0
) -> Universal:
    """Train a model in place on sums, 16 at a time.

    Args:
        model: an `adder`.
        known: the sums.
        mask: (T, T), bool; True = may attend.
        seed: determines the order of the batches.
        steps: number of updates.
        lr: the maximum learning rate.
        price: the loss is the cross-entropy of the digits, in nats, plus price times the mean ponder cost.

    Returns:
        the model, in evaluation mode.
    """

    def loss(model: Universal, batch: tuple[Tensor, Tensor]) -> Tensor:
        logits, pondered = model(batch[0], mask=mask)
        return F.cross_entropy(logits.mT, batch[1]) + price * pondered.cost.mean()

    stream = batches(*(part.to(device()) for part in (known.columns, known.digits)), batch_size=16, seed=seed)
    label = f"{type(model.steps).__name__}, seed {seed}"
    return fitted(model, stream, loss, steps=steps, lr=lr, label=label, warmup=steps // 4)


@torch.no_grad()
def exact(model: Universal, part: Sums, mask: Tensor) -> float:
    """Measure the fraction of sums that are right in every digit."""
    logits, _ = model(part.columns.to(device()), mask=mask)
    return (logits.argmax(-1).cpu() == part.digits).all(-1).float().mean().item()


@torch.no_grad()
def accuracy_by_carry(model: Universal, part: Sums, mask: Tensor) -> tuple[float, float]:
    """Measure the accuracy of digits where the two nearest lower columns that decide a carry agree, and where they differ.

    The columns 1 + 1 and 0 + 0 decide: a carry leaves the first and not the second. Below the lowest column there is no carry.
    Columns below the first digit that is not 0, and those above the last and its carry, are left out: there is nothing to add.
    """
    right = model(part.columns.to(device()), mask=mask)[0].argmax(-1).cpu() == part.digits
    columns = F.pad(part.columns, (1, 0))
    here = torch.arange(columns.shape[1]).expand_as(columns)
    deciding = torch.where((columns == 0) | (columns == 3), here, 0).cummax(dim=1).values
    nearest = deciding[:, :-1]
    second = deciding.gather(1, (nearest - 1).clamp(min=0))
    agree = columns.gather(1, nearest) == columns.gather(1, second)
    used = (part.columns > 0).long()
    begun, goes_on = used.cummax(dim=1).values, used.flip(1).cummax(dim=1).values.flip(1)
    added = (begun * F.pad(goes_on, (1, 0), value=1)[:, :-1]).bool()
    return tuple(right[added & where].float().mean().item() for where in (agree, ~agree))


@torch.no_grad()
def steps_taken(model: Universal, part: Sums, mask: Tensor) -> Tensor:
    """Count the steps (n, T) that each column of each sum takes."""
    _, pondered = model(part.columns.to(device()), mask=mask)
    return (pondered.halting > 0).sum(-1).cpu()


@torch.no_grad()
def add(model: Universal, a: int, b: int, mask: Tensor, n_columns: int = 12) -> tuple[int, Tensor, list[str]]:
    """Add two numbers by a model.

    Args:
        model: an `adder`.
        a: the first number, below 2 to the power of T.
        b: the second.
        mask: (T, T), bool; True = may attend.
        n_columns: how many columns to describe, the lowest first.

    Returns:
        the model's sum, the weights (n_columns, n_steps) of the steps in each column, and the columns, such as "1+0".
    """
    pairs = torch.tensor([[2 * (a >> t & 1) + (b >> t & 1) for t in range(len(mask))]], device=device())
    logits, pondered = model(pairs, mask=mask)
    total = sum(bit << t for t, bit in enumerate(logits[0].argmax(-1).tolist()))
    columns = [f"{pair // 2}+{pair % 2}" for pair in pairs[0, :n_columns].tolist()]
    return total, pondered.halting[0, :n_columns].cpu(), columns


def step_map(weights: Tensor, columns: list[str]) -> Figure:
    """Draw the weights (n_columns, n_steps) of the steps: a row for each column of a sum."""
    steps = [str(step) for step in range(1, weights.shape[1] + 1)]
    figure = attention_map(weights, columns, steps, x="step", y="column, lowest first")
    figure.axes[-1].set_ylabel("weight of the step")
    return figure
