"""BERT: a bidirectional Transformer encoder, pre-trained on masked language modelling and next-sentence prediction.

Devlin, Chang, Lee, Toutanova 2019, *BERT*, section 3 and figure 2 (https://arxiv.org/abs/1810.04805):

    h_0 = Norm(E[token] + S[segment] + P[position])        h_l = Block_l(h_{l-1})

    p(word) = softmax(E Norm(GELU(W h_L + b)) + c)          at the masked positions
    p(next sentence) = softmax(W' tanh(W_p h_L[CLS] + b_p) + b')

Post-norm, GELU, ε = 1e-12, as published; weights start as the paper's at its width (`blocks.draw_weights`). Dropout,
if asked for, is that of the embeddings and the residual path; that of attention weights is the mechanism's:
`AttentionDropout(scaled_dot_product_attention, 0.1)`.
"""

from functools import partial
from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.attention import AnyMechanism, scaled_dot_product_attention
from course_lib.blocks.block import Activation, Sizes, draw_weights, encoder_stack, post_norm
from course_lib.models.bert_heads import MaskedWordHead, SentenceHead
from course_lib.primitives import LearnedPositions, padding_mask
from course_lib.primitives.preconditions import shape_checked
from course_lib.shapes import Lengths, Tokens

__all__ = ["BERT", "PretrainingBERT"]

BertNorm = partial(nn.LayerNorm, eps=1e-12)


class BERT(nn.Module):
    """The encoder, from tokens to states; heads for tasks are in `bert_heads`."""

    def __init__(
        self,
        n_tokens: int,
        T_max: int,
        sizes: Sizes,
        mechanism: AnyMechanism = scaled_dot_product_attention,
        n_segments: int = 2,
        activation: Activation = F.gelu,
        dropout: float = 0.0,
    ) -> None:
        """Set up the model.

        Args:
            n_tokens: size of the vocabulary.
            T_max: the longest sequence; there is a learned position for each of its tokens.
            sizes: d_model, n_heads, d_ff (4 · d_model in the paper), n_layers.
            mechanism: what each head does; `fused_scaled_dot_product_attention` is faster and returns no weights.
            n_segments: sentences that a sequence can be made of.
            activation: inside the feed-forward networks.
            dropout: probability with which, in training, a feature is set to 0: of the embeddings, and of the output of each
                sublayer.
        """
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, sizes.d_model)
        self.segments = nn.Embedding(n_segments, sizes.d_model)
        self.positions = LearnedPositions(T_max, sizes.d_model)
        self.norm = BertNorm(sizes.d_model)
        self.stack = encoder_stack(sizes, mechanism, activation, post_norm, BertNorm, dropout)
        self.dropout = nn.Dropout(dropout)
        draw_weights(self, sizes.d_model)

    @shape_checked()
    def forward(
        self, tokens: Tokens, segments: Tokens | None = None, lengths: Lengths | None = None
    ) -> Float[Tensor, "B T d_model"]:
        """Read a batch.

        Args:
            tokens: (B, T), T ≤ T_max; a sentence as `losses.segment_input` lays it out, then padding.
            segments: (B, T), the sentence of each token; None = the first for all.
            lengths: (B,), real tokens of each sequence; None = all have T.

        Returns:
            states (B, T, d_model); those at padding are undefined.

        Raises:
            ValueError: there are more than T_max tokens, there is not one length for each sequence, or one is not in 0…T.
        """
        of_segments = self.segments.weight[0] if segments is None else self.segments(segments)
        x = self.dropout(self.norm(self.tokens(tokens) + of_segments + self.positions(tokens.shape[1])))
        return self.stack(x) if lengths is None else self.stack(x, padding_mask(lengths, tokens.shape[1]))


class Pretraining(NamedTuple):
    """Pre-training logits: `words` (*positions, n_tokens), and `follows` (B, 2) for [is next, is not next].

    The positions are all, (B, T), or the chosen ones alone, (n_chosen,).
    """

    words: Float[Tensor, "*positions n_tokens"]
    follows: Float[Tensor, "B 2"]


class PretrainingBERT(nn.Module):
    """BERT with the two heads of its pre-training: masked words, and next-sentence prediction."""

    def __init__(self, bert: BERT, activation: Activation = F.gelu) -> None:
        """Add the heads to an encoder; the head for words shares its embedding, and applies `activation` before its norm."""
        super().__init__()
        d_model = bert.tokens.embedding_dim
        self.bert = bert
        self.words = MaskedWordHead(d_model, bert.tokens.num_embeddings, activation)
        self.follows = SentenceHead(d_model, 2)
        draw_weights(self.words, d_model)
        draw_weights(self.follows, d_model)

    @shape_checked()
    def forward(
        self,
        tokens: Tokens,
        segments: Tokens | None = None,
        lengths: Lengths | None = None,
        chosen: Bool[Tensor, "B T"] | None = None,
    ) -> Pretraining:
        """Read a batch as `BERT` does; return the logits of both tasks, class 0 of the second for "it follows".

        With the words that `losses.mask_tokens` has chosen, the head for words reads these positions alone, a seventh of all,
        and `F.cross_entropy(words, tokens[chosen])` of the true tokens is `losses.mlm_loss`: with 5,000 words, four fifths of
        a training step's time and memory.
        """
        states = self.bert(tokens, segments, lengths)
        read = states if chosen is None else states[chosen]
        return Pretraining(self.words(read, self.bert.tokens.weight), self.follows(states))
