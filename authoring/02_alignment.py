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
# With attention, a decoder reads every state of the encoder, instead of one vector for the whole source.
#
# ![](diagram:bahdanau)
#
# You will write additive and multiplicative scores, the masked softmax, an encoder for padded batches and the loss, and train
# decoders with and without attention to convert dates to ISO 8601.
#
# **Prerequisites:** lecture 01 (recurrent cells). **Time:** {minutes}. {measured}


# %%
from course_tools.notebook import at_scale, predict
from course_tools.notebook.translation import date_sentences

SEEDS = (0, 1, 2)
known, new, words = date_sentences()
known, (letters, characters) = known[1] + known[2], words
d = at_scale(cpu=64, gpu=128)

# %% [markdown]
# ## 1 A fixed-size context vector
#
# A date can be written in many ways: *5 mars 1987*, *Mar 5, 1987*, *5. März 1987*. The model must convert it to ISO 8601,
# `1987-03-05`. The formats come from the Unicode CLDR, so the right answer is always known. A sentence may hold two dates.
#
# In the models of Cho et al. and of Sutskever et al. (2014), a recurrent network, the *encoder*, reads the source and passes
# only its **last state**, one vector of fixed size, to a second one, the *decoder*, which writes the target. Our encoder reads
# in both directions, so its last state is the two final states, concatenated. We train such a model and count the new sentences
# that it converts exactly.
#
# ![](diagram:encoder_decoder)

# %% [markdown] tags=["predict"]
# **Predict.** The network is trained for 400 updates on sentences of one date and of two dates. The last state has 64 numbers
# (128 on a GPU); a date has ten characters. How many new sentences are converted exactly?
#
# <details><summary>A. Most sentences of both kinds: 64 real numbers can encode twenty characters.</summary>
#
# They can, and with several times as many updates training finds such an encoding: see the recorded run in section 6. In 400
# updates it does not.</details>
# <details><summary>B. Some single dates, and no pair of dates.</summary>
#
# Yes, after 400 updates. An exact match needs every character to be right, and a pair of dates has twice as many
# characters.</details>
# <details><summary>C. About the same fraction of both: the vector has the same size for both.</summary>
#
# It has, but for two dates it must encode twice as much.</details>

# %%
print(known[0], known[-1], sep="\n")


# %%
import torch

from course_lib.fast import fused_gru, stacked_bidirectional_gru
from course_lib.models import Encoder, PlainDecoder, Seq2Seq
from course_tools.notebook.fitting import show_losses
from course_tools.notebook.translation import exact_matches, fit_pairs


