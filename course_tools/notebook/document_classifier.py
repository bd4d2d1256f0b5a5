"""Classify documents by topic: documents as tensors, training and accuracy, for lecture 03."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import mean_pool
from course_lib.datasets import Vocabulary
from course_lib.datasets.docstrings import MARK, LabelledText
from course_lib.primitives import padding_mask
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted
from course_tools.notebook.plots import attention_map
from course_tools.notebook.show import show


class BagOfWords(nn.Module):
    """Classify a document by the mean of all its word vectors."""

    def __init__(self, n_words: int, n_topics: int, d: int) -> None:
        """Create word vectors of size d and a linear layer."""
        super().__init__()
        self.words, self.readout = nn.Embedding(n_words, d), nn.Linear(d, n_topics)

    def forward(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, None]:
        """Compute logits (B, n_topics) for words (B, S, T) in sentences of these lengths (B, S); there are no weights."""
        vectors, mask = self.words(words).flatten(1, 2), real_words(words, lengths).flatten(1)
        return self.readout(mean_pool(vectors, mask).context), None


@dataclass(frozen=True)
class TopicTask:
    """The vocabulary and the topics of a set of documents."""

    words: Vocabulary
    topics: tuple[str, ...]

    def batch(self, documents: Sequence[LabelledText], n_sentences: int = 8) -> tuple[Tensor, Tensor, Tensor]:
        """Convert documents to words (n, S, T), the length of each sentence (n, S), 0 for padding, and topics (n,)."""
        lines = [line for text in documents for line in (text.sentences + ("",) * n_sentences)[:n_sentences]]
        words, lengths = self.words.batch(lines)
        labels = torch.tensor([self.topics.index(text.topic) for text in documents])
        return words.unflatten(0, (-1, n_sentences)), lengths.unflatten(0, (-1, n_sentences)), labels

    def fit(
        self, make: Callable[[], nn.Module], documents: Sequence[LabelledText], seed: int, steps: int, lr: float
    ) -> nn.Module:
        """Train a new model `(words, lengths)` → (logits, …); the seed determines its initial weights and the batches of 32."""
        torch.manual_seed(seed)
        stream = batches(*(part.to(device()) for part in self.batch(documents)), batch_size=32, seed=seed)
        return fitted(make().to(device()), stream, _topic_loss, steps=steps, lr=lr, label=f"seed {seed}")

    @torch.no_grad()
    def accuracy(self, model: nn.Module, documents: Sequence[LabelledText]) -> tuple[float, Any]:
        """Measure the fraction of documents with the right topic; also return the model's second result, its weights."""
        words, lengths, labels = (part.to(device()) for part in self.batch(documents))
        logits, document = model(words, lengths)
        return (logits.argmax(-1) == labels).float().mean().item(), document


def topic_task(documents: Sequence[LabelledText]) -> TopicTask:
    """Collect the words of the documents, with the one that marks the start of a sentence, and their topics."""
    words = Vocabulary.of((f"{MARK} {line}" for text in documents for line in text.sentences), between=" ")
    return TopicTask(words, tuple(sorted({text.topic for text in documents})))


def real_words(words: Tensor, lengths: Tensor) -> Tensor:
    """Compute the mask of the words (B, S, T) that are not padding: True within the length (B, S) of the sentence."""
    return padding_mask(lengths.flatten(), words.shape[-1]).view(words.shape)


def _topic_loss(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(*batch[:-1])[0], batch[-1])


def show_document_weights(document: LabelledText, sentences: Tensor, words: Tensor) -> None:
    """Draw the weight of each word in a document: that of its sentence times its weight in the sentence.

    Args:
        document: its sentences are the labels of the rows.
        sentences: (S,), the weight of each sentence.
        words: (S, T), the weight of each word in its sentence.
    """
    weights = (sentences[:, None] * words).cpu()
    labels = [" ".join(line.split()[:4]) + " …" for line in document.sentences]
    largest = weights.sum(-1).argmax().item()
    figure = attention_map(weights, labels, x="position of the word, from 0", y="sentence")
    figure.axes[0].images[0].set_clim(0, weights.max().item())
    figure.axes[-1].set_ylabel("weight of the word in the document")
    show(
        figure,
        alt=f"Weight of each word in a document of {len(labels)} sentences: the sentence '{labels[largest]}' has "
        f"{weights[largest].sum():.2f} of the weight. The colours end at the largest weight of a word.",
    )
