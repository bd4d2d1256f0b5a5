"""Linear transformer: trained on all positions in parallel, generates like an RNN from a state of fixed size.

Katharopoulos et al. 2020, *Transformers are RNNs*, section 3.4, eqs. 16-20 (https://arxiv.org/abs/2006.16236). In each layer
and head, with features φ of queries and keys, S and z summarise the past:

    S_t = S_{t-1} + φ(k_t) v_tᵀ        z_t = z_{t-1} + φ(k_t)        head_t = φ(q_t)ᵀ S_t / φ(q_t)ᵀ z_t

Blocks are pre-norm with GELU; positions are sinusoids, which have no largest length; the embedding is also the output matrix.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.attention import LayerState, LinearAttention, chunked_linear_attention, linear_attention_step
from course_lib.attention.core import require_causal
from course_lib.blocks.block import Sizes, encoder_stack, pre_norm
from course_lib.primitives import lean_elu_feature_map, sinusoids
from course_lib.primitives.preconditions import require_one_token_each
from course_lib.shapes import Context, TokenFeatures, Tokens

__all__ = ["LinearTransformer"]


class LinearMemory(NamedTuple):
    """Recurrent state: (S, z) of each layer, and the number T of tokens read. Its size does not depend on T."""

    layers: tuple[LayerState, ...]
    T: int


class LinearTransformer(nn.Module):
    """A language model with causal linear attention: `forward` in parallel, `start` and `step` as a recurrent network."""

    def __init__(
        self,
        n_tokens: int,
        sizes: Sizes,
        feature_map: Callable[[Tensor], Tensor] = lean_elu_feature_map,
        mix: Callable[..., Context] = chunked_linear_attention,
    ) -> None:
        """Set up the model.

        Args:
            n_tokens: size of the vocabulary.
            sizes: d_model, n_heads, d_ff, n_layers.
            feature_map: φ, from (*batch, d_k) to (*batch, f), the same for queries and keys; a module is copied for each layer.
            mix: a causal form of linear attention, such as `causal_linear_attention`, the equation: on 1,000 tokens a fiftieth
                as fast, in 15 times the memory.
        """
        super().__init__()
        mechanism = LinearAttention(feature_map, mix)
        self.tokens = nn.Embedding(n_tokens, sizes.d_model)
        nn.init.normal_(self.tokens.weight, std=sizes.d_model**-0.5)
        self.stack = encoder_stack(sizes, mechanism, F.gelu, pre_norm)
        require_causal(mechanism, sizes.n_heads, sizes.d_model // sizes.n_heads)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T n_tokens"]:
        """Next-token logits (B, T, n_tokens) of tokens (B, T): logits[:, t] given tokens[:, :t+1]."""
        return self.stack(self._embed(tokens)) @ self.tokens.weight.mT

    def start(self, prompt: Tokens) -> LinearMemory:
        """Read prompts (B, T), T ≥ 0, all of one length; return the memory that `step` continues from.

        Raises:
            ValueError: `mix` is `linear_attention`, which is not causal.
        """
        return LinearMemory(self.stack.read(self._embed(prompt))[1], prompt.shape[1])

    def read(self, tokens: Tokens) -> tuple[Float[Tensor, "B T n_tokens"], LinearMemory]:
        """Read tokens (B, T) in parallel; return the logits of `forward`, and the memory that `step` continues from.

        Raises:
            ValueError: `mix` is `linear_attention`, which is not causal.
        """
        states, layers = self.stack.read(self._embed(tokens))
        return states @ self.tokens.weight.mT, LinearMemory(layers, tokens.shape[1])

    def step(
        self, token: Int[Tensor, "B"], memory: LinearMemory, form: Callable[..., tuple[Tensor, ...]] = linear_attention_step
    ) -> tuple[Float[Tensor, "B n_tokens"], LinearMemory]:
        """Read one more token of each sequence, at a cost that does not depend on the number of tokens read before.

        Args:
            token: (B,).
            memory: from `start`, `read` or the previous step.
            form: `linear_attention_step`, or `fast.inplace_linear_attention_step`, which overwrites the given memory.

        Returns:
            next-token logits (B, n_tokens), and the new memory.

        Raises:
            ValueError: there is not one token for each sequence of the memory.
        """
        for S, _ in memory.layers:
            require_one_token_each(token, S.shape[0])
        states, layers = self.stack.step(self._embed(token[:, None], memory.T), memory.layers, form)
        return (states @ self.tokens.weight.mT)[:, 0], LinearMemory(layers, memory.T + 1)

    def _embed(self, tokens: Tokens, T: int = 0) -> TokenFeatures:
        """Embed tokens (B, n) at positions T to T + n - 1, (B, n, d_model)."""
        x = self.tokens(tokens)
        return x + sinusoids(T, tokens.shape[1], x.shape[-1], x.device).to(x.dtype)
