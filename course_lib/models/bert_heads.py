"""Heads for BERT: classification of sentences and pairs, answer spans, token tags, and masked words.

Devlin et al. 2019, section 3.2 and figure 4 (https://arxiv.org/abs/1810.04805), with C the state of [CLS] and T_i of token i:

    sentence, pair    p(class) = softmax(W tanh(W_p C + b_p) + b)          GLUE, next sentence
    span              p(start = i) = softmax_i(S · T_i)    p(end = i) = softmax_i(E · T_i)          SQuAD
    tag               p(tag of i) = softmax(W T_i + b)          CoNLL
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.blocks.block import Activation
from course_lib.primitives import padding_mask
from course_lib.shapes import Lengths

__all__ = ["SentenceHead", "SpanHead", "TagHead", "classification_head"]

BertStates = Float[Tensor, "B T d_model"]


def classification_head(
    states: BertStates,
    W_p: Float[Tensor, "d_p d_model"],
    b_p: Float[Tensor, "d_p"],
    W: Float[Tensor, "n_classes d_p"],
    b: Float[Tensor, "n_classes"],
) -> Float[Tensor, "B n_classes"]:
    """Classify sequences by the state of their first token, [CLS].

    Args:
        states: (B, T, d_model), those of [CLS] first.
        W_p: (d_p, d_model), of the pooler.
        b_p: (d_p,).
        W: (n_classes, d_p).
        b: (n_classes,).

    Returns:
        logits (B, n_classes).

    Source: Devlin et al. 2019, section 3.2; the pooler as in their code.
    """
    pooled = torch.tanh(states[:, 0] @ W_p.mT + b_p)
    return pooled @ W.mT + b


class SentenceHead(nn.Module):
    """Classifies a sentence, or a pair of them, by its first token: owns `pool` and `classify`."""

    def __init__(self, d_model: int, n_classes: int) -> None:
        """Set up for n_classes."""
        super().__init__()
        self.pool = nn.Linear(d_model, d_model)
        self.classify = nn.Linear(d_model, n_classes)

    def forward(self, states: BertStates) -> Float[Tensor, "B n_classes"]:
        """Return logits (B, n_classes) from states (B, T, d_model)."""
        pool, classify = self.pool, self.classify
        return classification_head(states, pool.weight, pool.bias, classify.weight, classify.bias)


class Span(NamedTuple):
    """Logits (B, T) for where an answer starts and where it ends; -inf where it cannot."""

    start: Float[Tensor, "B T"]
    end: Float[Tensor, "B T"]


class SpanHead(nn.Module):
    """Predicts the span of an answer in a text: owns S and E, the two rows of `place`."""

    def __init__(self, d_model: int) -> None:
        """Set up for states of d_model features."""
        super().__init__()
        self.place = nn.Linear(d_model, 2)

    def forward(self, states: BertStates, lengths: Lengths | None = None) -> Span:
        """Return the logits of start and end from states (B, T, d_model); padding after `lengths` (B,) gets -inf."""
        logits = self.place(states)
        if lengths is not None:
            logits = logits.masked_fill(~padding_mask(lengths, states.shape[1]).mT, -torch.inf)
        return Span(*logits.unbind(-1))


class TagHead(nn.Module):
    """Assigns every token a tag, such as the type of the entity that it belongs to."""

    def __init__(self, d_model: int, n_tags: int) -> None:
        """Set up for n_tags."""
        super().__init__()
        self.classify = nn.Linear(d_model, n_tags)

    def forward(self, states: BertStates) -> Float[Tensor, "B T n_tags"]:
        """Return logits (B, T, n_tags) from states (B, T, d_model)."""
        return self.classify(states)


class MaskedWordHead(nn.Module):
    """Predicts the masked words. Its output matrix is the embedding, given at each call; only the bias is its own."""

    def __init__(self, d_model: int, n_tokens: int, activation: Activation = F.gelu) -> None:
        """Set up for n_tokens words."""
        super().__init__()
        self.transform, self.activation = nn.Linear(d_model, d_model), activation
        self.norm = nn.LayerNorm(d_model, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(n_tokens))

    def forward(
        self, states: Float[Tensor, "*batch d_model"], embedding: Float[Tensor, "n_tokens d_model"]
    ) -> Float[Tensor, "*batch n_tokens"]:
        """Return logits from states (*batch, d_model), of all positions or of the masked ones."""
        return F.linear(self.norm(self.activation(self.transform(states))), embedding, self.bias)
