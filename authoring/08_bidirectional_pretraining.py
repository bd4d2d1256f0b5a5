# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] tags=["header"]
# # 08 · Bidirectional pre-training: ELMo, BERT
#
# **The claim.** A small BERT that has restored masked pieces of two thousand names, without a single label, learns from five labels a language to tell
# eight languages apart: far better than the same network from scratch, and better than TF-IDF with the same labels. With shuffled labels it is at
# chance. BERT's second task, next sentence, is learned too and does not help here: that is measured as well.
#
# **You need** lectures 04 (self-attention), 05 (the Transformer) and 07 (language models). **Time:** about 90 minutes. {measured}


# %%
import copy
import math
from collections import Counter
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import mean

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from course_lib.analysis import HeadStatistics, record
from course_lib.attention import fused_scaled_dot_product_attention, scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.datasets import BEGIN, END, PADDING, BytePairs, Vocabulary, display_names, pad, word_pieces
from course_lib.datasets.display_names import LANGUAGES
from course_lib.losses import Masked, Segmented, SentencePairs
from course_lib.models import BERT, ELMo, NGram, PretrainingBERT, SentenceHead, SpanHead, TagHead, best_span
from course_lib.models.bert_heads import BertStates
from course_lib.pretrained import load_bert
from course_lib.shapes import Lengths, Tokens
from course_lib.training import batches, train
from course_tools.notebook import at_scale, check, claim, device, explore, ledger, plots, predict, progress, show

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 What stands behind
#
# Programs show names of places and time zones in every language: *heure normale d'Europe centrale*, *keskinen normaaliaika*. Take such a name and make
# one letter illegible. GPT reads from left to right, and to guess the letter it may use what stands **before** it. A reader would look at both sides.
#
# The tables of lecture 07 can say what that costs. Both see four letters: one the four before the gap, one two before and two behind.

# %% [markdown] tags=["predict"]
# **Predict.** The number of letters is the same. How many bits does the missing letter cost, with two letters on either side against four before it?
#
# <details><summary>A. About as many: four letters are four letters.</summary>
#
# A letter ties to its neighbours most of all. The third and fourth before it add little; the first behind it adds much.</details>
# <details><summary>B. Clearly fewer.</summary>
#
# Yes. What follows a letter constrains it as much as what precedes it.</details>
# <details><summary>C. More: languages are written from left to right.</summary>
#
# Written, yes. The statistics of neighbours do not care in which direction a hand moved.</details>

# %%
names = display_names(5, 60, seed=SEEDS[0])
texts = [name.text for name in names.train]
print(f"{len(names.train):,} names to learn from, {len(names.test)} to test on, in {len(LANGUAGES)} languages")
for name in names.train[::250]:
    print(f"{LANGUAGES[name.language]}  {name.text}")

# %%
gap = " " * 4
letters = Vocabulary.of([gap.join(texts)])


def missing_letter(order):
    """Bits that a missing letter of a new name costs a table that sees the places `order` of five; the last one is missing."""
    known, new = (
        torch.tensor(letters.encode(gap.join(part))).unfold(0, 5, 1)[:, order] for part in (texts, [n.text for n in names.test])
    )
    asked = new[new[:, -1] != letters.encode(" ")[0]]
    return -NGram(known, len(letters)).probability(asked).log2().mean().item()


one_side, both_sides = missing_letter([0, 1, 2, 3, 4]), missing_letter([0, 4, 1, 3, 2])
print(f"a missing letter costs {one_side:.2f} bits from the four before it, {both_sides:.2f} from two on either side")

# %% tags=["nbval-check-output"]
claim(
    "08.a",
    "bits that a missing letter costs more from four letters before it than from two on either side",
    one_side - both_sides,
    at_least=0.2,
)

# %% [markdown]
# ## 2 Two readers that never meet
#
# Why not train a language model that looks both ways? Because it would see the answer: from the second layer on, the neighbours of a word know the
# word. **ELMo** therefore trains *two* language models, LSTMs that read in opposite directions, and joins what they say about each word. A task then takes
# all layers, mixed by weights that it learns (eq. 1):
#
# $$\mathrm{ELMo}_k = \gamma \sum_{j} s_j\, h_{k,j} \qquad s = \mathrm{softmax}(w) \qquad h_{k,j} = [\overrightarrow{h}_{k,j};\ \overleftarrow{h}_{k,j}]$$
#
# | name | shape |
# | --- | --- |
# | `layers` | (…, n_layers, d): the embedding and each layer, for each word |
# | `w`, `gamma` | (n_layers,), () |
# | result | (…, d) |

# %% exercise="08.1" difficulty="●○○" minutes=8
from course_lib.models import scalar_mix

# %% tags=["nbval-check-output"]
scalar_mix = check("08.1", scalar_mix)

# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
elmo, sentence = ELMo(50, 16, 2), torch.randint(4, 50, (1, 9))
changed, n = sentence.clone(), torch.tensor([9])
changed[:, 6:] = torch.randint(4, 50, (1, 3))
with torch.no_grad():
    said, said_of_changed = (elmo.language_models(text, n).next[:, :6] for text in (sentence, changed))
    word, word_in_changed = (scalar_mix(elmo(text, n), torch.zeros(3), torch.ones(()))[:, 5] for text in (sentence, changed))
claim(
    "08.b",
    "what the words behind change in what ELMo's forward model says",
    (said - said_of_changed).abs().max().item(),
    equals=0.0,
)
moved = (word - word_in_changed).abs()
claim(
    "08.c",
    "features of ELMo's mixture that the words behind change, of 32: those of the other direction",
    (moved > 0).sum().item(),
    equals=16,
)

# %% [markdown]
# Each direction is deep, their meeting is shallow: half of the features know one side, half the other, and no layer ever combined a word on the left with one
# on the right.
#
# ## 3 Take words out
#
# **BERT** looks both ways in every layer and keeps the answer out by *removing* it. Of the words (pieces of words, in fact), 15 % are **chosen**; the model is asked
# for these alone. A chosen word becomes
#
# | share of the chosen | becomes | fate |
# | --- | --- | --- |
# | 80 % | [MASK] | < 0.8 |
# | 10 % | some other word | 0.8 … 0.9 |
# | 10 % | stays as it is | ≥ 0.9 |
#
# All chance comes in as tensors of numbers in 0…1: `choice` says which words, where it is below the `rate`, `fate` what becomes of them. [CLS], [SEP] and padding
# are not `eligible`.

# %% exercise="08.2" difficulty="●●○" minutes=12
from course_lib.losses import corrupt

# %% tags=["nbval-check-output"]
corrupt = check("08.2", corrupt)

