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
# A recurrent network reads a sequence one element at a time with one small function, and keeps what it has read in a state. You
# will write this function, the loop that trains it, and a network that writes plays.
#
# **Prerequisites:** Python, tensors, and back-propagation through a feed-forward network. **Time:** {minutes}.
# {measured}
#
# **How each lecture works.** *Predict*: choose an answer, or write a number, before you run the experiment; then read why. *Write*: put your code
# in place of `raise NotImplementedError()`. *Check*: it says what is right, and which mistake it recognises;
# until it passes, the lecture goes on with the library's function. *Claim*: a sentence whose numbers were measured in your
# run. After a restart, select the cell where you want to go on and choose *Run › Run All Above Selected Cell*. *Time* does
# not include *In your own words* (20 minutes).
#
# ![](diagram:rnn)

# %%
import math
from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.datasets import shakespeare
from course_lib.fast import fused_gru, fused_lstm
from course_lib.primitives import GRU, LSTM, StepGradients
from course_lib.primitives.recurrent import HiddenState, Input
from course_tools.lectures.lecture_01 import figures, gradients, latches
from course_tools.notebook import (
    check,
    claim,
    device,
    explore,
    ledger,
    predict,
    progress,
    source,
)
from course_tools.notebook.recorded_studies import recorded
from course_tools.notebook.seed_scores import show_seeds

# %% [markdown]
# ## 1 Remember the first symbol
#
# In *the **keys** that I left beside the box on the old kitchen table **are** gone*, the verb depends on a word that came
# twelve words earlier. The smallest task of this kind is *recall*: **the
# first symbol is the answer**, one of eight, and all later symbols are noise from another alphabet.
# Each symbol is a vector of 16 numbers of which one is 1.


# %%
def draw(n, T):
    """Draw n sequences x (n, T, 16), one-hot, and the first symbol of each (n,)."""
    first = torch.randint(0, 8, (n, 1))
    noise = torch.randint(8, 16, (n, T - 1))
    x = F.one_hot(torch.cat([first, noise], dim=1), 16).float()
    return x.to(device()), first[:, 0].to(device())


torch.manual_seed(0)
x, first = draw(n=3, T=5)
for sequence, answer in zip(x, first, strict=True):
    print(f"symbols {sequence.argmax(-1).tolist()}, answer {answer}")

# %% [markdown]
# ## 2 One step
#
# **By hand.** Let the state be a single number $h$, at first 0. Each step multiplies the input by $w = 1$ and the state by $u =
# 0.5$, adds both and squashes the sum. The inputs are 1, 0 and 0:
#
# $$h_1 = \tanh(1 \cdot 1 + 0.5 \cdot 0) = 0.76 \qquad h_2 = \tanh(0.5 \cdot 0.76) = 0.36 \qquad h_3 = \tanh(0.5 \cdot 0.36) =
# 0.18$$
#
# With $n$ numbers in the state, $w$ and $u$ become matrices:
#
# $$h_t = \tanh(W x_t + U h_{t-1} + b)$$
#
# | name | shape | what it is |
# | --- | --- | --- |
# | `x` | (…, d) | the input at this step |
# | `h` | (…, n) | the state before the step |
# | `W`, `U`, `b` | (n, d), (n, n), (n,) | the parameters, the same at every step |
# | result | (…, n) | the state after the step |
#
# Inputs and states are *rows*, one for each sequence of a batch. So $W x$ is written `x @ W.mT`, where `.mT` exchanges the
# last two axes of a tensor.

# %% exercise="01.1" difficulty="●○○" minutes=5
from course_lib.primitives import rnn_step

# %% tags=["nbval-check-output"]
rnn_step = check("01.1", rnn_step)


# %% [markdown]
# A layer applies your step to one time after another, always with the same weights. A classifier reads the answer from the last
# state. With equal weights, your layer must give the same states as `torch.nn.RNN`, which has a second bias:
# here 0.


# %%
class Plain(nn.Module):
    """Apply rnn_step to each x_t of x (B, T, d)."""

    def __init__(self, d=16, n=64):
        super().__init__()
        self.W = nn.Parameter(torch.empty(n, d))
        self.U = nn.Parameter(torch.empty(n, n))
        self.b = nn.Parameter(torch.empty(n))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(n**-0.5), n**-0.5)  # as torch.nn.RNN

    def forward(self, x):
        h = x.new_zeros(len(x), len(self.U))  # (B, n)
        states = []
        for x_t in x.unbind(dim=1):  # T times (B, d)
            h = rnn_step(x_t, h, self.W, self.U, self.b)
            states.append(h)
        return torch.stack(states, dim=1), h  # (B, T, n), (B, n)


class Classifier(nn.Module):
    """Read x (B, T, 16) with a layer; return logits (B, 8) of the first symbol."""

    def __init__(self, layer, n=64, n_answers=8):
        super().__init__()
        self.layer = layer
        self.read_out = nn.Linear(n, n_answers)

    def forward(self, x):
        states, _ = self.layer(x)  # (B, T, n)
        return self.read_out(states[:, -1])  # (B, 8)


mine, theirs = Plain().to(device()), nn.RNN(16, 64, batch_first=True).to(device())
weights = [*mine.parameters(), 0 * mine.b]
theirs.load_state_dict(dict(zip(theirs.state_dict(), weights, strict=True)))
torch.testing.assert_close(mine(x)[0], theirs(x)[0])

# %% [markdown]
# ## 3 The training loop
#
# Every network of this course, and every large language model, is trained by a loop like this:


# %%
def train(model, T, steps=300, lr=2e-3):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)  # 1
    losses = []
    for _ in range(steps):
        x, first = draw(32, T)  # 2
        logits = model(x)  # 3
        loss = F.cross_entropy(logits, first)  # 4
        optimizer.zero_grad()  # 5
        loss.backward()  # 6
        optimizer.step()  # 7
        losses.append(loss.item())  # 8
    return losses


