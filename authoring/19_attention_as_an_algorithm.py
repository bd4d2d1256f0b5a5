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
# # 19 · Attention as an algorithm: exact, and cheaper
#
# The same softmax without its table of weights, and text of the same law from fewer calls of the model. Neither is an
# approximation: the cost changes, and beyond it only rounding.
#
# You will merge two halves of a softmax, compute attention in tiles, and let a table of counts draft what a small language
# model, which you train, then only has to judge. You test that the **law** of a token that was drafted, its probabilities, is
# still that of the model.
#
# **Prerequisites:** lectures 04 (attention) and 07 (language models). **Time:** {minutes}. {measured}
#
# ![](diagram:tiled)

# %%
import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from course_lib.attention import (
    PagedCache,
    PageTable,
    merge,
    partial_attention,
    scaled_dot_product_attention,
    windowed_cache,
)
from course_lib.attention.core import ContextOnly, hide_keys
from course_lib.attention.tiled import Partial, Parts
from course_lib.blocks import Sizes
from course_lib.datasets import Vocabulary, language_reference
from course_lib.generation import Accepted, accept, next_word_probabilities, speculative
from course_lib.generation.speculative import Law, Speculated
from course_lib.losses import next_token_loss
from course_lib.models import KneserNey, Llama, NGram
from course_lib.primitives import window_of_tokens
from course_lib.shapes import Context, Keys, Logits, Mask, Queries, Tokens, Values
from course_lib.training import batches, train
from course_tools.lectures.lecture_19 import experiments, figures
from course_tools.notebook import check, claim, device, explore, ledger, predict
from course_tools.notebook import source

# %% [markdown]
# ## 1 A table that is thrown away
#
# Attention returns one vector for each token. On the way it makes a table of weights, of which nothing is returned. The cell
# below counts the numbers in the largest tensor that one head makes.

# %% [markdown] tags=["predict"]
# **Predict.** A text becomes four times as long. How does the largest tensor of one head grow?
#
# <details><summary>A. Not at all: its size is that of the head.</summary>
#
# The number of features stays. The number of weights does not depend on it.</details>
# <details><summary>B. As the result does: four times.</summary>
#
# The result has a row for each token. The table has a row and a column for each.</details>
# <details><summary>C. Sixteen times.</summary>
#
# Yes: four times the rows, and four times the columns.</details>

# %%
source(experiments.largest_tensor)
for T in (256, 1_024, 4_096):
    q, k, v = torch.randn(3, T, 64, device=device())
    _, n = experiments.largest_tensor(scaled_dot_product_attention, q, k, v)
    print(f"{T:6,} tokens: result {q.numel():8,} numbers, largest tensor {n:11,}")

# %% [markdown]
# Four times the tokens, sixteen times the table. At 128,000 tokens, one head needs 16 billion numbers, 33 GB in half precision,
# and a layer of 32 heads a terabyte: no accelerator holds that. Lecture 14 escapes by giving up the softmax. This lecture keeps
# it.
#
# ## 2 A softmax in two halves
#
# A few *queries* at a time are easy, but each has a row of $T$ weights. To cut the row is harder: each weight is divided by a sum over
# *all* keys. But a sum can be kept while it grows.
#
# **By hand.** A query has the scores $0$, $\ln 2$ and $\ln 6$, and the values are 12, 3 and 9. At once: the exponentials are 1,
# 2 and 6, so the context is $(1 \cdot 12 + 2 \cdot 3 + 6 \cdot 9) / 9 = 8$. Now in two tiles. To avoid overflow, each tile
# counts in units of $e^m$, where $m$ is its largest score: its sum $\ell$ stands for $\ell\, e^m$.
#
# | tile | maximum $m$ | sum $\ell$ of $e^{\text{score} - m}$ | context $c$: mean of its values |
# | --- | --- | --- | --- |
# | keys 1, 2 | ln 2 | 0.5 + 1 = 1.5 | (0.5 · 12 + 1 · 3) / 1.5 = 6 |
# | key 3 | ln 6 | 1 | 9 |
# | merged | ln 6 | 1.5 · 2/6 + 1 = 1.5 | (0.5 · 6 + 1 · 9) / 1.5 = **8** |
#
# The only trick is in the last row. The first tile was counted in units of 2, the merged one in units of 6. So the sum of the
# first is multiplied by $e^{\ln 2 - \ln 6} = 1/3$, which makes it 0.5. Without this, the two sums could not be added.

# %%
figures.show_tiles([[0.0, math.log(2)], [math.log(6)]])

# %% [markdown]
# $$m = \max(m_a, m_b) \qquad r_a = \ell_a\, e^{m_a - m} \quad r_b = \ell_b\, e^{m_b - m} \qquad \ell = r_a + r_b \qquad c =
# \frac{r_a\, c_a + r_b\, c_b}{\ell}$$
#
# A vector $c$ and two numbers, $m$ and $\ell$, are all that a query must keep, however many keys it has seen. A tile without
# keys has $m = -\infty$, $\ell = 0$ and $c = 0$, and changes nothing. Where both tiles are empty, mind $-\infty - (-\infty)$:
# neither the result nor its gradient may be NaN.
#
# | name | shape |
# | --- | --- |
# | `a`, `b` | tuples (context, maximum, total) |
# | context | (…, T_q, d_v) |
# | maximum, total | (…, T_q): $m$ and $\ell$ |
# | result | the same three |
#

# %% exercise="19.1" difficulty="●●○" minutes=8
from course_lib.attention import merge

# %% tags=["nbval-check-output"]
merge = check("19.1", merge)

# %% [markdown]
# **Bug hunt.** This version is right for some inputs. For which? Say it before you run the check.

# %% exercise="19.1" bug="does_not_rescale"
from course_tools.bank.lecture_19.merge import does_not_rescale as suspect

