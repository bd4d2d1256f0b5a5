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
# # 09 · Attention over pixels: non-local blocks
#
# A non-local block adds self-attention over all positions of a feature map, or of a video, to a convolutional network.
#
# ![](diagram:non_local)
#
# You will write the forms of the non-local operation and the block, and test the block on a question about two distant digits.
# At the end you build the strongest baseline without attention that you can: a network that obtains a large receptive field by
# other means.
#
# **Prerequisites:** lecture 04 (dot-product attention, attention over an image) and the basics of convolutional networks.
# **Time:** {minutes}. {measured}

# %%
from course_lib.datasets import same_or_different
from course_tools.notebook import at_scale, predict
from course_tools.lectures.lecture_09 import experiments

SEED, N_CANVASES = 0, at_scale(cpu=4_000, gpu=20_000)
canvases = same_or_different(N_CANVASES, 1, 500, side=44, n_kinds=3, seed=SEED)

# %% [markdown]
# ## 1 Two digits, far apart
#
# Two digits, each a 0, a 1 or a 2, are placed at opposite borders of a canvas: left and right, or top and bottom. Do they
# belong to the same class? They are always two different images, so comparing pixels does not help. One digit alone carries no
# information about the answer: half of the 2s, for example, are paired with another 2.
#
# In our network, three convolutions produce a feature map of 11 × 11 positions with 32 features each. Global average pooling
# and a linear layer then give the answer.

# %% [markdown] tags=["predict"]
# **Predict.** The two answers are equally frequent. What accuracy does this network reach on pairs of unseen digits?
#
# <details><summary>A. Nearly 100 %: digits are easy.</summary>
#
# *Classifying* digits is easy. Here, however, the mean of the feature map must reveal whether two classes are equal.</details>
# <details><summary>B. About 50 %.</summary>
#
# Yes. The receptive field of each feature is 15 × 15 pixels, so it covers at most one digit. The mean of the map is therefore a
# sum of two contributions, one from each digit, and only a linear layer follows: the logit is a *sum* f(a) + f(b). Whatever
# favours "same" for (0, 0) and (1, 1) favours it equally for (0, 1) and (1, 0). At best, such a sum is right on four of the six
# kinds of pairs; but its mean is the same for equal and for different pairs, and so its lowest cross-entropy is that of a
# constant answer, ln 2.</details>
# <details><summary>C. About 75 %: one digit allows a good guess.</summary>
#
# One digit alone carries no information about the answer.</details>

# %%
experiments.show_canvases(canvases.test)

# %%
STEPS = at_scale(cpu=1_200, gpu=3_000)
networks = {"three convolutions": experiments.canvas_network}
models = experiments.fit_networks(networks, canvases, STEPS, SEED)
experiments.show_networks(models, canvases)

# %% [markdown]
# ## 2 The non-local operation
#
# We therefore let the positions exchange information *before* averaging. Let $x_i$ be the features at position $i$. Wang et al.
# write all forms of the operation as one equation:
#
# $$y_i = \frac{1}{\mathcal C(x)} \sum_j f(x_i, x_j)\, g(x_j) \qquad g(x_j) = W_g x_j$$
#
# The **embedded Gaussian** uses $f = e^{\theta_i^\top \phi_j}$ with $\theta = W_\theta x$, $\phi = W_\phi x$, and
# $\mathcal C = \sum_j f$ ($\mathcal C$ is the normalisation factor; the plain letter C is the number of features). This is the
# softmax attention of lecture 04 without the factor $1/\sqrt{d_k}$.
#
# | name | shape |
# | --- | --- |
# | x | (…, N, C): N positions with C features |
# | W_θ, W_φ | (d_k, C) |
# | W_g | (d, C) |
# | context, weights | (…, N, d), (…, N, N) |

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.attention import Attended, attend
from course_lib.attention.non_local import PixelFeatures
from course_tools.notebook import check, claim

# %% exercise="09.1" difficulty="●○○" minutes=8
from course_lib.attention import non_local_embedded_gaussian

# %% tags=["nbval-check-output"]
non_local_embedded_gaussian = check("09.1", non_local_embedded_gaussian)

# %% tags=["nbval-check-output"]
import torch.nn.functional as F

generator = torch.Generator().manual_seed(SEED)
x = torch.randn(2, 35, 13, generator=generator)
W_theta, W_phi, W_g = (
    torch.randn(n, 13, generator=generator) / 13**0.5 for n in (7, 7, 5)
)
q, k, v = (x @ W.mT for W in (W_theta, W_phi, W_g))
as_in_lecture_04 = F.scaled_dot_product_attention(q * math.sqrt(7), k, v)
gap = non_local_embedded_gaussian(x, W_theta, W_phi, W_g)[0] - as_in_lecture_04
claim("09.b", gap=gap.abs().max())

