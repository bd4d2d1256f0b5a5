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
# # 01 · Recurrence
#
# **The claim.** A plain recurrent network cannot learn to carry one symbol over sixty steps, because the gradient that would teach
# it shrinks to nothing on the way; an LSTM whose forget gate starts open learns it on every seed; and the same LSTM with the gate
# half shut fails like the plain network.
#
# **You need** Python, tensors, and back-propagation through a feed-forward network. **Time:** about 75 minutes. {measured}
#
# **Papers.** Elman 1990 (https://doi.org/10.1207/s15516709cog1402_1) · Werbos 1990 (https://doi.org/10.1109/5.58337) · Hochreiter &
# Schmidhuber 1997, section 3 (https://doi.org/10.1162/neco.1997.9.8.1735) · Gers et al. 2000, section 3
# (https://doi.org/10.1162/089976600300015015) · Pascanu et al. 2013, eqs. 3 to 5 and algorithm 1
# (https://arxiv.org/abs/1211.5063) · Cho et al. 2014, eqs. 5 to 8 (https://arxiv.org/abs/1406.1078).
#
# **Decks.** ITMO lecture 7 and RKMVERI; the table leads from their sections to ours.

# %% [markdown] tags=["companion"]
# <details><summary>Which sections of the decks this follows, and where the library holds them</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | IT | Long-sequence problem | 1 A reader that forgets | `course_lib.datasets.recall` |
# | IT | Parameters of RNN | 2 One step | `course_lib.primitives.rnn_step`, `course_lib.primitives.RNN` |
# | RK | Transformer: issues with RNNs | 3 Back through time | `course_lib.primitives.bptt_step` |
# | IT | Problems with "classic" RNN | 4 Too large: clip | `course_lib.primitives.clip_gradients` |
# | IT | Plane Deep Network | 6 The carousel | `course_lib.primitives.carousel_gradient` |
# | IT | Long Short-Term Memory (LSTM) cell | 5 A cell with gates | `course_lib.primitives.lstm_step`, `course_lib.primitives.LSTM`, `course_lib.primitives.GRU` |
#
# </details>

# %%
import math
from collections.abc import Sequence
from statistics import mean

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib import primitives
from course_lib.datasets import digits, recall
from course_lib.exercises import check
from course_lib.primitives import GRU, LSTM, RNN, StepGradients, fused_gru, fused_lstm, hoisted_rnn
from course_lib.primitives.cells import Input, State
from course_lib.teaching import at_scale, claim, device, explore, ledger, plots, progress, show
from course_lib.training import batches, train

SEEDS = (0, 1, 2)

# %% [markdown]
# ## 1 A reader that forgets
#
# *"I have been to Paris. … I have a perfect opportunity to learn ___ language."* The word that decides the gap stands far back, and
# everything between is of no use. Strip that to its bones: a sequence of symbols in which **the first one is the answer** and all
# others are noise from another alphabet. A network reads it one symbol at a time and must say at the end which came first.
#
# There is nothing to understand here. It is a test of one thing only: can what happened at step 1 still be *learned from* at step T?

# %% [markdown] tags=["predict"]
# **Predict.** A plain recurrent network with 64 hidden units reads five symbols, then sixty. Chance is one in eight.
#
# <details><summary>A. Both are easy: 64 numbers can hold one of eight symbols with room to spare.</summary>
#
# It could hold it: weights that do this exist. The question is whether gradient descent *finds* them.</details>
# <details><summary>B. Five is easy, sixty is at chance.</summary>
#
# Yes. Not a little worse: at chance. Sections 3 and 6 say why, with numbers.</details>
# <details><summary>C. Sixty works too, it only takes longer.</summary>
#
# That is the natural guess: twelve times the length, twelve times the work. But what the first symbol contributes to the gradient falls
# by a factor *per step*; no patience makes up for an exponential.</details>

# %%
N_SYMBOLS, N_HIDDEN = 8, at_scale(cpu=64, gpu=128)


class Reader(nn.Module):
    """Read one-hot symbols (B, T) with a recurrent layer, and classify by its last state."""

    def __init__(self, cell):
        super().__init__()
        self.cell, self.read_out = cell, nn.Linear(cell.d_hidden, N_SYMBOLS)

    def forward(self, tokens):
        states, _ = self.cell(F.one_hot(tokens, 2 * N_SYMBOLS).float())
        return self.read_out(states[:, -1])


