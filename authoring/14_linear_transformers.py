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
# Linear attention keeps a sum of fixed size instead of all keys and values, so that its cost grows with the length of a text
# and not with its square. This lecture shows what such a sum can remember.
#
# You will write linear attention in parallel, recurrent and causal form, measure what it recalls and which choice limits that,
# and let a language model write text from a state of fixed size.
#
# **Prerequisites:** lectures 01 (recurrence), 04 (self-attention) and 07 (language models, cache).
# **Time:** {minutes}; *In your own words* takes 20 more. {measured}
#
# ![](diagram:linear_recurrence)

# %%
import math

import torch
import torch.nn.functional as F
from einops import einsum
from jaxtyping import Float
from torch import Tensor, nn

from course_lib import attention, fast
from course_lib.attention import Attended, MultiHead, scaled_dot_product_attention
from course_lib.attention.linear import (
    KeyFeatures,
    QueryFeatures,
    divide,
    mask_features,
)
from course_lib.blocks import Sizes, encoder_stack, pre_norm
from course_lib.datasets import lookup
from course_lib.models import GPT, LinearTransformer
from course_lib.primitives import sinusoids, trigonometric_features
from course_lib.primitives.kernels import Projection, Vectors
from course_lib.shapes import Context, Mask, Values
from course_lib.training import batches, train
from course_tools.bank.language_models import encoded
from course_tools.lectures.lecture_14 import character_text, figures, random_features
from course_tools.notebook import attention_costs, check, claim, device, explore
from course_tools.notebook import layer_costs, ledger, predict, progress, recorded
from course_tools.notebook import show_study
from course_tools.notebook.attention_costs import StepBy, floats_in
from course_tools.notebook.fit import fit
from course_tools.notebook.seed_scores import show_seeds

# %% [markdown]
# ## 1 The cost of keeping everything
#
# A GPT that generates (lecture 07) keeps the keys and values of all tokens so far, its cache, and reads all of them for each new
# token. Linear attention keeps two sums, $S$ and $z$, whose size never changes. Think of two drawers (here for a head of size 4):
# the first gets a new folder for every token, the second has one sheet on which every token is added.

# %%
figures.show_drawers()

# %% [markdown] tags=["predict"]
# A GPT of four layers of width 256 writes with its cache. The linear maps of its layers take 3.1 million multiply-adds for each
# token, and its attention some for every token that was kept.
#
# **Predict a number** (within a factor of 1.5). By what factor does the work for a token grow from 64 to 4,096 earlier tokens?
#
# <details><summary>3.52</summary>
#
# Its scores take 256 multiply-adds for each layer and each token kept, and its contexts as many: 0.1 million at 64, 8.4 million
# at 4,096. With the maps that is 3.3 and 11.5 million. The next figure shows the time, for eight texts at once.</details>
# <details><summary>1</summary>
#
# No key and no value is computed again. But the new query meets every key and every value that was kept.</details>
# <details><summary>64</summary>
#
# Only attention grows. The linear maps, nearly all the work at 64 tokens, stay as they are.</details>

# %%
deep, lengths = Sizes(256, 4, 1024, 4), [64, 256, 1024, 4096]
torch.manual_seed(0)
gpt = GPT(50, 5_000, deep, fast.fused_causal_attention).to(device())
figures.show_generation_speed({"softmax, cache": fast.CachedGPT(gpt)}, lengths)

# %% [markdown]
# The time grows more than the work. A step also reads its numbers: the weights once for all eight texts, but a cache for each of
# them. Together these are 4.2 million at 64 tokens and 70 million at 4,096, 17 times as many.
#
# Reading the prompt takes $L^2$ weights of attention (lecture 04). These cost *work*, but no longer memory: FlashAttention (Dao et al.
# 2022), the fused kernel of that lecture, computes softmax attention tile by tile and never stores them.

# %% [markdown]
# ## 2 Move the brackets
#
# **By hand.** A query has the features $(1, 2)$. Three keys have the features $(1, 0)$, $(0, 1)$ and $(1, 1)$, and their values
# are 3, 5 and 2. If the similarity of query and key is the dot product of their features, the similarities are 1, 2 and 3, and
# the context is the weighted mean
#
# $$\frac{1 \cdot 3 + 2 \cdot 5 + 3 \cdot 2}{1 + 2 + 3} = \frac{19}{6}.$$
#
# Now sum over the keys first, before any query comes. Features times values give $S = 3\,(1, 0) + 5\,(0, 1) + 2\,(1, 1) = (5,
# 7)$, and the features alone give $z = (2, 2)$. The query reads $1 \cdot 5 + 2 \cdot 7 = 19$ from $S$ and $1 \cdot 2 + 2 \cdot
# 2 = 6$ from $z$: the same fraction. A thousand keys would make no more work for the next query, since $S$ and $z$ would still
# be two numbers each.
#
# The exponential of softmax attention, $\exp(q^\top k/\sqrt d)$, does not split into a factor for the query and one for the
# key, so it must be computed for every pair. A dot product of features, $\phi(q)^\top\phi(k)$, does:
#
# $$c_i^\top = \frac{\sum_j \phi(q_i)^\top\phi(k_j)\, v_j^\top}{\sum_j \phi(q_i)^\top\phi(k_j)}
# = \frac{\phi(q_i)^\top S}{\phi(q_i)^\top z} \qquad S = \sum_j \phi(k_j) v_j^\top \qquad z = \sum_j \phi(k_j)$$
#
# For all queries at once, this only moves the brackets: $(\phi(Q)\phi(K)^\top)V = \phi(Q)(\phi(K)^\top V)$.

