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
# # 17 · The decoder of today
#
# Four changes turn GPT-2 into Llama, the pattern of most open language models since: positions by rotation, a simpler norm, a
# gated network, and keys and values that heads share.
#
# You will write each part in a few lines, see what each is worth, build a small Llama from your own functions, let it write, and
# let it read texts that are longer than those of its training.
#
# **Prerequisites:** lecture 07 (GPT; section 11). **Time:** {minutes}. {measured}
#
# ![](diagram:llama)

# %%
import math
from functools import partial

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.attention import Attended, rotary_speeds, scaled_dot_product_attention
from course_lib.blocks import Sizes
from course_lib.datasets import Vocabulary, language_reference
from course_lib.losses import next_token_loss
from course_lib.models import GPT, Llama
from course_lib.pretrained.llama import from_llama
from course_lib.primitives import causal_mask
from course_lib.shapes import GroupKeys, GroupValues, Mask, Queries
from course_lib.training import batches, train
from course_tools.bank.language_models import encoded
from course_tools.lectures.lecture_17 import figures
from course_tools.notebook import check, claim, device, explore, ledger, predict
from course_tools.notebook import recorded, show_study, source

# %% [markdown]
# ## 1 A file that you cannot read yet
#
# Nearly every open language model comes with a file `config.json` that describes it. Here are ten lines of Mistral 7B v0.1 (2023). With
# lecture 07 you can read four of them. The other six have a question mark; at the end, you
# will compute from them how many parameters the model has, and how much memory a text takes.

# %%
config = {
    "vocab_size": 32_000,
    "num_hidden_layers": 32,
    "hidden_size": 4_096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,  # ?
    "rope_theta": 10_000.0,  # ?
    "rms_norm_eps": 1e-5,  # ?
    "hidden_act": "silu",  # ?
    "intermediate_size": 14_336,  # ? not 4 · 4,096
    "sliding_window": 4_096,  # ?
}

# %% [markdown] tags=["predict"]
# ## 2 The last position
#
# The GPT of lecture 07 adds a learned vector of its position to the embedding of each token. The next cell trains it on pieces of 64
# characters of Python's language reference. Its table has 256 vectors.
#
# **Predict.** How well does it predict the characters after the 64th?
#
# <details><summary>A. Better and better: it has ever more context.</summary>
#
# It would, if it could make use of it. What is added to the embedding of the 65th character?</details>
# <details><summary>B. As well as the 64th: the blocks are the same at every position.</summary>
#
# The blocks are, but what they read is a sum with a position vector.</details>
# <details><summary>C. Badly: something in it has never been trained.</summary>
#
# Yes. In training, no text reaches position 64, so the vectors from there on have never had a gradient. They are still the random
# numbers of the start.</details>

# %%
T, LONG, UPDATES = 64, 256, 1_000
text = language_reference(seed=0)
characters = Vocabulary.of([text.train])
known, new = (
    torch.tensor(characters.encode(part)).to(device())
    for part in (text.train, text.test)
)


def text_loss(model, batch):
    return next_token_loss(model(batch[0]), batch[0])


def learn(model):
    """Train a model on pieces of T characters; return it."""
    pieces = known.unfold(0, T, 1)  # every piece of T characters (N, T)
    stream = batches(pieces, batch_size=8, seed=0)
    for step in train(model, stream, text_loss, steps=UPDATES, lr=6e-3, warmup=50):
        if (step.index + 1) % 250 == 0:
            in_bits = step.loss / math.log(2)
            print(f"update {step.index + 1}: {in_bits:.2f} bits per character")
    return model.eval()


@torch.no_grad()
def bits_by_position(model, length, *mask, stride=64):
    """Bits of the characters 1 … length - 1 of new texts, means over the texts."""
    texts = new.unfold(0, length, stride)
    logits = torch.cat([model(part, *mask)[:, :-1] for part in texts.split(50)])
    bits = F.cross_entropy(logits.mT, texts[:, 1:], reduction="none") / math.log(2)
    return bits.mean(0).cpu()


source(GPT)
torch.manual_seed(0)
sizes = Sizes(d_model=64, n_heads=4, d_ff=256, n_layers=2)
gpt = learn(GPT(len(characters), LONG, sizes).to(device()))
of_gpt = bits_by_position(gpt, LONG)
figures.show_bits_by_position({"GPT, learned positions": of_gpt}, T)

