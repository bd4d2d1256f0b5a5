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
# With attention, a decoder looks up what it needs in all states of the encoder. Where one vector must carry the whole source,
# training needs ten times as many updates, or states four times as wide and twice as many.
#
# You will write the scores, the masked softmax and the loss of a small translator, and train it with and without attention to
# convert dates to ISO 8601.
#
# **Prerequisites:** lecture 01 (recurrent cells, the training loop). **Time:** {minutes}. {measured}
#
# ![](diagram:aligned_decoder)

# %%
from copy import deepcopy
from statistics import mean

import torch
import torch.nn.functional as F
from einops import repeat
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from course_lib.attention import Attended, additive_scores, attend
from course_lib.attention import dot_scores, general_scores
from course_lib.datasets import BEGIN, END, PADDING, Vocabulary, number_words, spelled
from course_lib.fast import stacked_bidirectional_gru
from course_lib.losses import teacher_forced_loss
from course_lib.models import Encoder
from course_lib.models.bigru_encoder import Encoded
from course_lib.primitives import padding_mask, rnn_step
from course_lib.primitives.recurrent import HiddenState
from course_lib.shapes import (
    Keys,
    Lengths,
    Mask,
    Queries,
    Scores,
    States,
    TokenFeatures,
    Tokens,
    Values,
)
from course_tools.lectures.lecture_02 import experiments, figures
from course_tools.notebook import check, claim, device, explore, ledger, predict
from course_tools.notebook import progress, source
from course_tools.notebook.training_curve import show_recorded_losses
from course_tools.notebook.translation import date_sentences, fraction_right, generated

known, new, words = date_sentences()
known, d = known[1] + known[2], 64

# %% [markdown]
# ## 1 A sentence through one vector
#
# A date can be written in many ways: *5 mars 1987*, *Mar 5, 1987*, *5. März 1987*. The model must convert it to ISO 8601,
# `1987-03-05`. A sentence holds one date or two; the tests use days that occur in no training sentence, and also sentences of
# three dates.
#
# In the models of Cho et al. and of Sutskever et al. (2014), a recurrent network, the *encoder*, reads the source. Its **last
# state**, one vector of fixed size, is all that a second network, the *decoder*, gets of the source when it writes the answer.
#
# ![](diagram:encoder_decoder)

# %% [markdown]
# The whole program follows: encoder, decoder, translator, training loop. The encoder is a GRU in each direction, so a
# character's state, $d = 64$ numbers, depends on what precedes it and on what follows it; *packing* lets it skip padding. The
# decoder starts with the last state. At each step it reads the last state again, together with the character that it wrote
# before.

# %%
for pair in (known[0], known[-1], new[3][0]):
    print(pair.source, "→", pair.target)


