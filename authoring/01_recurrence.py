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
# A recurrent network reads a sequence by applying the same small function at every step; its gradients decide whether it can
# learn from distant steps.
#
# ![](diagram:rnn)
#
# You will write one step of a plain recurrent network and of an LSTM, back-propagation through time and gradient clipping, and
# train four networks to recall the first of sixty symbols.
#
# **Prerequisites:** Python, tensors, and back-propagation through a feed-forward network. **Time:** {minutes}.
# {measured}


# %%
from course_tools.notebook import at_scale, check, claim, explore, ledger, predict
from course_tools.lectures.lecture_01.experiments import RecallExperiment

SEEDS, LONG, N_HIDDEN = (0, 1, 2), at_scale(cpu=60, gpu=80), at_scale(cpu=64, gpu=128)
steps, lr = at_scale(cpu=300, gpu=400), at_scale(cpu=1.5e-3, gpu=1e-3)
recalling = RecallExperiment(SEEDS, steps, lr)

# %% [markdown] tags=["predict"]
# ## 1 A network that forgets
#
# A word early in a text can determine a word much later. The smallest task of this kind is *recall*: in each sequence **the
# first symbol is the answer**, and all other symbols are noise from another alphabet. The network reads the symbols one by one,
# as one-hot vectors of size 16; a linear readout of its last state predicts which came first. The task tests one thing: whether
# training can still *learn from* step 1 when the error appears at step T.
#
# **Predict.** A plain recurrent network with 64 units is trained on sequences of 5 symbols, and another one on sequences of 60.
# How accurate does each become? There are eight possible first symbols, so chance is one in eight.
#
# <details><summary>A. Both are easy: 64 numbers are enough to store one of eight symbols.</summary>
#
# They are enough, and in section 2 you will run weights that store it. The question is whether training *finds* such
# weights.</details>
# <details><summary>B. Five symbols are easy; with sixty the accuracy is at chance.</summary>
#
# Yes, at this learning rate and after this number of updates. Section 7 changes the initial $U$ alone, and the learning rate
# alone; section 8 measures the gradient.</details>
# <details><summary>C. Sixty symbols work too, only less accurately.</summary>
#
# That would need a gradient that falls slowly with the distance. Each step back multiplies it by a *factor* below 1 (section
# 8), so over sixty steps nearly all of it is lost.</details>

# %%
recalling.print_example(T=5)

# %%
from functools import partial

from course_lib.fast import hoisted_rnn
from course_lib.primitives import RNN

plain = partial(RNN, 16, N_HIDDEN, hoisted_rnn)
plain_models = {T: recalling.fit(plain, T) for T in (5, LONG)}
recalling.show_losses({f"{T} symbols": models for T, models in plain_models.items()})

# %% tags=["nbval-check-output"]
near, far = (recalling.accuracies(models, T) for T, models in plain_models.items())
claim("01.a", least=min(near))
difference = min(near) - max(far)
claim("01.b", difference=difference, steps=steps, lr=lr, long=LONG)
print(f"over {LONG} symbols: {', '.join(f'{x:.2f}' for x in far)}; chance 0.125")

# %% [markdown]
# ## 2 One step
#
# In this section you write the function that the network applies at every step (`hoisted_rnn` loops over the steps). It maps
# the input $x_t$ and the previous state $h_{t-1}$ to the new state:
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
# The matrices have torch's shape, (out, in). The inputs are the rows of `x`, so $Wx$ is written `x @ W.mT`.

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.primitives.recurrent import HiddenState, Input

# %% exercise="01.1" difficulty="●○○" minutes=5
from course_lib.primitives import rnn_step

# %% tags=["nbval-check-output"]
rnn_step = check("01.1", rnn_step)

# %% [markdown]
# The next cell applies your step to two kinds of sequences. The first are handwritten digits, read one pixel at a time, 64
# steps per digit. With the weights of `torch.nn.RNN`, your states must equal torch's.
#
# The others are those of the recall task, with weights that we set by hand. There are eight units, one for each symbol. The
# first symbol sets its own unit to a high value; each noise symbol changes all units a little, at random. Each unit feeds back
# only to itself, with $U = 3I$ and $b = -1$. It then has two stable values, one high and one low, so it works as a latch: once
# set, it keeps its value.

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_01 import gradients as through_time
from course_tools.lectures.lecture_01.experiments import read_by_latches

