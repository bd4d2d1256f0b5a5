"""Blocks upon each other, and the four numbers that say how large a transformer is.

Vaswani et al. 2017, section 3.1 (https://arxiv.org/abs/1706.03762): N identical blocks, each with weights of its own. Where
each block normalises its input (pre-norm), the sum at the end was never normalised, and one more norm closes the stack
(Radford et al. 2019, section 2.3).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import Mechanism, MultiHead, scaled_dot_product_attention
from course_lib.blocks.block import Block, CrossAttention, DecoderBlock, Residual, SelfAttention, post_norm
from course_lib.blocks.feedforward import FeedForward
from course_lib.shapes import TokenFeatures

NormFactory = Callable[[int], nn.Module]
Activation = Callable[[Tensor], Tensor]


class Sizes(NamedTuple):
    """How large a transformer is: features of a token, heads, features inside the feed-forward network, and layers."""

    d_model: int
    n_heads: int
    d_ff: int
    n_layers: int


class Stack(nn.Module):
    """Blocks upon each other: what comes beside the sequence, such as a mask, goes to each of them."""

    def __init__(self, blocks: list[nn.Module], closing: nn.Module) -> None:
        """Take the blocks and what closes the stack: a norm behind pre-norm blocks, `nn.Identity()` behind others."""
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.closing = closing

    def forward(self, x: TokenFeatures, *context: object) -> Tensor:
        """Take x (B, T, d_model) through all blocks."""
        for block in self.blocks:
            x = block(x, *context)
        return self.closing(x)


def draw_weights(module: nn.Module, d_model: int) -> None:
    """Draw every matrix of a module anew from N(0, 1 / (3 d_model)), and set every bias to 0.

    At d_model = 768, the width of GPT-1 and BERT-base, that is their standard deviation of 0.02. Narrower models need more:
    with 0.02, one of width 128 learns far slower.
    """
    for name, weights in module.named_parameters():
        if weights.dim() > 1:
            nn.init.normal_(weights, std=(3 * d_model) ** -0.5)
        elif name.endswith("bias"):
            nn.init.zeros_(weights)


def closing_norm(residual: Residual, d_model: int, norm: NormFactory = nn.LayerNorm) -> nn.Module:
    """Give what closes a stack of d_model features: `norm`, or nothing where `residual` is post-norm and has closed already."""
    return nn.Identity() if residual is post_norm else norm(d_model)


def encoder_stack(
    sizes: Sizes,
    mechanism: Mechanism = scaled_dot_product_attention,
    activation: Activation = F.relu,
    residual: Residual = post_norm,
    norm: NormFactory = nn.LayerNorm,
) -> Stack:
    """Build blocks of self-attention and a feed-forward network; Vaswani's encoder, by default.

    Args:
        sizes: of the model.
        mechanism: what each head does; `causal_attention` makes it a decoder that looks at itself alone, as GPT is.
        activation: inside the feed-forward networks.
        residual: `post_norm` or `pre_norm`.
        norm: makes a normalisation of d_model features.

    Returns:
        a module `(x (B, T, d_model), mask) -> (B, T, d_model)`.
    """
    d_model, n_heads, d_ff, n_layers = sizes

    def block() -> Block:
        mixer = SelfAttention(MultiHead(d_model, n_heads, mechanism))
        return Block(mixer, FeedForward(d_model, d_ff, activation), d_model, residual, norm)

    return Stack([block() for _ in range(n_layers)], closing_norm(residual, d_model, norm))


def decoder_stack(
    sizes: Sizes,
    mechanism: Mechanism = scaled_dot_product_attention,
    activation: Activation = F.relu,
    residual: Residual = post_norm,
    norm: NormFactory = nn.LayerNorm,
    own: Mechanism | None = None,
) -> Stack:
    """Build blocks that look at themselves, then at a memory.

    Args:
        sizes: of the model.
        mechanism: what each head does when it looks at the memory.
        activation: inside the feed-forward networks.
        residual: `post_norm` or `pre_norm`.
        norm: makes a normalisation of d_model features.
        own: what each head does when it looks at its own sequence, such as `causal_attention`; None = as at the memory.

    Returns:
        a module `(x (B, T, d_model), memory (B, T_k, d_model), mask, memory_mask) -> (B, T, d_model)`.
    """
    d_model, n_heads, d_ff, n_layers = sizes

    def block() -> DecoderBlock:
        mixer = SelfAttention(MultiHead(d_model, n_heads, mechanism if own is None else own))
        cross = CrossAttention(MultiHead(d_model, n_heads, mechanism))
        return DecoderBlock(mixer, cross, FeedForward(d_model, d_ff, activation), d_model, residual, norm)

    return Stack([block() for _ in range(n_layers)], closing_norm(residual, d_model, norm))


def zero_head(d_model: int, n_classes: int) -> nn.Linear:
    """Make a linear layer (n_classes, d_model) whose weights and biases are all 0, to take the place of a trained head."""
    head = nn.Linear(d_model, n_classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head