class BiGRU(nn.Module):
    """Encoder: reads a source in both directions; one state for each character."""

    def __init__(self, n_letters):
        super().__init__()
        self.embedding = nn.Embedding(n_letters, d // 2)
        self.gru = nn.GRU(d // 2, d // 2, batch_first=True, bidirectional=True)

    def forward(self, source, lengths):
        x, n = self.embedding(source), source.shape[1]
        packed = pack_padded_sequence(
            x, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, last = self.gru(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=n)
        # states: (B, T_k, d); Encoded is a tuple with four names
        last = torch.cat([*last], dim=-1)  # (B, d): the end of both directions
        mask = padding_mask(lengths, n)  # (B, 1, T_k): True = a real letter
        return Encoded(keys=states, values=states, final=last, mask=mask)


class Decoder(nn.Module):
    """Writes one character after another; its context is the last state."""

    def __init__(self, n_characters):
        super().__init__()
        self.embedding = nn.Embedding(n_characters, d // 2)
        self.gru = nn.GRU(d // 2 + d, d, batch_first=True)
        self.readout = nn.Linear(2 * d, n_characters)

    def context(self, states, encoded):
        last = encoded.final[:, None].expand_as(states)  # (B, T, d): always the same
        return last, None

    def forward(self, tokens, state, encoded):
        last = encoded.final[:, None].expand(-1, tokens.shape[1], -1)
        read = torch.cat([self.embedding(tokens), last], dim=-1)
        states, state = self.gru(read, state)  # (B, T, d): a state at each position
        context, weights = self.context(states, encoded)
        return self.readout(torch.cat([states, context], dim=-1)), weights, state


# %% [markdown]
# The translator uses this decoder in two ways. In training it reads the *true* answer, all positions at once (**teacher
# forcing**). To translate, it reads the character that it wrote last (**greedy decoding**).


# %%
class Translator(nn.Module):
    """Encoder, decoder, and the vocabularies of source and answer."""

    def __init__(self, words, decoder=Decoder):
        super().__init__()
        self.words = words
        self.encoder = BiGRU(len(words[0]))
        self.decoder = decoder(len(words[1]))

    def forward(self, source, lengths, target):
        encoded = self.encoder(source, lengths)
        logits, _, _ = self.decoder(target, encoded.final[None], encoded)
        return logits  # (B, T, n_characters)

    @torch.no_grad()
    def translate(self, texts, most=36):
        source, lengths = (part.to(device()) for part in self.words[0].batch(texts))
        encoded = self.encoder(source, lengths)
        token, state, steps = torch.full_like(lengths, BEGIN), encoded.final[None], []
        for _ in range(most):
            logits, weights, state = self.decoder(token[:, None], state, encoded)
            token = logits[:, 0].argmax(dim=-1)
            steps.append((token, weights))
        tokens = torch.stack([token for token, _ in steps], dim=1)
        answers = [self.words[1].decode(row) for row in tokens.tolist()]
        rows = [weights for _, weights in steps if weights is not None]
        return answers, torch.cat(rows, dim=1).cpu() if rows else None


def learn(model, pairs, steps=400, lr=5e-3):
    """Train by teacher forcing with Adam, in batches of 32; return the losses."""
    sources, lengths = model.words[0].batch([pair.source for pair in pairs])
    answers = [pair.target for pair in pairs]
    targets, _ = model.words[1].batch(answers, begin=True, end=True)
    optimizer, losses = torch.optim.Adam(model.to(device()).parameters(), lr), []
    torch.manual_seed(0)  # every model gets the same batches
    for _ in progress(range(steps), "training"):
        rows = torch.randint(len(pairs), (32,))
        source = sources[rows, : lengths[rows].max()].to(device())
        target = targets[rows].to(device())
        logits = model(source, lengths[rows].to(device()), target)
        loss = teacher_forced_loss(logits, target, PADDING)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% [markdown] tags=["quiz"]
# **Read the code.** Which line is teacher forcing, and which is greedy decoding? Where is padding kept out? What does `context`
# return at the second position of the answer, and what at the tenth?
#
# <details><summary>Answer</summary>
#
# Teacher forcing is `self.decoder(target, …)` in `forward`: the decoder reads the true characters. Greedy decoding is
# `token = logits[:, 0].argmax(dim=-1)`: the next thing it reads is what it wrote. Padding is kept out of the GRU by packing, and of
# the loss by its argument `PADDING`; `encoded.mask` is not used yet. `context` returns the last state, the same at all
# positions.</details>

# %%
torch.manual_seed(0)
plain = Translator(words)
plain_losses = learn(plain, known)


def exact(model, pairs):
    """The fraction of answers that are right in every character."""
    return fraction_right(model.translate([pair.source for pair in pairs])[0], pairs)


print(", ".join(f"{n} dates: {exact(plain, pairs):.2f}" for n, pairs in new.items()))
for pair in new[2][:3]:
    answer = plain.translate([pair.source])[0][0]
    print(f"{pair.source:>28} → {answer:<22} right: {pair.target}")

# %% [markdown]
# After 400 updates, some single dates are right, and no pair of dates. The answers look like dates, and parts of them are
# right. It is hard to learn how to pack twenty characters into one vector, and to unpack them again. Why not let the decoder
# *look things up* instead?
#
# ## 2 One query by hand
#
# A dictionary such as `{"mars": "03", "mai": "05", "juin": "06"}` is a look-up table of **keys** and **values**. The **query**
# *mars* equals one key, and we get its value. The query *märz* equals none, and we get nothing, although it nearly equals
# *mars*.
#
# Attention is the soft form of this look-up. It compares the query with *every* key, turns the similarities into **weights**
# that sum to 1, and returns the weighted sum of the values. With weight 1 on one key it is the exact look-up; with equal
# weights it is the mean of all values.
#
# **An example with numbers.** The query is *märz*, as the vector $q = (2, 0)$; the score is simply the dot product of query and
# key. Each value has a 1 at its own month.
#
# | entry | key | score | $e^{\text{score}}$ | weight | value |
# | --- | --- | --- | --- | --- | --- |
# | *mars* | (1, 0) | 2 | 7.39 | 7.39 / 11.11 = **0.665** | "03": (1, 0, 0) |
# | *juin* | (0, 1) | 0 | 1.00 | 1.00 / 11.11 = **0.090** | "06": (0, 1, 0) |
# | *mai* | (½, ½) | 1 | 2.72 | 2.72 / 11.11 = **0.245** | "05": (0, 0, 1) |
#
# The result, the **context**, is mostly 03:
#
# $$c = 0.665 \cdot (1, 0, 0) + 0.090 \cdot (0, 1, 0) + 0.245 \cdot (0, 0, 1) = (0.665,\ 0.090,\ 0.245).$$
#
# Large scores choose, small ones average: with $q = (20, 0)$ the weight of *mars* is 0.99995, with $q = (0, 0)$ each is ⅓. In
# the translator, the query is the state of the decoder; the keys are the states of the encoder, and the values are the same
# states.

# %%
q = torch.tensor([2.0, 0.0])
k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])  # mars, juin, mai
values = torch.eye(3)  # 03, 06, 05
exponentials = (k @ q).exp()
weights = exponentials / exponentials.sum()
print("scores", k @ q, "weights", weights, "context", weights @ values, sep="\n")

# %% [markdown] tags=["predict"]
# **Predict a number** (within 0.01). Suppose the third entry is padding: it only fills a batch and must get no weight. What is
# the weight of *mars*?
#
# <details><summary>0.881</summary>
#
# The sum contains only real keys: 7.39 / 8.39 for *mars*, and 1 / 8.39 = 0.119 for *juin*. The ratio of the two weights is the
# same as before.</details>
# <details><summary>0.665</summary>
#
# With 0.665 and 0.090, as before, the weights sum to 0.755. The weight of the padding is missing, so the context is too small,
# and how much too small depends on the padding.</details>
# <details><summary>0.787</summary>
#
# If each gets half of the weight of the padding, their ratio changes. It should depend on their scores alone.</details>

# %% [markdown]
# ## 3 Scores
#
# Which keys match a query should be *learned*. Bahdanau, Cho and Bengio compute the score by a small network with one hidden
# layer:
#
# $$e_{ij} = v^\top \tanh(W q_i + U k_j)$$
#
# By hand, with two hidden units, $W = U = I$ and $v = (-1, -1)$. The query (1, 0) and the equal key (1, 0) give $-\tanh 2 -
# \tanh 0 = -0.96$; the other key, (0, 1), gives $-2 \tanh 1 = -1.52$, since two half-full units add up to more than one full
# unit; hence the minus in $v$. The query (0, 1) prefers the other key.
#
# In a batch, every query is scored against every key. Use broadcasting; no loop is needed.
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

# %% [markdown] tags=["predict"]
# **Predict.** Leave out the tanh, and the score is $v^\top(W q_i + U k_j)$. Two different queries are scored against the same
# keys. How do their weights differ after the softmax?
#
# <details><summary>A. Not at all: both queries get the same weights.</summary>
#
# Right. The score is a term of the query plus a term of the key. The query's term is the same for all keys, so it cancels in
# the softmax. The decoder could not choose: every query would read the same.</details>
# <details><summary>B. A little: the tanh only keeps the scores small.</summary>
#
# It does keep them small, but it also multiplies query and key with each other, in the terms of higher order of its series.
# </details>
# <details><summary>C. As much as before: W and U are learned.</summary>
#
# They are, but no W and U make this sum depend on the *match* of query and key.</details>

# %%
torch.manual_seed(0)
q, k, W, U = (torch.randn(n, 5) for n in (2, 4, 3, 3))
v = torch.randn(3)
without_tanh = (q @ W.mT @ v)[:, None] + k @ U.mT @ v
print("with tanh", additive_scores(q, k, W, U, v).softmax(dim=-1), sep="\n")
print("without", without_tanh.softmax(dim=-1), sep="\n")

# %% [markdown]
# Three scores are common. Luong, Pham and Manning compared them; the first two need only a matrix product and so became the
# usual choice. *Going further* has exercises on the others.
#
# | name | score | code |
# | --- | --- | --- |
# | dot | $q^\top k$ | `q @ k.mT` |
# | general | $q^\top W k$ | `q @ W @ k.mT` |
# | additive, or concat | $v^\top \tanh(W q + U k)$ | your function |
#
# ## 4 Softmax, mask, sum
#
# A softmax **over the keys** turns the scores into weights; the context is the weighted sum of the values ($v_j$ is a value, not
# the $v$ of section 3):
#
# $$\alpha_{ij} = \frac{\exp e_{ij}}{\sum_{j'} \exp e_{ij'}} \qquad c_i = \sum_j \alpha_{ij} v_j$$
#
# A mask, True where a query may attend, removes keys from **both** sums, as in the example: 0.881 and 0.119. A query that may
# attend to no key gets weights 0 and context 0, without `nan` in the result or in the gradient. Nearly every attention mechanism
# of this course ends with this function.
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
# **Bug hunt.** The version below runs without an error, and its results have the right shapes. Which line is wrong? The example
# of section 2 shows it: with its scores 2, 0, 1 and the third key masked, what do the weights sum to?

# %% exercise="02.4" bug="mask_after_the_softmax"
from course_tools.bank.lecture_02.attend import mask_after_the_softmax as suspect

# %% tags=["nbval-check-output"]
mask = torch.tensor([[True, True, False]])
print(suspect(torch.tensor([[2.0, 0.0, 1.0]]), torch.eye(3), mask))
suspect = check("02.4", suspect)

# %% [markdown]
# ## 5 Padding and the loss
#
# Sentences differ in length, but a batch is a rectangle, so shorter ones are padded (grey below). Padding must not change any
# result. Attention excludes it from the keys by the mask; the loss excludes it from the targets.
#
# The targets are also *shifted*: the decoder reads the true answer up to position t and predicts the next character, so
# `logits[:, t]` predict `target[:, t + 1]`, and the last logits are not used. For a source $x$ and its answer $y$:
#
# $$L = -\,\mathrm{mean}\; \log p(y_{t+1} \mid y_1 \dots y_t, x)$$

# %%
figures.show_padded_batch(["17.01.2041", "Mar 5, 1987", "2 de jun. de 2044"])
figures.show_teacher_forcing("1987-03-05")

# %% [markdown]
# Until now, `learn` used the library's loss; from here on it uses yours.
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
# ## 6 The experiment: the same model, with attention
#
# Only `context` changes. It is to return, for each position of the answer, what the decoder needs of the source. Here your two functions
# meet: what is scored against what, what is mixed, and which mask is needed? Two lines are enough.
#
# | name | shape |
# | --- | --- |
# | `states` | (B, T, d): of the decoder |
# | `keys`, `values` | (B, T_k, d): of the encoder |
# | `mask` | (B, 1, T_k): True = a real letter |
# | `W`, `U`, `v` | those of your `additive_scores` |
# | `Attended(context, weights)` | (B, T, d), (B, T, T_k) |

# %% exercise="02.8" difficulty="●○○" minutes=5
from course_tools.bank.lecture_02.aligned_context import aligned_context

# %% tags=["nbval-check-output"]
aligned_context = check("02.8", aligned_context)


# %%
class AlignedDecoder(Decoder):
    """Looks its context up at each position, in all states of the encoder."""

    def __init__(self, n_characters):
        super().__init__(n_characters)
        self.W, self.U = (
            nn.Parameter(torch.randn(d // 2, d) / d**0.5) for _ in range(2)
        )
        self.v = nn.Parameter(torch.randn(d // 2) / 8)

    def context(self, states, encoded):
        source = encoded.keys, encoded.values, encoded.mask
        return aligned_context(states, *source, self.W, self.U, self.v)


# %% [markdown]
# This is the diagram at the top. Both models get the same batches and updates; what they share starts with the same weights.
#
# Two controls follow, on the trained model: the decoder gets the last state of *another* sentence; or the order of the keys is
# reversed within each sentence, but not that of the values.

# %% [markdown] tags=["predict"]
# **Predict a number** (exactly). A source has 26 characters. Before the reversal, a query puts all its weight on the key of
# character 2. The value of which character does it get after the reversal?
#
# <details><summary>25</summary>
#
# The key that it matches now stands at the last place but one, and its weight with it. If the characters of the answer come
# through attention, none can be right now. If they come through the last state, which the decoder also reads, nothing
# changes.</details>
# <details><summary>2</summary>
#
# Reordering keys *and* values in the same way would change nothing. Here only the keys are reversed.</details>
# <details><summary>24</summary>
#
# The first character is number 1, and the last is number 26.</details>

# %%
torch.manual_seed(0)
aligned = Translator(words, AlignedDecoder)
losses = learn(aligned, known)
reversed_keys, other_last = deepcopy(aligned), deepcopy(aligned)
reversed_keys.encoder = experiments.Changed(aligned.encoder, experiments.keys_reversed)
other_last.encoder = experiments.Changed(aligned.encoder, experiments.other_last_state)
models = {"last state": plain, "attention": aligned}
models |= {"other last state": other_last, "keys reversed": reversed_keys}
right = {name: [exact(m, new[n]) for n in (1, 2, 3)] for name, m in models.items()}
print(f"{'exact match':<16}   one   two  three dates")
for name, shares in right.items():
    print(f"{name:<16}", "  ".join(f"{share:.2f}" for share in shares))

# %% tags=["nbval-check-output"]
claim("02.i", attention=right["attention"][1], last_state=right["last state"][1])
claim("02.j-three", three=right["attention"][2])
others, reversed_keys = right["other last state"][1], right["keys reversed"][1]
claim("02.k", reversed_keys=reversed_keys, other_last=others)
show_recorded_losses(
    {"last state": [plain_losses], "attention": [losses]}, "nats per character"
)
source(experiments.Changed)
source(experiments.other_last_state)
source(experiments.keys_reversed)

# %% [markdown]
# With attention, the loss falls nearly to zero in the updates in which the other model learns what a date looks like. The
# last state no longer matters: everything comes through attention.

# %% [markdown] tags=["predict"]
# With the last state, a character must survive the rest of the reading. In the *mean* of all states, each character is one
# step away.
#
# **Predict.** The decoder without attention gets the mean in place of the last state. Does it learn pairs as fast as attention?
#
# <details><summary>A. Yes: the path from each character is as short.</summary>
#
# It is, but the path is not what was missing.</details>
# <details><summary>B. No: one vector still mixes all characters.</summary>
#
# Right. Every position of the answer gets the same mixture, and must find its own character in it.</details>
# <details><summary>C. No: a mean forgets the order of the characters.</summary>
#
# The mean of *embeddings* would. A state of the encoder also depends on what precedes and follows its character.</details>

# %% [markdown]
# A recorded study, `02_length_and_width`, shows all curves to their end. Its models are relatives of the two above: Luong's
# decoder, with the *general* score of section 3, and one without attention, which gets the last state or the mean. Is it a
# matter of time, or of room? Some have wider states.

# %% tags=["nbval-check-output"]
study, through = figures.show_study()
source(experiments.mean_state)
claim(
    "02.path",
    attention=study.scores("attention, width 64", "two dates after 400"),
    mean=study.scores("mean of the states, width 64", "two dates"),
)
last_state = through["last state, width 64"]
claim(
    "02.u",
    attention=experiments.updates_until(0.85, *through["attention, width 64"]),
    last_state=experiments.updates_until(0.85, *last_state),
    wide=experiments.updates_until(0.85, *through["last state, width 256"]),
)
claim(
    "02.v",
    attention=through["attention, width 32"][1][-1],
    last_state=last_state[1][-1],
)

# %% [markdown]
# 64 numbers *can* carry two dates, given time: at this width **attention needs about a tenth of the updates**. A last state of 256
# numbers needs twice as many updates as attention with 64. The mean learns even later than the last state, and still gains
# at the end, although every character is one step away: both *mix* all characters in one vector, and training must find out how to
# pack and unpack them.
# With attention nothing is packed: each position of the answer learns only *which* state it needs.
#
# Three dates, a length that no training sentence had, are beyond both. Attention has not learned "one date after another". It
# answers with two dates, whose parts are mixed up; the second year is nearly always that of the last date.

# %%
threes = new[3]
answers = aligned.translate([pair.source for pair in threes])[0]
for pair, answer in zip(threes[:2], answers[:2], strict=True):
    print(f"{pair.source} → {answer}")
pairs = zip(threes, answers, strict=True)
share = mean(answer[11:15] == pair.target[22:26] for pair, answer in pairs)
print(f"the second year that it writes is that of the last date: {share:.2f}")

# %% [markdown] tags=["predict"]
# ## 7 See it
#
# One step at a time: the decoder reads a character, its state is the query, the bars are the weights, and the context gives the
# next character.
#
# **Predict.** The trained model converts *Mar 5, 1987* and has read only BEGIN. On which letters does it put the weight?
#
# <details><summary>A. On the *M*: it begins at the beginning.</summary>
#
# The answer does not begin with the month. Attention follows the order of the answer, not that of the source.</details>
# <details><summary>B. On the year.</summary>
#
# Right: the answer begins with the year. The weight need not lie on the very digit, because the encoder reads in both
# directions: the state at *9* contains the *1* before it, too.</details>
# <details><summary>C. On all letters alike: it has read nothing yet.</summary>
#
# It has read BEGIN, and after BEGIN comes the year in every answer of the training set.</details>

# %%
figures.show_steps(aligned, "Mar 5, 1987", first=0, n=6)

# %% [markdown]
# The digits of the month come from its letters: the state at one letter has read the others. **A weight points at a state, not at
# a letter**; a digit, too, may be read from its neighbour. The hyphen is the same in every answer: its weights need not point
# anywhere.
#
# The whole sentence as a map: each row is a character of the answer, each column a character of the source.

# %% tags=["cover", "nbval-check-output"]
figures.show_alignment(aligned, new[2][0].source)
claim("02.l", inside=experiments.weight_in_own_date(aligned, new[2][:100]))

# %% tags=["try-it"]
# Try it: your birthday, in any of the formats, or a day that does not exist: the model
# copies its digits, and knows no calendar.
for text in ("14 juil. 1989", "Feb 30, 2001", "5 mars 1987; 3 Apr 2004"):
    print(f"{text:>24} → {aligned.translate([text])[0][0]}")

# %% [markdown] tags=["interactive"]
# **Explore.** Which characters does the model read while it writes the year, the month, the day?


# %% tags=["interactive"]
def draw_alignment(sentence=7):
    """Draw the alignment of one of the new sentences."""
    figures.show_alignment(aligned, new[2][sentence].source)


explore(draw_alignment, sentence=(0, 20))

# %% [markdown] tags=["predict"]
# ## 8 No mask
#
# **Predict.** The model reads a date alone, and then the same date in a batch with a sentence of thirty dates. What happens if
# attention gets no mask?
#
# <details><summary>A. Nothing changes: the states after the end are 0.</summary>
#
# Their *values* are 0, but their scores are not minus infinity. A key of zeros gets an ordinary score and therefore some of the
# weight.</details>
# <details><summary>B. It fails with an error.</summary>
#
# An error would be easier to find. The code runs, and its results are wrong only in batches.</details>
# <details><summary>C. The answer depends on the other sentences of the batch.</summary>
#
# Yes: padding gets weight, and the longer the other sentence, the more weight it gets. With the mask, both results are equal up
# to rounding.</details>

# %% tags=["nbval-check-output"]
without_mask = deepcopy(aligned)
without_mask.encoder = experiments.Changed(aligned.encoder, experiments.unmasked)
longer = "; ".join(pair.source for pair in new[3][:10])
batch = [*(pair.source for pair in new[1]), longer]
with_mask, without = (
    fraction_right(model.translate(batch)[0][:-1], new[1])
    for model in (aligned, without_mask)
)
_, weights = without_mask.translate(batch)
ends = torch.arange(weights.shape[-1]) >= aligned.words[0].batch(batch)[1][:, None]
lost = (weights * ends[:, None]).sum(-1)[:-1].mean()  # the last is the long one
claim("02.n", with_mask=with_mask, without_mask=without, padding=lost)

# %% [markdown] tags=["quiz"]
# ## 9 Exit quiz
#
# **Question 1.** You multiply the weights by the mask *after* the softmax and do nothing else. What is wrong?
#
# <details><summary>A. The weights of a row no longer sum to 1.</summary>
#
# Right, so the context depends on how much padding the batch contains. This was the mistake in the bug hunt.</details>
# <details><summary>B. Nothing: masked weights are 0.</summary>
#
# They are. But the other weights sum to less than 1, and more padding makes the context smaller.</details>
# <details><summary>C. The gradient vanishes.</summary>
#
# It is smaller, not zero. The error is already in the forward pass.</details>
#
# **Question 2.** The queries have size 512, the keys size 300. Which scores work without a further projection?
#
# <details><summary>A. dot</summary>
#
# A dot product needs two vectors of the same size.</details>
# <details><summary>B. general and additive</summary>
#
# Right: their matrices fit both sizes.</details>
# <details><summary>C. All of them, by broadcasting.</summary>
#
# Broadcasting expands only axes of size 1.</details>
#
# **Question 3.** In Bahdanau's own decoder, the query is the state before the step, and the GRU reads the context. Why can only
# ours compute all contexts of an answer at once in training?
#
# <details><summary>A. Its scores are cheaper.</summary>
#
# The scores may be the same; that affects the speed, not the order of the computation.</details>
# <details><summary>B. It does not use teacher forcing.</summary>
#
# Both use it.</details>
# <details><summary>C. Its state does not depend on the context.</summary>
#
# Right: first the GRU computes all states, then one call of attention computes the contexts of all positions. Bahdanau's
# decoder uses each context to compute the next state.</details>

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

# %% [markdown]
# ## 10 What came of it
#
# - **2015.** Bahdanau, Cho and Bengio scored 26.8 BLEU with attention and 17.8 without, on English–French. Vinyals et al. used
#   the weights themselves as the answer: *pointer networks* choose a position of the source (https://arxiv.org/abs/1506.03134).
# - **2016.** Google Translate changed to stacked LSTMs with attention (Wu et al., https://arxiv.org/abs/1609.08144). *Listen,
#   Attend and Spell* (Chan et al., https://arxiv.org/abs/1508.01211) used it for speech.
# - **2017.** The Transformer kept attention and dropped the recurrence (lectures 04 and 05). What you wrote lives on in it as
#   *cross-attention*: the queries come from the decoder, keys and values from the encoder.
# - **2019.** Is a weight an explanation? Jain and Wallace argued that it is not (https://arxiv.org/abs/1902.10186), Wiegreffe and
#   Pinter that it depends on the test (https://arxiv.org/abs/1908.04626).
# - **2022.** Whisper writes down speech with an encoder, a decoder and cross-attention
#   (https://arxiv.org/abs/2212.04356).
# - **2024.** The one vector is back: state space models compress their past into a state of fixed size. Jelassi et al. found that
#   Transformers copy long texts better, since such a state lacks the room (https://arxiv.org/abs/2402.01032).
#
# **Further reading.** Cho et al. 2014 (https://arxiv.org/abs/1406.1078) · Sutskever, Vinyals, Le 2014
# (https://arxiv.org/abs/1409.3215) · Bahdanau, Cho, Bengio 2015, section 3.1, appendices A.1.2 and A.2.2
# (https://arxiv.org/abs/1409.0473) · Luong, Pham, Manning 2015, section 3.1 (https://arxiv.org/abs/1508.04025) ·
# Williams & Zipser 1989, on teacher forcing (https://doi.org/10.1162/neco.1989.1.2.270). Two lessons that explain the same idea
# well: Zhang et al., *Dive into Deep Learning*, with keys and values as a data base
# (https://d2l.ai/chapter_attention-mechanisms-and-transformers/queries-keys-values.html), and Alammar's animated steps
# (https://jalammar.github.io/visualizing-neural-machine-translation-mechanics-of-seq2seq-models-with-attention/).

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections. Each can be read on its own; after a restart,
# run the cells of the core first.

# %% [markdown]
# ## Bahdanau's decoder
#
# Bahdanau's decoder differs from ours mainly in three places: its query is the state *before* the GRU step, its GRU reads the
# context, and the output is computed from the character before as well. The paper calls the states of the encoder *annotations*.
#
# ![](diagram:bahdanau)

# %% [markdown]
# ## Multiplicative scores
#
# The *general* score $q_i^\top W k_j$ is bilinear: its matrix W, (d_q, d_k), relates features of the query to features of the
# key, so the two may differ in size. With $W = I$ it is the dot product.

# %% exercise="02.2" difficulty="●○○" minutes=5
from course_lib.attention import general_scores

# %% tags=["nbval-check-output"]
general_scores = check("02.2", general_scores)

# %% [markdown]
# Luong's *concat* score concatenates query and key, the query first, and multiplies the result by one matrix of shape (d_a, d_q
# + d_k): $v^\top \tanh(W [q_i; k_j])$. It looks different from the additive score. Is it?

# %% exercise="02.3" difficulty="●●○" minutes=10
from course_lib.attention import concat_scores

# %% tags=["nbval-check-output"]
concat_scores = check("02.3", concat_scores)

# %%
torch.manual_seed(0)
q, k = torch.randn(5, 11), torch.randn(7, 13)
W, U, v = torch.randn(3, 11), torch.randn(3, 13), torch.randn(3)
by_concat = concat_scores(q, k, torch.cat([W, U], dim=1), v)
torch.testing.assert_close(by_concat, torch.tanh((q @ W.mT)[:, None] + k @ U.mT) @ v)
torch.testing.assert_close(general_scores(q, q, torch.eye(11)), dot_scores(q, q))

# %% [markdown]
# Both comparisons pass: *concat* **is** the additive score, with $[W\ U]$ as its matrix.
#
# ## An encoder for padded batches
#
# `pack_padded_sequence` hides how a recurrent network skips padding. Write it yourself, for the plain network of lecture 01: the
# state stays constant after the end of a sentence, and the output there is 0. Then the *last state* is the state after the last
# real token.
#
# | name | shape |
# | --- | --- |
# | `x`, `lengths` | (B, T, d), (B,) |
# | `h`, `W`, `U`, `b` | (B, n), (n, d), (n, n), (n,) |
# | states, last state | (B, T, n), (B, n) |
#
# `rnn_step` from lecture 01 computes one step: `rnn_step(x_t, h, W, U, b)`.

# %% exercise="02.5" difficulty="●●○" minutes=10
from course_lib.primitives import encode

# %% tags=["nbval-check-output"]
encode = check("02.5", encode)

# %%
# Fifty dates, read together in a padded batch and one by one, end in the same states.
torch.manual_seed(0)
W, U, b = 0.3 * torch.randn(16, 8), 0.2 * torch.randn(16, 16), torch.zeros(16)
tokens, lengths = words[0].batch([pair.source for pair in known[:50]])
x = torch.randn(len(words[0]), 8)[tokens]
_, together = encode(x, lengths, torch.zeros(50, 16), W, U, b)
for i, n in enumerate(lengths.tolist()):
    alone = encode(x[i : i + 1, :n], lengths[i : i + 1], torch.zeros(1, 16), W, U, b)
    torch.testing.assert_close(alone[1][0], together[i])

# %% [markdown]
# ## Reordering
#
# German puts the ones before the tens: *forty-two* is *zweiundvierzig*, "two-and-forty". An alignment that only moves forward
# in the source would give the wrong order. The next cell trains the translator with attention, of section 6, on numbers
# below ten thousand, spelled in both languages by `num2words`; a German number is one word, which we split into its parts. In
# the map, look for the step back.

# %% tags=["nbval-check-output"]
numbers = number_words(2_500, 10, 400, seed=0, target="de")
sides = zip(*numbers.train, strict=True)
languages = tuple(Vocabulary.of(texts, " ") for texts in sides)
torch.manual_seed(0)
counter = Translator(languages, AlignedDecoder)
learn(counter, numbers.train)
claim("02.m", exact_match=exact(counter, numbers.test))
figures.show_alignment(counter, spelled(4_372, "en"), str.split, "English", "German")

# %% [markdown]
# ## Build it
#
# **Build task (35 minutes, 12 points).** Starting from an empty cell, write a decoder with attention and its training loop, for
# sentences of one or two dates. You may use any encoder, your own or the library's `Encoder`, and any attention, such as your
# scores and your `attend`, but not the library's decoders, `Seq2Seq` or `Transformer`. Define what you need above
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
# | 1 | *attention*: the logits depend on attention weights, which sum to 1 over the keys; with equal weights in their place they change |
# | 1 | the logits at a position depend on the target up to there, and not on the token that they predict |
# | 1 | padding is never a target of the loss |
# | 1 | without a target, the model outputs the token with the largest logit at each step, and reads it at the next |
# | 1 | held-out sentences: more characters are right than in the answer of the most similar training sentence (about 0.7) |
# | 1 | held-out sentences of two dates: exact match at least 0.5 (a decoder that gets only the last state reaches less than 0.05) |

# %% exercise="02.7" difficulty="●●●" minutes=35
from course_tools.bank.lecture_02.train_translator import train_translator

# %% tags=["nbval-check-output"]
train_translator = check("02.7", train_translator)

# %% [markdown]
# Now let it translate: replace the texts by dates of your own.

# %%
torch.manual_seed(0)
letters, lengths = words[0].batch([pair.source for pair in known])
targets, _ = words[1].batch([pair.target for pair in known], begin=True, end=True)
mine = train_translator(letters, lengths, targets, len(words[0]), len(words[1]), 200)
texts = ["14 juil. 1989", "Mar 5, 1987", "5 mars 1987; 3 Apr 2004"]
for text, answer in zip(texts, generated(mine, texts, words), strict=True):
    print(f"{text:>24} → {answer}")

# %% tags=["ledger"]
ledger()

# %% [markdown] tags=["companion", "guard"]
# ## Decks
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | IT | Attention history | 1 A sentence through one vector | `course_lib.models.PlainDecoder` |
# | IT | Machine Translation | 1 A sentence through one vector | `course_lib.models.Seq2Seq` |
# | IT | Attention mechanism | 3 Scores | `course_lib.attention.additive_scores`, `course_lib.models.BahdanauDecoder` |
# | CS | More Attention Variants | 3 Scores | `course_lib.attention.dot_scores`, `course_lib.attention.general_scores`, `course_lib.attention.concat_scores` |
# | CS | Recap: Attention Layer | 4 Softmax, mask, sum | `course_lib.attention.attend` |
# | CS | Attention for Deep Learning | 4 Softmax, mask, sum | `course_lib.attention.Attended` |
# | IT | Advantages of Attention Mechanism | 6 The experiment: the same model, with attention | `course_lib.models.LuongDecoder` |
# | CS | Advantages of Attention | 6 The experiment: the same model, with attention | `course_lib.models.BahdanauDecoder` |
