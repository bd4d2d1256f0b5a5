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
# # 04 · Self-attention
#
# In self-attention, every token of a text looks up what it needs in all tokens of the same text, in one step.
#
# You will do one look-up by hand, write scaled dot-product attention, set its matrices without training, write multi-head
# attention, and train a model that writes your name backwards.
#
# **Prerequisites:** lectures 01 (recurrence) and 02 (alignment); tensors, softmax, gradients. **Time:** {minutes};
# *In your own words* takes 20 more. {measured}
#
# ![](diagram:scaled_dot_product)

# %%
import math
import string
from functools import partial

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.attention import Attended, attend, dot_attention
from course_lib.attention import scaled_dot_product_attention, split_heads
from course_lib.attention.multihead import mask_per_head, merge_heads
from course_lib.primitives import causal_mask, padding_mask
from course_lib.shapes import Image, Keys, Lengths, Mask, Queries, Values
from course_tools.lectures.lecture_04 import colour_restoration, data, figures, rival
from course_tools.notebook import check, claim, device, explore, ledger, microscope
from course_tools.notebook import plots, predict, progress, recorded, show
from course_tools.notebook import show_study, source
from course_tools.notebook.layer_costs import measured_costs
from course_tools.notebook.seed_scores import lead_over_best
from course_tools.notebook.training_curve import show_recorded_losses

# %% [markdown]
# ## 1 A recurrent network has one state for everything
#
# A text lists eight pairs of a key and a value, in random order. Four questions follow; each names a key, and the answer is
# its value. The pairs differ from text to text, so they cannot be memorised. A question has a blank, 8, as its value.


# %%
def draw_texts(n):
    """Draw n texts of 8 pairs and 4 questions: keys, values (n, 12); answers (n, 4)."""
    keys = torch.rand(n, 16).argsort(dim=1)[:, :8]  # eight different keys of sixteen
    values, asked = torch.randint(8, (n, 8)), torch.randint(8, (n, 4))
    all_keys = torch.cat([keys, keys.gather(1, asked)], dim=1)
    all_values = torch.cat([values, torch.full((n, 4), 8)], dim=1)
    return all_keys, all_values, values.gather(1, asked)


torch.manual_seed(6791)
data.print_text(*draw_texts(1))

# %% [markdown] tags=["predict"]
# **Predict.** A model remembers *which values* occur in the text, but not with which keys. It answers each question with the
# value that occurs most often. How many answers are right?
#
# <details><summary>A. One in eight: the values are drawn from eight.</summary>
#
# A guess without the text gets one in eight. But eight draws from eight values nearly always contain a value twice or three
# times, and each pair is asked for equally often.</details>
# <details><summary>B. About one half.</summary>
#
# Then one value would have to occur four times among eight pairs, which is rare.</details>
# <details><summary>C. About one in three.</summary>
#
# Yes: the most frequent value occurs between two and three times among eight pairs. This bag of values is the dashed line in
# the next figure.</details>

# %% [markdown]
# `Reader` is a model around any layer that mixes tokens: it embeds key and value of each token, adds the two vectors, applies
# the layer, and reads eight logits off at every position. First the layer is lecture 01's GRU of width 64; its
# training is recorded.


# %%
class Reader(nn.Module):
    """Embeds tokens, lets one layer mix them, reads an answer off at each position."""

    def __init__(self, mixer, sizes, n_answers, d=64):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, d) for size in sizes)
        self.mixer, self.read_out = mixer, nn.Linear(d, n_answers)

    def forward(self, *tokens):  # one tensor (n, T) for each table
        x = sum(table(each) for table, each in zip(self.tables, tokens, strict=True))
        mixed, second = self.mixer(x)  # the second result of attention: its weights
        return self.read_out(mixed), second  # logits (n, T, n_answers)


def train_reader(model, draw, steps, lr=5e-3, n=64):
    """Train with Adam on `steps` batches of n new texts; return all losses."""
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    for _ in progress(range(steps), "training"):
        *tokens, answers = (each.to(device()) for each in draw(n))
        logits = model(*tokens)[0][:, -answers.shape[1] :]  # the questions come last
        loss = F.cross_entropy(logits.flatten(0, -2), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def answer(model, draw, n=1_000):
    """Answer n new texts: whether each answer is right, bool, without padding."""
    *tokens, answers = (each.to(device()) for each in draw(n))
    chosen = model(*tokens)[0][:, -answers.shape[1] :].argmax(-1)
    return (chosen == answers)[answers >= 0]


# %%
study = recorded("04_look_up")
updates, right = study.curve("GRU")
bag_accuracy, bag_loss = data.bag_of_values(draw_texts(4_000)[1])
drawn = plots.curves(
    {"GRU": (updates, right)},
    "updates",
    "questions answered right",
    "as recorded, mean of three seeds",
    log="x",
    across={"a bag of values": bag_accuracy},
)
drawn.axes[0].set_ylim(0, 1)
show(drawn, alt=f"A GRU, from {right[0]:.2f} to {right[-1]:.2f}: {study.cost}.")

# %% [markdown] tags=["try-it"]
# The GRU soon knows which values occur, the dashed line, and learns only slowly whose they are; at the end it still gains.
#
# **Try it.** Read the pairs above once, cover them, and answer the questions. That is the task of the GRU, which must write
# all pairs into its state before it sees a question. Now uncover them. That is self-attention: it keeps every token, and the
# question chooses.

# %% [markdown]
# ## 2 One look-up by hand
#
# Take three pairs of the text above, k4 → v5, k15 → v6 and k9 → v1, and its first question, "k15?". A Python dictionary finds
# *equal* keys: weight 1 for k15, 0 for the others. A network needs a look-up with a gradient, in which keys match *to some
# degree*. So let each key be a point in the plane, and the **query**, too: the nearer a key, the larger its weight. Let the keys
# be k4 = (2, 0), k15 = (0, 2), k9 = (−2, 0), and the query (1, 2), near k15. The similarity is the Gaussian kernel
# $\exp(-\tfrac12\lVert q-k\rVert^2)$:
#
# | pair | ‖q − k‖² | similarity | weight = similarity / sum |
# | --- | --- | --- | --- |
# | k4 → v5 | 5 | 0.082 | **0.119** |
# | k15 → v6 | 1 | 0.607 | **0.879** |
# | k9 → v1 | 13 | 0.002 | **0.002** |
#
# The result is the **weighted mean of the values**, 0.119 v5 + 0.879 v6 + 0.002 v1: nearly v6. Now multiply out the distance:
#
# $$\exp(-\tfrac12\lVert q-k\rVert^2) = \exp(q\cdot k)\;\exp(-\tfrac12\lVert q\rVert^2)\;\exp(-\tfrac12\lVert k\rVert^2)$$
#
# The second factor is the same for every key, so it cancels when the weights are normalised. So does the third if all keys have
# equal length, as here. What remains is a **softmax over dot products**, with the scores 2, 4 and −2. In the next cell each value
# is a vector with a 1 at its number: the context shows how much of each value arrives.

# %%
keys = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.0]])  # k4, k15, k9
query = torch.tensor([1.0, 2.0])
similarity = torch.exp(-(query - keys).square().sum(-1) / 2)
scores = keys @ query
weights = scores.softmax(-1)
torch.testing.assert_close(similarity / similarity.sum(), weights)
values = F.one_hot(torch.tensor([5, 6, 1]), 8).float()  # v5, v6, v1
print("scores", scores, "\ncontext", weights @ values)
figures.show_query(x=1.0, y=2.0)

