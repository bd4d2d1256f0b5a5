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
# # 14 · Linear transformers
#
# Linear attention replaces the exponential of attention by a dot product of features, so that the cost grows linearly with the
# length of a text.
#
# ![](diagram:linear_recurrence)
#
# You will write it in parallel, causal and recurrent form, approximate the softmax by random features, measure how the size of
# a head limits how many items linear attention recalls, and build a language model that generates text in constant memory.
#
# **Prerequisites:** lecture 04 (self-attention); lectures 01 (recurrence) and 07 (language models, cache) from section 5 on.
# **Time:** {minutes}. {measured}

# %%
from course_lib.attention import scaled_dot_product_attention
from course_tools.notebook import attention_costs, claim, layer_costs, predict

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 The quadratic cost of attention
#
# In lecture 04 each token attends to every other: $L$ tokens need $L^2$ weights in each head of each layer. That is a million
# weights for a text of a thousand tokens, and ten billion for a book of a hundred thousand tokens.

# %% [markdown] tags=["predict"]
# **Predict.** One head of size 64 processes 4,096 tokens. Queries, keys and values take 1 MiB each. How much additional memory
# does attention need at its peak?
#
# <details><summary>A. About 1 MiB: the result is as large as the values.</summary>
#
# That is the size of the output. But to compute it, all scores are in memory at the same time.</details>
# <details><summary>B. About 64 MiB.</summary>
#
# That is *one* matrix of 4,096 by 4,096 numbers. The scores are one such matrix, and the weights computed from them are
# another.</details>
# <details><summary>C. Well above 100 MiB.</summary>
#
# Yes: scores and weights take 64 MiB each, and a text twice as long needs four times as much. This lecture is about avoiding
# that quadratic cost.</details>


# %% tags=["nbval-check-output"]
lengths = [1024, 2048, 4096]
held = [attention_costs.peak_mib(scaled_dot_product_attention, L) for L in lengths]
claim("14.a", held=held[-1])
claim("14.b", exponent=layer_costs.exponent(lengths, held))

# %% [markdown]
# ## 2 Attention with a general similarity
#
# Softmax attention is a weighted mean of the values, and the weights come from the similarity of query and key. The same
# formula can be written with *any* similarity that is never negative:
#
# $$c_i = \frac{\sum_j \mathrm{sim}(q_i, k_j)\, v_j}{\sum_j \mathrm{sim}(q_i, k_j)} \qquad \text{softmax: } \mathrm{sim}(q, k) = \exp(q^\top k / \sqrt d)$$
#
# The problem is the exponential: it does not split into a factor for the query and a factor for the key, so it must be computed
# for every pair. A similarity that is a **dot product of features**, $\phi(q)^\top \phi(k)$, does split, as section 3 shows.
# If the features are positive, so are the weights. The simplest choice, by Katharopoulos et al., is
#
# $$\phi(x) = \mathrm{elu}(x) + 1 = \begin{cases} x + 1 & x > 0\\ e^x & x \le 0 \end{cases} \qquad \text{entry by entry}$$
#
# | name | shape |
# | --- | --- |
# | x, $\phi(x)$ | any, the same |

# %%
import torch
from torch import Tensor, nn
import torch.nn.functional as F

from course_lib.primitives.kernels import Vectors
from course_tools.notebook import check

# %% exercise="14.1" difficulty="●○○" minutes=5
from course_lib.primitives import elu_feature_map

# %% tags=["nbval-check-output"]
elu_feature_map = check("14.1", elu_feature_map)

# %% [markdown]
# In the notation of lecture 04, this is `attend` with the scores $\log \phi(q)^\top\phi(k)$, and that is how the library's
# `kernel_attention` computes it. This form still computes all weights, so it saves nothing. The next figure uses it to show the
# effect of a different similarity.

# %% [markdown] tags=["predict"]
# **Predict.** Take one query and 64 random keys, and multiply queries and keys by 10, then by 100. Softmax attention becomes
# sharper and sharper: its weights concentrate on one key. What happens to attention with elu + 1?
#
# <details><summary>A. It becomes sharper as well, but more slowly.</summary>
#
# Far from 0, each feature is nearly $x$ or nearly 0. For random vectors, multiplying $x$ by 100 therefore multiplies all
# similarities by nearly the same factor, which the division cancels.</details>
# <details><summary>B. Hardly anything changes.</summary>
#
# Yes: random vectors share many positive entries, however they are scaled. Keys that share none, such as $c(2e_i - 1)$ with the
# $i$-th unit vector $e_i$ and a large $c$, could be told apart. Section 7 measures what training finds.</details>
# <details><summary>C. It overflows.</summary>
#
# The exponential is applied only where $x \le 0$.</details>

# %%
from course_tools.lectures.lecture_14.figures import show_sharpness

largest = show_sharpness(elu_feature_map, "elu + 1")

# %% tags=["nbval-check-output"]
claim("14.c", largest=largest["softmax"][-1])
claim("14.d", largest=largest["elu + 1"][-1])

# %% [markdown]
# ## 3 Linear attention
#
# Insert $\phi(q)^\top\phi(k)$ into the fraction. The query is a factor of every term, so it can be taken out of both sums:
#
# $$c_i^\top = \frac{\sum_j \phi(q_i)^\top\phi(k_j)\, v_j^\top}{\sum_j \phi(q_i)^\top\phi(k_j)}
# = \frac{\phi(q_i)^\top S}{\phi(q_i)^\top z} \qquad S = \sum_j \phi(k_j) v_j^\top \qquad z = \sum_j \phi(k_j)$$
#
# $S$ and $z$ do not depend on the query. They are computed once, in one pass over the text; after that, the cost of each query
# is independent of the length. In matrix form, without the division: $(\phi(Q)\phi(K)^\top)V = \phi(Q)(\phi(K)^\top V)$.
#
# | name | shape |
# | --- | --- |
# | `phi_q`, `phi_k` | (…, T_q, f), (…, T_k, f): from here on the inputs are features, computed by any feature map |
# | `v` | (…, T_k, d_v) |
# | S, z | (…, f, d_v), (…, f): no axis for positions |
# | mask | (…, 1, T_k): the same for all queries, since they share the sums |
#
# Given: `mask_features(phi_k, mask)` sets the features of masked keys to 0; `divide(a, b)` returns 0 where b is 0.

