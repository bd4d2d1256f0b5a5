"""Figures of local attention: bands, restored images, weights of a pixel, costs by the side of the window, reach of a layer."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from course_tools.bank.stained_glass import decibels
from course_tools.notebook.grey import grey
from course_tools.notebook.plots import curves, pictures
from course_tools.notebook.show import show

LayerCost = Callable[..., Sequence[int]]


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


def show_bands() -> None:
    """Draw which keys a query may attend to, as matrices: windows of a text, windows of an image, and blocks of an image."""
    token = torch.arange(12)
    pixel, of_block = torch.cartesian_prod(torch.arange(5), torch.arange(7)), torch.cartesian_prod(*2 * [torch.arange(6) // 3])
    back = token[:, None] - token
    allowed = {
        "text: a token and 3 before it": (back >= 0) & (back < 4),
        "5 × 7 image: windows of 3 × 3": ((pixel[:, None] - pixel).abs() <= 1).all(-1),
        "6 × 6 image: blocks of 3 × 3": (of_block[:, None] == of_block).all(-1),
    }
    show(
        pictures({name: grey(1 - 0.8 * mask.float()) for name, mask in allowed.items()}),
        alt="Which keys (columns) a query (row) attends to is dark: "
        + "; ".join(f"{name}, {int(mask.sum())} of {mask.numel():,} pairs" for name, mask in allowed.items())
        + ".",
    )


def show_reach(maps: Mapping[str, Tensor], row: int, column: int) -> None:
    """Draw which pixels (H, W) have an influence on the pixel (row, column), for some stacks of layers."""
    drawn = {f"{name}: {int(reached.sum())} pixels": grey(1 - 0.6 * reached.float()) for name, reached in maps.items()}
    H, W = next(iter(maps.values())).shape
    show(
        pictures(drawn, marks=dict.fromkeys(drawn, (row, column))),
        alt=f"The pixels of an image of {H} × {W} that have an influence on the pixel ({row}, {column}): {'; '.join(drawn)}.",
    )


def show_restored(images: Mapping[str, Tensor], clean: Tensor) -> None:
    """Show an image with noise, without it, and as each method restores it, with its peak signal-to-noise ratio.

    Args:
        images: name of the method -> (1, 3, H, W); the first is the noisy image.
        clean: (1, 3, H, W).
    """
    titles = {name: f"{name}, {decibels(image, clean):.1f} dB" for name, image in images.items()}
    noisy, *restored = images
    panels = {titles[noisy]: images[noisy][0], "without noise": clean[0]} | {titles[name]: images[name][0] for name in restored}
    drawn = pictures({title: image.permute(1, 2, 0).clamp(0, 1) for title, image in panels.items()})
    show(drawn, alt=f"An image restored from noise, and without noise: {'; '.join(titles.values())}.")


def show_weights(noisy: Tensor, clean: Tensor, weights: Tensor, row: int, column: int) -> None:
    """Show the surroundings of a pixel, noisy and clean, and its weights at their places in them.

    Args:
        noisy: (3, H, W).
        clean: (3, H, W).
        weights: (H, W, size²), in windows around each pixel.
        row: of the pixel, which a ring marks.
        column: of the pixel.
    """
    size = round(weights.shape[-1] ** 0.5)
    (H, W), reach = clean.shape[-2:], size // 2
    over = torch.full((H + 2 * reach, W + 2 * reach), torch.nan)  # white outside the window
    over[row : row + size, column : column + size] = weights[row, column].view(size, size)
    over = over[reach:-reach, reach:-reach]
    same = (clean == clean[:, row, column, None, None]).all(0).cpu()
    top, left = max(row - size, 0), max(column - size, 0)
    near = slice(top, row + size + 1), slice(left, column + size + 1)
    on_pane = over[same].nansum().item()
    panels = {"noisy": noisy.permute(1, 2, 0).clamp(0, 1), "without noise": clean.permute(1, 2, 0)}
    panels[f"weights, {on_pane:.0%} on its pane"] = over
    show(
        pictures(
            {name: image[near] for name, image in panels.items()},
            dict.fromkeys(panels, (row - top, column - left)),
            most=weights[row, column].max().item(),
        ),
        alt=f"The surroundings of the pixel ({row}, {column}), and its weights in a window of {size} × {size}: "
        f"{on_pane:.2f} of the weight is on its own pane, {over[row, column].item():.2f} on itself.",
    )


def show_heads(weights: Tensor) -> None:
    """Draw the weights of each head, averaged over all pixels whose window lies inside the image.

    Args:
        weights: (B, h, H, W, size²).
    """
    size = round(weights.shape[-1] ** 0.5)
    inside = slice(size // 2, -(size // 2))
    means = weights[:, :, inside, inside].mean((0, 2, 3)).unflatten(-1, (size, size)).cpu()
    maps = {f"head {number}": one for number, one in enumerate(means, start=1)}
    said = (
        f"{name}: {one[:, size // 2].sum().item():.2f} in the pixel's column, {one[size // 2].sum().item():.2f} in its row, "
        f"{one[size // 2, size // 2].item():.3f} on itself"
        for name, one in maps.items()
    )
    show(pictures(maps, most=means.max().item()), alt=f"Mean weights in windows of {size} × {size}. {'; '.join(said)}.")
