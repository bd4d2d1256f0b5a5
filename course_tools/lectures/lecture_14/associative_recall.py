"""Train one layer of attention to recall the value of one key among many pairs, with any mechanism."""

from collections.abc import Callable, Iterable, Mapping
from statistics import mean
from typing import NamedTuple

import seaborn as sns
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib.attention import MultiHead, kernel_attention, scaled_dot_product_attention
from course_lib.datasets import lookup
from course_lib.training import batches
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted, losses_of
from course_tools.notebook.plots import MARKERS, attention_maps, curves
from course_tools.notebook.show import show
from course_tools.notebook.training_curve import block_means

N_VALUES = 8
D_MODEL = 64


class AssociativeRecall(nn.Module):
    """Queries attend to pairs: a vector for each key, one for each value, one layer of attention, and a read-out."""

    def __init__(self, mechanism: Callable[..., tuple], n_keys: int, size: int = 64) -> None:
        """Create embeddings of D_MODEL numbers, and one head of a size that uses the mechanism."""
        super().__init__()
        self.key, self.value = nn.Embedding(n_keys, D_MODEL), nn.Embedding(N_VALUES, D_MODEL)
        for table in (self.key, self.value):
            nn.init.normal_(table.weight, std=D_MODEL**-0.5)
        self.attention, self.read_out = MultiHead(D_MODEL, 1, mechanism, d_k=size), nn.Linear(D_MODEL, N_VALUES)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Compute logits (B, T_q, N_VALUES) from queries (B, T_q) and pairs of keys and values (B, T_k)."""
        pairs = self.key(keys) + self.value(values)
        return self.read_out(self.attention(self.key(queries), pairs, pairs).context)

    def projected(self, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the projected queries (B, T_q, size), and the projected keys of the pairs (B, T_k, size)."""
        return self.attention.W_q(self.key(queries)), self.attention.W_k(self.key(keys) + self.value(values))


def pairs_task(n_pairs: int):
    """Draw 4,000 sequences of n_pairs pairs to learn from, and 500 unseen ones, with four queries each."""
    return lookup(4_000, 10, 500, T_q=4, T_k=n_pairs, n_keys=2 * n_pairs, n_values=N_VALUES, seed=0)


class Recalled(NamedTuple):
    """A trained model, and its accuracy on unseen sequences."""

    accuracy: float
    model: AssociativeRecall


Readers = dict[str, dict[int, list[Recalled]]]
"""For each mechanism and size of its head: the trained models, which differ only in their seed."""


def fit_associative_recall(
    make: Callable[[int], Callable[..., tuple]], n_pairs: int, size: int, seed: int, steps: int, lr: float, label: str
) -> Recalled:
    """Train on sequences of n_pairs pairs.

    Args:
        make: creates the mechanism `(q, k, v, mask)` for a head of a size; it is called after the seed is set.
        n_pairs: pairs in a sequence.
        size: of the head: numbers in a query, a key and a value.
        seed: determines the weights and the order.
        steps: number of updates.
        lr: the maximum learning rate.
        label: the label of the progress bar.
    """
    data = pairs_task(n_pairs)
    learn, unseen = (
        [x.to(device()) for x in (part.queries, part.keys, part.values, part.targets)] for part in (data.train, data.test)
    )
    torch.manual_seed(seed)
    model = AssociativeRecall(make(size), 2 * n_pairs, size).to(device())

    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        return F.cross_entropy(model(*batch[:3]).flatten(0, 1), batch[3].flatten())

    fitted(model, batches(*learn, batch_size=64, seed=seed), loss, steps=steps, lr=lr, label=f"{label}, size {size}")
    *given, targets = unseen
    with torch.no_grad():
        return Recalled((model(*given).argmax(-1) == targets).float().mean().item(), model)


