"""What training added to the weights of token mixing, as maps over the positions of a square image: for lecture 13."""

import torch
from torch import Tensor, nn


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
