"""Train SimCLR or BYOL on two views of unlabelled digits, and look at the model on the way: the experiments of lecture 16."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from course_lib.metrics import LinearProbe
from course_lib.primitives import unit
from course_lib.training import batches, train
from course_tools.notebook.device import device
from course_tools.notebook.digit_split import DigitSplit
from course_tools.notebook.embeddings import clouds
from course_tools.notebook.few_labels import backbone, few
from course_tools.notebook.nearest_neighbours import nearest_neighbour_accuracy
from course_tools.notebook.progress_bar import progress
from course_tools.notebook.show import show

View = Callable[[Tensor, torch.Generator], Tensor]
"""Draws one view of each image of a batch, with random numbers of a generator."""


class ViewTraining(NamedTuple):
    """A trained model in evaluation mode, the loss of each update, and what `look` returned after some of them."""

    model: nn.Module
    losses: list[float]
    seen: dict[int, Any]


def two_views(digits: DigitSplit, seed: int, view: View, n_pairs: int = 32) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield endless batches of two views of the digits to learn from, without labels."""
    generator = torch.Generator().manual_seed(seed)
    for (batch,) in batches(digits.images[digits.learn[seed]], batch_size=n_pairs, seed=seed):
        yield view(batch, generator), view(batch, generator)


def train_on_views(
    model: nn.Module,
    pairs: Iterator[tuple[Tensor, Tensor]],
    loss: Callable[[nn.Module, tuple[Tensor, Tensor]], Tensor],
    *,
    lr: float,
    steps: int = 240,
    update: Callable[[Any], None] | None = None,
    looks: Collection[int] = (),
    look: Callable[[Any], Any] | None = None,
    label: str = "training",
) -> ViewTraining:
    """Train a model in place on pairs of views.

    Args:
        model: on the device of the views.
        pairs: two views of a batch for each update.
        loss: computes a scalar from (model, pair).
        lr: the maximum learning rate.
        steps: number of updates.
        update: called with the model after every update, such as BYOL's moving average.
        looks: the updates after which `look` is called.
        look: called with the model in evaluation mode and without gradients; its results are kept.
        label: the label of the progress bar.
    """
    training = train(model, pairs, loss, steps=steps, lr=lr, warmup=steps // 10)
    losses, seen = [], {}
    for step in progress(training, label, total=steps):
        losses.append(step.loss)
        if update is not None:
            update(model)
        if look is not None and step.index + 1 in looks:
            with torch.no_grad():
                seen[step.index + 1] = look(model.eval())
            model.train()
    return ViewTraining(model.eval(), losses, seen)


def untrained(seed: int) -> nn.Sequential:
    """Create the encoder of `few_labels.backbone` with its random initial weights, in evaluation mode."""
    torch.manual_seed(seed)
    return backbone().to(device()).eval()


@torch.no_grad()
def probe_accuracy(
    encoder: Callable[[Tensor], Tensor],
    digits: DigitSplit,
    seed: int,
    n_each: int,
    fit_probe: Callable[..., LinearProbe],
    draws: int = 4,
) -> float:
    """Measure a linear probe of frozen features of unit length on unseen digits.

    Args:
        encoder: computes features (n, d) of images.
        digits: images, labels and splits.
        seed: of the split.
        n_each: labelled digits of each class.
        fit_probe: `linear_probe`.
        draws: of the labelled digits; the accuracy is their mean.
    """
    images, labels, unseen = digits.images, digits.labels, digits.unseen[seed]
    new, correct = unit(encoder(images[unseen])), []
    for draw in range(draws):
        chosen = few(digits, seed, n_each, draw)
        weight, bias = fit_probe(unit(encoder(images[chosen])), labels[chosen], 10, 0.1)
        correct.append((new @ weight.to(new).mT + bias.to(new)).argmax(-1) == labels[unseen])
    return torch.stack(correct).float().mean().item()


def show_embeddings(panels: Mapping[str, Tensor], kinds: Tensor, n: int = 300, seed: int = 0) -> None:
    """Arrange the first n embeddings of each panel in the plane by t-SNE, and draw each as the numeral of its class.

    Args:
        panels: title -> embeddings (N, d) of unit length.
        kinds: classes (N,).
        n: how many are drawn.
        seed: of t-SNE.
    """
    from sklearn.manifold import TSNE

    planes = {name: TSNE(random_state=seed).fit_transform(points[:n].numpy()) for name, points in panels.items()}
    agree = ", ".join(
        f"{100 * nearest_neighbour_accuracy(-points @ points.mT, kinds):.0f} % in {name}" for name, points in panels.items()
    )
    show(
        clouds(planes, kinds[:n]),
        alt=f"Embeddings of {n} unseen digits, arranged by t-SNE; the nearest other of {len(kinds):,} embeddings has the same "
        f"class for {agree}.",
    )
