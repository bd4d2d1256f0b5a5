"""Hierarchical attention: attention pooling of words to sentences, and of sentences to a document.

Yang et al. 2016, *Hierarchical Attention Networks for Document Classification*, section 2.2 (https://aclanthology.org/N16-1174):

    h_it = BiGRU(words of sentence i)_t        s_i = pool_words(h_i1 … h_iT)
    h_i = BiGRU(s_1 … s_S)_i                   v = pool_sentences(h_1 … h_S)        p(class) = softmax(W v + b)
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib.attention import Attended, Pool
from course_lib.attention.pooling import pool
from course_lib.models.bigru_encoder import BidirectionalStates, bidirectional_gru
from course_lib.primitives import GRU

__all__ = ["Hierarchical", "PooledDocument", "compose_document"]

PoolWeights = tuple[Float[Tensor, "d_a d"], Float[Tensor, "d_a"], Float[Tensor, "d_a"]]


class PooledDocument(NamedTuple):
    """A document as one `vector` (B, d), with the weights of `sentences` (B, S) and of the `words` in each (B, S, T)."""

    vector: Float[Tensor, "B d"]
    sentences: Float[Tensor, "B S"]
    words: Float[Tensor, "B S T"]


def compose_document(
    states: Float[Tensor, "B S T d"], mask: Bool[Tensor, "B S T"], words: PoolWeights, sentences: PoolWeights
) -> PooledDocument:
    """Pool words to sentences, and sentences to a document.

    Args:
        states: of each word, (B, S, T, d): S sentences of T words, padded.
        mask: (B, S, T), True at real words; a sentence without words does not count.
        words: W (d_a, d), b (d_a,) and the query u (d_a,) that pool the words of a sentence.
        sentences: the same for the sentences of a document.

    Returns:
        vector (B, d), weights of the sentences (B, S) and of the words (B, S, T); 0 where the mask is False. The weight of
        a word in the vector is the product of the two.

    Source: Yang et al. 2016, section 2.2, without the recurrent layer between the two.
    """
    of_sentences, word_weights = pool(states, *words, mask)
    vector, sentence_weights = pool(of_sentences, *sentences, mask.any(-1))
    return PooledDocument(vector, sentence_weights, word_weights)


class Hierarchical(nn.Module):
    """A classifier of documents that reads words, then sentences."""

    def __init__(
        self,
        n_tokens: int,
        n_classes: int,
        d_embedding: int,
        d_hidden: int,
        pooling: Callable[[int, int], Callable[..., Attended]] = Pool,
        run: Callable[..., BidirectionalStates] = bidirectional_gru,
    ) -> None:
        """Set up the model.

        Args:
            n_tokens: size of the vocabulary.
            n_classes: classes of documents.
            d_embedding: features of a word.
            d_hidden: units of each GRU, in each direction; a sentence and a document have 2 · d_hidden features.
            pooling: makes the pooling of vectors of d_v features with d_a hidden units from (d_v, d_a): `Pool`, or
                `lambda d_v, d_a: mean_pool` for a plain mean.
            run: `bidirectional_gru`, or a faster form of it.
        """
        super().__init__()
        self.run = run
        self.words = nn.Embedding(n_tokens, d_embedding)
        self.words_forwards, self.words_backwards = GRU(d_embedding, d_hidden), GRU(d_embedding, d_hidden)
        self.sentences_forwards, self.sentences_backwards = GRU(2 * d_hidden, d_hidden), GRU(2 * d_hidden, d_hidden)
        self.pool_words, self.pool_sentences = pooling(2 * d_hidden, d_hidden), pooling(2 * d_hidden, d_hidden)
        self.readout = nn.Linear(2 * d_hidden, n_classes)

    def forward(
        self, words: Int[Tensor, "B S T"], lengths: Int[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B n_classes"], PooledDocument]:
        """Read documents.

        Args:
            words: (B, S, T), padded; S, T ≥ 1.
            lengths: (B, S), words of each sentence; sentences of length 0 follow the last.

        Returns:
            logits (B, n_classes), and the document with its weights.
        """
        B, S, T = words.shape
        states, _ = self.run(self.words(words).flatten(0, 1), lengths.flatten(), self.words_forwards, self.words_backwards)
        mask = torch.arange(T, device=words.device) < lengths[..., None]
        of_sentences, word_weights = self.pool_words(states.unflatten(0, (B, S)), mask)
        n_sentences = (lengths > 0).sum(-1)
        states, _ = self.run(of_sentences, n_sentences, self.sentences_forwards, self.sentences_backwards)
        vector, sentence_weights = self.pool_sentences(states, torch.arange(S, device=words.device) < n_sentences[:, None])
        return self.readout(vector), PooledDocument(vector, sentence_weights, word_weights)
