"""Masked pre-training of a small BERT on names, by given functions for the masking and the loss; for lecture 08."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.attention import Mechanism, fused_scaled_dot_product_attention, scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.datasets import BEGIN, END, PADDING, DisplayName
from course_lib.losses import Masked
from course_lib.models import BERT, PretrainingBERT
from course_tools.notebook import bert_tasks
from course_tools.notebook.device import device
from course_tools.notebook.name_texts import NameTexts
from course_tools.notebook.training_curve import show_recorded_losses

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
        model, losses = bert_tasks.pretrain(
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

    def inspected(self, model: PretrainingBERT, part: Sequence[DisplayName]) -> bert_tasks.Inspected:
        """Copy the encoder with a mechanism that returns its weights, with pairs of names from twenty in a row of the given."""
        shown = self.new_bert(0, scaled_dot_product_attention).to(device())
        shown.load_state_dict(model.bert.state_dict())
        names = [name for _, name in self.texts.passages(part, n_names=1)]
        batch = [x.to(device()) for x in self.texts.lay_out(list(zip(names[::20], names[1::20], strict=True)))]
        symbols = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", *self.texts.words.symbols[4:], "[MASK]")
        return bert_tasks.Inspected(shown, *batch, batch[0] == END, symbols)