# %%
from course_lib import attention, fast
from course_lib.attention import Attended
from course_lib.attention.linear import (
    KeyFeatures,
    QueryFeatures,
    divide,
    mask_features,
)
from course_lib.shapes import Context, Mask, Values

# %% exercise="14.2" difficulty="●●○" minutes=10
from course_lib.attention import linear_attention

# %% tags=["nbval-check-output"]
linear_attention = check("14.2", linear_attention)


# %%
def with_elu(mix):
    """A mechanism `(q, k, v, mask)` for the library's layers: `elu_feature_map`, and a
    way to sum."""
    return lambda q, k, v, mask=None: Attended(
        mix(elu_feature_map(q), elu_feature_map(k), v, mask).to(v.dtype), None
    )


# %% [markdown] tags=["predict"]
# **Predict.** Does linear attention always need fewer multiply-adds than softmax attention? One head, $d = 16$.
#
# <details><summary>A. Yes, at every length.</summary>
#
# Softmax attention takes $2L^2d$ multiply-adds, linear attention slightly more than $2Ld^2$. For texts shorter than $d$, the
# second is larger.</details>
# <details><summary>B. Only beyond L = d.</summary>
#
# Yes: for shorter texts, the matrix of weights is smaller than $S$. A cell below counts the multiply-adds
# (14.f).</details>
# <details><summary>C. Only from a few thousand tokens on.</summary>
#
# In *running time* that may well be so, compared with a fused kernel on fast hardware, but not in multiply-adds.</details>

# %%
from course_tools.notebook import at_scale
from course_tools.notebook.authorship import whose

ours, softmax = with_elu(linear_attention), scaled_dot_product_attention
fused = fast.fused_scaled_dot_product_attention
linear = f"{whose(elu_feature_map, linear_attention)} linear attention"
memory, times = attention_costs.show_costs(
    {
        "softmax, weights stored": (softmax, at_scale(cpu=4096, gpu=16384)),
        linear: (ours, at_scale(cpu=16384, gpu=65536)),
        "softmax, fused": (fused, at_scale(cpu=8192, gpu=32768)),
    }
)

# %% [markdown]
# Look at the lowest line of the first figure. The *fused* kernel of lecture 04 computes softmax attention tile by tile and
# never stores the full matrix of weights: over the longest three texts its memory grows no faster than that of linear
# attention, and it is smaller at every length. But it does not reduce the number of operations, as its running times in the
# second figure show. So the *memory* of softmax attention grows quadratically only if all weights are stored; its number of
# *operations* always does. How fast the running times of linear attention grow depends on the machine (for that of the
# solution, see the caption of the second figure); its number of operations grows linearly on any (14.e).

# %% tags=["nbval-check-output"]
from course_tools.notebook.layer_costs import cheaper_until, exponent
from course_tools.notebook.layer_costs import multiply_adds, one_head

library = attention.LinearAttention()
counted = [256, 512, 1024]
powers = [
    round(exponent(counted, [multiply_adds(form, *one_head(L)) for L in counted]), 2)
    for form in (softmax, library)
]
claim("14.e", powers=tuple(powers))
value = cheaper_until(lambda x: softmax(x, x, x), lambda x: library(x, x, x), d=16) + 1
claim("14.f", value=value)
slopes = [exponent(sizes[-3:], values[-3:]) for sizes, values in memory.values()]
claim("14.g", slopes=slopes[0])
claim("14.h", largest=max(slopes[1:]))
(fused_lengths, fused_times), (lengths, linear_times) = (
    times["softmax, fused"],
    times[linear],
)
ratio = fused_times[-1] / linear_times[list(lengths).index(fused_lengths[-1])]
claim("14.i", ratio=ratio)

# %% [markdown]
# ## 4 Causal linear attention
#
# In a language model, no position may use later tokens: position $i$ sums over $j \le i$ only. So every position has its own
# sums. They are **prefix sums**: each is the previous one plus one term.
#
# $$S_i = \sum_{j \le i} \phi(k_j) v_j^\top \qquad z_i = \sum_{j \le i} \phi(k_j) \qquad c_i^\top = \frac{\phi(q_i)^\top S_i}{\phi(q_i)^\top z_i}$$
#
# | name | shape |
# | --- | --- |
# | `phi_q`, `phi_k` | (…, T, f): as many queries as keys |
# | all $S_i$; all $z_i$ | (…, T, f, d_v); (…, T, f) |
# | context | (…, T, d_v) |
#
# **Bug hunt.** The version below runs, and its shapes are right. Find out what it does wrong before you run the check.

# %%
from einops import einsum
from jaxtyping import Float

# %% exercise="14.3" bug="normalises_over_all_positions"
from course_tools.bank.lecture_14.causal_linear_attention import (
    normalises_over_all_positions as suspect,
)

# %% [markdown] tags=["predict"]
# **What is wrong with it, and which information leaks?**
#
# <details><summary>A. The mask: the features of masked keys are not set to 0.</summary>
#
# They are, in the first line.</details>
# <details><summary>B. Causality: the normaliser sums over all positions, so each context depends on later keys.</summary>
#
# Yes. Numerator and normaliser are both sums, and both must stop at $i$. Here information about later keys leaks through the
# denominator, which scales each context.</details>
# <details><summary>C. The batch: the sums mix different sequences.</summary>
#
# The axes are counted from the end, so no sum runs over the batch axis.</details>

# %% tags=["nbval-check-output"]
suspect = check("14.3", suspect)

# %% exercise="14.3" difficulty="●●○" minutes=12
from course_lib.attention import causal_linear_attention

# %% tags=["nbval-check-output"]
causal_linear_attention = check("14.3", causal_linear_attention)

# %% [markdown]
# Storing all $S_i$ at once takes $L \cdot f \cdot d_v$ numbers: with $f = d_v = 64$, that is more than the $L^2$ weights of
# softmax attention for all $L$ below 4,096. In practice, the text is therefore split into **chunks** of 64 tokens. Within a
# chunk, the small matrix of weights is computed explicitly; from chunk to chunk, only one $S$ and one $z$ are passed on.
# `chunked_linear_attention` does this, with its own backward pass.

# %% tags=["nbval-check-output"]
from functools import partial

from course_tools.notebook import peak_memory

