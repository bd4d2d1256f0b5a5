"""A small Vision Transformer and a small CNN for handwritten digits: models, training, and changed images."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import AnyMechanism
from course_lib.blocks import ConvNet, Sizes, zero_head
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.models import ViT
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.digit_split import DigitSplit
from course_tools.notebook.fitting import accuracy_of, classify, fitted

P, GRID, SIZES = 7, 4, Sizes(d_model=64, n_heads=4, d_ff=128, n_layers=2)
"""Side of a patch in pixels, patches in a row of 28 pixels, and the sizes of the Vision Transformer."""

ImageChange = Callable[[Tensor], Tensor]
"""Changes images (B, 1, H, W), such as `enlarged(35)`."""


def small_vit(
    seed: int | None = None,
    sizes: Sizes = SIZES,
    *,
    kind: Callable[..., nn.Module] = ViT,
    n_classes: int = 10,
    mechanism: AnyMechanism = fused_scaled_dot_product_attention,
    scale: float = 4.0,
) -> Any:
    """Create a Vision Transformer for digits of 28 × 28 pixels, with patches of 7 × 7.

    Args:
        seed: determines the weights; None = they are drawn from the generator of torch as it is.
        sizes: of the encoder.
        kind: `ViT` or `DeiT`.
        n_classes: number of logits.
        mechanism: what each head computes.
        scale: the initial position embeddings are multiplied by it.
    """
    if seed is not None:
        torch.manual_seed(seed)
    model: Any = kind(n_classes, (1, GRID * P, GRID * P), P, sizes, mechanism).to(device())
    model.encoder.positions.data.mul_(scale)
    return model


def small_cnn(
    seed: int | None = None, widths: Sequence[int] = (16, 32, 64), strides: Sequence[int] = (2, 1, 2)
) -> nn.Sequential:
    """Create three convolutions of 3 × 3, global max pooling and a linear layer, for ten classes.

    Args:
        seed: determines the weights; None = they are drawn from the generator of torch as it is.
        widths: features of the maps.
        strides: of the convolutions.
    """
    if seed is not None:
        torch.manual_seed(seed)
    body = ConvNet(1, widths, strides)
    return nn.Sequential(body, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10)).to(device())


def fit_image_model(
    model: nn.Module,
    seed: int,
    *tensors: Tensor,
    steps: int,
    loss: Callable[[nn.Module, Any], Tensor] = classify,
    lr: float = 3e-3,
    name: str = "ViT",
) -> Any:
    """Train a model in place on batches of 32, and return it in evaluation mode.

    Args:
        model: on the device of the tensors.
        seed: determines the batches.
        tensors: the parts of a batch, such as images and labels.
        steps: number of updates; the learning rate increases during the first quarter.
        loss: computes a scalar from (model, batch).
        lr: the maximum learning rate.
        name: the label of the progress bar.
    """
    stream = batches(*tensors, batch_size=32, seed=seed)
    return fitted(model, stream, loss, steps=steps, lr=lr, warmup=steps // 4, label=f"{name}, seed {seed}")


def digit_accuracy(model: nn.Module, digits: DigitSplit, seed: int, change: ImageChange | None = None) -> float:
    """Measure the accuracy on the unseen digits of a seed, after an optional change of the images."""
    images, labels = digits.images[digits.unseen[seed]], digits.labels[digits.unseen[seed]]
    return accuracy_of(model, images if change is None else change(images), labels)


def enlarged(side: int) -> ImageChange:
    """Create a function that resizes images to side × side pixels by bicubic interpolation, values clipped to 0…1."""
    return lambda images: F.interpolate(images, (side, side), mode="bicubic", align_corners=False).clamp(0, 1)


def blackened(order: Tensor, n: int = 4) -> ImageChange:
    """Create a function that sets to 0 the first n patches of each image in the given order of its patches (B, 16)."""
    keep = torch.ones(len(order), GRID * GRID, device=order.device).scatter(1, order[:, :n], 0.0)
    pixels = keep.unflatten(1, (1, GRID, GRID)).repeat_interleave(P, -2).repeat_interleave(P, -1)
    return lambda images: images * pixels


def with_positions(model: ViT, side: int, positions: Tensor) -> ViT:
    """Copy a model for images of side × side pixels: other positions (1 + (side / 7)², d_model), the same weights."""
    larger = ViT(len(model.head.bias), (1, side, side), P, SIZES, fused_scaled_dot_product_attention).to(device())
    larger.load_state_dict(model.state_dict() | {"encoder.positions": positions.to(model.encoder.positions)})
    return larger.eval()


def fine_tuned(model: Any, images: Tensor, labels: Tensor, n_classes: int, steps: int = 40) -> Any:
    """Put a new head of zeros on a ViT, and train all its weights in place: SGD, momentum 0.9, all images at once."""
    model.head = zero_head(SIZES.d_model, n_classes).to(device())
    optimiser = torch.optim.SGD(model.train().parameters(), lr=0.03, momentum=0.9)
    for _ in range(steps):
        optimiser.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return model.eval()


def position_similarity(model: ViT) -> Tensor:
    """Compute the cosines (16, 4, 4) of the position vectors of all pairs of patches, each less the mean over the patches."""
    positions = model.encoder.positions.detach()[-GRID * GRID :].cpu()
    directions = F.normalize(positions - positions.mean(0), dim=-1)
    return (directions @ directions.mT).unflatten(-1, (GRID, GRID))


def neighbours_over_distant(similarity: Tensor) -> float:
    """Average the similarity (16, 4, 4) of neighbouring patches, less that of patches three or more steps apart."""
    row, column = torch.arange(GRID * GRID) // GRID, torch.arange(GRID * GRID) % GRID
    steps = (row[:, None] - row).abs() + (column[:, None] - column).abs()
    return (similarity.flatten(1)[steps == 1].mean() - similarity.flatten(1)[steps >= 3].mean()).item()