def recall_accuracy(make_cell, T, seed, steps=400):
    """Train a Reader on sequences of length T, and give its share of right answers on new ones."""
    data = recall(4_000, 1, 1_000, T=T, n_symbols=N_SYMBOLS, seed=seed)
    torch.manual_seed(seed)
    model = Reader(make_cell()).to(device())
    stream = batches(*(part.to(device()) for part in data.train), batch_size=32, seed=seed)
    run = train(model, stream, lambda m, batch: F.cross_entropy(m(batch[0]), batch[1]), steps=steps, lr=1.5e-3, warmup=40)
    for _ in progress(run, f"T = {T}, seed {seed}", total=steps):
        pass
    with torch.no_grad():
        right = model(data.test.tokens.to(device())).argmax(-1) == data.test.labels.to(device())
    return right.float().mean().item()


# %% tags=["nbval-check-output"]
LONG = 60
near = [recall_accuracy(lambda: RNN(2 * N_SYMBOLS, N_HIDDEN, hoisted_rnn), 5, seed) for seed in SEEDS]
far = [recall_accuracy(lambda: RNN(2 * N_SYMBOLS, N_HIDDEN, hoisted_rnn), LONG, seed) for seed in SEEDS]
claim("01.a", "a plain recurrent network recalls the first of 5 symbols: worst of the seeds", min(near), at_least=0.95)
claim(
    "01.b",
    "a plain recurrent network does not recall the first of 60 symbols, where chance is 1 in 8: mean over the seeds",
    mean(far),
    at_most=0.35,
)

# %% [markdown]
# ## 2 One step
#
# A recurrent network is one small function, used again at every step: it takes the input $x_t$ and its own previous state $h_{t-1}$,
#
# $$h_t = \tanh(W x_t + U h_{t-1} + b)$$
#
# | name | shape | what it is |
# | --- | --- | --- |
# | `x` | (…, d) | input at this step |
# | `h` | (…, n) | state before the step |
# | `W`, `U`, `b` | (n, d), (n, n), (n,) | the same at every step |
#
# The matrices are stored as torch stores them, (out, in), so that $Wx$ for a whole batch of rows is `x @ W.mT`.

# %% exercise="01.1" difficulty="●○○" minutes=5
from course_lib.primitives import rnn_step

# %% tags=["nbval-check-output"]
rnn_step = check("01.1", rnn_step)

# %% [markdown]
# Your step, used at every row of a handwritten digit, is a network that reads a picture from top to bottom. With the weights of
# `torch.nn.RNN` it must give torch's states.

# %% tags=["nbval-check-output"]
pictures = digits().images[:100]
torch.manual_seed(SEEDS[0])
theirs = nn.RNN(8, 32, batch_first=True)
W, U, b = theirs.weight_ih_l0.detach(), theirs.weight_hh_l0.detach(), (theirs.bias_ih_l0 + theirs.bias_hh_l0).detach()
h = torch.zeros(len(pictures), 32)
for row in pictures.unbind(1):
    h = rnn_step(row, h, W, U, b)
gap = (h - theirs(pictures)[1][0]).abs().max().item()
claim("01.c", "eight of your steps over real digits give the state of torch.nn.RNN, up to rounding", gap, at_most=1e-5)

# %% [markdown]
# ## 3 Back through time
#
# To learn, the error at the end must travel back to the step that caused it. One step backwards is the chain rule through
# $h_t = \tanh(a_t)$, $a_t = W x_t + U h_{t-1} + b$:
#
# $$\delta_t = \frac{\partial L}{\partial h_t} \odot (1 - h_t^2), \qquad \frac{\partial L}{\partial h_{t-1}} = U^\top \delta_t$$
#
# and from the same $\delta_t$ come the gradients of $x_t$, $W$, $U$ and $b$.
#
# | name | shape |
# | --- | --- |
# | `grad_h_new`, `h`, `h_new` | (B, n) |
# | result | gradients of `x` (B, d), `h` (B, n), `W` (n, d), `U` (n, n), `b` (n,) |
#
# Parameters serve every row of the batch: their gradients are sums over it. No autograd here: you are writing it.

# %% exercise="01.2" difficulty="●●○" minutes=15
from course_lib.primitives import bptt_step

# %% tags=["nbval-check-output"]
bptt_step = check("01.2", bptt_step)