pixels, labels = through_time.digit_pixels(10)
weights = through_time.torch_weights(d=1, n=32, seed=SEEDS[0])
difference = through_time.rnn_difference_to_torch(rnn_step, pixels, weights)
claim("01.c", difference=difference)
latches = read_by_latches(rnn_step, recalling.unseen(LONG), feedback=3.0, bias=-1.0)
claim("01.d", accuracy=latches.accuracy())

# %% [markdown] tags=["predict"]
# **Predict.** So a plain network *can* remember. Suppose that gradient descent starts at these good weights. How large is the
# gradient of the final error with respect to the state after step 1, compared with that at the end?
#
# <details><summary>A. Large: that state holds the answer, and the answer reaches the end.</summary>
#
# The symbol does reach the end. But if you change the state after step 1 *a little*, the latch returns to its stable value, and
# the final state hardly changes. A gradient measures the effect of small changes.</details>
# <details><summary>B. Nearly zero, and smaller with every further step.</summary>
#
# Yes. A latch is robust against noise because it damps small disturbances, and for the same reason its gradient vanishes.
# Bengio, Simard and Frasconi proved in 1994 that in a plain network that stores information robustly, the gradient vanishes.
# Section 3 measures this gradient.</details>
# <details><summary>C. As large as that with respect to the second-to-last state.</summary>
#
# That would require every step to preserve small changes. Here a step reduces them, on average, to about a third.</details>

# %% [markdown]
# ## 3 Back-propagation through time
#
# To learn from an early step, training must propagate the gradient of the final error back to that step. In this section you
# write one step of this backward pass and compare it with autograd. One step back is the chain rule through $h_t = \tanh(a_t)$,
# $a_t = W x_t + U h_{t-1} + b$. With $\delta_t = \partial L / \partial a_t$:
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

# %%
from course_lib.primitives import StepGradients

# %% exercise="01.2" difficulty="●●○" minutes=15
from course_lib.primitives import bptt_step

# %% tags=["nbval-check-output"]
bptt_step = check("01.2", bptt_step)

# %% [markdown]
# Back-propagation through time applies your step repeatedly, from the last time step to the first. The next cell runs it over
# 64 pixels of real digits, where the gradient of every parameter must agree with autograd. Then it measures the gradient of the
# latches, which answers the question above.

# %% tags=["nbval-check-output"]
difference = through_time.difference_to_autograd(rnn_step, bptt_step, pixels, weights)
claim("01.e", difference=difference)
claim("01.f", gradient_left=latches.gradient_left(bptt_step))

# %% [markdown]
# ### Bug hunt
#
# The version below returns the right shapes, and the loss of a network trained with it even falls. Which test would find the
# mistake? Read the code and decide. Then run the next two cells: the first prints the difference from autograd over 1, 2 and 5
# steps, the second runs the check.

# %% exercise="01.2" bug="transposes_the_recurrent_matrix"
from course_tools.bank.lecture_01.bptt_step import (
    transposes_the_recurrent_matrix as suspect,
)

# %% tags=["try-it"]
through_time.print_differences_to_autograd(
    rnn_step, suspect, pixels, weights, lengths=(1, 2, 5)
)

# %% tags=["nbval-check-output"]
suspect = check("01.2", suspect)

# %% [markdown] tags=["predict"]
# **Why do the gradients of W, U and b over one step not show the mistake?**
#
# <details><summary>A. Over one step the batch is too small.</summary>
#
# The batch consists of the same ten digits each time.</details>
# <details><summary>B. The mistake is in ∂L/∂h alone, and over one step nothing uses ∂L/∂h.</summary>
#
# Yes. From two steps on, the earlier step receives a wrong ∂L/∂h, and then every gradient is wrong. Neither the shapes nor the
# parameters' gradients over one step show the mistake; the check tests ∂L/∂h itself. A curve of gradient norms does not show it
# either if $U$ is orthogonal and the state is near 0, because the transpose of an orthogonal matrix also preserves
# lengths.</details>
# <details><summary>C. tanh is nearly linear for small states.</summary>
#
# It is, but both versions contain its derivative.</details>

# %% [markdown]
# ### Truncated back-propagation
#
# A long text does not fit into one backward pass: all its states would have to stay in memory. *Truncated* back-propagation
# through time (Williams & Peng, 1990) therefore cuts the text into segments of $k$ steps. The state is passed on from one
# segment to the next, but without its gradient: `detached` from `course_lib.truncated_bptt` removes it. The gradient of a
# state then reaches only the inputs of its own segment, at most $k - 1$ steps back. Training can still learn to *use* what the
# state brings from earlier segments, but no gradient tells an earlier segment what to store for a later one. The next cell
# reads the 64 pixels of each digit in segments of 16.