# %% tags=["nbval-check-output"]
suspect = check("19.1", suspect)

# %% [markdown] tags=["predict"]
# **Predict.** You merge the tiles of a long text in another order: the last two first, then the one before. What changes?
#
# <details><summary>A. Nothing but rounding.</summary>
#
# Yes. Merging is associative and commutative, as a sum is. So tiles may be computed in any order, even on different machines.</details>
# <details><summary>B. The result: later keys now count more.</summary>
#
# Each tile brings its sum and its maximum along. What could depend on when it is merged?</details>
# <details><summary>C. The maximum.</summary>
#
# The largest of some numbers does not depend on their order.</details>

# %% [markdown]
# ## 3 Attention in tiles
#
# With `merge`, attention is a loop: take the next tile of keys and values, attend to it alone, merge. Given is
# `partial_attention(q, k, v, mask)`: for the keys, values and mask of one tile, it returns context, maximum and total. You
# choose the slices. The check also measures the memory of the forward pass: at no time may it hold many times the scores of one
# tile.
#
# | name | shape |
# | --- | --- |
# | `q`; `k`; `v` | (…, T_q, d_k); (…, T_k, d_k); (…, T_k, d_v) |
# | `mask` | (…, T_q, T_k), or None: each tile needs its own columns |
# | `tile` | keys in a tile; the last one may be smaller |
# | result | `ContextOnly(context)`, context (…, T_q, d_v): there are no weights to return |

# %% exercise="19.2" difficulty="●●○" minutes=10
from course_lib.attention import tiled_attention

# %% tags=["nbval-check-output"]
tiled_attention = check("19.2", tiled_attention)

# %%
q, k, v = torch.randn(3, 2_048, 64, device=device())
at_once, whole = experiments.largest_tensor(scaled_dot_product_attention, q, k, v)
in_tiles, tile = experiments.largest_tensor(tiled_attention, q, k, v)

# %% tags=["nbval-check-output"]
error = (at_once - in_tiles).abs().max()
claim("19.tiles", error=error, whole=whole, tile=tile)

# %% [markdown]
# Exact up to rounding, and the largest tensor now grows with $T$, not with $T^2$. In blocks of 64 queries with all keys it would, too,
# without any merge. Your loop makes as many multiply-adds as before, and a few more for the merges. Why would it be *faster*?
#
# ## 4 What is expensive is moving
#
# A processor multiplies faster than it can fetch. An H100 GPU makes about 990 · 10¹² operations a second in half precision, and
# reads 3.35 · 10¹² bytes from its large memory: nearly 300 operations in the time in which one byte arrives. Each of its 132
# groups of arithmetic units has a fast memory of its own, but of 228 kB only. So count what travels between slow and fast
# memory, for $T$ tokens and one head of $d$ features:
#
# - **At once**, each step by itself: $QK^\top$ is written, read for the softmax, written again, and read again for the product
#   with $V$: about $4\,T^2$ numbers.
# - **In tiles**: a block of 128 queries stays in fast memory, with its $c$, $m$ and $\ell$, while all keys and values
#   pass by. For each block, $2\,T d$ numbers are read. Without a merge, the block would keep 128 rows of $T$ scores, a
#   megabyte if $T = 4{,}096$: too much.

# %%
figures.show_traffic()

# %% [markdown] tags=["predict"]
# **Predict a number** (within a factor of 1.1). $T = 4{,}096$, $d = 64$, blocks of 128 queries. How many times fewer numbers move in
# tiles?
#
# <details><summary>4</summary>
#
# The 32 blocks read $2 \cdot 4096 \cdot 64$ numbers each, 17 million in all, and $4 \cdot 4096^2$ are 67 million. The ratio is 2 · 128 / 64,
# whatever $T$ is: twice as many queries in fast memory halve the traffic.</details>
# <details><summary>128</summary>
#
# No table is moved at all, but keys and values are read again for each of 32 blocks, not once.</details>
# <details><summary>1</summary>
#
# Each query still meets each key, but it meets it in fast memory, and one reading serves 128 queries.</details>

# %%
source(experiments.moved_in_tiles)
whole, tiles = (
    experiments.moved_at_once(4_096, 64),
    experiments.moved_in_tiles(4_096, 64, rows=128),
)

# %% tags=["nbval-check-output"]
claim(
    "19.moved",
    ratio=whole.numbers / tiles.numbers,
    work=tiles.multiply_adds / whole.multiply_adds,
)

# %% [markdown]
# This is **FlashAttention** (Dao et al. 2022): a little more arithmetic, less traffic, and nothing approximated. (At first, the keys stayed and the
# queries passed by, as in your loop; since FlashAttention-2, Dao 2023, it is as here.) The
# backward pass goes the same way: it keeps $m$ and $\ell$ of
# each query, and computes the weights of each tile again. Plain autograd through your loop would not: it keeps the weights of
# all tiles, $T^2$ numbers again. (You write this pass in *Going further*.)
#
# By this count, attention at once makes 32 operations for each byte in half precision, and tiles of 128 queries 128: still below 295.
# The caches between both memories, which the count leaves out, do the rest. Your processor has caches, too: the next cell times four forms of
# attention on one of its threads.


# %%
def in_blocks(q, k, v):
    """The rival that needs no merge: 128 queries at a time, each with all keys."""
    blocks = (scaled_dot_product_attention(part, k, v)[0] for part in q.split(128, -2))
    return ContextOnly(torch.cat([*blocks], dim=-2))


source(experiments.seconds)
q, k, v = torch.randn(3, 1, 1, 4_096, 64, device=device())  # batch and heads of one
forms = {
    "at once": scaled_dot_product_attention,
    "your loop": tiled_attention,
    "blocks of queries": in_blocks,
    "kernel of torch": lambda *x: (F.scaled_dot_product_attention(*x),),
}
taken = {name: experiments.seconds(form, q, k, v) for name, form in forms.items()}
for name, each in taken.items():
    print(f"{name}: {taken['at once'] / each:.1f} times as fast as at once")

