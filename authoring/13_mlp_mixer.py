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
# An MLP-Mixer connects the patches of an image by weights that are learned and the same for every image, without attention and
# without convolutions that slide over neighbours.
#
# You will wire such weights by hand, write the Mixer's block, train it on images whose patches are mixed up, move it to another
# order without training, and find in its weights which patches belong together.
#
# **Prerequisites:** lecture 04 (self-attention) and lecture 05 (blocks, pre-norm); lecture 11 (patches) helps. **Time:**
# {minutes}. {measured}
#
# ![](diagram:mixer)

# %%
import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.blocks import FeedForwardWeights, NormWeights, TokenMixing
from course_lib.blocks import TokenMixingKernels, channel_mixing
from course_lib.blocks import mixer_block, reordered_token_mixing, token_mixing
from course_lib.blocks import token_mixing_kernels
from course_lib.blocks.mlp_mixer import PatchFeatures
from course_lib.attention import scaled_dot_product_attention
from course_lib.metrics import MIXER_BASE, MIXER_HUGE, MIXER_LARGE, MIXER_SMALL
from course_lib.metrics import mixer_parameters
from course_lib.primitives import layer_norm, patchify, unpatchify
from course_lib.training import batches, train
from course_tools.bank.drawn_puzzles import H, N, P, W, Puzzles, counterparts
from course_tools.bank.drawn_puzzles import draw_bundle, draw_puzzles
from course_tools.bank.drawn_puzzles import from_many_crops, on_either_side
from course_tools.bank.drawn_puzzles import through_bundle
from course_tools.lectures.lecture_13 import figures, rivals
from course_tools.notebook import check, claim, device, explore, ledger, predict
from course_tools.notebook import progress, show_study, source
from course_tools.notebook.authorship import whose
from course_tools.notebook.layer_costs import multiply_adds

# %% [markdown]
# ## 1 Images through a bundle of cables
#
# A camera reads its image patch by patch, and each patch travels through a cable of its own. Somebody plugged the bundle in without a
# plan: the cables end in any order. Each multiplies its signal, how far a pixel is from grey, by a **gain** of its own, between
# ¼ and 1. And about half were plugged in the wrong way round: their gain is negative, and they deliver the *negative* of their patch.
# (Grey is 0.5. Behind a gain of −½, a pixel of 0.9, which is 0.4 above grey, arrives 0.2 below it, as 0.3.) What arrives is mixed up,
# in the same way every time.
#
# The camera sees *two copies* of a crop of a photograph, side by side, 4 × 4 patches of 6 × 6 pixels each. About
# half of the patches of the right copy were replaced. The task is the one of every puzzle book: **mark the patches that differ from
# their counterpart in the other copy**, four places to the left or right at the start. Half of the marks are right by guessing.

# %%
source(draw_puzzles)
source(through_bundle)
in_order = draw_puzzles(8_192, 0, device=device())
unseen_in_order = draw_puzzles(400, 1, unseen=True, device=device())
order, gain = draw_bundle(0)
known = through_bundle(in_order, order, gain)
unseen = through_bundle(unseen_in_order, order, gain)
figures.show_puzzle(in_order, known, 18, order)

# %% [markdown] tags=["predict"]
# We train convolutions on the patches. Their first windows reach four places to the left and right, to the counterpart; the next
# ones reach the neighbours. We train them three times: on puzzles in order, on the same puzzles behind the bundle, and on the latter
# *sorted back*, which are in order again but keep the gains of their cables.
#
# **Predict.** What does the bundle do to the convolutions?
#
# <details><summary>A. Nothing: all pixels are still there.</summary>
#
# They are, but the patch in a window is no longer the counterpart.</details>
# <details><summary>B. Nothing after training: they learn the new order.</summary>
#
# A window has the same weights wherever it slides. In the new order, the counterpart of the second patch is right below it, that of
# the third is three places to the right.</details>
# <details><summary>C. They mark far fewer patches right.</summary>
#
# Yes. The window assumes that what belongs together is always the same, small distance apart, and is compared in the same way. Now
# nearly all counterparts lie outside it, and some have to be subtracted, others added.</details>

# %% [markdown]
# `learn` is the loop of the whole lecture: 300 updates of Adam with batches of 64, a learning rate that rises for a tenth of them
# and then falls linearly, gradients clipped at 1. Each model gets the best of two to four rates, tried on one seed and, but for the
# Vision Transformer of section 4, without gains.


# %%
def loss_of(model, batch):
    """The cross-entropy of the marks, in nats; pixels are scaled to -2…2."""
    images, differs = batch
    return F.binary_cross_entropy_with_logits(model(4 * images - 2), differs.float())


