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
# # 16 · Self-supervision: SimCLR and BYOL
#
# SimCLR and BYOL learn features without labels: two views of the same thing should get similar vectors.
#
# You will write the contrastive loss, train SimCLR on images without labels, ask its features a question with ten labels, and see
# when a method without negatives collapses.
#
# **Prerequisites:** lecture 04 (a softmax over similarities) and the basics of convolutional networks. **Time:**
# {minutes}. {measured}
#
# ![](diagram:simclr)

# %%
import copy
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from course_lib.blocks import ConvNet
from course_lib.datasets import Augmentation, colour_matrix, few_of_each
from course_lib.datasets import recolour, warp
from course_lib.losses import byol_loss, clip_loss, nt_xent
from course_lib.metrics import LinearProbe, linear_probe, spectrum
from course_lib.models import ema_update
from course_lib.primitives import patchify, unit
from course_lib.shapes import Image
from course_lib.training import train
from course_tools.bank.drawn_stickers import draw_stickers
from course_tools.lectures.lecture_16 import captions, experiments, figures, rivals
from course_tools.lectures.lecture_16.windows import cells_of, draw_windows
from course_tools.lectures.lecture_16.windows import one_of_each, thing_of
from course_tools.notebook import check, claim, device, explore, fit, ledger, predict
from course_tools.notebook import progress, recorded, show_study, source
from course_tools.notebook.authorship import whose

# %% [markdown]
# ## 1 Ten labels
#
# A street has 2,000 shop windows, and each was photographed on four days. In every window one thing stays: a star, a heart, a plane
# or one of seven others. Everything around it is exchanged from day to day, and the thing itself gets another place, another colour
# and another size. Nobody has written down what stays, except for *ten* windows, one of each kind.
#
# The task: name the thing from a single photograph of an unseen window. A guess is right one time in ten.

# %%
source(draw_windows)
known, unseen = draw_windows(2_000, 0), draw_windows(1_000, 1, unseen=True)
few = one_of_each(known.kinds, 0)
figures.show_windows(known, few[:3])

# %% [markdown]
# A network of three convolutions, global max pooling and a linear layer is trained on all photographs of the ten, in random colours.
# Its rivals:
#
# - label spreading, without a network: labels are passed on to similar images, also through 1,500 unlabelled ones
# - recurring cells, without a network: a rule by somebody who knows how the windows are made, which looks for what is in all four photographs
# - the same network, *told the cell*: each labelled thing is pasted over the thing of some other window, so that it alone goes with
#   the label

# %% [markdown] tags=["predict"]
# **Predict.** Why is it hard to learn from these ten windows what is in the others?
#
# <details><summary>A. The network is too small for ten shapes.</summary>
#
# The same network will learn them below.</details>
# <details><summary>B. A label does not say which of the six cells it is about.</summary>
#
# Yes. With forty photographs, anything in them may be taken for the reason of the label.</details>
# <details><summary>C. The labels contradict each other.</summary>
#
# They are all right: ten windows, ten different things.</details>

# %%
source(rivals.labelled)
source(rivals.told_the_cell)
torch.manual_seed(0)
supervised = fit(
    rivals.classifier().to(device()),
    rivals.from_labels,
    rivals.labelled(known, few, seed=0),
    steps=200,
    lr=3e-3,
    y="cross-entropy of ten labels, nats",
)
on_unseen = rivals.right(supervised.model, unseen)
torch.manual_seed(0)
told, examples = rivals.classifier().to(device()), rivals.told_the_cell(known, few, 0)
run = train(told, examples, rivals.from_labels, steps=200, lr=3e-3, warmup=20)
for _step in progress(run, "told the cell", total=200):
    pass

# %% tags=["nbval-check-output"]
claim(
    "16.ten",
    network=on_unseen,
    told=rivals.right(told.eval(), unseen),
    cells=rivals.recurring_cells(known, few, unseen),
    spreading=rivals.label_spreading(known, few, unseen),
)

# %% [markdown]
# The loss falls to almost nothing: the ten are learned by heart. The network does not know what a label is about: told the cell, it
# learns from ten. What can be done if nobody tells?
#
# ## 2 Two views
#
# The other 1,990 windows have no label. But we know something about each: *its photographs show the same thing.* From each window we
# draw two **views**, each of them one of its photographs, in new colours. Whatever agrees between the views of one window, and differs from
# those of others, is worth a feature.
#
# Where views come from decides what is learned: *you* choose what must not matter.
#
# | views of | stays in both | is exchanged |
# | --- | --- | --- |
# | our windows | the thing | place, size, everything around it, by the days; colours, by us |
# | **SimCLR** | one photograph | the crop, colours and sharpness, by **augmentation** |
# | CLIP (*Going further*) | what is shown | an image for its caption |
#
# SimCLR needs *one* photograph: two random crops of it, in random colours. Crops alone would not do: a network need then only
# compare colours (section 6). Ours are changed by a random 3 × 3 matrix.
#
# **Try it.** Name what may stay in each pair below. It is one of ten: star, heart, umbrella, plane, telephone, notes, anchor, horse, sun,
# scissors. Other things may be in both by chance: one pair does not decide, but thousands do.
#
# <details><summary>Solution</summary>
#
# From left to right: heart, sun, plane, telephone.</details>

# %% tags=["cover", "try-it"]
COLOURS = Augmentation(brightness=1.5, saturation=0.6, hue=math.pi)


def view(photos, generator):
    """Draw one of the photographs of each window (B, 4, 3, H, W), in new colours."""
    which = torch.randint(photos.shape[1], (len(photos),), generator=generator)
    one = photos[torch.arange(len(photos)), which]
    return recolour(one, COLOURS.draw_colours(len(one), generator).to(one))