# %% [markdown]
# ## 3 The dot-product form without a softmax
#
# The **dot-product** form drops the exponential: $f = \theta_i^\top \phi_j$, and $\mathcal C = N$, the number of keys. Weights
# may be negative and need not sum to 1. In return, the product of the three matrices can be computed in either order:
#
# $$y = \frac{(\theta \phi^\top)\, g}{N} = \theta\, \frac{\phi^\top g}{N}$$
#
# For $N_q$ queries, the left form computes a matrix of size $N_q \times N$, the right form one of size $d_k \times d$. With a
# softmax, the order cannot be changed.
#
# | name | shape |
# | --- | --- |
# | θ | (…, N_q, d_k) |
# | φ, g | (…, N, d_k), (…, N, d) |
# | context | (…, N_q, d); the weights are never computed: None |

# %%
from course_lib.attention import ContextOnly, non_local_dot_product
from course_lib.shapes import Keys, Queries, Values

# %% exercise="09.2" difficulty="●●○" minutes=8
from course_lib.attention import associative_dot_product

# %% tags=["nbval-check-output"]
associative_dot_product = check("09.2", associative_dot_product)

# %% [markdown] tags=["predict"]
# **Predict.** We take a map of 44 × 44 positions and $d_k = d = 16$. By what factor does computing $\theta(\phi^\top g)$
# instead of $(\theta\phi^\top)g$ reduce the peak memory?
#
# <details><summary>A. By a factor of 1: it is the same product.</summary>
#
# The result is the same, but the intermediate results are not.</details>
# <details><summary>B. By a factor of about 2.</summary>
#
# The N × N matrix has 1,936 numbers for each position; each of the other tensors has 16.</details>
# <details><summary>C. By a factor of more than 20.</summary>
#
# Yes, and the factor grows with the number of positions.</details>

# %% tags=["nbval-check-output"]
from course_tools.notebook import peak_memory

theta, phi, g = torch.randn(3, 1, 44 * 44, 16, generator=generator)
apart = (
    associative_dot_product(theta, phi, g)[0]
    - non_local_dot_product(theta, phi, g).context
)
saved = peak_memory(lambda: non_local_dot_product(theta, phi, g)) / peak_memory(
    lambda: associative_dot_product(theta, phi, g)
)
claim("09.c", gap=apart.abs().max())
claim("09.d", saved=saved)

# %% [markdown]
# The **concatenation** form scores a pair by a vector $w_f$ applied to the concatenated features: $f = \mathrm{ReLU}(w_f^\top
# [\theta_i ; \phi_j])$, with $\mathcal C = N$. With $w_f$ split into two halves, the score before the ReLU is a term that
# depends only on $i$ plus a term that depends only on $j$, so the pairs need not be concatenated.
#
# | name | shape |
# | --- | --- |
# | θ | (…, N_q, d_k) |
# | φ, g | (…, N, d_k), (…, N, d) |
# | w_f | (2 d_k,), its first half is for θ |
# | context, weights | (…, N_q, d), (…, N_q, N), none below 0 |

# %% exercise="09.3" difficulty="●●○" minutes=10
from course_lib.attention import non_local_concatenation

# %% tags=["nbval-check-output"]
non_local_concatenation = check("09.3", non_local_concatenation)

# %% [markdown]
# The next figure compares **all four forms** on one photograph, for one query pixel. The features of a pixel are its three
# standardised colour values; the matrices are random, so nothing is learned here. The Gaussian form has no $W_\theta$ and
# $W_\phi$ and compares the colours directly. (Photograph: `flower.jpg` by vultilion, [CC BY
# 2.0](https://creativecommons.org/licenses/by/2.0/), scaled down.)

# %%
from course_tools.lectures.lecture_09.figures import four_forms, weights_on_a_photograph

forms = four_forms(non_local_embedded_gaussian, non_local_concatenation)
draw_forms = weights_on_a_photograph(forms)
draw_forms(row=15, column=22, sharpness=2.0)

# %% [markdown] tags=["interactive"]
# **Explore.** Here the query pixel starts on a leaf. Move it to the flower, and change the sharpness (the scale of the scores).
# Which maps change in shape, and which only in magnitude?
#
# <details><summary>Answer</summary>
#
# The maps of the two Gaussian forms change in shape: with larger scores, the softmax concentrates the weight on fewer pixels.
# The dot product and the ReLU are homogeneous: multiplying their inputs by a factor multiplies their outputs by a power of it.
# So the maps of the other two forms change only in magnitude.</details>

# %% tags=["interactive"]
from course_tools.notebook import explore

explore(draw_forms, row=(0, 29, 1), column=(0, 44, 1), sharpness=(0.5, 4.0, 0.5))