# %% [markdown] tags=["predict"]
# **Predict a number** (within 0.01). The query becomes twice as long, (2, 4), in the same direction. The weight of k15 was 0.879.
# What is it now?
#
# <details><summary>0.982</summary>
#
# All scores double: k4 is now 4 below k15 instead of 2, and $1/(1 + e^{-4}) = 0.982$. The length of a query sets how sharp its
# choice is. A very long query makes the look-up exact, as in a dictionary.</details>
# <details><summary>0.879</summary>
#
# The order of the scores depends on the direction only. But they are now 4, 8 and −4, and a softmax depends on their
# differences.</details>

# %% [markdown] tags=["interactive"]
# **Explore.** Move the query. Where are all three weights equal? Where are two of them equal, and the third nearly 0?

# %% tags=["interactive"]
explore(figures.show_query, x=(-3.0, 3.0, 0.25), y=(-3.0, 3.0, 0.25))

# %% [markdown]
# ## 3 Queries, keys and values
#
# Where do the three vectors come from? In **self**-attention every token $x$ plays all three parts, by three learned matrices.
# From here on vectors are rows, as in the paper. The code stores the transposes, (out, in), so $xW_Q$ is `x @ W_q.mT`, as in
# lecture 01.
#
# - its **query** $xW_Q$: what the token looks for;
# - its **key** $xW_K$: what it can be found by;
# - its **value** $xW_V$: what it passes on when it is found.
#
# In *the cat slept because it was tired*, the query of *it* might ask for an animal; the key of *cat* matches, and its value
# tells *it* what it stands for.
#
# For a whole text, $QK^\top$ contains every query's score for every key. A batch is one more axis in front:
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# | name | shape | axis that the softmax runs over |
# | --- | --- | --- |
# | `q` | (…, T_q, d_k) | – |
# | `k`, `v` | (…, T_k, d_k), (…, T_k, d_v) | – |
# | scores, weights | (…, T_q, T_k) | the last: keys |
# | context | (…, T_q, d_v) | – |
#
# Section 4 explains the divisor, section 5 the **mask**. `attend(scores, values, mask)` from lecture 02 does what follows the scores,
# and returns the tuple `Attended(context, weights)`:
#
# ```python
# weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)  # a masked key: weight 0
# weights = weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)  # a query without any key: not 0/0, but 0
# context = weights @ values
# ```
#
# You write the scores; `k.T` would reverse all axes. (Your `attend` also keeps `nan` out of the gradients.)

# %% exercise="04.1" difficulty="●●○" minutes=8
from course_lib.attention import scaled_dot_product_attention

# %% tags=["nbval-check-output"]
scaled_dot_product_attention = check("04.1", scaled_dot_product_attention)

# %% [markdown]
# With $d_k = 2$, your function divides the scores by $\sqrt2$. A query $\sqrt2$ times as long undoes the divisor, and the context
# is that of section 2. Torch's own function returns the context alone; there, too, True in a mask means: may attend.

# %%
by_hand = scaled_dot_product_attention(math.sqrt(2) * query[None], keys, values)
torch.testing.assert_close(by_hand.context[0], weights @ values)
q, k, v = torch.randn(3, 2, 5, 7)
may_attend = torch.rand(5, 5) + torch.eye(5) > 0.5
mine = scaled_dot_product_attention(q, k, v, may_attend)
torchs = F.scaled_dot_product_attention(q, k, v, attn_mask=may_attend)
torch.testing.assert_close(mine.context, torchs)

# %% [markdown]
# **A dictionary by hand.** Which matrices answer our questions? Write a token as two one-hot vectors side by side, of its key and
# of its value; the last number is the blank of a question. With two keys and two values, $W_K$ only has to copy the key of the
# pair k1 → v0:
#
# $$(0, 1 \mid 1, 0, 0) \begin{pmatrix} 1 & 0 \\ 0 & 1 \\ 0 & 0 \\ 0 & 0 \\ 0 & 0 \end{pmatrix} = (0, 1)$$
#
# The question "k1?" is $(0, 1 \mid 0, 0, 1)$. What must its query be, so that your softmax gives nearly all weight to equal
# keys? What must $W_V$ pass on? The question finds itself, too: its key is equal. What should it pass on?
#
# | name | shape |
# | --- | --- |
# | `x` | (T, d), with d = n_keys + n_values + 1 |
# | `W_q`, `W_k` | (n_keys, d) each |
# | `W_v` | (n_values, d): one row for each value, none for the blank |

# %% exercise="04.8" difficulty="●●○" minutes=10
from course_tools.bank.lecture_04.dictionary_matrices import dictionary_matrices

# %% tags=["nbval-check-output"]
dictionary_matrices = check("04.8", dictionary_matrices)

# %% [markdown]
# Your matrices answer a thousand new texts.


# %%
def look_up(names, contents):
    """Attend by your three matrices; keys and values of n texts (n, 12)."""
    W_q, W_k, W_v = dictionary_matrices(n_keys=16, n_values=8)
    x = torch.cat([F.one_hot(names, 16), F.one_hot(contents, 9)], dim=-1).float()
    return scaled_dot_product_attention(x @ W_q.mT, x @ W_k.mT, x @ W_v.mT)


