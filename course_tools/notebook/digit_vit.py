"""A small Vision Transformer and a small CNN for handwritten digits."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from course_lib.attention import AnyMechanism
from course_lib.blocks import ConvNet, Sizes
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.models import ViT
from course_tools.notebook.device import device

P, GRID, SIZES = 7, 4, Sizes(d_model=64, n_heads=4, d_ff=128, n_layers=2)
"""Side of a patch in pixels, patches in a row of 28 pixels, and the sizes of the Vision Transformer."""


def small_vit(
    seed: int | None = None,
    sizes: Sizes = SIZES,
    *,
    kind: Callable[..., nn.Module] = ViT,
    n_classes: int = 10,
    mechanism: AnyMechanism = fused_scaled_dot_product_attention,
    scale: float = 4.0,
    grid: int = GRID,
) -> Any:
    """Create a Vision Transformer for digits of 28 × 28 pixels, or of another grid of patches, with patches of 7 × 7.

    Args:
        seed: determines the weights; None = they are drawn from the generator of torch as it is.
        sizes: of the encoder.
        kind: `ViT` or `DeiT`.
        n_classes: number of logits.
        mechanism: what each head computes.
        scale: the initial position embeddings are multiplied by it.
        grid: patches in a row of an image.
    """
    if seed is not None:
        torch.manual_seed(seed)
    model: Any = kind(n_classes, (1, grid * P, grid * P), P, sizes, mechanism).to(device())
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
