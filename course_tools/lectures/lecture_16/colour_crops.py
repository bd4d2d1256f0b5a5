"""Cut crops out of photographs, count their colour histograms, and match the crops of one image by them."""

import math

import torch
from einops import rearrange
from torch import Tensor

from course_lib.datasets import colour_matrix, photographs, recolour
from course_tools.lectures.lecture_16.experiments import nearest_neighbour_accuracy


def random_crops(photos: Tensor, n_each: int, side: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Cut squares out of photographs (n, 3, H, W) at random places.

    Args:
        photos: at least `side` high and wide.
        n_each: crops of each photograph.
        side: of a crop, in pixels.
        generator: determines the places.

    Returns:
        crops (n · n_each, 3, side, side), and the photograph of each, (n · n_each,).
    """
    room = torch.tensor(photos.shape[-2:]) - side + 1
    places = (torch.rand(len(photos), n_each, 2, generator=generator) * room).long()
    crops = [
        photo[:, top : top + side, left : left + side]
        for photo, tops_and_lefts in zip(photos, places.tolist(), strict=True)
        for top, left in tops_and_lefts
    ]
    return torch.stack(crops), torch.arange(len(photos)).repeat_interleave(n_each)


def colour_histograms(images: Tensor, n_bins: int = 8) -> Tensor:
    """Count how the values of each channel are distributed: images (n, C, H, W) in 0…1 to frequencies (n, C · n_bins)."""
    bins = (images * n_bins).long().clamp(0, n_bins - 1).flatten(2)
    counts = torch.zeros(*bins.shape[:2], n_bins).scatter_add_(2, bins, torch.ones(bins.shape))
    return (counts / bins.shape[-1]).flatten(1)


def matched_by_histogram(n_each: int = 25, side: int = 40, seed: int = 0) -> tuple[float, float]:
    """Compute how often the crop with the nearest colour histogram is from the same image, without and with colour distortion.

    The images are the quarters of two photographs. Brightness, saturation and hue of each crop are changed at random.

    Args:
        n_each: crops of each of the eight images.
        side: of a crop, in pixels.
        seed: of the crops and of the distortion.
    """
    generator = torch.Generator().manual_seed(seed)
    quarters = rearrange(photographs((120, 180)), "n C (r H) (c W) -> (n r c) C H W", r=2, c=2).float()
    crops, origin = random_crops(quarters, n_each, side, generator)
    amount = torch.rand(3, len(crops), generator=generator)
    distorted = recolour(crops, colour_matrix(*(0.2 + 1.6 * amount[:2]), 2 * math.pi * amount[2])).clamp(0, 1)
    plain, changed = (
        nearest_neighbour_accuracy(torch.cdist(points, points, p=1), origin)
        for points in map(colour_histograms, (crops, distorted))
    )
    return plain, changed