def pairs(photos, seed, n=40):
    """Two views each of n windows at a time, without labels, without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        chosen = photos[torch.randint(len(photos), (n,), generator=generator)]
        yield view(chosen, generator), view(chosen, generator)


figures.show_pairs(*next(pairs(known.photos, 0)))

# %% [markdown]
# ## 3 The contrastive loss NT-Xent
#
# An **encoder** maps a view to features $h$, and a small **head** maps these to $z$. Equal vectors for all windows would agree
# perfectly and say nothing. So the loss is a classification: among all *other* views of the batch, find the second view of the same
# window. The logits are cosines, divided by a temperature $\tau$.
#
# **By hand.** Two windows, two views each, $\tau = 0.5$:
#
# | view | z | cosine with $a_1$ | divided by τ | exp | weight |
# | --- | --- | --- | --- | --- | --- |
# | $a_1$ | (1, 0) | itself: left out | | | |
# | $a_2$ | (0, 1) | 0 | 0 | 1.00 | 0.16 |
# | $b_1$ | (0.8, 0.6) | 0.8 | 1.6 | 4.95 | **0.79** |
# | $b_2$ | (−0.6, 0.8) | −0.6 | −1.2 | 0.30 | 0.05 |
#
# The partner $b_1$ gets 0.79, so view $a_1$ has the loss $-\log 0.79 = 0.23$. With $\tau = 0.1$ it would get 0.9997:
# under a small $\tau$ only those negatives count that are about as similar as the partner. In general, for $N$ windows and each view
# $i$ with its partner $j$:
#
# $$\ell(i, j) = -\log \frac{\exp(\mathrm{sim}(z_i, z_j)/\tau)}{\sum_{k \ne i} \exp(\mathrm{sim}(z_i, z_k)/\tau)} \qquad
# L = \frac{1}{2N} \sum_{\text{pairs}} \big(\ell(i, j) + \ell(j, i)\big)$$
#
# It is attention with a known target: a softmax over similarities whose weight should be at the partner. The other views are the
# **negatives**. The name: normalised temperature-scaled cross-entropy, **NT-Xent**. Written out, $\ell$ has two terms:
#
# $$\ell(i, j) = \underbrace{-\,\mathrm{sim}(z_i, z_j)/\tau}_{\text{pull the partner}} + \underbrace{\log \textstyle\sum_{k \ne i}
# \exp(\mathrm{sim}(z_i, z_k)/\tau)}_{\text{spread all views}}$$
#
# | name | shape |
# | --- | --- |
# | a, b | (N, d) each: row $i$ of both belongs to window $i$ |
# | similarities | (2N, 2N), the diagonal is masked |
# | loss | a number; 0 for a single pair, since there are no negatives |
#
# `unit(z)` divides each vector by its length; a zero vector stays 0.

# %% exercise="16.2" difficulty="●●○" minutes=12
from course_lib.losses import nt_xent

# %% tags=["nbval-check-output"]
nt_xent = check("16.2", nt_xent)

# %% [markdown]
# **Bug hunt.** The paper's algorithm 1 numbers the views of a pair $2k-1$ and $2k$. This implementation stacks all
# first views, then all second views, and still pairs rows $2k-1$ and $2k$. It runs without an error. Decide what is wrong *before* you run the check.

# %% exercise="16.2" bug="seeks_the_partner_next_door"
from course_tools.bank.lecture_16.nt_xent import seeks_the_partner_next_door as suspect

# %% [markdown] tags=["predict"]
# **Which views does it pull together?**
#
# <details><summary>A. Each window with another window.</summary>
#
# Yes. `torch.cat` puts all first views before all second ones, so rows 0 and 1 are different windows. Numbering and order of
# the rows must agree: interleave the views, or shift the targets by N.</details>
# <details><summary>B. The two views of each window: the numbering does not matter.</summary>
#
# Print the targets for three pairs: 1, 0, 3, 2, 5, 4. Which window does row 1 belong to?</details>
# <details><summary>C. Each view with itself.</summary>
#
# The diagonal is masked; that part is right.</details>

# %% tags=["nbval-check-output"]
suspect = check("16.2", suspect)

# %%
a, b = torch.tensor([[1.0, 0], [0, 1]]), torch.tensor([[0.8, 0.6], [-0.6, 0.8]])
print(f"the example by hand, all four views: {nt_xent(a, b, 0.5):.3f}")
equal = torch.ones(40, 64)
torch.testing.assert_close(
    nt_xent(equal, equal, 0.2).item(), math.log(79), rtol=1e-4, atol=0
)

# %% [markdown]
# When all 80 views are equal, the loss is $\log 79 = 4.37$, a uniform guess among the others. Training starts a little
# above it: directions at random are worse than equal ones.
#
# ## 4 SimCLR, without a label
#
# The whole method: an encoder, a head, two views, your loss. The head ends in a batch normalisation, as in the authors' program: its
# outputs have mean 0 over the batch, so they cannot all be equal at the start.


# %%
def new_encoder():
    """An encoder from photographs (B, 3, H, W) to features (B, 64)."""
    return nn.Sequential(ConvNet(3), nn.AdaptiveMaxPool2d(1), nn.Flatten()).to(device())


def new_head():
    """A projection head from features (B, 64) to (B, 64), for the loss alone."""
    layers = nn.Linear(64, 128, bias=False), nn.BatchNorm1d(128), nn.ReLU()
    return nn.Sequential(
        *layers, nn.Linear(128, 64, bias=False), nn.BatchNorm1d(64)
    ).to(device())


def contrast(model, pair):
    """NT-Xent of two views of each window."""
    z = model(torch.cat(pair))
    return nt_xent(*z.chunk(2), 0.2).float()


# %% [markdown] tags=["predict"]
# **Predict a number** (within 0.3). Ten kinds of things stay in 40 windows, so about nine other views of a batch show the same kind
# as a given view: its partner, and eight **false negatives**. Suppose that an encoder knows the kind, and nothing else. What is its
# loss, in nats?
#
# <details><summary>2.197</summary>
#
# A uniform guess among nine, $\log 9$, or a little less, since their number varies. Compare the end of the curve.</details>
# <details><summary>4.37</summary>
#
# That is $\log 79$, the loss without any knowledge; the curve starts slightly above it.</details>
# <details><summary>0</summary>
#
# For that, it would have to tell the partner from eight views of the same kind. Nothing that stays does, but where both views
# are of the same photograph, one pair of four.</details>

# %%
torch.manual_seed(0)
untrained = new_encoder().eval()
encoder = new_encoder()
simclr = fit(
    nn.Sequential(encoder, new_head()),
    contrast,
    pairs(known.photos, seed=0),
    steps=500,
    lr=3e-3,
    y="NT-Xent of 40 pairs, nats",
)

# %% [markdown]
# **See it.** Ten windows of five kinds, sorted: before training all views are alike. Afterwards each view is alike to its partner (the
# two stripes beside the diagonal) *and* to the other windows of its kind (the squares): the false negatives.

# %%
ten = torch.cat([(known.kinds == kind).nonzero()[:2, 0] for kind in range(5)])
generator = torch.Generator().manual_seed(0)
of_ten = torch.cat([view(known.photos[ten], generator) for _ in range(2)])
with torch.no_grad():
    both = {
        "untrained": untrained(of_ten).cpu(),
        "SimCLR": simclr.model.eval()(of_ten).cpu(),
    }
figures.show_similarities(both, known.kinds[ten].cpu())

# %% [markdown]
# ## 5 Ten labels again: the linear probe
#
# Discard the head, freeze the encoder, and train only a *linear* classifier on its features $h$, scaled to unit length. With a
# squared loss it has a closed form, ridge regression:
#
# $$\min_{W, b} \sum_i \lVert W x_i + b - y_i \rVert^2 + \lambda \lVert W \rVert^2 \qquad\Rightarrow\qquad
# W^\top = (X^\top X + \lambda I)^{-1} X^\top Y, \quad b = \bar y - W \bar x$$
#
# with $y_i$ one-hot, and $X, Y$ centred: their means are subtracted.
#
# | name | shape |
# | --- | --- |
# | features, labels | (n, d), (n,); n may be smaller than d, or larger |
# | W, b | (n_classes, d), (n_classes,), as `LinearProbe(weight, bias)` |

# %% exercise="16.3" difficulty="●●○" minutes=12
from course_lib.metrics import linear_probe

# %% tags=["nbval-check-output"]
linear_probe = check("16.3", linear_probe)


# %%
@torch.no_grad()
def features(encoder, photos):
    """Features of unit length of photographs (n, 3, H, W)."""
    return torch.cat([unit(encoder(part)) for part in photos.split(250)])


def probed(encoder, few=few):
    """Share of unseen windows that a linear probe names right from few labels."""
    x = features(encoder, known.photos[few].flatten(0, 1))
    weight, bias = linear_probe(x, known.kinds[few].repeat_interleave(4), 10, 0.1)
    guesses = features(encoder, unseen.photos[:, 0]) @ weight.to(x).mT + bias.to(x)
    return (guesses.argmax(-1) == unseen.kinds).float().mean().item()


draws = [one_of_each(known.kinds, seed) for seed in range(6)]
of_simclr = [probed(encoder, draw) for draw in draws]
of_untrained = [probed(untrained, draw) for draw in draws]

# %% tags=["nbval-check-output"]
claim("16.probe", simclr=of_simclr, untrained=of_untrained, network=on_unseen)

# %% [markdown]
# The fairest rival sees the unlabelled windows, too: with **pseudo-labels**, the network trained on ten labels teaches its own sure
# guesses to itself. They are mostly wrong, and in the end it may call all windows by one name. With a guard against that (*aligned*) it names a
# hundredth more than SimCLR's probe, after twice as many updates; 200 labels alone are as good. *Going further* has the details.

# %%
study = show_study("16_windows")

# %% [markdown]
# **SimCLR is the right tool here because it finds what stays before anybody has chosen the names; the probe only has to give them to
# ten groups.** Pseudo-labels need the names from the first update.

# %% [markdown] tags=["predict"]
# *You* chose what must not matter. Ask other questions of the features, from 2,000 labels: in which of the six cells the thing stands,
# and which of red, green and blue is strongest in the photograph.
#
# **Predict.** Who still knows the *colour*: the pixels, the untrained encoder, the trained one?
#
# <details><summary>A. All three: a network keeps what it is given.</summary>
#
# It keeps what lowers its loss. A feature that says the colour makes two views of a window differ.</details>
# <details><summary>B. The pixels and the untrained encoder.</summary>
#
# Yes. Nothing in the architecture removes colours, but the views are in random ones, so training does.</details>
# <details><summary>C. The pixels alone: the pooling removes the rest.</summary>
#
# The pooling takes the largest value over all *places*. That removes the cell, before any training; colours pass.</details>


# %%
def asked(encoder, question):
    """Share of unseen windows about which a probe from 2,000 labels is right."""
    labels = question(known)
    weight, bias = linear_probe(
        features(encoder, known.photos[:, 0]), labels, int(labels.max()) + 1, 0.1
    )
    guesses = features(encoder, unseen.photos[:, 0]) @ weight.mT + bias
    return (guesses.argmax(-1) == question(unseen)).float().mean().item()


questions = {
    "kind": lambda windows: windows.kinds,
    "cell": lambda windows: windows.cells[:, 0],
    "colour": lambda windows: windows.photos[:, 0].mean((-2, -1)).argmax(-1),
}
answers = {
    name: [asked(encoder_or_pixels, question) for question in questions.values()]
    for name, encoder_or_pixels in (
        ("pixels", nn.Flatten()),
        ("untrained", untrained),
        ("h", encoder),
        ("z", simclr.model),
    )
}
print("of 1,000 unseen windows:", *questions)
for name, shares in answers.items():
    print(f"{name:>9}", *(f"{share:.2f}" for share in shares), sep="   ")

# %% tags=["nbval-check-output"]
kind, _, colour = answers["h"]
claim("16.asked", before=answers["untrained"][2], after=colour, kind=kind)

# %% tags=["guard", "nbval-check-output"]
claim(
    "16.lost",
    pixels=answers["pixels"][2],
    after=colour,
    last=answers["z"][2],
    of_z=answers["z"][0],
    no_cell=answers["untrained"][1],
    cell=answers["h"][1],
)

# %% [markdown]
# So the *views* took away the colour, and the pooling had taken away the place. The loss asks $z$ alone to forget what is exchanged;
# the head is there to do it in place of $h$, and is discarded. On ImageNet a probe of $h$ is right ten percentage points more often
# (Chen et al., section 4.2); of our kinds, $z$ knows as much.

# %% [markdown]
# **See it.** Each point is an unseen window, drawn as the number of its kind (0 star, 1 heart, 2 umbrella, 3
# plane, 4 telephone, 5 notes, 6 anchor, 7 horse, 8 sun, 9 scissors). **t-SNE** arranges the features in the plane so that
# similar ones are close together; the distances between groups have no meaning.

# %%
shown = {"untrained": untrained, "SimCLR": encoder}
first_photos = unseen.photos[:, 0]
experiments.show_embeddings(
    {name: features(each, first_photos).cpu() for name, each in shown.items()},
    unseen.kinds.cpu(),
)


# %% [markdown] tags=["try-it"]
# **Try it.** Choose an unseen window. Below it are the five with the nearest features. Begin with those that agree least with
# their neighbours: which things does the encoder confuse there, and would you?


# %%
points = features(encoder, first_photos).cpu()
nearest = (points @ points.mT).fill_diagonal_(-1).topk(5).indices
alike = unseen.kinds.cpu()[nearest] == unseen.kinds.cpu()[:, None]
confused = alike.sum(1).argsort(stable=True)[:5].tolist()
print("windows to begin with:", *confused)


# %% tags=["interactive"]
def draw_nearest(window=confused[0]):
    """An unseen window, and the five whose features are nearest."""
    figures.show_nearest_windows(window, points, unseen)


explore(draw_nearest, window=(0, 999))

# %% [markdown]
# ## 6 BYOL: no negatives
#
# From here on there is *one* picture of each thing, as in SimCLR's paper: a sticker in two colours, of one of the ten kinds. So we
# make both views of it, by `warp` and by new colours, at random those of a negative.


# %%
def changed(batch, generator):
    """Draw one view of each sticker: moved by `warp`, in other colours."""
    A, t = experiments.MOVES.draw_affine(len(batch), batch.shape[-2:], generator)
    sign = 1 - 2 * torch.randint(2, (len(batch), 1, 1), generator=generator)
    M = sign * COLOURS.draw_colours(len(batch), generator)
    return recolour(warp(batch, A.to(batch), t.to(batch)).to(batch.dtype), M.to(batch))


stickers = draw_stickers(2_000, 0, device=device())
new_stickers = draw_stickers(1_000, 1, unseen=True, device=device())
figures.show_views(stickers.images[:20], changed)

# %% [markdown]
# In their pixels, two views of one sticker differ as much as two stickers do. A probe of the pixels names 0.30 of the unseen stickers
# from forty labels, and one of SimCLR's features 0.80. If the views keep their colours, to compare colours is enough: then SimCLR's
# probe names 0.22, fewer than that of an untrained encoder (*Going further*).
#
# Negatives keep SimCLR from giving all images one vector: they make the second term of $\ell$. **BYOL** has none. What can be learned
# from partners alone? Take a *target* network with random weights that is never trained. From one view of a sticker, an *online*
# network predicts what the target says about the *other* view. The target knows nothing; but to predict it, one must find what both
# views share. On ImageNet a probe of the random network is right about 1.4 % of the images, and a probe of the network that predicts it about
# 18.8 % (Grill et al., section 2). So let the target follow the online network, and go on: that is BYOL.
#
# The online network (encoder and projector) computes $z$ from one view, the target network of the same form $z'$ from the other, and
# a **predictor** $q$ on the online side predicts $z'$:
#
# $$L = \lVert \overline{q(z)} - \overline{z'} \rVert^2 = 2 - 2 \cos(q(z), z')$$
#
# The bar is normalisation to unit length. **No gradient** flows into $z'$: the *stop-gradient*. In your function it is `detach`.
#
# | name | shape |
# | --- | --- |
# | prediction, target | (B, d), each row of both from the same image |
# | loss | a number from 0 to 4, the mean over rows |
#
# ![](diagram:byol)

# %% exercise="16.4" difficulty="●○○" minutes=6
from course_lib.losses import byol_loss

# %% tags=["nbval-check-output"]
byol_loss = check("16.4", byol_loss)

# %% [markdown]
# The target network is not trained. After every update its weights $\xi$ move a little towards the online ones, $\theta$:
#
# $$\xi \leftarrow \tau\, \xi + (1 - \tau)\, \theta$$
#
# with $\tau$ near 1 (not the temperature; both papers use the letter): an exponential moving average.
#
# | name | shape |
# | --- | --- |
# | target ξ, online θ | two lists of tensors of any shapes, in the same order |
# | result | a list of *new* tensors |

# %% exercise="16.5" difficulty="●○○" minutes=5
from course_lib.models import ema_update

# %% tags=["nbval-check-output"]
ema_update = check("16.5", ema_update)

# %% [markdown]
# The whole method, with your two functions. Each view predicts the other: 2B predictions for B images.


# %%
def perceptron():
    """A projector or a predictor, from (n, 64) to (n, 64)."""
    layers = nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64)
    return nn.Sequential(*layers)


class BYOL(nn.Module):
    """An online network, a predictor, and a target network that follows."""

    def __init__(self, encoder, predictor=None, one_network=False):
        super().__init__()
        self.online = nn.Sequential(encoder, perceptron())
        self.predictor = predictor or perceptron()
        self.target = self.online if one_network else copy.deepcopy(self.online)

    def forward(self, a, b):
        """Predict each view of (B, C, H, W) from the other: two tensors (2B, 64)."""
        return self.predictor(self.online(torch.cat([a, b]))), self.target(
            torch.cat([b, a])
        )

    @torch.no_grad()
    def follow(self, decay):
        """Move the weights of the target network a little towards the online ones."""
        target, online = list(self.target.parameters()), list(self.online.parameters())
        for xi, new in zip(target, ema_update(target, online, decay), strict=True):
            xi.copy_(new)


def train_byol(model, loss, decay=0.95, steps=240):
    """Train on two views of 32 stickers in every update; return the losses."""
    views, losses = experiments.two_views(stickers.images, 0, changed), []
    run = train(
        model, views, lambda m, pair: loss(*m(*pair)), steps=steps, lr=5e-3, warmup=24
    )
    for step in progress(run, "training", total=steps):
        losses.append(step.loss)
        model.follow(decay)
    return losses


# %% [markdown]
# ## 7 Collapse
#
# The loss does not say whether two views agree for a good or for a trivial reason. The embeddings do. Scale $n$ of them to unit length,
# subtract their mean, and compute the standard deviation along each principal axis: the **spectrum**, the singular values divided by
# $\sqrt n$.
#
# | embeddings | spectrum |
# | --- | --- |
# | all in one direction (complete collapse) | all 0 |
# | in a few directions (dimensional collapse) | a few values, then 0 |
# | all over the sphere | flat; the squares sum to 1, since the mean is 0 |

# %% exercise="16.6" difficulty="●●○" minutes=6
from course_lib.metrics import spectrum

# %% tags=["nbval-check-output"]
spectrum = check("16.6", spectrum)

# %% [markdown] tags=["predict"]
# We train five variants: BYOL; BYOL with a **frozen target**; without its predictor; **one network** on both sides, so without a moving
# average; and one network with **both gradients**, so that the target is trained, too. The last two differ in the stop-gradient
# alone, which is in the loss:
#
# $$L_\text{both} = 2 - 2 \cos(q(z), z') \quad \text{with gradients into both}$$
#
# **Predict.** Compare these two. What does training the target, too, do to the loss and to the spectrum?
#
# <details><summary>A. The loss is lower, and the spectrum flatter: twice as much is learned.</summary>
#
# The first half is right. But how can two networks agree most easily?</details>
# <details><summary>B. The loss is lower, and the spectrum near 0.</summary>
#
# Yes. With a gradient on both sides, the network lowers the loss by making all outputs equal. When the target is trained too, a lower
# loss is no better model.</details>
# <details><summary>C. The loss is higher: the target runs away.</summary>
#
# It comes to meet the prediction: its gradient lowers the same loss.</details>


# %%
def both_gradients(prediction, target):
    """BYOL's loss of two tensors (2B, 64), without its stop-gradient."""
    return (2 - 2 * F.cosine_similarity(prediction, target)).mean()


