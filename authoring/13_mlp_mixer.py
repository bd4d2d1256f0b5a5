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
# # 13 · MLP-Mixer
#
# MLP-Mixer classifies images with two small networks in each block, one that mixes the patches and one that mixes the channels,
# without attention and without any convolution that slides over neighbouring patches.
#
# ![](diagram:mixer)
#
# You will write both networks and the block, compare a Mixer with a ViT and a CNN, show that it learns equally well when the
# patches of all images are shuffled in the same way, rewrite it as a convolutional network, design a control for token mixing,
# and write a complete Mixer and its training loop.
#
# **Prerequisites:** lecture 04 (self-attention) and lecture 05 (blocks, pre-norm); lecture 11 (ViT) helps. **Time:**
# {minutes}. {measured}

# %%
import math

from course_lib.blocks import MixerSizes
from course_lib.models import Mixer
from course_tools.notebook import claim, digit_split, fitting, predict
from course_tools.lectures.lecture_13 import experiments

# %% [markdown]
# ## 1 A bag of patches
#
# Cut a digit of 28 × 28 pixels into patches of 4 × 4: 49 positions, like the words of a sentence. A network processes each
# patch *separately*, then takes the mean over the positions and predicts the digit.
#
# No information passes between positions: the image is a **bag of patches**.

# %% [markdown] tags=["predict"]
# **Predict.** This network is trained on four thousand digits, with as many updates as every model of sections 1 to 10. On
# average, how many of a hundred new digits does it classify correctly? Guessing gets ten right.
#
# <details><summary>A. About ten: patches of 4 × 4 all look alike.</summary>
#
# Not quite alike: the amount of ink, and how much of it is in vertical or in slanted strokes, carries some
# information.</details>
# <details><summary>B. Far more than ten, far fewer than half.</summary>
#
# Yes, after so few updates: its loss at the end is still near that of a guess. The patches contain more information: a linear
# classifier on counts of 128 typical patches (centres of k-means) is right for about half of the digits or more (13.a-counts).
# Much of the rest is in *where* the strokes are. (The model without positions in lecture 11 did better than this network. Its
# patches are larger and attend to each other, and it had learned more; but counts of patches of 4 × 4, without any attention,
# are about as accurate as that model.)</details>
# <details><summary>C. About ninety: digits are easy.</summary>
#
# They are easy for a network that sees the whole image. This one sees patches without their order.</details>

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_13.experiments import accuracy_by_counts

SEEDS, P, MIXER = (0, 1, 2), 4, MixerSizes(32, d_tokens=128, d_channels=64, n_layers=2)
digits = digit_split(SEEDS)


def bag_of_patches():
    """A Mixer in which token mixing contributes nothing."""
    return Mixer(10, (1, 28, 28), P, MIXER, lambda x, *weights: 0 * x)


bag = experiments.fit(bag_of_patches, digits, SEEDS[0])
print(f"accuracy of the bag of patches on unseen digits, one model: {bag.accuracy:.2f}")
to_learn, to_test = (
    (digits.images[rows[SEEDS[0]]], digits.labels[rows[SEEDS[0]]])
    for rows in (digits.learn, digits.unseen)
)
by_counts = accuracy_by_counts(to_learn, to_test, P)
claim("13.a-counts", by_counts=by_counts)
claim("13.a", difference=by_counts - bag.accuracy)
fitting.show_losses(
    {"Mixer, no token mixing": bag.model},
    across={"log 10, a uniform guess": math.log(10)},
)

# %% [markdown]
# In our run, the loss jumps once and is back at its previous level within some twenty updates. (Each point of the curve is the
# mean of eight updates, so its peak is lower.) On another processor, the same batches gave a jump some 16 updates later, and
# training with a second seed gave none: it depends on the initial weights and the batches, and is no property of the data.
#
# ## 2 Token mixing
#
# Attention passes information between positions by comparing queries with keys. Token mixing omits the comparison. Write the
# image as a matrix $X$ with a row for each of $N$ positions and a column for each of $d$ **channels**. A column contains $N$
# numbers: one channel at all positions. A small network maps them to another $N$ numbers:
#
# $$y_{:,c} = W_2\, \sigma(W_1 x_{:,c} + b_1) + b_2 \qquad \text{for each channel } c \text{, with the same weights}$$
#
# That is **token mixing**. $\sigma$ is GELU, $\sigma(x) = x\,\Phi(x)$ with the standard normal distribution function $\Phi$: a
# smooth version of ReLU. Unlike attention weights, the weights between positions do not depend on the content: after training,
# they are the same for every image.
#
# | name | shape |
# | --- | --- |
# | x, result | (B, N, d) |
# | W_1, b_1 | (d_s, N), (d_s,) |
# | W_2, b_2 | (N, d_s), (N,) |

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.fast import lean_token_mixing
from course_lib.blocks.mlp_mixer import PatchFeatures
from course_tools.notebook import check

# %% exercise="13.1" difficulty="●●○" minutes=8
from course_lib.blocks import token_mixing

# %% tags=["nbval-check-output"]
token_mixing = check("13.1", token_mixing)

# %% [markdown]
# The library has a form that multiplies from the left, so that nothing is transposed. The next cell compares it with the
# function of exercise 13.1. Then it tests on which inputs one number of the output depends.