# %% tags=["nbval-check-output"]
claim("01.zb", largest=max(through_time.steps_reached(rnn_step, pixels, weights, k=16)))

# %% [markdown]
# ## 4 Vanishing and exploding gradients
#
# This section measures how the gradient shrinks or grows over many steps. Each step back multiplies it by $U^\top$ and by the
# derivatives $1 - h_t^2$, which are at most 1. If the state is near 0, these derivatives are near 1, and only $U$ matters. Let
# $U = \rho\,Q$, where $Q$ is orthogonal and therefore preserves lengths. All singular values of $U$ are then $\rho$, and $T$
# steps multiply the length of every gradient by $\rho^T$. Claim 01.g below tests this with your step.

# %% [markdown] tags=["predict"]
# **Predict.** Let $\rho = 1.5$, so all singular values of $U$ are 1.5. The entries of $W$ have the standard deviation 0.001
# (weak input) or 4 (strong input). Does the gradient explode?
#
# <details><summary>A. In both cases: the singular values are above 1.</summary>
#
# The singular values alone determine the growth only while the state is near 0. A strong input drives the units to ±1, where
# the derivative of tanh is nearly 0.</details>
# <details><summary>B. With the weak input it grows; with the strong input it still vanishes.</summary>
#
# Yes. A singular value above 1 is necessary for the gradient to grow in a step. It is not sufficient, because the derivatives
# of tanh are at most 1 (Pascanu et al., section 2.1). The *eigenvalues* are not the criterion: the only eigenvalue of $2\,[[1,
# -1], [1, -1]]$ is 0, but its largest singular value is 4. If the derivatives of its two units stay more than one half apart,
# the gradient grows. With the weak input it grows by less than $1.5^{64}$: $U$ makes the state grow too, and then the
# derivatives fall below 1.</details>
# <details><summary>C. In neither: the derivatives are at most 1.</summary>
#
# They are, but the matrix $U^\top$ makes every vector 1.5 times as long.</details>


# %%
from collections.abc import Sequence

norms_of = partial(
    through_time.gradient_norms, rnn_step, bptt_step, pixels, seed=SEEDS[0]
)
norms = {
    "1.5 Q, weak input": norms_of(1.5, 1e-3),
    "1.0 Q, weak input": norms_of(1.0, 1e-3),
    "0.6 Q, weak input": norms_of(0.6, 1e-3),
    "1.5 Q, strong input": norms_of(1.5, 4.0),
}
through_time.show_gradient_norms(
    norms, "one random Q", "steps back (pixels of a digit)"
)

# %% tags=["nbval-check-output"]
claim("01.g", ratio=norms_of(0.6, 1e-6)[-1] / 0.6**64)
claim("01.h", norms=norms["1.5 Q, weak input"][-1])
claim("01.i", norms=norms["1.5 Q, strong input"][-1])

# %% [markdown]
# **Clipping.** An exploding gradient still has a useful direction, but its norm is far too large: a single update with it can
# ruin the weights. Pascanu, Mikolov and Bengio therefore rescale it. Concatenate the gradients of all parameters into one
# vector $g$. If its norm is larger than a threshold $\theta$, replace it by
#
# $$\hat g = g \cdot \frac{\theta}{\lVert g \rVert}$$
#
# All entries are multiplied by the same factor, so the direction stays the same. A gradient with a smaller norm is unchanged.
#
# | name | shape |
# | --- | --- |
# | `gradients` | a list of tensors of any shapes |
# | `max_norm` | θ > 0, the limit for the norm of **all** entries together |
# | result | a list of new tensors of the same shapes |

# %% exercise="01.3" difficulty="●●○" minutes=10
from course_lib.primitives import clip_gradients

# %% tags=["nbval-check-output"]
clip_gradients = check("01.3", clip_gradients)

# %% [markdown]
# Does clipping matter in training? The next cell runs plain gradient descent with three seeds on the recall task with 10
# symbols. It uses your `rnn_step` and the recurrent matrix $1.5\,Q$. With the learning rate 1, it runs once with your
# `clip_gradients` before each update, and once without. The obvious rival is no clipping and a smaller learning rate, here 0.1.

# %%
from course_tools.lectures.lecture_01.experiments import descend, show_descents

clip = partial(clip_gradients, max_norm=0.3)
descents = {
    "clipped": [descend(rnn_step, clip, seed) for seed in SEEDS],
    "not clipped": [descend(rnn_step, None, seed) for seed in SEEDS],
    "not clipped, rate 0.1": [descend(rnn_step, None, s, lr=0.1) for s in SEEDS],
}
show_descents(descents)

