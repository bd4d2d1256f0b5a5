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
# In self-attention, every token of a text attends to all tokens of the same text in one layer, by content and by position.
#
# ![](diagram:scaled_dot_product)
#
# You will write scaled dot-product attention, its masks and multi-head attention, compare learned weights with a pattern that
# is known to be right, remove one ingredient at a time, and design a control.
#
# **Prerequisites:** lectures 01 (recurrence) and 02 (alignment); tensors, softmax, gradients. **Time:** {minutes}.
# {measured}


# %%
from course_tools.notebook import check, claim, explore, ledger, microscope, predict
from course_tools.lectures.lecture_04.experiments import (
    best_guess_from_values,
    lookup_experiment,
    print_lookup,
)

SEEDS, T_k, steps = (0, 1, 2), 8, 300
lookups, looking_up = lookup_experiment(T_k, SEEDS, steps)

# %% [markdown]
# ## 1 A recurrent network keeps everything in one state
#
# In lecture 02, a *decoder* attended to all states of an encoder. But the encoder was still recurrent, as in lecture 01: it
# read one token after the other and kept everything in one vector of fixed size.
#
# In this section we train a GRU on a task for which one vector is a poor memory. A text lists key-value pairs in random order.
# Questions follow; each names one of the keys, and the answer is the value of that key. The pairs differ from text to text, so
# they cannot be memorised. Each token is the sum of two embeddings, one of its key and one of its value; a question has a blank
# as its value.

# %% [markdown] tags=["predict"]
# **Predict.** A GRU is trained on thousands of these texts, for as many steps as the attention layer in section 6. How many
# questions does it answer correctly?
#
# <details><summary>A. Nearly all: a gated network can store a handful of pairs.</summary>
#
# It has enough capacity. But it reads the pairs before the question, so it must store every value together with its key. Its
# gates do not learn this in the number of steps used here.</details>
# <details><summary>B. One in eight, as by guessing among the eight values.</summary>
#
# It does better: it soon learns which values occur in the text, and a guess among those is right more often
# than a guess among all eight.</details>
# <details><summary>C. About as many as a model that knows which values occur, but not with which key.</summary>
#
# Yes, at this budget: it answers as if its state held a bag of values without their keys. The next cells compare the
# two.</details>

# %%
print_lookup(lookups.test)

# %%
from functools import partial

from course_lib.fast import fused_gru
from course_lib.primitives import GRU

gru = partial(GRU, 64, 64, fused_gru)
gru_on_lookup = looking_up.fit(gru)
looking_up.show_losses({"GRU on look-up": gru_on_lookup})

# %% tags=["nbval-check-output"]
from statistics import mean

lead = mean(gru_on_lookup.accuracies) - best_guess_from_values(lookups.test)
claim("04.a", lead=lead, steps=steps)

# %% [markdown]
# A question must be compared with each key. By the time it arrives, the GRU has merged all keys into one state.
# Self-attention keeps every token, and the question attends to all of them.
#
# ## 2 Queries, keys and values
#
# In this section you write the core of self-attention. Each token has a **query**, a **key** and a **value**. A dot product
# compares a query with every key. A softmax turns the scores of *each query* into weights that sum to 1. The output is the
# weighted mean of the values:
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# This is a differentiable look-up in a dictionary, in which every key matches to some degree (compare Graves et al., 2014). In
# **self**-attention, queries, keys and values are computed from the same tokens by three matrices: $Q = XW_Q$, $K = XW_K$,
# $V = XW_V$.
#
# | name | shape | axis that the softmax runs over |
# | --- | --- | --- |
# | `q` | (…, T_q, d_k) | |
# | `k`, `v` | (…, T_k, d_k), (…, T_k, d_v) | |
# | scores, weights | (…, T_q, T_k) | the last: keys |
# | context | (…, T_q, d_v) | |
#
# `attend(scores, values, mask)` from lecture 02 computes the softmax and the weighted mean. You write the rest.

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from course_lib.attention import Attended, attend
from course_lib.shapes import Image, Keys, Lengths, Mask, Queries, Values

# %% exercise="04.1" difficulty="●●○" minutes=10
from course_lib.attention import scaled_dot_product_attention

# %% tags=["nbval-check-output"]
scaled_dot_product_attention = check("04.1", scaled_dot_product_attention)


# %% [markdown]
# ## 3 Why divide by √d_k
#
# This section shows what happens without the scale, first for random vectors and then in training. Take a query and a key whose
# features are independent, with mean 0 and variance 1. Their dot product is a sum of $d_k$ products of features, so its
# variance is $d_k$ and its standard deviation $\sqrt{d_k}$. With scores of that size, the softmax gives nearly all weight to
# the largest. The derivative of weight $w_i$ with respect to score $s_j$ is $w_i(\delta_{ij} - w_j)$, where $\delta_{ij}$ is 1
# if $i = j$, else 0. Once one weight is nearly 1 and the others are nearly 0, all these derivatives are nearly 0, and training
# corrects a wrong choice only slowly.