losses, ends, probes = {}, {}, {}
for name, arguments, loss, decay in (
    ("BYOL", {}, byol_loss, 0.95),
    ("frozen target", {}, byol_loss, 1.0),
    ("no predictor", {"predictor": nn.Identity()}, byol_loss, 0.95),
    ("one network, both gradients", {"one_network": True}, both_gradients, 0.95),
    ("one network", {"one_network": True}, byol_loss, 0.95),
):
    torch.manual_seed(0)
    model = BYOL(experiments.backbone(), **arguments).to(device())
    online = model.eval().online
    probes["untrained"] = experiments.probe(online[0], stickers, new_stickers)
    losses[name] = train_byol(model.train(), loss, decay)
    model.eval()
    probes[name] = experiments.probe(online[0], stickers, new_stickers)
    with torch.no_grad():
        ends[name] = online(new_stickers.images).cpu()
experiments.show_byol_losses(losses)
spread = experiments.show_spectra(ends, spectrum)
print(
    "probe of h:", *(f"{name} {share:.2f}" for name, share in probes.items()), sep="  "
)

# %% tags=["nbval-check-output"]
claim(
    "16.collapse",
    loss=losses["BYOL"][-1] / losses["one network, both gradients"][-1],
    byol=spread["BYOL"],
    both=spread["one network, both gradients"],
    copied=spread["one network"],
    predictor=spread["no predictor"],
)

