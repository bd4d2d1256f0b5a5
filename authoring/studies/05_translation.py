"""How many sentence pairs does a small translation model need before it beats copying and looking up?

Rivals: a Transformer (two post-norm layers, width 128) and a GRU with Bahdanau's attention; the source, copied; and the translation of
the training source that is nearest by TF-IDF, by words or by runs of letters, whichever is better on held-out pairs. German verses
of at most 20 words into English, 1,000, 3,000 or 10,000 pairs of them, by 2,000 byte pairs that are learned from these. Both
networks have one embedding for both languages, dropout, the more the fewer pairs, smoothed labels, the schedule of the
Transformer's paper, and a beam of four with a length penalty of 0.6. Corpus BLEU of words and punctuation, times 100, on 500
verses that no training saw. The curves are greedy translations of 300 held-out verses.

Budget: 2,500 updates for 10,000 pairs, 2,000 for 3,000 and 1,000 for 1,000, with 32 pairs of similar length each; a training ends
after 750 updates without a gain on held-out verses, and reports the weights that were best there. About 8 minutes for a
Transformer and 10,000 pairs on one CPU thread. On a GPU: the same settings.
"""

import re
from copy import deepcopy
from functools import partial

import torch
from torch import nn

from course_lib.fast import fused_causal_attention, fused_scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.datasets import BEGIN, END, PADDING, BytePairs, Vocabulary
from course_lib.generation import beam_search
from course_lib.losses import label_smoothed_loss
from course_lib.metrics import bleu
from course_lib.fast import hoisted_bahdanau_steps, stacked_bidirectional_gru
from course_lib.models import BahdanauDecoder, Encoder, Seq2Seq, Transformer
from course_lib.training import inverse_square_root, train
from course_tools.lectures.lecture_05.data import verses

WIDTH, MERGES, BATCH, MOST = 128, 2_000, 32, 60
AMOUNTS = {10_000: (2_500, 0.1), 1_000: (1_000, 0.3), 3_000: (2_000, 0.2)}  # pairs: updates and dropout
WARMUP, EVERY = 500, 250
RATES = {"GRU with attention": 3e-3, "Transformer": 3e-3}
SETTINGS = {"copying": ("copying", 0)} | {
    f"{kind}, {n:,} pairs": (kind, n) for kind in ("nearest source", "Transformer", "GRU with attention") for n in AMOUNTS
}
SEEDS = (0, 1)
TOLERANCE = {"BLEU": 1.5, "held-out BLEU": 1.5, "curve": 2.0, "best update": 3_000, "updates": 3_000}
SHOWN = range(6)


def run(setting, seed, device):
    """Translate 500 verses: BLEU there and on held-out ones, that along the way, and a few of the translations."""
    kind, n = setting
    pairs = verses(300, 500, most_words=20)
    known = pairs.train[:n]
    torch.manual_seed(seed)
    texts = {}
    if kind == "copying":
        translate, report = list, {}
        texts = {f"reference {i}": pairs.test[i].target for i in SHOWN}
    elif kind == "nearest source":
        forms = {"words": {"ngram_range": (1, 2)}, "letters": {"analyzer": "char_wb", "ngram_range": (2, 5)}}
        lookups = [partial(nearest, known, form) for form in forms.values()]
        translate, report = max(lookups, key=lambda lookup: score(lookup, pairs.valid)), {}
    else:
        translate, report = learned(kind, known, pairs.valid, seed, device)
    report |= {"BLEU": score(translate, pairs.test), "held-out BLEU": score(translate, pairs.valid)}
    texts |= {f"translation {i}": text for i, text in enumerate(translate([pairs.test[i].source for i in SHOWN]))}
    return report | {"texts": texts}


def score(translate, pairs):
    """Corpus BLEU, 0 to 100, of the translations of pairs; words and punctuation marks count as tokens."""

    def tokens(texts):
        return [re.findall(r"\w+|[^\w\s]", text) for text in texts]

    candidates = tokens(translate([pair.source for pair in pairs]))
    return 100 * bleu(candidates, [[reference] for reference in tokens(pair.target for pair in pairs)]).score