# %% [markdown] tags=["predict"]
# **Predict.** A query is compared with sixteen random keys of size $d_k = 512$, without the scale. How large is the largest
# weight on average?
#
# <details><summary>A. About 1/16: random keys are all alike.</summary>
#
# It would be if the scores were small. Here their standard deviation is $\sqrt{512} \approx 23$, and the softmax applies the
# exponential to their differences.</details>
# <details><summary>B. About one half.</summary>
#
# A standard deviation of two or three would give about one half. The standard deviation is $\sqrt{d_k}$, which reaches that
# value at a small $d_k$, as the curve shows.</details>
# <details><summary>C. Nearly 1.</summary>
#
# Yes: the largest of sixteen scores exceeds the second by several units, and $e^{-5}$ is already below one hundredth.</details>

# %%
from course_tools.lectures.lecture_04.figures import measure_saturation, show_saturation

saturation = measure_saturation([2, 8, 32, 128, 512], n_keys=16, seed=SEEDS[0])
show_saturation(saturation)

# %% tags=["nbval-check-output"]
claim("04.b", ratio=saturation.spread[-1] / math.sqrt(512))
claim("04.c", largest=saturation.largest["without"][-1])
claim("04.d", ratio=saturation.slope["without"] / saturation.slope["with 1/√d_k"])

# %% [markdown] tags=["predict"]
# **Predict.** Does the scale matter for *learning*? We train a layer that applies your function to $XW_Q$, $XW_K$ and
# $XW_V$ on the look-up task at $d_k = 512$, for as many steps at the same learning rate, once with the scale and once without.
# Each input is a sum of two embeddings whose features have variance 1.
#
# <details><summary>A. No: the optimiser can make the matrices smaller, which has the same effect.</summary>
#
# Not at this learning rate. With Adam, dividing $W_Q$, $W_K$ and their learning rates by $\sqrt[4]{d_k}$ would have nearly the
# same effect as the scale, and at a tenth of the rate the layer without it also begins to learn (04.f-slow). With the scale,
# the spread of the scores at the start does not grow with $d_k$.</details>
# <details><summary>B. Yes: without the scale it has learned far less after as many steps.</summary>
#
# Yes, at this learning rate: the layer with the scale has learned the task (04.e), and the accuracy of the other is far lower
# (04.f).</details>
# <details><summary>C. It learns faster without the scale: a look-up needs sharp weights.</summary>
#
# It needs sharp weights at the *right* position. Without the scale, the weights are sharp at a random position from the start,
# and each step of the optimiser changes the scores $\sqrt{d_k}$ times as much.</details>

# %%
from course_lib import attention
from course_tools.lectures.lecture_04.experiments import (
    MultiHeadByFunction,
    SelfAttentionByFunction,
)

few_steps = 60
scaled, unscaled = (
    partial(SelfAttentionByFunction, mechanism, 512)
    for mechanism in (scaled_dot_product_attention, attention.dot_attention)
)
fit = partial(looking_up.fit, d_model=512, std=1.0, batch_size=32)
wide = {
    "with 1/√d_k": fit(scaled, few_steps, lr=1e-3),
    "without": fit(unscaled, few_steps, lr=1e-3),
    "without, a tenth of the rate": fit(unscaled, 3 * few_steps, lr=1e-4),
}
looking_up.show_losses(wide)

# %% tags=["nbval-check-output"]
claim("04.e", least=min(wide["with 1/√d_k"].accuracies))
difference = min(wide["with 1/√d_k"].accuracies) - max(wide["without"].accuracies)
claim("04.f", difference=difference)
claim("04.f-slow", average=mean(wide["without, a tenth of the rate"].accuracies))

# %% [markdown]
# ## 4 Masks
#
# A **mask** is a boolean tensor that states which keys each query may attend to (True = may attend). Masked keys are removed
# before the softmax normalises, so the weights of the other keys still sum to 1. In this section you write the two masks of the
# original Transformer, and see what a missing mask does.
#
# A model that predicts the *next* token must not see that token. In a decoder, query $i$ may therefore attend to positions up
# to and including its own (Vaswani et al., section 3.2.3):
#
# $$M_{ij} = [\, j \le i + T_k - T_q \,]$$
#
# The brackets mean: True where the condition holds. For a whole text, the shift $T_k - T_q$ is 0. When a text is generated
# token by token, the queries are only the newest positions, that is, the *last* positions of the keys.
#
# | name | shape |
# | --- | --- |
# | mask | (T_q, T_k), broadcasts over batch and heads |
#
# ![](diagram:masks)

# %% exercise="04.2" difficulty="●○○" minutes=5
from course_lib.primitives import causal_mask

# %% tags=["nbval-check-output"]
causal_mask = check("04.2", causal_mask)