# %% [markdown] tags=["predict"]
# **Predict.** EE writes: "[15 % of] words which have been replaced with a MASK token." How many words of a text *are* [MASK] after all this?
#
# <details><summary>A. 15 %.</summary>
#
# That many are asked for.</details>
# <details><summary>B. 12 %.</summary>
#
# Yes, 80 % of 15 %. And 13.5 % differ from the text, or nearly: a random word may happen to be the right one.</details>
# <details><summary>C. 80 %.</summary>
#
# That is the share among the chosen.</details>

# %% tags=["nbval-check-output"]
pieces = BytePairs.learn(texts, 600)
words = Vocabulary.of([pieces.cut(text) for text in texts], between=" ")
MASK = len(words)
print(pieces.cut(texts[300]), "|", pieces.cut("mitteleuropäische normalzeit"))


def corrupted(tokens, rate, always=False):
    """Take words out of a batch, by the exercise; `always` writes [MASK] at every chosen place."""
    eligible = (tokens != PADDING) & (tokens != BEGIN) & (tokens != END)
    choice, fate = torch.rand(2, *tokens.shape, device=tokens.device)
    return corrupt(tokens, eligible, MASK, choice, fate * 0 if always else fate, torch.randint_like(tokens, 4, MASK), rate)


torch.manual_seed(SEEDS[0])
whole_text = torch.tensor(words.encode(pieces.cut(" ".join(texts))))[None]
masked = corrupted(whole_text, 0.15)
claim("08.d", "share of the words that are asked for", masked.chosen.float().mean().item(), between=(0.13, 0.17))
claim("08.e", "share of the words that are [MASK] now", (masked.tokens == MASK).float().mean().item(), between=(0.105, 0.135))

# %% [markdown]
# The loss is the cross-entropy of the *true* words, averaged over the chosen places of the whole batch, those that stayed included:
#
# $$L = -\frac{1}{|C|} \sum_{(b,t) \in C} \log p(x_{b,t} \mid \text{corrupted text})$$
#
# | name | shape |
# | --- | --- |
# | `logits` | (B, T, n_tokens); those at t are about the word *at* t |
# | `tokens` | (B, T): the true words |
# | `chosen` | (B, T) bool |

# %% exercise="08.3" difficulty="●○○" minutes=6
from course_lib.losses import mlm_loss

# %% tags=["nbval-check-output"]
mlm_loss = check("08.3", mlm_loss)

# %% [markdown]
# ## 4 Two sentences
#
# Many tasks are about *two* texts: a question and a passage, a claim and its evidence. BERT reads them as one sequence, `[CLS] first [SEP] second [SEP]`, and adds to every token
# a vector that says which of the two it belongs to (figure 2):
#
# $$h_0 = \mathrm{Norm}(E_{\text{token}} + S_{\text{segment}} + P_{\text{position}})$$
#
# `begin` is the index of [CLS], `separate` that of [SEP]. The result is `Segmented(tokens, segments)`, integers (T,) each: the segments are 0 up to and with the [SEP] behind the first
# sentence, then 1. A second sentence may be missing (None), or be there without a word.

# %% exercise="08.4" difficulty="●●○" minutes=10
from course_lib.losses import segment_input

# %% tags=["nbval-check-output"]
segment_input = check("08.4", segment_input)

# %% [markdown]
# ### Bug hunt
#
# It finds the border between the sentences by itself, and on ordinary texts it looks right. Which property breaks, and what text would show it? Say it before you run the
# check; then mend it.

# %% exercise="08.4" bug="looks_for_the_separator"
from course_tools.bank.lecture_08.segment_input import looks_for_the_separator as suspect

# %% tags=["nbval-check-output"]
suspect = check("08.4", suspect)

# %% exercise="08.4" difficulty="●○○" minutes=5
from course_lib.losses import segment_input as mended

# %% tags=["nbval-check-output"]
mended = check("08.4", mended)

# %% [markdown]
# And BERT has a second task, **next sentence**: half of the pairs belong together, half have a stranger for their second. Each sentence $i$ with another of its document behind it makes
# a pair. Below ½, its coin keeps sentence $i+1$; else its pick chooses number $\lfloor \text{pick} \cdot M \rfloor$ of the $M$ sentences of all *other* documents (the last where pick is 1).
#
# | name | shape |
# | --- | --- |
# | `document` | (n,): the document of each sentence, any integers |
# | `coins`, `picks` | (n_pairs,) in 0…1 |
# | result | `SentencePairs(first, second, follows)`, (n_pairs,) each |
#
# Take it as given that there are as many coins and picks as pairs, and a second document: the errors that the docstring names are never asked for.

# %% exercise="08.5" difficulty="●●●" minutes=20
from course_lib.losses import nsp_pairs

# %% tags=["nbval-check-output"]
nsp_pairs = check("08.5", nsp_pairs)


# %%
def passages(part, offset, n_names=4):
    """Cut each document into passages of n_names names, starting at `offset`: (document, pieces) for each."""
    found = []
    for document, group in groupby(part, key=lambda name: name.document):
        coded = [torch.tensor(words.encode(pieces.cut(name.text))) for name in group][offset:]
        found += [(document, torch.cat(coded[i : i + n_names])[:24]) for i in range(0, len(coded), n_names)]
    return found


def laid_out(rows):
    """Lay rows (first, second or None) out as BERT reads them: tokens, segments (B, T) and lengths (B,)."""
    both = [segment_input(*row, BEGIN, END) for row in rows]
    tokens, lengths = pad([tokens.tolist() for tokens, _ in both])
    return tokens, pad([segments.tolist() for _, segments in both])[0], lengths


def pairs_of(part, seed, strangers=True):
    """Pairs of passages from all four offsets: tokens, segments, lengths, and the class: 0 = it follows, 1 = a stranger."""
    generator, rows, classes = torch.Generator().manual_seed(seed), [], []
    for offset in range(4):
        document, coded = zip(*passages(part, offset), strict=True)
        document = torch.tensor(document)
        coins, picks = torch.rand(2, int((document[1:] == document[:-1]).sum()), generator=generator)
        first, second, follows = nsp_pairs(document, coins if strangers else coins * 0, picks)
        rows += [(coded[i], coded[j]) for i, j in zip(first.tolist(), second.tolist(), strict=True)]
        classes += (~follows).long().tolist()
    return *laid_out(rows), torch.tensor(classes)


example = pairs_of(names.train, SEEDS[0])
for tokens, follows in zip(example[0][:300:50], example[3][:300:50], strict=True):
    said = [
        pieces.join(words.decode([t for t in part if t not in (BEGIN, END)]))
        for part in torch.tensor_split(tokens, (tokens == END).nonzero()[:1, 0])
    ]
    print("follows " if follows == 0 else "stranger", said[0][:48], "|", said[1][:48])

