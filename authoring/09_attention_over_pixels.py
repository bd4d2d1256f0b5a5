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
# **The claim.** Whether two digits at opposite borders are of one kind is a question about *two* places. A small convolutional
# network that averages its map hardly beats a coin, and two more convolutions, with several times the parameters of one block, do
# not help; one non-local block does. But the block owns no secret: let the same network take the *largest* value of each feature
# in place of the mean, and it answers without any attention.
#
# **You need** lecture 04 (dot-product attention, attention over an image) and a little about convolutions. **Time:** about 75
# minutes. {measured}
#
# **Papers.** Wang, Girshick, Gupta, He 2018, *Non-local Neural Networks*, eqs. 1 to 6, figures 2 and 3
# (https://arxiv.org/abs/1711.07971) · Zhang, Zhang, Wang, Xie 2019, *Co-occurrent Features in Semantic Segmentation*, section 3
# (CVPR 2019) · Yang, Dai, Salakhutdinov, Cohen 2018, *Breaking the Softmax Bottleneck* (https://arxiv.org/abs/1711.03953).
#
# **Decks.** EE-559 13.2 · CSE 891: the table below leads from their sections to ours.

# %% [markdown] tags=["companion"]
# <details><summary>Which sections of the decks this follows, and where the library holds them</summary>
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | EE | Attention in computer vision: non-local blocks | 2 Every place looks at every place | `course_lib.attention.NonLocal`, `course_lib.attention.NonLocalBlock`, `course_lib.analysis.strongest_arrows` |
# | CS | Attention for Semantic Segmentation | 8 What occurs together | `course_lib.attention.co_occurrent_features`, `course_lib.models.Segmenter` |
#
# </details>

# %%
import math
from statistics import mean

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.analysis import Arrows
from course_lib.attention import Attended, NonLocal, NonLocalBlock, attend, non_local_dot_product, split_heads
from course_lib.attention.non_local import Map, PixelFeatures
from course_lib.blocks import ConvNet
from course_lib.datasets import moving_digits, photographs, same_or_different
from course_tools.notebook import check, predict
from course_lib.shapes import Keys, Queries, Values, Weights
from course_tools.notebook import at_scale, claim, device, explore, ledger, peak_memory, plots, progress, show
from course_lib.training import batches, train

SEEDS = (0,)

# %% [markdown]
# ## 1 Two digits, far apart
#
# Two digits, each a 0, a 1 or a 2, stand at opposite borders of a canvas, left and right or above and below. Are they of one
# kind? Never one drawing twice, so no comparison of pixels will do. And neither digit alone tells: a 2 is half of the time
# beside a 2.
#
# A network reads it: three convolutions make a map of 11 × 11 places with 32 features each. The map is *averaged*, and a linear
# layer answers.

# %% [markdown] tags=["predict"]
# **Predict.** Two answers, equally frequent. How often is the network right on digits that it never saw?
#
# <details><summary>A. Nearly always: digits are easy.</summary>
#
# To *name* them is easy. Here the mean of the map must say whether two names are equal.</details>
# <details><summary>B. As often as a coin.</summary>
#
# Yes, or nearly. Each feature of each place sees 15 × 15 pixels, so one digit. Its mean is what one digit adds, plus what
# the other adds: a *sum*, and a linear layer after it. "Equal" is no sum of what each has to say, as XOR is none.</details>
# <details><summary>C. Three quarters: it will guess well from one of them.</summary>
#
# One of them says nothing at all.</details>

# %%
side, STEPS = 44, at_scale(cpu=1_200, gpu=3_000)
scenes = same_or_different(at_scale(cpu=4_000, gpu=20_000), 1, 500, side=side, n_kinds=3, seed=SEEDS[0])
same = torch.nonzero(scenes.test.labels[:100])[:, 0]
by_ink = same[scenes.test.images[same].sum((1, 2, 3)).argsort()].tolist()
shown = [by_ink[0], by_ink[-1], int(scenes.test.labels.argmin())]
some = scenes.test.images[shown, 0]
titles = [
    f"{number}: {'same' if same else 'different'}" for number, same in enumerate(scenes.test.labels[shown].tolist(), start=1)
]
show(
    plots.pictures({title: image[..., None].expand(-1, -1, 3) for title, image in zip(titles, some, strict=True)}),
    alt=f"Three canvases of {side} × {side} pixels, each with two digits at opposite borders: {', '.join(titles)}.",
)


