"""Transformer-XL: a language model that reads a long text segment by segment, and attends to its memory of earlier ones.

Dai et al. 2019, section 3 (https://arxiv.org/abs/1901.02860), with SG for "stop the gradient", and [a; b] one after the other:

    h_0 = √d E[tokens]        h̃_l = [SG(m_l); h_l]        h_{l+1} = Block_l(q from h_l; k, v from h̃_l)
    m_l ← the last n_memory rows of h̃_l        p(next token) = softmax(E h_L)

Layer l attends to the inputs of layer l in earlier segments, so that L layers reach up to L · n_memory tokens back. Absolute
positions would be the same in each segment; here scores depend only on distances (`attention.relative`). Blocks are post-norm
with ReLU; the embedding E is also the last matrix (the paper: adaptive embeddings for large vocabularies).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.attention import Attended, MultiHead
from course_lib.attention.relative import RelativeAttention, shifted_relative_attention
from course_lib.blocks.block import Block, CrossAttention, FeedForward, Sizes, draw_weights
from course_lib.shapes import TokenFeatures, Tokens

__all__ = ["TransformerXL"]


class SegmentMemory(NamedTuple):
    """Memory of earlier segments: the last inputs of each layer, (B, M, d_model) each, without gradients; M ≤ n_memory."""

    layers: tuple[Float[Tensor, "B M d_model"], ...]


class TransformerXL(nn.Module):
    """A language model with segment recurrence and relative positions: `read` for segments, `start` and `step` for tokens."""

    def __init__(
        self,
        n_tokens: int,
        sizes: Sizes,
        n_memory: int,
        form: Callable[..., Attended] = shifted_relative_attention,
        dropout: float = 0.0,
    ) -> None:
        """Set up the model.

        Args:
            n_tokens: size of the vocabulary.
            sizes: d_model, n_heads, d_ff, n_layers.
            n_memory: states of each layer that are kept for the next segment, ≥ 0; in training as many as a segment has
                tokens in the paper, in evaluation several times as many. It can be changed at any time.
            form: `shifted_relative_attention`, or `relative_attention`, the equation, a sixth as fast.
            dropout: probability with which, in training, a feature is set to 0: of the embeddings, and of the output of each
                sublayer.

        Raises:
            ValueError: n_memory is negative, or the heads do not divide d_model.
        """
        super().__init__()
        if n_memory < 0:
            raise ValueError(f"a memory has n_memory ≥ 0 states, got {n_memory}.")
        d_model, n_heads, d_ff, n_layers = sizes
        self.n_memory = n_memory
        self.tokens = nn.Embedding(n_tokens, d_model)
        self.dropout = nn.Dropout(dropout)

        def block() -> Block:
            attention = MultiHead(d_model, n_heads, RelativeAttention(d_model, n_heads, form), bias=False)
            return Block(CrossAttention(attention), FeedForward(d_model, d_ff), d_model, dropout=dropout)

        self.blocks = nn.ModuleList([block() for _ in range(n_layers)])
        draw_weights(self, d_model)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T n_tokens"]:
        """Next-token logits (B, T, n_tokens) of one segment (B, T) without a memory: logits[:, t] given tokens[:, :t+1]."""
        return self.read(tokens)[0]

    def read(self, tokens: Tokens, memory: SegmentMemory | None = None) -> tuple[Float[Tensor, "B T n_tokens"], SegmentMemory]:
        """Read a segment in parallel.

        Args:
            tokens: (B, T), the segment.
            memory: that of the previous segment, each row from the same text; None = this is the first segment.

        Returns:
            next-token logits (B, T, n_tokens), each given the tokens up to its own and the memory; and the memory for the
            segment that follows. Gradients go back to the start of this segment, and no further.

        Raises:
            ValueError: the memory has another number of layers.
            RuntimeError: it has another number of texts.
        """
        states, memory = self._states(tokens, memory)
        return states @ self.tokens.weight.mT, memory

    def start(self, prompt: Tokens) -> SegmentMemory:
        """Read prompts (B, T), T ≥ 0, all of one length, as one segment; return the memory that `step` continues from."""
        return self._states(prompt, None)[1]

    def step(self, tokens: Int[Tensor, "B"], memory: SegmentMemory) -> tuple[Float[Tensor, "B n_tokens"], SegmentMemory]:
        """Read one more token (B,) of each text as a segment; return next-token logits (B, n_tokens) and the new memory.

        While there are at most n_memory + 1 tokens, the logits are those of the whole text read at once; from then on each
        layer attends to the last n_memory + 1 positions.
        """
        logits, memory = self.read(tokens[:, None], memory)
        return logits[:, 0], memory

    def _states(self, tokens: Tokens, memory: SegmentMemory | None) -> tuple[TokenFeatures, SegmentMemory]:
        x = self.dropout(self.tokens.embedding_dim**0.5 * self.tokens(tokens))
        past = [x[:, :0]] * len(self.blocks) if memory is None else memory.layers
        kept = []
        for block, earlier in zip(self.blocks, past, strict=True):
            reached = torch.cat([earlier, x], dim=1)
            kept.append(reached[:, max(reached.shape[1] - self.n_memory, 0) :].detach())
            x = block(x, reached)
        return x, SegmentMemory(tuple(kept))
