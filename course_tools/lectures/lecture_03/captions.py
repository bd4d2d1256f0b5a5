"""Caption images of two digits: regions, captioners with several seeds, greedy captions, and where they attend."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib.blocks import ConvNet
from course_lib.datasets import BEGIN, END, PADDING, Vocabulary, captioned_digits
from course_lib.datasets.composed_pictures import NAMES, Captions
from course_lib.datasets.splits import Splits
from course_lib.generation import greedy
from course_lib.losses import teacher_forced_loss
from course_lib.models import ShowAndTell, ShowAttendAndTell
from course_lib.models.captioner import Captioned
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import classify, fitted, show_losses
from course_tools.notebook.plots import pictures
from course_tools.notebook.seed_scores import show_seeds
from course_tools.notebook.show import show

# Caption images of two digits: regions from a trained encoder, training of captioners, greedy captions.


Model = TypeVar("Model", bound=nn.Module)

_DIGIT, _WINDOW, _AROUND = 14, 22, 8
"""The side of a digit, that of a window around one digit, and the largest margin on each side of it, in pixels."""
_FARTHEST = 15.0
"""A region's row and column run from the negative of this value to it: their scale equals that of all features together."""
_YELLOW, _MOST_OPAQUE = (1.0, 0.8, 0.0), 0.65
"""The colour and the opacity of the largest weight over an image."""


@dataclass(frozen=True)
class CaptionTask:
    """Images of two digits and their captions, for training and for testing: as images, regions and tokens.

    `regions` and `new_regions` are (n, 36, 66): for each of 6 × 6 regions, 64 features of the encoder, each with mean 0 and
    standard deviation 1 over the training images, then its row and column. `captions` and `new_captions` are (n, T) tokens with
    BEGIN and END. The encoder is the first part of `classifier`, which was trained to recognise single digits.
    """

    examples: Splits[Captions]
    words: Vocabulary
    classifier: nn.Sequential
    centre: Tensor
    spread: Tensor
    regions: Tensor
    captions: Tensor
    new_regions: Tensor
    new_captions: Tensor

    def show_examples(self, n: int) -> None:
        """Draw the first n training images, each with its caption."""
        train = self.examples.train
        drawn = {train.captions[i]: train.images[i, 0, :, :, None].expand(-1, -1, 3) for i in range(n)}
        show(pictures(drawn), alt=f"{n} images and captions: {'; '.join(drawn)}.")

    def regions_of(self, images: Tensor) -> Tensor:
        """Compute the regions (n, 36, 66) of images (n, 1, 42, 42)."""
        return _regions(_features(self.classifier[0], images), self.centre, self.spread)

    def fit(self, model: Model, seen: Tensor, seed: int, lr: float, steps: int = 600) -> Model:
        """Train a captioner by teacher forcing on features of the training images, in batches of 32.

        Args:
            model: `(seen, caption)` → a result with `logits`: `ShowAndTell` on vectors, `ShowAttendAndTell` on regions.
            seen: (n, …), the model's input for each image.
            seed: determines the order of the batches.
            lr: the maximum learning rate.
            steps: number of updates.
        """
        stream = batches(seen.to(device()), self.captions.to(device()), batch_size=32, seed=seed)
        return fitted(model.to(device()), stream, _next_words, steps=steps, lr=lr, label=f"seed {seed}")

    @torch.no_grad()
    def captions_by(self, model: nn.Module, seen: Tensor) -> list[str]:
        """Write captions by greedy decoding, at most six words each, with a model that has `start` and `step`."""
        seen = seen.to(device())
        first = torch.full((len(seen),), BEGIN, device=device())
        return [self.words.decode(row) for row in greedy(model.step, model.start(seen), first, END, PADDING, 6).tolist()]

    def exact_match(self, captions: Sequence[str]) -> float:
        """Measure the fraction of the test images whose caption is exactly right."""
        return mean(caption == right for caption, right in zip(captions, self.examples.test.captions, strict=True))

    def names_both(self, captions: Sequence[str]) -> float:
        """Measure the fraction of the test images whose caption names both digits, in any order."""
        named, right = ([set(text.split()) & set(NAMES) for text in texts] for texts in (captions, self.examples.test.captions))
        return mean(ours == theirs for ours, theirs in zip(named, right, strict=True))


def caption_task(seed: int, n_images: int = 4_000, steps: int = 300) -> CaptionTask:
    """Compose `n_images` training images and 500 test images; train the encoder for `steps` updates on windows of one digit."""
    examples = captioned_digits(n_images, 500, 500, seed=seed)
    words = Vocabulary.of(examples.train.captions, between=" ")
    classifier = _digit_classifier(examples.train, seed, steps)
    features = _features(classifier[0], examples.train.images)
    centre, spread = features.mean((0, 1)), features.std((0, 1)).clamp(min=1e-3)
    captions, new_captions = (words.batch(part.captions, begin=True, end=True)[0] for part in (examples.train, examples.test))
    regions = _regions(features, centre, spread)
    new_regions = _regions(_features(classifier[0], examples.test.images), centre, spread)
    return CaptionTask(examples, words, classifier, centre, spread, regions, captions, new_regions, new_captions)