# %% [markdown]
# Applied again and again, your step is back-propagation through time. It must agree with autograd, parameter by parameter.


# %% tags=["nbval-check-output"]
def through_time(x, W, U, b):
    """Run forward over x (B, T, d), then back by `bptt_step` from L = Σ h_T²; give the gradients of W, U, b and each ‖∂L/∂h_t‖."""
    states = [x.new_zeros(len(x), len(U))]
    for x_t in x.unbind(1):
        states.append(rnn_step(x_t, states[-1], W, U, b))
    grad, sums, norms = 2 * states[-1], [torch.zeros_like(p) for p in (W, U, b)], []
    for t in reversed(range(x.shape[1])):
        norms.append(grad.norm().item())
        back = StepGradients(*bptt_step(grad, x[:, t], states[t], states[t + 1], W, U))
        grad, sums = back.h, [total + part for total, part in zip(sums, (back.W, back.U, back.b), strict=True)]
    return sums, norms


parameters = [p.clone().double().requires_grad_() for p in (W, U, b)]
last, _ = primitives.encode(pictures.double(), torch.full((100,), 8), torch.zeros(100, 32).double(), *parameters)
by_autograd = torch.autograd.grad(last[:, -1].square().sum(), parameters)
by_hand, _ = through_time(pictures.double(), *(p.detach() for p in parameters))
gap = max(((mine - its).norm() / its.norm()).item() for mine, its in zip(by_hand, by_autograd, strict=True))
claim("01.d", "your back-propagation through eight steps equals autograd's, relative difference", gap, at_most=1e-5)

# %% [markdown] tags=["predict"]
# **Predict.** Each step back multiplies the gradient by $U^\top$ and by slopes of tanh, which are at most 1. Scale $U$ so that its largest
# eigenvalue has modulus 0.8, 1.0 or 1.4. What happens over 60 steps to a small state, where tanh is nearly straight?
#
# <details><summary>A. It shrinks for all three, since slopes are below 1.</summary>
#
# For a small state the slopes are close to 1, and a matrix that stretches wins over them.</details>
# <details><summary>B. It shrinks, stays within bounds, and grows, each by a factor per step.</summary>
#
# Yes. The factor is the modulus: $0.8^{60}$ is about a millionth, $1.4^{60}$ about half a thousand million.</details>
# <details><summary>C. It depends on the data alone.</summary>
#
# Data enter through the slopes only, and here they are nearly all 1.</details>

# %%
torch.manual_seed(SEEDS[0])
random = torch.randn(32, 32, dtype=torch.float64)
random = random / torch.linalg.eigvals(random).abs().max()
quiet = 1e-12 * torch.randn(4, LONG, 8, dtype=torch.float64)
norms = {rho: through_time(quiet, W.double(), rho * random, torch.zeros(32).double())[1] for rho in (0.8, 1.0, 1.4)}
lags = list(range(LONG))
per_step = {rho: (n[-1] / n[9]) ** (1 / (LONG - 10)) for rho, n in norms.items()}
relative = {f"largest eigenvalue {rho}": (lags, [v / n[0] for v in n]) for rho, n in norms.items()}
show(
    plots.curves(relative, "steps back", "gradient, relative to the last step", log="y"),
    alt="Norm of the gradient against the number of steps back, on a logarithmic axis: nearly straight lines. Factor per step: "
    + ", ".join(f"{factor:.2f} at an eigenvalue of {rho}" for rho, factor in per_step.items())
    + ".",
)

# %% tags=["nbval-check-output"]
claim(
    "01.e", "the gradient falls by the largest eigenvalue each step, 0.8: measured factor", per_step[0.8], between=(0.72, 0.88)
)
claim("01.f", "the gradient grows by the largest eigenvalue each step, 1.4: measured factor", per_step[1.4], between=(1.3, 1.5))

# %% [markdown]
# ## 4 Too large: clip
#
# A gradient that has grown points in the right direction and is far too long: one step along it throws the weights away. Pascanu,
# Mikolov and Bengio shorten it. All gradients of the model together are one long vector $g$; where it is longer than a threshold θ,
#
# $$\hat g = g \cdot \frac{\theta}{\lVert g \rVert}$$
#
# One factor for all, so that the direction stays. What is short enough stays as it is.
#
# | name | shape |
# | --- | --- |
# | `gradients` | a list of tensors of any shapes |
# | `max_norm` | θ > 0, for the norm of **all** entries together |
# | result | a list of new tensors in the same shapes |

