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
# A Universal Transformer applies one block repeatedly, and each position decides when to halt.
#
# ![](diagram:universal_transformer)
#
# You will write the step encoding, the halting distribution, the ponder cost and the adaptive step, train a model to add binary
# numbers of ten digits, and find out what it needs to add numbers of twenty.
#
# **Prerequisites:** lecture 05 (positions, blocks). **Time:** {minutes}. {measured}


# %%
from course_lib.datasets import sums
from course_tools.notebook import check, claim, ledger, plots, predict

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 One layer
#
# To add two binary numbers on paper, you start with the lowest column, write its digit, carry to the next column, and so on.
# Most carries stop soon: a column 1 + 1 always generates a carry, and a column 0 + 0 always absorbs one. But a column 1 + 0 or
# 0 + 1 propagates the carry that it receives, so a carry can travel far through a run of such columns.
#
# The input is the sequence of columns, lowest first. The digits $a$ and $b$ of a column give the token $2a + b$, and the output
# is one digit for each token. The model trains on ten-digit numbers at a random offset among 21 columns and is tested on
# twenty-digit numbers. For each column, `walks` gives the distance to the column that determines its incoming carry: 1 if
# that is the preceding column, 3 if the two preceding columns only propagate the carry.

# %% [markdown] tags=["predict"]
# **Predict.** One layer of self-attention, in which each column may attend to all others, is trained on sums of ten digits for
# 400 updates. What fraction of new ten-digit sums does it get right in every digit?
#
# <details><summary>A. Nearly all: it can attend to every column.</summary>
#
# It can, but only once. To know whether a carry arrives, it must find the *nearest* lower column that is neither 1 + 0 nor 0 +
# 1 and attend to that column alone, which requires a sharp selection by content and position at the same time.</details>
# <details><summary>B. Some: it does not reliably select the column that decides the carry.</summary>
#
# Yes. On our seeds, a digit is mostly right where the two nearest lower columns that decide a carry (1 + 1 or 0 + 0) agree, and
# often wrong where they differ (printed below).</details>
# <details><summary>C. None: addition needs a loop.</summary>
#
# One layer gets most digits right where the nearest columns that decide a carry agree.</details>

# %%
T = 21
short = sums(12_000, 1, 500, n_digits=10, T=T)
long = sums(1, 1, 500, n_digits=20, T=T, seed=1)
columns, digits, walks = (part[0].tolist() for part in short.test)
print(f"columns {columns}\ndigits  {digits}\nwalks   {walks}")

# %%
from functools import partial

import torch

from course_lib.models import SharedSteps
from course_tools.notebook import device
from course_tools.lectures.lecture_06.experiments import (
    accuracy_by_carry,
    adder,
    block,
    exact,
    fit_adder,
)
from course_tools.notebook.fitting import show_losses

TRAINING = 400
ALL = torch.ones(T, T, dtype=torch.bool, device=device())
learn = partial(fit_adder, known=short.train)

# %%
one_layer = [
    learn(adder(lambda: SharedSteps(block(), 1), s), mask=ALL, seed=s, steps=TRAINING)
    for s in SEEDS
]
show_losses({"one layer": one_layer}, "nats per digit")
of_one = [exact(model, short.test, ALL) for model in one_layer]
far_of_one = [exact(model, long.test, ALL) for model in one_layer]
print(
    f"fraction of new sums that are right in every digit, {TRAINING} updates, best of "
    f"the seeds: ten digits {max(of_one):.2f}, twenty digits {max(far_of_one):.2f}"
)
where = [accuracy_by_carry(model, short.test, ALL) for model in one_layer]
print("digits that are right, by seed, where the two nearest lower columns that decide")
print("a carry agree:", ", ".join(f"{agree:.2f}" for agree, _ in where), end="; ")
print("where they differ:", ", ".join(f"{differ:.2f}" for _, differ in where))

# %% [markdown]
# ## 2 Position and step encoding
#
# One layer learns this slowly, so we apply several. The **Universal Transformer** applies the same block repeatedly: it is
# recurrent in *depth*, whereas an RNN is recurrent along the sequence. So that the block can tell its steps apart, each step
# $t$ is encoded together with each position $i$, counted from 0 (eqs. 6 and 7, with $d$ for `d_model`):
#
# $$P^t_{i,\,2j} = \sin\!\left(i / 10000^{2j/d}\right) + \sin\!\left(t / 10000^{2j/d}\right) \qquad P^t_{i,\,2j+1} = \cos\!\left(i / 10000^{2j/d}\right) + \cos\!\left(t / 10000^{2j/d}\right)$$
#
# | name | shape |
# | --- | --- |
# | `step` | an int, from 1 |
# | result | (T, d_model), added to states (B, T, d_model) |
#
# Use `sinusoidal_positions(T, d_model)` of lecture 05.