def bigru(n_tokens):
    """An encoder that reads with a GRU in each direction."""
    return Encoder(n_tokens, d // 2, d // 2, stacked_bidirectional_gru)


def fit(decoder, seed, pairs=known, words=words, encoder=bigru, **how):
    """Train an encoder with this decoder; the seed decides weights and batches."""
    torch.manual_seed(seed)
    model, how = Seq2Seq(encoder(len(words[0])), decoder()), {"lr": 8e-3} | how
    return fit_pairs(model, pairs, words, seed=seed, **{"steps": 400} | how)


# %%
plain = fit(lambda: PlainDecoder(len(characters), d // 2, d, d, fused_gru), SEEDS[0])
by_last_state = {n: exact_matches(plain, pairs, words) for n, pairs in new.items()}
print(
    "exact match of one model after 400 updates: "
    + ", ".join(
        f"{n} date{'s' * (n > 1)} {match:.2f}" for n, match in by_last_state.items()
    )
)
show_losses({"last state": plain}, "cross-entropy, nats per character")

# %% [markdown]
# ## 2 Additive scores
#
# Bahdanau, Cho and Bengio keep *all* states of the encoder and let the decoder attend to them before it predicts each token.
# The states of the encoder are the **keys**; the state of the decoder is the **query**. A small network with one hidden layer
# computes a score, which measures how relevant a key is to a query. You now write this network:
#
# $$e_{ij} = v^\top \tanh(W q_i + U k_j)$$
#
# Every query is scored against every key. Use broadcasting; no loop is needed.
#
# | name | shape |
# | --- | --- |
# | `q`, `k` | (…, T_q, d_q), (…, T_k, d_k) |
# | `W`, `U`, `v` | (d_a, d_q), (d_a, d_k), (d_a,) |
# | scores | (…, T_q, T_k) |

# %%
from jaxtyping import Float
from torch import Tensor

from course_lib.shapes import Keys, Queries, Scores
from course_tools.notebook import check

# %% exercise="02.1" difficulty="●●○" minutes=10
from course_lib.attention import additive_scores

# %% tags=["nbval-check-output"]
additive_scores = check("02.1", additive_scores)

# %% [markdown]
# ## 3 Multiplicative scores
#
# A dot product is cheaper than a small network: one matrix multiplication computes the scores of all pairs. Luong, Pham and
# Manning compare three forms, of which you write the last two:
#
# $$\text{dot}: q_i^\top k_j \qquad \text{general}: q_i^\top W k_j \qquad \text{concat}: v^\top \tanh(W [q_i; k_j])$$
#
# The *general* form is bilinear. Its matrix W, (d_q, d_k), relates features of the query to features of the key, so queries and
# keys may have different sizes. With W = I it is the dot product. In Luong's decoder, drawn below, the query is the current
# state, not the previous one. (We leave out the paper's *input feeding*, section 3.3.)
#
# ![](diagram:luong)

# %%
from einops import repeat

from course_lib import attention

# %% exercise="02.2" difficulty="●○○" minutes=5
from course_lib.attention import general_scores

# %% tags=["nbval-check-output"]
general_scores = check("02.2", general_scores)

# %% [markdown]
# The *concat* form concatenates query and key, the query first, and multiplies the result by one matrix of shape (d_a, d_q +
# d_k). It looks different from the additive form; the cell after the check compares the two.

# %% exercise="02.3" difficulty="●●○" minutes=10
from course_lib.attention import concat_scores

# %% tags=["nbval-check-output"]
concat_scores = check("02.3", concat_scores)

# %% tags=["nbval-check-output"]
from course_tools.notebook import claim

torch.manual_seed(SEEDS[0])
q, k, W, U, v = (
    torch.randn(2, 5, 11),
    torch.randn(2, 7, 13),
    torch.randn(3, 11),
    torch.randn(3, 13),
    torch.randn(3),
)
by_concat = concat_scores(q, k, torch.cat([W, U], dim=1), v)
claim("02.c", gap=(by_concat - additive_scores(q, k, W, U, v)).abs().max())
by_general = general_scores(q, q, torch.eye(11))
claim("02.d", gap=(by_general - attention.dot_scores(q, q)).abs().max())

# %% [markdown]
# ## 4 Softmax and weighted sum
#
# A softmax **over the keys** turns the scores into weights. The context is the weighted sum of the **values**, which here are
# again the states of the encoder. You now write both steps ($v_j$ is a value, not the $v$ of section 2):
#
# $$\alpha_{ij} = \frac{\exp e_{ij}}{\sum_{j'} \exp e_{ij'}} \qquad c_i = \sum_j \alpha_{ij} v_j$$
#
# A mask, True where a query may attend, removes keys from **both** sums. A query that may attend to no key gets weights 0 and
# context 0, without `nan` in the result or in the gradient. Nearly every attention mechanism of this course ends with this
# function.
#
# | name | shape |
# | --- | --- |
# | `scores`, `mask` | (…, T_q, T_k), and anything that broadcasts to it |
# | `values` | (…, T_k, d_v) |
# | `Attended(context, weights)` | (…, T_q, d_v), (…, T_q, T_k) |

# %%
from course_lib.attention import Attended
from course_lib.attention.core import hide_keys, require_mask
from course_lib.shapes import Mask, Values

# %% exercise="02.4" difficulty="●●●" minutes=15
from course_lib.attention import attend

# %% tags=["nbval-check-output"]
attend = check("02.4", attend)

# %% [markdown]
# ### Bug hunt
#
# The version below runs without an error, and its results have the right shapes. What is wrong with it, and what is
# the smallest input that shows it? Find the faulty line before you run the check.

# %% exercise="02.4" bug="mask_after_the_softmax"
from course_tools.bank.lecture_02.attend import mask_after_the_softmax as suspect

# %% tags=["nbval-check-output"]
suspect = check("02.4", suspect)

# %% [markdown]
# ## 5 Padding and teacher forcing
#
# Sentences differ in length, but a batch is a rectangular tensor, so shorter ones are padded, and padding must not change any
# result. In this section you write an encoder and a loss that satisfy this. In the encoder, the state stays constant
# after the end of a sentence and the output is 0, so the *last state* is the state after the last real token.
#
# | name | shape |
# | --- | --- |
# | `x`, `lengths` | (B, T, d), (B,) |
# | `h`, `W`, `U`, `b` | (B, n), (n, d), (n, n), (n,) |
# | states, last state | (B, T, n), (B, n) |
#
# `rnn_step` from lecture 01 computes one step: `rnn_step(x_t, h, W, U, b)`.

# %%
import torch.nn.functional as F

from course_lib.primitives import rnn_step
from course_lib.primitives.recurrent import HiddenState
from course_lib.shapes import Lengths, States, TokenFeatures, Tokens

# %% exercise="02.5" difficulty="●●○" minutes=10
from course_lib.primitives import encode

# %% tags=["nbval-check-output"]
encode = check("02.5", encode)

# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
vectors, weights = (
    torch.randn(len(letters), 8),
    (0.3 * torch.randn(16, 8), 0.2 * torch.randn(16, 16), torch.zeros(16)),
)
source, lengths = letters.batch([pair.source for pair in known[:50]])
_, together = encode(vectors[source], lengths, torch.zeros(50, 16), *weights)
alone = [
    encode(
        vectors[source[i : i + 1, :n]], lengths[i : i + 1], torch.zeros(1, 16), *weights
    )[1]
    for i, n in enumerate(lengths.tolist())
]
gap = (together - torch.cat(alone)).abs().max().item()
claim("02.e", gap=gap)

# %% [markdown]
# In training, the decoder reads the **true** target (teacher forcing), and at each position it predicts the *next* token. So
# `logits[:, t]` predict `target[:, t + 1]`, the last logits are not used, and padding is never a target. For a source $x$ and
# its target $y$:
#
# $$L = -\,\mathrm{mean}\; \log p(y_{t+1} \mid y_1 \dots y_t, x)$$
#
# | name | shape |
# | --- | --- |
# | `logits`, `target` | (B, T, n_tokens), (B, T) |
# | `padding` | the token index of padding, which is never a target |
# | loss | a scalar: every real next token of the batch has equal weight |

# %% exercise="02.6" difficulty="●●○" minutes=10
from course_lib.losses import teacher_forced_loss

# %% tags=["nbval-check-output"]
teacher_forced_loss = check("02.6", teacher_forced_loss)


# %% [markdown]
# ## 6 The experiment: one date, two dates, three
#
# Now we build models from your functions and train them on the task of section 1. `Scored` combines one of your score
# functions, its weights and your `attend`. Luong's decoder and Bahdanau's decoder both attend through it, in training and
# afterwards. The cell after the definitions compares it with the library's additive attention (02.f).
#
# `EncoderByFunction` reads with your `encode`, once in each direction. Together with Luong's decoder it gives a model whose
# encoder, scores, attention and loss are yours.


# %%
from torch import nn

from course_lib.models import BahdanauDecoder, LuongDecoder
from course_tools.lectures.lecture_02.experiments import EncoderByFunction


class Scored(nn.Module):
    """An attention mechanism from a function of scores: it owns the weights and ends in
    `attend`."""

    def __init__(self, scores, *shapes):
        super().__init__()
        self.scores = scores
        self.weights = nn.ParameterList(
            torch.empty(shape).uniform_(-(shape[-1] ** -0.5), shape[-1] ** -0.5)
            for shape in shapes
        )

    def forward(self, q, k, v, mask=None):
        return Attended(*attend(self.scores(q, k, *self.weights), v, mask))


def luong():
    """Luong's decoder around `general_scores`."""
    return LuongDecoder(
        len(characters), d // 2, d, d, Scored(general_scores, (d, d)), fused_gru
    )


def bahdanau(vocabulary=characters):
    """Bahdanau's decoder around `additive_scores`."""
    decoder = BahdanauDecoder(len(vocabulary), d // 2, d, d, d // 2)
    shapes = (d // 2, d), (d // 2, d), (d // 2,)
    decoder.attention = Scored(additive_scores, *shapes)
    return decoder


# %% tags=["nbval-check-output"]
from course_lib.attention import AdditiveAttention

torch.manual_seed(SEEDS[0])
theirs, mine = AdditiveAttention(11, 13, 3), Scored(additive_scores)
mine.weights = nn.ParameterList([theirs.W, theirs.U, theirs.v])
q, k, v = torch.randn(2, 5, 11), torch.randn(2, 7, 13), torch.randn(2, 7, 2)
claim("02.f", gap=(theirs(q, k, v).context - mine(q, k, v).context).abs().max())

# %% [markdown] tags=["predict"]
# **Predict.** We use the same data and at most as many updates (400; 300 for Bahdanau's decoder), now with attention. What is
# the exact match for one date, for two dates, and for **three** dates, which occur in no training sentence?
#
# <details><summary>A. All three are right: with attention, length does not matter.</summary>
#
# The decoder can access the whole source, but it must still keep track of *its position in the source* and know when to stop.
# In training it never saw more than two dates.</details>
# <details><summary>B. One and two are nearly always right, three hardly ever.</summary>
#
# Yes, with a GRU encoder: attention learns both lengths in few updates. But it does not generalise to an unseen length: hardly
# any three dates are right (02.j-three). With your tanh encoder, it depends on the seed: see the figure.</details>
# <details><summary>C. One is nearly always right, two about half the time, three rarely.</summary>
#
# That would be a gradual limit. With attention, the decoder reads the second date as
# it reads the first.</details>

# %% tags=["nbval-check-output"]
models = {
    f"Luong, seed {seed}": fit(luong, seed, loss=teacher_forced_loss) for seed in SEEDS
}
models["Bahdanau"] = fit(bahdanau, SEEDS[0], loss=teacher_forced_loss, steps=300)
by_encode = [
    fit(
        luong,
        seed,
        encoder=lambda n_tokens: EncoderByFunction(encode, n_tokens, d),
        loss=teacher_forced_loss,
    )
    for seed in SEEDS[:2]
]
right = {
    name: {n: exact_matches(model, pairs, words) for n, pairs in new.items()}
    for name, model in models.items()
}
claim("02.g", least=min(shares[1] for shares in right.values()))
claim("02.h", least=min(shares[2] for shares in right.values()))
claim("02.i", difference=min(shares[2] for shares in right.values()) - by_last_state[2])
claim("02.j", least=min(shares[2] - shares[3] for shares in right.values()))
claim("02.j-three", largest=max(shares[3] for shares in right.values()))

# %%
from course_tools.notebook import plots, show

counts = {1: "one", 2: "two", 3: "three"}
groups = {
    f"last state: {count}": [by_last_state[n]] for n, count in counts.items() if n < 3
}
groups |= {
    f"attention: {count}": [shares[n] for shares in right.values()]
    for n, count in counts.items()
}
groups |= {
    f"tanh encoder: {count}": [
        exact_matches(model, new[n], words) for model in by_encode
    ]
    for n, count in counts.items()
}
show_losses(
    {
        "last state": plain,
        "Luong": [models[f"Luong, seed {seed}"] for seed in SEEDS],
        "Bahdanau": models["Bahdanau"],
        "Luong, tanh encoder": by_encode,
    },
    "cross-entropy, nats per character",
)
show(
    plots.seeds(groups, "exact match", "new sentences, one point per trained model"),
    alt="Exact match on new sentences. "
    + "; ".join(
        f"{name} {min(shares):.2f} to {max(shares):.2f}"
        for name, shares in groups.items()
    )
    + ".",
)

# %% tags=["nbval-check-output"]
claim("02.r", largest=max(groups["tanh encoder: two"]))

# %% [markdown]
# Your `encode` is a plain tanh network, without gates. Luong's decoder attends to its states as before, but not every seed
# has finished learning after 400 updates. The keys and values come from the encoder, and the encoder must learn, too.
# Claims 02.g to 02.j-three are about models with a GRU encoder.

# %% [markdown] tags=["predict"]
# **Predict.** How many updates does the last state need? The study `02_length_and_width` trains both models
# for 2,000 updates, five times as many as above, at two widths and with three seeds. What fraction of new pairs of dates does
# the model without attention convert at the end, with a state of 64 numbers?
#
# <details><summary>A. None: one vector cannot encode two dates.</summary>
#
# It can. In section 1 the model had too few updates.</details>
# <details><summary>B. Almost half, and the fraction still grows.</summary>
#
# Yes. One vector can encode two dates, but training finds such an encoding slowly.</details>
# <details><summary>C. Nearly all, as with attention.</summary>
#
# Not after 2,000 updates. With attention, the model converts nearly all of them after at most 800.</details>

# %%
from course_tools.notebook import recorded

study = recorded("02_length_and_width")
through = {name: study.curve(name) for name in study.names}
show(
    plots.curves(
        through,
        "update",
        "exact match",
        "new sentences of two dates, as recorded, mean of the seeds",
    ),
    alt="Exact match on new sentences of two dates through training, mean of the "
    "seeds. "
    "At the end: "
    + "; ".join(
        f"{name} {scores[-1]:.2f} after {updates[-1]:,} updates"
        for name, (updates, scores) in through.items()
    )
    + ".",
)
print(study.cost)
for name, (updates, _) in through.items():
    one, two = (
        ", ".join(f"{x:.2f}" for x in study.scores(name, score))
        for score in ("one date", "two dates")
    )
    print(f"{name}, {updates[-1]:,} updates, by seed: one date {one}; two dates {two}")

# %% [markdown]
# With a 64-dimensional state, the model without attention converts nearly all single dates and almost half of the pairs after
# 2,000 updates. Trained three times as long, it converts 0.85 to 0.92 of the pairs. In each run, the learning rate falls to 0,
# so the flat end of a curve does not prove convergence. In the longer run the rate is still high at update 2,000, and the model
# converts 0.56 to 0.69 of the pairs there. The study uses half the learning rate of this lecture (0.004 instead of
# 0.008). With 32 dimensions and 2,000 updates, the model without attention converts a third to a half of the single dates and
# no pair; it was not trained for longer.
#
# With attention, the model converts nearly every pair at both widths, after a fraction of the updates. At width 32 it needs
# more of them (after 400, one seed is at 0.05), but reaches the same score. So one vector of 64 numbers *can* carry two dates,
# and attention needs far fewer updates. Neither model converts three dates, a length that does not occur in training.

# %% [markdown] tags=["predict"]
# **Predict.** Does the answer depend on *where* the decoder attends? As a control, we take a trained model and reverse the
# order of the keys within each sentence, but not of the values. Each query then retrieves the value of a wrong position. How
# many pairs of dates are still converted exactly?
#
# <details><summary>A. None: the answer depends on attention.</summary>
#
# Yes, if the decoder really gets the source through attention. The next cell tests it.</details>
# <details><summary>B. About half: the decoder still starts from the encoder's last states.</summary>
#
# It does. But in training it got every character through attention, so it has not learned to use these states
# instead.</details>
# <details><summary>C. Most: the order of the keys does not matter to a softmax.</summary>
#
# Reordering keys *and* values in the same way would change nothing. Here only the keys are reversed.</details>

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_02.experiments import ReversedKeys

luongs = [models[f"Luong, seed {seed}"] for seed in SEEDS]
reversed_keys = [Seq2Seq(ReversedKeys(m.encoder), m.decoder) for m in luongs]
lost = [
    right[f"Luong, seed {seed}"][2] - exact_matches(model, new[2], words)
    for seed, model in zip(SEEDS, reversed_keys, strict=True)
]
claim("02.k", least=min(lost))

# %% [markdown]
# ## 7 Alignment maps
#
# Where does the model attend for each output? In the map below, each row is a character of the answer and each column a
# character of the source.

# %%
from course_tools.lectures.lecture_02.experiments import (
    show_alignment,
    weight_in_own_date,
)

shown = new[2][0]
trained = luongs[0]
inside = weight_in_own_date(trained, [shown], words)
show_alignment(
    trained,
    shown.source,
    words,
    note=f"While it writes a date, {inside:.0%} of the weight lies in that date of the "
    "source.",
)

# %% tags=["nbval-check-output"]
least = min(weight_in_own_date(model, new[2][:100], words) for model in luongs)
claim("02.l", least=least)

# %% tags=["try-it"]
# Try it: your birthday in another language, or a day that does not exist.
from course_tools.notebook.translation import translations

for text in ("14 juil. 1989", "Feb 30, 2001", "5 mars 1987; 3 Apr 2004"):
    print(f"{text:<28}{translations(trained, [text], words)[0]}")


# %% tags=["interactive"]
from course_tools.notebook import explore


def draw_alignment(sentence=7):
    """Draw the alignment of one of the new sentences."""
    show_alignment(trained, new[2][sentence].source, words)


explore(draw_alignment, sentence=(0, 20))

# %% [markdown]
# ### Reordering
#
# German puts the ones before the tens: *forty-two* is *zweiundvierzig*, "two-and-forty". A monotonic alignment of single words,
# which only moves forward in the source, would give the wrong order. The next cell trains one model with Bahdanau's decoder on
# numbers below ten thousand, spelled in both languages by `num2words`; a German number is one word, which we split into its
# parts. In the map, look for the step back.

# %% tags=["nbval-check-output"]
from course_lib.datasets import Vocabulary, number_words

numbers = number_words(2_500, 10, 400, seed=0, target="de")
languages = (
    Vocabulary.of((p.source for p in numbers.train), " "),
    Vocabulary.of((p.target for p in numbers.train), " "),
)
counter = fit(
    lambda: bahdanau(languages[1]), SEEDS[0], numbers.train, languages, steps=300
)
claim("02.m", exact_matches=exact_matches(counter, numbers.test, languages))

# %%
from course_lib.datasets import spelled

show_losses({"numbers, Bahdanau": counter}, "cross-entropy, nats per word")
show_alignment(counter, spelled(4_372, "en"), languages, str.split, "English", "German")

# %% [markdown] tags=["predict"]
# ## 8 Ablation: no mask
#
# **Predict.** A model reads a date alone, and then the same date in a batch with a sentence of three dates. What happens if
# attention gets no mask?
#
# <details><summary>A. Nothing changes: the states after the end are 0.</summary>
#
# Their *values* are 0, but their scores are not minus infinity. A key of zeros gets an ordinary score and therefore some of the
# weight.</details>
# <details><summary>B. The answer depends on the other sentences of the batch.</summary>
#
# Yes: padding gets weight, and the longer the other sentence, the more weight it gets. With the mask, both results are equal up
# to rounding.</details>
# <details><summary>C. It fails with an error.</summary>
#
# An error would be easier to find. The code runs, and its results are wrong only in batches.</details>

# %% tags=["nbval-check-output"]
from course_tools.notebook import device
from course_tools.lectures.lecture_02.experiments import Unmasked, change_in_a_batch

torch.manual_seed(SEEDS[0])
fresh = Seq2Seq(bigru(len(letters)), luong()).to(device())
source, lengths = letters.batch([new[1][0].source, new[3][0].source])
target, _ = characters.batch([new[1][0].target], begin=True)
given = [part.to(device()) for part in (source, lengths, target)]
with_mask = change_in_a_batch(fresh, *given)
fresh.decoder.attention = Unmasked(fresh.decoder.attention)
without_mask = change_in_a_batch(fresh, *given)
claim("02.n", with_mask=with_mask)
claim("02.o", without_mask=without_mask)

# %% [markdown]
# ### A shorter path for the gradient
#
# The decks state that attention helps against vanishing gradients. We measure this on untrained networks with a source of sixty
# characters: how large is the gradient of the first output's logits with respect to each character? The encoder is
# bidirectional, so its two last states are at the two ends of the source, thirty steps away from the middle. The rival is the
# remedy of lecture 01: the last state alone, but with update gates that start open. We also train this rival.

# %% tags=["try-it"]
# Try it: n = 90. How far do the gradients of each decoder reach in a longer source?
from course_tools.lectures.lecture_02.experiments import gradient_reach

n = 60


def open_bigru(n_tokens):
    """The same encoder, but its update gates start near σ(4)."""
    encoder = bigru(n_tokens)
    for cell in (encoder.forwards, encoder.backwards):
        nn.init.constant_(cell.bias_ih_l0[d // 2 : d], 4.0)
    return encoder


def last_state():
    """The decoder that gets only the last states of the encoder."""
    return PlainDecoder(len(characters), d // 2, d, d, fused_gru)


paths = {
    "last state alone": (bigru, last_state),
    "last state, open gates": (open_bigru, last_state),
    "Luong": (bigru, luong),
    "Bahdanau": (bigru, bahdanau),
}


def reach(encoder, decoder, seed=SEEDS[0]):
    """The norm of the gradient of the first output at each of n source positions."""

    def make_model():
        return Seq2Seq(encoder(len(letters)), decoder())

    return gradient_reach(make_model, len(letters), n, seed)


reaches = {name: reach(*parts) for name, parts in paths.items()}
show(
    plots.curves(
        {name: (range(n), norms) for name, norms in reaches.items()},
        "position in the source",
        "gradient of the first output",
        "untrained models, one seed",
        log="y",
    ),
    alt=f"Gradient of the first output with respect to each of {n} source positions, "
    "logarithmic, untrained models with one seed. Middle over end: "
    + ", ".join(
        f"{name} {norms[n // 2] / norms[-1]:.1e}" for name, norms in reaches.items()
    )
    + ".",
)

# %% tags=["nbval-check-output"]
shares = {
    name: [(r := reach(*parts, seed))[n // 2] / r[-1] for seed in SEEDS]
    for name, parts in paths.items()
}
claim("02.p", largest=max(shares["last state alone"]))
claim("02.q", least=min(shares["Luong"] + shares["Bahdanau"]))
claim("02.s", least=min(shares["last state, open gates"]))
opened = [fit(last_state, seed, encoder=open_bigru) for seed in SEEDS]
show_losses({"last state, open gates": opened}, "cross-entropy, nats per character")
difference = min(shares[2] for shares in right.values()) - max(
    exact_matches(model, new[2], words) for model in opened
)
claim("02.t", difference=difference)

# %% [markdown]
# So attention shortens the path from an output to a distant character, but it is not the only remedy: with open update gates,
# the gradient reaches the middle through the encoder as well. That alone does not make a model learn fast: after 400 updates,
# this one is far behind attention on pairs of dates (02.t), and its loss is still high.
#
# ## 9 Build it
#
# **Build task (35 minutes, 12 points).** Starting from an empty cell, write a decoder with attention and its training loop, for
# this lecture's sentences of one or two dates. You may use any encoder, your own or the library's `Encoder`, and any attention,
# such as your scores and your `attend`, but not the library's decoders, `Seq2Seq` or `Transformer`. Define what you need above
# `train_translator`, in the same cell.
#
# The returned model is called in two ways. `model(source, lengths, target)` gives the logits under teacher forcing.
# `model(source, lengths)` has no target, so it generates the answer by greedy decoding: it starts with `BEGIN`, and at each
# step it reads the token that it chose at the previous one. The answer includes `END`.
#
# The check calls `train_translator(source, lengths, target, n_letters, n_characters, n_steps)` once, with 6,000 sentences and
# `n_steps=200`. No day of a held-out sentence occurs in a training sentence. The function has at most 60 seconds of processor
# time; a good answer needs about six.
#
# | points | what is judged |
# | --- | --- |
# | 1 | with a target, the model gives logits (B, T, n_characters); without one, tokens |
# | 1 | at most `n_steps` updates and at most 200,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the model is updated, and the loss falls |
# | 1 | the returned model gives the same result for the same input |
# | 1 | the logits of a sentence are the same alone, in a batch, and padded in a batch with a longer one |
# | 1 | the logits at a position depend on the target up to there, and not on the token that they predict |
# | 1 | padding is never a target of the loss |
# | 1 | without a target, the model outputs the token with the largest logit at each step, and reads it at the next |
# | 1 | held-out sentences: more characters are right than in the answer of the most similar training sentence (about 0.7) |
# | 2 | held-out sentences of two dates: exact match at least 0.5 (a decoder that gets only the last state reaches less than 0.05) |

# %%
from course_lib.datasets import BEGIN, END, PADDING

# %% exercise="02.7" difficulty="●●●" minutes=35
from course_tools.bank.lecture_02.train_translator import train_translator

# %% tags=["nbval-check-output"]
train_translator = check("02.7", train_translator)

# %% [markdown]
# The next cell runs `train_translator` on the sentences of section 1, with 200 updates, and compares the result with the models
# of this lecture, which made 300 or 400 updates. The label tells you whose function ran: yours, or the library's if yours did
# not pass.

# %%
from statistics import mean

from course_tools.notebook.translation import fraction_right, generated
from course_tools.notebook.authorship import whose

torch.manual_seed(SEEDS[0])
source, lengths = letters.batch([pair.source for pair in known])
target, _ = characters.batch([pair.target for pair in known], begin=True, end=True)
sizes = len(letters), len(characters)
trained_here = train_translator(source, lengths, target, *sizes, 200)
answers = {
    n: generated(trained_here, [pair.source for pair in pairs], words)
    for n, pairs in new.items()
}
built = {n: fraction_right(answers[n], pairs) for n, pairs in new.items()}
for pair, answer in zip(new[2][:2], answers[2], strict=False):
    print(pair.source, "→", answer)
name = f"{whose(train_translator)} model"
compared = groups | {f"{name}: {count}": [built[n]] for n, count in counts.items()}
show(
    plots.seeds(compared, "exact match", "new sentences, one point per trained model"),
    alt=f"Exact match on new sentences, {name} beside the models of section 6. "
    + "; ".join(f"{name} {mean(shares):.2f}" for name, shares in compared.items())
    + ".",
)

# %% [markdown] tags=["quiz"]
# ## 10 Exit quiz
#
# **Question 1.** You multiply the weights by the mask *after* the softmax and do nothing else. What is wrong?
#
# <details><summary>A. Nothing: masked weights are 0.</summary>
#
# They are. But the other weights sum to less than 1, and more padding makes the context smaller.</details>
# <details><summary>B. The weights of a row no longer sum to 1.</summary>
#
# Right, so the context depends on how much padding the batch contains. This was the mistake in the bug hunt.</details>
# <details><summary>C. The gradient vanishes.</summary>
#
# It is smaller, not zero. The error is already in the forward pass.</details>
#
# **Question 2.** The queries have size 512, the keys size 300. Which scores work without a further projection?
#
# <details><summary>A. dot</summary>
#
# A dot product needs two vectors of the same size.</details>
# <details><summary>B. general, concat and additive</summary>
#
# Right: their matrices fit both sizes.</details>
# <details><summary>C. All of them, by broadcasting.</summary>
#
# Broadcasting expands only axes of size 1.</details>
#
# **Question 3.** Why can Luong's decoder, without input feeding, compute all contexts of a target at once in training, and
# Bahdanau's cannot?
#
# <details><summary>A. Its scores are cheaper.</summary>
#
# They are, but that affects the speed, not the order of the computation.</details>
# <details><summary>B. Its state does not depend on the context.</summary>
#
# Right: first the recurrent network computes all states, then one call of attention computes the contexts of all positions.
# Bahdanau's decoder uses each context to compute the next state.</details>
# <details><summary>C. It does not use teacher forcing.</summary>
#
# Both use it.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *"Attention tells us what the model was looking at when it wrote this word." Defend this
# sentence, and argue against it, each with one measurement of this lecture.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says what a weight is: the coefficient of a value in the context |
# | 1 | for: the weight lies in the right date, or the control with reversed keys |
# | 1 | against: an encoder's state at one character also depends on its neighbours, so weight on a position is not weight on that character alone |
# | 1 | proposes an experiment that would decide between the two |
# | 1 | is clear and short |
#
# </details>

# %% [markdown] tags=["companion"]
# ## 11 Ledger
#
# **Errata of the decks**, each measured in the next cell (*CS* is CSE 891, *IT* is ITMO lecture 7):
#
# - *CS* writes $A = \mathrm{softmax}(E)$ without naming an axis, then $y_j = \sum_i A_{ij} v_i$. This needs **columns** that
#   sum to 1. Where each row sums to 1, as in the other decks, these sums are not weighted means.
# - *CS* takes one query $q \in \mathbb{R}^d$ and gets $e \in \mathbb{R}^{n \times n}$. One query gives only n scores.
#
# **Remark.** *IT* and *CS*: "attention solves the bottleneck problem." Here, attention makes two dates learnable in far fewer
# updates (02.i). Three dates, a length outside the training set, are hardly ever right (02.j-three).
#
# ## 12 Papers and decks
#
# **Papers.** Cho et al. 2014 (https://arxiv.org/abs/1406.1078) · Sutskever, Vinyals, Le 2014 (https://arxiv.org/abs/1409.3215)
# · Bahdanau, Cho, Bengio 2015, section 3.1, eqs. 5 and 6, appendices A.1.2 and A.2.2 (https://arxiv.org/abs/1409.0473) ·
# Luong, Pham, Manning 2015, section 3.1 (https://arxiv.org/abs/1508.04025) · Williams & Zipser 1989
# (https://doi.org/10.1162/neco.1989.1.2.270).
#
# The site compares the numbers of these papers with ours ([docs/evidence.md](../docs/evidence.md)).
#
# **Decks.** ITMO lecture 7 and CSE 891.
#
# <details><summary>Where each section of the decks is covered, and the library's name for it</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | IT | Attention history | 1 A fixed-size context vector | `course_lib.models.PlainDecoder` |
# | IT | Machine Translation | 1 A fixed-size context vector | `course_lib.models.Seq2Seq` |
# | IT | Attention mechanism | 2 Additive scores | `course_lib.attention.additive_scores`, `course_lib.models.BahdanauDecoder` |
# | CS | More Attention Variants | 3 Multiplicative scores | `course_lib.attention.dot_scores`, `course_lib.attention.general_scores`, `course_lib.attention.concat_scores` |
# | CS | Recap: Attention Layer | 4 Softmax and weighted sum | `course_lib.attention.attend` |
# | CS | Attention for Deep Learning | 4 Softmax and weighted sum | `course_lib.attention.Attended` |
# | IT | Advantages of Attention Mechanism | 6 The experiment: one date, two dates, three | `course_lib.models.LuongDecoder` |
# | CS | Advantages of Attention | 6 The experiment: one date, two dates, three | `course_lib.models.BahdanauDecoder` |
#
# </details>

# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
E, one = torch.randn(5, 5), torch.randn(1, 11)
off_by = {axis: (E.softmax(dim=axis).sum(0) - 1).abs().max().item() for axis in (0, 1)}
claim("02.CS-rows", off_by=off_by[1])
claim("02.CS-columns", off_by=off_by[0])
claim("02.CS-one", shape=attention.dot_scores(one, torch.randn(5, 11)).shape)

# %% tags=["ledger"]
from course_tools.notebook import ledger

ledger()