# %% exercise="01.3" difficulty="●●○" minutes=10
from course_lib.primitives import clip_gradients

# %% tags=["nbval-check-output"]
clip_gradients = check("01.3", clip_gradients)

# %% tags=["nbval-check-output"]
exploding, _ = through_time(quiet, W.double(), 1.4 * random, torch.zeros(32).double())
steep = [1e30 * g for g in exploding]
clipped = clip_gradients(steep, 1.0)
flat, flat_clipped = (torch.cat([g.flatten() for g in gradients]) for gradients in (steep, clipped))
claim("01.g", "the clipped gradient has the norm of the threshold", flat_clipped.norm().item(), between=(0.999, 1.001))
claim(
    "01.h",
    "clipping keeps the direction of an exploding gradient: cosine",
    F.cosine_similarity(flat, flat_clipped, 0).item(),
    at_least=0.999,
)

# %% [markdown]
# Clipping is a cure for gradients that are too long. For those that have vanished it does nothing: there is no factor that brings back
# what is no longer there. That needs another cell.

# %% [markdown]
# ## 5 A cell with gates
#
# An LSTM keeps a second state, the **cell** $c$, that is changed by addition. Three gates in 0…1 decide what is written, kept and shown:
#
# $$i, f, o = \sigma(W x_t + U h_{t-1} + b) \qquad g = \tanh(W x_t + U h_{t-1} + b)$$
# $$c_t = f \odot c_{t-1} + i \odot g \qquad h_t = o \odot \tanh(c_t)$$
#
# Each of the four has its own rows of $W$, $U$ and $b$, one below the other.
#
# | name | shape | what it is |
# | --- | --- | --- |
# | `x`, `h`, `c` | (…, d), (…, n), (…, n) | input, state, cell state |
# | `W`, `U`, `b` | (4n, d), (4n, n), (4n,) | rows in torch's order: i, f, g, o |
# | result | `(h, c)`, each (…, n) | the new ones |

# %% exercise="01.4" difficulty="●●○" minutes=15
from course_lib.primitives import lstm_step

# %% tags=["nbval-check-output"]
lstm_step = check("01.4", lstm_step)

# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
theirs = nn.LSTM(8, 32, batch_first=True)
h, c = torch.zeros(100, 32), torch.zeros(100, 32)
for row in pictures.unbind(1):
    bias = theirs.bias_ih_l0 + theirs.bias_hh_l0
    h, c = lstm_step(row, h, c, theirs.weight_ih_l0, theirs.weight_hh_l0, bias)
gap = (c - theirs(pictures)[1][1][0]).abs().max().item()
claim("01.i", "eight of your steps over real digits give the cell state of torch.nn.LSTM, up to rounding", gap, at_most=1e-5)

# %% [markdown]
# ### Bug hunt
#
# A fellow student hands you this LSTM. It trains, it even learns short sequences. Run the check, read which property breaks on which
# input, find the line, and mend it below.

# %% exercise="01.4" bug="swaps_input_gate_and_forget_gate"
from course_lib.exercises.lecture_01.lstm_step import swaps_input_gate_and_forget_gate as suspect

# %% tags=["nbval-check-output"]
suspect = check("01.4", suspect)

# %% exercise="01.4" difficulty="●○○" minutes=5
from course_lib.primitives import lstm_step as mended

# %% tags=["nbval-check-output"]
mended = check("01.4", mended)

# %% [markdown]
# ## 6 The carousel
#
# Why should the cell remember better? Look at the path from $c_0$ to $c_T$ alone: $c_t = f_t \odot c_{t-1} + \dots$ has no matrix and no
# tanh on it. Along this path, the *constant error carousel*,
#
# $$\frac{\partial c_T}{\partial c_0} = \prod_{t=1}^{T} f_t$$
#
# With $f_t = 1$ the gradient goes round for ever. With $f_t = \sigma(b_f)$ it depends on one number that you choose: the bias that the
# forget gate starts with.
#
# | name | shape |
# | --- | --- |
# | `forget_gates` | (T, …, n), each in 0…1; T may be 0 |
# | result | (…, n) |

# %% exercise="01.5" difficulty="●○○" minutes=5
from course_lib.primitives import carousel_gradient

# %% tags=["nbval-check-output"]
carousel_gradient = check("01.5", carousel_gradient)

