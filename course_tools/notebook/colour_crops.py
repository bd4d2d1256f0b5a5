"""Cut crops out of photographs, and count their colour histograms."""

import torch
from torch import Tensor


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