# %% tags=["nbval-check-output"]
claim("01.j", least=min(run.accuracy for run in descents["clipped"]))
difference = min(run.accuracy for run in descents["clipped"]) - max(
    run.accuracy for run in descents["not clipped"]
)
claim("01.k", difference=difference)
claim("01.zc", least=min(run.accuracy for run in descents["not clipped, rate 0.1"]))

# %% [markdown]
# Clipping permits a learning rate at which descent without it fails. With a tenth of this rate, descent succeeds without
# clipping too, after as many updates. So clipping is not necessary here: it makes a larger rate usable, and has a threshold
# to choose.
#
# ## 5 The LSTM cell
#
# Clipping helps against exploding gradients, not against vanishing ones. An **LSTM** has a second state, the cell state $c$,
# which is updated by addition. Three gates with values between 0 and 1 control how much of a candidate $g$ is written into it
# ($i$), how much of it is kept ($f$) and how much is read out ($o$). In this section you write one step of the LSTM:
#
# $$i, f, o = \sigma(W x_t + U h_{t-1} + b) \qquad g = \tanh(W x_t + U h_{t-1} + b)$$
# $$c_t = f \odot c_{t-1} + i \odot g \qquad h_t = o \odot \tanh(c_t)$$
#
# Each of $i$, $f$, $g$ and $o$ has its own rows of $W$, $U$ and $b$; the four blocks are stacked row-wise.
#
# | name | shape | what it is |
# | --- | --- | --- |
# | `x`, `h`, `c` | (…, d), (…, n), (…, n) | input, state, cell state |
# | `W`, `U`, `b` | (4n, d), (4n, n), (4n,) | rows in torch's order: i, f, g, o |
# | result | `h`, `c`, each (…, n) | state and cell state after the step |
#
# ![](diagram:lstm_cell)

# %% exercise="01.4" difficulty="●●○" minutes=15
from course_lib.primitives import lstm_step

# %% tags=["nbval-check-output"]
lstm_step = check("01.4", lstm_step)

# %% tags=["nbval-check-output"]
difference = through_time.lstm_difference_to_torch(lstm_step, pixels, SEEDS[0])
claim("01.l", difference=difference)

# %% [markdown]
# ## 6 The constant error carousel
#
# Why does the cell state help the gradient? Its update $c_t = f_t \odot c_{t-1} + \dots$ contains no matrix and no tanh, and
# each unit depends only on itself. Along this path a small change of $c_{t-1}$ reaches $c_t$ multiplied by $f_t$. In the
# LSTM of 1997, which has no forget gate, $f = 1$, and Hochreiter and Schmidhuber call this path the *constant error carousel*.
# We use the name for other $f$ as well. Along this path alone, the gradient over $T$ steps is
#
# $$\left.\frac{\partial c_T}{\partial c_0}\right|_{\text{path}} = \mathrm{diag}\Big(\prod_{t=1}^{T} f_t\Big) .$$
#
# If all forget gates are 1, the gradient is preserved exactly. You now write the product, which is the diagonal.
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
# **Predict.** At initialisation the weights of the forget gate are small, so $f \approx \sigma(b_f)$. By what factor does the
# carousel multiply a gradient over 60 steps, with the bias $b_f = 0$ and with $b_f = 4$?
#
# <details><summary>A. About a half, and nearly 1.</summary>
#
# That is the factor of *one* step: σ(0) = 1/2, σ(4) = 0.982. There are sixty steps.</details>
# <details><summary>B. Nearly 0, and about a third.</summary>
#
# Yes: $0.5^{60}$ is below $10^{-18}$, and $0.982^{60}$ is about a third. The next cell measures both on digits.</details>
# <details><summary>C. Nearly 0 in both cases: sixty factors below 1.</summary>
#
# It depends on how far below 1 they are. Sixty factors of 0.982 leave about a third.</details>

# %%
by_bias = {bias: through_time.carousel(lstm_step, pixels, bias) for bias in (0.0, 4.0)}
by_product = carousel_gradient(by_bias[4.0].gates)

# %% tags=["nbval-check-output"]
claim("01.m", ratio=(by_bias[4.0].along - by_product).norm() / by_product.norm())
claim("01.n", average=by_bias[4.0].along.mean())
claim("01.o", largest=by_bias[0.0].along.max())