inputs = [elu_feature_map(x) for x in one_head(1024)[:2]] + one_head(1024)[2:]
in_chunks = fast.chunked_linear_attention(*(x.double() for x in inputs))
claim("14.j", gap=(in_chunks - causal_linear_attention(*inputs)).abs().max())
by_softmax, by_prefixes, by_chunks = (
    peak_memory(partial(form, *inputs))
    for form in (
        attention.causal_attention,
        attention.causal_linear_attention,
        fast.chunked_linear_attention,
    )
)
claim("14.k", ratio=by_prefixes / by_softmax)
claim("14.l", ratio=by_chunks / by_softmax)

# %% [markdown]
# ## 5 The recurrent form
#
# The prefix sums can also be computed one position at a time: $S_i$ depends only on $S_{i-1}$ and the new token.
#
# $$S_i = S_{i-1} + \phi(k_i) v_i^\top \qquad z_i = z_{i-1} + \phi(k_i) \qquad c_i^\top = \frac{\phi(q_i)^\top S_i}{\phi(q_i)^\top z_i}$$
#
# That is one step of a **recurrent network** whose state is $(S, z)$. In training, all positions are computed in parallel; in
# generation, one step after another. Both forms compute the same function.
#
# | name | shape |
# | --- | --- |
# | `S`, `z`: input and output | (…, f, d_v), (…, f) |
# | `phi_q`, `phi_k`, `v` | (…, f), (…, f), (…, d_v): one position |
# | returned | context (…, d_v), S, z |

# %% exercise="14.4" difficulty="●●○" minutes=8
from course_lib.attention import linear_attention_step

# %% tags=["nbval-check-output"]
linear_attention_step = check("14.4", linear_attention_step)

# %% tags=["nbval-check-output"]
phi_q, phi_k, v = (x[0, 0, :300].double() for x in inputs)
S, z, steps = torch.zeros(64, 64).to(v), torch.zeros(64).to(v), []
for position in zip(phi_q, phi_k, v, strict=True):
    context, S, z = linear_attention_step(S, z, *position)
    steps.append(context)
gap = (torch.stack(steps) - causal_linear_attention(phi_q, phi_k, v)).abs().max()
claim("14.m", gap=gap)

# %% [markdown] tags=["predict"]
# **Predict.** During generation, a GPT stores the keys and values of all tokens so far (the cache of lecture 07). For one head
# of size 64, at what length of the text does this cache become larger than $S$ and $z$?
#
# <details><summary>A. About 32 tokens.</summary>
#
# Yes: each token adds $64 + 64$ numbers, and the state has $64 \cdot 64 + 64$. For shorter texts, the state is larger than the
# cache.</details>
# <details><summary>B. About 4,000 tokens.</summary>
#
# The state has some 4,000 *numbers*, and each token adds 128 numbers to the cache.</details>
# <details><summary>C. Never: both store all tokens.</summary>
#
# The state sums over all tokens, so its size is constant. Section 7 measures how well single tokens can be recovered from
# it.</details>


# %%
texts = [16, 64, 256, 1024, 4096, 16384]
attention_costs.show_kept_numbers(texts)

# %% tags=["nbval-check-output"]
from course_lib.blocks import Sizes
from course_lib.models import GPT, LinearTransformer
from course_tools.notebook import device
from course_tools.notebook.attention_costs import StepBy, floats_in, step_by_products
from course_tools.notebook.attention_costs import work_of_step, work_with_cache

one_layer = LinearTransformer(50, Sizes(64, 1, 64, 1), elu_feature_map).to(device())
stepwise, d = StepBy(one_layer, step_by_products), 64  # the form whose work is counted
claim("14.n", count=len({work_of_step(stepwise, n) for n in texts}))
claim("14.o", exponent=exponent(texts[-3:], [work_with_cache(n) for n in texts[-3:]]))
claim("14.p", next=next(n for n in range(1, 99) if 2 * n * d > d * d + d))

# %% [markdown] tags=["predict"]
# **Predict.** A whole model also has projections, feed-forward networks and an output matrix, whose work does not depend on the
# length. One model has four layers of width 256. After 4,096 tokens, how many times
# as many multiply-adds does its next token need with a cache as with a state?
#
# <details><summary>A. About 4,096 / 64 = 64 times.</summary>
#
# That is about the ratio for attention alone. Both models also compute the same projections and feed-forward
# networks.</details>
# <details><summary>B. Between three and five times.</summary>
#
# Yes (14.p-model). In each layer, attention over the cache takes $2 L d$ multiply-adds, the other products $12 d^2$. They are
# equal at $L = 6 d$, here 1,536 tokens.</details>
# <details><summary>C. As many: the other layers dominate.</summary>
#
# They dominate for texts much shorter than $6 d$ tokens (14.p-short).</details>

# %%
from course_lib.fast import CachedGPT
from course_tools.lectures.lecture_14.figures import show_generation_speed

deep, read = Sizes(256, 4, 1024, 4), [64, 256, 1024, 4096]
torch.manual_seed(SEEDS[0])
gpt = GPT(50, 5_000, deep, fast.fused_causal_attention).to(device())
linear_transformer = LinearTransformer(
    50, deep, elu_feature_map, fast.chunked_linear_attention
).to(device())
with_cache, with_state = (
    CachedGPT(gpt),
    StepBy(linear_transformer, linear_attention_step),
)
speeds = show_generation_speed(
    {
        "softmax, cache": with_cache,
        "linear, state": with_state,
        "softmax, no cache": gpt,
    },
    read,
    "eight sequences, four layers of width 256",
    slow=["softmax, no cache"],
)
pairs = zip(read, speeds["linear, state"], speeds["softmax, cache"], strict=True)
ratios = ", ".join(f"{state / cache:.2f} after {n}" for n, state, cache in pairs)
print(f"speed with a state over that with a cache: {ratios} tokens")

# %% tags=["nbval-check-output"]
counted_state = StepBy(linear_transformer, step_by_products)
ratio = work_of_step(with_cache, 4096) / work_of_step(counted_state, 4096)
claim("14.p-model", ratio=ratio)
ratio = work_of_step(with_cache, 64) / work_of_step(counted_state, 64)
claim("14.p-short", ratio=ratio)
with torch.no_grad():
    _, keys_and_values = gpt.stack.read(torch.zeros(1, 4096, 256, device=device()))
    state = with_state.start(torch.zeros(1, 4096, dtype=torch.long, device=device()))
claim("14.p-kept", ratio=floats_in(keys_and_values) / floats_in(state))

