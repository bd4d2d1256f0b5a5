"""What does a BERT learn that goes on reading the same day in two languages, and in which order?

Six languages write the days of two centuries; a text is one day in two of them. A BERT of two layers and width 64 learns to fill
gaps, and is asked on new days for one hidden token at a time. Its weights of seed 0 are the checkpoint of lecture 08: the run
writes them beside the lecture's data, in float16, and its record holds their digest. Three more differ from it in one thing: every
chosen token becomes [MASK]; half of the second texts come from another pair, with next-sentence prediction and without. The rival
without a network is a softmax regression on the words of both sentences, which learns from the same pairs in as many updates.

Budget: 6,000 updates of 64 pairs, three seeds, Adam at 0.003, a quarter of the tokens chosen; about two minutes of one CPU thread for
each. The study 08_dates compares shorter trainings. On a GPU: the same settings.
"""

import torch
import torch.nn.functional as F

from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.losses import mlm_loss, nsp_pairs
from course_lib.training import batches, train
from course_tools.lectures.lecture_08.checkpoint import new_bert, save
from course_tools.lectures.lecture_08.date_pairs import (
    BERTInput,
    DateTexts,
    date_pairs,
    kinds_of,
    mask_batch,
    nats_of_hidden,
    neighbours,
)
from course_tools.lectures.lecture_08.rivals import nats_of_words

N_TRAIN, N_TEST, UPDATES, RATE, LR, LOOKS = 30_000, 1_000, 6_000, 0.25, 3e-3, 12
SETTINGS = {name: name for name in ("BERT", "always [MASK]", "random neighbours", "next sentence")}
SETTINGS["regression on the words"] = None
SEEDS = (0, 1, 2)
TOLERANCE = {"nats": 0.1, "nats of months": 0.3, "visible": 0.15, "follows": 0.05, "curve": 0.5}


def run(setting, seed, device):
    """Train one BERT; nats of hidden tokens of new days, along the way also those of the names of months alone."""
    known, new = date_pairs(N_TRAIN, N_TEST, seed)
    texts = DateTexts.of(known)
    inputs, asked = (BERTInput(*(part.to(device) for part in texts.pairs(each))) for each in (known, new))
    torch.manual_seed(seed)
    model, curve, report = new_bert(texts, fused_scaled_dot_product_attention).to(device), {}, {}

    def hidden():
        return nats_of_hidden(lambda *text: model.eval()(*text).words, asked, texts.mask, every=3)

    def by_kind(found):
        kinds = kinds_of(texts, found)
        return {"nats": found.mean()} | {f"nats of {kind}": found.mean(which) for kind, which in kinds.items()}

    if setting is None:
        return by_kind(nats_of_words(inputs, asked, hidden(), texts.mask, UPDATES))
    follows = torch.ones(N_TRAIN, dtype=torch.bool)
    if setting in ("random neighbours", "next sentence"):
        rows, follows = neighbours(known, nsp_pairs, seed)
        inputs = BERTInput(*(part.to(device) for part in texts.lay_out(rows)))

    def loss(model, batch):
        tokens, segments, lengths, follows = batch
        text, chosen = mask_batch(tokens, texts.mask, RATE, always=setting == "always [MASK]")
        states = model.bert(text, segments, lengths)
        logits = model.words(states[chosen], model.bert.tokens.weight)
        of_words = mlm_loss(logits[None], tokens[chosen][None], chosen[chosen][None])
        if setting != "next sentence":
            return of_words
        return of_words + F.cross_entropy(model.follows(states), 1 - follows.long())

    stream = batches(*inputs, follows.to(device), batch_size=64, seed=seed)
    for step in train(model, stream, loss, steps=UPDATES, lr=LR, warmup=UPDATES // 10):
        if (step.index + 1) % (UPDATES // LOOKS) == 0:
            report = by_kind(hidden())
            curve[step.index + 1] = report["nats"]
            print(step.index + 1, report, flush=True)
            model.train()
    with torch.no_grad():
        p = model.eval()(*asked).words.softmax(-1).gather(-1, asked.tokens[..., None])[..., 0]
        report["visible"] = p[asked.tokens > 2].mean().item()
        if setting == "next sentence":
            rows, follows = neighbours(new, nsp_pairs, 100 + seed)
            guesses = model(*(part.to(device) for part in texts.lay_out(rows))).follows.argmax(-1).cpu() == 0
            report["follows"] = (guesses == follows).float().mean().item()
    report |= {"parameters": sum(p.numel() for p in model.parameters()), "curve": curve}
    return report | {"texts": {"digest": save(model)}} if (setting, seed) == ("BERT", 0) else report


def figure(study):
    """Nats of a hidden token of new days by the number of updates."""
    from course_tools.notebook import plots

    updates, nats = study.curve("BERT")
    words = study.mean("regression on the words", "nats")
    across = {"regression on the words": words}
    drawn = plots.curves(
        {"BERT": (updates, nats)}, "update", "nats of a hidden token", "new days, as recorded, mean of the seeds", across=across
    )
    drawn.axes[0].set_ylim(bottom=0)
    return (
        drawn,
        f"Nats of a hidden token of new days: {nats[0]:.2f} after {updates[0]:,} updates, {nats[-1]:.2f} after {updates[-1]:,}; "
        f"regression on the words {words:.2f}.",
    )


def finding(study):
    """Nats at the end, by kind of token."""
    told = []
    for name in ("BERT", "regression on the words"):
        kinds = ", ".join(
            f"{kind} {study.mean(name, f'nats of {kind}'):.3f}" for kind in ("numbers", "months", "weekdays", "the rest")
        )
        told.append(f"{name} {study.mean(name, 'nats'):.3f} ({kinds})")
    return f"Nats of a hidden token of new days: {'; '.join(told)}. Means of the seeds."
