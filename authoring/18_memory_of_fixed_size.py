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
# # 18 · A memory of fixed size
#
# The memory of a linear transformer only adds. One gate lets it forget, one subtraction lets it correct what it holds, and with
# both it is, in variants, the memory of several open language models of 2025.
#
# You will write both in a few lines, train them on keys whose values change, and find out which memory is right for which data.
#
# **Prerequisites:** lecture 14 (linear attention). **Time:** {minutes}. {measured}
#
# ![](diagram:delta_rule)

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention import GatedDeltaAttention, chunked_delta_attention
from course_lib.attention import decay_mask, delta_rule_step
from course_lib.attention.core import broadcast_shapes
from course_lib.attention.decay import AllContexts, AllKeys, AllValues
from course_lib.attention.decay import State, StepKey, StepValue
from course_lib.blocks import Sizes
from course_lib.datasets import Vocabulary, language_reference
from course_lib.losses import next_token_loss
from course_lib.models import GatedDeltaNet, KneserNey
from course_lib.primitives import causal_mask, window_of_tokens
from course_lib.training import batches, train
from course_tools.lectures.lecture_18 import experiments, figures, rewritten_keys
from course_tools.notebook import check, claim, device, explore, fit, ledger, predict
from course_tools.notebook import show_study, source

SEED = 0  # of data and weights

# %% [markdown]
# ## 1 A value that changes
#
# Lecture 14 ended with a matrix $S$ to which every key and value is added: $S_i = S_{i-1} + k_i v_i^\top$, read by $q^\top S$. A
# thousand tokens do not make it larger. (We leave out the division, as its successors do, and keep keys at length 1.)
#
# In its task every key was written once. But in most texts values change: a variable is assigned again, a person leaves the room,
# a price rises. So here are 64 writes to 20 keys. Sixteen keys are written once. Four **hot keys**, different ones in each sequence,
# are written twelve times each. Then come eight questions, the first four about hot keys: *what is the newest value?*

# %%
source(rewritten_keys.hot_keys)
example = rewritten_keys.hot_keys(1, torch.Generator().manual_seed(SEED))
first = zip(example.keys[0, :12].tolist(), example.values[0, :12].tolist(), strict=True)
print("the first writes:", ", ".join(f"{key} ← {value}" for key, value in first))
print(
    "asked:", example.asked[0].tolist(), " newest values:", example.wanted[0].tolist()
)

# %% [markdown] tags=["predict"]
# **Predict.** A memory that adds is trained on such sequences. How many of the questions about hot keys does it answer?
#
# <details><summary>A. More than of the others: it has seen these keys twelve times.</summary>
#
# Twelve times with different values, of which one is asked for.</details>
# <details><summary>B. As many as of the others.</summary>
#
# A key that was written once reads its value, and some noise. What does a key read that was written twelve times?</details>
# <details><summary>C. Few.</summary>
#
# Yes. A hot key reads the sum of its twelve values. A sum does not depend on the order of its terms, so nothing in it says which
# came last, however long the training. To tell, the weight of a write would have to depend on its age: that is section 2.</details>

# %% [markdown]
# **Read the model.** One head with keys and values of size 16, so that its memory has 256 numbers. What it does with a write is a
# function, `rule(k, v, gate) -> S`. The first rule adds. A gate, one number for each write, is there for later rules.


# %%
class HeadWithMemory(nn.Module):
    """Write values under keys by a rule, then read what is asked for."""

    def __init__(self, rule, gate=0.0, n_keys=32, n_values=16, d_model=64, d=16):
        super().__init__()
        self.rule = rule
        self.key = nn.Embedding(n_keys, d_model)
        self.value = nn.Embedding(n_values, d_model)
        for table in (self.key, self.value):
            nn.init.normal_(table.weight, std=d_model**-0.5)
        self.W_q = nn.Linear(d_model, d, bias=False)
        self.W_k = nn.Linear(d_model, d, bias=False)
        self.W_v = nn.Linear(d_model, d, bias=False)
        self.gate = nn.Linear(d_model, 1)
        nn.init.constant_(self.gate.bias, gate)
        self.read_out = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, n_values))

    def forward(self, keys, values, asked):  # (B, T), (B, T), (B, n)
        key, value = self.key(keys), self.value(values)  # (B, T, d_model)
        q = F.normalize(self.W_q(self.key(asked)), dim=-1)  # (B, n, d)
        k = F.normalize(self.W_k(key), dim=-1)  # (B, T, d)
        gate = self.gate(key + value)[..., 0]  # (B, T)
        S = self.rule(k, self.W_v(value), gate)  # (B, d, d)
        return self.read_out(q @ S)  # (B, n, n_values)


def add(k, v, gate):
    """The memory of lecture 14: the sum of all k vᵀ."""
    return k.mT @ v


def loss(model, writes):
    logits = model(writes.keys, writes.values, writes.asked)
    return F.cross_entropy(logits.flatten(0, 1), writes.wanted.flatten())