def train_readers(
    mechanisms: Mapping[str, Callable[[int], Callable[..., tuple]]],
    n_pairs: int,
    seeds: Mapping[int, Iterable[int]],
    steps: int,
    lr: float,
) -> Readers:
    """Train a model with each mechanism, with a head of each size, with each of its seeds.

    Args:
        mechanisms: name -> what creates the mechanism for a head of a size.
        n_pairs: pairs in a sequence.
        seeds: size of the head -> seeds.
        steps: number of updates.
        lr: the maximum learning rate.
    """
    return {
        name: {
            size: [fit_associative_recall(make, n_pairs, size, seed, steps, lr, name) for seed in of_size]
            for size, of_size in seeds.items()
        }
        for name, make in mechanisms.items()
    }


def show_recall_losses(readers: Readers) -> None:
    """Draw the training losses, a panel for each size of the head, mean of the seeds.

    Args:
        readers: as `train_readers` returns them.
    """
    sizes = sorted({size for trained in readers.values() for size in trained})
    figure = Figure(figsize=(6.0, 3.2), layout="constrained")
    axes = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    palette = sns.color_palette("colorblind", len(readers))
    last = []
    for ax, size in zip(axes, sizes, strict=True):
        for colour, marker, (name, trained) in zip(palette, MARKERS * len(readers), readers.items(), strict=False):
            if size in trained:
                ends, losses = block_means([losses_of(one.model) for one in trained[size]])
                ax.plot(ends, losses, color=colour, marker=marker, markevery=6, markersize=4, linewidth=1.4, label=name)
                last.append(f"{name}, size {size}, {losses[-1]:.2f}")
        ax.axhline(
            torch.tensor(float(N_VALUES)).log().item(), color="0.35", linestyle="--", linewidth=1.0, label="uniform guess"
        )
        ax.set_title(f"head of size {size}", fontsize=9)
        ax.set_xlabel("update")
    axes[0].set_ylabel("cross-entropy, nats")
    handles = {}
    for ax in axes:
        handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    panels = "Training loss in nats, a panel for each size of the head; in the last block of updates: "
    show(figure, alt=f"{panels}{'; '.join(last)}.")


def show_recall(readers: Readers, title: str) -> None:
    """Draw the mean accuracy of the seeds against the size of the head.

    Args:
        readers: as `train_readers` returns them.
        title: above the figure.
    """
    lines = {
        name: (sorted(trained), [mean(one.accuracy for one in trained[size]) for size in sorted(trained)])
        for name, trained in readers.items()
    }
    sizes = sorted({size for of_sizes, _ in lines.values() for size in of_sizes})
    across = {f"chance, 1/{N_VALUES}": 1 / N_VALUES}
    ends = ", ".join(f"{name} from {values[0]:.2f} to {values[-1]:.2f}" for name, (_, values) in lines.items())
    show(
        curves(lines, "size of the head", "accuracy on unseen sequences", title, "x", across),
        alt=f"Accuracy against the size of the head from {sizes[0]} to {sizes[-1]}: {ends}.",
    )


@torch.no_grad()
def show_recall_weights(
    models: Mapping[str, tuple[AssociativeRecall, Callable[[Tensor], Tensor] | None]], n_pairs: int
) -> dict[str, float]:
    """Draw the weights of four queries over the pairs of one unseen sequence, next to the pair that has the query's key.

    Args:
        models: name -> a trained model, and its feature map, or None for softmax attention.
        n_pairs: number of pairs on which the models were trained.

    Returns:
        for each name, the mean weight of the right pair.
    """
    part, maps = pairs_task(n_pairs).test, {}
    for name, (model, phi) in models.items():
        place = next(model.parameters()).device
        q, k = model.projected(*(x[:1].to(place) for x in (part.queries, part.keys, part.values)))
        attended = scaled_dot_product_attention(q, k, k) if phi is None else kernel_attention(phi(q), phi(k), k)
        maps[name] = attended.weights[0].cpu()
    right = part.pattern[0]
    share = {name: (weights * right).sum(-1).mean().item() for name, weights in maps.items()}
    show(
        attention_maps({"the pair with the query's key": right} | maps, x="pair", y="query"),
        alt=f"Which of {n_pairs} pairs has the key of each of four queries, and the weights of the models: over these queries, "
        "the mean weight of that pair is " + ", ".join(f"{value:.2f} in {name}" for name, value in share.items()) + ".",
    )
    return share
