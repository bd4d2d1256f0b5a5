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
# SimCLR and BYOL learn representations without labels: two augmented views of the same image should have similar embeddings.
#
# ![](diagram:simclr)
#
# You will write the augmentation, both losses, the moving average of BYOL and a linear probe, train both on unlabelled digits,
# remove each of their ingredients in turn, write SimCLR's whole training loop, and repair another one.
#
# **Prerequisites:** lecture 04 (a softmax over similarities) and the basics of convolutional networks. **Time:**
# {minutes}. {measured}

# %%
import math
from statistics import mean

from course_tools.notebook import claim, fitting, predict
from course_tools.lectures.lecture_16 import experiments

# %% [markdown]
# ## 1 Ten labels
#
# Unlabelled images are easy to collect; labels are expensive. We have five thousand handwritten digits: four thousand for
# training and a thousand for testing. Of the four thousand, *ten* are labelled, one of each class.
#
# We train a small convolutional network on those ten: three convolutions, global max pooling of their 64 maps, a linear layer.
# Random augmentation (rotation, shear, zoom, shift) gives a new version of each digit at every step.

# %% [markdown] tags=["predict"]
# **Predict.** What accuracy does a network trained on ten labelled digits reach on a thousand unseen ones? Chance is 10 %.
#
# <details><summary>A. About 10 %: ten examples contain no information.</summary>
#
# They contain some: a 1 is thin and a 0 is hollow in every handwriting.</details>
# <details><summary>B. About half.</summary>
#
# Yes: it fits its ten labels, but does not generalise well (16.a).</details>
# <details><summary>C. Nearly 100 %: digits are easy.</summary>
#
# With thousands of labels they are. With a single 4 to learn from, an open 4 and a closed 4 look like different
# classes.</details>

# %% tags=["nbval-check-output"]
SEEDS = (0, 1, 2)
digits = experiments.small_digits(SEEDS)
supervised = {1: experiments.supervised_seeds(digits, SEEDS, 1, draws=4)}
drawn = [experiments.few(digits, seed, 1, draw) for seed in SEEDS for draw in range(4)]
on_ten = [
    fitting.accuracy_of(model, digits.images[ten], digits.labels[ten])
    for model, ten in zip(supervised[1].models, drawn, strict=True)
]
on_unseen = mean(supervised[1].accuracies)
print(f"accuracy on the ten: {mean(on_ten):.2f}, on unseen digits: {on_unseen:.2f}")
claim("16.a", difference=mean(on_ten) - on_unseen)
fitting.show_losses(
    {"10 labels": supervised[1].models},
    across={"log 10, a uniform guess": math.log(10)},
)

# %% [markdown]
# ## 2 Two views of one image
#
# The other 3,990 images have no label, but we know something about each: *rotated a little, it still shows the same digit.* To
# use this, we draw two random **views** of every image by augmentation.
#
# The transformation is affine: a pixel at $r$ moves to $r' = A r + t$, where $r$ is measured in pixels from the centre, $x$ to
# the right and $y$ down. Each image has its own matrix and shift, and the whole batch is transformed at once.
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

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from course_lib.shapes import Image
from course_tools.notebook import check

# %% exercise="16.1" difficulty="●●●" minutes=15
from course_lib.datasets import warp

# %% tags=["nbval-check-output"]
warp = check("16.1", warp)


# %%
from course_tools.lectures.lecture_16.figures import (
    show_neighbours,
    show_photograph_view,
    show_views,
)
from course_tools.lectures.lecture_16.experiments import RANGES, few

images, labels, learn, unseen = digits


def view(batch, generator, ranges=RANGES):
    """Draw one view of each image of a batch, by `warp`."""
    A, t = ranges.draw_affine(len(batch), batch.shape[-2:], generator)
    return warp(batch, A.to(batch), t.to(batch)).to(batch.dtype)


show_views(images[few(digits, SEEDS[0], 2, 0)], view)

# %% [markdown]
# **Colour** can be augmented too. Changes of brightness, saturation and hue are linear in red, green and blue, so one 3 × 3
# matrix performs all three: $c' = M c$ with $M = b\, R(\mathrm{hue})\,(s I + (1 - s)\,\mathbf 1 \ell^\top)$, where $b$ and $s$
# are factors of brightness and saturation, $R$ is a rotation about the axis of greys, and $\ell$ holds the weight of each
# colour in the luminance. `colour_matrix` builds it, `recolour` applies it to a batch.
#
# Our digits are grey. For photographs, colour distortion matters most together with cropping: crops of one image have similar
# colour histograms, and a network could match them by their histograms alone (Chen et al., section 3.1 and figure 6). We
# measure this on eight images, the quarters of two photographs, with 25 crops of each: for what fraction of the crops does the
# crop with the nearest histogram come from the same image?

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_16.colour_crops import matched_by_histogram

plain, distorted = matched_by_histogram()
claim("16.colour", plain=plain)
claim("16.colour-distorted", distorted=distorted)

# %% [markdown] tags=["interactive"]
# **Explore.** Rotate, zoom and recolour a photograph. Beyond which values would *you* no longer call it the same object? A
# network is trained to be invariant to the whole range of transformations from which its views are drawn. (Photograph:
# `flower.jpg` by vultilion, [CC BY 2.0](https://creativecommons.org/licenses/by/2.0/), scaled down.)

# %% tags=["interactive"]
from course_tools.notebook import explore


def draw_views(turn=20.0, zoom=1.2, hue=40.0, saturation=1.2):
    """Show a photograph and its view: rotation in degrees, zoom factor, hue rotation in
    degrees, saturation factor."""
    show_photograph_view(warp, turn, zoom, hue, saturation)


explore(
    draw_views,
    turn=(-90.0, 90.0, 5.0),
    zoom=(0.5, 2.0, 0.1),
    hue=(0.0, 180.0, 10.0),
    saturation=(0.0, 2.0, 0.1),
)

