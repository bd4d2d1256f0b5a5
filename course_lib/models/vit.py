"""Vision Transformer (ViT): image classification by a Transformer encoder over patches.

Dosovitskiy et al. 2021, *An Image is Worth 16x16 Words*, eqs. 1-4 (https://arxiv.org/abs/2010.11929):

    z_0 = [x_class; x_p¹ E; … ; x_p^N E] + E_pos        z_l = Block_l(z_{l-1})        y = W LN(z_L^0) + b

Pre-norm, GELU, learned positions, a head that starts at 0 (`zero_head`), as published; other weights are initialised by
`blocks.draw_weights`. Dropout, if asked for, is that of the embeddings
and the residual path; the paper's after the first layer of each feed-forward network is left out.
"""

from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention import AnyMechanism, scaled_dot_product_attention
from course_lib.blocks.block import Activation, Sizes, draw_weights, encoder_stack, pre_norm, zero_head
from course_lib.primitives import embed_patches, interpolate_positions, patch_grid, patchify
from course_lib.shapes import Image, Logits

__all__ = ["PatchEncoder", "ViT"]

ViTNorm = partial(nn.LayerNorm, eps=1e-6)


class PatchEncoder(nn.Module):
    """Images to states: patches, learned tokens before them, positions, and a stack of blocks."""

    def __init__(
        self,
        image: tuple[int, int, int],
        P: int,
        sizes: Sizes,
        mechanism: AnyMechanism = scaled_dot_product_attention,
        n_learned: int = 1,
        activation: Activation = F.gelu,
        dropout: float = 0.0,
    ) -> None:
        """Set up the encoder.

        Args:
            image: channels, height and width of the training images.
            P: side of a patch, in pixels.
            sizes: d_model, n_heads, d_ff (4 · d_model in the paper), n_layers.
            mechanism: what each head does; `fused_scaled_dot_product_attention` is faster and returns no weights.
            n_learned: tokens before the patches, the same for every image; a head reads them.
            activation: inside the feed-forward networks.
            dropout: probability with which, in training, a feature is set to 0: of the embeddings, and of the output of each
                sublayer.

        Raises:
            ValueError: P does not divide height and width.
        """
        super().__init__()
        C, H, W = image
        self.P, self.grid = P, patch_grid(H, W, P)
        self.project = nn.Linear(C * P * P, sizes.d_model)
        self.learned = nn.Parameter(torch.empty(n_learned, sizes.d_model))
        self.positions = nn.Parameter(torch.empty(n_learned + self.grid[0] * self.grid[1], sizes.d_model))
        self.stack = encoder_stack(sizes, mechanism, activation, pre_norm, ViTNorm, dropout)
        self.dropout = nn.Dropout(dropout)
        draw_weights(self, sizes.d_model)

    def forward(self, images: Image) -> Float[Tensor, "B T d_model"]:
        """Read images (B, C, H, W); if their size differs from that of the training images, positions are interpolated.

        Returns:
            states (B, T, d_model), T = n_learned + number of patches, those of the learned tokens first.

        Raises:
            ValueError: P does not divide height and width, or the images have other channels than the training images.
        """
        patches = patchify(images, self.P)
        if patches.shape[-1] != self.project.in_features:
            C = self.project.in_features // self.P**2
            raise ValueError(f"wrong channels: {C}, got {images.shape[1]}; `images.expand(-1, 3, -1, -1)` makes three of grey.")
        H, W = images.shape[-2:]
        grid = patch_grid(H, W, self.P)
        positions = self.positions if grid == self.grid else interpolate_positions(self.positions, *self.grid, *grid)
        tokens = embed_patches(patches, self.project.weight, self.project.bias, self.learned, positions)
        return self.stack(self.dropout(tokens))


class ViT(nn.Module):
    """Classifies images by the state of the class token: owns `encoder` and `head`."""

    def __init__(
        self,
        n_classes: int,
        image: tuple[int, int, int],
        P: int,
        sizes: Sizes,
        mechanism: AnyMechanism = scaled_dot_product_attention,
        activation: Activation = F.gelu,
        dropout: float = 0.0,
    ) -> None:
        """Set up for n_classes; the rest as `PatchEncoder`. For another task, replace `head` by a new `zero_head`."""
        super().__init__()
        self.encoder = PatchEncoder(image, P, sizes, mechanism, activation=activation, dropout=dropout)
        self.head = zero_head(sizes.d_model, n_classes)

    def forward(self, images: Image) -> Logits:
        """Return logits (B, n_classes) of images (B, C, H, W), of any size that P divides."""
        return self.head(self.encoder(images)[:, 0])