# %% [markdown]
# ## 4 The non-local block in space and time
#
# The block has a residual connection: $z_i = W_z y_i + x_i$. With $W_z = 0$ it is the identity, so it can be inserted into a
# trained network without changing its output (09.zero); the library achieves this with a normalisation layer whose gain is
# initialised to 0. Inside the block, $d$ is smaller than C, usually C/2: a **bottleneck**.
#
# Videos need no new mechanism: the positions are all pixels of all frames, $N = T \cdot H \cdot W$.
#
# | name | shape |
# | --- | --- |
# | x | (B, C, H, W), or (B, C, T, H, W), or (B, C, T) |
# | W_θ, W_φ, W_g, W_z | (d_k, C), (d_k, C), (d, C), (C, d) |
# | result | the shape of x |
#
# **Bug hunt.** This block was written for images and then extended to videos. It runs, and every shape is right. Which
# positions can a pixel of the first frame never attend to? Decide before you run the check.

# %%
from course_lib.attention.non_local import Map

# %% exercise="09.4" bug="keeps_the_times_apart"
from course_tools.bank.lecture_09.non_local_block import (
    keeps_the_times_apart as suspect,
)

# %% tags=["nbval-check-output"]
suspect = check("09.4", suspect)

# %% exercise="09.4" difficulty="●●○" minutes=12
from course_lib.attention import non_local_block

# %% tags=["nbval-check-output"]
non_local_block = check("09.4", non_local_block)

# %% tags=["nbval-check-output"]
features = torch.randn(2, 32, 11, 11, generator=generator)
inserted = [torch.randn(16, 32, generator=generator) for _ in range(3)]
distance = (
    (non_local_block(features, *inserted, torch.zeros(32, 16)) - features).abs().max()
)
claim("09.zero", distance=distance)

# %% [markdown]
# We test the block on a video: a digit moves behind a wall, and either the same digit or a different one comes out on the other
# side. No single frame shows which of the two happened. Does the output for the first frame depend on the last frame? We
# compute the gradient.

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_09.data import moving_digits
from course_tools.lectures.lecture_09.experiments import (
    frame_by_frame,
    gradient_of_each_frame,
)

video = moving_digits(2, 1, 1, n_times=4, height=16, seed=SEED).train[0][:1]
sizes = (3, 1), (3, 1), (2, 1), (1, 2)
matrices = [torch.randn(*size, generator=generator) for size in sizes]
reached = gradient_of_each_frame(non_local_block, video, *matrices)
separate = gradient_of_each_frame(frame_by_frame(non_local_block), video, *matrices)
claim("09.e", ratio=reached[-1] / reached[0])
claim("09.f", separate=separate[-1])

# %% [markdown]
# ## 5 One block, or more convolutions?
#
# We add *one* block to the network of section 1, in the dot-product form, with your `associative_dot_product`. Three baselines
# replace the block by **two more convolutions** of 3 × 3. All three have the same number of parameters, about twice that of the
# network with the block. One more stride of 2 changes two things: it enlarges the receptive field and shrinks the map.
# **Dilation**, which leaves a gap of one position between the inputs of a convolution, enlarges the field alone:
#
# | network | strides | receptive field | last feature map |
# | --- | --- | --- | --- |
# | three convolutions, block | 2 2 1 | the whole canvas | 11 × 11 |
# | five convolutions | 2 2 1 1 1 | 31 × 31 pixels | 11 × 11 |
# | five convolutions, one more with stride 2 | 2 2 2 1 1 | 47 × 47 pixels | 6 × 6 |
# | five convolutions, the last two dilated | 2 2 1 1 1 | 47 × 47 pixels | 11 × 11 |

# %% [markdown] tags=["predict"]
# **Predict.** The canvas has 44 × 44 pixels, and 16 pixels lie between the digits. Which networks rise clearly above
# chance on "same or different"?
#
# <details><summary>A. All: deeper is better.</summary>
#
# With strides 2 2 1 1 1 and no dilation, the receptive field of a position covers at most about half of both digits, or one of
# them and hardly any of the other.</details>
# <details><summary>B. Only the block: it multiplies features at two positions.</summary>
#
# The block does this in one layer and at any distance. But a stack of convolutions with nonlinearities can compare two digits
# too, if both lie in its receptive field.</details>
# <details><summary>C. The block, and the convolutions with one more stride or with dilation.</summary>
#
# Yes. A larger *receptive field* lifts the convolutions clearly above chance, by one more stride of 2, which also shrinks the
# map (09.stride), or by dilation, which enlarges the field alone (09.dilation); section 7 shows another way. Both claims rest
# on the study below, with twice as many updates and three seeds; this notebook trains one seed. In the study, the block leads
# the stride with every seed, and dilation, which is still improving, with two of three.</details>