# %%
def network(*between, widths=(16, 32, 32), strides=(2, 2, 1), pool=nn.AdaptiveAvgPool2d):
    """Convolutions, what stands between, one number of each feature for the whole map, and a linear layer."""
    return nn.Sequential(ConvNet(1, widths, strides), *between, pool(1), nn.Flatten(), nn.Linear(widths[-1], 2))


def loss(model, batch):
    """Cross-entropy of a batch (pictures, labels)."""
    return F.cross_entropy(model(batch[0]), batch[1])


def fit(name, make, steps=STEPS):
    """Make a model, train it on batches of 16 pictures, the same for all; give it and its right answers on unseen ones."""
    torch.manual_seed(SEEDS[0])
    model = make().to(device())
    pictures, labels = (x.to(device()) for x in scenes.train)
    stream = batches(pictures, labels, batch_size=16, seed=SEEDS[0])
    for _ in progress(train(model, stream, loss, steps=steps, lr=3e-3, warmup=30), name, total=steps):
        pass
    model.eval()
    with torch.no_grad():
        said = torch.cat([model(part.to(device())).argmax(-1).cpu() for part in scenes.test.images.split(100)])
    return model, (said == scenes.test.labels).float().mean().item()


# %% tags=["nbval-check-output"]
plain, by_convolution = fit("three convolutions", network)
claim(
    "09.a",
    "same or different, three convolutions and the mean of their map: right answers, where a coin has a half",
    by_convolution,
    at_most=0.62,
)

# %% [markdown]
# ## 2 Every place looks at every place
#
# So let the places look at each other *before* they are averaged. With $x_i$ the features of place $i$, the paper writes all
# forms as one:
#
# $$y_i = \frac{1}{\mathcal C(x)} \sum_j f(x_i, x_j)\, g(x_j) \qquad g(x_j) = W_g x_j$$
#
# The **embedded Gaussian** takes $f = e^{\theta_i^\top \phi_j}$ with $\theta = W_\theta x$, $\phi = W_\phi x$, and
# $\mathcal C = \sum_j f$ (a number to divide by; plain C counts features). That is the softmax of lecture 04, without
# $1/\sqrt{d_k}$.
#
# | name | shape |
# | --- | --- |
# | x | (…, N, C): N places of C features |
# | W_θ, W_φ | (d_k, C) |
# | W_g | (d, C) |
# | context, weights | (…, N, d), (…, N, N) |

# %% exercise="09.1" difficulty="●○○" minutes=8
from course_lib.attention import non_local_embedded_gaussian

# %% tags=["nbval-check-output"]
non_local_embedded_gaussian = check("09.1", non_local_embedded_gaussian)

# %% tags=["nbval-check-output"]
generator = torch.Generator().manual_seed(SEEDS[0])
x = torch.randn(2, 35, 13, generator=generator)
W_theta, W_phi, W_g = (torch.randn(n, 13, generator=generator) / 13**0.5 for n in (7, 7, 5))
q, k, v = (x @ W.mT for W in (W_theta, W_phi, W_g))
as_in_lecture_04 = F.scaled_dot_product_attention(q * math.sqrt(7), k, v)
gap = (non_local_embedded_gaussian(x, W_theta, W_phi, W_g)[0] - as_in_lecture_04).abs().max().item()
claim(
    "09.b", "the embedded Gaussian and scaled dot-product attention whose queries are √d_k as long differ by", gap, at_most=1e-4
)

