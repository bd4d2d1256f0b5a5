"""What answers questions about maps without attention: convolutions, a network of all pixels, and the nearest known map."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.blocks import ConvNet
from course_tools.bank.drawn_maps import CELL, GRID, SYMBOLS

SIDE = GRID * CELL


class Dilated(nn.Module):
    """Add to a map of features what a dilated convolution of 3 × 3 finds in it."""

    def __init__(self, width: int, dilation: int) -> None:
        """Set up for `width` features and a distance of `dilation` cells."""
        super().__init__()
        self.norm = nn.BatchNorm2d(width)
        self.look = nn.Conv2d(width, width, 3, padding=dilation, dilation=dilation)
        self.back = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return x (B, width, H, W) plus what was found."""
        return x + self.back(F.relu(self.look(self.norm(x))))


def convolutions() -> nn.Module:
    """Make three convolutions of 3 × 3, the largest value of each feature in the map, and a linear layer."""
    pooled = nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(112, len(SYMBOLS))
    return nn.Sequential(ConvNet(3, (32, 64, 112), (3, 2, 2)), *pooled)


def convolutions_that_see_all(width: int = 52) -> nn.Module:
    """Make convolutions down to one place a cell, two more that see the whole map, and a hidden layer after the pooling."""
    body = ConvNet(3, (32, width, width), (3, 2, 2)), Dilated(width, 1), Dilated(width, 2)
    hidden = nn.Linear(width, width), nn.ReLU(), nn.Linear(width, len(SYMBOLS))
    return nn.Sequential(*body, nn.AdaptiveMaxPool2d(1), nn.Flatten(), *hidden)


class MapSummary(nn.Module):
    """Cells that are compared with a summary of the whole map: the largest value of each feature in it."""

    def __init__(self, width: int = 96) -> None:
        """Set up for `width` features of a cell."""
        super().__init__()
        self.read = nn.Sequential(nn.Conv2d(3, width, CELL, CELL), nn.ReLU(), nn.Conv2d(width, width, 1), nn.ReLU())
        self.compare = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))
        self.head = nn.Linear(width, len(SYMBOLS))

    def forward(self, images: Tensor) -> Tensor:
        """Compute the logits (B, n_symbols) of images (B, 3, 48, 48)."""
        cells = self.read(images).flatten(2).mT  # (B, 16, width)
        summary = cells.amax(1, keepdim=True).expand_as(cells)
        return self.head(self.compare(torch.cat([cells, summary], -1)).amax(1))


def network_of_pixels(hidden: int = 13) -> nn.Module:
    """Make a hidden layer over all pixels, and a linear layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE**2, hidden), nn.GELU(), nn.Linear(hidden, len(SYMBOLS)))


def nearest_known(known: Tensor, answers: Tensor, images: Tensor) -> Tensor:
    """Answer for each image (B, …) as for the known image (N, …) nearest to it in its pixels: (B,)."""
    return answers[torch.cdist(images.flatten(1), known.flatten(1)).argmin(1)]