@torch.no_grad()
def accuracy(model, T, draw=draw):
    x, first = draw(1000, T)
    return (model(x).argmax(-1) == first).float().mean().item()


# %% [markdown] tags=["predict"]
# | line | what it does |
# | --- | --- |
# | 1 | The optimizer is told which tensors it may change. The learning rate `lr` is about how far Adam moves each weight in one update, since it divides a running mean of the weight's gradients by a running mean of their size. |
# | 2 | A *batch*: 32 sequences. The mean of their gradients is less noisy than the gradient of a single one. |
# | 3 | The forward pass. Torch records every operation, so that it can differentiate them. |
# | 4 | The loss: minus the logarithm of the probability that the model gives to the right answer, mean over the batch. A guess among eight costs ln 8 = 2.08; if your first loss is far from it, look for a bug. |
# | 5 | Set all gradients to zero, because the next line *adds* to them: $U$ is used in every step, and its gradient is a sum. |
# | 6 | The backward pass: walk back through the record, from the loss through all T steps, and add ∂loss/∂p to `p.grad` of each parameter p. |
# | 7 | Move each parameter a little against its gradient. |
# | 8 | `.item()` takes the number. A list of the tensors themselves would keep the records of all updates in memory. |
#
# **Predict.** Somebody forgets line 5. What happens?
#
# <details><summary>A. An error: gradients may be computed only once.</summary>
#
# Each forward pass makes a new record, and each record may be used once. Nothing forbids adding to `.grad`.</details>
# <details><summary>B. Nothing: the gradients are overwritten.</summary>
#
# `backward` adds, so that one parameter can be used several times, as your $U$ is in every step.</details>
# <details><summary>C. Each update follows the sum of all gradients so far, also those of old batches and old weights.</summary>
#
# Yes. The oldest gradients count as much as the newest, so the direction lags behind. Nothing reports this mistake, and the loss
# falls all the same; but of 24 trainings on five symbols in the study `01_memory`, three ended below 0.9. With line 5, all
# reached 1.00.</details>

# %%
losses = {}
for T in (5, 60):
    torch.manual_seed(0)
    model = Classifier(Plain()).to(device())
    losses[f"{T} symbols"] = train(model, T)
    print(f"{T} symbols: accuracy {accuracy(model, T):.2f}, chance 0.12")
figures.show_losses(losses)

# %% tags=["try-it"]
# Try it: delete line 5 above and run both cells again: would you notice? Put it back.
# Or: what is the smallest `steps`, and the largest `lr`, with which 5 symbols work?
for seed in range(3):
    torch.manual_seed(seed)
    model = Classifier(Plain()).to(device())
    train(model, T=5, steps=300, lr=2e-3)
    print(f"accuracy {accuracy(model, T=5):.2f}")

# %% [markdown]
# ## 4 Where the gradient goes
#
# The loop learns five symbols; on sixty it stays at a guess. Training must carry a gradient from the loss at the end back to
# the first symbol.
#
# **By hand.** A small change of $h_{t-1}$ changes $h_t = \tanh(w x_t + u h_{t-1})$ by $u\,(1 - h_t^2)$ times as much, since the
# derivative of tanh is $1 - \tanh^2$. In the example of section 2,
#
# $$\frac{\partial h_3}{\partial h_1} = \underbrace{0.5\,(1 - 0.18^2)}_{0.48} \cdot \underbrace{0.5\,(1 - 0.36^2)}_{0.43} =
# 0.21 .$$
#
# With a matrix, each step back multiplies by $U^\top$ and by the slopes $1 - h_t^2 \le 1$. Torch draws the entries of $U$
# between $\pm 1/\sqrt n$, so their variance is $1/(3n)$. Each of the $n$ entries of $U^\top v$ then has the variance
# $\lVert v \rVert^2 / (3n)$, all together $\lVert v \rVert^2 / 3$: the vector shrinks to about $1/\sqrt 3 = 0.58$ of its length,
# and $0.58^{59}$ is $10^{-14}$.


# %%
def gradient_along(layer, T=60):
    """Size of the gradient at each input of an untrained network, 1 at the last."""
    torch.manual_seed(0)
    x, first = draw(32, T)
    x.requires_grad_()
    loss = F.cross_entropy(Classifier(layer).to(device())(x), first)
    (gradient,) = torch.autograd.grad(loss, x)  # (32, T, 16)
    sizes = gradient.norm(dim=(0, 2))  # (T,)
    return sizes / sizes[-1]


torch.manual_seed(0)
figures.show_fading({"plain": gradient_along(Plain())})

# %% [markdown] tags=["predict"]
# **Predict.** Which change of the initial weights lets the gradient through?
#
# <details><summary>A. A U that is √3 times as large.</summary>
#
# Yes: on average, it keeps the length of a vector. An orthogonal matrix keeps that of every vector. Then only the slopes $1 -
# h_t^2$ are left, and they are near 1 as long as the state is near 0.</details>
# <details><summary>B. A U that is three times as large.</summary>
#
# Each step now makes the gradient longer, by a factor of up to 1.73. It *explodes*, although the states grow as well, so that
# the slopes fall below 1.</details>
# <details><summary>C. A large b.</summary>
#
# It moves the units to ±1, where tanh is flat: the slopes fall to 0.</details>


# %%
def scaled(factor=3**0.5):
    layer = Plain()
    layer.U.data *= factor
    return layer


def orthogonal():
    layer = Plain()
    nn.init.orthogonal_(layer.U)
    return layer


torch.manual_seed(0)
by_layer = {
    "plain": gradient_along(Plain()),
    "U × 1.73": gradient_along(scaled()),
    "U × 3": gradient_along(scaled(3)),
    "orthogonal U": gradient_along(orthogonal()),
}
figures.show_fading(by_layer)
model = Classifier(orthogonal()).to(device())
train(model, T=60)
print(f"The same loop, 60 symbols, orthogonal U: accuracy {accuracy(model, T=60):.2f}")

