"""Is it the second look that reads a message whose key comes first, or patience?

Rivals: a recurrent translator with Luong's attention and as many weights as the Transformer of lecture 05, trained three times as
long; the same with one encoder block between its encoder and its decoder, in which every character attends to all characters, or
to itself alone. The two blocks have the same weights and differ in this mask only. Beside them the Transformer, one block on
either side; the same without its encoder block; and with a second decoder block in its place. Adam at 0.004 (Transformers:
0.005), a tenth of the updates to warm up, then a linear decay, clipped at 1.

Budget: 6,000 updates of 32 messages for the recurrent translator and for two decoder blocks, 2,000 for the others; 48,000
messages to learn from, 300 with new keys to read. About 100 seconds for the longest training on one CPU thread. On a GPU: the
same settings.
"""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.blocks import Sizes, encoder_stack
from course_lib.datasets import BEGIN, END, PADDING, Vocabulary
from course_lib.fast import fused_causal_attention, fused_scaled_dot_product_attention
from course_lib.generation import greedy
from course_lib.models import Transformer
from course_lib.primitives import padding_mask
from course_lib.training import batches, train
from course_tools.lectures.lecture_05.cipher import messages
from course_tools.lectures.lecture_05.experiments import GRUTranslator

WIDTH, LOOKS, SEEDS = 84, 8, (0, 1, 2)
LONG, SHORT = 6_000, 2_000
SETTINGS = {
    "GRU with attention": (None, LONG),
    "GRU, a block of self-attention after its encoder": (False, SHORT),
    "GRU, the same block, each character sees itself": (True, SHORT),
    "Transformer": ((1, 1), SHORT),
    "Transformer without its encoder block": ((0, 1), SHORT),
    "Transformer, two decoder blocks, no encoder": ((0, 2), LONG),
}
TOLERANCE = {"messages": 0.2, "letters": 0.2, "digits": 0.05, "curve": 0.3}


class WithBlock(nn.Module):
    """A recurrent encoder, and an encoder block over its annotations."""

    def __init__(self, encoder, alone):
        super().__init__()
        self.encoder, self.alone = encoder, alone
        self.block = encoder_stack(Sizes(WIDTH, 4, 2 * WIDTH, 1), fused_scaled_dot_product_attention, F.relu)

    def forward(self, source, lengths):
        encoded, T = self.encoder(source, lengths), source.shape[1]
        mask = torch.eye(T, dtype=torch.bool, device=source.device)[None] if self.alone else padding_mask(lengths, T)
        states = self.block(encoded[0], mask)
        return type(encoded)(states, states, *encoded[2:])


class NoBlocks(nn.Module):
    """An encoder of no blocks."""

    def forward(self, x, mask):
        return x


def untrained(kind, n):
    """Make a translator of n symbols."""
    if isinstance(kind, tuple):
        in_encoder, in_decoder = kind
        sizes = Sizes(64, 4, 128, in_decoder)
        model = Transformer(n, n, sizes, fused_scaled_dot_product_attention, causal=fused_causal_attention)
        if not in_encoder:
            model.encoder = NoBlocks()
        return model
    translator = GRUTranslator(n, n, WIDTH)
    if kind is not None:
        translator.model.encoder = WithBlock(translator.model.encoder, alone=kind)
    return translator


def run(setting, seed, device):
    """Train one translator; the shares of new messages, letters and digits that it reads, at the end and of letters on the way."""
    kind, updates = setting
    known, new = messages(48_000, seed), messages(300, seed, new=True)
    words = Vocabulary.of(pair.source for pair in known)
    source, lengths = (part.to(device) for part in words.batch([pair.source for pair in known]))
    target = words.batch([pair.target for pair in known], begin=True, end=True)[0].to(device)
    torch.manual_seed(seed)
    model, curve, report = untrained(kind, len(words)).to(device), {}, {}

    def loss(model, batch):
        logits = model(batch[0], batch[1], batch[2][:, :-1])
        return F.cross_entropy(logits.mT, batch[2][:, 1:], ignore_index=PADDING)

    stream = batches(source, lengths, target, batch_size=32, seed=seed)
    lr = 5e-3 if isinstance(kind, tuple) else 4e-3
    for step in train(model, stream, loss, steps=updates, lr=lr, warmup=updates // 10):
        if (step.index + 1) % (updates // LOOKS) == 0:
            report = shares(model, words, new, device)
            curve[step.index + 1] = report["letters"]
    return report | {"parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


@torch.no_grad()
def shares(model, words, new, device):
    """The shares of messages without an error, and of letters and digits that are right, by greedy decoding."""
    source, lengths = (part.to(device) for part in words.batch([pair.source for pair in new]))
    if isinstance(model, GRUTranslator):
        rows = model.translate(source, lengths)
    else:
        rows = greedy(model.step, model.start(source, lengths), torch.full_like(lengths, BEGIN), END, PADDING, 7)
    answers = [words.decode(row) for row in rows.tolist()]
    both = list(zip(answers, (pair.target for pair in new), strict=True))
    right = {True: [], False: []}
    for answer, target in both:
        for i, character in enumerate(target):
            right[character.isalpha()].append(answer[i : i + 1] == character)
    letters, digits = (sum(right[kind]) / len(right[kind]) for kind in (True, False))
    return {"messages": sum(a == t for a, t in both) / len(both), "letters": letters, "digits": digits}


def figure(study):
    """Letters that are right, by the number of updates, of each model that learns to read them all: means of the seeds."""
    from course_tools.notebook import plots

    readers = ("Transformer", "Transformer, two decoder blocks, no encoder", "GRU with attention")
    curves = {name: study.curve(name) for name in readers}
    drawn = plots.curves(
        curves, "update", "letters of new messages read", "as recorded, mean of the seeds", across={"a guess": 1 / 6}
    )
    told = "; ".join(
        f"{name} {values[0]:.2f} after {updates[0]:,} updates, {values[-1]:.2f} after {updates[-1]:,}"
        for name, (updates, values) in curves.items()
    )
    return drawn, f"Letters of new messages that are right, by update: {told}; a guess {1 / 6:.2f}."


def finding(study):
    """Letters and digits at the end, by seed."""
    said = "; ".join(f"{name} " + ", ".join(f"{share:.2f}" for share in study.scores(name, "letters")) for name in study.names)
    digits = min(score for name in study.names for score in study.scores(name, "digits"))
    return (
        f"Letters of new messages that are right at the end, by seed: {said} (a guess: {1 / 6:.2f}). Of the digits, at least "
        f"{digits:.2f} are right."
    )