# %%
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from course_lib.primitives import sinusoidal_positions

# %% exercise="06.1" difficulty="●○○" minutes=5
from course_lib.models import step_encoding

# %% tags=["nbval-check-output"]
step_encoding = check("06.1", step_encoding)

# %% tags=["nbval-check-output"]
steps_and_places = torch.stack([step_encoding(8, 32, step) for step in range(1, 9)])
distance = (
    (steps_and_places[:-1, 1:] - steps_and_places[:-1, 1:].transpose(0, 1)).abs().max()
)
claim("06.c", distance=distance)

# %% [markdown]
# The encoding is symmetric in position and step (06.c). This does no harm: all positions take step $t$ at the same time, so
# within one step the encodings differ only by position.
#
# ## 3 When to halt
#
# How many steps should a position take? A fixed number is too many for easy columns and too few for hard ones. In
# **adaptive computation time**, each position computes a halting value $h_n$ between 0 and 1 after each step $n$. It halts at
# the first step $N$ at which these values sum to $1 - \varepsilon$ or more, or at the last step allowed if they never do. The
# result is a weighted sum over the steps, in which the last step taken gets the remainder $R$ (Graves, eqs. 6 to 8):
#
# $$p_n = \begin{cases} h_n & n < N \\ R = 1 - \sum_{m<N} h_m & n = N \\ 0 & n > N \end{cases}$$
#
# | name | shape |
# | --- | --- |
# | `h`, result | (…, n_steps) |
# | `epsilon` | a number, 0.01 |
#
# Why $\varepsilon$? A sigmoid never reaches 1, so without $\varepsilon$ no position could halt after a single step.

# %% exercise="06.2" difficulty="●●○" minutes=15
from course_lib.primitives import halting_distribution

# %% tags=["nbval-check-output"]
halting_distribution = check("06.2", halting_distribution)

# %% [markdown]
# ## 4 Ponder cost
#
# The loss on the digits does not penalise steps, so a second term counts them. The **ponder cost** of a
# position is $\rho = N + R$. Its mean over the positions, multiplied by a price $\tau$ (Graves calls it the time penalty),
# is added to the loss.

# %% [markdown] tags=["predict"]
# **Predict.** $N$ is a count: it does not change when $h$ changes a little. What is the gradient of $\rho = N + R$ with respect
# to an $h_n$ before the last step taken, $n < N$?
#
# <details><summary>A. None: a count has no gradient.</summary>
#
# $N$ has no gradient, but $R$ has one.</details>
# <details><summary>B. −1: a larger h_n leaves less for the last step.</summary>
#
# Yes, for every n < N, and 0 from N on. Gradient descent increases the early h until their sum reaches the threshold one step
# sooner. Then N falls by 1, a jump that the gradient does not capture.</details>
# <details><summary>C. +1: a larger h makes the position take more steps.</summary>
#
# The opposite is true: the position halts sooner.</details>

# %% exercise="06.3" difficulty="●●○" minutes=10
from course_lib.primitives import ponder_cost

# %% tags=["nbval-check-output"]
ponder_cost = check("06.3", ponder_cost)

# %% tags=["nbval-check-output"]
h = torch.tensor([0.3, 0.5, 0.4, 0.9], requires_grad=True)
ponder_cost(h).backward()
shares = [round(share, 2) for share in halting_distribution(h).tolist()]
claim("06.d", shares=tuple(shares))
claim("06.e", grad=tuple(h.grad.tolist()))

# %% [markdown]
# ## 5 One block, applied repeatedly
#
# We begin with a fixed number of steps: one block is applied with the same weights each time, and before each application the
# encoding of the step is added to the states (eqs. 4 and 5):
#
# $$H^t = \mathrm{Block}\!\left(H^{t-1} + P^t\right)$$
#
# | name | what is in it |
# | --- | --- |
# | `x`, result | (B, T, d_model) |
# | `attention`, `network`, `norms`, `n_heads`, `mask` | arguments of `encoder_block`, as in 05.4 |
# | `n_steps` | number of applications; 0 returns `x` |

# %%
from statistics import mean

from course_lib.blocks import (
    AttentionWeights,
    FeedForwardWeights,
    NormWeights,
    encoder_block,
)
from course_lib.shapes import Mask, TokenFeatures

# %% exercise="06.4" difficulty="●●○" minutes=10
from course_lib.models import shared_encoder

# %% tags=["nbval-check-output"]
shared_encoder = check("06.4", shared_encoder)