# %% [markdown]
# ## 5 The recipe
#
# An open path lets gradients grow, too. Three additions keep the loop steady:
#
# - **Warm-up.** The rate rises from 0 over the first 30 updates, in which Adam's running means are still poor estimates.
# - **Decay.** Then it falls linearly to 0, so that the weights settle.
# - **Clipping.** Some batches have a gradient many times longer than the others, and Adam follows it for dozens of updates.
#   Pascanu et al. (2013) shorten the gradient and keep its direction.
#
# **By hand.** The gradient (3, 4) has the norm 5. Clipped to norm 1 it becomes (0.6, 0.8): the same direction. Cutting each
# entry at 1 would give (1, 1), another direction. In general, $g$ is *all* gradients joined into one vector, and if its norm is
# larger than $\theta$, it becomes
#
# $$\hat g = g \cdot \frac{\theta}{\lVert g \rVert}$$
#
# | name | shape |
# | --- | --- |
# | `gradients` | a list of tensors of any shapes |
# | `max_norm` | θ > 0, the limit for the norm of **all** entries together |
# | result | a list of new tensors of the same shapes |
#
# Write it without `clip_grad_norm_`.

# %% exercise="01.3" difficulty="●●○" minutes=6
from course_lib.primitives import clip_gradients

# %% tags=["nbval-check-output"]
clip_gradients = check("01.3", clip_gradients)


# %%
def train(model, T, draw=draw, steps=300, lr=1e-2, warmup=30, decay=True, clip=1.0):
    optimizer = torch.optim.Adam(model.parameters())
    losses, norms = [], []
    for step in range(steps):
        rise = (step + 1) / max(warmup, 1)
        fall = (steps - step) / (steps - warmup) if decay else 1.0
        rate = lr * min(rise, fall, 1.0)
        optimizer.param_groups[0]["lr"] = rate  # Adam reads it at each update
        x, first = draw(32, T)
        loss = F.cross_entropy(model(x), first)
        optimizer.zero_grad()
        loss.backward()
        parameters = list(model.parameters())
        gradients = [p.grad for p in parameters]
        norms.append(torch.cat([g.flatten() for g in gradients]).norm().item())
        if clip is not None:
            clipped = clip_gradients(gradients, clip)
            for p, gradient in zip(parameters, clipped, strict=True):
                p.grad = gradient
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def accuracies(make_layer, T=60, draw=draw, n_answers=8, **recipe):
    """Train with three seeds, which decide weights and batches; test each model."""
    found = []
    for seed in progress(range(3), "training"):
        torch.manual_seed(seed)
        model = Classifier(make_layer(), n_answers=n_answers).to(device())
        train(model, T, draw, **recipe)
        found.append(accuracy(model, T, draw))
    return found


torch.manual_seed(0)
model = Classifier(scaled()).to(device())
_, norms = train(model, T=60, lr=2e-3, warmup=0, decay=False, clip=None)
figures.show_norms(norms, limit=1.0)

# %% [markdown]
# The bare loop of section 3, with $U \times 1.73$: some gradients are many times longer than most. From here on we use the
# recipe, *Adam 0.01, 10 % warm-up, linear decay, clipped at 1.0, 300 updates of 32*, and three seeds, which can end far apart.

# %% [markdown]
# ## 6 The LSTM
#
# An orthogonal $U$ is only a start: training changes it. The **LSTM** builds the path in. Beside $h$ it has a *cell state* $c$
# that is neither multiplied by a matrix nor squashed. Three gates between 0 and 1 decide how much of it is kept ($f$), how much
# of a candidate $g$ is written ($i$), and how much is shown ($o$). In the sentence of section 1:
#
# | at | write, $i$ | keep, $f$ | show, $o$ |
# | --- | --- | --- | --- |
# | *keys* | 1 | 0 | 0 |
# | *that I left beside the box on the old kitchen table* | 0 | 1 | 0 |
# | *are* | 0 | 1 | 1 |
#
# **By hand.** One unit has $c = 2$, and its gates are $i = 0.5$, $f = 0.9$, $o = 0.5$; the candidate is $g = -1$:
#
# $$c \leftarrow 0.9 \cdot 2 + 0.5 \cdot (-1) = 1.3 \qquad h = 0.5 \cdot \tanh(1.3) = 0.43$$
#
# In general, $W$, $U$ and $b$ have four blocks of rows, one for each of $i$, $f$, $g$ and $o$:
#
# $$[a_i; a_f; a_g; a_o] = W x_t + U h_{t-1} + b$$
# $$i = \sigma(a_i) \qquad f = \sigma(a_f) \qquad g = \tanh(a_g) \qquad o = \sigma(a_o)$$
# $$c_t = f \odot c_{t-1} + i \odot g \qquad h_t = o \odot \tanh(c_t)$$
#
# | name | shape | what it is |
# | --- | --- | --- |
# | `x`, `h`, `c` | (…, d), (…, n), (…, n) | input, state, cell state |
# | `W`, `U`, `b` | (4n, d), (4n, n), (4n,) | rows in torch's order: i, f, g, o |
# | result | `h`, `c`, each (…, n) | state and cell state after the step |
#
# ![](diagram:lstm_cell)

# %% exercise="01.4" difficulty="●●○" minutes=10
from course_lib.primitives import lstm_step

# %% tags=["nbval-check-output"]
lstm_step = check("01.4", lstm_step)


# %%
class Long(nn.Module):
    """Apply lstm_step to each x_t of x (B, T, d)."""

    def __init__(self, d=16, n=64, forget_bias=0.0):
        super().__init__()
        self.W = nn.Parameter(torch.empty(4 * n, d))
        self.U = nn.Parameter(torch.empty(4 * n, n))
        self.b = nn.Parameter(torch.empty(4 * n))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(n**-0.5), n**-0.5)
        nn.init.constant_(self.b[n : 2 * n], forget_bias)  # the rows of f

    def forward(self, x):
        h = c = x.new_zeros(len(x), self.U.shape[1])
        states = []
        for x_t in x.unbind(dim=1):
            h, c = lstm_step(x_t, h, c, self.W, self.U, self.b)
            states.append(h)
        return torch.stack(states, dim=1), (h, c)


