"""What captioners learn and where they attend: exact match by updates, maps, hits on a named digit."""

from collections.abc import Mapping
from statistics import mean

import torch
from torch import Tensor, nn

from course_lib.datasets import PADDING
from course_tools.bank.lecture_03._captioned_digits import NAMES
from course_tools.lectures.lecture_03.captions import CaptionTask, add_weight_scale, overlaid
from course_tools.notebook.boxed import boxed
from course_tools.notebook.device import device
from course_tools.notebook.plots import curves, pictures
from course_tools.notebook.show import show

_REGION, _DIGIT, _IMAGE = 7, 14, 42
"""Sides in pixels."""


@torch.no_grad()
def attends_to_named(model: nn.Module, task: CaptionTask, corners: Tensor) -> float:
    """Measure how often the region with the largest weight, before a digit is named, has its centre in that digit's window.

    Args:
        model: `(regions, caption)` → logits, weights (B, T, 36).
        task: its new images and captions are used; the captions are read by teacher forcing.
        corners: (n, 2, 2), row and column of the top left corner of the digit that is named first, and of the other.
    """
    seen, captions = task.new_regions.to(device()), task.new_captions.to(device())
    weights, hits = model(seen, captions)[1].cpu(), []
    for i, (text, places) in enumerate(zip(task.examples.test.captions, corners.tolist(), strict=True)):
        for t, (top, left) in zip((0, len(text.split()) - 1), places, strict=True):
            row, column = (_REGION * place + _REGION // 2 for place in divmod(weights[i, t].argmax().item(), 6))
            hits.append(top <= row < top + _DIGIT and left <= column < left + _DIGIT)
    return mean(hits)


@torch.no_grad()
def _weights_by_word(model: nn.Module, task: CaptionTask, index: int) -> tuple[str, dict[str, Tensor]]:
    """Caption a new image; return the caption, and the weights (6, 6) before each numbered word and the end."""
    seen = task.new_regions[index : index + 1]
    caption = task.words.decode(model.write(seen.to(device()))[0].tolist())
    read = task.words.batch([caption], begin=True)[0]
    weights = model(seen.to(device()), read.to(device()))[1][0].cpu()
    names = [f"{i} {word}" for i, word in enumerate([*caption.split(), "(end)"], 1)]
    return caption, dict(zip(names, weights.unflatten(1, (6, 6)), strict=True))


def show_caption_weights(model: nn.Module, task: CaptionTask, image: int = 0) -> None:
    """Draw the weights before each word over a new image; where the right caption has a digit, its window is boxed.

    Args:
        model: a captioner: `(regions, caption)` → logits, weights; `write(regions)` → tokens of greedy decoding.
        task: its test images are used.
        image: index of the image.
    """
    caption, weights = _weights_by_word(model, task, image)
    new = task.examples.test
    ink, right, corners = new.images[image], new.captions[image], new.corners[image].flip(-1)
    most = max(w.max().item() for w in weights.values())
    digits = [i for i, word in enumerate(right.split()) if word in NAMES]
    boxes = dict(zip(digits, (torch.cat([corners, corners + _DIGIT], -1) / _IMAGE).split(1), strict=True))
    over = {name: overlaid(ink, w, most) for name, w in weights.items()}
    figure = boxed(over, {name: boxes[i] for i, name in enumerate(weights) if i in boxes})
    add_weight_scale(figure, most)
    largest = "; ".join(
        f"before '{name.split(' ', 1)[1]}' {w.max():.2f} in row {w.argmax() // 6 + 1}, column {w.argmax() % 6 + 1}"
        for name, w in weights.items()
    )
    show(
        figure,
        alt=f"The weights before each word of '{caption}' in yellow over the image; the right caption is '{right}', and each "
        f"of its digits is boxed. The largest weight (rows and columns from 1 to 6) is: {largest}.",
    )


def show_exact_match(shares: Mapping[str, Mapping[int, float]], title: str) -> None:
    """Draw the exact match of captions of new images against the updates; `shares` maps name -> updates -> exact match."""
    figure = curves({name: (list(of), list(of.values())) for name, of in shares.items()}, "update", "exact match", title)
    figure.axes[0].set_ylim(0, 1)
    if (legend := figure.axes[0].get_legend()) is not None:
        legend.set_loc("lower right")  # below all curves
    ends = "; ".join(f"{name} {list(of.values())[-1]:.2f} after {max(of):,} updates" for name, of in shares.items())
    show(figure, alt=f"Exact match, {title}: {ends}.")


@torch.no_grad()
def _summed_weights(model: nn.Module, task: CaptionTask) -> Tensor:
    """Sum the weights of each region over the words of the right caption of each new image, (n, 36)."""
    captions = task.new_captions.to(device())
    weights = model(task.new_regions.to(device()), captions)[1].cpu()
    return (weights[:, :-1] * (task.new_captions[:, 1:, None] != PADDING)).sum(1)


def largest_share(model: nn.Module, task: CaptionTask) -> float:
    """Measure the largest sum of the weights of a region over the words of a caption, mean over the new images."""
    return _summed_weights(model, task).amax(1).mean().item()


def show_summed_weights(models: Mapping[str, nn.Module], task: CaptionTask, image: int = 0) -> None:
    """Draw the weights of each region, summed over the words of a caption, over a new image, by each model."""
    sums = {name: _summed_weights(model, task)[image].view(6, 6) for name, model in models.items()}
    most, new = max(w.max().item() for w in sums.values()), task.examples.test
    figure = pictures({name: overlaid(new.images[image], w, most) for name, w in sums.items()})
    add_weight_scale(figure, most)
    figure.axes[-1].set_ylabel("summed weight")
    largest = "; ".join(f"{name} {w.max():.2f}" for name, w in sums.items())
    show(figure, alt=f"Sum of the weights over the words of '{new.captions[image]}'. The largest of a region: {largest}.")
