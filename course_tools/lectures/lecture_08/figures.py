"""Figures of lecture 08: nats by kind of token, and what the attention heads of a BERT attend to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.analysis import HeadStatistics, record
from course_lib.datasets import END, pad, word_pieces
from course_lib.models import BERT, PretrainingBERT
from course_lib.pretrained import load_bert
from course_tools.lectures.lecture_08.date_pairs import BERTInput, DateTexts, Hidden, kinds_of
from course_tools.notebook.plots import attention_map, curves, describe, seeds
from course_tools.notebook.show import show
from course_tools.studies import RecordedStudy


def show_kinds(by: Mapping[str, Hidden], texts: DateTexts, asked: BERTInput) -> None:
    """Draw the nats of hidden tokens: years and months, each in the first and in the second sentence, by model.

    Args:
        by: model -> its nats, all for the same tokens.
        texts: their vocabulary.
        asked: the texts.
    """
    import seaborn as sns

    one = next(iter(by.values()))
    second = asked.segments[one.row, one.place].cpu() == 1
    four_digits = torch.tensor([len(texts.symbols[token]) == 4 for token in one.truth.tolist()])
    kinds = kinds_of(texts, one)
    groups = {
        f"{kind},\n{place} sentence": which & (second == (place == "second"))
        for kind, which in {"years": kinds["numbers"] & four_digits, "months": kinds["months"]}.items()
        for place in ("first", "second")
    }
    figure = Figure(figsize=(6.0, 3.0), layout="constrained")
    ax, told = figure.subplots(), []
    for i, (name, hidden) in enumerate(by.items()):
        heights = [hidden.mean(which.to(hidden.nats.device)) for which in groups.values()]
        places = [j + 0.8 / len(by) * (i - (len(by) - 1) / 2) for j in range(len(groups))]
        ax.bar(places, heights, 0.75 / len(by), label=name, color=sns.color_palette("colorblind")[i])
        told.append([name, *(f"{height:.2f}" for height in heights)])
    ax.set_xticks(range(len(groups)), list(groups), fontsize=9)
    ax.set(ylabel="nats of a hidden token", ylim=(0, None))
    ax.legend(frameon=False, fontsize=9)
    sns.despine(ax=ax)
    each = "; ".join(
        f"{group.replace(chr(10), ' ')}: " + ", ".join(f"{row[0]} {row[i]}" for row in told)
        for i, group in enumerate(groups, 1)
    )
    show(figure, alt=f"Nats of a hidden token of new days. {each[0].upper()}{each[1:]}.")


def show_long_trainings(study: RecordedStudy) -> None:
    """Draw the nats of a hidden token of new days by the number of updates, a line for each BERT of the study."""
    lines = {name: study.curve(name) for name in study.names if study.of(name)[0].curve}
    drawn = curves(lines, "update", "nats of a hidden token", "new days, as recorded, mean of the seeds")
    drawn.axes[0].set_ylim(bottom=0)
    each = "; ".join(f"{name} {nats[1]:.2f} after {updates[1]:,}, {nats[-1]:.2f}" for name, (updates, nats) in lines.items())
    show(drawn, alt=f"Nats of a hidden token of new days by the number of updates: {each} at the end.")


class Inspected(NamedTuple):
    """A BERT and a batch for its attention maps: tokens, segments and delimiters (B, T), lengths (B,), and the vocabulary."""

    bert: BERT
    tokens: Tensor
    segments: Tensor
    lengths: Tensor
    delimiters: Tensor
    symbols: tuple[str, ...]


def inspected(model: PretrainingBERT, texts: DateTexts, batch: BERTInput) -> Inspected:
    """Take the encoder of a model, whose mechanism returns its weights, with texts to look at."""
    return Inspected(model.bert, *batch, batch.tokens == END, texts.symbols)


_SENTENCES = (
    ("The keys of a dictionary are hashed.", "They must not change while they are in it."),
    ("A list can be changed in place; a tuple cannot.", "This is why a tuple may be a key."),
    ("An exception leaves the function at once.", "The caller may catch the exception, or let it pass."),
)


def published_bert(folder: str, segment_input: Callable[..., tuple[Tensor, Tensor]]) -> Inspected:
    """Read a published BERT, and cut three pairs of sentences into the pieces of its vocabulary.

    Args:
        folder: of `bert-base-uncased`: config.json, model.safetensors, vocab.txt.
        segment_input: encodes a pair as one text, as that of `course_lib.losses`.
    """
    symbols = tuple((Path(folder) / "vocab.txt").read_text(encoding="utf-8").splitlines())
    index = {piece: i for i, piece in enumerate(symbols)}
    pairs = [[torch.tensor([index[piece] for piece in word_pieces(text, index)]) for text in pair] for pair in _SENTENCES]
    both = [segment_input(*pair, index["[CLS]"], index["[SEP]"]) for pair in pairs]
    tokens, lengths = pad([tokens.tolist() for tokens, _ in both])
    segments, _ = pad([segments.tolist() for _, segments in both])
    return Inspected(load_bert(folder), tokens, segments, lengths, tokens == index["[SEP]"], symbols)


@dataclass(frozen=True)
class AttentionHeads:
    """The heads of a model: its batch and name, and the weights (B, h, T, T) of each layer."""

    shown: Inspected
    name: str
    weights: list[Tensor]

    def across(self) -> Tensor:
        """Return the mean weight of each head (n_layers, h) that words put on words of the other sentence."""
        shown = self.shown
        real = torch.arange(shown.tokens.shape[1], device=shown.tokens.device) < shown.lengths[:, None]
        inside = real & ~shown.delimiters
        inside[:, 0] = False
        other = (shown.segments[:, :, None] != shown.segments[:, None]) & inside[:, None] & inside[:, :, None]
        return torch.stack([(each * other[:, None]).sum((0, 2, 3)) / inside.sum() for each in self.weights])


def attention_heads(shown: Inspected, name: str) -> AttentionHeads:
    """Record the attention weights of a BERT on its batch; the name is for printed lines."""
    with record(shown.bert) as seen, torch.no_grad():
        shown.bert(shown.tokens, shown.segments, shown.lengths)
    return AttentionHeads(shown, name, [attended[0].weights for attended in seen.values()])


def show_head_statistics(heads: AttentionHeads, head_statistics: Callable[[Tensor, Tensor, Tensor], HeadStatistics]) -> None:
    """Draw the mean weight of each head on four kinds of tokens, and print the largest on a neighbour and the entropy."""
    lengths, delimiters = heads.shown.lengths, heads.shown.delimiters
    layers = [head_statistics(each, delimiters, lengths) for each in heads.weights]
    found = HeadStatistics(*(torch.cat(each).cpu() for each in zip(*layers, strict=True)))
    drawn = {name: getattr(found, name) for name in ("previous", "current", "following", "delimiters")}
    one, of_all = (1 / lengths).mean().item(), (delimiters.sum(1) / lengths).mean().item()
    ranges = ", ".join(f"{name} {values.min():.2f} to {values.max():.2f}" for name, values in drawn.items())
    show(
        seeds(drawn, "mean weight, one point per head", across={"uniform, one token": one, "uniform, all delimiters": of_all}),
        alt=f"Mean weight of each head of {heads.name} on the previous token, on itself, on the following token and on "
        f"delimiters: {ranges}; uniform weights would give {one:.2f} to one token and {of_all:.2f} to the delimiters.",
    )
    neighbour, entropy = max(found.previous.max(), found.following.max()), found.entropy.mean() / lengths.log().mean().cpu()
    print(
        f"{heads.name}: {len(found.current)} heads, {int(lengths.sum())} tokens; largest mean weight on a neighbour "
        f"{neighbour:.2f}, mean entropy over that of uniform weights {entropy:.2f}"
    )


def head_map(heads: AttentionHeads) -> Callable[[int, int, int], None]:
    """Return a function of layer, head and text, each from 1, that draws a map; the head that looks across most is first."""
    best_layer, best_head = divmod(int(heads.across().argmax()), heads.weights[0].shape[1])

    def draw(layer: int = best_layer + 1, head: int = best_head + 1, text: int = 1) -> None:
        n = int(heads.shown.lengths[text - 1])
        weights = heads.weights[layer - 1][text - 1, head - 1, :n, :n].cpu()
        labels = [heads.shown.symbols[token] for token in heads.shown.tokens[text - 1, :n].tolist()]
        show(
            attention_map(weights, labels, labels, f"layer {layer}, head {head}"),
            alt=f"{heads.name}, layer {layer}, head {head}. {describe(weights, labels, labels, 4)}",
        )

    return draw
