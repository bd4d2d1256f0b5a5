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
# # 02 · Alignment
#
# **The claim.** A decoder that gets the source as one vector and is trained as long does not rewrite two dates; one that may look back at
# every state of the encoder does it nearly without a mistake, on every seed, and loses it all when its keys are turned round. For three
# dates, a length that none of them has seen, all fail.
#
# **You need** lecture 01 (recurrent cells). **Time:** about 90 minutes. {measured}
#
# **Papers.** Cho et al. 2014 (https://arxiv.org/abs/1406.1078) · Sutskever, Vinyals, Le 2014 (https://arxiv.org/abs/1409.3215) · Bahdanau, Cho,
# Bengio 2015, section 3.1, eqs. 5 and 6, appendix A.2.2 (https://arxiv.org/abs/1409.0473) · Luong, Pham, Manning 2015, section 3.1, eq. 8
# (https://arxiv.org/abs/1508.04025) · Williams & Zipser 1989 (https://doi.org/10.1162/neco.1989.1.2.270).
#
# **Decks.** ITMO lecture 7 and CSE 891; the table leads from their sections to ours.

# %% [markdown] tags=["companion"]
# <details><summary>Which sections of the decks this follows, and where the library holds them</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | IT | Attention history | 1 Everything through one door | `course_lib.models.PlainDecoder` |
# | IT | Machine Translation | 1 Everything through one door | `course_lib.models.Seq2Seq` |
# | IT | Attention mechanism | 2 Score a pair | `course_lib.attention.additive_scores`, `course_lib.models.BahdanauDecoder` |
# | CS | More Attention Variants | 3 Scores that are products | `course_lib.attention.dot_scores`, `course_lib.attention.general_scores`, `course_lib.attention.concat_scores` |
# | CS | Recap: Attention Layer | 4 Normalise and mix | `course_lib.attention.attend` |
# | CS | Attention for Deep Learning | 4 Normalise and mix | `course_lib.attention.Attended` |
# | IT | Advantages of Attention Mechanism | 6 The experiment: one date, two dates, three | `course_lib.models.LuongDecoder` |
# | CS | Advantages of Attention | 6 The experiment: one date, two dates, three | `course_lib.models.BahdanauDecoder` |
#
# </details>

# %%
from statistics import mean

import torch
import torch.nn.functional as F
from einops import repeat
from jaxtyping import Float
from torch import Tensor, nn

from course_lib import attention, objectives
from course_lib.attention import AdditiveAttention, Attended
from course_lib.attention.core import require_mask
from course_lib.datasets import PADDING, Vocabulary, dates, joined, number_words, spelled
from course_tools.notebook import check, predict
from course_lib.models import (
    BahdanauDecoder,
    Encoder,
    LuongDecoder,
    PlainDecoder,
    Seq2Seq,
    hoisted_bahdanau_steps,
    stacked_bidirectional_gru,
)
from course_lib.models.bigru_encoder import reverse
from course_lib.primitives import fused_gru, rnn_step
from course_lib.primitives.recurrent import HiddenState
from course_lib.shapes import Keys, Lengths, Mask, Queries, Scores, TokenFeatures, States, Tokens, Values
from course_tools.notebook import at_scale, claim, device, explore, ledger, plots, progress, show
from course_lib.training import batches, train

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 Everything through one door
#
# People write one day in many ways: *5 mars 1987*, *Mar 5, 1987*, *5. März 1987*. A machine shall write it as ISO does, `1987-03-05`. The
# ways come from the Unicode CLDR, the same tables that your telephone uses, so the right answer is always known exactly. And two dates in
# one sentence make a source twice as long, with nothing else changed.
#
# The first networks that translated (Cho; Sutskever, 2014) read the source to its end and handed over **the last state**. All of the
# sentence passes through that one door.

