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
# **The claim.** One layer in which every token may look at every other answers questions by content, and by position, that
# a recurrent reader of equal training cannot: its weights find the pattern that is known to be right, on every seed;
# without its scale, without its mask and with a single head, the same layer fails in three different and measurable ways.
#
# **You need** lectures 01 (recurrence) and 02 (alignment); tensors, softmax, gradients. **Time:** about 90 minutes.
# {measured}
#
# **Papers.** Vaswani et al. 2017, *Attention Is All You Need*, eq. 1 and sections 3.2.1 to 3.2.3, table 1
# (https://arxiv.org/abs/1706.03762) · Graves, Wayne, Danihelka 2014, *Neural Turing Machines*, eqs. 2 and 5
# (https://arxiv.org/abs/1410.5401).
#
# **Decks.** EE-559 13.2 · RKMVERI · CSE 891 · ITMO lecture 7 · Gaïffas lecture 8: the table below leads from their sections
# to ours.

# %% [markdown] tags=["companion"]
# <details><summary>Which sections of the decks this follows, and where the library holds them</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | IT | Problems with RNNs - still remains... | 1 A reader with one pocket | `course_lib.primitives.GRU` |
# | EE | Values, keys and a query | 2 A question, many keys | `course_lib.attention.attend` |
# | EE | Scaled Dot-Product Attention | 2 A question, many keys | `course_lib.attention.scaled_dot_product_attention` |
# | RK | Self-attention | 2 A question, many keys | `course_lib.attention.scaled_dot_product_attention` |
# | CS | Recap: Self-Attention Layer | 2 A question, many keys | `course_lib.attention.scaled_dot_product_attention` |
# | IT | Self-attention | 2 A question, many keys | `course_lib.attention.scaled_dot_product_attention` |
# | GA | Self-attention layer | 2 A question, many keys | `course_lib.attention.scaled_dot_product_attention` |
# | EE | Implementation example: batched matrix products | 2 A question, many keys | `course_lib.attention.scaled_dot_product_attention` |
# | RK | Encoder self-attention, decoder self-attention (masked) | 4 Who may look where | `course_lib.primitives.causal_mask`, `course_lib.primitives.padding_mask` |
# | EE | Multi-Head Attention | 5 Many heads | `course_lib.attention.multi_head_attention`, `course_lib.attention.MultiHead` |
# | RK | Multi-head attention | 5 Many heads | `course_lib.attention.MultiHead` |
# | CS | Multihead Self-Attention Layer | 5 Many heads | `course_lib.attention.split_heads` |
# | IT | Multi-head Attention | 5 Many heads | `course_lib.attention.multi_head_attention` |
# | GA | Multi-head self-attention layer | 5 Many heads | `course_lib.attention.multi_head_attention` |
# | CS | Visualizing Multi-Head Attention | 7 See it | `course_lib.analysis.record` |
# | EE | Implementation example: AttentionLayer2d | 8 Pixels are tokens too | `course_lib.attention.AttentionLayer2d` |
# | IT | Convolution? | 9 What it costs | `course_lib.attention.scaled_dot_product_attention` |
# | CS | Computational Cost and Parallelism | 9 What it costs | `course_lib.attention.MultiHead` |
# | CS | Computational Efficiency | 9 What it costs | `course_lib.attention.MultiHead` |
# | IT | Attention is cheap | 9 What it costs | `course_lib.primitives.LSTM` |
# | GA | Quadratic complexity of MSA | 9 What it costs | `course_lib.attention.scaled_dot_product_attention` |
#
# </details>

# %%
import math
import time
from functools import partial
from statistics import mean, median

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from course_lib import attention
from course_lib.attention import Attended, attend, merge_heads
from course_lib.attention.multihead import mask_per_head
from course_lib.datasets import lookup, photographs, reversal
from course_tools.notebook import check, predict
from course_lib.primitives import GRU, LSTM, RNN, fused_gru
from course_lib.shapes import Image, Keys, Lengths, Mask, Queries, Values
from course_tools.notebook import at_scale, claim, device, explore, ledger, plots, progress, show
from course_lib.analysis import record
from course_lib.training import batches, train

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 A reader with one pocket
#
# Lecture 02 let a *decoder* look back at all states of an encoder. The encoder itself still read as in lecture 01: one token
# after the other, everything it knows in one vector of fixed size, like a traveller with a single pocket.
#
# Here is a task that fills the pocket. A text lists pairs of a key and a value, in any order; behind them stand questions,
# each with one of the keys, and the answer is the value that stood beside it. Every text has other pairs, so there is
# nothing to learn by heart. A token is the sum of two vectors, one for its key and one for its value; a question's value is
# a blank.

# %% [markdown] tags=["predict"]
# **Predict.** A GRU reads these texts, trained on thousands of them. How many of the questions will it answer rightly?
#
# <details><summary>A. Nearly all: a gated network can hold a handful of pairs.</summary>
#
# It has room enough for the bits. But it must *file* each value under its key while it reads, before it knows the question,
# with gates that must be learned for this; in the time it gets here it does not find out how.</details>
# <details><summary>B. One in eight, as by guessing among the eight values.</summary>
#
# It does better than that: it soon learns which values occur in the text, and a guess among those is right more
# often.</details>
# <details><summary>C. About as many as somebody who knows which values occur, but not beside which key.</summary>
#
# Yes. The state becomes a bag of values: everything is in there, nothing can be found. The next cells compare the two.</details>

# %%
T_k = at_scale(cpu=8, gpu=32)
n_keys, n_values = 2 * T_k, 8
lookups = lookup(at_scale(cpu=4_000, gpu=20_000), 10, 500, T_q=4, T_k=T_k, n_keys=n_keys, n_values=n_values, seed=0)


def as_tokens(part):
    """One row of tokens for each text: the pairs, then the questions; given as their keys and their values."""
    blank = torch.full_like(part.queries, n_values)
    return torch.cat([part.keys, part.queries], dim=1).to(device()), torch.cat([part.values, blank], dim=1).to(device())


first = lookups.test
pairs = ", ".join(f"k{k}=v{v}" for k, v in zip(first.keys[0].tolist(), first.values[0].tolist(), strict=True))
print(f"pairs:     {pairs}\nquestions: {first.queries[0].tolist()}\nanswers:   {first.targets[0].tolist()}")


# %%
class Reader(nn.Module):
    """Add up the vectors of what is known of each token, mix the tokens by a layer, and read an answer out at each."""

    def __init__(self, mixer, sizes, n_answers, d_model=64, std=None):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, d_model) for size in sizes)
        for table in self.tables:
            nn.init.normal_(table.weight, std=d_model**-0.5 if std is None else std)
        self.mixer = mixer
        self.read_out = nn.Linear(d_model, n_answers)

    def forward(self, *known):
        x = sum(table(index) for table, index in zip(self.tables, known, strict=True))
        return self.read_out(self.mixer(x)[0])


def loss_of(model, batch):
    """Cross-entropy of the answers at the last positions, for targets (B, T) or, of several answers each, (B, T, n)."""
    *known, targets = batch
    answers = model(*known)[:, -targets.shape[1] :].unflatten(-1, (*targets.shape[2:], -1))
    return F.cross_entropy(answers.flatten(0, -2), targets.flatten())