# %% [markdown] tags=["predict"]
# **Predict.** We apply one block four times instead of once, without a mask, and train it on sums of ten digits. The number of
# weights is unchanged. How does the accuracy change on ten digits, and on twenty?
#
# <details><summary>A. It rises on both, and is as high on twenty as on ten.</summary>
#
# In training, only columns at most ten apart matter to each other; sums of twenty digits may need longer distances.</details>
# <details><summary>B. It rises a lot on ten; on twenty, much of that accuracy is lost.</summary>
#
# Yes: the figure in section 7 shows how much remains. On sums ten times as long as in training, the paper reports a character
# accuracy of 34 % (7 % for a Transformer) and a sequence accuracy of 2 %.</details>
# <details><summary>C. It does not rise: the same weights can do no more than before.</summary>
#
# The weights are applied four times, and each step reads what the previous one wrote into the states.</details>


# %% tags=["nbval-check-output"]
from course_lib.models import SeparateSteps
from course_tools.lectures.lecture_06.experiments import EncoderSteps


def size(model):
    """How many weights a model has."""
    return sum(weights.numel() for weights in model.parameters())


four_steps = [
    learn(
        adder(lambda: EncoderSteps(block(), 4, shared_encoder), seed),
        mask=ALL,
        seed=seed,
        steps=TRAINING,
    )
    for seed in SEEDS
]
show_losses({"one layer": one_layer, "four steps": four_steps}, "nats per digit")
of_four = [exact(model, short.test, ALL) for model in four_steps]
claim("06.f", difference=size(four_steps[0]) - size(one_layer[0]))
separate = adder(lambda: SeparateSteps([block() for _ in range(4)]), 0)
claim("06.g", ratio=size(separate) / size(four_steps[0]))
claim("06.h", difference=mean(of_four) - mean(of_one))

far_of_four = [exact(model, long.test, ALL) for model in four_steps]
claim("06.i", difference=mean(of_four) - mean(far_of_four))


# %% tags=["nbval-check-output"]
import copy

from course_tools.notebook import show


def after_steps(model, n_steps):
    """Exact match on ten digits when a trained model takes another number of steps."""
    other = copy.deepcopy(model)
    other.steps.n_steps = n_steps
    return exact(other, short.test, ALL)


more = {
    n: [after_steps(model, n) for model in four_steps] for n in (1, 2, 3, 4, 5, 6, 8)
}
by_library = copy.deepcopy(four_steps)
for model in by_library:
    model.steps = SharedSteps(model.steps.block, 4)
largest = max(
    abs(exact(model, short.test, ALL) - share)
    for model, share in zip(by_library, of_four, strict=True)
)
claim("06.j-library", largest=largest)
claim("06.j", difference=mean(more[4]) - mean(more[8]))
show(
    plots.curves(
        {
            f"seed {seed}": (list(more), [more[n][i] for n in more])
            for i, seed in enumerate(SEEDS)
        },
        "steps at test time",
        "exact match, ten digits",
        "models trained for four steps",
    ),
    alt="Exact on ten digits against the steps taken at test time, by models trained "
    "for four: "
    + "; ".join(
        f"{n} step{'s' * (n > 1)} {min(shares):.2f} to {max(shares):.2f}"
        for n, shares in more.items()
    )
    + ".",
)

# %% [markdown]
# Taking more steps than in training reduces the accuracy. A possible reason is that each step is identified by its step
# encoding, and a fifth step was never trained. We want a step that is correct whenever it is applied, and a model that decides
# when it is done.
#
# ## 6 The adaptive step
#
# After each step every position computes $h_n = \sigma(w \cdot s_n + b)$ from its new state $s_n$. A position halts once the
# sum of its $h$ reaches $1 - \varepsilon$. From then on its state **stays fixed**, and other positions can still attend to it.
#
# | name | shape |
# | --- | --- |
# | `x`, `y` | (B, T, d_model): states before the step, and the output of the block |
# | `halt` | `(w, b)`, (d_model,) and () |
# | `h` | (B, T, n), n may be 0; returned as (B, T, n + 1) |

# %%
from course_lib.models import AdaptiveSteps, UniversalOutput
from course_lib.primitives import HaltingStep

# %% exercise="06.5" difficulty="●●○" minutes=15
from course_lib.primitives import adaptive_step

# %% tags=["nbval-check-output"]
adaptive_step = check("06.5", adaptive_step)

# %% [markdown]
# ### Bug hunt
#
# The function below runs, returns the right shapes and resembles yours. Which line is wrong, and for which inputs does the
# result differ from yours? Decide before you run the check.

# %% exercise="06.5" bug="halts_the_whole_sentence"
from course_tools.bank.lecture_06.adaptive_step import (
    halts_the_whole_sentence as suspect,
)

# %% tags=["nbval-check-output"]
suspect = check("06.5", suspect)

# %% [markdown]
# The output is the weighted sum of the states of all steps (Graves, eq. 9): $\sum_n p_n s_n$. Because it is a mixture and
# not the last state alone, the loss has a gradient with respect to $h$.
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
from torch import nn