# %% [markdown] tags=["predict"]
# **Predict.** The forget gate's bias is 0, or 4, and its other weights are small. What is left of a gradient after 60 steps?
#
# <details><summary>A. About half, and nearly all.</summary>
#
# That is what one step leaves: σ(0) = 1/2 and σ(4) = 0.98. There are sixty.</details>
# <details><summary>B. Nothing, and about a third.</summary>
#
# Yes: $0.5^{60}$ is smaller than the rounding error of the numbers it is added to; $0.98^{60}$ is about a third.</details>
# <details><summary>C. Nothing in both cases.</summary>
#
# A product of sixty numbers is often tiny. But 0.98 is close enough to 1.</details>


# %% tags=["nbval-check-output"]
def measured_carousel(forget_bias, T=LONG, n=7):
    """Differentiate c_T by c_0 through `lstm_step`, with U = 0 so that the carousel is the only path; give it and the gates."""
    generator = torch.Generator().manual_seed(SEEDS[0])
    W, b = 0.1 * torch.randn(4 * n, 3, generator=generator), torch.zeros(4 * n)
    b[n : 2 * n] = forget_bias
    x, c_0 = torch.randn(T, 3, generator=generator), torch.zeros(n, requires_grad=True)
    h, c = torch.zeros(n), c_0
    for x_t in x:
        h, c = lstm_step(x_t, h, c, W, torch.zeros(4 * n, n), b)
    gates = torch.sigmoid(x @ W.mT + b)[:, n : 2 * n]
    return torch.autograd.grad(c.sum(), c_0)[0], gates


for letter, bias in (("j", 0.0), ("k", 4.0)):
    measured, gates = measured_carousel(bias)
    gap = (measured / carousel_gradient(gates) - 1).abs().max().item()
    claim(
        f"01.{letter}",
        f"with forget bias {bias:.0f}, autograd through 60 LSTM steps gives the product of the gates: relative difference",
        gap,
        at_most=1e-3,
    )
claim("01.l", "what the carousel carries over 60 steps with forget bias 4", measured.mean().item(), at_least=0.1)
claim(
    "01.m", "what the carousel carries over 60 steps with forget bias 0", measured_carousel(0.0)[0].mean().item(), at_most=1e-12
)

# %% [markdown]
# ## 7 The experiment: sixty steps
#
# Now the task of section 1 again, at T = 60: the same reader, the same data, the same number of steps of training. The network differs:
# an LSTM whose forget gate starts open (bias 4), and, as the control, the same LSTM with bias 0. If it is the open carousel that does it, and
# not the LSTM's larger number of parameters, then the control must fail.

# %% tags=["nbval-check-output"]
networks = {
    "RNN": lambda: RNN(2 * N_SYMBOLS, N_HIDDEN, hoisted_rnn),
    "LSTM, bias 0": lambda: LSTM(2 * N_SYMBOLS, N_HIDDEN, fused_lstm, forget_bias=0.0),
    "LSTM, bias 4": lambda: LSTM(2 * N_SYMBOLS, N_HIDDEN, fused_lstm, forget_bias=4.0),
}
recalled = {"RNN": far} | {name: [recall_accuracy(networks[name], LONG, seed) for seed in SEEDS] for name in list(networks)[1:]}
claim(
    "01.n",
    "an LSTM with an open forget gate recalls the first of 60 symbols: worst of the seeds",
    min(recalled["LSTM, bias 4"]),
    at_least=0.9,
)
claim(
    "01.o",
    "an LSTM with its forget gate half shut does not recall it: best of the seeds",
    max(recalled["LSTM, bias 0"]),
    at_most=0.35,
)
claim(
    "01.p",
    "what the open gate gains over the plain network on 60 symbols: difference of the means",
    mean(recalled["LSTM, bias 4"]) - mean(far),
    at_least=0.5,
)

# %%
show(
    plots.seeds(recalled, "share of right answers", f"first of {LONG} symbols, three seeds", across={"chance": 1 / N_SYMBOLS}),
    alt=f"Share of right answers on {LONG} symbols, one point a seed. "
    + ", ".join(f"{name}: {min(shares):.2f} to {max(shares):.2f}" for name, shares in recalled.items())
    + f"; chance is {1 / N_SYMBOLS:.3f}.",
)

