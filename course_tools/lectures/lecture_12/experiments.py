"""Detect handwritten digits in scenes: data, a small DETR, average precision, and non-maximum suppression."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from course_lib.blocks import ConvNet, Sizes
from course_lib.datasets import LabelledImages, Scenes, digit_scenes, digits
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.metrics import mean_average_precision
from course_lib.models import DETR, PointQueries
from course_lib.primitives import iou, to_corners
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import classify, fitted

# Scenes of handwritten digits, and a small DETR that detects them: data, model and metrics.


N_QUERIES, N_CLASSES = 6, 10
_SIZES = Sizes(d_model=64, n_heads=4, d_ff=128, n_layers=1)


def scenes(which: Sequence[int], n: int, seed: int, size: int = 24, fewest: int = 1, most: int = 3) -> Scenes:
    """Place some of the digits on n canvases of size × size pixels, on the device.

    Args:
        which: indices of the digits to choose from.
        n: number of scenes.
        seed: determines all scenes.
        size: height and width of a scene.
        fewest: minimum number of digits in a scene.
        most: maximum number of digits in a scene.
    """
    images, labels = digits()
    chosen = torch.tensor(which)
    pictures = LabelledImages(images[chosen][:, None], labels[chosen])
    return Scenes(*(part.to(device()) for part in digit_scenes(pictures, n, seed, (size, size), (fewest, most))))


def objects(made: Scenes, i: int) -> tuple[Tensor, list[str]]:
    """Return the true boxes of scene i as corners, (n, 4), as fractions of the image's size, and the digits in them."""
    real = made.classes[i] >= 0
    return to_corners(made.boxes[i][real]).cpu(), [str(digit) for digit in made.classes[i][real].tolist()]


def backbone() -> ConvNet:
    """Create three convolutions: images (B, 1, H, W) to features (B, 64, H / 4, W / 4)."""
    return ConvNet(1, widths=(32, 64, _SIZES.d_model), strides=(2, 2, 1))


def pretrained_classifier(which: Sequence[int], seed: int, steps: int = 200) -> nn.Sequential:
    """Train a backbone, `[0]`, with max pooling and a linear layer, to classify a digit at any position on a small canvas.

    Args:
        which: indices of the training digits.
        seed: determines the weights, the canvases and the batches.
        steps: number of updates.
    """
    torch.manual_seed(seed)
    model = nn.Sequential(backbone(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(_SIZES.d_model, N_CLASSES)).to(device())
    alone = scenes(which, 3_000, seed, size=16, most=1)
    stream = batches(alone.images, alone.classes[:, 0], batch_size=64, seed=seed)
    return fitted(model, stream, classify, steps=steps, lr=3e-3, label="classifier", warmup=0)


def small_detr(features: nn.Module) -> DETR:
    """Create a DETR with six queries on a backbone; initially, each query attends to the area around its reference point.

    The linear layer of the queries is the identity, and queries and cells share one projection matrix, so that their scores
    compare positions.
    """
    queries = PointQueries(N_QUERIES, _SIZES.d_model)
    model = DETR(features, _SIZES.d_model, N_CLASSES, queries, _SIZES, fused_scaled_dot_product_attention)
    cross = model.decoder[0].cross
    with torch.no_grad():
        nn.init.eye_(model.queries.mix.weight)
        nn.init.zeros_(model.queries.mix.bias)
        cross.W_k.weight.mul_(2)
        cross.W_q.load_state_dict(cross.W_k.state_dict())
    return model.to(device())


@torch.no_grad()
def detect(model: DETR, images: Tensor) -> tuple[Tensor, Tensor]:
    """Return the last layer's probability of each digit for each query (B, N, 10), and the corners of the boxes (B, N, 4)."""
    logits, boxes = (layers[-1] for layers in model(images))
    return logits.softmax(-1)[..., :-1], to_corners(boxes)


def ap50(detections: tuple[Tensor, Tensor], made: Scenes, naming: bool = True) -> float:
    """Measure the average precision at IoU 0.5, averaged over the classes, from 0 to 1.

    Args:
        detections: as returned by `detect`.
        made: the scenes to which they belong.
        naming: whether a box counts only for its class; if False, for any class (class-agnostic).
    """
    p, corners = detections
    classes = made.classes if naming else made.classes.clamp(max=0)
    return float(mean_average_precision(p if naming else p.sum(-1, keepdim=True), corners, classes, to_corners(made.boxes)))


# Non-maximum suppression: remove boxes that overlap a more confident one.


def non_maximum_suppression(confidence: Tensor, corners: Tensor, threshold: float = 0.5) -> Tensor:
    """Return which boxes remain when each box that overlaps a more confident remaining one is removed.

    Args:
        confidence: (B, N), of each box.
        corners: (B, N, 4).
        threshold: two boxes overlap if their IoU is above it.

    Returns:
        (B, N), bool.
    """
    above, keep = iou(corners, corners) > threshold, torch.ones_like(confidence, dtype=torch.bool)
    rows, order = torch.arange(len(confidence), device=confidence.device), confidence.argsort(-1, descending=True)
    for rank in range(1, confidence.shape[1]):
        for better in range(rank):
            i, j = order[:, rank], order[:, better]
            keep[rows, i] &= ~(above[rows, i, j] & keep[rows, j])
    return keep