x, _ = draw(2, 60)
mine, fused = Long().to(device()), LSTM(16, 64, fused_lstm).to(device())
weights = [*mine.parameters(), 0 * mine.b]
fused.load_state_dict(dict(zip(fused.state_dict(), weights, strict=True)))
torch.testing.assert_close(mine(x)[0], fused(x)[0])

# %% [markdown]
# **One unit by hand.** Let an input be a bit, −1 or 1, a mark, 0 or 1, and some numbers of noise. A single unit has to keep the
# last *marked* bit, however many others follow, and to show it at every step. What must each gate do at a mark, and what without
# one? Set the weights. (σ is practically 1 at 10, and 0 at −10.)
#
# | name | shape | what it is |
# | --- | --- | --- |
# | `x` | (…, d) | bit, mark, d − 2 numbers of noise |
# | `W`, `U`, `b` | (4, d), (4, 1), (4,) | a row for each of i, f, g and o |

# %% exercise="01.7" difficulty="●●○" minutes=8
from course_tools.bank.lecture_01.flip_flop_weights import flip_flop_weights

# %% tags=["nbval-check-output"]
flip_flop_weights = check("01.7", flip_flop_weights)

# %%
torch.manual_seed(1)
marked = torch.randn(40, 5)
marked[:, 0], marked[:, 1] = marked[:, 0].sign(), (torch.rand(40) < 0.15).float()


def unit(forget_bias=10.0):
    W, U, b = flip_flop_weights(5)
    b = torch.stack([b[0], torch.tensor(forget_bias), b[2], b[3]])
    figures.show_unit(lstm_step, marked, W, U, b)


figures.show_unit(lstm_step, marked, *flip_flop_weights(5))

# %% [markdown] tags=["interactive"]
# **Explore.** Lower the bias of the forget gate. At which value does $h$ first fade out before the next mark?

# %% tags=["interactive"]
explore(unit, forget_bias=(-2.0, 10.0, 1.0))

# %% [markdown]
# **The constant error carousel.** Along the cell state, a small change of $c_{t-1}$ reaches $c_t$ multiplied by $f_t$ and
# nothing else. Over $T$ steps that is the product of the forget gates; if all are 1, the gradient is preserved exactly.
# Hochreiter and Schmidhuber (1997) had no forget gate, so $f = 1$, and gave the path its name.

# %% [markdown] tags=["predict"]
# **Predict a number** (within a factor of 1.5). At the start the weights of the forget gate are small, so $f \approx
# \sigma(b_f)$. By what factor does the carousel multiply a gradient over 60 steps, with the bias $b_f = 4$?
#
# <details><summary>0.337</summary>
#
# σ(4) = 0.982, and sixty such factors leave $0.982^{60}$, about a third. With the bias 0 the gate is ½, and $0.5^{60}$ is below
# $10^{-18}$.</details>
# <details><summary>0.982</summary>
#
# That is the factor of *one* step, σ(4). There are sixty.</details>
# <details><summary>1.0</summary>
#
# The gate is nearly 1, but its factor acts sixty times.</details>

# %%
gates = torch.sigmoid(torch.tensor([0.0, 4.0])).expand(60, 2)
print("by the carousel alone:", gates.prod(0).tolist())
torch.manual_seed(0)
by_layer |= {
    "LSTM, bias 0": gradient_along(Long(forget_bias=0.0)),
    "LSTM, bias 4": gradient_along(Long(forget_bias=4.0)),
}
figures.show_fading(by_layer)

# %% tags=["nbval-check-output"]
arrived = [sizes[0].item() for sizes in by_layer.values()]
plain, larger, _, kept, half, opened = arrived
claim(
    "01.fading", plain=plain, scaled=larger, orthogonal=kept, half=half, opened=opened
)

# %% [markdown]
# With bias 4, more arrives than the carousel lets through, because the gradient also flows through $h$ and the gates.

# %% [markdown] tags=["predict"]
# ## 7 Sixty steps
#
# Now all but U × 3, whose gradient explodes, are trained on sixty symbols, with the recipe and the small rate, 0.002.
#
# **Predict.** Look at the six rows of the last figure. Which networks learn at the *small* rate?
#
# <details><summary>A. The LSTM with bias 4 and the plain networks with orthogonal or scaled U.</summary>
#
# Yes: those whose gradient reaches the first symbol. The start decides, not the type of cell.</details>
# <details><summary>B. Both LSTMs, because they have gates.</summary>
#
# A forget gate that starts half open halves the gradient at each step. Training could open it, but the gradient that would do
# so has vanished.</details>
# <details><summary>C. Only the LSTM with bias 4.</summary>
#
# It does. But if the vanishing gradient is the cause, a plain network whose gradient arrives must succeed as well.</details>

# %%
layers = {
    "plain": Plain,
    "U × 1.73": scaled,
    "orthogonal U": orthogonal,
    "LSTM, bias 0": partial(LSTM, 16, 64, fused_lstm, forget_bias=0.0),
    "LSTM, bias 4": partial(LSTM, 16, 64, fused_lstm, forget_bias=4.0),
}
found = {name: accuracies(make, lr=2e-3) for name, make in layers.items()}
found["LSTM, bias 0, rate 0.01"] = accuracies(layers["LSTM, bias 0"], lr=1e-2)
show_seeds(found, "accuracy", "60 symbols, one point per training", {"chance": 1 / 8})

# %% tags=["nbval-check-output"]
claim("01.open", opened=found["LSTM, bias 4"], half=found["LSTM, bias 0"])
claim(
    "01.start",
    orthogonal=found["orthogonal U"],
    scaled=found["U × 1.73"],
    plain=found["plain"],
)

