"""Shuffle the patches of images, and the pixels within each, all images in the same way; figures of both."""

from collections.abc import Mapping

import torch
from einops import rearrange
from torch import Tensor, nn

from course_lib.primitives import patchify, unpatchify
from course_tools.notebook.plots import pictures
from course_tools.notebook.show import show


def random_orders(n_patches: int, n_pixels: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw at random a permutation of the patches and one of the pixels within a patch."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(n_patches, generator=generator), torch.randperm(n_pixels, generator=generator)


def shuffled(images: Tensor, P: int, order: Tensor, inner: Tensor) -> Tensor:
    """Permute the patches of images (B, C, H, W), and the pixels within each patch, in the same way for all images.

    Args:
        images: H and W are multiples of P.
        P: side of a patch.
        order: a permutation of the patches; patch i of the result is patch order[i] of the image.
        inner: a permutation of the numbers within a patch.
    """
    patches = patchify(images, P)[:, order.to(images.device)]
    return unpatchify(patches[:, :, inner.to(images.device)], P, *images.shape[-2:])


def show_shuffled(images: Tensor, changed: Tensor, labels: Tensor) -> None:
    """Draw grey images (n, 1, H, W) in order and shuffled; the alt text contains their labels and the ink that remains."""
    remain = torch.minimum(images, changed).sum() / images.sum()
    names = ", ".join(map(str, labels.tolist()))
    show(
        pictures({"in order": _sheet(images), "shuffled": _sheet(changed)}),
        alt=f"{len(images)} digits, {names}, in order, and all shuffled in the same way; {100 * remain.item():.0f} % of "
        "the ink is in the same pixels as before.",
    )


@torch.no_grad()
def show_predictions(images: Mapping[str, Tensor], models: Mapping[str, nn.Module], title: str) -> None:
    """Draw grey images (1, 1, H, W) under their names; the alt text contains the class that each model predicts for each.

    Args:
        images: name -> image.
        models: name -> classifier of such images.
        title: what the images show; it begins the alt text.
    """
    found = (
        f"{model_name} predicts {model(image).argmax().item()} for the image {name}"
        for model_name, model in models.items()
        for name, image in images.items()
    )
    show(pictures({name: _sheet(image) for name, image in images.items()}), alt=f"{title}: {'; '.join(found)}.")


def _sheet(images: Tensor) -> Tensor:
    """Concatenate grey images (n, 1, H, W) horizontally, (H, n · W, 3)."""
    return rearrange(images.cpu(), "n 1 H W -> H (n W) 1").expand(-1, -1, 3)