# %% [markdown]
# ## 3 Without a softmax, from the right
#
# The **dot product** form drops the exponential: $f = \theta_i^\top \phi_j$, and $\mathcal C = N$. Weights may be negative, and
# sum to anything. But look what is now allowed:
#
# $$y = \frac{(\theta \phi^\top)\, g}{N} = \theta\, \frac{\phi^\top g}{N}$$
#
# On the left stands a matrix of $N_q \times N$, on the right one of $d_k \times d$. A softmax between them would forbid it.
#
# | name | shape |
# | --- | --- |
# | θ | (…, N_q, d_k) |
# | φ, g | (…, N, d_k), (…, N, d) |
# | context | (…, N_q, d); the weights, never built, are None |

# %% exercise="09.2" difficulty="●●○" minutes=8
from course_lib.attention import associative_dot_product

# %% tags=["nbval-check-output"]
associative_dot_product = check("09.2", associative_dot_product)

# %% [markdown] tags=["predict"]
# **Predict.** A map of 44 × 44 places, 16 features inside. By what factor does the largest amount of memory in use fall?
#
# <details><summary>A. None: it is the same product.</summary>
#
# The same numbers come out. What lies in memory on the way is not the same.</details>
# <details><summary>B. By about 2.</summary>
#
# A matrix of N × N has 1,936 numbers for each place; the rest has a few times 16.</details>
# <details><summary>C. By more than 20.</summary>
#
# Yes, and the factor grows with the number of places.</details>

# %% tags=["nbval-check-output"]
theta, phi, g = torch.randn(3, 1, 44 * 44, 16, generator=generator)
apart = (associative_dot_product(theta, phi, g)[0] - non_local_dot_product(theta, phi, g).context).abs().max().item()
saved = peak_memory(lambda: non_local_dot_product(theta, phi, g)) / peak_memory(lambda: associative_dot_product(theta, phi, g))
claim("09.c", "the dot product from the right and from the left differ by", apart, at_most=1e-4)
claim("09.d", "1,936 places: memory at the peak, from the left over from the right", saved, at_least=20)

# %% [markdown]
# The third of the forms scores a pair by a vector $w_f$ on both **side by side**: $f = \mathrm{ReLU}(w_f^\top [\theta_i ;
# \phi_j])$, over $\mathcal C = N$. Split $w_f$ in two halves, and no pair need be built: the score is a number of $i$ plus a
# number of $j$.
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
# **All four** over one photograph, for one pixel that asks. The features of a pixel are its three colours, less their mean; the
# matrices are drawn at random, so nothing here is learned. The Gaussian form has none, it compares the colours themselves.

# %%
H, W = 30, 45
dahlia = photographs((H, W))[1]
colours = dahlia.flatten(1).mT
centred = (colours - colours.mean(0)) / colours.std(0)
asking = (15, 22)


def four_forms(sharpness=1.5, place=asking):
    """The weights of one pixel by each form, as maps (H, W)."""
    drawn = torch.Generator().manual_seed(SEEDS[0] + 2)
    M_theta, M_phi = (sharpness * torch.randn(3, 3, generator=drawn) / 3**0.5 for _ in range(2))
    w_f, x = torch.randn(6, generator=drawn), centred
    theta, phi = x @ M_theta.mT, x @ M_phi.mT
    weights = {
        "Gaussian": attend(sharpness * x @ x.mT, x).weights,
        "embedded Gaussian": non_local_embedded_gaussian(x, M_theta, M_phi, torch.eye(3))[1],
        "dot product, above 0": non_local_dot_product(theta, phi, x).weights.clamp_min(0),
        "concatenation": non_local_concatenation(theta, phi, x, w_f)[1],
    }
    return {name: values[place[0] * W + place[1]].float().unflatten(0, (H, W)) for name, values in weights.items()}


