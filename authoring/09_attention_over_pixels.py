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
# A non-local block lets every position of a picture, or of a video, ask every other.
#
# The name comes from a filter of 2005 that restores a pixel from all pixels of the photograph that look like it. You will write
# the operation and the block, and train a network that colours grey creatures: each has to find its kind among the coloured
# ones, wherever that is.
#
# **Prerequisites:** lecture 04 (dot-product attention) and the basics of convolutional networks.
# **Time:** {minutes}. {measured}
#
# ![](diagram:non_local)

# %%
import math
from statistics import mean

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.analysis import Arrows, strongest_arrows
from course_lib.attention import Attended, ContextOnly, associative_dot_product
from course_lib.attention import attend, co_occurrent_features, non_local_block
from course_lib.attention import non_local_concatenation, non_local_dot_product
from course_lib.attention import non_local_embedded_gaussian, split_heads
from course_lib.attention.non_local import Map, PixelFeatures
from course_lib.datasets import photographs
from course_lib.shapes import Keys, Queries, Values, Weights
from course_lib.training import train
from course_tools.lectures.lecture_09 import figures, rival, rivals
from course_tools.lectures.lecture_09.crowd import draw_crowds, new_crowds
from course_tools.lectures.lecture_09.crowd import share_right
from course_tools.notebook import check, claim, device, explore, ledger
from course_tools.notebook import peak_memory, predict, progress, show_study, source
from course_tools.notebook.recorded_studies import recorded
from course_tools.notebook.seed_scores import paired_differences, show_seeds

# %% [markdown]
# ## 1 What colour is this creature?
#
# Below is a crowd of creatures of 5 × 5 pixels. Four of them have a colour, one of each **kind**; the others are grey. Give every
# grey creature the colour of its kind. The kinds are drawn anew for every picture, at random from 14,029 drawings, of which
# 1,000 are kept for the test. So nobody can learn how the kinds look: they have to be compared.
#
# First comes a network that could do it by convolutions. Its first layer turns each cell into a vector; then come three
# residual convolutions of 3 × 3 over the 5 × 5 cells, one of them dilated, so that every cell sees every other; then a hidden
# layer and a colour for each cell. `learn` is the loop of the whole lecture: 32 new crowds in every update, Adam, a learning
# rate that rises for a tenth of the updates and then falls linearly, gradients clipped at 1.


# %%
def loss_of(model, crowds):
    """The squared error of the colours that a model gives to the grey creatures."""
    colours = model(2 * crowds.images - 1).flatten(2).mT  # (n, 25, 3)
    return F.mse_loss(colours[crowds.is_grey], crowds.colours[crowds.is_grey])


def learn(model, steps=600, lr=5e-3):
    """Train a model on new crowds in every update; return it."""
    model, warmup = model.to(device()), steps // 10
    run = train(model, new_crowds(0), loss_of, steps=steps, lr=lr, warmup=warmup)
    for _ in progress(run, "training", total=steps):
        pass
    return model.eval()


@torch.no_grad()
def answers(model):
    """The colours (n, 3, 5, 5) that a model gives to the cells of the unseen crowds."""
    return model(2 * unseen.images - 1)


source(draw_crowds)
unseen = draw_crowds(500, torch.Generator().manual_seed(100), unseen=True)

source(rivals.dilated)
torch.manual_seed(0)
dilated = learn(rivals.dilated(), lr=2e-3)
figures.show_painted(unseen, {"convolutions": answers(dilated)})

# %% [markdown] tags=["predict"]
# A colour is right if, of the four, it is nearest to that of the kind. The network sees the whole picture, and after 600 updates it is
# right about one creature in four, as a guess is. It needs far more time; section 5 gives it more.
#
# **Predict.** A network that does not compare two creatures minimises its squared error. Which colour does it give to a grey
# creature?
#
# <details><summary>A. The mean of the colours that are possible, something dull.</summary>
#
# Yes. All are equally likely, and the mean has the least squared error. Which of the four it is nearest to is chance: it is right
# about one time in four.</details>
# <details><summary>B. One of the four colours, at random.</summary>
#
# That is as often right, but its squared error is larger.</details>
# <details><summary>C. The colour of the nearest coloured creature.</summary>
#
# It is right one time in four as well, whatever the distance: places are drawn at random.</details>

