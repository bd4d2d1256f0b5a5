"""Dates to ISO 8601 with and without attention: how many updates does it take, by width and by length of the sentence?

Rivals: an encoder-decoder that passes on its last state alone, one that passes on the mean of all its states, and the same encoder
with Luong's decoder, which attends to every state; 32 and 64 numbers in a state, and for the last state alone 128 and 256 as well.
All learn from sentences of one date and of two, and are tested on new ones of one, two and three dates; none saw three.

Budget: 2,000 updates with 32 sentences each, and 6,000 for the last state and for the mean of width 64; three seeds. The curves
show who still gains. About half an hour on one CPU thread.
"""

from statistics import mean

import torch

from course_lib.attention import GeneralAttention
from course_lib.datasets import PADDING, Vocabulary, dates, joined
from course_lib.fast import fused_gru, stacked_bidirectional_gru
from course_lib.generation import greedy_translation
from course_lib.losses import teacher_forced_loss
from course_lib.models import Encoder, LuongDecoder, PlainDecoder, Seq2Seq
from course_lib.training import batches, train
from course_tools.lectures.lecture_02.experiments import Changed, mean_state

UPDATES, LONG, LR, LENGTHS = 2_000, 6_000, 4e-3, (1, 2, 3)
LOOKS = (200, 400, 800, 1_200, 1_600, 2_000, 3_000, 4_000, 5_000, 6_000)
SETTINGS = {f"{kind}, width {width}": (kind, width, UPDATES) for width in (32, 64) for kind in ("last state", "attention")}
SETTINGS["last state, width 64, three times as long"] = ("last state", 64, LONG)
SETTINGS |= {f"last state, width {width}": ("last state", width, UPDATES) for width in (128, 256)}
SETTINGS["mean of the states, width 64"] = ("mean", 64, LONG)
TOLERANCE = {"one date": 0.1, "two dates": 0.25, "three dates": 0.1, "one date after 400": 0.2, "two dates after 400": 0.25}
TOLERANCE["curve"] = 0.25
GPU_SETTINGS = {
    f"{kind}, width {width}": (kind, width, LONG) for width in (32, 64, 128, 256) for kind in ("last state", "attention")
}


def run(setting, seed, device):
    """Train one model; exact match on new sentences of each length, and that of two dates through training."""
    kind, d, updates = setting
    days = dates(4_000, 300, 500, formats=("medium",), seed=0)
    known = joined(days.train, 1, 3_000, seed=1) + joined(days.train, 2, 6_000, seed=2)
    new = {n: joined(days.test, n, 300, seed=9) for n in LENGTHS}
    letters, characters = (Vocabulary.of(pair[side] for pair in known) for side in (0, 1))
    torch.manual_seed(seed)
    if kind == "attention":
        decoder = LuongDecoder(len(characters), d // 2, d, d, GeneralAttention(d, d), fused_gru)
    else:
        decoder = PlainDecoder(len(characters), d // 2, d, d, fused_gru)
    encoder = Encoder(len(letters), d // 2, d // 2, stacked_bidirectional_gru)
    model = Seq2Seq(Changed(encoder, mean_state) if kind == "mean" else encoder, decoder).to(device)
    source, lengths = letters.batch([pair.source for pair in known])
    target, _ = characters.batch([pair.target for pair in known], begin=True, end=True)

    def loss(model, batch):
        source, lengths, target = batch
        return teacher_forced_loss(model(source[:, : lengths.max()], lengths, target).logits, target, PADDING)

    @torch.no_grad()
    def exact_match(n):
        model.eval()
        texts = (part.to(device) for part in letters.batch([pair.source for pair in new[n]]))
        answers = greedy_translation(model, *texts, 36).tokens.tolist()
        model.train()
        return mean(characters.decode(row) == pair.target for row, pair in zip(answers, new[n], strict=True))

    stream = batches(*(part.to(device) for part in (source, lengths, target)), batch_size=32, seed=seed)
    curve, early = {}, {}
    for step in train(model, stream, loss, steps=updates, lr=LR, warmup=updates // 10):
        if step.index + 1 in LOOKS:
            curve[step.index + 1] = exact_match(2)
        if step.index + 1 == 400:
            early = {"one date after 400": exact_match(1), "two dates after 400": curve[400]}
    return {"one date": exact_match(1), "two dates": curve[updates], "three dates": exact_match(3), **early, "curve": curve}
