"""Does a small Transformer translate as well as a GRU with attention, and better than looking up?

Rivals: a Transformer of two blocks of width 128 on either side, pre-norm or post-norm; a GRU with Bahdanau's attention; a
pre-norm Transformer of its size (1.85 million weights to 1.80), by a third block on either side and networks of 640 features in
place of 512, so that embedding and rate stay what they are; the source, copied; and the translation of the training source that
is nearest by TF-IDF, by words or by runs of letters, whichever is better on held-out pairs. 10,000 German verses of at most 20
words into English, by 2,000 byte pairs that are learned from these. The networks have one embedding for both languages,
dropout, smoothed labels, the schedule of the Transformer's paper, and a beam of four with a length penalty of 0.6. Corpus BLEU
of words and punctuation, times 100, on 500 verses that no training saw. The curves are greedy translations of 300 held-out
verses; a network reports the weights that were best there.

All networks have one recipe: Adam with a rate of 3e-3 after a warm-up of 500 updates. A second one, a warm-up of 250 and
β₂ = 0.98, was tried with seed 0 on the pre-norm Transformer and the GRU: after 500 updates it is ahead by 1.8 and 1.5 BLEU.

Budget: 2,500 updates with 32 pairs of similar length each, at whose end no network has stopped improving; two seeds, recorded of the
three blocks the first alone; 6 to 11 minutes a network on one CPU thread. On a GPU: the same settings.
"""

import re
from copy import deepcopy
from functools import partial

import torch
from torch import nn

from course_lib.fast import fused_causal_attention, fused_scaled_dot_product_attention
from course_lib.blocks import Sizes, post_norm, pre_norm
from course_lib.datasets import BEGIN, END, PADDING, BytePairs, Vocabulary
from course_lib.generation import beam_search
from course_lib.losses import label_smoothed_loss
from course_lib.metrics import bleu
from course_lib.fast import hoisted_bahdanau_steps, stacked_bidirectional_gru
from course_lib.models import BahdanauDecoder, Encoder, Seq2Seq, Transformer
from course_lib.training import inverse_square_root, train
from course_tools.lectures.lecture_05.data import verses

PAIRS, WIDTH, MERGES, BATCH, MOST = 10_000, 128, 2_000, 32, 60
UPDATES, RATE, WARMUP, EVERY, DROPOUT = 2_500, 3e-3, 500, 250, 0.1
TRANSFORMERS = {
    "Transformer, pre-norm": (pre_norm, 4 * WIDTH, 2),
    "Transformer, post-norm": (post_norm, 4 * WIDTH, 2),
    "Transformer, 3 blocks": (pre_norm, 5 * WIDTH, 3),
}
NETWORKS = *TRANSFORMERS, "GRU with attention"
SETTINGS = {kind: kind for kind in ("copying", "nearest source", *NETWORKS)}
SEEDS = (0, 1)
TOLERANCE = {"BLEU": 1.5, "held-out BLEU": 1.5, "curve": 2.0, "best update": 3_000}
SHOWN = range(6)


def run(setting, seed, device):
    """Translate 500 verses: BLEU there and on held-out ones, that along the way, and a few of the translations."""
    pairs = verses(300, 500, most_words=20)
    known = pairs.train[:PAIRS]
    torch.manual_seed(seed)
    texts = {}
    if setting == "copying":
        translate, report = list, {}
        texts = {f"reference {i}": pairs.test[i].target for i in SHOWN}
    elif setting == "nearest source":
        forms = {"words": {"ngram_range": (1, 2)}, "letters": {"analyzer": "char_wb", "ngram_range": (2, 5)}}
        lookups = [partial(nearest, known, form) for form in forms.values()]
        translate, report = max(lookups, key=lambda lookup: score(lookup, pairs.valid)), {}
    else:
        translate, report = learned(setting, known, pairs.valid, seed, device)
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
    model = untrained(kind, len(symbols)).to(device)

    def loss(model, chosen):
        T_k, T = lengths[chosen].max(), target_lengths[chosen].max()
        given = [part.to(device) for part in (source[chosen, :T_k], lengths[chosen], target[chosen, :T])]
        output = model(*given)
        return label_smoothed_loss(output if kind in TRANSFORMERS else output.logits, given[2], PADDING)

    translate = partial(translated, model, pieces, symbols, device)
    curve, best = {}, {}
    stream = similar_lengths(lengths + target_lengths, seed)
    for step in train(model, stream, loss, steps=UPDATES, lr=RATE, warmup=WARMUP, schedule=inverse_square_root):
        if (step.index + 1) % EVERY == 0:
            model.eval()
            curve[step.index + 1] = score(partial(translate, 1), valid)
            model.train()
            if max(curve.values()) == curve[step.index + 1]:
                best = deepcopy(model.state_dict())
    model.load_state_dict(best)
    model.eval()
    report = {"curve": curve, "best update": max(curve, key=curve.get)}
    report |= {"parameters": sum(p.numel() for p in model.parameters()), "pieces": len(symbols)}
    return partial(translate, 4), report


def untrained(kind, n):
    """A model of n pieces, with one embedding for both languages."""
    words = nn.Embedding(n, WIDTH)
    if kind in TRANSFORMERS:
        residual, d_ff, n_blocks = TRANSFORMERS[kind]
        sizes = Sizes(WIDTH, 4, d_ff, n_blocks)
        mechanisms = {"mechanism": fused_scaled_dot_product_attention, "causal": fused_causal_attention}
        return Transformer(words, words, sizes, **mechanisms, residual=residual, dropout=DROPOUT)
    encoder = Encoder(n, WIDTH, WIDTH, stacked_bidirectional_gru)
    decoder = BahdanauDecoder(n, WIDTH, WIDTH, 2 * WIDTH, WIDTH, hoisted_bahdanau_steps)
    encoder.embedding = decoder.embedding = nn.Sequential(words, nn.Dropout(DROPOUT))
    decoder.readout = nn.Sequential(nn.Dropout(DROPOUT), decoder.readout)
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
    """BLEU on held-out verses through the updates, and that of looking up."""
    from course_tools.notebook import plots

    curves = {kind: study.curve(kind) for kind in NETWORKS if kind in study.names}
    nearest = study.mean("nearest source", "held-out BLEU")
    labels = "update", "BLEU, held-out verses", "greedy decoding, as recorded"
    drawn = plots.curves(curves, *labels, across={"nearest source": nearest})
    drawn.axes[0].set_ylim(bottom=0)
    said = "; ".join(
        f"{kind} {values[0]:.1f} after {updates[0]:,} updates, {values[-1]:.1f} after {updates[-1]:,}"
        for kind, (updates, values) in curves.items()
    )
    return drawn, f"BLEU of held-out verses: {said}; the nearest source has {nearest:.1f}."


def finding(study):
    """BLEU of each translator by a beam of four, and when a network was best."""
    said = []
    for name in study.names:
        scores = ", ".join(f"{score:.1f}" for score in study.scores(name, "BLEU"))
        best = f" (best after {study.mean(name, 'best update'):,.0f} updates)" if name in NETWORKS else ""
        said.append(f"{name} {scores}{best}")
    return f"BLEU on 500 unseen verses, by seed: {'; '.join(said)}."