# %% tags=["guard", "nbval-check-output"]
claim("16.frozen", untrained=probes["untrained"], frozen=probes["frozen target"])

# %% [markdown]
# The two trainings of one network differ in the stop-gradient alone, and only the one without it collapses. Without a predictor
# the projections collapse, too. The frozen target cannot collapse, and features that predict it name more stickers than its
# own. The moving average is not needed *here*, as in SimSiam (Chen and He 2021); in BYOL's own experiments the method fails without
# it, unless the predictor learns faster. *Going further* asks why.
#
# SimCLR can collapse, too, and then shows it: its loss stays at $\log(2N - 1)$.

# %% [markdown] tags=["try-it"]
# How good are the features in the end? A recorded study trains SimCLR, BYOL and the frozen target for 3,000 updates, and three
# variants for 1,000; the probe has forty labels. It reads $h$: where the *projections* $z$ collapse, $h$ may still differ.
#
# **Try it.** Read off the curves: which two variants get worse, and what did the spectrum say about them? What does a target
# that follows gain over a frozen one?
#
# <details><summary>Solution</summary>
#
# Without predictor, and with both gradients: the two whose spectrum has collapsed. A target that stays random gives about 0.50 after
# 1,000 updates and 0.60 after 3,000; one that follows 0.55, and 0.68. SimCLR is at 0.90.</details>

# %%
of_stickers = recorded("16_byol")
names = [name for name in of_stickers.names if name != "SimCLR, colours kept"]
pixels = sum(of_stickers.scores("SimCLR", "pixels")) / 3
experiments.show_probe_curves(
    {name: of_stickers.curve(name) for name in names},
    pixels,
    (1, 30, 120, 480, 1_000, 3_000),
    "recorded, mean of three seeds",
)

# %% tags=["nbval-check-output"]
claim(
    "16.s",
    simclr=of_stickers.scores("SimCLR", "probe"),
    byol=of_stickers.scores("BYOL", "probe"),
    frozen=of_stickers.scores("frozen target", "probe"),
    pixels=of_stickers.scores("SimCLR", "pixels"),
    neighbours=of_stickers.scores("SimCLR", "neighbours"),
    spreading=of_stickers.scores("SimCLR", "spreading"),
    kept=of_stickers.scores("SimCLR, colours kept", "probe"),
    early=of_stickers.scores("BYOL", "probe at 1,000"),
    unpredicted=of_stickers.scores("no predictor", "probe"),
    copied=of_stickers.scores("one network", "probe"),
    collapsed=of_stickers.scores("one network, both gradients", "probe"),
)

