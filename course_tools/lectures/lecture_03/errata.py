"""Measure what a deck states about Show and Tell: whether the image is read again at each word."""

from typing import NamedTuple

import torch

from course_lib.models import ShowAndTell, ShowAttendAndTell
from course_tools.lectures.lecture_03.captions import CaptionTask


class ExchangedImage(NamedTuple):
    """The largest change of a logit if the image is exchanged after the initial state was computed, of two models."""

    show_and_tell: float
    show_attend_and_tell: float


@torch.no_grad()
def exchange_the_image(task: CaptionTask, seed: int) -> ExchangedImage:
    """Read a caption from the state that belongs to one image, with that image and with another one, by untrained models."""
    torch.manual_seed(seed)
    n_words, d = len(task.words), task.new_regions.shape[-1]
    plain, attentive = ShowAndTell(n_words, d, 24, 64), ShowAttendAndTell(n_words, d, 24, 64, 48)
    one, other, caption = task.new_regions[:1], task.new_regions[1:2], task.new_captions[:1]

    def change(model: ShowAndTell | ShowAttendAndTell, a: torch.Tensor, b: torch.Tensor, state: tuple) -> float:
        return (model(a, caption, state).logits - model(b, caption, state).logits).abs().max().item()

    return ExchangedImage(
        change(plain, one.mean(1), other.mean(1), plain.start(one.mean(1))),
        change(attentive, one, other, attentive.initial_state(one)),
    )