# %% [markdown]
# The sentences of a batch differ in length, so the shorter ones are padded. No query may attend to **padding**:
#
# $$M_{b\,\cdot\,j} = [\, j < \mathrm{length}_b \,]$$
#
# | name | shape |
# | --- | --- |
# | lengths | (B,) |
# | mask | (B, 1, T_k): the axis of size 1 broadcasts over the queries |
#
# Masks are combined with `&`: `causal_mask(T) & padding_mask(lengths, T)` has shape (B, T, T). A row may be all False, as for
# an empty sentence. Then `attend` gives zero weights and a zero context, where a plain softmax would compute 0/0.

# %% exercise="04.3" difficulty="●○○" minutes=5
from course_lib.primitives import padding_mask

# %% tags=["nbval-check-output"]
padding_mask = check("04.3", padding_mask)

# %% [markdown]
# The next cell pads the look-up texts with zeros, as in a batch with a longer text, and gives them to the trained layers of
# section 3. Zero is also the index of a real pair: without a mask, each padding position is read as the pair $k_0 = v_0$.

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_04.missing_masks import measure_leak, measure_padding

padded = [
    measure_padding(model, looking_up.task, lookups.test, padding_mask, 3 * T_k)
    for model in wide["with 1/√d_k"].models
]
claim("04.y", largest=max(found.difference for found in padded))
claim("04.z", least=min(found.alone - found.unmasked for found in padded))

# %% [markdown] tags=["predict"]
# **Predict.** A language model is trained on sequences that count upwards most of the time and otherwise jump at random. A jump
# cannot be predicted, so the expected loss of a causal model is at least the entropy of the next token. Suppose that we forget
# the causal mask. The loss then …
#
# <details><summary>A. … stays the same; the mask only saves time.</summary>
#
# Saving time is not its purpose. Position $i$ must predict token $i+1$, and without the mask it can attend to token
# $i+1$.</details>
# <details><summary>B. … falls below the entropy.</summary>
#
# Yes. No causal model can do that: this one copies the token that it should predict. A loss below the entropy is a sign of a
# leak.</details>
# <details><summary>C. … rises, because the future tokens are noise.</summary>
#
# They might be noise in another task. Here the future token *is* the answer.</details>


# %%
leak = measure_leak(
    partial(SelfAttentionByFunction, scaled_dot_product_attention, 64),
    causal_mask(12),
    SEEDS,
)

# %% tags=["nbval-check-output"]
claim("04.g", ratio=mean(leak.losses["causal mask"]) / leak.entropy)
claim("04.h", ratio=max(leak.losses["no mask"]) / leak.entropy)
claim("04.i", ratio=min(leak.losses["masked afterwards"]) / math.log(8))

# %% [markdown]
# ## 5 Multi-head attention
#
# One softmax gives each query one set of weights. A token that needs information from two positions gets only a weighted sum of
# the two. Multi-head attention therefore attends $h$ times in parallel. Each **head** has its own smaller matrices, and a
# further matrix combines the results; in this section you write the complete layer.
#
# $$\mathrm{head}_i = \mathrm{Attention}(QW_i^Q, KW_i^K, VW_i^V) \qquad \mathrm{MultiHead} = [\mathrm{head}_1; \dots; \mathrm{head}_h]\, W^O$$
#
# In code, one matrix product computes the queries of all heads, because the matrices of the heads are stacked row-wise in
# `W_q`. Afterwards the features are split into heads, and the heads become one more batch axis.
#
# | name | shape |
# | --- | --- |
# | x | (…, T, h · d) |
# | `split_heads(x, h)` | (…, h, T, d): head $i$ owns the features $i d$ to $(i+1)d$ of *every* position |
#
# ![](diagram:multi_head)

# %%
from einops import rearrange

from course_lib.attention.multihead import mask_per_head, merge_heads

# %% exercise="04.4" difficulty="●●○" minutes=8
from course_lib.attention import split_heads

# %% tags=["nbval-check-output"]
split_heads = check("04.4", split_heads)

# %% [markdown]
# Now write the complete layer with your `split_heads`. Two more functions are given: `merge_heads`, the inverse of
# `split_heads`, and `mask_per_head(mask, queries.shape)`, which adds an axis for the heads to a mask, (…, T_q, T_k) →
# (…, 1, T_q, T_k), unless it has one. It returns None for None.
#
# | name | shape |
# | --- | --- |
# | `queries`; `keys`, `values` | (…, T_q, d_q); (…, T_k, ·) |
# | `W_q`, `W_k` | (h · d_k, d_q), (h · d_k, ·): stored as (out, in), so $XW$ is `x @ W.mT` |
# | `W_v` | (h · d_v, ·): d_v need not equal d_k |
# | `W_o` | (d_model, h · d_v) |
# | context | (…, T_q, d_model) |
# | weights | (…, h, T_q, T_k) |
#
# In self-attention, queries, keys and values come from the same tokens. In a decoder that attends to an encoder they come from
# different tokens; the function is the same.

# %% exercise="04.5" difficulty="●●●" minutes=15
from course_lib.attention import multi_head_attention

# %% tags=["nbval-check-output"]
multi_head_attention = check("04.5", multi_head_attention)

