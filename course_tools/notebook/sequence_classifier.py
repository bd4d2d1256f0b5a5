"""Classify a sequence by the last state of a recurrent layer, or by a dense layer over all steps: experiments of lecture 01."""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import digits
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import accuracy_of, classify, fitted, show_losses
from course_tools.notebook.seed_scores import show_seeds


class SequenceClassifier(nn.Module):
    """A classifier of sequences (B, T, d) that uses the last state of a recurrent layer."""

    def __init__(self, cell: nn.Module, n_classes: int) -> None:
        """Create a classifier with a layer such as `LSTM(d, n)`."""
        super().__init__()
        self.cell, self.read_out = cell, nn.Linear(cell.d_hidden, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Compute logits (B, n_classes) for x (B, T, d)."""
        return self.read_out(self.cell(x)[0][:, -1])


def one_hot(tokens: Tensor) -> Tensor:
    """Encode symbols (B, T), eight possible first symbols and eight distractors, as one-hot vectors (B, T, 16)."""
    return F.one_hot(tokens, 16).float()


def fit_classifier(
    make_cell: Callable[[], nn.Module], known: tuple[Tensor, Tensor], seed: int, steps: int, lr: float
) -> SequenceClassifier:
    """Train a classifier on `known` = (inputs, labels); the seed determines weights and batches."""
    x, y = (part.to(device()) for part in known)
    torch.manual_seed(seed)
    model = SequenceClassifier(make_cell(), int(y.max()) + 1).to(device())
    return fitted(model, batches(x, y, batch_size=32, seed=seed), classify, steps=steps, lr=lr, label=f"seed {seed}")


def classifier_accuracy(model: SequenceClassifier, new: tuple[Tensor, Tensor]) -> float:
    """Measure the accuracy on `new` = (inputs, labels)."""
    return accuracy_of(model, *(part.to(device()) for part in new))


def fit_digits(make_cell: Callable[[], nn.Module], seed: int) -> tuple[SequenceClassifier, float]:
    """Train a classifier on 1,400 digits, one pixel per step, for 250 updates; return it and its accuracy on the other 397.

    Args:
        make_cell: returns a layer for inputs of size 1.
        seed: determines the split, the weights and the batches.
    """
    images, labels = digits()
    pixels = images.flatten(1)[..., None]
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(seed))
    known, new = ((pixels[part], labels[part]) for part in order.split([1_400, len(pixels) - 1_400]))
    model = fit_classifier(make_cell, known, seed, steps=250, lr=5e-3)
    return model, classifier_accuracy(model, new)


def compare_on_digits(makers: Mapping[str, Callable[[], nn.Module]], seeds: Sequence[int]) -> dict[str, list[float]]:
    """Train a classifier of digits for each layer and seed by `fit_digits`; draw losses and accuracies, return accuracies."""
    runs = {name: [fit_digits(make_cell, seed) for seed in seeds] for name, make_cell in makers.items()}
    models = {name: [model for model, _ in group] for name, group in runs.items()}
    show_losses(models, across={"a guess among 10": math.log(10)})
    found = {name: [accuracy for _, accuracy in group] for name, group in runs.items()}
    show_seeds(found, "accuracy", "real digits, read pixel by pixel, one point per seed", {"chance": 0.1})
    return found


def dense_first_to_last(tokens: Tensor, labels: Tensor, steps: int = 300) -> tuple[float, float]:
    """Train one dense layer over all symbols of a sequence; compare its weights for the first symbol with those for the last.

    Args:
        tokens: (n, T), as `one_hot` takes them.
        labels: (n,), each from 0 to 7.
        steps: number of updates with batches of 32, learning rate 0.0015.

    Returns:
        the norm of the weights for the first symbol over that of the weights for the last, before and after the training.
    """
    dense = nn.Sequential(nn.Flatten(), nn.Linear(16 * tokens.shape[1], 8))

    def ratio() -> float:
        norms = dense[1].weight.detach().unflatten(1, (tokens.shape[1], 16)).norm(dim=(0, 2))
        return (norms[0] / norms[-1]).item()

    before = ratio()
    fitted(dense, batches(one_hot(tokens), labels, batch_size=32, seed=0), classify, steps=steps, lr=1.5e-3, warmup=0)
    return before, ratio()