# %% [markdown]
# ## 5 Pre-train
#
# Three pre-trainings on the same names, with no label: masked words alone; masked words and next sentence; and masked words where every chosen one becomes [MASK] (for section 10).
# In the first and the last, every second passage really follows. The head for words
# need only speak at the chosen places, which saves a fifth of the time. The rate is 40 %, not 15 %: with a few hundred steps each must ask for more, and even large models gain from it
# (Wettig et al.).

# %% [markdown] tags=["predict"]
# **Predict.** A masked piece is one of some six hundred, so the first steps cost about $\ln 600 = 6.4$ nats. And after all steps?
#
# <details><summary>A. Below 1: with both sides in view, a missing piece is nearly certain.</summary>
#
# In a long English sentence it often is. In a list of names of places, who could say which place comes next?</details>
# <details><summary>B. Between 4 and 5.5: it learns what is likely in this language, hardly more.</summary>
#
# Yes. One of eight languages has far fewer pieces to choose from than all of them. That is little, and it is just what section 6 will need.</details>
# <details><summary>C. As before: there is nothing to learn in names.</summary>
#
# There is: *▁heure* in the neighbourhood makes *▁de* likely and *-zeit* not.</details>

# %%
sizes = at_scale(cpu=Sizes(64, 4, 128, 2), gpu=Sizes(128, 4, 512, 4))
steps, lr = at_scale(cpu=500, gpu=4_000), at_scale(cpu=4.5e-3, gpu=1e-3)


def new_bert(mechanism=fused_scaled_dot_product_attention):
    """A BERT for our pieces, [MASK] and two segments."""
    return BERT(len(words) + 1, 64, sizes, mechanism)


def of_words_and_pairs(model, batch, next_sentence, always):
    """The loss of masked words, with that of next sentence where asked; and the first of them alone."""
    tokens, segments, lengths, follows = (part[:, : batch[2].max()] if part.dim() == 2 else part for part in batch)
    text, chosen = corrupted(tokens, 0.4, always)
    states = model.bert(text, segments, lengths)
    said = model.words(states[chosen], model.bert.tokens.weight)
    of_words = mlm_loss(said[None], tokens[chosen][None], chosen[chosen][None])
    return of_words + next_sentence * F.cross_entropy(model.follows(states), follows), {"words": of_words.item()}