# %% [markdown]
# ## 3 The contrastive loss NT-Xent
#
# $N$ images give $2N$ views. An **encoder** $f$ maps each view to a representation $h$, and a small **projection head**
# maps that to $z = W^{(2)}\,\mathrm{ReLU}(W^{(1)} h)$. For every view $i$ the task is a classification: which of the other
# $2N - 1$ views is the second view $j$ of the same image? The logits are cosines (sim) divided by a temperature $\tau$:
#
# $$\ell(i, j) = -\log \frac{\exp(\mathrm{sim}(z_i, z_j)/\tau)}{\sum_{k \ne i} \exp(\mathrm{sim}(z_i, z_k)/\tau)} \qquad
# L = \frac{1}{2N} \sum_{\text{pairs}} \big(\ell(i, j) + \ell(j, i)\big)$$
#
# Like the attention of lecture 04, it uses a softmax over similarities, here with the diagonal masked and with a known target.
# This is **NT-Xent**, the normalised temperature-scaled cross-entropy. The other views act as **negatives**.
#
# | name | shape |
# | --- | --- |
# | a, b | (N, d) each: row $i$ of both belongs to image $i$ |
# | similarities | (2N, 2N), the diagonal is masked |
# | loss | a number; 0 for a single pair, since there are no negatives |
#
# `unit` divides each vector by its norm. **Bug hunt.** The deck numbers the views of a pair $2k-1$ and $2k$. This
# implementation stacks all first views, then all second views, and pairs rows $2k-1$ and $2k$. It runs without an error. Decide
# what is wrong *before* you run the check.

# %%
from course_lib.losses.nt_xent import require_pairs
from course_lib.primitives import unit

# %% exercise="16.2" bug="seeks_the_partner_next_door"
from course_tools.bank.lecture_16.nt_xent import seeks_the_partner_next_door as suspect

# %% [markdown] tags=["predict"]
# **Which views does it pull together?**
#
# <details><summary>A. The two views of each image: the numbering does not matter.</summary>
#
# Print the targets for three pairs: 1, 0, 3, 2, 5, 4. Which image does row 1 belong to?</details>
# <details><summary>B. Each image with another image.</summary>
#
# Yes. `torch.cat` puts all first views before all second ones, so rows 0 and 1 are different images. Numbering and order of
# the rows must agree: interleave the views, or shift the targets by N.</details>
# <details><summary>C. Each view with itself.</summary>
#
# The diagonal is masked; that part is right.</details>

# %% tags=["nbval-check-output"]
suspect = check("16.2", suspect)

# %% exercise="16.2" difficulty="●●○" minutes=12
from course_lib.losses import nt_xent

# %% tags=["nbval-check-output"]
nt_xent = check("16.2", nt_xent)

# %% tags=["nbval-check-output"]
from course_lib.fast import lean_nt_xent

generator = torch.Generator().manual_seed(SEEDS[0])
a, b = torch.randn(2, 96, 64, generator=generator)
all_equal = nt_xent(torch.ones(96, 64), torch.ones(96, 64), 0.2)
claim("16.b", gap=abs(nt_xent(a[:1], b[:1], 0.2).item()))
claim("16.c", ratio=all_equal.item() / math.log(191))
claim("16.d", value=(nt_xent(a, b, 0.2) - lean_nt_xent(a, b, 0.2)).abs())

# %% [markdown]
# ## 4 Evaluation: the linear probe
#
# How good is an encoder that was trained without labels? Freeze it and train only a *linear* classifier on its features. With a
# squared loss this has a closed-form solution (ridge regression), so only $\lambda$ has to be chosen; we use 0.1 throughout, on
# features of unit length:
#
# $$\min_{W, b} \sum_i \lVert W x_i + b - y_i \rVert^2 + \lambda \lVert W \rVert^2$$
#
# with $y_i$ one-hot. For any $W$ the best bias, which is not penalised, is $b = \bar y - W \bar x$. Inserting it leaves a
# problem in centred features and labels:
#
# $$W^\top = (X^\top X + \lambda I)^{-1} X^\top Y \qquad X, Y \text{ centred}$$
#
# | name | shape |
# | --- | --- |
# | features, labels | (n, d), (n,); n may be smaller than d, or larger |
# | W, b | (n_classes, d), (n_classes,), as `LinearProbe(weight, bias)` |

# %%
from jaxtyping import Int

from course_lib.metrics import LinearProbe

# %% exercise="16.3" difficulty="●●○" minutes=12
from course_lib.metrics import linear_probe

# %% tags=["nbval-check-output"]
linear_probe = check("16.3", linear_probe)


# %%
from functools import partial

from course_tools.lectures.lecture_16.experiments import probe_accuracy, untrained

probe = partial(probe_accuracy, digits=digits, fit_probe=linear_probe)
numbers, encoders = (1, 4, 10), {seed: untrained(seed) for seed in SEEDS}
raw = {n: [probe(nn.Flatten(), seed=seed, n_each=n) for seed in SEEDS] for n in numbers}
random = {
    n: [probe(encoders[seed], seed=seed, n_each=n) for seed in SEEDS] for n in numbers
}
means = [f"{10 * n}: {mean(raw[n]):.2f} and {mean(random[n]):.2f}" for n in numbers]
print(
    "accuracy by labels, probes of pixels and of untrained features:", "; ".join(means)
)

# %% [markdown]
# A probe of the pixels is more accurate than a probe of the features of an untrained network. In that network, max pooling
# discards *where* the ink is; whether that is the cause was not tested. Both are baselines for the experiments below.
#
# ## 5 SimCLR on unlabelled digits
#
# We train SimCLR for 240 steps with 32 pairs in a batch, with three seeds. Then we freeze the encoder, discard the projection
# head, and evaluate the encoder with the linear probe.