def fit(make_mixer, known, targets, seed, steps, d_model=64, std=None, lr=5e-3, batch_size=64):
    """Train a Reader around a new mixer; the seed decides its first weights and the order of the batches."""
    torch.manual_seed(seed)
    sizes, n_answers = [int(index.max()) + 1 for index in known], (int(targets.max()) + 1) * math.prod(targets.shape[2:])
    model = Reader(make_mixer(), sizes, n_answers, d_model, std).to(device())
    stream = batches(*known, targets.to(device()), batch_size=batch_size, seed=seed)
    for _ in progress(train(model, stream, loss_of, steps=steps, lr=lr, warmup=steps // 10), f"seed {seed}", total=steps):
        pass
    return model.eval()


@torch.no_grad()
def accuracy(model, known, targets):
    """The share of positions whose answer, or whose several answers, are all right."""
    answers = model(*known)[:, -targets.shape[1] :].unflatten(-1, (*targets.shape[2:], -1)).argmax(-1)
    right = answers == targets.to(device())
    return right.flatten(2).all(-1).float().mean().item() if right.dim() > 2 else right.float().mean().item()


# %% tags=["nbval-check-output"]
steps = at_scale(cpu=300, gpu=1_500)
gru_on_lookup = [
    accuracy(
        fit(partial(GRU, 64, 64, fused_gru), as_tokens(lookups.train), lookups.train.targets, seed, steps),
        as_tokens(lookups.test),
        lookups.test.targets,
    )
    for seed in SEEDS
]
bag = (F.one_hot(lookups.test.values, n_values).sum(1).amax(-1) / T_k).mean().item()
excess = mean(gru_on_lookup) - bag
claim(
    "04.a",
    "a GRU answers no better than a bag of values: its right answers beyond the best guess from the bag",
    excess,
    at_most=0.15,
)

# %% [markdown]
# The ledger at the end holds the difference of the two shares (04.a), the figure of section 6 the GRU's own. What the GRU lacks is not memory but *access*: a question must be
# compared with each key, and the keys are gone when the question comes. So let us keep every token, and let the question
# look at them all.
#
# ## 2 A question, many keys
#
# Each token asks with a **query**, is found by its **key**, and hands over its **value**. A query is compared with every
# key by a dot product; a softmax turns the scores of *each query* into weights that sum to 1; the weights mix the values:
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# It is a dictionary look-up in which every key matches a little. In **self**-attention, all three are made from the same
# tokens by three matrices: $Q = XW_Q$, $K = XW_K$, $V = XW_V$.
#
# | name | shape | axis that the softmax runs over |
# | --- | --- | --- |
# | `q` | (…, T_q, d_k) | |
# | `k`, `v` | (…, T_k, d_k), (…, T_k, d_v) | |
# | scores, weights | (…, T_q, T_k) | the last: keys |
# | context | (…, T_q, d_v) | |
#
# `attend(scores, values, mask)` from lecture 02 does the softmax and the mixing. Write the rest.

# %% exercise="04.1" difficulty="●●○" minutes=10
from course_lib.attention import scaled_dot_product_attention

# %% tags=["nbval-check-output"]
scaled_dot_product_attention = check("04.1", scaled_dot_product_attention)


# %%
class SelfAttention(nn.Module):
    """Queries, keys and values of the same tokens: three matrices around a mechanism `(q, k, v, mask)`."""

    def __init__(self, d_model, mechanism=scaled_dot_product_attention, mask=None):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))
        self.mechanism, self.mask = mechanism, mask

    def forward(self, x):
        context, weights = self.mechanism(self.W_q(x), self.W_k(x), self.W_v(x), self.mask)
        return Attended(context.to(x.dtype), weights.to(x.dtype))


# %% [markdown]
# ## 3 Why divide by √d_k
#
# Take a query and a key whose features are independent, with mean 0 and variance 1. Their dot product is a sum of $d_k$
# such terms: its variance is $d_k$, its typical size $\sqrt{d_k}$. A softmax over scores of that size gives nearly
# everything to the largest. The gradient of the weights is $\partial w_i / \partial s_j = w_i(\delta_{ij} - w_j)$: once a
# weight is 1 and the others are 0, every entry vanishes, and nothing can be learned from a wrong choice.

# %% [markdown] tags=["predict"]
# **Predict.** Sixteen random keys, $d_k = 512$, no scale. How large is the largest weight, typically?
#
# <details><summary>A. About 1/16: random keys are all alike.</summary>
#
# They would be if the scores were small. Here they spread by $\sqrt{512}$, more than twenty, and the softmax sees their
# differences through an exponential.</details>
# <details><summary>B. About one half.</summary>
#
# That is what a spread of two or three would give. It grows with the root of the size, and passes that point at small sizes
# already: see the curve.</details>
# <details><summary>C. Nearly 1.</summary>
#
# Yes: the largest of sixteen scores leads the second by several units, and $e^{-5}$ is already below one hundredth.</details>

# %%
sizes = [2, 8, 32, 128, 512]
generator = torch.Generator().manual_seed(SEEDS[0])
largest, slope, spread = {"with 1/√d_k": [], "without": []}, {"with 1/√d_k": [], "without": []}, {}
for d_k in sizes:
    q, k = torch.randn(1_000, 1, d_k, generator=generator), torch.randn(1_000, 16, d_k, generator=generator)
    scores = attention.dot_scores(q, k)
    spread[d_k] = scores.std().item()
    for name, scaled in (("with 1/√d_k", scores / math.sqrt(d_k)), ("without", scores)):
        weights = scaled.softmax(-1)
        largest[name].append(weights.amax(-1).mean().item())
        slope[name].append((weights * (1 - weights)).amax(-1).median().item())
figure = plots.curves(
    {name: (sizes, values) for name, values in largest.items()}, "size of the keys, d_k", "largest of 16 weights", log="x"
)
show(
    figure,
    alt=f"Largest weight against the size of the keys: with the scale it stays near {largest['with 1/√d_k'][-1]:.2f}; "
    f"without, it rises from {largest['without'][0]:.2f} at d_k = {sizes[0]} to {largest['without'][-1]:.2f} at d_k = {sizes[-1]}.",
)

# %% tags=["nbval-check-output"]
ratio = slope["without"][-1] / slope["with 1/√d_k"][-1]
claim(
    "04.b", "random dot products of size 512 spread by √512: spread over √512", spread[512] / math.sqrt(512), between=(0.9, 1.1)
)
claim("04.c", "without the scale, the largest of 16 weights is near 1", largest["without"][-1], at_least=0.85)
claim(
    "04.d",
    "without the scale, the steepest slope of the softmax vanishes: its median over that with the scale",
    ratio,
    at_most=0.1,
)

# %% [markdown] tags=["predict"]
# **Predict.** Does it matter for *learning*? Train the layer on the look-up task at $d_k = 512$, on features of variance 1,
# as a normalisation layer would hand them over; once with the scale and once without. Nothing else differs.
#
# <details><summary>A. No: the optimiser makes the matrices smaller, and the scale is in them.</summary>
#
# It could, if a gradient told it to. The gradient passes through the saturated softmax, and hardly any arrives.</details>
# <details><summary>B. Yes: without the scale it learns far more slowly, or not at all.</summary>
#
# Yes. At the same number of steps one has finished, and the other has hardly begun.</details>
# <details><summary>C. It learns faster without: sharp weights are what a look-up needs.</summary>
#
# Sharp weights in the *right* place are. These are sharp in a random place from the start, and cannot be moved.</details>