# %% [markdown]
# What decides is the path of the gradient at the start, not the gates: a $U$ of the right size, or a forget gate that
# starts open. In the recorded study `01_memory`, the half-open gate got the rate 0.01 and ten times the updates; so did the
# bias 1 of many libraries. Both still guess:

# %% tags=["nbval-check-output"]
study = recorded("01_memory")
biases = "sixty symbols: LSTM, bias 0", "sixty symbols: LSTM, bias 1"
half, one = (study.scores(name, "accuracy") for name in biases)
claim("01.longer", half=half, one=one)

# %% [markdown] tags=["predict"]
# **What are gates good for, then?** Now the answer is the last *marked* bit of thirty, as in section 6.
#
# **Predict.** Which network learns it sooner?
#
# <details><summary>A. The plain one with orthogonal U: its gradient arrives.</summary>
#
# It arrives, but from every bit alike. Whether a bit is stored cannot depend on its mark before $U$, $W$ and tanh together
# have learned to choose.</details>
# <details><summary>B. The LSTM, although its forget gate starts half open.</summary>
#
# Yes. A gate multiplies: a marked input can write and erase, any other is shut out, as in your unit. And a mark is seldom far
# away, so that enough of the gradient arrives.</details>
# <details><summary>C. Both alike: thirty steps are few.</summary>
#
# They are few for recall. Here most of what is read must *not* be stored.</details>


# %%
def draw_marked(n, T):
    """Draw x (n, T, 4): a bit, a mark, noise; and whether the last marked bit is 1."""
    x = torch.randn(n, T, 4)
    x[..., 0], x[..., 1] = x[..., 0].sign(), (torch.rand(n, T) < 0.1).float()
    x[:, 0, 1] = 1.0  # at least one mark
    last = (x[..., 1] * torch.arange(1, T + 1)).argmax(dim=1)
    bit = x[torch.arange(n), last, 0] > 0
    return x.to(device()), bit.long().to(device())


def plain_orthogonal():
    layer = Plain(d=4)
    nn.init.orthogonal_(layer.U)
    return layer


choosing = {
    "LSTM, bias 0": partial(LSTM, 4, 64, fused_lstm, forget_bias=0.0),
    "orthogonal U": plain_orthogonal,
}
chosen = {
    name: accuracies(make, T=30, draw=draw_marked, n_answers=2, steps=600)
    for name, make in choosing.items()
}
figures.show_marked_bit(study)

# %% tags=["nbval-check-output"]
lstm, plain = chosen.values()
later = study.scores("marked bit: orthogonal U", "accuracy")
claim("01.marks", lstm=lstm, plain=plain, later=later)

# %% [markdown]
# The plain network is not too weak, but slow.

# %% [markdown]
# ## 8 Build it: a network that writes
#
# A **language model** predicts the next character from those before it. It reads *t h e* and should say *h e* and a space: the
# targets are the inputs, one place later. So every position of a text is a training example, and nobody has to label
# anything.
#
# **Build task (20 minutes, 12 points).** Start from an empty cell. Write the model and the loop of section 3, and as much of
# the recipe as you like. Other classes and functions go above `train_lstm`, in the same cell. You may use `nn.LSTM`
# or your own step. The check calls `train_lstm(text, n_tokens, n_steps)` once with 100,000 characters of Python's language
# reference (27 tokens: the letters and the space) and `n_steps=400`, and tests the model on held-out text. The function has
# at most 60 seconds of processor time; a good answer needs about five.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the model maps tokens (B, T) to logits (B, T, n_tokens) |
# | 1 | at most `n_steps` updates and at most 200,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the loss falls during training |
# | 1 | the returned model gives the same logits for the same tokens |
# | 2 | the logits at a position do not depend on later tokens |
# | 1 | the logits of one window do not depend on the other windows of the batch |
# | 1 | the prediction depends on the order of the tokens |
# | 1 | the model reads one token after the other; gates compute its state from the one before, by learned weights and without attention |
# | 1 | loss on held-out text: 0.2 nats below that of predicting from character frequencies alone |
# | 1 | loss on held-out text: below that of a bigram table of the characters (about 2.3 nats) |
#
# A model that misses the first of the two losses has not learned, and earns at most 4 points.

# %% exercise="01.6" difficulty="●●○" minutes=20
from course_tools.bank.lecture_01.train_lstm import train_lstm

# %% tags=["nbval-check-output"]
train_lstm = check("01.6", train_lstm)

# %% [markdown]
# Now let it write. The same function learns from 32 of Shakespeare's plays, in lower case. To write, ask the model for the
# probabilities of the next character, draw one, append it, and ask again. The *temperature* divides the logits: below 1 it
# makes likely characters likelier.


# %%
LETTERS = "\n !',.:?abcdefghijklmnopqrstuvwxyz"
NUMBER = {letter: number for number, letter in enumerate(LETTERS)}


def encode(text):
    return torch.tensor([NUMBER.get(letter, 1) for letter in text.lower()])


@torch.no_grad()
def write(model, start, n=300, temperature=0.7):
    tokens = encode(start)  # (T,)
    for _ in range(n):
        logits = model(tokens[None, -64:])[0, -1]  # the state is built from 64 letters
        probabilities = (logits / temperature).softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(probabilities, 1)])
    return "".join(LETTERS[token] for token in tokens)


plays = shakespeare()
text = encode("\n".join(play.text for play in plays.train))
for n_steps in (10, 100, 2000):
    torch.manual_seed(0)
    writer = train_lstm(text, len(LETTERS), n_steps)
    print(f"--- after {n_steps} updates\n{write(writer, 'hamlet: ')}\n")

# %% tags=["try-it"]
# Try it: another start, a temperature of 0.3 or 1.2, more updates, another text.
print(write(writer, "juliet: o romeo", n=200, temperature=0.5))

