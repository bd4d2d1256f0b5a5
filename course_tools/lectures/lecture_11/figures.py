"""Figures of lecture 11: patches laid out, maps with their answers, what a model takes from each cell, hard maps."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from einops import rearrange
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from course_lib.primitives import patch_grid
from course_tools.bank.drawn_maps import GRID, NAMES, Maps
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


def show_pins(images: Tensor, symbols: Tensor) -> None:
    """Show maps (n, 3, 48, 48) of several pins; the symbols (n,) of the entries without a pin are the titles."""
    named = [NAMES[symbol] for symbol in symbols]
    panels = {f"no pin: {name}": image.permute(1, 2, 0).cpu().clamp(0, 1) for name, image in zip(named, images, strict=True)}
    show(pictures(panels), alt=f"Maps with six entries and five pins. The entry whose colour no pin has: {', '.join(named)}.")


def show_answers(study: RecordedStudy, question: str, chance: float = 0.25) -> None:
    """Draw the right answers of all networks to one question, such as "colour", over the updates: seeds, and their mean."""
    names = [name for name in study.names if name.endswith(f", {question}")]
    lines = {name.removesuffix(f", {question}"): study.curve(name) for name in names}
    title = f"{question}, recorded: mean of {len(study.of(names[0]))} seeds, and each"
    drawn = curves(lines, "update", "right, unseen maps", title, across={"a bag of symbols": chance})
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
    show(
        drawn, alt=f"Right answers about unseen maps, by updates; {title}: {said}. A bag of symbols {chance:.2f}. {study.cost}."
    )


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
        score_maps(
            {"layer 1: from a query to a key": number}, away, away, "columns to the right", "rows down", "added to the score"
        ),
        alt=f"What each offset from query to key adds to the score: most, {number.max():.1f}, where the key "
        f"lies {abs(down)} rows {'down' if down >= 0 else 'up'} and {abs(right)} columns to the "
        f"{'right' if right >= 0 else 'left'}; the mean is {number.mean():.1f}.",
    )


def show_numbered_patches() -> None:
    """Draw 16 numbered pixels in four coloured patches of 2 × 2; beside them each patch as a vector, and its product with E."""
    colours, E = ["#a6cee3", "#b2df8a", "#fdbf6f", "#cab2d6"], (0, 0, 1, 10)
    drawn = Figure(figsize=(6.0, 2.6), layout="constrained")
    picture, vectors = drawn.subplots(1, 2, width_ratios=[2, 3])

    def box(ax: Axes, x: float, y: float, text: object, colour: str) -> None:
        ax.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="white", linewidth=1))
        ax.text(x + 0.5, y + 0.5, str(text), ha="center", va="center", fontsize=10)

    said = []
    for patch, colour in enumerate(colours):
        top, left = 2 * (patch // 2), 2 * (patch % 2)
        pixels = [4 * row + column for row in (top, top + 1) for column in (left, left + 1)]
        for place, pixel in enumerate(pixels):
            box(picture, pixel % 4, pixel // 4, pixel, colour)
            box(vectors, place, 1.25 * patch, pixel, colour)
        product = sum(weight * pixel for weight, pixel in zip(E, pixels, strict=True))
        vectors.text(4.3, 1.25 * patch + 0.5, f"· (0, 0, 1, 10) = {product}", va="center", fontsize=10)
        said.append(f"{', '.join(map(str, pixels))} gives {product}")
    picture.set(xlim=(0, 4), ylim=(4, 0), aspect="equal", title="4 × 4 pixels")
    vectors.set(xlim=(0, 8.6), ylim=(4.75, 0), aspect="equal", title="four patches")
    for ax in (picture, vectors):
        ax.title.set_fontsize(10)
        ax.axis("off")
    show(
        drawn,
        alt="A picture of 4 × 4 pixels, numbered row by row, in four coloured patches of 2 × 2. Each patch is written "
        f"as one vector, row by row, and multiplied by (0, 0, 1, 10): {'; '.join(said)}.",
    )


def show_places(study: RecordedStudy, side: int = 8) -> None:
    """Draw for some patches the cosine of their position vector with that of each place, as one training left them."""
    (first, *_), name = study.of(study.names[0]), "{} to {}"
    places = sorted({int(score.split(" to ")[0]) for score in first.scores if " to " in score})
    maps = {
        f"row {place // side + 1}, column {place % side + 1}": torch.tensor(
            [first.scores[name.format(place, other)] for other in range(side * side)]
        ).view(side, side)
        for place in places
    }
    drawn = score_maps(maps, x="column", y="row", unit="cosine")
    for ax in drawn.axes[: len(maps)]:
        ax.set(xticks=[], yticks=[], aspect="equal")
    beside = {
        title: F.avg_pool2d(grid[None, None], 3, 1, padding=1, count_include_pad=False)[0, 0][divmod(place, side)]
        for (title, grid), place in zip(maps.items(), places, strict=True)
    }
    show(
        drawn,
        alt=f"For four of {side} × {side} patches, the cosine of its learned position vector with that of every place. Mean "
        f"over the place and those around it, and over all: "
        f"{'; '.join(f'{title} {near:.2f} and {maps[title].mean():.2f}' for title, near in beside.items())}. {study.cost}.",
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
        across={"chance": 0.1},
    )
    ax = drawn.axes[0]
    ax.set_ylim(0, 1.03)
    for rows, line in zip(scores.values(), list(ax.lines), strict=False):
        for place, each in zip(places, rows, strict=True):
            ax.plot([place] * len(each), each, color=line.get_color(), linestyle="", marker=".", alpha=0.4)
    said = "; ".join(
        f"{kind} " + ", ".join(f"{mean:.3f} with {n}" for n, mean in zip(sizes, rows, strict=True))
        for kind, rows in means.items()
    )
    show(drawn, alt=f"Accuracy on unseen digits, recorded, mean of {n_seeds} seeds: {said}. {study.cost}.")


def show_hardest(maps: Maps, probabilities: Tensor, name: str, n: int = 6) -> None:
    """Show the n maps to whose symbol, that of the pin's colour, a model gives the least probability, and what it says instead.

    Args:
        maps: the maps.
        probabilities: what the model says of each, (B, 8).
        name: of the model, such as "your model".
        n: how many, at most six.
    """
    right, said, probabilities = maps.colour.cpu(), probabilities.argmax(-1).cpu(), probabilities.cpu()
    of_right = probabilities.gather(1, right[:, None])[:, 0]
    panels = {}
    for number, i in enumerate(of_right.argsort()[:n].tolist(), start=1):
        wrong = "" if said[i] == right[i] else f", it says {NAMES[said[i]]}"
        panels[f"{number}: {NAMES[right[i]]} {of_right[i]:.2f}{wrong}"] = maps.images[i].permute(1, 2, 0).cpu().clamp(0, 1)
    show(
        pictures(panels),
        alt=f"The {len(panels)} maps to whose symbol {name} gives the least probability, with it: {'; '.join(panels)}. It is "
        f"right about {(said == right).float().mean():.3f} of all {len(right):,} maps.",
    )