maps = four_forms()
half = {
    name: int((values.flatten().sort(descending=True).values.cumsum(0) < values.sum() / 2).sum())
    for name, values in maps.items()
}
show(
    plots.pictures(maps, marks=dict.fromkeys(maps, asking)),
    alt="Four maps of the weights with which one pixel of a photograph looks at the others; half of all weight lies on "
    + ", ".join(f"{n} of {H * W} pixels ({name})" for name, n in half.items())
    + ".",
)

# %% [markdown] tags=["interactive"]
# **Explore.** Move the pixel that asks, from the flower to the leaves, and make the scores steeper. Which forms change their
# shape with the steepness, and which only their size?
#
# <details><summary>Answer</summary>
#
# The two Gaussians change: an exponential of larger scores leaves all weight to fewer pixels. A product and a ReLU of larger
# scores are larger, and nothing else: their maps keep their shape.</details>

# %% tags=["interactive"]


def draw_forms(row=15, column=22, sharpness=1.5):
    """Show the four maps for a pixel."""
    drawn = four_forms(sharpness, (row, column))
    show(
        plots.pictures(drawn, marks=dict.fromkeys(drawn, (row, column))),
        alt=f"Four maps of weights of the pixel in row {row}, column {column}; the largest weights are "
        + ", ".join(f"{values.max().item():.3f} ({name})" for name, values in drawn.items())
        + ".",
    )


explore(draw_forms, row=(0, 29, 1), column=(0, 44, 1), sharpness=(0.5, 4.0, 0.5))

# %% [markdown]
# ## 4 The block, and films
#
# What a place saw is *added*: $z_i = W_z y_i + x_i$. With $W_z = 0$ the block is the identity, so it can be put into a trained
# network without disturbing it; the library starts it there, by a normalisation whose gain is 0. Inside, $d$ is smaller than C,
# commonly half of it: a **bottleneck**.
#
# A film is no new idea: its places are all pixels of all times, $N = T \cdot H \cdot W$.
#
# | name | shape |
# | --- | --- |
# | x | (B, C, H, W), or (B, C, T, H, W), or (B, C, T) |
# | W_θ, W_φ, W_g, W_z | (d_k, C), (d_k, C), (d, C), (C, d) |
# | result | the shape of x |
#
# **Bug hunt.** Somebody wrote it for pictures and then taught it films. It runs, and every shape is right. What can a pixel of the
# first picture never see? Say so, then run the check.

# %% exercise="09.4" bug="keeps_the_times_apart"
from course_tools.bank.lecture_09.non_local_block import keeps_the_times_apart as suspect

# %% tags=["nbval-check-output"]
suspect = check("09.4", suspect)

# %% exercise="09.4" difficulty="●●○" minutes=12
from course_lib.attention import non_local_block

# %% tags=["nbval-check-output"]
non_local_block = check("09.4", non_local_block)

# %% [markdown]
# A film to try it on: a digit goes in behind a wall and comes out at the other side, or another digit does. No single
# picture of it tells. How far does the first picture feel the last one? We ask the gradient.

# %% tags=["nbval-check-output"]
film = moving_digits(2, 1, 1, n_times=4, height=16, seed=SEEDS[0]).train.videos[:1]
film = F.avg_pool3d(film, (1, 2, 2))
matrices = [torch.randn(n, m, generator=generator) for n, m in ((3, 1), (3, 1), (2, 1), (1, 2))]


def felt(block):
    """How strongly the first picture of the result depends on each picture of the film."""
    x = film.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(block(x, *matrices)[:, :, 0].sum(), x)
    return gradient.abs().sum((0, 1, 3, 4))


def frame_by_frame(x, *matrices):
    """The block over each picture of a film by itself."""
    return torch.stack([non_local_block(frame, *matrices) for frame in x.unbind(2)], dim=2)


reached = felt(non_local_block)
claim(
    "09.e",
    "over space-time the first picture feels the last: its gradient over that of itself",
    (reached[-1] / reached[0]).item(),
    at_least=1e-3,
)
claim("09.f", "frame by frame the first picture feels the last: gradient", felt(frame_by_frame)[-1].item(), equals=0.0)

