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
# **The claim.** One block, one set of weights, applied again and again until each column of a sum has thought enough: trained on numbers of ten binary
# digits, it adds most numbers of twenty, and thinks the longer, the further a carry may have to walk; one layer of equal size gets few of them right. That holds
# where a column sees its neighbour alone. Where every column sees every other, a fixed number of steps loses much on longer numbers, more steps than in training
# make even short sums worse, and the thinking of an adaptive model does not follow the carry as it does there: that is measured too.
#
# **You need** lecture 05 (positions, blocks). **Time:** about 80 minutes. {measured}
#
# **Papers.** Dehghani et al. 2019, *Universal Transformers*, eqs. 4 to 7 and section 2.2 (https://arxiv.org/abs/1807.03819) · Graves 2016, *Adaptive
# Computation Time for Recurrent Neural Networks*, eqs. 5 to 9 and 13 (https://arxiv.org/abs/1603.08983).
#
# **Decks.** EE-559 13.2: the table below leads from its section to ours.

# %% [markdown] tags=["companion"]
# <details><summary>Which sections of the decks this follows, and where the library holds them</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | EE | Universal Transformer | 2 Where and when | `course_lib.models.step_encoding`, `course_lib.models.shared_encoder`, `course_lib.models.AdaptiveSteps` |
#
# </details>

# %%
import copy
from statistics import mean

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention import MultiHead, fused_scaled_dot_product_attention
from course_lib.blocks import Block, FeedForward, SelfAttention, encoder_block
from course_lib.blocks.block import Four, Pair
from course_lib.datasets import sums
from course_tools.notebook import check, predict
from course_lib.models import AdaptiveSteps, SeparateSteps, SharedSteps, Universal
from course_lib.primitives import HaltingStep
from course_lib.primitives import sinusoidal_positions
from course_lib.shapes import Mask, TokenFeatures
from course_tools.notebook import at_scale, claim, device, explore, ledger, plots, progress, show
from course_lib.training import batches, train

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 One look is not enough
#
# Add two binary numbers on paper. Column by column, from the right, write the last digit and hand on the carry. Mostly the carry stops soon: the column
# 1 + 1 makes one and 0 + 0 swallows one, whatever arrives. But 1 + 0 hands on what it gets, and through a row of such columns a carry may walk a
# long way.
#
# The model gets the columns, lowest first: each of the four pairs of digits is a token, and the answer is a digit for every token. It learns on numbers
# of ten digits at a random place among 21 columns; the test has numbers of twenty. `walks` says for each column how far a carry that arrives there may have come: 1 where
# the column before it settles the carry alone, 3 where two columns hand on what they get.
#
# One layer, and later four steps, are trained for 400 steps each; adaptive models, which take more time, for 320.

# %% [markdown] tags=["predict"]
# **Predict.** One layer of self-attention in which each column may look at all others. It learns short sums. How many new ones, again of ten digits, are
# right in every digit?
#
# <details><summary>A. Nearly all: it sees every column.</summary>
#
# It sees them, once. To know whether a carry arrives it must find the *nearest* lower column that is not 1 + 0, and read that one alone: a sharp choice by content and
# place at once.</details>
# <details><summary>B. Some: those in which no carry walks far.</summary>
#
# Yes. The neighbour tells most of it, and a sum is right where that was enough in every column.</details>
# <details><summary>C. None: addition needs a loop.</summary>
#
# For a carry of one column, one look suffices.</details>

# %%
T, LOOK, TRAINING = 21, {}, at_scale(cpu=400, gpu=2_000)
LOOK["all"] = torch.ones(T, T, dtype=torch.bool, device=device())
LOOK["neighbour"] = LOOK["all"].tril().triu(-1)
short = sums(at_scale(cpu=12_000, gpu=100_000), 1, 500, n_digits=10, T=T)
long = sums(1, 1, 500, n_digits=20, T=T, seed=1)
columns, digits, walks = (part[0].tolist() for part in short.test)
print(f"columns {columns}\ndigits  {digits}\nwalks   {walks}")