# %%
figures.show_brackets()

# %% [markdown]
# The division gives a weighted mean if no similarity is negative; positive features see to that. Katharopoulos et al. (2020), whose
# paper named this lecture, take
#
# $$\phi(x) = \mathrm{elu}(x) + 1 = \begin{cases} x + 1 & x > 0\\ e^x & x \le 0 \end{cases} \qquad \text{entry by entry.}$$

# %% exercise="14.1" difficulty="●○○" minutes=5
from course_lib.primitives import elu_feature_map

# %% tags=["nbval-check-output"]
elu_feature_map = check("14.1", elu_feature_map)

# %% [markdown]
# Now the whole attention. Its inputs are features, from any feature map.
#
# | name | shape |
# | --- | --- |
# | `phi_q`, `phi_k` | (…, T_q, f), (…, T_k, f) |
# | `v` | (…, T_k, d_v) |
# | S, z | (…, f, d_v), (…, f): no axis for positions |
# | mask | (…, 1, T_k): the same for all queries, since they share the sums |
#
# Given: `mask_features(phi_k, mask)` sets the features of masked keys to 0. `divide(a, b)` returns 0 where b is 0, as where
# every key is masked. The check counts the multiply-adds: a right result by way of all weights fails.

# %% exercise="14.2" difficulty="●●○" minutes=10
from course_lib.attention import linear_attention

# %% tags=["nbval-check-output"]
linear_attention = check("14.2", linear_attention)

# %% [markdown]
# A text twice as long takes softmax attention four times the work, and your function twice. Their multiply-adds, in millions:

# %%
forms = {
    "softmax": scaled_dot_product_attention,
    "linear": attention.LinearAttention(elu_feature_map, linear_attention),
}
for name, form in forms.items():
    one_head = {L: layer_costs.one_head(L) for L in (256, 512, 1024, 2048)}
    work = {L: layer_costs.multiply_adds(form, *qkv) for L, qkv in one_head.items()}
    told = "  ".join(f"{L} tokens: {n / 1e6:.1f}" for L, n in work.items())
    print(f"{name:>8}  {told}")

# %% [markdown]
# ## 3 A memory of fixed size
#
# $S$ need not be computed at once. It can grow token by token:
#
# $$S_i = S_{i-1} + \phi(k_i) v_i^\top \qquad z_i = z_{i-1} + \phi(k_i)
# \qquad c_i^\top = \frac{\phi(q_i)^\top S_i}{\phi(q_i)^\top z_i}$$
#
# That is one step of a **recurrent network** (lecture 01). Its state is a matrix, and its recurrence is linear: it adds to the
# state and never transforms it. What can such a memory hold?
#
# **By hand.** Leave out $\phi$ and the division for a moment. The memory starts at $S = (0, 0)$.
#
# | step | key | value | S afterwards |
# | --- | --- | --- | --- |
# | write | $k_1 = (1, 0)$ | 3 | (3, 0) |
# | write | $k_2 = (0.6, 0.8)$ | 5 | (3, 0) + 5 · (0.6, 0.8) = **(6, 4)** |
# | read | $k_1 = (1, 0)$ | | **6 instead of 3** |
# | read | $k_2 = (0.6, 0.8)$ | | 3.6 + 3.2 = **6.8 instead of 5** |
#
# The second value has leaked into the first: the two keys have the dot product 0.6, and $0.6 \cdot 5 = 3$ is the error. With
# $k_2 = (0, 1)$ instead, $S = (3, 5)$ and both values are read exactly. In general, for keys of length 1, reading with $k_i$
# gives
#
# $$k_i^\top S = v_i^\top + \sum_{j \ne i} (k_j^\top k_i)\, v_j^\top .$$
#
# That one line is the **limit of recall**. The sum vanishes if the keys are orthogonal, and in $d$ dimensions at most $d$
# vectors are. With more keys something leaks, and all that training can do is to keep the leaks small.


# %%
def write(keys, values):
    """Add keys (T, d) with values (T,) to a memory that starts at 0."""
    S = torch.zeros(keys.shape[1])
    for k, v in zip(keys, values, strict=True):
        S = S + v * k
    return S


k_1, k_2, values = torch.tensor([1.0, 0.0]), torch.tensor([0.6, 0.8]), [3.0, 5.0]
S = write(torch.stack([k_1, k_2]), values)
print(f"S = {S.tolist()}   read with k_1: {k_1 @ S:.1f}   with k_2: {k_2 @ S:.1f}")

# %% [markdown] tags=["try-it"]
# **Try it.** Set `k_2` to (0, 1) in the cell above. Say what `S` and both readings will be before you run it.
#
# The same for vectors: sixteen random unit keys of size 8 are written, each with a value of its own, of which one entry is 1. The
# figure shows $S$, and below it what the first key reads; a clean memory would return a single 1, on the left (*error*: how far the
# reading is from that).

# %%
keys = F.normalize(
    torch.randn(16, 8, generator=torch.Generator().manual_seed(0)), dim=-1
)
figures.show_memory(keys, torch.eye(16), written=(1, 4, 16))

# %% [markdown]
# Now write one step, with $\phi$ and the division.
#
# | name | shape |
# | --- | --- |
# | `S`, `z`: input and output | (…, f, d_v), (…, f) |
# | `phi_q`, `phi_k`, `v` | (…, f), (…, f), (…, d_v): one position |
# | returned | context (…, d_v), S, z |
#
# Where $\phi(q)^\top z = 0$, as before the first visible key, the context is 0: use `divide`.