# %% [markdown]
# ## 6 Does it find the known pattern?
#
# We train the layer on two tasks whose right weights are known in advance, so that we can tell whether a learned pattern is
# right:
#
# - **look-up**, from section 1: the question must attend to the pair that holds its key, which is at a different position in
#   every text;
# - **reversal**: output a text backwards. Position $i$ must attend to position $T - 1 - i$, the anti-diagonal, whatever the
#   tokens are.
#
# The model has one layer, your `multi_head_attention` with one head and four trained matrices; it is trained with three seeds.
# The baselines have more parameters and are trained for as many steps: the GRU of section 1 and, on reversal, a **bidirectional
# GRU**. One half of it reads the text forwards and the other backwards, so that at every position the two together have read
# the whole text. Its learning rate is among the best of five that we tried; with one seed it is also trained three times as
# long.

# %% [markdown] tags=["predict"]
# **Predict.** A model that reads from left to right must reverse a text of ten symbols, each one of eight. What is the best
# accuracy that it can reach?
#
# <details><summary>A. All symbols right, if its state is large enough.</summary>
#
# The size of the state is not the limit. At the first position it must output the *last* symbol, which it has not read
# yet.</details>
# <details><summary>B. A little more than half.</summary>
#
# Yes: in the second half of the text it has read what it must output; in the first half it must guess, and one guess in eight
# is right. This bound follows without any training; whether a GRU reaches it at this budget is another question.</details>
# <details><summary>C. One in eight.</summary>
#
# That is the accuracy of guessing everywhere. In the second half of the text the model can know the answer.</details>


# %%
from course_tools.lectures.lecture_04.experiments import (
    BidirectionalGRU,
    compare_tasks,
    reversal_experiment,
)

T = 10
reversing = reversal_experiment(T, SEEDS, steps)
one_head = partial(MultiHeadByFunction, multi_head_attention, 64, 1)
both_ways = partial(reversing.fit, partial(BidirectionalGRU, 64, 32), lr=3e-2)
on_lookup = {"attention": looking_up.fit(one_head), "GRU": gru_on_lookup}
on_reversal = {
    "attention": reversing.fit(one_head),
    "GRU": reversing.fit(gru),
    "bidirectional GRU": both_ways(),
    "bidirectional GRU, 3 × the steps, one seed": both_ways(
        n_steps=3 * steps, n_seeds=1
    ),
}
right = compare_tasks(
    {"look-up": (looking_up, on_lookup), "reversal": (reversing, on_reversal)}
)

# %% tags=["nbval-check-output"]
claim("04.j", least=min(right["look-up: attention"]))
claim("04.k", least=min(looking_up.attends_correctly(on_lookup["attention"])))
claim("04.l", difference=min(right["look-up: attention"]) - max(right["look-up: GRU"]))
claim("04.m", least=min(right["reversal: attention"]))
claim("04.n", least=min(reversing.attends_correctly(on_reversal["attention"])))
claim("04.o", difference=min(right["reversal: attention"]) - (0.5 + 0.5 / 8))
difference = min(right["reversal: attention"]) - max(
    right["reversal: bidirectional GRU"]
)
claim("04.o-both", difference=difference)
longer = max(right["reversal: bidirectional GRU, 3 × the steps, one seed"])
claim("04.o-long", longer=longer, steps=3 * steps)

# %% [markdown]
# The bidirectional GRU learns to reverse a text as well, but more slowly: after as many steps attention is ahead (04.o-both);
# after three times as many, the GRU gets at least nine of ten symbols right (04.o-long, one seed). A likely reason is that
# the GRU must carry the symbols in its state, whereas attention takes each one directly from its position.
#
# ## 7 Attention maps
#
# We now look at the weights of the trained layer on one new text, collected by `record` from `course_lib.analysis`. Rows are
# queries, and each row sums to 1. A map by itself is easy to over-interpret; here the cells where the weight should be are
# outlined.

# %%
from course_tools.lectures.lecture_04.experiments import show_lookup, show_reversal

show_lookup(on_lookup["attention"].models[-1], looking_up.task, lookups.test)

# %% [markdown] tags=["try-it"]
# **Try it.** In the next cell the layer reverses a text. Change the text (T symbols, each from 0 to 7): does the pattern depend
# on the symbols? Then set all symbols equal: how can the layer still know where to attend?