# %% tags=["nbval-check-output"]
generator = torch.Generator().manual_seed(SEEDS[0])
weights = [
    torch.randn(*shape, generator=generator) / 7
    for shape in ((128, 49), (128,), (49, 128), (49,))
]
x = torch.randn(1, 49, 32, generator=generator, requires_grad=True)
mixed = token_mixing(x, *weights).float()
(gradient,) = torch.autograd.grad(mixed[0, 20, 3], x)
claim("13.b", gap=(mixed - lean_token_mixing(x, *weights)).abs().max())
claim("13.c", count=int((gradient[0] != 0).any(1).sum()))
claim("13.d", count=int((gradient[0] != 0).any(0).sum()))

# %% [markdown]
# ## 3 Channel mixing
#
# A row of $X$ contains $d$ numbers, the features of one position. A second network is applied to each row, with the same
# weights at every position:
#
# $$y_n = W_4\, \sigma(W_3 x_n + b_3) + b_4 \qquad \text{for each position } n$$
#
# This is the feed-forward network of every Transformer, with GELU. In a Mixer it is called **channel mixing**. Channel mixing
# of the transposed matrix is token mixing, and vice versa.
#
# | name | shape |
# | --- | --- |
# | x, result | (B, N, d) |
# | W_3, b_3 | (d_c, d), (d_c,) |
# | W_4, b_4 | (d, d_c), (d,) |

# %% exercise="13.2" difficulty="●○○" minutes=5
from course_lib.blocks import channel_mixing

# %% tags=["nbval-check-output"]
channel_mixing = check("13.2", channel_mixing)

# %% tags=["nbval-check-output"]
claim("13.e", gap=(channel_mixing(x.mT, *weights).mT - mixed).abs().max())

# %% [markdown]
# ## 4 The Mixer block
#
# A block of lecture 05 mixes tokens, then channels, each after a norm and with a residual connection. Replace attention by
# token mixing:
#
# $$U = X + \mathrm{Tokens}(\mathrm{LN}(X)) \qquad Y = U + \mathrm{Channels}(\mathrm{LN}(U))$$
#
# Both norms are over the *features of each position*, as in lecture 05. The whole model consists of one linear layer for the
# patches, $L$ blocks, a norm, the mean over the positions, and a linear head. It has no class token and **no position
# embeddings**: column $n$ of $W_1$ belongs to position $n$.
#
# | name | shape |
# | --- | --- |
# | x, result | (B, N, d) |
# | tokens, channels | four tensors each, as above |
# | norms | two pairs (gain, bias), (d,) each |
#
# **Bug hunt.** The author of the block below explains: "The first network reads columns, so its norm is over columns." It runs
# and it trains. Decide what is lost *before* you run the check.

# %%
from course_lib.blocks import FeedForwardWeights, NormWeights
from course_lib.primitives import layer_norm

# %% exercise="13.3" bug="normalises_over_the_places"
from course_tools.bank.lecture_13.mixer_block import (
    normalises_over_the_places as suspect,
)

# %% [markdown] tags=["predict"]
# **What is lost?**
#
# <details><summary>A. Nothing: one norm is as good as another.</summary>
#
# Each norm removes a mean and a scale. The question is: of *what*?</details>
# <details><summary>B. How active a channel is in the whole image.</summary>
#
# Yes, for token mixing (the residual connection keeps it). Every channel gets mean 0 and the same variance over the positions,
# whether it is active at many of them or at few, and a nearly empty image is scaled up to the variance of a full one. A norm
# over the features equalises positions, but not channels.</details>
# <details><summary>C. The order of the positions.</summary>
#
# The positions keep their order; the norm makes the *channels* similar.</details>

# %% tags=["nbval-check-output"]
suspect = check("13.3", suspect)

# %% exercise="13.3" difficulty="●●○" minutes=8
from course_lib.blocks import mixer_block

# %% tags=["nbval-check-output"]
mixer_block = check("13.3", mixer_block)


# %% [markdown]
# From here to section 10, every Mixer uses the functions that you checked: `computed_by` takes the library's `Mixer`, which
# owns the weights, and computes its blocks by `mixer_block`. (Where a function did not pass, the library's takes its place.)
# The cells below compare such a Mixer with the library's own.

# %%
from copy import deepcopy

from course_tools.notebook import device
from course_tools.lectures.lecture_13.experiments import (
    by_convolutions,
    computed_by,
    with_permuted_inputs,
)


def mixer(sizes=MIXER, block=mixer_block):
    """A Mixer for our digits; `block` computes each of its blocks."""
    return computed_by(block, Mixer(10, (1, 28, 28), P, sizes))


# %% tags=["nbval-check-output"]
torch.manual_seed(SEEDS[0])
images, labels, learn, unseen = digits
model = Mixer(10, (1, 28, 28), P, MIXER).to(device())
nn.init.normal_(model.head.weight)
by_blocks = computed_by(mixer_block, deepcopy(model))
apart = (by_blocks(images[:50]) - model(images[:50])).abs().max().item()
in_a_block = sum(parameter.numel() for parameter in model.stack.blocks[0].parameters())
claim("13.f", apart=apart)
claim("13.g", ratio=(49 * 32) ** 2 / in_a_block)

# %% [markdown]
# So a Mixer block is not "fully connected". After one block, every number can depend on every other, but the connections run
# only along the rows and the columns of the matrix, and all columns share one set of weights, as do all rows.
#
# ## 5 Mixer, ViT and CNN
#
# Now we train a Mixer, a ViT and a small CNN on the same batches and at the same learning rate. The sizes are chosen so that
# the same number of steps takes all three a similar time on one processor core (printed below). The patch sizes differ: the
# Mixer has patches of 4 × 4, the ViT of 7 × 7. We train two versions of the ViT: one whose position embeddings start four times
# as large as the library's, as in lecture 11, and one with the library's own initialisation (two seeds instead of three).