def pretrain(seed, next_sentence=False, always=False):
    """Pre-train a new model; give it with the loss of its masked words at each step."""
    torch.manual_seed(seed)
    model = PretrainingBERT(new_bert()).to(device())
    data = [part.to(device()) for part in pairs_of(names.train, seed, strangers=next_sentence)]
    stream, loss = (
        batches(*data, batch_size=16, seed=seed),
        partial(of_words_and_pairs, next_sentence=next_sentence, always=always),
    )
    training = progress(train(model, stream, loss, steps=steps, lr=lr, warmup=steps // 10), f"pre-training, seed {seed}", steps)
    losses = [step.metrics["words"] for step in training]
    return model.eval(), losses


masked_only = {seed: pretrain(seed) for seed in SEEDS}

# %% tags=["nbval-check-output"]
curves = {
    f"seed {seed}": [mean(losses[i : i + 25]) for i in range(0, steps - 24, 25)] for seed, (_, losses) in masked_only.items()
}
first, last = (mean(curve[i] for curve in curves.values()) for i in (0, -1))
claim("08.f", "loss of the first steps over ln n_tokens: it knows nothing yet", first / math.log(MASK + 1), between=(0.85, 1.1))
claim("08.g", "nats a masked piece that pre-training gains, mean of the seeds", first - last, at_least=0.8)

# %%
show(
    plots.curves(
        {name: (range(25, 25 * len(curve) + 1, 25), curve) for name, curve in curves.items()},
        "steps",
        "nats a masked piece",
        across={"an even guess": math.log(MASK + 1)},
    ),
    alt=f"Loss of masked pieces in pre-training, three seeds: from {first:.2f} nats, about an even guess, to {last:.2f}.",
)

# %% tags=["try-it"]
# Try it: a piece of your choice is taken out; the likeliest five for its place.
text, place = "mitteleuropäische normalzeit", 4
row, segments, lengths = (part.to(device()) for part in laid_out([(torch.tensor(words.encode(pieces.cut(text))), None)]))
row[0, place] = MASK
with torch.no_grad():
    odds = masked_only[SEEDS[0]][0](row, segments, lengths).words[0, place].softmax(-1)
print(
    pieces.cut(text).split()[place - 1],
    "→",
    ", ".join(f"{words.symbols[i]} {odds[i]:.2f}" for i in odds[:MASK].topk(5).indices.tolist()),
)

# %% [markdown]
# ## 6 Five labels a language
#
# Now the task: whose language is it? **Fine-tuning** puts a small head on [CLS], which stands for the whole text, and trains *everything* on the few labels (section 3.2):
#
# $$\text{logits} = W \tanh(W_p\, h_{[\mathrm{CLS}]} + b_p) + b$$
#
# | name | shape, as `torch.nn.Linear` stores it |
# | --- | --- |
# | `states` | (B, T, d_model): [CLS] stands first |
# | `W_p`, `b_p` | (d_p, d_model), (d_p,) |
# | `W`, `b` | (n_classes, d_p), (n_classes,) |

# %% exercise="08.6" difficulty="●○○" minutes=6
from course_lib.models import classification_head

# %% tags=["nbval-check-output"]
classification_head = check("08.6", classification_head)

# %% [markdown] tags=["predict"]
# **Predict.** Forty labelled names, five in each of eight languages; chance is one in eight. Order, the worst first: a BERT from scratch, TF-IDF of letter groups (a linear model), a pre-trained BERT.
# From scratch it may train on them for 150 steps, pre-trained for 60.
#
# <details><summary>A. The two BERTs, then TF-IDF: forty labels are too few for a network.</summary>
#
# For a network that knows nothing, they are.</details>
# <details><summary>B. Scratch, TF-IDF, pre-trained.</summary>
#
# Yes. The labels need not teach what the languages look like, only what they are called.</details>
# <details><summary>C. TF-IDF ahead of both by far: languages are told by their letters.</summary>
#
# They are, and forty names hold few of these letter groups. Of the other names TF-IDF is told only how rare each group is; BERT has also learned from them which pieces stand together.</details>


# %%
class Reader(nn.Module):
    """BERT with your head for sentences."""

    def __init__(self, bert, n_classes):
        super().__init__()
        self.bert, self.head = bert, SentenceHead(sizes.d_model, n_classes)

    def forward(self, tokens, segments, lengths):
        pool, classify = self.head.pool, self.head.classify
        return classification_head(self.bert(tokens, segments, lengths), pool.weight, pool.bias, classify.weight, classify.bias)


def coded(part):
    """Names, one to a row, and their languages."""
    rows = laid_out([(torch.tensor(words.encode(pieces.cut(name.text))), None) for name in part])
    return [part.to(device()) for part in (*rows, torch.tensor([name.language for name in part]))]


def labelled(seed, n_each=5):
    """The few names whose language we are told."""
    drawn = torch.randperm(len(names.train), generator=torch.Generator().manual_seed(seed)).tolist()
    return [
        name for i in range(len(LANGUAGES)) for name in [names.train[j] for j in drawn if names.train[j].language == i][:n_each]
    ]


def tuned(bert, data, seed, steps=60, lr=2e-3):
    """Fine-tune a copy of an encoder, head and all, on a few labelled names."""
    torch.manual_seed(seed)
    model = Reader(copy.deepcopy(bert), len(LANGUAGES)).to(device())
    stream = batches(*data, batch_size=20, seed=seed)
    for _ in train(
        model, stream, lambda model, batch: F.cross_entropy(model(*batch[:3]), batch[3]), steps=steps, lr=lr, warmup=steps // 10
    ):
        pass
    return model.eval()


@torch.no_grad()
def right(model, data):
    """The share of names whose language is told rightly."""
    return (model(*data[:3]).argmax(-1) == data[3]).float().mean().item()


# %%
def tf_idf(part, known):
    """Groups of one to three letters of each text, weighed by how rare they are among the known texts: rows of length 1."""
    groups = [Counter(f" {name.text} "[i : i + n] for n in (1, 2, 3) for i in range(len(name.text) + 3 - n)) for name in part]
    rows = torch.zeros(len(part), len(known))
    for row, group in zip(rows, groups, strict=True):
        for letters_, n in group.items():
            if letters_ in known:
                i, n_texts = known[letters_]
                row[i] = n * (math.log((1 + len(names.train)) / (1 + n_texts)) + 1)
    return F.normalize(rows, dim=-1)


n_texts = Counter(
    g for name in names.train for g in {f" {name.text} "[i : i + n] for n in (1, 2, 3) for i in range(len(name.text) + 3 - n)}
)
known = {group: (i, n) for i, (group, n) in enumerate(n_texts.items())}
test, answers = coded(names.test), torch.tensor([name.language for name in names.test])
test_rows, results = (
    tf_idf(names.test, known),
    {name: [] for name in ("from scratch", "TF-IDF", "pre-trained", "pre-trained, labels shuffled")},
)
for seed, (model, _) in masked_only.items():
    few = coded(labelled(seed))
    x, y = tf_idf(labelled(seed), known), F.one_hot(few[3].cpu(), len(LANGUAGES)).float()
    results["TF-IDF"].append(
        ((test_rows @ x.mT @ torch.linalg.solve(x @ x.mT + 0.1 * torch.eye(len(x)), y)).argmax(1) == answers)
        .float()
        .mean()
        .item()
    )
    results["pre-trained"].append(right(tuned(model.bert, few, seed), test))
    torch.manual_seed(seed)
    results["from scratch"].append(right(tuned(new_bert(), few, seed, steps=150), test))
    shuffled = [*few[:3], few[3][torch.randperm(len(few[3]), generator=torch.Generator().manual_seed(seed)).to(device())]]
    results["pre-trained, labels shuffled"].append(right(tuned(model.bert, shuffled, seed), test))
show(
    plots.seeds(results, "languages told rightly", across={"chance": 1 / len(LANGUAGES)}),
    alt="Share of new names whose language is told from five labels each, three seeds: "
    + ", ".join(f"{name} {mean(shares):.2f}" for name, shares in results.items())
    + ".",
)

# %% tags=["nbval-check-output"]
of = {name: mean(shares) for name, shares in results.items()}
claim("08.h", "languages told rightly by the pre-trained BERT, mean of the seeds", of["pre-trained"], at_least=0.5)
claim(
    "08.i",
    "what pre-training adds over the same network from scratch, worst of the seeds",
    min(a - b for a, b in zip(results["pre-trained"], results["from scratch"], strict=True)),
    at_least=0.12,
)
claim(
    "08.j",
    "what pre-trained BERT adds over TF-IDF with the same labels, mean of the seeds",
    of["pre-trained"] - of["TF-IDF"],
    at_least=0.0,
)
claim(
    "08.k",
    "with shuffled labels: languages told rightly, mean of the seeds; chance is 0.125",
    of["pre-trained, labels shuffled"],
    at_most=0.24,
)

# %% [markdown] tags=["predict"]
# ELMo's way is another: leave the model as it is, take its layers as *features* (here their mean over the pieces), and train your mixture and a linear map. It is cheap: every name is read once.
#
# **Predict.** Which layers does the mixture weigh least: the embedding, the middle, the top?
#
# <details><summary>A. The top: it is busy with masked words.</summary>
#
# So it often is in deep models, whose middle layers serve other tasks better. Ours has two.</details>
# <details><summary>B. The embedding.</summary>
#
# Yes. It knows which piece stands there, not in which company.</details>
# <details><summary>C. All weigh the same.</summary>
#
# They start so.</details>


# %% tags=["nbval-check-output"]
class Mixture(nn.Module):
    """Your mixture over the layers of a model that stays as it is, and a linear map."""

    def __init__(self, n_layers, d, n_classes):
        super().__init__()
        self.w, self.gamma, self.classify = (
            nn.Parameter(torch.zeros(n_layers)),
            nn.Parameter(torch.ones(())),
            nn.Linear(d, n_classes),
        )

    def forward(self, layers):
        return self.classify(scalar_mix(layers, self.w, self.gamma))


@torch.no_grad()
def layers_of(bert, tokens, segments, lengths):
    """What each layer makes of a text, the embedding included, averaged over its real tokens: (B, n_layers + 1, d_model)."""
    x = bert.norm(bert.tokens(tokens) + bert.segments(segments) + bert.positions(tokens.shape[1]))
    real, layers = (torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None])[..., None], [x]
    for block in bert.stack.blocks:
        layers.append(block(layers[-1], real.mT))
    return torch.stack([(layer * real).sum(1) / real.sum(1) for layer in layers], 1)


frozen, shares = [], []
for seed, (model, _) in masked_only.items():
    torch.manual_seed(seed)
    few, mixture = coded(labelled(seed)), Mixture(sizes.n_layers + 1, sizes.d_model, len(LANGUAGES)).to(device())
    stream = batches(layers_of(model.bert, *few[:3]), few[3], batch_size=20, seed=seed)
    for _ in train(mixture, stream, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]), steps=150, lr=2e-2):
        pass
    frozen.append((mixture(layers_of(model.bert, *test[:3])).argmax(-1) == test[3]).float().mean().item())
    shares.append(mixture.w.softmax(0).tolist())