# %% [markdown]
# After 64 tokens the two models need about as many multiply-adds (14.p-short), but on the machine of the solution, generation
# with a state is slower there; somewhere between 64 and a thousand tokens it overtakes (see the printed ratios). The counts
# omit that a cache must also be read from memory. What a model keeps does not depend on the machine: after 4,096 tokens, the
# cache holds more than a hundred times as many numbers as the state (14.p-kept).
#
# ## 6 Random features for the exponential
#
# The similarity of elu + 1 differs from that of the softmax. Could features give $\exp(q^\top k)$ itself? Not exactly: that
# would take infinitely many. But $\exp(q^\top k)$ can be written as an *expectation*. For $\omega \sim N(0, I)$, the
# expectation of $e^{\omega^\top u}$ is $e^{\|u\|^2/2}$. With $u = q + k$, the exponent contains the term $q^\top k$; the other
# two terms, $\|q\|^2/2$ and $\|k\|^2/2$, are removed by one factor each:
#
# $$e^{q^\top k} = \mathbb E_\omega\Big[\, e^{\omega^\top q - \|q\|^2/2}\; e^{\omega^\top k - \|k\|^2/2} \Big]
# \qquad \phi(x) = \frac{1}{\sqrt m}\, e^{\,\Omega x - \|x\|^2/2}$$
#
# The $m$ rows of $\Omega$ are drawn once. These are the **positive random features** of the Performer.
#
# | name | shape |
# | --- | --- |
# | `x` | (…, d); for the softmax of $q^\top k/\sqrt d$, first divide q and k by $d^{1/4}$ |
# | `omega` | (m, d) |
# | $\phi(x)$ | (…, m) |
#
# ![](diagram:performer)

# %%
import math

from course_lib.primitives import gaussian_projection, trigonometric_features
from course_lib.primitives.kernels import Projection

# %% exercise="14.5" difficulty="●●○" minutes=10
from course_lib.primitives import favor_features

# %% tags=["nbval-check-output"]
favor_features = check("14.5", favor_features)

# %% [markdown]
# Rows that are drawn independently may point in similar directions and are then redundant. It is better to make the
# rows **orthogonal** to each other, in blocks of at most $d$ rows, without changing the distribution of each row. The length
# and the direction of a Gaussian row are independent; so orthogonalise the directions by the Gram-Schmidt process, and keep the
# lengths.
#
# | name | shape |
# | --- | --- |
# | `omega`: input and output | (m, d): blocks of d rows, the last one may be shorter |
#
# Each single row still has the distribution $N(0, I)$, so the estimate of $e^{q^\top k}$ remains unbiased.

# %% exercise="14.6" difficulty="●●●" minutes=15
from course_lib.primitives import orthogonalised

# %% tags=["nbval-check-output"]
orthogonalised = check("14.6", orthogonalised)

# %% [markdown] tags=["predict"]
# **Predict.** The error of a mean of $m$ independent terms falls like $1/\sqrt m$. We estimate the attention weights of 64
# tokens with $m$ random directions, 16 to 4,096, once for logits with a standard deviation ("spread") of 0.25 and once for a
# spread of 4. What happens to the error? (The directions are orthogonal and the weights are ratios, so $1/\sqrt m$ is only a
# guide.)
#
# <details><summary>A. It falls like 1/√m in both cases; for large logits it is a little higher.</summary>
#
# The rate holds once $m$ is large enough. For large logits, that is more features than anyone could afford.</details>
# <details><summary>B. For small logits it falls; for large ones it hardly falls and stays near 1.</summary>
#
# Yes. Relative to the square of its mean, a single term has the variance $e^{\|q+k\|^2} - 1$: the mean is dominated by rare,
# very large terms, which even thousands of samples can miss. An estimate that is 0 everywhere has a relative error of
# 1.</details>
# <details><summary>C. For large logits it grows with m.</summary>
#
# For positive features it does not: more samples improve both numerator and denominator, though far too slowly. For
# trigonometric features it may, as the figure shows: their products can be negative, and the denominator can come near
# 0.</details>


# %%
from course_tools.lectures.lecture_14.random_features import (
    estimated,
    estimates_of_exponential,
    show_errors,
    show_estimate,
)

features_tried = [16, 64, 256, 1024, 4096]
maps = {"positive": favor_features, "trigonometric": trigonometric_features}
errors = show_errors(maps, orthogonalised, (0.25, 4.0), features_tried)

# %% [markdown]
# The two lower curves may surprise readers of the paper, which recommends positive features: for *small* logits, the
# **trigonometric** features, $e^{\|x\|^2/2}[\cos \Omega x; \sin \Omega x]/\sqrt m$, two for each direction, give the better
# estimate. Their disadvantage is that the products of features can be negative. For large logits, positive and negative terms
# do not cancel as they should: some weights become negative, and the denominator, a sum of such terms, can come near 0.

# %% tags=["nbval-check-output"]
small, large = errors["positive", 0.25], errors["positive", 4.0]
claim("14.q", exponent=exponent(features_tried, small))
claim("14.r", ratio=large[-1] / large[0])
claim("14.s", large=large[-1])
claim("14.t", ratio=errors["trigonometric", 0.25][-1] / small[-1])
lowest = min(
    estimated(trigonometric_features, orthogonalised, 4.0, 256, s)[1].min().item()
    for s in SEEDS
)
claim("14.v", lowest=lowest)

# %% tags=["nbval-check-output"]
independent = estimates_of_exponential(favor_features)
orthogonal = estimates_of_exponential(favor_features, orthogonalised)
claim("14.w", largest=max(independent.deviation, orthogonal.deviation))
claim("14.x", ratio=orthogonal.spread / independent.spread)

# %% [markdown] tags=["interactive"]
# **Explore.** The figure shows the exact and the estimated weights of one query over 16 keys. Begin with small logits and find
# an $m$ for which you consider the estimate good. Keep that $m$ and increase the spread: from which spread on is the estimate
# no longer close to the exact weights?


# %% tags=["interactive"]
from course_tools.notebook import explore


def draw_weights(spread=0.5, log_m=6, trial=0):
    """Compare the weights of one query with their estimate from 2^log_m positive
    features."""
    show_estimate(favor_features, orthogonalised, spread, 2**log_m, trial)


explore(draw_weights, spread=(0.25, 4.0, 0.25), log_m=(4, 12), trial=(0, 9))