# %% [markdown] tags=["quiz"]
# ## 8 Exit quiz
#
# **Question 1.** You train SimCLR on satellite images, with rotations among the augmentations, and then probe for the wind
# direction from the smoke of chimneys. What do you expect?
#
# <details><summary>A. Good results: more augmentation is better.</summary>
#
# Only if the task is invariant to it. Here the answer *is* the rotation.</details>
# <details><summary>B. Poor results.</summary>
#
# Right: the encoder was trained to be invariant to rotation.</details>
# <details><summary>C. It depends on the temperature.</summary>
#
# No temperature restores information that both views were trained to ignore.</details>
#
# **Question 2.** Your SimCLR loss stays at $\log(2N - 1)$. What has happened?
#
# <details><summary>A. It has converged.</summary>
#
# A trained model has a much lower loss.</details>
# <details><summary>B. The batch is too small.</summary>
#
# The value depends on N, but a small batch does not keep the loss from falling.</details>
# <details><summary>C. All embeddings are equal, or nearly so.</summary>
#
# Right, if the pairs and the temperature are right: this is a uniform guess among $2N - 1$ views. Wrong pairs give about the same
# value, and a high temperature nearly the same, so check both first. Here the loss itself reveals the collapse, unlike
# BYOL's.</details>
#
# **Question 3.** To compare two encoders, someone trains a deep network on top of each, with many labels. What does this not show?
#
# <details><summary>A. What the encoder contributes, and what the network on top.</summary>
#
# Right. A linear probe can only use what is linearly separable in the features. To compare what the encoders are good for, fine-tune
# both *and* the same network from random weights.</details>
# <details><summary>B. Nothing is missing: higher accuracy is better.</summary>
#
# For use, it may be; fine-tuning is a good way to *use* an encoder. But a deep network with many labels learns much by itself.</details>
# <details><summary>C. The speed of the encoder.</summary>
#
# No probe shows that.</details>

# %% [markdown] tags=["quiz"]
# **In your own words** (half a page). *A colleague reports a new method without negatives: "The loss goes to 0.001, less than a
# hundredth of BYOL's." What would you ask to see, and why? Use two measurements from this lecture.*
#
# <details><summary>How it is graded: open this when you have written your answer.</summary>
#
# | points | criterion |
# | --- | --- |
# | 1 | says that the target of the loss changes during training, so that a low value may be trivial |
# | 1 | asks for the spectrum of the embeddings, and says of which layer, and what a collapse looks like |
# | 1 | asks for a probe, with a baseline of pixels or of an untrained encoder |
# | 1 | asks for several seeds, or for a network trained on the same labels, with and without pseudo-labels |
# | 1 | is clear and short |
#
# </details>

# %% [markdown]
# ## 9 What came of it
#
# - **The paper.** On ImageNet, a linear probe of SimCLR's features of a wide ResNet-50 is right about 76.5 % of the images, as many as
#   a plain ResNet-50 trained with all labels. Of a plain one, SimCLR's features reach 69.3 %, BYOL's 74.3 %.
# - **More negatives.** MoCo (He et al. 2020, https://arxiv.org/abs/1911.05722) keeps thousands of vectors of earlier batches, made by
#   a moving-average encoder like BYOL's target.
# - **No negatives.** DINO (Caron et al. 2021, https://arxiv.org/abs/2104.14294) has such a target and no predictor: centred and
#   sharpened outputs prevent collapse. DINOv3 (Siméoni et al. 2025, https://arxiv.org/abs/2508.10104) is frozen and probed, as here.
# - **Words, or hidden patches, instead of a second view**: CLIP (Radford et al. 2021, https://arxiv.org/abs/2103.00020) and masked
#   autoencoders (He et al. 2021, https://arxiv.org/abs/2111.06377). *Going further* builds a small one of each.
#
# **Further reading.** Chen et al. 2020, *SimCLR* (https://arxiv.org/abs/2002.05709) · Grill et al. 2020, *BYOL*
# (https://arxiv.org/abs/2006.07733) · Chen and He 2021, *SimSiam* (https://arxiv.org/abs/2011.10566).

# %% [markdown]
# # Going further
#
# Nothing later depends on these sections. Each stands alone once the core has run, and their exercises are extra points.

# %% [markdown]
# ## A small CLIP: words instead of a second view
#
# In section 2 *we* decided what must not matter. Captions decide it, too: what people name counts. **CLIP** (Radford et al. 2021)
# trains an encoder of images and an encoder of texts until an image and its text have similar vectors. Any text is then a classifier:
# no list of classes is drawn up before training.
#
# Our captions name the thing that stays and the colour behind it, in one of four languages: "roter Stern", "estrella roja". No text
# is ever compared with its translation. Ten of the sixty combinations are kept back: the network never sees a star on red, nor reads
# "red star" in any language; likewise a yellow heart, and so on to turquoise scissors.
#
# **By hand.** Two pictures with their names, and the cosines divided by $\tau$:
#
# | Logits | name 1 | name 2 | loss of the row |
# | --- | --- | --- | --- |
# | picture 1 | **2** | 1 | $\log(1 + e^{1-2}) = 0.31$ |
# | picture 2 | 2 | **3** | $\log(1 + e^{2-3}) = 0.31$ |
# | loss of the column | $\log(1 + e^{2-2}) = 0.69$ | $\log(1 + e^{1-3}) = 0.13$ | |
#
# Each row asks: which name is that of this picture? Each column: which picture has this name? Name 1 is as near to the wrong picture as
# to its own, and only its column says so. The loss is the mean of the four, 0.36. In general, with images $x_i$ and texts $y_i$:
#
# $$s_{ij} = \mathrm{sim}(x_i, y_j)/\tau \qquad L = -\frac{1}{2N} \sum_i \Big(\log \frac{e^{s_{ii}}}{\sum_j e^{s_{ij}}} + \log
# \frac{e^{s_{ii}}}{\sum_j e^{s_{ji}}}\Big)$$
#
# It is NT-Xent without the comparisons of images with images, and of texts with texts. SigLIP (Zhai et al. 2023,
# https://arxiv.org/abs/2303.15343) judges each pair by itself, by a sigmoid instead of the softmax.

# %% exercise="16.9" difficulty="●●○" minutes=10
from course_lib.losses import clip_loss

# %% tags=["nbval-check-output"]
clip_loss = check("16.9", clip_loss)

# %% [markdown]
# The encoder of names is like that of pictures, in one dimension: a vector for each letter, one convolution over five letters, and the
# largest value over all places.


