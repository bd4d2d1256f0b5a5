"""MLP-Mixer: one network over the patches and one over the channels, without attention or convolution.

Tolstikhin et al. 2021, *MLP-Mixer*, section 2 and figure 1 (https://arxiv.org/abs/2105.01601):

    X_0 = [x_p¹ E; … ; x_p^N E]        X_l = MixerBlock_l(X_{l-1})        y = W · mean_n LN(X_L) + b

It is the block of all transformers (`blocks.Block`, pre-norm) with `TokenMixing` instead of attention. There is no class
token and no position encoding; the head starts at 0 (`zero_head`), as published; other weights are initialised as in torch. The
ε of the norms is that of `primitives.layer_norm` and of torch, 1e-5; the authors' JAX code uses 1e-6, which matters only for
features of tiny variance. Their code has no dropout; the stochastic depth of their training is not implemented.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.blocks.block import Block, FeedForward, Stack, pre_norm, zero_head
from course_lib.blocks.mlp_mixer import MixerSizes, TokenMixing, token_mixing
from course_lib.primitives import patch_grid, patchify
from course_lib.shapes import Image, Logits

__all__ = ["Mixer"]


class Mixer(nn.Module):
    """Classifies images of one size: owns `project`, `stack` and `head`."""

    def __init__(
        self,
        n_classes: int,
        image: tuple[int, int, int],
        P: int,
        sizes: MixerSizes,
        mix: Callable[..., Tensor] = token_mixing,
    ) -> None:
        """Set up the model.

        Args:
            n_classes: number of classes.
            image: channels, height and width of the images.
            P: side of a patch, in pixels.
            sizes: of the model.
            mix: mixes the patches: `token_mixing`, or another function with its arguments.

        Raises:
            ValueError: P does not divide height and width.
        """
        super().__init__()
        C, H, W = image
        rows, columns = patch_grid(H, W, P)
        d, d_tokens, d_channels, n_layers = sizes

        def block() -> Block:
            return Block(TokenMixing(rows * columns, d_tokens, mix), FeedForward(d, d_channels, F.gelu), d, pre_norm)

        self.image, self.P = (C, H, W), P
        self.project = nn.Linear(C * P * P, d)
        self.stack = Stack([block() for _ in range(n_layers)], nn.LayerNorm(d))
        self.head = zero_head(d, n_classes)

    def forward(self, images: Image) -> Logits:
        """Return logits (B, n_classes) of images (B, C, H, W).

        Raises:
            ValueError: the images differ in channels or size from those that the model was made for.
        """
        if images.shape[1:] != self.image:
            got = tuple(images.shape[1:])
            raise ValueError(f"this Mixer reads images (C, H, W) = {self.image}, got {got}: resize them.")
        return self.head(self.stack(self.project(patchify(images, self.P))).mean(1))
