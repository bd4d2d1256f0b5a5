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
# # 06 · The Universal Transformer
#
# A Universal Transformer applies one block again and again, and each position decides when to halt.
#
# You will write the halting rule, the adaptive step and the loss of a model that adds binary numbers. Trained with eight steps, it takes up to
# twenty where a carry travels far; a stack of eight layers that looks one column down cannot. No later lecture needs this one.
#
# **Prerequisites:** lecture 05 (positions, blocks). **Time:** {minutes}. {measured}
#
# ![](diagram:universal_transformer)

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention import MultiHead
from course_lib.blocks import AttentionWeights, Block, FeedForward, FeedForwardWeights
from course_lib.blocks import NormWeights, SelfAttention, encoder_block
from course_lib.datasets import Sums, sums
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.models import step_encoding
from course_lib.primitives import HaltingStep, adaptive_step, halting_distribution
from course_lib.primitives import mix_states, ponder_cost, sinusoidal_positions
from course_lib.shapes import Mask, TokenFeatures
from course_lib.training import batches, linear_decay, train
from course_tools.lectures.lecture_06.steps_of_sums import add, far_sums, long_carries
from course_tools.lectures.lecture_06.steps_of_sums import show_budgets, show_steps
from course_tools.notebook import check, claim, device, explore, ledger, plots
from course_tools.notebook import predict, recorded, show, show_study
from course_tools.notebook.authorship import whose

# %% [markdown]
# ## 1 Eight layers, and a carry that travels nine columns
#
# To add two binary numbers on paper, you start with the lowest column, write its digit, and carry to the next column. A column
# 1 + 1 always sends a carry, a column 0 + 0 never does, and a column 1 + 0 or 0 + 1 passes on whatever it receives. So a carry
# can travel far.
#
# The input is the sequence of columns, lowest first: the digits $a$ and $b$ give the token $2a + b$. The output is one digit for
# each column. All models learn from numbers of at most ten digits, at a random offset among 21 columns, so that no position is new in
# the test: one half is random, and in the other, of eight digits, most columns pass the carry on. As on paper, a column sees only
# itself and the next lower one: the **local mask**. `walks` is the distance of the column that decides the carry which a column
# receives: 1 if it is the preceding column, 3 if the two in between only pass the carry on, 0 in the lowest column.

# %%
T, N_STEPS = 21, 8
short = sums(6_000, 1, 500, n_digits=10, T=T)
long = sums(1, 1, 500, n_digits=20, T=T, seed=1)
random, ten, twenty = (
    Sums(*(part.to(device()) for part in each))
    for each in (short.train, short.test, long.test)
)
passing = long_carries(6_000, 8, T, device())
known = Sums(*(torch.cat(both) for both in zip(random, passing, strict=True)))
for name, row in zip(("columns", "digits", "walks"), ten, strict=True):
    print(f"{name:>8} {row[0].tolist()}")

# %% [markdown] tags=["predict"]
# **Predict a number** (exactly). A stack of eight layers works under the local mask. From how many columns away can a carry
# reach a digit, at most?
#
# <details><summary>8</summary>
#
# Each layer hands it on by one column, and there is no ninth layer.</details>
# <details><summary>1</summary>
#
# That is one layer. After it, the next lower column's state contains what *its* next lower column was.</details>
# <details><summary>20</summary>
#
# Attention has no distance, but this mask has: the score of a column that is two away is −∞.</details>
# <details><summary>9</summary>
#
# The digit depends on nine columns, but one of them is its own.</details>


# %%
def block(d=32):
    """The encoder block of lecture 05 with four heads, untrained."""
    heads = MultiHead(d, 4, fused_scaled_dot_product_attention, bias=False)
    return Block(SelfAttention(heads), FeedForward(d, 2 * d), d)


class Stack(nn.Module):
    """From columns (B, T) to two logits each, and the states they are read from."""

    def __init__(self, n_layers, d=32):
        super().__init__()
        self.embed, self.readout = nn.Embedding(4, d), nn.Linear(d, 2)
        self.blocks = nn.ModuleList(block(d) for _ in range(n_layers))

    def forward(self, columns, mask):
        x = self.embed(columns)  # (B, T, d)
        x = x + sinusoidal_positions(*x.shape[1:], x.device)
        for each in self.blocks:
            x = each(x, mask)
        return self.readout(x), x