# %% [markdown]
# ## 7 Recall of key-value pairs
#
# Now train on the task of lecture 04: a sequence of 16 key-value pairs, then queries, each with one of the keys. Softmax
# attention can select one pair. Linear attention has summed all pairs into $S$, and must recover one of them from the sum. We
# compare softmax attention and linear attention with elu + 1: one head of size 8, 16 or 64, and embeddings of 64 numbers. At
# size 16 we add the Performer with 16 random features and a **control**, linear attention with $\phi(x) = 1$, for which all
# keys are equal. Each has the learning rate that was best, on average over the sizes, of 0.005, 0.01, 0.02 and 0.04 in a trial
# with other seeds and other test sequences: 0.01 for the Performer, 0.02 for the others (for softmax attention and the control
# it made next to no difference).

# %% [markdown] tags=["predict"]
# **Predict.** With a head of any of these sizes, softmax attention recalls the pair asked for among 16 after 600 updates. How
# many pairs does elu + 1 recall after as many?
#
# <details><summary>A. As many at each size: training finds keys that do not interfere.</summary>
#
# In a head of size 64 it does (14.y). But the task has 32 keys, and their features cannot all be *orthogonal* in 8 or 16
# dimensions. Those of elu + 1 are never 0, so they are at best nearly orthogonal.</details>
# <details><summary>B. The fewer, the smaller the head.</summary>
#
# Yes: in a head of size 16 slightly fewer than softmax attention (14.A), in one of size 8 far fewer (14.A-small). Pairs whose
# features are not orthogonal interfere with each other in the sum.</details>
# <details><summary>C. As few as the control at each size: elu + 1 cannot become sharp.</summary>
#
# Not for random keys (section 2). Training finds better ones (14.C).</details>


# %%
from statistics import mean

from course_tools.lectures.lecture_14.associative_recall import (
    show_recall,
    show_recall_losses,
    show_recall_weights,
    train_readers,
)

three_sizes, one_size = {8: SEEDS, 16: SEEDS, 64: SEEDS[:1]}, {16: SEEDS}
contenders = {  # a mechanism, its learning rate, and seeds for each size of the head
    "softmax": (lambda size: scaled_dot_product_attention, 0.02, three_sizes),
    "elu + 1": (lambda size: with_elu(linear_attention), 0.02, three_sizes),
    "control: φ = 1": (
        lambda size: attention.LinearAttention(torch.ones_like),
        0.02,
        one_size,
    ),
    "Performer": (
        lambda size: attention.PerformerAttention(size, size),
        0.01,
        one_size,
    ),
}
n_pairs, updates = 16, 600
readers = {}
for name, (make, rate, seeds) in contenders.items():
    readers |= train_readers({name: make}, n_pairs, seeds, updates, rate)
show_recall_losses(readers)
show_recall(readers, f"{n_pairs} pairs; mean of three seeds, at size 64 one seed")

# %% tags=["nbval-check-output"]
recalled = {
    name: {size: [one.accuracy for one in trained] for size, trained in by_size.items()}
    for name, by_size in readers.items()
}
claim("14.z", least=min(min(accuracies) for accuracies in recalled["softmax"].values()))
claim("14.y", least=min(recalled["elu + 1"][64]))
claim("14.A", difference=min(recalled["softmax"][16]) - max(recalled["elu + 1"][16]))
difference = min(recalled["softmax"][8]) - max(recalled["elu + 1"][8])
claim("14.A-small", difference=difference)
claim("14.B", difference=min(recalled["softmax"][16]) - max(recalled["Performer"][16]))
difference = min(recalled["elu + 1"][16]) - max(recalled["control: φ = 1"][16])
claim("14.C", difference=difference)

# %% [markdown] tags=["predict"]
# **Predict.** Is this a limit of the head or of the training? The next cell trains elu + 1 in a head of size 8 three times as
# long. What happens?
#
# <details><summary>A. It catches up with softmax attention: elu + 1 only learns more slowly.</summary>
#
# It does learn more slowly, as the first losses show. But it stays far below softmax attention (14.A-longer).</details>
# <details><summary>B. The accuracy hardly changes.</summary>
#
# Yes, with our seeds by 0.04 or less (14.A-gain). Nor did the learning rate matter much: 0.56 to 0.62 at the four rates of the
# trial.</details>
# <details><summary>C. It falls: the model memorises the sequences that it is trained on.</summary>
#
# With our seeds it changes by 0.04 or less (14.A-gain).</details>

# %% tags=["nbval-check-output"]
make, rate, _ = contenders["elu + 1"]
longer = train_readers({"elu + 1": make}, n_pairs, {8: SEEDS}, 3 * updates, rate)
show_recall_losses(longer)
later = [one.accuracy for one in longer["elu + 1"][8]]
claim("14.A-longer", difference=min(recalled["softmax"][8]) - max(later))
highest = max(abs(b - a) for a, b in zip(recalled["elu + 1"][8], later, strict=True))
claim("14.A-gain", highest=highest)

# %% [markdown]
# So elu + 1 learns to recall, and what limits it here is the size of the head: for 16 pairs, size 64 suffices (14.y, one
# seed), size 16 almost (14.A), size 8 does not (14.A-small), even with more updates (14.A-longer). Softmax attention, which
# keeps every key and value, recalls nearly all pairs at each size (14.z). $S$ has a quarter as many numbers as the 16 keys and values
# at size 8, half as many at size 16 and twice as many at size 64: where it saves memory here, it loses pairs.

# %% [markdown] tags=["predict"]
# **Predict.** The next figure shows, for four queries of one sequence, which of the 16 pairs has the query's key, and the
# weights of three trained models (one seed each, head of size 16, 600 updates). The weights that a model does not compute
# itself are computed by `kernel_attention`. What do you expect for elu + 1?
#
# <details><summary>A. Nearly all weight at the right pair, as for softmax attention.</summary>
#
# A right answer does not require that: the right value only needs the largest logit.</details>
# <details><summary>B. Uniform rows, as for the control.</summary>
#
# It recalls more than the control does (14.C), so the weights cannot be uniform.</details>
# <details><summary>C. Much of the weight at the right pair, the rest at other pairs.</summary>
#
# Yes. The right pair has several times the weight that a uniform row would give it (14.D-uniform), but less than with softmax
# attention (14.D): the context is a mixture of several values.</details>