# %% [markdown] tags=["predict"]
# **Predict.** The deck quotes the paper: convolutions and attention are "both sufficient for good performance, neither of them
# are necessary". With four thousand digits and a few hundred steps, which model is best, and which is worst?
#
# <details><summary>A. ViT first: it can attend to any position, differently for each image.</summary>
#
# It can, but it must first learn where to attend. Four thousand digits are few for that; see lecture 11.</details>
# <details><summary>B. CNN first; whether the Mixer leads the ViT depends on how the ViT's position embeddings start.</summary>
#
# Yes, at this scale. Locality and translation equivariance are built into a CNN and need not be learned; in our run, destroying
# the neighbourhoods takes away more than half of its lead (13.k, 13.o). There, a single hyperparameter of the ViT
# (13.j-scale) also decides whether it is clearly behind the Mixer or about equal to it.</details>
# <details><summary>C. CNN first, then the Mixer, then the ViT, clearly.</summary>
#
# So it appears with the default position embeddings of the ViT. Tune the weaker model before drawing conclusions.</details>


# %%
from functools import partial
from statistics import mean

from course_tools.lectures.lecture_13.experiments import (
    fit_seeds,
    initialised,
    show_classifiers,
)
from course_tools.notebook.digit_vit import small_cnn, small_vit

makers = {"Mixer": mixer, "CNN": small_cnn, "ViT": small_vit}
runs = {name: fit_seeds(make, digits, SEEDS, name) for name, make in makers.items()}
default = fit_seeds(partial(small_vit, scale=1.0), digits, SEEDS[:2])
of_both = {"ViT, default positions": default}
show_classifiers(runs | of_both, {"Mixer, no token mixing": [bag]})
each = (f"{name} {trained[0].seconds:.1f}" for name, trained in runs.items())
print("processor seconds:", ", ".join(each))

# %% tags=["nbval-check-output"]
accuracies = {name: [one.accuracy for one in trained] for name, trained in runs.items()}
average = {name: mean(values) for name, values in accuracies.items()}
claim("13.h", least=min(accuracies["Mixer"]))
bag_or_counts = max(bag.accuracy, by_counts)
claim("13.i", difference=min(accuracies["Mixer"]) - bag_or_counts)
print(
    f"Mixer minus ViT: accuracy {average['Mixer'] - average['ViT']:+.3f}, mean of "
    "three seeds"
)
difference = mean(accuracies["ViT"][:2]) - mean(one.accuracy for one in default)
claim("13.j-scale", difference=difference)
claim("13.k", difference=average["CNN"] - average["Mixer"])

# %% [markdown]
# ## 6 Shuffled patches
#
# Nothing in a Mixer specifies that position 8 is below position 1. To test this, we cut every image into its patches and
# arrange them in a new order, the *same* for all images. We also rearrange the pixels within each patch, in a second fixed
# order.
#
# For weights $W_1, b_1, W_2, b_2$ and an order $\pi$ (position $i$ of the shuffled image is position $\pi_i$ of the image)
# there are weights that compute from the shuffled image what the original weights compute from the image, with the
# positions in the new order:
#
# $$\mathrm{Tokens}'(X_\pi) = (\mathrm{Tokens}(X))_\pi \qquad \text{for every } X$$
#
# Which weights are these? Try three positions on paper: it is easy to confuse the order with its inverse.
#
# | name | shape |
# | --- | --- |
# | order | (N,), a permutation |
# | W_1, b_1, W_2, b_2, and the result | as for `token_mixing` |

# %%
from jaxtyping import Int

# %% exercise="13.4" difficulty="●●○" minutes=8
from course_lib.blocks import reordered_token_mixing

# %% tags=["nbval-check-output"]
reordered_token_mixing = check("13.4", reordered_token_mixing)

# %% [markdown] tags=["predict"]
# **Predict.** All images are shuffled in the same way. We train a new CNN on them from scratch. What happens to its accuracy,
# and what would happen to that of a Mixer?
#
# <details><summary>A. Both fall: such images are unreadable.</summary>
#
# *You* could not read them: you rely on the arrangement of neighbouring patches. A Mixer does not.</details>
# <details><summary>B. The CNN's falls; a Mixer's stays the same, apart from the effect of its random initial weights.</summary>
#
# Yes: if the Mixer's initial weights are shuffled in the same way, every training step is the same as well. The next cells
# train the CNN, and test the first 40 steps of the Mixer.</details>
# <details><summary>C. Both stay the same: the maximum of a feature map does not depend on its position.</summary>
#
# That is true of the last layer. The kernels before it look at neighbours, and the neighbours have changed.</details>

# %%
from course_tools.notebook.shuffled_patches import random_orders, show_predictions
from course_tools.notebook.shuffled_patches import show_shuffled, shuffled

order, inner = random_orders(49, P * P, SEEDS[0])
moved = shuffled(images, P, order, inner)
three = torch.tensor([0, 1_200, 3_400])
show_shuffled(images[three], moved[three], labels[three])

# %%
from course_tools.notebook.fitting import accuracy_of
from course_tools.lectures.lecture_13.experiments import first_losses