def by_checked_functions(model, x, mask):
    """What `AdaptiveSteps` does, put together from the functions of this lecture."""
    halt = model.halt.weight[0], model.halt.bias[0]
    states, h = [], x.new_zeros(*x.shape[:-1], 0)
    for n in range(1, model.n_steps + 1):
        y = model.block(x + step_encoding(*x.shape[1:], n, x.device).to(x), mask)
        x, h = adaptive_step(x, y, halt, h, model.epsilon)
        states.append(x)
    mixed = mix_states(torch.stack(states, dim=-2), h, model.epsilon)
    p, cost = (f(h, model.epsilon) for f in (halting_distribution, ponder_cost))
    return UniversalOutput(mixed, p, cost)


class CheckedSteps(nn.Module):
    """The weights of an `AdaptiveSteps`, used by the functions of this lecture."""

    def __init__(self, adaptive):
        super().__init__()
        self.adaptive = adaptive

    def forward(self, x, mask=None):
        return by_checked_functions(self.adaptive, x, mask)


torch.manual_seed(SEEDS[0])
steps, x = AdaptiveSteps(block(), 32, 6), torch.randn(3, T, 32)
nn.init.normal_(steps.halt.weight, std=0.3)
checked, pondered = CheckedSteps(steps)(x), steps(x)
gap = max((a - b).abs().max() for a, b in zip(checked, pondered, strict=True))
claim("06.k", gap=gap)

# %% [markdown] tags=["predict"]
# ## 7 The experiment
#
# We make two changes. The first is a **local mask**: each column attends only to **itself and the next lower one**, so a carry
# moves one column per step. The second is **halting**: each column decides how many of the eight steps it takes. The adaptive
# models below are trained with `CheckedSteps`, which calls your functions. Training is as before, but for 320 updates, because
# adaptive steps take more time, and with a price on steps in the last third.
#
# Which of the two changes matters? The baseline here has only the mask: a stack of eight *separate* layers, without shared
# weights and without halting (nearly eight times the weights), trained at the better of two learning rates, 2e-3. A recorded
# study then adds eight *fixed shared* steps, compares all models at both rates, and also trains separate layers and adaptive
# steps without the mask.
#
# **Predict.** How many steps will a column of the adaptive model take?
#
# <details><summary>A. All columns take the same number: they share their weights.</summary>
#
# The halting unit is shared as well, but it reads the state, which differs from column to column.</details>
# <details><summary>B. The greater the distance its incoming carry has to travel, the more steps it takes.</summary>
#
# Yes. As long as the carry is unknown, the state is provisional, and the mixture must give little weight to such
# states.</details>
# <details><summary>C. The higher the column, the more steps it takes: it waits for all lower columns.</summary>
#
# People add like this on paper. But the columns 1 + 1 and 0 + 0 decide their carry at once, wherever they are, and all columns
# are computed in parallel.</details>

# %%
N_STEPS, PRICE = 8, 0.03
LOCAL = ALL.tril().triu(-1)


def with_price(model, seed, price=PRICE):
    """A copy of the model, trained on with a price."""
    return learn(
        copy.deepcopy(model),
        mask=LOCAL,
        seed=seed + 10,
        steps=110,
        lr=4e-3,
        price=price,
    )


free = [
    learn(
        adder(lambda: CheckedSteps(AdaptiveSteps(block(), 32, N_STEPS)), seed),
        mask=LOCAL,
        seed=seed,
        steps=210,
    )
    for seed in SEEDS
]
priced = [with_price(model, seed) for model, seed in zip(free, SEEDS, strict=True)]
layers = [
    learn(
        adder(lambda: SeparateSteps([block() for _ in range(N_STEPS)]), seed),
        mask=LOCAL,
        seed=seed,
        steps=400,
        lr=2e-3,
    )
    for seed in SEEDS[:2]
]
show_losses(
    {
        "adaptive, without price": free,
        "eight separate layers": layers,
        f"adaptive, trained on at price {PRICE}": priced,
    },
    "nats per digit + price × (N + R)",
)

# %% tags=["nbval-check-output"]
on_long = {
    "no mask: four shared steps, lr 5e-3": far_of_four,
    "local mask: eight layers, lr 2e-3": [exact(m, long.test, LOCAL) for m in layers],
    "local mask: adaptive, lr 5e-3": [exact(m, long.test, LOCAL) for m in priced],
}
adaptive = on_long["local mask: adaptive, lr 5e-3"]
claim("06.l", average=mean(adaptive))
claim("06.n", difference=size(priced[0]) - size(one_layer[0]))

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_06.experiments import steps_taken

show(
    plots.seeds(
        on_long, "exact match", "sums of twenty digits, one point per trained model"
    ),
    alt="Exact on sums of twenty digits. "
    + "; ".join(f"{name} {min(s):.2f} to {max(s):.2f}" for name, s in on_long.items())
    + ".",
)