# %% tags=["nbval-check-output"]
known, targets = as_tokens(lookups.train), lookups.train.targets
wide, wider = {"with 1/√d_k": [], "without": []}, {"d_model": 512, "std": 1.0, "lr": 1e-3, "batch_size": 32}
for name, mechanism in (("with 1/√d_k", scaled_dot_product_attention), ("without", attention.dot_attention)):
    for seed in SEEDS:
        model = fit(partial(SelfAttention, 512, mechanism), known, targets, seed, at_scale(cpu=60, gpu=200), **wider)
        wide[name].append(accuracy(model, as_tokens(lookups.test), lookups.test.targets))
claim(
    "04.e",
    "with the scale, the layer of size 512 answers the questions: worst of the seeds",
    min(wide["with 1/√d_k"]),
    at_least=0.9,
)
claim(
    "04.f",
    "without the scale, the same layer in the same training does not: best of the seeds",
    max(wide["without"]),
    at_most=0.7,
)

# %% [markdown]
# ## 4 Who may look where
#
# A **mask** says for each query which keys it may look at: bool, True = may look. Forbidden keys leave the softmax before it
# normalises, so the others share the whole weight.
#
# A model that predicts the *next* token must not see it. In a decoder, query $i$ may look at positions up to and including
# its own (Vaswani et al., section 3.2.3):
#
# $$M_{ij} = [\, j \le i + T_k - T_q \,]$$
#
# The shift $T_k - T_q$ is 0 while reading a whole text. When a text is written token by token, the queries are only the
# newest positions, the *last* of the keys.
#
# | name | shape |
# | --- | --- |
# | mask | (T_q, T_k), broadcasts over batch and heads |

# %% exercise="04.2" difficulty="●○○" minutes=5
from course_lib.primitives import causal_mask

# %% tags=["nbval-check-output"]
causal_mask = check("04.2", causal_mask)

# %% [markdown]
# Sentences of a batch differ in length, so the shorter ones are filled up. That **padding** is no text, and nobody may look
# at it:
#
# $$M_{b\,\cdot\,j} = [\, j < \mathrm{length}_b \,]$$
#
# | name | shape |
# | --- | --- |
# | lengths | (B,) |
# | mask | (B, 1, T_k): the axis of size 1 broadcasts over the queries |
#
# Masks combine by `&`: `causal_mask(T) & padding_mask(lengths, T)` has shape (B, T, T). A row may end up all False, as in an
# empty sentence: `attend` then gives weights and context 0, not the 0/0 of a plain softmax.

# %% exercise="04.3" difficulty="●○○" minutes=5
from course_lib.primitives import padding_mask

# %% tags=["nbval-check-output"]
padding_mask = check("04.3", padding_mask)

# %% [markdown] tags=["predict"]
# **Predict.** A language model is trained on tokens that count upwards most of the time and jump at random otherwise.
# Nobody can foresee a jump: the entropy of the next token is a floor under the loss of any honest model. We forget the
# causal mask. The training loss then …
#
# <details><summary>A. … stays where it was; the mask only saves time.</summary>
#
# The mask is not about time. Position $i$ is asked for token $i+1$, and without the mask token $i+1$ stands in plain
# sight.</details>
# <details><summary>B. … falls below the floor.</summary>
#
# Yes. That is impossible for a prediction; so it is none. A loss that is too good is the mark of a leak.</details>
# <details><summary>C. … rises, because the future disturbs.</summary>
#
# It would be a fair guess for noise, but the future is no noise here: it *is* the answer.</details>


# %%
def counting(n, T, seed, keep=0.75, n_symbols=8):
    """Texts (n, T) that count upwards, modulo n_symbols, with probability `keep`, and else do anything but count."""
    generator = torch.Generator().manual_seed(seed)
    jump = torch.randint(2, n_symbols + 1, (n, T), generator=generator)
    step = torch.where(torch.rand(n, T, generator=generator) < keep, 1, jump)
    return (step.cumsum(1) % n_symbols).to(device())


def places(tokens):
    """The position of each token, as an index that has a vector of its own."""
    return torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)


T = 12
floor = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25 / 7))
may_look = causal_mask(T).to(device())
honest, leaking, unmasked = [], [], []
for seed in SEEDS:
    texts, unseen = counting(4_000, T + 1, seed), counting(500, T + 1, 1_000 + seed)
    batch = (unseen[:, :-1], places(unseen[:, :-1]), unseen[:, 1:])
    for losses, mask in ((honest, may_look), (leaking, None)):
        model = fit(partial(SelfAttention, 64, mask=mask), (texts[:, :-1], places(texts[:, :-1])), texts[:, 1:], seed, 200)
        losses.append(loss_of(model, batch).item())
    model.mixer.mask = may_look
    unmasked.append(loss_of(model, batch).item())
print(
    f"entropy {floor:.2f} | masked {mean(honest):.2f} | no mask {mean(leaking):.2f} | masked afterwards {mean(unmasked):.2f} nats"
)

# %% tags=["nbval-check-output"]
claim(
    "04.g",
    "with the mask, the loss on unseen text reaches the entropy and does not pass it: their ratio",
    mean(honest) / floor,
    between=(0.93, 1.25),
)
claim(
    "04.h",
    "without the mask, the loss falls below what any prediction can reach: largest ratio to the entropy",
    max(leaking) / floor,
    at_most=0.6,
)
claim(
    "04.i",
    "the leaking model cannot predict: its loss over ln 8, a blind guess, once the mask is on",
    min(unmasked) / math.log(8),
    at_least=1.5,
)

# %% [markdown]
# ## 5 Many heads
#
# One softmax gives one pattern. A token that needs two things from two places gets their blend. So attend $h$ times side by
# side, each **head** with its own small matrices, and mix the results:
#
# $$\mathrm{head}_i = \mathrm{Attention}(QW_i^Q, KW_i^K, VW_i^V) \qquad \mathrm{MultiHead} = [\mathrm{head}_1; \dots; \mathrm{head}_h]\, W^O$$
#
# In code, one product serves all heads: their matrices stand below each other in `W_q`. Afterwards the features are cut
# into heads, and the heads become one more batch axis.
#
# | name | shape |
# | --- | --- |
# | x | (…, T, h · d) |
# | `split_heads(x, h)` | (…, h, T, d): head $i$ owns the features $i d$ to $(i+1)d$ of *every* position |

# %% exercise="04.4" difficulty="●●○" minutes=8
from course_lib.attention import split_heads

# %% tags=["nbval-check-output"]
split_heads = check("04.4", split_heads)

# %% [markdown]
# Now the whole of it. `merge_heads`, the inverse of `split_heads`, is given; `mask_per_head(mask)` adds the axis of the
# heads to a mask, (…, T_q, T_k) → (…, 1, T_q, T_k).
#
# | name | shape |
# | --- | --- |
# | `queries`; `keys`, `values` | (…, T_q, d_q); (…, T_k, ·) |
# | `W_q`, `W_k` | (h · d_k, d_q), (h · d_k, ·): stored as (out, in), so $XW$ is `x @ W.mT` |
# | `W_v` | (h · d_v, ·): d_v need not be d_k |
# | `W_o` | (d_model, h · d_v) |
# | context | (…, T_q, d_model) |
# | weights | (…, h, T_q, T_k) |
#
# Queries, keys and values are the same tokens in self-attention. They differ in a decoder that looks at an encoder, and the
# function does not care.

