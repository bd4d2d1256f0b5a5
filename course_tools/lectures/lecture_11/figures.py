"""Figures of patches: the patches of a photograph laid out, rollouts over digits, digits with their predictions."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from course_lib.primitives import patch_grid
from course_tools.notebook.boxed import boxed
from course_tools.notebook.grey import grey
from course_tools.notebook.plots import pictures
from course_tools.notebook.show import show


def laid_out(patches: Tensor, H: int, W: int, P: int) -> Tensor:
    """Draw patches as squares in their places with a gap of two pixels between them.

    Args:
        patches: (N, 3 · P²) of an image of H × W pixels.
        H: height in pixels, a multiple of P.
        W: width in pixels, a multiple of P.
        P: side of a patch.

    Returns:
        (H', W', 3), the gaps white.
    """
    rows = patch_grid(H, W, P)[0]
    squares = rearrange(patches, "(rows columns) (C h w) -> rows columns h w C", rows=rows, C=3, h=P)
    framed = F.pad(squares, (0, 0, 0, 2, 0, 2), value=1.0)
    return rearrange(framed, "rows columns h w C -> (rows h) (columns w) C")[:-2, :-2]


def show_patches(patchify: Callable[[Tensor, int], Tensor], photograph: Tensor, P: int, name: str) -> None:
    """Show a photograph (1, 3, H, W) beside the patches (1, N, 3 · P²) that a function makes of it."""
    patches, (H, W) = patchify(photograph, P)[0], photograph.shape[-2:]
    alike = torch.corrcoef(patches)[0, 1:].mean()
    show(
        pictures({"photograph": photograph[0].permute(1, 2, 0), name: laid_out(patches, H, W, P)}),
        alt=f"A photograph of {H} × {W} pixels, and {name}: {len(patches)} squares, each in its place with a gap. The first of "
        f"them correlates with the others by {alike:.2f} on average.",
    )


def show_rollout(digits: Tensor, shares: Tensor, titles: Sequence[str]) -> None:
    """Show digits over maps of the contribution of each patch to the class token (rollout).

    Args:
        digits: (n, 1, H, W).
        shares: (n, 4, 4), the contributions; those of a digit sum to 1.
        titles: one per digit.
    """
    panels = dict(zip(titles, shares, strict=True))
    largest = []
    for title, share in panels.items():
        row, column = divmod(int(share.argmax()), share.shape[1])
        largest.append(f"{share.max():.2f} in row {row + 1}, column {column + 1} ({title})")
    show(
        boxed(panels, label="share", ink=dict(zip(titles, digits[:, 0], strict=True))),
        alt="Digits over maps of the contribution of each patch to the class token (rollout); the largest share is "
        f"{', '.join(largest)}; equal shares would be {1 / shares[0].numel():.2f}.",
    )


def show_hardest(images: Tensor, labels: Tensor, probabilities: Tensor, name: str, n: int = 6) -> None:
    """Show the n images to whose label a classifier gives the smallest probability, with labels and predictions.

    Args:
        images: (B, H, W), in 0…1.
        labels: (B,).
        probabilities: (B, n_classes).
        name: of the classifier, such as "your model".
        n: how many, at most six.
    """
    predicted, of_label = probabilities.argmax(-1), probabilities.gather(1, labels[:, None])[:, 0]
    hardest = {
        f"{number}: label {labels[i]}, predicted {predicted[i]}": grey(images[i])
        for number, i in enumerate(of_label.argsort()[:n].tolist(), start=1)
    }
    show(
        pictures(hardest),
        alt=f"The images to whose label {name} gives the smallest probability: {'; '.join(hardest)}. Its accuracy is "
        f"{(predicted == labels).float().mean():.3f}.",
    )