# %% [markdown] tags=["predict"]
# ## 8 See it
#
# The cause can be seen before any training. Feed the fresh networks the same sequences, and ask how much the last state still depends on the
# input of each step: the norm of the gradient, against how far back that step lies.
#
# **Predict.** On a logarithmic axis, what do the three curves look like?
#
# <details><summary>A. Three straight lines that fall, one less steeply.</summary>
#
# Straight lines are exponentials, and two of the three are. Work out the slope of the third: 0.98 a step is hardly a slope at all.</details>
# <details><summary>B. Two fall in straight lines, the open LSTM stays nearly level.</summary>
#
# Yes. And the two that fail do so in the same way, at nearly the same rate, though one of them is an LSTM.</details>
# <details><summary>C. All stay level: nothing has been trained yet.</summary>
#
# A fresh network has weights too, and they are what multiplies the gradient. This is where learning has to start from.</details>


# %%
def reach(cell, seed=0, n=32):
    """How much Σ h_T² depends on the input of each step, from the last step back, on average over n sequences."""
    tokens = recall(n, 1, 1, T=LONG, n_symbols=N_SYMBOLS, seed=seed).train.tokens
    x = F.one_hot(tokens, 2 * N_SYMBOLS).float().to(device()).requires_grad_()
    states, _ = cell.to(device())(x)
    (gradient,) = torch.autograd.grad(states[:, -1].square().sum(), x)
    return gradient.norm(dim=-1).mean(0).flip(0).tolist()


def fresh(make, seed=SEEDS[0]):
    """A network with the weights that this seed draws."""
    torch.manual_seed(seed)
    return make()


reaches = {name: reach(fresh(make)) for name, make in networks.items()}
show(
    plots.curves({name: (lags, norms) for name, norms in reaches.items()}, "steps back", "gradient of the last state", log="y"),
    alt="Gradient of the last state by the input so many steps back, logarithmic. From the last step to the first it changes by a factor of "
    + ", ".join(f"{norms[-1] / norms[0]:.1e} ({name})" for name, norms in reaches.items())
    + ".",
)

# %% tags=["nbval-check-output"]
kept = {name: [(r := reach(fresh(make, seed), seed))[-1] / r[0] for seed in SEEDS] for name, make in networks.items()}
claim(
    "01.q",
    "gradient at the first of 60 steps over that at the last, LSTM with bias 4: least of the seeds",
    min(kept["LSTM, bias 4"]),
    at_least=0.05,
)
claim(
    "01.r",
    "gradient at the first of 60 steps over that at the last, plain network: largest of the seeds",
    max(kept["RNN"]),
    at_most=1e-8,
)
claim(
    "01.s",
    "gradient at the first of 60 steps over that at the last, LSTM with bias 0: largest of the seeds",
    max(kept["LSTM, bias 0"]),
    at_most=1e-8,
)

# %% tags=["try-it"]
# Try it: another bias, another length. From which bias on does a tenth of the gradient survive your length?
bias, length = 2.0, 60
print(f"σ({bias}) to the power {length} is {(1 / (1 + math.exp(-bias))) ** length:.2e}")


# %% tags=["interactive"]
def draw_reach(forget_bias=4.0):
    """Draw the reach of an LSTM with this bias beside that of the plain network."""
    lines = {
        "RNN": reaches["RNN"],
        f"LSTM, bias {forget_bias:g}": reach(fresh(lambda: LSTM(2 * N_SYMBOLS, 64, fused_lstm, forget_bias=forget_bias))),
    }
    figure = plots.curves(
        {name: (lags, norms) for name, norms in lines.items()}, "steps back", "gradient of the last state", log="y"
    )
    show(
        figure,
        alt=f"With a forget bias of {forget_bias:g}, the first of {LONG} steps keeps a share of {lines[f'LSTM, bias {forget_bias:g}'][-1] / lines[f'LSTM, bias {forget_bias:g}'][0]:.1e}.",
    )


explore(draw_reach, forget_bias=(-2.0, 6.0, 0.5))

