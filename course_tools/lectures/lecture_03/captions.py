"""Images of two digits, or of four, with captions: regions from a trained encoder, rival vectors, and weights over an image."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import mean

import torch
import torch.nn.functional as F
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib.blocks import ConvNet
from course_lib.datasets import Vocabulary
from course_lib.datasets.splits import Splits
from course_lib.training import batches, train
from course_tools.bank.drawn_digits import Drawings, composed, stamp
from course_tools.bank.lecture_03._captioned_digits import NAMES, Captions, captioned_digits
from course_tools.notebook.device import device
from course_tools.notebook.plots import pictures
from course_tools.notebook.show import show

_DIGIT, _WINDOW, _AROUND = 14, 22, 8
"""The side of a digit, that of a window around one digit, and the largest margin on each side of it, in pixels."""
_FARTHEST = 15.0
"""A region's row and column run from the negative of this value to it. At a smaller scale, attention often learns later."""
_YELLOW, _MOST_OPAQUE = (1.0, 0.8, 0.0), 0.65
"""The colour and the opacity of the largest weight over an image."""


@dataclass(frozen=True)
class CaptionTask:
    """Images of digits and their captions, for training and for testing: as images, regions and tokens.

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

    def exact_match(self, captions: Sequence[str]) -> float:
        """Measure the fraction of the test images whose caption is exactly right."""
        return mean(caption == right for caption, right in zip(captions, self.examples.test.captions, strict=True))

    def names_both(self, captions: Sequence[str]) -> float:
        """Measure the fraction of the test images whose caption names both digits, in any order."""
        named, right = ([set(text.split()) & set(NAMES) for text in texts] for texts in (captions, self.examples.test.captions))
        return mean(ours == theirs for ours, theirs in zip(named, right, strict=True))


@cache
def caption_task(seed: int = 0, n_images: int = 4_000, steps: int = 300) -> CaptionTask:
    """Compose `n_images` images of two digits and 500 for testing; train the encoder for `steps` updates on single digits."""
    examples = captioned_digits(n_images, 500, 500, seed=seed)
    return _with_regions(examples, _digit_classifier(examples.train, seed, steps))


@torch.no_grad()
def classifier_names_both(task: CaptionTask) -> float:
    """Measure the fraction of the test images both of whose digits the encoder's classifier names, shown one at a time."""
    part, right = task.examples.test, torch.tensor(True)
    for which, word in ((0, 0), (1, -1)):
        labels = torch.tensor([NAMES.index(caption.split()[word]) for caption in part.captions])
        right = right & (task.classifier(_windows(part, 1, which).to(device())).argmax(-1).cpu() == labels)
    return right.float().mean().item()


def page_task(task: CaptionTask, seed: int = 0, n_images: int = 4_000) -> CaptionTask:
    """Compose pages of four digits on two lines, whose captions read them line by line; they keep the encoder of `task`."""
    return _with_regions(composed((n_images, 1, 500), seed, _page), task.classifier)


def _with_regions(examples: Splits[Captions], classifier: nn.Sequential) -> CaptionTask:
    words = Vocabulary.of(examples.train.captions, between=" ")
    features = _features(classifier[0], examples.train.images)
    centre, spread = features.mean((0, 1)), features.std((0, 1)).clamp(min=1e-3)
    captions, new_captions = (words.batch(part.captions, begin=True, end=True)[0] for part in (examples.train, examples.test))
    regions = _regions(features, centre, spread)
    new_regions = _regions(_features(classifier[0], examples.test.images), centre, spread)
    return CaptionTask(examples, words, classifier, centre, spread, regions, captions, new_regions, new_captions)