# %%
feature_maps = {
    "softmax": None,
    "elu + 1": elu_feature_map,
    "Performer": lambda x: favor_features(x / 16**0.25, omega),
}
last = {name: readers[name][16][-1].model for name in feature_maps}
omega = last["Performer"].attention.mechanism.omega
share = show_recall_weights({n: (last[n], feature_maps[n]) for n in last}, n_pairs)

# %% tags=["nbval-check-output"]
claim("14.D", ratio=share["softmax"] / share["elu + 1"])
claim("14.D-uniform", value=share["elu + 1"] * n_pairs)

# %% [markdown] tags=["predict"]
# In this task the queries follow the pairs directly. The study `14_long_sequences` separates them: 16 pairs,
# other keys without values up to the middle of 128, 512 or 2,048 positions, then queries only. It trains one block with softmax
# attention in its fused form, one with linear attention and elu + 1, and an LSTM with about as many parameters, for 400 updates
# each, with three seeds.
#
# **Predict.** Which of the three keeps the least memory from the forward to the backward pass at 2,048 positions?
#
# <details><summary>A. Linear attention: its state has a fixed size.</summary>
#
# In generation it has. In training, this form keeps queries, keys, their features and values of all positions.</details>
# <details><summary>B. The LSTM: its state is the smallest.</summary>
#
# The backward pass needs the gates and cells of all positions.</details>
# <details><summary>C. Softmax attention.</summary>
#
# Yes (14.long-memory). The fused form does not keep the weights: the backward pass computes them again.</details>

# %%
from course_tools.notebook import show_study
from course_tools.notebook.study_scores import print_scores

long = show_study("14_long_sequences")
print_scores(long, "accuracy", "seconds an update", "MiB", decimals=3)

# %% tags=["nbval-check-output"]
accuracy, seconds, mib = (
    {name: long.scores(name, score) for name in long.names}
    for score in ("accuracy", "seconds an update", "MiB")
)
least = min(
    *accuracy["softmax, 512 positions"], *accuracy["linear, elu + 1, 512 positions"]
)
claim("14.long-512", least=least)
difference = min(accuracy["softmax, 2,048 positions"]) - max(
    accuracy["linear, elu + 1, 2,048 positions"]
)
claim("14.long-2048", difference=difference)
least = min(accuracy["linear, elu + 1, 2,048 positions, 2.4 times as long"])
claim("14.long-equal", least=least)
difference = min(accuracy["softmax, 128 positions"]) - max(
    accuracy["LSTM, 128 positions, ten times as long"]
)
claim("14.long-lstm", difference=difference)
least = min(
    ours / theirs
    for ours, theirs in zip(
        seconds["softmax, 2,048 positions"],
        seconds["linear, elu + 1, 2,048 positions"],
        strict=True,
    )
)
claim("14.long-time", least=least)
ratio = mean(mib["linear, elu + 1, 2,048 positions"]) / mean(
    mib["softmax, 2,048 positions"]
)
claim("14.long-memory", ratio=ratio)

# %% [markdown]
# Softmax attention and elu + 1 learn the task at 128 and 512 positions (14.long-512). At 2,048 positions, elu + 1 is less
# accurate after 400 updates (14.long-2048). But an update takes it at most half the time (14.long-time), and in about an equal
# time, 960 updates, it learns the task with every seed (14.long-equal). So elu + 1 needs more updates here, but hardly more
# time; the learning rate was tried at 128 positions only. (The task is easier than the one above: the same 16 keys occur in
# every sequence.) The LSTM, whose forget gate starts half open, stays near chance (1/8), at 128 positions even after 4,000
# updates (14.long-lstm). That is not its limit: with a gate that starts open (lecture 01) it begins to learn, and reached 0.21
# after 3,200 updates in a trial (one seed). In training, linear attention in the form of section 4 saves time from 512
# positions on (at 128 it takes longer), but no memory (14.long-memory); the library's `lean_linear_attention` keeps only its
# inputs, like the fused form of softmax.

# %% [markdown]
# ## 8 Character language models
#
# Recall of one pair among many is a hard case; how do the mechanisms compare on ordinary text? We train on the characters of
# Python's language reference, without repeated paragraphs. On a CPU, the three models have one layer, four heads of size 16 and
# contexts of 32 characters. They are trained on the same batches and differ only in the mechanism. The dashed line shows the
# table of counts of lecture 07 for runs of three characters, which uses two characters of context.
#
# The model with elu + 1 is made of your functions: in training, `causal_linear_attention` of `elu_feature_map` mixes all
# positions at once; below, `linear_attention_step` generates the text.

# %% [markdown] tags=["predict"]
# **Predict.** We compare bits per character on held-out text after equal training, for softmax, elu + 1, and the control
# $\phi = 1$, a plain average of the past. What is the result?
#
# <details><summary>A. All three are about equal: in such a short training they learn little but letter frequencies.</summary>
#
# The plain average shows what is possible without selective attention. Both other models are well below it.</details>
# <details><summary>B. elu + 1 is no better than the average: in a small head it confuses the pairs.</summary>
#
# Such a recall is rarely needed here. A little more weight on the last few characters helps already.</details>
# <details><summary>C. elu + 1 gains at least half of what softmax gains over the plain average.</summary>
#
# Yes, after 500 updates (14.F). But even softmax needs more bits than counts of three characters
# (14.F-counts): after so few updates, it has not learned what two characters tell. So the result says little about how sharp
# attention must be. Longer contexts, where names and numbers must be copied, are a recall task again, and not measured
# here.</details>

# %%
from course_tools.lectures.lecture_14.character_text import (
    bits_of_counts,
    character_text,
    gap_of_steps,
    sampled,
    softmax_twin,
    train_writers,
)

T = 32
reference = character_text(T)
print(
    f"{len(reference.text):,} characters, {len(reference.letters)} different ones; "
    f"{len(reference.learn):,} pieces of {T} to learn from"
)


# %%
sizes, steps, lr = Sizes(64, 4, 256, 1), 500, 1e-2
linear_model = partial(LinearTransformer, len(reference.letters), sizes)
elu = partial(linear_model, elu_feature_map, causal_linear_attention)
average = partial(linear_model, torch.ones_like, fast.chunked_linear_attention)
makers = {
    "softmax": (partial(softmax_twin, len(reference.letters), sizes), SEEDS),
    "linear, elu + 1": (elu, SEEDS),
    "control: φ = 1": (average, SEEDS[:1]),
}
counts = bits_of_counts(reference, 3)
across = {"counts of three characters": counts}
writers = train_writers(makers, reference, steps, lr, across)