# %%
from course_tools.lectures.lecture_16.experiments import fit_simclr, show_embeddings


def contrast(model, pair, temperature=0.2):
    """The loss of SimCLR, by `nt_xent`."""
    return nt_xent(*model(*pair), temperature).float()


fit = partial(fit_simclr, digits=digits, probe=probe)

# %% [markdown] tags=["predict"]
# **Predict.** We compare four classifiers that use few labels: the supervised network, trained with augmentation; and linear
# probes of SimCLR's encoder, of the pixels, and of an untrained encoder. There are one, four or ten labels of each class. Which
# classifier is best?
#
# <details><summary>A. SimCLR everywhere: it has seen four thousand digits.</summary>
#
# It has, but without any information on which differences define the classes. Labels provide this information, and with enough
# of them the supervised network reaches the same accuracy.</details>
# <details><summary>B. The supervised network everywhere: it is trained for the task itself.</summary>
#
# Ten labels are too few to train a whole network. The probe trains only one linear layer.</details>
# <details><summary>C. SimCLR with the fewest labels; with the most, the supervised network has about caught up.</summary>
#
# Yes, of these four; the next experiment adds a stronger rival. From four labels of each class on, the curves nearly coincide.
# From where on they do depends on the task; here both use the same augmentations.</details>

# %%
from course_tools.notebook.training_curve import show_recorded_losses

contrasted = [fit(f"seed {seed}", seed, view=view, loss=contrast) for seed in SEEDS]
of_seeds = list(zip(SEEDS, contrasted, strict=True))
probed = {
    n: [probe(run.model.encoder, seed=seed, n_each=n) for seed, run in of_seeds]
    for n in numbers
}
supervised |= {n: experiments.supervised_seeds(digits, SEEDS, n) for n in (4, 10)}
by_labels = {n: trained.accuracies for n, trained in supervised.items()}
uniform_guess = {"log 63, a uniform guess": math.log(63)}
losses = {"SimCLR": [run.losses for run in contrasted]}
show_recorded_losses(losses, "NT-Xent, 32 pairs", uniform_guess)
fitting.show_losses({f"{10 * n} labels": supervised[n].models for n in numbers})
experiments.show_accuracy_by_labels(
    {
        "SimCLR, probed": probed,
        "supervised, augmented": by_labels,
        "pixels, probed": raw,
        "untrained, probed": random,
    }
)

# %% tags=["nbval-check-output"]
from course_tools.notebook.seed_scores import paired_differences, show_seeds

lead = {n: paired_differences(probed[n], by_labels[n]) for n in probed}
claim("16.e", average=mean(lead[1]))
claim("16.f", difference=mean(lead[1]) - mean(lead[10]))
claim("16.g", least=min(paired_differences(probed[4], raw[4])))
claim("16.h", least=min(paired_differences(probed[4], random[4])))

# %% [markdown] tags=["predict"]
# **A rival that uses the unlabelled digits, too.** So far, only SimCLR has seen the unlabelled digits. **Pseudo-labels** (here
# a simple form of FixMatch, Sohn et al. 2020) let a supervised network learn from them as well. We train the network of the
# forty labels for 240 more updates, and that of ten. Each update has all labelled digits and, as in SimCLR, two views of 32
# unlabelled ones. The network predicts the class of the first view; where its probability is at least 0.9, this class serves as
# the label of the second view.
#
# **Predict.** Which is most accurate on unseen digits, with the same forty labels?
#
# <details><summary>A. SimCLR's probe: a network that learns from its own predictions confirms its errors.</summary>
#
# It confirms some. But where the network is sure, it is right far more often than elsewhere (see the printed
# fractions).</details>
# <details><summary>B. The network with pseudo-labels.</summary>
#
# Yes, with every seed (16.pseudo). It learns the same invariance as SimCLR, that two views show the same digit, but by the
# classes that the labels define. And it trains all its weights for the task; the probe trains one linear layer. With ten labels
# it leads with all three seeds in the last two columns of the figure; with the same seeds on two processors, of which the
# figure shows one, it led in five of six trainings.</details>
# <details><summary>C. The supervised network without pseudo-labels: they contain no new information.</summary>
#
# They do: *another view of an unlabelled digit has the same class* is information that the forty labels do not
# contain.</details>

# %%
from copy import deepcopy

from course_lib.training import batches
from course_tools.lectures.lecture_16.experiments import two_views

generator = torch.Generator().manual_seed(SEEDS[0])


def with_pseudo_labels(model, batch):
    """Cross-entropy on labelled digits, plus that on second views whose first view
    has a class with a probability of at least 0.9."""
    (first, second), (known, kinds) = batch
    with torch.no_grad():
        sure, guess = model(first).softmax(-1).max(-1)
    logits = model(torch.cat([view(known, generator), second]))
    losses = F.cross_entropy(logits, torch.cat([kinds, guess]), reduction="none")
    of_labels, of_guesses = losses.split([len(kinds), len(guess)])
    return of_labels.mean() + (of_guesses * (sure >= 0.9)).mean()


