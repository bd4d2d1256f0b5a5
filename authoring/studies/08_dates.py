"""What is a look at both sides of a gap worth, and what do BERT's other choices do to it?

Six languages write the days of two centuries; a text is one day in two of them. Models are asked on new days for one hidden token
at a time. A BERT of two layers and width 64 reads both sides of the gap, a GPT of the same sizes what stands to its left; counts
of neighbours (Kneser and Ney's smoothing) are the rival without a network. Three BERTs differ in one thing: every chosen token
becomes [MASK]; half of the second texts come from another pair, with next-sentence prediction and without.

Budget: 1,000 updates of 64 texts, Adam at 0.003, a quarter of the tokens chosen; about 25 seconds of one CPU thread for each network.
On a GPU: the same settings.
"""

import torch
import torch.nn.functional as F

from course_lib.fast import fused_causal_attention, fused_scaled_dot_product_attention
from course_lib.losses import mlm_loss, next_token_loss, nsp_pairs
from course_lib.models import GPT
from course_lib.training import batches, train
from course_tools.lectures.lecture_08.checkpoint import SIZES, new_bert
from course_tools.lectures.lecture_08.date_pairs import (
    T_MAX,
    BERTInput,
    DateTexts,
    date_pairs,
    kinds_of,
    mask_batch,
    nats_from_the_left,
    nats_of_counts,
    nats_of_hidden,
    neighbours,
)

N_TRAIN, N_TEST, UPDATES, LR, RATE = 16_000, 1_000, 1_000, 3e-3, 0.25
PLACES = {"counts, left": (-2, -1), "counts, one each side": (1, -1), "counts, two and one": (-2, 1, -1)}
PLACES |= {"counts, two each side": (2, -2, 1, -1)}
NETWORKS = ("BERT", "GPT", "always [MASK]", "random neighbours", "next sentence")
SETTINGS = {name: name for name in (*NETWORKS, *PLACES)}
TOLERANCE = {"nats": 0.2, "nats of numbers": 0.5, "nats of months": 0.3, "nats of weekdays": 0.3, "nats of the rest": 0.2}
TOLERANCE |= {"visible": 0.15, "follows": 0.05, "curve": 0.5}


def run(setting, seed, device):
    """Train one model or count; nats of hidden tokens of new days, by kind; what BERTs give to tokens that they see."""
    known, new = date_pairs(N_TRAIN, N_TEST, seed)
    texts = DateTexts.of(known)
    inputs, asked = (BERTInput(*(part.to(device) for part in texts.pairs(each))) for each in (known, new))
    torch.manual_seed(seed)
    bert, report, curve = new_bert(texts, fused_scaled_dot_product_attention).to(device), {}, {}

    def hidden(every=1):
        return nats_of_hidden(lambda *text: bert.eval()(*text).words, asked, texts.mask, every)

    if setting in PLACES:
        found = nats_of_counts(inputs, asked, hidden(), PLACES[setting], texts.mask)
    elif setting == "GPT":
        gpt = GPT(texts.mask, T_MAX, SIZES, fused_causal_attention).to(device)

        def loss(model, batch):
            return next_token_loss(model(batch[0]), batch[0], batch[0] > 0)

        for _ in train(gpt, batches(*inputs, batch_size=64, seed=seed), loss, steps=UPDATES, lr=LR, warmup=300):
            pass
        found = nats_from_the_left(gpt.eval(), asked, hidden())
    else:
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
            return of_words + F.cross_entropy(model.follows(states), 1 - follows.long()) * (setting == "next sentence")

        stream = batches(*inputs, follows.to(device), batch_size=64, seed=seed)
        for step in train(bert, stream, loss, steps=UPDATES, lr=LR, warmup=300):
            if (step.index + 1) % 200 == 0:
                curve[step.index + 1] = hidden(every=5).mean()
                bert.train()
        found = hidden()
        with torch.no_grad():
            p = bert(*asked).words.softmax(-1).gather(-1, asked.tokens[..., None])[..., 0]
            report["visible"] = p[asked.tokens > 2].mean().item()
            if setting == "next sentence":
                rows, follows = neighbours(new, nsp_pairs, 100 + seed)
                guesses = bert(*(part.to(device) for part in texts.lay_out(rows))).follows.argmax(-1).cpu() == 0
                report["follows"] = (guesses == follows).float().mean().item()
    return (
        report
        | {"nats": found.mean(), "curve": curve}
        | {f"nats of {kind}": found.mean(which) for kind, which in kinds_of(texts, found).items()}
    )


def figure(study):
    """Nats of a hidden token of new days, one point per seed."""
    from course_tools.notebook import plots

    rows = {name: study.scores(name, "nats") for name in ("counts, one each side", "GPT", "BERT")}
    drawn = plots.seeds(rows, "nats of a hidden token", "new days, as recorded")
    each = "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in values)}" for name, values in rows.items())
    return drawn, f"Nats of a hidden token of new days, one point per seed: {each}."


def finding(study):
    """Nats by setting and kind of token, means of the seeds; what BERTs give to visible tokens; next-sentence prediction."""
    said = "; ".join(
        f"{name} {study.mean(name, 'nats'):.2f} (numbers {study.mean(name, 'nats of numbers'):.2f}, months "
        f"{study.mean(name, 'nats of months'):.2f})"
        for name in study.names
    )
    seen = ", ".join(f"{name} {study.mean(name, 'visible'):.2f}" for name in ("BERT", "always [MASK]"))
    return (
        f"Nats of a hidden token: {said}. Probability of a visible token: {seen}. Next-sentence prediction on new pairs: "
        f"{study.mean('next sentence', 'follows'):.3f}."
    )