# %% tags=["nbval-check-output"]
inside, beyond = slice(T // 2 - 1, T - 1), slice(LONG // 2 - 1, None)
claim("17.failure", inside=of_gpt[inside].mean(), beyond=of_gpt[beyond].mean())

# %% [markdown]
# Trained on longer texts, GPT would read them, up to the end of its table. What we would like are positions without a table, and
# scores that depend on how far apart two tokens are, not on their places.
#
# ## 3 Rotary positions
#
# **By hand.** Take two features of a query as an arrow in the plane, $(1, 0)$, and the same for a key. Turn every query and every
# key by 90° for each step of its position. A query at position 5 has turned by 450° and is $(0, 1)$; a key at position 3 has turned
# by 270° and is $(0, -1)$. Their dot product is −1. At the positions 105 and 103 it is −1 again: both arrows have turned by the same
# further angle. The score depends on the distance alone:
#
# | distance | 0 | 1 | 2 | 3 | 4 |
# | --- | --- | --- | --- | --- | --- |
# | score | 1 | 0 | −1 | 0 | 1 |
#
# This is **rotary position embedding**, RoPE (Su et al. 2021). One speed cannot tell a distance of 4 from 0. So a head of $d_k$
# features has $d_k/2$ pairs, each with its own speed, like the hands of a clock, from one radian a position to almost none. `rope_theta`
# is their base:
#
# $$\begin{pmatrix} x_{2i} \\ x_{2i+1} \end{pmatrix} \mapsto
# \begin{pmatrix} \cos t\theta_i & -\sin t\theta_i \\ \sin t\theta_i & \cos t\theta_i \end{pmatrix}
# \begin{pmatrix} x_{2i} \\ x_{2i+1} \end{pmatrix} \qquad \theta_i = \mathrm{base}^{-2i/d_k}
# \qquad \langle R_m q, R_n k\rangle = \langle q, R_{n-m} k\rangle$$
#
# The last equation holds since rotations add up: $R_m^\top R_n = R_{n-m}$. (In complex numbers, as in Meta's code, a turn multiplies
# $x_{2i} + \mathrm{i}\,x_{2i+1}$ by $e^{\mathrm{i} t \theta_i}$.) No position has a parameter, and no position is the
# last. A model that generates keeps its keys *after* the rotation, so each key is
# turned once; a new query at position 100 is turned with `start=100`.
#
# | name | shape |
# | --- | --- |
# | `x`, result | (…, T, d_k): queries or keys of the positions start … start + T − 1 |
# | `speeds` | (d_k / 2,): $\theta$, in radians; by hand: a quarter turn takes the pair (1, 2) to (−2, 1) |

# %% exercise="17.1" difficulty="●●○" minutes=10
from course_lib.attention import rotate

# %% tags=["nbval-check-output"]
rotate = check("17.1", rotate)

# %% [markdown]
# Your function on three pairs that all begin as $(1, 0)$; then one query and one key, three positions apart, at the start of a text
# and far into it.

# %% tags=["cover"]
figures.show_turned(rotate, rotary_speeds(6, base=100))

q, k, speeds = torch.randn(1, 16), torch.randn(1, 16), rotary_speeds(16)
near, far = (
    rotate(q, speeds, start=t) @ rotate(k, speeds, start=t - 3).mT for t in (5, 1_005)
)
print(f"score at positions 5 and 2: {near.item():.4f}")
print(f"score at positions 1,005 and 1,002: {far.item():.4f}")
torch.testing.assert_close(near, far, atol=1e-2, rtol=0)

# %% [markdown]
# **Bug hunt.** A model trained with this version learns as well as with yours. But with the weights of LLaMA as Meta published them,
# it writes nonsense. Find the reason before you run the check.

# %% exercise="17.1" bug="pairs_the_halves"
from course_tools.bank.lecture_17.rotate import pairs_the_halves as suspect

# %% tags=["nbval-check-output"]
suspect = check("17.1", suspect)

# %% [markdown] tags=["predict"]
# **Predict.** What if only the keys are turned, and the queries are not?
#
# <details><summary>A. Scores depend on the position of the key, not on the distance.</summary>
#
# Yes. The angle between $q$ and $R_n k$ depends on $n$ alone. Turning the query by $m$ as well leaves the difference $n - m$.</details>
# <details><summary>B. Nothing changes: a dot product needs only one rotation.</summary>
#
# It needs the rotation by the *distance*, and a key by itself does not contain the distance.</details>
# <details><summary>C. Scores depend on neither.</summary>
#
# A turned key has another dot product with the same query.</details>

# %% [markdown] tags=["interactive"]
# **Explore.** The score of a query with an equal key by their distance. Which of the two sliders changes nothing, and why? What
# does a larger base do to far keys? (Llama 3 has the base 500,000.)
#
# <details><summary>Answer</summary>
#
# The start: only the distance counts. With a larger base more pairs turn slowly, and the score of a far key falls less.</details>
#
# `python3 course.py microscope` writes `microscope_decoder.html`: a Llama whose rotations you stop.


# %% tags=["interactive"]
def draw_scores(start=0, log_base=4):
    """Draw the score by distance, for a query at `start` and a base of 10^log_base."""
    figures.draw_scores(rotate, start, 10**log_base)


explore(draw_scores, start=(0, 1_000, 10), log_base=(1, 6))

# %% [markdown]
# ## 4 A simpler norm, and a gate
#
# **RMSNorm** (Zhang and Sennrich 2019) is layer norm without its mean and without its bias. It divides by the root of the mean
# square. **By hand:** the features (1, 2, 3, 6) have the mean square (1 + 4 + 9 + 36) / 4 = 12.5, whose root is 3.54. The result is
# (0.28, 0.57, 0.85, 1.70), where layer norm has (−1.07, −0.53, 0, 1.60).
#
# $$y = \frac{x}{\sqrt{\tfrac1d \sum_i x_i^2 + \varepsilon}} \odot g$$
#
# `x` and the result have shape (…, d), `gain` (d,). `rms_norm_eps` is $\varepsilon$.

# %% exercise="17.2" difficulty="●○○" minutes=5
from course_lib.primitives import rms_norm

# %% tags=["nbval-check-output"]
rms_norm = check("17.2", rms_norm)

# %% [markdown] tags=["predict"]
# **Predict.** All features of a token are multiplied by 10. In a second experiment, 10 is added to each. Which norms still return
# what they returned before?
#
# <details><summary>A. Both norms in both experiments: that is what a norm is for.</summary>
#
# What RMSNorm divides by does not remove a constant.</details>
# <details><summary>B. Layer norm in the second only, RMSNorm in the first only.</summary>
#
# Layer norm divides by the standard deviation, so the scale cancels there, too.</details>
# <details><summary>C. Layer norm in both, RMSNorm in the first only.</summary>
#
# Yes. Both divide by something that grows with $x$, so the scale cancels. Only layer norm subtracts the mean.</details>

# %% [markdown]
# **SwiGLU** (Shazeer 2020) changes the feed-forward network. One matrix proposes features, a second one decides how much of each
# passes. **By hand:** the gate of a feature is $a = 2$, the feature itself 3. Swish, which torch calls SiLU (`hidden_act`), gives $a\,\sigma(a) = 2
# \cdot 0.88 = 1.76$, and the product is 5.28: open. With a gate of −6, swish is −0.015 and the product −0.04: closed. Unlike the gates
# of an LSTM, these are not held between 0 and 1: a gate of 5 passes almost five times the feature.
#
# $$\mathrm{SwiGLU}(x) = \big(\mathrm{swish}(x\,W_{gate}) \odot x\,W_{up}\big)\,W_{down} \qquad \mathrm{swish}(a) = a\,\sigma(a)$$
#
# | name | shape |
# | --- | --- |
# | `x`, result | (…, T, d_model) |
# | `W_gate`, `W_up` | (d_ff, d_model), as torch.nn.Linear stores them |
# | `W_down` | (d_model, d_ff) |
#
# Three matrices instead of two: for as many parameters as GPT-2's network with $d_{ff} = 4d$, the width must be two thirds, $\tfrac83
# d$. Llama chose that; Mistral's 14,336 is $3.5\,d$.

# %% exercise="17.3" difficulty="●○○" minutes=5
from course_lib.blocks import gated_feed_forward

# %% tags=["nbval-check-output"]
gated_feed_forward = check("17.3", gated_feed_forward)

# %% [markdown]
# ## 5 Heads that share keys and values
#
# A model that writes keeps the keys and values of all earlier tokens. In **grouped-query attention** (Ainslie et al. 2023),
# neighbouring heads of queries share one head of keys and values: `num_key_value_heads` of them.

# %%
figures.show_sharing()

# %% [markdown]
# With $h$ heads of queries and $g$ heads of keys and values, head $i$ reads from head $\lfloor i g / h \rfloor$. **By hand:** for $h
# = 4$ and $g = 2$, the heads 0, 1, 2, 3 read from 0, 0, 1, 1.
#
# | name | shape |
# | --- | --- |
# | `q` | (…, h, T_q, d_k) |
# | `k`, `v` | (…, g, T_k, d_k), (…, g, T_k, d_v); g divides h |
# | `mask` | bool, broadcastable to (…, h, T_q, T_k), True = may attend; None = all may |
# | result | `Attended`: context (…, h, T_q, d_v), weights (…, h, T_q, T_k) |
#
# Given: `scaled_dot_product_attention(q, k, v, mask)` of lecture 04.

# %% exercise="17.4" difficulty="●●○" minutes=12
from course_lib.attention import grouped_query_attention

# %% tags=["nbval-check-output"]
grouped_query_attention = check("17.4", grouped_query_attention)

# %% [markdown] tags=["predict"]
# **Predict a number** (within 0.01). Of 32 heads of keys and values, 8 remain. What share of the weights of the attention, those of its
# four matrices, is left?
#
# <details><summary>0.625</summary>
#
# $W_q$ and $W_o$ stay, $W_k$ and $W_v$ become a quarter: (1 + 1 + ¼ + ¼) / 4. What counts is that the cache becomes a quarter, too:
# for each new token, the whole of it is read from memory. The multiply-adds of the scores stay.</details>
# <details><summary>0.25</summary>
#
# The cache becomes a quarter, and so do $W_k$ and $W_v$. But there are still 32 heads of queries, and their outputs.</details>

# %% [markdown]
# **How large is a cache?** In each layer, each token has a key and a value of $d_k$ numbers for each of $g$ heads. **By hand:**
# GPT-3 has 96 layers with 96 heads of size 128, so that a token takes 2 · 96 · 96 · 128 = 2.4 million numbers, 4.7 MB in 16 bits. A
# model with a *window* keeps only the last tokens, `sliding_window` of them.

# %% exercise="17.5" difficulty="●○○" minutes=8
from course_lib.metrics import cache_bytes

# %% tags=["nbval-check-output"]
cache_bytes = check("17.5", cache_bytes)

# %% tags=["nbval-check-output"]
all_heads, eight, one = (cache_bytes(96, g, 128, 2_048) / 1e9 for g in (96, 8, 1))
claim("17.cache", all=all_heads, eight=eight, one=one)

# %%
figures.show_caches(cache_bytes)

# %% [markdown]
# ## 6 The ladder
#
# What is each change worth? The recorded study climbs from GPT-2's decoder to Llama's, one change at a time. All rungs have
# about 111,000 parameters: what one part saves, the feed-forward network gets. The last column differs from the last rung in
# its positions alone: they are
# learned.

# %% tags=["nbval-check-output"]
study = show_study("17_ladder")
bits = {name: study.scores(name, "bits") for name in study.names}
claim(
    "17.ladder",
    gpt=bits["GPT-2"],
    rotary=bits["+ rotary"],
    last=bits["+ grouped queries"],
    learned=bits["the last, learned positions"],
)
claim(
    "17.patience",
    few=bits["+ grouped queries"],
    twice=bits["GPT-2, 2,400 updates"],
    gpt=bits["GPT-2, 4,800 updates"],
    last=bits["+ grouped queries, 4,800 updates"],
    counts=bits["counts of Kneser and Ney"][:1],
)

# %% [markdown]
# In this order and after 1,200 updates, rotary positions do most of it, and SwiGLU some. RMSNorm loses 0.01 bits, within the
# spread of seeds. Two heads of keys and values instead of four
# halve the cache and change no bits. **Most of what the ladder gains is time.** With twice as many updates GPT-2 overtakes the last rung, and with four times
# as many for both, 0.05 bits remain; neither has stopped improving. **A table of counts of runs of eight, the dashed line, is still ahead** on so
# small a text.

# %% [markdown] tags=["predict"]
# Now build the last rung from your own functions. Compare it with the GPT of lecture 07: there is no table of positions and no bias,
# and the network has a third matrix.
#
# **Predict.** The width is 64, with 4 heads of queries and 2 of keys and values. What shape does `W_k.weight` have, stored as torch stores it?
#
# <details><summary>A. (64, 64)</summary>
#
# That is the shape of `W_q`: 4 heads of 16.</details>
# <details><summary>B. (64, 32)</summary>
#
# A linear layer of torch stores (out, in), and each head reads all 64 features.</details>
# <details><summary>C. (32, 64)</summary>
#
# Yes: 2 heads of 16, from 64 features.</details>


# %%
class LlamaBlock(nn.Module):
    """Rotary attention of grouped queries, then a gated network, each after a norm."""

    def __init__(self, d_model, n_heads, n_groups, d_ff):
        super().__init__()
        self.d_k, linear = d_model // n_heads, partial(nn.Linear, bias=False)
        self.gain_1, self.gain_2 = (nn.Parameter(torch.ones(d_model)) for _ in "12")
        self.W_q, self.W_o = (linear(d_model, d_model) for _ in "qo")
        self.W_k, self.W_v = (linear(d_model, n_groups * self.d_k) for _ in "kv")
        self.W_gate, self.W_up = (linear(d_model, d_ff) for _ in "gu")
        self.W_down = linear(d_ff, d_model)

    def attention(self, x, mask, speeds):
        q, k, v = (
            rearrange(W(x), "B T (h d_k) -> B h T d_k", d_k=self.d_k)
            for W in (self.W_q, self.W_k, self.W_v)
        )
        q, k = rotate(q, speeds), rotate(k, speeds)
        context = grouped_query_attention(q, k, v, mask)[0]
        return self.W_o(rearrange(context, "B h T d_k -> B T (h d_k)"))

    def forward(self, x, mask, speeds):
        x = x + self.attention(rms_norm(x, self.gain_1), mask, speeds)
        matrices = self.W_gate.weight, self.W_up.weight, self.W_down.weight
        return x + gated_feed_forward(rms_norm(x, self.gain_2), *matrices)


class SmallLlama(nn.Module):
    """From tokens (B, T) to next-token logits (B, T, n_tokens)."""

    def __init__(
        self, n_tokens, d_model=64, n_heads=4, n_groups=2, d_ff=205, n_layers=2
    ):
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, d_model)
        self.blocks = nn.ModuleList(
            LlamaBlock(d_model, n_heads, n_groups, d_ff) for _ in range(n_layers)
        )
        self.gain = nn.Parameter(torch.ones(d_model))
        self.speeds = rotary_speeds(d_model // n_heads, device=device())
        for weights in self.parameters():
            if weights.dim() > 1:
                nn.init.normal_(weights, std=(3 * d_model) ** -0.5)

    def forward(self, tokens, mask=None):
        T, x = tokens.shape[1], self.tokens(tokens)  # (B, T, d_model)
        mask = causal_mask(T, device=tokens.device) if mask is None else mask
        for block in self.blocks:
            x = block(x, mask, self.speeds)
        return rms_norm(x, self.gain) @ self.tokens.weight.mT


torch.manual_seed(0)
llama = learn(SmallLlama(len(characters)).to(device()))
of_llama = bits_by_position(llama, T)

# %% tags=["nbval-check-output"]
claim("17.live", gpt=of_gpt[inside].mean(), llama=of_llama[inside].mean())

# %% [markdown] tags=["try-it"]
# **Let it write.** It reads its last 64 characters and chooses among the likeliest five. **Try it:** change the prompt, the
# temperature 0.7, and the length.


# %% tags=["try-it"]
@torch.no_grad()
def write(model, prompt, n, temperature=0.7, k=5):
    """Continue a text by n characters."""
    tokens = torch.tensor([characters.encode(prompt)]).to(device())
    for _ in range(n):
        likely = (model(tokens[:, -T:])[0, -1] / temperature).topk(k)
        chosen = likely.indices[torch.multinomial(likely.values.softmax(-1), 1)]
        tokens = torch.cat([tokens, chosen[None]], dim=1)
    return characters.decode(tokens[0].tolist())


torch.manual_seed(0)
for prompt in ("The class statement ", "If the value ", "This function "):
    print(write(llama, prompt, 120), end="\n\n")

# %% [markdown] tags=["predict"]
# ## 7 Longer texts than in training
#
# Rotary positions have no last row, and the scores of Llama depend on what two tokens are and how far apart.
#
# **Predict.** It was trained on pieces of 64 characters. How well does it predict the characters of a text of 256?
#
# <details><summary>A. As well at position 255 as at 63: its positions have no end.</summary>
#
# Positions do not matter to it, but distances do. Which distances has it seen?</details>
# <details><summary>B. Better, as the context is longer.</summary>
#
# Only if it can make use of far tokens. It was never trained to.</details>
# <details><summary>C. Worse, the further behind: some distances are new to it.</summary>
#
# Yes, a few dozen characters on. No training text has a distance above 63. The fast pairs have met every angle by then; pairs whose first turn is not
# finished now turn to angles that no query and key have ever met. The problem of section 2 has moved from positions to distances.</details>

# %%
longer = {
    "GPT, learned positions": of_gpt,
    "Llama, rotary positions": bits_by_position(llama, LONG),
}
figures.show_bits_by_position(longer, T)

# %% [markdown]
# But with rotary positions there is a simple remedy: let no token attend further than the distances of the training. This is a
# **window**, `sliding_window`: a token attends to itself and to the tokens just before it, `size` in all. **By hand:** with a window of 2,
# token 3 attends to the tokens 2 and 3.
#
# | name | shape |
# | --- | --- |
# | result | bool (T, T): True where the query (row) may attend to the key (column) |

# %% exercise="17.6" difficulty="●○○" minutes=6
from course_lib.primitives import window_of_tokens

# %% tags=["nbval-check-output"]
window_of_tokens = check("17.6", window_of_tokens)

# %% [markdown] tags=["predict"]
# **Predict a number** (exactly). A model has two layers with windows of 4. How many tokens can have an influence on the prediction
# after the last one?
#
# <details><summary>7</summary>
#
# Each layer adds 3 tokens: the farthest of the four has itself read 3 more. Mistral's 32 layers with windows of 4,096 reach back
# 131,000 tokens in this way, if every layer passes on what matters.</details>
# <details><summary>4</summary>
#
# In the second layer the last token reads four tokens. What have these read in the first?</details>
# <details><summary>16</summary>
#
# The windows of neighbouring tokens overlap, so the reach adds up and does not multiply.</details>
# <details><summary>8</summary>
#
# The windows share a token: the farthest of the four is the nearest of its own four.</details>

# %%
figures.show_reach(window_of_tokens(16, 4))
window = window_of_tokens(LONG, T).to(device())
longer["Llama, window of 64"] = bits_by_position(llama, LONG, window)
of_last_64 = bits_by_position(gpt, T, stride=16)[-1]
figures.show_bits_by_position(
    longer, T, {"GPT that reads its last 64 characters again": of_last_64}
)

# %% tags=["nbval-check-output"]
windowed = longer["Llama, window of 64"][beyond].mean()
whole = longer["Llama, rotary positions"][beyond].mean()
claim("17.window", all=whole, window=windowed, inside=of_llama[inside].mean())
for size in (4, 8, 16):
    narrow = window_of_tokens(LONG, size).to(device())
    bits_of_narrow = bits_by_position(llama, LONG, narrow)[beyond].mean()
    print(f"with a window of {size}: {bits_of_narrow:.2f} bits")
others = recorded("17_positions")
claim(
    "17.positions",
    rotary=bits["+ grouped queries"],
    far_rotary=study.scores("+ grouped queries", "with a window"),
    alibi=others.scores("ALiBi", "bits"),
    steep=others.scores("ALiBi, steeper", "bits"),
    far_steep=others.scores("ALiBi, steeper", "bits of longer texts"),
    none=others.scores("no positions", "bits"),
)

# %% [markdown]
# The window costs no training and no parameter. GPT can read its last 64 characters again, the dashed line, as `write` does. But
# then every character has another position, and all keys and values must be computed again. Turned keys stay valid, as lecture 19
# shows: a rotary model with a window computes each new character alone, from a cache that does not grow.
#
# **Is there anything simpler?** The last claim puts rivals without parameters into the ladder's last rung. **ALiBi** (Press et al. 2022) subtracts from
# each score the distance times a slope of its head. **After 1,200 updates steep slopes, 1 to 1/8, beat rotation**, and need no
# window: they act as one with a soft edge. The paper's slopes, 1/4 to 1/256, take more bits. A slope always prefers
# the nearer of two equal keys; a rotation can
# prefer any distance. Without positions, the causal mask alone teaches these two layers little; it teaches large models more (Haviv et
# al. 2022).
#
# Neither window nor slope remembers: what is further back than all windows together is gone, so Gemma 3 lets every
# sixth layer attend to the whole text. Our model reads about a dozen characters, and loses nothing.
#
# ## 8 The file again
#
# Now every line of the file can be read:
#
# | part | GPT-2 | Mistral | line of the file | what it buys |
# | --- | --- | --- | --- | --- |
# | positions | a table of learned vectors | rotation | `rope_theta` | scores by distance, and no last row |
# | norm | layer norm | RMSNorm | `rms_norm_eps` | fewer operations; 0.01 bits lost, within the spread of seeds |
# | network | GELU, 4 d wide | SwiGLU, 3.5 d wide | `hidden_act`, `intermediate_size` | at equal size 0.04 bits after 1,200 updates; after 4,800 all four parts together bring 0.05 |
# | heads of keys and values | as many as of queries | a quarter | `num_key_value_heads` | a quarter of the cache |
# | reach | all earlier tokens | a window; from version 0.2 on none, with a base of a million | `sliding_window` | a cache that stops growing |
# | biases | in every layer | none | | fewer operations; not measured by itself |
#
# **Count the parameters by hand:** in each of 32 layers, W_q and W_o have 4,096², W_k and W_v 4,096 · 1,024, and the network three times
# 4,096 · 14,336: 218.1 million. Twice 32,000 · 4,096 for embedding and readout bring the sum to 7.24 billion. (On torch's
# `meta` device, tensors have shapes but no numbers.)

# %% tags=["nbval-check-output"]
sizes = Sizes(
    d_model=config["hidden_size"],
    n_heads=config["num_attention_heads"],
    d_ff=config["intermediate_size"],
    n_layers=config["num_hidden_layers"],
)
groups, d_k = config["num_key_value_heads"], sizes.d_model // sizes.n_heads
with torch.device("meta"):
    mistral = Llama(config["vocab_size"], sizes, groups)
billions = sum(p.numel() for p in mistral.parameters()) / 1e9
of_text = partial(cache_bytes, sizes.n_layers, d_k=d_k, T=32_768)
claim(
    "17.file",
    billions=billions,
    multi_head=of_text(n_groups=sizes.n_heads) / 1e9,
    grouped=of_text(n_groups=groups) / 1e9,
    window=of_text(n_groups=groups, window=config["sliding_window"]) / 1e9,
)

# %% [markdown] tags=["quiz"]
# ## 9 Exit quiz
#
# **Question 1.** A program begins with an empty cache. At every step it appends the new key, and then turns *all* keys of the cache by
# their positions. What happens?
#
# <details><summary>A. Nothing: the scores depend on distances only.</summary>
#
# They would, if query and key were each turned once by its own position.</details>
# <details><summary>B. The values are wrong.</summary>
#
# Values are never turned.</details>
# <details><summary>C. The first tokens are right, then the text falls apart.</summary>
#
# Right. The key of position 0 is never turned, that of position 1 is right at first and turned twice at the third step. A test of two
# steps finds nothing: compare many steps with the parallel form.</details>
#
# **Question 2.** A model has 64 heads of queries and 8 of keys and values. You want to read 4 times as long a text with the same cache. Which
# change does *not* help?
#
# <details><summary>A. 2 heads of keys and values.</summary>
#
# A quarter of the numbers for each token: that helps.</details>
# <details><summary>B. A quarter of the heads of queries.</summary>
#
# Right: the cache has no queries.</details>
# <details><summary>C. A window of the present length.</summary>
#
# The cache then never has more tokens than now: that helps, if the text far back may be forgotten.</details>
#
# **Question 3.** With rotary positions, what tells a model without a window whether a token is the first of a text?
#
# <details><summary>A. The number of keys that it can attend to.</summary>
#
# Right: the causal mask leaves it only itself. Rotary positions give distances, not places.</details>
# <details><summary>B. Its angle: at position 0, nothing is turned.</summary>
#
# A score depends on the difference of two angles only. Turning everything by one position changes nothing.</details>
# <details><summary>C. Nothing.</summary>
#
# Nothing in the scores; but the first token attends to a single key, and its context is its own value.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague writes: "We replaced learned positions by RoPE, so our model now reads texts of any
# length." What do you answer, and what would you measure? Use two measurements from this lecture.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | distinguishes what can be computed at any length from what was trained |
# | 1 | says that distances take the place of positions, with a number |
# | 1 | proposes a window, or training on longer texts, and says what a window cannot do |
# | 1 | asks for a rival: the old model that reads its last tokens again |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 10 What came of it
#
# LLaMA (2023) took rotary positions, RMSNorm and SwiGLU together, and the larger models of Llama 2 grouped queries. Most open models have these
# four parts.
#
# - **Longer texts.** Models are trained on short texts, then briefly on long ones, with slower speeds: YaRN (Peng et al. 2023)
#   slows the slowest pairs most and the fastest not at all.
# - **Sinks.** A window that drops the first tokens ruins the text of large models, unless four of them are kept (Xiao et al. 2023;
#   lecture 19).
# - **Smaller caches.** DeepSeek-V2 (2024) stores one short vector for each token, from which keys and values of all heads are
#   computed, and one small rotated key.
# - **More norms, fewer turns.** Qwen3 and Gemma 3 (2025) also apply RMSNorm to queries and keys; Llama 4 (2025) turns nothing in every
#   fourth layer.
# - **Mixtures of experts** (Mixtral, DeepSeek-V3) replace the gated network by many, of which a router gives each token a few.
#
# **Further reading.** Su et al. 2021, *RoFormer* (https://arxiv.org/abs/2104.09864) · Zhang and Sennrich 2019, *Root Mean Square
# Layer Normalization* (https://arxiv.org/abs/1910.07467) · Shazeer 2020, *GLU Variants Improve Transformer*
# (https://arxiv.org/abs/2002.05202) · Ainslie et al. 2023, *GQA* (https://arxiv.org/abs/2305.13245) · Touvron et al. 2023, *LLaMA*
# (https://arxiv.org/abs/2302.13971) · Jiang et al. 2023, *Mistral 7B* (https://arxiv.org/abs/2310.06825) · Peng et al. 2023, *YaRN*
# (https://arxiv.org/abs/2309.00071) · Press et al. 2022, *Train Short, Test Long*
# (https://arxiv.org/abs/2108.12409) · Haviv et al. 2022, *Transformer Language Models without Positional Encodings Still Learn Positional
# Information* (https://arxiv.org/abs/2203.16634) · Xiao et al. 2023, *Efficient Streaming Language Models with Attention Sinks*
# (https://arxiv.org/abs/2309.17453) · DeepSeek-AI 2024, *DeepSeek-V2* (https://arxiv.org/abs/2405.04434) · Gemma Team 2025, *Gemma 3
# Technical Report* (https://arxiv.org/abs/2503.19786).

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections. Each stands alone, and their exercises are extra points.

# %% [markdown]
# ## Build it
#
# **Build task (35 minutes, 16 points).** Write a whole Llama from an empty cell, the parallel form, generation from a cache, and the
# loop that trains it. Everything is allowed except the library's `Llama`. Define what you need above `train_llama`, in the same cell.
# Width 64; 2 layers; 4 heads of queries and 2 of keys and values, of 16 features each; gated networks with 172 hidden units; an
# RMSNorm with a gain before attention, before the network and before the readout, and no biases. Pairs may be neighbours or halves.
#
# | method | arguments | result |
# | --- | --- | --- |
# | `model(tokens)` | (B, T), T ≤ 64 | logits (B, T, n_tokens); those at t predict the token at t + 1 |
# | `model.start(tokens)` | a prompt (B, T), T ≥ 0 | state |
# | `model.step(token, state)` | (B,), and a state | logits (B, n_tokens), and the new state |
#
# The check calls `train_llama(text, n_tokens, n_steps)` once, with 100,000 characters of the language reference (27 tokens: the
# lower-case letters and the space) and `n_steps=400`, and judges the returned model on held-out text. The function has 60 seconds of
# processor time.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the model maps tokens (B, T) to logits (B, T, n_tokens) |
# | 1 | at most `n_steps` updates and at most 120,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the returned model gives the same logits for the same tokens |
# | 1 | loss on held-out text: 0.2 nats below that of predicting from character frequencies alone |
# | 1 | the matrices and gains of the configuration are all its parameters: there are no biases |
# | 2 | the logits depend on the tokens so far and on their order, and on nothing else |
# | 1 | the logits depend on attention weights, which sum to 1 over the keys |
# | 2 | scores depend on how far a key lies back, and no value depends on its position |
# | 2 | both forms give the same logits |
# | 1 | with each token, the state grows by keys and values of two heads in each layer: 128 numbers |
# | 1 | a step leaves the state that it is given as it is |
# | 1 | loss on held-out text: below that of a bigram table of the characters (about 2.3 nats) |

# %% exercise="17.7" difficulty="●●●" minutes=35
from course_tools.bank.lecture_17.train_llama import train_llama

# %% tags=["nbval-check-output"]
train_llama = check("17.7", train_llama)

# %% [markdown] tags=["try-it"]
# **Let it write** from its cache. After some thirty characters, the length of its training windows, the words fall apart: section 7
# tells why. **Try it:** train it on longer windows, or keep only the last 32 tokens in its cache.

# %% tags=["try-it"]
alphabet = " abcdefghijklmnopqrstuvwxyz"
letters = encoded(language_reference().train)[:300_000]
torch.manual_seed(0)
mine, written = train_llama(letters, len(alphabet), 800), "the function "
with torch.no_grad():
    read = torch.tensor([[alphabet.index(letter) for letter in written]])
    state = mine.start(read[:, :-1])
    for _ in range(200):
        logits, state = mine.step(read[:, -1], state)
        read = torch.multinomial((logits / 0.6).softmax(-1), 1)
        written += alphabet[read.item()]
print(written)

# %% [markdown]
# ## Neighbours or halves
#
# Meta's weights pair neighbouring features, Hugging Face's pair feature $i$ with $i + d_k/2$. Neither is better: queries and keys are
# products with learned matrices, whose rows can stand in any order. Reorder the features of both, and every score stays.

# %%
halves = torch.arange(16).view(2, 8).mT.flatten()  # 0, 8, 1, 9, …
print(halves.tolist())
q, k, speeds = torch.randn(5, 16), torch.randn(5, 16), rotary_speeds(16)


def by_halves(x):
    front, back = x.chunk(2, dim=-1)
    turns = torch.arange(len(x))[:, None] * speeds
    cos, sin = turns.cos(), turns.sin()
    return torch.cat([front * cos - back * sin, front * sin + back * cos], dim=-1)


of_halves = by_halves(q) @ by_halves(k).mT
of_neighbours = rotate(q[:, halves], speeds) @ rotate(k[:, halves], speeds).mT
torch.testing.assert_close(of_halves, of_neighbours, atol=1e-4, rtol=1e-4)

# %% [markdown]
# So a reader of checkpoints reorders the rows of $W_q$ and $W_k$ within each head, and nothing else. Try it with the model that you
# trained: write its weights under the names and in the order of Hugging Face, and let the library's reader hand them to the library's
# `Llama`. Its logits are yours.


# %%
NAMES = {
    "gain_1": "input_layernorm",
    "gain_2": "post_attention_layernorm",
    **{f"W_{x}.weight": f"self_attn.{x}_proj" for x in "qkvo"},
    **{f"W_{x}.weight": f"mlp.{x}_proj" for x in ("gate", "up", "down")},
}
weights, d_k = llama.state_dict(), llama.blocks[0].d_k
published = {
    "model.embed_tokens.weight": weights["tokens.weight"],
    "lm_head.weight": weights["tokens.weight"],
    "model.norm.weight": weights["gain"],
}
for i in range(len(llama.blocks)):
    for ours, theirs in NAMES.items():
        W = weights[f"blocks.{i}.{ours}"]
        if theirs.endswith(("q_proj", "k_proj")):
            W = W.unflatten(0, (-1, d_k))[:, halves.argsort()].flatten(0, 1)
        published[f"model.layers.{i}.{theirs}.weight"] = W

read = Llama(len(characters), Sizes(64, 4, 205, 2), n_groups=2).to(device())
read.load_state_dict(from_llama(published, d_k))
with torch.no_grad():
    apart = (read(new[None, :LONG]) - llama(new[None, :LONG])).abs().max()
print(f"largest difference of two logits: {apart:.0e}")
assert apart < 1e-3

# %% [markdown]
# `course_lib.pretrained.load_llama` reads whole folders of published models in this way.
#
# ## Slower positions
#
# Could the whole text of 256 be read without a window? **Interpolation** (Chen et al. 2023, https://arxiv.org/abs/2306.15595) divides all speeds by 4, so that 255 positions turn as far
# as 64 did. A larger
# **base** slows the slow pairs and leaves the fast ones, which tell neighbours apart. The same model, without further training:

# %%
speeds, stretched = llama.speeds, {"window of 64": longer["Llama, window of 64"]}
kinds = {
    "as trained": speeds,
    "interpolated": speeds / 4,
    "larger base": rotary_speeds(16, base=100_000, device=device()),
}
for name, slower in kinds.items():
    llama.speeds = slower
    stretched[name] = bits_by_position(llama, LONG)
llama.speeds = speeds
figures.show_bits_by_position(stretched, T)

# %% [markdown]
# Interpolation spoils even the first characters: the angle between neighbours is now a quarter of that in training. The larger base, which hardly
# changes the fast pairs, is far better than reading as trained. The window is better still.
#
# Is it the unseen angles that do the harm, or that the softmax has more keys than ever? **The control** changes one thing: every distance above 63
# gets the angle of 63. All keys are still there.


# %%
def attention_cut(self, x, mask, speeds, pairs=slice(None), cut=T - 1):
    """`LlamaBlock.attention`; some pairs turn as if no key were further than `cut`."""
    q, k, v = (
        rearrange(W(x), "B T (h d_k) -> B h T d_k", d_k=self.d_k)
        for W in (self.W_q, self.W_k, self.W_v)
    )
    k, v = (part.repeat_interleave(q.shape[1] // k.shape[1], 1) for part in (k, v))
    near = rotate(q, speeds), rotate(k, speeds)
    far = [part.clone() for part in near]
    held = [part.unflatten(-1, (-1, 2))[..., pairs, :] for part in far]  # views
    for part, whole, start in zip(held, (q, k), (cut, 0), strict=True):
        turned = rotate(whole[..., None, :], speeds, start)[..., 0, :]
        part.copy_(turned.unflatten(-1, (-1, 2))[..., pairs, :])
    (q, k), (q_far, k_far) = near, far
    t = torch.arange(x.shape[1], device=x.device)
    scores = torch.where(t[:, None] - t > cut, q_far @ k_far.mT, q @ k.mT)
    scores = scores / math.sqrt(self.d_k)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return self.W_o(rearrange(weights @ v, "B h T d_k -> B T (h d_k)"))


def read_with(pairs, stride=64):
    """Bits by position where these pairs are held at the angle of 63."""
    for block in llama.blocks:
        block.attention = partial(attention_cut, block, pairs=pairs)
    bits = bits_by_position(llama, LONG, stride=stride)
    for block in llama.blocks:
        del block.attention
    return bits


of_cut = read_with(slice(None))
of_pairs = [
    read_with(slice(n, n + 1), stride=LONG)[beyond].mean().item() for n in range(8)
]
known = {"as trained": whole.item(), "window": windowed.item()}
figures.show_pairs(of_pairs, known, speeds, T, LONG)

# %% tags=["nbval-check-output"]
cut = of_cut[beyond].mean()
claim("17.angles", all=whole, cut=cut, pair=of_pairs[3], window=windowed)

# %% [markdown]
# So most of the harm is in the angles, and little in the number of keys. The bars hold one pair at a time, and one is enough: the pair
# whose first turn is not finished at 63 and is passed at 255. Faster pairs have met every angle in training; slower ones meet new angles,
# too, but within their first turn, and to hold them gains nothing. So why not slow the pairs from 3 on, by 4? YaRN does this to all pairs
# that do not finish a turn in a text of the training, and in part to those that finish up to 32.

# %%
turns = T * speeds / (2 * math.pi)  # in a text of the training
kept = ((turns - 1) / 31).clamp(0, 1)  # share of its speed that YaRN leaves a pair
kinds = {
    "pairs 3 to 7 slowed": torch.cat([speeds[:3], speeds[3:] / 4]),
    "YaRN's speeds": kept * speeds + (1 - kept) * speeds / 4,
}
for name, slower in kinds.items():
    llama.speeds = slower
    slowed = bits_by_position(llama, LONG, stride=LONG)
    near, far = slowed[inside].mean(), slowed[beyond].mean()
    print(f"{name}: {near:.2f} bits within the length of training, {far:.2f} beyond")
llama.speeds = speeds

# %% [markdown]
# To slow a pair by 4 changes its angle at *every* distance, also at those of the training. YaRN's speeds do so to all our pairs: with texts of
# 64, even the fastest turns only ten times. So published models are trained further, for a short time, after their speeds are changed.

# %% tags=["ledger"]
ledger()