print("share of each layer:", ", ".join(f"{mean(share):.2f}" for share in zip(*shares, strict=True)))
claim("08.l", "frozen layers, mixed: languages told rightly, mean of the seeds", mean(frozen), at_least=0.4)
claim(
    "08.m",
    "what fine-tuning everything adds over frozen layers, mean of the seeds",
    of["pre-trained"] - mean(frozen),
    between=(-0.1, 0.25),
)

# %% [markdown]
# ## 7 The second task
#
# Now with next sentence beside the masked words: [CLS] is asked whether the second passage follows the first.

# %% [markdown] tags=["predict"]
# **Predict.** A stranger comes from another document, nearly always of another *language*. So the second task asks for the very thing that section 6 will ask for. What does it do to the
# languages told from five labels?
#
# <details><summary>A. It helps a lot: [CLS] learns to hold the language.</summary>
#
# It learns whether *two* passages go together. Which language it is need not stand in [CLS] for that.</details>
# <details><summary>B. It helps a little: more training signal.</summary>
#
# The signal costs something. Half of the passages now stand beside a stranger, and the masked words find less help there.</details>
# <details><summary>C. It does not help.</summary>
#
# Yes: there is no gain, rather a small loss on average, and a single seed may go either way. The published BERT kept the task; RoBERTa measured it again, on full-length text, and dropped it (Liu et al., table 2).</details>

# %%
with_next = {seed: pretrain(seed, next_sentence=True)[0] for seed in SEEDS[:2]}
told, languages = [], {"masked words": [], "and next sentence": []}
for seed in with_next:
    with torch.no_grad():
        *pair, follows = (part.to(device()) for part in pairs_of(names.test, 99))
        told.append((with_next[seed](*pair).follows.argmax(-1) == follows).float().mean().item())
    for name, model in (("masked words", masked_only[seed][0]), ("and next sentence", with_next[seed])):
        languages[name] += [right(tuned(model.bert, coded(labelled(10 * seed + draw)), draw), test) for draw in range(3)]
show(
    plots.seeds(
        {"pairs told apart": told, **{f"languages, {name}": shares for name, shares in languages.items()}}, "share right"
    ),
    alt=f"New pairs of passages told apart by next-sentence prediction, two seeds: {mean(told):.2f}. Languages told from five labels, six draws: "
    + ", ".join(f"{mean(shares):.2f} after {name}" for name, shares in languages.items())
    + ".",
)

# %% tags=["nbval-check-output"]
gained = mean(languages["and next sentence"]) - mean(languages["masked words"])
claim("08.n", "new pairs told apart: mean of the seeds; a coin has 0.5", mean(told), at_least=0.57)
claim("08.o", "what next sentence adds to the languages told rightly, mean over seeds and labels", gained, at_most=0.04)

# %% [markdown]
# ## 8 A head for every task
#
# The encoder stays, the head changes (figure 4). **Sentence** and **pair** you have seen. A **tag** head asks every token (CoNLL: is this word part of a name?), a **span** head asks where an answer starts and where
# it ends (SQuAD), with two vectors that are compared with each token:
#
# $$p(\text{tag of } i) = \mathrm{softmax}(W T_i + b) \qquad p(\text{start} = i) = \mathrm{softmax}_i(S \cdot T_i) \quad p(\text{end} = i) = \mathrm{softmax}_i(E \cdot T_i)$$
#
# Our texts for both are two names in two languages, in a row. Tags: the language of *each* piece. Span: the question is the code of a language, such as `fi`, and the answer is the name in
# *that* language. For the tags, the forty labelled names must do; for the spans, all names of the training part may be used with their languages. Compared are a fresh and a pre-trained encoder, equal
# steps.

# %% [markdown] tags=["predict"]
# **Predict.** Which of the two gains from pre-training?
#
# <details><summary>A. The spans alone: for the tags, every piece of a text brings a label.</summary>
#
# So it does, but the pieces of forty names are few, and of all others a fresh encoder knows nothing.</details>
# <details><summary>B. Both.</summary>
#
# Yes. A pre-trained encoder knows which pieces go together in a language, and both tasks ask for just that.</details>
# <details><summary>C. Neither: the heads are new in both cases.</summary>
#
# The heads are the smallest part.</details>


# %%
def mixed(part, n, seed):
    """Rows of a language's code and two names, one of them in that language: tokens, segments, lengths, tags (B, T), ends (B, 2)."""
    generator, rows, tags, ends = torch.Generator().manual_seed(seed), [], [], []
    by_language = [[name.text for name in part if name.language == i] for i in range(len(LANGUAGES))]
    for _ in range(n):
        chosen = torch.randperm(len(LANGUAGES), generator=generator)[:2].tolist()
        drawn = [by_language[i][int(torch.randint(len(by_language[i]), (), generator=generator))] for i in chosen]
        asked = int(torch.randint(2, (), generator=generator))
        question, *both = (torch.tensor(words.encode(pieces.cut(text)))[:12] for text in (LANGUAGES[chosen[asked]], *drawn))
        start = len(question) + 2 + asked * len(both[0])
        rows.append((question, torch.cat(both)))
        ends.append((start, start + len(both[asked]) - 1))
        tags.append([-100] * (len(question) + 2) + [i for i, name in zip(chosen, both, strict=True) for _ in name] + [-100])
    return [part.to(device()) for part in (*laid_out(rows), pad(tags, -100)[0], torch.tensor(ends))]


class Headed(nn.Module):
    """BERT with a head that reads all states."""

    def __init__(self, bert, head):
        super().__init__()
        self.bert, self.head = bert, head

    def forward(self, tokens, segments, lengths):
        states = self.bert(tokens, segments, lengths)
        return self.head(states, lengths) if isinstance(self.head, SpanHead) else self.head(states)


def of_tags(model, batch):
    return F.cross_entropy(model(*batch[:3]).flatten(0, 1), batch[3].flatten(), ignore_index=-100)


def of_spans(model, batch):
    span = model(*batch[:3])
    return F.cross_entropy(span.start, batch[4][:, 0]) + F.cross_entropy(span.end, batch[4][:, 1])


@torch.no_grad()
def tags_right(model, data):
    """The share of pieces that are tagged rightly."""
    asked = data[3] != -100
    return (model(*data[:3]).argmax(-1) == data[3])[asked].float().mean().item()


@torch.no_grad()
def spans_right(model, data):
    """The share of answers that are found from their first piece to their last."""
    start, end = best_span(model(*data[:3]), 12)
    return ((start == data[4][:, 0]) & (end == data[4][:, 1])).float().mean().item()