torch.manual_seed(6791)
*text, _ = draw_texts(1)  # that of section 1
*texts, answers = draw_texts(1_000)
right = look_up(*texts).context[:, 8:].argmax(-1) == answers
print(f"right without training: {right.float().mean():.1%}")
figures.show_lookup(look_up(*text).weights[0], *(each[0] for each in text))

# %% [markdown]
# Half of each question's weight is on its pair, the other half on the question itself, which has nothing to pass on.
#
# Training has to find such matrices. The layer takes the place of the GRU in the same `Reader`.


# %%
class SelfAttention(nn.Module):
    """One head: queries, keys and values of the same tokens, and a mechanism."""

    def __init__(self, d, mechanism, mask=None):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.mechanism, self.mask = mechanism, mask

    def forward(self, x):
        return self.mechanism(self.W_q(x), self.W_k(x), self.W_v(x), self.mask)


torch.manual_seed(0)
head = SelfAttention(64, scaled_dot_product_attention)
attentive = Reader(head, sizes=(16, 9), n_answers=8).to(device())
losses = train_reader(attentive, draw_texts, steps=300)
print(f"loss after 300 updates: {losses[-1]:.1e} nats")

# %% tags=["nbval-check-output"]
show_study("04_look_up")
found = answer(attentive, draw_texts).float().mean()
claim("04.j", attention=found, gru=study.scores("GRU", "accuracy"), bag=bag_accuracy)

# %%
_, learned = attentive(*(each.to(device()) for each in text))
figures.show_lookup(learned[0].detach(), *(each[0] for each in text))

# %% [markdown] tags=["predict"]
# ## 4 Why divide by √d_k
#
# Take a query and a key whose features are independent, with mean 0 and variance 1. Their dot product is a sum of $d_k$
# products, so its variance is $d_k$ and its standard deviation $\sqrt{d_k}$. Long vectors make sharp weights, as in section
# 2, although nothing has been learned yet.
#
# **Predict.** A query is compared with sixteen random keys of size $d_k = 512$, without the divisor. How large is the largest
# weight on average?
#
# <details><summary>A. Nearly 1.</summary>
#
# Yes: the largest of sixteen scores usually exceeds the second by several units, and $e^{-5}$ is already below one
# hundredth.</details>
# <details><summary>B. About 1/16: random keys are all alike.</summary>
#
# It would be if the scores were small. Here their standard deviation is $\sqrt{512} \approx 23$, and the softmax applies the
# exponential to their differences.</details>
# <details><summary>C. About one half.</summary>
#
# A standard deviation of two or three would give about one half. Here it is 23.</details>

# %%
saturation = figures.measure_saturation([2, 8, 32, 128, 512], n_keys=16, seed=0)
figures.show_saturation(saturation)

# %% tags=["nbval-check-output"]
without, scaled = (saturation.largest[name][-1] for name in ("without", "with 1/√d_k"))
slope = saturation.slope["without"] / saturation.slope["with 1/√d_k"]
claim("04.c", without=without, scaled=scaled, slope=slope)

# %% [markdown]
# A saturated softmax hardly corrects a wrong choice: the paper's reason for the divisor. (A second one: section 14.)

# %% [markdown]
# ## 5 Masks
#
# A **mask** is a boolean tensor that states which keys each query may attend to (True = may attend). A model that predicts the
# *next* token must not see that token. So in a decoder, query $i$ may attend to positions up to its own (Vaswani et al., section
# 3.2.3):
#
# $$M_{ij} = [\, j \le i + T_k - T_q \,]$$
#
# The brackets mean: True where the condition holds. For a whole text, the shift $T_k - T_q$ is 0. When a text is written token by
# token, the queries are the *last* positions of the keys.
#
# | name | shape |
# | --- | --- |
# | mask | (T_q, T_k), broadcasts over batch and heads |
#
# In the diagram each row is a query, and a filled square is True.
#
# ![](diagram:masks)

# %% exercise="04.2" difficulty="●○○" minutes=4
from course_lib.primitives import causal_mask

# %% tags=["nbval-check-output"]
causal_mask = check("04.2", causal_mask)

# %% [markdown] tags=["predict"]
# **Predict.** Let all scores be 0, and the mask causal, for four tokens. What are the weights of the second query, and of the
# last?
#
# <details><summary>A. (½, ½, 0, 0) and (¼, ¼, ¼, ¼).</summary>
#
# Yes: equal weights for all that may be seen. Without any learning, causal attention is the running mean of the past; learned
# scores make some of it count more.</details>
# <details><summary>B. (¼, ¼, 0, 0) and (¼, ¼, ¼, ¼).</summary>
#
# That is a softmax over all four, with two of the weights then set to 0. A mask is applied *before* the softmax, so each row sums
# to 1.</details>
# <details><summary>C. (0, 1, 0, 0) and (0, 0, 0, 1).</summary>
#
# A causal mask does not prefer the own position. It only forbids the later ones.</details>

# %%
nothing, one_hot = torch.zeros(4, 1), torch.eye(4)
print(scaled_dot_product_attention(nothing, nothing, one_hot, causal_mask(4)).weights)

# %% [markdown]
# The sentences of a batch differ in length, so the shorter ones are padded, and no query may attend to **padding**:
# `padding_mask(lengths, T)` of the library forbids it, with shape (B, 1, T). Masks are combined with `&`. (Section 13: write it.)
#
# **A leak.** A language model is trained on sequences that count upwards most of the time and otherwise jump at random. No
# causal model can predict a jump, so none has an expected loss below the entropy of the next token. In the second training we
# forget the mask.

# %%
source(data.draw_counting)
leak = {}
for name, mask in (("causal mask", causal_mask(12).to(device())), ("no mask", None)):
    torch.manual_seed(0)
    layer = SelfAttention(64, scaled_dot_product_attention, mask)
    counter = Reader(layer, sizes=(8, 12), n_answers=8).to(device())  # tokens, places
    leak[name] = [train_reader(counter, data.draw_counting, steps=300)]
bounds = {"a guess": math.log(8), "entropy of the next token": data.ENTROPY}
show_recorded_losses(leak, "cross-entropy, nats", bounds)

# %% tags=["nbval-check-output"]
masked, unmasked = (sum(each[-50:]) / 50 for (each,) in leak.values())
claim("04.h", masked=masked / data.ENTROPY, unmasked=unmasked / data.ENTROPY)