# %%
FIVE = (16, 32, 32, 32, 32)
networks = {
    "one block": lambda: experiments.network_with_block(associative_dot_product),
    "five convolutions": lambda: experiments.canvas_network(
        widths=FIVE, strides=(2, 2, 1, 1, 1)
    ),
    "five, one more stride": lambda: experiments.canvas_network(
        widths=FIVE, strides=(2, 2, 2, 1, 1)
    ),
    "five, last two dilated": lambda: experiments.dilated(
        experiments.canvas_network(widths=FIVE, strides=(2, 2, 1, 1, 1))
    ),
}
models |= experiments.fit_networks(networks, canvases, STEPS, SEED)
experiments.show_networks(models, canvases)

# %% [markdown] tags=["try-it"]
# **Longer training and three seeds.** One seed is little evidence. The study `09_reach` trains these
# networks, a block with a softmax, and max pooling instead of average pooling, for twice as many steps and with three seeds.
# The figure shows the recorded results, and the claims below it compare the worst seed of one network with the best of the
# other.
# **Try it**: set `side=32` in the first code cell, so that the digits are closer together, and run the notebook up to here. Do
# all networks with five convolutions rise above chance then?

# %%
from course_tools.notebook import show_study
from course_tools.notebook.study_scores import print_scores

study = show_study("09_reach")
print_scores(study, "accuracy", costs=["parameters"], decimals=3)

# %% tags=["nbval-check-output"]
block, small_field, one_more_stride, last_two_dilated = (
    study.scores(name, "accuracy")
    for name in (
        "one block",
        "five convolutions, strides 2 2 1 1 1",
        "five convolutions, strides 2 2 2 1 1",
        "five convolutions, the last two dilated",
    )
)
claim("09.g", least=min(block))
claim("09.i", difference=min(block) - max(small_field))
claim("09.stride", difference=min(one_more_stride) - max(small_field))
claim("09.dilation", difference=min(last_two_dilated) - max(small_field))

# %% [markdown]
# ## 6 The strongest weights as arrows
#
# The paper's figure 3 shows, for one position, arrows to the positions with the largest weights. `topk` returns flat indices;
# to draw arrows we need the frame, row and column of each position. Positions are numbered frame by frame, row by row: index =
# (time · H + row) · W + column. (Your `associative_dot_product` never computes the weights. So we replace it in the trained
# block by the form with explicit weights, which computes the same function: 09.c.)
#
# | name | shape |
# | --- | --- |
# | weights | (…, N_q, N), N = T · H · W |
# | ends | (…, N_q, n, 3), integers: time, row, column |
# | their weights | (…, N_q, n), in descending order |

# %%
from course_lib.analysis import Arrows
from course_lib.shapes import Weights

# %% exercise="09.5" difficulty="●●○" minutes=8
from course_lib.analysis import strongest_arrows

# %% tags=["nbval-check-output"]
strongest_arrows = check("09.5", strongest_arrows)

# %%
arrows = experiments.arrows_in(models["one block"], canvases.test, strongest_arrows)
experiments.show_arrows(canvases.test, *arrows)

# %% [markdown] tags=["predict"]
# **Predict.** Arrows from one digit to the other look as if the block compared the two. Do the strongest arrows end on ink of
# the other digit more often than arrows to random positions would? And do those of a block *before* training?
#
# <details><summary>A. Only the trained block hits the other digit more often than chance.</summary>
#
# Untrained blocks hit it more often than chance, too (09.l). Training raises the ratio here (09.k, one trained block). But
# ink that attends to ink does not show that classes are compared.</details>
# <details><summary>B. Both do.</summary>
#
# Yes, on average. A likely cause: features are large where there is ink, and products of large features are large, whether or
# not the features are learned. The accuracy of the block, not its arrows, shows that it distinguishes *classes*.</details>
# <details><summary>C. Neither does: most of the canvas is empty.</summary>
#
# Some arrows do end on empty positions, mostly next to a digit, where the receptive field still contains ink. But they end on
# ink more often than arrows to random positions would.</details>

# %% tags=["nbval-check-output"]
from statistics import mean

untrained = [
    experiments.arrows_in(model, canvases.test, strongest_arrows)[0]
    for model in experiments.untrained_with_block(range(8))
]
claim("09.k", value=experiments.other_digit_over_chance(canvases.test, arrows[0]))
average = mean(
    experiments.other_digit_over_chance(canvases.test, ends) for ends in untrained
)
claim("09.l", average=average)

