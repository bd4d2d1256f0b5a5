"""Pre-train a small BERT on names by masking, train heads on it, read its layers, and test which way ELMo looks."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import Mechanism, scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.datasets import BEGIN, END, PADDING, DisplayName, pad, word_pieces
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.losses import Masked
from course_lib.models import BERT, ELMo, PretrainingBERT, SpanHead, best_span
from course_lib.pretrained import load_bert
from course_lib.training import batches, train
from course_tools.lectures.lecture_08.data import NameTexts
from course_tools.notebook.device import device
from course_tools.notebook.fitting import fitted
from course_tools.notebook.progress_bar import progress
from course_tools.notebook.training_curve import show_recorded_losses

# Train BERT with a tag head or a span head, pre-train it, and read its layers.


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


# Masked pre-training of a small BERT on names, by given functions for the masking and the loss.


_RATE, _AVERAGED = 0.4, 25
"""The masking rate, and the number of updates in the mean of a loss."""


def corrupted(corrupt: Callable[..., Masked], tokens: Tensor, mask: int, rate: float, always: bool = False) -> Masked:
    """Corrupt tokens (B, T) at random.

    Args:
        corrupt: such as that of `course_lib.losses`.
        tokens: special tokens and padding are not eligible.
        mask: the index of [MASK], which comes after all other tokens.
        rate: the fraction of the eligible tokens to choose.
        always: whether every chosen token becomes [MASK].
    """
    eligible = (tokens != PADDING) & (tokens != BEGIN) & (tokens != END)
    choice, fate = torch.rand(2, *tokens.shape, device=tokens.device)
    return corrupt(tokens, eligible, mask, choice, fate * 0 if always else fate, torch.randint_like(tokens, 4, mask), rate)


class Pretrained(NamedTuple):
    """A pre-trained BERT with both heads, and the loss of its masked pieces at each update, in nats."""

    model: PretrainingBERT
    losses: list[float]

    @property
    def first_loss(self) -> float:
        """The mean loss of the first 25 updates."""
        return mean(self.losses[:_AVERAGED])

    @property
    def last_loss(self) -> float:
        """The mean loss of the last 25 updates."""
        return mean(self.losses[-_AVERAGED:])


@dataclass(frozen=True)
class NamePretraining:
    """The pre-training of BERTs of one size: names as tokens, `corrupt`, `mlm_loss`, sizes, updates, learning rate."""

    texts: NameTexts
    corrupt: Callable[..., Masked]
    mlm_loss: Callable[[Tensor, Tensor, Tensor], Tensor]
    sizes: Sizes
    steps: int
    lr: float

    @property
    def mask(self) -> int:
        """The index of [MASK]: the token after those of the vocabulary."""
        return len(self.texts.words)

    def new_bert(self, seed: int, mechanism: Mechanism = fused_scaled_dot_product_attention) -> BERT:
        """Create an untrained BERT for texts of up to 64 tokens; the seed determines its weights."""
        torch.manual_seed(seed)
        return BERT(self.mask + 1, 64, self.sizes, mechanism)

    def loss(
        self, model: PretrainingBERT, batch: Sequence[Tensor], next_sentence: bool, always: bool
    ) -> tuple[Tensor, dict[str, float]]:
        """Compute the loss of the masked pieces, plus that of the next sentence if asked for; and the former alone."""
        tokens, segments, lengths, follows = (part[:, : batch[2].max()] if part.dim() == 2 else part for part in batch)
        text, chosen = corrupted(self.corrupt, tokens, self.mask, _RATE, always)
        states = model.bert(text, segments, lengths)
        logits = model.words(states[chosen], model.bert.tokens.weight)  # only at the chosen positions, which saves time
        of_words = self.mlm_loss(logits[None], tokens[chosen][None], chosen[chosen][None])
        total = of_words + F.cross_entropy(model.follows(states), follows) if next_sentence else of_words
        return total, {"words": of_words.item()}

    def pretrain(
        self, data: Sequence[Tensor], seed: int, next_sentence: bool = False, always: bool = False, batch_size: int = 16
    ) -> Pretrained:
        """Pre-train a new model with a masking rate of 0.4.

        Args:
            data: as returned by `NameTexts.pairs` or `NameTexts.one_name_each`.
            seed: determines the initial weights, the masking and the order of the texts.
            next_sentence: whether next-sentence prediction is added to the loss.
            always: whether every chosen token becomes [MASK].
            batch_size: texts in a batch.
        """
        loss = partial(self.loss, next_sentence=next_sentence, always=always)
        model, losses = pretrain(
            self.new_bert(seed), data, loss, steps=self.steps, lr=self.lr, seed=seed, batch_size=batch_size
        )
        return Pretrained(model, losses)

    def show_losses(self, trained: Mapping[str, Sequence[Pretrained]]) -> None:
        """Draw the losses of the chosen pieces: for each name, the mean of its models, which differ only in the seed."""
        runs = {name: [each.losses for each in models] for name, models in trained.items()}
        show_recorded_losses(runs, "nats per chosen piece", {"a uniform guess": math.log(self.mask + 1)})

    @torch.no_grad()
    def print_predictions(self, model: PretrainingBERT, text: str, place: int, n: int = 5) -> None:
        """Mask the piece of a text at `place`, where [CLS] is at 0, and print the n most likely pieces."""
        row, segments, lengths = (part.to(device()) for part in self.texts.lay_out([(self.texts.encode(text), None)]))
        row[0, place] = self.mask
        odds = model(row, segments, lengths).words[0, place].softmax(-1)[: self.mask]
        likely = ", ".join(f"{self.texts.words.symbols[i]} {odds[i]:.2f}" for i in odds.topk(n).indices.tolist())
        print(f"{self.texts.pieces.cut(text).split()[place - 1]} → {likely}")

    @torch.no_grad()
    def next_sentence_accuracy(self, model: PretrainingBERT, part: Sequence[DisplayName], seed: int) -> float:
        """Measure the accuracy of next-sentence prediction on pairs of passages."""
        *pair, follows = (x.to(device()) for x in self.texts.pairs(part, seed))
        return (model(*pair).follows.argmax(-1) == follows).float().mean().item()

    @torch.no_grad()
    def probability_of_truth(self, model: PretrainingBERT, part: Sequence[DisplayName], seed: int, hide: bool) -> float:
        """Average the probability of the true piece at every seventh position of pairs of passages, masked there if `hide`."""
        tokens, segments, lengths = (x.to(device()) for x in self.texts.pairs(part, seed, strangers=False)[:3])
        asked = (tokens > END) & (torch.arange(tokens.shape[1], device=tokens.device) % 7 == 3)
        p = model(tokens.masked_fill(asked, self.mask) if hide else tokens, segments, lengths).words.softmax(-1)
        return p.gather(-1, tokens[..., None])[..., 0][asked].mean().item()

    def inspected(self, model: PretrainingBERT, part: Sequence[DisplayName]) -> Inspected:
        """Copy the encoder with a mechanism that returns its weights, with pairs of names from twenty in a row of the given."""
        shown = self.new_bert(0, scaled_dot_product_attention).to(device())
        shown.load_state_dict(model.bert.state_dict())
        names = [name for _, name in self.texts.passages(part, n_names=1)]
        batch = [x.to(device()) for x in self.texts.lay_out(list(zip(names[::20], names[1::20], strict=True)))]
        symbols = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", *self.texts.words.symbols[4:], "[MASK]")
        return Inspected(shown, *batch, batch[0] == END, symbols)


# Which outputs of ELMo change with the words that follow.


class Changes(NamedTuple):
    """Largest change of the forward logits, and the number of features of the mixture that change."""

    logits: float
    n_features: int


@torch.no_grad()
def changes_with_the_future(elmo: ELMo, mix: Callable[[Tensor, Tensor, Tensor], Tensor], seed: int) -> Changes:
    """Change the words 6 to 8 of a random sentence of nine, and compare the outputs at words 0 to 5.

    Args:
        elmo: a model.
        mix: mixes its layers, as `scalar_mix` does; all layers have the same weight.
        seed: determines the sentence.
    """
    generator, n_tokens = torch.Generator().manual_seed(seed), len(elmo.tokens.weight)
    first, other = torch.randint(4, n_tokens, (2, 1, 9), generator=generator)
    texts, lengths = (first, torch.cat([first[:, :6], other[:, 6:]], 1)), torch.tensor([9])
    logits, logits_of_changed = (elmo.language_models(text, lengths).next[:, :6] for text in texts)
    layers, layers_of_changed = (elmo(text, lengths)[:, 5] for text in texts)
    w, gamma = torch.zeros(layers.shape[1]), torch.ones(())
    moved = (mix(layers, w, gamma) - mix(layers_of_changed, w, gamma)).abs()
    return Changes((logits - logits_of_changed).abs().max().item(), int((moved > 0).sum()))