# %% tags=["try-it"]
show_reversal(
    on_reversal["attention"].models[-1], [3, 1, 4, 1, 5, 2, 6, 5, 3, 5] * (T // 10)
)

# %% [markdown] tags=["interactive"]
# **Explore.** The attention microscope runs small trained transformers inside the page, without the kernel. It opens with one
# that continues a text, under the causal mask of section 4; the other two reverse a word that you type, or classify a digit.
# Where scripts do not run, a still picture of the model that reverses a word is shown instead. Predict what happens when you
# switch off the scale, a mask, the positions or a head; then try it. `python3 course.py microscope` writes the same page as a
# file.

# %% tags=["interactive"]
microscope("continue")

# %% [markdown]
# ## 8 Pixels are tokens too
#
# Attention does not require its tokens to form a sequence. In this section every pixel of an image is a token; you write
# attention over all pixels and put the contexts back at their positions. This is the `AttentionLayer2d` of the deck EE-559:
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
# <details><summary>A. The scale.</summary>
#
# The scale is inside `scaled_dot_product_attention`, which has passed its own check.</details>
# <details><summary>B. The tokens: the reshape mixes channels and positions.</summary>
#
# Yes. In memory, the whole red channel precedes the whole green channel. A reshape to (H · W, C) cuts this sequence into groups
# of three, so a "token" is three neighbouring red values. The axes must be permuted first. The shape does not show which number
# is where.</details>
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
# alone. (The figure also shows a 3×3 window, which usually contains no coloured pixel.) How much does the score with both terms
# gain, measured as peak signal-to-noise ratio?
#
# ($b$ and $p$ were chosen by hand, for the score with both terms; in a trial, the lead over rivals tuned on each draw was about
# as large.)
#
# <details><summary>A. Not at all: position alone already finds the right colour, since neighbours are similar.</summary>
#
# No: across an edge, the nearest coloured pixel has the wrong colour.</details>
# <details><summary>B. About one to three decibels more than the better of the two, on average over twelve draws.</summary>
#
# Yes (04.p): each term alone restores most of the colours, and the two make different errors. In single draws, the lead can
# vanish.</details>
# <details><summary>C. Five decibels or more.</summary>
#
# That is the lead over the 3×3 window and over the plain mean of all known colours. These rivals lack the information, so a
# lead over them means little.</details>

# %%
from course_tools.lectures.lecture_04.colour_restoration import (
    compare_restorations,
    faded_photograph,
    matrices_of_scores,
    show_restored,
    show_weights_of_a_pixel,
)

size = (40, 60)
faded = faded_photograph(size, seeds=range(12), share=0.02)
by_score = {
    "uniform": matrices_of_scores(brightness=0.0, position=0.0),
    "brightness": matrices_of_scores(brightness=300.0, position=0.0),
    "position": matrices_of_scores(brightness=0.0, position=30.0),
    "both": matrices_of_scores(brightness=300.0, position=10.0),
}
quality = compare_restorations(faded, attention_over_image, by_score)

# %% tags=["nbval-check-output"]
from course_tools.notebook.seed_scores import lead_over_best

claim("04.p", average=mean(lead_over_best(quality, "both")))

# %%
show_weights_of_a_pixel(faded, faded.samples[0], by_score["both"])

# %% [markdown] tags=["interactive"]
# **Explore.** $b$ and $p$ act as inverse temperatures: each multiplies one term of the scores. If both are 0, all known pixels
# have equal weight; at large values, each pixel copies the colour of a single one. What goes wrong at each end? Which setting
# restores the colours best? (The sliders show powers of ten: 2 stands for about 100, and 0 for 0.)


# %% tags=["interactive"]
explore(
    partial(show_restored, faded, attention_over_image),
    brightness=(0.0, 5.0, 0.25),
    position=(0.0, 4.0, 0.25),
)

# %% [markdown]
# ## 9 Cost
#
# Two decks reproduce the table of Vaswani et al.: the work per layer, the sequential operations, and the longest path between
# two positions. In this section we *measure* these three numbers for four ways to mix $n$ tokens of size $d$:
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
# **Predict.** Ordinary convolutions of width 3 are stacked. How many layers does it take until the last of 65 tokens depends on
# the first?
#
# <details><summary>A. Four: log₃ 65, as in the table.</summary>
#
# The table assumes *dilated* convolutions, each with three times the dilation of the previous one. The ledger measures those as
# well.</details>
# <details><summary>B. 64: one position per layer.</summary>
#
# Yes. A convolution of width 3 reaches one position to each side, and the two ends are 64 positions apart.</details>
# <details><summary>C. One: a convolution slides over the whole text.</summary>
#
# It slides over the whole text, but each output depends on only three inputs.</details>


# %%
from course_tools.lectures.lecture_04.figures import (
    attention_cheaper_until,
    show_costs,
    show_times,
)
from course_tools.notebook.layer_costs import measured_costs

FOUR = ("self-attention", "recurrent", "convolution", "restricted")
lengths, short = [128, 256, 512, 1024], [17, 33, 65]
costs = measured_costs(FOUR, lengths, short, d=64)
show_costs(costs, lengths, short)

# %% tags=["nbval-check-output"]
claim("04.q", exponents=tuple(costs.exponents.values()), layers=FOUR)
claim(
    "04.r",
    attention=tuple(costs.waits["self-attention"]),
    recurrence=tuple(costs.waits["recurrent"]),
    n=tuple(short),
)
longest = tuple(lengths[-1] for lengths in costs.paths.values())
claim("04.s", paths=longest, tokens=short[-1], layers=FOUR)

# %% [markdown] tags=["predict"]
# **Predict.** A deck says that attention is cheaper than recurrence when n < d. Count everything that a layer computes,
# projections included: four $d \times d$ matrices for attention, two for a plain recurrent network, eight for an LSTM. Is
# attention cheaper than the plain network or the LSTM, and up to which $n$?
#
# <details><summary>A. Cheaper than both while n &lt; d.</summary>
#
# That compares $n^2 d$ with $n d^2$, the mixing alone. The projections of attention cost another $4 n d^2$.</details>
# <details><summary>B. Never cheaper than the plain network; cheaper than the LSTM while n &lt; 2d.</summary>
#
# Yes: $4nd^2 + 2n^2d < 2nd^2$ has no solution, and $4nd^2 + 2n^2d < 8nd^2$ gives $n < 2d$. The next cell finds both results by
# counting.</details>
# <details><summary>C. Never: a quadratic function grows faster than a linear one.</summary>
#
# That is true of long texts. For short texts and large $d$, the term in $d^2$ dominates.</details>


# %% tags=["nbval-check-output"]
d = 16
claim("04.t", until=tuple(attention_cheaper_until(d)), d=d)

# %% [markdown]
# Work is not time, because a processor computes independent products in parallel. The next figure shows the time on this
# machine. We make no claim about it, since it depends on the hardware.

# %%
show_times([64, 128, 256, 512, 1024, 2048], d=64)

# %% [markdown] tags=["predict"]
# ## 10 Ablations
#
# **Predict.** Each position must now output two symbols: the one at the opposite position *and* the one just before its own. We
# compare one head of size 64 with two heads of size 32; both models have the same number of parameters, and each symbol has its
# own linear readout. What does the single head do?
#
# <details><summary>A. The same as two heads: the number of parameters is equal.</summary>
#
# One softmax makes one set of weights for each query, whatever the size of the head, and a linear readout cannot separate the
# two symbols in one sum. A layer with a ReLU after the head can (04.v-layer).</details>
# <details><summary>B. It splits its weight evenly between the two positions and gets each symbol right half of the time.</summary>
#
# The weight is split almost evenly, but both readouts get the same sum, and for most texts neither can tell from it which
# symbol was where unless one weight is a little larger.</details>
# <details><summary>C. It gets one symbol right nearly always, and mostly fails at the other.</summary>
#
# Yes (04.v-one, 04.v-other). It splits its weight almost evenly between the two positions. Both *linear* readouts get the same
# sum, in which the symbol with the slightly larger weight can be given the largest logit; for the other symbol no linear readout
# can do this. The maps show it (the right cells are outlined): in the single head, a row has two nearly equal weights; in each
# of the two heads, a row has one sharp maximum.</details>

# %%
from course_lib.blocks import FeedForward


class HeadAndLayer(nn.Module):
    """One head, and the feed-forward layer of a Transformer block after it."""

    def __init__(self):
        super().__init__()
        self.head, self.layer = one_head(), FeedForward(64, 128)

    def forward(self, x):
        context, weights = self.head(x)
        return Attended(context + self.layer(context), weights)


two_symbols = reversing.with_two_answers()
n_steps = 400
ablated = {
    "one head": two_symbols.fit(one_head, n_steps),
    "two heads": two_symbols.fit(
        partial(MultiHeadByFunction, multi_head_attention, 64, 2), n_steps
    ),
}
two_symbols.show_heads(ablated)
ablated["one head, ReLU layer"] = two_symbols.fit(HeadAndLayer, n_steps)
two_symbols.show_losses(ablated)

# %% tags=["nbval-check-output"]
claim("04.u", least=min(ablated["two heads"].accuracies))
difference = min(ablated["two heads"].accuracies) - max(ablated["one head"].accuracies)
claim("04.v", difference=difference)
claim("04.v-layer", least=min(ablated["one head, ReLU layer"].accuracies))
by_symbol = two_symbols.symbol_accuracies(ablated["one head"])
claim("04.v-one", least=min(map(max, by_symbol)))
claim("04.v-other", least=min(max(each) - min(each) for each in by_symbol))

# %% [markdown] tags=["predict"]
# **And without positions?** If the tokens contain no position, permuting them should permute the outputs in the same way and
# change nothing else. Is that true?
#
# <details><summary>A. True: attention treats its tokens as a set, not as a sequence.</summary>
#
# Yes, and the next cell tests it. Lecture 05 adds the positions, as sines and cosines.</details>
# <details><summary>B. False: the rows of the weights are numbered.</summary>
#
# The row number does not enter the computation. Each row is computed from its own query and from all keys, in any
# order.</details>

# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
layer = MultiHeadByFunction(multi_head_attention, 64, 2)
x, shuffle = torch.randn(3, 11, 64), torch.randperm(11)
gap = (layer(x[:, shuffle]).context - layer(x).context[:, shuffle]).abs().max()
claim("04.w", gap=gap)

# %%
no_positions = reversing.without_positions().fit(one_head)
reversing.show_losses(
    {"with positions": on_reversal["attention"], "without": no_positions}
)

# %% tags=["nbval-check-output"]
difference = min(right["reversal: attention"]) - max(no_positions.accuracies)
claim("04.x", difference=difference)

# %% [markdown] tags=["try-it"]
# ## 11 Build it: a control
#
# **Build task (25 minutes, 12 points).** This lecture says that attention can look up values because its *weights depend on
# content*. But attention also has many parameters, and every token can attend to every other. Would a layer with both, but with
# *fixed* weights, do as well? A **control** answers such a question. It differs from the model in one ingredient only, and it
# could succeed if this ingredient did not matter. Design one.
#
# The texts are like those of section 1, with eight pairs and four questions. Each position now has an answer:
#
# | positions | the right output | name |
# | --- | --- | --- |
# | the four questions | the value of the key that is asked for | look-up |
# | the eight pairs | the values in reverse order: at pair $i$, the value of pair $7 - i$ | reversal |
#
# Reversal needs only positions. It is the **positive control**: if a rival fails even there, its failure at look-up shows
# nothing. The model is one layer of attention with one head between three embeddings (of the key, the value and the position)
# and a linear readout. The next cell trains it.

# %%
from course_tools.lectures.lecture_04.rival import show_attention_rival, train_the_model

n_parameters = train_the_model(seed=SEEDS[0])

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
show_attention_rival(train_attention_rival, n_parameters, SEEDS)

# %% [markdown] tags=["quiz"]
# ## 12 Exit quiz
#
# **Question 1.** You double $d_k$ but still divide by the square root of the old $d_k$. What is the immediate effect?
#
# <details><summary>A. The weights become more even.</summary>
#
# On the contrary: the standard deviation of the scores is now $\sqrt 2$ times as large as the scale assumes.</details>
# <details><summary>B. The weights become sharper.</summary>
#
# Right. With a much larger $d_k$, the softmax saturates and its derivatives vanish: this is the failure of section 3. (One
# doubling need not make them smaller: among sixteen keys or more, they grow at first.)</details>
# <details><summary>C. Rows of weights no longer sum to 1.</summary>
#
# The softmax makes them sum to 1 whatever the scores are.</details>
#
# **Question 2.** A batch for a language model contains texts of 3 and 5 tokens, padded to 5. Which mask is right?
#
# <details><summary>A. <code>causal_mask(5) | padding_mask(lengths, 5)</code></summary>
#
# "Or" lets a query attend wherever *one* of the rules allows it: to future real tokens, and to earlier padding.</details>
# <details><summary>B. <code>causal_mask(5) &amp; padding_mask(lengths, 5)</code></summary>
#
# Right: both rules must allow it. (5, 5) and (2, 1, 5) broadcast to (2, 5, 5). (With padding on the right, the causal mask
# alone protects the real queries, which come before the padding; with padding on the left it does not.)</details>
# <details><summary>C. <code>padding_mask(lengths, 5)</code> alone: the loss skips padding anyway.</summary>
#
# Then real tokens attend to the tokens after them, and the loss falls below the entropy, as in section 4.</details>
#
# **Question 3.** A text has 100,000 tokens, and $d$ = 1,000. Which term of self-attention dominates?
#
# <details><summary>A. The projections, $4nd^2$.</summary>
#
# The ratio of $4nd^2$ to $2n^2d$ is that of $2d$ to $n$, and $n$ is fifty times $2d$.</details>
# <details><summary>B. The scores and the weighted means, $2n^2d$.</summary>
#
# Right. There are ten billion weights for each head, which only a fused kernel need not store (lecture 14). Lectures 10 and 14
# are about this cost.</details>
# <details><summary>C. The sequential operations.</summary>
#
# Their number does not grow with the length.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague shows you an attention map of a trained model and says: "You see, it has
# understood the grammar." What would you ask before you agree? Use two experiments of this lecture.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says what a weight is: a coefficient of the weighted sum in one layer and one head, not a cause |
# | 1 | asks for a pattern that is known to be right, or a measure, as in section 6, and for texts outside the training data |
# | 1 | asks for a baseline or a control that should fail: no positions, one head, a shuffled text |
# | 1 | uses the leak of section 4, or another case in which a good number had a bad reason |
# | 1 | is clear and short |
#
# </details>

# %% [markdown] tags=["companion"]
# ## 13 Ledger
#
# **Errata of the decks**, each measured in the next cell (*EE* is EE-559 13.2, *CS* CSE 891, *IT* ITMO lecture 7, *RK* RKMVERI,
# *GA* Gaïffas lecture 8):
#
# - *EE* writes $QK^\top/\sqrt d$, where $d$ is the size of the **values**. The variance of the scores depends on the size of
#   the keys.
# - *CS* writes $K = W_k X$ with $X$ of $n \times d$ and $W_k$ of $d \times d'$. The shapes of that product do not match; those
#   of $X W_k$ do. And $y_j = \sum_i A_{ij} v_i$ needs **columns** that sum to 1, but its softmax names no axis.
# - *IT* stacks tokens as columns and then writes $QK^\top$, which compares features with features.
# - *RK* projects queries and keys to lengths $p_q$ and $p_k$. For a dot product they must be equal.
# - *GA* gives the memory of attention as $L^2 d$. The work grows like this; what is kept in memory is $L^2 + Ld$, and with a
#   fused kernel, which does not store the weights, only $Ld$ (lecture 14).
#
# **Remarks.** A path of $\log_k n$ (CS, and Vaswani et al.) needs **dilated** convolutions; plain ones of width 3 reach one
# position per layer (04.s). "Cheaper when n < d" (IT), compared with a plain network, is true only of the mixing. With its
# projections, attention is never cheaper than that network, and it is cheaper than an LSTM while n < 2d (04.t). EE's code
# passes `bias=None` to its projections: this creates no bias, because None counts as false.
#
# **Limits of this lecture.** The tasks are small and were chosen so that the right pattern is known. The GRU fails *at this
# budget*, not in principle; with two, four and eight times its learning rate it did no better on look-up in a trial with one
# seed. Maps of a layer trained on real text cannot be compared with a right answer, so they are weaker evidence than those of
# section 7. Lecture 05 adds what a Transformer has beyond attention: positions, feed-forward networks, normalisation and depth.
#
# ## 14 Papers and decks
#
# **Papers.** Vaswani et al. 2017, *Attention Is All You Need*, eq. 1 and sections 3.2.1 to 3.2.3, table 1
# (https://arxiv.org/abs/1706.03762) · Graves, Wayne, Danihelka 2014, *Neural Turing Machines*, eqs. 2 and 5
# (https://arxiv.org/abs/1410.5401).
#
# The site compares the numbers of these papers with ours ([docs/evidence.md](../docs/evidence.md)).
#
# **Decks.** EE-559 13.2 · RKMVERI · CSE 891 · ITMO lecture 7 · Gaïffas lecture 8.
#
# <details><summary>Where each section of the decks is covered, and the library's name for it</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | IT | Problems with RNNs - still remains... | 1 A recurrent network keeps everything in one state | `course_lib.primitives.GRU` |
# | EE | Values, keys and a query | 2 Queries, keys and values | `course_lib.attention.attend` |
# | EE | Scaled Dot-Product Attention | 2 Queries, keys and values | `course_lib.attention.scaled_dot_product_attention` |
# | RK | Self-attention | 2 Queries, keys and values | `course_lib.attention.scaled_dot_product_attention` |
# | CS | Recap: Self-Attention Layer | 2 Queries, keys and values | `course_lib.attention.scaled_dot_product_attention` |
# | IT | Self-attention | 2 Queries, keys and values | `course_lib.attention.scaled_dot_product_attention` |
# | GA | Self-attention layer | 2 Queries, keys and values | `course_lib.attention.scaled_dot_product_attention` |
# | EE | Implementation example: batched matrix products | 2 Queries, keys and values | `course_lib.attention.scaled_dot_product_attention` |
# | RK | Encoder self-attention, decoder self-attention (masked) | 4 Masks | `course_lib.primitives.causal_mask`, `course_lib.primitives.padding_mask` |
# | EE | Multi-Head Attention | 5 Multi-head attention | `course_lib.attention.multi_head_attention`, `course_lib.attention.MultiHead` |
# | RK | Multi-head attention | 5 Multi-head attention | `course_lib.attention.MultiHead` |
# | CS | Multihead Self-Attention Layer | 5 Multi-head attention | `course_lib.attention.split_heads` |
# | IT | Multi-head Attention | 5 Multi-head attention | `course_lib.attention.multi_head_attention` |
# | GA | Multi-head self-attention layer | 5 Multi-head attention | `course_lib.attention.multi_head_attention` |
# | CS | Visualizing Multi-Head Attention | 7 Attention maps | `course_lib.analysis.record` |
# | EE | Implementation example: AttentionLayer2d | 8 Pixels are tokens too | `course_lib.attention.AttentionLayer2d` |
# | IT | Convolution? | 9 Cost | `course_lib.attention.scaled_dot_product_attention` |
# | CS | Computational Cost and Parallelism | 9 Cost | `course_lib.attention.MultiHead` |
# | CS | Computational Efficiency | 9 Cost | `course_lib.attention.MultiHead` |
# | IT | Attention is cheap | 9 Cost | `course_lib.primitives.LSTM` |
# | GA | Quadratic complexity of MSA | 9 Cost | `course_lib.attention.scaled_dot_product_attention` |
#
# </details>


# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_04.errata import deck_statements

found = deck_statements(SEEDS[0])
claim("04.EE", spread_by_values=found.spread_by_values)
claim("04.EE-bias", without_bias=found.without_bias)
claim("04.CS", matches=found.matches)
claim("04.CS-axis", columns_miss=found.columns_miss)
claim("04.CS-path", dilated_layers=found.dilated_layers)
claim("04.IT", features_compared=found.features_compared)
claim("04.RK", unequal_match=found.unequal_match)
claim("04.GA", growth=found.growth)

# %% tags=["ledger"]
ledger()