pseudo = {4: [], 1: []}
for n, trained_on in pseudo.items():
    generator.manual_seed(SEEDS[0])
    first = supervised[n].models[:: len(supervised[n].models) // len(SEEDS)]  # draw 0
    for seed, model in zip(SEEDS, first, strict=True):
        chosen = few(digits, seed, n, draw=0)
        with torch.no_grad():
            odds = model(images[learn[seed]]).softmax(-1)
        right, sure = odds.argmax(-1) == labels[learn[seed]], odds.amax(-1) >= 0.9
        for name, which in (("sure", sure), ("unsure", ~sure)):
            share = right[which].float().mean().item()
            print(f"{10 * n} labels, right where {name}: {share:.2f}")
        labelled = batches(images[chosen], labels[chosen], batch_size=40, seed=seed)
        both = zip(two_views(digits, seed, view), labelled, strict=True)
        schedule = {"steps": 240, "lr": 3e-3, "label": f"{10 * n} labels, seed {seed}"}
        further = fitting.fitted(deepcopy(model), both, with_pseudo_labels, **schedule)
        trained_on.append(further)
fitting.show_losses(
    {f"{10 * n} labels": models for n, models in pseudo.items()},
    "sum of both losses, nats",
)
of_pseudo = {
    n: [
        experiments.on_unseen(model, digits, seed)
        for seed, model in zip(SEEDS, models, strict=True)
    ]
    for n, models in pseudo.items()
}
of_probe = {
    n: [
        probe(run.model.encoder, seed=seed, n_each=n, draws=1) for seed, run in of_seeds
    ]
    for n in pseudo
}
same_labels = {
    "SimCLR, probed": of_probe[4],
    "supervised": by_labels[4],
    "supervised, as many updates": [
        experiments.on_unseen(
            experiments.supervised(digits, seed, 4, 0, steps=150 + 240), digits, seed
        )
        for seed in SEEDS
    ],
    "with pseudo-labels": of_pseudo[4],
    "SimCLR, ten labels": of_probe[1],
    "pseudo-labels, ten labels": of_pseudo[1],
}
title = "the same forty labels; ten in the last two columns"
show_seeds(same_labels, title=title, across={"chance": 0.1})

# %% tags=["nbval-check-output"]
least = min(
    paired_differences(same_labels["with pseudo-labels"], same_labels["SimCLR, probed"])
)
claim("16.pseudo", least=least)
least = min(
    paired_differences(
        same_labels["with pseudo-labels"], same_labels["supervised, as many updates"]
    )
)
claim("16.pseudo-alone", least=least)

# %% [markdown] tags=["predict"]
# ## 6 The embeddings during training
#
# Each point below is an unseen digit, shown as the numeral of its class, at three moments of training (one seed). The encoder
# has never seen a label. **t-SNE** arranges the embeddings in the plane so that digits with similar embeddings are close
# together. The distances between groups and their sizes have no meaning.
#
# **Predict.** For how many digits does the *nearest* other embedding, in all 64 dimensions, belong to the same class: before
# training (in fact after the first update), and after?
#
# <details><summary>A. 10 % before, nearly all after.</summary>
#
# The first part is wrong: an untrained network already maps similar images to similar vectors.</details>
# <details><summary>B. More than half before, nearly all after.</summary>
#
# Yes. But nearest neighbours among the *pixels* agree about as often as after training (16.i-pixels): this measure does not
# show what training adds; the probe with few labels does (16.g).</details>
# <details><summary>C. The same before and after: there are no classes without labels.</summary>
#
# No label defines the classes. But an augmented 4 can look like another 4, and rarely like a 0.</details>


# %%
from course_tools.lectures.lecture_16.experiments import nearest_neighbour_accuracy

kinds = labels[unseen[SEEDS[0]]].cpu()
snapshots = {f"step {step}": contrasted[0].seen[step].points for step in (1, 30, 240)}
show_embeddings(snapshots, kinds)

# %% tags=["nbval-check-output"]
agree = {
    name: nearest_neighbour_accuracy(-points @ points.mT, kinds)
    for name, points in snapshots.items()
}
claim("16.i", difference=agree["step 240"] - agree["step 1"])


def agreement(points, seed):
    """How often nearest neighbours among unseen digits of a seed agree in class."""
    return nearest_neighbour_accuracy(-points @ points.mT, labels[unseen[seed]].cpu())


of_pixels = [
    agreement(unit(images[unseen[seed]].flatten(1)).cpu(), seed) for seed in SEEDS
]
trained = [agreement(run.seen[240].points, seed) for seed, run in of_seeds]
claim("16.i-pixels", difference=mean(of_pixels) - mean(trained))

# %% [markdown] tags=["try-it"]
# **Try it.** Choose an unseen digit by its number, 0 to 999. The figure shows the five digits with the nearest embeddings. Find
# a digit whose neighbours have another class. Would you confuse them too?

# %% tags=["try-it"]
show_neighbours(7, snapshots["step 240"], images[unseen[SEEDS[0]]], kinds)

# %% [markdown] tags=["predict"]
# ## 7 Ablations: augmentation, temperature, head
#
# **Predict.** What is the accuracy of the probe (a) without augmentation; (b) with τ = 5 instead of 0.2; (c) on $z$ after the
# projection head instead of $h$ before it?
#
# <details><summary>A. Without augmentation nothing changes: the loss still has negatives.</summary>
#
# Both views are then the same image, and any feature that distinguishes images solves the task. No invariance is
# learned.</details>
# <details><summary>B. τ = 5 makes the task easier and the probe better.</summary>
#
# All cosines lie in [-1, 1]; divided by 5 they differ by at most 0.4. All negatives then have nearly equal weight in the
# gradient, whereas a low temperature concentrates it on the hard ones.</details>
# <details><summary>C. (a) and (b) are clearly worse; (c) differs little here.</summary>
#
# Yes. Chen et al. (section 4.2) find $h$ more than 10 points better than $z$ on ImageNet. Their explanation: the contrastive
# loss removes information from $z$ about what the augmentation changes. For our digits, the cell below prints the
# differences by seed: at most about 0.03, mostly in favour of $h$.</details>

# %%
from course_lib.datasets import Augmentation

heads = [nn.Sequential(run.model.encoder, run.model.project) for run in contrasted]
after_head = {
    n: [
        probe(head, seed=seed, n_each=n)
        for seed, head in zip(SEEDS, heads, strict=True)
    ]
    for n in (1, 4)
}
without = {
    "no augmentation": fit(
        "no augmentation",
        SEEDS[0],
        view=partial(view, ranges=Augmentation()),
        loss=contrast,
    ),
    "τ = 5": fit("τ = 5", SEEDS[0], view=view, loss=partial(contrast, temperature=5.0)),
}
of_variants = {"SimCLR, τ = 0.2": contrasted[0]} | without
losses = {name: [run.losses] for name, run in of_variants.items()}
show_recorded_losses(losses, "NT-Xent, 32 pairs", uniform_guess)
ablated = {name: run.seen[240].accuracy for name, run in without.items()}
one_seed = {name: [accuracy] for name, accuracy in ablated.items()}
groups = {"SimCLR, h": probed[4]} | one_seed | {"SimCLR, z": after_head[4]}
show_seeds(groups, "probe accuracy, 40 labels", across={"chance": 0.1})

# %% tags=["nbval-check-output"]
claim("16.j", difference=probed[4][0] - ablated["no augmentation"])
claim("16.k", difference=probed[4][0] - ablated["τ = 5"])
for n_each in (1, 4):
    leads = paired_differences(probed[n_each], after_head[n_each])
    print(
        f"{10 * n_each} labels: accuracy of the probe of h minus that of z, by seed:",
        ", ".join(f"{lead:+.3f}" for lead in leads),
    )

# %% [markdown]
# ## 8 BYOL: no negatives
#
# In SimCLR, negatives keep the encoder from mapping all images to the same vector. **BYOL** has no negatives. An *online*
# network (encoder, projector) computes $z$ from one view, a *target* network of the same architecture $z'$ from the other. A
# **predictor** $q$ on the online side predicts $z'$ from $z$ (as in the paper, in both directions):
#
# $$L = \lVert \overline{q(z)} - \overline{z'} \rVert^2 = 2 - 2 \cos(q(z), z')$$
#
# The bar denotes normalisation to unit length. **No gradient** flows into $z'$; this is the *stop-gradient*.
#
# | name | shape |
# | --- | --- |
# | prediction, target | (B, d), each row of both from the same image |
# | loss | a number from 0 to 4, the mean over rows |
#
# ![](diagram:byol)

# %%
from collections.abc import Sequence

# %% exercise="16.4" difficulty="●○○" minutes=6
from course_lib.losses import byol_loss

# %% tags=["nbval-check-output"]
byol_loss = check("16.4", byol_loss)

# %% [markdown]
# The target network is not trained by gradients. After every update its weights move a little towards those of the online one:
#
# $$\xi \leftarrow \tau\, \xi + (1 - \tau)\, \theta$$
#
# with $\tau$ near 1 (not the temperature of section 3; both papers use the letter). The target is an exponential moving average
# of the online network: it varies more slowly than the online network, so the prediction target is more stable.
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
# The library's `BYOL.update` does this in place, with one call of `torch._foreach_lerp_` for all tensors. The next cell
# compares it with your `ema_update`, and tests that the loss gives the target's weights no gradient. The BYOL runs of the next
# cells use your `ema_update` and your `byol_loss` (or the library's, where yours did not pass), except the run without
# stop-gradient: it computes the same formula from one network, with a gradient on both sides.

# %% tags=["nbval-check-output"]
from course_tools.lectures.lecture_16.experiments import (
    fit_byol,
    gap_to_byol_update,
    show_byol_losses,
    show_spectra,
    target_gradients,
    without_stop_gradient,
)


def bootstrap(model, pair):
    """The loss of BYOL, by `byol_loss`."""
    return byol_loss(*model(*pair))


claim("16.m", gap=gap_to_byol_update(ema_update))
measured = target_gradients(bootstrap, next(two_views(digits, SEEDS[0], view)))
claim("16.n", measured=measured)

# %% [markdown] tags=["predict"]
# **Predict.** The loss has a trivial minimum: the same vector for every image gives loss 0. We train four variants, with one
# seed each: BYOL; BYOL without its predictor; BYOL with one network on both sides, so without moving average, and also without
# stop-gradient; and, as a control, one network on both sides *with* a stop-gradient (as in SimSiam). Which has the *lowest
# loss*?
#
# <details><summary>A. BYOL: it learns the best representation.</summary>
#
# Its loss is far above the lowest.</details>
# <details><summary>B. The one without moving average and stop-gradient.</summary>
#
# Yes. With a gradient on both sides, the network can lower the loss by making all outputs equal. When the target is trained
# too, a lower loss does not mean a better model.</details>
# <details><summary>C. All four are equal: the loss is the same formula.</summary>
#
# The formula is the same, but the targets differ.</details>


# %%
def copied(target, online, decay):
    """Make the target equal to the online network: no moving average."""
    return ema_update(target, online, 0.0)


fit = partial(
    fit_byol,
    seed=SEEDS[0],
    digits=digits,
    view=view,
    probe=probe,
    ema_update=ema_update,
)
byol = {
    "BYOL": fit("BYOL", loss=bootstrap),
    "no predictor": fit("no predictor", loss=bootstrap, predictor=nn.Identity()),
    "no stop-gradient": fit("no stop-gradient", loss=without_stop_gradient),
    "no moving average": fit("no moving average", loss=bootstrap, ema_update=copied),
}
show_byol_losses(byol)

# %% [markdown]
# ## 9 Collapse and the spectrum of embeddings
#
# The loss does not show whether the two views agree for a useful or a trivial reason. The embeddings do. Normalise $n$ of them
# to unit length, subtract their mean, and compute the standard deviation along each principal axis. This is the **spectrum**:
# the singular values divided by $\sqrt n$.
#
# | embeddings | spectrum |
# | --- | --- |
# | all point in the same direction (complete collapse) | all 0 |
# | span a few directions (dimensional collapse) | a few values, then 0 |
# | spread over the whole sphere | flat; the squares sum to 1 |

# %% exercise="16.6" difficulty="●●○" minutes=6
from course_lib.metrics import spectrum

# %% tags=["nbval-check-output"]
spectrum = check("16.6", spectrum)

# %%
projections = {name: run.seen[240].points for name, run in byol.items()}
with torch.no_grad():
    projections["SimCLR"] = heads[0](images[unseen[SEEDS[0]]]).cpu()
spread = show_spectra(projections, spectrum)
accuracies = [f"{name} {run.seen[240].accuracy:.2f}" for name, run in byol.items()]
print(
    "encoder, probe with 40 labels:", ", ".join(accuracies), f"pixels {raw[4][0]:.2f}"
)

# %% tags=["nbval-check-output"]
claim("16.o", spread=spread["BYOL"])
claim("16.p", ratio=spread["BYOL"] / spread["no predictor"])
claim("16.q", ratio=spread["BYOL"] / spread["no stop-gradient"])
claim("16.q-copied", spread=spread["no moving average"])
difference = byol["no moving average"].seen[240].accuracy - random[4][0]
claim("16.q-probe", difference=difference)
claim("16.r", ratio=byol["BYOL"].losses[-1] / byol["no stop-gradient"].losses[-1])

# %% [markdown]
# Two of the runs have one network on both sides and differ in the stop-gradient alone: without it the projections collapse
# completely; with it they do not (16.q-copied), although nearly all of their spread lies along three axes (figure), and the
# encoder learns (16.q-probe). So against complete collapse within 240 updates, one network on both sides needs the
# stop-gradient and not the moving average (one seed). On ImageNet, without the moving average, Grill et al. (table 5a) report
# an accuracy of 0.3 %, Chen and He 2021 (SimSiam) a good encoder. But the stop-gradient does not suffice: without the predictor
# the projections nearly collapse (16.p). The moving average may still help: with this one seed, the printed probe of *no moving
# average* is below that of *BYOL*, and below the pixels.
#
# Note *which layer* collapses: the **projections**, on which the loss is computed. The features of the **encoder**, before the
# projector, are affected less. After 240 updates, with this one seed, the probes of all encoders are still more accurate than
# that of an untrained encoder (printed in section 4); the lead is smallest without the stop-gradient. The recorded study below
# shows what happens to the features in a longer training. (Its runs without stop-gradient have no moving average either.)

# %% [markdown] tags=["predict"]
# **Predict.** BYOL and SimCLR are trained with the same encoder on the same batches of digits; the probe has forty labels.
# How does BYOL compare with SimCLR and with the pixels?
#
# <details><summary>A. It equals SimCLR from the start.</summary>
#
# Not from the start: see the curves at 120 and 240 steps.</details>
# <details><summary>B. It learns more slowly, becomes better than the pixels, and remains below SimCLR.</summary>
#
# Yes, at these settings: the learning rates differ (0.003 for SimCLR, 0.005 for BYOL), and neither they nor BYOL's decay of
# 0.95 were tuned. One possible cause, not tested here: SimCLR's targets are fixed from the first step, whereas BYOL's targets
# are outputs of a random network at first, and improve only as fast as the online network does. How close it comes to SimCLR in
# 1,000 steps varies a lot between seeds. When trained three times as long, it comes close with all three seeds
# (16.long, 16.long-byol).</details>
# <details><summary>C. It never becomes better than the pixels: without negatives there is nothing to learn.</summary>
#
# After 120 steps one might think so. That is a matter of training time, as the rest of the curve shows.</details>

# %%
from course_tools.notebook import recorded
from course_tools.lectures.lecture_16.experiments import show_probe_curves
from course_tools.notebook.study_scores import print_scores

study = recorded("16_byol_and_batches")
at_240 = [name for name in study.names if "240 steps" in name]
longer = {name: study.curve(name) for name in study.names if name not in at_240}
live = {
    name: ([*run.seen], [look.accuracy for look in run.seen.values()])
    for name, run in {"SimCLR": contrasted[0], "BYOL": byol["BYOL"]}.items()
}
of_pixels = mean(value for name in longer for value in study.scores(name, "pixels"))
ticks = (1, 30, 120, 480, 1_000, 3_000)
show_probe_curves(live, raw[4][0], (1, 15, 30, 60, 120, 240), "this run")
show_probe_curves(longer, of_pixels, ticks, "recorded, mean of three seeds")
scores = ("probe", "spread of projections", "spread of features")
print_scores(study, *scores, decimals=3)

# %% tags=["nbval-check-output"]
byol_probe = study.scores("BYOL", "probe")
claim("16.s", least=min(paired_differences(byol_probe, study.scores("BYOL", "pixels"))))
claim("16.t", least=min(run.curve[1_000] - run.curve[240] for run in study.of("BYOL")))
simclr_leads = paired_differences(
    study.scores("SimCLR, three times as long", "probe"),
    study.scores("BYOL, three times as long", "probe"),
)
claim("16.long", largest=max(simclr_leads))
claim("16.long-byol", least=min(study.scores("BYOL, three times as long", "probe")))
least = min(paired_differences(byol_probe, study.scores("no stop-gradient", "probe")))
claim("16.v", least=least)
claim("16.u", difference=byol["BYOL"].seen[240].accuracy - random[4][0])

# %% [markdown] tags=["predict"]
# **Predict.** SimCLR's negatives come from the batch. We compare 32 with 96 pairs in a batch at an equal number of *updates*
# (at an equal number of images, the larger batch would have a third of the updates). How good is the probe with 32 pairs?
#
# <details><summary>A. SimCLR fails: it needs thousands of negatives.</summary>
#
# On ImageNet larger batches help (Chen et al., figure 9). Here, 62 negatives for each view suffice to beat the
# pixels.</details>
# <details><summary>B. It is better than the pixels; with 96 pairs it is a few points better still.</summary>
#
# Yes. The next cell prints the accuracies with 32 and with 96 pairs, for each recorded seed. The gain need not come from
# additional negatives: 96 pairs also see three times as many images. After about as many images, 700 of the 1,000 updates of 32
# pairs in the recorded SimCLR runs, the probe is about as good (16.GA-images).</details>
# <details><summary>C. It is better than with 96 pairs: the gradient is noisier.</summary>
#
# Compare the two printed accuracies.</details>

# %% tags=["nbval-check-output"]
by_size = {n: study.scores(f"SimCLR, {n} pairs, 240 steps", "probe") for n in (32, 96)}
print("recorded, probe by seed:", by_size)
pixels_there = study.scores("SimCLR, 32 pairs, 240 steps", "pixels")
claim("16.GA", least=min(paired_differences(by_size[32], pixels_there)))
as_many_images = [run.curve[700] for run in study.of("SimCLR")]
claim("16.GA-images", difference=mean(by_size[96]) - mean(as_many_images))

# %% [markdown]
# ## 10 More than one device
#
# On photographs, batches of thousands are usual, and a single device cannot hold them. `gathered_nt_xent` distributes one batch
# over several processes: each encodes its own pairs, the *projections* of all are gathered, and each view has the views of all
# processes as negatives. The gradients are sent back in the same way, since a view is also a negative for the views of other
# processes. A test compares the loss and gradients of two processes with those of one process on the joint batch. Start it with
# PyTorch's launcher:
#
# `torchrun --nproc-per-node 2 examples/simclr_on_several_devices.py`
#
# `docs/several_devices.md` lists other points to consider.

# %% [markdown]
# ## 11 Build it
#
# **Build task (30 minutes, 12 points).** Write all of SimCLR, starting from an empty cell: the views, the encoder, the
# projection head, NT-Xent, and the training loop, which no cell above shows. You may use your `warp`, your `nt_xent`, and
# `view(batch, generator)` of section 2. The library's `SimCLR` and `nt_xent` are not allowed: if your 16.2 did not pass, the
# name `nt_xent` refers to the library's function; then write the loss here.
#
# The check calls `train_simclr(images, n_steps)` once, with 2,000 unlabelled digits and `n_steps=240`. Then it trains linear
# probes of the returned encoder on other digits, with four labels of each class, and averages their accuracies over eight draws
# of the labelled digits. The function has at most 60 seconds of processor time; a good solution needs about six seconds.
#
# | points | what is judged |
# | --- | --- |
# | 1 | the encoder maps images (B, 1, 14, 14) to features (B, n) |
# | 1 | at most `n_steps` updates and at most 150,000 weights |
# | 1 | each update uses only its own gradients, and every weight of the encoder that is trained has one |
# | 1 | the loss falls during the training (or the encoder has learned without it) |
# | 1 | the returned encoder gives the same features for the same digits |
# | 1 | it returns the 64 features of the encoder, not the 32 of the projection |
# | 1 | the features of a digit do not depend on the other digits of the batch |
# | 1 | every weight that has a gradient is in the optimizer |
# | 1 | views of different digits are at least twice as far apart as two views of one digit (1 minus the cosine) |
# | 1 | accuracy of the probe: 0.2 above that of an untrained encoder, which has 0.42 |
# | 2 | accuracy of the probe: 0.02 above that of the pixels, which have about 0.65 |

# %% exercise="16.7" difficulty="●●●" minutes=30
from course_tools.bank.lecture_16.train_simclr import train_simclr

# %% tags=["nbval-check-output"]
train_simclr = check("16.7", train_simclr)

# %% [markdown]
# The next cell trains the encoder once more, on the digits of section 5, and draws its loss and its embeddings of unseen
# digits. The encoder of section 5 was trained on the same 4,000 digits for the same number of updates.

# %%
from course_tools.notebook.authorship import whose
from course_tools.notebook.training_curve import trained_with_losses

torch.manual_seed(SEEDS[0])
known, name = images[learn[SEEDS[0]]].cpu(), f"{whose(train_simclr)} encoder"
built = trained_with_losses(lambda: train_simclr(known, 240), name, "NT-Xent")


def features_of(batch):
    """The features of this encoder, computed on the CPU."""
    return built(batch.cpu()).to(batch.device)


with torch.no_grad():
    points = unit(features_of(images[unseen[SEEDS[0]]])).cpu()
show_embeddings({name: points}, kinds)
print(
    f"probe with 40 labels: {name} {probe(features_of, seed=SEEDS[0], n_each=4):.2f}, "
    f"section 5 {probed[4][0]:.2f}, pixels {raw[4][0]:.2f}, an untrained encoder "
    f"{random[4][0]:.2f}"
)

# %% [markdown]
# ## 12 Build it: repair a run
#
# **Build task (25 minutes, 12 points).** The code below trains an encoder by SimCLR on the same digits. It runs to the end, but
# it contains three faults; none of them raises an error. Measure before you read the code: the cell below it runs it for a few
# updates, and you can add your own measurements there. The check names the faults that it can prove; one fault may hide
# another.

# %% exercise="16.8" bug="three_faults"
from course_tools.bank.lecture_16.repair_simclr import three_faults as suspect

# %%
torch.manual_seed(SEEDS[0])
suspected = suspect(known, 20)
with torch.no_grad():
    features = suspected(images[:64].cpu())
print(f"{tuple(features.shape)}, standard deviation {features.std(0).mean():.2f}")
# Are the two views equal? Which weights change? At which loss does it end?

# %% tags=["nbval-check-output"]
suspect = check("16.8", suspect)

# %% [markdown]
# Write a repaired version of this code, and reuse whatever is correct. The check calls `repair_simclr(images, n_steps)` as
# it called `train_simclr`, and judges the returned encoder by the table of section 11. The function has at most 60 seconds of
# processor time.

# %% exercise="16.8" difficulty="●●○" minutes=25
from course_tools.bank.lecture_16.repair_simclr import repair_simclr

# %% tags=["nbval-check-output"]
repair_simclr = check("16.8", repair_simclr)

# %% [markdown] tags=["quiz"]
# ## 13 Exit quiz
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
# <details><summary>A. All embeddings are equal, or nearly so.</summary>
#
# Right, if the pairs and the temperature are right: this is a uniform guess among $2N - 1$ views. Wrong pairs give the same
# value, and a high temperature nearly the same, so check both first. Here the loss itself reveals the collapse, unlike
# BYOL's.</details>
# <details><summary>B. It has converged.</summary>
#
# A trained model has a much lower loss.</details>
# <details><summary>C. The batch is too small.</summary>
#
# The value depends on N, but a small batch does not keep the loss from falling.</details>
#
# **Question 3.** Someone evaluates an encoder by training a deep network on top of it. What is wrong with this evaluation?
#
# <details><summary>A. Nothing: higher accuracy is better.</summary>
#
# A deep network could learn from the pixels alone. The result would then measure that network and not the encoder.</details>
# <details><summary>B. It does not separate the encoder's contribution from that of the network.</summary>
#
# Right. A linear probe can only use what is linearly separable in the features.</details>
# <details><summary>C. It needs too many labels.</summary>
#
# It does need more labels, but even with enough of them it would measure the wrong thing.</details>

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
# | 1 | asks for several seeds, or for the supervised network with the same labels and augmentation |
# | 1 | is clear and short |
#
# </details>

# %% [markdown] tags=["companion"]
# ## 14 Summary and sources
#
# **Where the deck and the code differ**, each with a measurement:
#
# - *GA* numbers the views of a pair $2k-1$ and $2k$. That is right for interleaved views. For stacked views, as `torch.cat`
#   produces them, it is an error that raises no exception: the loss of identical views is then near or above that of a uniform
#   guess (16.GA-order).
# - *GA*: "strong computational and memory footprint". This is the footprint of the encoder; the loss itself, with its
#   $2N \times 2N$ matrix, needs a small fraction of the encoder's memory for 96 pairs (16.GA-memory); the matrix of 4,096
#   pairs takes 268 MB.
#
# **Remarks.** *GA*: SimCLR "requires the use of large mini-batches, so that enough negatives are used". Chen et al. measure
# this on ImageNet. On our digits, 32 pairs already give a better probe than the pixels do (16.GA); section 9 shows what 96
# pairs add at an equal number of updates, and that as many images in batches of 32 add about as much (16.GA-images). *GA* calls
# BYOL "a convincing alternative". Here its probe is better than that of the pixels after 1,000 steps (16.s) and close to
# SimCLR's after 3,000 (16.long): at these settings, which were not tuned, it needs more steps.
#
# **What this lecture does not show.** Digits are easy and grey: with augmentation, a supervised network is about as accurate as
# SimCLR's probe from forty labels on (0.82 and 0.83); there it is trained on one draw of the labels for each seed, whereas the
# probes average four. With pseudo-labels it is more accurate than the probe (16.pseudo) and than with as many updates on the
# labels alone (16.pseudo-alone), here with forty labels; with ten, it led the probe in five of six trainings (three seeds on
# each of two processors, one of them shown here). We did not fine-tune SimCLR's encoder on the labels, as the paper does; on
# ImageNet with 1 % of the labels, it leads supervised training by a wide margin after fine-tuning. On photographs colour
# distortion matters: section 2 shows why, but no network is trained on colour images here. How BYOL avoids collapse is not
# fully understood; in our runs with one network on both sides the projections collapsed completely without the stop-gradient
# and not with it (16.q, 16.q-copied), where nearly all of their spread was along three axes; without the predictor they nearly
# collapsed (16.p).
#
# **Papers.** Chen, Kornblith, Norouzi, Hinton 2020, *SimCLR*, eq. 1, algorithm 1 (https://arxiv.org/abs/2002.05709) · Grill et
# al. 2020, *BYOL*, eq. 2, section 3.1, table 5a (https://arxiv.org/abs/2006.07733) · Chen and He 2021, *Exploring Simple
# Siamese Representation Learning* (https://arxiv.org/abs/2011.10566) · Jing, Vincent, LeCun, Tian 2022, *Understanding
# Dimensional Collapse*, section 3 (https://arxiv.org/abs/2110.09348) · van der Maaten and Hinton 2008, *Visualizing Data using
# t-SNE* (https://www.jmlr.org/papers/v9/vandermaaten08a.html).
#
# The site compares the numbers of these papers with ours ([docs/evidence.md](../docs/evidence.md)).
#
# | Deck | Section of the deck | Here | Library |
# | --- | --- | --- | --- |
# | GA | Self-supervised learning: SimCLR | 3 The contrastive loss NT-Xent | `course_lib.losses.nt_xent`, `course_lib.models.SimCLR`, `course_lib.datasets.Augmentation` |
# | GA | Self-supervised learning: BYOL | 8 BYOL: no negatives | `course_lib.losses.byol_loss`, `course_lib.models.BYOL`, `course_lib.models.ema_update` |


# %%
from course_tools.notebook import peak_memory
from course_tools.lectures.lecture_16.experiments import nt_xent_of_adjacent_rows


encoder, batch = experiments.backbone(), images[:192].cpu()
z = torch.randn(2, 96, 64, requires_grad=True)
of_the_loss = peak_memory(lambda: nt_xent(*z, 0.2).float().backward())
of_the_encoder = peak_memory(lambda: encoder(batch).square().mean().backward())
same = torch.randn(96, 64, generator=torch.Generator().manual_seed(SEEDS[0]))

# %% tags=["nbval-check-output"]
claim("16.GA-memory", ratio=of_the_loss / of_the_encoder)
claim("16.GA-order", ratio=nt_xent_of_adjacent_rows(same, same, 0.2) / math.log(191))

# %% tags=["ledger"]
from course_tools.notebook import ledger

ledger()