# %% [markdown] tags=["try-it"]
# Even in Python, both ways to cut the table pay at this length. `F.scaled_dot_product_attention` runs such an algorithm as one *kernel*, a
# single program, wherever it has one for the inputs; elsewhere it makes the table. For short texts the table fits in the caches, and the loop
# gains nothing.
#
# ## 5 A model that writes one letter a call
#
# Writing has the same problem. For each new token, all the weights of the model travel from slow memory once, for a single
# multiply-add each. Judging 5 tokens takes one such journey, too: the logits at all places of a text come from *one* call. So
# as long as moving takes most of the time, a call that judges five tokens costs about as much as a call that writes one.
#
# First, train a model: lecture 17's Llama, on characters of Python's language reference, in place of a large one.
# After 700 updates it predicts new text no better than a table of counts does. Whether the law is right does not depend on that; how
# many calls are saved does.
#
# **Try it.** Train it twice as long. Does the table of counts, which stays the same, draft as well for a better model?

# %% tags=["try-it"]
T, UPDATES = 128, 700
text = language_reference(seed=0)
characters = Vocabulary.of([text.train])
known, new = (
    torch.tensor(characters.encode(part)).to(device())
    for part in (text.train, text.test)
)
torch.manual_seed(0)
model = Llama(len(characters), Sizes(64, 4, 172, 2), n_groups=2).to(device())


def loss(model, batch):
    return next_token_loss(model(batch[0]), batch[0])


stream = batches(known.unfold(0, T, 1), batch_size=8, seed=0)
for step in train(model, stream, loss, steps=UPDATES, lr=6e-3, warmup=50):
    if (step.index + 1) % 175 == 0:
        print(f"update {step.index + 1}: {step.loss / math.log(2):.2f} bits")
model.eval()
with torch.no_grad():
    unseen = new.unfold(0, T, T)[:100]
    bits = F.cross_entropy(model(unseen)[:, :-1].mT, unseen[:, 1:]) / math.log(2)
print(f"new text: {bits:.2f} bits per character")

# %% [markdown]
# ## 6 Draft, judge, accept
#
# A **draft** is a second, cheaper predictor, which proposes a few tokens. It may be wrong. Ours is lecture 07's table of
# counts: which character followed these three, and how often? In one call the model reads the text with all proposed tokens,
# and gives its own probabilities $p$ at each place. The draft's are $q$. Which tokens may stay?
#
# **By hand**, with three tokens, 0, 1 and 2: $p = (0.5, 0.5, 0)$ and $q = (0.25, 0.25, 0.5)$.
#
# - Tokens 0 and 1 are proposed *too rarely*. Whenever one comes, keep it.
# - Token 2 is proposed in half of the cases and must never come: refuse it.
# - So far, the first two come in a quarter of the cases each. Each is owed another quarter, and half of the cases are still
#   open: after a refusal, draw one of the two, with equal probability. Together: $0.5, 0.5, 0$. That is $p$.
#
# In general, a token $x$ that was drawn from $q$ is
#
# $$\text{accepted with probability } \min\!\Big(1, \frac{p(x)}{q(x)}\Big) \qquad \text{after a refusal, draw from }
# \frac{(p - q)_+}{\sum (p - q)_+}$$
#
# where $(\cdot)_+$ sets negative numbers to 0. Why does this give $p$? A token $x$ is proposed and accepted with probability
# $q \min(1, p/q) = \min(p, q)$. A refusal has the probability $1 - \sum \min(p, q) = \sum (p - q)_+$, which cancels the
# denominator: $x$ comes after a refusal with probability $(p - q)_+$. Together, $\min(p, q) + (p - q)_+ = p$, **whatever the
# draft is**.
#
# The share of accepted tokens is $\sum \min(p, q) = 1 - \mathrm{TV}(p, q)$, where the **total variation distance** TV is half
# of $\sum |p - q|$. Above: one half.
#
# With several tokens, everything after the first refusal is dropped, since it continues another text. If all are accepted, the
# model's last row gives one more token at no extra cost. The check judges, over many rows, the law of the token that follows; how
# you draw it is up to you. **By hand**: of (0.5, 0.5, 0), the running sums are 0.5, 1 and 1. With the uniform number 0.7 comes token 1,
# whose sum is the first above it.
#
# | name | shape |
# | --- | --- |
# | `tokens` | (…, n): each drawn from its row of `draft_p` |
# | `draft_p`; `model_p` | (…, n, n_tokens); (…, n + 1, n_tokens) |
# | `uniforms` | (…, n + 1), 0 ≤ u < 1: one for each token, and the last to draw the token that follows |
# | result | `Accepted(n, token)`: how many are accepted, and the token after them, both (…) |

# %% exercise="19.3" difficulty="●●●" minutes=20
from course_lib.generation import accept

# %% tags=["nbval-check-output"]
accept = check("19.3", accept)

# %% [markdown] tags=["predict"]
# **Predict.** Someone draws from $p$ after a refusal, not from $(p - q)_+$. What is wrong with the text?
#
# <details><summary>A. Nothing: the new token has the law of the model.</summary>
#
# That token has. But it comes only after a refusal, and some tokens came before it already.</details>
# <details><summary>B. It takes more calls.</summary>
#
# The number of calls depends on what is accepted, and that is unchanged.</details>
# <details><summary>C. What the draft likes comes too often.</summary>
#
# Yes. Such a token is proposed and accepted with probability $\min(p, q) = p$ already, and then gets a second chance with every
# refusal. In the example, nothing would be wrong, since both tokens are owed the same. In general they are not.</details>