# %%
def block(d_model=32):
    """A fresh encoder block of lecture 05, four heads."""
    attention = MultiHead(d_model, 4, fused_scaled_dot_product_attention)
    return Block(SelfAttention(attention), FeedForward(d_model, 2 * d_model), d_model)


def fit(model, look, seed, steps, lr=5e-3, price=0.0):
    """Train on short sums: cross-entropy, and the mean ponder cost at this price; the seed decides the order of the batches."""

    def loss(model, batch):
        logits, thought = model(batch[0], mask=LOOK[look])
        return F.cross_entropy(logits.mT, batch[1]) + price * thought.cost.mean()

    stream = batches(short.train.columns.to(device()), short.train.digits.to(device()), batch_size=16, seed=seed)
    for _ in progress(train(model, stream, loss, steps=steps, lr=lr, warmup=steps // 4), f"{look}, seed {seed}", steps):
        pass
    return model.eval()


def fresh(steps, seed):
    """A new model of this seed around the steps that it takes."""
    torch.manual_seed(seed)
    return Universal(4, 2, 32, steps()).to(device())


@torch.no_grad()
def exact(model, part, look):
    """The share of sums that are right in every digit."""
    logits, _ = model(part.columns.to(device()), mask=LOOK[look])
    return (logits.argmax(-1).cpu() == part.digits).all(-1).float().mean().item()


# %% tags=["nbval-check-output"]
one_look = [fit(fresh(lambda: SharedSteps(block(), 1), seed), "all", seed, TRAINING) for seed in SEEDS]
of_one = [exact(model, short.test, "all") for model in one_look]
claim(
    "06.a",
    "one layer that sees all columns, new sums of ten digits right in every digit: best of the seeds",
    max(of_one),
    at_most=0.6,
)
far_of_one = [exact(model, long.test, "all") for model in one_look]
claim("06.b", "the same, sums of twenty digits", max(far_of_one), at_most=0.15)

# %% [markdown]
# ## 2 Where and when
#
# So look again. The **Universal Transformer** applies one and the same block time after time: recurrent in *depth*, where an RNN is recurrent along the
# sentence. The block must know what time it is, so each step $t$ is encoded beside each position $i$ (eqs. 6 and 7):
#
# $$P^t_{i,\,2j} = \sin\!\left(i / 10000^{2j/d}\right) + \sin\!\left(t / 10000^{2j/d}\right) \qquad P^t_{i,\,2j+1} = \cos\!\left(i / 10000^{2j/d}\right) + \cos\!\left(t / 10000^{2j/d}\right)$$
#
# | name | shape |
# | --- | --- |
# | `step` | an int, from 1 |
# | result | (T, d_model), added to states (B, T, d_model) |
#
# `sinusoidal_positions(T, d_model)` of lecture 05 is there to be used.

# %% exercise="06.1" difficulty="●○○" minutes=5
from course_lib.models import step_encoding

# %% tags=["nbval-check-output"]
step_encoding = check("06.1", step_encoding)

# %% tags=["nbval-check-output"]
steps_and_places = torch.stack([step_encoding(8, 32, step) for step in range(1, 9)])
claim(
    "06.c",
    "the sum does not tell a place from a step: place i at step t against place t at step i, largest difference",
    (steps_and_places[:-1, 1:] - steps_and_places[:-1, 1:].transpose(0, 1)).abs().max().item(),
    at_most=1e-6,
)

# %% [markdown]
# That it is symmetric does no harm: all places take step $t$ at the same time, so a block that stands at step 3 never confuses it with place 3.
#
# ## 3 When to halt
#
# How often? A fixed number is too often for easy columns, not often enough for hard ones. **Adaptive computation time** lets each position ask itself behind
# each step $n$ how likely it halts here, $h_n$. It halts at the first step $N$ at which these sum to $1 - \varepsilon$, at latest at the last one allowed. The steps then have
# shares in the result, and the last one taken gets what is left (Graves, eqs. 6 to 8):
#
# $$p_n = \begin{cases} h_n & n < N \\ R = 1 - \sum_{m<N} h_m & n = N \\ 0 & n > N \end{cases}$$
#
# | name | shape |
# | --- | --- |
# | `h`, result | (…, n_steps) |
# | `epsilon` | a number, 0.01 |
#
# Why $\varepsilon$? A sigmoid never reaches 1. Without it nobody could halt after a single step.

# %% exercise="06.2" difficulty="●●○" minutes=15
from course_lib.primitives import halting_distribution

# %% tags=["nbval-check-output"]
halting_distribution = check("06.2", halting_distribution)

# %% [markdown]
# ## 4 What thinking costs
#
# Thinking must cost something, or nobody halts. The **ponder cost** of a position is $\rho = N + R$; its mean, times a price $\tau$, is added to the loss.

# %% [markdown] tags=["predict"]
# **Predict.** $N$ is a count: move $h$ a little, and it stays. What gradient has $\rho = N + R$ with respect to an $h_n$ before the halt?
#
# <details><summary>A. None: a count has no gradient.</summary>
#
# $N$ has none. $R$ has.</details>
# <details><summary>B. −1: a larger h_n leaves less for the last step.</summary>
#
# Yes, for every n < N, and 0 from N on. Descent raises the early h until their sum is enough one step sooner; then N falls, by a jump that no gradient saw.</details>
# <details><summary>C. +1: a larger h makes the position think more.</summary>
#
# The other way round: it halts sooner.</details>

# %% exercise="06.3" difficulty="●●○" minutes=10
from course_lib.primitives import ponder_cost

# %% tags=["nbval-check-output"]
ponder_cost = check("06.3", ponder_cost)

# %% tags=["nbval-check-output"]
h = torch.tensor([0.3, 0.5, 0.4, 0.9], requires_grad=True)
ponder_cost(h).backward()
shares = [round(share, 2) for share in halting_distribution(h).tolist()]
claim("06.d", "for h = 0.3, 0.5, 0.4, 0.9: the shares of the four steps", shares, equals=[0.3, 0.5, 0.2, 0.0])
claim("06.e", "the gradient of its ponder cost", h.grad.tolist(), equals=[-1.0, -1.0, 0.0, 0.0])

# %% [markdown]
# ## 5 Again and again
#
# Now the loop, first with a fixed number of steps. One block, the same weights each time, and before each application the encoding of this step (eqs. 4 and 5):
#
# $$H^t = \mathrm{Block}\!\left(H^{t-1} + P^t\right)$$
#
# | name | what is in it |
# | --- | --- |
# | `x`, result | (B, T, d_model) |
# | `attention`, `network`, `norms` | the weights of `encoder_block`, as in 05.4 |
# | `n_steps` | how often; 0 gives `x` back |

# %% exercise="06.4" difficulty="●●○" minutes=10
from course_lib.models import shared_encoder

# %% tags=["nbval-check-output"]
shared_encoder = check("06.4", shared_encoder)

# %% [markdown] tags=["predict"]
# **Predict.** Four steps of one block, all columns in view, instead of one step. The number of weights stays what it was. It is trained on ten digits; what of ten,
# and of twenty?
#
# <details><summary>A. Better on both, and on twenty as good as on ten.</summary>
#
# What it learns are ways through ten columns, and twenty ask for longer ones.</details>
# <details><summary>B. Much better on ten; on twenty much of it is lost.</summary>
#
# Yes: the figure in section 7 shows what is left. The paper reports large gains on longer sums, with far larger models and training.</details>
# <details><summary>C. No better: the same weights can do no more than they could.</summary>
#
# They are used four times. What a step writes into the states, the next one reads.</details>


# %% tags=["nbval-check-output"]
def size(model):
    """How many weights a model has."""
    return sum(weights.numel() for weights in model.parameters())


four_looks = [fit(fresh(lambda: SharedSteps(block(), 4), seed), "all", seed, TRAINING) for seed in SEEDS]
of_four = [exact(model, short.test, "all") for model in four_looks]
claim("06.f", "weights: four steps of one block, less one step", size(four_looks[0]) - size(one_look[0]), equals=0)
apart = size(fresh(lambda: SeparateSteps([block() for _ in range(4)]), 0)) / size(four_looks[0])
claim("06.g", "weights of four separate blocks over those of one block four times", apart, between=(3.5, 4.0))
claim("06.h", "ten digits: mean over the seeds of four steps, less one step", mean(of_four) - mean(of_one), at_least=0.15)

far_of_four = [exact(model, long.test, "all") for model in four_looks]
claim(
    "06.i",
    "four steps, all columns in view: what is lost from ten digits to twenty, mean over the seeds",
    mean(of_four) - mean(far_of_four),
    at_least=0.1,
)


# %% tags=["nbval-check-output"]
def with_steps(model, n_steps):
    """The same weights, taken through another number of steps."""
    other = copy.deepcopy(model)
    other.steps.n_steps = n_steps
    return other


more = {n: [exact(with_steps(model, n), short.test, "all") for model in four_looks] for n in (1, 2, 3, 4, 5, 6, 8)}
claim(
    "06.j",
    "ten digits: what is lost when the model trained for four steps takes eight, mean over the seeds",
    mean(more[4]) - mean(more[8]),
    at_least=0.2,
)
show(
    plots.curves(
        {f"seed {seed}": (list(more), [more[n][i] for n in more]) for i, seed in enumerate(SEEDS)},
        "steps at test time",
        "ten-digit sums right",
    ),
    alt="Share of ten-digit sums right against the steps taken at test time, by models trained for four: "
    + "; ".join(f"{n} steps {min(shares):.2f} to {max(shares):.2f}" for n, shares in more.items())
    + ".",
)

# %% [markdown]
# More of the same is not better. One way to see it: four steps were trained as a *program of four lines*, each told its number by the encoding; a fifth line was never
# written. What is wanted is a step that is right whenever it comes, and a model that knows when it is done.
#
# ## 6 A step for those who still think
#
# Behind each step every position looks at its new state $s_n$, and one unit says $h_n = \sigma(w \cdot s_n + b)$. Whose $h$ sum to $1 - \varepsilon$ has halted: its state
# **stands still**, and others may go on looking at it.
#
# | name | shape |
# | --- | --- |
# | `x`, `y` | (B, T, d_model): states before the step, and what the block made of them |
# | `halt` | `(w, b)`, (d_model,) and () |
# | `h` | (B, T, n), n may be 0; returned as (B, T, n + 1) |

# %% exercise="06.5" difficulty="●●○" minutes=15
from course_lib.primitives import adaptive_step

# %% tags=["nbval-check-output"]
adaptive_step = check("06.5", adaptive_step)

# %% [markdown]
# ### Bug hunt
#
# It runs, its shapes are right, and it looks like yours. Which property breaks? Say it before you run the check; then mend the one line.

# %% exercise="06.5" bug="halts_the_whole_sentence"
from course_tools.bank.lecture_06.adaptive_step import halts_the_whole_sentence as suspect

# %% tags=["nbval-check-output"]
suspect = check("06.5", suspect)

# %% exercise="06.5" difficulty="●○○" minutes=5
from course_lib.primitives import adaptive_step as mended

# %% tags=["nbval-check-output"]
mended = check("06.5", mended)

# %% [markdown]
# And what comes out is the states of all steps, each by its share (Graves, eq. 9): $y = \sum_n p_n s_n$. A mixture, and not the last state alone, so that the
# loss can tell $h$ in which direction to go.
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


# %% tags=["nbval-check-output"]
def by_your_functions(model, x, mask):
    """What `AdaptiveSteps` does, put together from what you have written."""
    halt, states, h = (model.halt.weight[0], model.halt.bias[0]), [], x.new_zeros(*x.shape[:-1], 0)
    for step in range(1, model.n_steps + 1):
        y = model.block(x + step_encoding(*x.shape[1:], step).to(x), mask)
        x, h = adaptive_step(x, y, halt, h, model.epsilon)
        states.append(x)
    return mix_states(torch.stack(states, dim=-2), h, model.epsilon), ponder_cost(h, model.epsilon)


torch.manual_seed(SEEDS[0])
steps, x = AdaptiveSteps(block(), 32, 6), torch.randn(3, T, 32)
nn.init.normal_(steps.halt.weight, std=0.3)
mixed, cost = by_your_functions(steps, x, LOOK["neighbour"].cpu())
pondered = steps(x, LOOK["neighbour"].cpu())
gap = max((mixed - pondered.states).abs().max().item(), (cost - pondered.cost).abs().max().item())
claim("06.k", "the library's adaptive model is your functions in a loop: largest difference", gap, at_most=1e-4)

# %% [markdown] tags=["predict"]
# ## 7 The experiment
#
# Two changes. Each column now sees **itself and its right neighbour**, nothing else: a carry can only walk, one column a step. And each column halts when it
# likes. Training is as before, the last third of it with a price on thinking.
#
# **Predict.** How many steps will a column take?
#
# <details><summary>A. All take the same: they share their weights.</summary>
#
# The unit that halts is shared as well, and reads the state, which differs from column to column.</details>
# <details><summary>B. The more, the further the carry walks that it waits for.</summary>
#
# Yes. Until the carry is known the state says "wait", and the mixture must hold little of the states before it.</details>
# <details><summary>C. The more, the higher the column: high columns wait for all below.</summary>
#
# So would a human on paper. But 1 + 1 and 0 + 0 settle what they hand on at once, wherever they stand, and all columns work at the same time.</details>

# %%
N_STEPS, PRICE = 8, 0.03


def think(look, seed):
    """An adaptive model trained without a price on thinking."""
    return fit(fresh(lambda: AdaptiveSteps(block(), 32, N_STEPS), seed), look, seed, at_scale(cpu=210, gpu=1_400))


def charge(model, look, seed, price=PRICE):
    """The same model, trained on with a price; the one that was given stays as it is."""
    return fit(copy.deepcopy(model), look, seed + 10, at_scale(cpu=110, gpu=600), lr=4e-3, price=price)


@torch.no_grad()
def steps_by_walk(model, part, look):
    """The mean number of steps that columns take, by how far the carry walks that they wait for: 1, 2, … N_STEPS - 1."""
    _, thought = model(part.columns.to(device()), mask=LOOK[look])
    N = (thought.halting > 0).sum(-1).cpu().float()
    return [N[part.walks == walk].mean().item() for walk in range(1, N_STEPS)]


# %% tags=["nbval-check-output"]
free = [think("neighbour", seed) for seed in SEEDS]
charged = [charge(model, "neighbour", seed) for model, seed in zip(free, SEEDS, strict=True)]
one_step = [fit(fresh(lambda: SharedSteps(block(), 1), seed), "neighbour", seed, TRAINING) for seed in SEEDS]
on_long = {
    "one layer, all in view": far_of_one,
    "one layer, neighbour in view": [exact(model, long.test, "neighbour") for model in one_step],
    "four steps, all in view": far_of_four,
    "adaptive, neighbour in view": [exact(model, long.test, "neighbour") for model in charged],
}
adaptive = on_long["adaptive, neighbour in view"]
claim(
    "06.l",
    "twenty digits, trained on ten: the adaptive model that sees neighbours, mean over the seeds",
    mean(adaptive),
    at_least=0.6,
)
claim(
    "06.m",
    "the same, over one layer of equal size that sees neighbours",
    mean(adaptive) - mean(on_long["one layer, neighbour in view"]),
    at_least=0.5,
)
claim(
    "06.n",
    "weights of the adaptive model, less those of one layer: the unit that halts",
    size(charged[0]) - size(one_step[0]),
    equals=33,
)

# %%
show(
    plots.seeds(on_long, "share right in every digit", "sums of twenty digits, one point a trained model"),
    alt="Sums of twenty digits right in every digit. "
    + "; ".join(f"{name} {min(s):.2f} to {max(s):.2f}" for name, s in on_long.items())
    + ".",
)

# %% tags=["nbval-check-output"]
thinking = [steps_by_walk(model, long.test, "neighbour") for model in charged]
claim(
    "06.o",
    "steps that a column takes where the carry walks seven columns, less where it walks one: mean over the seeds",
    mean(steps[-1] - steps[0] for steps in thinking),
    at_least=1.0,
)

# %% [markdown] tags=["predict"]
# The thinking follows the walk. Nobody told the model how far a carry may have come; it learned when to stop from wrong digits and from the price.
#
# **Predict.** A carry that walks further than the steps allow never arrives, so eight steps set a limit. Allow twelve after the training: what happens to sums of
# twenty digits?
#
# <details><summary>A. All get right: who waits may now wait longer.</summary>
#
# Some may. But nothing in the training said what to do at step nine: whoever came so far was made to halt.</details>
# <details><summary>B. They fall apart, as in section 5.</summary>
#
# There everyone was taken through steps that were never trained. Here only those go on who have not halted, and they are few.</details>
# <details><summary>C. Little changes on average.</summary>
#
# Yes (06.p). A model that halts is not harmed by steps that it may take; that it can use them is not learned from short sums.</details>

# %% tags=["nbval-check-output"]
lifted = [exact(with_steps(model, 12), long.test, "neighbour") for model in charged]
claim(
    "06.p",
    "twenty digits: what twelve steps at test time add to the eight of the training, mean over the seeds: little, either way",
    mean(lifted) - mean(adaptive),
    between=(-0.2, 0.15),
)

# %% [markdown] tags=["predict"]
# **Predict.** Let an adaptive model look at all columns, as in section 5, and train it as long. It could do all that it could do before, and more. Its steps?
#
# <details><summary>A. They follow the walk as before, for that is where the difficulty is.</summary>
#
# The difficulty is now to *find* the right column, not to wait for a carry.</details>
# <details><summary>B. They hardly follow the walk.</summary>
#
# Yes, in the one model that we train (06.q, and the figure of section 8). It also adds no better than those that see their neighbour (06.u), on some seeds far worse, and what the steps of one
# that adds well would follow is not measured here.</details>
# <details><summary>C. Each column takes a single step.</summary>
#
# One look was not enough, section 1; and the figure below shows more than one.</details>

# %% tags=["nbval-check-output"]
overview = charge(think("all", SEEDS[0]), "all", SEEDS[0])
steps_of_overview = steps_by_walk(overview, long.test, "all")
claim(
    "06.q",
    "how much more the steps grow from a walk of one to one of seven where the neighbour is in view, mean, than in a model with all in view",
    mean(steps[-1] - steps[0] for steps in thinking) - (steps_of_overview[-1] - steps_of_overview[0]),
    at_least=1.0,
)
claim(
    "06.q-all",
    "how much the steps of the model with all in view grow from a walk of one to one of seven: hardly",
    steps_of_overview[-1] - steps_of_overview[0],
    between=(-1.5, 1.5),
)
claim(
    "06.u",
    "sums of ten digits right in every digit: the adaptive model that sees neighbours, less the one with all in view, one seed",
    exact(charged[0], short.test, "neighbour") - exact(overview, short.test, "all"),
    at_least=-0.05,
)

# %% [markdown]
# ## 8 See it

# %%
ways = range(1, N_STEPS)
lines = {f"neighbour in view, seed {seed}": (ways, steps) for seed, steps in zip(SEEDS, thinking, strict=True)}
lines[f"all in view, seed {SEEDS[0]}"] = (ways, steps_of_overview)
show(
    plots.curves(lines, "columns that the carry walks", "steps taken, mean"),
    alt="Steps taken against the columns that the carry walks, from 1 to 7. "
    + "; ".join(f"{name}: {steps[0]:.1f} to {steps[-1]:.1f}" for name, (_, steps) in lines.items())
    + ".",
)


# %%
@torch.no_grad()
def shares_of(model, a, b, n_columns=12):
    """The shares (n_columns, N_STEPS) of the steps in each column of a + b, the names of the columns, and the sum it finds."""
    pairs = torch.tensor([[2 * (a >> t & 1) + (b >> t & 1) for t in range(T)]], device=device())
    logits, thought = model(pairs, mask=LOOK["neighbour"])
    total = sum(bit << t for t, bit in enumerate(logits[0].argmax(-1).tolist()))
    names = [f"{pair // 2}+{pair % 2}" for pair in pairs[0, :n_columns].tolist()]
    return thought.halting[0, :n_columns].cpu(), names, total


def drawn(shares, names):
    """A map of the shares: a row for each column of the sum, a column for each step."""
    figure = plots.attention_map(shares, names, [str(n) for n in range(1, N_STEPS + 1)], x="step", y="column, lowest first")
    figure.axes[-1].set_ylabel("share of the step")
    return figure


shares, names, total = shares_of(charged[0], 63, 1)
show(
    drawn(shares, names),
    alt=f"Shares of the steps in 63 + 1, answered by {total}. Last step taken, column by column: "
    + ", ".join(str(n) for n in (shares > 0).sum(-1).tolist())
    + ".",
)

# %% tags=["try-it"]
# Try it: a carry through many columns; none at all, as each column settles it; none again, but as every column hands on what it gets,
# all wait, even the lowest, where nothing can arrive; and a carry that walks further than eight steps reach.
for a, b in ((31, 1), (48, 48), (21, 42), (1023, 1)):
    shares, names, total = shares_of(charged[0], a, b)
    print(f"{a} + {b} = {total:<8} steps {(shares > 0).sum(-1).tolist()}")


# %% tags=["interactive"]
def draw_thinking(ones=5):
    """Draw who thinks how long when 1 is added to a number of so many ones."""
    shares, names, total = shares_of(charged[0], 2**ones - 1, 1)
    show(
        drawn(shares, names),
        alt=f"{2**ones - 1} + 1 = {total}; columns take {', '.join(map(str, (shares > 0).sum(-1).tolist()))} steps.",
    )


explore(draw_thinking, ones=(1, 10, 1))

# %% [markdown] tags=["predict"]
# ## 9 Take one away
#
# **Predict.** The price of thinking, two ways: nothing at all, and so much (1 for each step) that the digits hardly count.
#
# <details><summary>A. Free thinking takes all the steps there are; dear thinking stops at once and adds badly.</summary>
#
# The second half is right. Free thinking is not endless: to halt well also helps the answer, as the mixture must not hold states that did not know yet.</details>
# <details><summary>B. Free thinking takes some steps more; dear thinking stops almost at once and adds badly.</summary>
#
# Yes.</details>
# <details><summary>C. The price changes only how fast it learns.</summary>
#
# It is a part of what is learned: a loss of its own.</details>


# %% tags=["nbval-check-output"]
@torch.no_grad()
def mean_steps(model):
    """The mean number of steps over all columns of long sums."""
    _, thought = model(long.test.columns.to(device()), mask=LOOK["neighbour"])
    return (thought.halting > 0).sum(-1).float().mean().item()


dear = charge(free[0], "neighbour", SEEDS[0], price=1.0)
claim(
    "06.r",
    "steps taken, mean over the seeds: free thinking, less thinking at the price of the experiment",
    mean(map(mean_steps, free)) - mean(map(mean_steps, charged)),
    at_least=0.1,
)
claim("06.s", "steps taken at the price of 1", mean_steps(dear), at_most=2.5)
claim("06.t", "sums of twenty digits right at the price of 1", exact(dear, long.test, "neighbour"), at_most=0.2)

# %% [markdown] tags=["quiz"]
# ## 10 Before you go
#
# **Question 1.** A Universal Transformer of one block takes six steps. Against an ordinary one of six blocks of the same width, what does it save?
#
# <details><summary>A. Time.</summary>
#
# Six applications are six applications, unless positions halt and the batch is packed so that they cost nothing.</details>
# <details><summary>B. Weights.</summary>
#
# Right: a sixth of the weights in the blocks.</details>
# <details><summary>C. The memory of training.</summary>
#
# The states of all six steps are kept for the backward pass, as in any recurrence.</details>
#
# **Question 2.** Why does a position that has halted stand still, and does not vanish?
#
# <details><summary>A. Others may still need to look at it.</summary>
#
# Right: a column that has settled its carry is what its left neighbour waits for.</details>
# <details><summary>B. To save time.</summary>
#
# Here it saves none: the block computes all positions, and `torch.where` throws some results away.</details>
# <details><summary>C. Because its gradient would be lost.</summary>
#
# Its states up to the halt are in the mixture already.</details>
#
# **Question 3.** The gradient of the ponder cost is that of $R$ alone. What does descent on it do to a position that takes four steps?
#
# <details><summary>A. It raises h₁, h₂ and h₃, until three steps are enough.</summary>
#
# Right, and R jumps up when N falls: the cost is not continuous.</details>
# <details><summary>B. It raises h₄.</summary>
#
# h₄ has no part in R, which is what is left *before* it.</details>
# <details><summary>C. It lowers all h.</summary>
#
# Then R would grow.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *Your colleague says: "With adaptive computation time the model spends more steps on harder words." Write what you would
# measure before you believe it of her model, and what result would speak against it.*
#
# | points | what earns them |
# | --- | --- |
# | 1 | asks for a measure of difficulty that does not come from the model itself |
# | 1 | compares steps across difficulty, on new data, over several seeds |
# | 1 | names a control: another price, no price, another view of the sentence |
# | 1 | asks whether the steps are needed: what happens to the answer when they are cut off |
# | 1 | is clear and short |

# %% [markdown]
# ## 11 Ledger
#
# **Where the deck, the paper and the code part ways.** Each by a number in the next cell:
#
# - *EE* says that "the number of steps is modulated per position dynamically". It is, but not always by what is hard: sections 7 and 8 have models whose
#   steps follow the walk of the carry, and one whose steps follow it less (06.q).
# - *EE* writes both exponents $2j/d$ here, as the paper does. In its own section on positional encoding the cosine has $(2i+1)/d$ (lecture 05).
# - *Dehghani et al.* say that a position that has halted is copied to the next step, and name Graves's computation time. Their published code
#   (tensor2tensor, the "basic" kind) goes on transforming it, and mixes as it goes, $y \leftarrow p_n s_n + (1 - p_n)\, y$: each later step shrinks the shares of the earlier ones.

# %% tags=["nbval-check-output"]
p = halting_distribution(torch.tensor([0.3, 0.5, 0.4, 0.9])).tolist()
kept = [p[n] * torch.tensor([1 - q for q in p[n + 1 :]]).prod().item() for n in range(4)]
claim(
    "06.UT",
    "shares 0.3, 0.5, 0.2 as the published code mixes them, and their sum",
    [round(v, 2) for v in [*kept, sum(kept)]],
    equals=[0.12, 0.4, 0.2, 0.0, 0.72],
)

t = torch.arange(6.0)[:, None]
even = torch.arange(0, 32, 2)
other = (t / 10_000 ** ((even + 1) / 32)).cos() + (torch.tensor(3.0) / 10_000 ** ((even + 1) / 32)).cos()
claim(
    "06.EE",
    "the cosines of step 3 with the exponent (2j+1)/d of the other section: largest difference from the paper's",
    (step_encoding(6, 32, 3)[:, 1::2] - other).abs().max().item(),
    at_least=0.1,
)

# %% tags=["ledger"]
ledger()
