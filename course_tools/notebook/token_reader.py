"""Train a model of one mixing layer on rows of tokens, and measure its accuracy: the experiments of lecture 04."""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.analysis import record
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted


class TokenReader(nn.Module):
    """Add the embeddings of each token, mix the tokens by a layer, and read out an answer at each position."""

    def __init__(
        self, mixer: nn.Module, sizes: Sequence[int], n_answers: int, d_model: int = 64, std: float | None = None
    ) -> None:
        """Set up for indices below `sizes`; embeddings start with deviation `std`, d_model^-½ if None."""
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, d_model) for size in sizes)
        for table in self.tables:
            nn.init.normal_(table.weight, std=d_model**-0.5 if std is None else std)
        self.mixer = mixer
        self.read_out = nn.Linear(d_model, n_answers)

    def forward(self, *known: Tensor) -> Tensor:
        """Give logits (B, T, n_answers) of indices (B, T), one tensor for each table."""
        x = sum(table(index) for table, index in zip(self.tables, known, strict=True))
        return self.read_out(self.mixer(x)[0])


def answers_of(model: nn.Module, known: Sequence[Tensor], targets: Tensor) -> Tensor:
    """Give the logits at the last positions, (B, T, n_answers) for targets (B, T), or (B, T, n, n_answers) for (B, T, n)."""
    return model(*known)[:, -targets.shape[1] :].unflatten(-1, (*targets.shape[2:], -1))


def loss_of(model: nn.Module, batch: Sequence[Tensor]) -> Tensor:
    """Compute the cross-entropy of the answers at the last positions; the last item of a batch holds the targets."""
    *known, targets = batch
    return F.cross_entropy(answers_of(model, known, targets).flatten(0, -2), targets.flatten())


def fit(
    make_mixer: Callable[[], nn.Module],
    known: Sequence[Tensor],
    targets: Tensor,
    seed: int,
    steps: int,
    d_model: int = 64,
    std: float | None = None,
    lr: float = 5e-3,
    batch_size: int = 64,
) -> TokenReader:
    """Train a TokenReader around a new mixer; the seed decides its first weights and the order of the batches."""
    torch.manual_seed(seed)
    sizes = [int(index.max()) + 1 for index in known]
    n_answers = (int(targets.max()) + 1) * math.prod(targets.shape[2:])
    model = TokenReader(make_mixer(), sizes, n_answers, d_model, std).to(device())
    stream = batches(*known, targets.to(device()), batch_size=batch_size, seed=seed)
    return fitted(model, stream, loss_of, steps=steps, lr=lr, label=f"seed {seed}")


@torch.no_grad()
def accuracy(model: nn.Module, known: Sequence[Tensor], targets: Tensor) -> float:
    """Measure the fraction of positions whose answers are all correct."""
    right = answers_of(model, known, targets).argmax(-1) == targets.to(device())
    return right.flatten(2).all(-1).float().mean().item() if right.dim() > 2 else right.float().mean().item()


@torch.no_grad()
def attends_correctly(model: TokenReader, known: Sequence[Tensor], pattern: Tensor) -> float:
    """Measure the fraction of the last positions whose largest weight, in the first head, lies where the pattern is largest.

    Args:
        model: around a mixer of attention.
        known: indices (B, T), one tensor for each table.
        pattern: (B, T_q, T_k), for the last T_q positions: 1 at the right one of the first T_k, else 0.
    """
    with record(model) as seen:
        model(*known)
    chosen = seen["mixer"][0].weights[:, 0, -pattern.shape[1] :].argmax(-1)
    return (chosen == pattern.argmax(-1).to(chosen.device)).float().mean().item()