def nearest(known, form, sources):
    """Give for each source the translation of the known source whose TF-IDF vector has the smallest angle to its own."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer(sublinear_tf=True, **form)
    table = vectors.fit_transform([pair.source for pair in known])
    return [known[i].target for i in (vectors.transform(sources) @ table.T).toarray().argmax(1)]


def learned(kind, known, valid, seed, device):
    """Train a network; give its translation by beam search, and what is to be reported of the training."""
    pieces = BytePairs.learn([text for pair in known for text in pair], MERGES)
    symbols = Vocabulary.of((pieces.cut(text) for pair in known for text in pair), between=" ")
    source, lengths = symbols.batch([pieces.cut(pair.source) for pair in known], end=True)
    target, target_lengths = symbols.batch([pieces.cut(pair.target) for pair in known], begin=True, end=True)
    most, dropout = AMOUNTS[len(known)]
    model = untrained(kind, len(symbols), dropout).to(device)

    def loss(model, chosen):
        T_k, T = lengths[chosen].max(), target_lengths[chosen].max()
        given = [part.to(device) for part in (source[chosen, :T_k], lengths[chosen], target[chosen, :T])]
        output = model(*given)
        return label_smoothed_loss(output if kind == "Transformer" else output.logits, given[2], PADDING)

    translate = partial(translated, model, pieces, symbols, device)
    curve, best = {}, {}
    stream = similar_lengths(lengths + target_lengths, seed)
    for step in train(model, stream, loss, steps=most, lr=RATES[kind], warmup=WARMUP, schedule=inverse_square_root):
        if (step.index + 1) % EVERY == 0:
            model.eval()
            curve[step.index + 1] = score(partial(translate, 1), valid)
            model.train()
            if max(curve.values()) == curve[step.index + 1]:
                best = deepcopy(model.state_dict())
            elif list(curve.values()).index(max(curve.values())) < len(curve) - 3:
                break
    model.load_state_dict(best)
    model.eval()
    report = {"curve": curve, "updates": max(curve), "best update": max(curve, key=curve.get)}
    report |= {"parameters": sum(p.numel() for p in model.parameters()), "pieces": len(symbols)}
    return partial(translate, 4), report


def untrained(kind, n, dropout):
    """A model of n pieces, with one embedding for both languages."""
    words = nn.Embedding(n, WIDTH)
    if kind == "Transformer":
        sizes = Sizes(WIDTH, 4, 4 * WIDTH, 2)
        mechanisms = {"mechanism": fused_scaled_dot_product_attention, "causal": fused_causal_attention}
        return Transformer(words, words, sizes, **mechanisms, dropout=dropout)
    encoder = Encoder(n, WIDTH, WIDTH, stacked_bidirectional_gru)
    decoder = BahdanauDecoder(n, WIDTH, WIDTH, 2 * WIDTH, WIDTH, hoisted_bahdanau_steps)
    encoder.embedding = decoder.embedding = nn.Sequential(words, nn.Dropout(dropout))
    decoder.readout = nn.Sequential(nn.Dropout(dropout), decoder.readout)
    return Seq2Seq(encoder, decoder, BEGIN, END, PADDING)


def similar_lengths(lengths, seed):
    """Batches of pairs of similar length, as indices, without end; who meets whom is drawn anew each epoch."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        groups = (lengths + 5 * torch.rand(len(lengths), generator=generator)).argsort().split(BATCH)
        for i in torch.randperm(len(groups), generator=generator):
            yield groups[i]


def translated(model, pieces, symbols, device, width, texts):
    """Translate texts by a beam of some width, a hundred at a time."""
    said = []
    for first in range(0, len(texts), 100):
        source, lengths = symbols.batch([pieces.cut(text) for text in texts[first : first + 100]], end=True)
        with torch.no_grad():
            state = model.start(source.to(device), lengths.to(device))
        begin = torch.full_like(lengths, BEGIN, device=device)
        beam = beam_search(model.step, state, begin, END, PADDING, MOST, width, penalty=0.6)
        said += [pieces.join(symbols.decode(row)) for row in beam.tokens[:, 0].tolist()]
    return said


def figure(study):
    """BLEU on unseen verses against the number of pairs, mean of the seeds."""
    from course_tools.notebook import plots

    lines = {}
    for kind in ("Transformer", "GRU with attention", "nearest source"):
        amounts = sorted(n for n in AMOUNTS if f"{kind}, {n:,} pairs" in study.names)
        if amounts:
            lines[kind] = amounts, [study.mean(f"{kind}, {n:,} pairs", "BLEU") for n in amounts]
    copying = study.mean("copying", "BLEU")
    drawn = plots.curves(
        lines, "pairs to learn from", "BLEU", "unseen verses, as recorded", log="x", across={"copying": copying}
    )
    said = "; ".join(
        f"{kind} " + ", ".join(f"{score:.1f} with {n:,}" for n, score in zip(*line, strict=True))
        for kind, line in lines.items()
    )
    return drawn, f"BLEU on 500 unseen verses against the number of pairs: {said}; copying {copying:.1f}."


def finding(study):
    """BLEU with each number of pairs, and what the second half of the updates still gained."""
    said = [f"Copying the source has a BLEU of {study.mean('copying', 'BLEU'):.1f}."]
    for n in sorted(AMOUNTS):
        names = [name for kind in ("nearest source", *RATES) if (name := f"{kind}, {n:,} pairs") in study.names]
        if names:
            scores = ", ".join(f"{name.partition(',')[0]} {study.mean(name, 'BLEU'):.1f}" for name in names)
            said.append(f"With {n:,} pairs: {scores}.")
        for name in names[1:]:
            best, last = study.mean(name, "best update"), study.mean(name, "updates")
            _, values = study.curve(name)
            said.append(
                f"The second half of the updates gains the {name.partition(',')[0]} {values[-1] - values[len(values) // 2 - 1]:.1f} "
                f"BLEU on held-out verses; it was best after update {best:,.0f} of {last:,.0f}."
            )
    said += [f"Not recorded yet: {kind}." for kind in RATES if not any(name.startswith(kind) for name in study.names)]
    n = min(len(study.of(name)) for name in study.names)
    return " ".join(said) + (" One seed: how far chance reaches is not known." if n == 1 else f" Means of {n} seeds.")
