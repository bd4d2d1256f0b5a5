"""Models of documents whose pooling is computed by a function, and their rivals without attention: lecture 03.

Each classifier maps words (B, S, T) in sentences of given lengths (B, S) to logits (B, n_topics) and its weights, None if it
has none.
"""

from collections.abc import Callable

from torch import Tensor, nn

from course_lib.attention import Attended, Pool, mean_pool
from course_lib.models import PooledDocument
from course_tools.notebook.document_classifier import real_words

PoolFunction = Callable[..., Attended]
"""`(values, W, b, u, mask)` → context, weights, as `course_lib.attention.pool`."""
ComposeFunction = Callable[..., tuple[Tensor, Tensor, Tensor]]
"""`(states, mask, words, sentences)` → vector, weights of sentences, of words, as `course_lib.models.compose_document`."""


class PoolByFunction(nn.Module):
    """Attention pooling whose weights are those of a `Pool`, and whose result is computed by a function."""

    def __init__(self, pool: PoolFunction, d_v: int, d_a: int) -> None:
        """Create the weights for vectors of size d_v with d_a hidden units."""
        super().__init__()
        self.pool, self.weights = pool, Pool(d_v, d_a)

    def forward(self, values: Tensor, mask: Tensor | None = None) -> Attended:
        """Pool values (…, T, d_v) under a mask (…, T), True = real: context (…, d_v), weights (…, T)."""
        return Attended(*self.pool(values, self.weights.W, self.weights.b, self.weights.u, mask))


class TwoLevels(nn.Module):
    """Word vectors without recurrence, pooled to sentences and to a document by a function."""

    def __init__(self, compose: ComposeFunction, n_words: int, n_topics: int, d: int = 48) -> None:
        """Create word vectors of size d, the weights of both levels and a linear layer."""
        super().__init__()
        self.compose = compose
        self.words, self.readout = nn.Embedding(n_words, d), nn.Linear(d, n_topics)
        self.pool_words, self.pool_sentences = Pool(d, d), Pool(d, d)

    def forward(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, PooledDocument]:
        """Classify words (B, S, T) in sentences of these lengths (B, S)."""
        levels = ((level.W, level.b, level.u) for level in (self.pool_words, self.pool_sentences))
        document = PooledDocument(*self.compose(self.words(words), real_words(words, lengths), *levels))
        return self.readout(document.vector), document


class TwoMeans(nn.Module):
    """A rival without attention: the mean of the words of each sentence, a layer, and the mean of the sentences."""

    def __init__(self, make_activation: Callable[[], nn.Module], n_words: int, n_topics: int, d: int = 48) -> None:
        """Create word vectors of size d, and a layer with an activation such as `nn.ReLU`; `nn.Identity` makes it linear."""
        super().__init__()
        self.words, self.readout = nn.Embedding(n_words, d), nn.Linear(d, n_topics)
        self.layer = nn.Sequential(nn.Linear(d, d), make_activation())

    def forward(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, None]:
        """Classify words (B, S, T) in sentences of these lengths (B, S), each of at least one word."""
        sentences = mean_pool(self.words(words), real_words(words, lengths)).context
        return self.readout(self.layer(sentences).mean(1)), None