steps_by_walk = [
    [taken[long.test.walks == walk].float().mean().item() for walk in range(1, N_STEPS)]
    for taken in (steps_taken(model, long.test, LOCAL) for model in priced)
]
claim("06.o", average=mean(steps[-1] - steps[0] for steps in steps_by_walk))

# %% [markdown] tags=["predict"]
# The number of steps increases with the distance that the carry travels. No label contains this distance: the model learned
# when to halt from the loss on the digits and from the price on steps.
#
# **Predict.** To compare baselines, the study `06_fixed_steps` trains four forms with the same mask for 400
# updates, at learning rates of 2e-3 and 5e-3 and with eight seeds: eight fixed shared steps whose output is the last state; the
# same steps, with the mean of all eight states as output; eight separate layers; and adaptive steps without a price. Which of
# them get most sums of twenty digits right with every seed, at both rates?
#
# <details><summary>A. All four: they have the same mask.</summary>
#
# With the mask, each of them can learn this. But two of them do not learn it with every seed in 400 updates.</details>
# <details><summary>B. Adaptive steps alone: only they halt.</summary>
#
# The mean of the states does not halt, and it learns the task with every seed, too (06.u-mixture).</details>
# <details><summary>C. The mean of the states and adaptive steps: both mix the states of several steps.</summary>
#
# Yes. A possible reason, which we have not tested, is that the mixture shortens the path of the gradient from the loss to the
# first steps.</details>

# %%
from course_tools.notebook import recorded

study = recorded("06_fixed_steps")
styles = {}  # of each form: the same at both learning rates, and with either mask
for mask, no_mask in (("local mask", False), ("no mask", True)):
    runs = {
        name.replace(", no mask", "").replace("learning rate", "lr"): study.scores(
            name, "twenty digits"
        )
        for name in study.names
        if ("no mask" in name) == no_mask
    }
    title = f"sums of twenty digits, {mask}, 400 updates unless stated"
    figure = plots.seeds(runs, "exact match", title)
    figure.axes[0].set_ylim(-0.05, 1.05)
    for points, name in zip(figure.axes[0].lines, runs, strict=True):
        style = {"color": points.get_color(), "marker": points.get_marker()}
        points.set(**styles.setdefault(name.split(", lr")[0], style))
    show(
        figure,
        alt=f"Exact match on {title}, one point per seed. "
        + "; ".join(
            f"{name}: {', '.join(f'{share:.2f}' for share in shares)}"
            for name, shares in runs.items()
        )
        + ".",
    )
print(study.cost)


# %% tags=["nbval-check-output"]
def recorded_mean(name, lr):
    """Exact match on twenty digits, mean of eight seeds."""
    return mean(study.scores(f"{name}, learning rate {lr:g}", "twenty digits"))


def better_rate(name):
    """Exact match on twenty digits, mean of eight seeds, at the better of two rates."""
    return max(recorded_mean(name, lr) for lr in (2e-3, 5e-3))


claim("06.m", recorded_mean=recorded_mean("eight separate layers", 2e-3))
difference = recorded_mean("eight separate layers", 2e-3) - better_rate(
    "eight separate layers, no mask"
)
claim("06.b", difference=difference)
claim("06.u", difference=better_rate("adaptive") - better_rate("eight shared steps"))
difference = better_rate("eight shared steps, mean of states") - better_rate(
    "eight shared steps"
)
claim("06.u-mixture", difference=difference)
difference = better_rate("adaptive") - better_rate("eight shared steps, mean of states")
claim("06.u-mean", difference=difference)
difference = better_rate("adaptive") - better_rate("eight separate layers")
claim("06.u-layers", difference=difference)


def after_1200(name, mask=""):
    """Exact match on twenty digits after 1,200 updates, by seed."""
    setting = f"{name}{mask}, learning rate 0.002, 1,200 updates"
    return study.scores(setting, "twenty digits")


fixed = (
    "eight shared steps",
    "eight shared steps, mean of states",
    "eight separate layers",
)
claim("06.more", least=min(min(after_1200(name)) for name in (*fixed[1:], "adaptive")))
difference = mean(after_1200("adaptive")) - max(
    mean(after_1200(name)) for name in fixed
)
claim("06.more-lead", difference=difference)
difference = min(after_1200("eight separate layers")) - max(
    after_1200("eight separate layers", ", no mask")
)
claim("06.more-mask", difference=difference)