# %% [markdown]
# Without the mask, position $i$ copies token $i + 1$, which it should predict: a loss below the entropy is a sign of a leak. When
# such a model writes, the token does not exist yet.
#
# ## 6 Several heads
#
# One softmax gives each query *one* set of weights, and the query receives one mixture. What if it needs two things? Let
# every position of a word write two letters: the next letter, and the one at its place in the reversed word. Position 0 of
# "one" must write "n" and "e", position 0 of "oen" must write "e" and "n".

# %% [markdown] tags=["predict"]
# **Predict.** A single head attends to both letters equally, with weights ½ and ½. What does position 0 receive for "one", and
# what for "oen"?
#
# <details><summary>A. Two different vectors, since the letters are in another order.</summary>
#
# A sum does not depend on the order of its terms. The positions do not help: in both words they are the same.</details>
# <details><summary>B. The same vector.</summary>
#
# Yes: ½ v("n") + ½ v("e") in both cases. No read-out, however large, can find from this vector which letter came first.</details>
# <details><summary>C. Zero: opposite weights cancel.</summary>
#
# Weights are positive and sum to 1: nothing cancels.</details>

# %% [markdown]
# So attend twice in parallel. Each **head** has its own smaller matrices and chooses for itself; a last matrix $W^O$ combines what
# they found.
#
# $$\mathrm{head}_i = \mathrm{Attention}(QW_i^Q, KW_i^K, VW_i^V) \qquad \mathrm{MultiHead} = [\mathrm{head}_1; \dots; \mathrm{head}_h]\, W^O$$
#
# Heads need no extra parameters: $h$ heads of size $d = d_{model}/h$ have as many as one of size $d_{model}$. One product computes
# the queries of all heads, because their matrices are stacked row-wise in `W_q`. Then the features are split, and the heads
# become one more batch axis:
#
# | name | shape |
# | --- | --- |
# | x | (…, T, h · d), with h · d = d_model |
# | `split_heads(x, h)` | (…, h, T, d): head $i$ owns the features $i d$ to $(i+1)d$ of *every* position |

# %% exercise="04.4" difficulty="●●○" minutes=8
from course_lib.attention import split_heads

# %% tags=["nbval-check-output"]
split_heads = check("04.4", split_heads)

# %% [markdown]
# A colour is a head, a letter a token. A mere `view` has the right shape, and mixes the tokens: its "head 0" is token a alone.

# %%
figures.show_split_heads(split_heads, n_heads=3)

# %% [markdown]
# Now the complete layer. Given are `merge_heads`, the inverse of `split_heads`, and `mask_per_head(mask, queries.shape)`, which
# adds an axis for the heads to a mask, (…, T_q, T_k) → (…, 1, T_q, T_k), unless it has one. It returns None for None.
#
# | name | shape |
# | --- | --- |
# | `queries`; `keys`; `values` | (…, T_q, d_in_q); (…, T_k, d_in_k); (…, T_k, d_in_v) |
# | `W_q`, `W_k` | (h · d_k, d_in_q), (h · d_k, d_in_k): stored as (out, in), so $XW$ is `x @ W.mT` |
# | `W_v` | (h · d_v, d_in_v); d_k and d_v, the sizes of a head, need not be equal |
# | `W_o` | (d_model, h · d_v) |
# | context | (…, T_q, d_model) |
# | weights | (…, h, T_q, T_k) |
#
# ![](diagram:multi_head)

# %% exercise="04.5" difficulty="●●●" minutes=15
from course_lib.attention import multi_head_attention

# %% tags=["nbval-check-output"]
multi_head_attention = check("04.5", multi_head_attention)

# %% [markdown]
# `torch.nn.MultiheadAttention` computes the same, but in its mask True means: may *not* attend. Give it `~mask`.
#
# ## 7 Write your name backwards
#
# Enter your name. The model learns from random letters only, never from a name. To reverse a word, position $i$ needs the letter
# $i$ places from the *end*. That is a look-up again: the query is a place from the front, the key a place from the back, the
# value a letter. So each token is the sum of three embeddings. Words differ in length, hence the padding mask.

# %%
my_name = "Grace Hopper"

ALPHABET = sorted(set(string.ascii_letters + " -'" + my_name))
S, T = len(ALPHABET), max(16, len(my_name))


def draw_words(n):
    """Draw n words: letters (n, T), lengths (n,), words backwards, then -100."""
    letters, lengths = torch.randint(S, (n, T)), torch.randint(1, T + 1, (n,))
    from_end = lengths[:, None] - 1 - torch.arange(T)  # below 0 in the padding
    backwards = letters.gather(1, from_end.clamp(min=0))
    return letters, lengths, backwards.masked_fill(from_end < 0, -100)


class WordReader(nn.Module):
    """Embeds letters and places, lets your attention mix them, reads letters."""

    def __init__(self, n_heads, n_answers=(), d=64):
        super().__init__()
        self.letter, self.front, self.back = (nn.Embedding(n, d) for n in (S, T, T))
        self.matrices = nn.ParameterList(torch.randn(d, d) * d**-0.5 for _ in range(4))
        self.n_heads, self.shape = n_heads, (*n_answers, S)  # logits at each place
        self.read_out = nn.Linear(d, math.prod(self.shape))

    def forward(self, letters, lengths):
        place = torch.arange(letters.shape[1], device=letters.device)
        from_end = (lengths[:, None] - 1 - place).clamp(min=0)
        x = self.letter(letters) + self.front(place) + self.back(from_end)
        mask = padding_mask(lengths, len(place)).to(x.device)
        attended = multi_head_attention(x, x, x, *self.matrices, self.n_heads, mask)
        found = self.read_out(attended.context)
        return found.unflatten(-1, self.shape), attended.weights


torch.manual_seed(0)
mirror = WordReader(n_heads=1).to(device())
train_reader(mirror, draw_words, steps=300)


@torch.no_grad()
def written_by(model, name):
    """Let a model read a name; return what it writes, and the weights of its heads."""
    letters = torch.tensor([[ALPHABET.index(letter) for letter in name]])
    lengths = torch.tensor([len(name)])
    logits, weights = model(letters.to(device()), lengths.to(device()))
    words = logits[0].argmax(-1).view(len(name), -1).T  # one row for each answer
    return ["".join(ALPHABET[i] for i in word) for word in words], weights[0].cpu()


print(my_name, "→", *written_by(mirror, my_name)[0])

# %% tags=["nbval-check-output"]
claim("04.m", share=answer(mirror, draw_words).float().mean())