# %% [markdown] tags=["predict"]
# **Predict.** The network is trained on sentences of one date and of two. The last state has 64 numbers; a date has ten signs. How many new
# sentences come out right, to the last sign?
#
# <details><summary>A. Most of both: 64 real numbers can hold twenty signs.</summary>
#
# They can, in principle, to many decimals. What training finds in this time is another matter.</details>
# <details><summary>B. Some single dates, and no pair of dates.</summary>
#
# Yes. A door that is narrow for one is hopeless for two: every sign must be right at once.</details>
# <details><summary>C. Both about equally: the door is as wide for two.</summary>
#
# Just so, the door stays as wide; but twice as much must pass through it.</details>

# %%
days = dates(4_000, 300, 500, formats=("medium",), seed=0)
known = joined(days.train, 1, 3_000, seed=1) + joined(days.train, 2, 6_000, seed=2)
new = {n: joined(days.test, n, 300, seed=9) for n in (1, 2, 3)}
letters, signs = Vocabulary.of(pair.source for pair in known), Vocabulary.of(pair.target for pair in known)
d = at_scale(cpu=64, gpu=128)
print(known[0], known[-1], sep="\n")


# %%
def fit(decoder, seed, pairs=known, words=(letters, signs), loss=objectives.teacher_forced_loss, steps=400, lr=8e-3):
    """Train an encoder with this decoder on pairs of texts, by teacher forcing; the seed decides weights and batches."""
    torch.manual_seed(seed)
    model = Seq2Seq(Encoder(len(words[0]), d // 2, d // 2, stacked_bidirectional_gru), decoder()).to(device())
    source, lengths = words[0].batch([pair.source for pair in pairs])
    target, _ = words[1].batch([pair.target for pair in pairs], begin=True, end=True)

    def of(model, batch):
        return loss(model(batch[0][:, : batch[1].max()], batch[1], batch[2]).logits, batch[2], PADDING)

    stream = batches(source.to(device()), lengths.to(device()), target.to(device()), batch_size=32, seed=seed)
    for _ in progress(train(model, stream, of, steps=steps, lr=lr, warmup=steps // 10), f"seed {seed}", steps):
        pass
    return model.eval()


@torch.no_grad()
def say(model, texts, words=(letters, signs), most=36):
    """Translate texts, each word the likeliest; give the answers and the attention weights (or None)."""
    source, lengths = words[0].batch(texts)
    spoken = model.greedy(source.to(device()), lengths.to(device()), most)
    return [words[1].decode(row) for row in spoken.tokens.tolist()], spoken.weights


def exact(model, pairs, words=(letters, signs)):
    """The share of answers that are right to the last sign."""
    answers, _ = say(model, [pair.source for pair in pairs], words)
    return mean(answer == pair.target for answer, pair in zip(answers, pairs, strict=True))


# %% tags=["nbval-check-output"]
plain = fit(lambda: PlainDecoder(len(signs), d // 2, d, d, fused_gru), SEEDS[0])
by_door = {n: exact(plain, pairs) for n, pairs in new.items()}
claim(
    "02.a", "through the last state alone, single dates that are right to the last sign: far from all", by_door[1], at_most=0.8
)
claim("02.b", "through the last state alone, pairs of dates that are right to the last sign", by_door[2], at_most=0.15)

# %% [markdown]
# ## 2 Score a pair
#
# Bahdanau, Cho and Bengio keep *all* states of the encoder, and let the decoder look back before it writes each word. For that it must find,
# among the states (**keys**) of the source, those that answer what it needs now (its **query**). A small network with one hidden layer
# says how well a query and a key go together:
#
# $$e_{ij} = v^\top \tanh(W q_i + U k_j)$$
#
# Every query meets every key. Let broadcasting make the pairs: no loop is needed.
#
# | name | shape |
# | --- | --- |
# | `q`, `k` | (…, T_q, d_q), (…, T_k, d_k) |
# | `W`, `U`, `v` | (d_a, d_q), (d_a, d_k), (d_a,) |
# | scores | (…, T_q, T_k) |

# %% exercise="02.1" difficulty="●●○" minutes=10
from course_lib.attention import additive_scores

# %% tags=["nbval-check-output"]
additive_scores = check("02.1", additive_scores)

# %% [markdown]
# ## 3 Scores that are products
#
# A product is cheaper than a network, and lets one matrix multiplication score all pairs. Luong, Pham and Manning try three forms:
#
# $$\text{dot}: q_i^\top k_j \qquad \text{general}: q_i^\top W k_j \qquad \text{concat}: v^\top \tanh(W [q_i; k_j])$$
#
# The *general* form is bilinear: W, (d_q, d_k), says which features of the key answer which features of the query, so that the two may differ
# in size. With W = 1 it is the dot product.

# %% exercise="02.2" difficulty="●○○" minutes=5
from course_lib.attention import general_scores

# %% tags=["nbval-check-output"]
general_scores = check("02.2", general_scores)

# %% [markdown]
# The *concat* form joins query and key, the query first, and puts the pair through one matrix, (d_a, d_q + d_k). It looks like the odd one out
# among the products. When yours is right, the next cell shows what it really is.

# %% exercise="02.3" difficulty="●●○" minutes=10
from course_lib.attention import concat_scores

# %% tags=["nbval-check-output"]
concat_scores = check("02.3", concat_scores)

# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
q, k, W, U, v = torch.randn(2, 5, 11), torch.randn(2, 7, 13), torch.randn(3, 11), torch.randn(3, 13), torch.randn(3)
gap = (concat_scores(q, k, torch.cat([W, U], dim=1), v) - additive_scores(q, k, W, U, v)).abs().max().item()
claim("02.c", "your concat scores with [W U] side by side are your additive scores, up to rounding", gap, at_most=1e-5)
gap = (general_scores(q, q, torch.eye(11)) - attention.dot_scores(q, q)).abs().max().item()
claim("02.d", "your general scores with the identity are dot products, up to rounding", gap, at_most=1e-4)

# %% [markdown]
# ## 4 Normalise and mix
#
# Scores become weights by a softmax **over the keys**, and the weights mix the **values** (here again the states of the encoder):
#
# $$\alpha_{ij} = \frac{\exp e_{ij}}{\sum_{j'} \exp e_{ij'}} \qquad c_i = \sum_j \alpha_{ij} v_j$$
#
# A mask, True where a query may look, takes keys out of **both** sums. A query that may look nowhere gets weights 0 and context 0: no `nan`, in
# the value or in the gradient. This one function ends every attention of the course.
#
# | name | shape |
# | --- | --- |
# | `scores`, `mask` | (…, T_q, T_k), and anything that broadcasts to it |
# | `values` | (…, T_k, d_v) |
# | `Attended(context, weights)` | (…, T_q, d_v), (…, T_q, T_k) |

# %% exercise="02.4" difficulty="●●●" minutes=15
from course_lib.attention import attend

# %% tags=["nbval-check-output"]
attend = check("02.4", attend)

# %% [markdown]
# ### Bug hunt
#
# This one was found in a real code base. Its weights look like weights, training converges, and nobody noticed for weeks. Which property
# breaks, on which smallest input? Find the line, and mend it below.

# %% exercise="02.4" bug="mask_after_the_softmax"
from course_tools.bank.lecture_02.attend import mask_after_the_softmax as suspect

# %% tags=["nbval-check-output"]
suspect = check("02.4", suspect)

# %% exercise="02.4" difficulty="●○○" minutes=5
from course_lib.attention import attend as mended

# %% tags=["nbval-check-output"]
mended = check("02.4", mended)

# %% [markdown]
# ## 5 Read a batch, learn from a batch
#
# Sentences differ in length; a batch is a rectangle. Shorter ones are padded, and padding must change nothing. While reading: behind the end
# of a sentence its state stands still and its output is 0, so that the *last state* is that of the last real token.
#
# | name | shape |
# | --- | --- |
# | `x`, `lengths` | (B, T, d), (B,) |
# | `h`, `W`, `U`, `b` | (B, n), (n, d), (n, n), (n,) |
# | states, last state | (B, T, n), (B, n) |
#
# `rnn_step` from lecture 01 takes one step: `rnn_step(x_t, h, W, U, b)`.

# %% exercise="02.5" difficulty="●●○" minutes=10
from course_lib.primitives import encode

# %% tags=["nbval-check-output"]
encode = check("02.5", encode)

# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
vectors, weights = torch.randn(len(letters), 8), (0.3 * torch.randn(16, 8), 0.2 * torch.randn(16, 16), torch.zeros(16))
source, lengths = letters.batch([pair.source for pair in known[:50]])
_, together = encode(vectors[source], lengths, torch.zeros(50, 16), *weights)
alone = [
    encode(vectors[source[i : i + 1, :n]], lengths[i : i + 1], torch.zeros(1, 16), *weights)[1]
    for i, n in enumerate(lengths.tolist())
]
gap = (together - torch.cat(alone)).abs().max().item()
claim(
    "02.e", "fifty real dates read in one padded batch end in the states of each read alone, up to rounding", gap, at_most=1e-5
)

# %% [markdown]
# While learning: the decoder reads the **true** target (teacher forcing), and at each position it is asked for the *next* word. So `logits[:, t]`
# speak about `target[:, t + 1]`, the last logits about nothing, and padding is never a question:
#
# $$L = -\,\mathrm{mean}\; \log p(y_{t+1} \mid y_1 \dots y_t, x)$$
#
# | name | shape |
# | --- | --- |
# | `logits`, `target` | (B, T, n_tokens), (B, T) |
# | `padding` | the index that is no target |
# | loss | a scalar: every real next token of the batch counts the same |

# %% exercise="02.6" difficulty="●●○" minutes=10
from course_lib.losses import teacher_forced_loss

# %% tags=["nbval-check-output"]
teacher_forced_loss = check("02.6", teacher_forced_loss)


# %% [markdown]
# ## 6 The experiment: one date, two dates, three
#
# Your parts, put together. `Scored` is any scores of yours with their weights, followed by your `attend`. In Luong's decoder it works as it
# stands. For Bahdanau's, the library has a form that takes everything out of the loop that does not depend on the decoder's state. First
# we make sure that the additive attention which it starts from computes what yours does; that the form without the loop gives the same is
# held by the library's tests.


# %%
class Scored(nn.Module):
    """An attention mechanism from a function of scores: owns its weights, drawn small, and ends in `attend`."""

    def __init__(self, scores, *shapes):
        super().__init__()
        self.scores = scores
        self.weights = nn.ParameterList(
            torch.empty(shape).uniform_(-(shape[-1] ** -0.5), shape[-1] ** -0.5) for shape in shapes
        )

    def forward(self, q, k, v, mask=None):
        return Attended(*attend(self.scores(q, k, *self.weights), v, mask))


def bahdanau(n_answers):
    """The library's decoder with additive attention, in its fast form."""
    return BahdanauDecoder(n_answers, d // 2, d, d, d // 2, hoisted_bahdanau_steps)


def luong():
    """Luong's decoder around your general scores."""
    return LuongDecoder(len(signs), d // 2, d, d, Scored(general_scores, (d, d)), fused_gru)


# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
theirs, q, k, v = AdditiveAttention(11, 13, 3), torch.randn(2, 5, 11), torch.randn(2, 7, 13), torch.randn(2, 7, 2)
mine = Scored(additive_scores, (3, 11), (3, 13), (3,))
mine.weights = nn.ParameterList([theirs.W, theirs.U, theirs.v])
gap = (theirs(q, k, v).context - mine(q, k, v).context).abs().max().item()
claim("02.f", "the library's additive attention is your scores and your attend, up to rounding", gap, at_most=1e-5)

# %% [markdown] tags=["predict"]
# **Predict.** Same data, no more steps (Bahdanau's decoder gets 300 in place of 400), and now the decoder may look back. What comes out for one date, for two, and for **three**, which
# no sentence in training had?
#
# <details><summary>A. All three are right: once it can look, length does not matter.</summary>
#
# The door is gone, but the decoder must still know *where it is* and when to stop, and its recurrent state has only ever counted to two.</details>
# <details><summary>B. One and two nearly always, three never.</summary>
#
# Yes. Attention solves the bottleneck, not generalisation to lengths that were never seen. All of them stop after two.</details>
# <details><summary>C. One nearly always, two about half, three rarely.</summary>
#
# That is how a gradual limit would look. What was lost in section 1 was lost at the door, and the door is gone for two as for one.</details>

# %% tags=["nbval-check-output"]
models = {f"Luong, seed {seed}": fit(luong, seed, loss=teacher_forced_loss) for seed in SEEDS}
models["Bahdanau"] = fit(lambda: bahdanau(len(signs)), SEEDS[0], loss=teacher_forced_loss, steps=300)
right = {name: {n: exact(model, pairs) for n, pairs in new.items()} for name, model in models.items()}
claim(
    "02.g",
    "with attention, single dates right to the last sign: worst of four models",
    min(shares[1] for shares in right.values()),
    at_least=0.75,
)
claim(
    "02.h",
    "with attention, pairs of dates right to the last sign: worst of four models",
    min(shares[2] for shares in right.values()),
    at_least=0.7,
)
claim(
    "02.i",
    "what attention gains on pairs of dates over the last state: worst of four models",
    min(shares[2] for shares in right.values()) - by_door[2],
    at_least=0.5,
)
claim(
    "02.j",
    "three dates, a length that none was trained on: best of all models, with attention and without",
    max(by_door[3], *(shares[3] for shares in right.values())),
    at_most=0.1,
)

# %%
counts = {1: "one", 2: "two", 3: "three"}
groups = {f"last state: {count}": [by_door[n]] for n, count in counts.items() if n < 3}
groups |= {f"attention: {count}": [shares[n] for shares in right.values()] for n, count in counts.items()}
show(
    plots.seeds(groups, "share right to the last sign", "new sentences, one point a trained model"),
    alt="Share of new sentences that are right to the last sign. "
    + "; ".join(f"{name} {min(shares):.2f} to {max(shares):.2f}" for name, shares in groups.items())
    + ".",
)

# %% [markdown] tags=["predict"]
# **The control. Predict.** Is it really the looking that does it, or only another decoder? Take a trained model and turn its keys round within
# each sentence, while the values stay: every query now finds the wrong place. How many pairs of dates still come out right?
#
# <details><summary>A. None: attention carries the answer.</summary>
#
# Yes, if the claim is true. The next cell holds it to that.</details>
# <details><summary>B. About as many as through the last state alone.</summary>
#
# The decoder still starts from the encoder's last states. But it was trained to fetch every sign by looking, and nothing else has been learned.</details>
# <details><summary>C. Most: the softmax only needs some keys, in whatever order.</summary>
#
# An order that is the *same* for keys and values would change nothing. Here only the keys are turned.</details>


# %% tags=["nbval-check-output"]
class TurnedKeys(nn.Module):
    """An encoder whose keys stand in reverse order, so that each key points at the wrong value."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, source, lengths):
        encoded = self.encoder(source, lengths)
        return encoded._replace(keys=reverse(encoded.keys, lengths))


trained = models[f"Luong, seed {SEEDS[0]}"]
turned = Seq2Seq(TurnedKeys(trained.encoder), trained.decoder)
claim(
    "02.k",
    "the same model with its keys turned round, pairs of dates right to the last sign",
    exact(turned, new[2]),
    at_most=0.1,
)

# %% [markdown]
# ## 7 See it
#
# Where did the model look while it wrote? One row for each sign of the answer, one column for each letter of the source.

# %%
shown = new[2][0]
(answer,), weights = say(trained, [shown.source])
rows = [*answer, "end"]
weights = weights[0, : len(rows)].cpu()
middle = shown.source.index(";")
inside = torch.cat([weights[:10, :middle].sum(1), weights[11:21, middle:].sum(1)]).mean().item()
show(
    plots.attention_map(weights, rows, list(shown.source), x="source", y="answer"),
    alt=f"Attention map for '{shown.source}', answered by '{answer}'. While it writes a date, {inside:.0%} of the weight lies in that date of the source.",
)


# %% tags=["nbval-check-output"]
def in_its_own_date(model, pairs):
    """The share of the weight that lies in the source's first date while the first is written, in the second for the second."""
    texts = [pair.source for pair in pairs]
    answers, weights = say(model, texts)
    shares = []
    for text, row, answer in zip(texts, weights.cpu(), answers, strict=True):
        half = text.index(";")
        if len(answer) == 21:
            shares.append(torch.cat([row[:10, :half].sum(1), row[11:21, half : len(text)].sum(1)]).mean().item())
    return mean(shares)


claim(
    "02.l",
    "while it writes one of two dates, the weight lies in that date of the source: share, where evenly spread weight gives a half",
    in_its_own_date(trained, new[2][:100]),
    at_least=0.65,
)

# %% tags=["try-it"]
# Try it: your own birthday, in a language of yours; or a day that does not exist.
for text in ("14 juil. 1989", "Feb 30, 2001", "5 mars 1987; 3 Apr 2004"):
    print(f"{text:<28}{say(trained, [text])[0][0]}")


# %% tags=["interactive"]
def draw_alignment(sentence=0):
    """Draw where the model looked for one of the new sentences."""
    text = new[2][sentence].source
    (answer,), weights = say(trained, [text])
    rows = [*answer, "end"][: weights.shape[1]]
    figure = plots.attention_map(weights[0, : len(rows)].cpu(), rows, list(text), x="source", y="answer")
    show(figure, alt=f"Attention map for '{text}', answered by '{answer}'.")


explore(draw_alignment, sentence=(0, 20))

# %% [markdown]
# ### Words that change places
#
# German says the ones before the tens: *forty two* is *zwei und vierzig*, "two and forty". A model that only walked along the source could not
# write this. Numbers below ten thousand, spelled in both languages by `num2words`.

# %% tags=["nbval-check-output"]
numbers = number_words(2_500, 10, 400, seed=0, target="de")
english, german = Vocabulary.of((p.source for p in numbers.train), " "), Vocabulary.of((p.target for p in numbers.train), " ")
counter = fit(lambda: bahdanau(len(german)), SEEDS[0], numbers.train, (english, german), teacher_forced_loss, steps=300)
spoken_right = exact(counter, numbers.test, (english, german))
claim("02.m", "new numbers, English to German, right to the last word", spoken_right, at_least=0.75)

# %%
text = spelled(4_372, "en")
(answer,), weights = say(counter, [text], (english, german))
rows = [*answer.split(), "end"]
show(
    plots.attention_map(weights[0, : len(rows)].cpu(), rows, text.split(), x="English", y="German"),
    alt=f"Attention map for '{text}', answered by '{answer}'. "
    + plots.describe(weights[0, : len(rows) - 1].cpu(), rows[:-1], text.split(), 9),
)

# %% [markdown] tags=["predict"]
# ## 8 Take one away
#
# **Predict.** A model reads a date alone, and once more in a batch beside three dates. What if attention gets no mask?
#
# <details><summary>A. Nothing changes: the states behind the end are 0.</summary>
#
# Their *values* are 0, but their scores are not minus infinity. A key of 0 scores 0, like any mediocre key, and takes its share of the weight.</details>
# <details><summary>B. The answer depends on the company it keeps.</summary>
#
# Yes: weight leaks to padding, the more the longer the neighbour. With the mask the two are equal up to rounding.</details>
# <details><summary>C. It fails with an error.</summary>
#
# That would be kinder. It runs, and it is wrong only in batches.</details>


# %% tags=["nbval-check-output"]
class Unmasked(nn.Module):
    """A mechanism that is never told which keys are padding."""

    def __init__(self, mechanism):
        super().__init__()
        self.mechanism = mechanism

    def forward(self, q, k, v, mask=None):
        return self.mechanism(q, k, v)


@torch.no_grad()
def company(model):
    """By how much the logits for a date change when it stands in a batch beside a longer sentence."""
    source, lengths = (t.to(device()) for t in letters.batch([new[1][0].source, new[3][0].source]))
    target, _ = signs.batch([new[1][0].target], begin=True)
    target = target.to(device())
    alone = model(source[:1, : lengths[0]], lengths[:1], target).logits
    return (model(source, lengths, target.expand(2, -1)).logits[:1] - alone).abs().max().item()


torch.manual_seed(SEEDS[0])
fresh = Seq2Seq(Encoder(len(letters), d // 2, d // 2, stacked_bidirectional_gru), luong()).to(device())
with_mask = company(fresh)
fresh.decoder.attention = Unmasked(fresh.decoder.attention)
without_mask = company(fresh)
claim("02.n", "with the mask, a longer neighbour in the batch changes nothing: logits, up to rounding", with_mask, at_most=1e-4)
claim(
    "02.o",
    "without the mask a longer neighbour changes the logits: how many times more than with it",
    without_mask / max(with_mask, 1e-6),
    at_least=100,
)

# %% [markdown]
# ### A short cut for the gradient
#
# The decks say that attention helps against vanishing gradients. Measure it on fresh networks with a source of sixty letters: how much does the
# first word of the answer depend on each letter? The last states see both ends of the source; the middle lies thirty steps away from either.


# %%
def reach(decoder, n=60, seed=SEEDS[0]):
    """The gradient of the first word's logits by the embedding of each of n source letters, on average over 32 sources."""
    torch.manual_seed(seed)
    model, kept = Seq2Seq(Encoder(len(letters), d // 2, d // 2, stacked_bidirectional_gru), decoder()), []
    model.encoder.embedding.register_forward_hook(lambda module, given, result: kept.append(result))
    source = torch.randint(4, len(letters), (32, n))
    logits = model(source, torch.full((32,), n), torch.ones(32, 1, dtype=torch.long)).logits
    (gradient,) = torch.autograd.grad((logits * torch.randn_like(logits)).sum(), kept[0])
    return gradient.norm(dim=-1).mean(0).tolist()


decoders = {
    "last state alone": lambda: PlainDecoder(len(signs), d // 2, d, d),
    "Luong": luong,
    "Bahdanau": lambda: bahdanau(len(signs)),
}
reaches = {name: reach(decoder) for name, decoder in decoders.items()}
show(
    plots.curves(
        {name: (list(range(60)), norms) for name, norms in reaches.items()},
        "letter of the source",
        "gradient of the first word",
        log="y",
    ),
    alt="Gradient of the first word of the answer by each of sixty letters, logarithmic. Middle over end: "
    + ", ".join(f"{name} {norms[30] / norms[-1]:.1e}" for name, norms in reaches.items())
    + ".",
)

# %% tags=["nbval-check-output"]
shares = {name: [(r := reach(decoder, seed=seed))[30] / r[-1] for seed in SEEDS] for name, decoder in decoders.items()}
claim(
    "02.p",
    "through the last state, the middle letter over the last one: largest gradient ratio of the seeds",
    max(shares["last state alone"]),
    at_most=1e-4,
)
claim(
    "02.q",
    "with attention, the middle letter over the last one: least gradient ratio, both mechanisms, all seeds",
    min(shares["Luong"] + shares["Bahdanau"]),
    at_least=1e-3,
)

# %% [markdown] tags=["quiz"]
# ## 9 Before you go
#
# **Question 1.** You multiply the weights by the mask *after* the softmax, and leave it at that. What is wrong?
#
# <details><summary>A. Nothing: forbidden weights are 0.</summary>
#
# They are, but the others still share what is left of 1: the context shrinks with the amount of padding.</details>
# <details><summary>B. The weights of a row no longer sum to 1.</summary>
#
# Right, and so a context depends on how much padding its batch has. That was the bug hunt.</details>
# <details><summary>C. The gradient vanishes.</summary>
#
# It is smaller, not gone. The trouble is already there in the forward pass.</details>
#
# **Question 2.** Query size 512, key size 300. Which scores work without a further projection?
#
# <details><summary>A. dot</summary>
#
# A dot product needs two vectors of one size.</details>
# <details><summary>B. general, concat and additive</summary>
#
# Right: each has matrices that take sizes as they come.</details>
# <details><summary>C. All of them, by broadcasting.</summary>
#
# Broadcasting stretches axes of size 1, and no others.</details>
#
# **Question 3.** Why may Luong's decoder compute all contexts of a target at once in training, and Bahdanau's may not?
#
# <details><summary>A. Its scores are cheaper.</summary>
#
# True, but a question of speed, not of order.</details>
# <details><summary>B. Its state does not depend on the context.</summary>
#
# Right: the recurrent network runs through, then one attention for all positions. Bahdanau feeds each context into the next state.</details>
# <details><summary>C. It does not use teacher forcing.</summary>
#
# Both do.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *"Attention tells us what the model was looking at when it wrote this word." Defend this sentence and attack
# it, with one measurement of this lecture on each side.*
#
# | points | what earns them |
# | --- | --- |
# | 1 | says what a weight is: the share of a value in the context |
# | 1 | defends: the weight lies in the right date, or the control with turned keys |
# | 1 | attacks: an encoder's state at one letter knows its neighbours, so weight on a letter is not weight on what that letter says alone |
# | 1 | proposes an experiment that would decide between the two |
# | 1 | is clear and short |

# %% [markdown]
# ## 10 Ledger
#
# **Where the decks and the code part ways.** Each by a number in the next cell:
#
# - *CS* writes $A = \mathrm{softmax}(E)$ and names no axis, then $y_j = \sum_i A_{ij} v_i$: that needs **columns** that sum to 1. With the softmax
#   over rows, as the other decks have it, the "averages" are none.
# - *CS* takes one query $q \in \mathbb{R}^d$ and gets $e \in \mathbb{R}^{n \times n}$: one query makes n scores.
# - *IT* and *CS*: "attention solves the bottleneck problem." For lengths that were trained, yes (02.h); three dates still fail (02.j).
# - *CS* calls the additive form "more flexible": here the bilinear one does as well (02.h is the worst of both).

# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
E, one = torch.randn(5, 5), torch.randn(1, 11)
off_by = {axis: (E.softmax(dim=axis).sum(0) - 1).abs().max().item() for axis in (0, 1)}
claim("02.CS-rows", "the sums Σ_i A_ij with the softmax over rows miss 1 by up to", off_by[1], at_least=0.05)
claim("02.CS-columns", "the same sums with the softmax over columns miss 1 by up to", off_by[0], at_most=1e-5)
claim(
    "02.CS-one",
    "one query against five keys makes scores of shape",
    attention.dot_scores(one, torch.randn(5, 11)).shape,
    equals=(1, 5),
)

# %% tags=["ledger"]
ledger()
