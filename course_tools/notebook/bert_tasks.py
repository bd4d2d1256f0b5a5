"""Train BERT with a tag head or a span head, pre-train it, and read its layers; for lecture 08."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.datasets import pad, word_pieces
from course_lib.models import BERT, PretrainingBERT, SpanHead, best_span
from course_lib.pretrained import load_bert
from course_lib.training import batches, train
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted
from course_tools.notebook.progress_bar import progress


def pretrain(
    bert: BERT,
    data: Sequence[Tensor],
    loss: Callable[[PretrainingBERT, Any], tuple[Tensor, dict[str, float]]],
    *,
    steps: int,
    lr: float,
    seed: int,
    batch_size: int = 16,
) -> tuple[PretrainingBERT, list[float]]:
    """Pre-train an encoder.

    Args:
        bert: trained in place.
        data: tensors of examples, as the loss takes them in batches.
        loss: returns the loss and its parts, of which "words" is the loss of the masked words.
        steps: number of updates.
        lr: the maximum learning rate.
        seed: determines the order of the examples.
        batch_size: examples in a batch.

    Returns:
        the model with both heads, in evaluation mode, and the loss of its masked words at each step.
    """
    model = PretrainingBERT(bert).to(device())
    stream = batches(*(part.to(device()) for part in data), batch_size=batch_size, seed=seed)
    training = train(model, stream, loss, steps=steps, lr=lr, warmup=steps // 10)
    losses = [step.metrics["words"] for step in progress(training, f"pre-training, seed {seed}", steps)]
    return model.eval(), losses


class BERTWithHead(nn.Module):
    """BERT with a head that reads all states: a `TagHead` or a `SpanHead`."""

    def __init__(self, bert: BERT, head: nn.Module) -> None:
        """Combine an encoder and a head."""
        super().__init__()
        self.bert, self.head = bert, head

    def forward(self, tokens: Tensor, segments: Tensor, lengths: Tensor) -> Any:
        """Compute the output of the head; a span head assigns no probability to padding."""
        states = self.bert(tokens, segments, lengths)
        return self.head(states, lengths) if isinstance(self.head, SpanHead) else self.head(states)


def tag_loss(model: BERTWithHead, batch: Sequence[Tensor]) -> Tensor:
    """Compute the cross-entropy of the tags, in nats, of a batch as `NameTexts.two_names` returns it."""
    return F.cross_entropy(model(*batch[:3]).flatten(0, 1), batch[3].flatten(), ignore_index=-100)


def span_loss(model: BERTWithHead, batch: Sequence[Tensor]) -> Tensor:
    """Compute the sum of the cross-entropies of start and end, in nats, of a batch as `NameTexts.two_names` returns it."""
    span = model(*batch[:3])
    return F.cross_entropy(span.start, batch[4][:, 0]) + F.cross_entropy(span.end, batch[4][:, 1])


def fit_with_head(
    bert: BERT,
    head: nn.Module,
    loss: Callable[[BERTWithHead, Sequence[Tensor]], Tensor],
    data: Sequence[Tensor],
    steps: int,
    *,
    seed: int,
    label: str,
) -> BERTWithHead:
    """Fine-tune copies of an encoder and a head on texts as `NameTexts.two_names` returns them.

    Args:
        bert: the encoder.
        head: a `TagHead` or a `SpanHead`.
        loss: `tag_loss` or `span_loss`.
        data: the texts.
        steps: number of updates.
        seed: determines the order of the texts.
        label: shown next to the progress bar.
    """
    model = BERTWithHead(copy.deepcopy(bert), copy.deepcopy(head)).to(device())
    stream = batches(*data, batch_size=16, seed=seed)
    return fitted(model, stream, loss, steps=steps, lr=2e-3, label=label, warmup=20)


@torch.no_grad()
def tag_accuracy(model: BERTWithHead, data: Sequence[Tensor]) -> float:
    """Measure the fraction of tags that are right."""
    asked = data[3] != -100
    return (model(*data[:3]).argmax(-1) == data[3])[asked].float().mean().item()


@torch.no_grad()
def span_accuracy(model: BERTWithHead, data: Sequence[Tensor]) -> float:
    """Measure the fraction of answers that are found exactly; a predicted answer has at most 12 pieces."""
    start, end = best_span(model(*data[:3]), 12)
    return ((start == data[4][:, 0]) & (end == data[4][:, 1])).float().mean().item()


@torch.no_grad()
def mean_states(bert: BERT, tokens: Tensor, segments: Tensor, lengths: Tensor) -> Tensor:
    """Average the states of each layer over the real tokens of each text: (B, n_layers + 1, d_model), the embedding first."""
    x = bert.norm(bert.tokens(tokens) + bert.segments(segments) + bert.positions(tokens.shape[1]))
    real = (torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None])[..., None]
    layers = [x]
    for block in bert.stack.blocks:
        layers.append(block(layers[-1], real.mT))
    return torch.stack([(layer * real).sum(1) / real.sum(1) for layer in layers], 1)


class Inspected(NamedTuple):
    """A BERT and a batch for its attention maps: tokens, segments and delimiters (B, T), lengths (B,), and the vocabulary."""

    bert: BERT
    tokens: Tensor
    segments: Tensor
    lengths: Tensor
    delimiters: Tensor
    symbols: tuple[str, ...]


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
