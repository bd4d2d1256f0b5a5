"""Train one layer of attention to recall the value of one key among many pairs, with any mechanism: for lecture 14."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import MultiHead
from course_lib.datasets import lookup
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted

N_VALUES = 8


class AssociativeRecall(nn.Module):
    """Queries attend to pairs: a vector for each key, one for each value, one layer of attention, and a read-out."""

    def __init__(self, mechanism: Callable[..., tuple], n_keys: int, d_model: int = 64) -> None:
        """Create an attention layer with one head of size d_model that uses the mechanism."""
        super().__init__()
        self.key, self.value = nn.Embedding(n_keys, d_model), nn.Embedding(N_VALUES, d_model)
        for table in (self.key, self.value):
            nn.init.normal_(table.weight, std=d_model**-0.5)
        self.attention, self.read_out = MultiHead(d_model, 1, mechanism), nn.Linear(d_model, N_VALUES)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Compute logits (B, T_q, N_VALUES) from queries (B, T_q) and pairs of keys and values (B, T_k)."""
        pairs = self.key(keys) + self.value(values)
        return self.read_out(self.attention(self.key(queries), pairs, pairs).context)

    def projected(self, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the projected queries (B, T_q, d_model), and the projected keys of the pairs (B, T_k, d_model)."""
        return self.attention.W_q(self.key(queries)), self.attention.W_k(self.key(keys) + self.value(values))


def pairs_task(n_pairs: int):
    """Draw 4,000 sequences of n_pairs pairs to learn from, and 500 unseen ones, with four queries each."""
    return lookup(4_000, 10, 500, T_q=4, T_k=n_pairs, n_keys=2 * n_pairs, n_values=N_VALUES, seed=0)


def fit_associative_recall(
    make: Callable[[], Callable[..., tuple]], n_pairs: int, seed: int, steps: int, label: str
) -> tuple[float, AssociativeRecall]:
    """Train on sequences of n_pairs pairs; return the accuracy on unseen sequences, and the model.

    Args:
        make: creates the mechanism `(q, k, v, mask)`; it is called after the seed is set.
        n_pairs: pairs in a sequence.
        seed: determines the weights and the order.
        steps: number of updates.
        label: the label of the progress bar.
    """
    data = pairs_task(n_pairs)
    learn, unseen = (
        [x.to(device()) for x in (part.queries, part.keys, part.values, part.targets)] for part in (data.train, data.test)
    )
    torch.manual_seed(seed)
    model = AssociativeRecall(make(), 2 * n_pairs).to(device())

    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        return F.cross_entropy(model(*batch[:3]).flatten(0, 1), batch[3].flatten())

    fitted(model, batches(*learn, batch_size=64, seed=seed), loss, steps=steps, lr=5e-3, label=f"{label}, {n_pairs} pairs")
    *given, targets = unseen
    with torch.no_grad():
        return (model(*given).argmax(-1) == targets).float().mean().item(), model