# %% [markdown]
# It has found words, lines, and names of speakers with a colon. Is that better than no network at all? The rivals are tables of
# what follows each character, pair and triple of characters in the same plays; three other plays are the test. A loss of $x$
# nats means: as uncertain as a choice among $e^x$ equally likely characters, the *perplexity*.


# %%
def table_loss(n):
    """Nats per character of a table of what follows each n characters."""
    k = len(LETTERS)

    def before(tokens):
        parts = (tokens[i : len(tokens) - n + i] * k ** (n - 1 - i) for i in range(n))
        return sum(parts)

    counts = torch.bincount(before(text) * k + text[n:], minlength=k ** (n + 1))
    logits = (counts + 0.1).log().view(-1, k)
    return F.cross_entropy(logits[before(unseen)], unseen[n:]).item()


unseen = encode("\n".join(play.text for play in plays.test))
windows = unseen[: 64 * 1000].view(1000, 64)
with torch.no_grad():
    logits = writer(windows[:, :-1])[:, 32:]  # where 32 characters or more precede
    lstm = F.cross_entropy(logits.flatten(0, 1), windows[:, 33:].flatten()).item()

# %% tags=["nbval-check-output"]
one, two, three = map(table_loss, (1, 2, 3))
four = study.scores("plays: table of fours", "nats")
claim("01.writes", lstm=lstm, one=one, two=two, three=three, four=four)

# %% [markdown]
# So it beats the tables of up to three characters, not that of fours (34⁴ = 1.3 million rows, on record). The
# tables have counted all 4.2 million characters of the plays; 2,000 updates of 16 windows of 32 read one million.

# %% [markdown] tags=["quiz"]
# ## 9 Exit quiz
#
# **Question 1.** Your loss falls steadily for a long time; then, within a single step, it rises to ten times its value. What do
# you try first?
#
# <details><summary>A. Raise the forget bias.</summary>
#
# That lengthens the memory. It does not prevent an update that is too large.</details>
# <details><summary>B. Clip each entry of the gradients to the same bounds.</summary>
#
# This bounds the update as well, but it changes its direction: (3, 4) becomes (1, 1).</details>
# <details><summary>C. Clip the joint norm of the gradients.</summary>
#
# Right: a sudden, rare jump is typical of an exploding gradient.</details>
#
# **Question 2.** A sequence has 200 steps, and at least a tenth of the gradient should survive along the carousel. Which of
# these forget biases is the smallest that achieves this?
#
# <details><summary>A. 1</summary>
#
# σ(1) = 0.73, and $0.73^{200}$ is practically 0.</details>
# <details><summary>B. 4.5</summary>
#
# Right: $0.1^{1/200} = 0.9886$, and σ(4.5) is just above that.</details>
# <details><summary>C. 40: only a gate of 1 carries a gradient over 200 steps.</summary>
#
# A gate of 1 carries the whole gradient, but it cannot learn to forget. To keep a tenth, a smaller bias is enough.</details>
#
# **Question 3.** "LSTMs remember because they have gates." Which result refutes this best?
#
# <details><summary>A. The LSTM with bias 0 fails at both rates: it has the same gates and weights.</summary>
#
# Right: only the start of the forget gate differs, and with it the path of the gradient.</details>
# <details><summary>B. The plain network recalls over five symbols.</summary>
#
# Over five steps nearly everything works.</details>
# <details><summary>C. The plain network recalls when U is larger.</summary>
#
# That shows that a plain network *can* learn it. What gates are good for, the marked bits show.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *Somebody writes: "Plain recurrent networks cannot learn long dependencies; LSTMs can."
# Correct this sentence, using what you have measured.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | states what vanishes, and which terms make up the factor of each step |
# | 1 | uses a control: the LSTM with bias 0 fails like the plain network |
# | 1 | uses the plain network with a larger or orthogonal $U$: only the initial $U$ was changed, and the failure disappeared |
# | 1 | says which path each of the two has at its start, with a number: $U$ or the forget gate |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 10 What came of it
#
# In the 2010s LSTMs ran speech recognition and translation. Residual networks (He et al. 2016) add to a state from
# *layer* to layer, as does every Transformer. The recipe stayed: GPT-3 (Brown et al. 2020) was trained with
# Adam, warm-up, decay and clipping at a joint norm of 1.
#
# Two limits ended the reign. A state of fixed size must hold the whole sentence (lecture 02), and a step must wait for the one
# before (lectures 04 and 05). Since 2021 recurrence is back without the second limit: if the step is *linear* in the state, all
# states can be computed in parallel. Without $h$ in its gates and candidate, your LSTM is such a model (Feng et al. 2024), as is
# Mamba (Gu & Dao 2023); Kimi Linear (2025) mixes such layers with attention: lecture 14.
#
# **Further reading.** [Elman 1990](https://doi.org/10.1207/s15516709cog1402_1) ·
# [Bengio, Simard, Frasconi 1994, section 3](https://doi.org/10.1109/72.279181) ·
# [Hochreiter & Schmidhuber 1997, section 3](https://doi.org/10.1162/neco.1997.9.8.1735) ·
# [Gers et al. 2000, section 3](https://doi.org/10.1162/089976600300015015) ·
# [Pascanu et al. 2013, eqs. 3 to 5 and algorithm 1](https://arxiv.org/abs/1211.5063) ·
# [Karpathy 2015](https://karpathy.github.io/2015/05/21/rnn-effectiveness/) ·
# [Olah 2015](https://colah.github.io/posts/2015-08-Understanding-LSTMs/), gate by gate ·
# [He et al. 2016](https://arxiv.org/abs/1603.05027) · [Brown et al. 2020, appendix B](https://arxiv.org/abs/2005.14165) ·
# [Gu & Dao 2023](https://arxiv.org/abs/2312.00752) · [Feng et al. 2024](https://arxiv.org/abs/2410.01201) ·
# [Kimi Linear 2025](https://arxiv.org/abs/2510.26692).

