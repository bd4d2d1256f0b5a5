"""Recognise the language of a name: fine-tuned BERT, mixtures of its layers, and classical rivals on character n-grams."""

import copy
from collections import Counter
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import DisplayName, Vocabulary
from course_lib.datasets.display_names import LANGUAGES
from course_lib.models import BERT, NGram, SentenceHead
from course_lib.training import batches
from course_tools.lectures.lecture_08.experiments import mean_states
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted
from course_tools.notebook.plots import attention_map
from course_tools.notebook.show import show

# Recognise the language of a name: fine-tune BERT with a given head, or train a mixture of its layers.


class LanguageReader(nn.Module):
    """BERT with a head for sentences: a function such as `classification_head`, and its weights."""

    def __init__(self, bert: BERT, head: Callable[..., Tensor]) -> None:
        """Combine an encoder and a head, whose weights are new."""
        super().__init__()
        self.bert, self.head, self.weights = bert, head, SentenceHead(bert.tokens.weight.shape[1], len(LANGUAGES))

    def forward(self, tokens: Tensor, segments: Tensor, lengths: Tensor) -> Tensor:
        """Compute the logits of the languages, (B, 8)."""
        pool, last = self.weights.pool, self.weights.classify
        return self.head(self.bert(tokens, segments, lengths), pool.weight, pool.bias, last.weight, last.bias)


def fine_tune(
    head: Callable[..., Tensor], bert: BERT, data: Sequence[Tensor], seed: int, steps: int = 60, lr: float = 2e-3
) -> LanguageReader:
    """Fine-tune a copy of an encoder and a new head on labelled names.

    Args:
        head: such as `classification_head(states, W_p, b_p, W, b)`.
        bert: the encoder.
        data: as returned by `NameTexts.alone`.
        seed: determines the weights of the head and the order of the names.
        steps: number of updates.
        lr: the maximum learning rate.
    """
    torch.manual_seed(seed)
    return fitted(
        LanguageReader(copy.deepcopy(bert), head).to(device()),
        batches(*data, batch_size=20, seed=seed),
        lambda model, batch: F.cross_entropy(model(*batch[:3]), batch[3]),
        steps=steps,
        lr=lr,
        label=f"fine-tuning, seed {seed}",
    )


@torch.no_grad()
def language_accuracy(model: nn.Module, data: Sequence[Tensor]) -> float:
    """Measure the accuracy of a model on names as `NameTexts.alone` returns them."""
    return (model(*data[:3]).argmax(-1) == data[3]).float().mean().item()


def with_shuffled_labels(data: Sequence[Tensor], seed: int) -> list[Tensor]:
    """Exchange the labels of names, as returned by `NameTexts.alone`, at random."""
    order = torch.randperm(len(data[3]), generator=torch.Generator().manual_seed(seed))
    return [*data[:3], data[3][order.to(data[3].device)]]