# %% exercise="14.4" difficulty="●●○" minutes=8
from course_lib.attention import linear_attention_step

# %% tags=["nbval-check-output"]
linear_attention_step = check("14.4", linear_attention_step)

# %% [markdown]
# ## 4 All positions at once
#
# To train a language model step by step would be slow. Every position $i$ needs its own sums over $j \le i$; these are **prefix
# sums**, and one call of `cumsum` computes them all.
#
# | name | shape |
# | --- | --- |
# | `phi_q`, `phi_k` | (…, T, f): as many queries as keys |
# | all $S_i$; all $z_i$ | (…, T, f, d_v); (…, T, f) |
# | context | (…, T, d_v); 0 where no key so far is visible |

# %% exercise="14.3" difficulty="●●○" minutes=12
from course_lib.attention import causal_linear_attention

# %% tags=["nbval-check-output"]
causal_linear_attention = check("14.3", causal_linear_attention)

# %% [markdown]
# **Bug hunt.** The version below runs, and its shapes are right. Find out what it does wrong before you run the check.

# %% exercise="14.3" bug="normalises_over_all_positions"
from course_tools.bank.lecture_14.causal_linear_attention import (
    normalises_over_all_positions as suspect,
)

# %% [markdown] tags=["predict"]
# **What is wrong with it, and which information leaks?**
#
# <details><summary>A. Causality: the normaliser sums over all positions, so each context depends on later keys.</summary>
#
# Yes. Numerator and normaliser are both sums, and both must stop at $i$. Here information about later keys leaks through the
# denominator, which scales each context.</details>
# <details><summary>B. The mask: the features of masked keys are not set to 0.</summary>
#
# They are, in the first line.</details>
# <details><summary>C. The batch: the sums mix different sequences.</summary>
#
# The axes are counted from the end, so no sum runs over the batch axis.</details>

# %% tags=["nbval-check-output"]
suspect = check("14.3", suspect)

# %% [markdown]
# Both forms compute the same function: the parallel one trains, the recurrent one generates.

# %%
phi_q, phi_k = (elu_feature_map(torch.randn(50, 8)) for _ in range(2))
v, S, z, steps = torch.randn(50, 16), torch.zeros(8, 16), torch.zeros(8), []
for position in zip(phi_q, phi_k, v, strict=True):
    context, S, z = linear_attention_step(S, z, *position)
    steps.append(context)
torch.testing.assert_close(torch.stack(steps), causal_linear_attention(phi_q, phi_k, v))

# %% [markdown]
# Storing all $S_i$ takes $L \cdot f \cdot d_v$ numbers. In practice the text is therefore cut into **chunks** of $C$ tokens: inside
# a chunk the triangle of weights is written out, and one $S$ and one $z$ hold all that came before.

# %%
figures.show_chunks()


def chunked(phi_q, phi_k, v, C):
    """Causal linear attention (…, T, d_v), C tokens at a time."""
    S, z = phi_k.new_zeros(*phi_k.shape[:-2], phi_k.shape[-1], v.shape[-1]), 0
    contexts = []
    for Q, K, V in zip(*(x.split(C, dim=-2) for x in (phi_q, phi_k, v)), strict=True):
        weights, z_here = (Q @ K.mT).tril(), z + K.cumsum(-2)
        total = (Q * z_here).sum(-1, keepdim=True)
        contexts.append((weights @ V + Q @ S) / total)  # this chunk, and all before it
        S, z = S + K.mT @ V, z_here[..., -1:, :]
    return torch.cat(contexts, dim=-2)


for C in (1, 7, 50):
    torch.testing.assert_close(chunked(phi_q, phi_k, v, C), torch.stack(steps))

# %% [markdown] tags=["predict"]
# One dial: $C = 1$ is the recurrence, and $C = L$ the whole triangle of weights. So **causal attention without the softmax is a
# recurrent network**. Large models are trained with chunks of 64 tokens or so.
#
# **Predict a number** (within a factor of 1.1). Let $f = d_v = d = 64$. With $C = 1$, a text of $L$ tokens takes about $2 L d^2$
# multiply-adds. How many times as many does it take with $C = 64$? Count the products in `chunked`; a triangle costs as much as
# its square.
#
# <details><summary>2</summary>
#
# To write $S$ and to read it takes $2 L d^2$, the weights and their product with $V$ take $2 L C d$: as much again, in a 64th of
# the steps. With $C = L = 4{,}096$ it is 65 times as many.</details>
# <details><summary>1</summary>
#
# The function is the same. But inside a chunk each token also has a weight for every token before it.</details>
# <details><summary>64</summary>
#
# A step has 64 tokens, and there are 64 times fewer steps.</details>

# %% [markdown]
# ## 5 What does the memory recall?
#
# The task of lecture 04: sixteen pairs of key and value, then four queries, each with one of the keys; the answer is its value,
# one of eight. Softmax attention keeps all pairs and can select one. Linear attention has added all pairs up in $S$, and must
# get one of them back. The head has only 8 dimensions, and 32 different keys occur: the limit of section 3 must show.
#
# **Read the model.** A pair is the sum of two embeddings. One layer of attention reads from the pairs, and a linear map turns
# its context into logits.


# %%
def with_features(phi, divides=True):
    """A mechanism with a feature map; divided by φ(q)ᵀz, or by the size of φ(q)."""

    def mechanism(q, k, v, mask=None):
        if divides:
            return Attended(linear_attention(phi(q), phi(k), v, mask), None)
        phi_q, phi_k = phi(q), mask_features(phi(k), mask)
        return Attended(phi_q @ (phi_k.mT @ v) / phi_q.shape[-1], None)

    return mechanism