# %%
class CLIP(nn.Module):
    """An encoder of photographs and one of names, both with 64 features."""

    def __init__(self):
        super().__init__()
        self.see = nn.Sequential(
            ConvNet(3, (32, 64, 128)), nn.AdaptiveMaxPool2d(1), nn.Flatten()
        )
        self.letters = nn.Embedding(1 + len(captions.LETTERS), 64, padding_idx=0)
        self.read = nn.Sequential(
            nn.Conv1d(64, 128, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool1d(1)
        )
        self.photo_head, self.name_head = nn.Linear(128, 64), nn.Linear(128, 64)

    def forward(self, photos, spelled):
        """Map photographs (n, 3, H, W) and spelled names (m, T) to features."""
        read = self.read(self.letters(spelled).mT).flatten(1)
        return self.photo_head(self.see(photos)), self.name_head(read)


colours = captions.colours(known)
which = 6 * known.kinds[:, None] + colours  # the number of the name, (2000, 4)
shown = (known.kinds[:, None] % 6 != colours).nonzero()  # not kept back


def captioned(spelled, seed, n=60):
    """Photographs and their names, each in one of the languages, without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        window, photo = shown[torch.randint(len(shown), (n,), generator=generator)].mT
        language = torch.randint(len(spelled), (n,), generator=generator)
        yield known.photos[window, photo], spelled[language, which[window, photo]]


def train_clip(words):
    """Train on four lists of sixty names; return the model and the spelled names."""
    torch.manual_seed(0)
    model, spelled = (
        CLIP().to(device()),
        torch.stack([captions.spell(w) for w in words]),
    )
    run = train(
        model,
        captioned(spelled, seed=0),
        lambda m, pair: clip_loss(*m(*pair), 0.1),
        steps=600,
        lr=3e-3,
        warmup=60,
    )
    for _step in progress(run, "CLIP", total=600):
        pass
    return model.eval(), spelled


# %% [markdown] tags=["predict"]
# The control: the same pictures; each name, in each language, is a string of random letters.
#
# **Predict.** What do made-up names change, for unseen windows?
#
# <details><summary>A. Nothing: a name is only a label for the network.</summary>
#
# So it is where the label was given. What does the network know of the name of a combination that was kept back?</details>
# <details><summary>B. Most of what was shown is still named, and nothing of what was kept back.</summary>
#
# Yes. Two hundred strings can be learned by heart. But "red star" shares a word with "red heart" and another with "blue star", and a
# made-up name shares no word with any other: below, 0.94 of what was shown is named right, and nearly nothing of what was kept back.</details>
# <details><summary>C. Nothing can be named: made-up names cannot be learned.</summary>
#
# Two hundred strings can be learned one by one, like labels.</details>


# %%
colour = captions.colours(unseen)[:, 0]
number = 6 * unseen.kinds + colour  # of the right name
kept_back = unseen.kinds % 6 == colour


@torch.no_grad()
def zero_shot(model, spelled):
    """The number of the name that is nearest to each photograph, in each language."""
    photos, names = model(first_photos, spelled.flatten(0, 1))
    return (unit(photos) @ unit(names).mT).unflatten(1, (4, 60)).argmax(-1)


clip, names = train_clip(captions.IN_WORDS)
right = (zero_shot(clip, names) == number[:, None]).float().mean(1)
print(
    f"right about what was shown: {right[~kept_back].mean():.2f},"
    f" about what was kept back: {right[kept_back].mean():.2f}"
)

# %% [markdown]
# A recorded study repeats this with three seeds, trains the control, and a rival without words: two heads on the same encoder of
# pictures, one for ten things, one for six colours. Somebody has drawn up these two lists, and labels each photograph by both.

# %%
source(rivals.from_both_labels)
of_words = show_study("16_words")

# %% tags=["nbval-check-output"]
claim(
    "16.clip",
    named=of_words.scores("CLIP, words", "shown"),
    new=of_words.scores("CLIP, words", "kept back"),
    learned=of_words.scores("CLIP, made-up names", "shown"),
    invented=of_words.scores("CLIP, made-up names", "kept back"),
    heads=of_words.scores("two heads", "shown"),
    heads_new=of_words.scores("two heads", "kept back"),
)

# %% [markdown]
# Words read in other company name most of what the network never saw, if less than of what it saw. Made-up names are learned by heart.
# The two heads have no words, and also name what they never saw, though less often: what helps is that a combination has two parts.
# Words show this; the heads are told. But the heads answer only the two questions that were fixed before the training. CLIP was told
# neither what a thing is nor what a colour is, and one may ask it what no list contains: below, by 103 single words, none of which was
# ever a caption.

# %%
with torch.no_grad():
    of_names = unit(clip(first_photos[:1], names.flatten(0, 1))[1]).unflatten(
        0, (4, 60)
    )
    photos, words = map(unit, clip(first_photos, captions.spell(list(captions.WORDS))))
translated = (of_names[0] @ of_names[1:].mT).argmax(-1) == torch.arange(60).to(names)
found_by = number[(photos @ words.mT).topk(5, dim=0).indices].mT.tolist()
hits = [
    name in meant
    for found, meant in zip(found_by, captions.WORDS.values(), strict=True)
    for name in found
]

# %% tags=["nbval-check-output"]
claim("16.words", alone=sum(hits) / len(hits), translated=translated.float().mean())

# %% [markdown]
# Translations lie together, even Russian ones, written in other letters: they name the same pictures.
#
# **See it.** Ten unseen photographs, one of each combination kept back, and their names: ten to choose from, not sixty.

# %%
ten = torch.stack([(number == 6 * k + k % 6).nonzero()[0, 0] for k in range(10)])
ten_names = [captions.IN_WORDS[k % 4][6 * k + k % 6] for k in range(10)]
with torch.no_grad():
    x, y = map(unit, clip(first_photos[ten], captions.spell(ten_names)))
figures.show_photos_and_names(first_photos[ten], ten_names, (x @ y.mT).cpu())


# %% [markdown] tags=["try-it"]
# **Try it.** Search the unseen windows by words: change the list. (The alphabet is that of the captions.)

# %%
searches = ["red star", "turquoise scissors", "синий", "caballo", "Sonne"]


@torch.no_grad()
def found(text, n=5):
    """The unseen photographs (n,) whose features are nearest to those of a text."""
    photos, name = clip(first_photos, captions.spell([text]))
    return (unit(photos) @ unit(name)[0]).topk(n).indices


figures.show_retrieved(
    {text: first_photos[found(text)] for text in searches},
    {text: [captions.IN_WORDS[0][number[i]] for i in found(text)] for text in searches},
)

# %% [markdown]
# ## A masked autoencoder in thirty lines
#
# One picture is enough if a part of it is hidden. A **masked autoencoder** (He et al. 2021) hides three quarters of the patches and
# encodes the others alone, with their places. A small decoder, which is discarded later, gets these codes and, in each gap, one learned
# vector, and restores the hidden pixels. Here a picture is a cell of a window: 16 patches of 3 × 3 pixels, of which four are shown. To
# restore a colour, a neighbour will do; to restore a thing, one has to know things.


# %%
class MAE(nn.Module):
    """A masked autoencoder of 16 patches of 27 numbers."""

    def __init__(self, d=64):
        super().__init__()
        first, second, self.decoder = (
            nn.TransformerEncoderLayer(
                d, 4, 2 * d, 0.0, batch_first=True, norm_first=True
            )
            for _ in range(3)
        )
        self.encoder = nn.Sequential(first, second)
        self.embed, self.pixels = nn.Linear(27, d), nn.Linear(d, 27)
        self.places = nn.Parameter(0.02 * torch.randn(2, 16, d))
        self.hidden = nn.Parameter(torch.zeros(d))

    def encode(self, patches, order):
        """Encode those of the patches (B, 16, 27) whose numbers are `order` (B, n)."""
        x = self.embed(patches) + self.places[0]
        return self.encoder(x.gather(1, order[..., None].expand(-1, -1, x.shape[-1])))

    def forward(self, patches, shown):
        """Restore all patches (B, 16, 27) from those that are shown, (B, 4)."""
        h = self.encode(patches, shown)
        gaps = self.hidden.expand(len(h), 16, -1)
        filled = gaps.scatter(1, shown[..., None].expand_as(h), h)
        return self.pixels(self.decoder(filled + self.places[1]))


def hidden_error(model, batch):
    """Mean squared error of the patches that are not shown."""
    patches, order = batch
    errors = (model(patches, order[:, :4]) - patches).square().mean(-1)
    return errors.gather(1, order[:, 4:]).mean()


def with_order(patches, seed, n=64):
    """Patches of n cells at a time, and an order of them: the first four are shown."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        cell = torch.randint(len(patches), (n,), generator=generator)
        order = torch.rand(n, 16, generator=generator).argsort(1)
        yield patches[cell], order.to(patches.device)


torch.manual_seed(0)
mae = MAE().to(device())
before = copy.deepcopy(mae).eval()
patches = patchify(cells_of(known).flatten(0, 2), 3)
run = train(
    mae, with_order(patches, seed=0), hidden_error, steps=2_000, lr=2e-3, warmup=200
)
for _step in progress(run, "masked autoencoder", total=2_000):
    pass
new_patches = patchify(thing_of(unseen)[:, 0], 3)
_, order = next(with_order(new_patches, seed=1, n=8))
with torch.no_grad():
    restored = mae.eval()(new_patches[:8], order[:, :4])
figures.show_restored(new_patches[:8], order[:, 4:], restored)

# %% [markdown]
# What do the codes know? All 16 patches of a thing are encoded, and a probe from ten labels of each kind reads them in two ways: their
# mean, or all of them, each in its place. It reads the pixels in the same two ways.


# %%
def in_patches(windows):
    """Patches of the thing of each first photograph, (n, 16, 27)."""
    return patchify(thing_of(windows)[:, 0], 3)


@torch.no_grad()
def encoded(model, windows):
    """Codes of all patches of the thing of each first photograph, (n, 16, 64)."""
    x = in_patches(windows)
    return model.encode(x, torch.arange(16, device=x.device).expand(len(x), -1))


def probe_of_things(x, new, seed):
    """Share of unseen things that a probe of ten labels of each kind names right."""
    some = few_of_each(known.kinds.cpu(), 10, seed).to(known.kinds.device)
    weight, bias = linear_probe(x[some], known.kinds[some], 10, 0.01)
    return ((new @ weight.mT + bias).argmax(-1) == unseen.kinds).float().mean().item()


ways = {
    "pixels": in_patches,
    "untrained": lambda windows: encoded(before, windows),
    "restoring": lambda windows: encoded(mae, windows),
}
in_places, of_means = {}, {}
for way, read in ways.items():
    x, new = read(known), read(unseen)
    of_means[way], in_places[way] = (
        [probe_of_things(unit(a), unit(b), draw) for draw in range(4)]
        for a, b in ((x.mean(1), new.mean(1)), (x.flatten(1), new.flatten(1)))
    )
    print(
        f"{way:>9}: mean {sum(of_means[way]) / 4:.2f},"
        f" places {sum(in_places[way]) / 4:.2f}"
    )

# %% tags=["nbval-check-output"]
claim("16.mae", **in_places, mean=of_means["restoring"], before=of_means["untrained"])

# %% [markdown]
# A probe of the mean code names twice as many things after the training as before. Read in their places, codes and pixels tell more
# still, even the codes of an untrained network, and restoring adds nothing to that here. In the paper, too, a linear
# probe is not what the method is for: of ImageNet's images, a probe of the large ViT names 75.8 %, the fine-tuned network 85.9 %
# ([FINETUNE.md](https://github.com/facebookresearch/mae/blob/main/FINETUNE.md) of the authors). I-JEPA (Assran et al. 2023,
# https://arxiv.org/abs/2301.08243) predicts the *features* of hidden patches, as a moving-average network gives them.

# %% [markdown]
# ## Turning and zooming a batch
#
# SimCLR's other views come from geometry: a pixel at $r$ moves to $r' = A r + t$, where $r$ is measured in pixels from the centre, $x$
# to the right and $y$ down. Each image has its own matrix and shift, and the whole batch is transformed at once.
#
# An image is resampled with the **inverse** map: the new pixel at $r$ takes the value at $A^{-1}(r - t)$. `F.affine_grid`
# computes these positions for a batch and `F.grid_sample` interpolates the values; both use coordinates from -1 to 1 along each
# side: from edge to edge of the image with `align_corners=False`.
#
# | name | shape |
# | --- | --- |
# | images | (B, C, H, W), H and W may differ |
# | A, t | (B, 2, 2), (B, 2): axes are (x, y) |
# | argument of `affine_grid` | (B, 2, 3), for coordinates from -1 to 1 |

# %% exercise="16.1" difficulty="●●●" minutes=15
from course_lib.datasets import warp

# %% tags=["nbval-check-output"]
warp = check("16.1", warp)

# %% [markdown] tags=["interactive"]
# **Explore.** Rotate, zoom and recolour a photograph. Beyond which values would *you* no longer call it the same object? A
# network is trained to be invariant to the whole range of transformations from which its views are drawn. (Photograph:
# `flower.jpg` by vultilion, [CC BY 2.0](https://creativecommons.org/licenses/by/2.0/), scaled down.)


# %% tags=["interactive"]
def draw_views(turn=20.0, zoom=1.2, hue=40.0, saturation=1.2):
    """Show a photograph and its view: rotation in degrees, zoom factor, hue rotation in
    degrees, saturation factor."""
    figures.show_photograph_view(warp, turn, zoom, hue, saturation)


explore(
    draw_views,
    turn=(-90.0, 90.0, 5.0),
    zoom=(0.5, 2.0, 0.1),
    hue=(0.0, 180.0, 10.0),
    saturation=(0.0, 2.0, 0.1),
)

# %% [markdown]
# ## Why colours must be distorted
#
# For photographs, colour distortion matters most together with cropping: crops of one image have similar colour histograms, and a
# network could match them by their histograms alone (Chen et al., section 3.1 and figures 5 and 6). So it is with stickers. SimCLR is
# trained three times: with views that are moved and in new colours, as above, only moved, or only in new colours.


# %%
def moved(batch, generator):
    """Draw one view of each sticker in the same colours."""
    A, t = experiments.MOVES.draw_affine(len(batch), batch.shape[-2:], generator)
    return warp(batch, A.to(batch), t.to(batch)).to(batch.dtype)


def recoloured(batch, generator):
    """Draw one view of each sticker in its place, in other colours."""
    sign = 1 - 2 * torch.randint(2, (len(batch), 1, 1), generator=generator)
    M = sign * COLOURS.draw_colours(len(batch), generator)
    return recolour(batch, M.to(batch))


shares = {}
for name, draw_view in {"both": changed, "moved": moved, "colours": recoloured}.items():
    torch.manual_seed(0)
    own = new_encoder()
    shares["untrained"] = experiments.probe(own.eval(), stickers, new_stickers)
    views = experiments.two_views(stickers.images, 0, draw_view)
    model = nn.Sequential(own.train(), new_head())
    run = train(model, views, contrast, steps=400, lr=3e-3, warmup=40)
    for step in progress(run, name, total=400):
        end = step.loss
    shares[name] = experiments.probe(own.eval(), stickers, new_stickers)
    print(f"{name}: loss {end:.2f}")

# %% tags=["nbval-check-output"]
claim(
    "16.colour",
    **shares,
    pixels=experiments.probe(nn.Flatten(), stickers, new_stickers),
)

# %% [markdown]
# Colours are an easier question than shapes, and a network answers the easiest that the views leave. The loss does not show it: it is
# low where colours are compared, and as low where the stickers stay in place and things are learned. To move them adds little here,
# since the encoder takes the largest value over all places.

# %% [markdown]
# ## Labels that a network gives itself
#
# **Pseudo-labels** (FixMatch, Sohn et al. 2020, https://arxiv.org/abs/2001.07685): the network trained on labels guesses what one view of an unlabelled window shows;
# where it is sure, this guess is the label of *another* view of the same window.

# %% [markdown] tags=["predict"]
# **Predict.** After ten labels, most guesses are wrong. What happens to a network that teaches them to itself?
#
# <details><summary>A. They become right: two views of a window show the same thing.</summary>
#
# Training makes the guesses about both views agree. A wrong name that is the same for both agrees as well.</details>
# <details><summary>B. It becomes sure of wrong ones, in the end perhaps of one name for all windows.</summary>
#
# Yes. Nothing in the loss says that a guess is wrong, and one name for all agrees best: a collapse, as in section 7.</details>
# <details><summary>C. Nothing: wrong guesses are as often one name as another, and cancel.</summary>
#
# They are not: the network has favourites, and each guess that is taught makes its name more frequent.</details>

# %%
source(rivals.with_pseudo_labels)

# %% tags=["nbval-check-output"]
lines = {"simclr": "SimCLR, linear probe", "labels": "ten labels", "many": "200 labels"}
lines |= {"pseudo": "pseudo-labels", "aligned": "pseudo-labels, aligned"}
claim("16.pseudo", **{key: study.scores(line, "right") for key, line in lines.items()})

# %% [markdown]
# **Distribution alignment** (ReMixMatch, Berthelot et al. 2019) forbids that: each guess is divided by the mean of recent guesses, so
# no name can take over.

# %% [markdown]
# ## Why no collapse?
#
# Tian et al. 2021 (https://arxiv.org/abs/2102.06810) explain it in a linear model: without stop-gradient or without predictor, the
# weights shrink to nothing; with both, the predictor aligns with the directions in which the features vary, and reinforces them.
# They can even compute the predictor from the correlations of the features instead of training it. One can also forbid collapse in
# the loss: **VICReg** (Bardes et al. 2022, https://arxiv.org/abs/2105.04906) demands that each coordinate of the projection has a
# *variance* and that no two are correlated, and pulls views together. It needs neither negatives nor a second network.

# %% [markdown]
# ## Several devices
#
# SimCLR's negatives come from the batch; on ImageNet batches of thousands help (Chen et al., figure 9). `gathered_nt_xent` distributes
# one batch over several processes: each encodes its own pairs, the *projections* of all are gathered, and each view has the views of
# all processes as negatives. The gradients are sent back in the same way, since a view is also a negative for the views of other
# processes. Start it with PyTorch's launcher:
#
# `torchrun --nproc-per-node 2 examples/simclr_on_several_devices.py`
#
# `docs/several_devices.md` lists other points to consider.

# %% [markdown]
# ## Build it: SimCLR from an empty cell
#
# **Build task (30 minutes, 12 points).** Write all of SimCLR, starting from an empty cell: the views, the encoder, the
# projection head, NT-Xent, and the training loop, for stickers. You may use your `warp`, your `nt_xent`, and
# `changed(batch, generator)` of section 6. The library's `SimCLR` and `nt_xent` are not allowed: if your 16.2 did not pass, the
# name `nt_xent` refers to the library's function; then write the loss here.
#
# The check calls `train_simclr(images, n_steps)` once, with 2,000 unlabelled stickers and `n_steps=400`. Then it trains linear
# probes of the returned encoder on other stickers, with four labels of each kind, and averages their accuracies over eight draws
# of the labelled stickers. The function has at most 60 seconds of processor time; a good solution needs about four seconds. A head
# that ends in a batch normalisation, as in section 4, learns faster.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the encoder maps images (B, 3, 12, 12) to features (B, n) |
# | 1 | at most `n_steps` updates and at most 150,000 weights |
# | 1 | each update uses only its own gradients, and every weight of the encoder that is trained has one |
# | 1 | the loss falls during the training (or the encoder has learned without it) |
# | 1 | the returned encoder gives the same features for the same stickers |
# | 1 | it returns the 64 features of the encoder, not the 32 of the projection |
# | 1 | the features of a sticker do not depend on the other stickers of the batch |
# | 1 | every weight that has a gradient is in the optimizer |
# | 1 | views of different stickers are at least 1.7 times as far apart as two views of one sticker (1 minus the cosine), and the loss ends below nine tenths of a guess |
# | 1 | accuracy of the probe: 0.1 above that of the pixels, which have about 0.3 (an untrained encoder has 0.24) |
# | 2 | accuracy of the probe: 0.25 above that of the pixels |

# %% exercise="16.7" difficulty="●●●" minutes=30
from course_tools.bank.lecture_16.train_simclr import train_simclr

# %% tags=["nbval-check-output"]
train_simclr = check("16.7", train_simclr)

# %% [markdown]
# The next cell trains the encoder once more, and draws its features of unseen stickers.

# %%
torch.manual_seed(0)
built = train_simclr(stickers.images.cpu(), 400)
with torch.no_grad():
    points = {f"{whose(train_simclr)} encoder": unit(built(new_stickers.images.cpu()))}
experiments.show_embeddings(points, new_stickers.kinds.cpu())

# %% [markdown]
# ## Build it: repair a run
#
# **Build task (25 minutes, 12 points).** The code below trains an encoder by SimCLR on the same stickers. It runs to the end, but
# it contains three faults; none of them raises an error. Measure before you read the code: the cell below it runs it for a few
# updates, and you can add your own measurements there. The check names the faults that it can prove; one fault may hide
# another.

# %% exercise="16.8" bug="three_faults"
from course_tools.bank.lecture_16.repair_simclr import three_faults as suspect

# %%
torch.manual_seed(0)
some = draw_stickers(2_000, 0).images
suspected = suspect(some, 20)
with torch.no_grad():
    few_features = suspected(some[:64])
spread = few_features.std(0).mean()
print(f"{tuple(few_features.shape)}, standard deviation {spread:.2f}")
# Are the two views equal? Which weights change? At which loss does it end?

# %% tags=["nbval-check-output"]
suspect = check("16.8", suspect)

# %% [markdown]
# Write a repaired version of this code, and reuse whatever is correct. The check calls `repair_simclr(images, n_steps)` as
# it called `train_simclr`, and judges the returned encoder by the table of the previous task. The function has at most 60 seconds of
# processor time.

# %% exercise="16.8" difficulty="●●○" minutes=25
from course_tools.bank.lecture_16.repair_simclr import repair_simclr

# %% tags=["nbval-check-output"]
repair_simclr = check("16.8", repair_simclr)

# %% [markdown] tags=["companion", "guard"]
# ## Papers and decks
#
# **Papers.** Chen, Kornblith, Norouzi, Hinton 2020, *SimCLR*, eq. 1, algorithm 1 (https://arxiv.org/abs/2002.05709) · Grill et
# al. 2020, *BYOL*, eq. 2, section 3.1, table 5a (https://arxiv.org/abs/2006.07733) · Chen and He 2021, *Exploring Simple
# Siamese Representation Learning* (https://arxiv.org/abs/2011.10566) · Jing, Vincent, LeCun, Tian 2022, *Understanding
# Dimensional Collapse*, section 3 (https://arxiv.org/abs/2110.09348) · van der Maaten and Hinton 2008, *Visualizing Data using
# t-SNE* (https://www.jmlr.org/papers/v9/vandermaaten08a.html).
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | GA | Self-supervised learning: SimCLR | 3 The contrastive loss NT-Xent | `course_lib.losses.nt_xent`, `course_lib.models.SimCLR`, `course_lib.datasets.Augmentation` |
# | GA | Self-supervised learning: BYOL | 6 BYOL: no negatives | `course_lib.losses.byol_loss`, `course_lib.models.BYOL`, `course_lib.models.ema_update` |

# %% tags=["ledger"]
ledger()