# %% [markdown] tags=["predict"]
# **What the baselines show** after 400 updates. At 2e-3, three of the eight models that output the last shared state get most
# sums of twenty digits right, and seven of the eight with separate layers. So with the local mask, neither halting nor shared
# weights are needed to generalise. Without it, one of sixteen models with separate layers and three of sixteen adaptive models
# get half of the long sums right or more. This is not only because they learn less in training: without the mask, the models
# with separate layers that learn ten digits at 5e-3 (0.98 or more) get 0.18 to 0.50 of the sums of twenty digits right
# (adaptive: 0.29 to 0.70); with it, at 2e-3, those that learn ten digits (0.91 or more) get 0.75 to 0.97. So the mask makes
# the difference here (06.b). It is not sufficient: at 5e-3, separate layers fail with it, too.
#
# At 5e-3, only two of the models that output the last shared state get most long sums right, whereas at both rates all adaptive
# models do, and all that output the mean of the states. With the mask, the models that fail on twenty digits fail on ten, too
# (0.42 or less), so their failure is one of training. At the better rate of each, the means are 0.98 (adaptive), 0.90 (mean of
# states), 0.78 (separate layers) and 0.37 (last state). So after 400 updates, most of what the adaptive model gains comes from
# mixing the states of all steps (06.u-mixture). Adaptive steps are 0.08 above the mean of states on average (06.u-mean), but
# the seeds overlap, and two things differ: the weights are learned, and positions halt.
#
# **More updates.** These are mostly leads in *speed*. After 1,200 updates at 2e-3, separate layers, the mean of states and
# adaptive steps get at least 0.9 of the sums of twenty digits right with every seed (06.more), the last state with seven of
# eight, and adaptive steps are within 0.05 of the best of the others (06.more-lead). The effect of the mask stays: without
# it, all models with separate layers now solve the sums of ten digits, but not those of twenty (06.more-mask). What halting
# saves is steps, once they have a price.
#
# **Predict.** Within eight steps, a carry can travel at most eight columns. We allow twelve steps after training. What happens
# to sums of twenty digits in which a carry travels nine to twelve columns?
#
# <details><summary>A. All become correct: a waiting column can wait longer.</summary>
#
# Not all of them. Training did not determine what happens at step nine: a column that reached step eight was forced to
# halt.</details>
# <details><summary>B. Accuracy collapses, as in section 5.</summary>
#
# There, every position went through untrained steps. Here, only the positions that have not halted continue.</details>
# <details><summary>C. More become correct, on average.</summary>
#
# Yes (06.p-far); with other seeds, one model of nine gained nothing. Among all sums of twenty digits the difference is hardly
# visible (06.p), because few of them have such a long carry.</details>

# %% tags=["nbval-check-output"]
with_twelve = copy.deepcopy(priced)
for model in with_twelve:
    model.steps.adaptive.n_steps = 12
lifted = [exact(model, long.test, LOCAL) for model in with_twelve]
many = sums(1, 1, 20_000, n_digits=20, T=T, seed=2).test
longest = many.walks.amax(1)
far = type(many)(*(part[(longest > 8) & (longest <= 12)] for part in many))
print(f"{len(far.walks)} of {len(longest):,} new sums have a carry of 9 to 12 columns")
gained = [
    exact(twelve, far, LOCAL) - exact(eight, far, LOCAL)
    for eight, twelve in zip(priced, with_twelve, strict=True)
]
print("more of these are right:", ", ".join(f"{share:+.2f}" for share in gained))
claim("06.p", difference=mean(lifted) - mean(adaptive))
claim("06.p-far", average=mean(gained))

# %% [markdown]
# ## 8 Steps taken
#
# The next figure shows how the number of steps grows with the distance of the carry; the map after it shows the weight of each
# step in one sum.

# %%
ways = range(1, N_STEPS)
lines = {
    f"seed {seed}": (ways, steps)
    for seed, steps in zip(SEEDS, steps_by_walk, strict=True)
}
figure = plots.curves(
    lines,
    "distance of the carry, in columns",
    "steps taken, mean",
    across={"most steps allowed": N_STEPS},
)
figure.axes[0].set_ylim(0, N_STEPS + 0.5)
show(
    figure,
    alt=f"Steps taken, at most {N_STEPS}, against the distance of the carry, from 1 to "
    "7 columns. "
    + "; ".join(
        f"{name}: {steps[0]:.1f} to {steps[-1]:.1f}"
        for name, (_, steps) in lines.items()
    )
    + ".",
)

# %%
from course_tools.lectures.lecture_06.experiments import add, step_map

total, weights, columns = add(priced[0], 31, 1, LOCAL)
show(
    step_map(weights, columns),
    alt=f"Weights of the steps in 31 + 1, answered by {total}. Last step taken, column "
    "by column: " + ", ".join(str(n) for n in (weights > 0).sum(-1).tolist()) + ".",
)

# %% tags=["try-it"]
# Try it: a carry through many columns; carries that travel only one column, because
# every column is 1 + 1 or 0 + 0; no carry at all, but every column propagates what it
# receives, so all of them wait, even the lowest; and a carry that travels further than
# eight steps reach.
for a, b in ((15, 1), (48, 48), (21, 42), (1023, 1)):
    total, weights, _ = add(priced[0], a, b, LOCAL)
    print(f"{a} + {b} = {total:<8} steps {(weights > 0).sum(-1).tolist()}")