# %% [markdown]
# # Going further
#
# Each of these sections stands on its own, and no later lecture needs them. After a restart, sections 11 to 13 need the imports
# and the cells of sections 1 and 2, and section 14 needs those of sections 1 to 5.
#
# ## 11 Back-propagation through time, by hand
#
# What does `loss.backward()` do in a recurrent network? You write one step of it and compare with autograd. One step back is
# the chain rule through $h_t = \tanh(a_t)$, $a_t = W x_t + U h_{t-1} + b$. With $\delta_t = \partial L / \partial a_t$:
#
# $$\delta_t = \frac{\partial L}{\partial h_t} \odot (1 - h_t^2), \qquad \frac{\partial L}{\partial h_{t-1}} = U^\top \delta_t$$
#
# The gradients of $x_t$, $W$, $U$ and $b$ follow from the same $\delta_t$.
#
# | name | shape |
# | --- | --- |
# | `grad_h_new`, `h`, `h_new` | (B, n) |
# | `x` | (B, d) |
# | result | gradients of `x` (B, d), `h` (B, n), `W` (n, d), `U` (n, n), `b` (n,) |
#
# All rows of the batch share the parameters, so the gradients of the parameters are sums over the batch. Do not use autograd
# here: you are writing what it does.

# %% exercise="01.2" difficulty="●●○" minutes=15
from course_lib.primitives import bptt_step

# %% tags=["nbval-check-output"]
bptt_step = check("01.2", bptt_step)

# %% [markdown]
# **Along the carousel** of an LSTM, a step back is simpler: it multiplies by the forget gate. Write what is left after $T$ steps,
# also for $T = 0$.

# %% exercise="01.5" difficulty="●○○" minutes=3
from course_lib.primitives import carousel_gradient

# %% tags=["nbval-check-output"]
carousel_gradient = check("01.5", carousel_gradient)

# %% [markdown]
# Back-propagation through time applies `bptt_step` repeatedly, from the last time step to the first. Over 64 pixels of ten
# digits, one pixel per step, the gradients of all parameters agree with autograd.

# %%
pixels = gradients.digit_pixels(10)
weights = gradients.torch_weights(d=1, n=32)
by_hand, by_autograd = gradients.both_ways(rnn_step, bptt_step, pixels, weights)
torch.testing.assert_close(by_hand, by_autograd)
source(gradients.back_through_time)

# %% [markdown]
# ### Bug hunt
#
# The version below returns the right shapes, and the loss of a network trained with it even falls. Which test would find the
# mistake? Read the code and decide. Then run the next two cells: the first prints the relative difference from autograd
# over 1, 2 and 5 steps, the second runs the check.

# %% exercise="01.2" bug="transposes_the_recurrent_matrix"
from course_tools.bank.lecture_01.bptt_step import (
    transposes_the_recurrent_matrix as suspect,
)

# %% tags=["try-it"]
for t in (1, 2, 5):
    found, right = gradients.both_ways(rnn_step, suspect, pixels[-t:], weights)
    print(f"{t} step{'s' * (t > 1)}: {(found - right).norm() / right.norm():.0e}")

# %% tags=["nbval-check-output"]
suspect = check("01.2", suspect)

# %% [markdown] tags=["predict"]
# **Why do the gradients of W, U and b over one step not show the mistake?**
#
# <details><summary>A. Over one step the batch is too small.</summary>
#
# The batch consists of the same ten digits each time.</details>
# <details><summary>B. tanh is nearly linear for small states.</summary>
#
# It is, but both versions contain its derivative.</details>
# <details><summary>C. The mistake is in ∂L/∂h alone, and over one step nothing uses ∂L/∂h.</summary>
#
# Yes. From two steps on, the earlier step receives a wrong ∂L/∂h, and then every gradient is wrong. Neither the shapes nor the
# parameters' gradients over one step show the mistake; the check tests ∂L/∂h itself.</details>

# %% [markdown]
# **Truncated back-propagation.** A book does not fit into one backward pass: all its states would have to stay in memory. So
# the text is cut into segments of $k$ steps. The state is passed on from one segment to the next, but without its gradient
# (`state.detach()`). Training can still learn to *use* what the state brings from earlier segments, but no gradient tells an
# earlier segment what to store for a later one. Here the 64 pixels are read in segments of 16.

# %%
reached = gradients.steps_reached(rnn_step, pixels, weights, k=16)
print(f"The gradient of the last state reaches {max(reached)} steps back, of 63.")

# %% [markdown] tags=["predict"]
# ## 12 To be able to remember is not to be able to learn it
#
# The plain network fails at the small rate. Is it too weak? Set its weights by hand: eight units, one for each symbol. The
# first symbol sets its own unit to a high value; each noise symbol changes all units a little, at random. Each unit feeds back
# only to itself, with $U = 3I$ and $b = -1$. It then has two stable values, since $\tanh(3 \cdot 0.95 - 1) = 0.95$ and
# $\tanh(3 \cdot (-1) - 1) \approx -1$, so it works as a latch: once set, it keeps its value. Over sixty symbols these eight
# units recall the first one.
#
# **Predict.** Suppose that gradient descent starts at these good weights. How large is the gradient of the final error with
# respect to the state after step 1, compared with that at the end?
#
# <details><summary>A. Large: that state holds the answer, and the answer reaches the end.</summary>
#
# The symbol does reach the end. But if you change the state after step 1 *a little*, the latch returns to its stable value, and
# the final state hardly changes. A gradient measures the effect of small changes.</details>
# <details><summary>B. Nearly zero, and smaller with every further step.</summary>
#
# Yes. A latch is robust against noise because it damps small disturbances, and for the same reason its gradient vanishes.
# Bengio, Simard and Frasconi proved in 1994 that in a plain network that stores information robustly, the gradient
# vanishes.</details>
# <details><summary>C. As large as that with respect to the second-to-last state.</summary>
#
# That would require every step to preserve small changes. Here a step reduces them, on average, to about a third.</details>

# %%
torch.manual_seed(0)
x, first = draw(1000, 60)
latched = latches.read_by_latches(rnn_step, x, first, feedback=3.0, bias=-1.0)
source(latches.read_by_latches)

