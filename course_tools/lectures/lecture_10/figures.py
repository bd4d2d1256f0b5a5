"""Figures of local attention: costs over the side of the window, weights in the window of a pixel, reach of a layer."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from course_tools.notebook.grey import grey
from course_tools.notebook.plots import curves, pictures
from course_tools.notebook.show import show

LayerCost = Callable[..., Sequence[int]]
_NEIGHBOURS = ("above left", "above", "above right", "left", "itself", "right", "below left", "below", "below right")


def show_costs(costs: Mapping[str, LayerCost], width: int, stride: int, side: int = 28) -> None:
    """Draw the multiply-adds of layers over the side of the window, 1 to 11 pixels.

    Args:
        costs: by name of the layer, parameters and multiply-adds from (d_in, d_out, size, H, W, stride).
        width: features in and out.
        stride: of the queries, or of the convolution.
        side: height and width of the feature map.
    """
    sizes = (1, 3, 5, 7, 9, 11)
    lines = {name: (sizes, [cost(width, width, size, side, side, stride)[1] for size in sizes]) for name, cost in costs.items()}
    title = f"{width} features, stride {stride}, {side} × {side} pixels"
    show(
        curves(lines, "side of the window", "multiply-adds", title, log="y"),
        alt=f"Multiply-adds of a layer over windows of side 1 to 11; {title}: "
        + ", ".join(f"{name} {values[0]:,} to {values[-1]:,}" for name, (_, values) in lines.items())
        + ".",
    )


def show_head_means(weights: Tensor, chosen: Tensor) -> None:
    """Draw the mean weights of each head in windows of 3 × 3.

    Args:
        weights: (B, h, H, W, 9).
        chosen: (B, H, W), bool: the pixels to average over.
    """
    means = torch.stack([of_head[chosen].mean(0).unflatten(-1, (3, 3)) for of_head in weights.unbind(1)])
    maps = {f"head {number}": one for number, one in enumerate(means, start=1)}
    show(
        pictures(maps, most=means.max().item()),
        alt="Mean weights in windows of 3 × 3, first layer. Largest weight: "
        + "; ".join(f"{name} {_NEIGHBOURS[int(one.argmax())]} ({one.max().item():.2f})" for name, one in maps.items())
        + f"; uniform would be {1 / 9:.2f}.",
    )


def show_window(image: Tensor, weights: Tensor, row: int, column: int) -> None:
    """Show an image with a pixel marked, and the weights of that pixel on the grid of the image.

    Args:
        image: (1, H, W), in 0…1.
        weights: (H, W, 9) of one head, in windows of 3 × 3.
        row: of the pixel.
        column: of the pixel.
    """
    H, W = image.shape[-2:]
    over = torch.zeros(H + 2, W + 2)
    over[row : row + 3, column : column + 3] = weights[row, column].view(3, 3)
    over = over[1:-1, 1:-1]
    panels = {"image": grey(image), "weights": over}
    show(
        pictures(panels, dict.fromkeys(panels, (row, column))),
        alt=f"An image, and the weights of its pixel ({row}, {column}): the largest is {over.max().item():.2f}, the pixel's "
        f"own {over[row, column].item():.2f}.",
    )


def show_changes(image: Tensor, place: tuple[int, int], changes: Mapping[str, Tensor]) -> None:
    """Show how much the outputs of layers change at each pixel when one pixel of an image is replaced.

    Args:
        image: (1, H, W), in 0…1.
        place: (row, column) of the pixel.
        changes: by name of the layer, the size of the change at each pixel, (H, W); drawn relative to the largest.
    """
    relative = {name: change / change.max().clamp_min(1e-12) for name, change in changes.items()}
    show(
        pictures({"image": grey(image)} | relative, {"image": place}, label="fraction of the largest", most=1.0),
        alt=f"An image of which pixel {place} is replaced, and the change of each layer's output at each pixel as a fraction "
        "of the largest change in that layer: "
        + "; ".join(
            f"{name}, {int((change > 1e-5).sum())} pixels change, the pixel itself by {change[place].item():.2f}"
            for name, change in relative.items()
        )
        + ".",
    )