def learn(model, puzzles, steps=300, lr=8e-3):
    """Train a model on known puzzles; return it."""
    stream = batches(*puzzles, batch_size=64, seed=0)
    run = train(model, stream, loss_of, steps=steps, lr=lr, warmup=steps // 10)
    for _step in progress(run, "training", total=steps):
        pass
    return model.eval()


@torch.no_grad()
def marked(model, puzzles):
    """The patches that a model marks as different (n, N)."""
    return model(4 * puzzles.images - 2) > 0


def accuracy(model, puzzles):
    """The share of right marks."""
    return (marked(model, puzzles) == puzzles.differs).float().mean().item()


source(rivals.convolutions)
back = order.argsort()  # sorts what arrives back; the gains stay
sorted_back, unseen_sorted = through_bundle(known, back), through_bundle(unseen, back)
of_convolutions = {}
for name, old, new in [
    ("ordered", in_order, unseen_in_order),
    ("sorted", sorted_back, unseen_sorted),
    ("mixed", known, unseen),
]:
    torch.manual_seed(0)
    model = learn(rivals.convolutions().to(device()), old)
    of_convolutions[name] = accuracy(model, new)

# %% tags=["nbval-check-output"]
claim("13.bundle", **of_convolutions)

# %% [markdown]
# The gains alone cost much, and the order costs more. Further training helps little, and larger windows help only in part, as
# section 4 shows. We need a layer that assumes nothing about which places belong together or how to compare them, and can *learn* it.
#
# ## 2 Token mixing
#
# Attention could learn it: every place asks all others. But attention computes its weights anew for each image, and here the answer
# is always the same. So let the weights between places be parameters.
#
# **By hand.** Take four places; 1 and 3 are counterparts, and 2 and 4. One feature of their patches is $x = (5, 2, 5, 4)$. Each
# row of $W_1$ is a hidden unit that subtracts counterparts; each row of $W_2$ is a place that adds the two units of its pair:
#
# $$W_1 = \begin{pmatrix} 1 & 0 & -1 & 0\\ 0 & 1 & 0 & -1\\ -1 & 0 & 1 & 0\\ 0 & -1 & 0 & 1 \end{pmatrix} \qquad
# W_2 = \begin{pmatrix} 1 & 0 & 1 & 0\\ 0 & 1 & 0 & 1\\ 1 & 0 & 1 & 0\\ 0 & 1 & 0 & 1 \end{pmatrix}$$
#
# The units are $W_1 x = (0, -2, 0, 2)$. GELU, a smooth ReLU, makes them $(0, -0.05, 0, 1.95)$, and $W_2$ maps these to $(0,
# \mathbf{1.91}, 0, \mathbf{1.91})$: about the absolute difference to the counterpart, at each place. All features of the patches
# are mixed with the same two matrices. If place 3 arrived with a gain of $-\frac{1}{2}$, as $-2.5$, the third column of $W_1$ would
# be divided by it: $(2, 0, -2, 0)^\top$, and the units would be the same.
#
# A row of $W_1$ is an attention pattern (lecture 04) that is the same for every image, and that **may be negative**: a softmax can
# only average, not subtract.
#
# In general, write the image as a matrix $X$ with a row for each of $N$ places and a column for each of $d$ **channels**. A small
# network maps each column, one channel at all places, to another $N$ numbers:
#
# $$y_{:,c} = W_2\, \sigma(W_1 x_{:,c} + b_1) + b_2 \qquad \text{for each channel } c \text{, with the same weights}$$
#
# That is **token mixing**. $\sigma$ is GELU, $\sigma(x) = x\,\Phi(x)$ with the normal distribution function $\Phi$.
#
# | name | shape |
# | --- | --- |
# | x, result | (B, N, d) |
# | W_1, b_1 | (d_s, N), (d_s,) |
# | W_2, b_2 | (N, d_s), (N,) |

# %% exercise="13.1" difficulty="●●○" minutes=8
from course_lib.blocks import token_mixing

# %% tags=["nbval-check-output"]
token_mixing = check("13.1", token_mixing)

# %%
x = torch.tensor([5.0, 2.0, 5.0, 4.0]).view(1, 4, 1)
subtract = torch.tensor(
    [[1.0, 0, -1, 0], [0, 1.0, 0, -1], [-1.0, 0, 1, 0], [0, -1.0, 0, 1]]
)
by_hand = token_mixing(x, subtract, torch.zeros(4), subtract.abs(), torch.zeros(4))
print(by_hand.flatten())

# %% [markdown] tags=["predict"]
# **Predict a number** (exactly). Take 32 places and 48 channels. On how many of these 1,536 numbers does one number of the result
# depend?
#
# <details><summary>32</summary>
#
# It depends on its own channel, at all places.</details>
# <details><summary>1,536</summary>
#
# A network maps one column. No channel sees another.</details>
# <details><summary>48</summary>
#
# These are the channels of its own place, which the other network of the Mixer mixes.</details>

# %% [markdown]
# Sharing one network over all channels is the odd thing about a Mixer: a depth-wise convolution has a kernel for each. With 32 places,
# 32 channels and 64 hidden units, the shared matrices have 4,096 weights; one pair of matrices for each channel would have
# 131,072. In the paper's experiments, sharing costs no accuracy.
#
# **Wire it by hand.** Which weights mark the puzzles? Suppose that you know how the cables run. The cable that ends in place $i$
# starts in place `order[i]` and multiplies by `gain[i]`; the counterpart of place $n$ at the start is `counterpart[n]`. Write the
# weights that return, at each place of the end, about the absolute difference to its counterpart *before* the bundle.
#
# | name | shape |
# | --- | --- |
# | order, counterpart, gain | (N,), (N,), (N,) |
# | W_1, W_2; b_1, b_2 | (N, N): as many hidden units as places; (N,) |

# %% exercise="13.2" difficulty="●●○" minutes=10
from course_tools.bank.lecture_13.difference_weights import difference_weights

# %% tags=["nbval-check-output"]
difference_weights = check("13.2", difference_weights)

# %% [markdown]
# Two patches differ if the differences of their pixels add up to much. Half of all differ: mark those above the median.

# %% tags=["nbval-check-output"]
at_start = counterparts(torch.arange(N))
wires = [w.to(device()) for w in difference_weights(order, at_start, gain)]
differences = token_mixing(patchify(4 * unseen.images - 2, P), *wires).sum(-1)
wired = (differences > differences.median()) == unseen.differs
claim("13.wired", wired=wired.float().mean())

# %% [markdown]
# So a bundle whose cables are known needs no training. Ours is unknown: a Mixer has to *find* these weights.

# %% [markdown]
# ## 3 Channel mixing, and the block
#
# Which differences matter? A second network is applied to each row, the $d$ numbers of one place, with the same weights everywhere:
#
# $$y_n = W_4\, \sigma(W_3 x_n + b_3) + b_4 \qquad \text{for each place } n$$
#
# It is called **channel mixing**, and you have written it in lecture 05: the feed-forward network of every Transformer, here with GELU.
# It is also token mixing of the transposed matrix, as the next cell checks. $W_3$ is $(d_c, d)$ and $W_4$ $(d, d_c)$.

# %%
source(channel_mixing)
weights = [torch.randn(*shape) for shape in ((11, 7), (11,), (7, 11), (7,))]
features = torch.randn(2, 7, 5)
turned = token_mixing(features, *weights).mT
torch.testing.assert_close(turned, channel_mixing(features.mT, *weights))
print("channel mixing of the transposed matrix = token mixing, transposed")

# %% [markdown]
# A block of lecture 05 mixes tokens, then channels, each after a norm and with a residual connection. Replace attention by token
# mixing:
#
# $$U = X + \mathrm{Tokens}(\mathrm{LN}(X)) \qquad Y = U + \mathrm{Channels}(\mathrm{LN}(U))$$
#
# Both norms are over the *features of each place*, as in lecture 05.
#
# | name | shape |
# | --- | --- |
# | x, result | (B, N, d) |
# | tokens, channels | four tensors each, as above |
# | norms | two pairs (gain, bias), (d,) each |

# %% exercise="13.3" difficulty="●●○" minutes=8
from course_lib.blocks import mixer_block

# %% tags=["nbval-check-output"]
mixer_block = check("13.3", mixer_block)

# %% [markdown]
# **Bug hunt.** The author of the block below explains: "The first network reads columns, so its norm is over columns." It runs and
# it trains. Decide what is lost *before* you run the check.

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
# Yes, for token mixing (the residual connection keeps it). Every channel gets mean 0 and the same variance over the places, whether
# it is active at many of them or at few. A norm over the features equalises places, but not channels.</details>
# <details><summary>C. The order of the places.</summary>
#
# The places keep their order; the norm makes the *channels* similar.</details>

# %% tags=["nbval-check-output"]
suspect = check("13.3", suspect)

# %% [markdown]
# ## 4 A Mixer does the puzzle
#
# `PuzzleMixer` is the whole network around your block: a linear layer for the patches, two blocks, a norm, and a number for each
# patch. It has **no position embeddings**: column $n$ of $W_1$ belongs to place $n$. (For classification, a Mixer takes the mean
# over the places before its head.) It has 20,609 parameters, and the convolutions 21,541.


# %%
def two_layers(n, hidden):
    """The weights of a network of two layers: W_1, b_1, W_2, b_2 are its parameters."""
    return nn.ModuleList([nn.Linear(n, hidden), nn.Linear(hidden, n)])


class PuzzleMixer(nn.Module):
    """A Mixer that marks each patch: does it differ from its counterpart?"""

    def __init__(self, block=mixer_block, d=32, d_s=64, d_c=64, n_layers=2):
        super().__init__()
        self.block, self.project = block, nn.Linear(3 * P * P, d)
        self.tokens = nn.ModuleList(two_layers(N, d_s) for _ in range(n_layers))
        self.channels = nn.ModuleList(two_layers(d, d_c) for _ in range(n_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2 * n_layers + 1))
        self.head = nn.Linear(d, 1)

    def forward(self, images):  # (B, 3, H, W) -> (B, N)
        x = self.project(patchify(images, P))
        gains_and_biases = [tuple(norm.parameters()) for norm in self.norms]
        for i, networks in enumerate(zip(self.tokens, self.channels, strict=True)):
            tokens, channels = (tuple(network.parameters()) for network in networks)
            x = self.block(x, tokens, channels, gains_and_biases[2 * i : 2 * i + 2])
        return self.head(layer_norm(x, *gains_and_biases[-1])).squeeze(-1)


torch.manual_seed(0)
mixer = learn(PuzzleMixer().to(device()), known, lr=1.2e-2)
figures.show_marks(unseen, order, marked(mixer, unseen), 16)

# %% [markdown]
# Other puzzles are harder: on average, about two of 32 marks are wrong.
#
# Does token mixing do it, or one of the parts around it? A **control** differs from the model in one ingredient only. Write the
# block of the control: it leaves out token mixing with its norm, and everything else stays as it is.
#
# | name | shape |
# | --- | --- |
# | x, result; tokens, channels, norms | as for `mixer_block`; `tokens` stays unused |

# %% exercise="13.4" difficulty="●○○" minutes=4
from course_tools.bank.lecture_13.no_token_mixing import no_token_mixing

# %% tags=["nbval-check-output"]
no_token_mixing = check("13.4", no_token_mixing)

# %% [markdown] tags=["predict"]
# The control is trained with as many updates.
#
# **Predict a number** (within 0.04). What share of its marks is right?
#
# <details><summary>0.5</summary>
#
# Each patch is judged by itself, and half of all differ: a patch that was replaced looks like any other. No amount of training changes
# that.</details>
# <details><summary>0.75</summary>
#
# To look out of place, a patch must be seen beside others.</details>
# <details><summary>0.9</summary>
#
# Channel mixing has as many weights, but it mixes the numbers of one patch.</details>

# %%
torch.manual_seed(0)
alone = learn(PuzzleMixer(no_token_mixing).to(device()), known, lr=1.2e-2)

# %% [markdown]
# Three rivals have no network. One copies the marks of the nearest known puzzle. The others are logistic regressions that read, for
# each patch, how far it is from all others. The first takes the patches as they arrive. The second divides the signals of each place by
# their **spread**, the standard deviation over the known puzzles, and takes the distance to a patch or to its negative, whichever is
# smaller.

# %%
source(rivals.logistic_regression)
source(rivals.by_spread)
right = {"mixer": accuracy(mixer, unseen), "alone": accuracy(alone, unseen)}
marks = {"nearest": rivals.nearest_known(known, unseen.images)}
for name, read in [
    ("distances", rivals.distances),
    ("spread", rivals.by_spread(known)),
]:
    marks[name] = rivals.logistic_regression(known, unseen.images, read)
for name, each in marks.items():
    right[name] = (each == unseen.differs).float().mean()

# %% tags=["nbval-check-output"]
claim("13.mixer", **right)

# %% [markdown] tags=["predict"]
# **Pixel distances fall short**: a patch is far from its own negative, and at full contrast far from itself at a quarter. But
# whoever knows what cables do can undo the gains without a single mark, and is as good as this Mixer. The Mixer need not know: its norm
# can divide each patch by its size, and the minus is left to $W_1$. (Some patches were replaced by one that looks the same: an accuracy
# of 1 is out of reach.)
#
# The study breaks the tie: it trains for 2,400 updates. The fairest rival is a Vision Transformer: its positions are learned, too, and
# assume no order. In a third model, the weights between places are *free*: one parameter for each pair and head, in place of
# attention. These and the convolutions have about as many parameters as the Mixer; convolutions with windows over the whole image
# have almost three times as many, one hidden layer over all pixels five times.
#
# The strongest rival without a network was made for electrodes on a head, each of which hears the whole brain: [*common spatial
# patterns*](https://doi.org/10.1109/MSP.2008.4408441). For each place, these are weights for *all* places, such that the weighted sum
# is small where the patch has an equal, compared with where it has none. They are eigenvectors; a logistic regression reads how
# large the sums are.
#
# **Predict.** All weights of a softmax are positive. Can the Vision Transformer compare a patch with a negative?
#
# <details><summary>A. It can: one head may read upright patches and another one negatives, with value matrices of opposite sign.</summary>
#
# Yes. By the positions, queries and keys can tell which place to read with which head. A Mixer has all this as one parameter, with
# a sign, and is there sooner.</details>
# <details><summary>B. It cannot: a mean of positive weights never subtracts.</summary>
#
# The weights do not, but the value matrix of a head may turn the sign of all that it reads.</details>
# <details><summary>C. It can, even without positions, since it compares the patches themselves.</summary>
#
# What they show tells little about which of them are counterparts: half of them differ, and many patches of sky look alike.</details>

# %%
source(rivals.vision_transformer)
source(rivals.FreeWeights)
source(rivals.by_common_patterns)
study = show_study("13_bundle")
short = {
    "mixer": "Mixer",
    "vit": "Vision Transformer",
    "free": "free weights",
    "wide": "wide convolutions",
    "narrow": "convolutions",
    "spread": "no network, own spread",
    "patterns": "no network, common patterns",
}
final = {key: study.scores(name, "right marks") for key, name in short.items()}
for key in ("mixer", "vit"):
    curve = zip(*study.curve(short[key]), strict=True)
    final[f"{key}_after"] = next(int(step) for step, share in curve if share > 0.9)
one = torch.zeros(1, 3, H, W)
final["work"] = multiply_adds(
    rivals.vision_transformer(scaled_dot_product_attention), one
) / multiply_adds(rivals.mixer(), one)

# %% tags=["nbval-check-output"]
claim("13.vit", **final)

# %% [markdown]
# Free weights, the same mechanism in its barest form, are as good. The Vision Transformer needs four times as many updates to 0.9; in
# the end, where its curve is almost flat, it is less than a hundredth behind. Next come common patterns (dotted): they,
# too, are weights between places, found from the marks without a network. That works since counterparts are equal up to a factor:
# some weighted sum of them vanishes. Windows over the whole image bring the convolutions closer. But what slides has the same weights
# everywhere, and here each place has its own counterpart and, as section 1 showed, its own gain.
#
# **Weights between places are the right tool here because which places belong together, and with which sign, is the same in every
# image: it need not be computed from each.** (Not every puzzle favours the Mixer: *Going further*.)
#
# ## 5 Another bundle
#
# For weights $W_1, b_1, W_2, b_2$ and an order $\pi$ (place $i$ of the shuffled image is place $\pi_i$ of the image), there are
# weights that compute from the shuffled image what the original ones compute from the image, in the new order:
#
# $$\mathrm{Tokens}'(X_\pi) = (\mathrm{Tokens}(X))_\pi \qquad \text{for every } X$$
#
# Which ones? Try three places and the order (3, 1, 2) on paper: it is easy to confuse an order with its inverse.
#
# | name | shape |
# | --- | --- |
# | order | (N,), a permutation |
# | W_1, b_1, W_2, b_2, and the result | as for `token_mixing` |

# %% exercise="13.5" difficulty="●●○" minutes=8
from course_lib.blocks import reordered_token_mixing

# %% tags=["nbval-check-output"]
reordered_token_mixing = check("13.5", reordered_token_mixing)

# %% [markdown] tags=["predict"]
# So a trained Mixer can be moved to another order that is known, or to images sorted back, without training. (The gains stay with their
# patches.) Now train a new Mixer on images sorted back.
#
# **Predict.** How does it compare with the one that was trained behind the bundle?
#
# <details><summary>A. It is better: neighbouring patches are beside each other.</summary>
#
# The Mixer has no idea of "beside". Place 8 is below place 0 for you.</details>
# <details><summary>B. Just as good; apart from the order of its initial weights, every update is the same.</summary>
#
# Yes. With initial weights in the other order, all gradients come in the other order, and so do all later weights.</details>
# <details><summary>C. It is worse: it has been tuned for the bundle.</summary>
#
# Nothing in the model or in the recipe knows about the bundle.</details>


# %%
@torch.no_grad()
def moved(model, order):
    """A copy of a PuzzleMixer, for images whose places are in another order."""
    copy = PuzzleMixer(model.block).to(device())
    copy.load_state_dict(model.state_dict())
    for network in copy.tokens:
        weights = tuple(network.parameters())
        for old, new in zip(
            weights, reordered_token_mixing(*weights, order), strict=True
        ):
            old.copy_(new.clone())
    return copy.eval()


start = PuzzleMixer().to(device())
losses = []
for model, puzzles in [(start, known), (moved(start, back.to(device())), sorted_back)]:
    few = [part[:640] for part in puzzles]
    run = train(model, batches(*few, batch_size=64, seed=0), loss_of, steps=10, lr=1e-2)
    losses.append([step.loss for step in run])
torch.testing.assert_close(*losses, atol=1e-3, rtol=1e-3)
print("ten updates in both orders: the same losses")

# %% tags=["nbval-check-output"]
both = {"as_is": mixer, "rewired": moved(mixer, back.to(device()))}
claim("13.order", **{key: accuracy(it, unseen_sorted) for key, it in both.items()})

# %% [markdown] tags=["predict"]
# ## 6 What the Mixer has found
#
# Nobody told the Mixer how the cables run. Take eight of the 128 rows of $W_1$ in its two blocks, turn the sign of the columns whose
# cable delivers a negative, sort the columns back to the order at the start of the bundle, and draw each row as 4 × 8 places.
#
# **Predict.** What will you see? Think of your own weights of 13.2.
#
# <details><summary>A. Rows that sum over the neighbours of a place.</summary>
#
# The marks do not depend on neighbours, but on counterparts.</details>
# <details><summary>B. Weights of opposite sign, four columns apart.</summary>
#
# Yes, as in the row by hand: a place minus its counterpart. But most rows subtract several pairs at once; what counts is that all of them
# together tell the pairs apart.</details>
# <details><summary>C. No pattern: the cables are mixed up.</summary>
#
# So are the columns of $W_1$, and in the same way. Sorting them back undoes it.</details>

# %%
sign = gain.sign().to(device())
rows = sign * torch.cat([network[0].weight.detach() for network in mixer.tokens])
figures.show_rows(rows, order, sign * wires[0][10].sign())
partners = counterparts(order)
subtracted = (rows - rows[:, partners]).square().sum() / 4
share = subtracted / rows.square().sum()
print(
    f"of the squared weights, {share:.2f} subtract counterparts; of random ones, 0.50"
)

# %% tags=["guard", "nbval-check-output"]
claim("13.rows", share=share)

# %% [markdown] tags=["predict"]
# We drew the eight rows in which the difference of one pair stands out most; not even all of them look like the row by hand. The share
# counts all 128.
#
# Do the marks use what the weights contain? Now one patch of the *right* copy is exchanged for that of another puzzle.
#
# **Predict.** Which marks of a well trained Mixer change most?
#
# <details><summary>A. That of the same place, and that of its counterpart.</summary>
#
# Yes: the two are compared with each other. So the marks tell which places belong together.</details>
# <details><summary>B. That of the same place only.</summary>
#
# The counterpart now differs from another patch than before.</details>
# <details><summary>C. All: token mixing connects every place with every other.</summary>
#
# It could, and a little it does: a patch that fits neither its surroundings nor its counterpart is suspect. But only these two tell whether they are equal.</details>


# %% tags=["cover"]
@torch.no_grad()
def dependence(model, images):
    """How much the mark of each place changes with the patch of each place (N, N)."""
    patches, marks = patchify(images, P), model(4 * images - 2)
    columns = []
    for place in range(N):
        changed = patches.clone()
        changed[:, place] = patches[:, place].roll(1, 0)
        after = model(4 * unpatchify(changed, P, H, W) - 2)
        columns.append((after - marks).abs().mean(0))
    return torch.stack(columns, 1)


depends = dependence(mixer, unseen.images[:200])
figures.show_dependence(depends, order)
found = depends.clone().fill_diagonal_(0).argmax(1).cpu()

# %% tags=["nbval-check-output"]
alike = rivals.often_alike(known.images).cpu()
claim("13.wires", found=(found == partners).sum(), alike=(alike == partners).sum())


# %% tags=["interactive"]
def draw_place(place=10):
    """On which patches the mark of one place depends, at the start of the bundle."""
    figures.show_one_mark(depends, order, place)


explore(draw_place, place=(0, 31))

# %% [markdown]
# The numbers in the explorer are places at the *start* of the bundle. The Mixer has found which cables belong together, but not their
# order: the map is sorted by the true one. Nor are marks needed, if one knows what cables do: counterparts show the same
# texture, upright or as a negative, more often than other patches.
#
# Look again: both marks of a pair change more with its patch in the right copy. **A map of dependence shows what a model uses. It need
# not be what you had in mind.** (*Going further* finds out why.)

# %% [markdown] tags=["quiz"]
# ## 7 Exit quiz
#
# **Question 1.** You have a Mixer for images of 224 × 224 and want to classify one of 256 × 256. What do you do?
#
# <details><summary>A. Nothing special: the weights are applied at every place.</summary>
#
# Those of a convolution are. But column $n$ of $W_1$ belongs to place $n$, and there are now more places than columns.</details>
# <details><summary>B. Resize the image, or train new token networks.</summary>
#
# Right. The paper does the latter for fine-tuning, starting from copies of the old ones (its appendix). In a ViT, only the position
# embeddings have to be interpolated.</details>
# <details><summary>C. Add position embeddings.</summary>
#
# Position embeddings would give the place of a patch. What is missing here is weights.</details>
#
# **Question 2.** Another bundle is plugged in anew for each puzzle, which arrives in an order of its own. What can still do better than
# guess?
#
# <details><summary>A. A model that compares contents, such as attention without positions.</summary>
#
# Right, but not as well as before: a patch without an equal has been replaced or lost its counterpart. In the sky all look
# equal.</details>
# <details><summary>B. The Mixer, with more training.</summary>
#
# Its weights belong to places, and a place now holds any patch.</details>
# <details><summary>C. Convolutions: they slide.</summary>
#
# They slide over neighbours, and these are now different in each puzzle.</details>
#
# **Question 3.** Is a Mixer block "fully connected"?
#
# <details><summary>A. Yes: after one block, every number can depend on every other.</summary>
#
# It can, but a fully connected layer has a weight of its own for each pair of numbers.</details>
# <details><summary>B. No: distant places are not connected.</summary>
#
# All places are connected, in each token-mixing network.</details>
# <details><summary>C. No: it connects along the columns and the rows of the matrix, and all columns share their weights, as do all rows.</summary>
#
# Right. For 32 places and 32 channels, one fully connected layer has $1024^2$, more than a million, weights; a block of ours has
# fewer than nine thousand.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *"All you need is MLPs: no inductive bias, no convolutions."* Argue for or against this
# statement, with two numbers from this lecture.
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says what is built in nevertheless: patches, equal weights for all places and for all channels, residual connections |
# | 1 | says what is not: neighbourhood, with numbers of the convolutions before and behind the bundle |
# | 1 | says when fixed weights between places suffice, and when they must depend on the image |
# | 1 | compares with the Vision Transformer: how many updates each needs |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 8 What came of it
#
# - **The paper** trains on 300 million photographs (JFT-300M) and reaches 87.94 % on ImageNet, close to the best of that year. With all
#   patches, and the pixels within them, shuffled by one order, its Mixer learns as before; a ResNet falls far behind.
# - **The price is data.** Trained on ImageNet alone, Mixer-B/16 has 76 %, and a Vision Transformer of its size more.
# - **Simpler still.** ResMLP (Touvron et al. 2021, https://arxiv.org/abs/2105.03404) mixes patches by one linear layer; PoolFormer
#   (Yu et al. 2021, https://arxiv.org/abs/2111.11418) by average pooling alone. What all these share, its authors call *MetaFormer*.
# - **Time series** have fixed places: TSMixer (Chen et al. 2023, https://arxiv.org/abs/2303.06053) mixes times and variables in turn.
# - **Puzzles**, too. The Tiny Recursive Model of lecture 06 (Jolicoeur-Martineau 2025, https://arxiv.org/abs/2510.04871) solves 87.4 %
#   of hard Sudokus if a Mixer's network joins the 81 cells, 74.7 % with attention; on mazes and ARC-AGI attention is better.
#
# **Further reading.** Tolstikhin et al. 2021, *MLP-Mixer: An all-MLP Architecture for Vision*, eq. 1 and table 1
# (https://arxiv.org/abs/2105.01601). Hendrycks and Gimpel 2016, *Gaussian Error Linear Units* (https://arxiv.org/abs/1606.08415).

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections. Each stands alone once the core has run, and their exercises are extra points.

# %% [markdown] tags=["predict"]
# ## What a map of dependence shows
#
# The sorted map of section 6 is not symmetric: both marks of a pair change much with its patch in the right copy, and less with its
# patch in the left one. Yet the two differ whichever of them is exchanged.
#
# **Predict.** Why does the left patch count for less? Section 1 says how a puzzle is made.
#
# <details><summary>A. The Mixer reads from left to right, and what came last weighs most.</summary>
#
# It reads all places at once, and behind the bundle left and right are scattered anyway.</details>
# <details><summary>B. By chance: with another seed it may be the other way round.</summary>
#
# All seeds see the same kind of puzzles, and in these the two copies differ.</details>
# <details><summary>C. In training, only patches of the right copy were replaced.</summary>
#
# Yes. The left copy is always whole, so that its other patches, too, tell what belongs in a place: sky among sky. If the left patch of
# a pair is exchanged, its neighbours still show that the right one fits.</details>

# %% [markdown]
# If so, the map must become symmetric where the surroundings tell nothing. So train on puzzles that differ in one thing: their 16 pairs
# come from 16 different crops. And the first Mixer must do worse if a pair stands among patches of another puzzle.


# %%
def on_one_pair(model, puzzles):
    """The share of right marks if all patches but one pair come from another puzzle."""
    patches, partner, hits = patchify(puzzles.images, P), counterparts(order), []
    for place in range(N):
        pair, others = [place, int(partner[place])], patches.roll(1, 0)
        others[:, pair] = patches[:, pair]
        marks = marked(model, puzzles._replace(images=unpatchify(others, P, H, W)))
        hits.append((marks == puzzles.differs)[:, place].float().mean())
    return torch.stack(hits).mean()


def by_side(depends):
    """How much the marks of a pair change with its left and its right patch."""
    changes = (depends.diagonal() + depends[counterparts(order), torch.arange(N)]) / 2
    left = (order % 8 < 4).to(changes.device)  # the cable starts in the left copy
    return changes[left].mean(), changes[~left].mean()


source(from_many_crops)
patchwork, unseen_patchwork = (
    through_bundle(from_many_crops(made), order, gain)
    for made in (in_order, unseen_in_order)
)
torch.manual_seed(0)
second = learn(PuzzleMixer().to(device()), patchwork, lr=1.2e-2)
sides = {}
depends_second = dependence(second, unseen_patchwork.images[:200])
for key, map_, model in [("", depends, mixer), ("second_", depends_second, second)]:
    sides[f"{key}left"], sides[f"{key}right"] = by_side(map_)
    sides[f"{key}pair"] = on_one_pair(model, unseen)

# %% tags=["nbval-check-output"]
claim("13.sides", **sides)

# %% [markdown]
# So the Mixer of section 4 does not only compare two patches: it also asks whether a patch fits the left copy as a whole. That serves
# *its* puzzles. What if either copy may hold the replaced patch, so that neither is whole? The study trains two models on such
# puzzles; the next cell finds common patterns.

# %% tags=["nbval-check-output"]
sided = {
    key: study.scores(f"{short[key]}, either copy", "right marks")
    for key in ("mixer", "free")
}
either, unseen_either = (
    through_bundle(on_either_side(made, seed), order, gain)
    for seed, made in enumerate((in_order, unseen_in_order))
)
read = rivals.by_common_patterns(either)
found = rivals.logistic_regression(either, unseen_either.images, read)
sided["patterns"] = (found == unseen_either.differs).float().mean()
claim("13.either", **sided)

# %% [markdown]
# There the Mixer is *not* the best after 2,400 updates: how well it does depends on its seed, and the worst of three still rises. In
# the mean, free weights do better, and so do common patterns.

# %% [markdown]
# ## The Mixer as a convolutional network
#
# Arrange the places of one channel as an image, $H \times W$. A row of $W_1$ computes a weighted sum of all its pixels: a
# **convolution whose kernel is as large as the image**, with a single output position. The convolution is *depth-wise*, since it
# uses one channel at a time, and its kernels are *shared*, since every channel has the same ones. Then $W_2$ maps the $d_s$ numbers
# of a channel back to $N$: a 1 × 1 convolution in $d$ groups, one for each channel, again with shared kernels. Channel mixing is an
# ordinary 1 × 1 convolution.
#
# `F.conv2d(…, groups=d)` gives the first kernels to the first channel, the next to the second, and so on.
#
# | name | shape |
# | --- | --- |
# | first, first_bias | (d · d_s, 1, H, W), (d · d_s,) |
# | second, second_bias | (d · N, d_s, 1, 1), (d · N,) |

# %% exercise="13.6" difficulty="●●●" minutes=12
from course_lib.blocks import token_mixing_kernels

# %% tags=["nbval-check-output"]
token_mixing_kernels = check("13.6", token_mixing_kernels)

# %% [markdown]
# The trained Mixer, computed by four convolutions in each block:


# %%
def block_of_convolutions(x, tokens, channels, norms):
    """A Mixer block as a convolutional network, for 4 × 8 places."""

    def image(features, norm):
        return rearrange(layer_norm(features, *norm), "B (H W) d -> B d H W", H=4)

    d, (W_3, b_3, W_4, b_4) = x.shape[-1], channels
    kernels = token_mixing_kernels(*tokens, d, 4, 8)
    hidden = F.conv2d(
        image(x, norms[0]), kernels.first, kernels.first_bias, groups=d
    )  # (B, d · d_s, 1, 1)
    mixed = F.conv2d(F.gelu(hidden), kernels.second, kernels.second_bias, groups=d)
    x = x + rearrange(mixed, "B (d N) 1 1 -> B N d", d=d)
    hidden = F.conv2d(image(x, norms[1]), W_3[..., None, None], b_3)
    changed = F.conv2d(F.gelu(hidden), W_4[..., None, None], b_4)
    return x + rearrange(changed, "B d H W -> B (H W) d")


as_cnn = PuzzleMixer(block_of_convolutions).to(device()).eval()
as_cnn.load_state_dict(mixer.state_dict())
with torch.no_grad():
    gap = (as_cnn(unseen.images) - mixer(unseen.images)).abs().max()
print(f"largest difference of two marks: {gap:.0e}")

# %% tags=["guard", "nbval-check-output"]
claim("13.p", gap=gap)

# %% [markdown]
# Is the Mixer free of convolutions, then? According to its authors, it can be seen, "in the extreme case", as "a very special CNN":
#
# | Property | a usual convolution | token mixing |
# | --- | --- | --- |
# | receptive field of one layer | neighbours | the whole image |
# | slides over the places | yes | no: it has a single output position |
# | kernels of two channels | differ | are the same |
# | adds up over channels | yes | no: channel mixing does |
# | image of another size | yes | no: $W_1$ has $N$ columns |

# %% [markdown]
# ## Parameters and multiply-adds
#
# How many parameters does a Mixer have? The size of the token network does not depend on the number of channels, nor that of the
# channel network on the number of places. Count the layer that embeds a patch of $d_p$ numbers; in each of $L$ blocks, two networks
# of two layers with biases, and two norms (gain and bias); one more norm; a classification head, if there is one.
#
# The paper's table 1 gives sizes and counts from Mixer-S/32, with 19 million parameters, to H/14, with 431 million.
#
# | name | stands for |
# | --- | --- |
# | d_model, d_tokens, d_channels | $d$, $d_s$, $d_c$ |
# | n_layers, n_patches, d_patch, n_classes | $L$, $N$, $d_p$, classes of the head (0 = no head) |

# %% exercise="13.7" difficulty="●○○" minutes=8
from course_lib.metrics import mixer_parameters

# %% tags=["nbval-check-output"]
mixer_parameters = check("13.7", mixer_parameters)

# %%
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
print("millions of parameters:", *millions)

# %% tags=["guard", "nbval-check-output"]
claim("13.t", millions=tuple(millions))

# %% [markdown] tags=["predict"]
# **Predict.** Now count multiply-adds. An image is cut into four times as many patches, while the widths of all networks stay the
# same. What happens to the multiply-adds of attention (without its projections) and of token mixing?
#
# <details><summary>A. Both increase fourfold.</summary>
#
# Attention compares every place with every other, and there are sixteen times as many pairs.</details>
# <details><summary>B. Attention increases sixteenfold, token mixing fourfold.</summary>
#
# Yes: token mixing takes $2 N d_s$ for each channel. Its price is that the width $d_s$ is fixed, and that the weights fit only one
# image size.</details>
# <details><summary>C. Both increase sixteenfold: both connect every place with every other.</summary>
#
# A Mixer connects them through $d_s$ hidden units, and $d_s$ need not grow with the number of places.</details>

# %%
images = {n: torch.zeros(1, n, 32) for n in (49, 196)}
of_attention = [
    multiply_adds(scaled_dot_product_attention, x, x, x) for x in images.values()
]
of_mixing = [multiply_adds(TokenMixing(n, 128), x) for n, x in images.items()]
for n, attended, mixed in zip(images, of_attention, of_mixing, strict=True):
    print(f"{n} patches: attention {attended:,}, token mixing {mixed:,}")

# %% tags=["guard", "nbval-check-output"]
claim(
    "13.growth",
    attention=of_attention[1] / of_attention[0],
    mixing=of_mixing[1] / of_mixing[0],
)

# %% [markdown] tags=["predict"]
# ## What can be left out
#
# **Predict.** The control of section 4 left out token mixing. What if *channels* are not mixed? And what if the GELU between $W_1$
# and $W_2$ is removed, so that token mixing is a single linear map?
#
# <details><summary>A. Without the GELU it fails: a linear map cannot take an absolute value.</summary>
#
# It can subtract the counterparts. The GELU of channel mixing then takes the absolute value.</details>
# <details><summary>B. Without channel mixing it fails: the channels are never compared.</summary>
#
# Token mixing takes the absolute difference of each channel, and the head adds them up.</details>
# <details><summary>C. Each alone costs little.</summary>
#
# Yes. The puzzle needs a difference between places, one bend, and a sum over channels, and each of the two networks has a
# bend.</details>


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


torch.manual_seed(0)
unmixed = learn(PuzzleMixer(no_channel_mixing).to(device()), known, lr=1.2e-2)
torch.manual_seed(0)
linear = learn(PuzzleMixer(linear_token_mixing).to(device()), known, lr=1.2e-2)

# %% tags=["nbval-check-output"]
ablated = {"mixer": mixer, "unmixed": unmixed, "linear": linear}
claim("13.ablated", **{key: accuracy(it, unseen) for key, it in ablated.items()})

# %% [markdown] tags=["try-it"]
# ## Build it: an MLP-Mixer
#
# **Build task (30 minutes, 12 points).** Write a complete MLP-Mixer and the loop that trains it, starting from an empty cell, for
# puzzles behind other bundles of cables. Define the classes and functions that you need above `train_mixer`, in the same cell. You may use torch's layers and your own functions from above, but not the library's `Mixer`.
#
# The check plugs in a bundle of its own and calls `train_mixer(images, marks, n_steps)` once, with 3,000 puzzles behind it, their
# pixels scaled as in `loss_of`, the marks, and `n_steps=300`. It evaluates the returned model on 400 unseen puzzles. The function
# has at most 60 seconds of processor time; a good solution needs about three seconds.
#
# | name | value |
# | --- | --- |
# | patches | 6 × 6 pixels: $N = 32$ positions |
# | $d$, $d_s$, $d_c$, $L$ | 24 channels, hidden widths 64 and 48, two blocks |
#
# To see whether the weights are shared, the check also calls the two networks of your first block. With a second argument,
# `model(x, tokens)` takes features (B, 32, 24) instead of images. If `tokens` is true, it returns the output of the
# token-mixing network for them, otherwise that of the channel-mixing network, in both cases without norm and residual
# connection.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the model maps images (B, 3, 24, 48) to logits (B, 32), above 0 for patches that differ, and features to features as described |
# | 1 | at most `n_steps` updates and at most 17,000 weights |
# | 1 | each update uses only its own gradients, and every trained weight has a gradient |
# | 1 | the loss falls during training (or the model has learned without it) |
# | 1 | the returned model gives the same logits for the same image |
# | 1 | the logits of one image do not depend on the other images of the batch; one image alone gets logits (1, 32) |
# | 1 | each token is a square patch, and every patch has an influence on the logits |
# | 1 | token mixing: one network, the same for all channels, processes each channel separately; all positions influence each other, with different weights, and a nonlinear function between its layers; each norm is over the features of a position |
# | 1 | channel mixing: one network, the same for all positions, processes each position separately; all channels influence each other, with a nonlinear function between its layers |
# | 1 | at least 15,000 weights, as two blocks with both networks have |
# | 1 | right marks on unseen puzzles: at least 0.82, more than plain pixel distances give (section 4) |
# | 1 | it has found which patches belong together: at least 20 of 32 marks change most, besides with their own patch, with its counterpart (section 6) |
#
# The formula of exercise 13.7 gives the number of weights of a Mixer of these sizes: compare it with that of your model.

# %%
print(f"{mixer_parameters(24, 64, 48, 2, 32, 108, 1):,} parameters")

# %% exercise="13.8" difficulty="●●●" minutes=30
from course_tools.bank.lecture_13.train_mixer import train_mixer

# %% tags=["nbval-check-output"]
train_mixer = check("13.8", train_mixer)

# %% [markdown]
# What has *this* Mixer found? Plug in a third bundle, train on puzzles behind it, and measure, as in section 6, which patches the
# marks depend on. The map on the right is sorted by the true order, which the training never reads.

# %%
third = draw_bundle(1)
puzzles, new = (
    Puzzles(*(part.cpu() for part in through_bundle(drawn, *third)))
    for drawn in (in_order, unseen_in_order)
)
torch.manual_seed(0)
own = train_mixer(4 * puzzles.images - 2, puzzles.differs, 300)
of_own = dependence(own, new.images[:200])
figures.show_dependence(of_own, third.order)
paired = of_own.fill_diagonal_(0).argmax(1) == counterparts(third.order)
print(
    f"unseen puzzles: {whose(train_mixer)} Mixer has {accuracy(own, new):.3f} right "
    f"marks, and has found {paired.sum()} of 32 counterparts"
)

# %% [markdown] tags=["companion"]
# ## Papers and decks
#
# **Papers.** Tolstikhin et al. 2021, *MLP-Mixer: An all-MLP Architecture for Vision*, eq. 1, table 1, section 3.4
# (https://arxiv.org/abs/2105.01601) · Hendrycks and Gimpel 2016, *Gaussian Error Linear Units*, section 2
# (https://arxiv.org/abs/1606.08415).
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | CS | MLP-Mixer | 3 Channel mixing, and the block | `course_lib.blocks.mixer_block`, `course_lib.models.Mixer` |

# %% tags=["ledger"]
ledger()
