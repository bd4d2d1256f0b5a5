"""The Transformer: an encoder-decoder of attention and feed-forward layers.

Vaswani et al. 2017, *Attention Is All You Need*, section 3 and figure 1 (https://arxiv.org/abs/1706.03762):

    x_0 = √d E[source] + PE        memory = Encoder(x_0)
    y_0 = √d E'[target] + PE       p(next word) = softmax(E' Decoder(y_0, memory))

The decoder's self-attention is causal. Its embedding is also the output matrix, as in section 3.4; source and target have
separate vocabularies, or one for both, as in the paper: then E = E' is one module. Embeddings start with variance 1 / d, so
that √d makes them as large as the positions. Dropout is that of section 5.4.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib.attention import AnyMechanism, LayerState, causal_attention, scaled_dot_product_attention
from course_lib.attention.core import require_causal
from course_lib.blocks.block import (
    Activation,
    Residual,
    Sizes,
    decoder_stack,
    encoder_stack,
    post_norm,
)
from course_lib.primitives import padding_mask, sinusoidal_positions
from course_lib.primitives.preconditions import require_one_token_each, shape_checked
from course_lib.shapes import Lengths, Memory, Tokens

__all__ = ["Transformer"]


class DecoderState(NamedTuple):
    """A translation in progress: the state of each layer, the source's `mask` (B, 1, T_k), and the number T of words."""

    layers: tuple[LayerState, ...]
    mask: Bool[Tensor, "B 1 T_k"]
    T: int


class Transformer(nn.Module):
    """Encoder and decoder, from tokens to logits."""

    def __init__(
        self,
        n_source: int | nn.Embedding,
        n_target: int | nn.Embedding,
        sizes: Sizes,
        mechanism: AnyMechanism = scaled_dot_product_attention,
        activation: Activation = F.relu,
        residual: Residual = post_norm,
        positions: Callable[..., Float[Tensor, "T d_model"]] = sinusoidal_positions,
        causal: AnyMechanism = causal_attention,
        dropout: float = 0.0,
    ) -> None:
        """Set up both stacks.

        Args:
            n_source: words of the source's vocabulary, or an embedding of them; its weights are initialised again.
            n_target: words of the target's vocabulary, or an embedding of them. One embedding for both,
                `words = nn.Embedding(n, d_model); Transformer(words, words, sizes)`, serves source, target and output.
            sizes: d_model, n_heads, d_ff, n_layers; the encoder and the decoder have n_layers each.
            mechanism: how each head attends; `fused_scaled_dot_product_attention` is faster and returns no weights.
            activation: inside the feed-forward networks.
            residual: `post_norm` as published, or `pre_norm`.
            positions: a function `(T, d_model, device=…) -> (T, d_model)`, added to the embeddings.
            causal: how each head attends in the decoder's self-attention; `fused_causal_attention` is faster.
            dropout: probability with which, in training, a feature is set to 0: of the sums of embeddings and
                positions, and of the output of each sublayer.
        """
        super().__init__()
        self.positions = positions
        self.source_words = _embedding(n_source, sizes.d_model)
        self.target_words = _embedding(n_target, sizes.d_model)
        self.encoder = encoder_stack(sizes, mechanism, activation, residual, dropout=dropout)
        self.decoder = decoder_stack(sizes, mechanism, activation, residual, own=causal, dropout=dropout)
        require_causal(causal, sizes.n_heads, sizes.d_model // sizes.n_heads)
        self.dropout = nn.Dropout(dropout)
        for weights in self.parameters():
            if weights.dim() > 1:
                nn.init.xavier_uniform_(weights)
        for words in (self.source_words, self.target_words):
            nn.init.normal_(words.weight, std=sizes.d_model**-0.5)

    def forward(self, source: Int[Tensor, "B T_k"], lengths: Lengths, target: Tokens) -> Float[Tensor, "B T n_target"]:
        """Read the source, then the true target (teacher forcing).

        Args:
            source: (B, T_k) words, padded.
            lengths: (B,), words of each source.
            target: (B, T): begin first, then the sentence and its end, then padding.

        Returns:
            logits (B, T, n_target); logits[:, t] are next-token logits given target[:, :t+1].

        Raises:
            ValueError: there is not one length for each source, or one is longer than the source.
        """
        return self.decode(target, *self.encode(source, lengths))

    @shape_checked()
    def encode(self, source: Int[Tensor, "B T_k"], lengths: Lengths) -> tuple[Memory, Bool[Tensor, "B 1 T_k"]]:
        """Encode sentences (B, T_k) of the given lengths (B,): the memory (B, T_k, d_model) and its mask (B, 1, T_k)."""
        mask = padding_mask(lengths, source.shape[1])
        return self.encoder(self.dropout(self._embed(self.source_words, source)), mask), mask

    def decode(self, target: Tokens, memory: Memory, mask: Bool[Tensor, "B 1 T_k"]) -> Float[Tensor, "B T n_target"]:
        """Next-token logits (B, T, n_target) of target (B, T), given a memory and its mask."""
        states = self.decoder(self.dropout(self._embed(self.target_words, target)), memory, None, mask)
        return states @ self.target_words.weight.mT

    def start(self, source: Int[Tensor, "B T_k"], lengths: Lengths) -> DecoderState:
        """Read sentences (B, T_k) of the given lengths (B,), and return the state that `step` starts from.

        Dropout is not applied here, even in training mode.

        Raises:
            ValueError: there is not one length for each source, one is longer than the source, or `causal` has no
                step-by-step form (`StepwiseMechanism`).
        """
        with _in_evaluation(self):
            memory, mask = self.encode(source, lengths)
        _, layers = self.decoder.read(memory[:, :0], memory, mask)  # no target token has been read yet
        return DecoderState(layers, mask, 0)

    def step(self, words: Int[Tensor, "B"], state: DecoderState) -> tuple[Float[Tensor, "B n_target"], DecoderState]:
        """Read one more word (B,) of each sentence; return next-token logits (B, n_target) and the new state.

        Neither earlier words nor the source are read again: their keys and values are in the state.

        Raises:
            ValueError: there is not one word for each sentence of the state.
        """
        require_one_token_each(words, state.mask.shape[0])
        x = self._embed(self.target_words, words[:, None], state.T)
        states, layers = self.decoder.step(x, state.layers, state.mask)
        return states[:, 0] @ self.target_words.weight.mT, DecoderState(layers, state.mask, state.T + 1)

    def _embed(self, words: nn.Embedding, tokens: Tokens, T: int = 0) -> Float[Tensor, "B n d_model"]:
        """Embed tokens (B, n) at positions T to T + n - 1."""
        d_model = words.embedding_dim
        x = d_model**0.5 * words(tokens)
        return x + self.positions(T + tokens.shape[1], d_model, device=tokens.device)[T:].to(x.dtype)


@contextmanager
def _in_evaluation(model: nn.Module) -> Iterator[None]:
    """Put a model and its parts into evaluation mode, then restore the mode of each."""
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _embedding(words: int | nn.Embedding, d_model: int) -> nn.Embedding:
    return words if isinstance(words, nn.Embedding) else nn.Embedding(words, d_model)