rewire = partial(
    with_permuted_inputs, reorder=reordered_token_mixing, order=order, inner=inner
)
known, same_seed = learn[SEEDS[0]], unseen[SEEDS[0]]
first, in_order = initialised(mixer, SEEDS[0]).double(), runs["Mixer"][0].model
losses = [
    first_losses(model, inputs[known], labels[known], SEEDS[0])
    for model, inputs in ((rewire(first), moved), (first, images))
]
with torch.no_grad():
    before, after = in_order(images[same_seed]), rewire(in_order)(moved[same_seed])
on_shuffled = fit_seeds(small_cnn, digits._replace(images=moved), SEEDS)
show_classifiers({"CNN, in order": runs["CNN"], "CNN, shuffled": on_shuffled})

# %% tags=["nbval-check-output"]
apart = max(abs(a - b) for a, b in zip(*losses, strict=True))
claim("13.l", gap=(before - after).abs().max())
difference = runs["Mixer"][0].accuracy - accuracy_of(
    in_order, moved[same_seed], labels[same_seed]
)
claim("13.m", difference=difference)
claim("13.n", apart=apart)
claim("13.o", difference=average["CNN"] - mean(one.accuracy for one in on_shuffled))

# %% [markdown]
# The CNN loses only 0.03 (mean of three seeds, 13.o). A possible reason is that the pixels of a patch remain together, though
# in a different order. For the Mixer, shuffling only renumbers the inputs: if its initial weights are permuted in the same way,
# every training step is the same (13.n).

# %% [markdown] tags=["try-it"]
# **Try it.** Choose a digit, 0 to 999, and an order by its seed. Can you read the digit? The weights of the Mixer are permuted
# for the order of seed 0 only.

# %% tags=["try-it"]
number, seed = 7, SEEDS[0]
digit = images[same_seed[number]][None]
shown = shuffled(digit, P, *random_orders(49, P * P, seed))
show_predictions(
    {"in order": digit, "shuffled": shown},
    {"the Mixer": in_order, "the rewired Mixer": rewire(in_order)},
    f"Unseen digit {number}, a {labels[same_seed[number]].item()}",
)

# %% [markdown]
# ## 7 The Mixer as a CNN
#
# Arrange the positions of one channel as an image, $H \times W$. A row of $W_1$ computes a weighted sum of all its pixels: a
# **convolution whose kernel is as large as the image**, with a single output position. The convolution is *depth-wise*, since
# it uses one channel at a time, and its kernels are *shared*, since every channel has the same ones. Then $W_2$ maps the $d_s$
# numbers of a channel back to $N$: a 1 × 1 convolution in $d$ groups, one for each channel, again with shared kernels. Channel
# mixing is an ordinary 1 × 1 convolution.
#
# `F.conv2d(…, groups=d)` gives the first kernels to the first channel, the next to the second, and so on.
#
# | name | shape |
# | --- | --- |
# | first, first_bias | (d · d_s, 1, H, W), (d · d_s,) |
# | second, second_bias | (d · N, d_s, 1, 1), (d · N,) |

# %%
from einops import repeat

from course_lib.blocks import TokenMixingKernels

# %% exercise="13.5" difficulty="●●●" minutes=12
from course_lib.blocks import token_mixing_kernels

# %% tags=["nbval-check-output"]
token_mixing_kernels = check("13.5", token_mixing_kernels)


# %% [markdown]
# `by_convolutions` computes a whole Mixer with these kernels: each block by four calls of `F.conv2d`.

# %% tags=["nbval-check-output"]
from course_tools.notebook.layer_costs import multiply_adds

some = images[same_seed[:100]]
as_cnn = partial(by_convolutions, in_order, kernels=token_mixing_kernels)
with torch.no_grad():
    apart = (as_cnn(some) - in_order(some)).abs().max().item()
    work = [multiply_adds(form, some) for form in (as_cnn, in_order)]
claim("13.p", apart=apart)
claim("13.q", ratio=work[0] / work[1])

# %% [markdown]
# Is the Mixer free of convolutions, then? According to its authors, it can be seen, "in the extreme case", as "a very special
# CNN". The table shows what is special about it:
#
# | Property | a usual convolution | token mixing |
# | --- | --- | --- |
# | receptive field of one layer | neighbours | the whole image |
# | slides over the positions | yes | no: it has a single output position |
# | kernels of two channels | differ | are the same |
# | adds up over channels | yes | no: channel mixing does |
# | image of another size | yes | no: $W_1$ has $N$ columns |

# %% [markdown] tags=["predict"]
# ## 8 What token mixing learns
#
# A hidden unit of token mixing has 49 input weights, a row of $W_1$, and 49 output weights, a column of $W_2$: one for each
# position, so both can be drawn as images. At the start they are random. Subtracting these initial values shows what training
# has added.
#
# **Predict.** The initial weights of token mixing do not reflect which positions are neighbours, or that the head averages over
# the positions. What has training added to them?
#
# <details><summary>A. Noise everywhere: a Mixer does not depend on the order of the positions.</summary>
#
# It does not depend on the *order*. But neighbouring patches of real digits are similar, and weights of similar inputs receive
# similar gradients.</details>
# <details><summary>B. In the first block, slightly correlated input weights for neighbours; in the last block, similar output weights for all positions.</summary>
#
# Yes. The first effect is weak after so little training: compare adjacent positions with positions two apart. The second is
# clear: after the last block only the mean over the positions is used, so the output weights of all positions get similar
# gradients.</details>
# <details><summary>C. Smooth blobs and edges, as in the kernels of a CNN.</summary>
#
# The paper shows such maps after training on three hundred million photographs. After training on so few digits they are noisy.
# Patches at the border are nearly always empty; in a trial, the first block's input weights for them changed about half as much
# as its other input weights, its output weights as much as the others.</details>


