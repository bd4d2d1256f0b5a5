"""Gated DeltaNet: a language model that reads and writes with a memory of fixed size, which it corrects.

Yang et al. 2025, *Gated Delta Networks: Improving Mamba2 with Delta Rule*, section 3.4 (https://arxiv.org/abs/2412.06464):

    h_0 = E[tokens]        m_l = h_{l-1} + GatedDelta(RMSNorm(h_{l-1}))        h_l = m_l + SwiGLU(RMSNorm(m_l))
    p(next token) = softmax(W_out RMSNorm(h_L))

It is `Llama` with `GatedDeltaAttention` in place of attention. No position is encoded, and the length of a text has no bound.
"""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.attention import GatedDeltaAttention, LayerState
from course_lib.blocks import Block, GatedFeedForward, Sizes, Stack, draw_weights, pre_norm
from course_lib.primitives.preconditions import require_one_token_each
from course_lib.shapes import Tokens

__all__ = ["GatedDeltaNet"]


class DeltaMemory(NamedTuple):
    """What a model has read: the `GatedDeltaState` of each layer, and the number T of tokens. Its size does not depend on T."""

    layers: tuple[LayerState, ...]
    T: int


class GatedDeltaNet(nn.Module):
    """A left-to-right language model, from tokens to next-token logits: in parallel, or step by step in constant memory."""

    def __init__(self, n_tokens: int, sizes: Sizes, width: int = 4, chunk: int = 64) -> None:
        """Set up the model.

        Args:
            n_tokens: size of the vocabulary.
            sizes: d_model, n_heads, d_ff, n_layers.
            width: of the short convolution, as in `GatedDeltaAttention`.
            chunk: as in `chunked_delta_attention`.

        Raises:
            ValueError: n_heads does not divide d_model, or as `GatedDeltaAttention`.
        """
        super().__init__()
        d_model, n_heads, d_ff, n_layers = sizes

        def block() -> Block:
            mixer = GatedDeltaAttention(d_model, n_heads, width=width, chunk=chunk)
            return Block(mixer, GatedFeedForward(d_model, d_ff), d_model, pre_norm, nn.RMSNorm)

        self.tokens = nn.Embedding(n_tokens, d_model)
        self.stack = Stack([block() for _ in range(n_layers)], nn.RMSNorm(d_model))
        self.readout = nn.Linear(d_model, n_tokens, bias=False)
        draw_weights(self, d_model)
        for name, taps in self.named_parameters():
            if name.endswith("taps"):  # they map features to themselves, whatever the width of the model
                nn.init.uniform_(taps, -(width**-0.5), width**-0.5)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T n_tokens"]:
        """Next-token logits (B, T, n_tokens) of tokens (B, T): logits[:, t] given tokens[:, :t+1]."""
        return self.readout(self.stack(self.tokens(tokens)))

    def start(self, prompt: Tokens) -> DeltaMemory:
        """Read prompts (B, T), T ≥ 0, all of one length; return the memory that `step` continues from."""
        return DeltaMemory(self.stack.read(self.tokens(prompt))[1], prompt.shape[1])

    def step(self, tokens: Int[Tensor, "B"], memory: DeltaMemory) -> tuple[Float[Tensor, "B n_tokens"], DeltaMemory]:
        """Read one more token (B,) of each sequence; return next-token logits (B, n_tokens) and the new memory.

        Raises:
            ValueError: there is not one token for each sequence of the memory.
        """
        for S, _ in memory.layers:
            require_one_token_each(tokens, S.shape[0])
        states, layers = self.stack.step(self.tokens(tokens[:, None]), memory.layers)
        return self.readout(states[:, 0]), DeltaMemory(layers, memory.T + 1)
