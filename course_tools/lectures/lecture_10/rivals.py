"""What removes noise without attention: convolutions with as many parameters, and filters that nothing trains."""

import torch
from scipy.ndimage import median_filter
from torch import Tensor, nn

from course_tools.bank.fixed_filters import best_bilateral_filter, best_twice, bilateral_filter, by_the_best_kernel, twice

__all__ = [
    "best_bilateral_filter",
    "best_twice",
    "bilateral_filter",
    "by_the_best_kernel",
    "convolution",
    "median",
    "separable",
    "stack",
    "twice",
]

PARAMETERS = 1_000
"""About as many as one layer of local attention with 16 features needs, stem and head included."""


def convolution(size: int) -> nn.Module:
    """Make a convolution with as many features as PARAMETERS allow, a ReLU, and a colour of each pixel."""
    width = round(PARAMETERS / (3 * size**2 + 4))
    return nn.Sequential(nn.Conv2d(3, width, size, padding=size // 2), nn.ReLU(), nn.Conv2d(width, 3, 1))


def separable(size: int) -> nn.Module:
    """Make a depth-wise separable convolution between stem and head, as MobileNet has it."""
    width = round((((size**2 + 9) ** 2 + 4 * PARAMETERS) ** 0.5 - size**2 - 9) / 2)
    depth_wise = nn.Conv2d(width, width, size, padding=size // 2, groups=width), nn.Conv2d(width, width, 1)
    return nn.Sequential(nn.Conv2d(3, width, 1), nn.ReLU(), *depth_wise, nn.ReLU(), nn.Conv2d(width, 3, 1))


def stack(size: int, width: int | None = None) -> nn.Module:
    """Make convolutions of 3 × 3 that together see a window of this size; the width follows from PARAMETERS if it is None."""
    n_layers = size // 2
    if width is None:
        width = min(range(1, 99), key=lambda w: abs(31 * w + (n_layers - 1) * (9 * w + 1) * w + 3 - PARAMETERS))
    layers = [module for d in (3, *[width] * (n_layers - 1)) for module in (nn.Conv2d(d, width, 3, padding=1), nn.ReLU())]
    return nn.Sequential(*layers, nn.Conv2d(width, 3, 1))


def median(images: Tensor, size: int) -> Tensor:
    """Take the median of each channel in each window."""
    return torch.from_numpy(median_filter(images.cpu().numpy(), (1, 1, size, size), mode="nearest")).to(images)