# %% tags=["cover"]
(output,), (weights,) = written_by(mirror, my_name)
outlined = torch.eye(len(my_name)).flip(1)
drawn = plots.attention_map(weights, output, my_name, "", "read", "written", outlined)
show(drawn, alt=plots.describe(weights, output, my_name, at_most=4))

# %% [markdown] tags=["try-it"]
# **Try it.** Call `written_by(mirror, …)` with other words. Does the map depend on the letters? What happens with "aaaa"?

# %% [markdown]
# Now every position writes *two* letters, as in section 6. We compare one head of size 64 with two of size 32, and draw the two.


# %%
def draw_both(n):
    """Draw words: at each place, the next letter and the mirrored one."""
    letters, lengths, backwards = draw_words(n)
    following = letters.roll(-1, dims=1).masked_fill(backwards < 0, -100)
    following.scatter_(1, lengths[:, None] - 1, -100)  # the last letter has no next one
    return letters, lengths, torch.stack([following, backwards], dim=-1)


both = {}
for n_heads in (1, 2):
    torch.manual_seed(0)
    model = WordReader(n_heads, n_answers=(2,)).to(device())
    train_reader(model, draw_both, steps=400, lr=2e-3)
    both[n_heads] = answer(model, draw_both).float().mean()
    (following, backwards), maps = written_by(model, my_name)
    print(f"{n_heads} × {64 // n_heads}: next {following[:-1]}, backwards {backwards}")
named = {f"head {i}": weights for i, weights in enumerate(maps)}
drawn = plots.attention_maps(named, my_name, my_name, x="read", y="place")
alt = (plots.describe(weights, my_name, my_name, at_most=3) for weights in maps)
show(drawn, alt=" ".join(alt))

# %% tags=["nbval-check-output"]
claim("04.v", one=both[1], two=both[2])

# %% [markdown]
# The places came from embeddings. Without them, attention treats its tokens as a set: permute them, and the outputs are permuted
# in the same way. Lecture 05 adds positions, as sines and cosines.

# %%
x, matrices = torch.randn(3, 11, 64), torch.randn(4, 64, 64) / 8
shuffle = torch.randperm(11)
plain = multi_head_attention(x, x, x, *matrices, 2).context
mixed = x[:, shuffle]
shuffled = multi_head_attention(mixed, mixed, mixed, *matrices, 2).context
torch.testing.assert_close(shuffled, plain[:, shuffle], atol=1e-4, rtol=1e-4)
print("largest difference:", (shuffled - plain[:, shuffle]).abs().max().item())

# %% [markdown] tags=["interactive"]
# **Explore.** The attention microscope runs small trained transformers inside the page. Switch off the scale, the mask, the
# positions or a head, and compare with a model that was trained without it.

# %% tags=["interactive"]
microscope()

# %% [markdown] tags=["quiz"]
# ## 8 Exit quiz
#
# **Question 1.** You double $d_k$ but still divide by the square root of the old $d_k$. What is the immediate effect?
#
# <details><summary>A. The weights become more even.</summary>
#
# On the contrary: the standard deviation of the scores is now $\sqrt 2$ times as large as the scale assumes.</details>
# <details><summary>B. Rows of weights no longer sum to 1.</summary>
#
# The softmax makes them sum to 1 whatever the scores are.</details>
# <details><summary>C. The weights become sharper.</summary>
#
# Right. With a much larger $d_k$, the softmax saturates: section 4.</details>
#
# **Question 2.** A batch for a language model contains texts of 3 and 5 tokens, padded to 5. Which mask is right?
#
# <details><summary>A. <code>causal_mask(5) &amp; padding_mask(lengths, 5)</code></summary>
#
# Right: both rules must allow it. (5, 5) and (2, 1, 5) broadcast to (2, 5, 5). (With padding on the right, the causal mask
# alone protects the real queries, which come before the padding; with padding on the left it does not.)</details>
# <details><summary>B. <code>causal_mask(5) | padding_mask(lengths, 5)</code></summary>
#
# "Or" lets a query attend wherever *one* of the rules allows it: to future real tokens, and to earlier padding.</details>
# <details><summary>C. <code>padding_mask(lengths, 5)</code> alone: the loss skips padding anyway.</summary>
#
# Then real tokens attend to the tokens after them, and the loss falls below the entropy, as in section 5.</details>
#
# **Question 3.** You double the number of heads and keep $d_{model}$. What grows?
#
# <details><summary>A. The number of parameters.</summary>
#
# Each head has half the size: the stacked matrices stay $d_{model} \times d_{model}$.</details>
# <details><summary>B. The number of attention weights.</summary>
#
# Right: (…, h, T, T). Each head has its own softmax, computed from half as many features.</details>
# <details><summary>C. The size of the context.</summary>
#
# $W^O$ maps the concatenated heads to $d_{model}$, as before.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague shows you an attention map of a trained model and says: "You see, it has
# understood the grammar." What would you ask before you agree? Use two experiments of this lecture.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says what a weight is: a coefficient of the weighted sum in one layer and one head, not a cause |
# | 1 | asks for a pattern that is known to be right, as in sections 3 and 7, and for texts outside the training data |
# | 1 | asks for a baseline or a control that should fail: no positions, one head, a shuffled text |
# | 1 | uses the leak of section 5, or another case in which a good number had a bad reason |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 9 What came of it
#
# - **The Transformer** (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762) is made of this layer: lecture 05.
# - **Recall became a yardstick.** Arora et al. 2023 (*Zoology*, https://arxiv.org/abs/2312.04927) trace most of the gap in
#   perplexity between attention and other language models to look-ups like that of section 1.
# - **Scores that grow again.** Training makes queries and keys long. ViT-22B (Dehghani et al. 2023,
#   https://arxiv.org/abs/2302.05442) normalises both before the product.
# - **A softmax must choose.** A query that matches no key still distributes a weight of 1, usually to the first token (Xiao et
#   al. 2023, https://arxiv.org/abs/2309.17453). In gpt-oss (2025) a learned score can take it; a sigmoid gate on the output of
#   each head (Qiu et al. 2025, https://arxiv.org/abs/2505.06708), the output gate of lecture 01, lets a head say nothing.
#
# **Further reading.** Alammar, *The Illustrated Transformer* · *Dive into Deep Learning*, chapter 11 · Rush et al., *The
# Annotated Transformer*.

