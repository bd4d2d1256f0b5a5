"""Train classifiers of documents with several seeds, and compare their accuracy on new documents: experiments of lecture 03."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import nn

from course_lib.datasets import docstrings, marked_sentences
from course_lib.datasets.docstrings import MARK, LabelledText
from course_lib.models import PooledDocument
from course_tools.notebook.document_classifier import TopicTask, show_document_weights, topic_task
from course_tools.notebook.fitting import show_losses
from course_tools.notebook.seed_scores import show_seeds


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