new_texts = mixed(names.test, 300, 2)
tasks = {
    "tags": (lambda: TagHead(sizes.d_model, len(LANGUAGES)), of_tags, tags_right, mixed(labelled(SEEDS[0]), 1_000, 1), 100),
    "spans": (lambda: SpanHead(sizes.d_model), of_spans, spans_right, mixed(names.train, 4_000, 1), 200),
}
found = {}
for task, (head, loss, score, data, n_steps) in tasks.items():
    for start in ("from scratch", "pre-trained"):
        torch.manual_seed(SEEDS[0])
        bert = new_bert() if start == "from scratch" else copy.deepcopy(masked_only[SEEDS[0]][0].bert)
        model = Headed(bert, head()).to(device())
        stream = batches(*data, batch_size=16, seed=SEEDS[0])
        for _ in progress(train(model, stream, loss, steps=n_steps, lr=2e-3, warmup=20), f"{task}, {start}", n_steps):
            pass
        found[f"{task}, {start}"] = score(model.eval(), new_texts)
show(
    plots.seeds(found, "share right"),
    alt="Share right on new texts of two names, few steps of fine-tuning: "
    + ", ".join(f"{name} {share:.2f}" for name, share in found.items())
    + ".",
)

# %% tags=["nbval-check-output"]
claim(
    "08.p",
    "pieces tagged with their language: pre-trained less from scratch, equal steps",
    found["tags, pre-trained"] - found["tags, from scratch"],
    at_least=0.02,
)
claim(
    "08.q",
    "answers found from first to last piece: pre-trained less from scratch, equal steps",
    found["spans, pre-trained"] - found["spans, from scratch"],
    at_least=0.03,
)

# %% [markdown]
# A pair is not new: next sentence *is* one, with the head of exercise 08.6 on [CLS]. GLUE's tasks are all of these two kinds, sentence or pair.
#
# ## 9 What heads look at
#
# Clark et al. looked at all 144 heads of BERT-base, and summed each up in a few numbers. With $\alpha_{ij}$ the weight that token $i$ gives to token $j$, averaged over the real tokens of a batch:
#
# $$\text{previous } \alpha_{i,i-1} \quad \text{current } \alpha_{i,i} \quad \text{following } \alpha_{i,i+1} \quad \text{delimiters } \sum_{j \in D} \alpha_{ij} \quad \text{entropy } -\sum_j \alpha_{ij} \log \alpha_{ij}$$
#
# | name | shape |
# | --- | --- |
# | `weights` | (B, h, T, T); rows of padding hold anything and do not count |
# | `delimiters`, `lengths` | (B, T) bool, (B,) |
# | result | `HeadStatistics` of five tensors (h,); previous and following over the tokens that have one |

# %% exercise="08.7" difficulty="●●●" minutes=20
from course_lib.analysis import head_statistics

# %% tags=["nbval-check-output"]
head_statistics = check("08.7", head_statistics)

# %% [markdown]
# Have you a BERT? Put the path of its folder here, as Hugging Face publishes it (`bert-base-uncased`: config.json, model.safetensors, vocab.txt). It is read without running any code of its own, and the figures below
# are then of the real one. Else they are of our small model.


# %%
CHECKPOINT = ""


def small_model():
    """Our pre-trained BERT with a mechanism that shows its weights, some new texts, and the pieces by their numbers."""
    shown = new_bert(scaled_dot_product_attention).to(device())
    shown.load_state_dict(masked_only[SEEDS[0]][0].bert.state_dict())
    coded = [name for _, name in passages(names.test, 0, n_names=1)]
    batch = [part.to(device()) for part in laid_out(list(zip(coded[0::20], coded[1::20], strict=True)))]
    return shown, *batch, batch[0] == END, ("[PAD]", "[CLS]", "[SEP]", "[UNK]", *words.symbols[4:], "[MASK]")


def published_model(folder):
    """A published BERT, the pairs of sentences below as its own vocabulary cuts them, and its pieces by their numbers."""
    shown = load_bert(folder)
    index = {piece: i for i, piece in enumerate((Path(folder) / "vocab.txt").read_text(encoding="utf-8").splitlines())}
    said = [[torch.tensor([index[piece] for piece in word_pieces(text, index)]) for text in pair] for pair in SENTENCES]
    both = [segment_input(*pair, index["[CLS]"], index["[SEP]"]) for pair in said]
    tokens, lengths = pad([tokens.tolist() for tokens, _ in both])
    return shown, tokens, pad([segments.tolist() for _, segments in both])[0], lengths, tokens == index["[SEP]"], tuple(index)


SENTENCES = (
    ("The keys of a dictionary are hashed.", "They must not change while they are in it."),
    ("A list can be changed in place; a tuple cannot.", "This is why a tuple may be a key."),
    ("An exception leaves the function at once.", "Whoever calls it may catch the exception, or let it pass."),
)
bert, tokens, segments, lengths, delimiters, symbols = published_model(CHECKPOINT) if CHECKPOINT else small_model()
which = (
    f"the published BERT in {CHECKPOINT}" if CHECKPOINT else f"our small BERT, {sizes.n_layers} layers of {sizes.n_heads} heads"
)
with record(bert) as seen, torch.no_grad():
    bert(tokens, segments, lengths)
every = [attended[0].weights for attended in seen.values()]
layers = [head_statistics(weights, delimiters, lengths) for weights in every]
numbers = {name: torch.cat([getattr(layer, name) for layer in layers]).cpu() for name in HeadStatistics._fields}
even = (1 / lengths).mean().item(), (delimiters.sum(1) / lengths).mean().item(), lengths.log().mean().item()
print(f"{which}: {len(numbers['current'])} heads, {int(lengths.sum())} tokens")

wanted = ("previous", "current", "following", "delimiters")
show(
    plots.seeds(
        {name: numbers[name] for name in wanted},
        "mean weight, a point a head",
        across={"even, one token": even[0], "even, all delimiters": even[1]},
    ),
    alt=f"Of {which}: the mean weight of each head on the token before ({numbers['previous'].min():.2f} to {numbers['previous'].max():.2f}), itself ({numbers['current'].min():.2f} to "
    f"{numbers['current'].max():.2f}), the token behind ({numbers['following'].min():.2f} to {numbers['following'].max():.2f}) and delimiters ({numbers['delimiters'].min():.2f} to "
    f"{numbers['delimiters'].max():.2f}); an even look would give {even[0]:.2f} and {even[1]:.2f}.",
)

# %%
n = int(lengths[0])
labels = [symbols[i] for i in tokens[0, :n].tolist()]
chosen = {
    f"{name}: {numbers[name].max():.2f}": divmod(int(numbers[name].argmax()), every[0].shape[1])
    for name in ("previous", "delimiters")
}
maps = {title: every[layer][0, head, :n, :n].cpu() for title, (layer, head) in chosen.items()}
show(
    plots.attention_maps(maps, labels, labels, x="token looked at", y="token that looks"),
    alt=f"The heads of {which} that look most at the token before and at delimiters, on one text. "
    + plots.describe(next(iter(maps.values())), labels, labels, 4),
)