class LayerMixture(nn.Module):
    """A frozen BERT, a mixture of its layers by a function such as `scalar_mix`, and a linear map to the languages."""

    def __init__(self, bert: BERT, mix: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        """Start with equal weights of the layers; only `w`, `gamma` and the linear map are parameters."""
        super().__init__()
        self.layers_of = lambda *text: mean_states(bert, *text)  # not a submodule: its weights are not trained
        self.mix, self.w = mix, nn.Parameter(torch.zeros(1 + len(bert.stack.blocks)))
        self.gamma, self.classify = nn.Parameter(torch.ones(())), nn.Linear(bert.tokens.weight.shape[1], len(LANGUAGES))

    def of_layers(self, layers: Tensor) -> Tensor:
        """Compute the logits (B, 8) for mean states (B, n_layers + 1, d_model)."""
        return self.classify(self.mix(layers, self.w, self.gamma))

    def forward(self, tokens: Tensor, segments: Tensor, lengths: Tensor) -> Tensor:
        """Compute the logits of the languages, (B, 8)."""
        return self.of_layers(self.layers_of(tokens, segments, lengths))


def fit_mixture(mix: Callable[[Tensor, Tensor, Tensor], Tensor], bert: BERT, data: Sequence[Tensor], seed: int) -> LayerMixture:
    """Train the weights of the layers and a linear map on labelled names, as returned by `NameTexts.alone`; BERT is frozen."""
    torch.manual_seed(seed)
    bert = bert.to(device())
    return fitted(
        LayerMixture(bert, mix).to(device()),
        batches(mean_states(bert, *data[:3]), data[3], batch_size=20, seed=seed),
        lambda model, batch: F.cross_entropy(model.of_layers(batch[0]), batch[1]),
        steps=150,
        lr=2e-2,
        label=f"mixture, seed {seed}",
        warmup=0,
    )


def show_confusion(guesses: Tensor, answers: Tensor, model: str) -> None:
    """Draw how often each language (row) is taken for each other (column), and print the accuracy.

    Args:
        guesses: (n,).
        answers: the true languages (n,).
        model: whose guesses they are, for the alternative text.
    """
    rows = [F.one_hot(guesses[answers == i], len(LANGUAGES)).float().mean(0) for i in range(len(LANGUAGES))]
    figure = attention_map(torch.stack(rows), LANGUAGES, LANGUAGES, x="predicted", y="true", outlined=torch.eye(len(LANGUAGES)))
    figure.axes[-1].set_ylabel("fraction of the names")
    each = ", ".join(f"{name} {row[i]:.2f}" for i, (name, row) in enumerate(zip(LANGUAGES, rows, strict=True)))
    show(figure, alt=f"Languages predicted by {model}, one row per true language. Correct, outlined: {each}.")


# Character n-grams of short texts: predict a missing letter, classify by TF-IDF, SVD and naive Bayes.


_GAP = " " * 4


def bits_of_a_missing_letter(known: Sequence[str], new: Sequence[str], order: Sequence[int]) -> float:
    """Measure the bits per missing letter of new texts by counts of runs of five letters in the known texts.

    Args:
        known: texts, separated by four spaces before they are counted.
        new: the same; only letters are predicted, no spaces.
        order: the positions 0 to 4 of a run; the last one is missing, and those next to it are the last to be left out where a
            run is rare: (0, 1, 2, 3, 4) is a table of the four letters before, (0, 4, 1, 3, 2) one of two on either side.
    """
    letters = Vocabulary.of([_GAP.join([*known, *new])])
    runs, asked = (torch.tensor(letters.encode(_GAP.join(part))).unfold(0, 5, 1)[:, list(order)] for part in (known, new))
    asked = asked[asked[:, -1] != letters.encode(" ")[0]]
    return -NGram(runs, len(letters)).probability(asked).log2().mean().item()


class CharacterNgrams:
    """Three classifiers of languages by character n-grams, n = 1 to 3, which also use unlabelled names and their documents."""

    def __init__(self, unlabelled: Sequence[DisplayName], n_directions: int = 32) -> None:
        """Count the n-grams of names, whose documents are in order; an SVD of passages of four names keeps n_directions."""
        found = (ngram for name in unlabelled for ngram in _ngrams(name.text))
        self.index = {ngram: i for i, ngram in enumerate(dict.fromkeys(found))}
        counts = self.counts(unlabelled)
        self.rarity = ((1 + len(counts)) / (1 + (counts > 0).sum(0))).log() + 1
        self.by_document = F.one_hot(torch.tensor([name.document for name in unlabelled])).float().mT @ counts
        passages = counts[: len(counts) // 4 * 4].unflatten(0, (-1, 4)).sum(1)
        weighted = F.normalize(passages * self.rarity, dim=-1)
        variances, directions = torch.linalg.eigh(weighted @ weighted.mT)
        self.to_svd = weighted.mT @ (directions[:, -n_directions:] / variances[-n_directions:].clamp_min(1e-12).sqrt())

    def counts(self, part: Sequence[DisplayName]) -> Tensor:
        """Count each known n-gram in each name, (n, n_ngrams)."""
        rows = torch.zeros(len(part), len(self.index))
        for row, name in zip(rows, part, strict=True):
            for ngram, n in Counter(_ngrams(name.text)).items():
                if ngram in self.index:
                    row[self.index[ngram]] = n
        return rows

    def languages(self, few: Sequence[DisplayName], new: Sequence[DisplayName]) -> dict[str, Tensor]:
        """Predict the languages (n,) of new names from a few labelled ones, by each of three methods."""
        y = F.one_hot(torch.tensor([name.language for name in few]), len(LANGUAGES)).float()
        counts, new_counts = self.counts(few), self.counts(new)
        x, of_new = (F.normalize(rows * self.rarity, dim=-1) for rows in (counts, new_counts))
        in_svd, new_in_svd = (F.normalize(rows @ self.to_svd, dim=-1) for rows in (x, of_new))
        of_documents = F.one_hot((self.by_document @ _log_rates(counts, y).mT).argmax(1), len(LANGUAGES)).float()
        rates = _log_rates(torch.cat([counts, self.by_document]), torch.cat([y, of_documents]))
        return {
            "TF-IDF": _ridge(x, y, of_new),
            "TF-IDF + SVD": _ridge(in_svd, y, new_in_svd),
            "naive Bayes + documents": (new_counts @ rates.mT).argmax(1),
        }

    def accuracies(self, draws: Sequence[Sequence[DisplayName]], new: Sequence[DisplayName]) -> dict[str, list[float]]:
        """Measure the accuracy of the three methods on new names, for each of several draws of labelled names."""
        answers = torch.tensor([name.language for name in new])
        predicted = [self.languages(few, new) for few in draws]
        return {name: [(p[name] == answers).float().mean().item() for p in predicted] for name in predicted[0]}


def _ngrams(text: str) -> list[str]:
    """Return the character n-grams of a text, n = 1 to 3, with a blank at each end."""
    return [f" {text} "[i : i + n] for n in (1, 2, 3) for i in range(len(text) + 3 - n)]


def _ridge(x: Tensor, y: Tensor, new: Tensor) -> Tensor:
    """Predict the classes of new rows by ridge regression on rows x of classes y, one-hot."""
    return (new @ x.mT @ torch.linalg.solve(x @ x.mT + 0.1 * torch.eye(len(x)), y)).argmax(1)


def _log_rates(rows: Tensor, classes: Tensor) -> Tensor:
    """Compute the log frequency of each n-gram in each class, (n_classes, n_ngrams): naive Bayes."""
    rates = classes.mT @ rows + 0.1
    return (rates / rates.sum(1, keepdim=True)).log()