# %% tags=["interactive"]
from course_tools.notebook import explore


def draw_steps(ones=8):
    """Draw the steps of each column when 1 is added to a number of so many ones."""
    total, weights, columns = add(priced[0], 2**ones - 1, 1, LOCAL)
    show(
        step_map(weights, columns),
        alt=f"{2**ones - 1} + 1 = {total}; columns take "
        f"{', '.join(map(str, (weights > 0).sum(-1).tolist()))} steps.",
    )


explore(draw_steps, ones=(1, 10, 1))

# %% [markdown] tags=["predict"]
# ## 9 Ablation: the price of a step
#
# **Predict.** We try two other prices: zero, and one so high (1 per step) that the digits hardly matter. What happens?
#
# <details><summary>A. At price 0 the model takes all eight steps; at price 1 it halts at once and adds badly.</summary>
#
# The second half is right. But at price 0 the model does not take all steps either (see the printed numbers).</details>
# <details><summary>B. At price 0 it takes more steps, but not all; at price 1 it halts almost at once and adds badly.</summary>
#
# Yes: without a price, the loss on the digits alone decides when to halt, and further steps cost nothing. At price 1, halting
# at once lowers the loss more than correct digits do.</details>
# <details><summary>C. The price changes only how fast the model learns.</summary>
#
# The price is part of the loss, so it also changes what the model learns.</details>


# %% tags=["nbval-check-output"]
def mean_steps(model):
    """The mean number of steps over all columns of long sums."""
    return steps_taken(model, long.test, LOCAL).float().mean().item()


no_price = [
    with_price(model, seed, 0.0) for model, seed in zip(free, SEEDS, strict=True)
]
dear = with_price(free[0], SEEDS[0], price=1.0)
show_losses(
    {"price 0": no_price, f"price {PRICE}": priced, "price 1, one seed": dear},
    "nats per digit + price × (N + R)",
    log="y",
)
steps_at = {
    "price 0": [mean_steps(model) for model in no_price],
    f"price {PRICE}": [mean_steps(model) for model in priced],
    "price 1": [mean_steps(dear)],
}
for price, counts in steps_at.items():
    print(
        f"{price}: {', '.join(f'{n:.2f}' for n in counts)} of {N_STEPS} steps, by seed"
    )
print(
    "exact on twenty digits, by seed: price 0",
    ", ".join(f"{exact(model, long.test, LOCAL):.2f}" for model in no_price)
    + f"; price {PRICE}",
    ", ".join(f"{share:.2f}" for share in adaptive),
)
claim("06.r", difference=mean(steps_at["price 0"]) - mean(steps_at[f"price {PRICE}"]))
claim("06.s", difference=steps_at["price 0"][0] - steps_at["price 1"][0])
claim("06.t", difference=adaptive[0] - exact(dear, long.test, LOCAL))

# %% [markdown]
# ## 10 Build it
#
# **Build task (30 minutes, 12 points).** So far you have written the parts of adaptive computation time. Now write the whole
# model and its training loop, starting from an empty cell. You may use your functions and the library's `Block`, but not its
# `Universal` or `AdaptiveSteps`. A block of width 32 with four heads, called as `block(x, mask)`, is
# `Block(SelfAttention(MultiHead(32, 4, fused_scaled_dot_product_attention)), FeedForward(32, 64), 32)`.
#
# The model learns sums of **six** digits in 13 columns. The check calls `train_adder(columns, digits, n_steps, n_updates)`
# once, with 4,000 sums, `n_steps=6` and `n_updates=300`, and evaluates the returned model on other sums of six digits and on
# sums of **twelve**. The function has at most 60 seconds of processor time; a good answer needs about six. So that halting can
# be judged, the model returns the results of each step:
#
# | call | result |
# | --- | --- |
# | `model(columns)` | (B, T, n, 3), n ≤ n_steps: two logits from the state after each step, and the weight of the step |
# | `model(columns, digits)` | the loss, one number |
#
# The **answer** is the weighted sum of the logits, $y = \sum_n p_n y_n$: for a linear readout, that is the readout of the
# mixture. The loss is the mean cross-entropy of the answer, plus a price from 0.001 to 0.3 times the mean ponder cost $N + R$.
# The price may change during the training, but it must not be 0 when the check asks the trained model for its loss. The model
# learns more reliably with the local mask of section 7 and without a price in the first part of the training.
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

# %%
from course_lib.attention import MultiHead
from course_lib.fast import fused_scaled_dot_product_attention
from course_lib.blocks import Block, FeedForward, SelfAttention

# %% exercise="06.7" difficulty="●●●" minutes=30
from course_tools.bank.lecture_06.train_adder import train_adder

# %% tags=["nbval-check-output"]
train_adder = check("06.7", train_adder)

