"""Documents in which one marked sentence decides the topic: as tensors, rivals without attention, and weights of the words."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from course_lib.attention import mean_pool
from course_lib.datasets import Vocabulary
from course_lib.models import PooledDocument
from course_lib.primitives import padding_mask
from course_tools.notebook.device import device
from course_tools.notebook.docstrings import MARK, LabelledText, docstrings, marked_sentences
from course_tools.notebook.show import show
from course_tools.notebook.style import palette

N_SENTENCES = 8


@dataclass(frozen=True)
class MarkedDocuments:
    """Documents for training and new ones: each of eight sentences from different docstrings, one marked by the word `MARK`.

    The task is to predict the topic of the marked sentence: the sub-package from which its docstring comes.
    """

    words: Vocabulary
    topics: tuple[str, ...]
    known: tuple[LabelledText, ...]
    new: tuple[LabelledText, ...]

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of words of the vocabulary, and of topics."""
        return len(self.words), len(self.topics)

    @property
    def most_frequent(self) -> float:
        """The accuracy on the new documents of always choosing the most frequent topic."""
        return max(Counter(text.topic for text in self.new).values()) / len(self.new)

    def batch(self, documents: Sequence[LabelledText]) -> tuple[Tensor, Tensor, Tensor]:
        """Convert documents to words (n, S, T), the mask of the real words (n, S, T), and topics (n,), on the device."""
        lines = [line for text in documents for line in (text.sentences + ("",) * N_SENTENCES)[:N_SENTENCES]]
        words, lengths = self.words.batch(lines)
        mask = padding_mask(lengths, words.shape[-1]).view(-1, N_SENTENCES, words.shape[-1])
        topics = torch.tensor([self.topics.index(text.topic) for text in documents])
        return words.view_as(mask).to(device()), mask.to(device()), topics.to(device())

    @torch.no_grad()
    def accuracy(self, model: nn.Module) -> float:
        """Measure in how many of the new documents a model `(words, mask)` → (logits, …) chooses the right topic."""
        words, mask, topics = self.batch(self.new)
        return (model(words, mask)[0].argmax(-1) == topics).float().mean().item()

    @torch.no_grad()
    def show_weights(self, model: nn.Module) -> None:
        """Draw the weights of the words of a new document whose marked sentence has more than eight words."""
        text = next(text for text in self.new if any(MARK in line and len(line.split()) > 8 for line in text.sentences))
        words, mask, _ = self.batch([text])
        document: PooledDocument = model(words, mask)[1]
        show_document_weights(text, document.sentences[0], document.words[0])


def marked_documents(n_known: int = 3_000, n_new: int = 500) -> MarkedDocuments:
    """Compose documents from the docstrings of eight sub-packages of NumPy, SciPy and scikit-learn."""
    texts = docstrings(100, 300, n_topics=8, n_sentences=N_SENTENCES, n_words=10, seed=0)
    words = Vocabulary.of((f"{MARK} {line}" for text in texts.train for line in text.sentences), between=" ")
    topics = tuple(sorted({text.topic for text in texts.train}))
    known, new = (
        marked_sentences(part, n, N_SENTENCES, seed=seed)
        for part, n, seed in ((texts.train, n_known, 1), (texts.test, n_new, 2))
    )
    return MarkedDocuments(words, topics, known, new)


class BagOfWords(nn.Module):
    """Classify a document by the mean of all its word vectors."""

    def __init__(self, n_words: int, n_topics: int, d: int = 48) -> None:
        """Create word vectors of size d and a linear layer."""
        super().__init__()
        self.words, self.readout = nn.Embedding(n_words, d), nn.Linear(d, n_topics)

    def forward(self, words: Tensor, mask: Tensor) -> tuple[Tensor, None]:
        """Classify words (B, S, T) under a mask (B, S, T), True = real; there are no weights."""
        return self.readout(mean_pool(self.words(words).flatten(1, 2), mask.flatten(1)).context), None


class TwoMeans(nn.Module):
    """A rival without attention: the mean of the words of each sentence, a layer, and the mean of the sentences."""

    def __init__(self, make_activation: Callable[[], nn.Module], n_words: int, n_topics: int, d: int = 48) -> None:
        """Create word vectors of size d, and a layer with an activation such as `nn.ReLU`; `nn.Identity` makes it linear."""
        super().__init__()
        self.words, self.readout = nn.Embedding(n_words, d), nn.Linear(d, n_topics)
        self.layer = nn.Sequential(nn.Linear(d, d), make_activation())

    def forward(self, words: Tensor, mask: Tensor) -> tuple[Tensor, None]:
        """Classify words (B, S, T) under a mask (B, S, T) with at least one word in each sentence; there are no weights."""
        sentences = mean_pool(self.words(words), mask).context
        return self.readout(self.layer(sentences).mean(1)), None


def show_document_weights(document: LabelledText, sentences: Tensor, words: Tensor) -> None:
    """Print a document, each word on a colour as strong as its weight: that of its sentence times its weight in the sentence.

    Args:
        document: its sentences are the rows.
        sentences: (S,), the weight of each sentence, printed before it.
        words: (S, T), the weight of each word in its sentence.
    """
    weights = (sentences[:, None] * words).cpu()
    lines = [
        [(word, weight / weights.max().item()) for word, weight in zip(line.split(), row.tolist(), strict=False)]
        for line, row in zip(document.sentences, weights, strict=True)
    ]
    longest = max(map(len, document.sentences))
    figure = Figure(figsize=(6.0, 0.25 * len(lines) + 0.3))
    ax = figure.add_axes((0, 0, 1, 1), xlim=(-6, longest + 1), ylim=(len(lines) - 0.5, -1.5))
    ax.set_axis_off()
    style = {"family": "monospace", "fontsize": 6.0 * 72 / (longest + 7) / 0.602, "va": "center"}
    ax.text(
        -5,
        -1,
        f"topic {document.topic}: weight of each sentence; the darkest word has {weights.max():.2f}",
        va="center",
        fontsize=9,
    )
    for row, line in enumerate(lines):
        ax.text(-5, row, f"{sentences[row]:.2f}", **style)
        column = 0
        for word, share in line:
            ax.add_patch(Rectangle((column - 0.3, row - 0.42), len(word) + 0.6, 0.84, color=palette()[9], alpha=share, lw=0))
            ax.text(column, row, word, parse_math=False, **style)
            column += len(word) + 1
    largest = max((weight, word) for line in lines for word, weight in line)[1]
    best = sentences.argmax().item()
    show(
        figure,
        alt=f"The words of a document of {len(lines)} sentences on colours as strong as their weights. The sentence "
        f"'{document.sentences[best]}' has {sentences[best]:.2f} of the weight, and in it {largest} the most.",
    )
