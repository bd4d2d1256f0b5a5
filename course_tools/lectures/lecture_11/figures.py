"""Figures of lecture 11: patches laid out, maps with their answers, what a model takes from each cell, hard digits."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from course_lib.primitives import patch_grid
from course_tools.lectures.lecture_11.maps import GRID, NAMES, Maps
from course_tools.notebook.grey import grey
from course_tools.notebook.plots import curves, pictures, score_maps
from course_tools.notebook.show import show
from course_tools.studies import RecordedStudy


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


def show_maps(maps: Maps, n: int = 4) -> None:
    """Show the first n maps of a legend, each with the answers to its two questions."""
    titles = [
        f"{number}: {NAMES[beside]} / {NAMES[colour]}"
        for number, (beside, colour) in enumerate(zip(maps.beside[:n].tolist(), maps.colour[:n].tolist(), strict=True), 1)
    ]
    panels = {title: image.permute(1, 2, 0).cpu() for title, image in zip(titles, maps.images, strict=False)}
    show(
        pictures(panels),
        alt=f"{n} maps: over a crop of a photograph lie a round pin and four coloured squares, each with a white symbol. The "
        f"symbol beside the pin, and the symbol on the square of its colour: {'; '.join(titles)}.",
    )


def show_answers(study: RecordedStudy, question: str) -> None:
    """Draw the right answers of all networks to one question, "beside" or "colour", over the updates: seeds, and their mean."""
    names = [name for name in study.names if name.endswith(f", {question}")]
    lines = {name.removesuffix(f", {question}"): study.curve(name) for name in names}
    title = f"{question}, recorded: mean of {len(study.of(names[0]))} seeds, and each"
    drawn = curves(lines, "update", "right, unseen maps", title, across={"a bag of symbols": 0.25})
    ax = drawn.axes[0]
    ax.set_ylim(0, 1.03)
    for name, mean_line in zip(names, list(ax.lines), strict=False):
        for run in study.of(name):
            ax.plot(list(run.curve), list(run.curve.values()), color=mean_line.get_color(), linewidth=0.8, alpha=0.4)
    said = "; ".join(
        f"{name} {ys[-1]:.2f} after {xs[-1]:,}, by seed "
        + ", ".join(f"{run.curve[xs[-1]]:.2f}" for run in study.of(f"{name}, {question}"))
        for name, (xs, ys) in lines.items()
    )
    show(drawn, alt=f"Right answers about unseen maps, by updates; {title}: {said}. A bag of symbols 0.25. {study.cost}.")


def show_where(maps: Maps, number: int, weights: Mapping[str, Tensor], answer: int, label: str = "attention weight") -> None:
    """Show a map beside grids (4, 4) of how much a model takes from each cell, and the symbol that the model names.

    Args:
        maps: the maps.
        number: which one to show.
        weights: title -> (16,), the weights of the cells.
        answer: the symbol that the model names.
        label: what the grids show.
    """
    places = {name: divmod(int(cell), GRID) for name, cell in (("pin", maps.pin[number]), ("entry", maps.entry[number]))}
    at = ", ".join(f"{name} in row {row + 1}, column {column + 1}" for name, (row, column) in places.items())
    strongest = {title: divmod(int(weight.argmax()), GRID) for title, weight in weights.items()}
    found = ", ".join(f"{title} row {row + 1}, column {column + 1}" for title, (row, column) in strongest.items())
    panels = {f"the model says {NAMES[answer]}": maps.images[number].permute(1, 2, 0).cpu().clamp(0, 1)}
    panels |= {title: weight.view(GRID, GRID).cpu() for title, weight in weights.items()}
    show(
        pictures(panels, label=label),
        alt=f"A map with its {at} and grids of weights over its cells. Largest weight: {found}. The model names the "
        f"{NAMES[answer]}; right is the {NAMES[maps.colour[number]]}.",
    )


def show_offsets(number: Tensor) -> None:
    """Draw the learned number of each offset (2 · GRID - 1, 2 · GRID - 1), from a query in the middle to a key."""
    number, away = number.detach().cpu(), [f"{step:+d}" if step else "0" for step in range(1 - GRID, GRID)]
    down, right = (int(place) + 1 - GRID for place in divmod(int(number.argmax()), len(number)))
    show(
        score_maps({"from a query to a key": number}, away, away, "columns to the right", "rows down", "added to the score"),
        alt=f"What each offset from query to key adds to the score: most, {number.max():.1f}, where the key lies {down} "
        f"rows down and {right} columns to the right; the mean is {number.mean():.1f}.",
    )


def show_few_pictures(study: RecordedStudy) -> None:
    """Draw the accuracy on unseen digits against the number of known ones, for each network: seeds, and their mean."""
    sizes, kinds = ("250", "1,000", "4,000"), ("ViT", "CNN", "CNN, all positions")
    scores = {kind: [study.scores(f"{kind}, {n} pictures", "accuracy") for n in sizes] for kind in kinds}
    places = [int(n.replace(",", "")) for n in sizes]
    means = {kind: [sum(each) / len(each) for each in rows] for kind, rows in scores.items()}
    n_seeds = len(scores["ViT"][0])
    drawn = curves(
        {kind: (places, rows) for kind, rows in means.items()},
        "digits to learn from",
        "accuracy on unseen digits",
        f"recorded: mean of {n_seeds} seeds, and each",
        "x",
    )
    ax = drawn.axes[0]
    for rows, line in zip(scores.values(), list(ax.lines), strict=False):
        for place, each in zip(places, rows, strict=True):
            ax.plot([place] * len(each), each, color=line.get_color(), linestyle="", marker=".", alpha=0.4)
    said = "; ".join(
        f"{kind} " + ", ".join(f"{mean:.3f} with {n}" for n, mean in zip(sizes, rows, strict=True))
        for kind, rows in means.items()
    )
    show(drawn, alt=f"Accuracy on unseen digits, recorded, mean of {n_seeds} seeds: {said}. {study.cost}.")


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