# %% [markdown] tags=["predict"]
# ## 7 The experiment: sixty steps
#
# We return to the task of section 1, with the same data, readout, number of updates and learning rate, and compare the accuracy
# of four networks with 64 units each (128 on a GPU):
#
# - the plain network as torch initialises it (as in section 1);
# - **LSTM, bias 4**: the forget gate starts open;
# - **LSTM, bias 0**, the control: the same parameters, but the gate starts half open;
# - **plain, orthogonal $U$**: the plain network of section 1, but $U$ is initialised as an orthogonal matrix. All else is
#   the same. It has no gates and no cell state.
#
# As a rival, the plain network of section 1 is also trained with a learning rate that is several times as large.
#
# **Predict.** Which of the four learn to recall?
#
# <details><summary>A. Both LSTMs, because they have gates.</summary>
#
# A forget gate that starts half open halves the gradient along the cell state at each step, and the other paths do not make up
# for it (01.v). Training could open the gate, but the gradient that would do so has vanished.</details>
# <details><summary>B. Only the LSTM with bias 4.</summary>
#
# It does learn. But if the vanishing gradient causes the failure, a plain network whose gradient decays far less should succeed
# as well.</details>
# <details><summary>C. The LSTM with bias 4 and the plain network with orthogonal U.</summary>
#
# Yes: in these two, the gradient reaches the first step with every seed (01.s, 01.t), although not every seed of the plain
# network recalls perfectly. At this learning rate, the initialisation decides, not the type of cell.</details>


# %%
from course_lib.primitives import LSTM
from course_lib.fast import fused_lstm
from course_tools.lectures.lecture_01.gradients import gru_with_bias, orthogonal_rnn

networks = {
    "plain, orthogonal U": partial(orthogonal_rnn, 16, N_HIDDEN),
    "LSTM, bias 0": partial(LSTM, 16, N_HIDDEN, fused_lstm, forget_bias=0.0),
    "LSTM, bias 4": partial(LSTM, 16, N_HIDDEN, fused_lstm, forget_bias=4.0),
}
faster = at_scale(cpu=1e-2, gpu=5e-3)
models = {"plain": plain_models[LONG]} | {
    name: recalling.fit(make, LONG) for name, make in networks.items()
}
models[f"plain, rate {faster:g}"] = recalling.fit(plain, LONG, lr=faster)
recalled = recalling.compare(models, LONG)

# %% tags=["nbval-check-output"]
from statistics import mean

claim("01.p", least=min(recalled["LSTM, bias 4"]), long=LONG)
claim("01.q", difference=min(recalled["LSTM, bias 4"]) - max(recalled["LSTM, bias 0"]))
claim("01.r", largest=max(recalled["plain, orthogonal U"]))
best = max(recalled[f"plain, rate {faster:g}"])
claim("01.zd", best=best, faster=faster, lr=lr)

# %% [markdown] tags=["predict"]
# ## 8 The gradient before training
#
# A likely cause of the failure is visible before training. It does not prove that training must fail: updates change $U$, and
# with it the gradient, and with the larger learning rate some seeds learn it from the same initial weights (01.zd). We run the
# untrained networks on the same sequences with your steps and measure the gradient of the final loss with respect to the memory
# ($h$, or $c$ for the LSTM) at each earlier step. The vertical axis of the figure is logarithmic, so a straight line is
# exponential decay.
#
# **Predict.** In the LSTM with bias 4, the carousel alone keeps about a third of the gradient over 60 steps. How much do all
# paths together keep, including those through $h$ and the gates?
#
# <details><summary>A. About a third: only the carousel reaches that far.</summary>
#
# The gradient also flows through the gates and the candidate $g$ to $h_{t-1}$, and from there back into the carousel.</details>
# <details><summary>B. Less: the other paths vanish and reduce the total.</summary>
#
# The gradients of all paths are added. A path whose gradient vanishes does not change the sum.</details>
# <details><summary>C. More.</summary>
#
# Yes, with torch's initialisation. The figure shows how much more, and claim 01.IT-path in the ledger compares the
# two.</details>


# %%
by_lag = recalling.compare_gradients(
    rnn_step, lstm_step, {"plain": plain} | networks, LONG
)

# %% tags=["nbval-check-output"]
reached = {name: [run[-1] for run in runs] for name, runs in by_lag.items()}
claim("01.s", least=min(reached["LSTM, bias 4"]))
claim("01.t", least=min(reached["plain, orthogonal U"]))
claim("01.u", largest=max(reached["plain"]))
claim("01.v", largest=max(reached["LSTM, bias 0"]))

