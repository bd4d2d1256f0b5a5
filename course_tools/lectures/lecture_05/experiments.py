"""A Transformer whose blocks are functions with weights passed in, such as those that a student wrote."""

from collections.abc import Callable

from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.attention import MultiHead
from course_lib.blocks import AttentionWeights, FeedForward, FeedForwardWeights, NormWeights
from course_lib.models import Transformer
from course_lib.primitives import padding_mask
from course_lib.shapes import Lengths, Tokens


class TransformerByFunctions(nn.Module):
    """A post-norm `Transformer` whose blocks are computed by an `encoder_block` and a `decoder_block`.

    `forward` uses the weights of the model, so training updates them. `start` and `step` are those of the model, which keep
    keys and values: decoding does not use the functions.
    """

    def __init__(self, model: Transformer, encoder_block: Callable[..., Tensor], decoder_block: Callable[..., Tensor]) -> None:
        """Wrap a model and two functions.

        Args:
            model: a Transformer as published, without dropout. The biases of its attentions are removed, because the functions
                take none.
            encoder_block: `(x, attention, network, norms, n_heads, mask) -> x`, as in `course_lib.blocks`.
            decoder_block: `(x, memory, own, cross, network, norms, n_heads, memory_mask) -> x`, likewise.
        """
        super().__init__()
        self.model, self.start, self.step = model, model.start, model.step
        self.encoder_block, self.decoder_block = encoder_block, decoder_block
        for part in model.modules():
            if isinstance(part, MultiHead):
                for projection in _projections(part):
                    projection.bias = None

    def forward(self, source: Int[Tensor, "B T_k"], lengths: Lengths, target: Tokens) -> Float[Tensor, "B T n_target"]:
        """Compute the next-token logits (B, T, n_target) of target (B, T), for sources (B, T_k) of these lengths (B,)."""
        mask = padding_mask(lengths, source.shape[1])
        memory, y = self._embed(self.model.source_words, source), self._embed(self.model.target_words, target)
        for block in self.model.encoder.blocks:
            attention = block.mixer.attention
            norms = _norms(block.norm_1, block.norm_2)
            memory = self.encoder_block(
                memory, _attention(attention), _network(block.feed_forward), norms, attention.n_heads, mask
            )
        for block in self.model.decoder.blocks:
            own, cross = block.mixer.attention, block.cross.attention
            network, norms = _network(block.feed_forward), _norms(block.norm_1, block.norm_2, block.norm_3)
            y = self.decoder_block(y, memory, _attention(own), _attention(cross), network, norms, own.n_heads, mask)
        return y @ self.model.target_words.weight.mT

    def _embed(self, words: nn.Embedding, tokens: Tokens) -> Float[Tensor, "B n d_model"]:
        d_model = words.embedding_dim
        return d_model**0.5 * words(tokens) + self.model.positions(tokens.shape[1], d_model, device=tokens.device)


def _projections(attention: MultiHead) -> tuple[nn.Linear, ...]:
    return attention.W_q, attention.W_k, attention.W_v, attention.W_o


def _attention(attention: MultiHead) -> AttentionWeights:
    W_q, W_k, W_v, W_o = (projection.weight for projection in _projections(attention))
    return W_q, W_k, W_v, W_o


def _network(network: FeedForward) -> FeedForwardWeights:
    return network.W_1.weight, network.W_1.bias, network.W_2.weight, network.W_2.bias


def _norms(*norms: nn.LayerNorm) -> tuple[NormWeights, ...]:
    return tuple((norm.weight, norm.bias) for norm in norms)