# %% [markdown]
# A convolution has a weight for each *offset* between two cells. To compare a creature with one that is two cells to the left, it
# needs features for that offset, and others for every other offset. And far cells meet late: with 3 × 3, a layer sees one cell further,
# so from corner to corner of a map of 56 × 56 it takes 55 layers. We need *one* layer in which any two cells are compared, all in the same way.
#
# ## 2 Non-local means
#
# Denoising had this idea in 2005. A **local** mean replaces a pixel by the mean of its neighbours. **Non-local means** (Buades,
# Coll and Morel) replaces it by a mean over the *whole photograph*, in which those pixels have weight whose surroundings look
# alike. With $P_i$ for the patch around pixel $i$, and $v_j$ for the colour of pixel $j$:
#
# $$y_i = \sum_{j \ne i} w_{ij}\, v_j \qquad w_{ij} = \operatorname{softmax}_j\Big(-\frac{\lVert P_i - P_j\rVert^2}{2h^2}\Big)$$
#
# Both are one call of `attend(scores, values)`: a softmax over the keys, then the weighted mean. Only the scores differ: `near` scores two
# pixels by their distance, `alike` by their patches. Added up, they give a pixel weight that is both near and alike. For patches of a
# single pixel this sum is the **bilateral filter**. All widths are those with the least error.
#
# (Photograph: `china.jpg` by danielbuechele, [CC BY 2.0](https://creativecommons.org/licenses/by/2.0/), scaled down.)


# %%
def near(image, width):
    """Score all pairs of pixels of an image (3, H, W) by how near they are: (N, N)."""
    places = torch.cartesian_prod(*(torch.arange(float(n)) for n in image.shape[1:]))
    return -torch.cdist(places, places).square() / (2 * width**2)


