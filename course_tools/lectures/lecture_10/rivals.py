"""What removes noise without attention: convolutions with as many parameters, and filters that nothing trains."""

import torch
import torch.nn.functional as F
from scipy.ndimage import median_filter
from torch import Tensor, nn

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


def bilateral_filter(images: Tensor, size: int, near: float, alike: float, itself: bool = True) -> Tensor:
    """Average each window with weights that fall with the distance and with the difference in colour.

    Tomasi and Manduchi 1998, *Bilateral Filtering for Gray and Color Images*, with Gaussians.

    Args:
        images: (B, 3, H, W).
        size: side of the window.
        near: standard deviation of the Gaussian of distances, in pixels.
        alike: standard deviation of the Gaussian of colours.
        itself: whether the average includes the pixel in the middle.
    """
    outside = 1e3  # so unlike every colour that its weight is 0
    windows = F.unfold(F.pad(images, (size // 2,) * 4, value=outside), size).unflatten(1, (3, size**2))  # (B, 3, size², H · W)
    offsets = torch.cartesian_prod(*2 * [torch.arange(size) - size // 2]).square().sum(1).to(images)
    differences = (windows - images.flatten(2).unsqueeze(2)).square().sum(1)
    scores = -offsets[:, None] / (2 * near**2) - differences / (2 * alike**2)
    if not itself:
        scores[:, size**2 // 2] = -torch.inf
    return (windows * scores.softmax(1).unsqueeze(1)).sum(2).view_as(images)


def best_bilateral_filter(noisy: Tensor, clean: Tensor, size: int, itself: bool = True) -> tuple[float, float]:
    """Return the standard deviations (near, alike) of the bilateral filter with the least squared error."""
    tried = [(near, alike) for near in (1.0, 1.5, 2.0, 3.0) for alike in (0.3, 0.4, 0.5, 0.6, 0.7, 0.85)]
    return min(tried, key=lambda widths: F.mse_loss(bilateral_filter(noisy, size, *widths, itself), clean).item())


def twice(images: Tensor, size: int, first: tuple[float, float], second: tuple[float, float]) -> Tensor:
    """Filter the filtered images again: the second pass compares smoothed colours. Neither includes the pixel itself.

    Args:
        images: (B, 3, H, W).
        size: side of the window of one pass; both together see 2 · size - 1.
        first: standard deviations (near, alike) of the first pass.
        second: those of the second.
    """
    return bilateral_filter(bilateral_filter(images, size, *first, itself=False), size, *second, itself=False)


def best_twice(noisy: Tensor, clean: Tensor, size: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the widths of `twice`: of the first pass the best alone, of the second the best after it."""
    first = best_bilateral_filter(noisy, clean, size, itself=False)
    once = bilateral_filter(noisy, size, *first, itself=False)
    tried = [(near, alike) for near in (1.0, 1.5, 2.0, 3.0) for alike in (0.1, 0.15, 0.2, 0.3, 0.4)]
    second = min(tried, key=lambda widths: F.mse_loss(bilateral_filter(once, size, *widths, itself=False), clean).item())
    return first, second


def median(images: Tensor, size: int) -> Tensor:
    """Take the median of each channel in each window."""
    return torch.from_numpy(median_filter(images.cpu().numpy(), (1, 1, size, size), mode="nearest")).to(images)