# %%
from course_tools.lectures.lecture_13.figures import show_added, show_hidden_unit

initial = [initialised(mixer, seed) for seed in SEEDS]
added = show_added([one.model for one in runs["Mixer"]], initial)

# %% tags=["nbval-check-output"]
claim("13.r", difference=added.near - added.far)
claim("13.s", last=added.last)
claim("13.s-first", difference=added.last - added.first)

# %% [markdown] tags=["interactive"]
# **Explore.** The figure shows the input and output weights of one hidden unit of either block. Find a unit whose input weights
# have opposite signs on two sides of the image. Are its output weights large at the same positions?

# %% tags=["interactive"]
from course_tools.notebook import explore


def draw_unit(rank=1, block=1):
    """Show the weights of a hidden unit; rank 1 has the largest input weights."""
    show_hidden_unit(in_order, block, rank)


explore(draw_unit, rank=(1, 128), block=(1, 2))

# %% [markdown]
# ## 9 Parameters and multiply-adds
#
# How many parameters does a Mixer have? The size of the token network does not depend on the number of channels, nor that of
# the channel network on the number of positions. Count the layer that embeds a patch of $d_p$ numbers; in each of $L$ blocks,
# two networks of two layers with biases, and two norms (gain and bias); one more norm; a classification head, if there is one.
#
# The paper's table 1 gives sizes and counts from Mixer-S/32, with 19 million parameters, to H/14, with 431 million.
#
# | name | stands for |
# | --- | --- |
# | d_model, d_tokens, d_channels | $d$, $d_s$, $d_c$ |
# | n_layers, n_patches, d_patch, n_classes | $L$, $N$, $d_p$, classes of the head (0 = no head) |

# %%
from course_lib.metrics import MIXER_BASE, MIXER_HUGE, MIXER_LARGE, MIXER_SMALL

# %% exercise="13.6" difficulty="●○○" minutes=8
from course_lib.metrics import mixer_parameters

# %% tags=["nbval-check-output"]
mixer_parameters = check("13.6", mixer_parameters)