# %% [markdown] tags=["predict"]
# ## 7 Max pooling instead of attention
#
# **Predict.** We return to the network of section 1, without a block, and replace global *average* pooling by global *max*
# pooling. What happens?
#
# <details><summary>A. It stays at chance: no receptive field covers both digits.</summary>
#
# No receptive field does, but the pooling combines all of them.</details>
# <details><summary>B. It learns the task.</summary>
#
# Yes. The maximum is not linear: a feature that detects a stroke of a 2 has the same maximum for two 2s as for one. So the
# number of active features shows whether there are one or two classes, and a linear layer can count them.</details>
# <details><summary>C. It depends on the distance between the digits.</summary>
#
# Global pooling gives the same result at any distance.</details>

# %% tags=["nbval-check-output"]
pooled = study.scores("three convolutions, max pooling", "accuracy")
claim("09.m", least=min(pooled))
claim("09.m-block", difference=min(pooled) - max(block))

# %% [markdown]
# What does the block provide? **A global receptive field and products of features at two positions**, with few parameters. It
# keeps the resolution of the map, as dilation does; that may matter where each position needs an output of its own, as in
# segmentation (section 8). This task does not require attention: in the recorded study, no seed of the block is more than 0.02
# better than the worst seed of max pooling (09.m-block). With one more stride of 2, five convolutions reach 0.78 to 0.81
# instead of chance (09.stride), below every seed of the block. With dilation they reach 0.80, 0.84 and 0.85 (09.dilation),
# against 0.96, 0.82 and 0.91 for the block, and 0.92, 0.84 and 0.85 for a block with a softmax: three seeds do not decide which
# of these is best. Recognising a single class, such as the 1, already gives 5/6. When you add a block to a network, compare it
# with a network whose receptive field is as large, and with another pooling: the best network here has the smallest field.

# %% [markdown] tags=["predict"]
# **Videos.** The study `09_video` trains the space-time block on the videos of section 4: three kinds of digits, four frames of
# 16 × 42 pixels. The convolutions of section 1 process each frame separately. The last three layers are a layer with a ReLU at
# each position, average pooling over all frames, and a linear layer. Between the convolutions and these three layers we insert
# the block, in either form, or a rival: nothing; a block within each frame; the mean over all positions and frames,
# concatenated; two convolutions of 3 × 3 × 3; or a temporal convolution of the means of the frames. The last rival inserts
# nothing, and replaces average pooling by max pooling.
#
# **Predict.** After 1,200 updates with 16 videos each: which of them reach an accuracy of at least 0.96 with each of three
# seeds?
#
# <details><summary>A. Only the space-time block.</summary>
#
# With a softmax, it reaches 0.95, 0.93 and 0.75. The dot-product form reaches 0.78 with one seed and stays near chance with the
# other two.</details>
# <details><summary>B. Only max pooling and the temporal convolution.</summary>
#
# Yes. Max pooling can count classes, as on the canvases. The temporal convolution computes a nonlinear function of the means of
# the frames, which is all that this task requires.</details>
# <details><summary>C. All that combine frames.</summary>
#
# The mean over all frames reaches 0.78 to 0.83, the convolutions of 3 × 3 × 3 reach 0.50 to 0.88.</details>

# %%
videos = show_study("09_video")
print_scores(videos, "accuracy", costs=["parameters", "multiply-adds"])

# %% tags=["nbval-check-output"]
by_softmax = videos.scores("space-time block, softmax", "accuracy")
difference = min(by_softmax) - max(videos.scores("frames alone", "accuracy"))
claim("09.video", difference=difference)
difference = min(videos.scores("max pooling", "accuracy")) - max(by_softmax)
claim("09.video-max", difference=difference)
difference = min(videos.scores("temporal convolution", "accuracy")) - max(by_softmax)
claim("09.video-rival", difference=difference)

# %% [markdown]
# If the frames are processed separately, the accuracy stays near chance, even with a block within each frame: the logit is then
# a sum of one term for each frame, as in section 1. With each seed, the space-time block with a softmax is well above chance:
# 0.95, 0.93 and 0.75 (09.video). But the task does not require it: with every seed, max pooling, which adds no parameters, and
# the temporal convolution, which has more parameters than the block but needs fewer multiply-adds, are more accurate
# (09.video-max, 09.video-rival). This holds for 1,200 updates with a learning rate that decreases to 0. The mean curves of both
# space-time blocks, of the space-time mean and of the 3-D convolutions were still rising, so the study does not show which
# network leads after longer training.