# %% [markdown]
# Such a mistake is hard to see in a text. So **test**. Take one place in a new text, at which model and draft have a distance
# TV of about 0.3. Let the draft propose a token there, 100,000 times, and judge it by the model. How often each token comes is
# compared by χ², the sum of (count − expected)² / expected. Its number $f$ of degrees of freedom is one less than the number of
# counts compared (tokens expected fewer than five times are counted together). If the law is right, χ² is about $f$, give or
# take $\sqrt{2f}$.

# %%
table = NGram(known.cpu().unfold(0, 4, 1), len(characters))


def counts(tokens):
    """The draft: probabilities of the next character after the last three."""
    return table.probabilities(tokens[0].cpu()).float().to(tokens.device)


def from_p_again(tokens, draft_p, model_p, uniforms):
    """The popular mistake: after a refusal, draw from p."""
    n, _ = accept(tokens, draft_p, model_p, uniforms)
    return n, torch.multinomial(model_p[:, 0], 1)[:, 0]


runs = new[: unseen.numel()].cpu().unfold(0, 4, 1)
table_bits = -table.probability(runs).log2().mean()
print(f"the table, on the same text: {table_bits:.2f} bits per character")
source(experiments.first_tokens)
passage = new[None, 1_000:1_100]
with torch.no_grad():
    laws = model(passage)[0, 3:].softmax(-1).cpu()
drafted = torch.stack([counts(passage[:, :t]).cpu() for t in range(4, 101)])
apart = (laws - drafted).abs().sum(-1) / 2
p, q = (each[(apart - 0.3).abs().argmin()] for each in (laws, drafted))
torch.manual_seed(0)
tokens, accepted = experiments.first_tokens(accept, p, q, 100_000)
right, freedom = experiments.chi_squared(tokens, p)
tokens, _ = experiments.first_tokens(from_p_again, p, q, 100_000)
mistaken, _ = experiments.chi_squared(tokens, p)

# %% tags=["nbval-check-output"]
claim("19.law", right=right, mistaken=mistaken, freedom=freedom)
expected = 1 - (p - q).abs().sum() / 2
claim("19.accepted", accepted=accepted, expected=expected)

# %% [markdown] tags=["try-it"]
# ## 7 A generator
#
# In each round, the draft proposes up to `n_drafts` tokens, one after the other; one call of the model judges them; `accept` says what
# stays and what follows. `speculative` of the library does just that. (You build your own in *Going further*.)
#
# Let it write. Red letters are the model's own, one in each round: where a drafted letter was refused, or after
# four that were all accepted. Blue ones were drafted by the table and accepted. Where do the longest blue runs stand?
#
# **Try it.** Draft eight letters a round in place of four. Are there more blue letters in a row? And how many of the eight in
# each round are thrown away?

# %% tags=["cover", "try-it"]
torch.manual_seed(1)
recorded = experiments.Recorded(model, counts)
prompt = new[None, 9_000:9_016]
written, _ = speculative(recorded.model, recorded.draft, prompt, 112, n_drafts=4)
written = characters.decode(written[0].tolist())
figures.show_authors(written, recorded.of_the_model(len(written)), n_prompt=16)

# %% [markdown] tags=["predict"]
# **Predict a number** (within 0.05). The draft proposes 4 tokens, each of which is accepted with probability 0.6, independently of the
# others. How many tokens does one call yield on average?
#
# <details><summary>2.31</summary>
#
# $1 + 0.6 + 0.6^2 + 0.6^3 + 0.6^4 = 2.31$. However many are drafted, it stays below $1 / (1 - 0.6) = 2.5$.</details>
# <details><summary>3.4</summary>
#
# That is four times 0.6, and one. But a token counts only if all before it are accepted.</details>
# <details><summary>5</summary>
#
# Only if all are accepted, in 13 % of the rounds.</details>

# %% [markdown] tags=["predict"]
# ## 8 Which draft?
#
# A rival that needs no training, no table and no data is **copying from the text**, or prompt lookup (Saxena 2023). It looks
# for the last few characters earlier in the text, and proposes what followed them there.
#
# **Predict.** At temperature 0.7, the model's law is $p^{1/0.7}$, divided by its sum. The draft may be cooled in the same way.
# What does that change?
#
# <details><summary>A. The law of the text.</summary>
#
# It is $p$ whatever the draft is.</details>
# <details><summary>B. More drafted tokens are accepted.</summary>
#
# Yes, if the draft is like the model: when both are cooled, they agree more often, and 1 − TV is larger.</details>
# <details><summary>C. Nothing: what is accepted depends on the model.</summary>
#
# It depends on both: the share is $\sum \min(p, q)$.</details>


# %%
def copied(tokens, longest=4):
    """The rival: all probability on what followed the last characters before."""
    text = tokens[0]
    for n in range(min(longest, len(text) - 1), 0, -1):
        places = (text[:-1].unfold(0, n, 1) == text[-n:]).all(-1).nonzero()
        if len(places):
            after = text[places[-1, 0] + n]
            return F.one_hot(after, len(characters)).float()
    return torch.full((len(characters),), 1 / len(characters), device=text.device)


def characters_per_call(draft, temperature, seed):
    """112 characters after each of four prompts, with four drafted at a time."""
    torch.manual_seed(seed)
    law = partial(next_word_probabilities, temperature=temperature)
    recorded = experiments.Recorded(model, draft)
    prompts = new[4_000:].unfold(0, 16, 2_000)[4 * seed : 4 * seed + 4]
    for prompt in prompts:
        speculative(recorded.model, recorded.draft, prompt[None], 112, 4, law)
    return 4 * 112 / recorded.calls


