"""What training added to the weights of token mixing, as maps over the positions of a square image."""

from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_lib.models import Mixer
from course_tools.notebook.show import show
from course_tools.notebook.weight_maps import weight_maps


@torch.no_grad()
def added_maps(trained: nn.Module, initial: nn.Module, read: bool) -> Tensor:
    """Subtract the initial weights of a network over positions from the trained ones.

    Args:
        trained: with linear layers `W_1`, from the N positions, and `W_2`, to them; N is a square.
        initial: the same network before training.
        read: True for the rows of W_1, with which a hidden unit reads the positions; False for the columns of W_2.

    Returns:
        maps (n_hidden, √N, √N).
    """
    last, first = (network.W_1.weight if read else network.W_2.weight.mT for network in (trained, initial))
    side = round(last.shape[1] ** 0.5)
    return (last - first).cpu().view(-1, side, side)


def correlation_at(maps: Tensor, distance: int) -> float:
    """Correlate the weights of two positions `distance` apart in a row or a column, after subtracting each map's mean."""
    maps = maps - maps.mean((1, 2), keepdim=True)
    sides = [torch.cat([m[:, :, distance:].flatten(), m[:, :, :-distance].flatten()]).view(2, -1) for m in (maps, maps.mT)]
    return torch.corrcoef(torch.cat(sides, dim=1))[0, 1].item()


def uniform_fraction(maps: Tensor) -> float:
    """Compute the fraction of the squared weights that is due to the mean of each map: 1 where all positions are equal."""
    return (maps.mean((1, 2)).square().sum() * maps[0].numel() / maps.square().sum()).item()


def largest_maps(maps: Tensor, n: int = 16) -> Tensor:
    """Return the n maps with the largest norms, the largest first."""
    return maps[maps.flatten(1).norm(dim=1).argsort(descending=True)[:n]]


class AddedWeights(NamedTuple):
    """What training added, mean of the seeds: correlations of input weights in the first block, and fractions that are uniform.

    `near` and `far` are the correlations at distances 1 and 2. `first` is the fraction of the squared input weights of the
    first block that is equal at all positions, `last` that of the output weights of the last block.
    """

    near: float
    far: float
    first: float
    last: float


def show_added(trained: Sequence[Mixer], initial: Sequence[Mixer]) -> AddedWeights:
    """Draw the largest maps that training added to the first Mixer: inputs of the first block, outputs of the last one.

    Args:
        trained: one Mixer for each seed; the positions of its images form a square.
        initial: the same Mixers before training, in the same order.
    """
    pairs = [(end.stack.blocks, start.stack.blocks) for end, start in zip(trained, initial, strict=True)]
    reads = [added_maps(end[0].mixer, start[0].mixer, read=True) for end, start in pairs]
    writes = [added_maps(end[-1].mixer, start[-1].mixer, read=False) for end, start in pairs]
    near, far = (mean(correlation_at(maps, n) for maps in reads) for n in (1, 2))
    first, last = (mean(map(uniform_fraction, maps)) for maps in (reads, writes))
    panels = {"input weights, first block": largest_maps(reads[0]), "output weights, last block": largest_maps(writes[0])}
    side = reads[0].shape[-1]
    show(
        weight_maps(panels, label="added weight"),
        alt=f"The largest changes that training made to the weights of hidden units, first seed, {side} × {side} positions "
        "each: the input weights of the first block and the output weights of the last. Over all hidden units, mean of the "
        f"seeds: in the first, adjacent positions correlate by {near:.2f}, "
        f"positions two apart by {far:.2f}; the mean of a map makes up {100 * first:.0f} % of the squared weights in the first "
        f"and {100 * last:.0f} % in the last.",
    )
    return AddedWeights(near, far, first, last)


@torch.no_grad()
def show_hidden_unit(model: Mixer, block: int, rank: int) -> None:
    """Draw the input weights and the output weights of one hidden unit of token mixing, as maps over the positions.

    Args:
        model: a Mixer; the positions of its images form a square.
        block: its number, from 1.
        rank: of the unit among those of the block, from 1, which has the largest norm of its input weights.
    """
    network = model.stack.blocks[block - 1].mixer
    unit = network.W_1.weight.norm(dim=1).argsort(descending=True)[rank - 1]
    both = torch.stack([network.W_1.weight[unit], network.W_2.weight[:, unit]]).cpu()
    side = round(both.shape[1] ** 0.5)
    row, column = divmod(both[0].abs().argmax().item(), side)
    maps = both.view(2, 1, side, side)
    show(
        weight_maps({"input weights": maps[0], "output weights": maps[1]}),
        alt=f"Block {block}, hidden unit of rank {rank}: its input weight of largest absolute value is at row {row + 1}, "
        f"column {column + 1}; "
        f"its input and output weights correlate by {torch.corrcoef(both)[0, 1].item():.2f}.",
    )