# %% [markdown]
# ## 8 Co-occurrent features
#
# Context helps to classify each *pixel*: a blurred region next to a sail is probably water. **Co-occurrent features** model,
# for each position $i$, the probability that position $j$ co-occurs with it. The matrix of logits of a single softmax has rank
# at most $d_k$. A larger $d_k$ raises this limit; several **mixed** softmaxes do so with the same $d_k$: each is computed from
# a part of the features. Their mixture weights $\pi$ depend on the image, through the mean $\bar z$ over its positions. Here
# $z$ is an embedding, not the output of a block; the scores of each part are divided by the root of the *whole* $d_k$:
#
# $$p(x_j \mid x_i) = \sum_m \pi_m\, \mathrm{softmax}_j\!\left(\frac{z_i^{m\top} z_j^m}{\sqrt{d_k}}\right) \qquad
# \pi = \mathrm{softmax}_m(W_\pi \bar z) \qquad z = W_k x$$
#
# | name | shape |
# | --- | --- |
# | x, W_k, W_v | (…, N, C), (d_k, C), (d_v, C) |
# | W_π | (n_mix, d_k); part m has d_k / n_mix consecutive features |
# | context, weights | (…, N, d_v), (…, N, N) |
#
# ![](diagram:co_occurrent)

# %%
from course_lib.attention import split_heads

# %% exercise="09.6" difficulty="●●●" minutes=15
from course_lib.attention import co_occurrent_features

# %% tags=["nbval-check-output"]
co_occurrent_features = check("09.6", co_occurrent_features)

# %% [markdown] tags=["predict"]
# **Predict.** There are sixty positions, and $d_k = 4$. What is the rank of the matrix of log-weights for a single softmax, and
# for a mixture of two?
#
# <details><summary>A. 60 both times.</summary>
#
# For a single softmax the log-weights are the scores, a product of rank 4, minus a constant for each row: the rank is at most
# 5.</details>
# <details><summary>B. 5, and far more.</summary>
#
# Yes. The logarithm of a *sum* of exponentials is not linear in the scores, so the mixture is not limited to rank 5. The
# limitation of a single softmax is called the "softmax bottleneck".</details>
# <details><summary>C. 5 and 10.</summary>
#
# If the logarithms were added, the rank would be at most 5 again: two parts of two features each, and one constant for each
# row. But the mixture adds probabilities, not logarithms.</details>

# %% tags=["nbval-check-output"]
positions = torch.randn(60, 5, dtype=torch.float64, generator=generator)
W_k, W_v = torch.randn(2, 4, 5, dtype=torch.float64, generator=generator)
W_pi = torch.randn(2, 4, dtype=torch.float64, generator=generator)
one, two = (
    co_occurrent_features(positions, W_k, W_v, W_pi[:n])[1].double().log()
    for n in (1, 2)
)
claim("09.n", matrix_rank=torch.linalg.matrix_rank(one, rtol=1e-9))
claim("09.o", matrix_rank=torch.linalg.matrix_rank(two, rtol=1e-9))

# %% [markdown]
# **Segmentation.** Do these features help to classify pixels? The *intersection over union* (IoU) of a class is the number of
# pixels that both prediction and label assign to it, divided by the number that at least one of them does. The **mIoU** is its
# mean over the classes. The study `09_segmentation` trains `course_lib.models.Segmenter` for 1,600 updates with 16 canvases
# each, with three seeds. Of the three digits on a canvas, exactly two belong to the same class. There are two classes of
# pixels, and only ink counts: *is this pixel part of one of the two?* One digit alone does not show this. Co-occurrent features
# are concatenated to the features of each pixel, and a layer with a ReLU follows. Their rivals: no context; the mean of the
# image; the non-local operation; and strided convolutions, interpolated back to the size of the map, with twice the parameters.

# %%
pixels = show_study("09_segmentation")
print_scores(pixels, "mIoU", costs=["parameters", "multiply-adds"])


# %% tags=["nbval-check-output"]
from course_tools.notebook.seed_scores import (
    paired_differences,
    print_mean_difference,
    show_seeds,
)

both, mean_alone, no_context, strided = (
    pixels.scores(name, "mIoU")
    for name in ("co-occurrent and mean", "mean", "no context", "strided convolutions")
)
claim("09.mIoU", least=min(paired_differences(both, no_context)))
claim("09.mIoU-mean", average=mean(paired_differences(both, mean_alone)))
print_mean_difference(
    "mIoU, strided convolutions minus co-occurrent features and mean", strided, both
)

# %% [markdown] tags=["try-it"]
# Without context, the network stays near 0.33, the mIoU of predicting one class for all ink. Co-occurrent features help with
# each seed: together with the mean of the image they reach 0.63 to 0.65 (09.mIoU), alone 0.60 to 0.65. But the mean alone
# reaches 0.63 to 0.65 too: added to it, they gain almost nothing (09.mIoU-mean). At the end, where the learning rate falls to
# 0, these curves are nearly flat. The mean is probably enough here because a class that occurs twice raises the mean of its
# features. The strided convolutions, which have twice the parameters, vary most between seeds: 0.62, 0.49 and 0.77. Three seeds
# with such a spread do not establish a difference from co-occurrent features and mean: the printed interval is far wider than
# the mean difference. Their curve and that of the non-local operation were still rising after 1,600 updates. The paper
# evaluates on photographs, with many classes and a deep pre-trained backbone: this study does not test its result. **Try it**
# with a fourth seed: `course study 09_segmentation --seeds 3` takes about two minutes. Which network has the highest mIoU?

