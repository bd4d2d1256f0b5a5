"""Positions of a Vision Transformer for larger images, for comparison with interpolated ones: of the nearest patch, or new."""

import torch
import torch.nn.functional as F
from torch import Tensor


def nearest_positions(positions: Tensor, H: int, W: int, H_new: int, W_new: int) -> Tensor:
    """Give each patch of a larger grid the position of the nearest patch of the old grid.

    Args:
        positions: (1 + H · W, d_model); that of the class token stays first.
        H: rows of the grid.
        W: columns of the grid.
        H_new: rows of the new grid.
        W_new: columns of the new grid.
    """
    grid = positions[1:].unflatten(0, (H, W)).permute(2, 0, 1)[None]
    larger = F.interpolate(grid, (H_new, W_new), mode="nearest-exact")[0]
    return torch.cat([positions[:1], larger.flatten(1).T])


def new_positions(positions: Tensor, H: int, W: int, H_new: int, W_new: int, seed: int = 0) -> Tensor:
    """Draw new positions for all patches of a larger grid at random, with the standard deviation of the old ones.

    Args:
        positions: (1 + H · W, d_model); that of the class token stays first.
        H: rows of the grid.
        W: columns of the grid.
        H_new: rows of the new grid.
        W_new: columns of the new grid.
        seed: determines them.
    """
    old = positions[-H * W :]
    drawn = torch.randn(H_new * W_new, old.shape[1], generator=torch.Generator().manual_seed(seed))
    return torch.cat([positions[:1], drawn.to(old) * old.std()])
