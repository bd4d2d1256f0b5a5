"""Figures of shop windows, of embeddings, and of augmented stickers and photographs."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import seaborn as sns
import torch
import torch.nn.functional as F
from einops import rearrange
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.datasets import colour_matrix, photographs, recolour
from course_lib.primitives import unpatchify
from course_tools.bank.drawn_stickers import NAMES
from course_tools.lectures.lecture_16.windows import Windows
from course_tools.notebook.legible import Numbers, in_the_font, to_array
from course_tools.notebook.plots import pictures
from course_tools.notebook.show import show

# Embeddings in two dimensions, with the label of each point as its marker: arrays in, figure out.


def clouds(embeddings: Mapping[str, Numbers], labels: Numbers) -> Figure:
    """Draw embeddings along their first two principal axes, in up to three panels side by side.

    Every point is the numeral of its label, so that the figure can be read without distinguishing ten colours.

    Args:
        embeddings: title -> (n, d), such as one encoder at several steps of its training.
        labels: (n,), whole numbers from 0 to 9, the same for all panels.

    Raises:
        ValueError: there are more than three panels, or the numbers of labels and points differ.
    """
    kinds = to_array(labels)
    if not 1 <= len(embeddings) <= 3 or any(len(to_array(points)) != len(kinds) for points in embeddings.values()):
        raise ValueError(f"give one to three panels of {len(kinds)} points each, one for each label.")
    figure = Figure(figsize=(6.0, 2.6), layout="constrained")
    palette = sns.color_palette("colorblind", 10)
    palette[8] = (0.15, 0.15, 0.15)  # its yellow is too pale for a thin numeral on white
    for ax, (title, points) in zip(figure.subplots(1, len(embeddings), squeeze=False)[0], embeddings.items(), strict=True):
        places = _widest(to_array(points))
        for kind in np.unique(kinds):
            own = places[kinds == kind]
            ax.scatter(own[:, 0], own[:, 1], s=22, color=[palette[kind]], marker=f"${kind}$", linewidths=0.4)
        ax.set_title(in_the_font(title), parse_math=False, fontsize=10)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.margins(0.04)
    return figure


def _widest(points: np.ndarray) -> np.ndarray:
    """Project points (n, d) onto their first two principal axes, (n, 2)."""
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    places = centred @ axes[:2].T
    return np.pad(places, ((0, 0), (0, 2 - places.shape[1])))


# Figures of augmented stickers, of a photograph under augmentation, and of nearest neighbours.


def show_views(stickers: Tensor, view: Callable[[Tensor, torch.Generator], Tensor], seed: int = 0) -> None:
    """Draw stickers (20, 3, H, W) in -1…1 and two views of each; the alternative text contains how much their pixels differ.

    Args:
        stickers: on any device.
        view: draws one view of each sticker of a batch.
        seed: of the views.
    """
    generator = torch.Generator().manual_seed(seed)
    one, another = view(stickers, generator), view(stickers, generator)
    sheets = {"stickers": stickers, "one view": one, "another view": another}
    drawn = {
        name: _grid(rearrange((each.cpu() + 1) / 2, "(r c) C H W -> r c C H W", c=5), gap=1) for name, each in sheets.items()
    }
    show(
        pictures(drawn),
        alt="The same twenty stickers three times: the originals and two views of each, slightly rotated, sheared, zoomed and "
        f"shifted, in other colours, some as negatives. On a scale from -1 to 1, pixels of the two views differ by "
        f"{(one - another).abs().mean():.2f}, those of two stickers by {(stickers - stickers.roll(1, 0)).abs().mean():.2f}.",
    )


def show_photograph_view(
    warp: Callable[[Tensor, Tensor, Tensor], Tensor], turn: float, zoom: float, hue: float, saturation: float
) -> None:
    """Draw the photograph of a dahlia and a view of it.

    Args:
        warp: transforms images by a matrix A and a shift t.
        turn: rotation in degrees.
        zoom: zoom factor.
        hue: rotation of the hue in degrees.
        saturation: factor of the saturation.
    """
    photo = photographs((60, 90))[1:]
    angle = torch.tensor(math.radians(turn))
    A = zoom * torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(1, 2, 2)
    M = colour_matrix(torch.ones(1), torch.tensor([saturation]), torch.tensor([math.radians(hue)]))
    view = recolour(warp(photo, A, torch.zeros(1, 2)).float(), M).clamp(0, 1)
    show(
        pictures({"photograph": photo[0].permute(1, 2, 0), "view": view[0].permute(1, 2, 0)}),
        alt=f"A dahlia and its view: rotated by {turn:g}°, zoomed by {zoom:g}, hue rotated by {hue:g}°, saturation "
        f"{saturation:g}; the mean of the red channel changes from {photo[:, 0].mean():.2f} to {view[:, 0].mean():.2f}.",
    )


# Figures of shop windows: photographs of one window, pairs of views, and windows with similar features.


def show_windows(windows: Windows, which: Tensor) -> None:
    """Draw the four photographs of some windows, a window in each row."""
    rows = windows.photos[which].cpu()
    names = [NAMES[kind] for kind in windows.kinds[which].tolist()]
    show(
        pictures({"Photographs of four days, one window in each row": _grid(rows)}),
        alt=f"Four photographs each of {len(names)} windows, of six cells. In all four of a window stands one thing: "
        f"{', '.join(names)}. Cells, colours and all other things change.",
    )


def show_pairs(first: Tensor, second: Tensor, n: int = 4) -> None:
    """Draw two views of each of n windows, one above the other; the alternative text contains how much they differ."""
    apart = (first[:n] - second[:n]).abs().mean().item()
    show(
        pictures({"two views of each window, one below the other": _grid(torch.stack([first[:n], second[:n]]).cpu())}),
        alt=f"Two views each of {n} windows: another photograph, in other colours. Their pixels differ by "
        f"{apart:.2f} on average.",
    )


def show_similarities(projections: Mapping[str, Tensor], kinds: Tensor, temperature: float = 0.2) -> None:
    """Draw the cosines of the views of a small batch, and in a last panel the weights that the last ones get in the loss.

    Args:
        projections: name -> z (2N, d): all first views, then all second ones, sorted by kinds.
        kinds: of the windows (N,), sorted.
        temperature: of the loss.
    """
    n, names = len(kinds), [NAMES[kind] for kind in kinds.tolist()]
    figure = Figure(figsize=(6.0, 2.5), layout="constrained")
    axes = figure.subplots(1, len(projections) + 1)
    for ax, (name, z) in zip(axes, projections.items(), strict=False):
        cosines = F.normalize(z, dim=1) @ F.normalize(z, dim=1).mT
        drawn = ax.imshow(cosines.numpy(), cmap="RdBu_r", vmin=-1, vmax=1)
        ax.set_title(f"{name}: cosines", fontsize=10)
    figure.colorbar(drawn, ax=axes[:-1], shrink=0.6, ticks=(-1, 0, 1))
    weights = (cosines / temperature).fill_diagonal_(-torch.inf).softmax(1)
    figure.colorbar(axes[-1].imshow(weights.numpy(), cmap="Greens", vmin=0), ax=axes[-1], shrink=0.6)
    axes[-1].set_title("weights in the loss", fontsize=10)
    changes = [i for i in range(1, n) if names[i] != names[i - 1]]
    for ax in axes:
        ax.set(xticks=(), yticks=())
        for line in (ax.axhline, ax.axvline):
            line(n - 0.5, color="black", linewidth=1)
            for i in changes:
                line(i - 0.5, color="0.5", linewidth=0.4), line(n + i - 0.5, color="0.5", linewidth=0.4)
    firsts = [0, *changes]
    centres = [(a + b - 1) / 2 for a, b in zip(firsts, [*changes, n], strict=True)]
    axes[0].set_yticks([*centres, *(n + c for c in centres)], [names[i] for i in firsts] * 2, fontsize=7)
    partner = torch.arange(2 * n).roll(n)
    at_partner = weights[torch.arange(2 * n), partner].mean().item()
    alike = (kinds.repeat(2)[:, None] == kinds.repeat(2)).float()
    at_kind = (weights * alike).sum(1).mean().item()
    show(
        figure,
        alt=f"Cosines of two views each of {n} windows, first views above second ones, sorted by kinds, and the weights in the "
        f"loss. On average the partner gets {at_partner:.2f} of the weight, all views of its kind {at_kind:.2f}.",
    )


def show_nearest_windows(number: int, points: Tensor, windows: Windows, n: int = 5) -> None:
    """Draw the first photograph of a window, and those of the n windows with the nearest features.

    Args:
        number: of the window.
        points: features (N, d) of unit length.
        windows: in the same order.
        n: number of neighbours.
    """
    nearest = (points @ points[number]).topk(n + 1).indices
    names = [NAMES[kind] for kind in windows.kinds.cpu()[nearest].tolist()]
    title = f"{names[0]}, then {', '.join(names[1:])}"
    show(
        pictures({title: _grid(windows.photos[:, 0].cpu()[nearest][None])}),
        alt=f"Unseen window {number}, {title}: its {n} nearest neighbours, of which {names[1:].count(names[0])} show the same "
        "thing.",
    )


def _grid(photos: Tensor, gap: int = 2) -> Tensor:
    """Lay out photographs (rows, columns, 3, H, W) with white gaps, as one image."""
    padded = F.pad(photos.clamp(0, 1), (gap, gap, gap, gap), value=1.0)
    return rearrange(padded, "rows columns C H W -> (rows H) (columns W) C")


# Figures of a small CLIP: photographs beside names, and photographs that are nearest to a name.


def show_photos_and_names(photos: Tensor, names: Sequence[str], cosines: Tensor) -> None:
    """Draw photographs in a column, names in a row, and a cell for the cosine of each with each, with the number.

    Args:
        photos: (n, 3, H, W).
        names: that of each photograph, in order.
        cosines: (n, n), photographs in rows.
    """
    n = len(names)
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 6))
    left.imshow(_grid(photos.cpu()[:, None], gap=1).numpy(), aspect="auto", interpolation="nearest")
    left.set(xticks=(), yticks=())
    right.imshow(cosines.numpy(), cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    right.set_yticks(())
    right.set_xticks(range(n), [in_the_font(name) for name in names], rotation=35, ha="left", fontsize=8)
    right.xaxis.tick_top()
    for i, row in enumerate(cosines.tolist()):
        for j, cosine in enumerate(row):
            right.text(
                j,
                i,
                f"{cosine:.1f}".replace("-0.0", "0.0"),
                ha="center",
                va="center",
                fontsize=7,
                color="white" if abs(cosine) > 0.6 else "black",
                fontweight="bold" if i == j else "normal",
            )
    best = (cosines.argmax(1) == torch.arange(n)).sum().item()
    show(
        figure,
        alt=f"Cosines of {n} photographs with the names {', '.join(names)}. The right name is the nearest of them for {best} "
        f"photographs; its mean cosine is {cosines.diagonal().mean():.2f}, that of the others "
        f"{(cosines.sum() - cosines.trace()) / (n * n - n):.2f}.",
    )


def show_retrieved(photos: Mapping[str, Tensor], shown: Mapping[str, Sequence[str]]) -> None:
    """Draw for each query the photographs nearest to it, (n, 3, H, W), a query in each row; the text says what they show."""
    figure = Figure(figsize=(6.0, 0.55 * len(photos)), layout="constrained")
    rows = figure.subplots(len(photos), 2, squeeze=False, width_ratios=(1, 3))
    for (left, right), (query, nearest) in zip(rows, photos.items(), strict=True):
        left.text(1, 0.5, in_the_font(query), ha="right", va="center", fontsize=9)
        left.axis("off")
        right.imshow(_grid(nearest.cpu()[None], gap=1).numpy())
        right.axis("off")
    said = "; ".join(f"{query}: {', '.join(names)}" for query, names in shown.items())
    show(figure, alt=f"The photographs nearest to each of {len(photos)} texts show, {said}.")


# A figure of a masked autoencoder.


def show_restored(patches: Tensor, hidden: Tensor, restored: Tensor, side: int = 12, P: int = 3) -> None:
    """Draw pictures, what was shown of them, and what was restored; what was shown stands in the last row as it was.

    Args:
        patches: of n pictures, (n, N, 3 · P²).
        hidden: the numbers of the hidden patches, (n, ·).
        restored: like the patches.
        side: of a picture, in pixels.
        P: side of a patch, in pixels.
    """
    unknown = torch.zeros(patches.shape[:2], dtype=torch.bool, device=patches.device).scatter(1, hidden, True)[..., None]
    rows = [patches, patches.masked_fill(unknown, 0.8), torch.where(unknown, restored, patches)]
    error = (restored - patches).square().mean(-1).gather(1, hidden).mean().item()
    share = unknown.float().mean().item()
    drawn = torch.stack([unpatchify(row.cpu(), P, side, side) for row in rows])
    show(
        pictures({"a cell in each column; what is shown of it; restored": _grid(drawn, gap=1)}),
        alt=f"{len(patches)} cells of windows, the same with {100 * share:.0f} % of their patches hidden, and restored: mean "
        f"squared error of the hidden patches {error:.3f}.",
    )