# %% [markdown] tags=["try-it"]
# **Try it.** How close to 1 must the singular values of $U$ be? Change `stretch`, the factor by which $U$ multiplies the length
# of a vector, and the scale of the input, and train one network. How small may the gradient at the first step become before
# training fails? Each run uses one seed, so repeat a result with other seeds before you trust it.

# %% tags=["try-it"]
scaled = partial(orthogonal_rnn, 16, N_HIDDEN, stretch=0.6, input_scale=1.0)
recalling.try_out(rnn_step, lstm_step, scaled, LONG)

# %% tags=["interactive"]
explore(
    partial(through_time.show_carousel, lstm_step, carousel_gradient, pixels, labels),
    forget_bias=(-2.0, 8.0, 0.5),
    digit=(0, 9),
)

# %%
through_time.show_carousel_by_bias(lstm_step, carousel_gradient, pixels[:, :1])

# %% [markdown] tags=["predict"]
# ## 9 Ablations
#
# Does it matter *which* gate carries the state? Here we remove the forget gate, and then we replace the LSTM with a GRU.
#
# **No forget gate.** The LSTM of 1997 had none: $c_t = c_{t-1} + i \odot g$, a sum like the residual connections of deep
# feed-forward networks. A bias of 40 has the same effect: in float32, σ(40) is rounded to 1 and its derivative to 0, so
# training cannot close the gate either.
#
# **A GRU** has no separate cell state: $h_t = (1 - z) \odot n + z \odot h_{t-1}$, where $n$ is a candidate and the update gate
# $z$ decides how much of the old state is kept. With torch's initialisation, $z$ starts near one half. We set its bias to 0 or
# to 4. Both GRUs use a larger learning rate, because a $z$ near 1 lets little input through the factor $1 - z$.
#
# ![](diagram:gru_cell)
#
# **Predict.** Which of the three learn to recall?
#
# <details><summary>A. Only the GRU with bias 4: a cell that cannot forget accumulates noise.</summary>
#
# It would if it had to add the noise to its state. But the *input* gate can learn to block the noise.</details>
# <details><summary>B. The LSTM without a forget gate, and the GRU with bias 4.</summary>
#
# Yes. In this task it matters that the state is kept from step to step, not which gate keeps it.</details>
# <details><summary>C. All three: a GRU has a path without matrix and tanh, through z.</summary>
#
# It has this path, but with bias 0 the path halves the gradient at each step.</details>


# %%
no_forget_gate = partial(LSTM, 16, N_HIDDEN, fused_lstm, forget_bias=40.0)
grus = {bias: partial(gru_with_bias, 16, N_HIDDEN, bias) for bias in (4.0, 0.0)}
ablated = {"LSTM, no forget gate": recalling.fit(no_forget_gate, LONG)} | {
    f"GRU, bias {bias:g}": recalling.fit(make, LONG, lr=4e-3)
    for bias, make in grus.items()
}
never_forgets, open_gate, half_open = recalling.compare(ablated, LONG).values()

# %% tags=["nbval-check-output"]
claim("01.w", least=min(never_forgets))
claim("01.x", least=min(open_gate))
claim("01.y", difference=min(open_gate) - max(half_open))

# %% [markdown] tags=["predict"]
# ### And on real data?
#
# Now the networks read the digits pixel by pixel and classify them at the end. They are trained on 1,400 digits for 250
# updates, all at the same learning rate, and tested on the other 397. A digit takes 64 steps, about as many as before, but the
# useful information is spread over the whole sequence.
#
# **Predict.** Which is more accurate: the LSTM with bias 4, which succeeded above, or the one with bias 0, which failed?
#
# <details><summary>A. Bias 4 again, because its memory is longer.</summary>
#
# At the start, its cell state is nearly the sum of everything read so far, so a single pixel changes it little.</details>
# <details><summary>B. Bias 0.</summary>
#
# Yes, after 250 updates. The pixels that identify a digit are spread over the sequence; presumably, the gradients from those
# near the end are enough to train the gates. A long memory is not the problem: the plain network with orthogonal $U$, whose
# gradient on the recall task reaches far back, too (section 8), is the most accurate after 250 updates. At this rate, the
# losses of both LSTMs are still high then, most of all with bias 4, where the cell at first adds up every pixel.</details>
# <details><summary>C. Neither: both sequences have about 60 steps.</summary>
#
# What counts is not the length of the sequence, but how far back the useful part is.</details>