# %% [markdown]
# # Going further
#
# The sections from here on are optional: pixels as tokens, what attention costs, how to design a control, padding, and the divisor
# as a matter of step size. Each stands on its own; after a restart, run the imports first, and for section 14 sections 1 and 3.

# %% [markdown]
# ## 10 Pixels are tokens too
#
# Attention does not require its tokens to form a sequence. Here every pixel of an image is a token; you write attention over all
# pixels and put the contexts back at their positions:
#
# $$y = \mathrm{softmax}\!\left(\frac{q k^\top}{\sqrt{d_k}}\right) v \qquad q = W_q x,\; k = W_k x,\; v = W_v x \text{ at each pixel}$$
#
# | name | shape |
# | --- | --- |
# | x | (B, C, H, W): channels first, pixels last |
# | tokens | (B, H · W, C) |
# | scores, weights | (B, H · W, H · W): a photograph of 40 by 60 has 2,400 tokens and nearly six million weights |
# | y | (B, d_v, H, W) |
#
# **Bug hunt.** The short version below runs on any image and returns the right shape. Decide what is wrong *before* you run the
# check. Then write it correctly.

# %% exercise="04.6" bug="reshapes_without_permuting"
from course_tools.bank.lecture_04.attention_over_image import (
    reshapes_without_permuting as suspect,
)

# %% [markdown] tags=["predict"]
# **What is wrong with it, and why does the shape not show it?**
#
# <details><summary>A. The tokens: the reshape mixes channels and positions.</summary>
#
# Yes. In memory, the whole red channel precedes the whole green channel. A reshape to (H · W, C) cuts this sequence into groups
# of three, so a "token" is three neighbouring red values. The axes must be permuted first. The shape does not show which number
# is where.</details>
# <details><summary>B. The scale.</summary>
#
# The scale is inside `scaled_dot_product_attention`, which has passed its own check.</details>
# <details><summary>C. The conversion of tokens back to an image.</summary>
#
# The last line is right for tokens that are pixels. Its input is wrong.</details>

# %% tags=["nbval-check-output"]
suspect = check("04.6", suspect)

# %% exercise="04.6" difficulty="●●○" minutes=10
from course_lib.attention import attention_over_image

# %% tags=["nbval-check-output"]
attention_over_image = check("04.6", attention_over_image)

# %% [markdown]
# **Restore the colours of a photograph.** We use your layer on a photograph that has lost most of its colours: every pixel
# keeps its brightness, but only one in fifty keeps its colour. What colour did the others have? Each pixel must attend to
# pixels of known colour that have a similar brightness and are not too far away. This is a look-up by content and by
# position, so one layer of attention can do it. There is no training: we set the three matrices by hand such that
#
# $$\mathrm{score}_{ij} = -b\,(g_i - g_j)^2 - p\,\lVert r_i - r_j \rVert^2 \quad\text{and } -\infty \text{ where the colour is unknown,}$$
#
# with brightness $g$ and position $r$. Terms that depend only on the query cancel in the softmax, so a dot product is enough
# (with a score lower by 10,000 for $-\infty$). `matrices_of_scores` returns the matrices for given $b$ and $p$. (Photograph:
# `flower.jpg` by vultilion, [CC BY 2.0](https://creativecommons.org/licenses/by/2.0/), scaled down.)
#
# | index | 0 | 1 | 2 | 3, 4 | 5 | 6 | 7 to 9 |
# | --- | --- | --- | --- | --- | --- | --- | --- |
# | feature of a pixel | 1 | $g$ | $g^2$ | row and column, $r$ | $\lVert r \rVert^2$ | 1 if the colour is known, else 0 | known colour less $g$, else 0 |

# %% [markdown] tags=["predict"]
# **Predict.** The fair rivals use the same pixels and the same layer; one scores by position alone, the other by brightness
# alone. (The figure also shows a 3×3 window, which usually contains no coloured pixel.) Where does each of the two go wrong?
#
# <details><summary>A. Position inside large areas, brightness at their edges.</summary>
#
# The other way round. Inside an area, the nearest coloured pixel belongs to it. At an edge the brightness changes, and that is what
# the second rival looks at.</details>
# <details><summary>B. Position at edges, brightness wherever two colours are equally bright.</summary>
#
# Yes. Each term alone restores most of the colours, and the two make different errors, so both together gain. The next cells measure
# how much, in decibels (peak signal-to-noise ratio). In single draws of the coloured pixels, the lead can vanish.</details>
# <details><summary>C. Nowhere, if their factors are large: then each copies the pixel that is most alike.</summary>
#
# Alike in one respect. What is nearest may have another colour, and so may what is equally bright.</details>

# %%
size = (40, 60)
faded = colour_restoration.faded_photograph(size, seeds=range(12), share=0.02)
matrices = colour_restoration.matrices_of_scores
by_score = {
    "uniform": matrices(brightness=0.0, position=0.0),
    "brightness": matrices(brightness=300.0, position=0.0),
    "position": matrices(brightness=0.0, position=30.0),
    "both": matrices(brightness=300.0, position=10.0),
}
restored = colour_restoration.compare_restorations
quality = restored(faded, attention_over_image, by_score)

# %% tags=["nbval-check-output"]
lead = lead_over_best(quality, "both")
claim("04.p", average=sum(lead) / len(lead))

# %%
colour_restoration.show_weights_of_a_pixel(faded, faded.samples[0], by_score["both"])

# %% [markdown] tags=["interactive"]
# **Explore.** $b$ and $p$ act as inverse temperatures: each multiplies one term of the scores. If both are 0, all known pixels
# have equal weight; at large values, each pixel copies the colour of a single one. What goes wrong at each end? Which setting
# restores the colours best? (The sliders show powers of ten: 2 stands for about 100, and 0 for 0.)

# %% tags=["interactive"]
explore(
    partial(colour_restoration.show_restored, faded, attention_over_image),
    brightness=(0.0, 5.0, 0.25),
    position=(0.0, 4.0, 0.25),
)

# %% [markdown]
# ## 11 Cost
#
# Vaswani et al. compare layers by their work, their sequential operations, and the longest path between two positions. We
# *measure* these three numbers for four ways to mix $n$ tokens of size $d$:
#
# | layer | work | sequential operations | longest path |
# | --- | --- | --- | --- |
# | self-attention | $n^2 d$ | 1 | 1 |
# | recurrent | $n d^2$ | $n$ | $n$ |
# | convolution of width $k$ | $k n d^2$ | 1 | $\log_k n$ |
# | self-attention within $r$ positions | $r n d$ | 1 | $n/r$ |
#
# The table gives orders of growth, without constant factors. Here $k = 3$ and $r = 8$. We count the work in multiply-adds with
# torch's own counter and fit its exponent in $n$. The number of sequential operations is the length of the longest chain of
# matrix products in the graph of a forward pass: two for self-attention, at every length. The path length is the number of
# times that a layer must be applied until the gradient of the last position reaches the first.