# %% tags=["interactive"]
def draw_head(layer=1, head=1, text=1):
    """Draw what one head looks at in one text."""
    n = int(lengths[text - 1])
    weights = every[layer - 1][text - 1, head - 1, :n, :n].cpu()
    labels = [symbols[i] for i in tokens[text - 1, :n].tolist()]
    show(
        plots.attention_map(weights, labels, labels, x="token looked at", y="token that looks"),
        alt=f"Layer {layer}, head {head}. " + plots.describe(weights, labels, labels, 4),
    )


explore(draw_head, layer=(1, len(every)), head=(1, every[0].shape[1]), text=(1, len(tokens)))

# %% [markdown]
# Clark et al. found heads in BERT-base that put half their weight and more on the token before, on the token behind, and, in the middle layers, on [SEP]. In our small model there is none: its heads look broadly, as
# those of BERT's lowest layer do. A few hundred steps on names teach which pieces go together in a language; they do not teach a grammar, for which the neighbour would matter.

# %% tags=["nbval-check-output"]
if CHECKPOINT:
    print("These are the heads of a published model: compare with figure 2 of Clark et al.")
else:
    print(
        "Only the small model is here: it does not show what Clark et al. found in BERT-base. Put a folder into CHECKPOINT to see that."
    )
    closest = max(numbers["previous"].max().item(), numbers["following"].max().item())
    claim(
        "08.r",
        "mean weight on a neighbour, the head of our small model with most of it: no head for neighbours",
        closest,
        at_most=at_scale(cpu=0.3, gpu=1.0),
    )
    claim(
        "08.s",
        "entropy of our small model's heads over that of an even look, mean: they look broadly",
        numbers["entropy"].mean().item() / even[2],
        between=(at_scale(cpu=0.7, gpu=0.3), 1.0),
    )


# %% [markdown] tags=["predict"]
# ## 10 Always [MASK]
#
# **Predict.** A model for which *every* chosen word became [MASK] restores masked words as well. What does it know about a word that it can *see*?
#
# <details><summary>A. As much: it sees the word, after all.</summary>
#
# It sees it, and was never asked for it. Nothing in the training ties the last state of a visible word to that word.</details>
# <details><summary>B. Hardly anything: asked for a visible word, it says something else.</summary>
#
# Yes. Its states are trained at [MASK] alone. The words that stay and those that are exchanged make the model answer everywhere. A task's texts hold no [MASK], but fine-tuning trains
# the states anew: what is lost there is another question, and one model of each kind, as here, does not settle it.</details>
# <details><summary>C. It fails altogether and trains to nothing.</summary>
#
# It trains well: where a word is hidden, it gives the true one nearly as much probability as the other model does, as the figure shows. The difference hides where the loss never looks.</details>


# %%
@torch.no_grad()
def own_word(model, hide):
    """The mean probability of the true piece at one place in seven of new texts; `hide` writes [MASK] there, else it is seen."""
    tokens, segments, lengths = (part.to(device()) for part in pairs_of(names.test, 99, strangers=False)[:3])
    asked = (tokens > END) & (torch.arange(tokens.shape[1], device=tokens.device) % 7 == 3)
    said = model(tokens.masked_fill(asked, MASK) if hide else tokens, segments, lengths).words.softmax(-1)
    return said.gather(-1, tokens[..., None])[..., 0][asked].mean().item()


always = pretrain(SEEDS[0], always=True)[0]
seen_words = {"80/10/10": own_word(masked_only[SEEDS[0]][0], hide=False), "always [MASK]": own_word(always, hide=False)}
hidden_words = {"80/10/10": own_word(masked_only[SEEDS[0]][0], hide=True), "always [MASK]": own_word(always, hide=True)}
few = [
    right(tuned(model.bert, coded(labelled(draw)), draw), test)
    for model in (masked_only[SEEDS[0]][0], always)
    for draw in SEEDS
]
print(f"languages told from five labels: {mean(few[:3]):.2f} and {mean(few[3:]):.2f}")
show(
    plots.seeds(
        {
            **{f"seen, {name}": p for name, p in seen_words.items()},
            **{f"hidden, {name}": p for name, p in hidden_words.items()},
        },
        "probability of the true piece",
    ),
    alt="Mean probability of the true piece in new texts. Where it can be seen: "
    + ", ".join(f"{p:.3f} with {name}" for name, p in seen_words.items())
    + "; where it is hidden: "
    + ", ".join(f"{p:.3f} with {name}" for name, p in hidden_words.items())
    + ".",
)

# %% tags=["nbval-check-output"]
claim(
    "08.t",
    "probability of a piece that is seen: 80/10/10 over always [MASK], one model of each",
    seen_words["80/10/10"] / seen_words["always [MASK]"],
    at_least=4,
)
claim(
    "08.u",
    "the same of a piece that is hidden, where both were asked: the difference above over this one",
    seen_words["80/10/10"] / seen_words["always [MASK]"] * hidden_words["always [MASK]"] / hidden_words["80/10/10"],
    at_least=3,
)
claim(
    "08.v",
    "languages told rightly from five labels, 80/10/10 less always [MASK]: one model of each, three draws, no verdict",
    mean(few[:3]) - mean(few[3:]),
    between=(-0.2, 0.6),
)

# %% [markdown] tags=["quiz"]
# ## 11 Before you go
#
# **Question 1.** Why can a GPT not simply be trained without its causal mask, to look both ways?
#
# <details><summary>A. It would be too slow.</summary>
#
# It would cost about the same.</details>
# <details><summary>B. Each position would see the very token that it is asked for.</summary>
#
# Right. What is asked for must be hidden: behind a causal mask, or behind [MASK].</details>
# <details><summary>C. Its positions would no longer make sense.</summary>
#
# They would mean what they mean in BERT.</details>
#
# **Question 2.** Per step, GPT learns from every token and BERT from 15 %. What does BERT get for it?
#
# <details><summary>A. A model that writes better.</summary>
#
# It cannot write at all from left to right: it expects words on both sides.</details>
# <details><summary>B. States that know both sides of each token, in every layer.</summary>
#
# Right. That is what tasks about a given text want; the price is more steps.</details>
# <details><summary>C. Fewer parameters.</summary>
#
# The block is the same.</details>
#
# **Question 3.** Your fine-tuned BERT is at chance with shuffled labels. What does that tell you?
#
# <details><summary>A. That its answers with the right labels came from these labels.</summary>
#
# Right: same network, same texts, same steps, and nothing is left. It does not show that no test name stands among the labelled ones: shuffled, those would be learned wrongly too.</details>
# <details><summary>B. That pre-training was useless.</summary>
#
# No network can learn to answer what the labels do not hold.</details>
# <details><summary>C. That forty labels are too few.</summary>
#
# With the right ones it did well.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague pre-trains BERT on the support mails of your firm and fine-tunes it to sort them; it is no better than TF-IDF. Write what you would measure, in order, to find out why.*
#
# | points | what earns them |
# | --- | --- |
# | 1 | looks at the loss of masked words on *held-out* mails: has pre-training learned anything, is it still falling? |
# | 1 | compares with the same network from scratch, and over several draws of labels, before believing a difference |
# | 1 | varies the number of labels: pre-training pays where they are few |
# | 1 | asks whether single words decide the task, so that a bag of words has all it needs |
# | 1 | checks the pipeline (pieces, [CLS], segments, learning rate), and is clear and short |