class AssociativeRecall(nn.Module):
    """One layer of attention that looks up the value of a key among pairs."""

    def __init__(self, mechanism, n_keys=32, n_values=8, d_model=64, d_head=8):
        super().__init__()
        self.key, self.value = (
            nn.Embedding(n_keys, d_model),
            nn.Embedding(n_values, d_model),
        )
        for table in (self.key, self.value):
            nn.init.normal_(table.weight, std=d_model**-0.5)
        self.attention = MultiHead(d_model, 1, mechanism, d_k=d_head, d_v=8)
        self.read_out = nn.Linear(d_model, n_values)

    def forward(self, queries, keys, values):  # (B, T_q), (B, T_k), (B, T_k)
        pairs = self.key(keys) + self.value(values)  # (B, T_k, d_model)
        context = self.attention(self.key(queries), pairs, pairs).context
        return self.read_out(context)  # (B, T_q, n_values)


# %% [markdown]
# Training: Adam at 0.02 with warm-up and linear decay, 600 updates of 64 sequences. The accuracy is measured on 500 new
# sequences.

# %%
data = lookup(4_000, 10, 500, T_q=4, T_k=16, n_keys=32, n_values=8, seed=0)
learn, new = (
    [x.to(device()) for x in (part.queries, part.keys, part.values, part.targets)]
    for part in (data.train, data.test)
)


def recall_loss(model, batch):
    *given, targets = batch
    return F.cross_entropy(model(*given).flatten(0, 1), targets.flatten())


def recall(name, mechanism, seed=0, updates=600, d_head=8):
    """Train a model; return it, and its accuracy on new sequences."""
    torch.manual_seed(seed)
    model = AssociativeRecall(mechanism, d_head=d_head).to(device())
    stream = batches(*learn, batch_size=64, seed=seed)
    run = train(
        model, stream, recall_loss, steps=updates, lr=0.02, warmup=updates // 10
    )
    for _step in progress(run, f"{name}, seed {seed}", total=updates):
        pass
    with torch.no_grad():
        right = (model(*new[:3]).argmax(-1) == new[3]).float().mean().item()
    return model, right


# %% [markdown] tags=["predict"]
# **Predict.** Two feature maps for a head of size 8, neither divided by $\phi(q)^\top z$: elu + 1, whose 8 features are positive,
# and elu itself, whose 8 features have either sign. Which recalls more of the 16 pairs?
#
# <details><summary>A. elu + 1: its weights are positive, like those of the softmax.</summary>
#
# But vectors with positive entries are orthogonal only where no entry is large in both: 8 features have room for 8 such keys, and
# 32 occur.</details>
# <details><summary>B. elu: its keys can keep apart in all directions, and its leaks can cancel.</summary>
#
# Yes. Vectors of either sign can all keep some distance, and leaks of either sign partly cancel each other in the
# sum.</details>
# <details><summary>C. They are equal: both have 8 features, so both hold 8 pairs.</summary>
#
# 8 is the limit for exact recall. How far a memory with more keys stays usable depends on the leaks.</details>


# %%
def identity(x):
    return x


def squares(x):
    """All products of two entries, 36 of a vector of size 8: φ(q)ᵀφ(k) = (qᵀk)²."""
    i, j = torch.triu_indices(x.shape[-1], x.shape[-1], device=x.device)
    return x[..., i] * x[..., j] * (1 + (i < j)) ** 0.5  # i < j stands for two terms


trainings = {  # name: (φ, whether divided by φ(q)ᵀz, size of the head)
    "elu + 1": (elu_feature_map, False, 8),
    "elu + 1, divided": (elu_feature_map, True, 8),
    "elu": (F.elu, False, 8),
    "identity": (identity, False, 8),
    "identity, divided": (identity, True, 8),
    "squares": (squares, False, 8),
    "squares, divided": (squares, True, 8),
    "elu + 1, head of 36": (elu_feature_map, False, 36),
}
runs = {
    name: [
        recall(name, with_features(phi, divides), seed, d_head=d_head)
        for seed in (0, 1, 2)
    ]
    for name, (phi, divides, d_head) in trainings.items()
}
softmax = recall("softmax", scaled_dot_product_attention)[1]
recalled = {name: [right for _, right in each] for name, each in runs.items()}
lines = {"softmax": softmax, "chance": 1 / 8}
show_seeds(recalled, "accuracy, 16 pairs", across=lines)

# %% tags=["nbval-check-output"]
two = {"plus_1": recalled["elu + 1"], "identity": recalled["identity"]}
claim(
    "14.recall",
    **two,
    elu=recalled["elu"],
    squares=recalled["squares"],
    wide=recalled["elu + 1, head of 36"],
    softmax=softmax,
)
claim(
    "14.division",
    **two,
    plus_1_z=recalled["elu + 1, divided"],
    identity_z=recalled["identity, divided"],
    squares_z=recalled["squares, divided"],
)

# %% tags=["guard", "nbval-check-output"]
plain = {"plus_1": elu_feature_map, "identity": identity}
longer = {
    name: recall(name, with_features(phi, divides=False), updates=1_800)[1]
    for name, phi in plain.items()
}
claim("14.longer", **longer)

# %% [markdown]
# How do they differ? The next figure shows for all 32 keys how much a key (row) reads of each other key's value (column), if it
# reads 1 of its own. Keys with the same largest feature stand together.


