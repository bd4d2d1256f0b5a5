"""Crowds as they are painted, the arrows of a creature, and weights of one pixel of a photograph by several mechanisms."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from course_lib.attention import attend, non_local_dot_product
from course_lib.datasets import photographs
from course_tools.lectures.lecture_09.crowd import CELL, GRID, Crowds, painted, share_right
from course_tools.notebook.plots import pictures
from course_tools.notebook.show import show

_H, _W = 30, 45
WeightsByName = Callable[[Tensor, Tensor, Tensor, Tensor], Mapping[str, Tensor]]


def show_painted(crowds: Crowds, answers: Mapping[str, Tensor]) -> None:
    """Show the first crowd as it is given, as each method paints it, and as it should be.

    Args:
        crowds: one or more.
        answers: name of the method -> colours (n, 3, 5, 5).
    """
    right = {name: share_right(colours, crowds) for name, colours in answers.items()}
    wanted = crowds.colours.mT.unflatten(2, (GRID, GRID))  # as given, where a creature has a colour
    given = {name: torch.where(crowds.is_grey.view(-1, 1, GRID, GRID), colours, wanted) for name, colours in answers.items()}
    drawn = {"given": crowds.images}
    drawn |= {
        f"{name}, {right[name]:.0%} right in {len(crowds.images)} crowds": painted(crowds.images, colours)
        for name, colours in given.items()
    }
    panels = {name: images[0].permute(1, 2, 0).cpu() for name, images in drawn.items()}
    panels["wanted"] = painted(crowds.images, wanted)[0].permute(1, 2, 0).cpu()
    said = "".join(
        f"; {name}: {share:.0%} of the grey creatures of {len(crowds.images)} crowds are right" for name, share in right.items()
    )
    show(
        pictures(panels),
        alt=f"A crowd of {GRID} by {GRID} creatures of pixels, four of them coloured, one of each kind, and the crowd with all "
        f"creatures in the colour of their kind{said}.",
    )


def show_arrows(crowds: Crowds, cells: Mapping[str, int], weights: Tensor) -> None:
    """Show the first crowd with an arrow from each of some grey creatures to the cell to which it attends most.

    Args:
        crowds: one or more.
        cells: title -> the creature's cell.
        weights: (25, 25), of the first crowd.
    """
    image = crowds.images[0].permute(1, 2, 0).cpu()
    marks, arrows, said = {}, {}, []
    for title, cell in cells.items():
        best = int(weights[cell].argmax())
        start, end = (tuple(CELL * place + 2 for place in divmod(each, GRID)) for each in (cell, best))
        marks[title], arrows[title] = start, torch.zeros(CELL * GRID, CELL * GRID)
        arrows[title][end] = 1.0
        same = "its own kind" if crowds.kinds[0, best] == crowds.kinds[0, cell] else "another kind"
        said.append(f"{title}, {weights[cell, best].item():.2f} of the weight on a creature of {same}")
    show(
        pictures(dict.fromkeys(cells, image), marks=marks, arrows=arrows, strongest=1),
        alt=f"A crowd, with an arrow from a grey creature to the cell of its largest weight: {'; '.join(said)}.",
    )


def show_non_local_means(images: Mapping[str, Tensor], clean: Tensor, weights: Tensor, row: int, column: int) -> None:
    """Show images (3, H, W) with their errors against a clean one, and the weights (H, W) of the pixel (row, column)."""
    panels = {
        f"{name}, error {(image - clean).square().mean().sqrt():.3f}": image.permute(1, 2, 0).clamp(0, 1)
        for name, image in images.items()
    }
    titles = "; ".join(panels)
    panels["weights of the ringed pixel"] = weights
    show(
        pictures(panels, marks=dict.fromkeys([*panels][:1] + [*panels][-1:], (row, column))),
        alt=f"A photograph of a temple: {titles} (root mean square); the pixel ({row}, {column}) has half of its weight on "
        f"{_fewest_with_half(weights.flatten())} of {weights.numel():,} pixels.",
    )


def four_forms(embedded_gaussian: Callable[..., tuple], concatenation: Callable[..., tuple]) -> WeightsByName:
    """Create a function that computes the weights of the four forms of the non-local operation.

    Args:
        embedded_gaussian: `non_local_embedded_gaussian`.
        concatenation: `non_local_concatenation`.
    """

    def weights(x: Tensor, W_theta: Tensor, W_phi: Tensor, w_f: Tensor) -> dict[str, Tensor]:
        theta, phi = x @ W_theta.mT, x @ W_phi.mT
        return {
            "Gaussian": attend(x @ x.mT, x).weights,
            "embedded Gaussian": embedded_gaussian(x, W_theta, W_phi, torch.eye(3))[1],
            "dot product, above 0": non_local_dot_product(theta, phi, x).weights.relu(),
            "concatenation": concatenation(theta, phi, x, w_f)[1],
        }

    return weights


def weights_on_a_photograph(mechanisms: WeightsByName, seed: int = 2) -> Callable[..., None]:
    """Create a function `draw(row, column, sharpness)` that shows a photograph and the weights of one of its pixels.

    The features of a pixel are its three standardised colour values times √sharpness, so that products of two pixels grow in
    proportion to sharpness. The matrices are random, the same for every drawing.

    Args:
        mechanisms: gives weights (N, N) by name, none below 0, from the features x (N, 3), two matrices W_theta and W_phi
            (3, 3), and a vector w_f (6,).
        seed: determines the matrices and the vector.
    """
    photograph = photographs((_H, _W))[1].clamp(0, 1)
    colours = photograph.flatten(1).mT
    x = (colours - colours.mean(0)) / colours.std(0)
    generator = torch.Generator().manual_seed(seed)
    W_theta, W_phi = (torch.randn(3, 3, generator=generator) / 3**0.5 for _ in range(2))
    w_f = torch.randn(6, generator=generator)

    def draw(row: int = 4, column: int = 4, sharpness: float = 3.0) -> None:
        """Show the photograph and a map of weights for each mechanism; a ring marks the pixel."""
        found = mechanisms(x * sharpness**0.5, W_theta, W_phi, w_f)
        maps = {name: weights[row * _W + column].float() for name, weights in found.items()}
        half = {name: _fewest_with_half(weights) for name, weights in maps.items()}
        panels = {"photograph": photograph.permute(1, 2, 0)}
        panels |= {name: weights.unflatten(0, (_H, _W)) for name, weights in maps.items()}
        show(
            pictures(panels, marks=dict.fromkeys(panels, (row, column))),
            alt=f"A photograph of a dahlia, and maps of the attention weights of its pixel in row {row}, column {column}; half "
            "of the total weight lies on " + ", ".join(f"{n} of {_H * _W} pixels ({name})" for name, n in half.items()) + ".",
        )

    return draw


def _fewest_with_half(weights: Tensor) -> int:
    """Count the fewest positions that hold half of the total weight (N,)."""
    total = weights.sort(descending=True).values.cumsum(0)
    return int((total < total[-1] / 2).sum()) + 1
