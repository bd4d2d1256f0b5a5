"""What the attention heads of a BERT attend to: statistics of all heads, and maps of single heads."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.analysis import HeadStatistics, record
from course_tools.lectures.lecture_08.experiments import Inspected
from course_tools.notebook.plots import attention_map, describe, seeds
from course_tools.notebook.show import show


@dataclass(frozen=True)
class AttentionHeads:
    """The heads of a model: its batch and name, the weights (B, h, T, T) of each layer, and statistics of all heads (n,)."""

    shown: Inspected
    name: str
    weights: list[Tensor]
    statistics: HeadStatistics


def attention_heads(
    shown: Inspected, name: str, head_statistics: Callable[[Tensor, Tensor, Tensor], HeadStatistics]
) -> AttentionHeads:
    """Record the attention weights of a BERT on its batch, and summarise each head.

    Args:
        shown: the model, whose mechanism returns its weights, and the batch.
        name: of the model, for printed lines.
        head_statistics: as that of `course_lib.analysis`.
    """
    with record(shown.bert) as seen, torch.no_grad():
        shown.bert(shown.tokens, shown.segments, shown.lengths)
    weights = [attended[0].weights for attended in seen.values()]
    layers = [head_statistics(each, shown.delimiters, shown.lengths) for each in weights]
    return AttentionHeads(shown, name, weights, HeadStatistics(*(torch.cat(each).cpu() for each in zip(*layers, strict=True))))


def show_head_statistics(heads: AttentionHeads) -> None:
    """Draw the mean weight of each head on four kinds of tokens, and print the largest on a neighbour and the entropy."""
    lengths, found = heads.shown.lengths, heads.statistics
    drawn = {name: getattr(found, name) for name in ("previous", "current", "following", "delimiters")}
    one, delimiters = (1 / lengths).mean().item(), (heads.shown.delimiters.sum(1) / lengths).mean().item()
    ranges = ", ".join(f"{name} {values.min():.2f} to {values.max():.2f}" for name, values in drawn.items())
    show(
        seeds(
            drawn,
            "mean weight, one point per head",
            across={"uniform, one token": one, "uniform, all delimiters": delimiters},
        ),
        alt=f"Mean weight of each head of {heads.name} on the previous token, on itself, on the following token and on "
        f"delimiters: {ranges}; uniform weights would give {one:.2f} to one token and {delimiters:.2f} to the delimiters.",
    )
    neighbour, entropy = max(found.previous.max(), found.following.max()), found.entropy.mean() / lengths.log().mean().cpu()
    print(
        f"{heads.name}: {len(found.current)} heads, {int(lengths.sum())} tokens; largest mean weight on a neighbour "
        f"{neighbour:.2f}, mean entropy over that of uniform weights {entropy:.2f}"
    )


def head_map(heads: AttentionHeads) -> Callable[[int, int, int], None]:
    """Return a function of layer, head and text, each from 1, that draws one map; it starts at the best previous-token head."""
    best_layer, best_head = divmod(int(heads.statistics.previous.argmax()), heads.weights[0].shape[1])

    def draw(layer: int = best_layer + 1, head: int = best_head + 1, text: int = 1) -> None:
        n = int(heads.shown.lengths[text - 1])
        weights = heads.weights[layer - 1][text - 1, head - 1, :n, :n].cpu()
        labels = [heads.shown.symbols[token] for token in heads.shown.tokens[text - 1, :n].tolist()]
        show(
            attention_map(weights, labels, labels, f"layer {layer}, head {head}"),
            alt=f"{heads.name}, layer {layer}, head {head}. {describe(weights, labels, labels, 4)}",
        )

    return draw