def alike(image, size, h):
    """Score all pairs of pixels by how alike the patches around them are: (N, N)."""
    patches = F.unfold(F.pad(image[None], (size // 2,) * 4, mode="reflect"), size)
    patches = patches[0].mT  # (N, 3 · size²)
    return -torch.cdist(patches, patches).square() / (2 * h**2)


photo = photographs((48, 72))[0]
noise = torch.randn(photo.shape, generator=torch.Generator().manual_seed(0))
noisy = photo + 0.1 * noise
scores = {
    "local": near(noisy, 0.8),
    "bilateral": near(noisy, 1.5) + alike(noisy, 1, 0.3),
    "near and alike": near(noisy, 6.0) + alike(noisy, 3, 0.4),
    "non-local": alike(noisy, 3, 0.25),
}
scores["non-local"].fill_diagonal_(-torch.inf)  # a pixel would be most like itself
images = {"noisy": noisy}
for name, of_pairs in scores.items():
    context, weights = attend(of_pairs, noisy.flatten(1).mT)
    images[name] = context.mT.view_as(photo)
row, column = 33, 22
ringed = weights[row * 72 + column].view(48, 72)
figures.show_non_local_means(images, photo, ringed, row, column)

# %% [markdown] tags=["predict"]
# The weights of the ringed pixel lie on the dark parts of the tower and of the trees, wherever a patch looks like its own.
# This is attention: the patch is query and key, the colour is the value. Content is better than nearness here, both together
# are better than either (lecture 10 builds on this), and a patch says more than a pixel. In a crowd, nearness says nothing.
#
# **Predict.** We paint the crowds in the same way: a cell is a patch, and each cell gets a mean of the colours of the other
# cells, weighted by how alike their *pixels* are. What colour does a grey creature get?
#
# <details><summary>A. That of its kind: the drawings are equal.</summary>
#
# The drawings are, but the other grey ones of its kind are nearer still: their greys are nearer to its own than any colour.</details>
# <details><summary>B. Mostly grey.</summary>
#
# Yes: most like a grey creature are the other grey ones of its kind. What *should* count as alike, and which cells to copy from,
# the pixels do not tell.</details>
# <details><summary>C. The mean of all cells.</summary>
#
# Only if h is very large.</details>

# %%
source(rivals.by_pixels)
by_pixels = {h: rivals.by_pixels(unseen.images, h) for h in (0.5, 1.0, 2.0, 4.0)}
right_by_pixels = {h: share_right(c, unseen) for h, c in by_pixels.items()}
print("painted right:", {h: round(s, 2) for h, s in right_by_pixels.items()})
figures.show_painted(unseen, {"h = 1": by_pixels[1.0]})

# %% [markdown]
# Told that only the shape counts, and that a grey creature must not be asked, the same filter is right every time (section 5 measures
# it). **A non-local block learns what counts as alike.**
#
# ## 3 The non-local operation
#
# Let $x_i$ be the features at position $i$. Wang et al. 2018 compare *learned* projections of them:
#
# $$y_i = \frac{1}{Z_i} \sum_j f(x_i, x_j)\, g_j \qquad g_j = W_g x_j$$
#
# The **embedded Gaussian** has $f = e^{\theta_i^\top \phi_j}$ with $\theta = W_\theta x$, $\phi = W_\phi x$ and
# $Z_i = \sum_j f(x_i, x_j)$. **By hand:** a grey creature has the query θ = (2, 1), and there are three keys:
#
# | creature | key φ | score θ·φ | exp | weight | value g |
# | --- | --- | --- | --- | --- | --- |
# | red, same kind | (2, 1) | 5 | 148.41 | 0.881 | (1, 0, 0) |
# | blue, another kind | (2, −1) | 3 | 20.09 | 0.119 | (0, 0, 1) |
# | green, another kind | (−2, 1) | −3 | 0.05 | 0.000 | (0, 1, 0) |
#
# The context is y = (0.881, 0.000, 0.119): almost red. For all positions at once, θ, φ and g are matrices with a row for each
# position, and $y = \operatorname{softmax}(\theta \phi^\top)\, g$: the attention of lecture 04 without the factor
# $1/\sqrt{d_k}$.
#
# | name | shape |
# | --- | --- |
# | x | (…, N, C): N positions with C features |
# | W_θ, W_φ | (d_k, C) |
# | W_g | (d, C) |
# | context, weights | (…, N, d), (…, N, N) |

# %% exercise="09.1" difficulty="●○○" minutes=8
from course_lib.attention import non_local_embedded_gaussian

# %% tags=["nbval-check-output"]
non_local_embedded_gaussian = check("09.1", non_local_embedded_gaussian)

# %%
x = torch.randn(2, 35, 13)
W_theta, W_phi, W_g = (torch.randn(n, 13) / 13**0.5 for n in (7, 7, 5))
q, k, v = (x @ W.mT for W in (W_theta, W_phi, W_g))
as_in_lecture_04 = F.scaled_dot_product_attention(q * math.sqrt(7), k, v)
mine = non_local_embedded_gaussian(x, W_theta, W_phi, W_g)[0]
torch.testing.assert_close(mine, as_in_lecture_04, atol=1e-4, rtol=1e-4)

# %% [markdown]
# ## 4 The non-local block
#
# $W x$ at every position is a convolution of 1 × 1, and that is how the matrices are usually written. Nothing in the operation knows
# where a position is: permute the cells, and the answers are permuted with them. A convolution needs separate weights for each
# offset.
#
# The block adds the context to its input: $z_i = W_z y_i + x_i$. With $W_z = 0$ it is the identity. So it can be put into a
# trained network without changing what that network does, and it learns from there. Inside the block, $d$ is smaller than C,
# usually C/2: a **bottleneck**. In the paper, keys and values are also max-pooled 2 × 2, and $W_z$ is followed by a batch normalisation
# whose gain starts at 0, instead of $W_z = 0$.
#
# Videos need no new mechanism: the positions are all pixels of all frames, $N = T \cdot H \cdot W$.
#
# | name | shape |
# | --- | --- |
# | x | (B, C, H, W), or (B, C, T, H, W), or (B, C, T) |
# | W_θ, W_φ, W_g, W_z | (d_k, C), (d_k, C), (d, C), (C, d) |
# | result | the shape of x |

# %% exercise="09.4" difficulty="●●○" minutes=12
from course_lib.attention import non_local_block

# %% tags=["nbval-check-output"]
non_local_block = check("09.4", non_local_block)

# %% [markdown]
# **Bug hunt.** This block was written for images and then extended to videos. It runs, and every shape is right. Which
# positions can a pixel of the first frame never attend to? Decide before you run the check.

# %% exercise="09.4" bug="keeps_the_times_apart"
from course_tools.bank.lecture_09.non_local_block import (
    keeps_the_times_apart as suspect,
)

# %% tags=["nbval-check-output"]
suspect = check("09.4", suspect)

# %% [markdown] tags=["predict"]
# Let us put the block into the network of section 1, which is trained, before its last layers.
#
# **Predict.** $W_z$ is 0, the other three matrices are random. Which of the four has a gradient other than 0 in the first update?
#
# <details><summary>A. All four.</summary>
#
# The effect of W_θ, W_φ and W_g on the loss goes through W_z, which is 0.</details>
# <details><summary>B. W_z alone.</summary>
#
# Yes. After its first update W_z is no longer 0, and the gradient reaches the others through it.</details>
# <details><summary>C. None: the block changes nothing, so nothing can be learned.</summary>
#
# The output does not depend on y yet, but it would if W_z changed.</details>

# %%
names, W_z = ("W_θ", "W_φ", "W_g"), torch.zeros(64, 32, device=device())
W = [torch.randn(32, 64, device=device()) / 8 for _ in names]
for matrix in (*W, W_z):
    matrix.requires_grad_()
colours = dilated[-1](non_local_block(dilated[:-1](2 * unseen.images - 1), *W, W_z))
torch.testing.assert_close(colours, answers(dilated))  # the same as without the block
F.mse_loss(colours.flatten(2), unseen.colours.mT).backward()
for name, matrix in zip((*names, "W_z"), (*W, W_z), strict=True):
    print(f"{name}: gradient of norm {matrix.grad.norm().item():.4f}")

# %% [markdown]
# ## 5 Every creature asks every other
#
# `Painter` has your block between the first and the last layers of the convolutional network. Nothing else changes: the block, with 8,192
# parameters, stands where the three convolutions, with 123,648, stood.
# It gets 1,200 updates, twice as many; the study below gives all networks the same.


# %% tags=["cover"]
class Painter(nn.Module):
    """Features of each cell, one non-local block, a colour for each cell."""

    def __init__(self, d=64, d_k=32, d_v=32):
        super().__init__()
        self.patches, self.head = rivals.patches(d), rivals.head(d)
        self.W_theta, self.W_phi, self.W_g = (
            nn.Parameter(torch.randn(n, d) / d**0.5) for n in (d_k, d_k, d_v)
        )
        self.W_z = nn.Parameter(torch.zeros(d, d_v))

    def forward(self, images):
        x = self.patches(images)  # (B, d, 5, 5)
        W = self.W_theta, self.W_phi, self.W_g, self.W_z
        return self.head(non_local_block(x, *W))


source(rivals.patches)
torch.manual_seed(0)
painter = learn(Painter(), steps=1_200)
painting = {"convolutions": answers(dilated), "non-local block": answers(painter)}
figures.show_painted(unseen, painting)

# %% tags=["nbval-check-output"]
right = share_right(answers(painter), unseen)
by_ink = share_right(rivals.by_pixels(unseen.images, 1.0, by_ink=True), unseen)
most = max(right_by_pixels.values())
claim("09.painter", right=right, by_pixels=most, by_ink=by_ink)

# %% [markdown]
# Is attention needed, or only more time? A recorded study trains these networks for 2,000 updates with three seeds, the rivals at the
# best of several learning rates. All but the narrow one have the same first and last layers; between them stand:
#
# | network | what a cell gets from the others | weights |
# | --- | --- | --- |
# | non-local block | a mean of their values, weighted by θ·φ | 8,192 |
# | summary | the largest value of each feature in the picture, then a hidden layer | 12,416 |
# | dilated convolutions | all cells, with weights for each offset | 123,648 |
# | narrow convolutions | the same; narrow throughout, so that the whole network is as large as that with the block | 39,312 |

# %% [markdown] tags=["predict"]
# **Predict.** Which of the four must learn the comparison of two creatures anew for every offset between them?
#
# <details><summary>A. The summary: it does not know where a creature is.</summary>
#
# For that very reason it need not. It brings all creatures to one place, whatever the distance, and one hidden layer compares a
# cell with it. But that layer has to learn the comparison for all drawings at once, where attention compares two at a time.</details>
# <details><summary>B. The convolutions, both of them.</summary>
#
# Yes. Their weights belong to offsets: what they learn about two cells does not apply to two cells at another offset.</details>
# <details><summary>C. None: all of them see everything that is needed.</summary>
#
# They do, and their hidden layers can compare, too. But what is learned at one offset helps at another only if the weights are
# shared.</details>

# %% [markdown] tags=["predict"]
# And which scores find the kind? Three controls keep the block and its recipe, and change only these. *Keys alone*: θ is the same for
# all cells, so that a key has one weight for every query. *One number of each*: ReLU(a + b), with a number a of the query and b
# of the key (the paper's concatenation form). *A hidden layer over both*: vᵀ tanh(θ + φ), the additive attention of lecture 02.
#
# **Predict.** Which of them finds the kind of a new creature?
#
# <details><summary>A. Keys alone: the values still carry colours and drawings.</summary>
#
# Every grey creature then gets the *same* mixture, and has to find its colour in it by one hidden layer.</details>
# <details><summary>B. One number of each: the score knows both the query and the key.</summary>
#
# A larger a lets more keys pass the ReLU, but in an order that is the same for every query.</details>
# <details><summary>C. The hidden layer.</summary>
#
# Yes. It can learn to be large where query and key are alike. A product θ·φ is one way to compare them, not the only one.</details>

# %%
source(rivals.AdditivePainter)
study = show_study("09_crowd")

# %% tags=["nbval-check-output"]
block = study.scores("non-local block", "right")
convolutions = study.scores("dilated convolutions", "right")
narrow = study.scores("dilated convolutions, narrow", "right")
pooled = study.scores("max pooling and a hidden layer", "right")
later = recorded("09_summary").scores("summary", "right")
networks = {"block": block, "convolutions": convolutions, "narrow": narrow}
claim("09.crowd", **networks, pooled=pooled, later=later)
hidden = study.scores("non-local block, a hidden layer over both", "right")
added = study.scores("non-local block, query and key added", "right")
keys = study.scores("non-local block, keys alone", "right")
claim("09.comparison", hidden=hidden, added=added, keys=keys)

# %% [markdown]
# **The non-local block is the right tool here because the answer stands at one other place, and which place depends on a
# comparison of two things that are both new.** A product θ·φ makes this comparison for all pairs of cells, near or far. A hidden layer
# over query and key makes it as well, but it has to be computed for every pair; a product is a single multiplication of matrices. One
# number of each can only say how far down one common order of the keys a query reads; with the layers after it, that is enough for
# 0.61 to 0.85 of the creatures. (In the paper, on videos of actions, all forms gain about as much, table 2a.)
#
# The rivals get there slowly. After 10,000 updates the summary is where the block is after 400; narrow convolutions, with one
# seed, end at 0.67, and wider ones have 0.72 then and still gain: the block is there before 200. Keys alone gain little after 600: one
# mean, added to every cell, leaves the comparison to one hidden layer.

# %% [markdown] tags=["try-it"]
# **Try it.** Give `Painter` eight features for query and key (`d_k=8`) in place of 32, and train it again. A drawing has 15 free pixels
# (the other ten mirror them). Is its kind still found?
#
# <details><summary>Answer</summary>
#
# Yes, nearly always: eight numbers are enough to tell four drawings apart. With eight *values* as well (`d_v=8`), much depends on the
# seed.</details>

# %% [markdown]
# ## 6 Where it looks
#
# The paper shows, for one position, arrows to the positions with the largest weights. `topk` returns flat indices;
# to draw arrows we need frame, row and column. Positions are numbered frame by frame, row by row: index =
# (time · H + row) · W + column. **By hand:** in frames of 5 × 5, index 38 is 1 · 25 + 2 · 5 + 3: frame 1, row 2, column 3.
#
# | name | shape |
# | --- | --- |
# | weights | (…, N_q, N), N = T · H · W |
# | ends | (…, N_q, n, 3), integers: time, row, column |
# | their weights | (…, N_q, n), in descending order |

# %% exercise="09.5" difficulty="●●○" minutes=8
from course_lib.analysis import strongest_arrows

# %% tags=["nbval-check-output"]
strongest_arrows = check("09.5", strongest_arrows)


# %%
@torch.no_grad()
def looked_at(model):
    """The weights (n, 25, 25) of a model's block over the unseen crowds."""
    x = model.patches(2 * unseen.images - 1).flatten(2).mT
    W = model.W_theta, model.W_phi, model.W_g
    return Attended(*non_local_embedded_gaussian(x, *W)).weights


def ends_on_its_kind(weights):
    """How often the strongest arrow of a grey creature ends on its kind."""
    ends = strongest_arrows(weights, 1, 5, 5)[0][:, :, 0]  # (n, 25, 3)
    other = unseen.kinds.gather(1, (5 * ends[..., 1] + ends[..., 2]).to(unseen.kinds))
    return (other == unseen.kinds)[unseen.is_grey].float().mean()


def on_coloured(weights):
    """How much of its weight a grey creature gives to coloured ones, on average."""
    to_coloured = (weights * ~unseen.is_grey[:, None]).sum(-1)
    return to_coloured[unseen.is_grey].mean()


weights = looked_at(painter)
grey = unseen.is_grey[0].nonzero()[:, 0].tolist()
shown = {f"creature {number}": cell for number, cell in enumerate(grey[1::8], 1)}
figures.show_arrows(unseen, shown, weights[0])

# %% [markdown] tags=["predict"]
# Arrows to its kind look as if the block had learned to compare. What about a block *before* training?
#
# **Predict a number** (within 0.05). A crowd has four kinds. What share of the strongest arrows of grey creatures ends on a creature
# of their own kind, without any training?
#
# <details><summary>0.25</summary>
#
# As by chance. W_θ and W_φ are two random matrices: that two drawings are equal does not make the
# score of one query and the other key larger. This agreement is what training has to find.</details>
# <details><summary>1</summary>
#
# Equal drawings have equal features, but two different matrices project them. (It would be so if query and key were the same
# projection, as in the non-local means of section 2.)</details>
# <details><summary>0.04</summary>
#
# That is one creature of 25. But about a quarter of them are of its kind.</details>

# %% tags=["nbval-check-output"]
untrained = []
for seed in range(8):
    torch.manual_seed(seed)
    untrained.append(looked_at(Painter().to(device()).eval()))
trained = ends_on_its_kind(weights)
random = mean(ends_on_its_kind(each).item() for each in untrained)
claim("09.arrows", trained=trained, untrained=random, coloured=on_coloured(weights))

# %% [markdown]
# ## 7 Without a softmax
#
# The **dot-product** form drops the exponential: $f = \theta_i^\top \phi_j$, and $Z = N$, the number of keys. In the
# example by hand, the weights become 5/3, 1 and −1, and the context (1.67, −1, 1): green is subtracted, and the weights sum to 1.67. In return,
# the product of the three matrices can be computed in either order:
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
theta, phi, g = torch.randn(3, 1, 44 * 44, 16)
mine = associative_dot_product(theta, phi, g)[0]
theirs = non_local_dot_product(theta, phi, g).context
torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)
saved = peak_memory(lambda: non_local_dot_product(theta, phi, g)) / peak_memory(
    lambda: associative_dot_product(theta, phi, g)
)
claim("09.d", saved=saved)

# %% [markdown]
# The left form holds two matrices of 1,936 × 1,936 numbers, the scores and the scores divided by N. The right form holds none.
#
# And does this form find the right creature? Here it does: in the study above it ends where the softmax ends, after a slower
# start. The matrix $\phi^\top g = \sum_j \phi_j g_j^\top$ of 32 × 32 numbers is a memory: each creature writes its value
# $g_j$ under its key $\phi_j$, and a query reads $\sum_j (\theta^\top \phi_j)\, g_j$, the value of its own kind if the keys
# of other kinds are orthogonal to it. Lecture 14 is about this memory: how much goes in, and how it is read.

# %% [markdown] tags=["quiz"]
# ## 8 Exit quiz
#
# **Question 1.** Two grey creatures of different kinds change places. What happens to the colours that `Painter` gives?
#
# <details><summary>A. All of them change.</summary>
#
# Every creature still meets the same 25 keys, in another order, and a sum has no order.</details>
# <details><summary>B. Theirs change places, too, and no others change.</summary>
#
# Right: nothing in the block knows where a position is. Convolutions would see two new neighbourhoods.</details>
# <details><summary>C. None changes: the colour belongs to the place.</summary>
#
# It belongs to the query, and the query is made of the creature.</details>
#
# **Question 2.** The videos have twice the length, width and height. How much more memory do the softmax weights need?
#
# <details><summary>A. 8 times.</summary>
#
# There are 8 times as many positions, but the number of weights is quadratic in the number of positions.</details>
# <details><summary>B. 64 times.</summary>
#
# Right. The paper computes keys and values on a map of half the width and height, which makes it a quarter; the form without a softmax
# does not compute weights at all.</details>
# <details><summary>C. As much as before.</summary>
#
# The number of *parameters* is unchanged.</details>
#
# **Question 3.** A paper inserts five non-local blocks and gains one point. Which missing control matters most?
#
# <details><summary>A. The same network with five more convolutional blocks that see as far.</summary>
#
# Right: otherwise depth, parameters or the receptive field may explain the gain.</details>
# <details><summary>B. Another seed.</summary>
#
# More seeds are always welcome, but they do not show where the gain comes from.</details>
# <details><summary>C. A map of the weights.</summary>
#
# Such a map exists whether or not the block helps.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague wants to put a non-local block into a network that tells cats from dogs, and
# shows you arrows from one ear to the other: "It compares them." What do the arrows show, what do they not show, and for which
# kind of question would you recommend the block?*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says that a weight describes the mixing in one layer only |
# | 1 | compares with the arrows of an untrained block, as in section 6 |
# | 1 | uses section 5: two places must be compared, and both are new |
# | 1 | asks for a rival that sees as far, with as many parameters |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 9 What came of it
#
# - **One summary for all.** GCNet (Cao et al. 2019, https://arxiv.org/abs/1904.11492) found that in trained detectors the weights
#   of a non-local block hardly depend on the query, and kept one map for all queries. In our crowds they must: *keys alone* fail.
# - **Generated pictures.** The U-Net of DDPM (Ho et al. 2020, https://arxiv.org/abs/2006.11239) has such blocks in its maps of 16 × 16.
# - **Colours copied.** Vondrick et al. 2018 (https://arxiv.org/abs/1806.09594) train a network to colour a grey frame of a video
#   by pointing into an earlier one, as our painter does; the pointers then follow objects through the video.
# - **Attention alone.** The Vision Transformer (lecture 11) leaves out the convolutions. VGGT (Wang et al. 2025,
#   https://arxiv.org/abs/2503.11651) alternates attention within an image and over several, and reads depth and cameras from it.
#
# **Further reading.** Wang, Girshick, Gupta, He 2018, *Non-local Neural Networks*, eqs. 1 to 6, figures 2 and 3
# (https://arxiv.org/abs/1711.07971) · Buades, Coll, Morel 2005, *A Non-Local Algorithm for Image Denoising*
# (https://doi.org/10.1109/CVPR.2005.38).

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections. Each stands alone once the core has run, and their exercises are extra points.

# %% [markdown]
# ## Build it: a rival without attention
#
# **Build task (25 minutes, 12 points).** Two digits, each a 0, a 1 or a 2, lie at opposite borders of a canvas. Are they of the same
# class? It looks like a task for the block. But there are only three classes, and all are known.
#
# To refute the claim *comparing two distant digits needs attention*, one trains the **fairest rival**: a baseline without
# attention, but with the same number of parameters, the same images and the same number of updates. Larger strides, dilation,
# another kind of pooling: which of them makes the strongest rival?
#
# The canvases have 22 × 22 pixels. Each has two labels: *same or different*, and *does a 0
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
rival.print_examples(0)

# %% exercise="09.7" difficulty="●●●" minutes=25
from course_tools.bank.lecture_09.train_reach_rival import train_reach_rival

# %% tags=["nbval-check-output"]
train_reach_rival = check("09.7", train_reach_rival)

# %% [markdown]
# One run of each model is little evidence. The next cell repeats the comparison with two other seeds.

# %%
found = rival.compared(train_reach_rival, seeds=(1, 2))
show_seeds(found, "accuracy on unseen canvases", "two seeds", {"chance": 0.5})

# %% [markdown]
# A recorded study trains the block, here without a softmax and with the mean over the canvas, and two rivals on canvases of 44 × 44
# pixels for 2,400 updates, with three seeds.

# %% tags=["nbval-check-output"]
study = recorded("09_reach")
names = ("three convolutions", "one block", "three convolutions, max pooling")
canvases = {name: study.scores(name, "accuracy") for name in names}
show_seeds(canvases, "accuracy on unseen canvases", "", {"chance": 0.5})
pooled, block = (canvases[name] for name in reversed(names[1:]))
claim("09.m", pooled=min(pooled), block=min(block))

# %% [markdown]
# Max pooling leads after these updates. A feature that detects a stroke of a 2 has the same maximum for two 2s as for one, so the number of active
# features shows whether there are one or two classes. *Known* things can be counted; only new ones must be compared.
#
# ## The concatenation form
#
# The **concatenation** form scores a pair by a vector $w_f$ applied to the concatenated features: $f = \mathrm{ReLU}(w_f^\top
# [\theta_i ; \phi_j])$, with $Z = N$. With $w_f$ split into two halves, the score before the ReLU is a term that
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
# standardised colour values; the matrices are random, so nothing is learned here. The fourth, the **Gaussian** form, compares the
# features themselves: $f = e^{x_i^\top x_j}$, $Z_i = \sum_j f$. (Photograph: `flower.jpg` by vultilion, [CC BY
# 2.0](https://creativecommons.org/licenses/by/2.0/), scaled down.)

# %%
forms = figures.four_forms(non_local_embedded_gaussian, non_local_concatenation)
draw_forms = figures.weights_on_a_photograph(forms)
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
explore(draw_forms, row=(0, 29, 1), column=(0, 44, 1), sharpness=(0.5, 4.0, 0.5))

# %% [markdown]
# ## Videos
#
# A digit moves behind a wall, and either the same digit or a different one comes out on the other side. No single frame shows
# which of the two happened. In a recorded study, convolutions process each of four frames; then come the space-time block, or
# nothing, or a temporal convolution of the means of the frames, or max pooling over all frames in place of the mean.

# %% tags=["nbval-check-output"]
videos = recorded("09_video")
names = (
    "space-time block, softmax",
    "frames alone",
    "temporal convolution",
    "max pooling",
)
block, alone, temporal, pooled = (videos.scores(name, "accuracy") for name in names)
points = {"block": block, "frames alone": alone, "temporal": temporal, "max": pooled}
show_seeds(points, "accuracy on new videos", "1,200 updates", {"chance": 0.5})
claim("09.video", block=block, alone=alone, temporal=temporal, pooled=pooled)

# %% [markdown]
# The block connects the frames, and frames alone stay at chance. A mean over all positions of all frames connects them, too, and
# reaches 0.78 to 0.83; convolutions over time and space, 0.50 to 0.88. (Within these 1,200 updates the dot-product form began to
# learn with one seed of three.) But there are three known kinds of digits again, and the simple rivals learn it faster: one that
# counts kinds, and one that combines the means of the frames.
#
# ## Co-occurrent features
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

# %% exercise="09.6" difficulty="●●●" minutes=15
from course_lib.attention import co_occurrent_features

# %% tags=["nbval-check-output"]
co_occurrent_features = check("09.6", co_occurrent_features)

# %% [markdown] tags=["predict"]
# **Predict a number** (exactly). There are sixty positions, and $d_k = 4$. What is the rank of the 60 × 60 matrix of log-weights for
# a single softmax? (The next cell prints it, and that for a mixture of two.)
#
# <details><summary>5</summary>
#
# The scores are a product of rank 4, and the softmax subtracts a constant from each row of them: one more. This limitation is called
# the "softmax bottleneck". A mixture of two is not limited so: the logarithm of a *sum* of exponentials is not linear in the
# scores.</details>
# <details><summary>4</summary>
#
# That is the rank of the scores. The logarithm of the softmax subtracts a constant from each row.</details>
# <details><summary>60</summary>
#
# The matrix is that large, but each row is a combination of the four features of the keys and a row of ones.</details>

# %%
generator = torch.Generator().manual_seed(0)
positions = torch.randn(60, 5, dtype=torch.float64, generator=generator)
W_k, W_v = torch.randn(2, 4, 5, dtype=torch.float64, generator=generator)
W_pi = torch.randn(2, 4, dtype=torch.float64, generator=generator)
logs = [
    co_occurrent_features(positions, W_k, W_v, W_pi[:n])[1].double().log()
    for n in (1, 2)
]
one, two = (torch.linalg.matrix_rank(each, rtol=1e-9).item() for each in logs)
print(
    f"rank of the log-weights: {one} for a single softmax, {two} for a mixture of two"
)

# %% [markdown]
# **Segmentation.** Do these features help to classify pixels? The *intersection over union* (IoU) of a class is the number of
# pixels that both prediction and label assign to it, divided by the number that at least one of them does. The **mIoU** is its
# mean over the classes. Of three digits on a canvas, two belong to the same class: *is this pixel part of one of the two?* One
# digit alone does not show this. The recorded study trains `course_lib.models.Segmenter` with co-occurrent features, and with
# three rivals: no context, the mean of the image, and strided convolutions with twice the parameters.

# %% tags=["nbval-check-output"]
pixels = recorded("09_segmentation")
names = ("co-occurrent and mean", "mean", "no context", "strided convolutions")
both, mean_alone, no_context, strided = (pixels.scores(n, "mIoU") for n in names)
points = {"both": both, "mean": mean_alone, "no context": no_context}
points["strided"] = strided
show_seeds(points, "mIoU on unseen canvases", "1,600 updates", {"one class": 0.33})
claim("09.mIoU", least=min(paired_differences(both, no_context)))
claim("09.mIoU-mean", average=mean(paired_differences(both, mean_alone)))

# %% [markdown]
# Context helps, and here the mean of the image gives as much as the co-occurrent features with it: a class that occurs twice
# raises the mean of its features. (Co-occurrent features without it have 0.60 to 0.65. The strided convolutions depend most on
# the seed.) A plain non-local block has 0.44 to 0.60 after these 1,600 updates and still rises. The paper segments photographs,
# with many classes and a pre-trained network, which this study does not test.

# %% [markdown] tags=["companion"]
# ## Papers and decks
#
# **Papers.** Wang, Girshick, Gupta, He 2018, *Non-local Neural Networks*, eqs. 1 to 6, figures 2 and 3
# (https://arxiv.org/abs/1711.07971) · Zhang, Zhang, Wang, Xie 2019, *Co-occurrent Features in Semantic Segmentation*, section 3
# (CVPR 2019) · Yang, Dai, Salakhutdinov, Cohen 2018, *Breaking the Softmax Bottleneck* (https://arxiv.org/abs/1711.03953) ·
# Kim, Papamakarios, Mnih 2021, *The Lipschitz Constant of Self-Attention* (https://arxiv.org/abs/2006.04710).
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | EE | Attention in computer vision: non-local blocks | 3 The non-local operation | `course_lib.attention.NonLocal`, `course_lib.attention.NonLocalBlock`, `course_lib.analysis.strongest_arrows` |
# | CS | Attention for Semantic Segmentation | Co-occurrent features | `course_lib.attention.co_occurrent_features`, `course_lib.models.Segmenter` |

# %% tags=["ledger"]
ledger()