@torch.no_grad()
def in_common(draft, temperature):
    """The sum of min(p, q), mean over 970 places of new text."""
    shares = []
    for passage in new[1_000:].unfold(0, 100, 1_000)[:10]:
        p = (model(passage[None])[0, 3:] / temperature).softmax(-1)
        q = torch.stack([draft(passage[None, :t]) for t in range(4, 101)])
        shares.append(torch.minimum(p, q).sum(-1).mean())
    return torch.stack(shares).mean().item()


# %%
pairs = NGram(known.cpu().unfold(0, 2, 1), len(characters))


def after_one(tokens):
    """A weaker draft: what followed the last character."""
    return pairs.probabilities(tokens[0].cpu()).float().to(tokens.device)


def smoothed(table, tokens):
    """A better table, Kneser and Ney's of lecture 07."""
    read = tokens[:, -6:].cpu()
    logs, _ = table.step(read[:, -1], read[:, :-1])
    return logs[0].exp().float().to(tokens.device)


kneser_ney = {
    n: KneserNey(known.cpu().unfold(0, n + 1, 1), len(characters)) for n in (3, 5)
}
small = Llama(len(characters), Sizes(32, 2, 86, 1), n_groups=1).to(device())
stream = batches(known.unfold(0, T, 1), batch_size=8, seed=0)
for _ in train(small, stream, loss, steps=UPDATES, lr=6e-3, warmup=50):
    pass
small.eval()


@torch.no_grad()
def network(tokens):
    """The published way: a smaller network, here of one layer and width 32."""
    return small(tokens[:, -T:])[0, -1].softmax(-1)


def cooled(tokens):
    """The counts after three characters, at the temperature 0.7 of the model."""
    return F.normalize(counts(tokens) ** (1 / 0.7), p=1, dim=-1)


# %%
drafts = {
    "counts after one": after_one,
    "counts after three": counts,
    "Kneser and Ney after three": partial(smoothed, kneser_ney[3]),
    "Kneser and Ney after five": partial(smoothed, kneser_ney[5]),
    "small network": network,
    "copying": copied,
}
at_0_7 = {
    "counts after three": counts,
    "counts after three, cooled": cooled,
    "copying": copied,
}
found, common = {}, {}
for temperature, tried in ((1.0, drafts), (0.7, at_0_7)):
    title = f"temperature {temperature:g}"
    found[title], common[title] = {}, {}
    for name, draft in tried.items():
        calls = [characters_per_call(draft, temperature, seed) for seed in range(3)]
        found[title][name], common[title][name] = calls, in_common(draft, temperature)
        print(f"{title}, {name}: {common[title][name]:.2f} in common with the model")
figures.show_calls(found)
for name, each, order in (("one", pairs, 2), ("five", kneser_ney[5], 6)):
    runs = new[: unseen.numel()].cpu().unfold(0, order, 1)
    of_each = -each.probability(runs).log2().mean()
    print(f"the table after {name}, on the same text: {of_each:.2f} bits per character")
with torch.no_grad():
    of_small = F.cross_entropy(small(unseen)[:, :-1].mT, unseen[:, 1:]) / math.log(2)
print(f"the small network, on the same text: {of_small:.2f} bits per character")

# %% tags=["nbval-check-output"]
of, cold = found["temperature 1"], found["temperature 0.7"]
common_cold = common["temperature 0.7"]
claim("19.calls", counts=of["counts after three"], copying=of["copying"])
claim(
    "19.drafts",
    one=of["counts after one"],
    three=of["counts after three"],
    five=of["Kneser and Ney after five"],
    network=of["small network"],
)
claim(
    "19.cold",
    counts=cold["counts after three"],
    copying=cold["copying"],
    plain=common_cold["counts after three"],
    cooled=common_cold["counts after three, cooled"],
)

# %% [markdown]
# - **A table of counts saves more than half of the calls**, although it reads three characters only. It predicts new text as well
#   as our network, 2.06 bits to 2.11: a favourable case. Where the network knows much more than its draft, as it does with counts
#   after one character (3.5 bits), a call yields far less.
# - **The best predictor is not the best draft.** After five characters, Kneser and Ney's table predicts *the text* far better than our
#   network, 1.69 bits, and yields no more characters a call; the small network, trained like the large one, predicts worse and
#   drafts nearly as well. What counts is $\sum \min(p, q)$, how much its law has in common with the model's.
# - **Copying gives a little, for nothing.** Where an answer repeats its prompt, as edited code does, try it first.
# - **Calls are not seconds.** The draft must be cheap, and a call that judges five tokens must cost little more than a call for
#   one. Ours satisfy neither: the table is asked in Python, and without a cache each call reads the whole text again. On an
#   accelerator, with a cache, a call takes the time of moving the weights, provided that few texts are written at once. Keys and
#   values of refused tokens must then leave the cache again.
# - **Exact means in exact arithmetic.** A call for five places may round differently from a call for one.

