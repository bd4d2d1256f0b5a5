"""A block = mix tokens, then mix channels, each inside add & norm. What mixes the tokens is an argument.

Vaswani et al. 2017, section 3.1 and figure 1 (https://arxiv.org/abs/1706.03762), with R = post-norm:

    h = R(x, Mixer)        y = R(h, FFN)                              encoder
    h = R(x, Self)         m = R(h, Cross(·, memory))    y = R(m, FFN)    decoder
"""

from collections.abc import Callable

from torch import Tensor, nn

from course_lib.blocks.residual import Residual, post_norm
from course_lib.shapes import Mask, Memory, Sequence


class Block(nn.Module):
    """Mix tokens, then mix channels: the one block of encoder, GPT, BERT, ViT, Mixer and linear transformer."""

    def __init__(
        self,
        mixer: nn.Module,
        feed_forward: nn.Module,
        d_model: int,
        residual: Residual = post_norm,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        """Put the parts together.

        Args:
            mixer: mixes tokens, `(x, *context) -> (B, T, d_model)`, such as `SelfAttention(MultiHead(d_model, n_heads))`.
            feed_forward: mixes channels, `x -> (B, T, d_model)`.
            d_model: number of features.
            residual: `post_norm` or `pre_norm`.
            norm: makes a normalisation of d_model features.
        """
        super().__init__()
        self.mixer, self.feed_forward, self.residual = mixer, feed_forward, residual
        self.norm_1, self.norm_2 = norm(d_model), norm(d_model)

    def forward(self, x: Sequence, *context: object) -> Tensor:
        """Transform x (B, T, d_model); what else is given, such as a mask, goes to the mixer."""
        x = self.residual(x, lambda y: self.mixer(y, *context), self.norm_1)
        return self.residual(x, self.feed_forward, self.norm_2)


class DecoderBlock(nn.Module):
    """A block that looks at its own sequence, then at a memory, then mixes channels."""

    def __init__(
        self,
        mixer: nn.Module,
        cross: nn.Module,
        feed_forward: nn.Module,
        d_model: int,
        residual: Residual = post_norm,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        """Put the parts together: as `Block`, with `cross`, `(x, memory, mask) -> (B, T, d_model)`, between the two."""
        super().__init__()
        self.mixer, self.cross, self.feed_forward, self.residual = mixer, cross, feed_forward, residual
        self.norm_1, self.norm_2, self.norm_3 = norm(d_model), norm(d_model), norm(d_model)

    def forward(self, x: Sequence, memory: Memory, mask: Mask | None = None, memory_mask: Mask | None = None) -> Tensor:
        """Transform x (B, T_q, d_model), looking at itself under `mask` and at memory (B, T_k, d) under `memory_mask`."""
        x = self.residual(x, lambda y: self.mixer(y, mask), self.norm_1)
        x = self.residual(x, lambda y: self.cross(y, memory, memory_mask), self.norm_2)
        return self.residual(x, self.feed_forward, self.norm_3)