# %% [markdown]
# ## 5 One block, or more convolutions?
#
# Now the experiment. The network of section 1 gets *one* block, of the dot-product form and with your product from the right.
# And since anything that is added might help, a control: **two more convolutions** of 3 × 3 in its place. All train for the same
# number of steps, from one seed.

# %% [markdown] tags=["predict"]
# **Predict.** Who answers "same or different" clearly better than a coin?
#
# <details><summary>A. Both: deeper is better.</summary>
#
# Deeper sees further, but not far enough: a place now sees 31 × 31 pixels. Between the digits lie 16, so no place sees more
# than about half of each.</details>
# <details><summary>B. Only the block.</summary>
#
# Yes. It multiplies what is found at one place with what is found at another, in one layer and at any distance.</details>
# <details><summary>C. Only the convolutions: they have many more parameters.</summary>
#
# They have, see the claim 09.j. Here parameters are no substitute for reach.</details>

# %%
with_block, by_block = fit("one block", lambda: network(NonLocalBlock(32, NonLocal(32, mechanism=associative_dot_product))))
deeper, by_depth = fit("five convolutions", lambda: network(widths=(16, 32, 32, 32, 32), strides=(2, 2, 1, 1, 1)))
sizes = {
    name: sum(p.numel() for p in model.parameters())
    for name, model in (("plain", plain), ("block", with_block), ("deeper", deeper))
}
more = (sizes["deeper"] - sizes["plain"]) / (sizes["block"] - sizes["plain"])
print(f"plain {by_convolution:.3f}, with a block {by_block:.3f}, deeper {by_depth:.3f}")

# %% tags=["nbval-check-output"]
claim("09.g", "same or different, one non-local block before the mean: right answers", by_block, at_least=0.66)
claim("09.h", "same or different, two more convolutions in the block's place: right answers", by_depth, at_most=0.62)
claim(
    "09.i",
    "same or different, the block over two more convolutions: right answers, difference",
    by_block - by_depth,
    at_least=0.1,
)
claim("09.j", "parameters that the two convolutions add, over those that the block adds", more, at_least=5)

# %% [markdown]
# ## 6 See it
#
# The paper's figure 3 draws, for a place, the arrows of its strongest weights. `topk` gives *numbers* of places; to draw them we
# need time, row and column. Places are counted time by time, row by row: number = (time · H + row) · W + column. (Your product
# from the right has no weights to draw. So the trained block is given the form from the left, which is the same function: 09.c.)
#
# | name | shape |
# | --- | --- |
# | weights | (…, N_q, N), N = T · H · W |
# | ends | (…, N_q, n, 3), whole numbers: time, row, column |
# | their weights | (…, N_q, n), falling |

# %% exercise="09.5" difficulty="●●○" minutes=8
from course_lib.analysis import strongest_arrows

# %% tags=["nbval-check-output"]
strongest_arrows = check("09.5", strongest_arrows)

# %%
looking = with_block[1].attention
looking.mechanism = non_local_dot_product
with torch.no_grad():
    weights = looking(with_block[0](scenes.test.images[:100].to(device()))).weights.cpu()