def standardised(vectors: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """Shift and scale features to mean 0 and standard deviation 1 on `vectors` (n, d); a constant feature becomes 0."""
    centre, spread = vectors.mean(0), vectors.std(0).clamp(min=1e-3)
    return (vectors - centre) / spread, (new - centre) / spread


def both_images(part: Captions, i: int, j: int) -> Tensor:
    """Overlay images i and j: one image (1, 1, 42, 42) with up to four digits."""
    return torch.maximum(part.images[i], part.images[j])[None]


def without_second_digit(part: Captions, i: int) -> Tensor:
    """Erase from image i the window of the digit that its caption names second: (1, 1, 42, 42)."""
    image, (top, left) = part.images[i].clone(), part.corners[i, 1].tolist()
    image[:, top : top + _DIGIT, left : left + _DIGIT] = 0.0
    return image[None]


def overlaid(image: Tensor, weights: Tensor, most: float) -> Tensor:
    """Overlay attention weights (6, 6) on an image (1, 42, 42): (42, 42, 3), more yellow the closer a weight is to `most`."""
    opacity = _MOST_OPAQUE * (weights / most).repeat_interleave(7, 0).repeat_interleave(7, 1)[..., None]
    return (1 - opacity) * image[0, :, :, None] + opacity * torch.tensor(_YELLOW)


def add_weight_scale(figure: Figure, most: float) -> None:
    """Draw the colour bar of images made by `overlaid` with this `most`: the colours of 0 … `most` over black."""
    colours = LinearSegmentedColormap.from_list("overlaid", [(0.0, 0.0, 0.0), tuple(_MOST_OPAQUE * part for part in _YELLOW)])
    figure.colorbar(ScalarMappable(Normalize(0.0, most), colours), ax=figure.axes, label="attention weight", shrink=0.8)


def _digit_classifier(part: Captions, seed: int, steps: int) -> nn.Sequential:
    """Train an encoder, with max pooling and a linear layer, to classify the one digit in a window."""
    torch.manual_seed(seed)
    encoder = ConvNet(1, (16, 32, 32, 64), (2, 1, 2, 2))
    model = nn.Sequential(encoder, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(encoder.d_out, len(NAMES)))
    labels = torch.tensor([NAMES.index(caption.split()[0]) for caption in part.captions])
    stream = batches(_windows(part, seed=1).to(device()), labels.to(device()), batch_size=64, seed=seed)
    return fitted(model.to(device()), stream, classify, steps=steps, lr=5e-3, label="encoder")


def _windows(part: Captions, seed: int) -> Tensor:
    """Cut a window (n, 1, 22, 22) that contains, at a random position, the digit that each caption names first."""
    generator = torch.Generator().manual_seed(seed)
    shift = torch.randint(0, _AROUND + 1, (len(part.corners), 2), generator=generator)
    corners = (part.corners[:, 0] + shift).tolist()
    padded = F.pad(part.images, (_AROUND,) * 4)
    cut = (image[:, i : i + _WINDOW, j : j + _WINDOW] for image, (i, j) in zip(padded, corners, strict=True))
    return torch.stack(list(cut))


@torch.no_grad()
def _features(encoder: nn.Module, images: Tensor) -> Tensor:
    """Compute the features (n, 36, 64) of images, on the CPU."""
    return torch.cat([encoder(part.to(device())).cpu() for part in images.split(500)]).flatten(2).mT


def _regions(features: Tensor, centre: Tensor, spread: Tensor) -> Tensor:
    line = torch.linspace(-_FARTHEST, _FARTHEST, 6)
    positions = torch.stack(torch.meshgrid(line, line, indexing="ij"), dim=-1).flatten(0, 1)
    return torch.cat([(features - centre) / spread, positions.expand(len(features), -1, -1)], dim=-1)


def _next_words(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Compute the loss of a captioner under teacher forcing."""
    return teacher_forced_loss(model(*batch).logits, batch[1], PADDING)


# Show, Attend and Tell computed by a function for one step.


CaptionStepFunction = Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]]
"""`(y, h, c, regions, attention, gate, cell, readout)` → logits, h, c, weights, as `course_lib.models.caption_step`."""


def captioner_weights(model: ShowAttendAndTell) -> tuple[tuple[Tensor, ...], ...]:
    """Return the weights of a model as a step takes them: those of the attention, the gate, the cell and the readout."""
    attention, cell = model.attention, model.cell
    return (
        (attention.U, attention.W, attention.v),
        (model.gate.weight, model.gate.bias),
        (cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0 + cell.bias_hh_l0),
        (model.from_h.weight, model.from_z.weight, model.readout.weight),
    )


class CaptionerByFunction(nn.Module):
    """A `ShowAttendAndTell` that reads each word by the given step, in training as well."""

    def __init__(self, model: ShowAttendAndTell, step_by: CaptionStepFunction) -> None:
        """Wrap a model; `step_by` computes one step."""
        super().__init__()
        self.model, self.start, self.step_by = model, model.start, step_by

    def forward(self, regions: Tensor, caption: Tensor, state: tuple[Tensor, Tensor] | None = None) -> Captioned:
        """Read a caption (B, T) word by word, from the state (h, c); if None, from the mean of regions (B, L, d_a)."""
        h, c = self.model.initial_state(regions) if state is None else state
        weights, logits, rows = captioner_weights(self.model), [], []
        for y in self.model.words(caption).unbind(1):
            of_word, h, c, row = self.step_by(y, h, c, regions, *weights)
            logits.append(of_word)
            rows.append(row)
        return Captioned(torch.stack(logits, dim=1), torch.stack(rows, dim=1), (h, c))

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read one token (B,): the logits of the next (B, n_tokens), and the new state."""
        regions, *hidden = state
        logits, _, (h, c) = self(regions, tokens[:, None], hidden)
        return logits[:, 0], state._replace(h=h, c=c)


# Train captioners with several seeds, on one vector of each image or by attention, and compare their captions.


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