# %% [markdown]
# If a price is added only late in the training, as in hint 2, the loss jumps up at that update: from then on it contains the
# price of the steps.
#
# The next cell trains this model once more and adds 1 to binary numbers that consist of more and more ones: 11, 111, 1111 … Do
# the columns that wait for the carry take more steps?

# %%
from course_tools.notebook.authorship import whose

pairs = sums(4_000, 1, 1, n_digits=6, T=13).train
torch.manual_seed(SEEDS[0])
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

# %% [markdown] tags=["quiz"]
# ## 11 Exit quiz
#
# **Question 1.** A Universal Transformer of one block takes six steps. Compared with an ordinary Transformer of six blocks of
# the same width, what does it save?
#
# <details><summary>A. Time.</summary>
#
# Six applications of one block cost as much time as six blocks, unless halted positions are removed from the batch.</details>
# <details><summary>B. Weights.</summary>
#
# Right: it has a sixth of the weights in the blocks.</details>
# <details><summary>C. Memory in training.</summary>
#
# The states of all six steps are kept for the backward pass, as in any recurrence.</details>
#
# **Question 2.** Why does a halted position keep its state instead of being removed?
#
# <details><summary>A. Other positions may still need to attend to it.</summary>
#
# Right: the next higher column may still need the carry that this column has decided.</details>
# <details><summary>B. To save time.</summary>
#
# Here it saves none: the block computes all positions, and `torch.where` discards some results.</details>
# <details><summary>C. Because its gradient would be lost.</summary>
#
# Its states up to the step at which it halts are already in the mixture.</details>
#
# **Question 3.** Only $R$ contributes to the gradient of the ponder cost. What does gradient descent on the ponder cost do to a
# position that takes four steps?
#
# <details><summary>A. It increases h₁, h₂ and h₃, until three steps are enough.</summary>
#
# Right, and R jumps up when N falls: the cost is not continuous.</details>
# <details><summary>B. It increases h₄.</summary>
#
# R does not depend on h₄: it is the remainder after the steps *before* the fourth.</details>
# <details><summary>C. It decreases all h.</summary>
#
# Then R would grow.</details>

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

# %% [markdown] tags=["companion"]
# ## 12 Ledger
#
# **Remarks on the deck** (*EE* is EE-559 13.2) **and the paper.**
#
# - *EE*, "the number of steps is modulated per position dynamically": confirmed here, where the number grows with the distance
#   of the carry (06.o). In another task, or with another mask, it may depend on something else.
# - *EE* writes both exponents as $2j/d$ here, as the paper does; in its own section on positional encoding the cosine has
#   $(2i+1)/d$ (06.EE, and lecture 05).
# - *Dehghani et al.* state that a halted position is copied to the next step, and cite Graves. Their published code
#   (tensor2tensor, the "basic" variant) keeps transforming it and updates the mixture at each step,
#   $y \leftarrow p_n s_n + (1 - p_n)\, y$: each later step shrinks the weights of the earlier ones (06.UT).
#
# **Limits of this lecture.** The experiments use one task, in which the necessary computation is local, one model width (32)
# and two learning rates. Whether a fixed number of steps trains reliably at 5e-3 with more updates, a longer warm-up or another
# initialisation was not tried, nor were fewer fixed steps. In the study, the projections of the attention have biases; in the
# live trainings they do not.
#
# ## 13 Papers and decks
#
# **Papers.** Dehghani et al. 2019, *Universal Transformers*, eqs. 4 to 7 and section 2.2 (https://arxiv.org/abs/1807.03819) ·
# Graves 2016, *Adaptive Computation Time for Recurrent Neural Networks*, section 2 (https://arxiv.org/abs/1603.08983).
#
# The site compares the numbers of these papers with ours ([docs/evidence.md](../docs/evidence.md)).
#
# **Decks.** EE-559 13.2.
#
# <details><summary>Where each section of the decks is covered, and the library's name for it</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | EE | Universal Transformer | 2 Position and step encoding | `course_lib.models.step_encoding`, `course_lib.models.shared_encoder`, `course_lib.models.AdaptiveSteps` |
#
# </details>

# %% tags=["nbval-check-output"]
p = halting_distribution(torch.tensor([0.3, 0.5, 0.4, 0.9])).tolist()
kept = [
    p[n] * torch.tensor([1 - q for q in p[n + 1 :]]).prod().item() for n in range(4)
]
claim("06.UT", values=tuple(round(v, 2) for v in [*kept, sum(kept)]))

t = torch.arange(6.0)[:, None]
even = torch.arange(0, 32, 2)
other = (t / 10_000 ** ((even + 1) / 32)).cos() + (
    torch.tensor(3.0) / 10_000 ** ((even + 1) / 32)
).cos()
claim("06.EE", gap=(step_encoding(6, 32, 3)[:, 1::2] - other).abs().max())

# %% tags=["ledger"]
ledger()
