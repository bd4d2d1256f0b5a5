"""Filters without a network: the kernel with the least squared error, and the bilateral filter, whose widths are chosen.

Tomasi and Manduchi 1998, *Bilateral Filtering for Gray and Color Images* (https://doi.org/10.1109/ICCV.1998.710815).
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def bilateral_filter(images: Tensor, size: int, near: float, alike: float, itself: bool = True) -> Tensor:
    """Average each window with weights that fall with the distance and with the difference in colour.

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


def by_the_best_kernel(noisy: Tensor, clean: Tensor, asked: Tensor, size: int) -> Tensor:
    """Restore images by the kernel, from all channels to each, that has the least squared error on known ones.

    Args:
        noisy: known images with noise, (n, 3, H, W).
        clean: the same without noise.
        asked: the images to restore, (B, 3, H, W).
        size: side of the kernel.
    """

    def windows(images: Tensor) -> Tensor:
        rows = F.unfold(images, size, padding=size // 2).mT.flatten(0, 1)
        return torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)

    x, y = windows(noisy), clean.flatten(2).mT.flatten(0, 1)
    kernel = torch.linalg.solve(x.mT @ x, x.mT @ y)
    return (windows(asked) @ kernel).unflatten(0, (len(asked), -1)).mT.reshape(asked.shape)