def learn(model, updates=600, seed=SEED):
    """Train a model on new sequences in each update; return it."""
    sequences = rewritten_keys.stream(rewritten_keys.hot_keys, 64, seed, device())
    run = train(model, sequences, loss, steps=updates, lr=0.01, warmup=updates // 10)
    for step in run:
        if (step.index + 1) % 200 == 0:
            print(f"update {step.index + 1}: loss {step.loss:.2f}")
    return model.eval()


@torch.no_grad()
def shares_right(model):
    """Which shares of new questions it answers: about hot keys, about others."""
    tests = rewritten_keys.stream(rewritten_keys.hot_keys, 1_000, 999 + SEED, device())
    writes = next(tests)
    found = model(writes.keys, writes.values, writes.asked).argmax(-1)
    right = (found == writes.wanted).float()
    return right[:, :4].mean().item(), right[:, 4:].mean().item()


torch.manual_seed(SEED)
adds = learn(HeadWithMemory(add).to(device()))
hot_sum, once_sum = shares_right(adds)

# %% tags=["nbval-check-output"]
claim("18.sum", hot=hot_sum, once=once_sum)

# %% [markdown]
# Chance is 1 of 16. The best that a sum can do for a hot key is the most frequent of its twelve values, which is the newest in 21 of 100
# cases, and that is what it reaches: it knows which values a key had, but not which came last.
#
# ## 2 Forget
#
# An LSTM has a forget gate (lecture 01). Give one to the memory: before each write, it fades by a factor $\alpha_i$ between 0 and 1.
#
# $$S_i = \alpha_i\, S_{i-1} + k_i v_i^\top \qquad c_i = S_i^\top q_i$$
#
# **By hand.** The memory holds the value 3 under $k_1 = (1, 0)$, so $S = (3, 0)$: two rows, of one number each. Now 5 is written under
# the same key, with $\alpha = 0.5$: $S = (1.5, 0) + (5, 0) = (6.5, 0)$. Reading gives 6.5, where the sum reads 8. With $\alpha = 0.1$ it would be 5.3.
# But a gate does not ask what it fades: whatever else the memory held is now a half, or a tenth.
#
# There may be one gate for the whole head, the memory of **Mamba-2**, or one for each channel of the keys, which is a row of $S$,
# that of **gated linear attention** (GLA). Both pass as logarithms, $g = \ln \alpha \le 0$; the reason comes below.
#
# | name | shape |
# | --- | --- |
# | `S`: input and output | (…, d_k, d_v) |
# | `q`, `k`, `v` | (…, d_k), (…, d_k), (…, d_v): one position |
# | `log_decay` | (…, 1), one gate for all channels, or (…, d_k) |
# | returned | context (…, d_v), and the new S |

# %% exercise="18.1" difficulty="●○○" minutes=10
from course_lib.attention import gated_step

# %% tags=["nbval-check-output"]
gated_step = check("18.1", gated_step)

# %% [markdown] tags=["predict"]
# **Predict a number** (within a factor of 1.5). Every gate is 0.9. A key is written once, at the first of 64 writes. What share of its
# value is left at the end?
#
# <details><summary>0.00131</summary>
#
# That is $0.9^{63}$. A gate that removes the old values of a hot key also removes what was written only once, long ago.</details>
# <details><summary>0.9</summary>
#
# A gate fades what was there before it, once for each write. How many writes follow the first?</details>
# <details><summary>1</summary>
#
# The key is never written again, but the gate multiplies the whole memory, whichever key is written.</details>

# %% [markdown]
# ## 3 All positions at once
#
# To train step by step is slow, and here it is not needed. What is left at position $i$ of the write at position $j$ is the product
# of the gates *after* $j$, up to $i$. **By hand:** with the gates 0.5, 0.8 and 0.9, the second write has faded at the third position
# to 0.9, and the first to $0.8 \cdot 0.9 = 0.72$:
#
# $$L = \begin{pmatrix} 1 & 0 & 0 \\ 0.8 & 1 & 0 \\ 0.72 & 0.9 & 1 \end{pmatrix} \qquad
# L_{ij} = \prod_{l=j+1}^{i} \alpha_l = e^{g_{j+1} + \dots + g_i} \ \text{ for } j \le i \qquad C = (Q K^\top \odot L)\, V$$
#
# That is attention again: a causal mask whose entries fade, and no softmax. Each entry is a difference of two running sums of the
# logarithms, $G_i - G_j$. As a quotient of two products it would be 0/0 after a few hundred gates of 0.5; in
# logarithms four digits are right down to sums of −1,000, or 1,440 such gates. Where $j > i$, the difference is positive and
# its exponential may overflow, so **mask before `exp`**.
#
# | name | shape |
# | --- | --- |
# | `log_decay` | (…, T), ≤ 0 |
# | result | (…, T, T): row i, column j |
#
# Given: `causal_mask(T, device=…)`, bool (T, T), True where $j \le i$.

# %% exercise="18.2" difficulty="●●○" minutes=10
from course_lib.attention import decay_mask

# %% tags=["nbval-check-output"]
decay_mask = check("18.2", decay_mask)

# %% [markdown] tags=["try-it"]
# Your two functions compute the same: 50 steps, and one product of matrices under your mask.
#
# **Try it.** Replace `+ 2` by `- 2`, so that the gates nearly close. Both forms still agree; what do they remember?

# %% tags=["try-it"]
q, k, v = torch.randn(50, 8), torch.randn(50, 8) / 8**0.5, torch.randn(50, 16)
gates, S, steps = F.logsigmoid(torch.randn(50) + 2), torch.zeros(8, 16), []
for position in zip(q, k, v, gates[:, None], strict=True):
    context, S = gated_step(S, *position)
    steps.append(context)
mask = decay_mask(gates)
parallel = (q @ k.mT * mask) @ v
apart = (torch.stack(steps) - parallel).abs().max()
print(f"largest difference: {apart:.0e}")
print("left of the last five writes:", [f"{left:.2f}" for left in mask[-1, -5:]])
torch.testing.assert_close(torch.stack(steps), parallel, atol=1e-4, rtol=1e-4)


# %% [markdown]
# The last row of the mask says what is left of each write at the end. The model computes each gate from key and value, and begins at $\sigma(3) = 0.95$.


# %%
def forget(k, v, gate):
    """One gate for the head: what each write has left at the end, then the sum."""
    left = decay_mask(F.logsigmoid(gate))[:, -1, :, None]  # (B, T, 1)
    return (left * k).mT @ v


torch.manual_seed(SEED)
forgets = learn(HeadWithMemory(forget, gate=3.0).to(device()))
hot_gate, once_gate = shares_right(forgets)

# %% tags=["nbval-check-output"]
claim("18.gate", hot=hot_gate, once=once_gate)

# %% [markdown] tags=["predict"]
# Forgetting helps hot keys: most questions about them are now answered. The others gain little or nothing; in the recorded study of
# section 5 they read 0.89 under the sum and 0.88 under the gate.
#
# **Predict.** A hot key is rewritten every five writes or so, and its old values should have faded by then. What if the trained gate
# were closed further, so that they fade in time?
#
# <details><summary>A. Both kinds of keys are answered better: less is left that disturbs.</summary>
#
# Less of everything is left, also of what is asked for.</details>
# <details><summary>B. Keys that were written once, long ago, are lost.</summary>
#
# Yes. They must survive up to 63 writes, and the old values of a hot key should be gone after five. One factor for both is a
# compromise.</details>
# <details><summary>C. Nothing: the gate can be another one at each write.</summary>
#
# It can, but it multiplies the whole memory. At a write, it cannot fade one key and keep another.</details>

# %% [markdown] tags=["try-it"]
# Shift the bias of the trained gate: by −1, a gate of 0.94 becomes one of 0.85.
#
# **Try it.** Look for a shift under which both kinds are answered as well as in the best line of each.

# %% tags=["try-it"]
bias = forgets.gate.bias.detach().clone()
for shift in (1.0, 0.0, -0.5, -1.0, -1.5):
    forgets.gate.bias.data = bias + shift
    hot, once = shares_right(forgets)
    print(f"shift {shift:+.1f}: hot keys {hot:.2f}, keys written once {once:.2f}")
forgets.gate.bias.data = bias

# %% [markdown]
# **What a gate gains on the one kind it loses on the other.** No shift is good at both.
#
# ## 4 Correct
#
# What we want is not to forget *everything a little*, but to remove *one thing wholly*: the old value of the key that is now
# written. The memory knows it. Ask it!
#
# **By hand**, the example of lecture 14. The memory is $S = (3, 0)$, and 5 is to be written under $k_2 = (0.6, 0.8)$.
#
# | step | what is done | result |
# | --- | --- | --- |
# | read | what does the memory say of $k_2$? | $3 \cdot 0.6 + 0 \cdot 0.8 = 1.8$ |
# | compare | how far is that from 5? | the error is $5 - 1.8 = 3.2$ |
# | write | the *error*, under $k_2$ | $(3, 0) + 3.2 \cdot (0.6, 0.8) = (4.92, 2.56)$ |
# | read again | what does it say now? | $4.92 \cdot 0.6 + 2.56 \cdot 0.8 = 5$ |
#
# The sum had $S = (6, 4)$ and read 6.8. This is the **delta rule** (Widrow and Hoff 1960). All memories that read 5 under $k_2$ lie on
# one line, and the rule goes to the nearest of them.

# %%
figures.draw_correction()

# %% [markdown]
# $$e_i = v_i - S_{i-1}^\top k_i \qquad S_i = S_{i-1} + \beta_i\, k_i\, e_i^\top$$
#
# The gate $\beta_i$ between 0 and 1 says how much of the error is corrected: 1 replaces the value, 0 leaves the memory as it is. For a
# key of length 1, $(1 - \beta_i)$ of the error remains.
#
# **It is gradient descent.** Take the memory as a linear model with the weights $S$, the key as its input and the value as its
# target. One step of gradient descent with the rate $\beta$ on $\tfrac12 \|v - S^\top k\|^2$ is the delta rule, since the
# gradient is $-k\,e^\top$. A memory that corrects itself is a network that learns while it reads: *Going further* shows a trained one that does. A
# network of such memories is called **DeltaNet**.
#
# **With both**, the memory fades first by $\alpha_i = e^{g_i}$, then it is compared: *fade, compare, write, read*. That is the gated
# delta rule of the diagram at the top:
#
# $$\tilde S = \alpha_i\, S_{i-1} \qquad e_i = v_i - \tilde S^\top k_i \qquad S_i = \tilde S + \beta_i\, k_i\, e_i^\top \qquad c_i =
# S_i^\top q_i$$
#
# Insert the error, and every memory of this lecture multiplies what it holds by a matrix and adds the write: the delta rule is $S_i =
# (I - \beta_i k_i k_i^\top) S_{i-1} + \beta_i k_i v_i^\top$.
#
# | $S_{i-1}$ is multiplied by | that is | memory |
# | --- | --- | --- |
# | $1$ | keep | linear attention, the sum |
# | $\alpha_i$ | fade all | Mamba-2 |
# | $\mathrm{Diag}(\alpha_i)$ | fade each row by its own gate | GLA |
# | $I - \beta_i k_i k_i^\top$ | shrink along the key; with β = 1 nothing is left there, with β = 2 it is mirrored | DeltaNet |
# | $\alpha_i\,(I - \beta_i k_i k_i^\top)$ | both | Gated DeltaNet |
#
# (A mirror counts: with β = 2 and $v = 0$, each write turns 3 into −3 and back. The sign tells even from odd, as no gate from 0 to 1
# can; Grazzi et al. 2025.)
#
# | name | shape |
# | --- | --- |
# | `S`: input and output | (…, d_k, d_v) |
# | `q`, `k`, `v` | (…, d_k), (…, d_k) of length 1, (…, d_v) |
# | `beta`, `log_decay` | (…): one for each head; `log_decay` may be None, then nothing fades |
# | returned | context (…, d_v), and the new S |

# %% exercise="18.3" difficulty="●●○" minutes=8
from course_lib.attention import delta_rule_step

# %% tags=["nbval-check-output"]
delta_rule_step = check("18.3", delta_rule_step)

# %% [markdown]
# **Bug hunt.** The memory of this version is right after every write, and yet one of its two results is not. Find the reason before
# you run the check.

# %% exercise="18.3" bug="answers_before_it_writes"
from course_tools.bank.lecture_18.delta_rule_step import (
    answers_before_it_writes as suspect,
)

# %% tags=["nbval-check-output"]
suspect = check("18.3", suspect)

# %% [markdown]
# Your step beside one step of gradient descent, whose gradient autograd computes:

# %%
S = torch.randn(8, 16, requires_grad=True)
k, v, beta = F.normalize(torch.randn(8), dim=0), torch.randn(16), torch.tensor(0.3)
gradient = torch.autograd.grad((v - S.mT @ k).square().sum() / 2, S)[0]
_, corrected = delta_rule_step(S.detach(), k, k, v, beta)
apart = (corrected - (S.detach() - beta * gradient)).abs().max()
print(f"largest difference: {apart:.0e}")
torch.testing.assert_close(corrected, S.detach() - beta * gradient)

# %% [markdown] tags=["predict"]
# **Predict a number** (exactly). Someone forgets to normalise the keys. A key has the length 2, and $\beta = 1$. The error before the
# write is 1. What is it afterwards?
#
# <details><summary>-3</summary>
#
# The write adds $\|k\|^2 e = 4e$ to what is read, and $e - 4e = -3e$. Every further write makes it worse: gradient descent with too
# large a rate diverges. Beyond $\beta\|k\|^2 = 2$ the rule is unstable, and this is why its keys are normalised.</details>
# <details><summary>0</summary>
#
# With β = 1 the value is replaced if the key has length 1. What does $k^\top k$ contribute when the memory is read again?</details>
# <details><summary>0.25</summary>
#
# A longer key does not divide the error: the write adds $\|k\|^2 e = 4e$ to what is read.</details>
# <details><summary>-1</summary>
#
# The length counts twice, in the write and when the memory is read again: $\|k\|^2 = 4$.</details>

# %% [markdown] tags=["try-it"]
# Three memories of four keys, A to D: each row of a state belongs to a key, each column to a value.
#
# **Try it.** Set `gate` to 0.9, and `one` to 0.5, so that half of each error is corrected. Say first which squares change. Then train
# it: the rule below runs your step 64 times, and β comes from the same gate.

# %% tags=["cover", "try-it"]
gate, one = 0.7, torch.tensor(1.0)
few = torch.tensor([gate]).log()
figures.show_states(
    {
        "sum": lambda S, k, v: S + k[:, None] * v,
        f"gate {gate}": lambda S, k, v: gated_step(S, k, k, v, few)[1],
        "delta rule": lambda S, k, v: delta_rule_step(S, k, k, v, one)[1],
    }
)


# %%
def correct(k, v, gate):
    """The delta rule, one write after the other, from an empty memory."""
    S = torch.zeros(len(k), k.shape[-1], v.shape[-1], device=k.device)
    for k_t, v_t, beta_t in zip(
        k.unbind(1), v.unbind(1), gate.sigmoid().unbind(1), strict=True
    ):
        _, S = delta_rule_step(S, k_t, k_t, v_t, beta_t)
    return S


torch.manual_seed(SEED)
corrects = learn(HeadWithMemory(correct).to(device()))
hot_delta, once_delta = shares_right(corrects)

# %% tags=["nbval-check-output"]
claim("18.delta", hot=hot_delta, once=once_delta)

# %% [markdown]
# Hot keys are answered almost always, and keys that were written once better than under the gate: nothing fades, and what is
# lost was disturbed by corrections of similar keys. The memory has as many numbers as that of the sum, and the model as many
# parameters.
#
# ## 5 Which memory for which data?
#
# The recorded study lets more rivals compete on hot keys: a gate for each channel, the delta rule with a gate, and softmax attention with a
# learned preference for what is recent: each score falls with the age of its key. The softmax keeps all 64 keys and values,
# eight times as many numbers as the memories. The
# two gates without a delta rule get three times as many updates as the others, and are still improving then.

# %% tags=["nbval-check-output"]
study = show_study("18_rewriting")
of = {name: study.scores(name, "accuracy") for name in study.names}
claim(
    "18.hot",
    delta=of["delta rule"],
    gate=of["gate"],
    channels=of["gate per channel"],
    softmax=of["softmax, growing cache"],
)

# %% [markdown] tags=["predict"]
# - **On hot keys the delta rule leads these memories**, after a third of the updates. (In each run the learning rate falls to
#   0: compare only the ends of the curves.) A gate for each channel comes closest: it can learn to fade only
#   the rows that its key uses, which corrects keys that have rows of their own. With 32 keys and 16 rows they have not.
# - A gate beside the delta rule adds nothing: nothing has to be forgotten but what is corrected.
# - **Softmax attention beats every memory on hot keys**, with a cache eight times as large. A cache of equal size would
#   hold the last eight writes. By counting, these and a guess answer at best 0.84 of the questions about hot keys, 0.18 of the
#   others and 0.51 of all: fewer than the sum.
#
# **The shape decides, too.** The same 256 numbers as 32 rows of 8 give each of our 32 keys a row of its own. A gate for each row can
# then fade one key alone.
#
# **Predict.** But a text has more keys than a memory has rows. Draw the twenty keys of a sequence from 128. What becomes of the gate for each row?
#
# <details><summary>A. It answers nearly everything: only twenty keys are written, and there are 32 rows.</summary>
#
# Which twenty is another matter in each sequence, and what rows a key uses is learned once for all.</details>
# <details><summary>B. It loses to the delta rule, since some of the twenty share their rows.</summary>
#
# Yes. To replace a value, a gate fades rows, with all keys that use them. The delta rule corrects along the key itself, whatever its
# direction, and leaves alone what is orthogonal to it.</details>
# <details><summary>C. Both rules fail: 128 keys are too many for 32 rows.</summary>
#
# The memory only has to hold the twenty that are written.</details>

# %% tags=["nbval-check-output"]
shapes = show_study("18_shapes")
of = {name: shapes.scores(name, "accuracy") for name in shapes.names}
sizes = "16 × 16", "32 × 8", "64 × 4"
claim(
    "18.shapes",
    **{f"delta_{shape[:2]}": of[f"{shape}: delta rule"] for shape in sizes},
    **{f"gate_{shape[:2]}": of[f"{shape}: gate per row"] for shape in sizes},
)

# %% [markdown]
# **So the delta rule is the right tool where keys are rewritten and outnumber the rows.** It leads in every shape, and most clearly where rows are few:
# each then serves many keys, which a gate fades together. With 64 rows the lead is small. Both rules had as many updates, and their rates
# and first gates were chosen in the same way.

# %% [markdown] tags=["predict"]
# **When the subject changes.** Now 48 writes go to twelve keys, and one of them, at a random place, is a *marker*: what was written before it
# no longer counts. A question about a key that has not been written since must be answered "none".
#
# **Predict.** Which memory of 16 × 16 numbers answers best?
#
# <details><summary>A. The delta rule: it removes old values wholly.</summary>
#
# Those of one key, the one that is written. At the marker, all twelve keys would have to be corrected.</details>
# <details><summary>B. A gate for the head: it can close at the marker.</summary>
#
# It can, and then the memory is empty. But after the marker keys are rewritten again, and must be told from those that are not.</details>
# <details><summary>C. The delta rule with a gate.</summary>
#
# Yes. The gate closes at the marker and is open elsewhere; every other write is corrected.</details>

# %% tags=["nbval-check-output"]
source(rewritten_keys.new_subject)
subjects = show_study("18_subjects")
of = {name: subjects.scores(name, "accuracy") for name in subjects.names}
claim(
    "18.subject",
    both=of["delta rule with gate"],
    gate=of["gate"],
    rows=of["gate per row"],
    delta=of["delta rule"],
)

# %% [markdown]
# **Here each rule does what the other cannot.** The delta rule errs most on what is gone: it removes one key at a time. The gate errs most on
# what is kept: it fades everything alike. Together they do both. On hot keys, where nothing tells when to forget, the same gate added
# nothing. (Softmax attention is ahead again, with a cache six times as large.)
#
# ## 6 See it

# %% [markdown] tags=["interactive"]
# **Explore.** One write in the plane of section 4. Which β ends on the dashed line, whatever the value is? What does the gate do to
# the start, and what to the end, when β is 1?
#
# `python3 course.py microscope` writes `microscope_memory.html`, a page with the trained memories of this lecture: write, rewrite and erase
# keys, and switch the correction off.


# %% tags=["interactive"]
def draw_write(keep=1.0, beta=1.0, value=5.0):
    """Draw a write by a sum and by the delta rule, after a gate `keep`."""
    figures.draw_correction(keep, beta, value)


explore(draw_write, keep=(0.0, 1.0, 0.1), beta=(0.0, 2.0, 0.1), value=(0.0, 5.0, 0.5))

# %% [markdown] tags=["quiz"]
# ## 7 Exit quiz
#
# **Question 1.** All keys are orthogonal to each other, of length 1, and each is written once with β = 1. How do the delta rule and
# the sum differ?
#
# <details><summary>A. The delta rule reads more exactly.</summary>
#
# What does the memory say of a key that is orthogonal to all earlier ones?</details>
# <details><summary>B. The sum reads more exactly, since nothing is removed.</summary>
#
# Nothing is removed by the delta rule either: the error is the whole value.</details>
# <details><summary>C. Not at all.</summary>
#
# Right. The memory reads 0 under a new orthogonal key, so the error is the value itself, and the delta rule adds it. It has
# something to correct only where a key is like an earlier one.</details>
#
# **Question 2.** A gate of a head has the logarithm −0.7 at every position. What does the mask hold two positions below its diagonal?
#
# <details><summary>A. About 0.25</summary>
#
# Right: the product of two gates of a half, $e^{-1.4}$.</details>
# <details><summary>B. −1.4</summary>
#
# That is the logarithm.</details>
# <details><summary>C. About 0.13</summary>
#
# Three gates. The gate of the writing position itself fades what was there before, not what it writes.</details>
#
# **Question 3.** A conversation of 100,000 tokens: somewhere at its beginning a number was mentioned once. Which model can be relied
# upon to return it, and at what cost?
#
# <details><summary>A. A delta rule: it overwrites nothing but equal keys.</summary>
#
# *Similar* keys: 16 dimensions, or 128, hold only as many orthogonal keys. With 100,000 writes, many keys are similar to others.</details>
# <details><summary>B. Softmax attention, whose cache grows with the text.</summary>
#
# Right, at the cost of 100,000 keys and values in each layer and head. No state of fixed size can hold everything. Hence the
# hybrids in the list below.</details>
# <details><summary>C. A gate for each channel, if it learns to stay open.</summary>
#
# Then it is a sum, and as full.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague writes: "DeltaNet corrects its memory, so it is simply better than Mamba-2, which
# only forgets." What do you answer? Use two measurements from this lecture.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | explains in one sentence what each of the two rules does to a value that is written again |
# | 1 | names data on which the delta rule leads, with a number |
# | 1 | names data on which it is not enough, with a number |
# | 1 | compares at equal state, and mentions the price: as written here, one step after the other |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 8 What came of it
#
# - **Forgetting.** RetNet (2023) fades each head at a fixed rate. GLA (Yang et al. 2024a) has a gate for each channel, Mamba-2 (Dao and
#   Gu 2024) one for each head: a state-space model that is attention under your mask.
# - **Correcting.** Schlag et al. (2021) gave linear attention the delta rule. It seemed to need a loop over all positions, until Yang et
#   al. (2024b) wrote a whole chunk of it as products of matrices and one triangular system.
# - **Both.** Gated DeltaNet (Yang et al. 2025) is your function. Qwen3-Next (2025) has it in three of four layers, **Kimi Linear** (2025)
#   with a gate for each channel. In RWKV-7 (2025) the removed and the written key may differ.
# - **Hybrids.** Both keep softmax attention in every fourth layer. MiniMax-M1 (2025) had it in every eighth; its successor M2 has it in
#   every layer again. A text may hold more than any state of fixed size.
# - **Learning while reading.** In Titans (Behrouz et al. 2024) and test-time training (Sun et al. 2024) the memory that learns is a
#   small network, in place of a matrix.
#
# **Further reading.** Schlag et al. 2021, *Linear Transformers Are Secretly Fast Weight Programmers* (https://arxiv.org/abs/2102.11174)
# · Sun et al. 2023, *Retentive Network* (https://arxiv.org/abs/2307.08621) · Yang et al. 2024a, *Gated Linear Attention Transformers*
# (https://arxiv.org/abs/2312.06635) · Dao and Gu 2024, *Transformers are SSMs* (https://arxiv.org/abs/2405.21060) · Yang et al. 2024b,
# *Parallelizing Linear Transformers with the Delta Rule over Sequence Length* (https://arxiv.org/abs/2406.06484) · Yang et al. 2025,
# *Gated Delta Networks* (https://arxiv.org/abs/2412.06464) · Grazzi et al. 2025, *Unlocking
# State-Tracking* (https://arxiv.org/abs/2411.12537) · Sun et al. 2024, *Learning to (Learn at Test Time)*
# (https://arxiv.org/abs/2407.04620) · Behrouz et al. 2024, *Titans* (https://arxiv.org/abs/2501.00663) · Peng et al. 2025, *RWKV-7
# "Goose"* (https://arxiv.org/abs/2503.14456) · Qwen Team 2025, *Qwen3-Next* (https://huggingface.co/Qwen/Qwen3-Next-80B-A3B-Instruct) · Kimi Team 2025, *Kimi Linear* (https://arxiv.org/abs/2510.26692) · MiniMax 2025, *MiniMax-M1* (https://arxiv.org/abs/2506.13585).

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections. Each stands alone, and their exercises are extra points.

# %% [markdown]
# ## Learning in context
#
# A memory that corrects itself learns while it reads. What does a *trained* head learn to do? Give it problems of regression: sixteen pairs
# of an input $x$ of 8 numbers and $y = w^\top x$, then a seventeenth $x$ whose $y$ is asked for. Each sequence has another $w$, so
# training cannot teach it $w$, but only how to find it. All numbers in $x$ and $w$ are drawn from the standard normal distribution.
#
# Two numbers are known. *One* step of gradient descent from $w = 0$ on all $N$ pairs has, at its best rate $1/(N + d + 1) = 0.04$, the
# mean squared error $d\,(d + 1)/(N + d + 1) = 2.88$. Sixteen steps, one for each pair and its whole error, leave $d\,(1 - 1/d)^N = 0.94$. Predicting 0 leaves $d = 8$.
#
# A pair is the token $(x, y)$, the question $(x, 0)$. For the delta rule the key has length 1, and its value is divided by the same
# number.


# %%
def by_delta_rule(q, k, v, gate):
    length = k.norm(dim=-1, keepdim=True)
    return q @ correct(k / length, v / length, gate.expand(k.shape[:2]))


class Regression(nn.Module):
    """Read pairs x (B, N, 8), y (B, N, 1); predict the y of asked (B, 1, 8)."""

    def __init__(self, read, d=8):
        super().__init__()
        self.read, self.gate = read, nn.Parameter(torch.zeros(()))
        self.W_q, self.W_k = (nn.Linear(d + 1, d + 1, bias=False) for _ in "qk")
        self.W_v = nn.Linear(d + 1, 1, bias=False)

    def forward(self, x, y, asked):
        pairs, question = torch.cat([x, y], dim=-1), F.pad(asked, (0, 1))
        q, k, v = self.W_q(question), self.W_k(pairs), self.W_v(pairs)
        return self.read(q, k, v, self.gate)


def problems(n, seed, d=8, N=16):
    generator = torch.Generator().manual_seed(seed)
    while True:
        x = torch.randn(n, N + 1, d, generator=generator)
        y = x @ torch.randn(n, d, 1, generator=generator)
        *pairs, asked, wanted = x[:, :N], y[:, :N], x[:, N:], y[:, N:]
        yield [part.to(device()) for part in (*pairs, asked, wanted)]


def squared_error(model, problem):
    return F.mse_loss(model(*problem[:3]), problem[3])


# %%
reads = {
    "sum": lambda q, k, v, gate: q @ add(k, v, gate),
    "delta": by_delta_rule,
    "softmax": lambda q, k, v, gate: (q @ k.mT).softmax(-1) @ v,
}
errors = {name: [] for name in reads}
for name, read in reads.items():
    for seed in range(3):
        torch.manual_seed(seed)
        head = Regression(read).to(device())
        run = train(head, problems(128, seed), squared_error, steps=1_200, lr=0.01)
        for _ in run:
            pass
        with torch.no_grad():
            tests = next(problems(20_000, 100 + seed))
            errors[name].append(squared_error(head, tests).item())
        if name == "sum":
            compares = head.W_q.weight.mT @ head.W_k.weight * head.W_v.weight[0, -1]
rates = compares[:8, :8].detach().cpu()
print("a corner of W_qᵀ W_k, times the weight of y in W_v:")
print("\n".join(" ".join(f"{x:6.3f}" for x in row[:4]) for row in rates.tolist()[:4]))

# %% tags=["nbval-check-output"]
claim("18.context", **errors, rate=rates.diagonal().mean())

# %% [markdown]
# **The trained sum takes one step of gradient descent, at the best rate; the trained delta rule takes sixteen** (von Oswald et al. 2023,
# https://arxiv.org/abs/2212.07677). Queries and keys compare nothing but the two $x$, all eight numbers alike, and the value is $y$. Softmax attention
# is the wrong tool here: it can only average the $y$ that it has read. (Least squares would be exact: 16 pairs determine 8 numbers.)

# %% [markdown]
# ## How many pairs fit in?
#
# The usual test of a memory is *multi-query associative recall* (Arora et al. 2024, https://arxiv.org/abs/2312.04927): each key is
# written once, and there are more and more of them. The recorded study trains every memory anew on 8, 16, 32 and 64 pairs, whose keys
# are drawn from 128.

# %%
pairs = show_study("18_pairs")

# %% tags=["guard", "nbval-check-output"]
of = {name: pairs.scores(name, "accuracy") for name in pairs.names}
claim(
    "18.pairs",
    sum=of["sum, 64 pairs"],
    delta=of["delta rule, 64 pairs"],
    wide=of["delta rule, 32 × 16, 64 pairs"],
    softmax=of["softmax, growing cache, 64 pairs"],
)

# %% [markdown]
# **Where nothing is rewritten, there is little to correct**: the sum and the delta rule are level, however many pairs there are. What counts
# is room. As many pairs as the memory has rows are nearly all found; of four times as many, two in three. With twice the rows more than
# nine in ten are found, and softmax attention, which keeps every pair, finds all.

# %% [markdown]
# ## The delta rule in chunks
#
# Each error depends on all earlier writes, so the delta rule seems to need a loop. But the dependence is linear. Call $u_i$
# what is written under $k_i$, so that an empty memory becomes $\sum_j k_j u_j^\top$. Within a chunk that begins with the memory $S$,
#
# $$u_i = \beta_i \Big(v_i - S^\top k_i - \sum_{j<i} (k_j^\top k_i)\, u_j\Big)$$
#
# **By hand**, from an empty memory with β = 1: the keys (1, 0) and (0.6, 0.8), the values 3 and 5. Then $u_1 = 3$, and $u_2 = 5 -
# 0.6 \cdot 3 = 3.2$, the error of section 4. (With a gate of 0.5 at the second write, what it finds is halved: $u_2 = 5 - 0.5 \cdot 0.6
# \cdot 3 = 4.1$.) In a chunk these are $T$ equations whose matrix is lower triangular, with ones on its diagonal:
#
# $$(I + \mathrm{Diag}(\beta)\, A)\, U = \mathrm{Diag}(\beta)\,(V - K S) \qquad A = \text{the part of } K K^\top
# \text{ below its diagonal}$$
#
# One triangular solve gives all $u_i$. Then the contexts are $C = Q S + (Q K^\top \odot \text{causal mask})\, U$, and the next chunk
# begins with $S + K^\top U$. With a decay, let $\gamma$ be the running product of the gates, a number for each row, and $L$ your mask, with $\gamma_T$ and $L_T$
# at the last position:
#
# $$(I + \mathrm{Diag}(\beta)(A \odot L))\, U = \mathrm{Diag}(\beta)(V - \gamma \odot (K S)) \qquad C = \gamma \odot (Q S) + (QK^\top \odot
# L)\, U \qquad S \leftarrow \gamma_T S + (L_T \odot K)^\top U$$
#
# | name | shape |
# | --- | --- |
# | `q`, `k`; `v` | (…, T, d_k); (…, T, d_v) |
# | `beta`, `log_decay` | (…, T); `log_decay` may be None |
# | `chunk` | positions in a chunk; the last chunk may be shorter |
# | result | context (…, T, d_v) |
#
# Loop over chunks, not over positions: the check counts your operations.

# %% exercise="18.4" difficulty="●●●" minutes=20
from course_lib.attention import chunked_delta_attention

# %% tags=["nbval-check-output"]
chunked_delta_attention = check("18.4", chunked_delta_attention)

# %% [markdown]
# ## Mamba-2 is attention
#
# A **state-space model** describes a state that decays and is pushed by an input: $\dot h = A h + B x$, read as $y = C^\top h$. In
# Mamba-2, $A$ is one negative number for each head, and each token has its own $B$ (a key), $C$ (a query) and step length $\Delta$. In
# a step the state fades by $e^{\Delta A}$, and $\Delta\, B\, x^\top$ is added:
#
# $$h_t = e^{\Delta_t A}\, h_{t-1} + B_t\, (\Delta_t x_t)^\top \qquad y_t = h_t^\top C_t$$
#
# Put it beside section 2: the keys are $B$, the queries $C$, the values $\Delta x$, and the logarithm of the gate is $\Delta A$. So all outputs
# are $(C B^\top \odot L)(\Delta \odot X)$, with your mask. **By hand:** for $A = -\ln 2$ and $\Delta = 1$ the state is halved in each step, and
# for $\Delta = 2$ it is quartered, while the input counts twice: a long step is a token that matters.
#
# | name | shape |
# | --- | --- |
# | `x`, `dt` | (…, T, d), (…, T): inputs, and the lengths Δ of their steps |
# | `A` | a negative number, or a tensor that broadcasts to (…), one for each head |
# | `B`, `C` | (…, T, n) |
# | result | (…, T, d) |

# %% exercise="18.5" difficulty="●●○" minutes=10
from course_lib.attention import ssd

# %% tags=["nbval-check-output"]
ssd = check("18.5", ssd)

# %% [markdown]
# ## Build it
#
# **Build task (30 minutes, 13 points).** Write a model that answers questions about hot keys, in both forms, and the loop that trains
# it, from an empty cell. In training, one parallel form reads the whole sequence; then `step` reads token by token, in constant memory. Writes
# and questions are tokens of one sequence now: a token is 17 · key + value, which writes one of 16 values under one of 32 keys, or 17 ·
# key + 16, which asks. A sequence writes 64 times and then asks 8 times. Everything is allowed except finished layers of the library.
# Define what you need above `train_memory`, in the same cell.
#
# | method | arguments | result |
# | --- | --- | --- |
# | `model(tokens)` | (B, T), T ≤ 72 | logits (B, T, 16); where a token asks, they are its answer |
# | `model.start(tokens)` | (B, T), T ≥ 0 | state |
# | `model.step(token, state)` | (B,), and a state | logits (B, 16), and the new state |
#
# The check calls `train_memory(tokens, answers, n_steps)` once, with 10,000 sequences (N, 72), the answers to their questions (N, 8), and
# `n_steps=500`. The function has 60 seconds of processor time; a good solution needs about twelve.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the model maps tokens (B, T) to logits (B, T, 16) |
# | 1 | at most `n_steps` updates and at most 20,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the returned model gives the same logits for the same tokens |
# | 1 | at least 40 % of its answers are right |
# | 1 | the logits depend on the tokens of their own sequence so far, and on nothing else |
# | 2 | both forms give the same logits |
# | 1 | the state holds at most 300 numbers for each sequence, and does not grow |
# | 1 | a step leaves the state that it is given as it is |
# | 1 | at least 85 % of the answers about keys that are written once are right |
# | 2 | at least 85 % of the answers about keys that are rewritten are the newest value |

# %% exercise="18.6" difficulty="●●●" minutes=30
from course_tools.bank.lecture_18.train_memory import train_memory

# %% tags=["nbval-check-output"]
train_memory = check("18.6", train_memory)

# %% [markdown]
# ## Let it write
#
# Gated DeltaNet surrounds your function by what a layer of a language model needs: a short convolution, by which each position also sees the
# three before it, a norm, and a gate on the output. No position is encoded, since memory and convolution know the order. Two such
# layers learn the characters of Python's language reference, in pieces of 64.

# %%
source(GatedDeltaAttention)
text = language_reference(seed=0)
characters = Vocabulary.of([text.train])
known, new = (
    torch.tensor(characters.encode(part)).to(device())
    for part in (text.train, text.test)
)


def text_loss(model, batch):
    """Bits for each next character."""
    return next_token_loss(model(batch[0]), batch[0]) / math.log(2)


torch.manual_seed(SEED)
writer = GatedDeltaNet(len(characters), Sizes(64, 2, 160, 2), chunk=32).to(device())
pieces = batches(known.unfold(0, 64, 1), batch_size=8, seed=SEED)
_ = fit(
    writer, text_loss, pieces, steps=800, lr=6e-3, warmup=50, y="bits per character"
)

# %% [markdown] tags=["try-it"]
# It reads the prompt, then each character is one `step`. The text is longer than the pieces of its training, and does not fall apart.
# (Rows of spaces and bars belong to tables, of which the reference has some.)
#
# **Try it.** Change the prompt, and the temperature 0.5.


# %% tags=["try-it"]
@torch.no_grad()
def write(prompt, n, temperature=0.5):
    """Continue a text by n characters; return it, and how many numbers are kept."""
    tokens = torch.tensor([characters.encode(prompt)]).to(device())
    memory = writer.start(tokens[:, :-1])
    said, last = prompt, characters.encode(prompt[-1])
    for _ in range(n):
        logits, memory = writer.step(torch.tensor(last).to(device()), memory)
        last = torch.multinomial((logits[0] / temperature).softmax(-1), 1).tolist()
        said += characters.decode(last)
    return said, sum(part.numel() for layer in memory.layers for part in layer)


torch.manual_seed(SEED)
said, kept = write("If the object is ", 300)
print(said, f"(after {len(said)} characters, {kept:,} numbers are kept)", sep="\n\n")

# %% tags=["nbval-check-output"]
with torch.no_grad():
    long = new.unfold(0, 256, 512)
    logits = writer(long)[:, :-1]
    bits = F.cross_entropy(logits.mT, long[:, 1:], reduction="none") / math.log(2)
counts = KneserNey(known.cpu().unfold(0, 6, 1), len(characters))
p = counts.probability(long.cpu().unfold(1, 6, 1).flatten(0, 1))
inside, beyond = slice(31, 63), slice(127, None)
far = bits[:, beyond].mean()
claim("18.text", inside=bits[:, inside].mean(), beyond=far, counts=-p.log2().mean())

# %% [markdown]
# The counts are ahead, as they are of all our small networks on this text. But does the network read as
# well as a model whose cache grows? And is it the memory that reads, or the short convolution in front of it, which brings the last
# characters together before any memory is asked? **The control** is a Llama of the same size, without and with such a convolution of its queries,
# keys and values.

# %%
source(experiments.ConvolvedAttention)
window = window_of_tokens(256, 64).to(device())
reads = {}
for width in (1, 4):
    torch.manual_seed(SEED)
    rival = experiments.ConvolvedLlama(len(characters), width).to(device())
    pieces = batches(known.unfold(0, 64, 1), batch_size=8, seed=SEED)
    for _ in train(rival, pieces, text_loss, steps=800, lr=6e-3, warmup=50):
        pass
    with torch.no_grad():
        logits = rival(long, window)[:, :-1]
        reads[width] = F.cross_entropy(logits.mT, long[:, 1:], reduction="none")
        reads[width] = reads[width] / math.log(2)

# %% tags=["nbval-check-output"]
claim(
    "18.convolution",
    without=reads[1][:, inside].mean(),
    softmax=reads[4][:, inside].mean(),
    window=reads[4][:, beyond].mean(),
    delta=bits[:, inside].mean(),
)

# %% [markdown]
# **In this run, most of the lead over plain softmax attention is the short convolution's.** With it, softmax attention and the gated
# delta network are 0.05 bits apart, and as much far beyond the length of their training, where attention has a window: 2.32 and 2.27. What the memory
# of fixed size buys is size: this Llama keeps 256 numbers for each character, a quarter of a million after 1,000, unless a window makes
# it forget; the memory keeps 5,248, however long the text.

# %% tags=["ledger"]
ledger()