def learn(model, loss, steps=400, lr=5e-3, data=known):
    """Train a model on known sums, 16 in an update, by Adam.

    The rate rises to lr in the first quarter of the updates, then falls linearly to 0.
    """
    stream = batches(data.columns, data.digits, batch_size=16, seed=0)
    recipe = {"warmup": steps // 4, "schedule": linear_decay, "clip": 1.0}
    for step in train(model, stream, loss, steps=steps, lr=lr, **recipe):
        if (step.index + 1) % (steps // 4) == 0:
            print(f"update {step.index + 1}: loss {step.loss:.3f}")
    return model.eval()


@torch.no_grad()
def exact(model, part, mask):
    """The share of sums that are right in every digit."""
    right = model(part.columns, mask)[0].argmax(-1) == part.digits
    return right.all(-1).float().mean().item()


ALL = torch.ones(T, T, dtype=torch.bool, device=device())
CAUSAL, LOCAL = ALL.tril(), ALL.tril().triu(-1)


def nats_under(mask):
    """The loss of a model under a mask: nats per digit."""

    def loss(model, batch):
        columns, digits = batch
        return F.cross_entropy(model(columns, mask)[0].mT, digits)

    return loss


torch.manual_seed(0)
eight_layers = Stack(8).to(device())
eight_layers = learn(eight_layers, nats_under(LOCAL), steps=1_000, lr=2e-3)

# %% [markdown]
# Now sums of numbers as long as the columns allow, in which one carry, or its absence, travels exactly $k$ columns; 200 for
# each $k$:

# %%
distances = range(1, 20)
far = {k: far_sums(k, 200, T, device()) for k in distances}


def by_carry(model, mask=LOCAL):
    """The share of right sums for each distance that the carry travels."""
    return [exact(model, far[k], mask) for k in distances]


right = {"eight layers": by_carry(eight_layers)}
for k in (1, 4, 8, 9, 15):
    print(f"{k:>2} columns: {right['eight layers'][k - 1]:.2f}")

# %% [markdown]
# The stack is right up to eight columns. From nine on it guesses whether a carry arrives, and no training can mend that. More layers
# would, but how many? There is no longest number.
#
# ## 2 One block, again and again
#
# The **Universal Transformer** gives each column several looks. It applies the same block at steps $t = 1, 2, \dots$: it is
# recurrent in *depth*, whereas an RNN is recurrent along the sequence.
#
# **By hand.** A column asks the next lower one, and guesses "no carry" at first. The sum is 7 + 1, in binary digits 0111 +
# 0001 = 1000; the table has the lowest column first, so read the numbers from right to left. It shows the digits after each
# step, in bold where they are certain:
#
# | columns, lowest first | 1 + 1 | 1 + 0 | 1 + 0 | 0 + 0 |
# | --- | --- | --- | --- | --- |
# | distance of the carry | – | 1 | 2 | 3 |
# | first guess | **0** | 1 | 1 | 0 |
# | after step 1 | **0** | **0** | 1 | 0 |
# | after step 2 | **0** | **0** | **0** | 0 |
# | after step 3 | **0** | **0** | **0** | **1** |
#
# A column whose carry comes from $w$ columns away is certain after $w$ steps. The rule is the same in every column and at every
# step, so one block is enough, and the rule does not mention the length of the number; only the number of steps depends on it.
#
# So that the block can tell the steps apart, sinusoids of the step $t$ are added to those of the position $i$ (Dehghani et al. 2019,
# eqs. 4 to 7; `step_encoding`, an exercise in *Going further*):
#
# $$H^t = \mathrm{Block}\!\left(H^{t-1} + P^t\right) \qquad P^t_{i,\,2j} = \sin\!\left(i / 10000^{2j/d}\right) + \sin\!\left(t / 10000^{2j/d}\right)$$
#
# ## 3 When to halt
#
# In 7 + 1, one column needs one step, another three. With **adaptive computation time** (Graves 2016), each position computes a
# halting value $h_n$ between 0 and 1 after each step $n$, and halts as soon as these values sum to at least $1 - \varepsilon$. (They
# are often called probabilities, but may sum to more than 1.)
#
# **By hand**, with $\varepsilon = 0.01$:
#
# | step | halting value h | sum of h before it | weight p of the step |
# | --- | --- | --- | --- |
# | 1 | 0.3 | 0 | 0.3 |
# | 2 | 0.5 | 0.3 | 0.5 |
# | 3 | 0.4 | 0.8 | 0.2: it halts, and gets what is left |
# | 4 | 0.9 | 1.2 | 0: it has halted |
#
# The position takes $N = 3$ steps. The last one gets the **remainder** $R = 1 - 0.8$, not its own 0.4, so that the weights sum
# to 1. In general (eqs. 6 to 8):
#
# $$p_n = \begin{cases} h_n & n < N \\ R = 1 - \sum_{m<N} h_m & n = N \\ 0 & n > N \end{cases}$$
#
# A position that never reaches $1 - \varepsilon$ halts at the last step allowed. Without $\varepsilon$, none could halt after a
# single step, since a sigmoid never reaches 1.
#
# Each position has a **budget** of 1, and every step takes its h from it; the step that would overdraw it gets what is left.
# In the figure, the position of the second bar halts at once: 0.995 is within ε of 1.

# %% tags=["cover"]
show_budgets([0.3, 0.5, 0.4, 0.9], [0.995, 0.5, 0.5, 0.5])

# %% [markdown]
# | name | shape |
# | --- | --- |
# | `h`, result | (…, n_steps) |
# | `epsilon` | a number, 0.01 |

# %% exercise="06.2" difficulty="●●○" minutes=15
from course_lib.primitives import halting_distribution

# %% tags=["nbval-check-output"]
halting_distribution = check("06.2", halting_distribution)

# %% [markdown]
# The output of a position is the mean of its states, weighted by $p$ (eq. 9); above, $0.3 s_1 + 0.5 s_2 + 0.2 s_3$. Because the
# early states take part, the loss has a gradient with respect to $h$, and *when to halt* can be learned.
#
# | name | shape |
# | --- | --- |
# | `states` | (…, n_steps, d) |
# | `h` | (…, n_steps) |
# | result | (…, d) |

# %% exercise="06.6" difficulty="●○○" minutes=5
from course_lib.primitives import mix_states

# %% tags=["nbval-check-output"]
mix_states = check("06.6", mix_states)

# %% [markdown]
# ## 4 The adaptive step
#
# The halting value is $h_n = \sigma(w \cdot s_n + b)$, computed from the new state. Once a position has halted, its state **stays
# as it is**, and the others can still attend to it: the next column may need the carry that it found.
#
# | name | shape |
# | --- | --- |
# | `x`, `y` | (B, T, d_model): states before the step, and the output of the block |
# | `halt` | `(w, b)`, (d_model,) and () |
# | `h` | (B, T, n), n may be 0; returned as (B, T, n + 1) |

# %% exercise="06.5" difficulty="●●○" minutes=15
from course_lib.primitives import adaptive_step

# %% tags=["nbval-check-output"]
adaptive_step = check("06.5", adaptive_step)

# %% [markdown]
# **Bug hunt.** The function below runs, returns the right shapes and resembles yours. Which line is wrong, and for which inputs
# does the result differ? Decide before you run the check.

# %% exercise="06.5" bug="halts_the_whole_sentence"
from course_tools.bank.lecture_06.adaptive_step import (
    halts_the_whole_sentence as suspect,
)

# %% tags=["nbval-check-output"]
suspect = check("06.5", suspect)

# %% [markdown]
# ## 5 The whole model, and what a guess costs
#
# The model reads two logits off the state after *each* step; the answer is their mixture. Its loss has two parts.
#
# **The price.** Nothing on paper says when to stop, so each column pays a *price* (Graves: time penalty) for its **ponder cost**
# $\rho = N + R$, 3.2 in the example above. $N$ is a count and has no gradient, but $R$ has: raise the first h from 0.3 to 0.4, and $R$
# falls from 0.2 to 0.1. Training does so until the sum reaches $1 - \varepsilon$ one step sooner; then $N$ falls by 1.
#
# **The nats.** Graves takes the cross-entropy of the mixture. That leaves a hole. Suppose that a column knows its carry after step 3:
#
# | of a column | step 1 | step 2 | step 3 |
# | --- | --- | --- | --- |
# | logit of the right digit over the other | 0 | 0 | 20 |
# | weight, if it waits | 0 | 0 | 1 |
# | weight, if it spends its budget at once | 0.7 | 0 | 0.3 |
#
# The second row of weights gives the mixture $0.3 \cdot 20 = 6$: a loss of nearly 0, as the first does, and a lower price ($R$ is 0.3
# and not 1). So a column learns to spend early, on steps at which it knows nothing. But then each step of waiting costs a little
# more of the rest, and where a carry comes from far away, too little is left for the answer.
#
# We take the cross-entropy of *each step* and weight that (as PonderNet does, Banino et al. 2021). A guess costs ln 2 = 0.69 nats, so
# the second row costs $0.7 \cdot 0.69 = 0.49$. Waiting is right if it is cheaper: at a price of 0.06, eleven steps cost less than a
# guess, and the training allows eight.
#
# **Write this loss.** With the nats 0.7, 0.4, 0.1 and 0.1 of its steps, the column of section 3 pays $0.3 \cdot 0.7 + 0.5 \cdot 0.4 + 0.2
# \cdot 0.1 = 0.43$ for its guesses and $0.06 \cdot 3.2 = 0.19$ for its steps: 0.62. The loss is the mean over all columns. Use your
# `halting_distribution`, and the library's `ponder_cost(h)`, which is $N + R$.
#
# | name | shape |
# | --- | --- |
# | `nats`, `h` | (…, n_steps) |
# | `price` | a number, here 0.06 |
# | result | one number |

# %% exercise="06.8" difficulty="●●○" minutes=6
from course_tools.bank.lecture_06.loss_of_steps import loss_of_steps

# %% tags=["nbval-check-output"]
loss_of_steps = check("06.8", loss_of_steps)

# %% [markdown]
# The next cell is a Universal Transformer around your functions. At first nothing halts, and all steps count alike: the columns must
# learn to add before they learn to halt.


# %%
class Adder(nn.Module):
    """A Universal Transformer: from columns (B, T) to an answer of two logits each.

    Also returns all h (B, T, n_steps), and the logits of each step (B, T, n_steps, 2).
    """

    def __init__(self, n_steps=N_STEPS, d=32):
        super().__init__()
        self.n_steps = n_steps
        self.embed, self.block = nn.Embedding(4, d), block(d)
        self.halt, self.readout = nn.Linear(d, 1), nn.Linear(d, 2)
        nn.init.zeros_(self.halt.weight)
        nn.init.constant_(self.halt.bias, -9.0)  # h = 0.0001: nothing halts at first

    def forward(self, columns, mask):
        halt = self.halt.weight[0], self.halt.bias[0]
        x = self.embed(columns)  # (B, T, d)
        states, h = [], x.new_zeros(*columns.shape, 0)
        for t in range(1, self.n_steps + 1):
            y = self.block(x + step_encoding(*x.shape[1:], t, x.device), mask)
            x, h = adaptive_step(x, y, halt, h)
            states.append(x)
        logits = self.readout(torch.stack(states, dim=-2))
        return mix_states(logits, h), h, logits


def nats_of_steps(logits, digits):
    """The cross-entropy of each step (B, T, n_steps)."""
    truth = digits[..., None].expand(logits.shape[:-1])
    return F.cross_entropy(logits.movedim(-1, 1), truth, reduction="none")


def every_step(mask):
    """The loss of a model under a mask: nats per digit, the mean of all steps."""
    return lambda model, batch: nats_of_steps(model(batch[0], mask)[2], batch[1]).mean()


def priced(mask, price=0.06):
    """Your loss of a model under a mask."""

    def loss(model, batch):
        _, h, logits = model(batch[0], mask)
        return loss_of_steps(nats_of_steps(logits, batch[1]), h, price)

    return loss


def trained(mask, price=0.06):
    """Let a model learn to add, then to halt."""
    model = learn(Adder().to(device()), every_step(mask))
    nn.init.constant_(model.halt.bias, -1.0)  # h = 0.27: four steps at first
    return learn(model, priced(mask, price), steps=600, lr=2e-3)


# %% [markdown]
# (With the price, the loss cannot fall below 0.12: no column takes less than one step, and then $\rho = 1 + 1$.)

# %%
torch.manual_seed(1)
adder = trained(LOCAL)

# %% tags=["nbval-check-output"]
claim("06.l", ten=exact(adder, ten, LOCAL), twenty=exact(adder, twenty, LOCAL))

# %% [markdown] tags=["predict"]
# Now the carries of section 1. After the training, the model may take more steps than the eight that it was trained with:
# `n_steps` is only the number of turns of a loop.
#
# **Predict a number** (exactly). It may take twelve steps. From how many columns away can a carry arrive, at most?
#
# <details><summary>12</summary>
#
# Each step brings it one column nearer. And a column that has its carry has halted, so that further steps do not harm
# it.</details>
# <details><summary>8</summary>
#
# The training fixed the block, not the number of turns: "ask the next lower column" is the same rule in step nine.</details>
# <details><summary>20</summary>
#
# The rule is the same in every step, but a step moves the carry by one column only.</details>

# %%
for steps in (8, 12, 20):
    adder.n_steps = steps
    right[f"adaptive, {steps} steps"] = by_carry(adder)
adder.n_steps = N_STEPS
figure = plots.curves(
    {name: (distances, shares) for name, shares in right.items()},
    "columns that the carry travels",
    "right sums",
)
figure.axes[0].set(ylim=(0, 1.05), xticks=[1, 4, 8, 12, 16, 19])
each = "; ".join(f"{name} {r[7]:.2f} and {r[14]:.2f}" for name, r in right.items())
show(figure, alt=f"Right sums where a carry travels 8 and 15 columns: {each}.")

# %% [markdown]
# The curve of the stack lies under that of eight steps: eight layers reach as far as eight turns of the loop, and no farther.
#
# Is this the luck of one training? The recorded study `06_far_carries` repeats it with other initial weights, beside its rivals: the
# block with Graves's loss, and without halting; eight layers under the local mask, and under the **causal** one, which shows all
# lower columns; a GRU, which reads the columns from the lowest on.

# %% tags=["nbval-check-output"]
far_study = show_study("06_far_carries")
FAR = {
    "ours": ("adaptive, local", "far, 20 steps"),
    "fixed": ("fixed steps, local", "far, 20 steps"),
    "graves": ("adaptive, Graves's loss, local", "far, 20 steps"),
    "layers": ("eight layers, local", "far, 8 steps"),
    "causal": ("eight layers, causal", "far, 8 steps"),
    "gru": ("GRU", "far, 8 steps"),
}
near = [run.curve[1] for run in far_study.of("eight layers, causal")]
claim("06.far", near=near, **{name: far_study.scores(*of) for name, of in FAR.items()})

# %% [markdown]
# **This is what the loop gives:** trained with eight steps, one block takes as many as a sum needs, farther than its training went. How far
# depends on the initial weights, least so if columns halt and each step answers for itself. (One of the five with Graves's loss
# did not learn ten digits.) A column that has halted is safe from the
# steps that no training has seen; without halting, most models go astray.
#
# **What it does not give:** eight layers that see all lower columns need no loop for a far carry. They can look the deciding column up, with
# eight times the weights and twice the updates. But with 2,000 updates they fail in most sums of twenty columns in which every carry
# travels a single one. And a GRU,
# which needs no attention, is the right tool for sums.

# %% [markdown] tags=["predict"]
# ## 6 Direction: what a column may see
#
# The local mask hides the *higher* columns and the *distant* ones. Must it hide both?
#
# | seen by a column | every distance | one column away |
# | --- | --- | --- |
# | lower and higher columns | no mask | two-sided local |
# | lower columns only | causal | local |
#
# **Predict.** The model takes eight steps. Under which of the four can the digit of a column depend on a column that is *five
# places higher*?
#
# <details><summary>A. Under no mask alone: the two-sided local one shows only the next column.</summary>
#
# That is one step. After it, the next column's state contains what *its* next column was.</details>
# <details><summary>B. Under no mask and under the two-sided local one.</summary>
#
# Yes: with no mask in one step, under the two-sided local one after five. A mask that shows no higher column shows none after
# any number of steps.</details>
# <details><summary>C. Under all four, after enough steps.</summary>
#
# Where every step looks down, what is above can never arrive.</details>

# %% [markdown]
# The next table shows the recorded study `06_direction`: an adaptive model under all four masks, three trainings each. (It has
# Graves's loss, and random numbers alone to learn from.)

# %% tags=["nbval-check-output"]
study = recorded("06_direction")


def from_to(setting, score="twenty digits"):
    """The lowest and the highest share of right sums of three trainings."""
    shares = study.scores(setting, score)
    return f"{min(shares):.2f} to {max(shares):.2f}"


print("right on twenty digits   400 updates    1,200 updates")
for name in ("local", "causal", "two-sided local", "none"):
    early, late = (from_to(f"adaptive, {name}, {n} updates") for n in ("400", "1,200"))
    print(f"{name:<22} {early:>13} {late:>16}")
longest = "adaptive, none, 3,600 updates"
print(f"none, 3,600 updates: {from_to(longest)}; on ten digits", end=" ")
print(from_to(longest, "ten digits"))
masked = [
    share
    for name in ("local", "causal", "two-sided local")
    for share in study.scores(f"adaptive, {name}, 1,200 updates", "twenty digits")
]
claim("06.mask", masked=masked, none=study.scores(longest, "twenty digits"))

# %% [markdown]
# **Here one direction must be hidden, or the distance.** With patience, the model without a mask adds ten digits perfectly, and twenty
# digits worse than before: it has learned which column decides among ten, not among twenty (*Going further*).

# %% [markdown] tags=["predict"]
# ## 7 Distance decides the steps
#
# How does a model know when to stop? No label says how far a carry travels. Under the causal mask it can look as far down as it likes,
# under the local one it asks the next lower column only.
#
# **Predict.** Under which of the two does it take more steps where a carry comes from far away?
#
# <details><summary>A. The local one.</summary>
#
# Yes: a carry from $w$ columns away is certain only after $w$ steps, as in the table of section 2. No label contains
# this distance: the model learned when to halt from the digits and the price.</details>
# <details><summary>B. Both: a distant carry is harder.</summary>
#
# Under the causal mask it is one look-up: the nearest lower column that is 1 + 1 or 0 + 0 decides, and can be seen at once, however
# far it is.</details>
# <details><summary>C. Neither: the halting unit has the same weights in all columns.</summary>
#
# It has, but it reads the state, which differs from column to column.</details>


# %%
@torch.no_grad()
def steps_taken(model, columns, mask):
    """How many steps each column takes (B, T)."""
    return (halting_distribution(model(columns, mask)[1]) > 0).sum(-1)


def by_distance(carry):
    """The mean steps of columns with or without a carry, by its distance."""
    a, b, digit = twenty.columns // 2, twenty.columns % 2, twenty.digits
    chosen = (a + b + digit) % 2 == carry
    taken = steps_taken(adder, twenty.columns, LOCAL)
    return [
        taken[chosen & (twenty.walks == w)].float().mean().item()
        for w in range(1, N_STEPS + 1)
    ]


ways = range(1, N_STEPS + 1)
steps = {
    "local mask, a carry": (ways, by_distance(carry=1)),
    "local mask, no carry": (ways, by_distance(carry=0)),
}
on_record = {  # models that differ in the mask alone
    mask: [
        study.scores(f"adaptive, {mask}, 1,200 updates", f"steps at distance {w}")
        for w in (1, 7)
    ]
    for mask in ("local", "causal")
}
for mask, near_and_far in on_record.items():
    means = [sum(each) / 3 for each in near_and_far]
    steps[f"{mask} mask, as recorded"] = (1, 7), means
figure = plots.curves(
    steps,
    "distance of the column that decides the carry",
    "steps taken, mean",
    across={"most steps allowed": N_STEPS},
)
figure.axes[0].set_ylim(0, N_STEPS + 0.5)
each = "; ".join(f"{name} {t[0]:.1f} to {t[-1]:.1f}" for name, (_, t) in steps.items())
show(
    figure, alt=f"Steps taken where a carry comes from 1 to {N_STEPS} columns: {each}."
)

# %% tags=["nbval-check-output"]
near, last = ([taken[i] for _, taken in steps.values()][:2] for i in (0, -1))
mean = steps_taken(adder, twenty.columns, LOCAL).float().mean()
local, causal = (near_and_far[1] for near_and_far in on_record.values())
claim("06.o", near=near, far=last, mean=mean, local=local, causal=causal)

# %% [markdown]
# Under the local mask, a column waits until it is decided whether it receives a carry: as long for the absence of a carry as
# for a carry. An implementation that takes halted columns out of the batch, as Mixture-of-Recursions does, has a fraction of the
# work. (Ours computes them, too, and saves nothing.)
#
# Now look at one sum. Each row is a column, and the shades are the weights $p$ of its steps. The columns halt on a diagonal: you see the
# carry arrive, one column in each step.

# %% tags=["cover"]
show_steps(adder, 31, 1, LOCAL)

# %% tags=["try-it"]
# Try it: a carry through many columns; carries that travel only one column; no carry,
# but every column passes on what it receives; a carry from further than eight steps
# reach. Does adder.n_steps = 20 help? (Set it back to 8.)
for a, b in ((15, 1), (48, 48), (21, 42), (1023, 1)):
    total, weights, _ = add(adder, a, b, LOCAL)
    print(f"{a} + {b} = {total:<8} steps {(weights > 0).sum(-1).tolist()}")


# %% tags=["interactive"]
def draw_steps(ones=6):
    """Draw the steps of each column when 1 is added to a number of so many ones."""
    show_steps(adder, 2**ones - 1, 1, LOCAL)


explore(draw_steps, ones=(1, 10, 1))

# %% [markdown] tags=["quiz"]
# ## 8 Exit quiz
#
# **Question 1.** A Universal Transformer of one block takes six steps. Compared with an ordinary Transformer of six blocks of
# the same width, what does it save?
#
# <details><summary>A. Time.</summary>
#
# Six applications of one block cost as much time as six blocks, unless halted positions are removed from the batch.</details>
# <details><summary>B. Memory in training.</summary>
#
# The states of all six steps are kept for the backward pass, as in any recurrence.</details>
# <details><summary>C. Weights.</summary>
#
# Right: it has a sixth of the weights in the blocks.</details>
#
# **Question 2.** Why does a halted position keep its state instead of being removed?
#
# <details><summary>A. To save time.</summary>
#
# Here it saves none: the block computes all positions, and `torch.where` discards some results.</details>
# <details><summary>B. Other positions may still need to attend to it.</summary>
#
# Right: the next higher column may still need the carry that this column has decided.</details>
# <details><summary>C. Because its gradient would be lost.</summary>
#
# Its states up to the step at which it halts are already in the mixture.</details>
#
# **Question 3.** The halting values of a position are 0.6, 0.3, 0.3, 0.9. What are the weights of its four steps?
#
# <details><summary>A. 0.6, 0.3, 0.1, 0.</summary>
#
# Right: before the third step the sum is 0.9, so R = 0.1.</details>
# <details><summary>B. 0.6, 0.3, 0.3, 0.</summary>
#
# They sum to 1.2. The step at which it halts gets what is left.</details>
# <details><summary>C. 0.6, 0.4, 0, 0.</summary>
#
# After two steps the sum is 0.9, less than 0.99: it goes on.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *Your colleague says: "With adaptive computation time the model spends more steps on
# harder words." Write what you would measure before you believe this of her model, and which result would be evidence against
# it.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | asks for a measure of difficulty that does not come from the model itself |
# | 1 | compares steps across difficulty, on new data, over several seeds |
# | 1 | names a control: another price, no price, another mask |
# | 1 | asks whether the steps are needed: what happens to the answer when they are cut off, and whether a fixed number does as well |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 9 What came of it
#
# - **Shared weights.** ALBERT (Lan et al. 2019, https://arxiv.org/abs/1909.11942) is a BERT with one block for all its layers and
#   a fixed number of steps.
# - **The same task.** Trained on 40 symbols and tested on 400, the Universal Transformer of Dehghani et al. adds hardly any number without
#   a mistake (their table of algorithmic tasks). Looped Transformers whose number of steps is adapted to the length of the input do learn
#   to add longer numbers than those of their training (Fan et al. 2024, https://arxiv.org/abs/2409.15647).
# - **Halting as a probability.** PonderNet (Banino et al. 2021, https://arxiv.org/abs/2107.05407) learns a distribution over the
#   step to halt at, and trains on the expected loss of the steps, as we do; in place of the price it has a prior.
# - **Steps for some tokens.** Mixture-of-Recursions (Bae et al. 2025, https://arxiv.org/abs/2507.10524) chooses for each token how often
#   it passes through a shared block, so that time is really saved.
# - **Thinking longer.** A language model of 3.5 billion weights with a repeated block gets better at reasoning when it takes more steps
#   at test time (Geiping et al. 2025, https://arxiv.org/abs/2502.05171). Two layers of 7 million weights, applied again and again, solve
#   45 % of the puzzles of ARC-AGI-1 (Jolicoeur-Martineau 2025, https://arxiv.org/abs/2510.04871).
#
# **Further reading.** Dehghani et al. 2019, *Universal Transformers*, section 2 (https://arxiv.org/abs/1807.03819); Graves 2016,
# *Adaptive Computation Time for Recurrent Neural Networks*, section 2 (https://arxiv.org/abs/1603.08983). We mix as
# Graves does. Dehghani's paper copies a halted state and reads the last one; its published code interpolates between old and
# new states, and goes on transforming halted positions.

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections. Each needs only the core, but *A fixed number of steps* also needs the layer that
# *What a column should see* defines. Their exercises are extra points.

# %% [markdown]
# ## What a column should see
#
# In principle, a single layer of attention can add, too. Can it learn to, and what must it not see?

# %% [markdown] tags=["predict"]
# **Predict.** One layer of self-attention sees all columns at once. To which columns must a column attend, so that it can
# compute the carry which it receives?
#
# <details><summary>A. To one: the nearest lower column that is 1 + 1 or 0 + 0.</summary>
#
# Yes. It decides the carry, wherever it is, so a sum needs no loop, but one look-up in each column: by content (1 + 1 or 0 + 0)
# and by position (lower, and the nearest) at once.</details>
# <details><summary>B. To one: the preceding column.</summary>
#
# It decides only if it is 1 + 1 or 0 + 0. Otherwise it passes on what it receives, and a single layer sees its digits alone and
# not what it receives.</details>
# <details><summary>C. To all lower columns: each can send a carry.</summary>
#
# Each can, but the nearest column that is 0 + 0 stops all that come from below it.</details>

# %% [markdown]
# The next cell trains such a layer *without* a mask, for 1,600 updates, on the random sums of ten digits. Its rival has no attention: a GRU reads the columns from the
# lowest on, and has one bit to remember.


# %%
class OneLayer(nn.Module):
    """From columns (B, T) to two logits each, and the states they are read from."""

    def __init__(self, d=32):
        super().__init__()
        self.embed, self.block = nn.Embedding(4, d), block(d)
        self.readout = nn.Linear(d, 2)

    def forward(self, columns, mask):
        x = self.embed(columns)  # (B, T, d)
        x = self.block(x + sinusoidal_positions(*x.shape[1:], x.device), mask)
        return self.readout(x), x


class Recurrent(nn.Module):
    """A GRU that reads the columns from the lowest on; it has no use for a mask."""

    def __init__(self, d=32):
        super().__init__()
        self.embed, self.gru = nn.Embedding(4, d), nn.GRU(d, d, batch_first=True)
        self.readout = nn.Linear(d, 2)

    def forward(self, columns, mask=None):
        states, _ = self.gru(self.embed(columns))
        return self.readout(states), states


torch.manual_seed(0)
one_layer = OneLayer().to(device())
one_layer = learn(one_layer, nats_under(ALL), steps=1_600, data=random)
gru = learn(Recurrent().to(device()), nats_under(LOCAL), data=random)

# %% [markdown] tags=["predict"]
# What misleads the layer in sums of twenty digits? For each digit, we leave ten columns as they are, from six below it to three
# above, as many as in training, and empty others (0 + 0): those above these ten, those below, or both. (A digit whose carry comes
# from an emptied column is not judged.)
#
# **Predict.** Which columns must be emptied so that the most sums become right?
#
# <details><summary>A. None helps: the right digit does not depend on these columns.</summary>
#
# The right one does not; but the layer attends to all columns, and has to tell these from the one that decides.</details>
# <details><summary>B. Those above: only lower columns send carries.</summary>
#
# It helps. But the layer must also tell the nearest lower column from more distant ones.</details>
# <details><summary>C. Both: each takes part in the softmax, and training never showed so many.</summary>
#
# Yes. In training, at most nine other columns were filled; now there are nineteen among which to find the right one. That is a large
# part of the cause.</details>


# %%
@torch.no_grad()
def emptied(model, above, below):
    """The share of right sums when each digit is answered with columns emptied."""
    right = torch.zeros_like(twenty.digits, dtype=torch.bool)
    for i in range(T):
        first = min(max(i - 6, 0), 10)  # of the ten; at the ends, fewer below or above
        columns = twenty.columns.clone()
        columns[:, first + 10 :] *= not above
        columns[:, :first] *= not below
        answer = model(columns, ALL)[0].argmax(-1)
        not_judged = twenty.walks[:, i] > i - first
        right[:, i] = not_judged | (answer[:, i] == twenty.digits[:, i])
    return right.all(-1).float().mean().item()


emptying = {"none": (0, 0), "above": (1, 0), "below": (0, 1), "both": (1, 1)}
shares = {name: emptied(one_layer, *each) for name, each in emptying.items()}
print("emptied:", ", ".join(f"{name} {share:.2f}" for name, share in shares.items()))

# %% tags=["nbval-check-output"]
claim("06.one", ten=exact(one_layer, ten, ALL), **shares)
claim(
    "06.gru",
    weights=sum(p.numel() for p in gru.parameters()),
    ten=exact(gru, ten, ALL),
    twenty=exact(gru, twenty, ALL),
)

# %% [markdown]
# Patience does not mend the layer, and a mask does (section 6). Is it the *higher* columns that mislead, because they never matter? A fifth
# mask hides only the lower ones from the next but one on.

# %% tags=["nbval-check-output"]
crowding = recorded("06_crowding")
fifth = "next lower column and all higher ones"
claim(
    "06.crowd",
    fifth=crowding.scores(fifth, "twenty digits"),
    none=crowding.scores("no mask", "twenty digits"),
)

# %% [markdown]
# Each mask takes away columns among which the deciding one must be found. In the adaptive model on record, with all columns in view,
# those far below disturb most: emptied, they raise the right sums of three trainings from 0.23, 0.55 and 0.82 to 0.49, 0.83 and 0.88.
# Emptying the higher ones helps in one of the three (0.23 to 0.39).
#
# Do random sums need adaptive steps? The study `06_direction` also trains rivals under the causal mask: eight fixed steps of one block,
# eight *separate* layers with nearly eight times the weights, and the single layer.

# %%
RIVALS = {
    "adaptive steps, up to eight": "adaptive, causal, 1,200 updates",
    "eight fixed steps": "fixed steps, causal, 1,200 updates",
    "eight separate layers": "separate layers, causal, 1,200 updates",
    "one layer, 4,800 updates": "one layer, causal, 4,800 updates",
    "the same without a mask": "one layer, none, 4,800 updates",
}
for name, setting in RIVALS.items():
    print(f"{name:<28} {from_to(setting)}")
print(f"{'GRU':<28} {exact(gru, twenty, ALL):.2f}")

# %% tags=["guard", "nbval-check-output"]
adaptive, fixed_steps, separate, single, unmasked = (
    study.scores(setting, "twenty digits") for setting in RIVALS.values()
)
claim(
    "06.u",
    adaptive=adaptive,
    fixed_steps=fixed_steps,
    separate=separate,
    single=single,
    unmasked=unmasked,
)

# %% [markdown]
# **The mask mends this failure**: with it, a single layer adds most of the sums, and with more steps nearly all. On sums of twenty digits drawn at random,
# where carries are mostly short, **halting does not make the answers better**: eight fixed steps do as well, and so do eight layers.

# %% [markdown]
# ## The price of a step
#
# In section 5, the mean of the ponder cost $\rho = N + R$ over the positions, multiplied by a price of 0.06, was added to the loss.

# %% [markdown] tags=["predict"]
# **Predict a number** (exactly). $N$ is a count: it does not change when $h$ changes a little. What is the derivative of $\rho = N
# + R$ with respect to an $h_n$ before the last step taken, $n < N$?
#
# <details><summary>-1</summary>
#
# A larger $h_n$ leaves less for the last step; from N on the derivative is 0. Gradient descent increases the early h until their
# sum reaches the threshold one step sooner. Then N falls by 1, a jump that the gradient does not capture.</details>
# <details><summary>0</summary>
#
# $N$ has no gradient, but $R$ has one.</details>
# <details><summary>1</summary>
#
# The opposite is true: the larger h_n, the sooner the position halts.</details>

# %% exercise="06.3" difficulty="●●○" minutes=10
from course_lib.primitives import ponder_cost

# %% tags=["nbval-check-output"]
ponder_cost = check("06.3", ponder_cost)

# %%
h = torch.tensor([0.3, 0.5, 0.4, 0.9], requires_grad=True)
cost = ponder_cost(h)
cost.backward()
print(f"cost {cost.item():.1f}, gradient {h.grad.tolist()}")

# %% [markdown] tags=["predict"]
# **Predict.** One more model with the local mask learns to add without a price, and then to halt at price 1 instead of 0.06. What
# happens?
#
# <details><summary>A. It adds just as well, in fewer steps.</summary>
#
# A column that waits for a carry needs its steps, and each of them would now cost more than the digit is worth.</details>
# <details><summary>B. It halts at once and adds badly.</summary>
#
# Yes. After one step $\rho = 1 + 1$, after two $2 + (1 - h_1)$: the second step costs $1 - h_1$, which is the weight that it
# gets. It can save a guess, ln 2 = 0.69 nats, with the same weight: less than it costs.</details>
# <details><summary>C. It learns the same, only more slowly.</summary>
#
# The price is part of the loss, so it also changes what the model learns.</details>

# %%
torch.manual_seed(1)
dear = trained(LOCAL, price=1.0)

# %% tags=["nbval-check-output"]
taken = [
    steps_taken(model, twenty.columns, LOCAL).float().mean() for model in (adder, dear)
]
right = [exact(model, twenty, LOCAL) for model in (adder, dear)]
claim("06.r", some=taken[0], right=right[0], dear=taken[1], wrong=right[1])

# %% [markdown]
# ## A fixed number of steps
#
# The encoding of step $t$ and position $i$, counted from 0, is added before each application of the block (Dehghani et al. 2019, eqs.
# 4 to 7, with $d$ for `d_model`):
#
# $$H^t = \mathrm{Block}\!\left(H^{t-1} + P^t\right) \qquad P^t_{i,\,2j} = \sin\!\left(i / 10000^{2j/d}\right) + \sin\!\left(t / 10000^{2j/d}\right)$$
#
# and the same with cosines at $2j + 1$. Use `sinusoidal_positions(T, d_model)` of lecture 05.
#
# | name | shape |
# | --- | --- |
# | `step` | an int, from 1 |
# | result | (T, d_model), added to states (B, T, d_model) |

# %% exercise="06.1" difficulty="●○○" minutes=5
from course_lib.models import step_encoding

# %% tags=["nbval-check-output"]
step_encoding = check("06.1", step_encoding)

# %% [markdown]
# Without halting, the whole encoder is a loop: before each application of the block, the encoding of the step is added to the
# states.
#
# | name | what is in it |
# | --- | --- |
# | `x`, result | (B, T, d_model) |
# | `attention`, `network`, `norms`, `n_heads`, `mask` | arguments of `encoder_block`, as in 05.4 |
# | `n_steps` | number of applications; 0 returns `x` |

# %% exercise="06.4" difficulty="●●○" minutes=10
from course_lib.models import shared_encoder

# %% tags=["nbval-check-output"]
shared_encoder = check("06.4", shared_encoder)

# %% [markdown] tags=["predict"]
# The next model takes four steps under the causal mask; nothing in it halts. After the training it takes other numbers of
# steps, and so does your adaptive model with the local mask, whose columns may now go on for twelve steps.
#
# **Predict.** Trained for four steps, the fixed model takes twelve. What happens to its sums?
#
# <details><summary>A. Most become wrong.</summary>
#
# Yes: its loss read the state after step four alone, so nothing taught the block to leave a finished state as it is. In the
# adaptive model a column that has halted is safe from further steps.</details>
# <details><summary>B. They get better: more steps, more thought.</summary>
#
# Nothing told the block to leave a finished state as it is.</details>
# <details><summary>C. Nothing: its digits are certain after four steps.</summary>
#
# They are read off the states, and every further step changes these.</details>


# %%
class FixedSteps(nn.Module):
    """The block of one layer, applied `n_steps` times."""

    def __init__(self, n_steps):
        super().__init__()
        self.n_steps, self.layer = n_steps, OneLayer()

    def forward(self, columns, mask):
        x = self.layer.embed(columns)
        for t in range(1, self.n_steps + 1):
            x = self.layer.block(x + step_encoding(*x.shape[1:], t, x.device), mask)
        return self.layer.readout(x), x


def last_state(model, batch):
    columns, digits = batch
    return F.cross_entropy(model(columns, CAUSAL)[0].mT, digits)


def with_steps(model, n_steps, part, mask):
    """The share of right sums when a trained model takes another number of steps."""
    trained, model.n_steps = model.n_steps, n_steps
    share = exact(model, part, mask)
    model.n_steps = trained
    return share


torch.manual_seed(0)
fixed = learn(FixedSteps(4).to(device()), last_state)
allowed = range(1, 13)
shares = {
    "fixed, trained for 4": [with_steps(fixed, n, ten, CAUSAL) for n in allowed],
    "adaptive, trained for up to 8": [
        with_steps(adder, n, ten, LOCAL) for n in allowed
    ],
}
figure = plots.curves(
    {name: (allowed, values) for name, values in shares.items()},
    "steps at test time, at most",
    "right sums of ten digits",
)
figure.axes[0].set_ylim(-0.05, 1.05)
each = "; ".join(f"{n}: {', '.join(f'{s:.2f}' for s in v)}" for n, v in shares.items())
show(figure, alt=f"Right sums of ten digits with 1 to 12 steps at test time. {each}.")

# %% tags=["nbval-check-output"]
of_fixed, of_adaptive = shares.values()  # after 1 to 12 steps
four, twelve = of_fixed[3], of_fixed[11]
eight, adaptive = of_adaptive[7], of_adaptive[11]
every = far_study.scores("fixed steps, local", "ten digits")  # with twenty steps
claim("06.j", four=four, twelve=twelve, eight=eight, adaptive=adaptive, every=every)

# %% [markdown]
# Halting is one way to keep what is finished, and not the only one. If every step has to answer, as in section 5, a block that never
# halts learns to leave these sums alone for twenty steps. Only where a carry travels farther than in training do most such blocks go
# astray.

# %% [markdown] tags=["try-it"]
# ## Build it
#
# **Build task (30 minutes, 12 points).** Now write the whole model and its training loop, starting from an empty cell,
# without scrolling up. You may use your functions and the library's `Block`, but not its `Universal` or `AdaptiveSteps`. A
# block of width 32 with four heads, called as `block(x, mask)`, is
# `Block(SelfAttention(MultiHead(32, 4, fused_scaled_dot_product_attention)), FeedForward(32, 64), 32)`.
#
# The model learns sums of **six** digits in 13 columns. The check calls `train_adder(columns, digits, n_steps, n_updates)`
# once, with 4,000 sums, `n_steps=6` and `n_updates=300`, and evaluates the returned model on other sums of six digits and on
# sums of **twelve**. The model makes its own mask of (13, 13). The function has at most 60 seconds of processor time; a good answer needs about six. So that halting can
# be judged, the model returns the results of each step:
#
# | call | result |
# | --- | --- |
# | `model(columns)` | (B, T, n, 3), n ≤ n_steps: two logits from the state after each step, and the weight of the step |
# | `model(columns, digits)` | the loss, one number |
#
# The **answer** is the weighted sum of the logits, $y = \sum_n p_n y_n$: for a linear readout, that is the readout of the
# mixture. The loss is Graves's, not that of section 5: the mean cross-entropy of the answer, plus a price from 0.001 to 0.3 times the mean ponder cost $N + R$.
# The price may change during the training, but it must not be 0 when the check asks the trained model for its loss. The model
# learns more reliably with the local mask and without a price in the first part of the training.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the model returns logits and weights of each step; called with digits, one number |
# | 1 | at most `n_updates` updates and at most 15,000 weights: one block for all steps |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the loss falls during the training |
# | 1 | asked twice about the same columns, the model gives the same result |
# | 1 | the weights of a position sum to 1, and none is negative |
# | 1 | positions halt before the last step, and then their logits stay the same |
# | 2 | the loss is the cross-entropy of the answer, plus a price times the mean of N + R |
# | 1 | halting is learned: it has a gradient, and the columns of a sum take different numbers of steps |
# | 1 | sums of six digits: exact match of 0.8 or more |
# | 1 | sums of twelve digits: exact match of 0.5 or more |

# %% exercise="06.7" difficulty="●●●" minutes=30
from course_tools.bank.lecture_06.train_adder import train_adder

# %% tags=["nbval-check-output"]
train_adder = check("06.7", train_adder)

# %% [markdown]
# The next cell trains this model once more and adds 1 to binary numbers that consist of more and more ones: 11, 111, 1111 … Do
# the columns that wait for the carry take more steps?

# %%
pairs = sums(4_000, 1, 1, n_digits=6, T=13).train
torch.manual_seed(0)
built = train_adder(pairs.columns, pairs.digits, 6, 300)
print(f"a model trained by {whose(train_adder)} `train_adder`:")
ones = torch.tensor([[3] + [2] * k + [0] * (12 - k) for k in range(12)])
with torch.no_grad():
    *logits, p = built(ones).unbind(-1)
total = (p * (logits[1] - logits[0])).sum(-1) > 0
for k in (1, 2, 3, 5, 7, 11):
    found = sum(bit << t for t, bit in enumerate(total[k].tolist()))
    N = (p[k] > 0).sum(-1).tolist()
    print(f"{2 ** (k + 1) - 1:>4} + 1 = {found:<5} steps {N}")

# %% [markdown]
# With the local mask a carry moves at most one column per step, so within six steps it can travel at most six columns. The last
# two sums are therefore out of reach for a model with this mask. 63 + 1 is exactly at the limit, and may fail as well.

# %% [markdown] tags=["companion", "guard"]
# ## Decks
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | EE | Universal Transformer | 2 One block, again and again | `course_lib.models.step_encoding`, `course_lib.models.shared_encoder`, `course_lib.models.AdaptiveSteps` |

# %% tags=["ledger"]
ledger()