# %% tags=["cover"]
@torch.no_grad()
def leaks(model, phi):
    """What each key (row) reads of each value (column), and its largest feature."""
    layer, pairs = model.attention, model.key.weight[:, None] + model.value.weight
    phi_k = phi(layer.W_k(pairs)).mean(1)
    read, largest = phi(layer.W_q(model.key.weight)) @ phi_k.mT, phi_k.argmax(-1)
    order = largest.argsort()
    return (read / read.diagonal()[:, None])[order][:, order], largest[order]


features = {"elu + 1, divided": elu_feature_map, "identity": identity}
tables = {name: leaks(runs[name][0][0], phi) for name, phi in features.items()}
figures.show_leaks({name: table for name, (table, _) in tables.items()})

# %% tags=["guard", "nbval-check-output"]
(sorted_in, group), (spread, _) = tables["elu + 1, divided"], tables["identity"]
other = ~torch.eye(32, dtype=torch.bool, device=device())
same = (group[:, None] == group) & other
claim(
    "14.leaks",
    within=sorted_in[same].mean(),
    between=sorted_in[~same & other].mean(),
    elu=sorted_in[other].square().mean().sqrt(),
    identity=spread[other].square().mean().sqrt(),
    negative=(spread[other] < 0).float().mean(),
)

# %% [markdown]
# Three choices decide.
#
# - **The number of features.** Such a table is a product through 8 features, so its rank is 8. At rank 8, the squares of its
#   entries add up to at least 1/8 of the square of its trace (Cauchy and Schwarz, for its 8 singular values), here $32^2/8 = 128$. The
#   ones on its diagonal are 32 of that, so 96 are left for the 32 · 31 leaks: their root mean square is at least
#   $\sqrt{96/(32 \cdot 31)} = 0.31$. Both tables are at this limit. It is 0 from 32 features on, one
#   for each key that can occur: then squares (36 products) and a wider elu + 1 recall almost everything. Softmax is the far end of
#   this road: $e^s = 1 + s + s^2/2 + …$ with $s = q^\top k$. The term $s$ needs the $d$ features of the identity, $s^2$ the $d(d + 1)/2$
#   squares, and all terms together infinitely many.
# - **The sign of the features.** Without its 1, elu recalls as much as the identity; three times as many updates leave elu + 1
#   far behind. It sorts the keys into groups of about four, and a key reads the values of its group almost whole. Of the other three, 1.5
#   are among the pairs on average: a guess among those present is right in 54 %. The identity spreads as much leakage thinly over all keys, half of it negative.
# - **The division.** It ruins the identity: $\phi(q)^\top z$ can be near 0, and then the quotient is huge. Where no similarity is
#   negative, as with elu + 1 and squares, a constant in its place does nearly as well. Newer models drop $z$ and normalise the
#   context of each head afterwards, as a layer norm does.

# %% [markdown] tags=["try-it"]
# **Try it.** What is the limit of the leaks for a head of 16, and of 32? Then train the identity with each:
# `recall("identity", with_features(identity, divides=False), d_head=16)[1]`. (0.18 and 0.)

# %% [markdown]
# ## 6 A language model that writes
#
# The text is Python's language reference, cut into pieces of 128 characters. `Writer` is the whole model: one block of width 64 with
# four heads around your feature map. Training takes all positions at once, by `chunked`; in writing, each character is one step of the
# recurrence, by your `linear_attention_step`. (Your `causal_linear_attention` would train the same model, more slowly.)


# %%
class Writer(nn.Module):
    """A language model of one block; its mechanism decides what is kept of the text."""

    def __init__(self, n_letters, mechanism, d=64):
        super().__init__()
        self.letters = nn.Embedding(n_letters, d)
        nn.init.normal_(self.letters.weight, std=d**-0.5)
        self.stack = encoder_stack(Sizes(d, 4, 4 * d, 1), mechanism, F.gelu, pre_norm)

    def embed(self, letters, t=0):
        """Letters (B, T) and their positions, from t on: (B, T, d)."""
        x = self.letters(letters)
        return x + sinusoids(t, *x.shape[1:], x.device)

    def forward(self, letters):
        return self.stack(self.embed(letters)) @ self.letters.weight.mT

    def start(self, letters):
        """Read a prompt: S and z of each head, and how many letters were read."""
        return self.stack.read(self.embed(letters))[1], letters.shape[1]

    def step(self, letter, state):
        """Read one more letter (B,); logits of the next, and the new S and z."""
        sums, t = state
        x = self.embed(letter[:, None], t)
        x, sums = self.stack.step(x, sums, linear_attention_step)
        return (x @ self.letters.weight.mT)[:, 0], (sums, t + 1)


def by_chunks(phi_q, phi_k, v, mask=None):
    return chunked(phi_q, mask_features(phi_k, mask), v, C=32)


text = character_text.character_text(128)
torch.manual_seed(0)
linear = attention.LinearAttention(elu_feature_map, by_chunks)
writer = Writer(len(text.letters), linear).to(device())
stream = batches(text.learn, batch_size=16, seed=0)
loss = character_text.next_character_loss
_ = fit(writer, loss, stream, steps=2_500, lr=5e-3, warmup=50, y="bits per character")

# %% [markdown] tags=["try-it"]
# **Try it.** Write a prompt of your own.

# %% tags=["try-it"]
prompt = text.encode("The value of the ")
print(text.decode(character_text.sampled(writer, prompt, 110, temperature=0.6)))