# %% exercise="04.5" difficulty="●●●" minutes=15
from course_lib.attention import multi_head_attention

# %% tags=["nbval-check-output"]
multi_head_attention = check("04.5", multi_head_attention)

# %% [markdown]
# ## 6 Does it find what is right?
#
# Two tasks whose right weights are known beforehand, so that a pattern can be *wrong*:
#
# - **look-up**, from section 1: the question must look at the pair that holds its key, another place in every text;
# - **reversal**: say a text backwards. Position $i$ must look at position $T - 1 - i$: the anti-diagonal, whatever stands
#   there.
#
# One layer, one head, three seeds. The baseline is the GRU, with more parameters and as many steps.

# %% [markdown] tags=["predict"]
# **Predict.** What is the best that a reader from left to right can do at reversing a text of ten symbols out of eight?
#
# <details><summary>A. All of them, if its state is large enough.</summary>
#
# The state is not the trouble. At the first position it must say the *last* symbol, and has not read it.</details>
# <details><summary>B. A little more than half.</summary>
#
# Yes: in the second half it has read what it must say, and in the first half it guesses, one in eight. This ceiling needs no
# training to be known; whether a GRU reaches it in the time given is another question.</details>
# <details><summary>C. One in eight.</summary>
#
# That is a guess everywhere. In the second half of the text it can know.</details>


# %%
class MultiHeadSelfAttention(nn.Module):
    """The layer of this lecture: owns the four matrices and calls your `multi_head_attention`."""

    def __init__(self, d_model, n_heads, mask=None):
        super().__init__()
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Parameter(torch.empty(d_model, d_model).uniform_(-(d_model**-0.5), d_model**-0.5)) for _ in range(4)
        )
        self.n_heads, self.mask = n_heads, mask

    def forward(self, x):
        context, weights = multi_head_attention(x, x, x, self.W_q, self.W_k, self.W_v, self.W_o, self.n_heads, self.mask)
        return Attended(context.to(x.dtype), weights.to(x.dtype))


@torch.no_grad()
def looks_right(model, known, pattern):
    """The share of the last queries whose largest weight lies where the pattern is 1."""
    with record(model) as seen:
        model(*known)
    chosen = seen["mixer"][0].weights[:, 0, -pattern.shape[1] :].argmax(-1)
    return (chosen == pattern.argmax(-1).to(chosen.device)).float().mean().item()


T = at_scale(cpu=10, gpu=40)
reversals = reversal(4_000, 10, 500, T=T, n_symbols=8, seed=0)
tasks = {
    "look-up": (as_tokens, lookups),
    "reversal": (lambda part: (part.tokens.to(device()), places(part.tokens.to(device()))), reversals),
}
right, pattern, readers = {"look-up": [], "reversal": []}, {"look-up": [], "reversal": []}, {}
for task, (given, parts) in tasks.items():
    for seed in SEEDS:
        model = fit(partial(MultiHeadSelfAttention, 64, 1), given(parts.train), parts.train.targets, seed, steps)
        right[task].append(accuracy(model, given(parts.test), parts.test.targets))
        pattern[task].append(looks_right(model, given(parts.test), parts.test.pattern))
        readers[task] = model
given, parts = tasks["reversal"]
gru_on_reversal = [
    accuracy(
        fit(partial(GRU, 64, 64, fused_gru), given(parts.train), parts.train.targets, seed, steps),
        given(parts.test),
        parts.test.targets,
    )
    for seed in SEEDS
]
figure = plots.seeds(
    {
        "look-up: attention": right["look-up"],
        "look-up: GRU": gru_on_lookup,
        "reversal: attention": right["reversal"],
        "reversal: GRU": gru_on_reversal,
    },
    "right answers",
    across={"a guess among 8": 1 / 8},
)
show(
    figure,
    alt=f"Share of right answers, a point for each of {len(SEEDS)} seeds: attention {mean(right['look-up']):.2f} and "
    f"{mean(right['reversal']):.2f}, GRU {mean(gru_on_lookup):.2f} and {mean(gru_on_reversal):.2f}, guessing 0.12.",
)

# %% tags=["nbval-check-output"]
claim("04.j", "attention answers the look-up questions: worst of the seeds", min(right["look-up"]), at_least=0.95)
claim(
    "04.k", "its largest weight is on the pair that holds the key: worst of the seeds", min(pattern["look-up"]), at_least=0.95
)
claim(
    "04.l",
    "attention leads the GRU on look-up: worst against best of the seeds",
    min(right["look-up"]) - max(gru_on_lookup),
    at_least=0.4,
)
claim("04.m", "attention reverses texts that it never saw: worst of the seeds", min(right["reversal"]), at_least=0.95)
claim("04.n", "its largest weights are the anti-diagonal: worst of the seeds", min(pattern["reversal"]), at_least=0.95)
claim(
    "04.o",
    "the GRU stays below what a reader from left to right can reach: best of the seeds",
    max(gru_on_reversal),
    at_most=0.5 + 0.5 / 8 + 0.02,
)

# %% [markdown]
# ## 7 See it
#
# `record` hangs hooks into a model and collects every `Attended` that passes, without touching its code. Rows are queries:
# each row sums to 1. Left to the eye alone, such maps invite stories; here each has a right answer to be held against.

# %%
some = lookups.test
with record(readers["look-up"]) as seen:
    readers["look-up"](*(index[:1] for index in as_tokens(some)))
asked = seen["mixer"][0].weights[0, 0, -some.queries.shape[1] :].cpu()
questions = [f"k{key}?" for key in some.queries[0].tolist()]
tokens = [f"k{key}={value}" for key, value in zip(some.keys[0].tolist(), some.values[0].tolist(), strict=True)] + questions
show(
    plots.attention_map(asked, questions, tokens, "look-up: one unseen text", x="token looked at", y="question"),
    alt=plots.describe(asked, questions, tokens),
)

# %% [markdown] tags=["try-it"]
# **Try it.** Here the layer says a text backwards: change the text (T symbols, each from 0 to 7). Does the pattern depend on
# what the text says? Then set all symbols equal: how can the layer still know where to look?


# %% tags=["try-it"]
def draw_reversal(text):
    """Show where the trained layer looks while it says a text of T symbols, each 0 to 7, backwards."""
    tokens = torch.tensor([text], device=device())
    with record(readers["reversal"]) as seen, torch.no_grad():
        said = readers["reversal"](tokens, places(tokens)).argmax(-1)[0].tolist()
    weights = seen["mixer"][0].weights[0, 0].cpu()
    hits = sum(int(row.argmax()) == len(text) - 1 - i for i, row in enumerate(weights))
    said, read = [str(symbol) for symbol in said], [str(symbol) for symbol in text]
    show(
        plots.attention_map(weights, said, read, "reversal", x="token looked at", y="what it says"),
        alt=f"Attention map of a text of {len(text)} symbols: the largest weight of a row is on the anti-diagonal in {hits} of them.",
    )