# %% [markdown] tags=["predict"]
# ## 9 Take one away
#
# A **GRU** has no separate cell. Its update gate $z$ plays the forget gate's part: $h_t = (1 - z) \odot n + z \odot h_{t-1}$. Torch starts it near
# σ(0).
#
# **Predict.** A GRU as torch makes it, at T = 60?
#
# <details><summary>A. Like the LSTM with bias 4: gates are what counts.</summary>
#
# It has gates, but they start half shut: $0.5^{60}$ again.</details>
# <details><summary>B. At chance, until its update gate starts open.</summary>
#
# Yes. Not the name of the cell decides, nor that it has gates, but where its carousel starts.</details>
# <details><summary>C. At chance, whatever the gate: it has no cell state.</summary>
#
# Its state has a path without a matrix too, through $z$. Open it, and the gradient passes.</details>


# %% tags=["nbval-check-output"]
def gru(update_bias):
    """A GRU whose update gate starts at σ(update_bias)."""
    cell = GRU(2 * N_SYMBOLS, N_HIDDEN, fused_gru)
    update = slice(N_HIDDEN, 2 * N_HIDDEN)
    nn.init.constant_(cell.bias_ih_l0[update], update_bias)
    nn.init.zeros_(cell.bias_hh_l0[update])
    return cell


grus = {bias: [(r := reach(fresh(lambda: gru(bias), seed), seed))[-1] / r[0] for seed in SEEDS] for bias in (0.0, 4.0)}
claim("01.t", "gradient kept over 60 steps by a GRU with update bias 0: largest of the seeds", max(grus[0.0]), at_most=1e-6)
claim("01.u", "gradient kept over 60 steps by a GRU with update bias 4: least of the seeds", min(grus[4.0]), at_least=0.01)

# %% [markdown] tags=["predict"]
# ### And on real data?
#
# Read the handwritten digits pixel by pixel, 64 steps each: now what matters is spread over the whole sequence, and new ink must get in.
#
# **Predict.** Forget bias 1, or forget bias 4?
#
# <details><summary>A. Bias 4: 64 steps are about as many as above.</summary>
#
# As many, but not the same task. An open gate is not a better network, it is a longer memory: what was written at the first blank pixels is
# still there at the end, in the way of what comes.</details>
# <details><summary>B. Bias 1: it can let go.</summary>
#
# Yes, in the few steps of training that we give it here. And look at the plain network beside it.</details>
# <details><summary>C. No difference: training finds the right gate anyway.</summary>
#
# In the long run it may. Where the gate starts decides how long that run is.</details>


# %%
images, labels = digits()
pixels = images.flatten(1)[..., None]


class PixelReader(nn.Module):
    """Read (B, T, 1) pixels with a recurrent layer, and classify by its last state."""

    def __init__(self, cell):
        super().__init__()
        self.cell, self.read_out = cell, nn.Linear(cell.d_hidden, 10)

    def forward(self, x):
        return self.read_out(self.cell(x)[0][:, -1])


def pixel_accuracy(make_cell, seed, steps=500):
    """Train on 1,400 digits, and give the share of right answers on the others."""
    torch.manual_seed(seed)
    order = torch.randperm(len(pixels))
    model, (known, new) = PixelReader(make_cell()).to(device()), order.split([1_400, len(order) - 1_400])
    stream = batches(pixels[known].to(device()), labels[known].to(device()), batch_size=32, seed=seed)
    for _ in progress(
        train(model, stream, lambda m, b: F.cross_entropy(m(b[0]), b[1]), steps=steps, lr=5e-3, warmup=50), "pixels", steps
    ):
        pass
    with torch.no_grad():
        return (model(pixels[new].to(device())).argmax(-1) == labels[new].to(device())).float().mean().item()


# %% tags=["nbval-check-output"]
readers = {
    "RNN": lambda: RNN(1, 32, hoisted_rnn),
    "LSTM, bias 1": lambda: LSTM(1, 32, fused_lstm, forget_bias=1.0),
    "LSTM, bias 4": lambda: LSTM(1, 32, fused_lstm, forget_bias=4.0),
}
on_pixels = {name: [pixel_accuracy(make, seed) for seed in SEEDS] for name, make in readers.items()}
claim(
    "01.v",
    "an LSTM reads digits pixel by pixel, where chance is 1 in 10: worst of the seeds with bias 1",
    min(on_pixels["LSTM, bias 1"]),
    at_least=0.35,
)
claim(
    "01.w",
    "on pixels the wide open gate is the worse one: bias 1 minus bias 4, difference of the means",
    mean(on_pixels["LSTM, bias 1"]) - mean(on_pixels["LSTM, bias 4"]),
    at_least=0.05,
)

