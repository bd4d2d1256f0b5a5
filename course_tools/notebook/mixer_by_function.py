"""Compute an MLP-Mixer by a function for its block, so that lecture 13 can train the student's block.

model = computed_by(mixer_block, Mixer(10, (1, 28, 28), 4, sizes))       # the weights of the Mixer, the student's computation
"""

from collections.abc import Callable
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.blocks import Block, FeedForwardWeights, NormWeights, TokenMixingKernels
from course_lib.models import Mixer
from course_lib.primitives import layer_norm

BlockFunction = Callable[[Tensor, FeedForwardWeights, FeedForwardWeights, tuple[NormWeights, NormWeights]], Tensor]
"""`mixer_block`, or another function of its arguments."""


class _BlockOfFunction(nn.Module):
    """The weights of a Mixer's block, under the same names, and a function that computes the block from them."""

    def __init__(self, block: Block, function: BlockFunction) -> None:
        """Use the weights of a block of a Mixer."""
        super().__init__()
        self.mixer, self.feed_forward = block.mixer, block.feed_forward
        self.norm_1, self.norm_2 = block.norm_1, block.norm_2
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Transform x (B, N, d)."""
        norms = (_norm_weights(self.norm_1), _norm_weights(self.norm_2))
        return self.function(x, _layer_weights(self.mixer), _layer_weights(self.feed_forward), norms)


def computed_by(function: BlockFunction, model: Mixer) -> Mixer:
    """Let a function compute all blocks of a Mixer, in place; the weights stay the same. Return the model."""
    model.stack.blocks = nn.ModuleList(_BlockOfFunction(block, function) for block in model.stack.blocks)
    return model


def _layer_weights(network: nn.Module) -> FeedForwardWeights:
    """Return (W_1, b_1, W_2, b_2) of a network of two linear layers, in the order of `token_mixing` and `channel_mixing`."""
    return network.W_1.weight, network.W_1.bias, network.W_2.weight, network.W_2.bias


def _norm_weights(norm: nn.Module) -> NormWeights:
    """Return gain and bias of a layer norm."""
    return norm.weight, norm.bias


@torch.no_grad()
def with_permuted_inputs(model: Mixer, reorder: Callable[..., tuple[Tensor, ...]], order: Tensor, inner: Tensor) -> Mixer:
    """Copy a Mixer so that the copy computes from shuffled images what the model computes from images in order.

    Args:
        model: the Mixer.
        reorder: `reordered_token_mixing`.
        order: (N,), the permutation of the patches.
        inner: (P · P · C,), the permutation of the numbers within a patch.
    """
    copied = deepcopy(model)
    here = model.project.weight.device
    copied.project.weight.copy_(model.project.weight[:, inner.to(here)])
    for block in copied.stack.blocks:
        new = [part.clone() for part in reorder(*_layer_weights(block.mixer), order.to(here))]
        for parameter, tensor in zip(_layer_weights(block.mixer), new, strict=True):
            parameter.copy_(tensor)
    return copied


def by_convolutions(model: Mixer, images: Tensor, kernels: Callable[..., TokenMixingKernels]) -> Tensor:
    """Compute a Mixer as a CNN: convolutions, norms over the channels, and a mean over the positions.

    Args:
        model: the Mixer; its weights are used.
        images: (B, C, H, W).
        kernels: `token_mixing_kernels`.

    Returns:
        logits (B, n_classes).
    """
    patch_kernels = model.project.weight.view(-1, images.shape[1], model.P, model.P)
    x = F.conv2d(images, patch_kernels, model.project.bias, stride=model.P)
    d, H, W = x.shape[1:]
    for block in model.stack.blocks:
        first, first_bias, second, second_bias = kernels(*_layer_weights(block.mixer), d, H, W)
        hidden = F.gelu(F.conv2d(_normed(x, block.norm_1), first, first_bias, groups=d))
        x = x + F.conv2d(hidden, second, second_bias, groups=d).view(x.shape)
        W_3, b_3, W_4, b_4 = _layer_weights(block.feed_forward)
        hidden = F.gelu(F.conv2d(_normed(x, block.norm_2), W_3[..., None, None], b_3))
        x = x + F.conv2d(hidden, W_4[..., None, None], b_4)
    return model.head(_normed(x, model.stack.closing).mean((2, 3)))


def _normed(x: Tensor, norm: nn.Module) -> Tensor:
    """Normalise over the channels of (B, d, H, W)."""
    return layer_norm(x.movedim(1, -1), *_norm_weights(norm)).movedim(-1, 1)


def mixing_weights_of(kernel: Tensor, side: int) -> FeedForwardWeights:
    """Return the weights with which token mixing computes a depth-wise convolution that all channels share.

    Twice as many hidden units as positions undo the GELU, since σ(x) - σ(-x) = x.

    Args:
        kernel: (1, 1, n, n), n odd; the convolution pads with zeros.
        side: of the square grid of N = side² positions.

    Returns:
        (W_1, b_1, W_2, b_2) for `token_mixing`: (2N, N), (2N,), (N, 2N), (N,).
    """
    N = side**2
    each_position = torch.eye(N).view(N, 1, side, side)
    T = F.conv2d(each_position, kernel, padding=kernel.shape[-1] // 2).view(N, N).T
    signs = torch.cat([torch.eye(N), -torch.eye(N)])
    return signs @ T, torch.zeros(2 * N), signs.T, torch.zeros(N)


def gap_to_a_shared_convolution(mixing: Callable[..., Tensor], side: int = 7) -> float:
    """Compute the largest difference between token mixing and a depth-wise 3 × 3 convolution that all channels share.

    Args:
        mixing: `token_mixing`; its weights are those of `mixing_weights_of`.
        side: of the square grid of positions.
    """
    x = torch.randn(2, 5, side, side, generator=torch.Generator().manual_seed(0))
    kernel = torch.linspace(-1, 1, 9).view(1, 1, 3, 3)
    convolved = F.conv2d(x, kernel.expand(5, 1, 3, 3), padding=1, groups=5)
    mixed = mixing(x.flatten(2).mT, *mixing_weights_of(kernel, side)).mT.view_as(x)
    return (convolved - mixed).abs().max().item()