# %% [markdown] tags=["predict"]
# **Predict a number** (exactly). Ordinary convolutions of width 3 are stacked. How many layers does it take until the last of 65
# tokens depends on the first?
#
# <details><summary>64</summary>
#
# A convolution of width 3 reaches one position to each side, and the two ends are 64 positions apart.</details>
# <details><summary>4</summary>
#
# That is $\log_3 65$, as in the table, which assumes *dilated* convolutions, each with three times the dilation of the
# previous one.</details>
# <details><summary>1</summary>
#
# A convolution slides over the whole text, but each output depends on only three inputs.</details>
# <details><summary>65</summary>
#
# The two ends are 64 positions apart.</details>
# <details><summary>32</summary>
#
# Width 3 is one position to each side, not two.</details>

# %%
FOUR = ("self-attention", "recurrent", "convolution", "restricted")
lengths, short = [128, 256, 512, 1024], [17, 33, 65]
costs = measured_costs(FOUR, lengths, short, d=64)
figures.show_costs(costs, lengths, short)

# %% tags=["guard", "nbval-check-output"]
named = {layer: layer.removeprefix("self-") for layer in FOUR}
claim("04.q", **{named[layer]: power for layer, power in costs.exponents.items()})
joined = {named[layer]: layers[-1] for layer, layers in costs.paths.items()}
chain, waits = costs.waits["recurrent"][-1], max(costs.waits["self-attention"])
claim("04.r", n=short[-1], waits=waits, chain=chain, **joined)

# %% [markdown] tags=["predict"]
# **Predict.** It is often said that attention is cheaper than recurrence when n < d. Count everything that a layer computes,
# projections included: four $d \times d$ matrices for attention, two for a plain recurrent network, eight for an LSTM. Is
# attention cheaper than the plain network or the LSTM, and up to which $n$?
#
# <details><summary>A. Never cheaper than the plain network; cheaper than the LSTM while n &lt; 2d.</summary>
#
# Yes: $4nd^2 + 2n^2d < 2nd^2$ has no solution, and $4nd^2 + 2n^2d < 8nd^2$ gives $n < 2d$. The next cell finds both results by
# counting.</details>
# <details><summary>B. Cheaper than both while n &lt; d.</summary>
#
# That compares $n^2 d$ with $n d^2$, the mixing alone. The projections of attention cost another $4 n d^2$.</details>
# <details><summary>C. Never: a quadratic function grows faster than a linear one.</summary>
#
# That is true of long texts. For short texts and large $d$, the term in $d^2$ dominates.</details>

# %%
d = 16
mixing, rnn, lstm = figures.attention_cheaper_until(d)
print(f"d = {d}; the mixing alone is cheaper than an RNN up to n = {mixing},")
print(f"the whole layer up to n = {rnn}, and cheaper than an LSTM up to n = {lstm}")

# %% tags=["guard", "nbval-check-output"]
claim("04.t", d=d, mixing=mixing, rnn=rnn, lstm=lstm)

# %% [markdown]
# Work is not time, because a processor computes independent products in parallel. The next figure shows the time on this
# machine.

# %%
figures.show_times([64, 128, 256, 512, 1024, 2048], d=64)

# %% [markdown] tags=["try-it"]
# ## 12 Build it: a control
#
# **Build task (25 minutes, 12 points).** This lecture says that attention can look up values because its *weights depend on
# content*. But attention also has many parameters, and every token can attend to every other. Would a layer with both, but with
# *fixed* weights, do as well? A **control** answers such a question. It differs from the model in one ingredient only, and it
# could succeed if this ingredient did not matter. Design one.
#
# A text has eight pairs and four questions, as in section 1. Each position now has an answer:
#
# | positions | the right output | name |
# | --- | --- | --- |
# | the four questions | the value of the key that is asked for | look-up |
# | the eight pairs | the values in reverse order: at pair $i$, the value of pair $7 - i$ | reversal |
#
# Reversal needs only positions. It is the **positive control**: if a rival fails even there, its failure at look-up shows
# nothing. The model is one layer of attention with one head between three embeddings (of the key, the value and the position)
# and a linear read-out, all of width 64. The next cell lists its parameters and trains it.

# %%
n_parameters = rival.train_the_model(seed=0)

# %% [markdown] tags=["try-it"]
# Write `train_attention_rival`, which builds the rival, trains it as the model is trained, and returns it. Any design that the
# table allows is accepted, and you may use `torch.nn`. Before you run the check, write down which accuracies you expect. No
# point depends on whether the rival wins or loses. The check trains attention as well and, if the comparison is fair,
# reports its result.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the rival maps texts (B, 12, 2) to logits (B, 12, 8) |
# | 1 | it has `n_parameters` parameters, within five percent |
# | 1 | it is trained as the model is: exactly `n_steps` updates, with batches of 64 drawn from all texts |
# | 1 | each update uses only its own gradients, and every trained parameter has a gradient |
# | 1 | the returned rival gives the same logits for the same texts |
# | 1 | the logits of a text do not depend on the other texts of its batch |
# | 1 | the same information: the logits in each half of the positions depend on the tokens in the other half, including their keys |
# | 3 | the ingredient is missing: what a token adds to the logits does not depend on the other tokens |
# | 2 | it could have succeeded: on reversal it reaches 0.9 of the model's accuracy |
#
# Whether the ingredient is missing is tested without reading your code: replacing two sets of tokens must change the logits by
# the sum of the changes from replacing each set alone. Attention fails this test, because a new token changes the weights of
# the others.

# %% exercise="04.7" difficulty="●●●" minutes=25
from course_tools.bank.lecture_04.train_attention_rival import train_attention_rival

# %% tags=["nbval-check-output"]
train_attention_rival = check("04.7", train_attention_rival)

# %% [markdown]
# One run of each model is weak evidence. The next cell repeats the comparison with three seeds.

# %%
rival.show_attention_rival(train_attention_rival, n_parameters, seeds=(0, 1, 2))

