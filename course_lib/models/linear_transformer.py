"""The linear transformer: it trains on all positions at once, as GPT does, and writes like an RNN, from a state of fixed size.

Katharopoulos et al. 2020, *Transformers are RNNs*, section 3.4, eqs. 16-20 (https://arxiv.org/abs/2006.16236). In each layer
and head, with features φ of queries and keys, S and z are all that is left of the past:

    S_t = S_{t-1} + φ(k_t) v_tᵀ        z_t = z_{t-1} + φ(k_t)        head_t = φ(q_t)ᵀ S_t / φ(q_t)ᵀ z_t

Blocks are pre-norm with GELU; positions are sinusoids, which have no end; the embedding serves as the last matrix, too.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.attention import (
    LinearAttention,
    chunked_linear_attention,
    inplace_linear_attention_step,
    linear_attention_step,
    merge_heads,
    split_heads,
)
from course_lib.blocks.block import Block, pre_norm
from course_lib.blocks.stack import Sizes, encoder_stack
from course_lib.primitives import elu_feature_map, sinusoids
from course_lib.shapes import Context, TokenFeatures, Tokens

Layer = tuple[Float[Tensor, "B h f d_v"], Float[Tensor, "B h f"]]


class LinearMemory(NamedTuple):
    """What the model knows of a text: S and z of each layer, and how many tokens it has read. Its size is always the same."""

    layers: tuple[Layer, ...]
    T: int


class LinearTransformer(nn.Module):
    """A language model: `forward` reads a whole text at once, `read` and `step` carry a memory along."""

    def __init__(
        self,
        n_tokens: int,
        sizes: Sizes,
        feature_map: Callable[[Tensor], Tensor] = elu_feature_map,
        mix: Callable[..., Context] = chunked_linear_attention,
    ) -> None:
        """Set up the model.

        Args:
            n_tokens: size of the vocabulary.
            sizes: d_model, n_heads, d_ff, n_layers.
            feature_map: φ, from (*batch, d_k) to (*batch, f), the same for queries and keys.
            mix: a causal form of linear attention.
        """
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, sizes.d_model)
        nn.init.normal_(self.tokens.weight, std=sizes.d_model**-0.5)
        self.feature_map = feature_map
        self.stack = encoder_stack(sizes, LinearAttention(feature_map, mix), F.gelu, pre_norm)

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T n_tokens"]:
        """Read tokens (B, T); logits[:, t] (B, T, n_tokens) speaks about the token behind tokens[:, :t+1]."""
        return self.stack(self._embed(tokens)) @ self.tokens.weight.mT

    def start(self, B: int) -> LinearMemory:
        """Give the memory of B texts of which nothing is read yet."""
        return self.read(torch.zeros(B, 0, dtype=torch.long, device=self.tokens.weight.device))[1]

    def read(self, tokens: Tokens) -> tuple[Float[Tensor, "B T n_tokens"], LinearMemory]:
        """Read the beginnings of texts (B, T) at once: their logits, as `forward` gives them, and the memory to go on from."""
        x, layers = self._embed(tokens), []
        for block in self.stack.blocks:
            _, k, v = _heads(block, block.norm_1(x))
            k, v = (y.to(torch.promote_types(y.dtype, torch.float32)) for y in (self.feature_map(k), v))
            layers.append((k.mT @ v, k.sum(-2)))
            x = block(x)
        return self.stack.closing(x) @ self.tokens.weight.mT, LinearMemory(tuple(layers), tokens.shape[1])

    def step(
        self, token: Int[Tensor, "B"], memory: LinearMemory, form: Callable[..., tuple[Tensor, ...]] = linear_attention_step
    ) -> tuple[Float[Tensor, "B n_tokens"], LinearMemory]:
        """Read one more token of each text, at a cost that does not depend on how many were read before.

        Args:
            token: (B,).
            memory: what `start`, `read` or the last step gave.
            form: `linear_attention_step`, or `inplace_linear_attention_step`, which overwrites the memory that came in.

        Returns:
            logits (B, n_tokens) about the token behind this one, and the memory with it.
        """
        x, layers = self._embed(token[:, None], memory.T), []
        for block, (S, z) in zip(self.stack.blocks, memory.layers, strict=True):
            x, layer = self._step(block, x, S, z, form)
            layers.append(layer)
        return (self.stack.closing(x) @ self.tokens.weight.mT)[:, 0], LinearMemory(tuple(layers), memory.T + 1)

    def _step(
        self, block: Block, x: TokenFeatures, S: Tensor, z: Tensor, form: Callable[..., tuple[Tensor, ...]]
    ) -> tuple[TokenFeatures, Layer]:
        q, k, v = _heads(block, block.norm_1(x))
        features = (y[..., 0, :].to(S.dtype) for y in (self.feature_map(q), self.feature_map(k), v))
        context, S, z = form(S, z, *features)
        x = x + block.mixer.attention.W_o(merge_heads(context[..., None, :].to(x.dtype)))
        return block.residual(x, block.feed_forward, block.norm_2), (S, z)

    def _embed(self, tokens: Tokens, T: int = 0) -> TokenFeatures:
        """Give tokens (B, n) that stand behind T others their vectors, (B, n, d_model)."""
        x = self.tokens(tokens)
        return x + sinusoids(T, tokens.shape[1], x.shape[-1], x.device).to(x.dtype)


def _heads(block: Block, x: TokenFeatures) -> tuple[Tensor, Tensor, Tensor]:
    """Project x (B, T, d_model) to queries, keys and values of all heads, (B, h, T, d) each."""
    attention = block.mixer.attention
    return tuple(split_heads(W(x), attention.n_heads) for W in (attention.W_q, attention.W_k, attention.W_v))


@torch.no_grad()
def generate_recurrently(
    model: LinearTransformer, prompt: Tokens, n: int, choose: Callable[[Tensor], Int[Tensor, "B"]]
) -> Int[Tensor, "B n"]:
    """Write n more tokens behind each prompt (B, T), T ≥ 1, each at the same cost and in the same memory.

    Args:
        model: reads the prompts at once, then goes on token by token.
        prompt: (B, T), all of one length.
        n: tokens to write; there is no limit.
        choose: gives the next token of each text (B,) from its logits (B, n_tokens), such as `sample`.

    Returns:
        (B, n), what was written behind each prompt.

    Raises:
        ValueError: a prompt is empty, so nothing speaks about its first token.
    """
    if prompt.shape[1] == 0:
        raise ValueError("a prompt needs at least one token: the first one written is foretold by the one before it.")
    read, memory = model.read(prompt)
    logits, written = read[:, -1], prompt.new_empty(len(prompt), n)
    for t in range(n):
        written[:, t] = choose(logits)
        if t + 1 < n:
            logits, memory = model.step(written[:, t], memory, inplace_linear_attention_step)
    return written