# %% [markdown]
# ## 9 Build it: a rival without attention
#
# **Build task (25 minutes, 12 points).** Section 5 compared the block with deeper networks that had twice as many parameters.
# To refute the claim *comparing two distant digits needs attention*, one trains the **fairest rival**: a baseline without
# attention, but with the same number of parameters, the same images and the same number of updates. Larger strides, dilation,
# another kind of pooling: which of them makes the strongest rival?
#
# The canvases are made as in section 1 and averaged to 22 × 22 pixels. Each has two labels: *same or different*, and *does a 0
# occur*. The second question is the **positive control**: it requires no comparison of two digits. If a rival fails even there,
# its failure on the first question shows nothing about attention.
#
# Write `train_reach_rival`: it builds the rival, trains it as the *model*, the network with the block, is trained, and returns
# it. The loss is the cross-entropy of the first two logits (different, same) plus that of the last two (no 0, a 0). Before you
# run the check, write down which accuracies you expect. No points depend on whether the rival wins or loses. The check trains
# the model as well and, if the comparison is fair, tells you what it shows.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the rival maps images (B, 1, 22, 22) to logits (B, 4) |
# | 1 | it has `n_parameters` parameters, within five percent |
# | 1 | it is trained as the model is: exactly `n_steps` updates, with batches of 32 drawn from all images |
# | 1 | each update uses only its own gradients, and every trained parameter has a gradient |
# | 1 | the returned rival gives the same logits for the same images |
# | 1 | the logits of an image do not depend on the other images of its batch |
# | 1 | the same information: the logits depend on each half of the canvas |
# | 3 | the ingredient is missing: for large inputs, the logits change in proportion to the input, without jumps |
# | 2 | it could have succeeded: on *does a 0 occur* it reaches 0.9 of the model's accuracy |
#
# The check tests whether the ingredient is missing without reading your code. Convolution, pooling and ReLU are *Lipschitz*:
# their outputs change by at most a constant times the change of their inputs. Attention is not: products of features grow with
# a power of the input, and a softmax over large scores jumps from one position to another. The check interpolates between two
# images, with their pixel values multiplied by 10 and by 1,000, and measures how fast the logits change. Gates and
# covariances count as products of features. Use ReLU or GELU: tanh and sigmoid saturate at such inputs, and the check cannot
# distinguish them from a softmax.

# %%
from course_tools.lectures.lecture_09 import rival

rival.print_examples(SEED)

# %% exercise="09.7" difficulty="●●●" minutes=25
from course_tools.bank.lecture_09.train_reach_rival import train_reach_rival

# %% tags=["nbval-check-output"]
train_reach_rival = check("09.7", train_reach_rival)

# %% [markdown]
# One run of each model is little evidence. The next cell repeats the comparison with two other seeds.

# %%
found = rival.compared(train_reach_rival, seeds=(SEED + 1, SEED + 2))
show_seeds(found, "accuracy on unseen canvases", "two seeds", {"chance": 0.5})

# %% [markdown]
# After so few updates, the difference between the two depends on the seed and on the processor: one smaller than the spread of
# the points shows nothing. Rely on the study of section 5: with 2,400 updates of 16 canvases each and at full resolution, max
# pooling reaches 0.96, 0.95 and 0.97, the block 0.96, 0.82 and 0.91 (09.m-block). The task requires *a nonlinear combination of
# features of both digits*; attention is one way among several to compute it. If your rival is worse than the block, first ask
# whether a stronger rival exists: a claim must hold against the strongest.