# %% tags=["nbval-check-output"]
bits = {name: [one.bits for one in trained] for name, trained in writers.items()}
plain = mean(bits["control: φ = 1"])
part = (plain - mean(bits["linear, elu + 1"])) / (plain - mean(bits["softmax"]))
claim("14.E", difference=min(bits["control: φ = 1"]) - max(bits["linear, elu + 1"]))
claim("14.F", part=part, steps=steps)
claim("14.F-counts", difference=min(bits["softmax"]) - counts)

# %% [markdown]
# The linear model now **generates text**: it reads the prompt in parallel, then each character is one step of the recurrence.
# The state has the same size after any number of characters (14.G compares the memory for 20 and 200). The recurrence *can* go
# on indefinitely, but the model was trained on pieces of 32 characters only; beyond that length the text gets worse.

# %% tags=["try-it"]
trained = writers["linear, elu + 1"][-1].model
writer = StepBy(trained, linear_attention_step)
prompt = reference.encode("The value of the ")
print(reference.decode(sampled(writer, prompt, 150, temperature=0.6)))

# %% [markdown] tags=["try-it"]
# **Try it.** Change the prompt, the temperature 0.6 and the number of characters. After how many characters does the text stop
# forming words? Is that number near the length of the pieces that the model was trained on?

# %% tags=["nbval-check-output"]
from course_lib.generation import generate

likeliest = lambda logits: logits.argmax(-1)  # noqa: E731
memory_of = {
    n: peak_memory(partial(generate, writer, prompt[:, :1], n, likeliest))
    for n in (20, 200)
}
claim("14.G", ratio=memory_of[200] / memory_of[20])
claim("14.H", gap=gap_of_steps(writer, trained, reference.held_out[:8, :T]))

# %% [markdown] tags=["predict"]
# ## 9 Ablation: weights of either sign
#
# **Predict.** Positive features give positive weights. Instead, take the identity, $\phi(x) = x$, on random queries and keys:
# what happens to the contexts, which should be weighted means of the values?
#
# <details><summary>A. They are a little noisier.</summary>
#
# A weighted mean with positive weights stays within the range of the values. These contexts are far outside it.</details>
# <details><summary>B. They leave the range of the values, usually by a factor above 5.</summary>
#
# Yes (14.I): weights of either sign can sum to nearly 0, and the numerator is divided by that sum.</details>
# <details><summary>C. They become 0, as positive and negative weights cancel.</summary>
#
# Cancellation makes both the numerator and the normaliser smaller, but not their quotient.</details>

# %% tags=["nbval-check-output"]
generator = torch.Generator().manual_seed(SEEDS[0])
q, k, v = (torch.randn(200, 64, 16, generator=generator) for _ in range(3))
contexts = linear_attention(q, k, v)
claim("14.I", median=(contexts.abs().amax((1, 2)) / v.abs().amax((1, 2))).median())

# %% [markdown]
# ## 10 Build it
#
# **Build task (35 minutes, 12 points).** Write a language model with linear attention, in both forms, and the loop that trains
# it, starting from an empty cell. In training, the parallel form processes all positions at once; in generation, the recurrent
# form needs constant memory. Define the classes and functions that you need above `train_linear_transformer`, in the same cell.
# Everything is allowed except the library's `LinearTransformer` and torch's recurrent networks.
#
# | method | arguments | result |
# | --- | --- | --- |
# | `model(tokens)` | (B, T), T ≤ 256 | logits (B, T, n_tokens); those at t predict the token at t + 1 |
# | `model.start(tokens)` | a prompt (B, T), T ≥ 0 | state |
# | `model.step(token, state)` | (B,), and a state | logits (B, n_tokens), and the new state |
#
# A state may be of any type, such as a tuple. The check calls `train_linear_transformer(text, n_tokens, n_steps)` once, with
# 100,000 characters of the language reference (27 tokens: the lower-case letters and the space) and `n_steps=400`. It evaluates
# the returned model on held-out text, in windows of 32 tokens; then it reads 256 tokens step by step. The function has at most
# 60 seconds of processor time; a good solution needs about six seconds.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the model maps tokens (B, T) to logits (B, T, n_tokens) |
# | 1 | at most `n_steps` updates and at most 200,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the returned model gives the same logits for the same tokens |
# | 1 | loss on held-out text: 0.2 nats below that of predicting from character frequencies alone |
# | 2 | the logits depend on the tokens so far and on their order, but on no later token and no other sequence |
# | 2 | both forms give the same logits |
# | 1 | the size of the state does not depend on the number of tokens read: at most 10,000 numbers for each sequence |
# | 1 | a step does not modify the state that it is given |
# | 1 | loss on held-out text: below that of a bigram table of the characters (about 2.3 nats) |

# %% exercise="14.7" difficulty="●●●" minutes=35
from course_tools.bank.lecture_14.train_linear_transformer import (
    train_linear_transformer,
)

# %% tags=["nbval-check-output"]
train_linear_transformer = check("14.7", train_linear_transformer)

# %% [markdown]
# The model has the same `start` and `step` as all models of the course, so the library's `generate` can use it. The next
# cell trains it once more and generates text by its `step`, character by character.

# %%
from course_tools.bank.language_models import encoded

torch.manual_seed(SEEDS[0])
small = encoded(reference.text)[:100_000]
built = train_linear_transformer(small, 27, 400)
codes = sampled(built, small[None, :16], 150)
print("".join(" abcdefghijklmnopqrstuvwxyz"[code] for code in codes))

# %% [markdown]
# Beyond the length of the training windows the text may get worse (compare *Try it* in section 8): positions and sums over so
# many tokens did not occur in training. The memory stays the same.