# %%
from course_tools.lectures.lecture_01.experiments import compare_on_digits

readers = {
    "plain": partial(RNN, 1, 64, hoisted_rnn),
    "plain, orthogonal U": partial(orthogonal_rnn, 1, 64),
    "LSTM, bias 0": partial(LSTM, 1, 64, fused_lstm, forget_bias=0.0),
    "LSTM, bias 4": partial(LSTM, 1, 64, fused_lstm, forget_bias=4.0),
}
on_digits = compare_on_digits(readers, SEEDS)

# %% tags=["nbval-check-output"]
difference = mean(on_digits["LSTM, bias 0"]) - mean(on_digits["LSTM, bias 4"])
claim("01.z", difference=difference)
difference = mean(on_digits["plain, orthogonal U"]) - mean(on_digits["plain"])
claim("01.za", difference=difference)
difference = mean(on_digits["plain, orthogonal U"]) - mean(on_digits["LSTM, bias 0"])
claim("01.ze", difference=difference)

# %% [markdown]
# ## 10 Build it
#
# **Build task (25 minutes, 12 points).** Write an LSTM language model and its training loop, starting from an empty cell.
# Define the classes and functions that you need above `train_lstm`, in the same cell. You may use `nn.LSTM` or your own step.
#
# The check calls `train_lstm(text, n_tokens, n_steps)` once, with 100,000 characters of Python's language reference (27 tokens:
# the lower-case letters and the space) and `n_steps=400`. It evaluates the returned model on held-out text. The function has at
# most 60 seconds of processor time; a good answer needs about five.
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
# | 1 | loss on held-out text: 0.2 nats below that of predicting from character frequencies alone |
# | 2 | loss on held-out text: below that of a bigram table of the characters (about 2.3 nats) |

# %% exercise="01.6" difficulty="●●○" minutes=25
from course_tools.bank.lecture_01.train_lstm import train_lstm

# %% tags=["nbval-check-output"]
train_lstm = check("01.6", train_lstm)

# %% [markdown] tags=["quiz"]
# ## 11 Exit quiz
#
# **Question 1.** Your loss falls steadily for a long time; then, within a single step, it rises to ten times its value. What do
# you try first?
#
# <details><summary>A. Raise the forget bias.</summary>
#
# That lengthens the memory. It does not prevent an update that is too large.</details>
# <details><summary>B. Clip the joint norm of the gradients.</summary>
#
# Right: a sudden, rare jump is typical of an exploding gradient.</details>
# <details><summary>C. Clip each entry of the gradients to the same bounds.</summary>
#
# This bounds the update as well, but it changes its direction. The ledger measures by how much.</details>
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
# **Question 3.** A plain network fails on long sequences. Which result of this lecture shows best that the cause is not a lack
# of capacity?
#
# <details><summary>A. It recalls over five steps.</summary>
#
# That shows that the data and the training loop are correct. It does not show what the state can store over sixty
# steps.</details>
# <details><summary>B. Eight latches, with weights set by hand, recall over sixty steps.</summary>
#
# Right: eight of its 64 units are enough. Training from torch's initialisation, at the learning rate of section 1, does not
# find such weights: before training, the gradient at the first step is many orders of magnitude smaller than that at the end
# (01.u).</details>
# <details><summary>C. The LSTM with bias 4 recalls.</summary>
#
# That is another network, with four times as many weights.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *Somebody writes: "Plain recurrent networks cannot learn long dependencies; LSTMs can."
# Correct this sentence, using what you have measured.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | states what vanishes, and which terms make up the factor of each step |
# | 1 | uses a control: the LSTM with bias 0, or the GRU with bias 0, fails in the same way |
# | 1 | uses the plain network with orthogonal $U$ (only the initial $U$ was changed, and the failure disappeared) or the larger learning rate (01.zd) |
# | 1 | distinguishes *can remember* from *can learn to remember* (the latches) |
# | 1 | says what the digits show (after 250 updates the plain network with orthogonal $U$ is ahead of both LSTMs), and is clear and short |
#
# </details>

