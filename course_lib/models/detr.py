"""DETR: object detection as set prediction with a Transformer over image features.

Carion et al. 2020, *End-to-End Object Detection with Transformers*, section 3.2 and figure 10 (https://arxiv.org/abs/2005.12872):

    f = project(backbone(image))        memory = Encoder(f, positions)
    each decoder layer:   queries and keys of self-attention: x + q        of cross-attention: x + q and memory + positions
    class = W x̂        box = σ(MLP(x̂))

The values carry no positions, and x starts at 0: queries differ only in their learned q.

Dropout, if asked for, acts on the output of each attention and each feed-forward network, before the residual sum and its norm
(appendix A.4; rate 0.1 in the paper).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention import AnyMechanism, MultiHead, multi_head_attention, scaled_dot_product_attention
from course_lib.blocks import Block, FeedForward, Residual, Sizes, feed_forward, post_norm
from course_lib.blocks.block import AttentionWeights, FeedForwardWeights, NormWeights, of_one_layer
from course_lib.primitives import layer_norm, sinusoidal_points
from course_lib.shapes import Image, Memory, TokenFeatures

__all__ = ["DETR", "ObjectBlock", "object_block", "sinusoidal_positions_2d"]


class Detected(NamedTuple):
    """Predictions of each decoder layer, in order: `logits` (n_layers, B, N, n_classes + 1) and `boxes` (…, 4).

    The last class is "no object"; boxes are centre and size, as fractions of the image.
    """

    logits: Float[Tensor, "n_layers B N n_classes_1"]
    boxes: Float[Tensor, "n_layers B N 4"]


class PositionalSelfAttention(nn.Module):
    """Self-attention with positions added to queries and keys, not to values."""

    def __init__(self, attention: nn.Module) -> None:
        """Set the attention, such as `MultiHead(d_model, n_heads)`."""
        super().__init__()
        self.attention = attention

    def forward(self, x: TokenFeatures, positions: Tensor) -> Tensor:
        """Mix x (B, T, d_model) with positions that broadcast to it."""
        return self.attention(x + positions, x + positions, x).context


class ObjectBlock(nn.Module):
    """DETR decoder layer: self-attention among the queries, cross-attention to the image, feed-forward network.

    `object_block` is the same equation as a function with its weights passed in.
    """

    def __init__(
        self,
        sizes: Sizes,
        mechanism: AnyMechanism = scaled_dot_product_attention,
        residual: Residual = post_norm,
        dropout: float = 0.0,
    ) -> None:
        """Set up the layer; `n_layers` of the sizes is not used. A mechanism that is a module is copied for each attention.

        In training, a feature of the output of each sublayer is set to 0 with probability `dropout`.
        """
        super().__init__()
        d_model = sizes.d_model
        self.mixer = PositionalSelfAttention(MultiHead(d_model, sizes.n_heads, of_one_layer(mechanism)))
        self.cross = MultiHead(d_model, sizes.n_heads, of_one_layer(mechanism))
        self.feed_forward, self.residual = FeedForward(d_model, sizes.d_ff), residual
        self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: TokenFeatures, asked: Tensor, memory: Memory, positions: Tensor) -> Tensor:
        """Transform x (B, N, d_model), at positions `asked`, with memory (B, L, d_model) at `positions`."""
        x = self.residual(x, lambda y: self.dropout(self.mixer(y, asked)), self.norm_1)
        x = self.residual(x, lambda y: self.dropout(self.cross(y + asked, memory + positions, memory).context), self.norm_2)
        return self.residual(x, lambda y: self.dropout(self.feed_forward(y)), self.norm_3)


def object_block(
    x: Float[Tensor, "B N d_model"],
    queries: Float[Tensor, "N d_model"],
    cells: Float[Tensor, "B L d_model"],
    positions: Float[Tensor, "L d_model"],
    own: AttentionWeights,
    cross: AttentionWeights,
    network: FeedForwardWeights,
    norms: tuple[NormWeights, NormWeights, NormWeights],
    n_heads: int,
) -> Float[Tensor, "B N d_model"]:
    """Let object queries attend to each other, then to the cells of an image, then mix channels; post-norm after each.

    `queries` and `positions` are added to the queries and keys of the attentions, not to their values, nor to the sums around
    them.

    Args:
        x: (B, N, d_model), what each query has found so far.
        queries: (N, d_model), added to x where it is the query or the key of an attention.
        cells: (B, L, d_model), the features of the image.
        positions: (L, d_model), added to the cells where they are keys.
        own: (W_q, W_k, W_v, W_o) of `multi_head_attention` among the queries.
        cross: (W_q, W_k, W_v, W_o) of the one from the queries to the cells.
        network: (W_1, b_1, W_2, b_2) of `feed_forward`.
        norms: three pairs (gain, bias) of `layer_norm`, in the order of their use.
        n_heads: number of heads, in both attentions.

    Returns:
        (B, N, d_model).

    Source: Carion et al. 2020, section 3.2 and figure 10.
    """
    x = layer_norm(x + multi_head_attention(x + queries, x + queries, x, *own, n_heads).context, *norms[0])
    read = multi_head_attention(x + queries, cells + positions, cells, *cross, n_heads).context
    x = layer_norm(x + read, *norms[1])
    return layer_norm(x + feed_forward(x, *network), *norms[2])


def sinusoidal_positions_2d(
    H: int, W: int, d_model: int, device: torch.device | str | None = None
) -> Float[Tensor, "H_W d_model"]:
    """Encode the centres of the cells of an H × W map, row after row, by sinusoids: (H · W, d_model), on `device`."""
    y, x = ((torch.arange(n, device=device) + 0.5) / n for n in (H, W))
    return sinusoidal_points(torch.cartesian_prod(y, x).flip(-1), d_model)


class DETR(nn.Module):
    """Image → features → encoder → decoder with one query for each possible object → classes and boxes."""

    def __init__(
        self,
        backbone: nn.Module,
        d_backbone: int,
        n_classes: int,
        n_queries: int,
        sizes: Sizes,
        mechanism: AnyMechanism = scaled_dot_product_attention,
        positions: Callable[..., Float[Tensor, "H_W d_model"]] = sinusoidal_positions_2d,
        dropout: float = 0.0,
    ) -> None:
        """Set up the model.

        Args:
            backbone: images (B, C, H, W) → features (B, d_backbone, h, w), such as `ConvNet`.
            d_backbone: number of features of the backbone's output.
            n_classes: classes of objects, without "no object".
            n_queries: N, the number of object queries: learned vectors that start from N(0, 1), as in the published code.
            sizes: d_model, n_heads, d_ff, and the number of layers of both encoder and decoder.
            mechanism: how each head attends; a module is copied for each attention, so that each owns its parameters.
            positions: encodes the positions of an (h, w) map, `(h, w, d_model, device) -> (h · w, d_model)`.
            dropout: probability with which, in training, a feature of the output of each sublayer is set to 0.
        """
        super().__init__()
        d_model, n_heads, d_ff, n_layers = sizes
        self.backbone, self.positions = backbone, positions
        self.queries = nn.Parameter(torch.randn(n_queries, d_model))
        self.project = nn.Conv2d(d_backbone, d_model, 1)

        def block() -> Block:
            mixer = PositionalSelfAttention(MultiHead(d_model, n_heads, of_one_layer(mechanism)))
            return Block(mixer, FeedForward(d_model, d_ff), d_model, dropout=dropout)

        self.encoder = nn.ModuleList(block() for _ in range(n_layers))
        self.decoder = nn.ModuleList(ObjectBlock(sizes, mechanism, dropout=dropout) for _ in range(n_layers))
        self.closing = nn.LayerNorm(d_model)
        self.classify = nn.Linear(d_model, n_classes + 1)
        self.box = nn.Sequential(
            nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, 4)
        )

    def forward(self, images: Image) -> Detected:
        """Detect objects in images (B, C, H, W), of any height and width that leave the backbone at least one cell."""
        return self.decode(self.project(self.backbone(images)))

    def decode(self, features: Float[Tensor, "B d_model h w"]) -> Detected:
        """Detect objects from projected features (B, d_model, h, w)."""
        B, d_model, h, w = features.shape
        positions = self.positions(h, w, d_model, device=features.device).to(features.dtype)
        memory = rearrange(features, "B d h w -> B (h w) d")
        for block in self.encoder:
            memory = block(memory, positions)
        x, layers = memory.new_zeros(B, *self.queries.shape), []
        for block in self.decoder:
            x = block(x, self.queries, memory, positions)
            layers.append(self.closing(x))
        states = torch.stack(layers)
        return Detected(self.classify(states), self.box(states).sigmoid())