# %% [markdown]
# ## 13 A mask for padding
#
# A query of text $b$ may attend to the keys $j$ that stand before the end of this text:
#
# $$M_{b\,\cdot\,j} = [\, j < \mathrm{length}_b \,]$$
#
# | name | shape |
# | --- | --- |
# | lengths | (B,) |
# | mask | (B, 1, T_k): the axis of size 1 broadcasts over the queries |
#
# `causal_mask(T) & padding_mask(lengths, T)` has shape (B, T, T). A row may be all False, as for an empty sentence. Then `attend`
# gives zero weights and a zero context, where a plain softmax would compute 0/0.

# %% exercise="04.3" difficulty="●○○" minutes=5
from course_lib.primitives import padding_mask

# %% tags=["nbval-check-output"]
padding_mask = check("04.3", padding_mask)

# %% [markdown] tags=["predict"]
# ## 14 The divisor and the size of a step
#
# Without the divisor, two things are different in training. The first is section 4's: the softmax starts saturated. The second
# concerns each update. Adam changes each number of a matrix by about the learning rate, however small its derivative.
#
# **Predict.** One step of Adam changes $W_Q$. How much further does it move a score without the divisor, at $d_k = 512$?
#
# <details><summary>A. As far: Adam divides each gradient by its own size.</summary>
#
# So the *matrix* moves as far. The score is the same product of it, without the division.</details>
# <details><summary>B. About 23 times as far.</summary>
#
# Yes: $\sqrt{512} = 22.6$, at every step of the training, even if it starts with scores as small as with the divisor.</details>
# <details><summary>C. Less far: a saturated softmax has a small derivative.</summary>
#
# The derivative is small, but Adam's step does not depend on its size.</details>

# %% [markdown]
# So we mend one thing at a time, then both: $W_Q$ and $W_K$ start smaller, each by $\sqrt[4]{d_k}$, so that the first scores are as
# small as with the divisor; the learning rate is a tenth.

# %%
wide, models = {}, {}
for name, mechanism, start, lr in (
    ("with 1/√d_k", scaled_dot_product_attention, 1, 1e-3),
    ("without", dot_attention, 1, 1e-3),
    ("without, small start", dot_attention, 512**-0.25, 1e-3),
    ("without, a tenth of the rate", dot_attention, 1, 1e-4),
    ("without, both", dot_attention, 512**-0.25, 1e-4),
):
    torch.manual_seed(0)
    layer = SelfAttention(512, mechanism)
    for matrix in (layer.W_q, layer.W_k):
        matrix.weight.data *= start
    models[name] = Reader(layer, (16, 9), 8, d=512).to(device())
    wide[name] = [train_reader(models[name], draw_texts, steps=200, lr=lr, n=32)]
bounds = {"a guess": math.log(8), "a bag of values": bag_loss}
show_recorded_losses(wide, "cross-entropy, nats", bounds)

# %% tags=["nbval-check-output"]
right = [answer(model, draw_texts).float().mean() for model in models.values()]
claim(
    "04.f",
    scaled=right[0],
    without=right[1],
    small=right[2],
    slow=right[3],
    mended=right[4],
)

# %% [markdown]
# Most of it is the size of the step: with that alone mended, the layer learns; with small first scores alone, it does not.

# %% [markdown] tags=["companion", "guard"]
# ## 15 Papers and decks
#
# **Papers.** Vaswani et al. 2017, *Attention Is All You Need*, eq. 1 and sections 3.2.1 to 3.2.3, table 1
# (https://arxiv.org/abs/1706.03762) · Graves, Wayne, Danihelka 2014, *Neural Turing Machines*, eqs. 2 and 5
# (https://arxiv.org/abs/1410.5401).
#
# **Decks.** EE-559 13.2 · RKMVERI · CSE 891 · ITMO lecture 7 · Gaïffas lecture 8.
#
# <details><summary>Where each section of the decks is covered, and the library's name for it</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | IT | Problems with RNNs - still remains... | 1 A recurrent network has one state for everything | `course_lib.primitives.GRU` |
# | EE | Values, keys and a query | 3 Queries, keys and values | `course_lib.attention.attend` |
# | EE | Scaled Dot-Product Attention | 3 Queries, keys and values | `course_lib.attention.scaled_dot_product_attention` |
# | RK | Self-attention | 3 Queries, keys and values | `course_lib.attention.scaled_dot_product_attention` |
# | CS | Recap: Self-Attention Layer | 3 Queries, keys and values | `course_lib.attention.scaled_dot_product_attention` |
# | IT | Self-attention | 3 Queries, keys and values | `course_lib.attention.scaled_dot_product_attention` |
# | GA | Self-attention layer | 3 Queries, keys and values | `course_lib.attention.scaled_dot_product_attention` |
# | EE | Implementation example: batched matrix products | 3 Queries, keys and values | `course_lib.attention.scaled_dot_product_attention` |
# | RK | Encoder self-attention, decoder self-attention (masked) | 5 Masks | `course_lib.primitives.causal_mask`, `course_lib.primitives.padding_mask` |
# | EE | Multi-Head Attention | 6 Several heads | `course_lib.attention.multi_head_attention`, `course_lib.attention.MultiHead` |
# | RK | Multi-head attention | 6 Several heads | `course_lib.attention.MultiHead` |
# | CS | Multihead Self-Attention Layer | 6 Several heads | `course_lib.attention.split_heads` |
# | IT | Multi-head Attention | 6 Several heads | `course_lib.attention.multi_head_attention` |
# | GA | Multi-head self-attention layer | 6 Several heads | `course_lib.attention.multi_head_attention` |
# | CS | Visualizing Multi-Head Attention | 7 Write your name backwards | `course_lib.analysis.record` |
# | EE | Implementation example: AttentionLayer2d | 10 Pixels are tokens too | `course_lib.attention.AttentionLayer2d` |
# | IT | Convolution? | 11 Cost | `course_lib.attention.scaled_dot_product_attention` |
# | CS | Computational Cost and Parallelism | 11 Cost | `course_lib.attention.MultiHead` |
# | CS | Computational Efficiency | 11 Cost | `course_lib.attention.MultiHead` |
# | IT | Attention is cheap | 11 Cost | `course_lib.primitives.LSTM` |
# | GA | Quadratic complexity of MSA | 11 Cost | `course_lib.attention.scaled_dot_product_attention` |
#
# </details>

# %% tags=["ledger"]
ledger()