draw_reversal([3, 1, 4, 1, 5, 2, 6, 5, 3, 5] * (T // 10))

# %% [markdown]
# ## 8 Pixels are tokens too
#
# Nothing in attention says that tokens stand in a line. Make every pixel of an image a token, attend, and put the contexts
# back in their places; that is the `AttentionLayer2d` of EE-559:
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
# **Bug hunt.** Below is a short version that somebody wrote. It runs, on any image, and gives the right shape. Say what is
# wrong *before* you run the check; then write it rightly.

# %% exercise="04.6" bug="reshapes_without_permuting"
from course_tools.bank.lecture_04.attention_over_image import reshapes_without_permuting as suspect

# %% tags=["nbval-check-output"]
suspect = check("04.6", suspect)

# %% [markdown] tags=["predict"]
# **Which property broke, and why does the shape not show it?**
#
# <details><summary>A. The scale.</summary>
#
# The scale is inside `scaled_dot_product_attention`, which is checked.</details>
# <details><summary>B. What a token is: the reshape mixes channels and places.</summary>
#
# Yes. In memory all of the red stands before all of the green. A reshape to (H · W, C) cuts this row of numbers into pieces
# of three, so a "token" is three neighbouring reds. The axes must change places first. Shapes count numbers; they do not say
# which.</details>
# <details><summary>C. The way back.</summary>
#
# The last line is right for tokens that are pixels. What comes into it is not.</details>

# %% exercise="04.6" difficulty="●●○" minutes=10
from course_lib.attention import attention_over_image

# %% tags=["nbval-check-output"]
attention_over_image = check("04.6", attention_over_image)

# %% [markdown]
# **A photograph that lost its colours.** Every pixel keeps its brightness; one in fifty keeps its colour as well. Which
# colour had the others? Each pixel may *ask*: who is about as bright as I am, not too far away, and still knows a colour?
# That is a look-up by content and by place, so one layer of attention can do it. No training: we write the three matrices
# by hand, such that
#
# $$\mathrm{score}_{ij} = -b\,(g_i - g_j)^2 - p\,\lVert r_i - r_j \rVert^2 \quad\text{and nothing where the colour is unknown,}$$
#
# with brightness $g$ and place $r$. Terms that depend on the query alone drop out of a softmax, so a dot product is enough.

# %% [markdown] tags=["predict"]
# **Predict.** A window of 3×3 tries the same: each pixel takes the mean of the colours known around it. How does it fare?
#
# <details><summary>A. Better: colours of neighbours are alike.</summary>
#
# They are. But with one known pixel in fifty, most windows of nine hold no colour at all.</details>
# <details><summary>B. Hardly better than the grey picture.</summary>
#
# Yes. It can only pass on what is in reach: it is the problem of the GRU again, in two dimensions.</details>
# <details><summary>C. The same, after enough layers.</summary>
#
# Enough layers do reach further, a pixel each. That is a matter of section 9.</details>

# %%
height, width = at_scale(cpu=(40, 60), gpu=(80, 120))
photo = photographs((height, width))[1:].to(device())
grey = photo.mean(1, keepdim=True)
rows = torch.linspace(-1, 1, height, device=device())[:, None].expand(height, width)
columns = torch.linspace(-1.5, 1.5, width, device=device()).expand(height, width)


def channels(known):
    """What each pixel says of itself: 1, brightness, its square, row, column, their squares, whether its colour is known, that colour."""
    place = torch.stack([rows, columns, rows**2 + columns**2])[None]
    return torch.cat([torch.ones_like(grey), grey, grey**2, place, known, (photo - grey) * known], dim=1)


def matrices(brightness, place):
    """W_q, W_k, W_v for the score above; the keys are multiplied by √d_k = 2, which the layer divides out again."""
    W_q, W_k, W_v = (torch.zeros(size, 10, device=device()) for size in (4, 4, 3))
    W_q[[0, 1, 2, 3], [1, 3, 4, 0]] = 1.0
    W_k[[0, 1, 2], [1, 3, 4]] = torch.tensor([2.0 * brightness, 2.0 * place, 2.0 * place], device=device())
    W_k[3, [2, 5, 6]] = torch.tensor([-brightness, -place, 1e4], device=device())
    W_v[[0, 1, 2], [7, 8, 9]] = 1.0
    return W_q, 2 * W_k, W_v


def decibels(picture):
    """Peak signal-to-noise ratio against the photograph: 10 dB more is a tenth of the squared error."""
    return -10 * math.log10(F.mse_loss(picture, photo).item())


# %%
def from_neighbours(known):
    """Give each pixel the mean of the known colours in the 3×3 window around it, and none where there is none."""
    inside = F.avg_pool2d(known, 3, stride=1, padding=1)
    return grey + F.avg_pool2d((photo - grey) * known, 3, stride=1, padding=1) / inside.clamp_min(1e-6)


draws = []
for seed in SEEDS:
    draws.append((torch.rand(1, 1, height, width, generator=torch.Generator().manual_seed(seed)) < 0.02).float().to(device()))
painted = {
    "no colour": [decibels(grey.expand_as(photo)) for _ in draws],
    "3×3 window": [decibels(from_neighbours(known)) for known in draws],
}
settings = {"uniform": (0, 0), "by brightness": (300, 0), "by place": (0, 30), "by both": (300, 10)}
for name, (brightness, place) in settings.items():
    colours = [attention_over_image(channels(known), *matrices(brightness, place)) for known in draws]
    painted[name] = [decibels(grey + colour.float()) for colour in colours]
figure = plots.seeds(painted, "nearness to the photograph (dB)")
show(
    figure,
    alt="Nearness to the photograph in decibels, a point for each draw of the known pixels: "
    + ", ".join(f"{name} {mean(values):.1f}" for name, values in painted.items())
    + ".",
)

# %% tags=["nbval-check-output"]
rivals = zip(painted["by both"], painted["3×3 window"], painted["uniform"], strict=True)
lead = [by_both - max(window, uniform) for by_both, window, uniform in rivals]
claim(
    "04.p",
    "attention over all pixels restores colours that a 3×3 window and a plain mean cannot: worst lead in dB",
    min(lead),
    at_least=4.0,
)

# %%
known = draws[0]
layer = attention.AttentionLayer2d(10, 4, 3).to(device())
with torch.no_grad(), record(layer) as seen:
    for projection, matrix in zip((layer.W_q, layer.W_k, layer.W_v), matrices(*settings["by both"]), strict=True):
        projection.weight.copy_(matrix)
    layer(channels(known))
asking = (height - 3, width // 2)
weights = seen[""][0].weights[0, asking[0] * width + asking[1]].unflatten(0, (height, width)).cpu()
restored = (grey + seen[""][0].context).clamp(0, 1)[0].permute(1, 2, 0).cpu()
given = torch.where(known > 0, photo, grey)[0].permute(1, 2, 0).cpu()
views = {
    "given": given,
    "restored": restored,
    "the photograph": photo[0].permute(1, 2, 0).cpu(),
    "where one pixel looks": given,
}
share = weights.flatten().topk(5).values.sum().item()
show(
    plots.pictures(views, {"where one pixel looks": asking}, {"where one pixel looks": weights}, strongest=5),
    alt=f"A grey dahlia with {int(known.sum())} coloured pixels; the same with its colours restored, {decibels(grey + seen[''][0].context):.1f} dB; "
    f"the photograph; and a ringed pixel with arrows to the five coloured pixels that get {100 * share:.0f} % of its weight.",
)

# %% [markdown] tags=["interactive"]
# **Explore.** Both numbers are inverse temperatures: they multiply the scores. At 0 every known pixel counts alike; far to the right
# each pixel copies the colour of a single one. What is lost at either end? (Powers of ten: 2 stands for 100.)


# %% tags=["interactive"]
def draw_colours(brightness=2.5, place=1.0):
    """Restore the photograph at two inverse temperatures, given as powers of ten."""
    colours = attention_over_image(channels(draws[0]), *matrices(10**brightness - 1, 10**place - 1)).float()
    picture = grey + colours
    title = f"{decibels(picture):.1f} dB"
    show(
        plots.pictures({"given": given, title: picture.clamp(0, 1)[0].permute(1, 2, 0).cpu()}),
        alt=f"With brightness at 10^{brightness:g} and place at 10^{place:g}, the restored photograph is {title} near to the true one.",
    )


explore(draw_colours, brightness=(0.0, 5.0, 0.25), place=(0.0, 4.0, 0.25))

# %% [markdown]
# ## 9 What it costs
#
# Two decks print the table of Vaswani et al.: work per layer, steps that must wait for each other, and the longest path
# between two positions. A table can be believed; it can also be *measured*. Four ways to mix $n$ tokens of size $d$:
#
# | layer | work | waiting steps | longest path |
# | --- | --- | --- | --- |
# | self-attention | $n^2 d$ | 1 | 1 |
# | recurrent | $n d^2$ | $n$ | $n$ |
# | convolution of width $k$ | $k n d^2$ | 1 | $\log_k n$ |
# | self-attention within $r$ places | $r n d$ | 1 | $n/r$ |
#
# Work is counted in multiply-adds by torch's own counter, and its exponent in $n$ is fitted. Waiting steps are the longest
# chain of matrix products in the graph of a forward pass. The path is how often a layer must be applied until the gradient of
# the last position reaches the first. We count the library's forms: a loop of your own does the same sums in other calls.

# %% [markdown] tags=["predict"]
# **Predict.** Ordinary convolutions of width 3 are stacked. How many layers until the last of 65 tokens feels the first?
#
# <details><summary>A. Four: log₃ 65, as the table has it.</summary>
#
# The table thinks of *dilated* convolutions, each three times as wide apart as the one below. The ledger measures those as
# well.</details>
# <details><summary>B. 64: one place a layer.</summary>
#
# Yes. Width 3 reaches one place to either side, and 64 steps lie between the ends.</details>
# <details><summary>C. One: a convolution slides over the whole text.</summary>
#
# It slides, but each output is made from three inputs.</details>


# %%
def restricted_attention(q, k, v, r=8):
    """Let position i look at positions i - r … i + r only; inputs (T, d)."""
    windows = [F.pad(x, (0, 0, r, r)).unfold(-2, 2 * r + 1, 1).mT for x in (k, v, torch.ones_like(k[:, :1]))]
    context, weights = attention.scaled_dot_product_attention(q[:, None], windows[0], windows[1], windows[2].mT > 0)
    return Attended(context[:, 0], weights)


def random_layers(d, dtype=torch.float32):
    """The four layers as functions of x (n, d), with random weights."""
    generator = torch.Generator().manual_seed(0)
    U, kernel = (torch.randn(d, d, *rest, dtype=dtype, generator=generator) / d**0.5 for rest in ((), (3,)))
    recurrent = RNN(d, d).to(dtype)
    return {
        "self-attention": lambda x: attention.scaled_dot_product_attention(x, x, x).context,
        "recurrent": lambda x: recurrent(x[None])[0][0],
        "convolution": lambda x: F.conv1d(x.mT[None], kernel, padding=1)[0].mT,
        "restricted": lambda x: restricted_attention(x, x, x).context,
        "one step of the recurrence": lambda x: torch.tanh(x + F.pad(x, (0, 0, 1, 0))[:-1] @ U),
    }


def multiply_adds(layer, *inputs):
    """Count the multiply-adds of all matrix products in a forward pass."""
    with FlopCounterMode(display=False) as counter:
        layer(*inputs)
    return counter.get_total_flops() // 2


def exponent(sizes, costs):
    """The slope of log cost against log size, by least squares."""
    x, y = (torch.tensor(values, dtype=torch.float64).log() for values in (sizes, costs))
    return (((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()).item()


# %%
PRODUCTS = ("Mm", "Bmm", "Addmm", "Convolution")


def waiting_steps(output):
    """Count the matrix products on the longest path through the graph that made `output`."""
    depth, stack = {}, [output.grad_fn]
    while stack:
        before = [node for node, _ in stack[-1].next_functions if node is not None]
        waiting = [node for node in before if node not in depth]
        stack.extend(waiting)
        if not waiting:
            node = stack.pop()
            depth[node] = max((depth[b] for b in before), default=0) + node.name().startswith(PRODUCTS)
    return depth[output.grad_fn]


def path_length(layer, x):
    """How often must a layer be applied until the last position feels the first? Found by the gradient."""
    y = x
    for times in range(1, len(x) + 1):
        y = layer(y)
        if torch.autograd.grad(y[-1].sum(), x, retain_graph=True)[0][0].any():
            return times
    raise ValueError("the first position is never felt")


# %%
FOUR = ("self-attention", "recurrent", "convolution", "restricted")
d, lengths = 64, [128, 256, 512, 1024]
layers = random_layers(d)
work = {name: [multiply_adds(layers[name], torch.randn(n, d)) for n in lengths] for name in FOUR}
short = [17, 33, 65]
layers = random_layers(8, torch.float64)
inputs = [torch.randn(n, 8, dtype=torch.float64, requires_grad=True) for n in short]
waits = {name: [waiting_steps(layers[name](x)) for x in inputs] for name in FOUR}
steps_of = layers | {"recurrent": layers["one step of the recurrence"]}
paths = {name: [path_length(steps_of[name], x) for x in inputs] for name in FOUR}
print(f"{'layer':<16}{'exponent of the work in n':>28}{f'waiting steps at n = {short}':>36}{'longest path':>18}")
for name in FOUR:
    print(f"{name:<16}{exponent(lengths, work[name]):>28.3f}{waits[name]!s:>36}{paths[name]!s:>18}")
lines = {name: (lengths, work[name]) for name in FOUR}
figure = plots.curves(lines, "number of tokens, n", "multiply-adds", f"d = {d}", log="xy")
show(
    figure,
    alt="Multiply-adds against the number of tokens, both logarithmic; fitted exponents: "
    + ", ".join(f"{name} {exponent(lengths, work[name]):.2f}" for name in FOUR)
    + ".",
)

# %% tags=["nbval-check-output"]
fitted = [round(exponent(lengths, work[name]), 2) for name in FOUR]
claim(
    "04.q", f"work grows with n to the power, fitted to two decimals ({', '.join(FOUR)})", fitted, equals=[2.0, 1.0, 1.0, 1.0]
)
chains = waits["self-attention"] + waits["recurrent"]
claim("04.r", f"products that wait at n = {short}: two in self-attention, n in recurrence", chains, equals=[2, 2, 2, *short])
longest = [paths[name][-1] for name in FOUR]
claim("04.s", f"layers, or steps, to join the ends of {short[-1]} tokens ({', '.join(FOUR)})", longest, equals=[1, 64, 64, 8])

# %% [markdown] tags=["predict"]
# **Predict.** "Attention is cheap: cheaper when n < d", says a deck. Count all that a layer does, projections included:
# four $d \times d$ matrices for attention, two for a plain recurrent network, eight for an LSTM. Against whom is it
# cheaper, and until when?
#
# <details><summary>A. Against both, while n &lt; d.</summary>
#
# That compares $n^2 d$ with $n d^2$, the mixing alone. The projections of attention cost $4 n d^2$ before any mixing
# begins.</details>
# <details><summary>B. Never against the plain network; against the LSTM while n &lt; 2d.</summary>
#
# Yes: $4nd^2 + 2n^2d < 2nd^2$ has no solution, and $4nd^2 + 2n^2d < 8nd^2$ gives $n < 2d$. The next cell finds both by
# counting.</details>
# <details><summary>C. Never: a square grows faster than anything linear.</summary>
#
# It does in the end. But for short texts and large $d$ it is the $d^2$ that costs.</details>


# %% tags=["nbval-check-output"]
def cheaper_until(ours, theirs, d, most=128):
    """The largest n below `most` up to which `ours` takes fewer multiply-adds than `theirs`; 0 if it never does."""
    texts = (torch.randn(1, n, d) for n in range(1, most + 1))
    return next(len(x[0]) - 1 for x in texts if multiply_adds(ours, x) >= multiply_adds(theirs, x))


d = 16
layer = attention.MultiHead(d, 1, bias=False)
attend_alone, full_layer = (lambda x: attention.scaled_dot_product_attention(x, x, x)), (lambda x: layer(x, x, x))
rivals = ((attend_alone, RNN(d, d)), (full_layer, RNN(d, d)), (full_layer, LSTM(d, d)))
crossings = [cheaper_until(ours, theirs, d) for ours, theirs in rivals]
text = "with d = 16, the last n at which attention is cheaper: its mixing than an RNN, all of it than an RNN, than an LSTM"
claim("04.t", text, crossings, equals=[d - 1, 0, 2 * d - 1])

# %% [markdown]
# Work is not time. A processor does the products of one layer at once, if they need not wait for each other; so here is
# time as well, on this machine, and without a claim: it depends on who else is using it.

# %%
d = 64
layer = attention.MultiHead(d, 1, attention.fused_scaled_dot_product_attention).to(device())
gru = GRU(d, d, fused_gru).to(device())


def milliseconds(run, *inputs):
    """The median of seven runs, after one to warm up."""
    times = []
    for _ in range(8):
        start = time.perf_counter()
        run(*inputs)[0].sum().item()
        times.append(1_000 * (time.perf_counter() - start))
    return median(times[1:])


lengths = [64, 128, 256, 512, 1024, 2048]
taken = {"self-attention (fused)": [], "GRU (fused)": []}
with torch.no_grad():
    for n in lengths:
        x = torch.randn(1, n, d, device=device())
        taken["self-attention (fused)"].append(milliseconds(layer, x, x, x))
        taken["GRU (fused)"].append(milliseconds(gru, x))
lines = {name: (lengths, times) for name, times in taken.items()}
show(
    plots.curves(lines, "number of tokens, n", "milliseconds", f"forward, one text, d = {d}", log="xy"),
    alt=f"Milliseconds against the number of tokens from {lengths[0]} to {lengths[-1]}: "
    + ", ".join(f"{name} from {times[0]:.2f} to {times[-1]:.2f}" for name, times in taken.items())
    + ".",
)

# %% [markdown] tags=["predict"]
# ## 10 Take one away
#
# **Predict.** A token is now asked for two things at once: the symbol at the opposite place *and* the symbol before it. One
# head of size 64, or two of size 32: both have the same number of parameters. What does the single head do?
#
# <details><summary>A. The same: the parameters are equal.</summary>
#
# Parameters are not patterns. One softmax makes one set of weights for each query, whatever its size.</details>
# <details><summary>B. It looks half at each place and gets each symbol half of the time.</summary>
#
# Half the weight goes to each place, yes. But the blend of two values is a sum, and a sum has no order: it knows *which* two
# symbols, and must guess which is which.</details>
# <details><summary>C. It knows which two symbols, not which is which.</summary>
#
# Yes, for two equal shares. So it is right about both far less often than either. Look at the maps: one blurred row against two
# sharp ones. (A head that gave *unequal* shares would put an order into the sum, and a read-out that sees both symbols jointly
# can learn to undo it; here each of the two has a read-out of its own.)</details>


# %%
def two_things(tokens):
    """For each position, the symbol at the opposite place and the symbol before it (before the first stands the last)."""
    return torch.stack([tokens.flip(1), tokens.roll(1, dims=1)], dim=-1)


learn, unseen = reversals.train.tokens.to(device()), reversals.test.tokens.to(device())
both, ablated = {1: [], 2: []}, {}
for n_heads in both:
    for seed in SEEDS:
        make = partial(MultiHeadSelfAttention, 64, n_heads)
        model = fit(make, (learn, places(learn)), two_things(learn), seed, at_scale(cpu=400, gpu=1_500))
        both[n_heads].append(accuracy(model, (unseen, places(unseen)), two_things(unseen)))
    ablated[n_heads] = model
maps = {}
for n_heads, model in ablated.items():
    with record(model) as seen, torch.no_grad():
        model(unseen[:1], places(unseen[:1]))
    titles = ["one head"] if n_heads == 1 else ["two heads: first", "second"]
    maps |= dict(zip(titles, seen["mixer"][0].weights[0].cpu(), strict=True))
largest_of = {name: weights.amax(-1).mean() for name, weights in maps.items()}
show(
    plots.attention_maps(maps, x="token looked at", y="token"),
    alt="Attention maps on one text; the largest weight of a row is, on average, "
    + ", ".join(f"{mean_weight:.2f} in {name}" for name, mean_weight in largest_of.items())
    + ".",
)

# %% tags=["nbval-check-output"]
claim("04.u", "two heads tell both symbols: worst of the seeds", min(both[2]), at_least=0.9)
claim("04.v", "one head with as many parameters does not: best of the seeds", max(both[1]), at_most=0.6)

# %% [markdown] tags=["predict"]
# **And without places?** Attention compares contents. If tokens carry no place, then shuffling them must shuffle the
# outputs in the same way and change nothing else.
#
# <details><summary>A. True: attention sees a set, not a sequence.</summary>
#
# Yes, and the next cell holds it to that. Lecture 05 gives the places back, by sines.</details>
# <details><summary>B. False: rows of the weights are numbered.</summary>
#
# The numbers are only names of rows. Each row is computed from its own query and from all keys, in any order.</details>

# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
layer = MultiHeadSelfAttention(64, 2)
x, shuffle = torch.randn(3, 11, 64), torch.randperm(11)
gap = (layer(x[:, shuffle]).context - layer(x).context[:, shuffle]).abs().max().item()
claim("04.w", "self-attention without places: shuffling before or after it gives the same, up to rounding", gap, at_most=1e-4)
lost = []
for seed in SEEDS:
    model = fit(partial(MultiHeadSelfAttention, 64, 1), (learn,), reversals.train.targets, seed, steps)
    lost.append(accuracy(model, (unseen,), reversals.test.targets))
claim("04.x", "without places, reversal is out of reach: best of the seeds", max(lost), at_most=0.5)

# %% [markdown] tags=["quiz"]
# ## 11 Before you go
#
# **Question 1.** You double $d_k$ and keep the scale at the old $\sqrt{d_k}$. What happens first?
#
# <details><summary>A. The weights become more even.</summary>
#
# The other way round: the scores now spread by a factor $\sqrt 2$ more than the scale expects.</details>
# <details><summary>B. The weights become sharper, and gradients through the softmax smaller.</summary>
#
# Right. It is the first step on the way to section 3.</details>
# <details><summary>C. Rows of weights no longer sum to 1.</summary>
#
# The softmax makes them sum to 1 whatever the scores are.</details>
#
# **Question 2.** A batch holds texts of 3 and 5 tokens, padded to 5, for a language model. Which mask?
#
# <details><summary>A. <code>causal_mask(5) | padding_mask(lengths, 5)</code></summary>
#
# "Or" lets a query look wherever *one* of the rules allows it: into the future among real tokens, and at earlier
# padding.</details>
# <details><summary>B. <code>causal_mask(5) &amp; padding_mask(lengths, 5)</code></summary>
#
# Right: both rules must allow it. (5, 5) and (2, 1, 5) broadcast to (2, 5, 5).</details>
# <details><summary>C. <code>padding_mask(lengths, 5)</code> alone: the loss skips padding anyway.</summary>
#
# Then real tokens see their successors, and the loss drops below the entropy, as in section 4.</details>
#
# **Question 3.** A text of 100,000 tokens, $d$ = 1,000. Which term of self-attention hurts?
#
# <details><summary>A. The projections, $4nd^2$.</summary>
#
# Compare: $4nd^2$ against $2n^2d$ is $2d$ against $n$, and $n$ is fifty times as large.</details>
# <details><summary>B. The scores, $2n^2d$, and the $n^2$ weights in memory.</summary>
#
# Right: ten thousand million weights for each head. Lectures 10 and 14 are about this.</details>
# <details><summary>C. The waiting steps.</summary>
#
# There are as few as before: that is just what attention is good at.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague shows you an attention map of a trained model and says: "You see, it has
# understood the grammar." What would you want to know before you agree? Use two experiments of this lecture.*
#
# | points | what earns them |
# | --- | --- |
# | 1 | says what a weight is: a share of the mixing in one layer and one head, not a cause |
# | 1 | asks for a known right pattern, or a measure, as in section 6, and for texts that the model never saw |
# | 1 | asks for a baseline or a control that should fail: no places, one head, a shuffled text |
# | 1 | uses the leak of section 4, or another case in which a good number had a bad reason |
# | 1 | is clear and short |

# %% [markdown]
# ## 12 Ledger
#
# **Where the decks and the code part ways**, each by a number:
#
# - *EE* writes $QK^\top/\sqrt d$ where $d$ is the size of the **values**; the spread of the scores belongs to the keys. It
#   also passes `bias=None` to its projections: no bias comes out, but only because None counts as false.
# - *CS* writes $K = W_k X$ with $X$ of $n \times d$ and $W_k$ of $d \times d'$: that product does not conform, $X W_k$ does.
#   Its softmax names no axis, and $y_j = \sum_i A_{ij} v_i$ needs **columns** that sum to 1; the other decks, and we, use rows.
# - *CS* again: a path of $\log_k n$ needs convolutions that are **dilated**, each layer wider than the last; plain ones
#   of width 3 move one place a layer (04.s).
# - *IT* stacks tokens as columns and then writes $QK^\top$: that compares features with features.
# - *RK* projects queries and keys to lengths $p_q$ and $p_k$: for a dot product they must be equal.
# - *GA* gives the memory of attention as $L^2 d$. The work grows so; what is kept is $L^2 + Ld$.
# - *IT*: "cheaper when n < d" is true, against a plain network, of the mixing alone; with its projections, attention is never cheaper than
#   that network, and cheaper than an LSTM while n < 2d (04.t).
#
# **What this lecture does not show.** The tasks are small and were made so that the right pattern is known. The GRU fails
# at *this* budget, not in principle. Maps of a trained layer on real text have no right answer beside them, and are weaker
# evidence than those of section 7. What is still missing for a Transformer, places, depth and the layers between, is
# lecture 05.


# %%
def kept(layer, *inputs):
    """Count the numbers that a forward pass keeps for the backward pass."""
    tensors = {}
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: tensors.setdefault(tensor.data_ptr(), tensor), lambda tensor: tensor
    ):
        layer(*inputs)
    return sum(tensor.numel() for tensor in tensors.values())


def conforms(left, right):
    """Whether two matrices can be multiplied."""
    try:
        return (left @ right).dim() == 2
    except RuntimeError:
        return False


generator = torch.Generator().manual_seed(SEEDS[0])
n, d_key, d_value = 5, 512, 8
queries, keys = (torch.randn(1_000, d_key, generator=generator) for _ in range(2))
X, W_k = torch.randn(n, d_key, generator=generator), torch.randn(d_key, 3, generator=generator)
rows_to_1 = torch.randn(n, n, generator=generator).softmax(-1)
K = W_k.mT @ X.mT
kernel = torch.randn(8, 8, 3, dtype=torch.float64, generator=generator) / 8**0.5
dilations = iter([3**depth for depth in range(9)])


def dilated(x):
    """One more convolution over the past: a place and the two before it, three times as far apart as in the layer below."""
    apart = next(dilations)
    return F.conv1d(F.pad(x.mT[None], (2 * apart, 0)), kernel, dilation=apart)[0].mT


def attention_at(d):
    """What attention over 1,024 tokens of size d keeps."""
    return kept(attention.scaled_dot_product_attention, *(torch.randn(1_024, d, requires_grad=True) for _ in range(3)))


# %% tags=["nbval-check-output"]
spread_by_values = (queries @ keys.mT / math.sqrt(d_value)).std().item()
without_bias = [nn.Linear(3, 2, bias=bias).bias is None for bias in (None, False)]
off = (rows_to_1.sum(0) - 1).abs().max()
layers_needed = path_length(dilated, inputs[-1])
unequal = conforms(torch.randn(n, 3), torch.randn(n, 4).mT)
growth = attention_at(64) / attention_at(16)
claim(
    "04.EE",
    "keys of size 512, values of size 8: spread of the scores over √8, which should be 1",
    spread_by_values,
    between=(7.0, 9.0),
)
claim("04.EE-bias", "a Linear with bias=None, and one with bias=False, has no bias", without_bias, equals=[True, True])
claim("04.CS", "W_k X conforms; X W_k conforms", [conforms(W_k, X), conforms(X, W_k)], equals=[False, True])
claim("04.CS-axis", "where rows sum to 1, the column sums that CS needs miss 1 by up to", off, at_least=0.1)
claim(
    "04.CS-path",
    "dilated convolutions of width 3 that join the ends of 65 tokens: log₃ 65, rounded up",
    layers_needed,
    equals=4,
)
claim("04.IT", "Q Kᵀ of 5 tokens as columns of size 3 has the shape", (K @ K.mT).shape, equals=(3, 3))
claim("04.RK", "queries of length 3 and keys of length 4 can be multiplied", unequal, equals=False)
claim("04.GA", "at 1,024 tokens, growth of what attention keeps when d grows fourfold; L²d says 4", growth, at_most=1.6)

# %% tags=["ledger"]
ledger()
