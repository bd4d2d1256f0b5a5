"""Where a captioner attends before each word: maps, hits on the digit that it names, effect of its state."""

from collections.abc import Callable
from statistics import mean

import torch
from torch import Tensor, nn

from course_tools.lectures.lecture_03.captions import CaptionTask, add_weight_scale, overlaid
from course_tools.notebook.boxed import boxed
from course_tools.notebook.device import device
from course_tools.notebook.show import show

_REGION, _DIGIT, _IMAGE = 7, 14, 42
"""Sides in pixels."""


def change_of_weights(soft_attention: Callable[..., tuple[Tensor, Tensor]], regions: Tensor, seed: int = 0) -> float:
    """Compute the weights over regions (B, L, d_a) from two random states; return the largest difference of a weight.

    Args:
        soft_attention: `(regions, h, W_a, W_h, v)` → context, weights (B, L), as `course_lib.models.soft_attention`.
        regions: of B images.
        seed: of the states and the matrices.
    """
    generator = torch.Generator().manual_seed(seed)
    shapes = (16, regions.shape[-1]), (16, 8), (16,)
    W_a, W_h, v = (torch.randn(*shape, generator=generator) for shape in shapes)
    states = torch.randn(2, len(regions), 8, generator=generator)
    one, other = (soft_attention(regions, h, W_a / 8, W_h, v)[1] for h in states)
    return (one - other).abs().max().item()


@torch.no_grad()
def attends_to_named(model: nn.Module, task: CaptionTask, corners: Tensor) -> float:
    """Measure how often the region with the largest weight, before a digit is named, has its centre in that digit's window.

    Args:
        model: `(regions, caption)` → a result with `weights` (B, T, 36).
        task: its new images and captions are used; the captions are read by teacher forcing.
        corners: (n, 2, 2), row and column of the top left corner of the digit that is named first, and of the other.
    """
    seen, captions = task.new_regions.to(device()), task.new_captions.to(device())
    weights, hits = model(seen, captions).weights.cpu(), []
    for i, (text, places) in enumerate(zip(task.examples.test.captions, corners.tolist(), strict=True)):
        for t, (top, left) in zip((0, len(text.split()) - 1), places, strict=True):
            row, column = (_REGION * place + _REGION // 2 for place in divmod(weights[i, t].argmax().item(), 6))
            hits.append(top <= row < top + _DIGIT and left <= column < left + _DIGIT)
    return mean(hits)


@torch.no_grad()
def _weights_by_word(model: nn.Module, task: CaptionTask, index: int) -> tuple[str, dict[str, Tensor]]:
    """Caption a new image; return the caption, and the weights (6, 6) before each numbered word and the end."""
    seen = task.new_regions[index : index + 1]
    (caption,) = task.captions_by(model, seen)
    read = task.words.batch([caption], begin=True)[0]
    weights = model(seen.to(device()), read.to(device())).weights[0].cpu()
    names = [f"{i} {word}" for i, word in enumerate([*caption.split(), "(end)"], 1)]
    return caption, dict(zip(names, weights.unflatten(1, (6, 6)), strict=True))


def show_caption_weights(model: nn.Module, task: CaptionTask, image: int = 0) -> None:
    """Draw the weights before each word over a new image; the first and the last digit of the right caption are boxed.

    Args:
        model: a captioner with attention.
        task: its test images are used.
        image: index of the image.
    """
    caption, weights = _weights_by_word(model, task, image)
    new = task.examples.test
    ink, right, corners = new.images[image], new.captions[image], new.corners[image].flip(-1)
    most = max(w.max().item() for w in weights.values())
    named = list(weights)[: len(caption.split())] or list(weights)
    boxes = torch.cat([corners, corners + _DIGIT], -1) / _IMAGE
    over = {name: overlaid(ink, w, most) for name, w in weights.items()}
    figure = boxed(over, {named[0]: boxes[:1], named[-1]: boxes[1:]})
    add_weight_scale(figure, most)
    largest = "; ".join(
        f"before '{name.split(' ', 1)[1]}' {w.max():.2f} in row {w.argmax() // 6 + 1}, column {w.argmax() % 6 + 1}"
        for name, w in weights.items()
    )
    show(
        figure,
        alt=f"The weights before each word of '{caption}' in yellow over the image; the right caption is '{right}', and its "
        f"first and last digit are boxed. The largest weight (rows and columns from 1 to 6) is: {largest}.",
    )
