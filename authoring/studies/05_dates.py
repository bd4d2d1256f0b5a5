"""Who is ahead on dates, where every digit of the answer is one look-up away: the Transformer, or the GRU with attention?

Both learn from 3,000 sentences of one date, or from these and 6,000 of two, and are asked for new ones. The GRU is lecture 02's
translator, of width 64 like the Transformer. Rates: 0.004 for the GRU, as in 02_length_and_width, and lecture 05's 0.003 for the
Transformer; a tenth of the updates to warm up, then a linear decay, clipped at 1.

Budget: 1,500 updates of 32 sentences. About 20 seconds for the longest training on one CPU thread. On a GPU: the same settings.
"""

from statistics import mean

import torch
import torch.nn.functional as F

from course_lib.blocks import Sizes
from course_lib.datasets import BEGIN, END, PADDING
from course_lib.fast import fused_causal_attention, fused_scaled_dot_product_attention
from course_lib.generation import greedy
from course_lib.models import Transformer
from course_lib.training import batches, train
from course_tools.lectures.lecture_05.experiments import GRUTranslator
from course_tools.notebook.translation import date_sentences

UPDATES, LOOKS, RATES = 1_500, 15, {"GRU with attention": 4e-3, "Transformer": 3e-3}
SETTINGS = {f"{kind}, {told}": (kind, n) for n, told in ((1, "one date"), (2, "one date or two")) for kind in RATES}
TOLERANCE = {"one date": 0.1, "two dates": 0.25, "curve": 0.3}


def run(setting, seed, device):
    """Train one model; the share of new sentences of one date and of two that it converts, on the way that of the longest it learns."""
    kind, most = setting
    known, new, (letters, characters) = date_sentences()
    pairs = known[1] if most == 1 else known[1] + known[2]
    source, lengths = (part.to(device) for part in letters.batch([pair.source for pair in pairs]))
    target = characters.batch([pair.target for pair in pairs], begin=True, end=True)[0].to(device)
    torch.manual_seed(seed)
    if kind == "Transformer":
        sizes = Sizes(64, 4, 128, 1)
        exact = fused_scaled_dot_product_attention
        model = Transformer(len(letters), len(characters), sizes, exact, causal=fused_causal_attention)
    else:
        model = GRUTranslator(len(letters), len(characters))
    model, curve = model.to(device), {}

    def loss(model, batch):
        source, lengths, target = batch
        logits = model(source[:, : lengths.max()], lengths, target[:, :-1])
        return F.cross_entropy(logits.mT, target[:, 1:], ignore_index=PADDING)

    stream = batches(source, lengths, target, batch_size=32, seed=seed)
    for step in train(model, stream, loss, steps=UPDATES, lr=RATES[kind], warmup=UPDATES // 10):
        if (step.index + 1) % (UPDATES // LOOKS) == 0:
            curve[step.index + 1] = converted(model, letters, characters, new[most], device)
    shares = {told: converted(model, letters, characters, new[n], device) for n, told in ((1, "one date"), (2, "two dates"))}
    return shares | {"parameters": sum(p.numel() for p in model.parameters()), "curve": curve}


@torch.no_grad()
def converted(model, letters, characters, pairs, device):
    """The share of sentences whose answer is right in every character, by greedy decoding."""
    source, lengths = (part.to(device) for part in letters.batch([pair.source for pair in pairs]))
    if isinstance(model, GRUTranslator):
        rows = model.translate(source, lengths)
    else:
        rows = greedy(model.step, model.start(source, lengths), torch.full_like(lengths, BEGIN), END, PADDING, 23)
    return mean(characters.decode(row) == pair.target for row, pair in zip(rows.tolist(), pairs, strict=True))


def figure(study):
    """New sentences converted without an error, by the number of updates: means of the seeds."""
    from course_tools.notebook import plots

    shown = {"one date": "one date", "one date or two": "two dates"}
    curves = {f"{kind}, {asked}": study.curve(f"{kind}, {told}") for told, asked in shown.items() for kind in RATES}
    drawn = plots.curves(curves, "update", "new sentences converted", "as recorded, mean of the seeds")
    drawn.axes[0].set_ylim(bottom=0)
    told = "; ".join(
        f"{name} {values[updates.index(400)]:.2f} after 400 updates, {values[-1]:.2f} after {updates[-1]:,}"
        for name, (updates, values) in curves.items()
    )
    return drawn, f"New sentences converted without an error, by update: {told}."


def finding(study):
    """New sentences converted at the end, by seed."""
    said = "; ".join(
        f"{name}: " + ", ".join(f"{share:.3f}" for share in study.scores(name, score))
        for score in ("one date", "two dates")
        for name in study.names
        if score == "one date" or "two" in name
    )
    return f"New sentences converted, by seed (one date, then two): {said}."
