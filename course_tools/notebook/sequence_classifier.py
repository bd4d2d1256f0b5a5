"""Classify a sequence by the last state of a recurrent layer: the model and the experiment of lecture 01."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import accuracy_of, classify, fitted


class Reader(nn.Module):
    """Read inputs (B, T, d) with a recurrent layer, and classify by its last state."""

    def __init__(self, cell: nn.Module, n_classes: int) -> None:
        """Set up for a layer such as `LSTM(d, n)`."""
        super().__init__()
        self.cell, self.read_out = cell, nn.Linear(cell.d_hidden, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Give logits (B, n_classes) of x (B, T, d)."""
        return self.read_out(self.cell(x)[0][:, -1])


def one_hot(tokens: Tensor) -> Tensor:
    """Write symbols (B, T), eight that may come first and eight that distract, as vectors (B, T, 16)."""
    return F.one_hot(tokens, 16).float()


def fit(make_cell: Callable[[], nn.Module], known: tuple[Tensor, Tensor], seed: int, steps: int, lr: float) -> Reader:
    """Train a Reader on `known` = (inputs, labels); the seed decides weights and batches."""
    x, y = (part.to(device()) for part in known)
    torch.manual_seed(seed)
    model = Reader(make_cell(), int(y.max()) + 1).to(device())
    return fitted(model, batches(x, y, batch_size=32, seed=seed), classify, steps=steps, lr=lr, label=f"seed {seed}")


def accuracy(model: Reader, new: tuple[Tensor, Tensor]) -> float:
    """Measure the accuracy on `new` = (inputs, labels)."""
    return accuracy_of(model, *(part.to(device()) for part in new))