# %% [markdown] tags=["try-it"]
# **Try it.** Change the temperature 0.6; what does the text look like at 0.2? Then write 300 characters. The recurrence goes on for ever,
# but later positions, and a memory of more writes, did not occur in training: a model does well what it has practised.

# %% [markdown]
# How good is it? Its rivals, each network in a recorded study with three seeds:
#
# - **softmax**: `Writer` with softmax attention instead, and everything else equal;
# - **the last 8**: the same, but each character attends to the last eight only;
# - **convolution**: both, with a **short convolution** before the block, which mixes each character with the three before it, as in
#   Mamba;
# - **counts**, without a network: tables (lecture 07) of three characters, of four, and of six, the best length.
#
# (Lecture 01 measured in nats: 1 bit is 0.69 nats.)

# %%
twins = show_study("14_text")

# %% tags=["nbval-check-output"]
with torch.no_grad():
    print(f"the model that you read: {loss(writer, (text.held_out,)).item():.2f} bits")
bits = {name: twins.scores(name, "bits") for name in twins.names}
counts = {n: character_text.counts(text, n) for n in (3, 4, 6)}
of = {n: character_text.bits_of(table, text) for n, table in counts.items()}
counted = {"three": of[3], "four": of[4], "six": of[6], "n_four": len(counts[4])}
claim("14.text", linear=bits["linear"], softmax=bits["softmax"], **counted)
mixed = {name: bits[f"{name}, convolution"] for name in ("linear", "softmax")}
claim("14.near", last_8=bits["softmax, the last 8"], full=bits["softmax"], **mixed)

# %% [markdown]
# Both models have 57,000 weights, so the table of four characters is the fair rival: with no more entries it beats the linear model, and
# is level with softmax.
#
# Here linear attention costs a fifth of a bit for each character. It does not lack the *distant* characters: softmax attention is as
# good if it sees only the last eight. It lacks the *nearest*: with the short convolution, it needs fewer bits than softmax attention
# without one, and hardly more than with one.

# %% [markdown] tags=["try-it"]
# **Try it.** Count five characters: `table = character_text.counts(text, 5)`. What do `len(table)` and
# `character_text.bits_of(table, text)` say?

# %% [markdown] tags=["predict"]
# What does a model keep, and how fast does it write? Back to the GPT of section 1, of four layers of width 256 with four heads each,
# and a linear transformer of its size with your step.
#
# **Predict a number** (within a factor of 1.1). How many numbers, the $S$ and $z$ of all heads, does the linear transformer keep
# after 4,096 tokens?
#
# <details><summary>66,560</summary>
#
# A head has 64 features: its $S$ holds 64 · 64 numbers, its $z$ 64. There are sixteen heads, and the length of the text plays no
# part.</details>
# <details><summary>4,160</summary>
#
# That is one head. There are four in each of four layers.</details>
# <details><summary>16,640</summary>
#
# That is one layer of four.</details>
# <details><summary>8,388,608</summary>
#
# That is the cache of the GPT: a key and a value of 256 numbers for each token, in each layer.</details>

# %%
linear_transformer = LinearTransformer(50, deep).to(device())
writing = {
    "softmax, cache": fast.CachedGPT(gpt),
    "linear, state": StepBy(linear_transformer, linear_attention_step),
}
figures.show_generation_speed(writing, lengths)

# %% tags=["guard", "nbval-check-output"]
with torch.no_grad():
    _, keys_and_values = gpt.stack.read(torch.zeros(1, 4096, 256, device=device()))
    state = linear_transformer.start(
        torch.zeros(1, 4096, dtype=torch.long, device=device())
    )
cache, kept = floats_in(keys_and_values), floats_in(state)
claim("14.kept", cache=cache, state=kept, ratio=cache / kept)

# %% [markdown]
# After 4,096 tokens the cache of the GPT holds 8,388,608 numbers, 126 times as many as the state.
#
# A window of the last eight has one size, too, and on this text it needs fewer bits. So let the answer lie further back: in a
# recorded study, a model reads sixteen pairs and is asked for their values a thousand positions later (*Longer sequences*). With linear
# attention its head keeps 4,160 numbers, $S$ and $z$. A window of the last 32 positions keeps as many, 4,096 of keys and values, but
# never the pairs: its one layer can only guess.

# %% tags=["nbval-check-output"]
far, longer = recorded("14_long_sequences"), "2,048 positions, 2.4 times as long"
claim(
    "14.far",
    linear=far.scores(f"linear, elu + 1, {longer}", "accuracy"),
    window=far.scores(f"window of 32, {longer}", "accuracy"),
)

# %% [markdown]
# That took linear attention 960 updates, as long as 400 with softmax attention. After 400 it recalled 18 to 26 %, softmax 74 to
# 100 %: to read and write such a state is harder to learn.
#
# **Linear attention is the right tool where a text is long, and what matters in it may be far back but is little enough for its
# state.** The state has one size, and so has the work for the next character. What lies before the window is lost to a layer;
# softmax attention to everything loses nothing, and keeps everything.

