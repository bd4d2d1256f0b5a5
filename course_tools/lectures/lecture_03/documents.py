"""Classify documents by topic: data, models that pool by attention or by means, and training with several seeds."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import Attended, Pool, mean_pool
from course_lib.datasets import Vocabulary, docstrings, marked_sentences
from course_lib.datasets.docstrings import MARK, LabelledText
from course_lib.models import PooledDocument
from course_lib.primitives import padding_mask
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted, show_losses
from course_tools.notebook.plots import attention_map
from course_tools.notebook.seed_scores import show_seeds
from course_tools.notebook.show import show

# Classify documents by topic: documents as tensors, training and accuracy.


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


# Models of documents whose pooling is computed by a function, and their rivals without attention.
#
# Each classifier maps words (B, S, T) in sentences of given lengths (B, S) to logits (B, n_topics) and its weights, None if it
# has none.


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


# Train classifiers of documents with several seeds, and compare their accuracy on new documents.


class DocumentReaders(NamedTuple):
    """Classifiers that differ only in their seed, with their accuracies on new documents and their weights there.

    `documents` holds what each classifier returns beside the logits: a `PooledDocument`, or None without attention.
    """

    models: list[nn.Module]
    accuracies: list[float]
    documents: list[PooledDocument | None]


@dataclass(frozen=True)
class DocumentExperiment:
    """Documents for training and new ones for testing; each classifier is trained once for each seed."""

    topics: TopicTask
    known: tuple[LabelledText, ...]
    new: tuple[LabelledText, ...]
    seeds: Sequence[int]

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of words of the vocabulary, and of topics."""
        return len(self.topics.words), len(self.topics.topics)

    def marked(self, n_known: int, n_new: int, n_sentences: int = 8) -> "DocumentExperiment":
        """Compose documents of sentences from different ones; a word marks the sentence whose topic is to be predicted.

        Args:
            n_known: number of documents for training, of sentences from those of this experiment.
            n_new: number of new documents, of sentences from its new ones.
            n_sentences: sentences of a document, at most eight, as the classifiers read no more.

        Raises:
            ValueError: there are more than eight sentences.
        """
        if n_sentences > 8:
            raise ValueError(f"a classifier reads at most eight sentences of a document, got {n_sentences}.")
        parts = (self.known, n_known, 1), (self.new, n_new, 2)
        known, new = (marked_sentences(texts, n, n_sentences, seed=seed) for texts, n, seed in parts)
        return replace(self, known=known, new=new)

    def fit(self, make: Callable[[], nn.Module], steps: int, lr: float) -> DocumentReaders:
        """Train a new classifier `(words, lengths)` → (logits, weights or None) for each seed, and test it."""
        models = [self.topics.fit(make, self.known, seed, steps, lr) for seed in self.seeds]
        tested = [self.topics.accuracy(model, self.new) for model in models]
        return DocumentReaders(models, [accuracy for accuracy, _ in tested], [document for _, document in tested])

    def compare(self, readers: Mapping[str, DocumentReaders]) -> dict[str, list[float]]:
        """Draw the training losses and the accuracies on new documents; return the accuracies by name."""
        show_losses({name: group.models for name, group in readers.items()})
        found = {name: group.accuracies for name, group in readers.items()}
        ((_, largest),) = Counter(text.topic for text in self.new).most_common(1)
        always = {"always the most frequent topic": round(largest / len(self.new), 3)}
        show_seeds(found, "accuracy", "new documents, one point per seed", always)
        return found

    def weight_of_the_mark(self, readers: DocumentReaders) -> list[float]:
        """Return the mean weight of the marked sentence in the new documents, one number for each classifier."""
        marks = torch.tensor([[line.startswith(f"{MARK} ") for line in text.sentences] for text in self.new])
        return [document.sentences.cpu()[:, : marks.shape[1]][marks].mean().item() for document in readers.documents]

    def show_weights(self, readers: DocumentReaders) -> None:
        """Draw the weights of the first classifier in a new document whose marked sentence has more than eight words."""
        of_interest = (any(MARK in line and len(line.split()) > 8 for line in text.sentences) for text in self.new)
        index, document = list(of_interest).index(True), readers.documents[0]
        show_document_weights(self.new[index], document.sentences[index], document.words[index])


def docstring_experiment(seeds: Sequence[int]) -> DocumentExperiment:
    """Read docstrings of eight sub-packages, 300 of them for testing: at most eight sentences of at most ten words each."""
    texts = docstrings(100, 300, n_topics=8, n_sentences=8, n_words=10, seed=0)
    return DocumentExperiment(topic_task(texts.train), texts.train, texts.test, seeds)
