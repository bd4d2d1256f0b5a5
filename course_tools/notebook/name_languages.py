"""Recognise the language of a name: fine-tune BERT with a given head, or train a mixture of its layers; for lecture 08."""

import copy
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets.display_names import LANGUAGES
from course_lib.models import BERT, SentenceHead
from course_lib.training import batches
from course_tools.notebook.bert_tasks import mean_states
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted
from course_tools.notebook.plots import attention_map
from course_tools.notebook.show import show


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