# %% [markdown] tags=["quiz"]
# ## 10 Exit quiz
#
# **Question 1.** You insert a non-local block with $W_z = 0$ into a trained network. What is the gradient with respect to
# $W_\theta$ in the first step?
#
# <details><summary>A. Zero, and it stays zero.</summary>
#
# It is zero at first. But $W_z$ itself has a nonzero gradient, and after the first update of $W_z$ the gradients of the other
# matrices are nonzero too.</details>
# <details><summary>B. Zero at first, nonzero later.</summary>
#
# Right: the gradient reaches $W_\theta$ through $W_z$.</details>
# <details><summary>C. Large: the block is new.</summary>
#
# The effect of $W_\theta$ on the loss goes through $W_z$, which is 0.</details>
#
# **Question 2.** The videos have twice the length, width and height. How much more memory do the softmax weights need?
#
# <details><summary>A. 8 times.</summary>
#
# There are 8 times as many positions, but the number of weights is quadratic in the number of positions.</details>
# <details><summary>B. 64 times.</summary>
#
# Right. Pooling the keys, as the paper does, reduces this; the form without a softmax does not compute them.</details>
# <details><summary>C. As much as before.</summary>
#
# The number of *parameters* is unchanged.</details>
#
# **Question 3.** A paper inserts five non-local blocks and gains one point. Which missing control matters most?
#
# <details><summary>A. Another seed.</summary>
#
# More seeds are always welcome, but they do not show where the gain comes from.</details>
# <details><summary>B. The same network with five more convolutional blocks and as large a receptive field.</summary>
#
# Right: otherwise depth, parameters or receptive field may explain the gain.</details>
# <details><summary>C. A map of the weights.</summary>
#
# Such a map exists whether or not the block helps.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague shows you arrows from one digit to the other and says: "It compares them."
# What do these arrows show, what do they not show, and which two experiments of this lecture would you add?*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says that a weight describes the mixing in one layer only, and may be negative in the dot-product form |
# | 1 | uses section 5: more convolutions with a small receptive field fail at this distance; with a large one they learn part of the task |
# | 1 | uses section 7: the task can be solved without any attention |
# | 1 | says that the arrows of an untrained block end on the other digit more often than chance, too |
# | 1 | is clear and short |
#
# </details>

# %% [markdown] tags=["companion"]
# ## 11 Summary and sources
#
# **Remarks on the deck.** *EE* writes $y = \mathrm{softmax}((W_\theta x)^\top (W_\phi x))\, W_g x$, the notation of the paper,
# in which the positions are the rows of $g(x)$. If the positions are the columns of x, the formula reads
# $W_g x\, \mathrm{softmax}(\dots)^\top$ (09.EE-meant). *EE*, figure 2: "the dot-product version can be done by replacing
# softmax with scaling by 1/N"; the N × N matrix in the figure is then not needed (09.d). Its convolutions of 1 × 1 × 1 are
# linear layers at each position (09.EE).
#
# **What this lecture does not show.** In sections 1 to 6, each network is trained with one seed, on three classes of digits,
# and 09.k rests on that seed; section 9 uses three seeds. 09.g, 09.i, 09.stride, 09.dilation, 09.m and 09.m-block rest on the
# study `09_reach`, with three seeds and twice as many steps. The videos and the pixels of the two studies are composed of
# digits, and no network is trained on them for more than 1,600 updates. We do not reproduce the paper's result that
# co-occurrent features improve the segmentation of photographs.
#
# **Papers.** Wang, Girshick, Gupta, He 2018, *Non-local Neural Networks*, eqs. 1 to 6, figures 2 and 3
# (https://arxiv.org/abs/1711.07971) · Zhang, Zhang, Wang, Xie 2019, *Co-occurrent Features in Semantic Segmentation*, section 3
# (CVPR 2019) · Yang, Dai, Salakhutdinov, Cohen 2018, *Breaking the Softmax Bottleneck* (https://arxiv.org/abs/1711.03953) ·
# Kim, Papamakarios, Mnih 2021, *The Lipschitz Constant of Self-Attention* (https://arxiv.org/abs/2006.04710).
#
# The site compares the numbers of these papers with ours ([docs/evidence.md](../docs/evidence.md)).
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | EE | Attention in computer vision: non-local blocks | 2 The non-local operation | `course_lib.attention.NonLocal`, `course_lib.attention.NonLocalBlock`, `course_lib.analysis.strongest_arrows` |
# | CS | Attention for Semantic Segmentation | 8 Co-occurrent features | `course_lib.attention.co_occurrent_features`, `course_lib.models.Segmenter` |

# %% tags=["nbval-check-output"]
video = torch.randn(1, 4, 3, 5, 7, generator=generator)
kernel = torch.randn(6, 4, generator=generator)
as_layer = (video.flatten(2).mT @ kernel.mT).mT.unflatten(2, (3, 5, 7))
distance = (F.conv3d(video, kernel[:, :, None, None, None]) - as_layer).abs().max()
claim("09.EE", distance=distance)
weights = ((W_theta @ x.mT).mT @ (W_phi @ x.mT)).softmax(-1)
as_meant = (W_g @ x.mT @ weights.mT).mT
distance = (
    (as_meant - non_local_embedded_gaussian(x, W_theta, W_phi, W_g)[0]).abs().max()
)
claim("09.EE-meant", distance=distance)

# %% tags=["ledger"]
from course_tools.notebook import ledger

ledger()
