"""Llama: the decoder of today, with rotary positions, RMSNorm, gated networks and grouped queries, and without biases.

Touvron et al. 2023, *LLaMA: Open and Efficient Foundation Language Models*, section 2.2 (https://arxiv.org/abs/2302.13971),
with the grouped queries of *Llama 2*, section 2.2 (https://arxiv.org/abs/2307.09288):

    h_0 = E[tokens]        m_l = h_{l-1} + GQA(RMSNorm(h_{l-1}))        h_l = m_l + SwiGLU(RMSNorm(m_l))
    p(next token) = softmax(W_out RMSNorm(h_L))

Queries and keys are rotated to their positions, so that no position has parameters, and the length of a text has no bound.
Weights are drawn as those of `GPT`.
"""

from functools import partial
from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib.attention import (
    AnyMechanism,
    GroupedQueryAttention,
    KeysValues,
    LayerState,
    MultiHead,
    QKNorm,
    RotaryAttention,
    causal_attention,
)
from course_lib.attention.core import require_causal
from course_lib.attention.rotary import StretchedBase, rotary_speeds, windowed_cache
from course_lib.blocks import Block, GatedFeedForward, SelfAttention, Sizes, Stack, draw_weights, pre_norm
from course_lib.blocks.block import of_one_layer
from course_lib.primitives import padding_first
from course_lib.primitives.preconditions import require_one_token_each, shape_checked
from course_lib.shapes import Lengths, Tokens

__all__ = ["Llama"]


class LlamaState(NamedTuple):
    """What a Llama has read: in each layer the rotated keys and the values (B, g, T, d_k), and the number T of tokens read.

    `real` (B, 1, 1, T) is False at padding, which counts in T and stands before the tokens; None if there is no padding.
    After `windowed`, the layers and `real` hold only the positions that stay, and T still counts all.
    """

    layers: tuple[LayerState, ...]
    real: Bool[Tensor, "B 1 1 T"] | None
    T: int