# %%
show(
    plots.seeds(on_pixels, "share of right answers", "digits, pixel by pixel", across={"chance": 0.1}),
    alt="Share of digits read rightly, one point a seed: "
    + ", ".join(f"{name} {min(s):.2f} to {max(s):.2f}" for name, s in on_pixels.items())
    + ".",
)

# %% [markdown] tags=["quiz"]
# The plain network does about as well here as the LSTM: no claim is made about which of the two is better. "LSTMs cure vanishing gradients" is
# true of a path that you must open, and worth it where the task needs it.
#
# ## 10 Before you go
#
# **Question 1.** Your loss becomes `nan` after a while, on and off. What do you try first?
#
# <details><summary>A. Raise the forget bias.</summary>
#
# That lengthens memory. It does nothing against a step that is too long.</details>
# <details><summary>B. Clip the joint norm of the gradients.</summary>
#
# Right: sudden, rare and fatal is what an exploding gradient looks like.</details>
# <details><summary>C. Clip every entry to −1…1.</summary>
#
# It also bounds the step, but it turns it: large entries are cut and small ones are not. See exercise 01.3.</details>
#
# **Question 2.** $\sigma(b_f)^T$ should be at least 0.1 for T = 200. Which $b_f$?
#
# <details><summary>A. 1</summary>
#
# σ(1) = 0.73, and $0.73^{200}$ is nothing.</details>
# <details><summary>B. 4.5</summary>
#
# Right: σ(4.5) = 0.989, and $0.989^{200}$ is a little above a tenth.</details>
# <details><summary>C. It cannot be done.</summary>
#
# $0.1^{1/200}$ is 0.9886: ask for the bias whose sigmoid that is.</details>
#
# **Question 3.** Why does clipping not help against vanishing gradients?
#
# <details><summary>A. It only shortens.</summary>
#
# True, and the smaller half of the reason: you could lengthen instead.</details>
# <details><summary>B. The far part of the gradient is lost in the sum with the near part.</summary>
#
# Right. The gradient of $U$ is a sum over steps. Scaling the sum scales near and far alike; their ratio, which is the trouble, stays.</details>
# <details><summary>C. Because θ would have to be negative.</summary>
#
# A threshold is a length; it has no sign to speak of.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A deck says: "gradients decrease exponentially with the length of the sequence; the solution is the LSTM."
# Which part of this have you measured to be true, and what must be added?*
#
# | points | what earns them |
# | --- | --- |
# | 1 | says that the decrease is a factor per step, and what the factor is made of |
# | 1 | names the path without matrix and tanh, and its product of gates |
# | 1 | uses the control: an LSTM with half-shut gates fails in the same way |
# | 1 | adds what the digits show, or another limit: a long memory is not always what a task needs |
# | 1 | is clear and short |

# %% [markdown]
# ## 11 Ledger
#
# **Where the decks and the code part ways.** Each by a number in the next cell:
#
# - *IT* names one output matrix twice, $W_{ya}$ in the equation and $W_{ay}$ in the list. Only one of the two products conforms.
# - *IT* uses the same $g$ for state and output. With $g = \tanh$ an "output distribution" has negative entries and no sum of 1.
# - *IT*: "gradients increase exponentially with the number of layers." Only where the recurrent matrix stretches, and only until tanh
#   saturates: with states of ordinary size the same matrix carries far less back.
# - *IT* calls $W_{ax}$ the parameters of an "input gate": a plain network has no gate; the name belongs to the LSTM.

# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
W_ya, a = torch.randn(10, 32), torch.randn(32)
loud = torch.randn(4, LONG, 8, dtype=torch.float64)
_, saturated = through_time(loud, W.double(), 1.4 * random, torch.zeros(32).double())
growth = (saturated[-1] / saturated[0]) / (norms[1.4][-1] / norms[1.4][0])
conform = [matrix.shape[1] == len(a) for matrix in (W_ya, W_ya.mT)]
claim("01.IT", "the product with the state conforms: for W_ya, for its transpose", conform, equals=[True, False])
claim("01.IT-g", "with g = tanh, the smallest entry of an output of ten", torch.tanh(W_ya @ a).min().item(), at_most=-0.1)
claim(
    "01.IT-growth",
    "at eigenvalue 1.4, growth over 60 steps with states of ordinary size, over that with tiny ones",
    growth,
    at_most=1e-3,
)

# %% tags=["ledger"]
ledger()
