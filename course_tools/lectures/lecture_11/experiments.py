"""Rivals of `interpolate_positions`: other positions of a Vision Transformer for larger images.

Each function takes positions (1 + H · W, d_model), that of the class token first, and the rows and columns of the old grid of
patches, H and W, and of the new one. It returns (1 + H_new · W_new, d_model); the position of the class token is unchanged.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def repeated_positions(positions: Tensor, H: int, W: int, H_new: int, W_new: int) -> Tensor:
    """Repeat the positions of the patches, row by row, until there are enough: most are then in the wrong place."""
    n, n_new = H * W, H_new * W_new
    return torch.cat([positions[:1], positions[1:].repeat(-(-n_new // n), 1)[:n_new]])


def nearest_positions(positions: Tensor, H: int, W: int, H_new: int, W_new: int) -> Tensor:
    """Give each patch of the new grid the position of the nearest patch of the old one."""
    grid = positions[1:].unflatten(0, (H, W)).permute(2, 0, 1)[None]
    larger = F.interpolate(grid, (H_new, W_new), mode="nearest-exact")[0]
    return torch.cat([positions[:1], larger.flatten(1).T])


def new_positions(positions: Tensor, H: int, W: int, H_new: int, W_new: int, seed: int = 0) -> Tensor:
    """Draw all positions of the new grid at random by the seed, with the standard deviation of the old ones."""
    drawn = torch.randn(H_new * W_new, positions.shape[1], generator=torch.Generator().manual_seed(seed))
    return torch.cat([positions[:1], drawn.to(positions) * positions[1:].std()])