# %% [markdown] tags=["companion"]
# ## 12 Ledger
#
# **Where the decks and the code part ways.**
#
# - *RK*: QQP asks "if two questions are semantically *different*". It asks whether they are the *same*: class 1 is a duplicate (Devlin et al., appendix B.1, "semantically equivalent"). It matters for F1, which counts one class alone.
# - *RK* and the figure in *EE*: the two models of ELMo "are trained independently". They share embedding and last matrix and are trained on the sum of both losses; independent are their layers.
# - *CS*: ELMo "concatenates the final layer output". It mixes all layers by a softmax (eq. 1); the concatenation is that of the two directions.
# - *EE*: 15 % of the words "have been replaced with a MASK token": 12 % have (08.e). *GA* has the shares right.
# - *RK*: "a random sentence from the corpus": drawn from *all* sentences, it is now and then one of the same document (08.RK-NSP), at times even the true one, and is marked as false. The published code draws from another document, as yours does.
# - *IT*: BERT masks "random words (N-grams/sentences)": pieces of words, each by itself; whole words and spans came later, sentences never.
# - *CS* cites BERT as EMNLP 2018. It appeared at NAACL 2019.
#
# **What this lecture does not show.** Two thousand names are no corpus, and the heads show nothing of what Clark et al. found. That next sentence does not help is measured for *these*
# passages, where strangers speak another language. TF-IDF is not far behind. And neither tags nor spans are solved: both heads are shown at work after few steps.
#
# ## 13 Papers and decks
#
# **Papers.** Peters et al. 2018, *Deep contextualized word representations*, eq. 1 (https://arxiv.org/abs/1802.05365) · Devlin, Chang, Lee, Toutanova
# 2019, *BERT*, sections 3 to 4, figures 2 and 4, appendix A (https://arxiv.org/abs/1810.04805) · Clark, Khandelwal, Levy, Manning 2019, *What Does
# BERT Look At?*, section 3 (https://arxiv.org/abs/1906.04341) · Wettig et al. 2023, *Should You Mask 15 % in Masked Language Modeling?*
# (https://arxiv.org/abs/2202.08005) · Liu et al. 2019, *RoBERTa*, section 4.2 (https://arxiv.org/abs/1907.11692).
#
# **Decks.** EE-559 13.2 · RKMVERI · CSE 891 · ITMO lecture 7 · Gaïffas lecture 8.
#
# <details><summary>Where each section of the decks is covered, and the library's name for it</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | RK | Earlier models | 2 Two readers that never meet | `course_lib.models.ELMo` |
# | CS | Transformer Variants: GPT, ELMo, BERT | 2 Two readers that never meet | `course_lib.models.ELMo`, `course_lib.models.scalar_mix` |
# | RK | Pre-training BERT: Task 1 | 3 Take words out | `course_lib.losses.mask_tokens`, `course_lib.losses.mlm_loss` |
# | GA | Self-supervised learning: masked language modeling | 3 Take words out | `course_lib.losses.corrupt` |
# | IT | Transformer-based models for text problems: BERT | 3 Take words out | `course_lib.models.PretrainingBERT` |
# | RK | Input representation | 4 Two sentences | `course_lib.losses.segment_input` |
# | RK | Pre-training BERT: Task 2 | 4 Two sentences | `course_lib.losses.nsp_pairs` |
# | RK | BERT | 5 Pre-train | `course_lib.models.BERT` |
# | EE | Transformers trained on NLP tasks: BERT | 5 Pre-train | `course_lib.models.BERT` |
# | CS | The Transformer: Transfer Learning | 6 Five labels a language | `course_lib.models.classification_head` |
# | RK | Pre-training → Fine-Tuning | 6 Five labels a language | `course_lib.models.SentenceHead` |
# | EE | Transformers trained on NLP tasks: fine-tuning | 8 A head for every task | `course_lib.models.TagHead`, `course_lib.models.SpanHead` |
# | RK | GLUE Benchmark | 8 A head for every task | `course_lib.models.SentenceHead` |
# | EE | Transformers trained on NLP tasks: what BERT's heads look at | 9 What heads look at | `course_lib.analysis.head_statistics` |
#
# </details>

# %% tags=["nbval-check-output"]
generator = torch.Generator().manual_seed(SEEDS[0])
duplicate = torch.rand(10_000, generator=generator) < 0.37
said = torch.where(torch.rand(10_000, generator=generator) < 0.8, duplicate, ~duplicate)
f1 = [2 * (said == c)[duplicate == c].sum().item() / ((said == c).sum() + (duplicate == c).sum()).item() for c in (True, False)]
claim(
    "08.RK-QQP",
    "F1 of one and the same answers to QQP's question, turned round as RK has it, less F1 as it is asked",
    f1[1] - f1[0],
    at_least=0.05,
)
both = ELMo(50, 16, 2)
alone = 2 * (sum(p.numel() for p in both.parameters()) - sum(p.numel() for p in both.backwards.parameters()))
shared = both.tokens.weight.numel() + both.bias.numel()
claim(
    "08.RK-ELMo",
    "parameters that ELMo's two models would have more if they were independent: embedding and bias once more",
    alone - sum(p.numel() for p in both.parameters()),
    equals=shared,
)
sentence = torch.randint(4, 50, (1, 9), generator=generator)
lowest, top = (
    scalar_mix(both(sentence, torch.tensor([9])), w, torch.ones(()))
    for w in (torch.tensor([9.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 9.0]))
)
claim(
    "08.CS",
    "ELMo's features change with the weights of its layers: the top layer is not all there is",
    (lowest - top).abs().max().item(),
    at_least=0.1,
)
documents = torch.tensor([document for document, _ in passages(names.train, 0)])
first = (documents[1:] == documents[:-1]).nonzero()[:, 0]
own = (documents[first][:, None] == documents[None, :]).float().mean().item()
claim("08.RK-NSP", "strangers drawn from all passages that would come from the same document, share", own, at_least=0.04)
asked = corrupted(whole_text, 0.15).chosen[0]
claim(
    "08.IT",
    "a piece is as likely to be chosen beside a chosen one as elsewhere: no spans. Ratio",
    (asked[1:] & asked[:-1]).float().mean().item() / asked.float().mean().item() ** 2,
    between=(0.8, 1.2),
)

# %% tags=["ledger"]
ledger()