def _page(n: int, drawings: Drawings, generator: torch.Generator) -> Captions:
    """Place four digits on two lines of an image, one to three on each, with free space between them."""
    digits = torch.randint(10, (n, 4), generator=generator)
    which = torch.randint(drawings.shape[1], (n, 4), generator=generator)
    j, upper = torch.arange(4), torch.randint(1, 4, (n, 1), generator=generator)
    line = (j >= upper).long()
    place, on_line = j - upper * line, torch.where(line == 0, upper, 4 - upper)
    free = (line + torch.rand(n, 4, generator=generator, dtype=torch.float64)).sort(1).values - line  # ascending in a line
    columns = _DIGIT * place + (free * (43 - _DIGIT * on_line)).long()
    corners = torch.stack([21 * line + torch.randint(8, (n, 4), generator=generator), columns], dim=-1)
    images = torch.zeros(n, 42, 42)
    for i in range(4):
        images = stamp(images, drawings[digits[:, i], which[:, i]], corners[:, i])
    return Captions(images[:, None], tuple(" ".join(NAMES[i] for i in row) for row in digits.tolist()), corners)


def two_and_two(task: CaptionTask, captions: Sequence[str]) -> float:
    """Measure the exact match on those test pages that have two digits on each line."""
    part = task.examples.test
    even = ((part.corners[..., 0] < 21).sum(1) == 2).tolist()
    return mean(a == b for a, b, chosen in zip(captions, part.captions, even, strict=True) if chosen)


def standardised(vectors: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """Shift and scale features to mean 0 and standard deviation 1 on `vectors` (n, d); a constant feature becomes 0."""
    centre, spread = vectors.mean(0), vectors.std(0).clamp(min=1e-3)
    return (vectors - centre) / spread, (new - centre) / spread


def overlaid(image: Tensor, weights: Tensor, most: float) -> Tensor:
    """Colour the ground of an image (1, 42, 42) by attention weights (6, 6): (42, 42, 3), more yellow the closer to `most`."""
    opacity = _MOST_OPAQUE * (weights / most).repeat_interleave(7, 0).repeat_interleave(7, 1)[..., None]
    ink = image[0, :, :, None]
    return ink + (1 - ink) * opacity * torch.tensor(_YELLOW)


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
    run = train(model.to(device()), stream, _cross_entropy, steps=steps, lr=5e-3, warmup=steps // 10)
    for _ in run:
        pass
    return model.eval()


def _cross_entropy(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def _windows(part: Captions, seed: int, which: int = 0) -> Tensor:
    """Cut a window (n, 1, 22, 22) that contains, at a random position, the digit that each caption names first, or `which`."""
    generator = torch.Generator().manual_seed(seed)
    shift = torch.randint(0, _AROUND + 1, (len(part.corners), 2), generator=generator)
    corners = (part.corners[:, which] + shift).tolist()
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


def without_positions(regions: Tensor) -> Tensor:
    """Set the row and the column of each region, the last two of its numbers, to 0."""
    return torch.cat([regions[..., :-2], torch.zeros_like(regions[..., -2:])], dim=-1)


def position_weighted_means(regions: Tensor) -> Tensor:
    """Compute one vector (n, 192) of each image from its regions (n, 36, 66), without attention.

    With a = max(0, a feature) of a region, these are the means over the regions of a, of a · row and of a · column.
    """
    weights = torch.cat([torch.ones_like(regions[..., :1]), regions[..., -2:]], dim=-1)
    return torch.einsum("nlk,nld->nkd", weights, regions[..., :-2].relu()).flatten(1) / regions.shape[1]


def quarters(regions: Tensor) -> Tensor:
    """Compute the largest of each feature in each quarter of the map, line by line, (n, 4, 64), from regions (n, 36, 66)."""
    return _largest(regions, (2, 2)).mT


def largest_by_sixth(regions: Tensor) -> Tensor:
    """Compute one vector (n, 384): the largest of each feature in each sixth of the map, two rows and three columns."""
    return _largest(regions, (2, 3)).flatten(1)


def _largest(regions: Tensor, parts: tuple[int, int]) -> Tensor:
    """Compute the largest of each feature in each part of the map, (n, 64, rows · columns)."""
    return F.adaptive_max_pool2d(regions[..., :-2].mT.unflatten(-1, (6, 6)), parts).flatten(2)