n_side = math.isqrt(weights.shape[-1])
ink = F.avg_pool2d(scenes.test.images[:100, 0], side // n_side).flatten(1)
asked = ink.argmax(-1)
ends, strength = strongest_arrows(weights, 8, n_side, n_side)
pixel = side // n_side


def arrows_of(i):
    """The strongest arrows of the place with most ink in picture i, as a map over the pixels, and that place."""
    over = torch.zeros(side, side)
    rows, columns = (pixel * ends[i, asked[i], :, axis] + pixel // 2 for axis in (1, 2))
    over[rows, columns] = strength[i, asked[i]].float().clamp_min(0)
    return over, tuple(pixel * n + pixel // 2 for n in divmod(asked[i].item(), n_side))


drawn = dict(zip(titles, map(arrows_of, shown), strict=True))
far = (ends[torch.arange(100), asked, :, 1:] - torch.stack([asked // n_side, asked % n_side], -1)[:, None]).float().norm(dim=-1)
show(
    plots.pictures(
        {title: image[..., None].expand(-1, -1, 3) for title, image in zip(titles, some, strict=True)},
        marks={title: place for title, (_, place) in drawn.items()},
        arrows={title: over for title, (over, _) in drawn.items()},
    ),
    alt="The three canvases of section 1; from the place with most ink, arrows to the eight places that it looks at most. Over a "
    f"hundred pictures such an arrow is {pixel * far.mean().item():.0f} pixels long on average.",
)

# %% [markdown] tags=["predict"]
# **Predict.** Arrows that reach the other digit look like a comparison. Count them: how often do they end on ink of the other
# digit, over the share of such places among all? Then do the same for a block *before* training.
#
# <details><summary>A. Only training makes them find the other digit.</summary>
#
# That would be a fine story. The numbers do not tell it.</details>
# <details><summary>B. They find it before training as well, more often than by chance.</summary>
#
# Yes, on average. A likely cause: where there is ink, features are large, and products of large features are large, learned or
# not. In our trials training made more of it on some seeds, on others less. That the block tells *kinds* apart is shown by its
# right answers, not by arrows.</details>
# <details><summary>C. Neither does: most of the canvas is paper.</summary>
#
# Some arrows do end on paper, mostly beside a digit, whose ink such a place still sees within its 15 pixels. But ink is hit more
# often than its share.</details>


# %%
def on_the_other_digit(model):
    """How often the strongest arrows of the place with most ink end on ink far away, over how many of all places are such."""
    with torch.no_grad():
        features = model[0](scenes.test.images[:100].to(device()))
        ends, _ = strongest_arrows(model[1].attention(features).weights.cpu(), 8, n_side, n_side)
    place = torch.cartesian_prod(torch.arange(n_side), torch.arange(n_side))
    other = (place[asked][:, None] - place).float().norm(dim=-1).mul(pixel).gt(15) & (ink > 0.1)
    hits = other.gather(1, (ends[..., 1] * n_side + ends[..., 2])[torch.arange(100), asked])
    return hits.float().mean().item() / other.float().mean().item()


def blank():
    """The network with a block, before training."""
    return network(NonLocalBlock(32, NonLocal(32, mechanism=non_local_dot_product))).to(device()).eval()


untrained = []
for number in range(8):
    torch.manual_seed(number)
    untrained.append(on_the_other_digit(blank()))
before, after = mean(untrained), on_the_other_digit(with_block)

# %% tags=["nbval-check-output"]
claim("09.k", "strongest arrows of the trained block that end on the other digit, over chance", after, at_least=1.2)
claim(
    "09.l",
    "strongest arrows of blocks never trained that end on the other digit, over chance: mean of eight",
    before,
    at_least=1.2,
)

# %% [markdown] tags=["predict"]
# ## 7 Take it away again
#
# **Predict.** Back to the plain network, without any block. Instead of the *mean* of each feature over the map, take its
# *largest* value. Fewer steps, too. What happens?
#
# <details><summary>A. A coin again: no place has seen two digits.</summary>
#
# No place has, but the pool has.</details>
# <details><summary>B. It learns.</summary>
#
# Yes. The maximum is not linear: a feature "stroke of a 2" gives the same for two 2s as for one. So how *many* features are
# awake says whether there are one or two kinds, and a linear layer can count.</details>
# <details><summary>C. It depends on the distance.</summary>
#
# Not for a pool: it looks everywhere.</details>

# %% tags=["nbval-check-output"]
_, by_the_largest = fit("the largest", lambda: network(pool=nn.AdaptiveMaxPool2d), steps=at_scale(cpu=900, gpu=3_000))
claim("09.m", "no attention, but the largest value in place of the mean: right answers", by_the_largest, at_least=0.62)

# %% [markdown]
# So what did the block give? **Reach, and a product**, to a network that had neither. That is worth having where features must
# keep their places, as in films and in segmentation. It is no proof that *attention* was needed. In our trials a coarser map, whose
# kernels see the whole canvas, learned it too on some seeds; digits nearer to each other were no trouble for plain depth; and
# for a digit in clutter one more convolution did what the block did. Whoever adds a block should add a convolution beside it,
# and compare.

# %% [markdown] tags=["try-it"]
# **Try it.** `network(widths=(16, 32, 32, 32, 32), strides=(2, 2, 2, 1, 1))` has as many parameters as the control of section 5,
# and sees 47 × 47 pixels. Or take `side=32`.

# %% [markdown]
# ## 8 What occurs together
#
# To name the class of each *pixel*, it helps to know what else is there: a blur beside a sail is water. **Co-occurrent features**
# ask for each place $i$ how likely $j$ occurs with it. One softmax of a product can say little, since its scores have rank
# $d_k$ at most; so several are **mixed**, each from a part of the features, with shares $\pi$ that the picture chooses. Here $z$
# is an embedding, and no longer what a block gives:
#
# $$p(x_j \mid x_i) = \sum_m \pi_m\, \mathrm{softmax}_j\!\left(\frac{z_i^{m\top} z_j^m}{\sqrt{d_k}}\right) \qquad
# \pi = \mathrm{softmax}_m(W_\pi \bar z) \qquad z = W_k x$$
#
# | name | shape |
# | --- | --- |
# | x, W_k, W_v | (…, N, C), (d_k, C), (d_v, C) |
# | W_π | (n_mix, d_k); part m owns d_k / n_mix features that stand together |
# | context, weights | (…, N, d_v), (…, N, N) |

# %% exercise="09.6" difficulty="●●●" minutes=15
from course_lib.attention import co_occurrent_features

# %% tags=["nbval-check-output"]
co_occurrent_features = check("09.6", co_occurrent_features)

# %% [markdown] tags=["predict"]
# **Predict.** Sixty places, $d_k = 4$. Take the logarithm of the weights, and its rank. One softmax, then two that are mixed:
#
# <details><summary>A. 60 both times.</summary>
#
# For one softmax the logarithm is the scores, a product of rank 4, less a number for each row: rank 5 at most.</details>
# <details><summary>B. 5, and far more.</summary>
#
# Yes. The logarithm of a *sum* of exponentials is not linear in anything. This is the "softmax bottleneck".</details>
# <details><summary>C. 5 and 10.</summary>
#
# Were the logarithms added, it would be 5 again: two parts of two features each, and one number for each row. It is the
# probabilities that are added.</details>

# %% tags=["nbval-check-output"]
x = torch.randn(60, 5, dtype=torch.float64, generator=generator)
W_k, W_v = torch.randn(2, 4, 5, dtype=torch.float64, generator=generator)
W_pi = torch.randn(2, 4, dtype=torch.float64, generator=generator)
ranks = [
    torch.linalg.matrix_rank(co_occurrent_features(x, W_k, W_v, W[:n])[1].double().log(), rtol=1e-9).item()
    for n, W in ((1, W_pi), (2, W_pi))
]
claim("09.n", "rank of the logarithm of the weights, one softmax of d_k = 4", ranks[0], equals=5)
claim("09.o", "rank of the logarithm of the weights, two softmaxes mixed", ranks[1], at_least=12)

# %% [markdown] tags=["quiz"]
# ## 9 Before you go
#
# **Question 1.** You put a non-local block into a trained network, with $W_z = 0$. What is the first gradient of $W_\theta$?
#
# <details><summary>A. Zero, and it stays so.</summary>
#
# It is zero at first. But $W_z$ itself gets a gradient, and once it has moved the others get theirs.</details>
# <details><summary>B. Zero at first, then not.</summary>
#
# Right: what the block says must be listened to before it can be told to say something else.</details>
# <details><summary>C. Large: the block is new.</summary>
#
# Its effect on the loss goes through $W_z$, which is 0.</details>
#
# **Question 2.** Films of twice the length in twice the width and height. How much more memory do the weights of a softmax need?
#
# <details><summary>A. 8 times.</summary>
#
# There are 8 times the places; the weights go with the square.</details>
# <details><summary>B. 64 times.</summary>
#
# Right. Pooling the keys, as the paper does, or the form without a softmax, brings it down.</details>
# <details><summary>C. As much as before.</summary>
#
# The *parameters* are as many as before.</details>
#
# **Question 3.** A paper inserts five non-local blocks and gains a point. Which control do you miss most?
#
# <details><summary>A. Another seed.</summary>
#
# Always welcome. But it does not say what the gain came from.</details>
# <details><summary>B. The same network with five more convolutional blocks, or a wider field of view.</summary>
#
# Right: else depth, parameters or reach might have done it.</details>
# <details><summary>C. A map of the weights.</summary>
#
# It is pretty, and it would be there whether the block helped or not.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague shows you arrows from one digit to the other and says: "It compares them."
# What do these arrows show, what do they not, and which two experiments of this lecture would you put beside them?*
#
# | points | what earns them |
# | --- | --- |
# | 1 | says that a weight is a share of one layer's mixing, and may be negative in the dot-product form |
# | 1 | uses the control of section 5: depth with more parameters fails at this distance |
# | 1 | uses section 7: the task can be solved without any attention |
# | 1 | says that an untrained block draws such arrows too |
# | 1 | is clear and short |

# %% [markdown]
# ## 10 Ledger
#
# **Where the decks and the code part ways**, each by a number:
#
# - *EE* writes $y = \mathrm{softmax}((W_\theta x)^\top (W_\phi x))\, W_g x$, with a column of x for each place. The softmax is then
#   N × N and $W_g x$ is d × N: the product does not conform (09.EE-order). Meant is $W_g x\, \mathrm{softmax}(\dots)^\top$
#   (09.EE-meant).
# - *EE*, figure 2: "the dot-product version can be done by replacing softmax with scaling by 1/N". So it can, but then the matrix
#   of all pairs that the figure draws is not needed any more (09.d).
# - *EE*: blocks "get improvements". Here one does, over more convolutions too, and yet the pool alone would have done (09.m).
# - *EE*, figure 2 calls θ, φ and g convolutions of 1 × 1 × 1. They are linear layers at each place, with the same numbers.
#
# **What this lecture does not show.** One seed is trained here, on three kinds of digits; thresholds were tried on others. No
# network was trained on films: the space-time block is shown by its gradient. That co-occurrent features help segmentation is
# the paper's result, not ours.

# %%
places = torch.randn(1, 4, 3, 5, 7, generator=generator)
kernel = torch.randn(6, 4, generator=generator)
as_convolution = F.conv3d(places, kernel[:, :, None, None, None])
as_layer = (places.flatten(2).mT @ kernel.mT).mT.unflatten(2, (3, 5, 7))
columns = torch.randn(13, 35, generator=generator)
softmax = ((W_theta @ columns).mT @ (W_phi @ columns)).softmax(-1)
values = W_g @ columns
as_meant = (values @ softmax.mT).mT

# %% tags=["nbval-check-output"]
gap = (as_convolution - as_layer).abs().max().item()
claim("09.EE", "a convolution of 1 × 1 × 1 and a linear layer at each place differ by", gap, at_most=1e-5)
claim(
    "09.EE-order",
    "softmax((W_θ x)ᵀ(W_φ x)) W_g x of 35 places, as the deck writes it: its last product conforms",
    softmax.shape[1] == values.shape[0],
    equals=False,
)
gap = (as_meant - non_local_embedded_gaussian(columns.mT, W_theta, W_phi, W_g)[0]).abs().max().item()
claim("09.EE-meant", "W_g x softmax(…)ᵀ and the embedded Gaussian of section 2 differ by", gap, at_most=1e-4)

# %% tags=["ledger"]
ledger()
