"""Train captioners with several seeds, on one vector of each image or by attention, and compare their captions: lecture 03."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_lib.models import ShowAndTell, ShowAttendAndTell
from course_tools.notebook.captioner_by_function import CaptionerByFunction, CaptionStepFunction
from course_tools.notebook.captioning import CaptionTask, standardised
from course_tools.notebook.device import device
from course_tools.notebook.fitting import show_losses
from course_tools.notebook.seed_scores import show_seeds

RegionChange = Callable[[Tensor], Tensor]
"""Regions (n, 36, 66) → other regions, or one vector (n, d) for each image."""


class Captioners(NamedTuple):
    """Captioners that differ only in their seed, and their captions of the test images, with what these score."""

    models: list[nn.Module]
    captions: list[list[str]]
    exact_match: list[float]
    names_both: list[float]

    def right_of_named(self) -> float:
        """Divide the exact match by the fraction of captions that name both digits, means of the seeds; NaN if none does."""
        named = mean(self.names_both)
        return mean(self.exact_match) / named if named else math.nan


def without_positions(regions: Tensor) -> Tensor:
    """Set the row and the column of each region, the last two of its numbers, to 0."""
    return torch.cat([regions[..., :-2], torch.zeros_like(regions[..., -2:])], dim=-1)


def position_weighted_means(regions: Tensor) -> Tensor:
    """Compute one vector (n, 192) of each image from its regions (n, 36, 66), without attention.

    With a = max(0, a feature) of a region, these are the means over the regions of a, of a · row and of a · column.
    """
    features, positions = regions[..., :-2].relu(), regions[..., -2:]
    weights = torch.cat([torch.ones_like(positions[..., :1]), positions], dim=-1)
    return torch.einsum("nlk,nld->nkd", weights, features).flatten(1) / regions.shape[1]


@dataclass(frozen=True)
class CaptionExperiment:
    """Captioners of the same images, each trained once for each seed and for as many steps (`CaptionTask.fit`)."""

    task: CaptionTask
    seeds: Sequence[int]

    def from_one_vector(self, vector: RegionChange, lr: float, width: int = 24, n_seeds: int | None = None) -> Captioners:
        """Train Show and Tell on one vector for each image, which it projects to `width` numbers.

        Args:
            vector: computes the vectors from regions; they are then standardised over the training images.
            lr: the maximum learning rate.
            width: size of the projection, and of a word.
            n_seeds: number of captioners, with the first seeds; None = all.
        """
        known, new = standardised(vector(self.task.regions), vector(self.task.new_regions))
        models = []
        for seed in self.seeds[:n_seeds]:
            torch.manual_seed(seed)
            model = ShowAndTell(len(self.task.words), known.shape[-1], width, 64)
            models.append(self.task.fit(model, known, seed, lr))
        return self._tested(models, new)

    def with_attention(
        self, caption_step: CaptionStepFunction, change: RegionChange = lambda regions: regions, lr: float = 6e-3
    ) -> Captioners:
        """Train Show, Attend and Tell, computed by `caption_step`, on regions that `change` has changed."""
        return self._reading_again(caption_step, change(self.task.regions), change(self.task.new_regions), lr)

    def with_one_region(self, caption_step: CaptionStepFunction, vector: RegionChange, lr: float = 6e-3) -> Captioners:
        """Train Show, Attend and Tell on a single region: one vector of each image, read before each word.

        Args:
            caption_step: computes a step of the model; its attention has nothing to choose.
            vector: computes the vectors from regions; they are then standardised over the training images.
            lr: the maximum learning rate.
        """
        known, new = standardised(vector(self.task.regions), vector(self.task.new_regions))
        return self._reading_again(caption_step, known[:, None], new[:, None], lr)

    def untrained(self, seed: int, d_region: int | None = None) -> ShowAttendAndTell:
        """Create the model that `with_attention` trains, with its initial weights by this seed.

        Args:
            seed: of the weights.
            d_region: size of a region; None = that of the task's regions.
        """
        torch.manual_seed(seed)
        return ShowAttendAndTell(len(self.task.words), d_region or self.task.regions.shape[-1], 24, 64, 32).to(device())

    def compare(self, captioners: Mapping[str, Captioners]) -> dict[str, list[float]]:
        """Draw the training losses of captioners and the exact match of their captions; return the exact match by name."""
        show_losses({name: group.models for name, group in captioners.items()})
        found = {name: group.exact_match for name, group in captioners.items()}
        show_seeds(found, "exact match", "captions of new images, one point per trained model")
        return found

    @torch.no_grad()
    def difference_to_library(self, captioner: CaptionerByFunction) -> float:
        """Return the largest difference of a logit at the first word between the captioner and the library's model."""
        seen, first = self.task.new_regions.to(device()), self.task.new_captions[:, :1].to(device())
        return (captioner(seen, first).logits - captioner.model(seen, first).logits).abs().max().item()

    def right_caption_with(self, word: str, captioners: Captioners) -> int:
        """Return the index of the first test image whose caption has this word and is that of the first model; 0 if none."""
        pairs = zip(captioners.captions[0], self.task.examples.test.captions, strict=True)
        return next((i for i, (ours, right) in enumerate(pairs) if ours == right and word in right.split()), 0)

    def exact_match_of(self, train_captioner: Callable[[Tensor, Tensor, int, int], nn.Module], n_steps: int) -> float:
        """Train a captioner on the regions of section 1, print its captions of three test images, and measure all of them.

        Args:
            train_captioner: `(regions, captions, n_tokens, n_steps)` → a model that maps regions to tokens.
            n_steps: number of updates.
        """
        task = self.task
        torch.manual_seed(self.seeds[0])
        model = train_captioner(task.regions, task.captions, len(task.words), n_steps)
        with torch.no_grad():
            captions = [task.words.decode(row) for row in model(task.new_regions).tolist()]
        for caption, right in zip(captions[:3], task.examples.test.captions, strict=False):
            print(f"{caption:<24}right: {right}")
        return task.exact_match(captions)

    def _reading_again(self, caption_step: CaptionStepFunction, known: Tensor, new: Tensor, lr: float) -> Captioners:
        models = []
        for seed in self.seeds:
            model = CaptionerByFunction(self.untrained(seed, known.shape[-1]), caption_step)
            models.append(self.task.fit(model, known, seed, lr))
        return self._tested(models, new)

    def _tested(self, models: list[nn.Module], new: Tensor) -> Captioners:
        captions = [self.task.captions_by(model, new) for model in models]
        return Captioners(
            models, captions, list(map(self.task.exact_match, captions)), list(map(self.task.names_both, captions))
        )