# %% [markdown] tags=["quiz"]
# ## 9 Exit quiz
#
# **Question 1.** Two tiles have the same sum $\ell = 1$; the maximum of the first is larger by $\ln 9$. How much of the merged
# context is the first tile's?
#
# <details><summary>A. One half: the sums are equal.</summary>
#
# They are counted in different units.</details>
# <details><summary>B. 90 %</summary>
#
# Right: the second sum shrinks to 1/9, and 1 / (1 + 1/9) = 0.9.</details>
# <details><summary>C. All of it.</summary>
#
# The softmax is not a maximum.</details>
#
# **Question 2.** What does FlashAttention save?
#
# <details><summary>A. The memory of the table, and the traffic to and from it.</summary>
#
# Right.</details>
# <details><summary>B. Multiply-adds.</summary>
#
# It makes a few more.</details>
# <details><summary>C. Precision: the result is an approximation.</summary>
#
# It is the same up to rounding.</details>
#
# **Question 3.** The draft has learned another language, and is wrong nearly always. What happens to the text?
#
# <details><summary>A. It drifts into the other language.</summary>
#
# Every token that stays was accepted with the probability that makes its law $p$.</details>
# <details><summary>B. It stops.</summary>
#
# Each round yields at least the model's own token.</details>
# <details><summary>C. Nothing: it has the model's law, at nearly one call a token.</summary>
#
# Right. A bad draft costs its own time, and changes nothing else.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague writes: "Speculative decoding made our model three times faster, but it is
# an approximation, so we evaluate it again." What do you answer, and how would you convince them? Use two measurements from
# this lecture.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says that the law is that of the model, and why, with min(p, q) + (p − q)₊ |
# | 1 | proposes a test on single draws, with χ² or as good, and a number |
# | 1 | names the mistake that would break the law, and what the test says of it |
# | 1 | distinguishes calls from seconds, or names copying as a rival |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 10 What came of it
#
# - **Tiles.** The running softmax is from Milakov and Gimelshein (2018); Rabe and Staats (2021) used it for attention without
#   the table. FlashAttention (Dao et al. 2022) added the view of traffic, and the kernel. For attention of GPT-2 medium it reports 13 %
#   more operations, 4.4 GB moved in place of 40.3, and 7.3 ms in place of 41.7. Such kernels made contexts of 100,000 tokens
#   practical. Ring attention (Liu et al. 2023) merges tiles from different machines, and Flash-Decoding (Dao et al. 2023) those of
#   one query from all parts of a GPU.
# - **Speculative decoding** (Leviathan et al. 2023; Chen et al. 2023) reports two to three times the speed with a small network as its
#   draft. EAGLE (Li et al. 2024) trains a small head that drafts from the model's own states. DeepSeek-V3 (2024) is trained to predict
#   two tokens, and the second can serve as a draft.

# %% [markdown]
# # Going further
#
# The course does not need these sections. Their exercises are extra points. The last one says what the course leaves out, and why.

# %% [markdown]
# ## Build it
#
# **Build task (20 minutes, 13 points).** Write the generator of section 7, from an empty cell. Return the text, with its
# prompt, and the number of calls. Everything is allowed except the library's own.
#
# | name | meaning |
# | --- | --- |
# | `model(tokens)` | (1, T) → logits (1, T, n_tokens); those at t are for the token at t + 1 |
# | `draft(tokens)` | (1, T) → probabilities (n_tokens,) of the next token |
# | `prompt`, `n_tokens` | (1, T), T ≥ 1; exactly so many tokens are added |
# | `probabilities(logits)` | makes $p$ of logits: temperature and top-p belong here |
# | `generator` | source of randomness, or None (not graded) |
# | result | `Speculated(tokens, calls)` |
#
# The check judges the *law*, by χ² over long texts in a small language whose law is known, and the *calls*, counted from the
# operations that they take.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the text with its prompt, (1, T), and a number |
# | 1 | exactly `n_tokens` are added, none if it is 0 |
# | 2 | with `greedy_probabilities`, 1 for the most likely token, it writes the model's most likely token at each step, whatever the draft proposes |
# | 1 | with `n_drafts = 0` each token takes a call |
# | 1 | where all that the draft proposes is accepted, 120 tokens take at most 27 calls of the model |
# | 1 | it says how many calls it made |
# | 4 | a long text has the law of the model |
# | 1 | with a draft that is often right, 120 tokens take at most 60 calls |
# | 1 | the call does not change its inputs |

# %% exercise="19.4" difficulty="●●●" minutes=20
from course_lib.generation import speculative

# %% tags=["nbval-check-output"]
speculative = check("19.4", speculative)

# %% [markdown]
# ## How many drafts?

# %% [markdown] tags=["interactive"]
# **Explore.** How many times as fast a text comes, by the number of drafted tokens, the share that is accepted and the cost of a
# drafted token in calls of the model (Leviathan et al. 2023, theorem 3.8). At a cost of 0, more drafts never hurt. Which number is
# best at 0.05, and at 0.2? When is drafting slower than not drafting?

# %% tags=["interactive"]
explore(
    figures.draw_speed_up,
    share=(0.1, 0.95, 0.05),
    cost=(0.0, 0.3, 0.05),
    n_drafts=(0, 12, 1),
)

# %% [markdown]
# ## A window with sinks
#
# A cache that may not grow forgets the oldest tokens (lecture 17). In many large models this ruins the text as soon as the
# *first* tokens fall out: heads have learned to put weight on them when no other token matters, for the weights of a softmax
# must sum to 1. StreamingLLM (Xiao et al. 2023) keeps the first few tokens for ever, the **attention sinks**, and the window.
# The text stays fluent; what left the window is still forgotten. (It also counts positions within the cache, which a mask alone
# does not do. In gpt-oss, of 2025, each head has a learned score without a key, and puts its unused weight there.)
#
# **By hand.** With a window of 2 and one sink, the fifth of five tokens sees the tokens 1, 4 and 5. The second sees 1 and 2: a
# sink is counted once, even where it lies in the window. With three sinks, the second token still does not see the third: it
# lies in the future.
#
# | name | meaning |
# | --- | --- |
# | `T` | number of queries, and of keys |
# | `size` | tokens in the window, the query's own included |
# | `sinks` | first tokens that stay, in addition |
# | result | bool (T, T), True = may attend |
#
# Given: `window_of_tokens(T, size, device)` of lecture 17.

# %% exercise="19.5" difficulty="●○○" minutes=6
from course_lib.primitives import window_with_sinks

# %% tags=["nbval-check-output"]
window_with_sinks = check("19.5", window_with_sinks)

