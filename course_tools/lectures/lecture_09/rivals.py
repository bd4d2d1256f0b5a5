"""What paints crowds in place of a non-local block: convolutions, a summary, additive attention, non-local means of pixels."""

import torch
from torch import Tensor, nn

from course_lib.attention import AdditiveAttention
from course_tools.lectures.lecture_09.crowd import CELL, GRID


def patches(n_features: int, hidden: int = 256) -> nn.Module:
    """Make the first layers of every network: hidden features of each cell, then n_features."""
    first = nn.Conv2d(3, hidden, CELL, CELL), nn.BatchNorm2d(hidden), nn.ReLU()
    return nn.Sequential(*first, nn.Conv2d(hidden, n_features, 1), nn.BatchNorm2d(n_features))


def head(n_features: int, hidden: int = 64) -> nn.Module:
    """Make the last layers of every network: a hidden layer and a colour for each cell."""
    return nn.Sequential(nn.Conv2d(n_features, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, 3, 1))


class LookAround(nn.Module):
    """Add to a map of features what a dilated convolution of 3 × 3 finds in it."""

    def __init__(self, width: int, dilation: int) -> None:
        """Set up for `width` features and a distance of `dilation` cells."""
        super().__init__()
        self.norm = nn.BatchNorm2d(width)
        self.look = nn.Conv2d(width, width, 3, padding=dilation, dilation=dilation)
        self.back = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return x (B, width, H, W) plus what was found."""
        return x + self.back(self.look(self.norm(x)).relu())


def dilated(width: int = 64, hidden: int = 256) -> nn.Module:
    """Make convolutions of which every cell sees every other: distances of 1, 2 and 1 cells."""
    around = (LookAround(width, dilation) for dilation in (1, 2, 1))
    return nn.Sequential(patches(width, hidden), *around, head(width))


class Summary(nn.Module):
    """Give every cell the largest value of each feature in the picture, after a hidden layer."""

    def __init__(self, width: int, hidden: int) -> None:
        """Set up for `width` features."""
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return x (B, width, H, W) beside the summary, (B, 2 · width, H, W)."""
        summary = self.layers(x.amax((2, 3)))
        return torch.cat([x, summary[..., None, None].expand_as(x)], 1)


def pooled(width: int = 64) -> nn.Module:
    """Make a network whose cells see a summary of the picture: max pooling and a hidden layer."""
    return nn.Sequential(patches(width), Summary(width, 64), head(2 * width))


class AdditivePainter(nn.Module):
    """The painter with the additive scores of lecture 02, vᵀ tanh(W x_i + U x_j), in place of the product θ·φ."""

    def __init__(self, d: int = 64, d_k: int = 32) -> None:
        """Set up for d features of a cell, and d_k hidden units and values."""
        super().__init__()
        self.patches, self.head = patches(d), head(d)
        self.attention = AdditiveAttention(d, d, d_k)
        self.W_g, self.W_z = nn.Linear(d, d_k, bias=False), nn.Linear(d_k, d, bias=False)
        nn.init.zeros_(self.W_z.weight)

    def forward(self, images: Tensor) -> Tensor:
        """Return the colours (B, 3, 5, 5) of the cells of images (B, 3, 30, 30)."""
        x = self.patches(images)
        cells = x.flatten(2).mT  # (B, 25, d)
        y = self.attention(cells, cells, self.W_g(cells)).context
        return self.head(x + self.W_z(y).mT.unflatten(2, x.shape[2:]))


def by_pixels(images: Tensor, width: float, by_ink: bool = False) -> Tensor:
    """Paint crowds by non-local means: each cell gets a mean of the colours of the others, by the distance of their pixels.

    Args:
        images: (n, 3, 30, 30).
        width: the standard deviation of the Gaussian of the distances.
        by_ink: compare where there is ink, whatever its colour, and copy from coloured cells alone.

    Returns:
        colours (n, 3, 5, 5).
    """
    cells = images.unfold(2, CELL, CELL).unfold(3, CELL, CELL).permute(0, 2, 3, 1, 4, 5).flatten(1, 2)  # (n, 25, 3, 6, 6)
    ink = (cells.amax(2, keepdim=True) > 0).float()
    colours = cells.flatten(3).sum(3) / ink.flatten(2).sum(2, keepdim=True)
    compared = ink.flatten(2) if by_ink else cells.flatten(2)
    scores = -torch.cdist(compared, compared).square() / (2 * width**2)
    scores.diagonal(dim1=1, dim2=2).fill_(-torch.inf)  # a cell does not answer for itself
    if by_ink:
        scores.masked_fill_((colours.std(2) < 1e-4)[:, None], -torch.inf)
    return (scores.softmax(-1) @ colours).mT.unflatten(2, (GRID, GRID))