# %% [markdown] tags=["companion"]
# ## 12 Ledger
#
# **Errata of the decks**, each measured in the next cell (*IT* is ITMO lecture 7, *RK* the RKMVERI deck):
#
# - *IT* writes the same matrix as $W_{ya}$ in the formula and as $W_{ay}$ in the list. Only the first can be multiplied by $a$.
# - *IT* uses the same $g$ for the state and the output. With $g = \tanh$ the output is not a probability distribution: it has
#   negative entries.
# - *IT* calls $W_{ax}$ and $W_{ay}$ parameters of an "input gate" and an "output gate". A plain network has no gates: its units
#   are not confined to 0…1.
# - *IT*: gradients grow "exponentially with the number of layers". Not always: in 01.i all singular values of $U$ are 1.5, and
#   the gradient vanishes.
# - *IT*: in a dense network the *weights* of early words are exponentially small. They are not: at the start, the weights of
#   the first word are as large as those of the last, and in a network trained on recall they are several times as large. What
#   becomes small in a *recurrent* network is the gradient (01.u); it is already small over the 23 words of the deck's own
#   example.
# - *IT*: $c_t$ depends on $c_{t-1}$ without any non-linearity. Along the carousel this is true (01.m); through $h_{t-1}$ and
#   the gates it is not.
#
# **Remarks.** *IT* clips "the values" of gradients. If a gradient is clipped entry by entry, its direction changes
# (01.IT-clip); if it is clipped by its norm, its direction stays the same (01.IT-norm). *RK* says that a recurrent network
# "cannot parallelise within a sequence". The measurement agrees: the longest chain of dependent tanh operations is as long as
# the sequence (01.RK).
#
# **Limits of this lecture.** The plain network fails *at this learning rate, after this number of updates and from this
# initialisation*. With a larger learning rate some seeds learn, at least in part (01.zd). We do not claim that LSTMs are better
# than plain networks on the digits: see the figure in section 9. All networks of this lecture store what they have read in a state of
# fixed size; lecture 02 is about this limit.
#
# ## 13 Papers and decks
#
# **Papers.** Elman 1990 (https://doi.org/10.1207/s15516709cog1402_1) · Werbos 1990 (https://doi.org/10.1109/5.58337) · Williams
# & Peng 1990 (https://doi.org/10.1162/neco.1990.2.4.490) · Bengio, Simard, Frasconi 1994, section 3
# (https://doi.org/10.1109/72.279181) · Hochreiter & Schmidhuber 1997, section 3 (https://doi.org/10.1162/neco.1997.9.8.1735) ·
# Gers et al. 2000, section 3 (https://doi.org/10.1162/089976600300015015) · Pascanu et al. 2013, eqs. 3 to 5 and algorithm 1
# (https://arxiv.org/abs/1211.5063) · Cho et al. 2014, eqs. 5 to 8 (https://arxiv.org/abs/1406.1078).
#
# The site compares the numbers of these papers with ours ([docs/evidence.md](../docs/evidence.md)).
#
# **Decks.** ITMO lecture 7 and RKMVERI.
#
# <details><summary>Where each section of the decks is covered, and the library's name for it</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | IT | Long-sequence problem | 1 A network that forgets | `course_lib.datasets.recall` |
# | IT | Parameters of RNN | 2 One step | `course_lib.primitives.rnn_step`, `course_lib.primitives.RNN` |
# | RK | Transformer: issues with RNNs | 3 Back-propagation through time | `course_lib.primitives.bptt_step` |
# | IT | Problems with "classic" RNN | 4 Vanishing and exploding gradients | `course_lib.primitives.clip_gradients` |
# | IT | Long Short-Term Memory (LSTM) cell | 5 The LSTM cell | `course_lib.primitives.lstm_step`, `course_lib.primitives.LSTM` |
# | IT | Long Short-Term Memory (LSTM) cell | 6 The constant error carousel | `course_lib.primitives.carousel_gradient` |
# | IT | Plane Deep Network | 9 Ablations | `course_lib.primitives.LSTM`, `course_lib.primitives.GRU` |
#
# </details>


# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_01.errata import deck_statements

found = deck_statements(
    rnn_step, clip_gradients, recalling.known(LONG), recalling.unseen(LONG), SEEDS[0]
)
claim("01.IT-name", matches=found.matches)
claim("01.IT-output", least_output=found.least_output)
claim("01.IT-gate", least_state=found.least_state)
claim("01.IT-clip", cosine_by_value=found.cosine_by_value)
claim("01.IT-norm", cosine_by_norm=found.cosine_by_norm)
claim("01.IT-dense", dense_before=found.dense_before)
claim("01.IT-early", dense_after=found.dense_after)
claim("01.IT-words", largest=max(run[23] for run in by_lag["plain"]))
ratio = (by_bias[4.0].all_paths - by_product).norm() / by_product.norm()
claim("01.IT-path", ratio=ratio)
claim("01.RK", longest_chain=found.longest_chain)

# %% tags=["ledger"]
ledger()