# %% [markdown]
# Your tiles and your mask together: 1,000 queries that see at most 36 keys each, and still the same result as at once. (A
# kernel would skip the tiles that the mask hides as a whole.)

# %%
q, k, v = torch.randn(3, 1_000, 16)
mask = window_with_sinks(1_000, 32, 4)
torch.testing.assert_close(
    tiled_attention(q, k, v, mask)[0],
    scaled_dot_product_attention(q, k, v, mask).context,
    atol=1e-5,
    rtol=1e-4,
)
print("most keys of a query:", mask.sum(-1).max().item())

# %% [markdown]
# ## A cache that does not grow
#
# A mask saves no memory: the keys that it hides are still there. To save it, take the oldest key out of the cache. But a rotary model
# (lecture 17) turns each new key by its position, and counts positions by the length of its cache. So all the keys that stay are turned
# *back*, by one position for each key that goes. Then all distances are what they were.
#
# **By hand**, with a quarter turn a position: three keys $(1, 0)$ at the positions 0, 1 and 2 are kept as $(1, 0)$, $(0, 1)$ and $(-1,
# 0)$. The first one goes. Turned back by 90°, the others are $(1, 0)$ and $(0, 1)$, as keys at 0 and 1 must be.
#
# With sinks, the first tokens stay where they are, and the window closes up to them: positions count within the cache, as in
# StreamingLLM. Without sinks, writing from the cache must be the same as reading the whole text under the mask of lecture 17.

# %%
source(windowed_cache)


@torch.no_grad()
def read_in_steps(texts, *window):
    """Logits of texts read token by token, and how many numbers one text keeps."""
    state, logits = model.start(texts[:, :0]), []
    for tokens in texts.T:
        if window:
            state = model.windowed(state, *window)
        row, state = model.step(tokens, state)
        logits.append(row)
    kept = sum(part.numel() for layer in state.layers for part in layer)
    return torch.stack(logits, dim=1), kept // len(texts)


def far_bits(logits):
    """Bits per character of the second half of the texts."""
    half = LONG // 2
    losses = F.cross_entropy(logits[:, half:-1].mT, long[:, half + 1 :])
    return losses.item() / math.log(2)


LONG = 512
long = new.unfold(0, LONG, LONG)[:20]
read = {
    name: read_in_steps(long, *window)
    for name, window in (("whole", ()), ("window", (T,)), ("sinks", (T - 4, 4)))
}
with torch.no_grad():
    masked = model.stack(model.tokens(long), window_of_tokens(LONG, T, device()))
    masked = model.readout(masked)
torch.testing.assert_close(read["window"][0], masked, atol=1e-3, rtol=1e-3)

# %% tags=["nbval-check-output"]
claim(
    "19.cache",
    **{name: far_bits(logits) for name, (logits, _) in read.items()},
    grown=read["whole"][1],
    kept=read["window"][1],
)

# %% [markdown] tags=["try-it"]
# The whole cache grows, and beyond the length of the training it spoils the text, as in lecture 17. From the window the model writes
# on, in the same memory however long the text becomes. Sinks make it neither better nor worse here; what they mend appears in
# large models.
#
# **Try it.** Leave out the line with `windowed`, and let it write 600 characters.

# %% tags=["try-it"]
torch.manual_seed(0)
written = "The class statement "
with torch.no_grad():
    tokens = torch.tensor([characters.encode(written)]).to(device())
    state = model.start(tokens[:, :-1])
    for _ in range(300):
        state = model.windowed(state, T - 4, 4)
        logits, state = model.step(tokens[:, -1], state)
        tokens = torch.multinomial((logits / 0.7).softmax(-1), 1)
        written += characters.decode(tokens[0].tolist())
print(written)

# %% [markdown]
# ## A cache in pages
#
# A cache that is one block must have room for the longest text that may come. **PagedAttention** (Kwon et al. 2023) keeps keys
# and values in *pages*, here of 16 positions, and for each text a table of its pages, as the virtual memory of a computer
# does. Of a text, at most 15 slots are unused, and texts with a common beginning share its pages until one of them writes.
#
# **By hand.** Four answers of 20 tokens to the same prompt of 40: each text has 60 positions, so four pages. The prompt fills
# two pages and half of a third. The two full ones stay common; the third and the fourth each text has of its own. Together, that
# is 2 + 4 · 2 = 10 pages instead of 16.

# %%
cache = PagedCache(n_pages=64, size=16, n_heads=2, d_k=8)
prompt = torch.randn(2, 2, 40, 8)  # keys and values, of two heads
answers = torch.randn(4, 2, 2, 20, 8)
first = cache.extend(PageTable(), *prompt)
tables = [first, *(cache.shared(first) for _ in answers[1:])]
for answer, table in zip(answers, tables, strict=True):
    table = cache.extend(table, *answer)
    whole = torch.cat([prompt, answer], dim=-2)
    torch.testing.assert_close(torch.stack([*cache.read(table)]), whole)
    print(table)
print("pages in use:", 64 - cache.n_free)

# %% [markdown]
# The pages of a text need not be neighbours, and what attention reads is the same, number for number.
#
# **Latent attention** (DeepSeek-V2, 2024; lecture 17) makes the cache itself smaller: in each layer, it keeps one short
# vector for each token.

