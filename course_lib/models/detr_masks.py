"""DETR's mask head: a segmentation mask for each object query, from its attention over the image.

Carion et al. 2020, *End-to-End Object Detection with Transformers*, section 4.4 and figure 8 (https://arxiv.org/abs/2005.12872):

    a = softmax(q kᵀ / √d_k)        q = W_q x̂ of a query,  k = W_k m at each cell of the encoder's memory m, in each head
    y = layer(layer([f ; a]))       f: the projected features of the backbone, the same for all queries
    y ← layer(up(y) + W_i l_i)      for each lateral map l_i, the finer the later
    mask = conv(y)                  layer = ReLU ∘ norm ∘ 3 × 3 convolution; up: to the size of l_i, nearest cell

As in the published code, the softmax of a query runs over the cells of all heads together, so that its maps sum to 1, and each
lateral map halves the number of channels. In the paper the finest lateral map has a stride of 4, and masks are scaled up; here
the images can be the last one, so that masks have their resolution. The lateral connections are those of feature pyramid
networks (Lin et al. 2017, section 3, https://arxiv.org/abs/1612.03144), the norm is group normalisation (Wu & He 2018, section
3, https://arxiv.org/abs/1803.08494).

The head is trained with DETR, or after it with all of DETR's weights frozen; then what it reads can be computed once for each
image, by `read_objects`, with the model in evaluation mode.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention import split_heads
from course_lib.blocks import ConvNet
from course_lib.models.detr import DETR
from course_lib.primitives.precision import rounded_from_float32
from course_lib.shapes import Image

__all__ = ["AttentionMaps", "DETRWithMasks", "MaskHead", "ObjectFeatures", "read_objects"]

LateralMap = Float[Tensor, "B _ _ _"]


class ObjectFeatures(NamedTuple):
    """What a mask head reads from a DETR.

    `states` (n_layers, B, N, d_model) of the queries after each decoder layer, normalised; `references` (N, 4), σ⁻¹ of a box;
    the encoder's `memory` and the projected `features`, (B, d_model, h, w) each; and finer maps of the backbone,
    `laterals` (B, d_i, H_i, W_i), the finest last: the images themselves if the first layer has a stride.
    """

    states: Float[Tensor, "n_layers B N d_model"]
    references: Float[Tensor, "N 4"]
    memory: Float[Tensor, "B d_model h w"]
    features: Float[Tensor, "B d_model h w"]
    laterals: tuple[LateralMap, ...]


class DetectedMasks(NamedTuple):
    """Predictions of each decoder layer, as in `Detected`, and of the last one `masks` (B, N, H, W), the logits of each pixel.

    A pixel whose logit is above 0 belongs to the object of the query.
    """

    logits: Float[Tensor, "n_layers B N n_classes_1"]
    boxes: Float[Tensor, "n_layers B N 4"]
    masks: Float[Tensor, "B N H W"]


class AttentionMaps(nn.Module):
    """Attention of object queries over the cells of a map, in several heads: only the weights, without values."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        """Set up the projections of queries and cells, for a number of heads that divides d_model; biases start at 0."""
        super().__init__()
        self.n_heads = n_heads
        self.W_q, self.W_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        for projection in (self.W_q, self.W_k):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(
        self, queries: Float[Tensor, "B N d_model"], memory: Float[Tensor, "B d_model h w"]
    ) -> Float[Tensor, "B N n_heads h w"]:
        """Attend from queries (B, N, d_model) to the cells of memory (B, d_model, h, w).

        Returns:
            the weights (B, N, n_heads, h, w), ≥ 0; those of a query sum to 1 over all cells of all heads.
        """
        h, w = memory.shape[-2:]
        q = split_heads(self.W_q(queries), self.n_heads)
        k = split_heads(self.W_k(rearrange(memory, "B d h w -> B (h w) d")), self.n_heads)
        return rearrange(_over_all_heads(q, k), "B N (heads h w) -> B N heads h w", heads=self.n_heads, h=h, w=w)


@rounded_from_float32
def _over_all_heads(q: Tensor, k: Tensor) -> Tensor:
    """Normalise the scores of each query over the cells of all heads: (B, N, heads · cells)."""
    return rearrange(q @ k.mT / math.sqrt(q.shape[-1]), "B heads N cells -> B N (heads cells)").softmax(-1)


class MaskHead(nn.Module):
    """Convolutions that turn the maps of each query, features and finer lateral maps into a mask for each query."""

    def __init__(self, d_model: int, n_maps: int, d_laterals: Sequence[int], n_groups: int = 8) -> None:
        """Set up the layers.

        Args:
            d_model: channels of the features.
            n_maps: maps of a query, such as the number of heads.
            d_laterals: channels of each lateral map, the finest last; layers after i of them have d_model / 2ⁱ⁺¹ channels.
            n_groups: groups of the normalisation; it divides d_model + n_maps and the channels of each layer.

        Raises:
            ValueError: n_groups does not divide the channels of a layer, or a layer would have none.
        """
        super().__init__()
        d_in = d_model + n_maps
        widths = [d_model // 2 ** (i + 1) for i in range(len(d_laterals) + 1)]
        if n_groups < 1 or any(width < 1 or width % n_groups for width in (d_in, *widths)):
            raise ValueError(f"{n_groups} groups must divide the channels of each layer, {(d_in, *widths)}.")
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(n_groups, after), nn.ReLU())
            for before, after in zip((d_in, d_in, *widths), (d_in, *widths), strict=False)
        )
        self.laterals = nn.ModuleList(nn.Conv2d(d, width, 1) for d, width in zip(d_laterals, widths, strict=False))
        self.mask = nn.Conv2d(widths[-1], 1, 3, padding=1)
        for part in self.modules():
            if isinstance(part, nn.Conv2d) and part.bias is not None:
                nn.init.kaiming_uniform_(part.weight, a=1)
                nn.init.zeros_(part.bias)

    def forward(
        self,
        features: Float[Tensor, "B d_model h w"],
        maps: Float[Tensor, "B N n_maps h w"],
        laterals: Sequence[LateralMap] = (),
    ) -> Float[Tensor, "B N H W"]:
        """Predict masks from features (B, d_model, h, w) and maps (B, N, n_maps, h, w).

        Args:
            features: of the image, shared by its queries.
            maps: of each query.
            laterals: as many maps (B, d_i, H_i, W_i) as the head was set up for, the finest last.

        Returns:
            the logits of each pixel, (B, N, H, W); H and W are those of the last lateral map.

        Raises:
            ValueError: the number of lateral maps differs from that of the layers for them.
        """
        B, N = maps.shape[:2]
        y = torch.cat([repeat(features, "B d h w -> (B N) d h w", N=N), maps.flatten(0, 1)], dim=1)
        first, second, *finer = self.layers
        y = second(first(y))
        for lateral, project, layer in zip(laterals, self.laterals, finer, strict=True):
            added = repeat(project(lateral), "B d h w -> (B N) d h w", N=N)
            y = layer(F.interpolate(y, added.shape[-2:], mode="nearest") + added)
        return rearrange(self.mask(y), "(B N) 1 h w -> B N h w", B=B, N=N)


def read_objects(detr: DETR, images: Image) -> ObjectFeatures:
    """Compute what a mask head reads from a DETR with a `ConvNet` as backbone, for images (B, C, H, W).

    The lateral maps are, for each resolution finer than that of the features, the last map of that resolution: the images
    themselves if the first layer has a stride.

    Raises:
        TypeError: the backbone is not a `ConvNet`, so its maps are not known.
    """
    if not isinstance(detr.backbone, ConvNet):
        raise TypeError(f"the lateral maps are those of a ConvNet, but the backbone is a {type(detr.backbone).__name__}.")
    finer, x = [], images
    for part in detr.backbone.layers:
        before, x = x, part(x)
        if x.shape[-2:] != before.shape[-2:]:
            finer.append(before)
    features = detr.project(x)
    states, references, memory = detr.states(features)
    as_map = rearrange(memory, "B (h w) d -> B d h w", h=features.shape[-2])
    return ObjectFeatures(states, references, as_map, features, tuple(reversed(finer)))


class DETRWithMasks(nn.Module):
    """DETR with a mask head: image → classes, boxes and masks, one for each object query."""

    def __init__(self, detr: DETR, maps: AttentionMaps, head: MaskHead) -> None:
        """Put a mask head on a DETR, whose weights are shared, not copied.

        Args:
            detr: with a `ConvNet` as backbone.
            maps: for its d_model.
            head: for its d_model, the heads of the maps, and the channels of its lateral maps, the coarsest first (see
                `read_objects`), such as (32, 1) for `ConvNet(1, (32, 64, 64), (2, 2, 1))`.
        """
        super().__init__()
        self.detr, self.maps, self.head = detr, maps, head

    def forward(self, images: Image) -> DetectedMasks:
        """Detect and segment objects in images (B, C, H, W)."""
        read = read_objects(self.detr, images)
        boxes = (self.detr.box(read.states) + read.references).sigmoid()
        masks = self.head(read.features, self.maps(read.states[-1], read.memory), read.laterals)
        return DetectedMasks(self.detr.classify(read.states), boxes, masks)