# %% [markdown] tags=["quiz"]
# ## 7 Exit quiz
#
# **Question 1.** A batch of documents, each of 500 tokens, $d = 1{,}000$ and one head. Would you use linear attention to save
# multiply-adds?
#
# <details><summary>A. No: the matrix of weights is smaller than S.</summary>
#
# Right: 500 × 500 against 1,000 × 1,000. With ten heads of size 100, the answer is reversed.</details>
# <details><summary>B. Yes: linear beats quadratic.</summary>
#
# Softmax attention takes $2L^2d$ multiply-adds, linear attention $2Ld^2$. Here the first is *half* of the second.</details>
# <details><summary>C. It makes no difference: only the exponents matter.</summary>
#
# The exponents decide for long texts. What counts as long depends on the constants.</details>
#
# **Question 2.** $S = (3, 5)$ holds $k_1 = (1, 0)$ with 3 and $k_2 = (0, 1)$ with 5. You write $k_1$ again, with the new value
# 7. What do you read with $k_1$?
#
# <details><summary>A. 7: the new value replaces the old one.</summary>
#
# Nothing is ever replaced: a write only adds.</details>
# <details><summary>B. 5: the mean of both values.</summary>
#
# With the division by $\phi(q)^\top z$ it would be the mean. Neither is the newest value.</details>
# <details><summary>C. 10: the sum of both values.</summary>
#
# Right. The memory cannot correct itself. To replace a value, first subtract what it reads with that key now.</details>
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
# | 1 | says what is the same (a sum of values, weighted by similarity) and what differs (the similarity) |
# | 1 | quantifies what is lost: recall against the feature map, the division or the number of features |
# | 1 | says when it is cheaper and when it is not: the multiply-adds, or the numbers kept |
# | 1 | chooses an application that follows from this: long texts, or generation in constant memory |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 8 What came of it
#
# Without $z$ and with $\phi(x) = x$, this memory is that of Schmidhuber's fast weights of 1992. It has two faults, and its successors
# mend one each; in lecture 18 you write and train both.
#
# - **It never forgets.** A **decay gate**, which the token decides, multiplies the state before each write, $S_i = \alpha_i S_{i-1} +
#   k_i v_i^\top$, as in Mamba-2: like the forget gate of an LSTM.
# - **It never corrects.** The **delta rule** reads what the key returns now and writes only the error, $S_i = S_{i-1} + \beta_i k_i
#   (v_i - S_{i-1}^\top k_i)^\top$. In the example by hand, the error is $5 - 1.8 = 3.2$, so for $\beta = 1$ we get $S = (3, 0) +
#   3.2\,(0.6, 0.8) = (4.92, 2.56)$: $k_2$ now reads exactly 5, and $k_1$ 4.92.
#
# Gated DeltaNet combines both. In Qwen3-Next and Kimi Linear (2025), every fourth layer has softmax attention: recall that needs every
# token is left to the layers that keep every token. Is a state of fixed size enough? MiniMax-M1 had linear attention in most of its
# layers; for M2 (2025) its makers went back to softmax in all of them, since reasoning in several steps had suffered. The state itself
# still shrinks: Mamba-3 (2026) has half that of Mamba-2, with a comparable perplexity.
#
# **Further reading.** Katharopoulos et al. 2020, *Transformers are RNNs*, eqs. 3-12 and 16-20
# (https://arxiv.org/abs/2006.16236) · Schlag et al. 2021, *Linear Transformers Are Secretly Fast Weight Programmers*, with the
# limit of recall and the delta rule (https://arxiv.org/abs/2102.11174) · Dao and Gu 2024, *Transformers are SSMs*, on Mamba-2
# (https://arxiv.org/abs/2405.21060) · Yang et al. 2024, *Gated Delta Networks* (https://arxiv.org/abs/2412.06464) · Kimi Team 2025,
# *Kimi Linear* (https://arxiv.org/abs/2510.26692) · Lahoti et al. 2026, *Mamba-3* (https://arxiv.org/abs/2603.15569).

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections, and none needs another of them; their exercises are extra points. After a restart, run
# the imports and exercises 14.1 to 14.4; *FlashAttention* also needs the first cell of section 5.

# %% [markdown]
# ## FlashAttention: less memory, the same work
#
# The fused kernel of lecture 04 is FlashAttention (Dao et al. 2022, https://arxiv.org/abs/2205.14135), or a CPU form of it. It
# computes softmax attention in tiles of queries and keys and keeps only a running maximum and a running sum for each query, so the
# weights are never stored.

# %%
linear = with_features(elu_feature_map)
memory, times = attention_costs.show_costs(
    {
        "softmax, weights stored": (scaled_dot_product_attention, 4096),
        "linear attention": (linear, 16384),
        "softmax, fused": (fast.fused_scaled_dot_product_attention, 8192),
    }
)

# %% tags=["nbval-check-output"]
slopes = {
    name: layer_costs.exponent(sizes[-3:], mib[-3:])
    for name, (sizes, mib) in memory.items()
}
claim(
    "14.fused",
    stored=slopes["softmax, weights stored"],
    fused=slopes["softmax, fused"],
    linear=slopes["linear attention"],
)

# %% [markdown]
# The *memory* of softmax attention grows quadratically only if the weights are stored. Its number of *operations* always does,
# and the second figure shows that in the running times.
#
# ## Random features for the exponential
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

# %% exercise="14.5" difficulty="●●○" minutes=10
from course_lib.primitives import favor_features

# %% tags=["nbval-check-output"]
favor_features = check("14.5", favor_features)