# %% tags=["nbval-check-output"]
published = (
    (MIXER_SMALL, 32),
    (MIXER_SMALL, 16),
    (MIXER_BASE, 32),
    (MIXER_BASE, 16),
    (MIXER_LARGE, 32),
    (MIXER_LARGE, 16),
    (MIXER_HUGE, 14),
)
millions = [
    round(mixer_parameters(*sizes, (224 // side) ** 2, 3 * side**2, 0) / 1e6)
    for sizes, side in published
]
claim("13.t", millions=tuple(millions))

# %% [markdown] tags=["predict"]
# **Predict.** Now count multiply-adds. An image is cut into four times as many patches, while the widths of all networks stay
# the same. What happens to the multiply-adds of attention (without its projections) and of token mixing?
#
# <details><summary>A. Both increase fourfold.</summary>
#
# Attention compares every position with every other, and there are sixteen times as many pairs.</details>
# <details><summary>B. Attention increases sixteenfold, token mixing fourfold.</summary>
#
# Yes: token mixing takes $2 N d_s$ for each channel. Its disadvantages are that the width $d_s$ is fixed, and that the weights
# fit only one image size.</details>
# <details><summary>C. Both increase sixteenfold: both connect every position with every other.</summary>
#
# A Mixer connects them through $d_s$ hidden units, and $d_s$ need not grow with the number of positions.</details>


# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_13.costs import growth_of_work

growth = growth_of_work([49, 196, 784])
claim("13.u", growth=growth["attention"])
claim("13.v", growth=growth["token mixing"])

# %% [markdown]
# The next figures show accuracy against parameters and against multiply-adds for one image. Each model has three widths and is
# trained for the same number of steps; the two smaller widths are shown for one seed, the largest for the mean of three. Read
# both: a CNN applies each weight at many positions, so it has few parameters for its multiply-adds (13.w, 13.x).

# %%
from course_lib.blocks import Sizes
from course_tools.lectures.lecture_13.costs import cost, show_accuracy_against_cost

narrow = {
    "Mixer": (
        partial(mixer, MixerSizes(8, 32, 16, 2)),
        partial(mixer, MixerSizes(16, 64, 32, 2)),
    ),
    "CNN": [partial(small_cnn, widths=widths) for widths in ((4, 8, 16), (8, 16, 32))],
    "ViT": [
        partial(small_vit, sizes=Sizes(16, 4, 32, 2)),
        partial(small_vit, sizes=Sizes(32, 4, 64, 2)),
    ],
}
smaller = {
    name: [experiments.fit(make, digits, SEEDS[0], label=name) for make in makes]
    for name, makes in narrow.items()
}
fitting.show_losses(
    {
        f"{name}, {width} of the width": one.model
        for name, pair in smaller.items()
        for width, one in zip(("a quarter", "half"), pair, strict=True)
    }
)
costs = {
    name: [cost(one.model, images[:1]) for one in [*pair, runs[name][0]]]
    for name, pair in smaller.items()
}
heights = {
    name: [*(one.accuracy for one in pair), average[name]]
    for name, pair in smaller.items()
}
title = "smaller sizes: one seed; the largest: mean of three"
show_accuracy_against_cost(costs, heights, title)

# %% tags=["nbval-check-output"]
ratio = costs["CNN"][2].multiply_adds / costs["Mixer"][2].multiply_adds
per_weight = {
    name: costs[name][2].multiply_adds / costs[name][2].parameters for name in costs
}
claim("13.w", ratio=ratio)
claim("13.x", ratio=per_weight["CNN"] / per_weight["ViT"])

# %% [markdown] tags=["predict"]
# ## 10 Ablations
#
# **Predict.** Without token mixing, the Mixer is a bag of patches. What happens if the *channels* are not mixed? And what if
# the GELU between $W_1$ and $W_2$ is removed, so that token mixing is a single linear map?
#
# <details><summary>A. Without channel mixing it is as bad as without token mixing: the two are mirror images.</summary>
#
# As functions they are. But their roles are not symmetric: digits differ mostly in *where* the ink is, and the first layer and
# the head also mix channels.</details>
# <details><summary>B. Each costs less accuracy than the step to a bag of patches.</summary>
#
# Yes: less than half of the Mixer's lead over the better of the bag and counts of its patches (13.z-cost). That step also loses
# the *positions*; section 11 separates the two. In our run, removing the GELU costs about as much as taking a Mixer instead of
# the CNN (13.k), and the training loss ends higher: part of it may be slow learning. How much either contributes on
# photographs, in deeper models, cannot be learned from five thousand digits.</details>
# <details><summary>C. Without the GELU it fails: a linear network is a linear classifier.</summary>
#
# Channel mixing is still nonlinear, and so is layer norm.</details>


# %%
def no_channel_mixing(x, tokens, channels, norms):
    """A Mixer block without its second line."""
    return x + token_mixing(layer_norm(x, *norms[0]), *tokens)


def linear_token_mixing(x, tokens, channels, norms):
    """A Mixer block without the GELU of token mixing."""
    W_1, b_1, W_2, b_2 = tokens
    hidden = W_1 @ layer_norm(x, *norms[0]) + b_1[:, None]
    x = x + W_2 @ hidden + b_2[:, None]
    return x + channel_mixing(layer_norm(x, *norms[1]), *channels)


reduced = {
    "no channel mixing": no_channel_mixing,
    "linear token mixing": linear_token_mixing,
}
ablated = {
    name: fit_seeds(partial(mixer, block=block), digits, SEEDS, name)
    for name, block in reduced.items()
}
show_classifiers({"Mixer": runs["Mixer"]} | ablated, {"no token mixing": [bag]})

# %% tags=["nbval-check-output"]
without = {name: mean(one.accuracy for one in group) for name, group in ablated.items()}
claim("13.y", difference=without["no channel mixing"] - bag_or_counts)
claim("13.z", difference=without["linear token mixing"] - bag_or_counts)
lost = average["Mixer"] - min(without.values())
claim("13.z-cost", ratio=lost / (average["Mixer"] - bag_or_counts))

# %% [markdown]
# ## 11 Build it: a control
#
# **Build task (25 minutes, 12 points).** Without token mixing, the network of section 1 reached about 0.2 in our run, and counts
# of its patches more than twice as much (13.a-counts). Does it follow that *digits need token mixing*? The bag of patches
# lacks *two* things: its patches exchange no information, **and** the network does not know where a patch is, since its weights
# are the same at all positions. A **control** differs from the model in one ingredient only, and would succeed if that
# ingredient were unnecessary. Design one: a rival without token mixing that knows the positions.
#
# Each image has two labels: its digit, and whether a fine grain was added to it (as to half of the images). The grain is
# visible in every single patch, so it is the **positive control**: if a rival does not even detect the grain, its failure on
# digits shows nothing about token mixing. The model is a Mixer of one block; the cell below the table counts its parameters.
#
# Write `train_mixing_rival`: it builds the rival, trains it as the Mixer is trained, and returns it. The loss is the
# cross-entropy of the first ten logits (the digit) plus that of the last two (the grain). Before you run the check, write down
# which accuracies you expect. No points depend on whether the rival wins or loses. The check trains the Mixer as well and, if
# the comparison is fair, tells you what it shows.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the rival maps patches (B, 49, 16) to logits (B, 12) |
# | 1 | it has `n_parameters` parameters, within five percent |
# | 1 | it is trained as the Mixer is: exactly `n_steps` updates, with batches of 64 drawn from all images |
# | 1 | each update uses only its own gradients, and every trained parameter has a gradient |
# | 1 | the returned rival gives the same logits for the same images |
# | 1 | the logits of an image do not depend on the other images of its batch |
# | 1 | the same information: the logits depend on the upper and the lower half of the patches, and on their order |
# | 3 | the ingredient is missing: what a patch adds to the logits does not depend on the other patches |
# | 2 | it could have succeeded: on grain it reaches 0.9 of the Mixer's accuracy |
#
# The check tests whether the ingredient is missing without reading your code: replacing two sets of patches must change the
# logits by the sum of the changes from replacing each set alone. The Mixer fails this test.

# %%
from course_tools.lectures.lecture_13.rival import (
    OneBlockMixer,
    examples,
    show_mixing_rival,
)

(patches, answers), _ = examples(SEEDS[0])
n_parameters = sum(p.numel() for p in OneBlockMixer().parameters())
print(
    f"patches {tuple(patches.shape)}; "
    f"digit and grain of three: {answers[:3].tolist()}; "
    f"a Mixer of {n_parameters:,} parameters,\n"
    "trained by 300 updates with batches of 64, Adam at 0.008"
)

# %% exercise="13.7" difficulty="●●●" minutes=25
from course_tools.bank.lecture_13.train_mixing_rival import train_mixing_rival

# %% tags=["nbval-check-output"]
train_mixing_rival = check("13.7", train_mixing_rival)

# %% [markdown]
# One run of each model is little evidence. The next cell repeats the comparison with three seeds, and draws the losses of both.

# %%
show_mixing_rival(
    train_mixing_rival, SEEDS, {"digits: the bag of section 1": [bag.accuracy]}
)

# %% [markdown]
# If the rival is as accurate as the Mixer, or more so, the bag failed mainly because it does not know *where a patch is*, or
# because it was trained too little (13.a), not because its patches exchange no information. If the rival is much worse, first
# ask whether a stronger one without token mixing exists: a claim must hold against the strongest rival. These are centred
# digits; on photographs, where an object can be anywhere, the result may differ.
#
# ## 12 Build it: an MLP-Mixer
#
# **Build task (30 minutes, 12 points).** Write a complete MLP-Mixer and the loop that trains it, starting from an empty cell.
# Define the classes and functions that you need above `train_mixer`, in the same cell. You may use torch's layers and your own
# functions from above, but not the library's `Mixer`.
#
# The check calls `train_mixer(images, labels, n_classes, n_steps)` once, with 1,297 of scikit-learn's handwritten digits (8 × 8
# pixels, sorted by their labels) and `n_steps=500`. It evaluates the returned model on the other 500 digits. The function has
# at most 60 seconds of processor time; a good solution needs about five seconds.
#
# | name | value |
# | --- | --- |
# | patches | 2 × 2 pixels: $N = 16$ positions |
# | $d$, $d_s$, $d_c$, $L$ | 32 channels, hidden widths 32 and 64, two blocks |
#
# To see whether the weights are shared, the check also calls the two networks of your first block. With a second argument,
# `model(x, tokens)` takes features (B, 16, 32) instead of images. If `tokens` is true, it returns the output of the
# token-mixing network for them, otherwise that of the channel-mixing network, in both cases without norm and residual
# connection. (`tokens` is a tensor: write `if tokens:`, not `if tokens is True:`.)
#
# | points | what is judged |
# | --- | --- |
# | 1 | the model maps images (B, 1, 8, 8) to logits (B, n_classes), and features to features as described |
# | 1 | at most `n_steps` updates and at most 12,500 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the loss falls during training (or the model has learned without it) |
# | 1 | the returned model gives the same logits for the same image |
# | 1 | the logits of one image do not depend on the other images of the batch |
# | 1 | every patch has an influence on the logits |
# | 1 | token mixing: one network, the same for all channels, processes each channel separately; all positions influence each other, with different weights |
# | 1 | channel mixing: one network, the same for all positions, processes each position separately; all channels influence each other |
# | 1 | at least 10,000 weights: two blocks with both networks |
# | 1 | loss on held-out digits: 1 nat below that of predicting from class frequencies alone, which is 2.3 nats |
# | 1 | accuracy on held-out digits: above that of the nearest class mean (about 0.9) |
#
# Your formula of section 9 gives the number of weights of a Mixer of these sizes: compare it with that of your model.

# %%
print(f"{mixer_parameters(32, 32, 64, 2, 16, 4, 10):,} parameters")

# %% exercise="13.8" difficulty="●●●" minutes=30
from course_tools.bank.lecture_13.train_mixer import train_mixer

# %% tags=["nbval-check-output"]
train_mixer = check("13.8", train_mixer)

# %% [markdown]
# Section 6 shows that a Mixer can learn shuffled images as well as images in order. The next cell trains the Mixer of this
# task on both, with three seeds, and draws the losses. The patches of all digits are shuffled in the same way, and the
# network is not given the order. With our reference solution, the seed alone changes the accuracy by one or two hundredths.

# %%
from course_tools.notebook.authorship import whose
from course_tools.lectures.lecture_13.experiments import show_both_orders

show_both_orders(train_mixer, SEEDS, f"{whose(train_mixer)} Mixer")

# %% [markdown] tags=["quiz"]
# ## 13 Exit quiz
#
# **Question 1.** You have a Mixer for images of 224 × 224 and want to classify one of 256 × 256. What do you do?
#
# <details><summary>A. Nothing special: the weights are applied at every position.</summary>
#
# Those of a convolution are. But column $n$ of $W_1$ belongs to position $n$, and there are now more positions than
# columns.</details>
# <details><summary>B. Resize the image, or train new token networks.</summary>
#
# Right. The paper does the latter for fine-tuning, starting from copies of the old ones (its appendix). In a ViT, only the
# position embeddings have to be interpolated.</details>
# <details><summary>C. Add position embeddings.</summary>
#
# Position embeddings would give the position of a patch. What is missing here is weights.</details>
#
# **Question 2.** You train a ViT with learned position embeddings on the shuffled images of section 6. Its patches of 4 × 4
# are those that were shuffled. What do you expect?
#
# <details><summary>A. It does as well as on images in order.</summary>
#
# Right. Attention does not depend on the order, and the position embeddings and the weights of the patch layer can be shuffled
# in the same way. Like the Mixer, the ViT has no built-in information about neighbours. (With the 7 × 7 patches of section 5,
# this would not hold: each patch would contain pieces from all over the image.)</details>
# <details><summary>B. It fails: position embeddings give the position of each patch.</summary>
#
# They are learned. Nothing in them specifies that position 8 is below position 1.</details>
# <details><summary>C. It loses as the CNN does.</summary>
#
# The CNN loses because its *kernels* assume neighbours.</details>
#
# **Question 3.** Do the weights between positions depend on the image, in attention and in token mixing?
#
# <details><summary>A. They do in both.</summary>
#
# In token mixing the weights are the same for every image; only what they multiply differs.</details>
# <details><summary>B. They do in attention; in token mixing they are fixed after training.</summary>
#
# Right. So a Mixer cannot search all positions for a patch that is similar to the current one; it would have to learn such a
# comparison for each pair of positions.</details>
# <details><summary>C. They do in neither.</summary>
#
# The weights of attention are computed from queries and keys, and these from the image.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *"All you need is MLPs: no inductive bias, no convolutions."* Argue for or against this
# statement, with two numbers from this lecture.
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says what is built in nevertheless: patches, equal weights for all positions and for all channels, residual connections |
# | 1 | says what is not: neighbourhood (section 6), with a number |
# | 1 | says in which sense it is a CNN (section 7), or that a fully connected layer is something else (13.g) |
# | 1 | compares it with the CNN on the same batches, and says that the data are few and easy, and that the ViT's initialisation was tuned |
# | 1 | is clear and short |
#
# </details>

# %% [markdown] tags=["companion"]
# ## 14 Summary and sources
#
# **Where the deck and the code differ**, each with a measurement:
#
# - *CS*'s PyTorch code makes both networks four times as wide as their inputs. For token mixing that means $d_s = 4N$: the
#   number of operations then grows with the *square* of the number of positions, as in attention, and the linear growth that
#   the paper claims is lost. Of the seven counts of table 1, this code reproduces one.
# - *CS* shows two implementations of one model, but only the second, in flax, initialises its head with 0, so that only its
#   training begins at the loss of a uniform guess.
# - *CS* writes that "CNNs are not special cases of Mixer"; the paper says *typical* CNNs. A depth-wise convolution of 3 × 3
#   that all channels share is token mixing: since $\sigma(x) - \sigma(-x) = x$, twice as many hidden units undo the GELU.
#
# **Remarks.** *CS* quotes "single-channel depth-wise convolutions for token mixing", and so shortens the sentence: in the
# paper, the words after "convolutions" are "of a full receptive field and parameter sharing". Without the sharing, Mixer-S/16
# would not have 18 million parameters but more than twenty times as many (13.CS-shared). `nn.GELU()` of the first
# implementation in *CS* is exact, `nn.gelu` of the second uses an approximation by tanh; the two differ by less than 0.001
# (13.CS-gelu).
#
# **What this lecture does not show.** The paper's claim is about scale: trained on 300 million images, Mixers come close to the
# best models. Ours are trained on four thousand digits for a few hundred steps; their ranking need not hold for training on
# millions of images. Only the ViT's initialisation was tuned, in one respect (13.j-scale); what tuning would do for the Mixer
# is not known. "A similar time" refers to a CPU; on a GPU, the relative costs differ.
#
# **Papers.** Tolstikhin et al. 2021, *MLP-Mixer: An all-MLP Architecture for Vision*, eq. 1, table 1, section 3.4
# (https://arxiv.org/abs/2105.01601) · Hendrycks and Gimpel 2016, *Gaussian Error Linear Units*, section 2
# (https://arxiv.org/abs/1606.08415).
#
# The site compares the numbers of these papers with ours ([docs/evidence.md](../docs/evidence.md)).
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | CS | MLP-Mixer | 4 The Mixer block | `course_lib.blocks.mixer_block`, `course_lib.models.Mixer` |


# %%
from course_tools.lectures.lecture_13.experiments import (
    gap_to_a_shared_convolution,
    loss_on_unseen,
)
from course_tools.lectures.lecture_13.costs import (
    with_a_network_for_each_channel,
    with_wide_networks,
)

small = mixer_parameters(*MIXER_SMALL, 196, 768, 0)
own_networks = with_a_network_for_each_channel(mixer_parameters, MIXER_SMALL, 16)
wide = [with_wide_networks(mixer_parameters, *which) for which in published]
line = torch.linspace(-6, 6, 12_001, dtype=torch.float64)
at_zero, drawn = initialised(mixer, SEEDS[0]), initialised(mixer, SEEDS[0])
drawn.head.reset_parameters()

# %% tags=["nbval-check-output"]
claim("13.CS-shared", ratio=own_networks / small)
claim("13.CS-wide", growth=growth["token mixing, 4N"])
measured = sum(round(n / 1e6) == count for n, count in zip(wide, millions, strict=True))
claim("13.CS-count", measured=measured)
claim("13.CS-gelu", gap=(F.gelu(line) - F.gelu(line, approximate="tanh")).abs().max())
claim("13.CS-head", ratio=loss_on_unseen(at_zero, digits, SEEDS[0]) / math.log(10))
claim("13.CS-drawn", gap=abs(loss_on_unseen(drawn, digits, SEEDS[0]) - math.log(10)))
claim("13.CS-converse", gap=gap_to_a_shared_convolution(token_mixing))

# %% tags=["ledger"]
from course_tools.notebook import ledger

ledger()
