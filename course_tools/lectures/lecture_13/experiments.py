"""Train a student's Mixer on small digits, in order and shuffled: accuracy with several seeds."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from course_lib.datasets import digits
from course_lib.primitives import patchify, unpatchify
from course_tools.notebook.classifier import accuracy_of
from course_tools.notebook.seed_scores import show_seeds


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


def show_both_orders(
    train_mixer: Callable[[Tensor, Tensor, int, int], nn.Module], seeds: Iterable[int], title: str, n_steps: int = 500
) -> None:
    """Train a classifier on scikit-learn's digits in order and shuffled; draw accuracies on held-out digits.

    Args:
        train_mixer: `(images, labels, n_classes, n_steps)` → the trained classifier.
        seeds: of the split and of the weights; the patches, of 2 × 2 pixels, are always shuffled in the same way.
        title: above the figure of the accuracies, such as "your Mixer".
        n_steps: number of updates.
    """
    images, labels = digits()
    images = images[:, None]
    order, inner = random_orders(16, 4, seed=0)
    sets = {"in order": images, "shuffled": shuffled(images, 2, order, inner)}
    accuracies: dict[str, list[float]] = {name: [] for name in sets}
    for seed in seeds:
        rows = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        known, unseen = rows[:1_297], rows[1_297:]
        for name, inputs in sets.items():
            torch.manual_seed(seed)
            model = train_mixer(inputs[known], labels[known], 10, n_steps)
            accuracies[name].append(accuracy_of(model, inputs[unseen], labels[unseen]))
    show_seeds(accuracies, "accuracy on held-out digits", title, across={"chance": 0.1})