# %% tags=["nbval-check-output"]
left = latched.gradient_left()
claim("01.latches", accuracy=latched.accuracy(), gradient_left=left)

# %% [markdown] tags=["predict"]
# ## 13 When gradients explode
#
# Each step back multiplies the gradient by $U^\top$ and by the slopes $1 - h_t^2$. Let $U = \rho\,Q$ with an orthogonal $Q$, so
# that all singular values of $U$ are $\rho$. Near the state 0 the slopes are 1, and $T$ steps multiply every gradient by
# $\rho^T$.
#
# **Predict.** Let $\rho = 1.5$. The entries of $W$ have the standard deviation 0.001 (weak input) or 4 (strong input). Does the
# gradient explode?
#
# <details><summary>A. With the weak input it grows; with the strong input it still vanishes.</summary>
#
# Yes. A singular value above 1 is necessary for growth, not sufficient (Pascanu et al., section 2.1). With the weak input it
# grows by less than $1.5^{64}$: $U$ makes the state grow too, and then the slopes fall below 1.</details>
# <details><summary>B. In both cases: the singular values are above 1.</summary>
#
# They decide alone only while the state is near 0. A strong input drives the units to ±1, where the derivative of tanh is
# nearly 0.</details>
# <details><summary>C. In neither: the derivatives are at most 1.</summary>
#
# They are, but the matrix $U^\top$ makes every vector 1.5 times as long.</details>

# %% tags=["cover"]
pixels = gradients.digit_pixels(10)
norms_of = partial(gradients.gradient_norms, rnn_step, pixels)
norms = {
    "1.5 Q, weak input": norms_of(1.5, 1e-3),
    "1.0 Q, weak input": norms_of(1.0, 1e-3),
    "0.6 Q, weak input": norms_of(0.6, 1e-3),
    "1.5 Q, strong input": norms_of(1.5, 4.0),
}
figures.show_gradient_norms(norms)

# %% tags=["nbval-check-output"]
weak, _, _, strong = (growth[-1] for growth in norms.values())
claim("01.explode", weak=weak, strong=strong)

# %% [markdown]
# ## 14 Which gate keeps the state?
#
# **No forget gate.** The LSTM of 1997 had none: $c_t = c_{t-1} + i \odot g$. A bias of 40 has the same effect: in float32,
# σ(40) is rounded to 1 and its derivative to 0, so training cannot close the gate.
#
# **A GRU** (Cho et al. 2014) has no separate cell state: $h_t = (1 - z) \odot n + z \odot h_{t-1}$. The update gate
# $z = \sigma(W_z x_t + U_z h_{t-1} + b_z)$ decides how much of the old state is kept; the candidate $n$, a tanh, reads $h_{t-1}$
# through a reset gate $r$. With torch's initialisation $z$ starts near one half. We set its bias to 0 or to 4. Each type of cell
# gets the rate at which it learns more surely in 300 updates.
#
# ![](diagram:gru_cell)

# %% [markdown] tags=["predict"]
# **Predict.** Which of the three learn to recall over sixty symbols?
#
# <details><summary>A. Only the GRU with bias 4: a cell that cannot forget accumulates noise.</summary>
#
# It would if it had to add the noise to its state. But the *input* gate can learn to block the noise.</details>
# <details><summary>B. All three: a GRU has a path without matrix and tanh, through z.</summary>
#
# It has this path, but with bias 0 the path halves the gradient at each step.</details>
# <details><summary>C. The LSTM without a forget gate, and the GRU with bias 4.</summary>
#
# Yes. It matters that the state is kept from step to step, not which gate keeps it.</details>


# %%
def gru(update_bias, d=16, n=64):
    layer = GRU(d, n, fused_gru)
    nn.init.constant_(layer.bias_ih_l0[n : 2 * n], update_bias)
    nn.init.zeros_(layer.bias_hh_l0[n : 2 * n])
    return layer


no_forget_gate = partial(LSTM, 16, 64, fused_lstm, forget_bias=40.0)
by_gate = {
    "LSTM, no forget gate, rate 0.002": accuracies(no_forget_gate, lr=2e-3),
    "GRU, bias 4": accuracies(partial(gru, 4.0)),
    "GRU, bias 0": accuracies(partial(gru, 0.0)),
}
show_seeds(by_gate, "accuracy", "60 symbols; GRU: rate 0.01", {"chance": 1 / 8})

# %% tags=["nbval-check-output"]
never, opened, half = by_gate.values()
claim("01.gates", never=never, opened=opened, half=half)

# %% tags=["nbval-check-output", "ledger"]
ledger()

# %% [markdown] tags=["companion", "guard"]
# ## 15 Decks
#
# ITMO lecture 7 (*IT*) and RKMVERI (*RK*).
#
# **Errata of the decks.**
#
# - *IT* writes the same matrix as $W_{ya}$ in the formula and as $W_{ay}$ in the list. Only the first can be multiplied by $a$.
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | IT | Long-sequence problem | 1 Remember the first symbol | `course_lib.primitives.LSTM` |
# | IT | Parameters of RNN | 2 One step | `course_lib.primitives.rnn_step`, `course_lib.primitives.RNN` |
# | RK | Transformer: issues with RNNs | 4 Where the gradient goes | `course_lib.primitives.bptt_step` |
# | IT | Problems with "classic" RNN | 4 Where the gradient goes | `course_lib.primitives.clip_gradients` |
# | IT | Long Short-Term Memory (LSTM) cell | 6 The LSTM | `course_lib.primitives.lstm_step`, `course_lib.primitives.LSTM` |
# | IT | Long Short-Term Memory (LSTM) cell | 6 The LSTM | `course_lib.primitives.carousel_gradient` |
# | IT | Plane Deep Network | 14 Which gate keeps the state? | `course_lib.primitives.LSTM`, `course_lib.primitives.GRU` |
