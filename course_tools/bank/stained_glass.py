"""Stained glass: images of panes of one colour each, drawn at random, without and with noise."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

EVEN, UNEVEN = (0.2, 0.2, 0.2), (0.4, 0.2, 0.05)
"""Standard deviations of the noise in red, green and blue; colours are from 0 to 1."""


def stained_glass(n: int, generator: torch.Generator, side: int = 16, panes: int = 6) -> Tensor:
    """Draw images (n, 3, side, side) in 0…1: each pixel has the colour of the nearest of a few random points."""
    points = side * torch.rand(n, panes, 2, generator=generator)
    colours = torch.rand(n, panes, 3, generator=generator)
    pixels = torch.cartesian_prod(torch.arange(side), torch.arange(side)) + 0.5
    nearest = torch.cdist(pixels.expand(n, -1, -1), points).argmin(-1)  # (n, side²)
    return colours[torch.arange(n)[:, None], nearest].mT.unflatten(-1, (side, side))


def with_noise(clean: Tensor, generator: torch.Generator, strengths: Sequence[float] = EVEN) -> Tensor:
    """Add independent noise to images (n, 3, side, side), of these standard deviations in red, green and blue."""
    return clean + torch.tensor(strengths).view(3, 1, 1) * torch.randn(clean.shape, generator=generator)


def noisy_glass(seed: int, n: int = 8, strengths: Sequence[float] = EVEN) -> Iterator[tuple[Tensor, Tensor]]:
    """Draw batches of n images without end: (noisy, clean), each (n, 3, 16, 16)."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        clean = stained_glass(n, generator)
        yield with_noise(clean, generator, strengths), clean


uneven_glass = partial(noisy_glass, strengths=UNEVEN)
"""Draw batches as `noisy_glass`, with noise that differs between the channels."""


def decibels(restored: Tensor, clean: Tensor) -> float:
    """Measure the peak signal-to-noise ratio, -10 log₁₀ of the mean squared error of an image, averaged over the images."""
    errors = (restored - clean).square().flatten(1).mean(1)
    return -10 * errors.log10().mean().item()