# %% [markdown]
# ## The backward pass in tiles
#
# Training needs gradients, too. For a query with the weights $p_j$ and the context $c = \sum_j p_j v_j$, let $g$ be the gradient of
# $c$. A value gets its share of it, $p_j\, g$. A score $e_j$ that grows raises its own weight and lowers all others, since they share
# a sum: its gradient is $p_j\,(g \cdot v_j - g \cdot c)$. That $g \cdot c$ stands there for the sum over *all* keys is what makes tiles
# possible: it is known before the first one. In matrices, for each tile of keys $K$ and values $V$, and with the $m$ and $\ell$ that
# the forward pass has kept:
#
# $$P = e^{E - m} / \ell \qquad dV = P^\top G \qquad dE = P \odot (G V^\top - G \cdot C) \qquad dQ = \sum_{\text{tiles}} dE\, K /
# \sqrt{d_k} \qquad dK = dE^\top Q / \sqrt{d_k}$$
#
# **By hand**, the example of section 2, with $g = 9$: the weights are 1/9, 2/9 and 6/9, so the values get 1, 2 and 6. The scores get
# $\tfrac19 \cdot 9 \cdot (12 - 8) = 4$, $\tfrac29 \cdot 9 \cdot (3 - 8) = -10$ and $\tfrac69 \cdot 9 \cdot (9 - 8) = 6$. They sum to 0:
# all scores together may grow without any change.
#
# | name | shape |
# | --- | --- |
# | `q`, `k`, `v`, `mask`, `tile` | as before |
# | `kept` | (context, maximum, total) of all keys |
# | `gradient` | (…, T_q, d_v): $G$ |
# | result | the gradients of `q`, `k` and `v` |

# %% exercise="19.6" difficulty="●●●" minutes=20
from course_lib.attention import tiled_gradients

# %% tags=["nbval-check-output"]
tiled_gradients = check("19.6", tiled_gradients)

# %% [markdown]
# Both passes together, as autograd calls them; and how many numbers each form keeps from the forward pass for the backward pass.


# %%
class TilesMadeAgain(torch.autograd.Function):
    """Attention in tiles that keeps no weights."""

    @staticmethod
    def forward(ctx, q, k, v):
        kept = partial_attention(q, k[:64], v[:64])
        for keys, values in zip(k[64:].split(64), v[64:].split(64), strict=True):
            kept = merge(kept, partial_attention(q, keys, values))
        ctx.save_for_backward(q, k, v, *kept)
        return kept[0]

    @staticmethod
    def backward(ctx, gradient):
        q, k, v, *kept = ctx.saved_tensors
        return tiled_gradients(q, k, v, tuple(kept), gradient)


inputs = [x.requires_grad_() for x in torch.randn(3, 1_024, 64, device=device())]
numbers, gradients = {}, {}
for name, form in (
    ("at once", lambda *x: scaled_dot_product_attention(*x).context),
    ("your loop", lambda *x: tiled_attention(*x)[0]),
    ("made again", TilesMadeAgain.apply),
):
    context, numbers[name] = experiments.kept_for_backward(form, *inputs)
    gradients[name] = torch.autograd.grad(context.square().sum(), inputs)
torch.testing.assert_close(
    gradients["made again"], gradients["at once"], atol=1e-4, rtol=1e-3
)

# %% tags=["nbval-check-output"]
claim(
    "19.kept",
    whole=numbers["at once"],
    loop=numbers["your loop"],
    again=numbers["made again"],
)

# %% [markdown]
# Autograd through your loop keeps more than the table itself: every result of every tile. What is made again need not be kept. That costs
# one more product of matrices, and the memory of training, too, grows with $T$ and not with $T^2$.

# %% [markdown]
# ## Papers
#
# Milakov and Gimelshein 2018, *Online normalizer calculation for softmax*
# (https://arxiv.org/abs/1805.02867) · Rabe and Staats 2021, *Self-attention Does Not Need O(n²) Memory*
# (https://arxiv.org/abs/2112.05682) · Liu et al. 2023, *Ring Attention* (https://arxiv.org/abs/2310.01889) · Chen et al. 2023, *Accelerating Large Language Model Decoding with Speculative
# Sampling* (https://arxiv.org/abs/2302.01318) · Saxena 2023, *Prompt Lookup Decoding*
# (https://github.com/apoorvumang/prompt-lookup-decoding) · Li et al. 2024,
# *EAGLE* (https://arxiv.org/abs/2401.15077) · Dao et al. 2022, *FlashAttention* (https://arxiv.org/abs/2205.14135) · Dao 2023,
# *FlashAttention-2* (https://arxiv.org/abs/2307.08691) · Dao et al. 2023, *Flash-Decoding*
# (https://crfm.stanford.edu/2023/10/12/flashdecoding.html) · Leviathan et al.
# 2023, *Fast Inference from Transformers via Speculative Decoding* (https://arxiv.org/abs/2211.17192) · Kwon et al. 2023,
# *PagedAttention* (https://arxiv.org/abs/2309.06180) · Xiao et al. 2023, *Efficient Streaming Language Models with Attention
# Sinks* (https://arxiv.org/abs/2309.17453) · DeepSeek-AI 2024, *DeepSeek-V3* (https://arxiv.org/abs/2412.19437).

# %% [markdown]
# ## What is deliberately not there
#
# This course ends here. The following was left out on purpose:
#
# - **Mixtures of experts** (Fedus et al. 2021, https://arxiv.org/abs/2101.03961) save computing in models of billions of weights; in one
#   that a lecture can train, a learned router has nothing to show.
# - **Diffusion transformers** (Peebles and Xie 2022, https://arxiv.org/abs/2212.09748): their subject is diffusion, not
#   attention, and a minute on a CPU yields blurry digits.
# - **DINO** (Caron et al. 2021, https://arxiv.org/abs/2104.14294): lecture 16's BYOL shares its main idea, a moving-average
#   target without negatives, and DINO's attention maps need larger images.
# - **Preference tuning** (Rafailov et al. 2023, https://arxiv.org/abs/2305.18290) needs answers that people compare; where an answer
#   can be verified, as in our tasks, training on verified ones is simpler.
# - **LoRA** (Hu et al. 2021, https://arxiv.org/abs/2106.09685) saves memory where a large model is fine-tuned; ours fit in it whole.

# %% tags=["ledger"]
ledger()