class Llama(nn.Module):
    """A left-to-right language model, from tokens to next-token logits."""

    def __init__(
        self,
        n_tokens: int,
        sizes: Sizes,
        n_groups: int,
        mechanism: AnyMechanism = causal_attention,
        base: float | StretchedBase = 10_000.0,
        epsilon: float = 1e-6,
        bias: bool = False,
        d_k: int | None = None,
    ) -> None:
        """Set up the model.

        Args:
            n_tokens: size of the vocabulary.
            sizes: d_model, n_heads, d_ff, n_layers. The first paper has d_ff = 8/3 d_model, which gives the gated network as
                many parameters as one of 4 d_model without gates.
            n_groups: number of heads of keys and values; n_heads in the first Llama.
            mechanism: how each head attends, `causal_attention`, or `fused_causal_attention`, which is faster and returns no
                weights; one that is not causal is refused. A module is copied for each layer.
            base: of the speeds, as in `rotary_speeds`.
            epsilon: of the norms; neither it nor the base is in a state_dict.
            bias: whether the projections of attention have biases, as those of Qwen 2 to queries, keys and values.
            d_k: size of a head's queries, keys and values; d_model / n_heads if None.

        Raises:
            ValueError: d_k is odd, d_model does not divide into heads of an even size, as `MultiHead`, or the mechanism is not
                causal, or rotates or normalises as well.
        """
        super().__init__()
        d_model, n_heads, d_ff, n_layers = sizes
        if d_k is None and (d_model % n_heads or d_model // n_heads % 2):
            raise ValueError(
                f"d_model {d_model} does not divide into {n_heads} heads of an even size, whose features turn in pairs."
            )
        d_k = d_model // n_heads if d_k is None else d_k
        self._d_k, self._base = d_k, base
        norm = partial(nn.RMSNorm, eps=epsilon)
        if isinstance(mechanism, RotaryAttention | QKNorm):
            raise ValueError(
                "Llama rotates queries and keys itself; pass the mechanism that stands inside `RotaryAttention`. A QKNorm "
                "stands around that of each layer: `attention.mechanism = QKNorm(d_k, attention.mechanism)` (`load_llama`)."
            )

        def block() -> Block:
            rotary = RotaryAttention(d_k, GroupedQueryAttention(of_one_layer(mechanism)), base)
            mixer = SelfAttention(MultiHead(d_model, n_heads, rotary, d_k, bias=bias, n_groups=n_groups))
            return Block(mixer, GatedFeedForward(d_model, d_ff), d_model, pre_norm, norm)

        self.tokens = nn.Embedding(n_tokens, d_model)
        self.stack = Stack([block() for _ in range(n_layers)], norm(d_model))
        self.readout = nn.Linear(d_model, n_tokens, bias=False)
        require_causal(mechanism, n_heads, d_k)
        draw_weights(self, d_model)
        for name, weights in self.named_parameters():
            if name.endswith(("W_o.weight", "W_down.weight")):
                weights.data /= (2 * n_layers) ** 0.5

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T n_tokens"]:
        """Next-token logits (B, T, n_tokens) of tokens (B, T): logits[:, t] given tokens[:, :t+1]."""
        return self.readout(self.stack(self.tokens(tokens)))

    @shape_checked()
    def start(self, prompt: Tokens, lengths: Lengths | None = None) -> LlamaState:
        """Read prompts in parallel, and return the state that `step` continues from.

        Args:
            prompt: (B, T), T ≥ 0; a shorter one is followed by padding of any value.
            lengths: (B,), number of tokens of each prompt, 0 to T; None = all have T.

        Raises:
            ValueError: there is not one length for each prompt, or one is not in 0…T.
        """
        T = prompt.shape[1]
        if lengths is None:
            return LlamaState(self.stack.read(self.tokens(prompt))[1], None, T)
        prompt, real = padding_first(prompt, lengths)
        return LlamaState(self.stack.read(self.tokens(prompt), real)[1], real[:, None], T)

    def step(self, tokens: Int[Tensor, "B"], state: LlamaState) -> tuple[Float[Tensor, "B n_tokens"], LlamaState]:
        """Read one more token (B,) of each sequence; return next-token logits (B, n_tokens) and the new state.

        Raises:
            ValueError: there is not one token for each sequence.
        """
        for keys, _ in state.layers:
            require_one_token_each(tokens, keys.shape[0])
        real = None if state.real is None else F.pad(state.real, (0, 1), value=True)
        states, layers = self.stack.step(self.tokens(tokens[:, None]), state.layers, *(() if real is None else (real,)))
        return self.readout(states[:, 0]), LlamaState(layers, real, state.T + 1)

    def windowed(self, state: LlamaState, size: int, sinks: int = 0) -> LlamaState:
        """Drop what the next `step` does not read if every layer has a window of `size` tokens, the next one included.

        Called before every step, it keeps the cache from growing. After a prompt of at most `size` tokens, the steps compute
        what the mask `window_of_tokens(T, size)` computes from the whole text. `start` reads a longer prompt without a window:
        what stays of it in the upper layers has read what was dropped. With sinks, the first tokens stay as well, in positions
        just in front of the window.

        Args:
            state: what has been read.
            size: tokens in a window, the query's own included.
            sinks: first tokens that stay, in addition.

        Returns:
            a state of at most sinks + size - 1 tokens in each layer; its T still counts all that were read.

        Raises:
            ValueError: size is below 1, sinks is negative, or the first tokens of a prompt are padding, which is no sink.

        Source: Xiao et al. 2023, section 3.2 (https://arxiv.org/abs/2309.17453).
        """
        if sinks and state.real is not None:
            raise ValueError("sinks are the first tokens of a text, but prompts of different lengths begin with padding.")
        speeds = rotary_speeds(self._d_k, self._base, self.readout.weight.device)
        layers = tuple(windowed_cache(KeysValues(*layer), speeds, size, sinks) for layer in state.layers)
        real = None if state.real is None else state.real[..., max(0, state.real.shape[-1] - size + 1) :]
        return LlamaState(layers, real, state.T)