# %% [markdown] tags=["predict"]
# **Predict.** The error of a mean of $m$ independent terms falls like $1/\sqrt m$. We estimate the attention weights of 64
# tokens with $m$ random directions, 16 to 4,096, once for logits with a standard deviation ("spread") of 0.25 and once for a
# spread of 4. What happens to the error? (The weights are ratios, and the directions are made orthogonal in blocks, so that none is
# redundant: $1/\sqrt m$ is only a guide.)
#
# <details><summary>A. For small logits it falls; for large ones it hardly falls and stays near 1.</summary>
#
# Yes. Relative to the square of its mean, a single term has the variance $e^{\|q+k\|^2} - 1$: the mean is dominated by rare,
# very large terms, which even thousands of samples can miss. An estimate that is 0 everywhere has a relative error of
# 1.</details>
# <details><summary>B. It falls like 1/√m in both cases; for large logits it is a little higher.</summary>
#
# The rate holds once $m$ is large enough. For large logits, that is more features than anyone could afford.</details>
# <details><summary>C. For large logits it grows with m.</summary>
#
# For positive features it does not: more samples improve both numerator and denominator, though far too slowly. For
# trigonometric features it may, as the figure shows: their products can be negative, and the denominator can come near
# 0.</details>


# %%
numbers = [16, 64, 256, 1024, 4096]
maps = {"positive": favor_features, "trigonometric": trigonometric_features}
errors = random_features.show_errors(maps, (0.25, 4.0), numbers)

# %% tags=["nbval-check-output"]
small, large = (errors["positive", spread][-1] for spread in (0.25, 4.0))
claim("14.logits", small=small, large=large)

# %% [markdown]
# For *small* logits, the **trigonometric** features, $e^{\|x\|^2/2}[\cos \Omega x; \sin \Omega x]/\sqrt m$, two for each
# direction, give the better estimate. Their disadvantage is that their products can be negative: for large logits some weights
# become negative, and the denominator, a sum of such terms, can come near 0. It is the division again.

# %% [markdown] tags=["interactive"]
# **Explore.** The figure shows the exact and the estimated weights of one query over 16 keys. Begin with small logits and find
# an $m$ for which you consider the estimate good. Keep that $m$ and increase the spread: from which spread on is the estimate
# no longer close to the exact weights?


# %% tags=["interactive"]
def draw_weights(spread=0.5, log_m=6, trial=0):
    """Compare the weights of one query with their estimate from 2^log_m positive
    features."""
    random_features.show_estimate(favor_features, spread, 2**log_m, trial)


explore(draw_weights, spread=(0.25, 4.0, 0.25), log_m=(4, 12), trial=(0, 9))

# %% [markdown]
# ## Longer sequences
#
# In section 5 the queries follow the pairs directly. The study `14_long_sequences` separates them: 16 pairs, other keys without
# values up to the middle of 128, 512 or 2,048 positions, then queries only. It trains one block with softmax attention in its
# fused form and one with linear attention and elu + 1, for 400 updates each, with three seeds; and at 2,048 positions linear
# attention once more, and a window of 32 positions, for 960 updates: these take linear attention about as long as 400 take softmax.

# %%
long = show_study("14_long_sequences")

# %% tags=["nbval-check-output"]
claim(
    "14.long",
    softmax=long.scores("softmax, 2,048 positions", "accuracy"),
    linear=long.scores("linear, elu + 1, 2,048 positions", "accuracy"),
)

# %% [markdown]
# After 400 updates at 2,048 positions linear attention has hardly begun to learn, and one of the three softmax models has not
# finished. With 960, in about the time of 400 with softmax, linear attention has: halfway, it already recalled 94 % or more. It saves no
# memory in training: for the backward pass this form keeps queries, keys, features and values of all positions, 43 MiB, while the
# fused softmax computes its weights again, and keeps 29. `fast.lean_linear_attention` keeps only its inputs, like the fused softmax.
#
# ## Build it
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
# | 1 | the state is a sum over the tokens read, no list of them and no gated state; a query made of the next token chooses what is read from it; its size does not depend on their number: at most 10,000 numbers for each sequence |
# | 1 | a step does not modify the state that it is given |
# | 1 | loss on held-out text: below that of a bigram table of the characters (about 2.3 nats) |

# %% exercise="14.6" difficulty="●●●" minutes=35
from course_tools.bank.lecture_14.train_linear_transformer import (
    train_linear_transformer,
)

# %% tags=["nbval-check-output"]
train_linear_transformer = check("14.6", train_linear_transformer)

# %% [markdown]
# The model has the same `start` and `step` as all models of the course. The next cell trains it once more and lets it write,
# character by character. Beyond 32 tokens, the length of your training windows, the text may get worse; the memory stays the
# same.

# %%
torch.manual_seed(0)
small = encoded(character_text.character_text(32).text)[:100_000]
built = train_linear_transformer(small, 27, 400)
codes = character_text.sampled(built, small[None, :16], 150)
print("".join(" abcdefghijklmnopqrstuvwxyz"[code] for code in codes))

# %% [markdown] tags=["companion"]
# ## Papers and decks
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | CS | Transformer Variants: cheaper attention | 1 The cost of keeping everything | `course_lib.attention.LinearAttention` |
# | GA | Quadratic complexity of MSA: a general similarity | 2 Move the brackets | `course_lib.attention.kernel_attention` |
# | GA | Linear transformers: a feature map | 2 Move the brackets | `course_lib.primitives.elu_feature_map`, `course_lib.attention.linear_attention` |
# | GA | Linear transformers: random projections | Random features for the exponential | `course_lib.primitives.favor_features`, `course_lib.attention.PerformerAttention` |

# %% tags=["guard", "nbval-check-output"]
by_size = [
    attention_costs.peak_mib(scaled_dot_product_attention, 2048, d) for d in (16, 64)
]
claim("14.GA-memory", ratio=by_size[1] / by_size[0])

# %% tags=["ledger"]
ledger()