# %% [markdown] tags=["quiz"]
# ## 11 Exit quiz
#
# **Question 1.** A batch of documents, each of 500 tokens, $d = 1{,}000$ and one head. Would you use linear attention to save
# multiply-adds?
#
# <details><summary>A. Yes: linear beats quadratic.</summary>
#
# Linear attention needs fewer multiply-adds only if the length exceeds $d$. Here $L^2 d$ is *half* of $L d^2$.</details>
# <details><summary>B. No: the matrix of weights is smaller than S.</summary>
#
# Right: 500 × 500 against 1,000 × 1,000. With ten heads of size 100, the answer is reversed.</details>
# <details><summary>C. It makes no difference: only the exponents matter.</summary>
#
# The exponents decide for long texts. What counts as long depends on the constants (14.f).</details>
#
# **Question 2.** Your Performer trains badly; the standard deviation of its logits is about 5. You can afford four times as
# many features. Will that help?
#
# <details><summary>A. Yes: the error halves.</summary>
#
# For small logits it would. Section 6 shows the curve for large ones.</details>
# <details><summary>B. Hardly. Smaller logits would.</summary>
#
# Right: normalised queries and keys, or a higher temperature, make the logits smaller and reduce the variance *exponentially*;
# more features reduce the error only like $1/\sqrt m$.</details>
# <details><summary>C. Trigonometric features would help instead.</summary>
#
# They are better for small logits. For logits with a spread of 5, terms of either sign make the normaliser useless.</details>
#
# **Question 3.** Why can linear attention not use an arbitrary mask?
#
# <details><summary>A. Because a mask needs the exponential, exp(-∞) = 0.</summary>
#
# Setting the features of a key to zero masks it just as well.</details>
# <details><summary>B. Because S is a single sum that all queries share.</summary>
#
# Right: a mask that differs from query to query requires different sums. Padding masks a key for all queries, and the causal
# mask is a special case: its sums are prefix sums.</details>
# <details><summary>C. It can: multiply the weights by the mask.</summary>
#
# Linear attention computes no weights: avoiding them is its purpose.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *"Linear attention computes the same as attention, only faster." What is right about this
# sentence, what is wrong, and for which application would you nevertheless choose linear attention? Use three measurements from
# this lecture.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says what is the same (a weighted mean of values) and what differs (the similarity) |
# | 1 | quantifies what is lost: sharpness, recall against pairs, or bits per character |
# | 1 | says when it is cheaper and when it is not: the length at which the costs cross, or the memory of the fused kernel |
# | 1 | chooses an application that follows from this: long texts, or generation in constant memory |
# | 1 | is clear and short |
#
# </details>

# %% [markdown] tags=["companion"]
# ## 12 Summary and sources
#
# **Where the deck and the code differ**, each with a measurement:
#
# - *GA* gives a layer's input as $X \in \mathbb R^d$: the product $XW$ is then one vector, not $L$ vectors; $X$ must be
#   $L \times d$.
# - *GA* uses one symbol, $d_k$, for two sizes: that of a key, $W^K \in \mathbb R^{d \times d_k}$, and that of layer $k$'s
#   tokens, $X_k \in \mathbb R^{L \times d_k}$. With keys of size 8 and tokens of size 32, the two terms of the residual sum
#   have different shapes.
# - *GA*: $\mathrm{sim}(q,k) = \exp(q^\top k/\sqrt d)$ on one slide, $e^{q^\top k}$ on the slide about random projections: the
#   features estimate the second. Unless $q$ and $k$ are divided by $d^{1/4}$, they estimate a different attention.
# - *GA*: $\mathrm{elu}(z) = \alpha(e^z - 1)$ for negative $z$, and $\phi = \mathrm{elu} + 1$: with $\alpha$ above 1, $\phi$ is
#   no longer always positive.
# - *GA*: the trick "solves the memory and computational bottlenecks". Computation: only beyond $L = d$ (14.f). Memory: if
#   all causal prefix sums are stored, only for long texts (section 4; at 1,024 tokens they need more, 14.k); and the memory of
#   fused softmax attention does not grow quadratically either (14.h).
# - *GA*: memory $O(L^2 d)$: the part that grows quadratically is the matrix of weights, whose size does not depend on $d$.
#
# **Remark.** *CS* mentions "lots of focus on reducing the computational complexity", but not what is lost; 14.A and
# 14.A-small measure one such loss.
#
# **What this lecture does not show.** The models compared in sections 7 and 8 have one layer on a CPU and are trained briefly;
# a deeper model can look things up in two steps. The text experiment uses contexts of 32 characters, which hardly require
# recall; it says nothing about longer contexts or larger models. Later methods, with other feature maps, forget gates, and
# update rules that *correct* the state instead of only adding to it, are not covered. Running times are those of one thread on
# one machine.
#
# **Papers.** Katharopoulos et al. 2020, *Transformers are RNNs*, eqs. 3-12 and 16-20 (https://arxiv.org/abs/2006.16236) ·
# Choromanski et al. 2021, *Rethinking Attention with Performers*, lemmas 1 and 2, section 2.4
# (https://arxiv.org/abs/2009.14794) · Rahimi and Recht 2007, *Random Features for Large-Scale Kernel Machines*.
#
# The site compares the numbers of these papers with ours ([docs/evidence.md](../docs/evidence.md)).
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | CS | Transformer Variants: cheaper attention | 1 The quadratic cost of attention | `course_lib.attention.LinearAttention` |
# | GA | Quadratic complexity of MSA: a general similarity | 2 Attention with a general similarity | `course_lib.attention.kernel_attention` |
# | GA | Linear transformers: a feature map | 3 Linear attention | `course_lib.primitives.elu_feature_map`, `course_lib.attention.linear_attention` |
# | GA | Linear transformers: random projections | 6 Random features for the exponential | `course_lib.primitives.favor_features`, `course_lib.attention.PerformerAttention` |


# %%
from course_tools.notebook.matrix_shapes import conforms

generator = torch.Generator().manual_seed(SEEDS[0])
X, W_K = (
    torch.randn(5, 32, generator=generator),
    torch.randn(32, 8, generator=generator),
)
q, k, v = (torch.randn(50, 64, generator=generator) for _ in range(3))
scaled = scaled_dot_product_attention(q, k, v).context
as_on_the_slide = attention.attend(q @ k.mT, v).context
by_size = [
    attention_costs.peak_mib(scaled_dot_product_attention, 2048, d) for d in (16, 64)
]

# %% tags=["nbval-check-output"]
claim("14.GA-X", values=[(X[0] @ W_K).shape, (X @ W_K).shape])
contexts = (X @ W_K, X @ W_K @ W_K.mT)
sums = [conforms(X, context, torch.add) for context in contexts]
claim("14.GA-d", sums=sums)
apart = ((as_on_the_slide - scaled).norm() / scaled.norm()).item()
claim("14.GA-root", apart=apart)
claim("14.GA-elu", least=(F.elu(q, alpha=2.0) + 1).min())
claim("14.GA-memory", ratio=by_size[1] / by_size[0])

# %% tags=["ledger"]
from course_tools.notebook import ledger

ledger()
